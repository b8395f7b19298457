"""One invocation: a suite, how it is run, and what main's code does for it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from math import fsum
from pathlib import Path
from typing import Protocol

from ci_evals.engine.journal import JOURNAL, headers
from ci_evals.engine.recordings import Trace, load_results
from ci_evals.engine.runner import Run
from ci_evals.errors import UsageError
from ci_evals.gate.baseline import Baseline
from ci_evals.gate.compare import NoComparison
from ci_evals.gate.verdict import FailOn
from ci_evals.model.case import Case
from ci_evals.model.plan import (
    CellKey,
    RunPlan,
    Shard,
    cells_of_shard,
    plan_further_runs,
    plan_runs,
)
from ci_evals.model.report import Checkout, MainCost, RunOnMain, SuiteInfo
from ci_evals.model.result import Result
from ci_evals.model.ruler import MainRules, StoredAnswers
from ci_evals.model.settings import SuiteSettings
from ci_evals.release import __version__
from ci_evals.suite.types import CheckedSuite


class OtherSide(AbstractAsyncContextManager["OtherSide"], Protocol):
    """Main's code, which runs the same suite alongside the change.

    The end of the context ends what it has started.
    """

    def take_over(self, journals: Iterable[Path]) -> None:
        """Take over main's runs from journals of earlier attempts of the same job."""

    @property
    def name(self) -> str:
        """The branch and its commit: `main (0123456)`."""

    @property
    def changed_surroundings(self) -> str:
        """Which file that both sides run in differs from main's; empty if none does."""

    @property
    def preparing_s(self) -> float:
        """Seconds that main's files may still take to be prepared, by a command of its suite."""

    @property
    def shares_resources(self) -> bool:
        """True if a service or a fixture of the two sides occupies the same port or database."""

    @property
    def takes_turns(self) -> bool:
        """True if the two sides cannot run at once: for that, or as calls are made one by one."""

    async def run_plan(
        self, note_spending: Callable[[MainCost], None], note_begin: Callable[[], None]
    ) -> Baseline | NoComparison:
        """Run the plan once, and return the report as a baseline, or why there is none.

        `note_begin` is called when everything is open, and the first run begins. Each call of
        `note_spending` is told what main has cost so far.
        """

    async def describe(self) -> MainRules | NoComparison:
        """Return what main's suite asks and expects, or why that is not known."""

    async def show_cases(self, names: Sequence[str]) -> Sequence[Case] | NoComparison:
        """Return cases of main's suite without what is expected, or why they are not known."""

    async def grade(
        self, answers: StoredAnswers, note_spending: Callable[[MainCost], None]
    ) -> Sequence[bool | None] | NoComparison:
        """Return whether each answer passes main's checks, or why that is not known.

        Judges cost: each call of `note_spending` is told what main has cost so far.
        """

    async def run_cells(
        self,
        runs: Mapping[CellKey, int],
        note_spending: Callable[[MainCost], None],
        note_begin: Callable[[], None],
    ) -> Mapping[CellKey, Sequence[RunOnMain]] | NoComparison:
        """Run cells of main's suite so many further times, and return these runs, in order.

        Cells that main does not have are left out.
        """

    def results(self, cells: Collection[CellKey]) -> Iterator[Result]:
        """Yield the results of some cells of main's suite so far, in the order of finishing.

        Raises:
            StorageError: they cannot be read.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Invocation:
    """A suite to run, and how.

    Args:
        suite: the suite.
        journal: where results are written.
        resume: continue that journal instead of starting a new one.
        sources: journals whose results are reused.
        merge: reuse errored runs as well; the sources are shards of this suite.
        run_missing: run cells without a result; otherwise only report.
        beyond_plan: run each of these cells so many times beyond its planned runs, and nothing
            else; None for the plan.
        shard: run only this share of the cells.
        durations_s: the mean duration of a run of each cell, to balance shards by.
        replay: a recording that answers before any provider is called.
        replay_only: call no provider and no judge.
        reusable: journals of earlier runs, for a suite that reuses answers.
        reuse_own_code: the team's own code has not changed since; its answers are reused as well.
        without_secrets: GitHub gives the job no secrets, so only recordings answer.
        replayed: a recording answered in one of the sources, or in the journal that is resumed.
        traces: answers from elsewhere by case; no provider is called then, but judges are.
        checkout: the commit under test.
        run_id: identifies a new journal; one that is resumed keeps its own.
        files: the folder for files in answers, where reports of an earlier run are removed; None
            keeps none.
        baseline: what to compare with, or why there is nothing; None for no comparison.
        main: main's code, whose checks grade the answers where the change has edited them, and
            which runs what would be red, too; its whole plan is run and compared with where
            `baseline` says why there is nothing else.
        lacks_main: why main's code is not there, although it should be; empty otherwise.
        is_off: main's code is switched off outside of its suite.
        first: the cases to run first.
        failed_before: the cases outside a selection that did not pass when they last ran.
        on_default_branch: True on the default branch; None if that is unknown.
        job_revision: the commit that the job was started for; None if that is unknown.
        runs_of_main: main's number of runs of cases that have fewer here, by their ids.
        fail_on: the verdict on which the job fails, if not as the suite says.
    """

    suite: CheckedSuite
    journal: Path
    resume: bool = False
    sources: tuple[Path, ...] = ()
    merge: bool = False
    run_missing: bool = True
    beyond_plan: Mapping[CellKey, int] | None = None
    shard: Shard | None = None
    durations_s: Mapping[CellKey, float] = field(default_factory=dict)
    replay: Path | None = None
    replay_only: bool = False
    reusable: tuple[Path, ...] = ()
    reuse_own_code: bool = False
    without_secrets: bool = False
    replayed: bool = False
    traces: Mapping[str, Sequence[Trace]] | None = None
    checkout: Checkout = field(default_factory=Checkout)
    run_id: str | None = None
    files: Path | None = None
    baseline: Baseline | NoComparison | None = None
    main: OtherSide | None = None
    lacks_main: str = ""
    is_off: bool = False
    first: frozenset[str] = frozenset()
    failed_before: tuple[str, ...] = ()
    on_default_branch: bool | None = None
    job_revision: str | None = None
    runs_of_main: Mapping[str, int] = field(default_factory=dict)
    fail_on: FailOn | None = None

    @property
    def settings(self) -> SuiteSettings:
        """The settings of the suite, with those from outside of it."""
        return replace(self.suite.strictness, fail_on=self.fail_on or "")

    @property
    def runs_plan_of_main(self) -> bool:
        """Return True if main's plan is run: it has left no report to be compared with."""
        return self.main is not None and not isinstance(self.baseline, Baseline)

    @property
    def rounds(self) -> tuple[int, ...]:
        """The rounds after which the gate looks at the results: at most three.

        Every look is another chance to err, which the bounds allow for. Shards and their merge look
        once, after the last round, as no job sees the results of the others.
        """
        runs, max_runs = self.suite.runs, self.suite.max_runs
        if max_runs is None or max_runs <= runs:
            return (runs,)
        if self.shard or self.merge:
            return (max_runs,)
        return tuple(dict.fromkeys((runs, (runs + max_runs) // 2, max_runs)))

    def plan(self, runs: int) -> RunPlan:
        """Plan `runs` runs of every cell of the suite or of its shard, or what goes beyond them."""
        suite = self.suite
        cases = suite.cases
        if self.runs_of_main:
            least = self.runs_of_main
            cases = [replace(case, runs=least.get(case.id, case.runs)) for case in cases]
        plan = plan_runs(cases, suite.columns, runs)
        if self.beyond_plan is not None:
            more = [(cell, self.beyond_plan.get(key, 0)) for cell, key in enumerate(plan.keys)]
            return plan_further_runs(plan, dict(more))
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
            revision=self.checkout.revision,
            dirty=self.checkout.dirty,
            shard=str(self.shard) if self.shard else None,
            label=suite.settings.label,
            run_id=self.run_id,
            own_code=suite.own_code,
            without_secrets=self.without_secrets,
            replayed=self.replayed or self.replay is not None,
            selection=suite.selection,
            failed_before=self.failed_before,
            on_default_branch=self.on_default_branch,
            job_revision=self.job_revision,
            confirm_runs=suite.confirm_runs,
            provider_kinds=suite.provider_kinds,
            fail_on=self.fail_on,
            without_skills=suite.without_skills,
        )


class Watcher:
    """Follows an invocation. This one ignores everything; subclasses show progress."""

    def note_result(self, result: Result) -> None:
        """A run has ended."""

    def note_decision(self, sentence: str) -> None:
        """The invocation adds runs to its plan, or withdraws some."""

    def watch(self, run: Run) -> AbstractAsyncContextManager[None]:
        """Return a context that lasts as long as runs are made."""
        del run
        return nullcontext()


def known_durations(path: Path) -> Mapping[CellKey, float]:
    """Return the mean duration of a run of each cell in an earlier journal or report.json, in
    seconds.

    Raises:
        StorageError: it is neither.
    """
    seen: dict[CellKey, list[float]] = {}
    for result in load_results(path / JOURNAL if path.is_dir() else path):
        seen.setdefault((result.case, result.provider, result.prompt), []).append(result.latency_s)
    # An exact sum: shards must agree on the means, though the order of lines may differ.
    return {key: fsum(latencies) / len(latencies) for key, latencies in seen.items()}


def check_sources(invocation: Invocation) -> None:
    """Refuse to merge journals that do not belong together.

    Raises:
        StorageError: a journal cannot be read.
        UsageError: a journal is of another suite, or is the one to be written.
    """
    for path in invocation.sources:
        if path.resolve() == invocation.journal.resolve():
            raise UsageError(
                f"{path} is one of the journals to merge: choose another --out for the result"
            )
        for header in headers(path)[-1:]:  # earlier invocations may have been of an earlier version
            if header.suite.fingerprint != invocation.suite.fingerprint:
                raise UsageError(
                    f"{path} is of another suite than {invocation.suite.file}"
                    f" ({header.suite.name!r} at {header.suite.file}), another version of it,"
                    " or other --runs or --providers"
                )


def missing_shards(sources: Iterable[Path]) -> list[Shard]:
    """Return the shards that have no journal among `sources`."""
    present = set()
    for path in sources:
        for header in headers(path)[-1:]:
            if header.suite.shard is not None:
                present.add(Shard.parse(header.suite.shard))
    missing = []
    for total in sorted({shard.of for shard in present}):
        every = [Shard(number, total) for number in range(1, total + 1)]
        missing += [shard for shard in every if shard not in present]
    return missing


def missing_shards_clause(missing: Sequence[Shard]) -> str:
    """`shard 2/5 is missing`, `shards 2/5, 5/5 are missing`."""
    names = ", ".join(map(str, missing))
    if len(missing) == 1:
        return f"shard {names} is missing"
    return f"shards {names} are missing"
