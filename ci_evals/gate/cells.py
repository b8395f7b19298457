"""The cells of a report, matched with those of a baseline."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

from ci_evals.gate.baseline import (
    NO_RUNS,
    BaseCell,
    Baseline,
    ReportedCell,
    add_tallies,
)
from ci_evals.model.case import Variant
from ci_evals.model.fields import Share
from ci_evals.model.fingerprint import grading_half
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Tally
from ci_evals.stats.differences import ScoreSums
from ci_evals.stats.exact_tests import fisher_lower, fisher_upper
from ci_evals.stats.thresholds import SUSPECT_CELL_P, SUSPECT_SINGLE_RUN_P

CellKind = Literal[
    "new",
    "removed",
    "edited",
    "not compared",
    "regressed",
    "fixed",
    "suspect",
    "flaky",
    "unchanged",
]
KINDS: tuple[CellKind, ...] = get_args(CellKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellComparison:
    """One cell compared with its base.

    `head` are all its runs that count, `base` the pooled ones of `base_reports` reports. `p` is the
    chance of a drop (of a rise, where it is `fixed`) this large if nothing had changed;
    `adjusted_p` allows for the number of cells that were compared. Both are None where nothing was
    tested. An `edited` cell is `regraded` if its answers are judged otherwise than on the base;
    others are, too, if `by_main` says that main's checks have graded them.
    `here_now` and `main_now` are the runs that both sides made in the same minutes; `cleared` is
    what main fails now, too.
    """

    case: str
    provider: str
    prompt: str | None = None
    kind: CellKind
    head: Tally = NO_RUNS
    base: Tally = NO_RUNS
    base_reports: int = 0
    p: Share | None = None
    adjusted_p: Share | None = None
    renamed_from: str | None = None
    critical: bool = False
    regraded: bool = False
    by_main: bool = False
    here_now: Tally = NO_RUNS
    main_now: Tally = NO_RUNS
    cleared: bool = False

    @property
    def key(self) -> CellKey:
        return self.case, self.provider, self.prompt

    @property
    def variant(self) -> Variant:
        return Variant(self.provider, self.prompt)

    def base_key(self, variants: Mapping[Variant, Variant]) -> CellKey:
        """Return the cell's name in the baseline.

        `variants` maps each variant to the one that it is compared with.
        """
        return cell_key(self.renamed_from or self.case, variants.get(self.variant, self.variant))


@dataclass(frozen=True)
class MatchedCell:
    """A cell of the report and the one of the baseline that it is compared with, tested by itself.

    `renamed_from` is the id that its case has there, if it is another.
    """

    head: ReportedCell
    base: BaseCell
    renamed_from: str | None

    def without_repeats(self) -> "MatchedCell":
        """Return the cell as if it had not been run again."""
        return replace(self, head=replace(self.head, repeats=()))

    @cached_property
    def pooled(self) -> Tally:
        """The runs of the base that count."""
        return self.base.history.tally

    @cached_property
    def all_runs(self) -> Tally:
        """The planned runs and all repeats together."""
        return add_tallies((self.head.planned, self.head.confirming))

    @cached_property
    def p(self) -> float:
        """The chance that the planned runs are as low as they are."""
        return fisher_lower(*self.head.planned, *self.pooled)

    @cached_property
    def suspicious(self) -> bool:
        """Return True if the planned runs are below the base beyond what is usual.

        A single run says little: any that failed where others pass is a suspect.
        """
        level = SUSPECT_CELL_P
        if self.head.planned.graded == 1:
            level = SUSPECT_SINGLE_RUN_P
        return self.head.planned.rate < self.pooled.rate and self.p <= level

    @property
    def runs(self) -> Tally:
        """The runs that speak for it: of a suspect, those that confirm it, too."""
        if self.suspicious:
            return self.all_runs
        return self.head.planned

    @cached_property
    def drop(self) -> float:
        """The p-value of a drop, by the runs that speak for it."""
        if not self.suspicious:
            return self.p
        return fisher_lower(*self.runs, *self.pooled)

    @cached_property
    def rise(self) -> float:
        """The p-value of a rise; 1 for a suspect."""
        if self.suspicious:
            return 1.0
        return fisher_upper(*self.runs, *self.pooled)


def match_variants(head: Iterable[Variant], base: Iterable[Variant]) -> Mapping[Variant, Variant]:
    """Map each variant to the one of the base that it is compared with.

    That is the one of the same name. Where only one is left on either side, these two are compared:
    a model or prompt under another name is a change to be tested, not another suite.
    """
    mine, theirs = dict.fromkeys(head), dict.fromkeys(base)
    matched = {variant: variant for variant in mine if variant in theirs}
    new = [variant for variant in mine if variant not in matched]
    gone = [variant for variant in theirs if variant not in matched]
    if len(new) == len(gone) == 1:
        matched[new[0]] = gone[0]
    return matched


def scores_of_cells(cells: Sequence[MatchedCell]) -> Sequence[tuple[ScoreSums, ScoreSums]] | None:
    """Return the scores of the planned runs of some cells, and those pooled of the base.

    None if no grader gave other than 0 or 1 here, or if main's checks have graded some, without
    scores.
    """
    if not any(cell.head.is_scored for cell in cells):
        return None
    pairs = []
    for cell in cells:
        if cell.head.scores is None:
            return None
        pairs.append((cell.head.scores, cell.base.history.score_sums[-1]))
    return pairs


@dataclass(frozen=True)
class Matching:
    """The cells of a report, matched with those of a baseline.

    Args:
        base: the baseline.
        variants: each variant of the report that is compared, and its counterpart in the baseline.
        cells: the cells that both sides have graded runs of, for the same question and grading.
        rest: the findings on all other cells of either side.
    """

    base: Baseline
    variants: Mapping[Variant, Variant]
    cells: Sequence[MatchedCell]
    rest: Sequence[CellComparison]

    @cached_property
    def by_variant(self) -> Mapping[Variant, Sequence[MatchedCell]]:
        """The matched cells of each variant."""
        groups: dict[Variant, list[MatchedCell]] = defaultdict(list)
        for cell in self.cells:
            groups[cell.head.variant].append(cell)
        return dict(groups)

    def overdispersion(self, variant: Variant) -> float:
        """Return how much more reports of the base vary than independent runs would."""
        return self.base.overdispersion.get(self.variants[variant], 1.0)

    def overdispersion_of_falls(self, variant: Variant) -> float:
        """Return the same of the scores, where these decide whether the variant fell."""
        if self.is_scored(variant):
            return self.base.score_overdispersion.get(self.variants[variant], 1.0)
        return self.overdispersion(variant)

    def is_scored(self, variant: Variant) -> bool:
        """Return True if a grader of one of its cells gave other than 0 or 1.

        Where main's checks have graded, there are no scores.
        """
        return scores_of_cells(self.by_variant[variant]) is not None


def match_cells(head: Sequence[ReportedCell], base: Baseline) -> Matching:
    """Match the cells of a report with those of a baseline."""
    variants = match_variants(variants_of(cell.key for cell in head), base.variants)
    cells, rest = _match_cells(head, base, variants)
    return Matching(base, variants, cells, rest)


def base_keys(head: Sequence[ReportedCell], base: Baseline) -> Mapping[CellKey, CellKey]:
    """Map each cell to its name in the baseline, where its case or variant may be renamed."""
    variants = match_variants(variants_of(cell.key for cell in head), base.variants)
    mine = _by_base_key(head, variants)
    old_names = _old_names(mine, base)
    return {
        cell.key: (old_names.get(base_key, base_key[0]), *base_key[1:])
        for base_key, cell in mine.items()
    }


def _match_cells(
    head: Sequence[ReportedCell], base: Baseline, variants: Mapping[Variant, Variant]
) -> tuple[list[MatchedCell], list[CellComparison]]:
    """Return the cells that can be compared, and the findings on all others."""
    mine = _by_base_key(head, variants)
    old_names = _old_names(mine, base)
    matched: list[MatchedCell] = []
    rest: list[CellComparison] = []
    known = set(mine)
    for key, cell in mine.items():
        old_name = old_names.get(key)
        base_key = (old_name or key[0], key[1], key[2])
        known.add(base_key)
        found = base.cells.get(base_key)
        if found is None:
            rest.append(_untested_cell("new", cell.key, cell))
        elif found.fingerprint != cell.fingerprint:
            rest.append(_edited_cell(cell, found))
        elif base.broken and Variant(*base_key[1:]) in base.broken_variants:
            failing = found.history.newest_lost
            rest.append(_untested_cell("not compared", cell.key, cell, failing))
        elif cell.planned.graded and found.history.tally.graded and not cell.is_quarantined:
            matched.append(MatchedCell(cell, found, old_name))
        else:
            rest.append(_untested_cell("not compared", cell.key, cell, found.history.tally))
    for key, base_cell in base.cells.items():
        if key not in known:
            rest.append(_untested_cell("removed", key, base=base_cell.history.tally))
    return matched, rest


def variants_of(keys: Iterable[CellKey]) -> Sequence[Variant]:
    """Return the variants of some cells, in order."""
    return [Variant(*names) for names in dict.fromkeys([key[1:] for key in keys])]


def cell_key(case: str, variant: Variant) -> CellKey:
    return case, variant.provider, variant.prompt


def _by_base_key(
    head: Sequence[ReportedCell], variants: Mapping[Variant, Variant]
) -> Mapping[CellKey, ReportedCell]:
    """Return the cells by the names that they have in the baseline, where no case was renamed."""
    base_names = {(mine.provider, mine.prompt): theirs for mine, theirs in variants.items()}
    found = {}
    for cell in head:
        key = cell.key
        if key[1:] in base_names:
            key = cell_key(key[0], base_names[key[1:]])
        found[key] = cell
    return found


def _edited_cell(head: ReportedCell, base: BaseCell) -> CellComparison:
    newest = base.history.evidence[0].tally if base.history.evidence else NO_RUNS
    regraded = grading_half(base.fingerprint) != grading_half(head.fingerprint)
    return replace(_untested_cell("edited", head.key, head, newest), regraded=regraded)


def _untested_cell(
    kind: CellKind, key: CellKey, head: ReportedCell | None = None, base: Tally = NO_RUNS
) -> CellComparison:
    case, provider, prompt = key
    return CellComparison(
        case=case,
        provider=provider,
        prompt=prompt,
        kind=kind,
        head=head.planned if head else NO_RUNS,
        base=base,
        critical=head.critical if head else False,
    )


def _old_names(mine: Mapping[CellKey, ReportedCell], base: Baseline) -> Mapping[CellKey, str]:
    """Find the cells whose case has another name in the base: same question, same grading."""
    gone: dict[tuple[str, str, str | None], list[str]] = defaultdict(list)
    for key, cell in base.cells.items():
        if key not in mine:
            gone[cell.fingerprint, *key[1:]].append(key[0])
    names = {}
    for key, reported in mine.items():
        if key not in base.cells:
            candidates = gone.get((reported.fingerprint, *key[1:]))
            if candidates:
                names[key] = candidates.pop(0)
    return names


def waived_cells(named: Iterable[CellKey], better: Container[Variant]) -> frozenset[CellKey]:
    """Return the named cells that block nothing.

    A case is waived if every variant that it is worse on is better as a whole.

    Args:
        named: the cells that got worse.
        better: the variants that are better as a whole.
    """
    cells = list(named)
    blocking = set()
    for case, provider, prompt in cells:
        if Variant(provider, prompt) not in better:
            blocking.add(case)
    return frozenset(cell for cell in cells if cell[0] not in blocking)
