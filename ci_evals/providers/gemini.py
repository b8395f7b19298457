"""Google's Gemini API: `POST {base_url}/v1beta/models/{model}:generateContent`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter
from pydantic.alias_generators import to_camel

from ci_evals.errors import ProviderError
from ci_evals.model.case import Request
from ci_evals.model.response import Message, Part, Response, ToolCall, Usage
from ci_evals.providers.base import Provider, Resources
from ci_evals.providers.http_client import Event, readable
from ci_evals.providers.model_api import Endpoint, ModelOptions, turns_of
from ci_evals.providers.parts import attach

# Models since Gemini 3 refuse a tool call in the history without the signature that came with it. A
# conversation that a person wrote has none; Google documents this value for it.
_NO_SIGNATURE = {"thoughtSignature": "skip_thought_signature_validator"}

_IN_GENERATION_CONFIG = frozenset({
    "candidateCount", "maxOutputTokens", "responseMimeType", "responseSchema", "seed", "stopSequences", "temperature",
    "thinkingConfig", "topK", "topP",
})  # fmt: skip
_OF_OTHERS = {
    "max_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "top_k": "topK",
    "top_p": "topP",
}  # vendors


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemini(ModelOptions):
    """A Gemini model. Settings such as the temperature go into `params.generationConfig`."""

    kind: ClassVar[str] = "gemini"
    default_key_variable: ClassVar[str] = "GEMINI_API_KEY"
    vendor_host: ClassVar[str] = "generativelanguage.googleapis.com"
    key_header: ClassVar[str] = "x-goog-api-key"
    reserved: ClassVar[tuple[str, ...]] = ("model", "contents", "stream")
    settings: ClassVar[Mapping[str, str]] = {
        written: f"params.generationConfig.{name}"
        for written, name in {
            **{name: name for name in _IN_GENERATION_CONFIG},
            **_OF_OTHERS,
        }.items()
    }

    base_url: str = "https://generativelanguage.googleapis.com"

    def problems(self, folder: Path) -> list[str]:
        return [
            *ModelOptions.problems(self, folder),
            *(
                f"params.{name}: belongs into `generationConfig`: params: {{generationConfig: {{{name}: …}}}}"
                for name in self.params
                if name in _IN_GENERATION_CONFIG
            ),
        ]

    def open(self, resources: Resources) -> Provider:
        model = self.model if "/" in self.model else f"models/{self.model}"
        endpoint = self.endpoint(resources, f"v1beta/{model}:generateContent", self.params)
        if self.stream:
            url = self.endpoint(
                resources, f"v1beta/{model}:streamGenerateContent", {}
            ).url.update_query(alt="sse")
            endpoint = replace(endpoint, url=url)
        signed = not model.startswith(("models/gemini-1", "models/gemini-2"))
        return GenerateContent(endpoint, _NO_SIGNATURE if signed else {})


class GenerateContent:
    """The live endpoint."""

    def __init__(self, endpoint: Endpoint, signature: Mapping[str, str]) -> None:
        self._endpoint = endpoint
        self._signature = signature

    async def answer(self, request: Request) -> Response:
        body: dict[str, Any] = {
            "contents": list(
                _contents(request.messages, self._signature, self._endpoint.resources.folder)
            )
        }
        if system := [
            {"text": message.text} for message in request.messages if message.role == "system"
        ]:
            body["systemInstruction"] = {"parts": system}
        reply = await self._endpoint.post(body, request.timeout_s)
        first_token_s = None
        if reply.events is None:
            answer = self._endpoint.read(_answer, reply)
        else:
            answer, first_token_s = self._assemble(reply.events)
        if not answer.candidates:
            raise _no_candidate(answer.prompt_feedback, self._endpoint.url.host)
        candidate = answer.candidates[0]
        parts = (candidate.content.parts if candidate.content is not None else None) or ()
        return Response(
            output="".join(part.text for part in parts if part.text and not part.thought),
            tool_calls=tuple(
                ToolCall(call.name, call.args or {}, call.id)
                for part in parts
                if (call := part.function_call) is not None
            ),
            usage=answer.usage_metadata.tokens if answer.usage_metadata else None,
            model=answer.model_version,
            finish_reason=candidate.finish_reason,
            cost_usd=reply.cost_usd,
            first_token_s=first_token_s,
        )

    def _assemble(self, events: Sequence[Event]) -> "tuple[_Answer, float | None]":
        """Return a streamed answer as if it had come at once, and when its first token came.

        Raises:
            ProviderError: it was broken off, or an event has another shape.
        """
        parts: list[_Part] = []
        feedback = usage = version = finish_reason = first_token_s = None
        for chunk, after_s in self._endpoint.read_events(_answer, events):
            if chunk.error is not None:
                raise self._endpoint.broken_off(chunk.error.message)
            feedback, usage = chunk.prompt_feedback or feedback, chunk.usage_metadata or usage
            version = chunk.model_version or version
            for candidate in (chunk.candidates or ())[:1]:
                new = (candidate.content and candidate.content.parts) or []
                finish_reason = candidate.finish_reason or finish_reason
                if first_token_s is None and any(
                    part.function_call or (part.text and not part.thought) for part in new
                ):
                    first_token_s = after_s
                parts += new
        if finish_reason is None and feedback is None:
            raise self._endpoint.broken_off()
        candidates = [_Candidate(_Content(parts), finish_reason)] if finish_reason else []
        return _Answer(candidates, feedback, usage, version), first_token_s


def _contents(
    messages: Iterable[Message], signature: Mapping[str, str], folder: Path
) -> Iterator[dict[str, Any]]:
    names: dict[str | None, str] = {}
    for turn in turns_of(messages):
        message = turn[0]
        if message.role == "tool":
            parts = [_result(each, names.get(each.tool_call_id)) for each in turn]
            yield {"role": "user", "parts": parts}
            continue
        names.update((call.id, call.name) for call in message.tool_calls)
        said = [_sent(part, folder) for part in message.parts] or (
            [] if message.tool_calls else [{"text": ""}]
        )
        calls = [{"functionCall": _function_call(call), **signature} for call in message.tool_calls]
        yield {"role": "model" if message.role == "assistant" else "user", "parts": [*said, *calls]}


def _sent(part: Part, folder: Path) -> dict[str, Any]:
    if part.source is None:
        return {"text": part.text}
    sent = attach(part, folder)
    if sent.url is not None:
        return {"fileData": {"mimeType": sent.media_type, "fileUri": sent.url}}
    return {"inlineData": {"mimeType": sent.media_type, "data": sent.base64}}


def _function_call(call: ToolCall) -> dict[str, Any]:
    arguments = {"arguments": call.arguments} if isinstance(call.arguments, str) else call.arguments
    return {"name": call.name, "args": arguments, **({"id": call.id} if call.id else {})}


def _result(message: Message, name: str | None) -> dict[str, Any]:
    """Return a tool's result; Gemini knows it by the function's name and wants an object."""
    identity = {"id": message.tool_call_id} if message.tool_call_id else {}
    response = {"output": message.text}
    return {
        "functionResponse": {
            **identity,
            "name": name or message.tool_call_id or "tool",
            "response": response,
        }
    }


# The answer, as far as it is needed.


@dataclass(frozen=True, slots=True)
class _Wire:
    """A JSON object whose keys are in camelCase."""

    __pydantic_config__ = ConfigDict(alias_generator=to_camel)


@dataclass(frozen=True, slots=True)
class _Call(_Wire):
    name: str
    args: dict[str, Any] | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class _Part(_Wire):
    text: str | None = None
    thought: bool = False
    function_call: _Call | None = None


@dataclass(frozen=True, slots=True)
class _Content(_Wire):
    parts: list[_Part] | None = None


@dataclass(frozen=True, slots=True)
class _Candidate(_Wire):
    content: _Content | None = None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Feedback(_Wire):
    block_reason: str | None = None
    block_reason_message: str | None = None


@dataclass(frozen=True, slots=True)
class _Usage(_Wire):
    prompt_token_count: int = 0
    candidates_token_count: int = 0
    thoughts_token_count: int = 0
    tool_use_prompt_token_count: int = 0
    cached_content_token_count: int = 0

    @property
    def tokens(self) -> Usage:
        """All tokens: thoughts are paid as output, what tools of Google's own fetched as input."""
        return Usage(
            input_tokens=self.prompt_token_count + self.tool_use_prompt_token_count,
            output_tokens=self.candidates_token_count + self.thoughts_token_count,
            cached_tokens=self.cached_content_token_count,
        )


@dataclass(frozen=True, slots=True)
class _Error(_Wire):
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Answer(_Wire):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Usage | None = None
    model_version: str | None = None
    error: _Error | None = None


_answer = TypeAdapter(_Answer)


def _no_candidate(feedback: _Feedback | None, host: str | None) -> ProviderError:
    if feedback is None or feedback.block_reason is None:
        return ProviderError(
            "bad_answer", f"{host} answered without a candidate and without a reason"
        )
    why = ": ".join(filter(None, (feedback.block_reason, feedback.block_reason_message)))
    return ProviderError(
        "rejected",
        f"{host} blocked the prompt ({readable(why)}); change the prompt or safetySettings",
    )
