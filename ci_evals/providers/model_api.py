"""The base of the model APIs: their settings, their address and key, and the shape of a
conversation.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from multidict import CIMultiDict
from pydantic import TypeAdapter
from yarl import URL

from ci_evals.errors import ProviderError
from ci_evals.model.fields import Bool, Secret
from ci_evals.model.response import Detail, Message
from ci_evals.providers.answer import encode_json
from ci_evals.providers.base import ProviderOptions, Resources
from ci_evals.providers.http_client import (
    END_OF_STREAM,
    Call,
    Event,
    Reply,
    decode,
    header_problems,
    readable,
    send,
    token_problems,
    url_problems,
)
from ci_evals.providers.tokens import Token, TokenCommand

_ON_THIS_MACHINE = re.compile(r"https?://(localhost|127\.|\[::1\])", re.IGNORECASE)
_PARAMS = (  # that are taken for keys of the provider
    "frequency_penalty", "logprobs", "max_completion_tokens", "max_tokens", "presence_penalty", "reasoning_effort",
    "response_format", "seed", "stop", "stop_sequences", "temperature", "thinking", "tool_choice", "tools", "top_k",
    "top_logprobs", "top_p",
)  # fmt: skip

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions(ProviderOptions):
    """Settings that every model API has.

    Args:
        model: the model's name, as the vendor writes it.
        base_url: where the API is; the vendor's own address when left out.
        api_key: the key, if the endpoint wants one.
        token: a command that prints a bearer token, instead of a key.
        params: further fields of the request body, in the vendor's own words.
        headers: further HTTP headers; they win over those that are set by themselves.
        stream: have the answer streamed, so that the time to its first token is measured.
    """

    default_key_variable: ClassVar[str]
    vendor_host: ClassVar[str]
    key_header: ClassVar[str]
    key_prefix: ClassVar[str] = ""
    reserved: ClassVar[tuple[str, ...]] = ("model", "messages", "stream")
    """The fields of the body that ci-evals sets."""
    settings: ClassVar[Mapping[str, str]] = {name: f"params.{name}" for name in _PARAMS}
    """Where a vendor's setting belongs that is often written beside `model`."""

    model: str
    base_url: str
    api_key: Secret | None = None
    token: TokenCommand | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: Bool = False

    @property
    def default_name(self) -> str:
        return f"{self.kind}:{self.model}"

    @property
    def tells(self) -> Sequence[Detail]:
        return ("cost", "first_token") if self.stream else ("cost",)

    @property
    def api_url(self) -> str | None:
        return None if _ON_THIS_MACHINE.match(self.base_url) else self.base_url

    @property
    def key_variable(self) -> str | None:
        at_vendor = re.match(
            rf"https?://([\w.-]+\.)?{re.escape(self.vendor_host)}(?![\w.-])", self.base_url
        )
        return (
            self.default_key_variable
            if at_vendor and self.api_key is None and self.token is None
            else None
        )

    def problems(self, folder: Path) -> list[str]:
        reserved = [name for name in self.reserved if name in self.params]
        advice = {"stream": "write `stream: true` beside `model`"}
        return [
            *(["model: is empty"] if not self.model.strip() else []),
            *url_problems("base_url", self.base_url),
            *(
                f"params.{name}: is set by ci-evals itself; {advice.get(name, 'leave it out')}"
                for name in reserved
            ),
            *header_problems(self.headers),
            *token_problems(self.token, self.headers),
            *(
                ["token: there is an `api_key`, too: leave one of them out"]
                if self.token and self.api_key
                else []
            ),
        ]

    def endpoint(
        self,
        resources: Resources,
        path: str,
        fields: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
    ) -> "Endpoint":
        """Return the API at a path below the base URL, whose own query is kept.

        Args:
            resources: the engine's.
            path: below the base URL.
            fields: sent in the body of every call.
            headers: sent with every call, as is the key; those of the config win.
        """
        base = URL(self.base_url)
        merged = CIMultiDict({"Content-Type": "application/json", **(headers or {})})
        if self.api_key:
            merged[self.key_header] = f"{self.key_prefix}{self.api_key.reveal().strip()}"
        merged.update(self.headers)
        token = resources.tokens.of(self.token) if self.token else None
        return Endpoint(
            resources, base.joinpath(*path.split("/")).with_query(base.query), merged, fields, token
        )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model API at one address, with the headers and body fields of every call."""

    resources: Resources
    url: URL
    headers: Mapping[str, str]
    fields: Mapping[str, Any]
    token: Token | None = None

    async def ask(
        self, fields: Mapping[str, Any], adapter: TypeAdapter[T], timeout_s: float
    ) -> tuple[T, float | None]:
        """Post `fields` beside those of every call; return the decoded answer, and its cost if a
        gateway tells it.

        Raises:
            ProviderError: there was none, or it has another shape.
        """
        reply = await self.post(fields, timeout_s)
        return self.read(adapter, reply), reply.cost_usd

    async def post(self, fields: Mapping[str, Any], timeout_s: float) -> Reply:
        """Post `fields` beside those of every call.

        Raises:
            ProviderError: there was no answer.
        """
        call = Call("POST", self.url, self.headers, encode_json({**self.fields, **fields}))
        return await send(self.resources, call, timeout_s=timeout_s, token=self.token)

    def read(self, adapter: TypeAdapter[T], reply: Reply) -> T:
        """Decode an answer; raises ProviderError if it has another shape."""
        return decode(adapter, reply.body, self.url.host)

    def read_events(
        self, adapter: TypeAdapter[T], events: Iterable[Event]
    ) -> Iterator[tuple[T, float]]:
        """Decode the events of a stream, each with when it came; raises ProviderError if one has
        another shape.
        """
        for event in events:
            if event.data.strip() not in (
                "",
                END_OF_STREAM,
            ):  # some keep a connection alive by events without data
                yield decode(adapter, event.data.encode(), self.url.host), event.after_s

    def broken_off(self, error: str = "") -> ProviderError:
        """Return the error that a stream ended before the answer did; the server may say why."""
        why = f": {readable(error)}" if error else " before the answer was complete"
        return ProviderError("network", f"{self.url.host} broke off its stream{why}")


def turns_of(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield a conversation turn by turn, without system messages; the results of one round of tools
    are one turn.
    """
    spoken = (message for message in messages if message.role != "system")
    for is_tool, group in groupby(spoken, key=lambda message: message.role == "tool"):
        if is_tool:
            yield list(group)
        else:
            yield from ([message] for message in group)
