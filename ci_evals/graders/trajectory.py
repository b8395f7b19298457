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
            finding, share = aligned.unexpected(), len(pairs) / max(1, len(actual))
        elif self.match in ("in_order", "superset"):
            finding = aligned.missing(in_order=self.match == "in_order")
        else:
            share = len(pairs) / max(1, len(expected), len(actual))
            if self.match == "any_order":
                finding = aligned.missing() or aligned.unexpected()
            else:
                finding = aligned.divergence()
        if finding is None:
            return passed(f"called {_path(actual)}")
        reason, got = finding
        return failed(reason, share, got=got)

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


_Divergence = tuple[str, str | None]
"""What was expected, and what was called instead."""


@dataclass(frozen=True, slots=True)
class _Alignment:
    """Both trajectories, and which expected call is which actual one."""

    expected: Sequence[ExpectedCall]
    actual: Sequence[ToolCall]
    pairs: Mapping[int, int]
    ignore_extra_args: bool

    @property
    def _extra(self) -> list[int]:
        used = set(self.pairs.values())
        return [at for at in range(len(self.actual)) if at not in used]

    def _in_full(self, reason: str) -> _Divergence:
        return f"{reason}; expected {_path(self.expected)}", _path(self.actual)

    def divergence(self) -> _Divergence | None:
        """Describe the first place where one trajectory is not the other."""
        expected, actual = self.expected, self.actual
        for at, (want, call) in enumerate(zip(expected, actual, strict=False)):
            if at not in self.pairs:
                if want.name == call.name:
                    return self._difference(at, want, call)
                called = f"call {at + 1} is {describe_call(call)} instead of {describe_call(want)}"
                return self._in_full(called)
        if len(actual) < len(expected):
            last = f"call {len(actual)}" if actual else "no call"
            missing = describe_call(expected[len(actual)])
            return self._in_full(f"stops after {last}, before {missing}")
        if len(actual) > len(expected):
            last = f"call {len(expected)}" if expected else "no call"
            further = describe_call(actual[len(expected)])
            return self._in_full(f"goes on after {last} with {further}")
        return None

    def missing(self, *, in_order: bool = False) -> _Divergence | None:
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
                    reason = f"{describe_call(want)} was call {at + 1}, but is expected{after}"
                    return self._in_full(reason)
        if namesakes:
            return self._difference(namesakes[0], want, self.actual[namesakes[0]])
        return self._in_full(f"{describe_call(want)} is missing{after}")

    def unexpected(self) -> _Divergence | None:
        """Describe the first call that was not expected."""
        if not (extra := self._extra):
            return None
        call = describe_call(self.actual[extra[0]])
        return self._in_full(f"call {extra[0] + 1}, {call}, was not expected")

    def _difference(self, at: int, want: ExpectedCall, call: ToolCall) -> _Divergence:
        """Describe how a call differs from the expected one of the same tool."""
        name = one_line(want.name, 80)
        for difference in want.differences(call, ignore_extra_args=self.ignore_extra_args):
            reason = f"call {at + 1} is {name} with other arguments: {difference.reason}"
            return reason, difference.got
        return self._in_full(f"call {at + 1} calls {name} once more")


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
