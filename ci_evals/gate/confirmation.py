"""Runs beyond the plan, step by step: what must be run next, and what all runs so far have shown.

A suspect runs again a few times, and only one that still looks worse gets the runs that name it. A
variant in doubt gets further rounds of all its cells, once the names are settled.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import ClassVar, Literal, NamedTuple

from ci_evals.gate.baseline import add_tallies
from ci_evals.gate.cases import CaseComparison, MatchedCase, match_cases
from ci_evals.gate.cells import MatchedCell, Matching, waived_cells
from ci_evals.gate.falls import CellSample, Fall, Rise, fall, rise, widen_for_cells
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Outcome, Tally
from ci_evals.model.rules import Gate
from ci_evals.stats.differences import ScoreMeans
from ci_evals.stats.exact_tests import Table, benjamini_hochberg, fisher_lower, holm
from ci_evals.stats.thresholds import (
    CANDIDATE_FEW_RUNS_P,
    CANDIDATE_P,
    DOUBT_P,
    FEW_BASE_RUNS,
    FURTHER_ROUNDS,
    LIKELY_RISE_P,
    MAX_SUSPECTS,
    MAX_SUSPECTS_SHARE,
    RISE_P,
    SUSPECT_RUNS,
)


class Wanted(NamedTuple):
    """The runs beyond the plan that a step takes of a cell.

    Args:
        again: those that tell suspects from candidates, or variants that would be red from others.
        deciding: those that name a candidate.
    """

    again: int
    deciding: int = 0


Why = Literal["suspects", "candidates", "maybe better", "doubt", "would be red"]
"""What runs beyond the plan are for."""


class FurtherRuns(NamedTuple):
    """Runs to make next, before more can be said.

    Args:
        why: what they are for.
        runs: how often each cell runs again.
        cells: the suspects or candidates that they are for.
        cases: the same of cases over their variants.
        variants: the variants in doubt or maybe better, all cells of which run again.
        on_main: main runs each of these cells as often, at the same time.
    """

    why: Why
    runs: Mapping[CellKey, int]
    cells: Sequence[CellKey] = ()
    cases: Sequence[str] = ()
    variants: Sequence[Variant] = ()
    on_main: bool = False


class NowTest(NamedTuple):
    """The rounds of a variant that were made on both sides, and its further rounds here.

    Args:
        rounds: how many were made on both sides.
        p: the p-value for "these are below main's".
        tables: each cell here against main now.
        overdispersion: how much more these vary than independent runs would.
        scores: the mean scores of both sides, if these were tested, and not how many runs passed.
    """

    rounds: int
    p: float
    tables: Sequence[Table]
    overdispersion: float
    scores: ScoreMeans | None = None


class VariantFall(NamedTuple):
    """The test of a variant as a whole.

    Args:
        against_history: the test against the reports of the base branch.
        adjusted_p: its p-value, adjusted for the number of variants.
        fell: the variant passes less often than the base branch.
        now: the last test against main now; None if there is none.
    """

    against_history: Fall
    adjusted_p: float
    fell: bool
    now: NowTest | None = None


def first_outcomes(
    outcomes: Sequence[Outcome | None], count: int
) -> Sequence[Outcome | None] | None:
    """Return the first so many outcomes; None if there are fewer."""
    if len(outcomes) < count:
        return None
    return outcomes[:count]


@dataclass(frozen=True)
class Confirmation(ABC):
    """What all runs so far have shown about suspects, and about variants in doubt.

    Args:
        matching: the cells of both sides.
        confirm_runs: the number of runs that name a candidate; with 0, nothing runs again, and
            the planned runs decide.
        rules: those that the report is judged by.
        is_whole: the cells are those of the whole suite; cases and variants can't be judged by a
            part of them.
    """

    runs_main: ClassVar[bool] = False
    """Main runs those cells, too, whose runs decide."""

    matching: Matching
    confirm_runs: int
    rules: Gate
    is_whole: bool = True

    @property
    def alpha(self) -> float:
        """The accepted chance of a false alarm."""
        return self.rules.alpha

    # The next runs.

    def next_runs(self) -> FurtherRuns | None:
        """Return the runs to make next; None if there are none."""
        if not self.confirm_runs:
            return None
        for step in self.steps():
            if step.runs:
                return step
        return None

    def steps(self) -> Iterator[FurtherRuns]:
        """Yield the steps in order, each with the runs that it still lacks."""
        yield self._repeat_suspects()
        yield self._confirm_cases()
        yield self._repeat_cells(self.open_suspects)
        yield self._confirm_cells()
        if self.is_whole:
            yield from self.test_rises()
            yield from self.test_variants()

    def _repeat_suspects(self) -> FurtherRuns:
        """Return the first runs of suspect cases, and of suspect cells of other cases."""
        cases = {case.id for case in self.suspect_cases}
        alone = [cell for cell in self.suspects if cell.head.key[0] not in cases]
        wanted = dict(self._repeats_of(alone))
        for case in self.suspect_cases:
            for cell in case.cells:
                wanted[cell.head.key] = Wanted(runs_of_suspect_case(len(case.cells)))
        found = self.further("suspects", wanted)
        return found._replace(
            cells=[cell.head.key for cell in alone],
            cases=[case.id for case in self.suspect_cases],
        )

    def _repeat_cells(self, cells: Sequence[MatchedCell]) -> FurtherRuns:
        found = self.further("suspects", self._repeats_of(cells))
        return found._replace(cells=list(found.runs))

    @staticmethod
    def _repeats_of(cells: Iterable[MatchedCell]) -> Mapping[CellKey, Wanted]:
        return {cell.head.key: Wanted(SUSPECT_RUNS) for cell in cells}

    def _confirm_cases(self) -> FurtherRuns:
        wanted = {}
        for case in self.candidate_cases:
            for cell in case.cells:
                wanted[cell.head.key] = self.wanted_of_case(case)
        cases = [case.id for case in self.candidate_cases]
        return self.further("candidates", wanted)._replace(cases=cases)

    def _confirm_cells(self) -> FurtherRuns:
        wanted = {cell.head.key: self.wanted_of_cell for cell in self.candidates}
        return self.further("candidates", wanted)._replace(cells=list(wanted))

    def further(
        self,
        why: Why,
        wanted: Mapping[CellKey, Wanted],
        variants: Iterable[Variant] = (),
    ) -> FurtherRuns:
        """Return the wanted runs that are missing."""
        on_main = self.runs_main and any(each.deciding for each in wanted.values())
        missing = self.missing_runs(wanted)
        return FurtherRuns(why, missing, variants=list(variants), on_main=on_main)

    @property
    def wanted_of_cell(self) -> Wanted:
        """The runs that name a cell."""
        return Wanted(SUSPECT_RUNS, self.confirm_runs)

    def wanted_of_case(self, case: MatchedCase) -> Wanted:
        """Return the runs that name a case, on each of its variants."""
        deciding = ceil(2 * self.confirm_runs / len(case.cells))
        return Wanted(runs_of_suspect_case(len(case.cells)), deciding)

    def test_rises(self) -> Iterator[FurtherRuns]:
        """Yield the further rounds of variants that may be better as a whole."""
        weighed = self.weighed
        wanted = Wanted(FURTHER_ROUNDS)
        yield self.further("maybe better", self.rounds_of(weighed, wanted), weighed)

    @staticmethod
    def rounds_of(
        cells: Mapping[Variant, Sequence[MatchedCell]], wanted: Wanted
    ) -> Mapping[CellKey, Wanted]:
        """Return the same wanted runs of all these cells."""
        return {cell.head.key: wanted for each in cells.values() for cell in each}

    @abstractmethod
    def test_variants(self) -> Iterator[FurtherRuns]:
        """Yield the steps that variants take which may be worse as a whole."""

    @abstractmethod
    def missing_runs(self, wanted: Mapping[CellKey, Wanted]) -> Mapping[CellKey, int]:
        """Return how many runs each cell lacks; cells that lack none are left out."""

    # Names.

    @cached_property
    def cases(self) -> Sequence[MatchedCase]:
        """The cases that are compared over several variants."""
        return match_cases(self.matching) if self.is_whole else ()

    @cached_property
    def suspects(self) -> Sequence[MatchedCell]:
        """The cells that run again: critical ones first, then those least likely by chance."""
        found = [cell for cell in self.matching.cells if cell.suspicious]
        found.sort(key=lambda cell: (not cell.head.critical, cell.p))
        return found[: most_suspects(len(self.matching.cells))]

    @cached_property
    def suspect_cases(self) -> Sequence[MatchedCase]:
        """The cases that run again on every variant, in the same order."""
        found = [case for case in self.cases if case.suspicious]
        found.sort(key=lambda case: (not case.critical, case.planned_p))
        return found[: most_suspects(len(self.cases))]

    @property
    def open_suspects(self) -> Sequence[MatchedCell]:
        """The suspect cells whose case is not named, which explains them."""
        return [cell for cell in self.suspects if cell.head.key[0] not in self.named_cases]

    @cached_property
    def candidate_cases(self) -> Sequence[MatchedCase]:
        """The suspect cases that still look worse after they ran again."""
        found = []
        for case in self.suspect_cases:
            wanted = Wanted(runs_of_suspect_case(len(case.cells)))
            runs = self._runs_of_case(case, wanted)
            if runs is not None and case.p(runs, case.pooled) <= CANDIDATE_P:
                found.append(case)
        return found

    @cached_property
    def candidates(self) -> Sequence[MatchedCell]:
        """The suspect cells that still look worse after they ran again, unless their case is named.

        Of a base with few runs, no cell can look much worse yet.
        """
        found = []
        for cell in self.open_suspects:
            runs = self.runs(cell, Wanted(SUSPECT_RUNS))
            if runs is None:
                continue
            level = CANDIDATE_P
            if cell.pooled.graded < FEW_BASE_RUNS:
                level = CANDIDATE_FEW_RUNS_P
            is_lower = runs.rate < cell.pooled.rate
            if is_lower and fisher_lower(*runs, *cell.pooled) <= level:
                found.append(cell)
        return found

    @cached_property
    def confirmed(self) -> Sequence[MatchedCell]:
        """The candidates that have all the runs that a name takes."""
        return [
            cell for cell in self.candidates if self.runs(cell, self.wanted_of_cell) is not None
        ]

    @cached_property
    def named_cases(self) -> Mapping[str, CaseComparison]:
        """The cases that got worse over their variants."""
        tested: dict[str, tuple[Sequence[Tally], Sequence[Tally], float]] = {}
        for case in self.candidate_cases:
            wanted = self.wanted_of_case(case)
            runs = self._runs_of_case(case, wanted)
            if runs is not None:
                base = [self.base(cell, wanted) for cell in case.cells]
                tested[case.id] = runs, base, case.p(runs, base)
        if not tested:
            return {}
        ps = [tested[case.id][2] if case.id in tested else 1.0 for case in self.cases]
        adjusted = dict(zip([case.id for case in self.cases], holm(ps), strict=True))
        confirmed = [case for case in self.candidate_cases if case.id in tested]
        shown = self.shown_cases(confirmed)
        named = {}
        for case in confirmed:
            head, before, p = tested[case.id]
            if adjusted[case.id] <= self.alpha and p < 1 and case.id in shown:
                named[case.id] = CaseComparison(
                    case=case.id,
                    head=add_tallies(head),
                    base=add_tallies(before),
                    cells=len(case.cells),
                    variants=tuple(_variants_that_show_it(case, head, before, self.alpha)),
                    p=p,
                    adjusted_p=adjusted[case.id],
                )
        return named

    @cached_property
    def drops(self) -> Mapping[CellKey, tuple[float, float]]:
        """The p-value of each candidate's drop, and the same adjusted for the number of cells.

        Other cells count as 1 there, as do those of a case that is named.
        """
        ps = {cell.head.key: 1.0 for cell in self.matching.cells}
        for cell in self.confirmed:
            runs = self.runs(cell, self.wanted_of_cell)
            base = self.base(cell, self.wanted_of_cell)
            if runs is not None and runs.rate < base.rate:
                ps[cell.head.key] = fisher_lower(*runs, *base)
        adjusted = benjamini_hochberg(list(ps.values()))
        by_key = dict(zip(ps, adjusted, strict=True))
        return {
            cell.head.key: (ps[cell.head.key], by_key[cell.head.key]) for cell in self.confirmed
        }

    @cached_property
    def named_cells(self) -> frozenset[CellKey]:
        """The cells that got worse by themselves."""
        shown = self.shown_cells(self.confirmed)
        return frozenset(
            key
            for key, (p, adjusted_p) in self.drops.items()
            if p < 1 and adjusted_p <= self.alpha and key in shown
        )

    def _runs_of_case(self, case: MatchedCase, wanted: Wanted) -> Sequence[Tally] | None:
        """Return the runs of each cell; None if one of them lacks its wanted ones."""
        found: list[Tally] = []
        for cell in case.cells:
            runs = self.runs(cell, wanted)
            if runs is None:
                return None
            found.append(runs)
        return found

    @abstractmethod
    def runs(self, cell: MatchedCell, wanted: Wanted) -> Tally | None:
        """Return the planned runs of a cell with the wanted ones.

        None if it lacks some, or if none of these were graded.
        """

    @abstractmethod
    def base(self, cell: MatchedCell, wanted: Wanted) -> Tally:
        """Return the runs of the base branch that these are compared with."""

    @abstractmethod
    def shown_cases(self, cases: Sequence[MatchedCase]) -> Collection[str]:
        """Return those of the confirmed cases whose drop shows in a second test, too."""

    @abstractmethod
    def shown_cells(self, cells: Sequence[MatchedCell]) -> Collection[CellKey]:
        """Return those of the confirmed cells whose drop shows in a second test, too."""

    # Variants that are better as a whole.

    @cached_property
    def weighed(self) -> Mapping[Variant, Sequence[MatchedCell]]:
        """The variants that may waive what is worse on them, each with all its cells.

        Their planned runs rose, and show no doubt that the variant is worse as a whole. There are
        none where that changes nothing: the gate allows all that is worse, or the verdict is red
        anyway, for a critical case or for cases of other variants.
        """
        named = [cell for cell in self.matching.cells if self.is_named(cell)]
        keys = {cell.head.key for cell in named}
        if self.rules.on_regression != "net" or self.rules.allows(_cases_of(keys)):
            return {}
        if any(cell.head.critical for cell in named):
            return {}
        weighed = {}
        for variant in dict.fromkeys(cell.head.variant for cell in named):
            cells = self.matching.by_variant[variant]
            planned = [CellSample.of(cell) for cell in cells]
            found = rise(planned, self.matching.overdispersion(variant))
            if found.p <= LIKELY_RISE_P and found.against_history.p > DOUBT_P:
                weighed[variant] = cells
        if not self.rules.allows(_cases_of(keys - waived_cells(keys, weighed))):
            return {}
        return weighed

    @cached_property
    def rises(self) -> Mapping[Variant, Rise]:
        """The test of each of these variants that has its further rounds, against history."""
        found = {}
        for variant, cells in self.weighed.items():
            tested = self.with_further_rounds(cells)
            if tested is not None:
                overdispersion = self.matching.overdispersion(variant)
                wider = widen_for_cells(overdispersion, cells, [cell.runs for cell in tested])
                found[variant] = rise(tested, wider, further_rounds=self.confirm_runs > 0)
        return found

    @cached_property
    def surely_risen(self) -> Mapping[Variant, Sequence[MatchedCell]]:
        """The variants that are above the history of the base branch, each with all its cells."""
        return {
            variant: self.weighed[variant]
            for variant, found in self.rises.items()
            if found.p <= RISE_P
        }

    @property
    @abstractmethod
    def better(self) -> Collection[Variant]:
        """The variants that are better as a whole."""

    def with_further_rounds(
        self, cells: Sequence[MatchedCell], *, by_scores: bool = False
    ) -> Sequence[CellSample] | None:
        """Return the cells with their planned runs and further rounds; None if some are missing.

        Where nothing was to run again, the planned runs decide.
        """
        found = []
        for cell in cells:
            further: Sequence[Outcome | None] | None = ()
            if self.confirm_runs:
                further = self.further_rounds(cell)
            if further is None:
                return None
            found.append(CellSample.of(cell, further, by_scores=by_scores))
        return found

    @abstractmethod
    def further_rounds(self, cell: MatchedCell) -> Sequence[Outcome | None] | None:
        """Return the further rounds of a cell; None if it lacks some."""

    # Variants that are worse as a whole.

    @cached_property
    def names_are_allowed(self) -> bool:
        """Return True if the gate allows all names, so that they don't make it red."""
        named = {cell.head.key for cell in self.matching.cells if self.is_named(cell)}
        blocking = _cases_of(named - waived_cells(named, self.better))
        critical = {cell.head.key[0] for cell in self.matching.cells if cell.head.critical}
        return self.rules.allows(blocking, blocking & critical)

    @cached_property
    def tested_variants(self) -> Mapping[Variant, Sequence[MatchedCell]]:
        """The variants that are tested as a whole, each with its cells.

        Where something of a variant is named, it is red anyway; where the gate allows that, its
        other cells are tested. One that is better as a whole is not worse.
        """
        tested = {}
        for variant, cells in self.matching.by_variant.items():
            if variant in self.better:
                continue
            others = [cell for cell in cells if not self.is_named(cell)]
            if len(others) == len(cells) or (self.names_are_allowed and others):
                tested[variant] = others
        return tested

    def fall_with_further_rounds(
        self, variant: Variant, cells: Sequence[MatchedCell], cut_below_p: float | None = None
    ) -> Fall | None:
        """Test the planned runs and further rounds of a variant against the history.

        None if some of the rounds are missing.

        Args:
            variant: the variant.
            cells: those of its cells that are tested.
            cut_below_p: see `fall`.
        """
        by_scores = self.matching.is_scored(variant)
        tested = self.with_further_rounds(cells, by_scores=by_scores)
        if tested is None:
            return None
        overdispersion = self.matching.overdispersion_of_falls(variant)
        wider = widen_for_cells(overdispersion, cells, [cell.runs for cell in tested])
        return fall(tested, wider, cut_below_p)._replace(further_rounds=True)

    def is_named(self, cell: MatchedCell) -> bool:
        """Return True for a cell that got worse by itself, or that shows what its case shows.

        If it takes all variants of a case together, every cell shows it that is below its base.
        """
        case = self.named_cases.get(cell.head.key[0])
        if case is None:
            return cell.head.key in self.named_cells
        if case.variants:
            return cell.head.variant in case.variants
        return cell.runs.rate < cell.pooled.rate

    @property
    @abstractmethod
    def falls(self) -> Mapping[Variant, VariantFall]:
        """The test of each variant as a whole."""


def _cases_of(cells: Iterable[CellKey]) -> frozenset[str]:
    return frozenset(case for case, *_ in cells)


def runs_of_suspect_case(variants: int) -> int:
    """Return how often a suspect case runs again on each of so many variants."""
    return ceil(SUSPECT_RUNS / variants)


def most_suspects(number: int) -> int:
    """Return how many of so many cells, or cases, may run again."""
    return max(MAX_SUSPECTS, int(MAX_SUSPECTS_SHARE * number))


def _variants_that_show_it(
    case: MatchedCase, runs: Sequence[Tally], base: Sequence[Tally], alpha: float
) -> Iterator[Variant]:
    """Yield the variants on which the case is worse by itself, before any adjustment."""
    for cell, mine, theirs in zip(case.cells, runs, base, strict=True):
        if mine.rate < theirs.rate and fisher_lower(*mine, *theirs) <= alpha:
            yield cell.head.variant
