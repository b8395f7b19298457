"""`no_tool_errors`, `max_tool_calls`, `max_steps`, `max_model_requests`: what an agent did on its way to the answer."""

from typing import Annotated

from msgspec import Meta

from ci_evals.errors import GradingError
from ci_evals.graders.base import AlwaysTrue, GraderOptions, all_or_nothing
from ci_evals.graders.findings import fails, holds
from ci_evals.graders.quoting import clip, quote
from ci_evals.model import Answer, Finding
from ci_evals.response import Step

Count = Annotated[int, Meta(ge=0)]


class NoToolErrors(AlwaysTrue, frozen=True):
    """No tool call failed; the score is the share of calls that did not. `value` is always true."""

    instead = "write `not_no_tool_errors: true`, or leave it out"

    def grade(self, answer: Answer) -> Finding:
        steps = _steps(answer)
        calls = [(at, step) for at, step in enumerate(steps, 1) if step.kind == "tool_call"]
        failed = [(at, step) for at, step in calls if step.error is not None]
        if not failed:
            return holds(f"none of {len(calls)} tool calls failed")
        at, first = failed[0]
        what = f"{clip(first.name, 80)} failed at step {at}: {quote(first.error or '')}"
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        return fails(f"{what}{more}", 1 - len(failed) / len(calls))


class MaxToolCalls(GraderOptions, frozen=True):
    """At most `value` tool calls were made.

    Args:
        value: the most that may be made.
        tool: count the calls of this tool only.
    """

    value: Count
    tool: str | None = None

    def grade(self, answer: Answer) -> Finding:
        made = [call for call in answer.response.calls_made if self.tool in (None, call.name)]
        what = "tool calls" if self.tool is None else f"calls of {clip(self.tool, 80)}"
        return _at_most(len(made), self.value, what, made[self.value].name if len(made) > self.value else "")


class MaxSteps(GraderOptions, frozen=True):
    """At most `value` steps were taken: model requests, tool calls and sub-agents. Messages do not count."""

    value: Count

    def grade(self, answer: Answer) -> Finding:
        taken = [step for step in _steps(answer) if step.kind != "message"]
        return _at_most(len(taken), self.value, "steps", taken[self.value].name if len(taken) > self.value else "")


class MaxModelRequests(GraderOptions, frozen=True):
    """A model was asked at most `value` times."""

    value: Count

    def grade(self, answer: Answer) -> Finding:
        requests = sum(step.kind == "model_request" for step in _steps(answer))
        if not requests:
            raise GradingError("the steps tell of no request to a model: add steps of kind `model_request`")
        return _at_most(requests, self.value, "model requests", "")


def _at_most(count: int, limit: int, what: str, first_beyond: str) -> Finding:
    if count <= limit:
        return all_or_nothing(passed=True, reason=f"{count} {what}, within the {limit} allowed")
    beyond = f"; beyond them from {clip(first_beyond, 80)} on" if first_beyond else ""
    return all_or_nothing(passed=False, reason=f"{count} {what}, more than the {limit} allowed{beyond}")


def _steps(answer: Answer) -> tuple[Step, ...]:
    steps = answer.response.steps_taken
    if steps is None:
        which = "one of the conversation's answers" if answer.response.turns else "the answer"
        raise GradingError(f"{which} tells no steps: have the provider return `steps`")
    return steps
