"""The results of one invocation: a small record of each run in memory, the full results in the
journal.
"""

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from math import ceil, fsum
from sys import intern
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import AfterValidator

from ci_evals.format import exact_mean
from ci_evals.model.case import Variant
from ci_evals.model.grading import Classified
from ci_evals.model.plan import CellKey, RunPlan, Shard
from ci_evals.model.response import MAX_TOKENS
from ci_evals.model.result import (
    BudgetFigure,
    Judging,
    Result,
    Status,
    decode_result,
    every_grade,
)
from ci_evals.model.ruler import Ruler
from ci_evals.model.rules import ConfirmRuns
from ci_evals.model.settings import ChangedSettings

_OWN_RUN_ID = re.compile(r"[0-9a-f]{32}")


def _check_share(text: str) -> str:
    return str(Shard.parse(text))


@dataclass(frozen=True, slots=True)
class Checkout:
    """The state of the repository that a suite runs in, according to git.

    Attributes:
        revision: the commit that is checked out; None without git.
        dirty: True if files that git tracks differ from that commit; None if unknown.
    """

    revision: str | None = None
    dirty: bool | None = None


STAND_IN: Final = "canned answers"
"""The name of the `mock` that `init` writes where it finds nothing to call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteInfo:
    """The suite of a report, and the `revision` and `dirty` of its `Checkout`.

    `fingerprint` identifies cases, prompts and providers together, and `run_id` the journal,
    including its continuations; `label` is the user's, for grouping reports. `own_code` are the
    providers that run the team's own code. In a job without secrets (`without_secrets`), nothing
    was called, and only recordings answered; in a run that is `replayed`, recordings came first.
    `selection` is the part of the suite that was selected, if not all of it: `3 of 40 cases`.
    `failed_before` are the ids of cases that were not selected and did not pass in their last run.
    `on_default_branch` and `job_revision`, the commit that the job was started for, are None if no
    CI system reports them. `confirm_runs` are the further runs of a suspect, and `provider_kinds`
    the `type` of each provider and stage. `fail_on` is the verdict on which the job fails, if the
    command line or the environment says so. All three are unknown in older reports.
    `without_skills` are the providers that leave out the skills of another one, with its name.
    """

    name: str
    description: str | None = None
    file: str
    fingerprint: str
    runs: int
    version: str
    revision: str | None = None
    dirty: bool | None = None
    shard: Annotated[str, AfterValidator(_check_share)] | None = None
    label: str | None = None
    run_id: str | None = None
    own_code: tuple[str, ...] = ()
    without_secrets: bool = False
    replayed: bool = False
    selection: str | None = None
    failed_before: tuple[str, ...] = ()
    on_default_branch: bool | None = None
    job_revision: str | None = None
    confirm_runs: ConfirmRuns | None = None
    provider_kinds: Mapping[str, str] = field(default_factory=dict)
    fail_on: Literal["fail", "borderline", "never"] | None = None
    without_skills: Mapping[str, str] = field(default_factory=dict)

    @property
    def asks_stand_in(self) -> bool:
        """True if canned answers of `init` stand in for the app, so that the report tells nothing
        of it.
        """
        return self.provider_kinds.get(STAND_IN) == "mock"

    @property
    def given_run_id(self) -> str | None:
        """The `run_id` that the user gave; None for a random one or one made of the shards'."""
        if self.run_id is None or _OWN_RUN_ID.fullmatch(self.run_id):
            return None
        return self.run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """The runs in earlier journals that an invocation resumed.

    Results were `kept`; `retried` runs had errored, and `changed` ones belong to an earlier version
    of the suite. `torn` are the journals whose last line was cut off.
    """

    kept: int = 0
    retried: int = 0
    changed: int = 0
    torn: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Looks:
    """The rounds after which a look at the results may stop the run early, and the number of looks
    that were taken.
    """

    rounds: tuple[int, ...]
    taken: int


def _no_results(cells: Collection[CellKey]) -> Iterable[Result]:
    del cells
    return ()


class Outcome(NamedTuple):
    """What a graded run came to. `score` is that of its grades; None if it is not known, as where
    main's checks decide.
    """

    passed: bool
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOnMain:
    """A run of main's code that was made alongside.

    Attributes:
        outcome: None if it has no grade.
        started_at: seconds since 1970.
    """

    outcome: Outcome | None
    started_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MainNow:
    """Main's code, run in the same minutes as some runs of a report.

    Attributes:
        name: the branch and its commit: `main (0123456)`.
        lack: why it could not be run; empty if it could.
        runs: of each cell of the report, what each run of main came to, by the number of the run
            here that was made with it; None for one without a grade.
        results: reads main's results of some cells of its own suite, in the order of finishing; a
            report that was read back has none.
    """

    name: str
    lack: str = ""
    runs: Mapping[int, Mapping[int, Outcome | None]] = field(default_factory=dict)
    results: Callable[[Collection[CellKey]], Iterable[Result]] = field(
        default=_no_results, repr=False, compare=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MainCost:
    """What main's code, run alongside, has cost so far.

    Attributes:
        name: the branch and its commit: `main (0123456)`.
        runs: the number of its runs, without recorded ones.
        judge_calls: the number of calls of judges in these runs, and by main's checks.
        cost_usd: the known cost of all of that.
        tokens: the known tokens of all of that.
    """

    name: str
    runs: int = 0
    judge_calls: int = 0
    cost_usd: float = 0.0
    tokens: int = 0


class RunRecord(NamedTuple):
    """The part of a run's result that a report keeps in memory.

    Args:
        status: how the run ended.
        score: the mean of its grades, in [0, 1]; None if it was not graded.
        latency_s: the time of the last attempt.
        first_token_s: the time to the first token of a streamed answer; None if it was not
            measured.
        cost_usd: None if no call was made (the answer is `recorded`) or the price is unknown.
        input_tokens: 0 if unknown.
        output_tokens: 0 if unknown.
        offset: the start of its line in the journal, in bytes.
        unanswered: it failed without an answer: a crash, a time-out, a refusal.
        recorded: the answer came from a recording, so it is no new evidence.
        reused: the recording is an earlier run, and nothing that it depends on has changed.
        over_budget: the run took more than `budget.per_run` allows.
        budget_unknown: the figures that `budget.per_run` limits and that are unknown.
        orders_judge: the answer seems to give orders to the model that judged it.
        judging: the calls of models that judged it.
        grades: the score of each grader.
        metrics: the scores that count towards a metric.
        labels: its labels, task by task.
        attempts: the number of calls; 1 for a recorded answer.
        repeated_for: the reason for more than one call, if known.
        teardown_failed: a fixture could not be torn down after it.
    """

    status: Status
    score: float | None
    latency_s: float
    first_token_s: float | None
    cost_usd: float | None
    input_tokens: int
    output_tokens: int
    offset: int
    unanswered: bool
    recorded: bool
    reused: bool
    over_budget: bool
    budget_unknown: tuple[BudgetFigure, ...]
    orders_judge: bool
    judging: Judging | None
    grades: tuple[tuple[str, float], ...]
    metrics: tuple[tuple[str, float], ...]
    labels: tuple[Classified, ...]
    attempts: int = 1
    repeated_for: str | None = None
    teardown_failed: bool = False

    @classmethod
    def of(cls, result: Result, offset: int) -> "RunRecord":
        """Return the record of a result whose line starts at `offset` in the journal."""
        first_token_s = None
        input_tokens = 0
        output_tokens = 0
        if result.response is not None:
            first_token_s = result.response.slowest_first_token_s
            usage = result.response.usage
            if usage:
                input_tokens = min(max(usage.input_tokens, 0), MAX_TOKENS)
                output_tokens = min(max(usage.output_tokens, 0), MAX_TOKENS)
        # A recorded result keeps the figures of its original call, which this run did not make.
        cost_usd = result.cost_usd
        if result.recorded:
            cost_usd = None
        # Interned, because the records of many runs share few names.
        scores = [(intern(grade.grader), grade.score) for grade in result.grades]
        orders_judge = False
        metrics: list[tuple[str, float]] = []
        labels: list[Classified] = []
        for grade in every_grade(result.grades):
            orders_judge = orders_judge or grade.orders_judge
            if grade.metric:
                metrics.append((intern(grade.metric), grade.score))
            if grade.classified is not None:
                labels.append(grade.classified)
        attempts = result.attempts
        if result.recorded:
            attempts = 1
        return cls(
            status=result.status,
            score=result.score,
            latency_s=result.latency_s,
            first_token_s=first_token_s,
            cost_usd=cost_usd,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            offset=offset,
            unanswered=result.status == "failed" and result.error is not None,
            recorded=result.recorded,
            reused=result.reused,
            over_budget=bool(result.budget_violations),
            budget_unknown=result.budget_unknown,
            orders_judge=orders_judge,
            judging=result.judging,
            grades=tuple(scores),
            metrics=tuple(metrics),
            labels=tuple(labels),
            attempts=attempts,
            repeated_for=result.repeated_for,
            teardown_failed=result.teardown_error is not None,
        )

    @property
    def graded(self) -> bool:
        return self.status != "errored"

    @property
    def is_scored(self) -> bool:
        """True if a grader gave more than whether the answer is right: a score between 0 and 1."""
        return any(score not in (0, 1) for _, score in self.grades)

    @property
    def scores_by_metric(self) -> Mapping[str, float]:
        """The score of each metric: the mean of those of the graders that name it."""
        scores: dict[str, list[float]] = defaultdict(list)
        for metric, score in self.metrics:
            scores[metric].append(score)
        return {metric: exact_mean(found) for metric, found in scores.items()}

    @property
    def lacks_price(self) -> bool:
        """True if the run was graded after a call with an unknown price."""
        return self.graded and not self.recorded and self.cost_usd is None


def move_records(
    records: Mapping[int, RunRecord], old: RunPlan, new: RunPlan
) -> dict[int, RunRecord]:
    """Return the records of one plan by the indices of another plan for the same cells.

    Runs that the other plan lacks are dropped.

    Args:
        records: the records by index of `old`.
        old: their plan.
        new: a plan whose cells have more or fewer runs.
    """
    moved = {}
    for cell in range(len(old)):
        both = zip(old.indices(cell), new.indices(cell), strict=False)
        for old_index, new_index in both:
            if old_index in records:
                moved[new_index] = records[old_index]
    return moved


class Tally(NamedTuple):
    """The graded runs of one cell."""

    passed: int
    graded: int

    @property
    def rate(self) -> float:
        return self.passed / self.graded

    @property
    def is_mixed(self) -> bool:
        """Return True if some runs passed and some failed."""
        return 0 < self.passed < self.graded


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of runs by status. `planned` includes runs that never happened."""

    passed: int
    failed: int
    errored: int
    planned: int

    @property
    def graded(self) -> int:
        return self.passed + self.failed

    @property
    def tally(self) -> Tally:
        return Tally(self.passed, self.graded)

    @property
    def missing(self) -> int:
        return self.planned - self.graded - self.errored

    @property
    def pass_rate(self) -> float | None:
        """The share of graded runs that passed; None when none was graded."""
        if not self.graded:
            return None
        return self.passed / self.graded


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Latency in seconds over the graded runs; first tokens, cost and tokens over the runs that
    report them.

    `cost_usd` is the cost of the `priced_runs`; None if there are none.
    """

    latency_mean_s: float | None
    latency_p50_s: float | None
    latency_p95_s: float | None
    cost_usd: float | None
    priced_runs: int
    input_tokens: int
    output_tokens: int
    first_token_p50_s: float | None = None
    first_token_p95_s: float | None = None

    @property
    def cost_per_run_usd(self) -> float | None:
        if self.cost_usd is None:
            return None
        return self.cost_usd / self.priced_runs


class Spent(NamedTuple):
    """The cost of calls with a known price, in USD, by purpose; None if there are none."""

    planned: float | None
    confirming: float | None
    judging: float | None

    @property
    def total_usd(self) -> float | None:
        known = [cost for cost in self if cost is not None]
        if not known:
            return None
        return fsum(known)


class Unpriced(NamedTuple):
    """The calls with an unknown price, which `Spent` leaves out: runs (including confirm runs) and
    judges.
    """

    runs: int
    judge_calls: int


_SIGNALS = ("SIGHUP", "SIGINT", "SIGTERM")


@dataclass(eq=False, repr=False)
class SuiteReport:
    """All results of one invocation, with settings and revision.

    Args:
        suite: the suite, its revision, and the version of ci-evals.
        plan: the planned runs.
        records: the records of runs by index; a run without a record did not take place.
        lines: reads the lines of the given indices from the journal, in their order.
        started_at: seconds since the epoch.
        duration_s: wall time of the run phase.
        interrupted: the signal or reason that ended it early, or None.
        resumption: the runs taken over from earlier journals, or None without resumption.
        fingerprints: for each case of the plan, the identity of its question and its judgement,
            independent of its id.
        looks: the rounds after which the run could stop early, or None if all rounds had to run.
        settled: the verdict that no further round could have changed (`stop_early`); `plan` has the
            rounds that ran.
        confirmation: the further runs of suspects, as a report of the same cells; None if there
            were no suspects.
        ruler: main's grades of answers whose checks the change has edited; None if there are none.
        changed_settings: the settings that differ from main's; None if main's are not known, or
            surely the same.
        main_now: main's runs in the same minutes; None if nobody asked for them.
        main_cost: what main's code has cost; None if it has called nothing.
    """

    suite: SuiteInfo
    plan: RunPlan
    records: Mapping[int, RunRecord]
    _: KW_ONLY
    lines: Callable[[Iterable[int]], Iterator[bytes]]
    started_at: float
    duration_s: float
    interrupted: str | None = None
    resumption: Resumption | None = None
    fingerprints: Sequence[str]
    looks: Looks | None = None
    settled: Literal["pass", "borderline", "fail"] | None = None
    confirmation: "SuiteReport | None" = None
    ruler: Ruler | None = None
    changed_settings: ChangedSettings | None = None
    main_now: MainNow | None = None
    main_cost: MainCost | None = None

    @property
    def was_signalled(self) -> bool:
        """True if a signal ended it early, not a budget or a missing shard."""
        return self.interrupted in _SIGNALS

    # Identity.

    @property
    def id(self) -> str:
        """Identifies the report among all others."""
        text = f"{self.suite.fingerprint} {self.suite.shard} {self.started_at}"
        return _short_digest(text)

    def cases_fingerprint(self, variant: Variant) -> str:
        """Return the fingerprint of a variant's questions and grading, whatever their order."""
        cells = [cell for cell in self.cells_of(variant) if self.plan.runs(cell)]
        in_order = sorted(self.fingerprints[self.plan.row(cell)] for cell in cells)
        return _short_digest("\n".join(in_order))

    # Runs and cells.

    @cached_property
    def _records_by_cell(self) -> Sequence[Sequence[RunRecord]]:
        """The records of every cell, in plan order."""
        groups = []
        index = 0
        for runs in self.plan.counts:
            group = []
            for _ in range(runs):
                if index in self.records:
                    group.append(self.records[index])
                index += 1
            groups.append(group)
        return groups

    def records_of(self, cells: Iterable[int] | None = None) -> list[RunRecord]:
        """The records of the runs of some cells, or of all, in plan order."""
        if cells is None:
            cells = range(len(self.plan))
        records: list[RunRecord] = []
        for cell in cells:
            records += self._records_by_cell[cell]
        return records

    def indices(self, status: Status, cells: Iterable[int] | None = None) -> list[int]:
        """The indices whose run ended in `status`, of some cells or of all, in plan order."""
        if cells is None:
            cells = range(len(self.plan))
        indices = []
        for cell in cells:
            for index in self.plan.indices(cell):
                record = self.records.get(index)
                if record is not None and record.status == status:
                    indices.append(index)
        return indices

    def cells_of(self, variant: Variant) -> range:
        """The cells of one variant."""
        first = self.plan.variants.index(variant)
        return range(first, len(self.plan), len(self.plan.variants))

    def results(self, indices: Iterable[int] | None = None) -> Iterator[Result]:
        """Read the results of some runs, or of all in plan order, from the journal.

        Runs without a record are left out.
        """
        if indices is None:
            indices = range(self.plan.total)
        ran = [index for index in indices if index in self.records]
        for line in self.lines(ran):
            yield decode_result(line)

    @property
    def runs(self) -> list[Result]:
        """Every result in plan order, read from the journal."""
        return list(self.results())

    # Counts and rates.

    @cached_property
    def gated_cells(self) -> Sequence[int]:
        """The cells that the gate judges: all but the cells of cases in quarantine."""
        cells: list[int] = []
        for row, case in enumerate(self.plan.cases):
            if case.quarantine is None:
                cells += self.plan.cells_of_row(row)
        return cells

    @property
    def judged_cells(self) -> Sequence[int]:
        """The cells that figures cover: those that the gate judges, or all if there are none."""
        return self.gated_cells or range(len(self.plan))

    def gated_cells_of(self, variant: Variant) -> Sequence[int]:
        """The cells of one variant that the gate judges."""
        cells = zip(self.cells_of(variant), self.plan.cases, strict=True)
        return [cell for cell, case in cells if case.quarantine is None]

    def judged_cells_of(self, variant: Variant) -> Sequence[int]:
        """The cells of one variant that figures cover."""
        return self.gated_cells_of(variant) or self.cells_of(variant)

    @cached_property
    def gated(self) -> Counts:
        """The counts of the cells that the gate judges."""
        return self.counts(self.gated_cells)

    @cached_property
    def by_cell(self) -> Sequence[Counts]:
        """The counts of every cell, in plan order."""
        by_cell = []
        for records, planned in zip(self._records_by_cell, self.plan.counts, strict=True):
            ended = [record.status for record in records]
            counts = Counts(
                passed=ended.count("passed"),
                failed=ended.count("failed"),
                errored=ended.count("errored"),
                planned=planned,
            )
            by_cell.append(counts)
        return by_cell

    def counts(self, cells: Iterable[int]) -> Counts:
        """The counts of some cells together."""
        passed = 0
        failed = 0
        errored = 0
        planned = 0
        for cell in cells:
            counts = self.by_cell[cell]
            passed += counts.passed
            failed += counts.failed
            errored += counts.errored
            planned += counts.planned
        return Counts(passed, failed, errored, planned)

    @cached_property
    def _fresh(self) -> Sequence[Tally]:
        """The graded runs of every cell, without those whose answer is recorded."""
        tallies = []
        for records in self._records_by_cell:
            ended = [record.status for record in records if not record.recorded]
            passed = ended.count("passed")
            graded = passed + ended.count("failed")
            tallies.append(Tally(passed, graded))
        return tallies

    def fresh(self, cell: int) -> Tally:
        """The graded runs of a cell, without those whose answer is recorded."""
        return self._fresh[cell]

    @cached_property
    def totals(self) -> Counts:
        """The counts of all cells together."""
        return self.counts(range(len(self.plan)))

    @property
    def total(self) -> int:
        """The number of planned runs."""
        return self.totals.planned

    @property
    def passed(self) -> int:
        return self.totals.passed

    @property
    def failed(self) -> int:
        return self.totals.failed

    @property
    def errored(self) -> int:
        return self.totals.errored

    @property
    def recorded(self) -> int:
        """The number of runs that a recording answered instead of the provider."""
        return [record.recorded for record in self.records.values()].count(True)

    @property
    def reused(self) -> int:
        """The number of recorded answers that were reused because nothing that they depend on has
        changed.
        """
        return [record.reused for record in self.records.values()].count(True)

    @property
    def all_reused(self) -> bool:
        """True if every graded run was reused."""
        return self.reused > 0 and self.reused == self.totals.graded

    @property
    def proves_unchanged(self) -> bool:
        """True if the answers were recorded for these prompts and cases, and no model could be
        called.
        """
        return self.suite.without_secrets and self.recorded > 0

    @cached_property
    def unchecked(self) -> tuple[Variant, ...]:
        """The variants of the team's own code that were not run: there were no secrets, or only
        replays.
        """
        suite = self.suite
        unchecked = []
        for variant in self.plan.variants:
            if variant.provider not in suite.own_code:
                continue
            cells = self.cells_of(variant)
            only_replayed = suite.replayed and self.counts(cells).graded > 0
            fresh_runs = sum(self.fresh(cell).graded for cell in cells)
            if fresh_runs == 0 and (suite.without_secrets or only_replayed):
                unchecked.append(variant)
        return tuple(unchecked)

    @property
    def budget_violations(self) -> int:
        """The number of runs that took more than `budget.per_run` allows."""
        return [record.over_budget for record in self.records.values()].count(True)

    @cached_property
    def pass_rate(self) -> float | None:
        """The mean over cells of their share of passed runs.

        As in the gate, cells in quarantine are left out, unless there are no others.

        None without graded runs.
        """
        tallies = [self.by_cell[cell] for cell in self.judged_cells]
        # Exact fractions, so that the rate does not depend on the order of cells. Few counts are
        # distinct, so fractions of large suites stay cheap.
        alike = Counter([(counts.passed, counts.failed) for counts in tallies])
        del alike[0, 0]
        if not alike:
            return None
        rate = Fraction()
        for (passed, failed), cells in alike.items():
            rate += Fraction(cells * passed, passed + failed)
        return float(rate / alike.total())

    @property
    def match_rate(self) -> float | None:
        """The mean score of all graded runs. None without any."""
        return self.mean_score()

    def mean_score(self, cells: Iterable[int] | None = None) -> float | None:
        """The mean score of the graded runs of some cells, or of all. None without any."""
        scores = [record.score for record in self.records_of(cells) if record.score is not None]
        if not scores:
            return None
        return exact_mean(scores)

    def grader_means(self, variant: Variant) -> Mapping[str, float]:
        """The mean score of each grader on one variant, by the name that reports give the
        grader. As in the pass rate, cells in quarantine are left out.
        """
        scores: dict[str, list[float]] = defaultdict(list)
        for record in self.records_of(self.judged_cells_of(variant)):
            for grader, score in record.grades:
                scores[grader].append(score)
        return {grader: exact_mean(each) for grader, each in scores.items()}

    def metric_scores(self, variant: Variant) -> Mapping[str, Sequence[Sequence[float]]]:
        """The scores of runs by metric on one variant, by cell, without empty cells."""
        by_cell: dict[str, list[list[float]]] = defaultdict(list)
        for cell in self.gated_cells_of(variant):
            by_metric: dict[str, list[float]] = defaultdict(list)
            for record in self.records_of((cell,)):
                if record.metrics:  # few suites name any
                    for metric, score in record.scores_by_metric.items():
                        by_metric[metric].append(score)
            for metric, scores in by_metric.items():
                by_cell[metric].append(scores)
        return by_cell

    @property
    def by_case(self) -> Mapping[str, Counts]:
        """The counts of each case over all its variants, by case id."""
        counts = {}
        for row, case in enumerate(self.plan.cases):
            counts[case.id] = self.counts(self.plan.cells_of_row(row))
        return counts

    @property
    def by_variant(self) -> Mapping[str, Counts]:
        """The counts of each variant over all its cases, by `provider` or `provider · prompt`."""
        counts = {}
        for variant in self.plan.variants:
            cells = self.cells_of(variant)
            counts[str(variant)] = self.counts(cells)
        return counts

    def labels_of(self, variant: Variant) -> Mapping[str, Sequence[tuple[str, Classified]]]:
        """The labels of one variant's runs by task, each with the id of its case."""
        by_task: dict[str, list[tuple[str, Classified]]] = defaultdict(list)
        for cell in self.gated_cells_of(variant):
            case_id = self.plan.case(cell).id
            for record in self.records_of((cell,)):
                for classified in record.labels:
                    by_task[classified.task].append((case_id, classified))
        return by_task

    @property
    def orders_to_judges(self) -> Mapping[str, int]:
        """The number of runs, by case id, whose answer seems to give orders to its judge."""
        runs_by_case: Counter[str] = Counter()
        for cell, records in enumerate(self._records_by_cell):
            orders = [record.orders_judge for record in records].count(True)
            if orders:
                case_id = self.plan.case(cell).id
                runs_by_case[case_id] += orders
        return runs_by_case

    # Latency, tokens and cost.

    def figures(self, cells: Iterable[int] | None = None) -> Figures:
        """Latency, cost and tokens of some cells, or of all."""
        latencies = []
        first_tokens = []
        costs = []
        input_tokens = 0
        output_tokens = 0
        for record in self.records_of(cells):
            if record.status != "errored":
                latencies.append(record.latency_s)
            if record.first_token_s is not None:
                first_tokens.append(record.first_token_s)
            if record.cost_usd is not None:
                costs.append(record.cost_usd)
            input_tokens += record.input_tokens
            output_tokens += record.output_tokens
        latency_mean_s = None
        if latencies:
            latency_mean_s = statistics.fmean(latencies)
        cost_usd = None
        if costs:
            cost_usd = fsum(costs)
        return Figures(
            latency_mean_s=latency_mean_s,
            latency_p50_s=_median(latencies),
            latency_p95_s=_quantile(latencies, 0.95),
            cost_usd=cost_usd,
            priced_runs=len(costs),
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            first_token_p50_s=_median(first_tokens),
            first_token_p95_s=_quantile(first_tokens, 0.95),
        )

    @property
    def judging(self) -> Judging:
        """The calls, tokens and cost of the models that judge, confirm runs included."""
        total = Judging()
        for record in self._all_records():
            if record.judging is not None:
                total += record.judging
        return total

    @cached_property
    def spent(self) -> Spent:
        """The cost of all runs, confirm runs and judges included."""
        further = None
        if self.confirmation:
            further = self.confirmation.figures().cost_usd
        return Spent(self.figures().cost_usd, further, self.judging.cost_usd)

    @cached_property
    def unpriced(self) -> Unpriced:
        """The calls that `spent` leaves out."""
        runs = [record.lacks_price for record in self._all_records()].count(True)
        return Unpriced(runs, self.judging.unpriced)

    def _all_records(self) -> list[RunRecord]:
        """The records of all runs, confirm runs included."""
        records = list(self.records.values())
        if self.confirmation is not None:
            records += self.confirmation.records.values()
        return records


def _short_digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _median(values: Sequence[float]) -> float | None:
    if not values:
        return None
    return statistics.median(values)


def _quantile(values: Sequence[float], share: float) -> float | None:
    """The nearest-rank quantile: the smallest value with at least `share` of the values at or below
    it.
    """
    if not values:
        return None
    rank = ceil(share * len(values))
    return sorted(values)[max(0, rank - 1)]
