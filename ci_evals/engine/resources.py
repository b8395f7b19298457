"""The resources that the providers of one invocation share: folders, clients and services that are
opened once, and the executor of the team's own code, by default this process.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ci_evals.engine.limits import RateLimiter
from ci_evals.errors import Place
from ci_evals.executors import Executor, Local
from ci_evals.graders.scoring import judge
from ci_evals.javascript import node_processes
from ci_evals.model.grading import Expectation, Grader
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.python_worker import python_workers
from ci_evals.suite.types import CheckedSuite
from ci_evals.user_code.folders import NO_CODE_FOLDERS, CodeFolders, importable

Observe = Callable[[Mapping[str, str]], None]
T = TypeVar("T")


class LocalExecutor:
    """Runs everything in this process."""

    def open(self, options: ProviderOptions, resources: Resources) -> Provider:
        return options.open(resources)

    def prepare(self, grader: Grader) -> None:
        grader.prepare()

    grade = staticmethod(judge)


LOCAL = LocalExecutor()


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
    folder: Path,
    max_concurrency: int,
    files: Path | None = None,
    folders: CodeFolders = NO_CODE_FOLDERS,
) -> AsyncIterator[EngineResources]:
    """Open what the providers of one invocation share. Meanwhile, the suite's code is importable.

    Args:
        folder: the folder of the suite.
        max_concurrency: the suite's limit on calls under way.
        files: the results folder, for files in answers; None keeps none.
        folders: the other folders of its code.
    """
    with importable(folder, folders), node_processes(folder), python_workers(folder, folders):
        async with AsyncExitStack() as stack:
            yield EngineResources(folder, max_concurrency, stack, lambda _: None, files)


@asynccontextmanager
async def open_executor(
    suite: CheckedSuite,
    called: Iterable[ProviderOptions],
    graders: Iterable[Expectation],
    files: Path | None,
) -> AsyncIterator[Executor]:
    """Open the executor that a suite names. If none of its providers and graders is portable,
    everything runs in this process.

    Args:
        suite: the suite.
        called: the providers that will be opened.
        graders: the expectations that will be judged.
        files: the results folder, for files that runs leave behind; None keeps none.

    Raises:
        ConfigError: there is no such executor, or the team's code does not work there.
    """
    if isinstance(suite.executor, Local):
        yield LOCAL
        return
    elsewhere = Place(suite.file, suite.line, "")
    # A service runs on this machine, and so do the calls to it.
    options = {str(each.name): each for each in called if each.portable and each.serve is None}
    portable: list[tuple[ProviderOptions | Grader, Place]] = [
        *((each, suite.places.get(name, elsewhere)) for name, each in options.items()),
        *(
            (each.grader, each.place or elsewhere)
            for each in graders
            if getattr(each.grader, "portable", False)
        ),
    ]
    if not portable:
        yield LOCAL
        return
    async with suite.executor.open(suite, portable, files) as executor:
        yield executor
