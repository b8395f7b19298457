"""Main's side of a comparison: its files, and the process that runs its code."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import TypeAdapter

from ci_evals.engine.journal import MAIN_FOLDER, MAIN_JOURNAL, read_results
from ci_evals.errors import ConfigError, StorageError
from ci_evals.files import write_atomically
from ci_evals.format import describe_status, one_line
from ci_evals.gate.baseline import Baseline
from ci_evals.gate.compare import NoComparison
from ci_evals.git import GitError, git
from ci_evals.hosts import MainCommit
from ci_evals.merge_base.checkout import CheckoutError, Fetch, Worktree, check_out, link_shared
from ci_evals.merge_base.child import (
    CasesJob,
    CellsJob,
    Done,
    GradeJob,
    Job,
    MainSuite,
    PlanJob,
    RulesJob,
)
from ci_evals.merge_base.environment import child_environment, import_path
from ci_evals.merge_base.files import FileWatch
from ci_evals.model.case import Case
from ci_evals.model.plan import CellKey
from ci_evals.model.report import MainCost, RunOnMain
from ci_evals.model.result import Result
from ci_evals.model.ruler import MainRules, StoredAnswers
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.subprocess import marked_environment, run_program
from ci_evals.redaction import Redactor, sensitive_values
from ci_evals.suite.load import load_against
from ci_evals.suite.overrides import Overrides
from ci_evals.suite.types import Against, CheckedSuite, against_identity

_LOG = "log.txt"
_SIMILAR = 0.5
"""The share of lines that a moved suite has in common with the old one, as git's own bound."""
_PREPARE_S = 1800.0
_SURROUNDINGS = (
    ".github/workflows/*",
    ".gitlab-ci.yml",
    ".gitmodules",
    "*Dockerfile*",
    "*compose*.y*ml",
    "*lock.json",
    "*lock.y*ml",
    "*.lock",
    "*package.json",
    "*pyproject.toml",
    "*requirements*.txt",
    "*setup.cfg",
    "*setup.py",
)
"""The files that make what both sides run in, as patterns of `git ls-files`."""
_GONE = "its files are gone"
_LINE_BYTES = 1 << 24
_LOG_BYTES = 1 << 20
"""So much of what main's code prints is kept: the end."""


class MainError(Exception):
    """Main could not be run; the text says why, after `main could not be run: `."""


class NewSuiteError(MainError):
    """Main does not have the suite; the text is its path."""


_FAILURES = (MainError, CheckoutError, ConfigError, GitError, OSError, StorageError)
"""The errors for which main could not be run."""


class Main:
    """Main's files, ready to be run.

    Args:
        worktree: the files.
        environ: the environment of the job, with what it keeps from code under test.
        import_path: the folders that main's code is imported from first.
    """

    def __init__(
        self,
        worktree: Worktree,
        environ: Mapping[str, str],
        import_path: Sequence[Path],
    ) -> None:
        self.worktree = worktree
        self.environ = environ
        self.import_path = import_path
        # Code under test may leave it.
        self.working_folder = Path.cwd()
        self._files = FileWatch(worktree)

    def check_untouched(self) -> None:
        """Check that main's files are still what was checked out, linked and prepared.

        Raises:
            MainError: they are not.
        """
        if not self.worktree.folder.is_dir():
            raise MainError(_GONE)
        changed = self._files.find_change()
        if changed is not None:
            raise MainError(f"its files were changed by what ran in this job: {changed}")

    def accept_changes(self) -> None:
        """Take main's files as they are now for what they must stay."""
        self._files.accept()


@contextmanager
def open_main(
    commit: MainCommit, root: Path, environ: Mapping[str, str], fetch: Fetch | None = None
) -> Iterator[Main]:
    """Check out main's commit for the duration of the context.

    To be called before code under test is imported, which could change the files.

    Args:
        commit: the commit.
        root: the root of the user's checkout.
        environ: the environment of the job.
        fetch: fetches a commit that is not in the checkout; None if nobody has it.

    Raises:
        CheckoutError: the commit could not be checked out.
        GitError: git cannot list its files.
    """
    with check_out(commit, root, fetch) as worktree:
        paths = tuple(import_path(worktree))
        yield Main(worktree, environ, paths)


class _Running(NamedTuple):
    """The process that runs main's code, and the file that it prints into."""

    process: Process
    log: Path


class MainSide:
    """One suite as main has it, which is run to be compared with the change's.

    Its process is started by the first job, and ended with the context.

    Args:
        main: main's files.
        suite: the suite of the change.
        overrides: the values of the command line, which hold for both sides.
        resume: continue main's journal, as the change's is continued.
    """

    def __init__(
        self, main: Main, suite: CheckedSuite, overrides: Overrides, *, resume: bool
    ) -> None:
        self._main = main
        self._suite = suite
        self._resume = resume
        self._overrides = overrides
        self._out = suite.out.absolute() / MAIN_FOLDER
        self._folder = suite.folder.absolute()
        self._stack = AsyncExitStack()
        self._running: _Running | None = None
        self._totals: Counter[CellKey] = Counter()
        self._cost = MainCost(name=self.name)
        self._earlier_cost = self._cost
        """What the processes that have ended have cost."""
        self._was_started = False
        self._sources: tuple[Path, ...] = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def take_over(self, journals: Iterable[Path]) -> None:
        """Take over main's runs from journals of earlier attempts of the same job."""
        self._sources += tuple(path.absolute() for path in journals)

    @property
    def name(self) -> str:
        """The branch and its commit: `main (0123456)`."""
        return str(self._main.worktree.commit)

    @property
    def is_switched_off(self) -> bool:
        """Return True if main's file says that main is not run."""
        try:
            return load_against(self._find_config(), self._main.environ) is None
        except (MainError, GitError, ConfigError):
            return False  # the run says what is wrong

    @property
    def changed_surroundings(self) -> str:
        """Which file that both sides run in differs from main's; empty if none does.

        Packages, images and the job itself are the branch's on both sides, so that what they break
        fails on main, too.
        """
        worktree = self._main.worktree
        try:
            names = set(worktree.list_files(*_SURROUNDINGS))
        except GitError:
            return _GONE
        with suppress(GitError):
            listed = git("ls-files", "-z", "--", *_SURROUNDINGS, folder=worktree.root)
            names |= {name for name in listed.split("\0") if name}
        for name in sorted(names):
            if _content(worktree.folder / name) != _content(worktree.root / name):
                return f"this branch changes {name}, which both sides run in"
        return ""

    @property
    def preparing_s(self) -> float:
        """Seconds that `against.prepare` may still take."""
        if self._running is not None:
            return 0.0
        try:
            return _PREPARE_S if self._settings.prepare else 0.0
        except _FAILURES:
            return 0.0  # the job says what is wrong

    @property
    def takes_turns(self) -> bool:
        """Return True if the two sides cannot run at once.

        A suite that calls one by one expects that nothing else runs. So does a model server or
        database whose provider or judge does, even if others are called at the same time.
        """
        if self.shares_resources or self._suite.max_concurrency == 1:
            return True
        return any(options.max_concurrency == 1 for options in self._called)

    @property
    def shares_resources(self) -> bool:
        """Return True if both sides have a service, or a fixture of wider scope than a run, which
        occupies a port or a database.
        """
        suite = self._suite
        setups = [suite.setup, *(case.setup for case in suite.cases)]
        setups += [options.setup for options in self._called]
        if any(options.serve for options in self._called):
            return True
        return any(fixture.scope != "run" for setup in setups for fixture in setup)

    @property
    def _called(self) -> Sequence[ProviderOptions]:
        """The providers, judges and stages of the suite."""
        suite = self._suite
        return (*suite.providers, *suite.judges, *suite.stages.values())

    async def run_plan(
        self, note_spending: Callable[[MainCost], None], note_begin: Callable[[], None]
    ) -> Baseline | NoComparison:
        """Run main's suite once, and return its report as a baseline.

        Args:
            note_spending: called with what main has cost so far.
            note_begin: called once everything is open, and the first run begins.
        """
        try:
            self._check_addresses()
            return self._read(await self._do(PlanJob(), note_spending, note_begin))
        except _FAILURES as error:
            return self._not_run(error)

    async def run_cells(
        self,
        runs: Mapping[CellKey, int],
        note_spending: Callable[[MainCost], None],
        note_begin: Callable[[], None],
    ) -> Mapping[CellKey, Sequence[RunOnMain]] | NoComparison:
        """Run cells of main's suite beyond its plan, and return these runs, in order.

        Cells that main does not have are left out.

        Args:
            runs: the number of further runs of each cell.
            note_spending: called with what main has cost so far.
            note_begin: called once everything is open, and the first run begins.
        """
        totals = self._totals + Counter(runs)
        job = CellsJob(totals=[(key, totals[key]) for key in runs])
        try:
            self._check_addresses()
            done = await self._do(job, note_spending, note_begin)
        except _FAILURES as error:
            return self._not_run(error)
        self._totals = totals
        return {key: outcomes[-runs[key] :] for key, outcomes in done.outcomes}

    def results(self, cells: Collection[CellKey]) -> Iterator[Result]:
        """Yield the results of some cells of main's suite so far, without secrets.

        Raises:
            StorageError: main's journal is missing or damaged.
        """
        for _, result in read_results(self._out / MAIN_JOURNAL):
            if (result.case, result.provider, result.prompt) in cells:
                yield self._redactor.clean(result)

    async def describe(self) -> MainRules | NoComparison:
        """Return what main's suite asks and expects, or why that is not known."""
        try:
            done = await self._do(RulesJob())
            against = load_against(self._find_config(), self._main.environ)
        except _FAILURES as error:
            return self._not_run(error)
        rules = done.rules
        assert rules is not None
        settings = rules.settings
        if self._settings.env:  # its variables say where main answers, which is another address
            settings = settings.without_identities()
        # Filled in by the job's variables, as the change's key is: main's process has those of
        # `env` instead.
        settings = replace(settings, against=against_identity(against or "off"))
        return replace(rules, settings=settings)

    async def show_cases(self, names: Sequence[str]) -> Sequence[Case] | NoComparison:
        """Return cases of main's suite without what is expected, or why they are not known."""
        try:
            done = await self._do(CasesJob(names=names))
        except _FAILURES as error:
            return self._not_run(error)
        return done.cases

    async def grade(
        self, answers: StoredAnswers, note_spending: Callable[[MainCost], None]
    ) -> Sequence[bool | None] | NoComparison:
        """Return whether each answer passes main's checks, or why that is not known.

        Args:
            answers: the answers, with cells of main's suite.
            note_spending: called with what main has cost so far.
        """
        try:
            done = await self._do(GradeJob(answers=answers), note_spending)
        except _FAILURES as error:
            return self._not_run(error)
        return done.passed

    def _not_run(self, error: Exception) -> NoComparison:
        """Return why main could not be run."""
        if isinstance(error, NewSuiteError):
            return NoComparison(f"{self.name} has no {error}")
        why = str(error)
        if isinstance(error, ConfigError):
            why = str(error.problems[0])
        # Its files are named as in the user's checkout.
        why = why.replace(f"{self._main.worktree.folder}{os.sep}", "")
        why = one_line(self._redactor.clean_text(why), 500)
        return NoComparison(f"{self.name} could not be run: {why}", expected=True)

    @cached_property
    def _redactor(self) -> Redactor:
        """Takes secrets out of what main's code has printed."""
        return Redactor((*self._suite.secrets, *sensitive_values(self._main.environ)))

    async def _do(
        self,
        job: Job,
        note_spending: Callable[[MainCost], None] | None = None,
        note_begin: Callable[[], None] | None = None,
    ) -> Done:
        """Have the process do a job, and return what became of it.

        Raises:
            CheckoutError: what both sides share cannot be linked.
            ConfigError: main's key `against` is wrong.
            GitError: git cannot list main's files.
            MainError: main could not be run, or not by its own code.
            OSError: the process cannot be started.
        """
        await asyncio.to_thread(self._main.check_untouched)
        if self._running is None:
            self._running = await self._start()

        def note(runs: int, judge_calls: int, cost_usd: float, tokens: int) -> None:
            earlier = self._earlier_cost
            self._cost = replace(
                earlier,
                runs=earlier.runs + runs,
                judge_calls=earlier.judge_calls + judge_calls,
                cost_usd=earlier.cost_usd + cost_usd,
                tokens=earlier.tokens + tokens,
            )
            if note_spending is not None:
                note_spending(self._cost)

        try:
            done = await _ask(self._running, job, note, note_begin)
        except BaseException:  # cancelled, too: nobody reads what it still answers
            await self._stack.aclose()
            self._running = None
            self._earlier_cost = self._cost  # the next process counts from 0
            raise
        await asyncio.to_thread(self._main.check_untouched)
        if done.foreign:
            named = ", ".join(done.foreign[:3])
            raise MainError(f"it would use files of this branch: {named}")
        if done.interrupted:
            raise MainError(done.interrupted)
        return done

    async def _start(self) -> _Running:
        """Link and prepare main's files, and start the process that runs their code."""
        worktree, suite = self._main.worktree, self._suite
        config = self._find_config()
        text = config.read_text(encoding="utf-8", errors="replace")
        settings = self._settings
        # Linked and prepared only now: a change that has a baseline needs no main at all.
        packages = settings.prepare is None
        named = (settings.link,) if isinstance(settings.link, str) else settings.link
        link_shared(worktree, self._folder, named, packages=packages)
        environ = child_environment(
            worktree, self._main.environ, self._main.import_path, text, settings.env
        )
        cases = None
        if suite.selection:
            cases = [case.id for case in suite.cases]
        main = MainSuite(
            config=config,
            out=self._out,
            revision=worktree.commit.sha,
            root=worktree.root,
            overrides=self._overrides_of_main(),
            cases=cases,
            takes_turns=self.takes_turns,
            budget=suite.budget,
            resume=self._resume or self._was_started,
            sources=self._sources,
        )
        self._was_started = True
        # Not among the results, which may be uploaded: what main's code prints may hold secrets.
        log = worktree.folder.parent / _LOG
        log.touch()
        self._stack.callback(self._keep, log)
        # Whatever main's code starts ends with the context, or with this process.
        marked = await self._stack.enter_async_context(marked_environment(environ))
        await _prepare(settings, config.parent, marked)
        await asyncio.to_thread(self._main.accept_changes)
        process = await _start(self._working_folder(), marked, log)
        self._stack.push_async_callback(_end, process)
        assert process.stdin is not None
        process.stdin.write(TypeAdapter(MainSuite).dump_json(main) + b"\n")
        return _Running(process, log)

    def _keep(self, log: Path) -> None:
        """Keep what main's code has printed, without secrets."""
        # Code under test may have cleared the folder for temporary files.
        with suppress(OSError):
            text = self._redactor.clean_text(_read_end(log))
            write_atomically(self._out / _LOG, [text.encode()])

    def _overrides_of_main(self) -> Overrides:
        """Return the values of the command line that hold for main, too.

        No earlier answer is reused.
        """
        return Overrides(
            runs=self._overrides.runs,
            providers=self._overrides.providers,
            max_concurrency=self._overrides.max_concurrency,
            timeout_s=self._overrides.timeout_s,
            retries=self._overrides.retries,
            confirm_runs=self._overrides.confirm_runs,
            reuse=False,
            out=self._out,
        )

    @cached_property
    def _settings(self) -> Against:
        """The key `against` in main's file.

        Raises:
            ConfigError: it is wrong.
            GitError: git cannot list main's files.
            MainError: main does not have the suite.
        """
        return load_against(self._find_config(), self._main.environ) or Against()

    def _check_addresses(self) -> None:
        """Raise MainError if both sides would ask the same service, which has one version only."""
        for options in self._suite.providers:
            if options.kind == "http" and options.serve is None and not self._settings.env:
                raise MainError(
                    f"{options.name} answers at a fixed address: set `against.env` to the address"
                    " of main"
                )

    def _find_config(self) -> Path:
        """Return main's suite file, under its old path if the change has moved it.

        Raises:
            NewSuiteError: main has none.
            MainError: the suite is in another checkout.
        """
        worktree = self._main.worktree
        path = self._folder / Path(self._suite.file).name
        try:
            config = worktree.counterpart(path)
        except ValueError:
            raise MainError(f"{path.as_posix()} is in another checkout") from None
        if config.is_file():
            return config
        moved = _find_moved(path, worktree)
        if moved is None:
            raise NewSuiteError(config.relative_to(worktree.folder).as_posix())
        return moved

    def _working_folder(self) -> Path:
        """Return main's counterpart of the working folder."""
        worktree = self._main.worktree
        try:
            folder = worktree.counterpart(self._main.working_folder)
        except ValueError:  # the suite is named by its path, from elsewhere
            return worktree.folder
        return folder if folder.is_dir() else worktree.folder

    def _read(self, done: Done) -> Baseline | NoComparison:
        """Return main's report as a baseline.

        Raises:
            StorageError: it cannot be read.
        """
        from ci_evals.reports.read import read_baseline

        name = self._main.worktree.commit.name
        # As the names of the change's own cases are redacted, which they are matched with.
        redactor = Redactor(self._suite.secrets)
        found = read_baseline((Path(done.report),), done.suite, name, redactor=redactor)
        if isinstance(found, NoComparison):
            return found
        return replace(found, suite=self._suite.name, alongside=True)


def _content(path: Path) -> bytes | None:
    """Return what is in a file; None if there is none."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def _find_moved(path: Path, worktree: Worktree) -> Path | None:
    """Return the file of main that the change has moved to a path; None if there is none.

    It is the most similar one that the change no longer has, at least half of it being the same,
    as git finds renames. A shallow checkout lacks what git would need for that.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    found, most = None, _SIMILAR
    for name in worktree.list_files(f"*{path.suffix}"):
        if (worktree.root / name).exists():
            continue
        old = worktree.folder / name
        lines = old.read_text(encoding="utf-8", errors="replace").splitlines()
        similarity = SequenceMatcher(None, lines, text.splitlines(), autojunk=False).ratio()
        if similarity >= most:
            found, most = old, similarity
    return found


async def _prepare(settings: Against, folder: Path, environ: Mapping[str, str]) -> None:
    """Run the command of `against.prepare` in main's files, without a shell.

    Raises:
        MainError: it fails.
    """
    if settings.prepare is None:
        return
    from ci_evals.providers.command_line import split_command

    command = split_command(settings.prepare)
    what = f"against.prepare: {one_line(shlex.join(command), 100)}"
    try:
        ended = await run_program(command, b"", cwd=folder, env=environ, timeout_s=_PREPARE_S)
    except OSError as error:
        raise MainError(f"{what}: {error.strerror}") from error
    if ended.why == "timeout":
        raise MainError(f"{what} took over {_PREPARE_S:.0f} s")
    if ended.status:
        raise MainError(f"{what} {_describe_end(ended.status)}: {ended.reason}")


async def _start(folder: Path, environ: Mapping[str, str], log: Path) -> Process:
    """Start the process that runs main's code."""
    script = Path(__file__).with_name("child_main.py")
    options: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    with log.open("wb") as stderr:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # its folder has modules with common names
            str(script),
            cwd=folder,
            env=environ,
            stdin=PIPE,
            stdout=PIPE,
            stderr=stderr,
            limit=_LINE_BYTES,
            **options,
        )


async def _end(process: Process) -> None:
    """Kill a process, unless it has ended, and wait until its pipes are closed.

    Pipes that outlive the event loop would complain when they are collected.
    """
    with suppress(ProcessLookupError):
        process.kill()
    await process.communicate()


async def _ask(
    running: _Running,
    job: Job,
    note_spending: Callable[[int, int, float, int], None],
    note_begin: Callable[[], None] | None,
) -> Done:
    """Have a job done, and return what became of it.

    Args:
        running: the process.
        job: what it is to do.
        note_spending: called with the runs, the calls of judges, the cost in USD and the tokens of
            the process so far.

    Raises:
        MainError: it could not be done, or the process ended.
    """
    process, log = running
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(TypeAdapter[Job](Job).dump_json(job) + b"\n")
    try:
        async for line in process.stdout:
            match json.loads(line):
                case {"spent": [runs, judge_calls, cost_usd, tokens]}:
                    note_spending(runs, judge_calls, cost_usd, tokens)
                case {"begun": True}:
                    if note_begin is not None:
                        note_begin()
                case {"problem": problem}:
                    raise MainError(problem)
                case {"done": done}:
                    return TypeAdapter(Done).validate_python(done)
    except ValueError as error:  # a line that is too long, or not of ours
        raise MainError("its answer cannot be read") from error
    text = f"its process {_describe_end(await process.wait())}"
    if last := _last_line(log):
        text += f": {last}"
    raise MainError(text)


def _describe_end(status: int) -> str:
    """`ended with exit status 1`, `was killed by SIGKILL`."""
    verb = "was" if status < 0 else "ended with"
    return f"{verb} {describe_status(status)}"


def _last_line(log: Path) -> str:
    """Return the last line that main's code has printed; empty if it has printed none."""
    lines: list[str] = []
    with suppress(OSError):  # removed by code that clears the folder for temporary files
        lines = _read_end(log).splitlines()
    return one_line(next((line for line in reversed(lines) if line.strip()), ""), 300)


def _read_end(log: Path) -> str:
    """Return the end of what main's code has printed."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LOG_BYTES))
        return file.read().decode("utf-8", "replace")
