"""Converts results of agent frameworks into answers, by their shape: no framework is imported.

Supported are `AgentRunResult` of Pydantic AI, `RunResult` of the OpenAI Agents SDK, states,
messages and documents of LangGraph and LangChain, and `AgentReply` of AG2.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_jsonable_python

from ci_evals.model.response import Response, Usage
from ci_evals.providers.answer import as_response, encode_json, read_arguments

_DOCUMENTS = ("context", "documents", "docs")
"""The keys of a LangGraph state under which retrieved documents usually are."""


async def unpack_result(value: object) -> object:
    """Return the answer in a framework's own result, and any other value unchanged.

    Raises:
        ValueError: the result exceeds a limit, such as the number of steps.
        BaseException: an attribute of the result raised it.
    """
    if isinstance(value, dict | list | tuple):
        return _from_langchain(value)
    if _has(value, "output", "new_messages", "usage"):
        return _from_pydantic_ai(value)
    if _has(value, "final_output", "new_items", "raw_responses"):
        return _from_openai_agents(value)
    if _has(value, "body", "history"):
        return await _from_ag2(value)
    return _from_langchain(value)


def _has(value: object, *names: str) -> bool:
    if isinstance(value, Mapping):
        return False
    return all(hasattr(value, name) for name in names)


class _Trail:
    """The steps of an agent, in order.

    A tool call becomes a step when its result is known. Calls without a result are the answer's
    `tool_calls`.
    """

    def __init__(self) -> None:
        self._model: str | None = None
        self._finish_reason: str | None = None
        self._steps: list[dict[str, Any]] = []
        self._open: dict[str, dict[str, Any]] = {}

    def add_model_request(
        self, model: object, usage: object, text: str, finish_reason: object = None
    ) -> None:
        """Add a request to a model and its answer."""
        step: dict[str, Any] = {"kind": "model_request", "usage": _usage(usage)}
        if isinstance(model, str) and model:
            step["name"] = self._model = model
        if text:
            step["result"] = text
        self._finish_reason = None
        if isinstance(finish_reason, str):
            self._finish_reason = finish_reason
        self._steps.append(step)

    def open_call(
        self, call_id: object, name: object, arguments: object, agent: str | None = None
    ) -> None:
        """Add a tool call of the model."""
        if isinstance(arguments, str):
            arguments = read_arguments(arguments)
        else:
            arguments = _plain(arguments)
        if not isinstance(arguments, Mapping | str):
            arguments = {}
        step = {
            "kind": "tool_call",
            "name": str(name),
            "arguments": arguments,
            "agent": agent,
        }
        self._steps.append(step)
        self._open[str(call_id)] = step

    def close_call(self, call_id: object, result: object, error: object = None) -> None:
        """Add the result or the error of a tool call."""
        step = self._open.pop(str(call_id), None)
        if step is None:
            return
        if error is not None:
            step["error"] = _text(error)
        else:
            step["result"] = _text(result)

    def add_agent(self, name: str) -> None:
        """Add a handoff to another agent."""
        self._steps.append({"kind": "agent", "name": name})

    def answer(
        self,
        output: object,
        usage: object = None,
        context: object = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Response:
        """Return the answer; without `usage`, its tokens are the sum of the model requests'."""
        tool_calls = []
        for call_id, step in self._open.items():
            call = {
                "name": step["name"],
                "arguments": step["arguments"],
                "id": call_id,
            }
            tool_calls.append(call)
        steps = []
        total = None
        for step in self._steps:
            if step["kind"] != "tool_call" or "result" in step or "error" in step:
                steps.append(step)
            if step.get("usage") is not None:
                total = step["usage"] + (total or Usage())
        return as_response(
            {
                "output": _text(output),
                "tool_calls": tool_calls,
                "steps": steps,
                "usage": _usage(usage) or total,
                "model": self._model,
                "finish_reason": self._finish_reason,
                "context": context,
                "metadata": metadata,
            }
        )


# Pydantic AI.


def _from_pydantic_ai(result: Any) -> Response:
    output_tool = getattr(result, "_output_tool_name", None)
    trail = _Trail()
    for message in result.new_messages():
        if getattr(message, "kind", "") == "response":
            text = ""
            for part in message.parts:
                if _kind(part) == "text":
                    text += part.content
            finish_reason = getattr(message, "finish_reason", None)
            trail.add_model_request(message.model_name, message.usage, text, finish_reason)
        for part in message.parts:
            kind = _kind(part)
            call_id = getattr(part, "tool_call_id", None)
            has_failed = getattr(part, "outcome", "success") not in ("success", None)
            if kind.endswith("tool-call"):
                if part.tool_name != output_tool:
                    trail.open_call(call_id, part.tool_name, part.args)
            elif kind == "retry-prompt" or has_failed:
                trail.close_call(call_id, None, error=part.content)
            elif kind.endswith("tool-return"):
                trail.close_call(call_id, part.content)
    usage = result.usage
    if not hasattr(usage, "input_tokens"):  # it is a method in version 1
        usage = usage()
    metadata = getattr(result, "metadata", None)
    if not isinstance(metadata, Mapping):
        metadata = None
    return trail.answer(result.output, usage, metadata=metadata)


def _kind(part: object) -> str:
    return str(getattr(part, "part_kind", ""))


# The OpenAI Agents SDK.


def _from_openai_agents(result: Any) -> Response:
    calls: dict[Any, Any] = {}
    outputs: dict[Any, Any] = {}
    first_agent = None
    for item in result.new_items:
        first_agent = first_agent or item.agent.name
        call_id = _get(item.raw_item, "call_id")
        if item.type == "tool_call_output_item":
            outputs[call_id] = item.output
        elif "output" not in item.type:
            calls[call_id] = item
    trail = _Trail()
    for response in result.raw_responses:
        text = ""
        for item in response.output:
            if _get(item, "type") == "message":
                text += _content_text(_get(item, "content"))
        trail.add_model_request(None, response.usage, text)
        for item in response.output:
            call_id = _get(item, "call_id")
            name = _get(item, "name")
            arguments = _get(item, "arguments")
            call = calls.get(call_id)
            kind = _get(item, "type")
            if call is not None and call.type == "handoff_call_item":
                trail.add_agent(str(name).removeprefix("transfer_to_"))
            elif kind == "function_call":
                agent = None
                if call is not None and call.agent.name != first_agent:
                    agent = call.agent.name
                trail.open_call(call_id, name, arguments, agent)
                if call_id in outputs:
                    trail.close_call(call_id, outputs[call_id])
            elif kind == "mcp_call":  # run by the model's host, so its result is in the same item
                call_id = _get(item, "id")
                trail.open_call(call_id, name, arguments)
                trail.close_call(call_id, _get(item, "output"), _get(item, "error"))
    usage = _get(_get(result, "context_wrapper"), "usage")
    return trail.answer(result.final_output, usage)


# LangGraph and LangChain.


def _from_langchain(value: Any) -> object:
    """Return the answer in a state, a message or a list of messages; other values unchanged."""
    state: Mapping[str, Any] = {}
    messages = value
    if isinstance(value, Mapping):
        state = value
        messages = state.get("messages")
    context = _documents(state)
    if context and "output" in state:
        return {**state, "context": context}
    if context is not None and "input" in state:
        answer = state.get("answer")
        if not isinstance(answer, str):
            answer = _get(answer, "content")
        if isinstance(answer, str):  # a retrieval chain
            return as_response({"output": answer, "context": context})
    if not isinstance(messages, list | tuple):
        messages = [messages]
    if not messages or not all(_is_message(message) for message in messages):
        return value
    return _from_messages(messages, state.get("structured_response"), context)


def _is_message(value: object) -> bool:
    return _has(value, "type", "content", "additional_kwargs")


def _from_messages(messages: Sequence[Any], output: object, context: object) -> Response:
    """Return the answer to the last human message; `output` is the state's structured output."""
    first = 0
    for index, message in enumerate(messages):
        if message.type == "human":
            first = index + 1
    trail = _Trail()
    text = ""
    for message in messages[first:]:
        if message.type == "tool":
            result = _content_text(message.content)
            error = None
            if getattr(message, "status", None) == "error":
                error = result
            trail.close_call(message.tool_call_id, result, error)
        elif message.type.startswith(("ai", "AI")):
            text = _content_text(message.content)
            metadata = getattr(message, "response_metadata", None) or {}
            model = metadata.get("model_name") or metadata.get("model")
            usage = getattr(message, "usage_metadata", None)
            trail.add_model_request(model, usage, text, metadata.get("finish_reason"))
            for call in getattr(message, "tool_calls", None) or ():
                trail.open_call(call.get("id"), call.get("name"), call.get("args"))
    if output is None:
        output = text
    return trail.answer(output, context=context)


def _documents(state: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the documents of a state as passages of the context; None without such a list."""
    for key in _DOCUMENTS:
        documents = state.get(key)
        if not isinstance(documents, list | tuple):
            continue
        if all(_has(each, "page_content", "metadata") for each in documents):
            return [_passage(document) for document in documents]
    return None


def _passage(document: Any) -> dict[str, Any]:
    return {
        "text": document.page_content,
        "id": getattr(document, "id", None) or document.metadata.get("source"),
        "score": document.metadata.get("score"),
    }


# AG2.


async def _from_ag2(reply: Any) -> object:
    if not hasattr(reply.history, "get_events"):
        return reply
    events = list(await reply.history.get_events())
    first = 0
    for index, event in enumerate(events):
        if _is_a(event, "ModelRequest"):
            first = index + 1
    trail = _Trail()
    for event in events[first:]:
        if _is_a(event, "ModelResponse"):
            text = event.content or ""
            trail.add_model_request(event.model, event.usage, text, event.finish_reason)
        elif _is_a(event, "ToolCallEvent"):
            trail.open_call(event.id, event.name, event.arguments)
        elif _is_a(event, "ToolErrorEvent"):
            trail.close_call(event.parent_id, None, error=str(event.error))
        elif _is_a(event, "ToolResultEvent"):
            texts = []
            for part in event.result.parts:
                content = _get(part, "content") or _get(part, "data") or part
                texts.append(_text(content))
            trail.close_call(event.parent_id, "\n".join(texts))
    return trail.answer(reply.body)


def _is_a(value: object, name: str) -> bool:
    """Return True for an instance of a class with this name, or of a subclass."""
    return any(cls.__name__ == name for cls in type(value).__mro__)


# Values.


def _get(value: Any, name: str) -> Any:
    """Return an entry of a mapping or an attribute of another object; None if it is missing."""
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)


def _content_text(content: object) -> str:
    """Return the text of a message, whose content may be a list of parts."""
    if isinstance(content, str):
        return content
    text = ""
    if isinstance(content, list | tuple):
        for part in content:
            if isinstance(part, str):
                text += part
            else:
                text += str(_get(part, "text") or "")
    return text


def _usage(counts: object) -> Usage | None:
    """Return token counts, which every framework names differently; None if there are none."""
    input_tokens = _count(counts, "input_tokens", "prompt_tokens", "request_tokens")
    output_tokens = _count(counts, "output_tokens", "completion_tokens", "response_tokens")
    cached = _count(counts, "cache_read_tokens", "cache_read_input_tokens")
    if not cached:
        details = _get(counts, "input_tokens_details") or _get(counts, "input_token_details")
        cached = _count(details, "cached_tokens", "cache_read")
    if not input_tokens and not output_tokens:
        return None
    return Usage(input_tokens, output_tokens, min(cached, input_tokens))


def _count(counts: object, *names: str) -> int:
    """Return the first count under `names` that is above 0, else 0."""
    for name in names:
        count = _get(counts, name)
        if isinstance(count, int | float) and count > 0:
            return int(count)
    return 0


def _text(value: object) -> str:
    """Return a value of any type as text, which is JSON unless the value is text itself."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return encode_json(_plain(value)).decode()


def _plain(value: object) -> Any:
    return to_jsonable_python(value, fallback=repr)
