"""One invocation: planned rounds, runs that confirm suspects, and the report.

Only this module drives the engine and asks the gate between rounds.
"""

import asyncio
import time
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    closing,
    nullcontext,
)
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Literal, NamedTuple

from ci_evals.engine.cells import Cells
from ci_evals.engine.interrupt import Stop
from ci_evals.engine.journal import (
    Header,
    Journal,
    first_header,
    headers,
    read_lines,
)
from ci_evals.engine.recordings import Recordings
from ci_evals.engine.runner import Run
from ci_evals.engine.setup import OpenSuite, open_suite
from ci_evals.errors import ConfigError
from ci_evals.format import name_of, number_of, usd
from ci_evals.gate.baseline import Baseline, add_tallies, reported_cells
from ci_evals.gate.cells import base_keys, match_cells
from ci_evals.gate.compare import NoComparison, next_runs
from ci_evals.gate.verdict import is_certain, settle, unanswered_variants
from ci_evals.gate.wording.comparisons import (
    failed_repeats_sentence,
    failed_round_sentence,
    outage_sentence,
)
from ci_evals.invocation import (
    Invocation,
    Watcher,
    missing_shards,
    missing_shards_clause,
)
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import (
    CellKey,
    RunPlan,
    plan_further_runs,
    plan_runs,
)
from ci_evals.model.report import (
    Looks,
    MainNow,
    Resumption,
    RunOnMain,
    RunRecord,
    SuiteReport,
    move_records,
)
from ci_evals.model.result import RunError, decode_result
from ci_evals.model.ruler import MainRules, Ruler, StoredAnswers
from ci_evals.model.rules import Gate
from ci_evals.model.settings import ChangedSetting, ChangedSettings, SuiteSettings
from ci_evals.redaction import Redactor
from ci_evals.reports.files import remove_reports
from ci_evals.reports.view import reasons_of
from ci_evals.suite.types import CheckedSuite

if TYPE_CHECKING:
    from ci_evals.alongside import Alongside, RunMain
    from ci_evals.gate.confirmation import FurtherRuns
    from ci_evals.ruling import Ruling

    _RunCells = RunMain["_Outcomes | NoComparison"]

_Outcomes = Mapping[CellKey, Sequence[RunOnMain]]
"""Main's runs of each cell, in order."""

MAX_NAMES = 5
MAIN_ALONE_WITHIN_S = 3600.0
"""Seconds that main may take where it runs first: how long the change takes is not known yet."""
PAIR_WITHIN_S = 1800.0
"""The longest time between a run and the one of main that it is compared with, in seconds."""
_SWITCHED_OFF = ChangedSetting(what="main alongside", here="off", weaker=True)
DAY_S = 24 * 60 * 60.0


class Executed(NamedTuple):
    """The report of an invocation, and what it is compared with."""

    report: SuiteReport
    baseline: Baseline | NoComparison | None


async def execute(
    invocation: Invocation, *, watcher: Watcher | None = None, stop: Stop | None = None
) -> Executed:
    """Run the cells of a suite that have no result yet, and return the report of all.

    Args:
        invocation: what to run.
        watcher: follows the progress.
        stop: gets what returns the results so far. Once its reason is set, a cancellation ends the
            runs and tears down all fixtures.

    Raises:
        ConfigError: a provider or grader cannot be opened; nothing was called, and no file was
            touched.
        StorageError: a journal cannot be read or written.
    """
    async with invocation.main or nullcontext():
        return await _execute(invocation, watcher or Watcher(), stop or Stop())


async def _execute(invocation: Invocation, watcher: Watcher, stop: Stop) -> Executed:
    main = invocation.main
    is_halved = main is not None and invocation.runs_plan_of_main and not main.takes_turns
    if is_halved:
        from ci_evals.alongside import halve_limits

        invocation = replace(invocation, suite=halve_limits(invocation.suite))
    shown_paths = {path.absolute(): path for path in (invocation.journal, *invocation.sources)}
    invocation = _with_absolute_paths(invocation)
    # Nothing in the results folder is replaced until everything is open: a mistake in the suite
    # must not cost the earlier results.
    async with AsyncExitStack() as opening:
        opened = await opening.enter_async_context(_open(invocation))
        with ExitStack() as files:
            recordings = Recordings(
                keep_errored=invocation.merge, keep_unchecked=invocation.without_secrets
            )
            files.enter_context(closing(recordings))
            resumed = invocation.resume and _has_lines(invocation.journal)
            # Before the journal is opened, which may rename the file that answers come from.
            _add_answers(recordings, invocation, resumed=resumed)
            redactor = Redactor(invocation.suite.secrets)
            journal = Journal(
                invocation.journal,
                redactor,
                max_answer_bytes=invocation.suite.settings.max_answer_bytes,
                resume=resumed,
            )
            files.enter_context(closing(journal))
            if invocation.files:
                remove_reports(invocation.files, invocation.suite.formats)
            # After it is opened: a torn last line has been removed by then.
            continued = _add_results(recordings, invocation, journal, resumed=resumed)
            recordings.torn = [shown_paths[path] for path in recordings.torn]
            invocation = _continue(invocation, continued, resumed=resumed)
            run = Run(
                invocation.suite,
                journal,
                opened,
                recordings=recordings,
                on_result=watcher.note_result,
                files=invocation.files,
            )
            run.first = invocation.first
            alongside = None
            if invocation.main is not None:
                from ci_evals.alongside import Alongside

                alongside = Alongside(invocation.main, run, watcher)
            session = _Session(
                invocation,
                run,
                journal,
                recordings,
                redactor,
                watcher,
                continued,
                time.time(),
                opening,
                is_halved=is_halved,
                alongside=alongside,
            )
            return await session.execute(stop)


def _compare_with(
    invocation: Invocation, baseline: Baseline | NoComparison, watcher: Watcher
) -> Invocation:
    """Return an invocation whose baseline is main's runs, or the reason that there are none."""
    if isinstance(baseline, NoComparison):
        watcher.note_decision(baseline.reason)
        known = invocation.baseline
        if isinstance(known, NoComparison):  # why there is no stored report, either
            baseline = replace(known, reason=f"{known.reason}; {baseline.reason}")
    return replace(invocation, baseline=baseline)


def _with_absolute_paths(invocation: Invocation) -> Invocation:
    """Return an invocation with absolute paths: code under test may change the working folder."""
    return replace(
        invocation,
        journal=invocation.journal.absolute(),
        sources=tuple(path.absolute() for path in invocation.sources),
        replay=invocation.replay and invocation.replay.absolute(),
        reusable=tuple(path.absolute() for path in invocation.reusable),
        files=invocation.files and invocation.files.absolute(),
    )


def _open(invocation: Invocation) -> AbstractAsyncContextManager[OpenSuite]:
    """Open what the invocation may call."""
    if not invocation.run_missing:
        return nullcontext(OpenSuite())
    may_call = not invocation.replay_only
    return open_suite(
        invocation.suite,
        calls=may_call and invocation.traces is None,
        judges=may_call,
        files=invocation.files,
    )


def _has_lines(journal: Path) -> bool:
    return journal.exists() and journal.stat().st_size > 0


def _add_answers(recordings: Recordings, invocation: Invocation, *, resumed: bool) -> None:
    """Add the answers that an invocation may use instead of calls."""
    if invocation.traces is not None:
        recordings.add_traces(invocation.traces)
        return
    if not invocation.run_missing:
        return
    recordings.add_case_recordings(invocation.suite.cases)
    if invocation.replay:
        recordings.add_recording(invocation.replay)
    reuse = invocation.suite.reuse
    if reuse and not invocation.replay_only:
        not_before = time.time() - reuse.max_age_days * DAY_S
        reusable = list(invocation.reusable)
        if not resumed and _has_lines(invocation.journal):  # it is about to be renamed
            reusable.insert(0, invocation.journal)
        changed_code = invocation.suite.own_code
        if invocation.reuse_own_code:
            changed_code = ()
        for path in reusable:
            recordings.add_reusable(path, not_before, changed_code)


def _add_results(
    recordings: Recordings, invocation: Invocation, journal: Journal, *, resumed: bool
) -> Sequence[Path]:
    """Add the results of earlier invocations and return their journals."""
    continued = list(invocation.sources)
    if resumed:
        recordings.add_results(invocation.journal, is_own=True)
        continued.insert(0, invocation.journal)
    if journal.torn:
        recordings.torn.append(invocation.journal)
    for path in invocation.sources:
        recordings.add_results(path)
    return continued


def _continue(invocation: Invocation, continued: Sequence[Path], *, resumed: bool) -> Invocation:
    """Return an invocation with the run id and the marks of the journals that it continues."""
    if resumed:
        first = first_header(invocation.journal)
        if first is not None and first.suite.run_id:
            invocation = replace(invocation, run_id=first.suite.run_id)
    if any(header.suite.replayed for path in continued for header in headers(path)):
        invocation = replace(invocation, replayed=True)
    return invocation


class _Part(NamedTuple):
    """Runs with their results: the planned runs, or the runs that confirm suspects."""

    plan: RunPlan
    records: dict[int, RunRecord]
    cells: Cells
    resumption: Resumption

    @property
    def missing(self) -> int:
        """The number of runs without a result."""
        return self.plan.total - len(self.records)

    def load_into(self, run: Run, doing: str = "", rounds: int | None = None) -> None:
        """Queue the runs without a result; see `Run.load_plan`."""
        run.load_plan(self.cells, self.records, doing, rounds)


class _Evidence(NamedTuple):
    """The runs and looks that a report is made from.

    Args:
        planned: the planned runs.
        confirmation: the runs that confirm suspects; None if there are none.
        main_now: main's runs in the same minutes; None if it has no part.
        looks: the rounds, and how many of them have been looked at; None for one round.
        settled: the verdict that made the rest of the planned runs unnecessary.
    """

    planned: _Part
    confirmation: _Part | None = None
    main_now: MainNow | None = None
    looks: Looks | None = None
    settled: Literal["pass", "borderline", "fail"] | None = None


@dataclass
class _Session:
    """Executes an invocation and reports its results.

    Args:
        invocation: what to run; its paths are absolute.
        run: makes runs.
        journal: where results are written.
        recordings: the results and answers that exist.
        redactor: takes secrets out of what is reported.
        watcher: follows the progress.
        continued: the journals of earlier invocations.
        started_at: seconds since 1970.
        opening: what is open, to be closed while main occupies the same ports.
        is_halved: the suite is open with half of its limits, since the other half is main's.
        alongside: main's code; None if there is none.
    """

    invocation: Invocation
    run: Run
    journal: Journal
    recordings: Recordings
    redactor: Redactor
    watcher: Watcher
    continued: Sequence[Path]
    started_at: float
    opening: AsyncExitStack
    is_halved: bool
    alongside: "Alongside | None"
    start: float = field(default_factory=time.perf_counter)
    evidence: _Evidence = field(init=False)
    """What there is to report now, since a signal may end the runs at any time."""
    _main_plan: asyncio.Task[Baseline | NoComparison] | None = None
    _ruling: "Ruling | None" = None
    _lack_of_rules: Ruler | None = None
    _changed_settings: ChangedSettings | None = None
    _spare: int | None = None
    """The runs that may still be made beyond the plan, here and on main; None if nothing was said
    about them, as none can be made."""

    async def execute(self, stop: Stop) -> Executed:
        """Run the planned runs without a result, then confirm suspects; return the report."""
        invocation, run = self.invocation, self.run
        stop.run = run
        plan = invocation.plan(invocation.rounds[0])
        self.journal.start(
            Header(suite=invocation.describe(), started_at=self.started_at, planned=plan.total)
        )
        if invocation.is_off:
            self._changed_settings = ChangedSettings(main="main", changes=(_SWITCHED_OFF,))
        self.evidence = _Evidence(self._take_over(plan, {}), main_now=self._main_to_ask())
        self._announce(plan)
        self.evidence.planned.load_into(run)
        stop.report = lambda: self._executed(stop.reason)
        try:
            watching = self.watcher.watch(run) if invocation.run_missing else nullcontext()
            async with watching, self._main_alongside():
                for number, runs in enumerate(invocation.rounds, 1):
                    self.evidence = self._plan_round(self.evidence, number, runs)
                    self.evidence = await self._run_round(self.evidence, number)
                    if self._is_decided(self.evidence, number):
                        break
                await self._compare_with_main()
                await self._ask_for_main_rules()
                await self._run_as_often_as_main()
                await self._grade_by_main(self.evidence)
                if not run.stopped:
                    await self._ask_dropped_cases()
                # Withdrawn first: an outage would otherwise make suspects of cells at random.
                if not run.stopped:
                    self.evidence = self._withdraw_failed_rounds(self.evidence)
                baseline = self.invocation.baseline
                if isinstance(baseline, Baseline) and not run.stopped:
                    await self._confirm(baseline)
                    main_now = self.evidence.main_now
                    if main_now is None or main_now.lack:
                        evidence = self._withdraw_failed_repeats(self.evidence, baseline)
                        self.evidence = self._withdraw_outages(evidence, baseline)
            await run.end_setups(self.evidence.planned.records)
        except asyncio.CancelledError:
            if stop.reason is not None:  # the results so far have been reported
                await run.end_setups(self.evidence.planned.records)
            raise
        interrupted = run.stopped
        if interrupted is None and self.evidence.planned.missing:
            missing = missing_shards(invocation.sources)
            if missing:
                interrupted = missing_shards_clause(missing)
        return self._executed(interrupted)

    def _announce(self, plan: RunPlan) -> None:
        """Say how many runs are planned, and how many more are made at most."""
        invocation, suite = self.invocation, self.invocation.suite
        is_compared = isinstance(invocation.baseline, Baseline) or self.alongside is not None
        may_call = invocation.run_missing and not invocation.replay_only
        if not is_compared or not may_call or not suite.confirm_runs:
            return
        from ci_evals.gate.repeats import Matrix, most_repeats

        keys = [key for cell, key in enumerate(plan.keys) if plan.runs(cell)]
        matrix = Matrix(
            cells=len(keys),
            cases=len({case for case, *_ in keys}),
            variants=len({key[1:] for key in keys}),
            cells_of_suite=len(plan),
        )
        is_whole = invocation.shard is None
        runs_main = self.alongside is not None and is_whole
        most = most_repeats(matrix, suite.confirm_runs, runs_main=runs_main, is_whole=is_whole)
        self._spare = most
        runs = number_of(plan.total, "run")
        if invocation.runs_plan_of_main:
            runs = f"{runs} here, as many on main"
        if len(invocation.rounds) > 1:
            total = invocation.plan(invocation.rounds[-1]).total
            runs = f"{runs}, up to {total:,} while the verdict is open"
        more = f"at most {most:,} more"
        price = _mean_price(invocation.baseline)
        if price is not None:
            more = f"{more} (about {usd(most * price)})"
        self.watcher.note_decision(f"{runs}, {more} if everything looks worse")

    def _executed(self, interrupted: str | None) -> Executed:
        """Return the report of what there is; `interrupted` says why there is not more."""
        return Executed(self._report(self.evidence, interrupted), self.invocation.baseline)

    def _take_over(
        self, plan: RunPlan, records: dict[int, RunRecord], suite: CheckedSuite | None = None
    ) -> _Part:
        """Fill a plan with the results that exist; `suite` is the invocation's, unless given."""
        cells = Cells(suite or self.invocation.suite, plan)
        resumption = self.recordings.take_over(plan, records, cells, self.journal, self.redactor)
        return _Part(plan, records, cells, resumption)

    def _extend(self, old: _Part, plan: RunPlan) -> _Part:
        """Return the runs of an extended plan, with the results that exist."""
        part = self._take_over(plan, move_records(old.records, old.plan, plan))
        was, more = old.resumption, part.resumption
        resumption = replace(
            was,
            kept=was.kept + more.kept,
            retried=was.retried + more.retried,
            changed=was.changed + more.changed,
        )
        return part._replace(resumption=resumption)

    # Main alongside.

    @asynccontextmanager
    async def _main_alongside(self) -> AsyncIterator[None]:
        """Run main's plan within the context, or first where the sides take turns, if there is no
        other baseline; the end of the block ends main's runs.
        """
        alongside = self.alongside
        if alongside is None or not self.invocation.runs_plan_of_main:
            yield
            return
        try:
            if alongside.main.takes_turns:
                await self._run_main_first(alongside)
            else:
                self.watcher.note_decision(f"{alongside.name} runs alongside")
                self._main_plan = await alongside.begin(alongside.main.run_plan)
            yield
        finally:
            await alongside.end()

    async def _run_main_first(self, alongside: "Alongside") -> None:
        """Run main's plan before anything of this side, and compare with it."""
        self.watcher.note_decision(f"running {alongside.name}")
        shares_resources = alongside.main.shares_resources
        if shares_resources:
            # It was only opened to find mistakes, before anything is paid for.
            await self._close()
        runs = await alongside.begin(alongside.main.run_plan)
        baseline = await alongside.finish(runs, MAIN_ALONE_WITHIN_S)
        self.invocation = _compare_with(self.invocation, baseline, self.watcher)
        if shares_resources:
            await self._reopen(self.invocation.suite)
        self.evidence.planned.load_into(self.run)

    @property
    def _asked_main(self) -> "Alongside | None":
        """Main's code, as long as it is asked."""
        if self.alongside is None or self.alongside.given_up:
            return None
        return self.alongside

    async def _compare_with_main(self) -> None:
        """Wait for main's runs, if there are any: the report is then compared with them."""
        alongside, runs = self._asked_main, self._main_plan
        if alongside is not None and runs is not None:
            took_s = self._duration_s()
            baseline = await alongside.finish(runs, alongside.allowed_s(took_s) - took_s)
            self.invocation = _compare_with(self.invocation, baseline, self.watcher)

    # Main's checks.

    async def _ask_for_main_rules(self) -> None:
        """Learn what main's suite asks and expects, if that may differ from what the change does.

        A change that leaves the suite as it was costs nothing here.
        """
        invocation, main = self.invocation, self._asked_main
        if main is None and not invocation.lacks_main:
            return
        if invocation.shard or not self._may_differ():
            return
        if main is not None:
            rules = await main.ask(main.main.describe(), self._duration_s())
            if isinstance(rules, MainRules):
                from ci_evals.ruling import Ruling

                self._ruling = Ruling.of(main.name, rules, invocation.suite)
                theirs = rules.settings
                if isinstance(invocation.baseline, Baseline) and invocation.baseline.settings:
                    # Main's suite doesn't say what its workflow sets.
                    theirs = replace(theirs, fail_on=invocation.baseline.settings.fail_on)
                self._compare_settings(main.name, invocation.settings, theirs)
                return
            self._note_lack_of_rules(main, rules)
        base = invocation.baseline
        if isinstance(base, Baseline) and base.settings is not None:
            # The command line may have set the number of confirm runs there.
            known = replace(base.settings, confirm_runs=None)
            name = f"{base.name} ({base.reports[0].commit})"
            self._compare_settings(name, self._shown_settings, known)

    def _compare_settings(self, name: str, here: SuiteSettings, main: SuiteSettings) -> None:
        """Note which settings differ from main's, and main's number of runs where it is higher."""
        from ci_evals.gate.changed_settings import compare_settings, runs_of_main

        is_selection = self.invocation.suite.selection is not None
        changed = compare_settings(name, here, main, is_selection=is_selection)
        if self.invocation.is_off:
            changed = replace(changed, changes=(_SWITCHED_OFF, *changed.changes))
        self._changed_settings = self.redactor.clean(changed)
        self.invocation = replace(self.invocation, runs_of_main=runs_of_main(here, main))

    @property
    def _shown_settings(self) -> SuiteSettings:
        """The settings of the change without secrets, as reports have them."""
        return self.redactor.clean(self.invocation.settings)

    def _may_differ(self) -> bool:
        """Return True unless the suite is that of main's newest report."""
        suite, base = self.invocation.suite, self.invocation.baseline
        if not isinstance(base, Baseline) or base.settings is None:
            return True
        if base.alongside:  # main's suite was run otherwise than it is written
            return True
        if base.fingerprint != suite.fingerprint:
            return True
        from ci_evals.gate.changed_settings import compare_settings

        is_selection = suite.selection is not None
        here = self._shown_settings
        changed = compare_settings(base.name, here, base.settings, is_selection=is_selection)
        return bool(changed.changes)

    async def _run_as_often_as_main(self) -> None:
        """Run cases as often as main does, if the change has them run less often."""
        invocation = self.invocation
        if not invocation.runs_of_main or not invocation.run_missing:
            return
        if self.evidence.settled or self.run.stopped:
            return
        count = number_of(len(invocation.runs_of_main), "case")
        self.watcher.note_decision(f"running {count} as often as main does")
        plan = invocation.plan(invocation.rounds[0])
        self.evidence = self._extend_plan(self.evidence, plan, "main's runs")
        await self.run.run()

    async def _grade_by_main(self, evidence: _Evidence) -> None:
        """Have the answers graded by main's checks where the change has edited them."""
        main, ruling = self._asked_main, self._ruling
        if main is None or ruling is None or self.run.stopped:
            return
        report = self._report(evidence)
        reports = [each for each in (report, report.confirmation) if each is not None]
        runs = ruling.ungraded(reports)
        if not runs:
            return
        self.watcher.note_decision(
            f"grading {number_of(len(runs), 'answer')} by the checks of {main.name}"
        )
        passed = await self._grade(main, ruling.ask(runs, report.plan, self.invocation.journal))
        if passed is None:
            self._ruling = None
        else:
            ruling.note(runs, passed)

    async def _grade(
        self, main: "Alongside", answers: StoredAnswers
    ) -> Sequence[bool | None] | None:
        """Return whether each answer passes main's checks; None, which is said, if nobody knows."""
        grading = main.main.grade(answers, main.note_cost)
        passed = await main.ask(grading, self._duration_s())
        if isinstance(passed, NoComparison):
            self._note_lack_of_rules(main, passed)
            return None
        return passed

    async def _ask_dropped_cases(self) -> None:
        """Ask what only main's suite asks, and have the answers graded by its checks.

        Their results are in the journal under names of their own, so that resuming keeps them.
        """
        invocation, main, ruling = self.invocation, self._asked_main, self._ruling
        may_call = invocation.run_missing and not invocation.replay_only
        if main is None or ruling is None or not ruling.dropped or not may_call:
            return
        cases = await main.ask(main.main.show_cases(ruling.dropped_to_ask), self._duration_s())
        if isinstance(cases, NoComparison):
            self._note_lack_of_rules(main, cases)
            return
        suite = ruling.suite_of_dropped(cases)
        plan = plan_runs(suite.cases, suite.columns, suite.runs)
        part = self._take_over(plan, {}, suite)
        asking = f"asking {number_of(len(plan.cases), 'case')} of {main.name}"
        if part.missing:
            self.watcher.note_decision(f"{asking}: {_first_names(case.id for case in cases)}")
        part.load_into(self.run, asking)
        await self.run.run()
        runs = ruling.runs_of_dropped(plan, part.records)
        passed = await self._grade(main, ruling.ask_dropped(runs, plan, invocation.journal))
        if passed is not None:
            ruling.note_dropped(runs, plan, passed)

    def _note_lack_of_rules(self, main: "Alongside", why: NoComparison) -> None:
        """Say once why main's checks grade nothing more."""
        baseline = self.invocation.baseline
        is_known = isinstance(baseline, NoComparison) and why.reason in baseline.reason
        if not is_known:
            self.watcher.note_decision(f"not graded by main's checks: {why.reason}")
            self._lack_of_rules = Ruler(main=main.name, problem=why.reason)

    def _ruler(self, plan: RunPlan) -> Ruler | None:
        """Return main's grades of the cells of a plan, without secrets in their names."""
        lack, ruler = self._lack_of_rules, None
        if self._ruling is not None:
            ruler = self._ruling.ruler(plan)
            if lack is not None:
                ruler = replace(ruler, problem=lack.problem)
        return self.redactor.clean(ruler or lack)

    # Rounds.

    def _plan_round(self, evidence: _Evidence, number: int, runs: int) -> _Evidence:
        """Extend the plan to `runs` runs of every cell, and count the look at them."""
        rounds = self.invocation.rounds
        if number > 1:
            evidence = self._extend_plan(evidence, self.invocation.plan(runs), f"round {runs}")
        if len(rounds) > 1:
            evidence = evidence._replace(looks=Looks(rounds, number))
        return evidence

    def _extend_plan(self, evidence: _Evidence, plan: RunPlan, doing: str) -> _Evidence:
        """Queue what a plan has beyond the planned runs so far."""
        part = self._extend(evidence.planned, plan)
        part.load_into(self.run, doing)
        return evidence._replace(planned=part)

    async def _run_round(self, evidence: _Evidence, number: int) -> _Evidence:
        """Run the planned runs: all at once, or with `stop_early` one round after the other until
        the verdict is certain.
        """
        invocation = self.invocation
        if not invocation.suite.stop_early or invocation.shard or not invocation.run_missing:
            await self.run.run()
            return evidence
        # A later look or the comparison may still turn a green verdict red, so only a red one ends
        # the runs before the last look.
        is_last = number == len(invocation.rounds)
        is_compared = invocation.baseline is not None or invocation.main is not None
        any_verdict_ends = is_last and not is_compared
        planned, plan = evidence.planned, evidence.planned.plan
        for runs in range(1, plan.rounds + 1):
            planned.load_into(self.run, self.run.doing, runs)
            await self.run.run()
            if self.run.stopped or runs == plan.rounds:
                break
            first = plan.first_rounds(runs)
            records = move_records(planned.records, plan, first)
            part = planned._replace(plan=first, records=records)
            report = self._report(evidence._replace(planned=part))
            verdict = settle(report, plan, invocation.suite.gate, invocation.baseline)
            if verdict == "fail" or (verdict is not None and any_verdict_ends):
                return evidence._replace(planned=part, settled=verdict)
        return evidence

    def _is_decided(self, evidence: _Evidence, number: int) -> bool:
        """Return True if no further round is needed; announce one that is."""
        invocation = self.invocation
        rounds = invocation.rounds
        if self.run.stopped or evidence.settled or number == len(rounds):
            return True
        if is_certain(self._report(evidence), invocation.suite.gate, invocation.baseline):
            return True
        taken = number_of(rounds[number - 1], "round")
        self.watcher.note_decision(
            f"the verdict is open after {taken}: going on to {rounds[number]}"
        )
        return False

    # Confirmation.

    async def _confirm(self, baseline: Baseline) -> None:
        """Run suspects and variants in doubt again, step by step, until nothing more can be said.

        These runs are kept apart from the planned ones, which alone the gate's bars judge: more
        runs of what looks bad would bias the rate. Cells of other shards count as well, so that a
        shard has the same suspects as an unsharded run. It can't tell whether a variant is in
        doubt, because it has only a share of the variant's cells.
        """
        invocation = self.invocation
        suite = invocation.suite
        is_whole = invocation.shard is None and invocation.run_missing
        while not self.run.stopped:
            report = self._report(self.evidence)
            lost = unanswered_variants(report, suite.gate)
            head = [
                cell
                for cell in reported_cells(report, suite.gate, unplanned=True)
                if cell.variant not in lost
            ]
            step = next_runs(
                head,
                baseline,
                suite.confirm_runs,
                suite.gate or Gate(),
                main_now=self.evidence.main_now,
                is_whole=is_whole,
            )
            if step is None or self._exceeds(step):
                break
            before = self.evidence.confirmation
            main = self._asked_main
            if step.on_main and main is not None:
                await self._run_on_both_sides(main, step, base_keys(head, baseline))
            else:
                await self._run_again(step, step.runs)
            part = self.evidence.confirmation
            if part is None or part is before:  # these are runs of other shards
                break
            await self._grade_by_main(self.evidence)
            if main is not None and main.given_up:
                self.evidence = self.evidence._replace(main_now=self._main_to_ask())
            if part.missing:
                break

    def _main_to_ask(self) -> MainNow | None:
        """Return main without any run, and with the reason if it cannot run what would be red; None
        if nobody expects it to.
        """
        invocation = self.invocation
        if invocation.shard is not None or not invocation.run_missing or invocation.replay_only:
            return None  # a part of the suite, or of its answers, is no evidence
        if self.alongside is not None:
            main = self.alongside.main
            lack = self.alongside.given_up or main.changed_surroundings
            return MainNow(name=main.name, lack=lack, results=main.results)
        if invocation.lacks_main:
            return MainNow(name="main", lack=invocation.lacks_main)
        return None

    def _exceeds(self, step: "FurtherRuns") -> bool:
        """Return True if a step takes more runs than are left of what was announced.

        That may happen where a variant stops answering: its share of suspects is left to others.
        """
        if self._spare is None:
            return False
        plan = self.evidence.planned.plan
        runs = sum(step.runs.get(key, 0) for cell, key in enumerate(self._keys) if plan.runs(cell))
        if step.on_main:
            runs *= 2
        return runs > self._spare

    async def _run_again(self, step: "FurtherRuns", runs: Mapping[CellKey, int]) -> None:
        """Run cells again here, if they are of this shard."""
        part = self._add_runs(runs)
        if part is None:
            return
        self.evidence = self.evidence._replace(confirmation=part)
        if part.missing:
            self.watcher.note_decision(self._describe(part, step))
            if self._spare is not None:
                sides = 2 if step.on_main else 1
                self._spare -= sides * part.missing
        cells = sum(1 for cell in range(len(part.plan)) if part.plan.runs(cell))
        part.load_into(self.run, f"running {number_of(cells, 'cell')} again")
        await self.run.run()

    # What both sides run.

    async def _run_on_both_sides(
        self, main: "Alongside", step: "FurtherRuns", names: Mapping[CellKey, CellKey]
    ) -> None:
        """Run cells here and on main, at the same time or in turns.

        Args:
            main: the other side.
            step: the runs to make.
            names: the name of each cell on main.
        """
        before = self.evidence.confirmation
        of_main = {names[key]: count for key, count in step.runs.items()}
        run_main = partial(main.main.run_cells, of_main)
        if main.main.takes_turns:
            outcomes = await self._run_in_turns(main, run_main, step)
        else:
            outcomes = await self._run_at_once(main, run_main, step)
        known, after = self.evidence.main_now, self.evidence.confirmation
        if self.run.stopped or known is None or after is None:
            return  # the pairs that were cut say nothing
        if isinstance(outcomes, NoComparison):
            self.watcher.note_decision(outcomes.reason)
            main_now = MainNow(name=main.name, lack=outcomes.reason)
        else:
            done = {key: outcomes[names[key]] for key in step.runs if names[key] in outcomes}
            main_now = self._add_main_runs(known, done, after, before)
        self.evidence = self.evidence._replace(main_now=main_now)

    async def _run_at_once(
        self, main: "Alongside", run_main: "_RunCells", step: "FurtherRuns"
    ) -> _Outcomes | NoComparison:
        """Run cells here while main runs them, with half of the limits for each side."""
        if not self.is_halved:
            from ci_evals.alongside import halve_limits

            self.is_halved = True
            await self._close()
            await self._reopen(halve_limits(self.invocation.suite))
        try:
            runs = await main.begin(run_main)
            started = time.perf_counter()
            await self._run_again(step, step.runs)
            took_s = time.perf_counter() - started
            return await main.finish(runs, main.allowed_s(took_s) - took_s)
        finally:
            await main.end()

    async def _run_in_turns(
        self, main: "Alongside", run_main: "_RunCells", step: "FurtherRuns"
    ) -> _Outcomes | NoComparison:
        """Run half of the runs here, then main's, then the other half.

        So what changes over an hour changes both sides alike.
        """
        first = {key: ceil(count / 2) for key, count in step.runs.items()}
        rest = {key: count - first[key] for key, count in step.runs.items() if count > first[key]}
        started = time.perf_counter()
        await self._run_again(step, first)
        if self.run.stopped:
            return {}
        within_s = main.allowed_s(2 * (time.perf_counter() - started))
        if main.main.shares_resources:
            await self._close()
        try:
            runs = await main.begin(run_main)
            outcomes = await main.finish(runs, within_s)
        finally:
            await main.end()
        if main.main.shares_resources:
            await self._reopen(self.invocation.suite)
        if not self.run.stopped:
            await self._run_again(step, rest)
        return outcomes

    async def _close(self) -> None:
        """Close everything that this side calls, its services and fixtures included."""
        await self.run.end_setups(self.evidence.planned.records)
        await self.opening.aclose()
        self.run.use(OpenSuite())

    async def _reopen(self, suite: CheckedSuite) -> None:
        """Open a suite again; if that fails, nothing more is run."""
        try:
            opened = await self.opening.enter_async_context(
                _open(replace(self.invocation, suite=suite))
            )
        except ConfigError as error:
            self.run.stop(f"the suite could not be opened again: {error.problems[0].message}")
        else:
            self.run.use(opened)

    def _add_main_runs(
        self,
        known: MainNow,
        done: _Outcomes,
        part: _Part,
        old: _Part | None,
    ) -> MainNow:
        """Return main's runs with those of a step, each with the run here that it was made with."""
        runs = {cell: dict(of_cell) for cell, of_cell in known.runs.items()}
        for cell, key in enumerate(self._keys):
            made = old.plan.runs(cell) if old is not None else 0
            if (more := part.plan.runs(cell) - made) > 0:
                first = part.plan.first_runs[cell] + made
                of_cell = runs.setdefault(cell, {})
                if key not in done:
                    # What main does not have gives no grade, and is not asked for again.
                    of_cell.update(dict.fromkeys(range(first, first + more)))
                    continue
                for number, on_main in self._pairs(part, cell, enumerate(done[key], first)):
                    of_cell[number] = on_main.outcome
        return replace(known, runs=runs)

    def _pairs(
        self, part: _Part, cell: int, runs: Iterable[tuple[int, RunOnMain]]
    ) -> Iterator[tuple[int, RunOnMain]]:
        """Yield those of main's runs that were made in the same minutes as the run here with the
        same number.

        If one of the two was taken over from an earlier invocation, the other may be of another
        day: both sides then run it again.
        """
        records = {number: part.records.get(index) for number, index in part.plan.numbered(cell)}
        for number, on_main in runs:
            record = records.get(number)
            if record is None:  # this side was cut
                continue
            if self.continued:
                (line,) = read_lines(self.invocation.journal, [record.offset])
                earlier, later = sorted((decode_result(line).started_at, on_main.started_at))
                if earlier < self.started_at and later - earlier > PAIR_WITHIN_S:
                    continue
            yield number, on_main

    def _add_runs(self, runs: Mapping[CellKey, int]) -> _Part | None:
        """Return the runs beyond the plan with some more; None if these are of other shards."""
        plan = self.evidence.planned.plan
        old = self.evidence.confirmation
        counts: dict[int, int] = {}
        added = False
        for cell, key in enumerate(self._keys):
            if old is not None:
                counts[cell] = old.plan.runs(cell)
            if plan.runs(cell) and key in runs:
                counts[cell] = counts.get(cell, 0) + runs[key]
                added = True
        if not added:
            return None
        if old is None:
            self.recordings.end_reuse()
            return self._take_over(plan_further_runs(plan, counts), {})
        return self._extend(old, plan_further_runs(plan, counts))

    def _describe(self, part: _Part, step: "FurtherRuns") -> str:
        """Say what is run again how often, or which runs are missing."""
        runs = number_of(max(step.runs.values()), "more run")
        if min(step.runs.values()) < max(step.runs.values()):
            runs = f"up to {runs}"
        if step.on_main and self.alongside is not None:
            runs = f"{runs}, as on {self.alongside.name},"
        if step.variants:
            change = "better" if step.why == "maybe better" else "worse"
            cells = number_of(len(step.runs), "cell")
            named = _first_names(str(variant) for variant in step.variants)
            return f"{named} may be {change} as a whole: {runs} of {cells}"
        subjects = dict.fromkeys((*step.cases, *(case for case, *_ in step.cells)))
        count = number_of(len(subjects), step.why.removesuffix("s"))
        named = _first_names(subjects)
        if not self.invocation.run_missing:
            problem = f"{number_of(part.missing, 'run')} to confirm {count} are missing: {named}"
            remedy = "give every shard the same --baseline, or run them with --run-missing"
            return f"{problem}; {remedy}"
        return f"confirming {count} with {runs} each: {named}"

    # Withdrawal.

    def _withdraw_failed_rounds(self, evidence: _Evidence) -> _Evidence:
        """Withdraw rounds that failed as a whole, by variant, before they decide anything."""
        if max(evidence.planned.plan.counts, default=0) < 2:
            return evidence  # there is no other round to compare it with
        from ci_evals.gate.outages import failed_rounds

        report = self._report(evidence)
        for variant, failed_round in failed_rounds(report).items():
            runs: list[int] = []
            for cell in report.cells_of(variant):
                runs += report.plan.indices(cell)[failed_round.run - 1 : failed_round.run]
            why = failed_round_sentence(failed_round)
            part = self._withdraw(evidence.planned, report, variant, runs, why)
            evidence = evidence._replace(planned=part, settled=None)
        return evidence

    def _withdraw_failed_repeats(self, evidence: _Evidence, baseline: Baseline) -> _Evidence:
        """Withdraw the repeats of a variant that are worse than the planned runs of the same cells.

        Suspects were chosen for their failures, so that repeats are better on average: worse ones
        speak of an outage.
        """
        report = self._report(evidence)
        if evidence.confirmation is None or report.confirmation is None:
            return evidence
        head = reported_cells(report, self.invocation.suite.gate)
        from ci_evals.gate.history_only import failed_repeats

        for variant in failed_repeats(match_cells(head, baseline)):
            cells = [cell for cell in head if cell.variant == variant and cell.confirming.graded]
            why = failed_repeats_sentence(
                add_tallies(cell.planned for cell in cells),
                add_tallies(cell.confirming for cell in cells),
            )
            runs = _indices(report.confirmation, variant)
            part = self._withdraw(evidence.confirmation, report.confirmation, variant, runs, why)
            evidence = evidence._replace(confirmation=part)
        return evidence

    def _withdraw_outages(self, evidence: _Evidence, baseline: Baseline) -> _Evidence:
        """Withdraw all planned runs of a variant that failed as a whole."""
        report = self._report(evidence)
        rules = self.invocation.suite.gate or Gate()
        from ci_evals.gate.history_only import find_outages

        outages = find_outages(reported_cells(report, rules), baseline, rules.alpha)
        for variant, outage in outages.items():
            runs = _indices(report, variant)
            part = self._withdraw(evidence.planned, report, variant, runs, outage_sentence(outage))
            evidence = evidence._replace(planned=part, settled=None)
        return evidence

    def _withdraw(
        self, part: _Part, report: SuiteReport, variant: Variant, runs: Iterable[int], why: str
    ) -> _Part:
        """Record runs of a part as errored, so that resuming makes all of them again.

        Passed runs are withdrawn as well: repeating only the others would favour the variant.
        """
        self.watcher.note_decision(f"{name_of(variant)}: {why}")
        indices = [index for index in runs if index in part.records]
        failed = [result for result in report.results(indices) if result.status == "failed"]
        causes = Counter(reasons_of(result)[0].missed for result in failed)
        cause = None
        if causes:
            cause = causes.most_common(1)[0][0]
        records = dict(part.records)
        for index, result in zip(indices, report.results(indices), strict=True):
            error = result.error
            if error is None or result.status != "errored":
                detail = error.detail if error else None
                error = RunError("outage", why, detail=detail, cause=cause)
            withdrawn = replace(result, status="errored", score=None, grades=(), error=error)
            if result.is_broken_off:
                withdrawn = replace(withdrawn, response=None)
            records[index] = RunRecord.of(*self.journal.append(withdrawn))
        return part._replace(records=records)

    # Reports.

    def _report(self, evidence: _Evidence, interrupted: str | None = None) -> SuiteReport:
        """Return the report of all records; `interrupted` says why there are not more."""
        confirmation = None
        if evidence.confirmation is not None:
            confirmation = self._report_of(evidence.confirmation, evidence)
        return self._report_of(evidence.planned, evidence, interrupted, confirmation)

    def _report_of(
        self,
        part: _Part,
        evidence: _Evidence,
        interrupted: str | None = None,
        confirmation: SuiteReport | None = None,
    ) -> SuiteReport:
        invocation, suite, records = self.invocation, self.invocation.suite, part.records
        # A merge is reported as one run, unless a line of a journal was lost.
        takes_over = self.continued and (not invocation.merge or part.resumption.torn)

        main_cost = None
        if self.alongside is not None and part is evidence.planned:
            main_cost = self.alongside.cost

        def lines(indices: Iterable[int]) -> Iterator[bytes]:
            return read_lines(invocation.journal, [records[index].offset for index in indices])

        return SuiteReport(
            self.redactor.clean(invocation.describe()),
            replace(part.plan, cases=self._shown_cases),
            records,
            lines=lines,
            started_at=self._first_started_at,
            duration_s=self._duration_s(),
            interrupted=interrupted,
            resumption=part.resumption if takes_over else None,
            fingerprints=[suite.case_fingerprint(row) for row in range(len(suite.cases))],
            looks=evidence.looks,
            settled=evidence.settled,
            confirmation=confirmation,
            ruler=self._ruler(part.plan),
            changed_settings=self._changed_settings,
            main_now=evidence.main_now if part is evidence.planned else None,
            main_cost=main_cost,
        )

    def _duration_s(self) -> float:
        if self.run.any_ended or not self.recordings.ended_at:
            return time.perf_counter() - self.start
        # Nothing ran: the same journals always give the same report.
        return max(0.0, round(self.recordings.ended_at - self._first_started_at, 3))

    @cached_property
    def _first_started_at(self) -> float:
        """The start of the first of all invocations that this one continues."""
        headers = [first_header(path) for path in self.continued]
        started = [header.started_at for header in headers if header is not None]
        return min([self.started_at, *started])

    @property
    def _keys(self) -> Sequence[CellKey]:
        """The cells of the plan by their names without secrets, as the baseline has them."""
        return replace(self.evidence.planned.plan, cases=self._shown_cases).keys

    @cached_property
    def _shown_cases(self) -> Sequence[Case]:
        """The cases without secrets: they may repeat a value that comes from a variable."""
        return [self.redactor.clean(case) for case in self.invocation.suite.cases]


def _mean_price(baseline: Baseline | NoComparison | None) -> float | None:
    """Return the mean cost of a run of the baseline in USD; None if it is not known."""
    if not isinstance(baseline, Baseline):
        return None
    prices = [cell.per_run.cost_usd for cell in baseline.cells.values()]
    known = [price for price in prices if price]
    return fmean(known) if known else None


def _indices(report: SuiteReport, variant: Variant) -> list[int]:
    """Return the indices in the plan of a variant's runs."""
    indices: list[int] = []
    for cell in report.cells_of(variant):
        indices += report.plan.indices(cell)
    return indices


def _first_names(cases: Iterable[str]) -> str:
    """`refund, cancel, …`."""
    names = list(dict.fromkeys(name_of(case) for case in cases))
    named = ", ".join(names[:MAX_NAMES])
    if len(names) > MAX_NAMES:
        named += ", …"
    return named
