"""The two sides of a comparison: the cells of a report, and the baseline made of earlier reports.

Earlier runs of a cell are pooled, newest report first.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean, median
from typing import NamedTuple

from ci_evals.format import name_of, short_sha
from ci_evals.model.case import Case, Variant
from ci_evals.model.fields import Share
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Counts, Outcome, RunRecord, SuiteReport, Tally
from ci_evals.model.ruler import RuledCell
from ci_evals.model.rules import Gate
from ci_evals.model.settings import SuiteSettings
from ci_evals.stats.differences import ScoreSums
from ci_evals.stats.drift import DriftEvidence
from ci_evals.stats.exact_tests import Table
from ci_evals.stats.overdispersion import overdispersion, score_overdispersion
from ci_evals.stats.rates import PassRate, pass_rate
from ci_evals.stats.thresholds import (
    DRIFT_BETS,
    KEPT_REPORTS,
    OVERDISPERSION_MIN_REPORTS,
    POOLED_RUNS,
)

TREND_POINTS = 50
KEPT_OUTAGES = 50
"""The most reports of outages that a report hands on."""


NO_RUNS = Tally(0, 0)


def add_tallies(tallies: Iterable[Tally]) -> Tally:
    """Return all runs together."""
    passed = graded = 0
    for tally in tallies:
        passed += tally.passed
        graded += tally.graded
    return Tally(passed, graded)


class PerRun(NamedTuple):
    """The averages of one cell's runs; None where not known.

    The scores are kept as sums; the others are means, and a median of the latency.
    """

    scores: ScoreSums = ScoreSums()
    cost_usd: float | None = None
    tokens: float | None = None
    latency_median_s: float | None = None


UNMEASURED = PerRun()


# The history of a cell.


class MetricSums(NamedTuple):
    """The scores of one metric in the runs of one cell."""

    metric: str
    scores: ScoreSums


class Evidence(NamedTuple):
    """The graded runs of one cell in one report.

    Attributes:
        report: the report's id.
        passed: how many passed.
        graded: how many were graded.
        scores: the sums of their scores; None if a run that passed scored 1, and any other 0.
        metrics: those of each metric that its graders name.
    """

    report: str
    passed: int
    graded: int
    scores: ScoreSums | None = None
    metrics: tuple[MetricSums, ...] = ()

    @property
    def tally(self) -> Tally:
        return Tally(self.passed, self.graded)

    @property
    def score_sums(self) -> ScoreSums:
        """The sums of the scores; a passed run counts 1 if there are no others."""
        if self.scores is not None:
            return self.scores
        return ScoreSums(self.graded, self.passed, self.passed)


@dataclass(frozen=True)
class History:
    """The evidence of a cell, newest report first, of which about `POOLED_RUNS` runs are pooled.

    Args:
        evidence: what is known.
        lost: the ids of reports that are taken for an outage: they count for nothing.
    """

    evidence: tuple[Evidence, ...]
    lost: frozenset[str] = frozenset()

    @cached_property
    def pooled(self) -> tuple[Evidence, ...]:
        """The evidence of the reports that are pooled."""
        found = []
        graded = 0
        for each in self.evidence:
            if graded >= POOLED_RUNS:
                break
            if each.graded and each.report not in self.lost:
                graded += each.graded
                found.append(each)
        return tuple(found)

    @cached_property
    def sums(self) -> tuple[Tally, ...]:
        """The runs of the newest 0, 1, 2, … pooled reports together."""
        sums = [NO_RUNS]
        for each in self.pooled:
            sums.append(add_tallies((sums[-1], each.tally)))
        return tuple(sums)

    @cached_property
    def score_sums(self) -> tuple[ScoreSums, ...]:
        """The scores of the newest 0, 1, 2, … pooled reports together."""
        sums = [ScoreSums()]
        for each in self.pooled:
            sums.append(sums[-1] + each.score_sums)
        return tuple(sums)

    @cached_property
    def metrics(self) -> Mapping[str, ScoreSums]:
        """The scores of each metric in the pooled reports together."""
        return sums_of_metrics(each for evidence in self.pooled for each in evidence.metrics)

    @property
    def has_scores(self) -> bool:
        """Return True if its scores say more than its passes."""
        return any(each.scores is not None for each in self.pooled)

    @property
    def pooled_reports(self) -> int:
        return len(self.pooled)

    @property
    def tally(self) -> Tally:
        """All pooled runs."""
        return self.sums[-1]

    def newest(self, reports: int) -> Tally:
        """Return the runs of so many of the newest pooled reports, or of all of them."""
        return self.sums[min(reports, self.pooled_reports)]

    def newest_scores(self, reports: int) -> ScoreSums:
        """Return the scores of so many of the newest pooled reports, or of all of them."""
        return self.score_sums[min(reports, self.pooled_reports)]

    @property
    def newest_lost(self) -> Tally:
        """The runs of the newest reports, up to the first of them that counts."""
        found = []
        for each in self.evidence:
            if each.graded and each.report not in self.lost:
                break
            found.append(each.tally)
        return add_tallies(found)


def sums_of_metrics(found: Iterable[MetricSums]) -> Mapping[str, ScoreSums]:
    """Return the scores of each metric together."""
    sums: dict[str, ScoreSums] = defaultdict(ScoreSums)
    for metric, scores in found:
        sums[metric] += scores
    return dict(sums)


def split_scores(histories: Iterable[History], age: int) -> list[tuple[ScoreSums, ScoreSums]]:
    """Return the scores of the `age` newest reports of each cell, and of all older ones, where
    there are any.
    """
    pairs = []
    for history in histories:
        if history.pooled_reports >= age:
            newer = history.score_sums[age]
            pairs.append((newer, history.score_sums[-1] - newer))
    return pairs


def split_histories(histories: Iterable[History], age: int) -> list[Table]:
    """Return the `age` newest reports of each cell against all older ones, where there are any."""
    tables = []
    for history in histories:
        if history.pooled_reports >= age:
            passed, graded = history.sums[age]
            all_passed, all_graded = history.tally
            tables.append((passed, graded, all_passed - passed, all_graded - graded))
    return tables


# The baseline.


@dataclass(frozen=True, slots=True)
class BaseCell:
    """One cell of a baseline.

    Args:
        fingerprint: identifies the question and its grading, as `asked.judged`.
        history: its runs, report by report.
        per_runs: the averages of its runs by the id of the report, newest first, where known.
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
        for report, per_run in self.per_runs.items():
            if report not in self.history.lost:
                return per_run
        return UNMEASURED


@dataclass(frozen=True, slots=True)
class ReportRef:
    """A report by its id. `started_at` is in seconds since the epoch."""

    id: str
    started_at: float
    revision: str | None = None

    @property
    def commit(self) -> str:
        """Its revision as git shortens it; empty if not known."""
        return short_sha(self.revision) if self.revision else ""


@dataclass(frozen=True, slots=True)
class TrendVariant:
    """One variant at one point of the trend.

    `n_eff` is the number of independent runs that its rate is worth. `cases` identifies the
    questions that it was asked and their grading.
    """

    provider: str
    prompt: str | None
    pass_rate: Share | None
    n_eff: float
    cost_usd: float | None
    latency_p50_s: float | None
    latency_p95_s: float | None
    cases: str

    @property
    def variant(self) -> Variant:
        return Variant(self.provider, self.prompt)


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """One report of the base branch."""

    report: ReportRef
    variants: tuple[TrendVariant, ...]

    def find(self, variant: Variant) -> TrendVariant | None:
        """Return the figures of a variant, if the report has it."""
        for each in self.variants:
            if each.variant == variant:
                return each
        return None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenVariant:
    """A variant that fails on the base branch itself: its newest reports collapsed, two or more in
    a row.

    Nothing is compared with it. `runs` are those of all these reports, `since` is the first.
    """

    provider: str
    prompt: str | None
    since: ReportRef
    runs: Tally

    @property
    def variant(self) -> Variant:
        return Variant(self.provider, self.prompt)


_NO_EVIDENCE = DriftEvidence()


@dataclass(frozen=True, slots=True)
class DriftBet:
    """The evidence for a loss of one size; see `stats.drift`.

    Attributes:
        evidence: of all reports so far.
        since: the report from which on passes are missing, if they are; None without any evidence.
        after: the report before that one.
        reports: the number of reports since then that tell anything.
        shown: one of these is by itself below its own baseline, as a whole.
    """

    evidence: DriftEvidence = _NO_EVIDENCE
    since: ReportRef | None = None
    after: ReportRef | None = None
    reports: int = 0
    shown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftVariant:
    """The evidence that a variant passes less often than before. An `alarm` stays until the
    evidence is gone or the new level is accepted.
    """

    provider: str
    prompt: str | None
    alarm: bool = False
    bets: tuple[DriftBet, ...] = tuple(DriftBet() for _ in DRIFT_BETS)

    @property
    def variant(self) -> Variant:
        return Variant(self.provider, self.prompt)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftCell:
    """The sums of one cell over all earlier reports of the same question and grading.

    Attributes:
        runs: all its runs.
        before: for each bet, those before the report that it says the loss began with.
    """

    case: str
    provider: str
    prompt: str | None
    fingerprint: str
    runs: Tally = NO_RUNS
    before: tuple[Tally, ...] = (NO_RUNS,) * len(DRIFT_BETS)

    @property
    def key(self) -> CellKey:
        return self.case, self.provider, self.prompt

    def runs_since(self, bet: int) -> Tally:
        """Return its runs since the loss began, as one bet says."""
        before = self.before[bet]
        return Tally(self.runs.passed - before.passed, self.runs.graded - before.graded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The evidence of the base branch's reports for a slow loss, up to the `newest` one.

    `accepted` is the `drift_since` of the gate that it was last restarted for. Cells and variants
    that the newest report does not have stay: they may come back.
    """

    newest: ReportRef
    accepted: str | None = None
    variants: tuple[DriftVariant, ...] = ()
    cells: tuple[DriftCell, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """One report, or several, as the side that another is compared with.

    Args:
        suite: the name of the newest one's suite.
        name: the name to show, such as a branch.
        reports: every report that there is evidence of, newest first; none that is newer than all
            that count.
        fingerprint: the newest one's of its suite: its questions, providers and grading.
        lost: what looks like an outage in the newest reports, and does not count.
        broken: the variants that the base branch itself fails.
        cells: the cells of the newest one, in its order.
        trend: the figures of each report, newest first, at most `TREND_POINTS`.
        source: the path of the newest one; None if the file is not available.
        run_url: the page of the run that left it; None if that is not known.
        gate: the rules of the newest one; None if they are not known.
        settings: the settings of its suite, as far as the newest one knows them; None if it has
            been read back from a report that was compared with it.
        removed_suites: the suites that were run with it, and that the change under test no longer
            has.
        drift: what its reports together say of a slow loss; None if none of them counts for that.
        alongside: True if it is no stored report, but was run together with the head.
    """

    suite: str
    name: str = "the baseline"
    reports: tuple[ReportRef, ...]
    cells: Mapping[CellKey, BaseCell]
    fingerprint: str = ""
    trend: tuple[TrendPoint, ...] = ()
    source: str | None = None
    run_url: str | None = None
    lost: tuple[LostReport, ...] = ()
    broken: tuple[BrokenVariant, ...] = ()
    gate: Gate | None = None
    settings: SuiteSettings | None = None
    removed_suites: tuple[str, ...] = ()
    drift: Drift | None = None
    alongside: bool = False

    @property
    def label(self) -> str:
        """Its name, inside a sentence."""
        return name_of(self.name)

    @cached_property
    def by_variant(self) -> Mapping[Variant, Mapping[CellKey, BaseCell]]:
        """Its variants in the order of the cells, each with its cells."""
        groups: dict[tuple[str, str | None], dict[CellKey, BaseCell]] = {}
        for key, cell in self.cells.items():
            groups.setdefault(key[1:], {})[key] = cell
        return {Variant(*names): cells for names, cells in groups.items()}

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Its variants, in the order of the cells."""
        return tuple(self.by_variant)

    @cached_property
    def pooled_reports(self) -> Sequence[ReportRef]:
        """The reports whose runs are pooled for any of its cells, newest first."""
        pooled: set[str] = set()
        for cell in self.cells.values():
            pooled.update(each.report for each in cell.history.pooled)
        return [report for report in self.reports if report.id in pooled]

    @cached_property
    def broken_variants(self) -> frozenset[Variant]:
        return frozenset(each.variant for each in self.broken)

    @property
    def is_broken(self) -> bool:
        """Return True if the base branch itself fails on every variant."""
        return bool(self.broken) and self.broken_variants.issuperset(self.variants)

    @cached_property
    def overdispersion(self) -> Mapping[Variant, float]:
        """The ratio of the variance of each variant's reports to that of independent runs.

        Variants of which there are too few reports are left out.
        """
        known = {}
        for variant, cells in self.by_variant.items():
            reports = self.newest_reports(list(cells.values()))
            if len(reports) >= OVERDISPERSION_MIN_REPORTS:
                known[variant] = overdispersion(reports)
        return known

    @cached_property
    def score_overdispersion(self) -> Mapping[Variant, float]:
        """The same ratio of the scores of each variant that has any."""
        known = {}
        for variant, cells in self.by_variant.items():
            if not any(cell.history.has_scores for cell in cells.values()):
                continue
            reports = self._newest_evidence(list(cells.values()))
            if len(reports) >= OVERDISPERSION_MIN_REPORTS:
                known[variant] = score_overdispersion(
                    [[each.score_sums for each in report] for report in reports]
                )
        return known

    def newest_reports(self, cells: Sequence[BaseCell]) -> list[list[Tally]]:
        """Return the runs of some cells in the newest reports that count for them."""
        reports = self._newest_evidence(cells)
        return [[each.tally for each in report] for report in reports]

    def _newest_evidence(self, cells: Sequence[BaseCell]) -> list[list[Evidence]]:
        """Return the evidence of some cells in the newest reports that count for them.

        There are `KEPT_REPORTS` at most, so that a report that is read back is judged as it was.
        """
        by_report: dict[str, list[Evidence]] = {}
        for number, cell in enumerate(cells):
            for each in cell.history.evidence:
                if each.graded and each.report not in cell.history.lost:
                    runs = by_report.setdefault(each.report, [Evidence("", 0, 0)] * len(cells))
                    runs[number] = each
        newest_first = [by_report[ref.id] for ref in self.reports if ref.id in by_report]
        return newest_first[:KEPT_REPORTS]

    def restrict_to(self, cases: Container[str]) -> "Baseline":
        """Return the baseline restricted to some cases."""
        cells = {key: cell for key, cell in self.cells.items() if key[0] in cases}
        return replace(self, cells=cells)


def join(reports: Sequence[Baseline]) -> Baseline:
    """Join several reports into one baseline: the newest, with all the others as its history.

    Evidence and points of the same report are taken once, however many files carry them; of an
    interrupted run and the one that continued it, which share an id, the fuller evidence counts.
    """
    newest, *older = sorted(reports, key=lambda each: each.reports[0].started_at, reverse=True)
    if not older:
        return newest
    refs: dict[str, ReportRef] = {}
    for report in (newest, *older):
        for ref in report.reports:
            refs[ref.id] = ref
    newest_first = sorted(refs.values(), key=lambda ref: ref.started_at, reverse=True)
    ranks = {ref.id: rank for rank, ref in enumerate(newest_first)}

    cells = {}
    for key, cell in newest.cells.items():
        known = [report.cells[key] for report in older if key in report.cells]
        same = [each for each in known if each.fingerprint == cell.fingerprint]
        cells[key] = _add_history(cell, same, ranks)

    points: dict[str, TrendPoint] = {}
    for report in (*reversed(older), newest):
        for point in report.trend:
            points[point.report.id] = point
    trend = sorted(points.values(), key=lambda point: point.report.started_at, reverse=True)
    return replace(
        newest, reports=tuple(newest_first), cells=cells, trend=tuple(trend[:TREND_POINTS])
    )


def _add_history(cell: BaseCell, older: Sequence[BaseCell], ranks: Mapping[str, int]) -> BaseCell:
    """Return a cell with the evidence of others; `ranks` orders the reports."""
    fullest: dict[str, Evidence] = {}
    per_runs: dict[str, PerRun] = {}
    for each in (cell, *older):
        per_runs |= each.per_runs
        for evidence in each.history.evidence:
            known = fullest.get(evidence.report)
            if known is None or evidence.graded > known.graded:
                fullest[evidence.report] = evidence
    newest_first = sorted(fullest.values(), key=lambda evidence: ranks[evidence.report])
    return replace(cell, history=History(tuple(newest_first)), per_runs=per_runs)


def evidence_to_keep(cell: BaseCell | None, fingerprint: str) -> tuple[Evidence, ...]:
    """Return the evidence of a base cell that a new report hands on.

    It is of the same case, and as much as may be pooled, or of `KEPT_REPORTS` reports if that is
    more. Outages are handed on, too: another one in the next report means that the base branch is
    broken.
    """
    if cell is None or cell.fingerprint != fingerprint:
        return ()
    history = cell.history
    missing = max(history.pooled_reports, KEPT_REPORTS)
    kept = []
    outages = 0
    for each in history.evidence:
        if not each.graded:
            continue
        if each.report in history.lost:
            outages += 1
            if outages <= KEPT_OUTAGES:
                kept.append(each)
        else:
            kept.append(each)
            missing -= 1
            if missing == 0:
                break
    return tuple(kept)


# The report that is compared.


@dataclass(frozen=True)
class ReportedCell:
    """One case on one variant, as a report has it.

    Args:
        cell: its number in the plan.
        case: what is asked.
        variant: what answers.
        counts: its planned runs by status.
        fingerprint: identifies the question and its grading, but not the case's name.
        planned: its graded planned runs, without those that only repeat a recording; by main's
            checks, if the change has edited them, as all that follows.
        unanswered: the number of these that failed without an answer.
        scores: the sums of the scores in `planned`; None where main's checks have graded it.
        metrics: those of each metric that graders name; none where main's checks have graded it.
        is_scored: a grader gave other than 0 or 1.
        repeats: the outcome of each run beyond the plan in order, None for one that was not graded,
            up to the first that was not made.
        main_now: the outcome of main's run that was made with a repeat, by the number of the
            repeat, the first one being 0.
        critical: True if its regression is always red, even if the gate allows some.
        by_main: True if main's checks have graded it.
        per_run: the averages of the runs in `planned`.
    """

    cell: int
    case: Case
    variant: Variant
    counts: Counts
    fingerprint: str
    planned: Tally
    scores: ScoreSums | None = None
    metrics: Mapping[str, ScoreSums] = field(default_factory=dict)
    is_scored: bool = False
    unanswered: int = 0
    repeats: tuple[Outcome | None, ...] = ()
    main_now: Mapping[int, Outcome | None] = field(default_factory=dict)
    critical: bool = False
    by_main: bool = False
    per_run: PerRun = UNMEASURED

    @property
    def key(self) -> CellKey:
        """Its name."""
        return self.case.id, self.variant.provider, self.variant.prompt

    @property
    def is_quarantined(self) -> bool:
        """Return True if it is not compared, because its results block nothing."""
        return self.case.quarantine is not None

    @property
    def confirming(self) -> Tally:
        """Its runs beyond the plan."""
        return tally_of(self.repeats)

    @property
    def scores_to_keep(self) -> ScoreSums | None:
        """The sums of the scores of its planned runs; None if passes say the same.

        Two graders that say right or wrong give a run 0.5 if they disagree: that is kept, too.
        """
        sums, passed = self.scores, self.planned.passed
        if sums is None or sums.total == sums.squares == passed:
            return None
        return sums

    @property
    def metrics_to_keep(self) -> tuple[MetricSums, ...]:
        """The scores of each metric, as a report hands them on."""
        return tuple(MetricSums(*each) for each in self.metrics.items())

    @property
    def again(self) -> Sequence[Outcome | None]:
        """The outcomes of the repeats that were made here alone."""
        return [each for number, each in enumerate(self.repeats) if number not in self.main_now]

    @property
    def here_outcomes(self) -> Sequence[Outcome | None]:
        """The outcomes of the repeats that main made, too."""
        return [each for number, each in enumerate(self.repeats) if number in self.main_now]

    @property
    def main_outcomes(self) -> Sequence[Outcome | None]:
        """The outcomes of main's runs, in the order of the repeats."""
        return [self.main_now[number] for number in sorted(self.main_now)]

    def with_repeats(self, count: int) -> Tally | None:
        """Return its planned runs and so many repeats; None if it did not get as many."""
        if len(self.repeats) < count:
            return None
        return add_tallies((self.planned, tally_of(self.repeats[:count])))


def tally_of(outcomes: Iterable[Outcome | None]) -> Tally:
    """Return the graded runs among some outcomes; None is one that was not graded."""
    graded = [outcome.passed for outcome in outcomes if outcome is not None]
    return Tally(sum(graded), len(graded))


def scores_of(outcomes: Iterable[Outcome | None]) -> ScoreSums | None:
    """Return the sums of the scores of the graded runs; None if one of these is not known."""
    sums = ScoreSums()
    for outcome in outcomes:
        if outcome is None:
            continue
        if outcome.score is None:
            return None
        sums += ScoreSums.of(outcome.score)
    return sums


def reported_cells(
    report: SuiteReport, gate: Gate | None, *, unplanned: bool = False
) -> list[ReportedCell]:
    """Return the cells of a report that have runs, in plan order.

    Args:
        report: what was run.
        gate: says which tags are critical.
        unplanned: include the cells of the suite that this report does not run, as a shard does.
    """
    cells = []
    for cell, runs in enumerate(report.plan.counts):
        if runs or unplanned:
            cells.append(_reported_cell(report, cell, gate or Gate()))
    return cells


def group_by_variant(cells: Iterable[ReportedCell]) -> Mapping[Variant, Sequence[ReportedCell]]:
    """Return the cells of each variant, in order."""
    groups: dict[Variant, list[ReportedCell]] = defaultdict(list)
    for cell in cells:
        groups[cell.variant].append(cell)
    return dict(groups)


def _reported_cell(report: SuiteReport, cell: int, gate: Gate) -> ReportedCell:
    case = report.plan.case(cell)
    ruled = report.ruler.by_key.get(report.plan.key(cell)) if report.ruler else None
    fresh = _fresh(report.records_of((cell,)))
    repeats: tuple[Outcome | None, ...] = ()
    main_now = {}
    if report.confirmation is not None:
        outcomes = tuple(_outcomes(report.confirmation, cell, ruled))
        repeats = outcomes[: _runs_in_a_row(report.confirmation, cell)]
        if report.main_now is not None and cell in report.main_now.runs:
            first = report.confirmation.plan.first_runs[cell]
            of_main = report.main_now.runs[cell]
            main_now = {number - first: outcome for number, outcome in of_main.items()}
    planned = list(_outcomes(report, cell, ruled))
    return ReportedCell(
        cell=cell,
        case=case,
        variant=report.plan.variant(cell),
        counts=report.by_cell[cell],
        fingerprint=ruled.fingerprint if ruled else report.fingerprints[report.plan.row(cell)],
        planned=tally_of(planned),
        scores=scores_of(planned),
        metrics={} if ruled else _metrics_of(fresh),
        is_scored=ruled is None and any(record.is_scored for record in fresh),
        unanswered=[record.unanswered for record in fresh].count(True),
        repeats=repeats,
        main_now=main_now,
        critical=case.critical or gate.marks_critical(case.tags),
        by_main=ruled is not None,
        per_run=_average(fresh),
    )


def _outcomes(report: SuiteReport, cell: int, ruled: RuledCell | None) -> Iterator[Outcome | None]:
    """Yield the outcome of each run of a cell, by main's checks if these are others; None for one
    that was not graded, or only repeats a recording.
    """
    for run, index in report.plan.numbered(cell):
        record = report.records.get(index)
        if record is None or not record.graded or record.recorded:
            yield None
        elif ruled is None:
            yield Outcome(record.status == "passed", record.score)
        else:
            passed = ruled.passed.get(run)
            yield None if passed is None else Outcome(passed)


def _runs_in_a_row(report: SuiteReport, cell: int) -> int:
    """Return the number of a cell's runs before the first that was not made."""
    indices = report.plan.indices(cell)
    for place, index in enumerate(indices):
        if index not in report.records:
            return place
    return len(indices)


def _fresh(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return the graded runs that repeat no recording."""
    return [record for record in records if record.graded and not record.recorded]


def _metrics_of(runs: Iterable[RunRecord]) -> Mapping[str, ScoreSums]:
    found = []
    for record in runs:
        if record.metrics:  # few suites name any
            for metric, score in record.scores_by_metric.items():
                found.append(MetricSums(metric, ScoreSums.of(score)))
    return sums_of_metrics(found)


def _average(runs: Sequence[RunRecord]) -> PerRun:
    if not runs:
        return UNMEASURED
    scored = 0
    total = squares = 0.0
    costs, tokens, latencies_s = [], [], []
    for record in runs:
        latencies_s.append(record.latency_s)
        if record.score is not None:
            scored += 1
            total += record.score
            squares += record.score * record.score
        if record.cost_usd is not None:
            costs.append(record.cost_usd)
        if record.input_tokens or record.output_tokens:
            tokens.append(record.input_tokens + record.output_tokens)
    return PerRun(
        scores=ScoreSums(scored, total, squares),
        cost_usd=fmean(costs) if costs else None,
        tokens=fmean(tokens) if tokens else None,
        latency_median_s=median(latencies_s),
    )


def fresh_rate(report: SuiteReport, variant: Variant) -> PassRate | None:
    """Estimate the pass rate of a variant over the runs that repeat no recording.

    None without any.
    """
    return pass_rate([report.fresh(cell) for cell in report.gated_cells_of(variant)])


def report_ref(report: SuiteReport) -> ReportRef:
    return ReportRef(report.id, report.started_at, report.suite.revision)


def trend_point(report: SuiteReport) -> TrendPoint:
    """Return the figures of a report as a point of the trend."""
    variants = []
    for variant in report.plan.variants:
        rate = fresh_rate(report, variant)
        figures = report.figures(report.cells_of(variant))
        variants.append(
            TrendVariant(
                provider=variant.provider,
                prompt=variant.prompt,
                pass_rate=float(rate.rate) if rate else None,
                n_eff=rate.n_eff if rate else 0.0,
                cost_usd=figures.cost_usd,
                latency_p50_s=figures.latency_p50_s,
                latency_p95_s=figures.latency_p95_s,
                cases=report.cases_fingerprint(variant),
            )
        )
    return TrendPoint(report_ref(report), tuple(variants))
