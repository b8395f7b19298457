"""The two sides of a comparison: the cells of a report, and the baseline that earlier reports make
together.

Earlier runs of a cell are pooled, newest report first, but for what is older than a fall of the
base branch.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean, median
from typing import Literal, NamedTuple

from ci_evals.format import name_of
from ci_evals.model.case import Variant
from ci_evals.model.fields import Share
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.model.rules import Gate
from ci_evals.stats.differences import ScoreSums
from ci_evals.stats.exact_tests import fisher_two_sided, stratified_lower
from ci_evals.stats.rates import PassRate, pass_rate

POOLED_RUNS = 30
"""This many runs of a cell are enough history."""
TREND_POINTS = 50
DISAGREEMENT = 0.2
"""Newer and older runs of a cell with a two-sided p at or below this are taken for different
behaviour.
"""
FALL = 0.001
"""The base branch has fallen where its newest reports are below all older ones with a p at or below
this.
"""
LARGEST_SUPPORT = 1000
"""Above, the normal distribution gives the same first three digits, and costs no time."""


NO_RUNS = Tally(0, 0)


class PerRun(NamedTuple):
    """The averages of one cell's runs: the sums of the scores, else means and a median; None where
    not known.
    """

    scores: ScoreSums = ScoreSums(0, 0.0, 0.0)
    cost_usd: float | None = None
    tokens: float | None = None
    latency_median_s: float | None = None


UNMEASURED = PerRun()


# The history of a cell.


class Evidence(NamedTuple):
    """The graded runs of one cell in one report; `report` is the report's id."""

    report: str
    passed: int
    graded: int

    @property
    def tally(self) -> Tally:
        return Tally(self.passed, self.graded)


@dataclass(frozen=True, slots=True)
class PoolStep:
    """The decision about one report's evidence of a cell.

    The first three outcomes are in the full pool, and only what is `recent` is in the recent one.
    `older` are its runs together with those of all older reports in the full pool, `p` tests
    whether these differ from the newer ones; both are None where nothing was tested.
    """

    evidence: Evidence
    outcome: Literal[
        "recent",
        "disagrees",
        "before a change",
        "before a fall",
        "enough without",
        "an outage",
        "nothing graded",
    ]
    older: Tally | None = None
    p: float | None = None


@dataclass(frozen=True)
class History:
    """The evidence of a cell, newest report first, and the two pools that are made of it.

    The full pool has about `POOLED_RUNS` runs at most. The recent pool stops where its runs
    disagree with all older ones together: behaviour on the base branch may have changed there. By
    chance, that cuts a third of all unchanged cells, so a drop is tested against the full pool, and
    named if the recent one shows it, too.

    Args:
        evidence: what is known.
        reports: how many of the newest reports with graded runs count; all of them if None.
        lost: the ids of reports that are taken for an outage: they count for nothing.
    """

    evidence: tuple[Evidence, ...]
    reports: int | None = None
    lost: frozenset[str] = frozenset()

    @cached_property
    def sums(self) -> tuple[tuple[int, int], ...]:
        """The sums of (passed, graded) over the newest 0, 1, 2, … reports of the full pool."""
        passed = graded = 0
        sums = [(0, 0)]
        for report, more_passed, more in self.evidence:
            if graded >= POOLED_RUNS or len(sums) - 1 == self.reports:
                break
            if more and report not in self.lost:
                passed, graded = passed + more_passed, graded + more
                sums.append((passed, graded))
        return tuple(sums)

    @property
    def tally(self) -> Tally:
        """The runs of the full pool."""
        return Tally(*self.sums[-1])

    @cached_property
    def recent(self) -> Tally:
        """The runs of the recent pool."""
        return Tally(*self.sums[sum(step.outcome == "recent" for step in self.steps())])

    def steps(self) -> list[PoolStep]:
        """Decide report by report what is pooled.

        Newer runs are tested against all older ones together, as a single report has too few to
        show a change.
        """
        steps: list[PoolStep] = []
        age, changed = 0, False
        for each in self.evidence:
            if not each.graded:
                steps.append(PoolStep(each, "nothing graded"))
            elif each.report in self.lost:
                steps.append(PoolStep(each, "an outage"))
            elif age == len(self.sums) - 1:
                fell = age == self.reports and self.sums[age][1] < POOLED_RUNS
                steps.append(PoolStep(each, "before a fall" if fell else "enough without"))
            elif changed:
                steps.append(PoolStep(each, "before a change"))
                age += 1
            else:
                newer, (passed, graded) = self.sums[age], self.sums[-1]
                older = Tally(passed - newer[0], graded - newer[1])
                p = fisher_two_sided(*older, *newer) if age else None
                changed = p is not None and p <= DISAGREEMENT
                steps.append(
                    PoolStep(each, "disagrees" if changed else "recent", older if age else None, p)
                )
                age += 1
        return steps


# The baseline.


@dataclass(frozen=True, slots=True)
class BaseCell:
    """One cell of a baseline.

    Args:
        fingerprint: identifies the question and its grading, as `asked.judged`.
        history: its runs, report by report.
        per_runs: the averages of its runs by the id of the report, newest first, as far as they are
            known.
        quarantined: True if the newest report has its case in quarantine.
        bar: the pass rate that the newest report held it to; None if that is not known.
    """

    fingerprint: str
    history: History
    per_runs: Mapping[str, PerRun] = field(default_factory=dict)
    quarantined: bool = False
    bar: float | None = None

    @property
    def per_run(self) -> PerRun:
        """The averages of the newest report that counts."""
        return next(
            (found for id_, found in self.per_runs.items() if id_ not in self.history.lost),
            UNMEASURED,
        )


def judged_half(fingerprint: str) -> str:
    """Return what identifies the grading of a cell, of the two halves of its fingerprint."""
    return fingerprint.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class ReportRef:
    """A report by its id. `started_at` is in seconds since the epoch."""

    id: str
    started_at: float
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class TrendVariant:
    """One variant at one point of the trend. `n_eff` is the number of independent runs that its
    rate is worth.
    """

    provider: str
    prompt: str | None
    pass_rate: Share | None
    n_eff: float
    cost_usd: float | None
    latency_p50_s: float | None
    latency_p95_s: float | None

    @property
    def variant(self) -> Variant:
        return Variant(self.provider, self.prompt)


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """One report of the base branch. `cases` identifies all questions and their grading."""

    report: ReportRef
    cases: str
    variants: tuple[TrendVariant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostReport:
    """A variant's runs in one of the newest reports, which do not count as a baseline.

    All of them are left out because so few passed, or only the `unanswered` ones, which failed
    without an answer.
    """

    report: ReportRef
    provider: str
    prompt: str | None
    runs: Tally
    unanswered: int = 0

    @property
    def variant(self) -> Variant:
        return Variant(self.provider, self.prompt)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """One report, or several, as the side that another is compared with.

    Args:
        suite: the name of the newest one's suite.
        name: the name to show, such as a branch.
        reports: every report that there is evidence of, newest first; none that is newer than all
            that count.
        lost: what looks like an outage in the newest reports, and does not count.
        cells: the cells of the newest one, in its order.
        trend: the figures of each report, newest first, at most `TREND_POINTS`.
        source: the path of the newest one; None if it is not at hand.
        gate: the rules of the newest one; None if they are not known.
    """

    suite: str
    name: str = "the baseline"
    reports: tuple[ReportRef, ...]
    cells: Mapping[CellKey, BaseCell]
    trend: tuple[TrendPoint, ...] = ()
    source: str | None = None
    lost: tuple[LostReport, ...] = ()
    gate: Gate | None = None

    @property
    def label(self) -> str:
        """Its name, inside a sentence."""
        return name_of(self.name)

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """Its variants, in the order of the cells."""
        return tuple(dict.fromkeys(Variant(provider, prompt) for _, provider, prompt in self.cells))

    def restrict_to(self, cases: Container[str]) -> "Baseline":
        """Return the baseline restricted to some cases."""
        return replace(
            self, cells={key: cell for key, cell in self.cells.items() if key[0] in cases}
        )


def cut_at_falls(base: Baseline) -> Baseline:
    """Leave out what is older than a fall of the base branch itself.

    Where the newest reports of a variant are, over all its cells, below all older ones together,
    only these newest ones count for each of its cells.
    """
    reports = {}
    for variant in base.variants:
        histories = [
            cell.history for key, cell in base.cells.items() if Variant(*key[1:]) == variant
        ]
        for age in range(1, max((len(history.sums) for history in histories), default=1) - 1):
            tables = []
            for sums in (history.sums for history in histories if age < len(history.sums)):
                newest, (passed, graded) = sums[age], sums[-1]
                tables.append((*newest, passed - newest[0], graded - newest[1]))
            if stratified_lower(tables, largest_support=LARGEST_SUPPORT) <= FALL:
                reports[variant] = age
                break
    if not reports:
        return base
    cells = {
        key: replace(cell, history=replace(cell.history, reports=reports.get(Variant(*key[1:]))))
        for key, cell in base.cells.items()
    }
    return replace(base, cells=cells)


def join(reports: Sequence[Baseline]) -> Baseline:
    """Join several reports into one baseline: the newest, with the evidence of all the others as
    its history.

    Evidence and points of the same report are taken once, however many files carry them; of an
    interrupted run and the one that continued it, which share an id, the fuller evidence counts.
    """
    newest, *older = sorted(reports, key=lambda each: each.reports[0].started_at, reverse=True)
    if not older:
        return newest
    by_id = {ref.id: ref for each in (newest, *older) for ref in each.reports}
    refs = sorted(by_id.values(), key=lambda ref: ref.started_at, reverse=True)
    rank = {ref.id: number for number, ref in enumerate(refs)}

    cells = {}
    for key, cell in newest.cells.items():
        same = [
            other
            for each in older
            if (other := each.cells.get(key)) and other.fingerprint == cell.fingerprint
        ]
        fullest: dict[str, Evidence] = {}
        for evidence in (evidence for one in (cell, *same) for evidence in one.history.evidence):
            if (known := fullest.get(evidence.report)) is None or evidence.graded > known.graded:
                fullest[evidence.report] = evidence
        history = History(tuple(sorted(fullest.values(), key=lambda each: rank[each.report])))
        per_runs = {id_: found for one in (cell, *same) for id_, found in one.per_runs.items()}
        cells[key] = replace(cell, history=history, per_runs=per_runs)
    points = {point.report.id: point for each in (*reversed(older), newest) for point in each.trend}
    trend = sorted(points.values(), key=lambda point: point.report.started_at, reverse=True)
    return replace(newest, reports=tuple(refs), cells=cells, trend=tuple(trend[:TREND_POINTS]))


def evidence_to_keep(cell: BaseCell | None, fingerprint: str) -> tuple[Evidence, ...]:
    """Return the evidence of a base cell that a new report hands on: of the same case, as much as
    may be pooled.
    """
    if cell is None or cell.fingerprint != fingerprint:
        return ()
    whole = replace(cell.history, reports=None)
    pooled = len(whole.sums) - 1
    kept: list[Evidence] = []
    for each in (
        whole.evidence
    ):  # outages, too: the next report tells whether they are what the base branch is like now
        if each.graded:
            kept.append(each)
            pooled -= each.report not in whole.lost
            if not pooled and each.report not in whole.lost:
                break
    return tuple(kept)


# The report that is compared.


class HeadCell(NamedTuple):
    """One cell of the report that is compared.

    Args:
        key: its name.
        fingerprint: identifies the question and its grading, whatever the case is called.
        planned: its planned runs, without those that only repeat a recording.
        unanswered: the number of these that failed without an answer.
        confirming: the runs that it got because it was a suspect.
        confirmed: True if these are complete.
        critical: True if its regression is red whatever else the gate allows.
        quarantined: True if it is not compared, as whatever becomes of it blocks nothing.
        per_run: the averages of its planned runs.
    """

    key: CellKey
    fingerprint: str
    planned: Tally
    unanswered: int = 0
    confirming: Tally = NO_RUNS
    confirmed: bool = False
    critical: bool = False
    quarantined: bool = False
    per_run: PerRun = UNMEASURED

    @property
    def variant(self) -> Variant:
        return Variant(*self.key[1:])


def head_cells(
    report: SuiteReport, gate: Gate | None, *, unplanned: bool = False
) -> list[HeadCell]:
    """Return the cells of a report that have runs, in plan order.

    Args:
        report: what was run.
        gate: says which tags are critical.
        unplanned: include the cells of the suite that this report does not run, as a shard does.
    """
    critical_tags = gate.critical_tags if gate else frozenset()
    confirmation = report.confirmation
    cells = []
    for cell in range(len(report.plan)):
        if not (unplanned or report.plan.runs(cell)):
            continue
        case = report.plan.case(cell)
        confirming, complete = NO_RUNS, False
        if confirmation is not None and confirmation.plan.runs(cell):
            confirming = confirmation.fresh(cell)
            complete = not confirmation.by_cell[cell].missing
        cells.append(
            HeadCell(
                key=report.plan.key(cell),
                fingerprint=report.fingerprints[report.plan.row(cell)],
                planned=report.fresh(cell),
                unanswered=sum(
                    each.unanswered and not each.recorded for each in report.records_of((cell,))
                ),
                confirming=confirming,
                confirmed=complete and bool(confirming.graded),
                critical=case.critical or not critical_tags.isdisjoint(case.tags),
                quarantined=case.quarantine is not None,
                per_run=per_run_of(report, cell),
            )
        )
    return cells


def per_run_of(report: SuiteReport, cell: int) -> PerRun:
    """Average the graded runs of a cell; runs that repeat a recording take no part."""
    runs = [
        record for record in report.records_of((cell,)) if record.graded and not record.recorded
    ]
    scores = [record.score for record in runs if record.score is not None]
    costs = [record.cost_usd for record in runs if record.cost_usd is not None]
    tokens = [known for record in runs if (known := record.input_tokens + record.output_tokens)]
    return PerRun(
        scores=ScoreSums(len(scores), sum(scores), sum(score * score for score in scores)),
        cost_usd=fmean(costs) if costs else None,
        tokens=fmean(tokens) if tokens else None,
        latency_median_s=median(record.latency_s for record in runs) if runs else None,
    )


def fresh_rate(report: SuiteReport, variant: Variant) -> PassRate | None:
    """Estimate the pass rate of a variant over the runs that repeat no recording. None without
    any.
    """
    return pass_rate(report.fresh(cell) for cell in report.gated_cells_of(variant))


def report_ref(report: SuiteReport) -> ReportRef:
    return ReportRef(report.id, report.started_at, report.suite.revision)


def trend_point(report: SuiteReport) -> TrendPoint:
    """Return the figures of a report as a point of the trend."""
    variants = []
    for variant in report.plan.variants:
        rate, figures = fresh_rate(report, variant), report.figures(report.cells_of(variant))
        variants.append(
            TrendVariant(
                provider=variant.provider,
                prompt=variant.prompt,
                pass_rate=float(rate.rate) if rate else None,
                n_eff=rate.n_eff if rate else 0.0,
                cost_usd=figures.cost_usd,
                latency_p50_s=figures.latency_p50_s,
                latency_p95_s=figures.latency_p95_s,
            )
        )
    return TrendPoint(report_ref(report), report.cases_fingerprint, tuple(variants))
