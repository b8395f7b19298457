"""Report against baseline, cell by cell and variant by variant: what got worse, and how sure that is. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from ci_evals.report import CellKey
from ci_evals.stats.fisher import fisher_lower, fisher_upper
from ci_evals.stats.multiplicity import benjamini_hochberg, holm
from ci_evals.stats.stratified import stratified_lower
from ci_evals.verdict.differences import Differences, differences
from ci_evals.verdict.history import Baseline, Tally
from ci_evals.verdict.pairing import (
    SUSPICION,
    CellComparison,
    CellKind,
    HeadCell,
    Pair,
    VariantKey,
    matched_variants,
    paired,
)


class VariantComparison(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One variant beside its base, over the `cells` that both sides have graded runs of.

    Rates are means over these cells. `p` is that of the exact stratified test for a drop, `adjusted_p` allows for the
    number of variants. `base_provider` and `base_prompt` are what it was compared with.
    """

    provider: str
    prompt: str | None = None
    base_provider: str
    base_prompt: str | None = None
    cells: int
    head_rate: float
    base_rate: float
    p: float
    adjusted_p: float
    differences: Differences

    @property
    def renamed(self) -> bool:
        """Whether it was compared with a variant of another name."""
        return (self.provider, self.prompt) != (self.base_provider, self.base_prompt)


class Comparison(Struct, frozen=True, kw_only=True, dict=True):
    """A report beside a baseline: every variant that both have, and every cell that either has."""

    baseline: Baseline
    confirm_runs: int
    alpha: float
    variants: tuple[VariantComparison, ...]
    cells: tuple[CellComparison, ...]

    @cached_property
    def counts(self) -> Mapping[CellKind, int]:
        """How many cells are of each kind."""
        return Counter(cell.kind for cell in self.cells)

    @cached_property
    def by_key(self) -> Mapping[CellKey, CellComparison]:
        return {cell.key: cell for cell in self.cells}

    @cached_property
    def several_variants(self) -> bool:
        return len({(cell.provider, cell.prompt) for cell in self.cells if cell.kind != "removed"}) > 1

    @property
    def compared(self) -> int:
        """How many cells were tested."""
        return sum(cell.p is not None for cell in self.cells)

    def of(self, *kinds: CellKind) -> Iterator[CellComparison]:
        """The cells of some kinds, the surest first."""
        chosen = [cell for cell in self.cells if cell.kind in kinds]
        return iter(sorted(chosen, key=lambda cell: 1.0 if cell.p is None else cell.p))

    @property
    def fallen(self) -> Iterator[VariantComparison]:
        """The variants that are worse as a whole."""
        return (variant for variant in self.variants if variant.adjusted_p <= self.alpha)


class NoComparison(NamedTuple):
    """Why a report could not be compared, in a sentence."""

    reason: str


def compare(head: Sequence[HeadCell], base: Baseline, *, confirm_runs: int, alpha: float = 0.05) -> Comparison:
    """Compare a report with a baseline.

    Each cell is tested by itself (Fisher, one-sided; Benjamini and Hochberg over all of them), and each variant as a
    whole (exact stratified test over its cells, Holm over the variants).

    Args:
        head: the cells of the report.
        base: what they are compared with.
        confirm_runs: how many more runs a suspect gets; it is not named before it has them. 0: none, and the planned
            runs decide.
        alpha: the chance of a false alarm that is accepted, in (0, 1).
    """
    variants = matched_variants([cell.key[1:] for cell in head], base.variants)
    pairs, rest = paired(head, base, variants)
    return Comparison(
        baseline=base,
        confirm_runs=confirm_runs,
        alpha=alpha,
        variants=_variant_comparisons(pairs, variants, 1 - alpha),
        cells=(*_cell_comparisons(pairs, confirm_runs, alpha), *rest),
    )


def suspects(head: Sequence[HeadCell], base: Baseline) -> frozenset[CellKey]:
    """The cells that are to be run again before anything is said of them."""
    pairs, _ = paired(head, base, matched_variants([cell.key[1:] for cell in head], base.variants))
    return frozenset(pair.head.key for pair in pairs if pair.suspicious)


class _Tested(NamedTuple):
    """One cell's own tests: on all its runs if it was a suspect, else on the planned ones."""

    pair: Pair
    head: Tally
    lower: float
    upper: float
    suspect: bool


def _cell_comparisons(pairs: Sequence[Pair], confirm_runs: int, alpha: float) -> list[CellComparison]:
    tested = [_test(pair, confirm_runs) for pair in pairs]
    falls = benjamini_hochberg([each.lower for each in tested])
    rises = benjamini_hochberg([each.upper for each in tested])
    return [_classified(*each, alpha) for each in zip(tested, falls, rises, strict=True)]


def _test(pair: Pair, confirm_runs: int) -> _Tested:
    """p for a drop counts as 1 unless the cell was a suspect and has been confirmed."""
    planned, more = pair.head.planned, pair.head.confirming
    base = pair.pool.passed, pair.pool.graded
    if not pair.suspicious:
        return _Tested(pair, planned, lower=1.0, upper=fisher_upper(*planned, *base), suspect=False)
    head = Tally(planned.passed + more.passed, planned.graded + more.graded)
    decided = confirm_runs == 0 or pair.head.confirmed
    return _Tested(pair, head, lower=fisher_lower(*head, *base) if decided else 1.0, upper=1.0, suspect=True)


def _classified(tested: _Tested, fall: float, rise: float, alpha: float) -> CellComparison:
    pair, head = tested.pair, tested.head
    base = Tally(pair.pool.passed, pair.pool.graded)
    kind, p, adjusted = _kind(tested, base, fall, rise, alpha)
    case, provider, prompt = pair.head.key
    return CellComparison(
        case=case,
        provider=provider,
        prompt=prompt,
        kind=kind,
        head=head,
        base=base,
        base_reports=pair.pool.reports,
        p=p,
        adjusted_p=adjusted,
        renamed_from=pair.renamed_from,
        critical=pair.head.critical,
    )


def _kind(tested: _Tested, base: Tally, fall: float, rise: float, alpha: float) -> tuple[CellKind, float, float]:
    """The first kind that fits, with the p that speaks for it and its adjusted one."""
    head = tested.head
    if tested.suspect:
        p = fisher_lower(*head, *base)
        lower = head.passed * base.graded < base.passed * head.graded
        if lower and fall <= alpha:
            return "regressed", p, fall
        if lower and p <= SUSPICION:
            return "suspect", p, fall
    elif head.passed * base.graded > base.passed * head.graded and rise <= alpha:
        return "fixed", tested.upper, rise
    stable = head.passed in (0, head.graded) and base.passed in (0, base.graded)
    return "unchanged" if stable else "flaky", fisher_lower(*head, *base), fall


def _variant_comparisons(
    pairs: Iterable[Pair], variants: Mapping[VariantKey, VariantKey], confidence: float
) -> tuple[VariantComparison, ...]:
    """Of every variant that has cells to compare. Confirm runs take no part: they were chosen for their results."""
    by_variant: dict[VariantKey, list[Pair]] = {}
    for pair in pairs:
        by_variant.setdefault(pair.head.key[1:], []).append(pair)
    ps = [stratified_lower(pair.table for pair in chosen) for chosen in by_variant.values()]
    return tuple(
        VariantComparison(
            provider=variant[0],
            prompt=variant[1],
            base_provider=variants[variant][0],
            base_prompt=variants[variant][1],
            cells=len(chosen),
            head_rate=sum(pair.head.planned.rate for pair in chosen) / len(chosen),
            base_rate=sum(pair.pool.passed / pair.pool.graded for pair in chosen) / len(chosen),
            p=p,
            adjusted_p=adjusted,
            differences=differences(
                [(pair.table, pair.head.figures, pair.base.figures) for pair in chosen], confidence
            ),
        )
        for (variant, chosen), p, adjusted in zip(by_variant.items(), ps, holm(ps), strict=True)
    )
