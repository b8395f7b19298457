"""Runs in worker processes of the cluster: opens the team's code once per process, and calls it."""

import asyncio
import os
import pickle
import shutil
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from ci_evals.engine.resources import open_resources
from ci_evals.errors import ConfigError, GradingError, Problem, ProviderError, StorageError
from ci_evals.graders.scoring import judge
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer, Request
from ci_evals.model.response import Response
from ci_evals.providers.base import Provider
from ci_evals.user_code.folders import NO_CODE_FOLDERS, CodeFolders

MAX_BYTES = 64 * 1024**2
"""The maximum size of the data for one run, in either direction."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Site:
    """The settings that all calls of an invocation share.

    Args:
        shipped: the original path of the folder that was shipped to the workers.
        folder: the suite's folder, relative to the shipped one.
        max_concurrency: the suite's `max_concurrency`.
        keeps_files: True if files that a run leaves behind are sent back.
        variables: added to the environment of the worker; they may include secrets.
        code_folders: the shipped folders of the suite's code, relative to the shipped one.
    """

    shipped: str
    folder: str
    max_concurrency: int
    keeps_files: bool
    variables: Mapping[str, str] = field(repr=False)
    code_folders: CodeFolders = NO_CODE_FOLDERS


@dataclass(frozen=True, slots=True)
class RemoteOutcome:
    """The result of a call: a value or an error, its duration, and the files that it left behind,
    by relative path.
    """

    value: Response | Finding | None = None
    error: ProviderError | GradingError | None = None
    duration_s: float = 0.0
    files: Mapping[str, bytes] = field(default_factory=dict)


# Tasks. Their arguments and results are bytes, because they can be unpickled only where the suite's
# folder is importable.


def check(site: bytes, providers: Sequence[bytes], graders: Sequence[bytes]) -> bytes:
    """Open providers and prepare graders; return the problems of each, in order."""
    worker = _worker(site)
    problems = [worker.problems(worker.provider, options) for options in providers]
    problems += [worker.problems(worker.grader, grader) for grader in graders]
    return pickle.dumps(problems)


def answer(site: bytes, options: bytes, request: bytes) -> bytes:
    """Ask a provider; return a pickled `RemoteOutcome`."""
    worker = _worker(site)
    return worker.run(worker.answer(options, request))


def grade(site: bytes, grader: bytes, answered: bytes) -> bytes:
    """Judge an answer; return a pickled `RemoteOutcome`."""
    worker = _worker(site)
    return worker.run(worker.grade(grader, answered))


# The process.


class _Worker:
    """One worker process. It keeps one event loop, because clients of the team's code may be bound
    to it.
    """

    def __init__(self, site: Site) -> None:
        os.environ.update(site.variables)
        self._site = site
        self._root = Path.cwd()  # Ray starts workers in the shipped folder
        self._files: Path | None = None
        if site.keeps_files:
            self._files = Path(tempfile.gettempdir()) / f"ci-evals-{uuid4().hex}"
        self._loop = asyncio.new_event_loop()
        self._opened: dict[bytes, Any] = {}
        folder = self._root / site.folder
        code_folders = CodeFolders(
            named=tuple(self._root / each for each in site.code_folders.named),
            usual=tuple(self._root / each for each in site.code_folders.usual),
        )
        opening = open_resources(folder, site.max_concurrency, self._files, code_folders)
        entering = AsyncExitStack().enter_async_context(opening)
        self._resources = self._loop.run_until_complete(entering)

    def problems(self, opens: Callable[[bytes], object], pickled: bytes) -> tuple[Problem, ...]:
        """Open a provider or a grader, and return its problems."""
        try:
            opens(pickled)
        except ConfigError as error:
            return tuple(
                problem._replace(file=self.relocate(problem.file)) for problem in error.problems
            )
        return ()

    def provider(self, options: bytes) -> Provider:
        """Return a live provider."""
        if options not in self._opened:
            self._opened[options] = pickle.loads(options).open(self._resources)
        return self._opened[options]  # type: ignore[no-any-return]

    def grader(self, pickled: bytes) -> Any:
        """Return a prepared grader."""
        if pickled not in self._opened:
            grader = pickle.loads(pickled)
            grader.prepare()
            self._opened[pickled] = grader
        return self._opened[pickled]

    def run(self, work: Awaitable[RemoteOutcome]) -> bytes:
        """Run work that Ray may cancel, and return its pickled outcome."""
        task = asyncio.ensure_future(work, loop=self._loop)
        # Ray cancels a task by interrupting its process.
        self._loop.add_signal_handler(signal.SIGINT, task.cancel)
        try:
            outcome = self._loop.run_until_complete(task)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        finally:
            self._loop.remove_signal_handler(signal.SIGINT)
            if self._files is not None:
                shutil.rmtree(self._files, ignore_errors=True)
        return self._pickle(outcome)

    async def answer(self, options: bytes, pickled: bytes) -> RemoteOutcome:
        """Ask a provider."""
        try:
            provider = self.provider(options)
        except ConfigError as error:  # `check` could open it on another node: the nodes differ
            text = self.relocate(str(error))
            return RemoteOutcome(error=ProviderError("environment", text))
        request: Request = pickle.loads(pickled)
        task = request.case.task
        if task is not None:
            task = replace(task, folder=self._root / task.folder)
            case = replace(request.case, task=task)
            request = replace(request, case=case)
        start = time.perf_counter()
        value = None
        failure = None
        try:
            value = await provider.answer(request)
        except StorageError as error:
            failure = ProviderError("environment", str(error))
        except Exception as error:  # noqa: BLE001  the team's own code; a crash is the run's error
            failure = ProviderError.of(error)
        duration_s = time.perf_counter() - start
        if failure is not None:
            failure.message = self.relocate(failure.message)
            failure.detail = failure.detail and self.relocate(failure.detail)
        return RemoteOutcome(value, failure, duration_s, self._left_files())

    async def grade(self, pickled: bytes, answered: bytes) -> RemoteOutcome:
        """Judge an answer."""
        try:
            grader = self.grader(pickled)
        except ConfigError as error:
            return RemoteOutcome(error=GradingError(self.relocate(str(error))))
        answer: Answer = pickle.loads(answered)
        try:
            finding = await judge(grader, answer)
        except GradingError as error:
            error.message = self.relocate(error.message)
            if error.detail is not None:
                error.detail = self.relocate(error.detail)
            return RemoteOutcome(error=error)
        except StorageError as error:
            return RemoteOutcome(error=GradingError(str(error)))
        if finding.detail is not None:
            reason = self.relocate(finding.reason)
            finding = replace(finding, reason=reason, detail=self.relocate(finding.detail))
        return RemoteOutcome(finding)

    def relocate(self, text: str) -> str:
        """Return a text with the original paths of files instead of their paths on this machine."""
        if not self._site.shipped:
            return text
        return text.replace(f"{self._root}{os.sep}", f"{self._site.shipped}{os.sep}")

    def _left_files(self) -> Mapping[str, bytes]:
        """Read the files that a run has left behind."""
        if self._files is None:
            return {}
        files = {}
        for path in self._files.rglob("*"):
            if path.is_file() and not path.is_symlink():
                name = path.relative_to(self._files).as_posix()
                files[name] = path.read_bytes()
        return files

    def _pickle(self, outcome: RemoteOutcome) -> bytes:
        pickled = pickle.dumps(outcome)
        if len(pickled) <= MAX_BYTES:
            return pickled
        size_mb = len(pickled) / 1024**2
        most_mb = MAX_BYTES // 1024**2
        text = (
            f"the answer, with the files that the run left behind, has {size_mb:,.0f} MB,"
            f" more than the limit of {most_mb} MB for a worker"
        )
        error: ProviderError | GradingError = ProviderError("bad_answer", text)
        if isinstance(outcome.value, Finding):
            error = GradingError(text)
        return pickle.dumps(RemoteOutcome(error=error, duration_s=outcome.duration_s))


@cache
def _worker(site: bytes) -> _Worker:
    return _Worker(pickle.loads(site))
