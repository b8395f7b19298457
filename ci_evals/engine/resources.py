"""What the providers of one invocation share: folders, and what they open once."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ci_evals.engine.executors import LOCAL
from ci_evals.engine.limits import RateLimiter
from ci_evals.javascript import node_process
from ci_evals.providers.base import Resources
from ci_evals.suite.executor import Executor
from ci_evals.user_code import importable

Observe = Callable[[Mapping[str, str]], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EngineResources:
    """See `providers.base.Resources`."""

    folder: Path
    max_concurrency: int
    stack: AsyncExitStack
    observe: Observe
    files: Path | None = None
    executor: Executor = LOCAL
    _shared: dict[Callable[[Resources], Any], Any] = field(default_factory=dict)

    def shared(self, make: Callable[[Resources], T]) -> T:
        if make not in self._shared:
            self._shared[make] = make(self)
        return self._shared[make]  # type: ignore[no-any-return]  # `make` made it

    def reporting_to(self, limiter: RateLimiter) -> "EngineResources":
        """Return the same resources with the headers of answers reported to `limiter`."""
        return replace(self, observe=limiter.observe)


@asynccontextmanager
async def open_resources(
    folder: Path, max_concurrency: int, files: Path | None = None
) -> AsyncIterator[EngineResources]:
    """Open what the providers of one invocation share. Meanwhile, the config's folder is
    importable.
    """
    with importable(folder), node_process(folder):
        async with AsyncExitStack() as stack:
            yield EngineResources(folder, max_concurrency, stack, lambda _: None, files)
