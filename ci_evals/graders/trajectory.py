"""Graders of the way to an answer: `trajectory`, and limits on tool calls and steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ci_evals.errors import GradingError
from ci_evals.format import one_line, quote
from ci_evals.graders.base import AlwaysTrue, GraderOptions, failed, passed
from ci_evals.graders.calls import (
    ExpectedCall,
    describe_call,
    find_fitting,
    names_of,
    pair_in_any_order,
    pair_in_order,
)
from ci_evals.model.case import Answer, Finding
from ci_evals.model.fields import Bool, Count, Many
from ci_evals.model.response import Step, ToolCall

_MAX_CALLS = 2_000  # that are paired, which takes quadratic time


@dataclass(frozen=True, slots=True)
class Trajectory(GraderOptions):
    """The agent called these tools.

    Args:
        calls: names of tools, or mappings of `name` and `arguments`.
        match: `exact`: these calls in this order and no other; `in_order`: these in this order,
            others may stand between them; `any_order`: these and no other, in any order; `subset`:
            none but these; `superset`: these at least, in any order.
        ignore_extra_args: a call may have more arguments than expected.
    """

    reads_text: ClassVar[bool] = False
    short: ClassVar[str] = "calls"

    calls: Many[str | ExpectedCall]
    match: Literal["exact", "in_order", "any_order", "subset", "superset"] = "in_order"
    ignore_extra_args: Bool = False

    def problems(self) -> list[str]:
        if not self.calls and self.match in ("in_order", "superset"):
            return [
                f"no calls are expected and all are allowed by `match: {self.match}`: this would always pass"
            ]
        return []

    def grade(self, answer: Answer) -> Finding:
        actual = answer.response.calls_made
        if len(actual) > _MAX_CALLS:
            return failed(
                f"made {len(actual):,} tool calls, more than the {_MAX_CALLS:,} that are compared"
            )
        expected = [ExpectedCall(call) if isinstance(call, str) else call for call in self.calls]
        pairs = self._pair(expected, actual)
        aligned = _Alignment(expected, actual, pairs, self.ignore_extra_args)
        share = len(pairs) / max(1, len(expected))
        if self.match == "subset":
            reason, share = aligned.unexpected(), len(pairs) / max(1, len(actual))
        elif self.match in ("in_order", "superset"):
            reason = aligned.missing(in_order=self.match == "in_order")
        else:
            share = len(pairs) / max(1, len(expected), len(actual))
            any_order = self.match == "any_order"
            reason = (
                aligned.missing() or aligned.unexpected() if any_order else aligned.divergence()
            )
        return failed(reason, share) if reason else passed(f"called {_path(actual)}")

    def _pair(
        self, expected: Sequence[ExpectedCall], actual: Sequence[ToolCall]
    ) -> Mapping[int, int]:
        """Pair expected with actual calls, by index."""
        if self.match == "exact":
            both = enumerate(zip(expected, actual, strict=False))
            return {
                at: at
                for at, (want, call) in both
                if want.fits(call, ignore_extra_args=self.ignore_extra_args)
            }
        fitting = find_fitting(expected, actual, ignore_extra_args=self.ignore_extra_args)
        return pair_in_order(fitting) if self.match == "in_order" else pair_in_any_order(fitting)


@dataclass(frozen=True, slots=True)
class _Alignment:
    """Both trajectories, and which expected call is which actual one."""

    expected: Sequence[ExpectedCall]
    actual: Sequence[ToolCall]
    pairs: Mapping[int, int]
    ignore_extra_args: bool

    def __str__(self) -> str:
        return f"expected {_path(self.expected)}, got {_path(self.actual)}"

    @property
    def _extra(self) -> list[int]:
        used = set(self.pairs.values())
        return [at for at in range(len(self.actual)) if at not in used]

    def divergence(self) -> str | None:
        """Describe the first place where one trajectory is not the other."""
        expected, actual = self.expected, self.actual
        for at, (want, call) in enumerate(zip(expected, actual, strict=False)):
            if at not in self.pairs:
                if want.name == call.name:
                    return f"parts at call {at + 1}: {self._difference(want, call)}"
                return f"parts at call {at + 1}: expected {describe_call(want)}, got {describe_call(call)}; {self}"
        if len(actual) < len(expected):
            last = f"call {len(actual)}" if actual else "no call"
            return (
                f"stops after {last}: expected {describe_call(expected[len(actual)])} next; {self}"
            )
        if len(actual) > len(expected):
            last = f"call {len(expected)}" if expected else "no call"
            return f"goes on after {last} with {describe_call(actual[len(expected)])}; {self}"
        return None

    def missing(self, *, in_order: bool = False) -> str | None:
        """Describe the first expected call that was not made."""
        index = next((at for at in range(len(self.expected)) if at not in self.pairs), None)
        if index is None:
            return None
        want, after = self.expected[index], ""
        before = max((at for at in self.pairs if at < index), default=None)
        if in_order and before is not None:
            after = (
                f" after call {self.pairs[before] + 1}, {one_line(self.expected[before].name, 80)}"
            )
        namesakes = [at for at in self._extra if self.actual[at].name == want.name]
        if in_order:
            for at in namesakes:
                if want.fits(self.actual[at], ignore_extra_args=self.ignore_extra_args):
                    return (
                        f"{describe_call(want)} was call {at + 1}, but is expected{after}; {self}"
                    )
        if namesakes:
            return f"parts at call {namesakes[0] + 1}: {self._difference(want, self.actual[namesakes[0]])}"
        return f"{describe_call(want)} is missing{after}; {self}"

    def unexpected(self) -> str | None:
        """Describe the first call that was not expected."""
        if not (extra := self._extra):
            return None
        return (
            f"call {extra[0] + 1}, {describe_call(self.actual[extra[0]])}, was not expected; {self}"
        )

    def _difference(self, want: ExpectedCall, call: ToolCall) -> str:
        difference = next(want.differences(call, ignore_extra_args=self.ignore_extra_args), None)
        return (
            f"{one_line(want.name, 80)} with other arguments: {difference}"
            if difference
            else "called once more"
        )


def _path(calls: Sequence[ToolCall | ExpectedCall]) -> str:
    return names_of(calls, " → ") or "no tool"


@dataclass(frozen=True, slots=True)
class NoToolErrors(AlwaysTrue):
    """No tool call failed; the score is the share of calls that did not. `value` is always true."""

    reads_text: ClassVar[bool] = False
    needs = "steps"
    instead = "write `not_no_tool_errors: true`, or leave it out"

    def grade(self, answer: Answer) -> Finding:
        calls = [
            (at, step) for at, step in enumerate(_steps(answer), 1) if step.kind == "tool_call"
        ]
        errors = [(at, step) for at, step in calls if step.error is not None]
        if not errors:
            return passed(f"none of {len(calls)} tool calls failed")
        at, first = errors[0]
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        reason = f"{one_line(first.name, 80)} failed at step {at}: {quote(first.error or '')}{more}"
        return failed(reason, 1 - len(errors) / len(calls))


@dataclass(frozen=True, slots=True)
class MaxToolCalls(GraderOptions):
    """At most `value` tool calls were made.

    Args:
        value: the most that may be made.
        tool: count the calls of this tool only.
    """

    reads_text: ClassVar[bool] = False
    value: Count
    tool: str | None = None

    def grade(self, answer: Answer) -> Finding:
        made = [call.name for call in answer.response.calls_made if self.tool in (None, call.name)]
        return _at_most(
            self.value,
            made,
            "tool calls" if self.tool is None else f"calls of {one_line(self.tool, 80)}",
        )


@dataclass(frozen=True, slots=True)
class MaxSteps(GraderOptions):
    """At most `value` steps were taken: model requests, tool calls and sub-agents. Messages do not
    count.
    """

    reads_text: ClassVar[bool] = False
    needs = "steps"

    value: Count

    def grade(self, answer: Answer) -> Finding:
        return _at_most(
            self.value, [step.name for step in _steps(answer) if step.kind != "message"], "steps"
        )


@dataclass(frozen=True, slots=True)
class MaxModelRequests(GraderOptions):
    """A model was asked at most `value` times."""

    reads_text: ClassVar[bool] = False
    needs = "steps"

    value: Count

    def grade(self, answer: Answer) -> Finding:
        requests = ["" for step in _steps(answer) if step.kind == "model_request"]
        if not requests:
            raise GradingError(
                "the steps tell of no request to a model: add steps of kind `model_request`"
            )
        return _at_most(self.value, requests, "model requests")


def _at_most(limit: int, names: Sequence[str], what: str) -> Finding:
    if len(names) <= limit:
        return passed(f"{len(names)} {what}, within the {limit} allowed")
    beyond = f"; beyond them from {one_line(names[limit], 80)} on" if names[limit] else ""
    return failed(f"{len(names)} {what}, more than the {limit} allowed{beyond}")


def _steps(answer: Answer) -> tuple[Step, ...]:
    steps = answer.response.steps_taken
    if steps is None:
        which = "one of the conversation's answers" if answer.response.turns else "the answer"
        raise GradingError(f"{which} tells no steps: have the provider return `steps`")
    return steps
