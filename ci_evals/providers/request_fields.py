"""Requests as the team's own code gets them: plain JSON values."""

from base64 import b64encode
from typing import Any

from ci_evals.model.case import NO_OVERRIDES, Case
from ci_evals.model.request import Request
from ci_evals.model.response import Message, Part


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


def content_fields(message: Message) -> str | list[dict[str, str]]:
    """Return what a message says: text, or its parts with paths from the suite's folder."""
    if isinstance(message.content, str):
        return message.content
    return [_part_fields(part) for part in message.content]


def _message_fields(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": message.role, "content": content_fields(message)}
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


def _part_fields(part: Part) -> dict[str, str]:
    fields: dict[str, str] = {}
    for key in ("text", "image", "file", "media_type"):
        value = getattr(part, key)
        if isinstance(value, bytes):
            encoded = b64encode(value).decode()
            fields[key] = f"data:{part.media_type or ''};base64,{encoded}"  # RFC 2397
        elif value is not None:
            fields[key] = value
    return fields
