"""The request of a run to a provider, and the answer for graders."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ci_evals.model.case import Case
from ci_evals.model.fields import UNSET
from ci_evals.model.response import Message, Response


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool that a model may call. `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """The request of one run to a provider.

    Args:
        input: the rendered prompt, or the case's own `input` (any JSON value) if the suite has no
            prompts; in a conversation, all messages as mappings with `role` and `content`.
        messages: the input as a conversation, for chat endpoints.
        case: the case that is run.
        run: its run number, from 1.
        timeout_s: seconds that the call may take.
        schema: the JSON Schema that the answer must fit, for providers that can constrain a model.
        tools: the tools that the model may call; the engine runs its calls.
    """

    input: Any
    messages: tuple[Message, ...]
    case: Case
    run: int
    timeout_s: float
    schema: Mapping[str, Any] | None = None
    tools: tuple[ToolDefinition, ...] = ()


@dataclass(frozen=True, slots=True)
class FixtureRequest:
    """The request to the function of a fixture.

    Args:
        vars: the vars of the case and of earlier fixtures.
        case: the case; None if the fixture is set up once for the suite.
        provider: the name of the provider; None if the fixture is set up once for the suite.
        prompt: the name of the prompt; None likewise, and without prompts.
        run: the run number, from 1; None if the fixture is set up for more than one run.
    """

    vars: Mapping[str, Any]
    case: Case | None = None
    provider: str | None = None
    prompt: str | None = None
    run: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A response with the details that graders may need.

    `value` is the result of a `transform`, if there is one.
    """

    request: Request
    response: Response
    latency_s: float
    cost_usd: float | None
    value: Any = UNSET

    @property
    def output(self) -> Any:
        """The answer: its text, or the result of a `transform`."""
        if self.value is UNSET:
            return self.response.output
        return self.value


def sendable(answer: Answer) -> Answer:
    """Return an answer for another process: without expectations, other providers and keys."""
    return replace(answer, request=sendable_request(answer.request))


def sendable_request(request: Request) -> Request:
    """Return the request of a `sendable` answer."""
    case = request.case
    turns = [replace(turn, expect=()) for turn in case.turns]
    case = replace(case, expect=(), user=None, turns=tuple(turns), setup=())
    return replace(request, case=case)
