"""Google's Gemini API: `POST {base_url}/v1beta/models/{model}:generateContent`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter

from ci_evals.errors import ProviderError
from ci_evals.model.request import Request, ToolDefinition
from ci_evals.model.response import Message, Part, Response, ToolCall, Usage
from ci_evals.providers.answer import arguments_object
from ci_evals.providers.base import (
    NativeMessage,
    Provider,
    Resources,
    ToolRequest,
    ToolResult,
)
from ci_evals.providers.http_messages import Event, readable
from ci_evals.providers.model_api import (
    CamelCase,
    Endpoint,
    ModelOptions,
    system_texts_of,
    turns_of,
)
from ci_evals.providers.parts import attach

# Models since Gemini 3 refuse a tool call in the history without its signature. A conversation that
# a person wrote has none; Google documents this value for such calls.
_NO_SIGNATURE = {"thoughtSignature": "skip_thought_signature_validator"}

_IN_GENERATION_CONFIG = (
    "candidateCount",
    "maxOutputTokens",
    "responseMimeType",
    "responseSchema",
    "seed",
    "stopSequences",
    "temperature",
    "thinkingConfig",
    "topK",
    "topP",
)
_NAMES = {  # Gemini's settings by their own names and by those of other vendors
    **{name: name for name in _IN_GENERATION_CONFIG},
    "max_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "top_k": "topK",
    "top_p": "topP",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemini(ModelOptions):
    """A Gemini model. Settings such as the temperature go into `params.generationConfig`."""

    kind: ClassVar[str] = "gemini"
    default_key_variable: ClassVar[str | None] = "GEMINI_API_KEY"
    vendor_host: ClassVar[str] = "generativelanguage.googleapis.com"
    key_header: ClassVar[str] = "x-goog-api-key"
    reserved: ClassVar[tuple[str, ...]] = ("model", "contents", "stream")
    inner_keys: ClassVar[Mapping[str, str]] = {
        written: f"params.generationConfig.{name}" for written, name in _NAMES.items()
    }

    base_url: str = "https://generativelanguage.googleapis.com"

    def problems(self, folder: Path) -> list[str]:
        problems = ModelOptions.problems(self, folder)
        for name in self.params:
            if name in _IN_GENERATION_CONFIG:
                example = f"params: {{generationConfig: {{{name}: …}}}}"
                problems.append(f"params.{name}: belongs in `generationConfig`: {example}")
        return problems

    def open(self, resources: Resources) -> Provider:
        model = self.model
        if "/" not in model:
            model = f"models/{model}"
        return self.open_at(resources, f"v1beta/{model}")

    def open_at(self, resources: Resources, path: str) -> Provider:
        """Open the model at a path below the base URL."""
        method, query = "generateContent", {}
        if self.stream:
            method, query = "streamGenerateContent", {"alt": "sse"}
        endpoint = self.endpoint(resources, f"{path}:{method}", self.params, query=query)
        name = self.model.removeprefix("models/")
        wants_signature = not name.startswith(("gemini-1", "gemini-2"))
        return GeminiEndpoint(endpoint, wants_signature=wants_signature)


class GeminiEndpoint:
    """The live endpoint."""

    def __init__(self, endpoint: Endpoint, *, wants_signature: bool) -> None:
        self._endpoint = endpoint
        self._wants_signature = wants_signature

    async def answer(self, request: Request) -> Response:
        fields: dict[str, Any] = {"contents": self._contents(request.messages)}
        system = [{"text": text} for text in system_texts_of(request.messages)]
        if system:
            fields["systemInstruction"] = {"parts": system}
        if request.tools:
            declared = self._endpoint.fields.get("tools", ())
            offered = {"functionDeclarations": [_declaration(tool) for tool in request.tools]}
            fields["tools"] = [*declared, offered]
        reply = await self._endpoint.post(fields, request.timeout_s)
        if reply.events is None:
            answer = self._endpoint.read(_answer(), reply)
        else:
            answer = self._assemble(reply.events)
        if not answer.candidates:
            raise self._no_candidate(answer.prompt_feedback)
        candidate = answer.candidates[0]
        text = ""
        tool_calls = []
        for part in candidate.parts:
            if part.is_output:
                text += part.text or ""
            if part.function_call is not None:
                call = part.function_call
                tool_calls.append(ToolCall(call.name, call.args or {}, call.id))
        usage = None
        if answer.usage_metadata is not None:
            usage = answer.usage_metadata.tokens
        response = Response(
            output=text,
            tool_calls=tuple(tool_calls),
            usage=usage,
            model=answer.model_version,
            finish_reason=candidate.finish_reason,
            cost_usd=reply.cost_usd,
            first_token_s=answer.first_token_s,
        )
        if request.tools and tool_calls:
            return ToolRequest.of(response, [part.sent_back for part in candidate.parts])
        return response

    def _contents(self, messages: Iterable[Message]) -> list[dict[str, Any]]:
        contents = []
        names: dict[str | None, str] = {}  # names of tools by the id of the call
        for turn in turns_of(messages):
            message = turn[0]
            if message.role == "tool":
                parts = [_result(each, names.get(each.tool_call_id)) for each in turn]
                contents.append({"role": "user", "parts": parts})
                continue
            if isinstance(message, NativeMessage):
                contents.append({"role": "model", "parts": message.native})
                continue
            parts = [_sent(part, self._endpoint.folder) for part in message.parts]
            for call in message.tool_calls:
                names[call.id] = call.name
                part: dict[str, Any] = {"functionCall": _function_call(call)}
                if self._wants_signature:
                    part |= _NO_SIGNATURE
                parts.append(part)
            role = "user"
            if message.role == "assistant":
                role = "model"
            contents.append({"role": role, "parts": parts or [{"text": ""}]})
        return contents

    def _assemble(self, events: Sequence[Event]) -> "_Answer":
        """Return a streamed answer in the form of one that is not streamed.

        Raises:
            ProviderError: the stream broke off, or an event has another shape.
        """
        parts: list[_Part] = []
        feedback = usage = version = finish_reason = first_token_s = None
        for chunk, after_s in self._endpoint.read_events(_answer(), events):
            if chunk.error is not None:
                raise self._endpoint.reported(chunk.error)
            feedback = chunk.prompt_feedback or feedback
            usage = chunk.usage_metadata or usage
            version = chunk.model_version or version
            if not chunk.candidates:
                continue
            candidate = chunk.candidates[0]
            finish_reason = candidate.finish_reason or finish_reason
            has_content = any(part.is_output or part.function_call for part in candidate.parts)
            if has_content and first_token_s is None:
                first_token_s = after_s
            parts += candidate.parts
        if finish_reason is None and feedback is None:
            raise self._endpoint.broken_off()
        candidates = []
        if finish_reason is not None:
            candidates.append(_Candidate(_Content(parts), finish_reason))
        return _Answer(candidates, feedback, usage, version, first_token_s=first_token_s)

    def _no_candidate(self, feedback: "_Feedback | None") -> ProviderError:
        host = self._endpoint.host
        if feedback is None or feedback.block_reason is None:
            text = f"{host} answered without a candidate and without a reason"
            return ProviderError("server", text)
        why = feedback.block_reason
        if feedback.block_reason_message:
            why = f"{why}: {feedback.block_reason_message}"
        advice = "change the prompt or safetySettings"
        return ProviderError("rejected", f"{host} blocked the prompt ({readable(why)}); {advice}")


def _sent(part: Part, folder: Path) -> dict[str, Any]:
    if part.source is None:
        return {"text": part.text}
    sent = attach(part, folder)
    if sent.url is not None:
        return {"fileData": {"mimeType": sent.media_type, "fileUri": sent.url}}
    return {"inlineData": {"mimeType": sent.media_type, "data": sent.base64}}


def _function_call(call: ToolCall) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": call.name, "args": arguments_object(call)}
    if call.id:
        fields["id"] = call.id
    return fields


def _declaration(tool: ToolDefinition) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parametersJsonSchema": tool.parameters,
    }


def _result(message: Message, name: str | None) -> dict[str, Any]:
    """Return a tool's result; Gemini identifies it by the function's name and needs an object."""
    key = "output"
    if isinstance(message, ToolResult):
        name = message.name
        if message.is_error:
            key = "error"
    fields: dict[str, Any] = {
        "name": name or message.tool_call_id or "tool",
        "response": {key: message.text},
    }
    if message.tool_call_id:
        fields["id"] = message.tool_call_id
    return {"functionResponse": fields}


# The fields of an answer that are read.


@dataclass(slots=True)
class _Call(CamelCase):
    name: str
    args: dict[str, Any] | None = None
    id: str | None = None


@dataclass(slots=True)
class _Part(CamelCase):
    text: str | None = None
    thought: bool = False
    function_call: _Call | None = None
    thought_signature: str | None = None

    @property
    def is_output(self) -> bool:
        return bool(self.text) and not self.thought

    @property
    def sent_back(self) -> dict[str, Any]:
        """The part in the form that is sent back with the results of tools."""
        fields: dict[str, Any] = {}
        call = self.function_call
        if call is not None:
            fields["functionCall"] = _function_call(ToolCall(call.name, call.args or {}, call.id))
        else:
            fields["text"] = self.text or ""
        if self.thought:
            fields["thought"] = True
        if self.thought_signature is not None:
            fields["thoughtSignature"] = self.thought_signature
        return fields


@dataclass(slots=True)
class _Content(CamelCase):
    parts: list[_Part] | None = None


@dataclass(slots=True)
class _Candidate(CamelCase):
    content: _Content | None = None
    finish_reason: str | None = None

    @property
    def parts(self) -> list[_Part]:
        if self.content is None or self.content.parts is None:
            return []
        return self.content.parts


@dataclass(slots=True)
class _Feedback(CamelCase):
    block_reason: str | None = None
    block_reason_message: str | None = None


@dataclass(slots=True)
class _Usage(CamelCase):
    prompt_token_count: int = 0
    candidates_token_count: int = 0
    thoughts_token_count: int = 0
    tool_use_prompt_token_count: int = 0
    cached_content_token_count: int = 0

    @property
    def tokens(self) -> Usage:
        """All tokens. Google bills thoughts as output, and results of its own tools as input."""
        return Usage(
            input_tokens=self.prompt_token_count + self.tool_use_prompt_token_count,
            output_tokens=self.candidates_token_count + self.thoughts_token_count,
            cached_tokens=self.cached_content_token_count,
        )


@dataclass(slots=True)
class _Answer(CamelCase):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Usage | None = None
    model_version: str | None = None
    error: dict[str, Any] | None = None
    first_token_s: float | None = None


@cache
def _answer() -> TypeAdapter[_Answer]:
    return TypeAdapter(_Answer)
