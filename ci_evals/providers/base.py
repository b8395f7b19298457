"""The seam of providers: options, as written in the YAML, open into something that answers."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import aiohttp

from ci_evals.model.case import Case, Request
from ci_evals.model.fields import (
    Above0,
    Bool,
    Concurrency,
    Many,
    NonEmpty,
    NonNegative,
    Options,
    Retries,
    Seconds,
)
from ci_evals.model.response import Detail, Message, Response
from ci_evals.providers.serve import Serve
from ci_evals.providers.tokens import Tokens


def overrides_of(case: Case) -> dict[str, Any]:
    """Return a case's own settings of the provider, as the team's code gets them."""
    return {"model": case.overrides.model, "params": case.overrides.params}


def content_fields(message: Message) -> str | list[dict[str, str]]:
    """Return what a message says as the team's code gets it: text, or its parts with paths from the
    suite's folder.
    """
    if isinstance(message.content, str):
        return message.content
    return [
        {
            key: data_url(value, part.media_type) if isinstance(value, bytes) else value
            for key in ("text", "image", "file", "media_type")
            if (value := getattr(part, key)) is not None
        }
        for part in message.content
    ]


def data_url(data: bytes, media_type: str | None) -> str:
    """Return bytes as a URL (RFC 2397)."""
    return f"data:{media_type or ''};base64,{b64encode(data).decode()}"


def message_fields(message: Message) -> dict[str, Any]:
    """Return a message as the team's code gets it: `role`, `content`, and of the rest what it
    has.
    """
    fields: dict[str, Any] = {"role": message.role, "content": content_fields(message)}
    if message.tool_calls:
        fields["tool_calls"] = [
            {
                "name": call.name,
                "arguments": call.arguments,
                **({"id": call.id} if call.id is not None else {}),
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Price(Options):
    """The price of a provider's tokens, in USD per million tokens."""

    input_per_mtok: NonNegative
    output_per_mtok: NonNegative
    cached_per_mtok: NonNegative | None = None


class Provider(Protocol):
    """Answers requests. Raises `ProviderError` when it can't; anything else that it raises is a
    crash.
    """

    async def answer(self, request: Request) -> Response: ...


class Resources(Protocol):
    """Resources of the engine for providers, while it runs."""

    @property
    def folder(self) -> Path:
        """The config's folder: relative paths start here."""
        ...

    @property
    def max_concurrency(self) -> int:
        """The number of calls of one provider that may be under way."""
        ...

    @property
    def stack(self) -> AsyncExitStack:
        """Closed when the run ends."""
        ...

    @property
    def observe(self) -> Callable[[Mapping[str, str]], None]:
        """Takes the headers of each HTTP answer, for what they say of rate limits."""
        ...

    @property
    def files(self) -> Path | None:
        """The folder for files that a run leaves behind, beside the reports; None if nothing is to
        be kept.
        """
        ...

    @property
    def tokens(self) -> Tokens:
        """The bearer tokens that commands print."""
        ...

    @property
    def session(self) -> aiohttp.ClientSession:
        """One HTTP session for everything; it sets no time-outs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderOptions(Options):
    """Settings that every provider has.

    Args:
        name: its name in reports and `--providers`; derived from its settings when left out.
        max_concurrency: calls under way at once, within the suite's own limit; or `unlimited`.
        timeout_s: seconds a call may take; the suite's value when left out.
        retries: further attempts after a refused or lost call; the suite's value when left out.
        on_error: whether a run without an answer counts as failed (`fail`) or is left out of the
            rate (`exclude`).
        price: USD per million tokens, for costs that are not publicly listed; or the name of a
            model that is.
        rpm: requests per minute that the provider allows.
        tpm: tokens per minute that it allows, asked and answered together.
        before: what the input goes through before it is asked, in order: providers by name, or
            `module:function`.
        after: what the answer goes through, likewise.
        cache: whether what stages made is kept in the results folder and taken from there.
        serve: the service that it talks to, started before the run and ended after it.
        limit_group: providers of the same group share their `rpm` and `tpm`, as models behind one
            key do.
    """

    kind: ClassVar[str]
    """The `type` in the YAML."""
    own_code: ClassVar[bool] = False
    """True if it calls the team's own code, so that a crash is the change's fault."""
    retried: ClassVar[bool] = True
    """True if the suite's `retries` apply."""
    embeds: ClassVar[bool] = False
    """True if it answers with embeddings instead of text."""
    works_on_tasks: ClassVar[bool] = False
    """True if it works on task folders, and on nothing else."""
    portable: ClassVar[bool] = False
    """True if it needs nothing but the suite's folder, so that an executor may run it on another
    machine.
    """

    name: str | None = None
    max_concurrency: Concurrency | None = None
    timeout_s: Seconds | None = None
    retries: Retries | None = None
    on_error: Literal["fail", "exclude"] | None = None
    price: Price | NonEmpty | None = None
    rpm: Above0 | None = None
    tpm: Above0 | None = None
    limit_group: str | None = None
    before: Many[str] = ()
    after: Many[str] = ()
    cache: Bool = True
    serve: Serve | None = None

    @property
    def default_name(self) -> str:
        """A name for when the suite gives none: `openai:gpt-4o-mini`."""
        return self.kind

    @property
    def tells(self) -> Sequence[Detail]:
        """The facts that its answers may carry beside the output."""
        return ("cost", "steps", "context", "first_token")

    @property
    def api_url(self) -> str | None:
        """The endpoint whose public price list applies; None for anything without one."""
        return None

    @property
    def key_variable(self) -> str | None:
        """The environment variable to take the key from; None when the config names one or none is
        needed.
        """
        return None

    def problems(self, folder: Path) -> list[str]:
        """Return what is wrong as far as it shows before any call: a missing file, a module that
        does not exist.
        """
        return []

    def misfits(self, requests: Iterable[Request]) -> Iterator[tuple[Request, str]]:
        """Yield requests that cannot be sent, as far as that shows before any call, each with the
        reason.
        """
        return iter(())

    def open(self, resources: Resources) -> Provider:
        """Make the live provider; what it holds open is put on `resources.stack`."""
        raise NotImplementedError
