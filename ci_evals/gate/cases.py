"""Cases over their variants, and tags over their cases: what got worse on many cells together?

A case that fails a little on every variant shows on none of them by itself. With a single variant
there is nothing to add to the test of the cell.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from ci_evals.gate.baseline import add_tallies
from ci_evals.gate.cells import MatchedCell, Matching, scores_of_cells
from ci_evals.gate.falls import widen_for
from ci_evals.model.case import Variant
from ci_evals.model.fields import Share
from ci_evals.model.report import Tally
from ci_evals.stats.differences import ScoreMeans, ScoreSums, lower_scores, score_means
from ci_evals.stats.exact_tests import Table, holm, stratified_lower, widen
from ci_evals.stats.overdispersion import shared_luck
from ci_evals.stats.thresholds import MIN_TAG_DROP_RATIO, SUSPECT_CASE_P


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseComparison:
    """A case that got worse over its variants.

    `head` are its planned runs and the repeats that every variant got, `base` those on the base
    branch, both over all `cells` that were compared. `variants` are those that show it by
    themselves, none if it takes all of them together. `p` is the chance of a drop this large if
    nothing had changed; `adjusted_p` allows for the number of cases.
    """

    case: str
    head: Tally
    base: Tally
    cells: int
    variants: tuple[Variant, ...]
    p: Share
    adjusted_p: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class TagComparison:
    """The cases with a tag, over all variants: the planned runs against the pooled ones.

    Rates are means over its `cells`, and `drop_elsewhere` is the fall of the mean rate over all
    other cells. `p` is the chance of a drop this large if nothing had changed; `adjusted_p` allows
    for the number of tags. A tag is never a reason for red: it says what a change that is red
    anyway has in common.
    """

    tag: str
    cells: int
    head_rate: Share
    base_rate: Share
    drop_elsewhere: float
    p: Share
    adjusted_p: Share

    @property
    def stands_out(self) -> bool:
        """Return True if its cases fell at least twice as far as the others."""
        return self.base_rate - self.head_rate >= MIN_TAG_DROP_RATIO * self.drop_elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """The scores of a metric, over all cases and variants whose graders name it: those of the
    planned runs against the pooled ones.

    `scores` are means over its `cells`, and `drop_elsewhere` is the mean fall of the other metrics.
    `p` is the chance of a drop this large if nothing had changed; `adjusted_p` allows for the
    number of metrics. A metric is never a reason for red: it says what a change that is red anyway
    has in common.
    """

    metric: str
    cells: int
    scores: ScoreMeans
    drop_elsewhere: float
    p: Share
    adjusted_p: Share

    @property
    def stands_out(self) -> bool:
        """Return True if it fell at least twice as far as the others."""
        return self.scores.drop >= MIN_TAG_DROP_RATIO * self.drop_elsewhere


@dataclass(frozen=True)
class MatchedCase:
    """A case that is compared on two variants or more.

    Args:
        cells: its cells, one for each variant.
        luck: how much more the passes of cases vary between reports than those of cells.
    """

    cells: Sequence[MatchedCell]
    luck: float

    @property
    def id(self) -> str:
        return self.cells[0].head.key[0]

    @property
    def critical(self) -> bool:
        return any(cell.head.critical for cell in self.cells)

    @cached_property
    def planned_p(self) -> float:
        """The chance that the planned runs are as low as they are."""
        return self.p([cell.head.planned for cell in self.cells], self.pooled)

    @property
    def suspicious(self) -> bool:
        """Return True if the planned runs are below the base beyond what is usual."""
        return self.planned_p <= SUSPECT_CASE_P

    @cached_property
    def pooled(self) -> Sequence[Tally]:
        """The runs of the base that count, cell by cell."""
        return [cell.pooled for cell in self.cells]

    def with_repeats(self, count: int) -> Sequence[Tally] | None:
        """Return the planned runs of each cell with so many repeats; None if some lack these."""
        runs = []
        for cell in self.cells:
            repeated = cell.head.with_repeats(count)
            if repeated is None:
                return None
            runs.append(repeated)
        return runs

    def p(self, runs: Sequence[Tally], base: Sequence[Tally]) -> float:
        """Return the p-value of a drop, widened for the luck that its cells share; 1 without one.

        Args:
            runs: of each cell here.
            base: of each cell on the base branch.
        """
        planned = [cell.head.planned for cell in self.cells]
        return widen(lower_p(runs, base), widen_for(self.luck, runs, planned))


def lower_p(runs: Sequence[Tally], base: Sequence[Tally]) -> float:
    """Return the p-value of a drop over the variants of a case; 1 if fewer failed, all told."""
    head, before = add_tallies(runs), add_tallies(base)
    if head.passed * before.graded >= before.passed * head.graded:
        return 1.0
    pairs = zip(runs, base, strict=True)
    return stratified_lower([(*mine, *theirs) for mine, theirs in pairs])


def match_cases(matching: Matching) -> Sequence[MatchedCase]:
    """Return the cases that are compared on two variants or more."""
    by_case: dict[str, list[MatchedCell]] = defaultdict(list)
    for cell in matching.cells:
        by_case[cell.head.key[0]].append(cell)
    groups = [cells for cells in by_case.values() if len(cells) > 1]
    reports_of_cases = [
        matching.base.newest_reports([cell.base for cell in cells]) for cells in groups
    ]
    luck = shared_luck(reports_of_cases)
    return [MatchedCase(cells, luck) for cells in groups]


def compare_tags(matching: Matching) -> Sequence[TagComparison]:
    """Test every tag that some, but not all, compared cells have; the surest drop first.

    Scores are tested where graders give other than 0 and 1, as of variants.
    """
    by_tag: dict[str, list[MatchedCell]] = defaultdict(list)
    fallen = 0.0
    for cell in matching.cells:
        fallen += cell.pooled.rate - cell.head.planned.rate
        for tag in cell.head.case.tags:
            by_tag[tag].append(cell)
    tested: list[tuple[str, Sequence[Table], float]] = []
    for tag, cells in by_tag.items():
        if len(cells) == len(matching.cells):
            continue
        tables = [(*cell.head.planned, *cell.pooled) for cell in cells]
        scores = scores_of_cells(cells)
        p = stratified_lower(tables) if scores is None else lower_scores(scores)
        tested.append((tag, tables, p))
    adjusted = holm([p for _, _, p in tested])
    tags = []
    for (tag, chosen, p), adjusted_p in zip(tested, adjusted, strict=True):
        head_rate = fmean([passed / graded for passed, graded, _, _ in chosen])
        base_rate = fmean([passed / graded for _, _, passed, graded in chosen])
        fallen_elsewhere = fallen - len(chosen) * (base_rate - head_rate)
        tags.append(
            TagComparison(
                tag=tag,
                cells=len(chosen),
                head_rate=head_rate,
                base_rate=base_rate,
                drop_elsewhere=fallen_elsewhere / (len(matching.cells) - len(chosen)),
                p=p,
                adjusted_p=adjusted_p,
            )
        )
    tags.sort(key=lambda tag: tag.p)
    return tags


def compare_metrics(matching: Matching) -> Sequence[MetricComparison]:
    """Test every metric that graders name here and on the base; the surest drop first."""
    by_metric: dict[str, list[tuple[ScoreSums, ScoreSums]]] = defaultdict(list)
    for cell in matching.cells:
        before = cell.base.history.metrics
        for metric, here in cell.head.metrics.items():
            if metric in before:
                by_metric[metric].append((here, before[metric]))
    means = {metric: score_means(cells) for metric, cells in by_metric.items()}
    ps = [_lower_metric_p(cells) for cells in by_metric.values()]
    metrics = []
    for (metric, scores), p, adjusted_p in zip(means.items(), ps, holm(ps), strict=True):
        drop_elsewhere = 0.0
        if len(means) > 1:
            drop_elsewhere = fmean(each.drop for other, each in means.items() if other != metric)
        metrics.append(
            MetricComparison(
                metric=metric,
                cells=len(by_metric[metric]),
                scores=scores,
                drop_elsewhere=drop_elsewhere,
                p=p,
                adjusted_p=adjusted_p,
            )
        )
    metrics.sort(key=lambda metric: metric.p)
    return metrics


def _lower_metric_p(cells: Sequence[tuple[ScoreSums, ScoreSums]]) -> float:
    """Return the p-value of a drop: by scores, or exactly if all of them are 0 or 1."""
    if not all(sums.are_passes for sides in cells for sums in sides):
        return lower_scores(cells)
    tables = [
        (int(here.total), here.runs, int(before.total), before.runs) for here, before in cells
    ]
    return stratified_lower(tables)
