"""Results of agent frameworks as answers. They are known by their shape; no framework is imported.

Known are `AgentRunResult` of Pydantic AI, `RunResult` of the OpenAI Agents SDK, states, messages
and documents of LangGraph and LangChain, and `AgentReply` of AG2.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from ci_evals.model.response import Response, Step, Usage
from ci_evals.providers.answer import as_response, encode_json, read_arguments

_DOCUMENTS = ("context", "documents", "docs")
"""The keys of a LangGraph state under which retrieved documents usually are."""


async def unpack_result(value: object) -> object:
    """Return the answer that a framework's own result tells, and any other value as it is.

    Raises:
        ValueError: it has more of something than is kept.
        BaseException: whatever its attributes raise.
    """
    if isinstance(value, str | Response):
        return value
    if _has(value, "output", "new_messages", "usage"):
        return _from_pydantic_ai(value)
    if _has(value, "final_output", "new_items", "raw_responses"):
        return _from_openai_agents(value)
    if _has(value, "body", "history") and _has(getattr(value, "history"), "get_events"):  # noqa: B009  it is any object
        return await _from_ag2(value)
    return _from_langchain(value) or value


def _has(value: object, *names: str) -> bool:
    return not isinstance(value, Mapping) and all(hasattr(value, name) for name in names)


class _Trail:
    """The steps of an agent, in order. A tool call is a step as soon as its result is there; others
    stay open.
    """

    def __init__(self) -> None:
        self.model: str | None = None
        self.finish_reason: str | None = None
        self._steps: list[Step] = []
        self._open: dict[str, Step] = {}

    def ask_model(
        self, model: object, usage: object, text: str, finish_reason: object = None
    ) -> None:
        """Note a request to a model."""
        name = model if isinstance(model, str) else ""
        self.model = name or self.model
        self.finish_reason = finish_reason if isinstance(finish_reason, str) else None
        self._steps.append(Step("model_request", name, result=text or None, usage=_usage(usage)))

    def call_tool(
        self, id_: object, name: object, arguments: object, agent: str | None = None
    ) -> None:
        """Note that a tool was asked for."""
        decoded = read_arguments(arguments) if isinstance(arguments, str) else _plain(arguments)
        step = Step(
            "tool_call",
            str(name),
            decoded if isinstance(decoded, Mapping | str) else {},
            agent=agent,
        )
        self._steps.append(step)
        self._open[str(id_)] = step

    def end_call(self, id_: object, result: object, error: object = None) -> None:
        """Note what came of a tool call."""
        if (step := self._open.pop(str(id_), None)) is None:
            return
        at = next(index for index, each in enumerate(self._steps) if each is step)
        self._steps[at] = Step(
            *("tool_call", step.name, step.arguments, None if error is not None else _text(result)),
            error=None if error is None else _text(error),
            agent=step.agent,
        )

    def start_agent(self, name: object) -> None:
        """Note that the work was handed to another agent."""
        self._steps.append(Step("agent", str(name)))

    def answer(self, output: object, usage: object = None, **more: object) -> Response:
        """Return the answer; calls that nobody carried out are its `tool_calls`, and no steps."""
        is_open = {id(step) for step in self._open.values()}
        steps = [step for step in self._steps if id(step) not in is_open]
        counted = [step.usage for step in steps if step.usage is not None]
        told = {
            "output": _text(output),
            "tool_calls": [
                {"name": step.name, "arguments": step.arguments, "id": id_}
                for id_, step in self._open.items()
            ],
            "steps": steps,
            "usage": _usage(usage) or (sum(counted, Usage()) if counted else None),
            "model": self.model,
            "finish_reason": self.finish_reason,
        }
        return as_response({**told, **more})


# Pydantic AI.


def _from_pydantic_ai(result: Any) -> Response:
    trail = _Trail()
    for message in result.new_messages():
        parts = message.parts
        if getattr(message, "kind", "") == "response":
            said = "".join(part.content for part in parts if _kind(part) == "text")
            trail.ask_model(
                message.model_name, message.usage, said, getattr(message, "finish_reason", None)
            )
        for part in parts:
            kind, id_ = _kind(part), getattr(part, "tool_call_id", None)
            if kind.endswith("tool-call") and part.tool_name != getattr(
                result, "_output_tool_name", None
            ):
                trail.call_tool(id_, part.tool_name, part.args)
            elif kind == "retry-prompt" or getattr(part, "outcome", "success") not in (
                "success",
                None,
            ):
                trail.end_call(id_, None, error=part.content)
            elif kind.endswith("tool-return"):
                trail.end_call(id_, part.content)
    usage, metadata = result.usage, getattr(result, "metadata", None)
    told = usage if hasattr(usage, "input_tokens") else usage()  # a method before version 2
    return trail.answer(
        result.output, told, metadata=metadata if isinstance(metadata, Mapping) else None
    )


def _kind(part: object) -> str:
    return str(getattr(part, "part_kind", ""))


# The OpenAI Agents SDK.


def _from_openai_agents(result: Any) -> Response:
    trail = _Trail()
    by_call = {
        _get(item.raw_item, "call_id"): item
        for item in result.new_items
        if "output" not in item.type
    }
    outputs = {
        _get(item.raw_item, "call_id"): item.output
        for item in result.new_items
        if item.type == "tool_call_output_item"
    }
    first = next((item.agent.name for item in result.new_items), None)
    for response in result.raw_responses:
        said = "".join(
            _parts_text(_get(item, "content"))
            for item in response.output
            if _get(item, "type") == "message"
        )
        trail.ask_model(None, response.usage, said)
        for item in response.output:
            id_, kind = _get(item, "call_id"), str(_get(item, "type"))
            noted = by_call.get(id_)
            agent = noted.agent.name if noted is not None else first
            if noted is not None and noted.type == "handoff_call_item":
                trail.start_agent(str(_get(item, "name")).removeprefix("transfer_to_"))
            elif kind == "function_call":
                trail.call_tool(
                    id_,
                    _get(item, "name"),
                    _get(item, "arguments"),
                    None if agent == first else agent,
                )
                if id_ in outputs:
                    trail.end_call(id_, outputs[id_])
            elif kind == "mcp_call":  # by the model's own host
                trail.call_tool(_get(item, "id"), _get(item, "name"), _get(item, "arguments"))
                trail.end_call(_get(item, "id"), _get(item, "output"), _get(item, "error"))
    return trail.answer(
        result.final_output, getattr(getattr(result, "context_wrapper", None), "usage", None)
    )


# LangGraph and LangChain.


def _from_langchain(value: Any) -> object:
    """Return the answer in a state, a message or a list of messages; None if it is none of
    these.
    """
    state = value if isinstance(value, Mapping) else {}
    context = next(
        (found for key in _DOCUMENTS if (found := _documents(state.get(key))) is not None), None
    )
    if context and "output" in state:
        return {**state, "context": context}
    answer = state.get("answer")
    text = answer if isinstance(answer, str) else _get(answer, "content")
    if context is not None and "input" in state and isinstance(text, str):  # a retrieval chain
        return as_response({"output": text, "context": context})
    messages = state.get("messages", value)
    listed = list(messages) if isinstance(messages, list | tuple) else [messages]
    if not listed or not all(_has(each, "type", "content", "additional_kwargs") for each in listed):
        return None
    asked = max((index for index, each in enumerate(listed) if each.type == "human"), default=-1)
    trail, said = _Trail(), ""
    for message in listed[asked + 1 :]:
        if message.type == "tool":
            failed = getattr(message, "status", None) == "error"
            text = _parts_text(message.content)
            trail.end_call(message.tool_call_id, text, error=text if failed else None)
        elif message.type.startswith(("ai", "AI")):
            about = getattr(message, "response_metadata", None) or {}
            said = _parts_text(message.content)
            model = about.get("model_name") or about.get("model")
            trail.ask_model(
                model, getattr(message, "usage_metadata", None), said, about.get("finish_reason")
            )
            for call in getattr(message, "tool_calls", None) or ():
                trail.call_tool(call.get("id"), call.get("name"), call.get("args"))
    output = state.get("structured_response")
    return trail.answer(said if output is None else output, context=context)


def _documents(value: object) -> list[dict[str, Any]] | None:
    """Return documents of LangChain as texts of the context; None if it is no list of them."""
    if not isinstance(value, list | tuple) or not all(
        _has(each, "page_content", "metadata") for each in value
    ):
        return None
    documents: list[Any] = list(value)
    return [
        {
            "text": each.page_content,
            "id": getattr(each, "id", None) or each.metadata.get("source"),
            "score": each.metadata.get("score"),
        }
        for each in documents
    ]


# AG2.


async def _from_ag2(reply: Any) -> object:
    events = list(await reply.history.get_events())
    names = [{cls.__name__ for cls in type(event).__mro__} for event in events]
    asked = max((index for index, each in enumerate(names) if "ModelRequest" in each), default=-1)
    trail = _Trail()
    for event, kinds in list(zip(events, names, strict=True))[asked + 1 :]:
        if "ModelResponse" in kinds:
            trail.ask_model(event.model, event.usage, event.content or "", event.finish_reason)
        elif "ToolCallEvent" in kinds:
            trail.call_tool(event.id, event.name, event.arguments)
        elif "ToolErrorEvent" in kinds:
            trail.end_call(event.parent_id, None, error=str(event.error))
        elif "ToolResultEvent" in kinds:
            trail.end_call(event.parent_id, _joined(event.result.parts))
    return trail.answer(reply.body)


def _joined(parts: Iterable[Any]) -> str:
    return "\n".join(_text(_get(part, "content") or _get(part, "data") or part) for part in parts)


# Values.


def _get(value: Any, name: str) -> Any:
    """Return what an object, or a mapping that stands for one, has under a name; None if it has no
    such thing.
    """
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _parts_text(content: object) -> str:
    """Return the text of a message, whose content may be a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    return "".join(
        part if isinstance(part, str) else str(_get(part, "text") or "") for part in parts
    )


def _usage(told: object) -> Usage | None:
    """Return token counts, which every framework calls differently; None if there are none."""

    def count(*names: str, of: object = told) -> int:
        found: Iterator[Any] = (_get(of, name) for name in names)
        return next((int(each) for each in found if isinstance(each, int | float) and each > 0), 0)

    details = _get(told, "input_tokens_details") or _get(told, "input_token_details")
    asked = count("input_tokens", "prompt_tokens", "request_tokens")
    said = count("output_tokens", "completion_tokens", "response_tokens")
    cached = count("cache_read_tokens", "cache_read_input_tokens") or count(
        "cached_tokens", "cache_read", of=details
    )
    return Usage(asked, said, min(cached, asked)) if asked or said else None


def _text(value: object) -> str:
    """Return a value of any type as text: JSON where it has such a form."""
    if value is None or isinstance(value, str):
        return value or ""
    return encode_json(_plain(value)).decode()


def _plain(value: object) -> Any:
    return to_jsonable_python(value, fallback=repr)
