"""One invocation: the planned rounds, a look at the results, the runs that confirm suspects, and
the report.

The only module that drives the engine and asks the gate between rounds.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import fsum
from pathlib import Path
from typing import Literal, NamedTuple

from ci_evals.engine.cells import Cells
from ci_evals.engine.interrupt import Stop
from ci_evals.engine.journal import (
    JOURNAL,
    Header,
    Journal,
    first_header,
    headers,
    read_lines,
)
from ci_evals.engine.known_answers import KnownAnswers, load_results
from ci_evals.engine.runner import Run
from ci_evals.engine.setup import OpenSuite, open_suite
from ci_evals.engine.traces import Trace
from ci_evals.errors import UsageError
from ci_evals.format import name_of, number_of
from ci_evals.gate.baseline import Baseline, add_tallies, head_cells
from ci_evals.gate.compare import NoComparison, failed_confirmations, suspects
from ci_evals.gate.outages import failed_rounds, outages
from ci_evals.gate.verdict import is_certain, settle
from ci_evals.gate.wording import (
    failed_confirmation_sentence,
    failed_round_sentence,
    outage_sentence,
)
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import (
    CellKey,
    RunPlan,
    Shard,
    cells_of_shard,
    plan_further_runs,
    plan_runs,
)
from ci_evals.model.report import Looks, Resumption, RunRecord, SuiteInfo, SuiteReport, move_records
from ci_evals.model.result import Result, RunError
from ci_evals.model.rules import Gate
from ci_evals.redaction import Redactor
from ci_evals.release import __version__
from ci_evals.reports.files import remove_reports
from ci_evals.reports.view import reasons_of
from ci_evals.suite.types import CheckedSuite

MAX_NAMES = 5
DAY_S = 24 * 60 * 60.0


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
        reusable: journals of earlier runs beside the one that is replaced, for a suite that reuses
            answers.
        without_secrets: that is so because GitHub gives the job no secrets.
        replayed: a recording answered in one of the sources, or in the journal that is resumed.
        traces: answers from elsewhere by case; no provider is called then, but judges are.
        revision: the commit under test.
        run_id: identifies a new journal; one that is resumed keeps its own.
        files: the folder for files that answers bring, where reports of an earlier run are removed;
            None keeps none.
        baseline: what to compare with, or why there is nothing; None if nobody asked for a
            comparison.
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
    reusable: tuple[Path, ...] = ()
    without_secrets: bool = False
    replayed: bool = False
    traces: Mapping[str, Sequence[Trace]] | None = None
    revision: str | None = None
    run_id: str | None = None
    files: Path | None = None
    baseline: Baseline | NoComparison | None = None

    @property
    def rounds(self) -> tuple[int, ...]:
        """The rounds after which the gate looks at the results: at most three.

        Shards and their merge look once, after the last round: no job sees the results of the
        others.
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
        return plan_runs(
            suite.cases,
            suite.columns,
            runs,
            only=cells_of_shard(plan, self.shard, self.durations_s),
        )

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
            own_code=suite.own_code,
            without_secrets=self.without_secrets,
            replayed=self.replayed or self.replay is not None,
            selection=suite.selection,
        )


class Watcher:
    """Follows an invocation. This one ignores everything; subclasses show progress."""

    def note_result(self, result: Result) -> None:
        """A run has ended."""

    def note_decision(self, sentence: str) -> None:
        """The invocation goes on with something that was not planned, or leaves it out."""

    def watch(self, run: Run) -> AbstractAsyncContextManager[None]:
        """Runs are made while this context lasts."""
        del run
        return nullcontext()


async def execute(
    invocation: Invocation, *, watcher: Watcher | None = None, stop: Stop | None = None
) -> SuiteReport:
    """Run what is missing of a suite's results and return the report of all of them.

    Args:
        invocation: what to run.
        watcher: is told of the progress.
        stop: once its reason is set, a cancellation ends the runs, and this call still returns the
            report.

    Raises:
        ConfigError: a provider or grader cannot be opened; nothing was called, and no file was
            touched.
        StorageError: a journal cannot be read or written.
    """
    shown_paths = {path.absolute(): path for path in (invocation.journal, *invocation.sources)}
    invocation = replace(  # code under test may make the process go elsewhere
        invocation,
        journal=invocation.journal.absolute(),
        sources=tuple(path.absolute() for path in invocation.sources),
        replay=invocation.replay and invocation.replay.absolute(),
        reusable=tuple(path.absolute() for path in invocation.reusable),
        files=invocation.files and invocation.files.absolute(),
    )
    suite = invocation.suite
    plan, records = invocation.plan(invocation.rounds[0]), dict[int, RunRecord]()
    opening: AbstractAsyncContextManager[OpenSuite] = nullcontext(OpenSuite())
    if invocation.run_missing:
        calls, judges = (
            not invocation.replay_only and invocation.traces is None,
            not invocation.replay_only,
        )
        opening = open_suite(suite, calls=calls, judges=judges, files=invocation.files)
    # The folder's files are replaced only once everything is open: until then, something may be
    # wrong with the suite.
    async with opening as opened:
        with ExitStack() as files:
            known = KnownAnswers(
                keep_errored=invocation.merge, keep_unchecked=invocation.without_secrets
            )
            files.enter_context(closing(known))
            exists = invocation.journal.exists() and invocation.journal.stat().st_size > 0
            resumed = invocation.resume and exists
            _add_answers(
                known, invocation, last=invocation.journal if exists and not resumed else None
            )
            redactor = Redactor(suite.secrets)
            journal = Journal(
                invocation.journal,
                redactor,
                max_answer_bytes=suite.max_answer_bytes,
                resume=resumed,
            )
            files.enter_context(closing(journal))
            if invocation.files:
                remove_reports(invocation.files, suite.formats)
            if resumed:
                known.add_results(invocation.journal, is_own=True)
                if (first := first_header(invocation.journal)) and first.suite.run_id:
                    invocation = replace(invocation, run_id=first.suite.run_id)
            if journal.torn:
                known.torn.append(invocation.journal)
            for path in invocation.sources:
                known.add_results(path)
            known.torn = [shown_paths[path] for path in known.torn]
            continued = (*([invocation.journal] if resumed else ()), *invocation.sources)
            if any(header.suite.replayed for path in continued for header in headers(path)):
                invocation = replace(invocation, replayed=True)
            session = _Session(
                invocation, opened, journal, known, redactor, watcher or Watcher(), continued
            )
            return await session.run(plan, records, stop or Stop())


def _add_answers(known: KnownAnswers, invocation: Invocation, last: Path | None) -> None:
    """Add the answers that an invocation may take; `last` is the journal that it is going to
    replace.
    """
    if invocation.traces is not None:
        known.add_traces(invocation.traces)
    elif invocation.run_missing:
        known.add_recordings(invocation.suite.cases)
        if invocation.replay:
            known.add_replay(invocation.replay)
        reuse = invocation.suite.reuse
        if reuse and not invocation.replay_only:
            not_before = time.time() - reuse.max_age_days * DAY_S
            for path in (*([last] if last else ()), *invocation.reusable):
                known.add_reusable(path, not_before, invocation.suite.own_code)


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


@dataclass
class _Session:
    """Runs an invocation and reports its results.

    Args:
        invocation: what to run; its paths are absolute.
        opened: what is called.
        journal: where results are written.
        known: the results and answers that exist.
        redactor: takes secrets out of what is reported.
        watcher: is told of the progress.
        continued: the journals of earlier invocations.
    """

    invocation: Invocation
    opened: OpenSuite
    journal: Journal
    known: KnownAnswers
    redactor: Redactor
    watcher: Watcher
    continued: Sequence[Path]

    _run: Run = field(init=False)
    _planned: _Part = field(init=False)
    _confirmation: _Part | None = None
    _looks: Looks | None = None
    _settled: Literal["pass", "borderline", "fail"] | None = None
    _any_run_ended: bool = False
    _started_at: float = 0.0
    _start: float = 0.0

    async def run(self, plan: RunPlan, records: dict[int, RunRecord], stop: Stop) -> SuiteReport:
        """Run what is planned and has no result, then whatever needs confirmation; returns the
        report.
        """
        invocation, now = self.invocation, time.time()
        earlier = filter(None, map(first_header, self.continued))
        self._started_at, self._start = (
            min((each.started_at for each in earlier), default=now),
            time.perf_counter(),
        )
        self.journal.start(Header(suite=invocation.describe(), started_at=now, planned=plan.total))
        self._planned = self._take_over(plan, records)
        self._run = stop.run = Run(
            invocation.suite,
            plan,
            records,
            self.journal,
            self._planned.cells,
            self.opened,
            on_result=self._note_result,
            known=self.known,
            files=invocation.files,
        )
        try:
            async with self.watcher.watch(self._run) if invocation.run_missing else nullcontext():
                await self._run_rounds()
                if not self._run.stopped:
                    self._withdraw_failed_rounds()
                if isinstance(invocation.baseline, Baseline) and not self._run.stopped:
                    await self._confirm_suspects(invocation.baseline)
                    self._withdraw_failed_confirmations()
                    self._withdraw_outages(invocation.baseline)
        except asyncio.CancelledError:
            if stop.reason is None:
                raise
            return self._report(stop.reason)
        missing = missing_shards(invocation.sources) if self._planned.missing else []
        return self._report(
            self._run.stopped or (f"shard {', '.join(missing)} is missing" if missing else None)
        )

    def _note_result(self, result: Result) -> None:
        self._any_run_ended = True
        self.watcher.note_result(result)

    def _take_over(self, plan: RunPlan, records: dict[int, RunRecord]) -> _Part:
        """Fill a plan with the results that exist."""
        cells = Cells(self.invocation.suite, plan)
        return _Part(
            plan,
            records,
            cells,
            self.known.take_over(plan, records, cells, self.journal, self.redactor),
        )

    async def _run_rounds(self) -> None:
        """Run round after round while the verdict is open."""
        rounds, gate = self.invocation.rounds, self.invocation.suite.gate
        for number, runs in enumerate(rounds, 1):
            if number > 1:
                self._extend(runs)
            if len(rounds) > 1:
                self._looks = Looks(rounds, number)
            await self._run_planned(is_last=number == len(rounds))
            if self._run.stopped or self._settled or number == len(rounds):
                return
            if is_certain(self._report(), gate):
                return
            going_on = f"the verdict is open after {number_of(runs, 'round')}: going on to {rounds[number]}"
            self.watcher.note_decision(going_on)

    def _extend(self, runs: int) -> None:
        """Plan `runs` runs of every cell instead of fewer."""
        old, plan = self._planned, self.invocation.plan(runs)
        part = self._take_over(plan, move_records(old.records, old.plan, plan))
        was, found = old.resumption, part.resumption
        resumption = replace(
            was,
            kept=was.kept + found.kept,
            retried=was.retried + found.retried,
            changed=was.changed + found.changed,
        )
        self._planned = part._replace(resumption=resumption)
        self._run.load_plan(part.plan, part.records, part.cells, f"round {runs}")

    async def _run_planned(self, *, is_last: bool) -> None:
        """Run what is planned: all at once, or with `stop_early` round by round until the verdict
        is certain.
        """
        invocation, run, (plan, records, cells, _) = self.invocation, self._run, self._planned
        if not invocation.suite.stop_early or invocation.shard or not invocation.run_missing:
            await run.run()
            return
        # Only a red verdict ends what another look, or the comparison, would still learn from.
        any_verdict_ends = is_last and invocation.baseline is None
        for number in range(1, plan.rounds + 1):
            run.load_plan(plan, records, cells, run.doing, number)
            await run.run()
            if run.stopped or number == plan.rounds:
                return
            first = plan.first_rounds(number)
            first_rounds = self._planned._replace(
                plan=first, records=move_records(records, plan, first)
            )
            verdict = settle(self._report_of(first_rounds), plan, invocation.suite.gate)
            if verdict == "fail" or (verdict is not None and any_verdict_ends):
                self._settled, self._planned = verdict, first_rounds
                return

    async def _confirm_suspects(self, baseline: Baseline) -> None:
        """Run suspects again, apart from the runs that the gate judges.

        They are sought among all cells of the suite: a shard has the same suspects as an unsharded
        run.
        """
        suite, plan, report = self.invocation.suite, self._planned.plan, self._report()
        head, alpha = head_cells(report, suite.gate, unplanned=True), (suite.gate or Gate()).alpha
        found = suspects(head, baseline, suite.confirm_runs, alpha)
        shown = report.plan  # without secrets in its names, as in the baseline
        cells = {
            cell: found[key]
            for cell in range(len(shown))
            if shown.runs(cell) and (key := shown.key(cell)) in found
        }
        if not cells:
            return
        self.known.end_reuse()
        part = self._confirmation = self._take_over(plan_further_runs(plan, cells), {})
        names = list(dict.fromkeys(name_of(plan.case(cell).id) for cell in cells))
        named = ", ".join(names[:MAX_NAMES]) + (", …" if len(names) > MAX_NAMES else "")
        count = number_of(len(cells), "suspect")
        if part.missing and self.invocation.run_missing:
            most = max(cells.values())
            more = f"{'' if min(cells.values()) == most else 'up to '}{number_of(most, 'more run')}"
            self.watcher.note_decision(f"confirming {count} with {more} each: {named}")
        elif part.missing:
            lack = f"{number_of(part.missing, 'run')} to confirm {count} are missing: {named}"
            remedy = "give every shard the same --baseline, or have them run with --run-missing"
            self.watcher.note_decision(f"{lack}; {remedy}")
        self._run.load_plan(part.plan, part.records, part.cells, f"confirming {count}")
        await self._run.run()

    def _withdraw_failed_rounds(self) -> None:
        """Withdraw a round that failed as one, variant by variant, before anything is decided by
        it.
        """
        report = self._report()
        for variant, found in failed_rounds(report).items():
            runs = [
                report.plan.indices(cell)[found.run - 1 : found.run]
                for cell in report.cells_of(variant)
            ]
            self._withdraw(
                self._planned,
                report,
                variant,
                chain.from_iterable(runs),
                failed_round_sentence(found),
            )
            self._settled = None

    def _withdraw_failed_confirmations(self) -> None:
        """Withdraw the confirm runs of a variant that are worse than the planned runs of the same
        cells.
        """
        part, report = self._confirmation, self._report()
        if part is None or report.confirmation is None:
            return
        head = [
            cell
            for cell in head_cells(report, self.invocation.suite.gate)
            if cell.confirming.graded
        ]
        for variant in failed_confirmations(head):
            cells = [cell for cell in head if cell.variant == variant]
            why = failed_confirmation_sentence(
                add_tallies(cell.planned for cell in cells),
                add_tallies(cell.confirming for cell in cells),
            )
            runs = (index for cell in report.cells_of(variant) for index in part.plan.indices(cell))
            self._withdraw(part, report.confirmation, variant, runs, why)

    def _withdraw_outages(self, baseline: Baseline) -> None:
        """Withdraw all planned runs of a variant that failed as one."""
        report, gate = self._report(), self.invocation.suite.gate or Gate()
        for variant, outage in outages(head_cells(report, gate), baseline, gate.alpha).items():
            runs = (
                index for cell in report.cells_of(variant) for index in report.plan.indices(cell)
            )
            self._withdraw(self._planned, report, variant, runs, outage_sentence(outage))
            self._settled = None

    def _withdraw(
        self, part: _Part, report: SuiteReport, variant: Variant, runs: Iterable[int], why: str
    ) -> None:
        """Count runs of a part, and of its report, as errored: resuming makes all of them again.

        Those that passed are withdrawn, too: making only the others again would favour the variant.
        """
        self.watcher.note_decision(f"{name_of(variant)}: {why}")
        records = part.records
        indices = [index for index in runs if index in records]
        causes = Counter(
            reasons_of(result)[0].text
            for result in report.results(indices)
            if result.status == "failed"
        )
        cause = causes.most_common(1)[0][0] if causes else None
        for index, result in zip(indices, report.results(indices), strict=True):
            error = result.error
            if error is None or result.status != "errored":
                detail = error.detail if error else None
                error = RunError("outage", why, detail=detail, cause=cause)
            withdrawn = replace(result, status="errored", score=None, grades=(), error=error)
            records[index] = RunRecord.of(*self.journal.append(withdrawn))

    def _report(self, interrupted: str | None = None) -> SuiteReport:
        """Return the report of what is recorded by now; `interrupted` says why there is no more."""
        confirmation = self._report_of(self._confirmation) if self._confirmation else None
        return self._report_of(self._planned, interrupted, confirmation)

    def _report_of(
        self, part: _Part, interrupted: str | None = None, confirmation: SuiteReport | None = None
    ) -> SuiteReport:
        invocation, records = self.invocation, part.records
        # A merge is reported as one run, unless a line of a journal was lost.
        takes_over = self.continued and (not invocation.merge or part.resumption.torn)
        duration_s = time.perf_counter() - self._start
        if (
            not self._any_run_ended and self.known.ended_at
        ):  # the same journals always make the same report
            duration_s = max(0.0, round(self.known.ended_at - self._started_at, 3))
        return SuiteReport(
            self.redactor.clean(invocation.describe()),
            replace(part.plan, cases=self._shown_cases),
            records,
            lines=lambda slots: read_lines(
                invocation.journal, (records[slot].offset for slot in slots)
            ),
            started_at=self._started_at,
            duration_s=duration_s,
            interrupted=interrupted,
            resumption=part.resumption if takes_over else None,
            fingerprints=[
                invocation.suite.case_fingerprint(row) for row in range(len(part.plan.cases))
            ],
            looks=self._looks,
            settled=self._settled,
            confirmation=confirmation,
        )

    @cached_property
    def _shown_cases(self) -> Sequence[Case]:
        """The cases without secrets: they may contain what the suite elsewhere takes from a
        variable.
        """
        return [self.redactor.clean(case) for case in self.invocation.suite.cases]


def known_durations(path: Path) -> Mapping[CellKey, float]:
    """Return the mean duration of a run of each cell in an earlier journal or report.json, in
    seconds.

    Raises:
        StorageError: it is neither.
    """
    seen: dict[CellKey, list[float]] = {}
    for result in load_results(path / JOURNAL if path.is_dir() else path):
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
            raise UsageError(
                f"{path} is one of the journals to merge: choose another --out for the result"
            )
        for header in headers(path)[-1:]:  # earlier invocations may have been of an earlier version
            if header.suite.fingerprint != invocation.suite.fingerprint:
                other = f"another suite than {invocation.suite.file} ({header.suite.name!r} at {header.suite.file})"
                raise UsageError(
                    f"{path} is of {other}, another version of it, or other --runs or --providers"
                )


def missing_shards(sources: Iterable[Path]) -> list[str]:
    """Return the shards, as `3/5`, that no journal is of."""
    labels = {header.suite.shard for path in sources for header in headers(path)[-1:]}
    counts = sorted({int(label.partition("/")[2]) for label in labels if label})
    every = [f"{number}/{count}" for count in counts for number in range(1, count + 1)]
    return [label for label in every if label not in labels]
