"""The model APIs of the mock server: the body of a request, and answers in their shapes."""

import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from struct import pack
from typing import Annotated, Any, ClassVar, Literal, Protocol
from zlib import crc32

from pydantic import AfterValidator, Field

from ci_evals.faults import ErrorKind
from ci_evals.model.response import Message, Response, Role, Usage
from ci_evals.providers.answer import arguments_object, arguments_text
from ci_evals.providers.http_messages import END_OF_STREAM

Json = dict[str, Any]

_DIMENSIONS = 256
_FRAME_BYTES = 16  # of AWS's events, besides headers and payload: two lengths, two checksums
_STRING = 7  # the type of a header in AWS's events


class ModelApi(Protocol):
    """One model API: renders answers, streams and errors."""

    body: ClassVar[type[Any]]
    """The type of a request's body. Its `turns` are the conversation, oldest message first."""
    end_of_stream: ClassVar[str]
    """The data of the event that ends a stream; empty for none."""
    stream_type: ClassVar[str] = "text/event-stream"
    """The content type of a stream."""

    def render(self, response: Response, model: str, number: int) -> Json:
        """Return the `number`-th answer."""

    def events(self, answer: Json) -> Iterator[tuple[str, Json]]:
        """Yield the name, which may be empty, and the data of each event that streams an answer."""

    def frame(self, name: str, data: Json) -> bytes:
        """Return an event as it is sent."""
        event = b"data: " + json.dumps(data).encode() + b"\n\n"
        if name:
            event = f"event: {name}\n".encode() + event
        return event

    def error(self, status: int, kind: ErrorKind | None, message: str) -> Json:
        """Return the body of an error."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a message; only the type of images and files is read."""

    type: str = "text"
    text: str = ""
    content: "str | list[_Part] | None" = None
    """The result of a tool, in Anthropic's API."""

    @property
    def words(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.words for part in self.content)
        return self.content or self.text


@dataclass(frozen=True, slots=True)
class _ApiMessage:
    """A message of OpenAI's or Anthropic's APIs, or an item of OpenAI's responses."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"] = "tool"
    content: str | list[_Part] | None = None
    type: str = "message"
    output: str = ""
    """The result of a tool, in OpenAI's responses."""

    @property
    def turns(self) -> Sequence[Message]:
        if self.type == "function_call_output":
            return [Message("tool", self.output)]
        if self.type != "message":
            return [Message("assistant")]
        text = self.content or ""
        if not isinstance(text, str):
            results = [part for part in text if part.type == "tool_result"]
            if results:
                return [Message("tool", part.words) for part in results]
            text = "".join(part.text for part in text)
        role: Role
        match self.role:
            case "developer":
                role = "system"
            case "function":
                role = "tool"
            case other:
                role = other
        return [Message(role, text)]


def _turns_of(written: Iterable[_ApiMessage]) -> list[Message]:
    return [turn for message in written for turn in message.turns]


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+\s*$|\s*\S+", text)


# OpenAI's chat completions.


def _check_choices(count: int) -> int:
    if count != 1:
        raise ValueError("the mock server returns one choice: remove 'n' or set it to 1")
    return count


@dataclass(frozen=True, slots=True)
class _ChatBody:
    model: str
    messages: Annotated[list[_ApiMessage], Field(min_length=1)]
    stream: bool | None = None
    n: Annotated[int, AfterValidator(_check_choices)] | None = None

    @property
    def turns(self) -> Sequence[Message]:
        return _turns_of(self.messages)


class ChatCompletions(ModelApi):
    """OpenAI's chat completions."""

    body = _ChatBody
    end_of_stream = END_OF_STREAM

    def render(self, response: Response, model: str, number: int) -> Json:
        message: Json = {"role": "assistant", "content": response.output, "refusal": None}
        if response.tool_calls:
            message["content"] = response.output or None
            message["tool_calls"] = [
                {
                    "id": call.id or f"call_{index}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": arguments_text(call)},
                }
                for index, call in enumerate(response.tool_calls)
            ]
        usage = response.usage or Usage()
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": response.finish_reason,
            "logprobs": None,
        }
        return {
            "id": f"chatcmpl-mock-{number}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "choices": [choice],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.total_tokens,
            },
        }

    def events(self, answer: Json) -> Iterator[tuple[str, Json]]:
        """Yield an answer word by word; the usage comes last, even if it was not requested."""
        choice = answer["choices"][0]
        message = choice["message"]
        shared = {**answer, "object": "chat.completion.chunk"}

        def chunk(delta: Json, finish_reason: str | None = None) -> tuple[str, Json]:
            part = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
            return "", {**shared, "choices": [part], "usage": None}

        yield chunk({"role": "assistant", "content": ""})
        for word in _words(message["content"] or ""):
            yield chunk({"content": word})
        for index, call in enumerate(message.get("tool_calls", ())):
            yield chunk({"tool_calls": [{"index": index, **call}]})
        yield chunk({}, choice["finish_reason"])
        yield "", {**shared, "choices": []}

    def error(self, status: int, kind: ErrorKind | None, message: str) -> Json:
        del status
        return openai_error(kind, message)


def openai_error(kind: ErrorKind | None, message: str) -> Json:
    """Return the body of an error of OpenAI's APIs."""
    names: dict[ErrorKind | None, str] = {
        "server": "server_error",
        "rate_limit": "rate_limit_error",
    }
    name = names.get(kind, "invalid_request_error")
    return {"error": {"message": message, "type": name, "param": None, "code": None}}


# OpenAI's responses.


@dataclass(frozen=True, slots=True)
class _ResponsesBody:
    model: str
    input: str | Annotated[list[_ApiMessage], Field(min_length=1)]
    instructions: str | None = None
    stream: bool | None = None

    @property
    def turns(self) -> Sequence[Message]:
        turns = []
        if self.instructions:
            turns.append(Message("system", self.instructions))
        if isinstance(self.input, str):
            return [*turns, Message("user", self.input)]
        return [*turns, *_turns_of(self.input)]


class Responses(ModelApi):
    """OpenAI's responses."""

    body = _ResponsesBody
    end_of_stream = ""

    def render(self, response: Response, model: str, number: int) -> Json:
        output: list[Json] = []
        if response.output or not response.tool_calls:
            part = {"type": "output_text", "text": response.output, "annotations": []}
            output.append(
                {
                    "type": "message",
                    "id": f"msg_mock_{number}",
                    "role": "assistant",
                    "status": "completed",
                    "content": [part],
                }
            )
        for index, call in enumerate(response.tool_calls):
            output.append(
                {
                    "type": "function_call",
                    "id": f"fc_mock_{number}_{index}",
                    "call_id": call.id or f"call_{index}",
                    "name": call.name,
                    "arguments": arguments_text(call),
                    "status": "completed",
                }
            )
        usage = response.usage or Usage()
        return {
            "id": f"resp_mock_{number}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "model": model,
            "output": output,
            "usage": {
                "input_tokens": usage.input_tokens,
                "input_tokens_details": {"cached_tokens": usage.cached_tokens},
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage.total_tokens,
            },
        }

    def events(self, answer: Json) -> Iterator[tuple[str, Json]]:
        """Yield the words of the text, and finally the whole answer."""
        numbered: list[Json] = [
            {
                "type": "response.created",
                "response": {**answer, "status": "in_progress", "output": [], "usage": None},
            }
        ]
        for index, item in enumerate(answer["output"]):
            numbered.append(
                {"type": "response.output_item.added", "output_index": index, "item": item}
            )
            for part in item.get("content", ()):
                numbered += [
                    {
                        "type": "response.output_text.delta",
                        "item_id": item["id"],
                        "output_index": index,
                        "content_index": 0,
                        "delta": word,
                    }
                    for word in _words(part["text"])
                ]
            numbered.append(
                {"type": "response.output_item.done", "output_index": index, "item": item}
            )
        numbered.append({"type": "response.completed", "response": answer})
        for number, event in enumerate(numbered):
            yield event["type"], {**event, "sequence_number": number}

    def error(self, status: int, kind: ErrorKind | None, message: str) -> Json:
        del status
        return openai_error(kind, message)


# Anthropic's messages.


@dataclass(frozen=True, slots=True)
class _MessagesBody:
    model: str
    messages: Annotated[list[_ApiMessage], Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)]
    system: str | list[_Part] | None = None
    stream: bool | None = None

    @property
    def turns(self) -> Sequence[Message]:
        return _turns_of([_ApiMessage("system", self.system), *self.messages])


class AnthropicMessages(ModelApi):
    """Anthropic's messages."""

    body = _MessagesBody
    end_of_stream = ""

    def render(self, response: Response, model: str, number: int) -> Json:
        content: list[Json] = []
        if response.output or not response.tool_calls:
            content.append({"type": "text", "text": response.output})
        for index, call in enumerate(response.tool_calls):
            content.append(
                {
                    "type": "tool_use",
                    "id": call.id or f"toolu_{index}",
                    "name": call.name,
                    "input": arguments_object(call),
                }
            )
        stop_reason = "end_turn"
        if response.tool_calls:
            stop_reason = "tool_use"
        usage = response.usage or Usage()
        return {
            "id": f"msg_mock_{number}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
        }

    def events(self, answer: Json) -> Iterator[tuple[str, Json]]:
        started = {**answer, "content": [], "stop_reason": None}
        started["usage"] = {**answer["usage"], "output_tokens": 0}
        yield self._event("message_start", message=started)
        for index, block in enumerate(answer["content"]):
            if block["type"] == "text":
                empty = {**block, "text": ""}
                deltas = [{"type": "text_delta", "text": word} for word in _words(block["text"])]
            else:
                empty = {**block, "input": {}}
                written = json.dumps(block["input"])
                deltas = [{"type": "input_json_delta", "partial_json": written}]
            yield self._event("content_block_start", index=index, content_block=empty)
            for delta in deltas:
                yield self._event("content_block_delta", index=index, delta=delta)
            yield self._event("content_block_stop", index=index)
        end = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        usage = {"output_tokens": answer["usage"]["output_tokens"]}
        yield self._event("message_delta", delta=end, usage=usage)
        yield self._event("message_stop")

    def _event(self, kind: str, **fields: Any) -> tuple[str, Json]:
        return kind, {"type": kind, **fields}

    def error(self, status: int, kind: ErrorKind | None, message: str) -> Json:
        del status
        names: dict[ErrorKind | None, str] = {
            "server": "api_error",
            "rate_limit": "rate_limit_error",
        }
        name = names.get(kind, "invalid_request_error")
        return {"type": "error", "error": {"type": name, "message": message}}


# Gemini's `generateContent`.


@dataclass(frozen=True, slots=True)
class _FunctionResponse:
    response: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return str(self.response.get("output", self.response))


@dataclass(frozen=True, slots=True)
class _GeminiPart:
    text: str = ""
    functionResponse: _FunctionResponse | None = None  # noqa: N815  Gemini's own name


@dataclass(frozen=True, slots=True)
class _Content:
    parts: list[_GeminiPart] = field(default_factory=list)
    role: Literal["user", "model", "function"] = "user"

    @property
    def turns(self) -> Sequence[Message]:
        results = [part.functionResponse for part in self.parts if part.functionResponse]
        if results:
            return [Message("tool", result.text) for result in results]
        roles: Mapping[str, Role] = {"user": "user", "model": "assistant", "function": "tool"}
        return [Message(roles[self.role], "".join(part.text for part in self.parts))]


@dataclass(frozen=True, slots=True)
class _GeminiBody:
    contents: Annotated[list[_Content], Field(min_length=1)]

    @property
    def turns(self) -> Sequence[Message]:
        return [turn for content in self.contents for turn in content.turns]


class GenerateContent(ModelApi):
    """Gemini's `generateContent`, and `streamGenerateContent` as server-sent events."""

    body = _GeminiBody
    end_of_stream = ""

    def render(self, response: Response, model: str, number: int) -> Json:
        parts: list[Json] = []
        if response.output or not response.tool_calls:
            parts.append({"text": response.output})
        parts += [
            {"functionCall": {"name": call.name, "args": arguments_object(call)}}
            for call in response.tool_calls
        ]
        usage = response.usage or Usage()
        candidate = {
            "content": {"role": "model", "parts": parts},
            "finishReason": "STOP",
            "index": 0,
        }
        return {
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": usage.input_tokens,
                "candidatesTokenCount": usage.output_tokens,
                "totalTokenCount": usage.total_tokens,
            },
            "modelVersion": model,
            "responseId": f"mock-{number}",
        }

    def events(self, answer: Json) -> Iterator[tuple[str, Json]]:
        (candidate,) = answer["candidates"]
        pieces: list[Json] = []
        for part in candidate["content"]["parts"]:
            words = _words(part.get("text", ""))
            pieces += [{"text": word} for word in words]
            if "functionCall" in part:
                pieces.append(part)
        for piece in pieces:
            content = {"role": "model", "parts": [piece]}
            names = {name: answer[name] for name in ("modelVersion", "responseId")}
            yield "", {"candidates": [{"content": content, "index": 0}], **names}
        last = {"content": {"role": "model", "parts": []}, "finishReason": "STOP", "index": 0}
        yield "", {**answer, "candidates": [last]}

    def error(self, status: int, kind: ErrorKind | None, message: str) -> Json:
        names: dict[ErrorKind | None, str] = {
            "server": "INTERNAL",
            "rate_limit": "RESOURCE_EXHAUSTED",
        }
        name = names.get(kind, "INVALID_ARGUMENT")
        return {"error": {"code": status, "message": message, "status": name}}


# Bedrock's Converse.


@dataclass(frozen=True, slots=True)
class _ConverseBlock:
    """A block of a message; images, documents and tool calls are ignored."""

    text: str = ""
    toolResult: dict[str, Any] | None = None  # noqa: N815  the API's own name


@dataclass(frozen=True, slots=True)
class _ConverseTurn:
    role: Literal["user", "assistant"]
    content: Annotated[list[_ConverseBlock], Field(min_length=1)]

    @property
    def turn(self) -> Message:
        text = "".join(block.text for block in self.content)
        if not text and any(block.toolResult is not None for block in self.content):
            return Message("tool", "")
        return Message(self.role, text)


@dataclass(frozen=True, slots=True)
class _ConverseBody:
    messages: Annotated[list[_ConverseTurn], Field(min_length=1)]

    @property
    def turns(self) -> Sequence[Message]:
        return [message.turn for message in self.messages]


class BedrockConverse(ModelApi):
    """Amazon Bedrock's `converse`, and `converse-stream` in AWS's binary framing."""

    body = _ConverseBody
    end_of_stream = ""
    stream_type = "application/vnd.amazon.eventstream"

    def render(self, response: Response, model: str, number: int) -> Json:
        content: list[Json] = []
        if response.output or not response.tool_calls:
            content.append({"text": response.output})
        for index, call in enumerate(response.tool_calls):
            use = {
                "toolUseId": call.id or f"tooluse_{number}_{index}",
                "name": call.name,
                "input": arguments_object(call),
            }
            content.append({"toolUse": use})
        stop_reason = "end_turn"
        if response.tool_calls:
            stop_reason = "tool_use"
        usage = response.usage or Usage()
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": stop_reason,
            "usage": {
                "inputTokens": usage.input_tokens,
                "outputTokens": usage.output_tokens,
                "totalTokens": usage.total_tokens,
            },
            "metrics": {"latencyMs": 0},
        }

    def events(self, answer: Json) -> Iterator[tuple[str, Json]]:
        yield "messageStart", {"role": "assistant"}
        for index, block in enumerate(answer["output"]["message"]["content"]):
            place = {"contentBlockIndex": index}
            deltas: list[Json] = [{"text": word} for word in _words(block.get("text", ""))]
            if "toolUse" in block:
                use = dict(block["toolUse"])
                written = json.dumps(use.pop("input"))
                yield "contentBlockStart", {"start": {"toolUse": use}, **place}
                deltas = [{"toolUse": {"input": written}}]
            for delta in deltas:
                yield "contentBlockDelta", {"delta": delta, **place}
            yield "contentBlockStop", place
        yield "messageStop", {"stopReason": answer["stopReason"]}
        yield "metadata", {"usage": answer["usage"], "metrics": answer["metrics"]}

    def frame(self, name: str, data: Json) -> bytes:
        headers = b""
        for key, value in (
            (":message-type", "event"),
            (":event-type", name),
            (":content-type", "application/json"),
        ):
            headers += pack("!B", len(key)) + key.encode()
            headers += pack("!BH", _STRING, len(value)) + value.encode()
        payload = json.dumps(data).encode()
        prelude = pack("!II", len(headers) + len(payload) + _FRAME_BYTES, len(headers))
        prelude += pack("!I", crc32(prelude))
        message = prelude + headers + payload
        return message + pack("!I", crc32(message))

    def error(self, status: int, kind: ErrorKind | None, message: str) -> Json:
        del status, kind
        return {"message": message}


# OpenAI's embeddings.


@dataclass(frozen=True, slots=True)
class EmbeddingsBody:
    """A request for vectors."""

    model: str
    input: str | Annotated[list[str] | list[list[int]] | list[int], Field(min_length=1)]
    """Texts, or texts as tokens, which some frameworks send."""
    dimensions: Annotated[int, Field(ge=1, le=4096)] = _DIMENSIONS


def render_embeddings(body: EmbeddingsBody) -> Json:
    """Return a vector for each text; texts that share words are close."""
    texts = _texts_of(body.input)
    data = [
        {"object": "embedding", "index": index, "embedding": _vector(text, body.dimensions)}
        for index, text in enumerate(texts)
    ]
    tokens = sum(map(len, texts)) // 4
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": body.model, "usage": usage}


def _texts_of(written: str | list[str] | list[list[int]] | list[int]) -> list[str]:
    """Return the texts of a request; the numbers of its tokens are the words of a text."""
    if isinstance(written, str):
        return [written]
    if isinstance(written[0], int):
        return [" ".join(map(str, written))]
    texts = []
    for entry in written:
        if isinstance(entry, list):
            texts.append(" ".join(map(str, entry)))
        else:
            texts.append(str(entry))
    return texts


def _vector(text: str, dimensions: int) -> list[float]:
    """Return a vector of length 1."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [text]:
        vector[crc32(word.encode()) % dimensions] += 1.0
    length = math.hypot(*vector)
    return [value / length for value in vector]
