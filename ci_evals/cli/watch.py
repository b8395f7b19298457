"""`run --watch`: runs suites again whenever a file changes, until `q`."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ci_evals.cli.console import Console
from ci_evals.dependencies import touched_data
from ci_evals.engine.journal import JOURNAL
from ci_evals.errors import EXIT_CODES, ConfigError, UsageError
from ci_evals.format import one_line
from ci_evals.git import ask_git
from ci_evals.suite.problems import and_more
from ci_evals.suite.yaml import parse, read_text

try:
    from watchfiles import DefaultFilter, awatch
except ImportError:
    raise UsageError("--watch needs watchfiles: `pip install 'ci-evals[watch]'`") from None

if sys.platform != "win32":
    import termios
    import tty

_CLEAR = "\x1b[2J\x1b[3J\x1b[H"
_QUIT_KEYS = frozenset(b"qQ")
_CODES_WITH_ANSWERS = frozenset({0, 1, 3})
"""The exit codes of a run that called its providers: its answers are of the code as it is."""


def watch_suites(
    configs: Sequence[Path], out: Path, arguments: Sequence[str], console: Console
) -> int:
    """Run `ci-evals run` with these arguments now and after each change, and return the exit code
    of the last run that ended.

    Args:
        configs: the files of the suites. If only these or files with their prompts and cases
            change, unchanged questions keep their answers. After any other change, the team's own
            code is asked again as well.
        out: the results folder of all. Changes in it, or in any folder with a journal, don't count.
        arguments: the command line, without `--watch`.
        console: the terminal.
    """
    watch = _Watch(configs, out, arguments, console)
    return asyncio.run(watch.run())


class _Watch:
    def __init__(
        self, configs: Sequence[Path], out: Path, arguments: Sequence[str], console: Console
    ) -> None:
        self._configs = frozenset(path.resolve() for path in configs)
        self._out = out.resolve()
        self._arguments = arguments
        self._console = console
        self._folders = _folders_of(self._configs)
        self._changes: asyncio.Queue[Collection[Path]] = asyncio.Queue()
        self._quit = asyncio.Event()
        self._end_signal = signal.SIGINT
        self._process: asyncio.subprocess.Process | None = None
        self._is_running = False
        # Files that people edit: they have changed while no run was under way.
        self._edited: set[Path] = set(self._configs)
        # Files that have changed only during runs, which probably wrote them.
        self._written_by_runs: set[Path] = set()
        self._drained = asyncio.Event()

    async def run(self) -> int:
        """Run, wait for a change, and so on; `q`, Ctrl-C and SIGTERM end it and its run."""
        loop = asyncio.get_running_loop()
        if sys.platform != "win32":
            for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(each, self._end, each)
        with _keys_at_once():
            if _has_keys():
                loop.add_reader(sys.stdin, self._read_key)
            code = await self._run_until_quit()
        if self._end_signal == signal.SIGINT:
            return code
        return EXIT_CODES[self._end_signal]

    async def _run_until_quit(self) -> int:
        """Return the exit code of the last run that ended."""
        started = asyncio.Event()
        collecting = asyncio.create_task(self._collect(started))
        code = EXIT_CODES[signal.SIGINT]
        changed: Collection[Path] = ()
        is_code_known = False  # the answers on disk are of the code as it is
        try:
            # The first run starts once changes are watched, so that none during it is missed.
            watched = asyncio.create_task(started.wait())
            await asyncio.wait({watched, collecting}, return_when=asyncio.FIRST_COMPLETED)
            if collecting.done():
                collecting.result()  # the system allows no more watches
            while not self._quit.is_set():
                ended = await self._run_once(changed, is_code_known=is_code_known)
                if self._quit.is_set():
                    break
                code = ended
                if code in _CODES_WITH_ANSWERS:
                    is_code_known = True
                await self._drain()
                written = frozenset(self._written_by_runs)
                self._written_by_runs.clear()
                if written:
                    names = _join_names(written)
                    self._console.say([f"changed during the run, so save again to run: {names}"])
                self._console.say([f"watching {self._names()}; {_key()} ends"])
                changed = await self._next_change()
                # What changed during the run may be code, too, edited by hand.
                touched = changed | written
                if not touched <= self._configs | self._data_in(touched):
                    is_code_known = False
        finally:
            collecting.cancel()
            with suppress(asyncio.CancelledError):
                await collecting
        return code

    async def _run_once(self, changed: Collection[Path], *, is_code_known: bool) -> int:
        """Run the suite and return its exit code."""
        if self._console.stdout.isatty():
            self._console.stdout.write(_CLEAR)
            self._console.stdout.flush()
        if changed:
            self._console.say([f"changed: {_join_names(changed)}"])
        command = [sys.executable, "-m", "ci_evals", "run", *self._arguments]
        command += ["--reuse", "--failed-first"]
        if is_code_known:
            command.append("--reuse-own-code")
        # A process for each run: modules of the team's own code are imported afresh. Keys are read
        # by this one.
        self._is_running = True
        self._process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.DEVNULL)
        if self._quit.is_set():  # a signal came while the process was started
            self._process.send_signal(self._end_signal)
        try:
            return await self._process.wait()
        finally:
            await self._process.wait()  # on Windows, a Ctrl-C cancels the first wait, too
            self._is_running = False

    async def _drain(self) -> None:
        """Wait until all changes that a run made have been seen."""
        self._drained.clear()
        await self._drained.wait()

    async def _next_change(self) -> frozenset[Path]:
        """Wait for files to change, and return all that have changed since the last run began."""
        waiting = asyncio.create_task(self._changes.get())
        stopped = asyncio.create_task(self._quit.wait())
        await asyncio.wait({waiting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not waiting.done():
            waiting.cancel()
            return frozenset()
        changed = set(waiting.result())
        while not self._changes.empty():
            changed.update(self._changes.get_nowait())
        return frozenset(changed)

    def _data_in(self, changed: Collection[Path]) -> set[Path]:
        """Return the changed files from which a suite reads its prompts and cases."""
        data: set[Path] = set()
        for config in self._configs:
            paths = {os.path.relpath(path, config.parent): path for path in changed}
            with suppress(ConfigError):  # the next run reports it
                written, _, _ = parse(read_text(config, config.name), config.name)
                names = touched_data([Path(name).as_posix() for name in paths], written)
                data.update(paths[str(Path(name))] for name in names)
        return data

    async def _collect(self, started: asyncio.Event) -> None:
        """Put changed files into the queue, except results, files that git ignores, and files that
        change only during runs: a run that writes some would start itself again without end.

        A file that people edit, too, counts once during a run until it is edited again.
        """
        watching = awatch(
            *self._folders,
            watch_filter=DefaultFilter(ignore_paths=[self._out]),
            yield_on_timeout=True,
            rust_timeout=100,
        )
        is_during_run = False  # the run was under way when these changes began to be collected
        async for changes in watching:
            started.set()  # after the first time-out, everything is watched
            paths = (Path(path) for _, path in changes)
            changed = {path for path in paths if not _is_result(path)}
            if changed:
                changed -= _ignored_by_git(changed)
            if is_during_run:
                self._written_by_runs |= changed - self._edited
                changed &= self._edited
                self._edited -= changed
            else:
                self._edited |= changed
            if changed:
                await self._changes.put(changed)
            if not is_during_run:
                self._drained.set()
            is_during_run = self._is_running

    def _read_key(self) -> None:
        keys = os.read(sys.stdin.fileno(), 1024)
        if not keys or _QUIT_KEYS.intersection(keys):
            self._end(signal.SIGINT)

    def _end(self, received: signal.Signals) -> None:
        """End the run, if one is under way, and then the watch."""
        self._end_signal = received
        self._quit.set()
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(received)

    def _names(self) -> str:
        return ", ".join(folder.name for folder in self._folders)


def _folders_of(configs: Collection[Path]) -> Sequence[Path]:
    """Return the repositories of suites, or the folder of a suite outside of any repository."""
    folders: dict[Path, None] = {}
    for config in sorted(configs):
        inside = [folder for folder in config.parents if (folder / ".git").exists()]
        folders[next(iter(inside), config.parent)] = None
    return list(folders)


def _join_names(paths: Collection[Path]) -> str:
    first = one_line(min(path.name for path in paths))
    return f"{first}{and_more(len(paths) - 1)}"


def _has_keys() -> bool:
    return sys.stdin.isatty() and sys.platform != "win32"


def _key() -> str:
    if _has_keys():
        return "q"
    return "Ctrl-C"


def _is_result(path: Path) -> bool:
    return any((folder / JOURNAL).exists() for folder in (path, *path.parents))


def _ignored_by_git(paths: Collection[Path]) -> set[Path]:
    ignored: set[Path] = set()
    for folder in {path.parent for path in paths}:
        names = [path.name for path in paths if path.parent == folder]
        listed = ask_git("check-ignore", "-z", "--", *names, folder=folder)
        ignored.update(folder / name for name in listed.split("\0") if name)
    return ignored


@contextmanager
def _keys_at_once() -> Iterator[None]:
    """Within the context, keys are read without Enter and are not echoed."""
    if not _has_keys():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
