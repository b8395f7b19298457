"""Opens the executor of a suite's own code; this process is the usual one."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from ci_evals.errors import Place
from ci_evals.graders.scoring import judge
from ci_evals.model.grading import Expectation, Grader
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.suite.executor import Executor, Local
from ci_evals.suite.types import CheckedSuite


class LocalExecutor:
    """Runs everything in this process."""

    def open(self, options: ProviderOptions, resources: Resources) -> Provider:
        return options.open(resources)

    def prepare(self, grader: Grader) -> None:
        grader.prepare()

    grade = staticmethod(judge)


LOCAL = LocalExecutor()


@asynccontextmanager
async def open_executor(
    suite: CheckedSuite,
    called: Iterable[ProviderOptions],
    graders: Iterable[Expectation],
    files: Path | None,
) -> AsyncIterator[Executor]:
    """Open the executor that a suite names; the one of this process where nothing of the suite
    needs another.

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
