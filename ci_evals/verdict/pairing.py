"""Which cell of a baseline each cell of a report is compared with, and what is said of those that have none."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import filterfalse
from operator import itemgetter
from typing import Literal, NamedTuple

from msgspec import Struct

from ci_evals.matrix import CellKey
from ci_evals.stats.fisher import fisher_lower
from ci_evals.verdict.history import (
    NO_RUNS,
    UNMEASURED,
    BaseCell,
    Baseline,
    History,
    PerRun,
    Tally,
)

SUSPICION = 0.30
"""A cell with a lower rate than its base and a Fisher p at or below this is run again before it is named."""

CellKind = Literal["new", "removed", "edited", "not compared", "regressed", "fixed", "suspect", "flaky", "unchanged"]
KINDS: tuple[CellKind, ...] = CellKind.__args__  # type: ignore[attr-defined]

VariantKey = tuple[str, str | None]
"""Provider and prompt."""


class HeadCell(NamedTuple):
    """One cell of the report that is compared.

    Args:
        key: what it is called.
        fingerprint: identifies what was asked and how it is judged, whatever the case is called; None where an old
            report does not say.
        planned: its planned runs; those that only repeat a record are not counted.
        confirming: the runs that it got because it was a suspect.
        confirmed: whether those are all there.
        critical: whether its regression is red whatever else the gate allows.
        per_run: what its planned runs came to.
    """

    key: CellKey
    fingerprint: str | None
    planned: Tally
    confirming: Tally = NO_RUNS
    confirmed: bool = False
    critical: bool = False
    per_run: PerRun = UNMEASURED


class CellComparison(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One cell beside its base.

    `head` are all its runs that count, `base` the pooled ones of `base_reports` reports. `p` is the chance of a drop
    (of a rise, where it is `fixed`) this large if nothing had changed; `adjusted_p` allows for the number of cells
    that were looked at. Both are None where nothing was tested.
    """

    case: str
    provider: str
    prompt: str | None = None
    kind: CellKind
    head: Tally = NO_RUNS
    base: Tally = NO_RUNS
    base_reports: int = 0
    p: float | None = None
    adjusted_p: float | None = None
    renamed_from: str | None = None
    critical: bool = False

    @property
    def key(self) -> CellKey:
        return self.case, self.provider, self.prompt

    def base_key(self, variants: Mapping[VariantKey, VariantKey]) -> CellKey:
        """What the baseline calls the cell, where `variants` says which one of it each is compared with."""
        return (self.renamed_from or self.case, *variants.get(self.key[1:], self.key[1:]))


class CellRuns(Struct, frozen=True, eq=False):
    """The runs that decide about one cell: its own, and those of the base.

    Thousands of cells share a few hundred of these. One object stands for all that are equal: it is hashed by what it
    is, not by what it holds.
    """

    planned: Tally
    confirming: Tally
    confirmed: bool
    history: History

    @property
    def base(self) -> Tally:
        return self.history.tally

    @property
    def suspicious(self) -> bool:
        """Whether the planned runs are below the base beyond what is usual."""
        base = self.base
        lower = self.planned.passed * base.graded < base.passed * self.planned.graded
        return lower and fisher_lower(*self.planned, *base) <= SUSPICION


class Pair(Struct, frozen=True, gc=False):
    """A cell and what it is compared with."""

    head: HeadCell
    base: BaseCell
    runs: CellRuns
    renamed_from: str | None


variant_of: Callable[[CellKey], VariantKey] = itemgetter(1, 2)
"""The variant of a cell."""


def matched_variants(head: Iterable[VariantKey], base: Iterable[VariantKey]) -> Mapping[VariantKey, VariantKey]:
    """Which variant of the base each one is compared with.

    The one of the same name; and where only one is left on either side, these two: another model or prompt under
    another name is a change to be tested, and not another suite.
    """
    mine, theirs = dict.fromkeys(head), dict.fromkeys(base)
    matched = {variant: variant for variant in mine if variant in theirs}
    left, gone = [v for v in mine if v not in matched], [v for v in theirs if v not in matched]
    if len(left) == len(gone) == 1:
        matched[left[0]] = gone[0]
    return matched


def paired(
    head: Sequence[HeadCell], base: Baseline, variants: Mapping[VariantKey, VariantKey]
) -> tuple[list[Pair], list[CellComparison]]:
    """The cells that can be compared, and what is to be said of all others."""
    mine = _by_base_key(head, variants)
    gone = list(filterfalse(mine.__contains__, base.cells))
    old_names = _renamed(mine, base, gone) if gone else {}
    shared = cache(CellRuns)
    pairs: list[Pair] = []
    rest: list[CellComparison] = []
    for base_key, cell in mine.items():
        found, old_name = base.cells.get(base_key), None
        if found is None and (old_name := old_names.get(base_key)) is not None:
            found = base.cells[(old_name, *base_key[1:])]
        if found is None:
            rest.append(_unpaired(cell.key, "new", head=cell.planned, critical=cell.critical))
        elif found.fingerprint != cell.fingerprint and None not in (found.fingerprint, cell.fingerprint):
            evidence = found.history.evidence
            last = Tally(*evidence[0][1:]) if evidence else NO_RUNS
            rest.append(_unpaired(cell.key, "edited", head=cell.planned, base=last, critical=cell.critical))
        elif cell.planned.graded and found.history.pool.graded:
            runs = shared(cell.planned, cell.confirming, cell.confirmed, found.history)
            pairs.append(Pair(cell, found, runs, old_name))
        else:
            pooled = found.history.tally
            rest.append(_unpaired(cell.key, "not compared", head=cell.planned, base=pooled, critical=cell.critical))
    taken = {(old, *key[1:]) for key, old in old_names.items()}
    rest += [_unpaired(key, "removed", base=base.cells[key].history.tally) for key in gone if key not in taken]
    return pairs, rest


def _by_base_key(head: Iterable[HeadCell], variants: Mapping[VariantKey, VariantKey]) -> Mapping[CellKey, HeadCell]:
    """The cells by what they would be called in the base."""
    if all(mine == theirs for mine, theirs in variants.items()):
        return {cell.key: cell for cell in head}
    return {(cell.key[0], *variants.get(cell.key[1:], cell.key[1:])): cell for cell in head}


def _renamed(mine: Mapping[CellKey, HeadCell], base: Baseline, gone: Iterable[CellKey]) -> Mapping[CellKey, str]:
    """Cells whose case the base knows by another name: same question, same judgement, other id."""
    former: dict[tuple[str, VariantKey], list[str]] = defaultdict(list)
    for key in gone:
        if (fingerprint := base.cells[key].fingerprint) is not None:
            former[fingerprint, key[1:]].append(key[0])
    names = {}
    for key, head in mine.items():
        if head.fingerprint is not None and key not in base.cells and (old := former.get((head.fingerprint, key[1:]))):
            names[key] = old.pop(0)
    return names


def _unpaired(
    key: CellKey, kind: CellKind, *, head: Tally = NO_RUNS, base: Tally = NO_RUNS, critical: bool = False
) -> CellComparison:
    case, provider, prompt = key
    return CellComparison(
        case=case, provider=provider, prompt=prompt, kind=kind, head=head, base=base, critical=critical
    )
