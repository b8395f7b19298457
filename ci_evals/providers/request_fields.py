"""Requests as the team's own code gets them: plain JSON values."""

from typing import Any

from ci_evals.model.case import NO_OVERRIDES, Case
from ci_evals.model.request import Request
from ci_evals.model.response import Message
from ci_evals.providers.parts import content_fields


def request_fields(request: Request) -> dict[str, Any]:
    """Return what every kind of own code gets of a request."""
    fields = {
        "id": request.case.id,
        "messages": message_fields(request),
        "vars": request.case.vars,
        "run": request.run,
        "timeout_s": request.timeout_s,
    }
    if request.case.overrides != NO_OVERRIDES:
        fields["overrides"] = override_fields(request.case)
    return fields


def override_fields(case: Case) -> dict[str, Any]:
    """Return a case's own settings of the provider."""
    return {"model": case.overrides.model, "params": case.overrides.params}


def message_fields(request: Request) -> list[dict[str, Any]]:
    """Return the messages of a request: `role`, `content`, and of the rest what each has."""
    return [_message_fields(message) for message in request.messages]


def _message_fields(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "role": message.role,
        "content": content_fields(message),
    }
    if message.tool_calls:
        calls = []
        for call in message.tool_calls:
            called = {"name": call.name, "arguments": call.arguments}
            if call.id is not None:
                called["id"] = call.id
            calls.append(called)
        fields["tool_calls"] = calls
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    return fields
