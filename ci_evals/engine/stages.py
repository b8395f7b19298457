"""Stages before and after a provider: text → speech → agent → transcript."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from ci_evals.engine.journal import digest_of, keep_file
from ci_evals.errors import ProviderError, StorageError
from ci_evals.faults import party_at_fault
from ci_evals.files import untrusted_path, write_atomically
from ci_evals.graders.thoughts import settle_thoughts
from ci_evals.model.fingerprint import digest
from ci_evals.model.request import Request
from ci_evals.model.response import Content, Message, Part, Response
from ci_evals.providers.base import Provider, ProviderOptions
from ci_evals.providers.parts import asks_messages, message_fields
from ci_evals.providers.pricing import Pricer, total_usd
from ci_evals.user_code.targets import find_module

Ask = Callable[[Request], Awaitable[Response]]

_CACHE = "cache"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage: its name in the suite, the call that answers, and the settings or code that its
    answers depend on (`identity`).

    `price` prices the answers of a provider; a function of the team's own has none.
    """

    name: str
    ask: Ask
    identity: Any
    price: Pricer | None = None


class StagedProvider:
    """A provider with its stages, whose outputs are cached by content.

    Args:
        options: the provider's settings.
        provider: the provider itself.
        price: prices its answers.
        before: the stages that its input passes through, in order.
        after: the stages that its answer passes through.
        folder: the results folder, with the cache; None keeps nothing.
    """

    def __init__(
        self,
        options: ProviderOptions,
        provider: Provider,
        price: Pricer,
        before: Sequence[Stage],
        after: Sequence[Stage],
        folder: Path | None,
    ) -> None:
        self._options = options
        self._provider = provider
        self._price = price
        self._before = before
        self._after = after
        self._folder = folder
        # A lock exists as long as a run holds or awaits it: a suite has thousands of contents.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def answer(self, request: Request) -> Response:
        """Pass the input through the stages before, ask, and pass the answer through those after.

        Raises:
            ProviderError: a stage or the provider could not answer.
        """
        trip = _Trip(request)
        asked = request
        if self._before:
            value: str | Content = request.input
            if asks_messages(request):
                value = request.messages[-1].text
            for stage in self._before:
                value = await self._pass(stage, value, trip)
            asked = self._with_input(request, value)
        response = await self._provider.answer(asked)
        response = settle_thoughts(response, keep=self._options.thoughts == "keep")
        kept = [await asyncio.to_thread(keep_file, file, self._folder) for file in response.files]
        trip.files += kept
        value = kept[0] if kept else response.output
        for stage in self._after:
            value = await self._pass(stage, value, trip)
        output, cost_usd = response.output, response.cost_usd
        if isinstance(value, str):
            output = value
        if trip.costs_usd:
            cost_usd = total_usd([self._price(response), *trip.costs_usd])
        return replace(
            response,
            output=output,
            files=tuple(trip.files),
            cost_usd=cost_usd,
            first_token_s=None,  # the provider's first token is not yet the user's
        )

    def _with_input(self, request: Request, value: str | Content) -> Request:
        if isinstance(value, Content):
            if not self._options.own_code:
                text = (
                    f"{self._options.name} takes text, but the last stage before it returned"
                    f" {value.media_type}"
                )
                raise ProviderError("rejected", text)
            if not asks_messages(request):
                return replace(request, input=value)
            part = Part(file=value.data, media_type=value.media_type, sha256=digest_of(value))
            return _with_last_message(request, (part,))
        if asks_messages(request):
            return _with_last_message(request, value)
        *before, last = request.messages or (Message("user"),)
        return replace(request, input=value, messages=(*before, replace(last, content=value)))

    async def _pass(self, stage: Stage, value: str | Content, trip: "_Trip") -> str | Content:
        """Return a stage's output for a value; add its cost and file to the trip."""
        if self._folder is None or not self._options.cache:
            made = await self._make(stage, value, trip)
        else:
            made = await self._look_up(stage, value, trip, self._folder)
        if isinstance(made, Content):
            trip.files.append(made)
        return made

    async def _look_up(
        self, stage: Stage, value: str | Content, trip: "_Trip", folder: Path
    ) -> str | Content:
        """Return a stage's output for a value, from the cache if it is there."""
        content = digest_of(value) if isinstance(value, Content) else value
        path = folder / _CACHE / f"{digest([stage.identity, content])}.json"
        lock = self._locks.setdefault(path.name, asyncio.Lock())
        async with lock:  # two runs with the same content wait for one stage, and pay once
            made = await asyncio.to_thread(_read_cached, path, folder)
            if made is None:
                made = await self._make(stage, value, trip)
                await asyncio.to_thread(_write_cached, path, made)
            return made

    async def _make(self, stage: Stage, value: str | Content, trip: "_Trip") -> str | Content:
        messages = (Message("user", value),) if isinstance(value, str) else ()
        try:
            response = await stage.ask(replace(trip.request, input=value, messages=messages))
        except ProviderError as error:
            text = f"stage {stage.name}: {error.message}"
            kind = error.kind
            # A function is code under test. A model that fails says nothing about it.
            is_model = stage.price is not None
            if is_model and party_at_fault(kind, own_code=False) != "change":
                kind = "upstream"
            raise ProviderError(kind, text, status=error.status, detail=error.detail) from error
        if stage.price is not None:
            trip.costs_usd.append(stage.price(response))
        if response.files:
            return await asyncio.to_thread(keep_file, response.files[0], self._folder)
        return response.output


def _with_last_message(request: Request, content: str | tuple[Part, ...]) -> Request:
    """Return a request with other content in its last message."""
    *before, last = request.messages
    messages = (*before, replace(last, content=content))
    return replace(request, input=message_fields(messages), messages=messages)


class _Trip:
    """One request on its way through the stages: its files and costs so far."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.files: list[Content] = []
        self.costs_usd: list[float | None] = []


@dataclass(frozen=True, slots=True)
class _Cached:
    """A stage's output in the cache."""

    output: str
    file: Content | None = None


@cache
def _cached_adapter() -> TypeAdapter[_Cached]:
    return TypeAdapter(_Cached)


def _read_cached(path: Path, folder: Path) -> str | Content | None:
    """Return an output from the cache; None if it is missing or damaged."""
    try:
        cached = _cached_adapter().validate_json(path.read_bytes())
        if cached.file is None:
            return cached.output
        data = untrusted_path(folder, str(cached.file.path)).read_bytes()
        return replace(cached.file, data=data)
    except (OSError, ValueError):
        return None


def _write_cached(path: Path, made: str | Content) -> None:
    """Keep a stage's output. A cache that cannot be written only costs time."""
    if isinstance(made, str):
        cached = _Cached(made)
    else:
        cached = _Cached("", replace(made, data=b""))
    with suppress(StorageError, PydanticSerializationError):
        write_atomically(path, [_cached_adapter().dump_json(cached, exclude_defaults=True)])


def function_identity(target: str) -> list[str]:
    """Return what identifies a function in the cache: its name and the text of its module, if that
    can be found.
    """
    source = b""
    with suppress(OSError, ImportError, ValueError):
        spec = find_module(target.partition(":")[0])
        if spec is not None:
            source = Path(str(spec.origin)).read_bytes()
    return [target, digest(source)]
