"""Google's Gemini API: `POST {base_url}/v1beta/models/{model}:generateContent`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from ci_evals.errors import ProviderError
from ci_evals.model import Request
from ci_evals.providers.base import Provider, Resources
from ci_evals.providers.wire import Endpoint, ModelOptions, readable
from ci_evals.response import Message, Response, ToolCall, Usage

# Models since Gemini 3 refuse a tool call in the history without the signature that came with it. A conversation that
# a person wrote has none; Google documents this value for it.
_NO_SIGNATURE = {"thoughtSignature": "skip_thought_signature_validator"}

_IN_GENERATION_CONFIG = frozenset({
    "candidateCount", "maxOutputTokens", "responseMimeType", "responseSchema", "seed", "stopSequences", "temperature",
    "thinkingConfig", "topK", "topP",
})  # fmt: skip
_OF_OTHERS = {"max_tokens": "maxOutputTokens", "stop": "stopSequences", "top_k": "topK", "top_p": "topP"}  # vendors


class Gemini(ModelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gemini"):
    """A Gemini model. Settings such as the temperature go into `params.generationConfig`."""

    default_key_variable: ClassVar[str] = "GEMINI_API_KEY"
    vendor_host: ClassVar[str] = "generativelanguage.googleapis.com"
    reserved: ClassVar[tuple[str, ...]] = ("model", "contents", "stream")
    settings: ClassVar[Mapping[str, str]] = {
        written: f"params.generationConfig.{name}"
        for written, name in {**{name: name for name in _IN_GENERATION_CONFIG}, **_OF_OTHERS}.items()
    }

    base_url: str = "https://generativelanguage.googleapis.com"

    def problems(self, folder: Path) -> list[str]:
        return [
            *super().problems(folder),
            *(
                f"params.{name}: belongs into `generationConfig`: params: {{generationConfig: {{{name}: …}}}}"
                for name in self.params
                if name in _IN_GENERATION_CONFIG
            ),
        ]

    def open(self, resources: Resources) -> Provider:
        key = {"x-goog-api-key": self.api_key.reveal().strip()} if self.api_key else {}
        model = self.model if "/" in self.model else f"models/{self.model}"
        endpoint = self.endpoint(resources, f"v1beta/{model}:generateContent", key, self.params)
        signed = not model.startswith(("models/gemini-1", "models/gemini-2"))
        return GenerateContent(endpoint, _NO_SIGNATURE if signed else {})


class GenerateContent:
    """The live endpoint."""

    def __init__(self, endpoint: Endpoint, signature: Mapping[str, str]) -> None:
        self._endpoint = endpoint
        self._signature = signature

    async def answer(self, request: Request) -> Response:
        body: dict[str, Any] = {"contents": _contents(request.messages, self._signature)}
        if system := [{"text": message.content} for message in request.messages if message.role == "system"]:
            body["systemInstruction"] = {"parts": system}
        answer = await self._endpoint.ask(body, _decoder, request.timeout_s)
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
            usage=_usage(answer.usage_metadata),
            model=answer.model_version,
            finish_reason=candidate.finish_reason,
        )


def _contents(messages: Iterable[Message], signature: Mapping[str, str]) -> list[dict[str, Any]]:
    """The conversation without its system turns; the results of one round of tools belong in one turn."""
    contents: list[dict[str, Any]] = []
    names: dict[str | None, str] = {}
    in_results = False
    for message in messages:
        if message.role == "system":
            continue
        if message.role == "tool":
            part = _result(message, names.get(message.tool_call_id))
            if in_results:
                contents[-1]["parts"].append(part)
            else:
                contents.append({"role": "user", "parts": [part]})
        else:
            names.update((call.id, call.name) for call in message.tool_calls)
            role = "model" if message.role == "assistant" else "user"
            contents.append({"role": role, "parts": _parts(message, signature)})
        in_results = message.role == "tool"
    return contents


def _parts(message: Message, signature: Mapping[str, str]) -> list[dict[str, Any]]:
    text = [{"text": message.content}] if message.content or not message.tool_calls else []
    return [*text, *({"functionCall": _asked(call), **signature} for call in message.tool_calls)]


def _asked(call: ToolCall) -> dict[str, Any]:
    arguments = {"arguments": call.arguments} if isinstance(call.arguments, str) else call.arguments
    return {"name": call.name, "args": arguments, **({"id": call.id} if call.id else {})}


def _result(message: Message, name: str | None) -> dict[str, Any]:
    """A tool's result; Gemini knows it by the function's name and wants an object."""
    identity = {"id": message.tool_call_id} if message.tool_call_id else {}
    response = {"output": message.content}
    return {"functionResponse": {**identity, "name": name or message.tool_call_id or "tool", "response": response}}


# The answer, as far as it is needed.


class _Call(Struct, rename="camel"):
    name: str
    args: dict[str, Any] | None = None
    id: str | None = None


class _Part(Struct, rename="camel"):
    text: str | None = None
    thought: bool = False
    function_call: _Call | None = None


class _Content(Struct, rename="camel"):
    parts: list[_Part] | None = None


class _Candidate(Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None


class _Feedback(Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Usage(Struct, rename="camel"):
    prompt_token_count: int = 0
    candidates_token_count: int = 0
    thoughts_token_count: int = 0
    tool_use_prompt_token_count: int = 0
    cached_content_token_count: int = 0


class _Answer(Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Usage | None = None
    model_version: str | None = None


_decoder = msgspec.json.Decoder(_Answer)


def _usage(usage: _Usage | None) -> Usage | None:
    """Thoughts are paid as output; what tools of Google's own fetched is paid as input."""
    if usage is None:
        return None
    return Usage(
        input_tokens=usage.prompt_token_count + usage.tool_use_prompt_token_count,
        output_tokens=usage.candidates_token_count + usage.thoughts_token_count,
        cached_tokens=usage.cached_content_token_count,
    )


def _no_candidate(feedback: _Feedback | None, host: str | None) -> ProviderError:
    if feedback is None or feedback.block_reason is None:
        return ProviderError("bad_answer", f"{host} answered without a candidate and without a reason")
    why = (
        f"{feedback.block_reason}: {feedback.block_reason_message}"
        if feedback.block_reason_message
        else feedback.block_reason
    )
    return ProviderError(
        "rejected", f"{host} blocked the prompt ({readable(why)}); change the prompt or safetySettings"
    )
