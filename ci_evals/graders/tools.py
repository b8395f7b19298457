"""`tool_call`: the answer calls the expected tools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from ci_evals.format import one_line
from ci_evals.graders.base import GraderOptions, failed, passed
from ci_evals.graders.calls import (
    ExpectedCall,
    describe_absence,
    describe_call,
    find_fitting,
    is_call_of,
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
        actual = answer.response.tool_calls or answer.response.list_calls()
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
            order = names_of(expected, " → ")
            return failed(
                f"calls in another order than {order}",
                score,
                sentence=f"called {names_of(actual, ' → ')}, expected {order}",
            )
        used = frozenset(pairs.values())
        extra = [call for index, call in enumerate(actual) if index not in used]
        for index, want in enumerate(expected):
            if index not in pairs:
                reason, sentence = self._explain_missing(want, extra, actual)
                return failed(reason, score, sentence=sentence)
        if extra and not self.ignore_extra_calls:
            call = describe_call(extra[0])
            if not expected:
                sentence = f"called {call}, expected no call"
                return failed("a tool call, expected none", sentence=sentence)
            hint = "which `ignore_extra_calls: true` accepts"
            sentence = f"also called {call}, {hint}"
            return failed(f"a further tool call, {hint}", score, sentence=sentence)
        if not expected:
            return passed("called no tool")
        return passed(f"called {names_of(expected)}")

    def _explain_missing(
        self, expected: ExpectedCall, extra: Sequence[ToolCall], actual: Sequence[ToolCall]
    ) -> tuple[str, str | None]:
        """Return the reason for a missing call, and the sentence with what was called instead.

        Args:
            expected: the missing call.
            extra: the unexpected calls.
            actual: all calls.
        """
        namesakes = [call for call in extra if is_call_of(call, expected.name)]
        if not namesakes:
            return describe_absence(describe_call(expected), actual)
        differences: list[Mismatch] = []
        for call in namesakes:
            of_call = list(expected.differences(call, ignore_extra_args=self.ignore_extra_args))
            if not differences or len(of_call) < len(differences):
                differences = of_call
        name = one_line(expected.name, 80)
        reason = "; ".join(each.reason for each in differences[:_MAX_SHOWN])
        sentence = "; ".join(each.sentence for each in differences[:_MAX_SHOWN])
        if len(namesakes) > 1:
            sentence = f"{sentence} (in the closest of {len(namesakes)} calls)"
        return f"{name}: {reason}", f"{name}: {sentence}"
