"""Report against baseline, cell by cell and variant by variant: what got worse, and how sure that is. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from ci_evals.matrix import CellKey
from ci_evals.model import Variant
from ci_evals.stats.multiplicity import holm
from ci_evals.verdict.cells import CellTest, cell_tests
from ci_evals.verdict.differences import Differences, differences
from ci_evals.verdict.history import BaseCell, Baseline
from ci_evals.verdict.pairing import (
    CellComparison,
    CellKind,
    CellRuns,
    HeadCell,
    Pair,
    VariantKey,
    matched_variants,
    paired,
    variant_of,
)
from ci_evals.verdict.whole import Fall, fall


class VariantComparison(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One variant beside its base, over the `cells` that both sides have graded runs of.

    Rates are means over these cells. `p` is that of `fall`, `adjusted_p` allows for the number of variants;
    `adjusted_p_of_rest` is the same without the cells that regressed by themselves.
    `base_provider` and `base_prompt` are what it was compared with.
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
    adjusted_p_of_rest: float
    differences: Differences

    @property
    def renamed(self) -> bool:
        """Whether it was compared with a variant of another name."""
        return (self.provider, self.prompt) != (self.base_provider, self.base_prompt)


class Comparison(Struct, frozen=True, kw_only=True, dict=True):
    """A report beside a baseline: every variant that both have, and every cell that either has.

    `usual_runs` is how many planned runs most of the tested cells have, 0 if none was tested.
    """

    baseline: Baseline
    confirm_runs: int
    usual_runs: int
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
    def base_variants(self) -> Mapping[VariantKey, VariantKey]:
        """Which variant of the baseline each one is compared with."""
        head = [(cell.provider, cell.prompt) for cell in self.cells if cell.kind != "removed"]
        return matched_variants(head, self.baseline.variants)

    def base_variant(self, variant: Variant) -> VariantKey:
        """What the baseline calls a variant."""
        key = variant.provider, variant.prompt
        return self.base_variants.get(key, key)

    def base_key(self, key: CellKey) -> CellKey:
        """What the baseline calls a cell."""
        if found := self.by_key.get(key):
            return found.base_key(self.base_variants)
        return (key[0], *self.base_variants.get(key[1:], key[1:]))

    def base_of(self, key: CellKey) -> BaseCell | None:
        """What the baseline has of a cell, whatever its case or its variant was called there."""
        return self.baseline.cells.get(self.base_key(key))

    @cached_property
    def several_variants(self) -> bool:
        return len({(cell.provider, cell.prompt) for cell in self.cells if cell.kind != "removed"}) > 1

    @property
    def compared(self) -> int:
        """How many cells were tested."""
        return sum(cell.p is not None for cell in self.cells)

    def of(self, *kinds: CellKind) -> Sequence[CellComparison]:
        """The cells of some kinds, the surest first."""
        chosen = [cell for cell in self.cells if cell.kind in kinds]
        return tuple(sorted(chosen, key=lambda cell: 1.0 if cell.p is None else cell.p))

    def fallen(self, *, beyond_regressions: bool = False) -> Iterator[VariantComparison]:
        """The variants that are worse as a whole; or that are so even without the cells that regressed."""
        for variant in self.variants:
            if (variant.adjusted_p_of_rest if beyond_regressions else variant.adjusted_p) <= self.alpha:
                yield variant


class NoComparison(Struct, frozen=True):
    """Why a report could not be compared, in a sentence."""

    reason: str


def compare(head: Sequence[HeadCell], base: Baseline, *, confirm_runs: int, alpha: float = 0.05) -> Comparison:
    """Compare a report with a baseline.

    Each cell is tested by itself (Fisher, one-sided; Benjamini and Hochberg over all of them), and each variant as a
    whole (exact stratified tests over its cells, Holm over the variants).

    Args:
        head: the cells of the report.
        base: what they are compared with.
        confirm_runs: how many more runs a suspect gets; it is not named before it has them. 0: none, and the planned
            runs decide.
        alpha: the chance of a false alarm that is accepted, in (0, 1).
    """
    variants = matched_variants(map(variant_of, [cell.key for cell in head]), base.variants)
    pairs, rest = paired(head, base, variants)
    cells = Counter([pair.runs for pair in pairs])
    found = cell_tests(cells, confirm_runs, alpha)
    return Comparison(
        baseline=base,
        confirm_runs=confirm_runs,
        usual_runs=usual(_planned_runs(cells)),
        alpha=alpha,
        variants=_variant_comparisons(pairs, variants, found, 1 - alpha),
        cells=(*[_cell_comparison(pair, found[pair.runs]) for pair in pairs], *rest),
    )


def _planned_runs(cells: Counter[CellRuns]) -> Counter[int]:
    """How many cells have so many graded ones."""
    runs: Counter[int] = Counter()
    for each, count in cells.items():
        runs[each.planned.graded] += count
    return runs


def usual(numbers: Iterable[int] | Mapping[int, int]) -> int:
    """The commonest number, or the commonest of a count of each; the smallest of several; 0 of none."""
    return min(Counter(numbers).items(), key=lambda each: (-each[1], each[0]), default=(0, 0))[0]


def suspects(head: Sequence[HeadCell], base: Baseline) -> frozenset[CellKey]:
    """The cells that are to be run again before anything is said of them."""
    pairs, _ = paired(head, base, matched_variants(map(variant_of, [cell.key for cell in head]), base.variants))
    suspicious = {runs for runs in {pair.runs for pair in pairs} if runs.suspicious}
    return frozenset(pair.head.key for pair in pairs if pair.runs in suspicious)


def _cell_comparison(pair: Pair, found: CellTest) -> CellComparison:
    case, provider, prompt = pair.head.key
    kind, head, base, p, adjusted_p = found
    return CellComparison(
        case=case,
        provider=provider,
        prompt=prompt,
        kind=kind,
        head=head,
        base=base,
        base_reports=pair.runs.history.pool.reports,
        p=p,
        adjusted_p=adjusted_p,
        renamed_from=pair.renamed_from,
        critical=pair.head.critical,
    )


def _variant_comparisons(
    pairs: Iterable[Pair],
    variants: Mapping[VariantKey, VariantKey],
    found: Mapping[CellRuns, CellTest],
    confidence: float,
) -> tuple[VariantComparison, ...]:
    """Of every variant that has cells to compare. Confirm runs take no part: they were chosen for their results."""
    by_variant: dict[VariantKey, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_variant[variant_of(pair.head.key)].append(pair)
    columns = {variant: _column(chosen) for variant, chosen in by_variant.items()}
    adjusted = holm([column.fall.p for column in columns.values()])
    rests = holm([_p_of_rest(column, found) for column in columns.values()])
    return tuple(
        VariantComparison(
            provider=variant[0],
            prompt=variant[1],
            base_provider=variants[variant][0],
            base_prompt=variants[variant][1],
            cells=len(by_variant[variant]),
            head_rate=column.head_rate,
            base_rate=column.base_rate,
            p=column.fall.p,
            adjusted_p=p,
            adjusted_p_of_rest=p_of_rest,
            differences=differences(
                column.fall.tables,
                [pair.head.per_run for pair in by_variant[variant]],
                [pair.base.per_run for pair in by_variant[variant]],
                confidence,
            ),
        )
        for (variant, column), p, p_of_rest in zip(columns.items(), adjusted, rests, strict=True)
    )


class _Column(Struct, frozen=True):
    """One variant: how many cells have the same runs, the means of their pass rates, and the test of these."""

    cells: Counter[CellRuns]
    head_rate: float
    base_rate: float
    fall: Fall


def _column(pairs: Sequence[Pair]) -> _Column:
    cells = Counter([pair.runs for pair in pairs])
    fallen = fall(cells)
    head = sum(passed / graded * count for (passed, graded, _, _), count in fallen.tables.items())
    base = sum(passed / graded * count for (_, _, passed, graded), count in fallen.tables.items())
    return _Column(cells, head / len(pairs), base / len(pairs), fallen)


def _p_of_rest(column: _Column, found: Mapping[CellRuns, CellTest]) -> float:
    """Of the cells that did not regress by themselves."""
    rest = {each: count for each, count in column.cells.items() if found[each].kind != "regressed"}
    return fall(rest).p if len(rest) < len(column.cells) else column.fall.p
