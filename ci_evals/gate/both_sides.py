"""The rules where main's code runs, too: what would be red is run on both sides, at the same time.

Main's stored reports only choose what to look at. Runs of both sides decide, so that what the
provider, an outage or main itself did is not put down to the change.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import ceil
from typing import NamedTuple

from ci_evals.gate.baseline import ReportedCell, add_tallies, scores_of, tally_of
from ci_evals.gate.cases import MatchedCase, lower_p
from ci_evals.gate.cells import MatchedCell, Matching
from ci_evals.gate.confirmation import (
    Confirmation,
    FurtherRuns,
    NowTest,
    VariantFall,
    Wanted,
    first_outcomes,
)
from ci_evals.gate.falls import Fall, planned_fall, widen_for_cells
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Outcome, Tally
from ci_evals.stats.differences import ScoreSums, lower_scores, rise_p, score_means
from ci_evals.stats.exact_tests import (
    Table,
    benjamini_hochberg,
    fisher_lower,
    holm,
    stratified_lower,
    weighted_lower,
    widen,
)
from ci_evals.stats.thresholds import (
    BOTH_SIDES_CASES_P,
    BOTH_SIDES_CELLS_P,
    BOTH_SIDES_LOOKS,
    DOUBT_P,
    FURTHER_ROUNDS,
    FUTILE_P,
    MAIN_COLLAPSED_MIN_CELLS,
    MAIN_COLLAPSED_P,
    MIN_TESTED_SHARE,
    RISE_NOW_P,
    RISE_ROUNDS,
    WOULD_BE_RED_P,
)


class Look(NamedTuple):
    """A look at variants that have made so many rounds on both sides.

    Args:
        rounds: how many.
        tests: the test of each variant; None for one that lacks some of these rounds.
        adjusted: the p-value of each test, adjusted for the variants that share the error.
        red: the variants that fell, as this look shows.
    """

    rounds: int
    tests: Mapping[Variant, NowTest | None]
    adjusted: Mapping[Variant, float]
    red: frozenset[Variant]


class BothSides(Confirmation):
    """What the runs of both sides show."""

    runs_main = True

    def steps(self) -> Iterator[FurtherRuns]:
        """Yield the steps in order. A part of the suite only repeats its suspects."""
        for step in super().steps():
            yield step
            if not self.is_whole:
                break

    def missing_runs(self, wanted: Mapping[CellKey, Wanted]) -> Mapping[CellKey, int]:
        """Return how many runs each cell lacks: here alone, or here and on main."""
        heads = {cell.head.key: cell.head for cell in self.matching.cells}
        missing = {}
        for key, (again, deciding) in wanted.items():
            lacking = again - len(heads[key].again)
            if deciding:
                lacking = deciding - len(heads[key].main_outcomes)
            if lacking > 0:
                missing[key] = lacking
        return missing

    def runs(self, cell: MatchedCell, wanted: Wanted) -> Tally | None:
        """Return the planned runs of a cell with the wanted ones.

        None if it or main lacks some, or if none of these were graded.
        """
        again, deciding = wanted
        parts = [_first(cell.head.again, again)]
        if deciding:
            parts.append(_first(cell.head.here_outcomes, deciding))
            if _first(cell.head.main_outcomes, deciding) is None:
                return None
        found = [cell.head.planned]
        for part in parts:
            if part is None:
                return None
            found.append(part)
        return add_tallies(found)

    def base(self, cell: MatchedCell, wanted: Wanted) -> Tally:
        """Return the pooled runs and main's runs now."""
        return add_tallies((cell.pooled, _main(cell.head, wanted.deciding)))

    def shown_cells(self, cells: Sequence[MatchedCell]) -> frozenset[CellKey]:
        """Return the cells that are below main now, too."""
        runs = self.confirm_runs
        ps = [fisher_lower(*_here(cell.head, runs), *_main(cell.head, runs)) for cell in cells]
        adjusted = zip(cells, benjamini_hochberg(ps), strict=True)
        return frozenset(cell.head.key for cell, p in adjusted if p <= BOTH_SIDES_CELLS_P)

    def shown_cases(self, cases: Sequence[MatchedCase]) -> frozenset[str]:
        """Return the cases that are below main now, too."""
        ps = []
        for case in cases:
            runs = self.wanted_of_case(case).deciding
            here = [_here(cell.head, runs) for cell in case.cells]
            ps.append(lower_p(here, [_main(cell.head, runs) for cell in case.cells]))
        adjusted = zip(cases, holm(ps), strict=True)
        return frozenset(case.id for case, p in adjusted if p <= BOTH_SIDES_CASES_P)

    def further_rounds(self, cell: MatchedCell) -> Sequence[Outcome | None] | None:
        """Return the further rounds of a cell; None if it lacks some."""
        return first_outcomes(cell.head.again, FURTHER_ROUNDS)

    # Variants that are better as a whole.

    def test_rises(self) -> Iterator[FurtherRuns]:
        """Yield the further rounds of variants that may be better, then rounds on both sides."""
        yield from super().test_rises()
        risen = self.surely_risen
        wanted = self.rounds_of(risen, Wanted(FURTHER_ROUNDS, RISE_ROUNDS))
        yield self.further("maybe better", wanted, risen)

    @cached_property
    def better(self) -> frozenset[Variant]:
        """The variants that are above history, and above main now: it may have risen, too."""
        found = set()
        for variant, test in self._risen_now.items():
            if widen(rise_p(test.tables), test.overdispersion) < RISE_NOW_P:
                found.add(variant)
        return frozenset(found)

    @cached_property
    def _risen_now(self) -> Mapping[Variant, NowTest]:
        found = {}
        for variant, cells in self.surely_risen.items():
            test = self._test_now(variant, cells, RISE_ROUNDS, by_scores=False)
            if test is not None:
                found[variant] = test
        return found

    # Variants that are worse as a whole.

    def test_variants(self) -> Iterator[FurtherRuns]:
        """Yield the further rounds of variants in doubt, then the rounds on both sides."""
        doubted = self._doubted
        wanted = self.rounds_of(doubted, Wanted(FURTHER_ROUNDS))
        yield self.further("doubt", wanted, doubted)
        for look in self.looks:
            variants = {variant: self.tested_variants[variant] for variant in look.tests}
            wanted = self.rounds_of(variants, Wanted(FURTHER_ROUNDS, look.rounds))
            yield self.further("would be red", wanted, variants)

    @cached_property
    def _doubted(self) -> Mapping[Variant, Sequence[MatchedCell]]:
        return {
            variant: cells
            for variant, cells in self.tested_variants.items()
            if planned_fall(self.matching, variant, cells).p <= DOUBT_P
        }

    @cached_property
    def _with_further_rounds(self) -> Mapping[Variant, Fall]:
        """The test of each variant in doubt that has its further rounds against the history."""
        found = {}
        for variant, cells in self._doubted.items():
            tested = self.fall_with_further_rounds(variant, cells)
            if tested is not None:
                found[variant] = tested
        return found

    @cached_property
    def looks(self) -> Sequence[Look]:
        """The looks at the rounds on both sides, with the variants that would be red."""
        found = self._with_further_rounds
        live = [variant for variant in found if found[variant].p <= WOULD_BE_RED_P]
        looks = []
        # At least a third of all variants share the error.
        family = max(len(live), ceil(MIN_TESTED_SHARE * len(self.matching.by_variant)))
        fallen = 0
        for rounds, level in BOTH_SIDES_LOOKS:
            if not live:
                break
            tests = {}
            for variant in live:
                cells = self.tested_variants[variant]
                by_scores = self.matching.is_scored(variant)
                tests[variant] = self._test_now(variant, cells, rounds, by_scores=by_scores)
            made = {variant: test for variant, test in tests.items() if test is not None}
            ps = holm([test.p for test in made.values()], family - fallen)
            adjusted = dict(zip(made, ps, strict=True))
            red = frozenset(variant for variant, p in adjusted.items() if p <= level)
            looks.append(Look(rounds, tests, adjusted, red))
            fallen += len(red)
            still_open = made.keys() - red
            live = [variant for variant in live if variant in still_open]
            live = [variant for variant in live if made[variant].p <= FUTILE_P]
        return looks

    def _test_now(
        self, variant: Variant, cells: Sequence[MatchedCell], rounds: int, *, by_scores: bool
    ) -> NowTest | None:
        """Test the rounds made here since the plan against main's now; None if some are missing."""
        tables: list[Table] = []
        scores: list[tuple[ScoreSums, ScoreSums]] = []
        made = []
        for cell in cells:
            head = cell.head
            further = first_outcomes(head.again, FURTHER_ROUNDS)
            now = first_outcomes(head.here_outcomes, rounds)
            main_now = first_outcomes(head.main_outcomes, rounds)
            if further is None or now is None or main_now is None:
                return None
            made.append(tally_of(now))
            here, main = tally_of((*further, *now)), tally_of(main_now)
            if not here.graded or not main.graded:
                continue
            tables.append((*here, *main))
            mine, theirs = scores_of((*further, *now)), scores_of(main_now)
            if mine is not None and theirs is not None:
                scores.append((mine, theirs))
        if by_scores and tables and len(scores) == len(tables):
            overdispersion = self.matching.overdispersion_of_falls(variant)
            wider = widen_for_cells(overdispersion, cells, made)
            p = widen(lower_scores(scores), wider)
            return NowTest(rounds, p, tables, wider, score_means(scores))
        wider = widen_for_cells(self.matching.overdispersion(variant), cells, made)
        return NowTest(rounds, widen(weighted_lower(tables), wider), tables, wider)

    @cached_property
    def falls(self) -> Mapping[Variant, VariantFall]:
        """The test of each variant: it fell if its rounds are below main's now."""
        falls = {}
        adjusted: dict[Variant, float] = {}
        last = dict(self._risen_now)
        red: set[Variant] = set()
        for look in self.looks:
            adjusted |= look.adjusted
            last |= {variant: test for variant, test in look.tests.items() if test is not None}
            red |= look.red
        for variant, cells in self.matching.by_variant.items():
            chosen = self.tested_variants.get(variant, cells)
            found = self._with_further_rounds.get(variant)
            if variant in self.rises:
                found = self.rises[variant].against_history
            if found is None:
                found = planned_fall(self.matching, variant, chosen)
            fell = variant in red
            p = adjusted[variant] if fell else 1.0
            falls[variant] = VariantFall(found, p, fell, last.get(variant))
        return falls


def has_collapsed_now(matching: Matching) -> bool:
    """Return True if main's runs now passed less than half of what its newest report did.

    An outage is under way then, and nothing of what it hits is known. A variant tells that only if
    half of its cells were run on main: a few of them were chosen because they fail.
    """
    tables = []
    for cells in matching.by_variant.values():
        of_variant = []
        for cell in cells:
            now = tally_of(cell.head.main_outcomes)
            newest = cell.base.history.newest(1)
            if now.graded and newest.graded:
                of_variant.append((*now, *newest))
        if len(of_variant) >= max(MAIN_COLLAPSED_MIN_CELLS, len(cells) / 2):
            tables += of_variant
    rate_now = sum(passed / graded for passed, graded, _, _ in tables)
    rate_then = sum(passed / graded for _, _, passed, graded in tables)
    return 2 * rate_now < rate_then and stratified_lower(tables) <= MAIN_COLLAPSED_P


def _first(outcomes: Sequence[Outcome | None], count: int) -> Tally | None:
    """Return the first so many runs; None if there are fewer, or if none of these was graded."""
    made = first_outcomes(outcomes, count)
    if made is None or not tally_of(made).graded:
        return None
    return tally_of(made)


def _here(head: ReportedCell, runs: int) -> Tally:
    return tally_of(head.here_outcomes[:runs])


def _main(head: ReportedCell, runs: int) -> Tally:
    return tally_of(head.main_outcomes[:runs])
