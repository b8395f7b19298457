"""`trajectory`: the tools that an agent called on its way, and in which order."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from ci_evals.graders.base import GraderOptions
from ci_evals.graders.calls import ExpectedCall, describe, differences, fits, pair_in_any_order, pair_in_order
from ci_evals.graders.findings import fails, holds
from ci_evals.graders.quoting import clip
from ci_evals.model import Answer, Finding
from ci_evals.response import ToolCall

_MAX_NAMED = 10
_MAX_COMPARED = 2_000
"""Calls of a trajectory that are compared: pairing takes quadratic time."""

Match = Literal["exact", "in_order", "any_order", "subset", "superset"]


class Trajectory(GraderOptions, frozen=True):
    """The agent called these tools.

    Args:
        calls: names of tools, or mappings of `name` and `arguments`.
        match: `exact`: these calls in this order and no other; `in_order`: these in this order, others may stand
            between them; `any_order`: these and no other, in any order; `subset`: none but these; `superset`: these at
            least, in any order.
        ignore_extra_args: a call may have more arguments than expected.
    """

    short: ClassVar[str] = "calls"

    calls: tuple[str | ExpectedCall, ...]
    match: Match = "in_order"
    ignore_extra_args: bool = False

    def problems(self) -> list[str]:
        if not self.calls and self.match in ("in_order", "superset"):
            return [f"no calls are expected and all are allowed by `match: {self.match}`: this would always pass"]
        return []

    def grade(self, answer: Answer) -> Finding:
        actual = answer.response.calls_made
        if len(actual) > _MAX_COMPARED:
            return fails(f"made {len(actual):,} tool calls, more than the {_MAX_COMPARED:,} that are compared")
        expected = [_expected(call) for call in self.calls]
        paired = self._pair(expected, actual)
        unmet = [at for at in range(len(expected)) if at not in paired]
        extra = [at for at in range(len(actual)) if at not in set(paired.values())]
        sides = _Sides(expected, actual, paired)
        reason, score = self._judge(sides, unmet, extra)
        return holds(f"called {_names(actual)}") if reason is None else fails(reason, score)

    def _pair(self, expected: Sequence[ExpectedCall], actual: Sequence[ToolCall]) -> Mapping[int, int]:
        """Expected to actual call."""
        if self.match == "exact":
            both = enumerate(zip(expected, actual, strict=False))
            return {at: at for at, (want, call) in both if self._fits(want, call)}
        fitting = [[at for at, call in enumerate(actual) if self._fits(want, call)] for want in expected]
        return pair_in_order(fitting) if self.match == "in_order" else pair_in_any_order(fitting)

    def _fits(self, expected: ExpectedCall, actual: ToolCall) -> bool:
        return fits(expected, actual, ignore_extra_args=self.ignore_extra_args)

    def _judge(self, sides: "_Sides", unmet: Sequence[int], extra: Sequence[int]) -> tuple[str | None, float]:
        """Where the trajectories part, or None; and the share of calls that are as expected."""
        expected, actual, paired = sides
        match self.match:
            case "subset":
                return self._unexpected(sides, extra), len(paired) / max(1, len(actual))
            case "in_order" | "superset":
                return self._missing(sides, unmet, extra), len(paired) / max(1, len(expected))
            case "any_order":
                reason = self._missing(sides, unmet, extra) or self._unexpected(sides, extra)
            case "exact":
                reason = self._parting(sides)
        return reason, len(paired) / max(1, len(expected), len(actual))

    def _parting(self, sides: "_Sides") -> str | None:
        """The first place where one trajectory is not the other."""
        expected, actual, paired = sides
        for at, (want, call) in enumerate(zip(expected, actual, strict=False)):
            if at not in paired:
                if want.name == call.name:
                    return f"parts at call {at + 1}: {self._difference(want, call)}"
                return f"parts at call {at + 1}: expected {describe(want)}, got {describe(call)}; {sides}"
        if len(actual) < len(expected):
            return f"stops after {_count(actual)}: expected {describe(expected[len(actual)])} next; {sides}"
        if len(actual) > len(expected):
            return f"goes on after {_count(expected)} with {describe(actual[len(expected)])}; {sides}"
        return None

    def _missing(self, sides: "_Sides", unmet: Sequence[int], extra: Sequence[int]) -> str | None:
        if not unmet:
            return None
        want = sides.expected[unmet[0]]
        after = sides.place_before(unmet[0]) if self.match == "in_order" else ""
        namesakes = [at for at in extra if sides.actual[at].name == want.name]
        if namesakes and self.match == "in_order":
            later = [at for at in namesakes if self._fits(want, sides.actual[at])]
            if later:
                return f"{describe(want)} was call {later[0] + 1}, but is expected{after}; {sides}"
        if namesakes:
            return f"parts at call {namesakes[0] + 1}: {self._difference(want, sides.actual[namesakes[0]])}"
        return f"{describe(want)} is missing{after}; {sides}"

    def _unexpected(self, sides: "_Sides", extra: Sequence[int]) -> str | None:
        if not extra:
            return None
        return f"call {extra[0] + 1}, {describe(sides.actual[extra[0]])}, was not expected; {sides}"

    def _difference(self, want: ExpectedCall, call: ToolCall) -> str:
        difference = next(differences(want, call, ignore_extra_args=self.ignore_extra_args), None)
        return f"{clip(want.name, 80)} with other arguments: {difference}" if difference else "called once more"


class _Sides(NamedTuple):
    """Both trajectories, and which expected call is which actual one."""

    expected: Sequence[ExpectedCall]
    actual: Sequence[ToolCall]
    paired: Mapping[int, int]

    def __str__(self) -> str:
        return f"expected {_names(self.expected)}, got {_names(self.actual)}"

    def place_before(self, index: int) -> str:
        """` after call 2, search`, or nothing for the first one."""
        before = max((at for at in self.paired if at < index), default=None)
        if before is None:
            return ""
        return f" after call {self.paired[before] + 1}, {clip(self.expected[before].name, 80)}"


def _expected(call: str | ExpectedCall) -> ExpectedCall:
    return ExpectedCall(name=call) if isinstance(call, str) else call


def _names(calls: Sequence[Any]) -> str:
    if not calls:
        return "no tool"
    shown = " → ".join(clip(call.name, 80) for call in calls[:_MAX_NAMED])
    return shown if len(calls) <= _MAX_NAMED else f"{shown} → … ({len(calls)} calls)"


def _count(calls: Sequence[Any]) -> str:
    return "no call" if not calls else f"call {len(calls)}"
