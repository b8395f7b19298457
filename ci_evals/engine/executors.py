"""Executors of the team's own code: the Protocol, and this process as the usual one."""

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from ci_evals.errors import ConfigError, Place, Problem
from ci_evals.graders.scoring import judge
from ci_evals.model.case import Answer, Expectation, Finding, Grader
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.suite.executor import NO_RAY
from ci_evals.suite.types import CheckedSuite

_RAY_SETTINGS = {  # which Ray reads as it is imported
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what will be the default, without a warning
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # no logs of nodes among the progress
}


class Executor(Protocol):
    """Runs the team's own code: providers and graders that say of themselves that they are
    portable.

    Whatever does not is run in this process by every executor.
    """

    def open(self, options: ProviderOptions, resources: Resources) -> Provider:
        """Make the live provider; it answers, and fails, as the one that `options.open` makes.

        Raises:
            ConfigError: it cannot be opened.
        """
        ...

    def prepare(self, grader: Grader) -> None:
        """Get a grader ready.

        Raises:
            ConfigError: it cannot work.
        """
        ...

    async def grade(self, grader: Grader, answer: Answer) -> Finding:
        """Judge an answer. Raises whatever the grader raises, or a `GradingError` that tells it."""
        ...


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
    here = Place(suite.file, suite.line, "")
    options = {str(each.name): each for each in called if each.portable and each.serve is None}
    portable: list[tuple[ProviderOptions | Grader, Place]] = [
        *((each, suite.places.get(name, here)) for name, each in options.items()),
        *(
            (each.grader, each.place or here)
            for each in graders
            if getattr(each.grader, "portable", False)
        ),
    ]
    if suite.executor.type == "local" or not portable:
        yield LOCAL
        return
    for name, value in _RAY_SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        from ci_evals.engine import ray_cluster  # noqa: PLC0415  Ray is optional
    except ImportError as error:
        if error.name != "ray":
            raise
        raise ConfigError([Problem(suite.file, None, "executor", NO_RAY)]) from error
    async with ray_cluster.connect(suite, portable, files) as executor:
        yield executor
