"""Amazon Bedrock's Converse API: `POST {base_url}/model/{model}/converse`."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar
from urllib.parse import quote

from pydantic import TypeAdapter

from ci_evals.errors import ProviderError
from ci_evals.faults import Reported, kind_of_codes
from ci_evals.model.fields import NonEmpty
from ci_evals.model.request import Request, ToolDefinition
from ci_evals.model.response import Message, Part, Response, ToolCall, Usage
from ci_evals.providers.answer import arguments_object, read_arguments
from ci_evals.providers.base import NativeMessage, Provider, Resources, ToolRequest, ToolResult
from ci_evals.providers.http_messages import (
    Event,
    EventReader,
    HttpCredentials,
    authorization_problems,
    readable,
)
from ci_evals.providers.model_api import CamelCase, Endpoint, ModelOptions, system_texts_of
from ci_evals.providers.parts import address_refused, attach

_IN_INFERENCE_CONFIG = ("maxTokens", "stopSequences", "temperature", "topP")
_NAMES = {  # Converse's settings by their own names and by those of other vendors
    **{name: name for name in _IN_INFERENCE_CONFIG},
    "max_tokens": "maxTokens",
    "stop": "stopSequences",
    "stop_sequences": "stopSequences",
    "top_p": "topP",
}
_FORMATS = {  # formats of images and documents, by the end of a media type
    "jpeg": "jpeg",
    "png": "png",
    "gif": "gif",
    "webp": "webp",
    "pdf": "pdf",
    "csv": "csv",
    "msword": "doc",
    "vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "vnd.ms-excel": "xls",
    "vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "html": "html",
    "plain": "txt",
    "markdown": "md",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bedrock(ModelOptions):
    """A model of Amazon Bedrock. Settings such as the temperature go into `params.inferenceConfig`.

    Args:
        region: the AWS region; the environment's or the profile's when left out.
        profile: the profile of AWS's configuration whose credentials sign the calls.
    """

    kind: ClassVar[str] = "bedrock"
    default_key_variable: ClassVar[str | None] = None
    vendor_host: ClassVar[str] = "amazonaws.com"
    key_header: ClassVar[str] = "Authorization"
    key_prefix: ClassVar[str] = "Bearer "
    reserved: ClassVar[tuple[str, ...]] = ("model", "modelId", "messages", "stream")
    inner_keys: ClassVar[Mapping[str, str]] = {
        written: f"params.inferenceConfig.{name}" for written, name in _NAMES.items()
    }

    base_url: str = ""
    region: NonEmpty | None = None
    profile: NonEmpty | None = None

    @property
    def address(self) -> str:
        region = self.region or "us-east-1"
        return self.base_url or f"https://bedrock-runtime.{region}.amazonaws.com"

    @property
    def is_signed(self) -> bool:
        """True if the calls are signed with AWS credentials."""
        if self.api_key is not None or self.token is not None:
            return False
        return self.profile is not None or self.wants_credentials

    def problems(self, folder: Path) -> list[str]:
        if find_spec("botocore") is None:
            return ["needs botocore: `pip install 'ci-evals[bedrock]'`"]
        problems = ModelOptions.problems(self, folder)
        if self.is_signed:
            why = "the AWS credentials use this header; remove it, or set `api_key` instead"
            problems += authorization_problems(self.headers, why)
        for name in self.params:
            if name in _IN_INFERENCE_CONFIG:
                example = f"params: {{inferenceConfig: {{{name}: …}}}}"
                problems.append(f"params.{name}: belongs in `inferenceConfig`: {example}")
        return problems

    def credentials(self, resources: Resources) -> HttpCredentials | None:
        if self.is_signed:
            from ci_evals.plugins.clouds.aws import aws_credentials

            return aws_credentials(self.profile, self._with_region().region, resources)
        return ModelOptions.credentials(self, resources)

    def event_readers(self) -> Mapping[str, Callable[[float], EventReader]]:
        from ci_evals.plugins.clouds.aws import AmazonEventReader

        return {"application/vnd.amazon.eventstream": AmazonEventReader}

    def open(self, resources: Resources) -> Provider:
        operation = "converse"
        if self.stream:
            operation = "converse-stream"
        model = quote(self.model, safe="")  # an ARN has colons and slashes
        path = f"model/{model}/{operation}"
        located = self._with_region()
        return Converse(located.endpoint(resources, path, self.params, is_quoted=True))

    def _with_region(self) -> "Bedrock":
        """Return the settings with a region if one is needed."""
        if self.region is not None or (self.base_url and not self.is_signed):
            return self
        from ci_evals.plugins.clouds.aws import aws_region

        return replace(self, region=aws_region(self.profile))


class Converse:
    """The live endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def answer(self, request: Request) -> Response:
        fields: dict[str, Any] = {"messages": self._messages(request.messages)}
        system = [{"text": text} for text in system_texts_of(request.messages)]
        if system:
            fields["system"] = system
        if request.tools:
            config = self._endpoint.fields.get("toolConfig", {})
            tools = [*config.get("tools", ()), *map(_tool, request.tools)]
            fields["toolConfig"] = {**config, "tools": tools}
        reply = await self._endpoint.post(fields, request.timeout_s)
        if reply.events is None:
            answer = self._endpoint.read(_answer(), reply)
        else:
            answer = self._assemble(reply.events)
        if answer.output is None or answer.output.message is None:
            text = f"{self._endpoint.host} answered without a message: is this Bedrock's Converse?"
            raise ProviderError("bad_answer", text)
        output = ""
        tool_calls = []
        content = answer.output.message.content
        for block in content:
            output += block.text or ""
            if block.tool_use is not None:
                tool_calls.append(block.tool_use.call)
        usage = None
        if answer.usage is not None:
            usage = answer.usage.tokens
        response = Response(
            output=output,
            tool_calls=tuple(tool_calls),
            usage=usage,
            finish_reason=answer.stop_reason,
            cost_usd=reply.cost_usd,
            first_token_s=answer.first_token_s,
        )
        if request.tools and tool_calls:
            blocks = [block.sent_back for block in content]
            return ToolRequest.of(response, [block for block in blocks if block])
        return response

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return the turns of a conversation. The API requires that user and assistant alternate,
        and that tool results come from the user.
        """
        spoken = [message for message in messages if message.role != "system"]
        turns = []
        for role, group in groupby(spoken, key=_role):
            content = []
            for message in group:
                content += _blocks(message, self._endpoint.folder)
            turns.append({"role": role, "content": content})
        return turns

    def _assemble(self, events: Sequence[Event]) -> "_Answer":
        """Return a streamed answer in the form of one that is not streamed.

        Raises:
            ProviderError: the stream broke off, or an event has another shape.
        """
        blocks: dict[int, _Block] = {}
        stop_reason = usage = first_token_s = None
        for event, after_s in self._endpoint.read_events(_event(), events):
            if event.content_block_start is not None:
                start = event.content_block_start
                blocks[start.content_block_index] = _Block(tool_use=start.start.tool_use)
            if event.content_block_delta is not None:
                piece = event.content_block_delta
                block = blocks.setdefault(piece.content_block_index, _Block())
                is_output = block.add(piece.delta)
                if is_output and first_token_s is None:
                    first_token_s = after_s
            if event.message_stop is not None:
                stop_reason = event.message_stop.stop_reason
            if event.metadata is not None:
                usage = event.metadata.usage
        for raw_event in events:
            if raw_event.name.endswith("Exception"):
                raise self._exception(raw_event)
        if stop_reason is None:
            raise self._endpoint.broken_off()
        message = _Message([blocks[index] for index in sorted(blocks)])
        return _Answer(_Output(message), stop_reason, usage, first_token_s)

    def _exception(self, event: Event) -> ProviderError:
        """Return the error that ended a stream."""
        why, message = event.name, ""
        match json.loads(event.data):
            case {event.name: {"message": str(message)}}:
                why = f"{event.name}: {message}"
        text = f"{self._endpoint.host} broke off its stream: {readable(why)}"
        kind = kind_of_codes(Reported(message, (event.name,))) or "server"
        return ProviderError(kind, text)


# What is sent.


def _role(message: Message) -> str:
    if message.role == "assistant":
        return "assistant"
    return "user"


def _blocks(message: Message, folder: Path) -> list[dict[str, Any]]:
    if isinstance(message, NativeMessage):
        return list(message.native)
    if message.role == "tool":
        result: dict[str, Any] = {
            "toolUseId": message.tool_call_id,
            "content": [{"text": message.text}],
        }
        if isinstance(message, ToolResult) and message.is_error:
            result["status"] = "error"
        return [{"toolResult": result}]
    blocks = [_block(part, folder) for part in message.parts]
    calls = [_tool_use(call) for call in message.tool_calls]
    return blocks + calls


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": tool.name, "inputSchema": {"json": tool.parameters}}
    if tool.description:  # the API refuses an empty one
        spec["description"] = tool.description
    return {"toolSpec": spec}


def _tool_use(call: ToolCall) -> dict[str, Any]:
    use = {"toolUseId": call.id, "name": call.name, "input": arguments_object(call)}
    return {"toolUse": use}


def _block(part: Part, folder: Path) -> dict[str, Any]:
    if part.source is None:
        return {"text": part.text}
    sent = attach(part, folder)
    if sent.url is not None:
        raise address_refused(sent, "Bedrock")
    end = str(sent.media_type).rpartition("/")[2]
    form = _FORMATS.get(end)
    if form is None:
        formats = ", ".join(_FORMATS.values())
        text = f"Bedrock does not accept files of the type {sent.media_type}; it accepts {formats}"
        raise ProviderError("rejected", text)
    content = {"format": form, "source": {"bytes": sent.base64}}
    if sent.is_image:
        return {"image": content}
    # The API accepts only these characters in the name of a document.
    name = re.sub(r"[^A-Za-z0-9()\[\]-]+", " ", PurePosixPath(sent.name).stem).strip()
    return {"document": {"name": name or "file", **content}}


# The fields of an answer that are read.


@dataclass(slots=True)
class _ToolUse(CamelCase):
    name: str = ""
    tool_use_id: str | None = None
    input: Any = None

    @property
    def call(self) -> ToolCall:
        return ToolCall(self.name, read_arguments(self.input), self.tool_use_id)


@dataclass(slots=True)
class _Delta(CamelCase):
    text: str | None = None
    tool_use: _ToolUse | None = None
    reasoning_content: dict[str, Any] | None = None


@dataclass(slots=True)
class _Block(CamelCase):
    text: str | None = None
    tool_use: _ToolUse | None = None
    reasoning_content: dict[str, Any] | None = None

    @property
    def sent_back(self) -> dict[str, Any] | None:
        """The block as a part of the conversation; None if it is empty."""
        if self.tool_use is not None:
            return _tool_use(self.tool_use.call)
        if self.reasoning_content is not None:
            return {"reasoningContent": self.reasoning_content}
        if self.text:
            return {"text": self.text}
        return None

    def add(self, delta: _Delta) -> bool:
        """Add a piece; return False if it belongs to a thought instead of the output."""
        if delta.reasoning_content is not None:
            self._add_thought(delta.reasoning_content)
        if delta.text:
            self.text = (self.text or "") + delta.text
        if delta.tool_use is not None:
            self.tool_use = self.tool_use or _ToolUse()
            self.tool_use.input = (self.tool_use.input or "") + (delta.tool_use.input or "")
        return bool(delta.text) or delta.tool_use is not None

    def _add_thought(self, piece: Mapping[str, Any]) -> None:
        """Add a piece of a thought: text, the signature, or a whole encrypted thought."""
        if "redactedContent" in piece:
            self.reasoning_content = dict(piece)
            return
        if self.reasoning_content is None:
            self.reasoning_content = {"reasoningText": {"text": ""}}
        thought = self.reasoning_content.get("reasoningText", {})
        for name, value in piece.items():
            thought[name] = thought.get(name, "") + str(value)


@dataclass(slots=True)
class _Message(CamelCase):
    content: list[_Block] = field(default_factory=list)


@dataclass(slots=True)
class _Output(CamelCase):
    message: _Message | None = None


@dataclass(slots=True)
class _Usage(CamelCase):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None

    @property
    def tokens(self) -> Usage:
        """All tokens. The API's `inputTokens` excludes tokens of the cache."""
        cached = self.cache_read_input_tokens or 0
        written = self.cache_write_input_tokens or 0
        return Usage(self.input_tokens + written + cached, self.output_tokens, cached, written)


@dataclass(slots=True)
class _Answer(CamelCase):
    output: _Output | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
    first_token_s: float | None = None


@dataclass(slots=True)
class _Start(CamelCase):
    tool_use: _ToolUse | None = None


@dataclass(slots=True)
class _BlockStart(CamelCase):
    start: _Start = field(default_factory=_Start)
    content_block_index: int = 0


@dataclass(slots=True)
class _BlockDelta(CamelCase):
    delta: _Delta = field(default_factory=_Delta)
    content_block_index: int = 0


@dataclass(slots=True)
class _Stop(CamelCase):
    stop_reason: str | None = None


@dataclass(slots=True)
class _Metadata(CamelCase):
    usage: _Usage | None = None


@dataclass(slots=True)
class _Event(CamelCase):
    content_block_start: _BlockStart | None = None
    content_block_delta: _BlockDelta | None = None
    message_stop: _Stop | None = None
    metadata: _Metadata | None = None


@cache
def _answer() -> TypeAdapter[_Answer]:
    return TypeAdapter(_Answer)


@cache
def _event() -> TypeAdapter[_Event]:
    return TypeAdapter(_Event)
