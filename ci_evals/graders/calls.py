"""Expected tool calls, and their pairing with actual ones."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci_evals.format import cite, one_line
from ci_evals.graders.json_text import ABSENT, Mismatch, first_difference
from ci_evals.model.fields import Options
from ci_evals.model.response import Step, ToolCall

_MAX_NAMED = 10  # calls that a reason names


@dataclass(frozen=True, slots=True)
class ExpectedCall(Options):
    """An expected call. Without `arguments`, any arguments fit."""

    name: str
    arguments: Mapping[str, Any] | None = None

    def differences(self, actual: ToolCall, *, ignore_extra_args: bool) -> Iterator[Mismatch]:
        """Yield the differences between the expected and the actual arguments."""
        if self.arguments is None:
            return
        if isinstance(actual.arguments, str):
            yield Mismatch("arguments", self.arguments, actual.arguments)
            return
        for key, value in self.arguments.items():
            given = actual.arguments.get(key, ABSENT)
            difference = first_difference(value, given, one_line(key, 60))
            if difference is not None:
                yield difference
        if not ignore_extra_args:
            for key, value in actual.arguments.items():
                if key not in self.arguments:
                    yield Mismatch(one_line(key, 60), ABSENT, value)

    def fits(self, actual: ToolCall, *, ignore_extra_args: bool) -> bool:
        """Return True if a call is for the expected tool and has the expected arguments."""
        differences = self.differences(actual, ignore_extra_args=ignore_extra_args)
        return is_call_of(actual, self.name) and next(differences, None) is None


def is_call_of(call: ToolCall | Step, tool: str) -> bool:
    """Return True for a call of a tool, by its name or its alias."""
    return tool in (call.name, call.alias)


def find_fitting(
    expected: Sequence[ExpectedCall], actual: Sequence[ToolCall], *, ignore_extra_args: bool
) -> list[list[int]]:
    """Return, for each expected call, the indices of the actual calls that fit it."""
    fitting: list[list[int]] = []
    for want in expected:
        indices = []
        for index, call in enumerate(actual):
            if want.fits(call, ignore_extra_args=ignore_extra_args):
                indices.append(index)
        fitting.append(indices)
    return fitting


def pair_in_order(fitting: Sequence[Sequence[int]]) -> Mapping[int, int]:
    """Pair each expected call with the earliest fitting call after the previous pair."""
    pairs: dict[int, int] = {}
    after = -1
    for index, candidates in enumerate(fitting):
        for at in candidates:
            if at > after:
                pairs[index] = after = at
                break
    return pairs


def pair_in_any_order(fitting: Sequence[Sequence[int]]) -> Mapping[int, int]:
    """Pair as many expected calls as possible (Kuhn's algorithm for bipartite matching).

    Greedy pairing would not do: a call with any arguments could take the only one that fits
    another expected call.
    """
    owners: dict[int, int] = {}

    def place(index: int, tried: set[int]) -> bool:
        for at in fitting[index]:
            if at not in tried:
                tried.add(at)
                if at not in owners or place(owners[at], tried):
                    owners[at] = index
                    return True
        return False

    for index in range(len(fitting)):
        place(index, set())
    return {index: at for at, index in owners.items()}


def describe_call(call: ToolCall | ExpectedCall) -> str:
    """Return a call for a reason: `"book" with {"to": "Paris"}`."""
    name = cite(call.name)
    if not call.arguments:
        return name
    return f"{name} with {cite(call.arguments)}"


def describe_absence(wanted: str, made: Sequence[ToolCall]) -> tuple[str, str | None]:
    """Return the reason for a call that was not made, and the sentence with what was called:
    `no call of "refund" (called: search, book)`. Without any call, the answer says what was done.

    Args:
        wanted: the expected call, described.
        made: the calls that were made.
    """
    if not made:
        return f"no call of {wanted}, nor of any other tool", None
    reason = f"no call of {wanted}"
    return reason, f"{reason} (called: {names_of(made)})"


def names_of(calls: Sequence[ToolCall | ExpectedCall], separator: str = ", ") -> str:
    """Return the tools of some calls: `search, book`."""
    names = [one_line(call.name, 80) for call in calls[:_MAX_NAMED]]
    if len(calls) > _MAX_NAMED:
        names.append(f"… ({len(calls):,} calls)")
    return separator.join(names)
