"""What the base branch has shown so far: earlier counts of each cell, pooled as long as they agree."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from ci_evals.matrix import CellKey
from ci_evals.stats.fisher import fisher_two_sided
from ci_evals.stats.scores import ScoreSums
from ci_evals.verdict.words import name_of

POOLED_RUNS = 30
"""So many runs of a cell are enough for its history."""
TREND_POINTS = 50
DISAGREEMENT = 0.2
"""Newer and older runs with a two-sided p at or below this are of different behaviour."""


class Tally(NamedTuple):
    """The graded runs of one cell."""

    passed: int
    graded: int

    @property
    def rate(self) -> float:
        return self.passed / self.graded


NO_RUNS = Tally(0, 0)


class Evidence(NamedTuple):
    """What one report says of one cell; `report` is the report's id."""

    report: str
    passed: int
    graded: int


class Pool(NamedTuple):
    """The runs of a cell that reports agree on, and how many reports these are."""

    passed: int
    graded: int
    reports: int


class PoolStep(Struct, frozen=True):
    """What became of one report's evidence of a cell.

    `older` are its runs with those of all older reports that may count, `p` that of their disagreement with the newer
    ones; None where these were not held against each other.
    """

    evidence: Evidence
    outcome: Literal["pooled", "disagrees", "beyond a change", "enough without", "nothing graded"]
    older: Tally | None = None
    p: float | None = None


class PerRun(NamedTuple):
    """What a run of one cell comes to: the sums of the scores, else means and a median; None where it is not known."""

    scores: ScoreSums = ScoreSums(0, 0.0, 0.0)
    cost_usd: float | None = None
    tokens: float | None = None
    latency_median_s: float | None = None


UNMEASURED = PerRun()


class History(Struct, frozen=True, cache_hash=True, dict=True):
    """What reports say of a cell, newest first.

    Thousands of cells share a few hundred of these. Where one object stands for all that are equal, what follows from
    it is computed once.
    """

    evidence: tuple[Evidence, ...]

    @cached_property
    def sums(self) -> tuple[tuple[int, int], ...]:
        """`running_sums` of its reports."""
        return running_sums((passed, graded) for _, passed, graded in self.evidence)

    @cached_property
    def pool(self) -> Pool:
        """The evidence that counts for a cell by itself."""
        return pooled(self.sums)

    @cached_property
    def tally(self) -> Tally:
        """The runs of the pool."""
        return Tally(self.pool.passed, self.pool.graded)


class BaseCell(Struct, frozen=True, gc=False):
    """One cell of a baseline. `per_run` is that of the newest report.

    `fingerprint` identifies what was asked and how it was judged; None where an old report does not say.
    """

    fingerprint: str | None
    history: History
    per_run: PerRun = UNMEASURED


class ReportRef(Struct, frozen=True, omit_defaults=True):
    """A report by its id. `started_at` is in seconds since the epoch."""

    id: str
    started_at: float
    revision: str | None = None


class TrendVariant(Struct, frozen=True):
    """One variant at one point of the trend. `n_eff` is how many independent runs its rate is worth."""

    provider: str
    prompt: str | None
    pass_rate: float | None
    n_eff: float
    cost_usd: float | None
    latency_p50_s: float | None
    latency_p95_s: float | None


class TrendPoint(Struct, frozen=True):
    """One report of the base branch. `cases` identifies what was asked and how it was judged."""

    report: ReportRef
    cases: str
    variants: tuple[TrendVariant, ...]


class Baseline(Struct, frozen=True, kw_only=True, dict=True):
    """One report, or several, as the side that another is compared with.

    Args:
        suite: the name of the newest one's suite.
        name: what it is called, such as a branch.
        reports: every report that there is evidence of, newest first.
        cells: the cells of the newest one, in its order.
        trend: what the reports came to, newest first, at most `TREND_POINTS`.
        source: where the newest one is, as a path; None if it is not at hand.
    """

    suite: str
    name: Annotated[str, Meta(min_length=1)] = "the baseline"
    reports: tuple[ReportRef, ...]
    cells: Mapping[CellKey, BaseCell]
    trend: tuple[TrendPoint, ...] = ()
    source: str | None = None

    @property
    def called(self) -> str:
        """Its name, inside a sentence."""
        return name_of(self.name)

    @cached_property
    def variants(self) -> tuple[tuple[str, str | None], ...]:
        """(provider, prompt) of every column, in the order of the cells."""
        return tuple(dict.fromkeys((provider, prompt) for _, provider, prompt in self.cells))


def running_sums(evidence: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """What none, one, two, … of the newest reports with graded runs add up to, until there are enough runs."""
    passed = graded = 0
    sums = [(0, 0)]
    for more_passed, more in evidence:
        if graded >= POOLED_RUNS:
            break
        if more:
            passed, graded = passed + more_passed, graded + more
            sums.append((passed, graded))
    return tuple(sums)


def pooled(sums: Sequence[tuple[int, int]]) -> Pool:
    """Pool (passed, graded) of one cell up to about `POOLED_RUNS` runs, from the `running_sums` of its reports.

    Stops where the pool disagrees with all older reports together: behaviour on the base branch changed there. The
    next report alone has too few runs to show it.
    """
    all_passed, all_graded = sums[-1]
    if 0 < all_passed < all_graded:  # else no report disagrees with another
        for reports, (passed, graded) in enumerate(sums[1:-1], start=1):
            if fisher_two_sided(all_passed - passed, all_graded - graded, passed, graded) <= DISAGREEMENT:
                return Pool(passed, graded, reports)
    return Pool(all_passed, all_graded, len(sums) - 1)


def pool_steps(evidence: Iterable[Evidence]) -> list[PoolStep]:
    """How `pooled` goes about the evidence of a cell, newest first, report by report."""
    steps: list[PoolStep] = []
    known = tuple(evidence)
    older_passed, older = running_sums((each.passed, each.graded) for each in known)[-1]
    passed = graded = 0
    changed = False
    for each in known:
        if not each.graded:
            steps.append(PoolStep(each, "nothing graded"))
        elif changed:
            steps.append(PoolStep(each, "beyond a change"))
        elif graded >= POOLED_RUNS:
            steps.append(PoolStep(each, "enough without"))
        else:
            p = fisher_two_sided(older_passed, older, passed, graded) if graded else None
            changed = p is not None and p <= DISAGREEMENT
            rest = Tally(older_passed, older) if graded else None
            steps.append(PoolStep(each, "disagrees" if changed else "pooled", rest, p))
            if not changed:
                passed, graded = passed + each.passed, graded + each.graded
                older_passed, older = older_passed - each.passed, older - each.graded
    return steps


def joined(reports: Sequence[Baseline]) -> Baseline:
    """Several reports as one baseline: the newest, with the evidence of all the others as its history.

    Evidence and points of the same report are taken once, however many files carry them.
    """
    newest, *older = sorted(reports, key=lambda each: each.reports[0].started_at, reverse=True)
    if not older:
        return newest
    order = {ref.id: ref for each in (newest, *older) for ref in each.reports}
    refs = sorted(order.values(), key=lambda ref: ref.started_at, reverse=True)
    rank = {ref.id: number for number, ref in enumerate(refs)}

    @cache  # as many cells have the same history, many have the same ones
    def history(*parts: History) -> History:
        evidence = _once(chain.from_iterable(part.evidence for part in parts))
        return History(tuple(sorted(evidence, key=lambda each: rank[each.report])))

    cells = {}
    for key, cell in newest.cells.items():
        same = [other for each in older if (other := each.cells.get(key)) and other.fingerprint == cell.fingerprint]
        cells[key] = BaseCell(cell.fingerprint, history(cell.history, *(other.history for other in same)), cell.per_run)
    points = {point.report.id: point for each in (*reversed(older), newest) for point in each.trend}
    trend = sorted(points.values(), key=lambda point: point.report.started_at, reverse=True)
    return msgspec.structs.replace(newest, reports=tuple(refs), cells=cells, trend=tuple(trend[:TREND_POINTS]))


def _once(evidence: Iterable[Evidence]) -> Iterable[Evidence]:
    """What each report says, as complete as any file has it: an interrupted run has the id of the one that went on."""
    found: dict[str, Evidence] = {}
    for each in evidence:
        if (known := found.get(each.report)) is None or each.graded > known.graded:
            found[each.report] = each
    return found.values()


def carried(cell: BaseCell | None, fingerprint: str | None) -> tuple[Evidence, ...]:
    """The evidence of a base cell that a new report of it hands on: of the same case, and no more than is pooled."""
    if cell is None or None in (cell.fingerprint, fingerprint) or cell.fingerprint != fingerprint:
        return ()
    return tuple(_enough(cell.history.evidence))


def _enough(evidence: Iterable[Evidence]) -> Iterable[Evidence]:
    graded = 0
    for each in evidence:
        if graded >= POOLED_RUNS:
            return
        if each.graded:
            graded += each.graded
            yield each
