"""Expected tool calls beside those that were made: which pairs fit, and where one differs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ci_evals.graders.difference import ABSENT, Difference, first_difference
from ci_evals.graders.quoting import clip, show
from ci_evals.response import ToolCall


class ExpectedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that is asked for. `arguments` left out means any arguments."""

    name: str
    arguments: Mapping[str, Any] | None = None


def fits(expected: ExpectedCall, actual: ToolCall, *, ignore_extra_args: bool) -> bool:
    """Whether a call is of the expected tool and has its arguments."""
    found = differences(expected, actual, ignore_extra_args=ignore_extra_args)
    return expected.name == actual.name and next(found, None) is None


def differences(expected: ExpectedCall, actual: ToolCall, *, ignore_extra_args: bool) -> Iterator[Difference]:
    """Where the arguments of a call are not as expected."""
    if expected.arguments is None:
        return
    if isinstance(actual.arguments, str):
        yield Difference("arguments", expected.arguments, actual.arguments)
        return
    for key, value in expected.arguments.items():
        difference = first_difference(value, actual.arguments.get(key, ABSENT), f"argument {clip(key, 60)}")
        if difference:
            yield difference
    if not ignore_extra_args:
        for key, value in actual.arguments.items():
            if key not in expected.arguments:
                yield Difference(f"argument {clip(key, 60)}", ABSENT, value)


def pair_in_order(fits: Sequence[Sequence[int]]) -> Mapping[int, int]:
    """Expected to actual call: the earliest fitting one after the pair before."""
    pairs: dict[int, int] = {}
    after = -1
    for index, candidates in enumerate(fits):
        at = next((at for at in candidates if at > after), None)
        if at is not None:
            pairs[index] = after = at
    return pairs


def pair_in_any_order(fits: Sequence[Sequence[int]]) -> Mapping[int, int]:
    """Expected to actual call, as many as can be paired (Kuhn's algorithm for bipartite matching)."""
    owners: dict[int, int] = {}

    def place(index: int, tried: set[int]) -> bool:
        for at in fits[index]:
            if at not in tried:
                tried.add(at)
                if at not in owners or place(owners[at], tried):
                    owners[at] = index
                    return True
        return False

    for index in range(len(fits)):
        place(index, set())
    return {index: at for at, index in owners.items()}


def describe(call: ExpectedCall | ToolCall) -> str:
    return clip(call.name, 80) if call.arguments is None else f"{clip(call.name, 80)}({show(call.arguments)})"


def names(calls: Sequence[ExpectedCall | ToolCall]) -> str:
    shown = ", ".join(clip(call.name, 80) for call in calls[:10])
    return shown if len(calls) <= 10 else f"{shown} and {len(calls) - 10} more"
