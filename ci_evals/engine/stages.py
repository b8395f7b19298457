"""Stages before and after a provider: text → speech → agent → transcript. What they make is cached by content."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from ci_evals.engine.files import digest_of, keep_file
from ci_evals.errors import ProviderError, StorageError
from ci_evals.files import write_whole
from ci_evals.folder_modules import named_spec
from ci_evals.model import Request
from ci_evals.prices import total_usd
from ci_evals.providers.base import Provider, ProviderOptions
from ci_evals.response import Content, Message, Response
from ci_evals.suite import digest

CACHE = "cache"

Ask = Callable[[Request], Awaitable[Response]]
Price = Callable[[Response], float | None]


class Stage(Struct, frozen=True):
    """One stage: how it is called in the suite, what answers, and what decides its answers.

    `price` is that of a stage that is a provider; a function of the team's own costs nothing.
    """

    name: str
    ask: Ask
    identity: Any
    price: Price | None = None


class _Cached(Struct, frozen=True):
    """What a stage made of something, as it is kept."""

    output: str
    file: Content | None = None


class Staged:
    """A provider between its stages.

    Args:
        options: the provider's settings.
        provider: what answers.
        price: what its answers cost.
        before: what its input goes through, in order.
        after: what its answer goes through.
        folder: the results folder, with the cache; None keeps nothing.
    """

    def __init__(
        self,
        options: ProviderOptions,
        provider: Provider,
        price: Price,
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
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def answer(self, request: Request) -> Response:
        """Pass the input through the stages before, ask, and pass the answer through those after.

        Raises:
            ProviderError: a stage or the provider could not answer.
        """
        files: list[Content] = []
        costs: list[float | None] = []
        value = await self._through(self._before, request.input, request, costs, files)
        response = await self._provider.answer(self._with_input(request, value))
        kept = tuple([await asyncio.to_thread(keep_file, file, self._folder) for file in response.files])
        files += kept
        value = await self._through(self._after, kept[0] if kept else response.output, request, costs, files)
        output = value if isinstance(value, str) else response.output
        cost_usd = response.cost_usd if not costs else total_usd([self._price(response), *costs])
        return msgspec.structs.replace(response, output=output, files=tuple(files), cost_usd=cost_usd)

    async def _through(
        self, stages: Sequence[Stage], value: Any, request: Request, costs: list[float | None], files: list[Content]
    ) -> Any:
        """What some stages, one after the other, make of a value; their costs and their files are noted."""
        for stage in stages:
            value = await self._passed(stage, value, request, costs)
            if isinstance(value, Content):
                files.append(value)
        return value

    def _with_input(self, request: Request, value: Any) -> Request:
        if not self._before:
            return request
        if isinstance(value, Content):
            if not self._options.own_code:
                text = f"{self._options.name} takes text, and the last stage before it made {value.media_type}"
                raise ProviderError("rejected", text)
            return msgspec.structs.replace(request, input=value)
        *said, last = request.messages or (Message("user"),)
        messages = (*said, msgspec.structs.replace(last, content=value))
        return msgspec.structs.replace(request, input=value, messages=messages)

    async def _passed(self, stage: Stage, value: Any, request: Request, costs: list[float | None]) -> str | Content:
        """What a stage makes of a value: what it made of it before, if that is known."""
        if self._folder is None or not self._options.cache:
            return await self._made(stage, value, request, costs)
        content = digest_of(value) if isinstance(value, Content) else value
        path = self._folder / CACHE / f"{digest([stage.identity, content])}.json"
        turn = self._turns.setdefault(path.name, asyncio.Lock())
        async with turn:  # two runs with the same content wait for one stage, and pay once
            if (known := await asyncio.to_thread(_read, path, self._folder)) is not None:
                return known
            made = await self._made(stage, value, request, costs)
            await asyncio.to_thread(_write, path, made)
            return made

    async def _made(self, stage: Stage, value: Any, request: Request, costs: list[float | None]) -> str | Content:
        messages = (Message("user", value),) if isinstance(value, str) else ()
        try:
            response = await stage.ask(msgspec.structs.replace(request, input=value, messages=messages))
        except ProviderError as error:
            told = f"stage {stage.name}: {error.message}"
            kind = error.kind if stage.price is None else "environment"
            raise ProviderError(kind, told, status=error.status, detail=error.detail) from error
        if stage.price is not None:
            costs.append(stage.price(response))
        if response.files:
            return await asyncio.to_thread(keep_file, response.files[0], self._folder)
        return response.output


def _read(path: Path, folder: Path) -> str | Content | None:
    """What is in the cache; None if it is not there, or not whole."""
    try:
        cached = msgspec.json.decode(path.read_bytes(), type=_Cached)
        if cached.file is None:
            return cached.output
        return msgspec.structs.replace(cached.file, data=(folder / str(cached.file.path)).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _write(path: Path, made: str | Content) -> None:
    """Note what a stage made; a cache that cannot be written costs time and nothing else."""
    cached = _Cached(made) if isinstance(made, str) else _Cached("", msgspec.structs.replace(made, data=b""))
    with suppress(StorageError, UnicodeEncodeError):
        write_whole(path, [msgspec.json.encode(cached)])


def function_identity(target: str) -> list[str]:
    """What decides the answers of a function: its name and the text of its module, as far as that can be found."""
    try:
        spec = named_spec(target.partition(":")[0])
        source = Path(str(spec.origin)).read_bytes() if spec else b""
    except (OSError, ImportError, ValueError):
        source = b""
    return [target, digest(source)]
