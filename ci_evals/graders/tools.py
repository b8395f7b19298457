"""`tool_call`: the answer calls the expected tools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from ci_evals.format import one_line, quote
from ci_evals.graders.base import GraderOptions, failed, passed
from ci_evals.graders.calls import (
    ExpectedCall,
    describe_call,
    find_fitting,
    names_of,
    pair_in_any_order,
    pair_in_order,
)
from ci_evals.graders.json_text import Mismatch
from ci_evals.model.fields import Bool, Many
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer
from ci_evals.model.response import ToolCall

_MAX_SHOWN = 3  # differing arguments that a reason lists


@dataclass(frozen=True, slots=True)
class ToolCallMatch(GraderOptions):
    """The answer calls a tool, or several.

    If several calls are expected, the score is the share of them that were made. Under `not_`, the
    call must not be there at all, even with further arguments or among further calls.

    Args:
        tool: the tool, if one call is expected.
        arguments: the arguments of that call, compared as JSON; any when left out.
        calls: all expected calls, instead of `tool`; an empty list allows none.
        ignore_extra_args: a call may have more arguments than expected.
        ignore_extra_calls: the answer may have more calls than expected.
        match_order: the calls must come in the order of `calls`.
    """

    reads_text: ClassVar[bool] = False
    short: ClassVar[str] = "tool"

    tool: str | None = None
    arguments: Mapping[str, Any] | None = None
    calls: Many[ExpectedCall] | None = None
    ignore_extra_args: Bool = False
    ignore_extra_calls: Bool = False
    match_order: Bool = False

    def problems(self) -> list[str]:
        if self.tool is None and self.calls is None and self.name is not None:
            return [f"`name` is the name in reports: write `tool: {one_line(self.name)}`"]
        if (self.tool is None) == (self.calls is None):
            return ["give either `tool`, for one call, or `calls`, a list of them"]
        if self.tool is None and self.arguments is not None:
            return ["`arguments` belongs to `tool`: inside `calls`, each call has its own"]
        if self._expects_none and self.ignore_extra_calls:
            return ["no calls are expected and all are allowed: this would always pass"]
        return []

    def for_negation(self) -> Self:
        """Ignore extra arguments and calls, which must not make a forbidden call look absent."""
        return replace(self, ignore_extra_args=True, ignore_extra_calls=not self._expects_none)

    @property
    def _expects_none(self) -> bool:
        return self.calls is not None and not self.calls

    def grade(self, answer: Answer) -> Finding:
        expected = self.calls
        if expected is None:
            expected = [ExpectedCall(self.tool or "", self.arguments)]
        # The calls in the answer itself; without any, the calls that were made on the way to it.
        actual = answer.response.tool_calls or answer.response.calls_made
        fitting = find_fitting(expected, actual, ignore_extra_args=self.ignore_extra_args)
        in_any_order = pair_in_any_order(fitting)
        pairs = in_any_order
        if self.match_order:
            pairs = pair_in_order(fitting)
        score = 0.0
        if len(expected) > 1:
            most = len(expected)
            if not self.ignore_extra_calls:
                most = max(most, len(actual))
            score = len(pairs) / most
        if len(pairs) < len(expected) == len(in_any_order):
            reason = f"called in another order: expected {names_of(expected)}"
            return failed(reason, score, got=names_of(actual))
        used = frozenset(pairs.values())
        extra = [call for index, call in enumerate(actual) if index not in used]
        for index, want in enumerate(expected):
            if index not in pairs:
                reason, got = self._explain_missing(want, extra, answer)
                return failed(reason, score, got=got)
        if extra and not self.ignore_extra_calls:
            if not expected:
                return failed("expected no tool call", got=describe_call(extra[0]))
            reason = "expected no other call, which `ignore_extra_calls: true` accepts"
            return failed(reason, score, got=describe_call(extra[0]))
        if not expected:
            return passed("called no tool")
        return passed(f"called {names_of(expected)}")

    def _explain_missing(
        self, expected: ExpectedCall, extra: Sequence[ToolCall], answer: Answer
    ) -> tuple[str, str | None]:
        """Return the reason for a missing call, and what was called instead.

        Args:
            expected: the missing call.
            extra: the unexpected calls.
            answer: the answer.
        """
        actual = answer.response.tool_calls or answer.response.calls_made
        if not actual:
            reason = f"did not call {describe_call(expected)}: no tool was called"
            return reason, quote(answer.response.output)
        namesakes = [call for call in extra if call.name == expected.name]
        if not namesakes:
            return f"did not call {describe_call(expected)}", names_of(actual)
        differences: list[Mismatch] = []
        for call in namesakes:
            of_call = list(expected.differences(call, ignore_extra_args=self.ignore_extra_args))
            if not differences or len(of_call) < len(differences):
                closest, differences = call, of_call
        shown = "; ".join(each.reason for each in differences[:_MAX_SHOWN])
        reason = f"called {one_line(expected.name)} with other arguments: {shown}"
        got: str | None = quote(closest.arguments)
        if len(differences) == 1:
            got = differences[0].got
        if got is not None and len(namesakes) > 1:
            got = f"{got} in the closest of {len(namesakes)} such calls"
        return reason, got
