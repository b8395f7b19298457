"""One invocation: the planned rounds, a look at the results, the runs that confirm suspects, and the report.

The only module that knows both the engine, which makes results, and the gate, which judges them.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import fsum
from pathlib import Path
from typing import Literal, NamedTuple

from ci_evals.engine.interrupt import Stop
from ci_evals.engine.journal import JOURNAL, Header, Journal, decode, first_header, headers, read_lines
from ci_evals.engine.known_answers import KnownAnswers, results_of
from ci_evals.engine.queues import Cells
from ci_evals.engine.runner import Run
from ci_evals.engine.setup import OpenSuite, open_suite
from ci_evals.engine.traces import Trace
from ci_evals.errors import UsageError
from ci_evals.format import name_of, number_of
from ci_evals.gate.baseline import Baseline, head_cells
from ci_evals.gate.compare import NoComparison, suspects
from ci_evals.gate.verdict import is_certain, settle
from ci_evals.model.case import Case
from ci_evals.model.plan import CellKey, RunPlan, Shard, cells_of_shard, plan_runs
from ci_evals.model.report import Looks, Resumption, RunRecord, SuiteInfo, SuiteReport, move_records
from ci_evals.model.result import Result
from ci_evals.redaction import Redactor
from ci_evals.release import __version__
from ci_evals.suite.types import CheckedSuite

MAX_NAMES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Invocation:
    """A suite to run, with all that is known of it already.

    Args:
        suite: what to run.
        journal: where results are written.
        resume: go on with that journal instead of starting anew.
        sources: journals whose results are taken over.
        merge: take over errored runs as well; the sources are shards of this very suite.
        run_missing: run what has no result; otherwise only report.
        shard: run only this share of the cells.
        durations_s: the mean duration of a run of each cell, to balance shards by.
        replay: a journal that answers before any provider is called.
        replay_only: call no provider and no judge.
        traces: answers from elsewhere by case; no provider is called then, but judges are.
        revision: the commit under test.
        run_id: identifies a new journal; one that is resumed keeps its own.
        files: the folder for files that answers bring; None keeps none.
        baseline: what to compare with, or why there is nothing; None if nobody asked for a comparison.
    """

    suite: CheckedSuite
    journal: Path
    resume: bool = False
    sources: tuple[Path, ...] = ()
    merge: bool = False
    run_missing: bool = True
    shard: Shard | None = None
    durations_s: Mapping[CellKey, float] = field(default_factory=dict)
    replay: Path | None = None
    replay_only: bool = False
    traces: Mapping[str, Sequence[Trace]] | None = None
    revision: str | None = None
    run_id: str | None = None
    files: Path | None = None
    baseline: Baseline | NoComparison | None = None

    @property
    def rounds(self) -> tuple[int, ...]:
        """The rounds after which the gate looks at the results: at most three.

        Shards and their merge look once, after the last round: no job sees the results of the others.
        """
        runs, max_runs = self.suite.runs, self.suite.max_runs
        if max_runs is None or max_runs <= runs:
            return (runs,)
        if self.shard or self.merge:
            return (max_runs,)
        return tuple(dict.fromkeys((runs, (runs + max_runs) // 2, max_runs)))

    def plan(self, runs: int) -> RunPlan:
        """Plan `runs` runs of every cell of the suite, or of the shard's share of it."""
        suite = self.suite
        plan = plan_runs(suite.cases, suite.columns, runs)
        if self.shard is None:
            return plan
        return plan_runs(suite.cases, suite.columns, runs, only=cells_of_shard(plan, self.shard, self.durations_s))

    def describe(self) -> SuiteInfo:
        """Return the facts that a journal and a report state about their suite."""
        suite = self.suite
        return SuiteInfo(
            name=suite.name,
            description=suite.description,
            file=suite.file,
            fingerprint=suite.fingerprint,
            runs=suite.runs,
            version=__version__,
            revision=self.revision,
            shard=str(self.shard) if self.shard else None,
            label=suite.label,
            run_id=self.run_id,
        )


class Watcher:
    """Follows an invocation. This one ignores everything; subclasses show progress."""

    def note_result(self, result: Result) -> None:
        """A run has ended."""

    def note_decision(self, sentence: str) -> None:
        """The invocation goes on with something that was not planned, or leaves it out."""

    def watching(self, run: Run) -> AbstractAsyncContextManager[None]:
        """Runs are made while this context lasts."""
        del run
        return nullcontext()


async def execute(invocation: Invocation, *, watcher: Watcher | None = None, stop: Stop | None = None) -> SuiteReport:
    """Run what is missing of a suite's results and return the report of all of them.

    Args:
        invocation: what to run.
        watcher: is told of the progress.
        stop: once its reason is set, a cancellation ends the runs, and this call still returns the report.

    Raises:
        ConfigError: a provider or grader cannot be opened; nothing was called, and no file was touched.
        StorageError: a journal cannot be read or written.
        UsageError: a source is of another suite.
    """
    shown_paths = {path.absolute(): path for path in (invocation.journal, *invocation.sources)}
    invocation = _with_absolute_paths(invocation)
    watcher, stop = watcher or Watcher(), stop or Stop()
    redactor = Redactor(invocation.suite.secrets)
    plan, records = invocation.plan(invocation.rounds[0]), dict[int, RunRecord]()
    # The folder's files are replaced only once everything is open: until then, something may be wrong with the suite.
    async with _open_providers(invocation, plan, records) as ready:
        with ExitStack() as files:
            known = files.enter_context(closing(_known_answers(invocation)))
            resumed = invocation.resume and invocation.journal.exists() and invocation.journal.stat().st_size > 0
            journal = files.enter_context(closing(Journal(invocation.journal, redactor, resume=resumed)))
            if resumed:
                known.add_results(invocation.journal, is_own=True)
                if (first := first_header(invocation.journal)) and first.suite.run_id:
                    invocation = replace(invocation, run_id=first.suite.run_id)
            if journal.torn:
                known.torn.append(invocation.journal)
            for path in invocation.sources:
                known.add_results(path)
            session = _Session(invocation, journal, known, redactor, watcher, resumed=resumed, shown_paths=shown_paths)
            session.start(plan, records)
            if invocation.run_missing:
                return session.report(await session.run(ready, stop))
            await session.carry_out()
            return session.report(session.why_incomplete)


class _Part(NamedTuple):
    """Runs of every cell with their results: the planned runs, or those that confirm suspects."""

    plan: RunPlan
    records: dict[int, RunRecord]
    cells: Cells
    resumption: Resumption

    @property
    def missing(self) -> int:
        """The number of runs without a result."""
        return self.plan.total - len(self.records)


class _Session:
    """Carries out an invocation and reports what came of it.

    Args:
        invocation: what to run; its paths are absolute.
        journal: where results are written.
        known: the results and answers that exist.
        redactor: takes secrets out of what is reported.
        watcher: is told of the progress.
        resumed: the journal existed.
        shown_paths: the paths as the user named them.
    """

    def __init__(  # noqa: PLR0913  a session is where these meet
        self,
        invocation: Invocation,
        journal: Journal,
        known: KnownAnswers,
        redactor: Redactor,
        watcher: Watcher,
        *,
        resumed: bool,
        shown_paths: Mapping[Path, Path],
    ) -> None:
        self._invocation = invocation
        self._journal = journal
        self._known = known
        self._redactor = redactor
        self._watcher = watcher
        self._resumed = resumed
        self._shown_paths = shown_paths
        self._run: Run | None = None
        self._planned: _Part
        self._confirmation: _Part | None = None
        self._looks: Looks | None = None
        self._settled: Literal["pass", "borderline", "fail"] | None = None
        self._any_run_ended = False
        self._started_at, self._start = time.time(), time.perf_counter()

    def start(self, plan: RunPlan, records: dict[int, RunRecord]) -> None:
        """Write the journal's header, and take over what is known of the plan."""
        self._journal.start(Header(suite=self._invocation.describe(), started_at=self._started_at))
        self._planned = self._take_over(plan, records)

    async def run(self, ready: OpenSuite, stop: Stop) -> str | None:
        """Carry out the invocation with providers to call; returns why it was stopped early, or None."""
        invocation, (plan, records, cells, _) = self._invocation, self._planned
        run = self._run = stop.run = Run(
            invocation.suite,
            plan,
            records,
            self._journal,
            cells,
            ready,
            on_result=self._note_result,
            known=self._known,
            files=invocation.files,
        )
        try:
            async with self._watcher.watching(run):
                await self.carry_out()
        except asyncio.CancelledError:
            if stop.reason is None:
                raise
            return stop.reason
        return run.stopped

    def _note_result(self, result: Result) -> None:
        self._any_run_ended = True
        self._watcher.note_result(result)

    # The story: rounds, looks, confirmation.

    async def carry_out(self) -> None:
        """Run round after round while the verdict is open, then whatever needs confirmation."""
        rounds, baseline = self._invocation.rounds, self._invocation.baseline
        for number, runs in enumerate(rounds, 1):
            if number > 1:
                self._extend(runs)
            if len(rounds) > 1:
                self._looks = Looks(rounds, number)
            await self._run_rounds(is_last=number == len(rounds))
            if self._stopped or self._settled or number == len(rounds) or self._is_decided():
                break
            going_on = f"the verdict is open after {number_of(runs, 'round')}: going on to {rounds[number]}"
            self._watcher.note_decision(going_on)
        if isinstance(baseline, Baseline) and not self._stopped and not self._settled:
            await self._confirm_suspects(baseline)

    @property
    def _stopped(self) -> bool:
        return self._run is not None and self._run.stopped is not None

    def _is_decided(self) -> bool:
        return is_certain(self.report(None), self._invocation.suite.gate)

    def _extend(self, runs: int) -> None:
        """Plan `runs` runs of every cell instead of fewer."""
        old, plan = self._planned, self._invocation.plan(runs)
        part = self._take_over(plan, move_records(old.records, old.plan, plan))
        self._planned = part._replace(resumption=_sum(old.resumption, part.resumption))
        if self._run is not None:
            self._run.go_on(part.plan, part.records, part.cells, f"round {runs}")

    async def _run_rounds(self, *, is_last: bool) -> None:
        """Run what is planned: all at once, or with `stop_early` round by round until the verdict is certain."""
        run, (plan, records, cells, _) = self._run, self._planned
        if run is None:
            return
        if not self._invocation.suite.stop_early or self._invocation.shard:
            await run.finish()
            return
        # Only a red verdict ends what another look, or the comparison, would still learn from.
        any_verdict_ends = is_last and self._invocation.baseline is None
        for number in range(1, plan.rounds + 1):
            run.go_on(plan, records, cells, run.doing, number)
            await run.finish()
            if self._stopped or number == plan.rounds:
                return
            first_rounds = self._first_rounds(number)
            verdict = settle(self._report(first_rounds), plan, self._invocation.suite.gate)
            if verdict == "fail" or (verdict is not None and any_verdict_ends):
                self._settled, self._planned = verdict, first_rounds
                return

    def _first_rounds(self, number: int) -> _Part:
        part = self._planned
        plan = part.plan.first_rounds(number)
        return part._replace(plan=plan, records=move_records(part.records, part.plan, plan))

    async def _confirm_suspects(self, baseline: Baseline) -> None:
        """Run suspects again, apart from the runs that the gate judges."""
        suite, plan = self._invocation.suite, self._planned.plan
        cells = self._suspects(baseline) if suite.confirm_runs else []
        if not cells:
            return
        further = plan_runs(plan.cases, plan.variants, suite.confirm_runs, only=frozenset(cells), after=plan)
        part = self._confirmation = self._take_over(further, {})
        names = list(dict.fromkeys(name_of(plan.case(cell).id) for cell in cells))
        shown = ", ".join(names[:MAX_NAMES]) + (", …" if len(names) > MAX_NAMES else "")
        count = number_of(len(cells), "suspect")
        if self._run is None:
            if part.missing:
                lack = f"{number_of(part.missing, 'run')} to confirm {count} are missing: {shown}"
                remedy = "give every shard the same --baseline, or have them run with --run-missing"
                self._watcher.note_decision(f"{lack}; {remedy}")
            return
        if part.missing:
            more = number_of(suite.confirm_runs, "more run")
            self._watcher.note_decision(f"confirming {count} with {more} each: {shown}")
        self._run.go_on(part.plan, part.records, part.cells, f"confirming {count}")
        await self._run.finish()

    def _suspects(self, baseline: Baseline) -> list[int]:
        """The cells to run again, among all cells of the suite: a shard has the same suspects as an unsharded run."""
        report = self.report(None)
        keys = suspects(head_cells(report, self._invocation.suite.gate, unplanned=True), baseline)
        plan = report.plan  # without secrets in its names, as in the baseline
        return [cell for cell in range(len(plan)) if plan.runs(cell) and plan.key(cell) in keys]

    def _take_over(self, plan: RunPlan, records: dict[int, RunRecord]) -> _Part:
        """Fill a plan with the results that exist."""
        cells = Cells(self._invocation.suite, plan)
        return _Part(plan, records, cells, self._known.take_over(plan, records, cells, self._journal, self._redactor))

    # The report.

    @property
    def why_incomplete(self) -> str | None:
        """The shards that are missing where runs are."""
        missing = missing_shards(self._invocation.sources) if self._planned.missing else []
        return f"shard {', '.join(missing)} is missing" if missing else None

    def report(self, interrupted: str | None) -> SuiteReport:
        """Return the report of what is recorded by now; `interrupted` says why there is no more."""
        confirmation = self._report(self._confirmation) if self._confirmation else None
        return self._report(self._planned, interrupted, confirmation)

    def _report(
        self, part: _Part, interrupted: str | None = None, confirmation: SuiteReport | None = None
    ) -> SuiteReport:
        invocation, records = self._invocation, part.records
        started_at, duration_s = self._span()
        return SuiteReport(
            self._redactor.clean(invocation.describe()),
            replace(part.plan, cases=self._shown_cases),
            records,
            read=lambda indices: map(
                decode, read_lines(invocation.journal, (records[index].offset for index in indices))
            ),
            started_at=started_at,
            duration_s=duration_s,
            interrupted=interrupted,
            resumption=self._resumption(part) if self._resumed or invocation.sources else None,
            fingerprints=[invocation.suite.case_fingerprint(row) for row in range(len(part.plan.cases))],
            looks=self._looks,
            settled=self._settled,
            confirmation=confirmation,
        )

    @cached_property
    def _shown_cases(self) -> Sequence[Case]:
        """The cases without secrets: they may contain what the suite elsewhere takes from a variable."""
        return [self._redactor.clean(case) for case in self._invocation.suite.cases]

    def _span(self) -> tuple[float, float]:
        """Return the start of the first result, and the time from there to the end of the last.

        Where nothing ran, both are as the journals have them: the same journals always make the same report.
        """
        if self._any_run_ended or not self._known.ended_at:
            return self._first_started_at, time.perf_counter() - self._start
        return self._first_started_at, max(0.0, round(self._known.ended_at - self._first_started_at, 3))

    @cached_property
    def _first_started_at(self) -> float:
        """The start of the first of the invocations that this one continues."""
        paths = (*([self._invocation.journal] if self._resumed else ()), *self._invocation.sources)
        return min((each.started_at for each in filter(None, map(first_header, paths))), default=self._started_at)

    def _resumption(self, part: _Part) -> Resumption | None:
        """Return what was taken over; a merge is reported as one run, unless a line of a journal was lost."""
        found = part.resumption
        if self._invocation.merge and not found.torn:
            return None
        return replace(found, torn=tuple(self._shown_paths[Path(name)].as_posix() for name in found.torn))


def _with_absolute_paths(invocation: Invocation) -> Invocation:
    """Name the same files wherever code under test makes the process go."""
    return replace(
        invocation,
        journal=invocation.journal.absolute(),
        sources=tuple(path.absolute() for path in invocation.sources),
        replay=invocation.replay and invocation.replay.absolute(),
        files=invocation.files and invocation.files.absolute(),
    )


def _open_providers(
    invocation: Invocation, plan: RunPlan, records: dict[int, RunRecord]
) -> AbstractAsyncContextManager[OpenSuite]:
    """Open what is called: nothing if no run is missing or everything is replayed."""
    if not invocation.run_missing:
        return nullcontext(OpenSuite())
    calls, judges = not invocation.replay_only and invocation.traces is None, not invocation.replay_only
    return open_suite(invocation.suite, plan, records, calls=calls, judges=judges, files=invocation.files)


def _known_answers(invocation: Invocation) -> KnownAnswers:
    """The answers that are taken before any provider is called."""
    known = KnownAnswers(keep_errored=invocation.merge)
    if invocation.traces is not None:
        known.add_traces(invocation.traces)
    elif invocation.run_missing:
        known.add_recordings(invocation.suite.cases)
        if invocation.replay:
            known.add_replay(invocation.replay)
    return known


def _sum(one: Resumption, other: Resumption) -> Resumption:
    return replace(
        one,
        kept=one.kept + other.kept,
        retried=one.retried + other.retried,
        changed=one.changed + other.changed,
    )


def known_durations(path: Path) -> Mapping[CellKey, float]:
    """Return the mean duration of a run of each cell in an earlier journal or report.json, in seconds.

    Raises:
        StorageError: it is neither.
    """
    seen: dict[CellKey, list[float]] = {}
    for result in results_of(path / JOURNAL if path.is_dir() else path):
        seen.setdefault((result.case, result.provider, result.prompt), []).append(result.latency_s)
    # An exact sum, so that all shards agree whatever the order of the file they were given.
    return {key: fsum(latencies) / len(latencies) for key, latencies in seen.items()}


def check_sources(invocation: Invocation) -> None:
    """Refuse to merge journals that do not belong together.

    Raises:
        StorageError: a journal cannot be read.
        UsageError: one of them is of another suite, or is the one to be written.
    """
    for path in invocation.sources:
        if path.resolve() == invocation.journal.resolve():
            raise UsageError(f"{path} is one of the journals to merge: choose another --out for the result")
        for header in headers(path)[-1:]:  # earlier invocations may have been of an earlier version
            if header.suite.fingerprint != invocation.suite.fingerprint:
                other = f"another suite than {invocation.suite.file} ({header.suite.name!r} at {header.suite.file})"
                raise UsageError(f"{path} is of {other}, another version of it, or other --runs or --providers")


def missing_shards(sources: Iterable[Path]) -> list[str]:
    """Return the shards, as `3/5`, that no journal is of."""
    labels = {header.suite.shard for path in sources for header in headers(path)[-1:]}
    counts = sorted({int(label.partition("/")[2]) for label in labels if label})
    every = [f"{number}/{count}" for count in counts for number in range(1, count + 1)]
    return [label for label in every if label not in labels]
