"""Reads chats, questions and answers as APIs, frameworks and tracing tools record them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ci_evals.model.response import Message, Role, ToolCall
from ci_evals.providers.answer import read_arguments

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_QUESTIONS = ("question", "input", "query", "prompt", "message", "user_input", "text")
_ANSWERS = ("output", "answer", "response", "result", "return_value", "text", "content")


def decode(value: Any) -> Any:
    """Return the list or mapping in a JSON text; any other value unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def read_chat(value: Any) -> list[Message]:
    """Return the messages of a chat; an empty list if the value is anything else.

    A chat is a list of messages of OpenAI, LangChain, OpenInference or OpenTelemetry, a mapping
    with such `messages`, or the JSON of either.
    """
    value = decode(value)
    if isinstance(value, dict):
        value = first(value, "messages", "contents")  # contents: Google's
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]  # LangChain records batches, which have one chat
    if not isinstance(value, list):
        return []
    messages = []
    for item in value:
        message = _read_message(item)
        if message is None:
            return []
        messages.append(message)
    return messages


def question_in(value: Any) -> Any:
    """Return the question in a recorded input: a text, or the mapping itself if none of its entries
    is a question. None if there is none.
    """
    decoded = decode(value)
    for message in reversed(read_chat(decoded)):
        if message.role == "user" and message.text:
            return message.text
    if isinstance(decoded, dict):
        if "messages" in decoded:
            return None
        for name in _QUESTIONS:
            if isinstance(decoded.get(name), str) and decoded[name].strip():
                return decoded[name]
        return decoded or None
    if isinstance(decoded, str) and decoded.strip():
        return decoded
    return None


def answer_in(value: Any) -> str | None:
    """Return the text of a recorded output: of the last message of a chat, of a model's reply, the
    only text of a mapping, or the JSON of anything else. None stays None.
    """
    decoded = decode(value)
    match decoded:
        case {"choices": [{"message": message}, *_]}:
            return _text_of_message(message)
        case {"generations": [[{"message": message}, *_], *_]}:
            return _text_of_message(message)
        case {"generations": [[{"text": str(text)}, *_], *_]}:
            return text
        case {"content": {"role": _, "parts": _} as message}:  # Google's
            return _text_of_message(message)
    chat = read_chat(decoded)
    if chat:
        return chat[-1].text
    if value is None or isinstance(value, str):
        return value
    message = _read_message(value)
    if message is not None:
        return message.text
    match value:
        case [{"text": str()}, *_]:  # what a tool of Bedrock or of MCP returned
            return _text_of_message({"role": "tool", "content": value})
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name in _ANSWERS:
            return answer_in(inner)
    return json.dumps(value, ensure_ascii=False, default=str)


def _text_of_message(value: Any) -> str:
    message = _read_message(value)
    if message is None:
        return ""
    return message.text


def _read_message(value: Any) -> Message | None:
    """Return a message in any of the spellings; None if the value is not a message."""
    match value:
        case {"message": {**inner}}:  # OpenInference
            value = inner
        case {"id": [*_, str(kind)], "kwargs": {**inner}}:  # LangChain
            value = {"type": kind.partition("Message")[0].lower(), **inner}
        case {"type": str(kind), "data": {**inner}}:  # LangChain, in an older form
            value = {"type": kind, **inner}
    if not isinstance(value, dict):
        return None
    role = _ROLES.get(str(value.get("role") or value.get("type")))
    if role is None:
        return None
    parts = first(value, "parts", "contents", "content")
    calls = [_read_call(call) for call in _items(value.get("tool_calls"))]
    if not calls:
        calls.append(_read_call(value.get("function_call")))  # OpenAI's older API
    call_id = value.get("tool_call_id")
    texts = []
    if isinstance(parts, str):
        texts.append(parts)
    for part in _items(parts):
        text = _text_of_part(part)
        if text is not None:
            texts.append(text)
        call = _call_in_part(part)
        if call is not None:
            calls.append(call)
        call_id = _id_of_result(part) or call_id
    if call_id is not None:
        call_id = str(call_id)
    named_calls = tuple(call for call in calls if call.name)
    return Message(role, "\n".join(texts), named_calls, call_id)


def _text_of_part(part: Any) -> str | None:
    """Return the text of a part of a message, or what a tool returned; None for any other part."""
    match part:
        case str(text) | {"text": str(text)} | {"message_content": {"text": str(text)}}:
            return text
        case {"type": "text", "content": str(text)}:
            return text
        case {"type": "tool_call_response"}:
            return answer_in(first(part, "response", "result")) or ""
        case {"type": "tool-result", "output": {"type": "text" | "json", "value": result}}:
            return answer_in(result) or ""
        case {"type": "tool-result"}:  # the Vercel AI SDK's
            return answer_in(first(part, "output", "result")) or ""
        case {"toolResult": {"content": result}}:  # Bedrock's
            return answer_in(result) or ""
        case {"functionResponse": {"response": result}} | {
            "function_response": {"response": result}
        }:  # Google's
            return answer_in(result) or ""
    return None


def _call_in_part(part: Any) -> ToolCall | None:
    match part:
        case {"type": "tool_call" | "tool-call"}:
            return _read_call(part)
        case {"toolUse": call} | {"functionCall": call} | {"function_call": call}:
            return _read_call(call)
    return None


def _id_of_result(part: Any) -> Any:
    """Return the id of the call whose result a part is; None for any other part."""
    match part:
        case {"type": "tool_call_response", "id": id_} | {"type": "tool-result", "toolCallId": id_}:
            return id_
        case {"toolResult": {"toolUseId": id_}}:
            return id_
        case {"functionResponse": {"id": id_}} | {"function_response": {"id": id_}}:
            return id_
    return None


def _read_call(value: Any) -> ToolCall:
    """Return a tool call in any of the spellings; without a name, it is not a call."""
    match value:
        case {"tool_call": {**inner}}:
            value = inner
    function = value
    match value:
        case {"function": {**inner}}:
            function = inner
    if not isinstance(function, dict):
        return ToolCall("")
    arguments = first(function, "arguments", "args", "input") or {}
    if isinstance(arguments, str):
        arguments = read_arguments(arguments)
    elif not isinstance(arguments, dict):
        arguments = json.dumps(arguments, default=str)
    id_ = None
    if isinstance(value, dict):
        id_ = first(value, "id", "toolCallId", "toolUseId")
    if id_ is not None:
        id_ = str(id_)
    return ToolCall(str(first(function, "name", "toolName") or ""), arguments, id_)


def first(value: Mapping[str, Any], *names: str) -> Any:
    """Return the first value under `names` that is not None."""
    for name in names:
        if value.get(name) is not None:
            return value[name]
    return None


def _items(value: Any) -> Sequence[Any]:
    if isinstance(value, list):
        return value
    return ()
