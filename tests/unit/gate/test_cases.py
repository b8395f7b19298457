"""Cases over their variants: suspects, how they are confirmed, and what is named."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from scipy.stats import norm
from sides import FAILED, base_of, head_of, key_of

from ci_evals.gate.baseline import Baseline, ReportedCell
from ci_evals.gate.compare import Comparison, compare, next_runs
from ci_evals.model.rules import Gate
from ci_evals.stats.exact_tests import stratified_lower

Counts = tuple[int, int]
VARIANTS = ("a", "b", "c", "d", "e", "f")
STEADY = [f"ok {number}" for number in range(39)]


def head(counts: dict[str, Counts], again: Mapping[str, Counts] = {}) -> list[ReportedCell]:
    """Cells of six variants; `again` has the repeats of a case, on each of them."""
    cells: list[ReportedCell] = []
    for provider in VARIANTS:
        steady = dict.fromkeys(STEADY, (3, 3))
        cells += head_of(steady | counts, again, provider=provider)
    return cells


def base(cases: Mapping[str, Counts | list[Counts]], reports: int = 1) -> Baseline:
    """A steady base branch of six variants, and some other cases."""
    steady = {case: [(3, 3)] * reports for case in STEADY}
    parts = [base_of({**steady, **cases}, provider) for provider in VARIANTS]
    cells = {key: cell for part in parts for key, cell in part.cells.items()}
    return Baseline(suite="test", name="main", reports=parts[0].reports, cells=cells)


def compared(cells: list[ReportedCell], baseline: Baseline) -> Comparison:
    return compare(cells, baseline, confirm_runs=10)


def test_a_case_that_dies_everywhere_is_confirmed_on_every_variant_and_named_once() -> None:
    baseline = base({"dead": (3, 3)})
    dead = [key_of("dead", provider) for provider in VARIANTS]
    first = next_runs(head({"dead": (0, 3)}), baseline, 10, Gate())
    assert first is not None
    assert (first.why, first.cases, first.cells) == ("suspects", ["dead"], [])
    assert first.runs == dict.fromkeys(dead, 1), "⌈4/6⌉; its cells wait for what the case shows"
    then = next_runs(head({"dead": (0, 3)}, {"dead": (0, 1)}), baseline, 10, Gate())
    assert then is not None
    assert (then.why, then.cases) == ("candidates", ["dead"])
    assert then.runs == dict.fromkeys(dead, 4), "⌈20/6⌉"
    named = head({"dead": (0, 3)}, {"dead": (0, 5)})
    assert next_runs(named, baseline, 10, Gate()) is None
    found = compared(named, baseline)
    [case] = found.cases
    assert (case.case, case.head, case.base) == ("dead", (0, 48), (18, 18))
    assert [variant.provider for variant in case.variants] == list(VARIANTS)
    assert case.p == pytest.approx(stratified_lower([(0, 8, 3, 3)] * 6))
    assert case.adjusted_p == pytest.approx(40 * case.p)
    assert found.counts["regressed"] == 6


def test_what_no_variant_shows_by_itself_is_named_over_all_of_them() -> None:
    """Half of the runs fail, which four of eight against three of three do not show."""
    baseline = base({"worse": (3, 3)})
    found = compared(head({"worse": (1, 3)}, {"worse": (3, 5)}), baseline)
    [case] = found.cases
    assert (case.variants, case.cells) == ((), 6)
    assert case.adjusted_p <= 0.05
    assert found.counts["regressed"] == 6


def test_nothing_is_named_before_every_variant_ran_again() -> None:
    baseline = base({"dead": (3, 3)})
    cells = head({"dead": (0, 3)}, {"dead": (0, 5)})
    cells[-1] = replace(cells[-1], repeats=(FAILED,) * 4)
    assert not compared(head({"dead": (0, 3)}), baseline).cases
    assert not compared(cells, baseline).cases
    never = compare(head({"dead": (0, 3)}), baseline, confirm_runs=0)
    assert not never.cases


def test_a_case_must_be_worse_than_newer_reports_too() -> None:
    """The case has been worse on the base branch for one report, which the full pool hides."""
    long_worse = base({"dead": [(1, 3)] + [(3, 3)] * 9}, reports=10)
    assert not compared(head({"dead": (1, 3)}, {"dead": (2, 5)}), long_worse).cases
    newly_worse = base({"dead": [(3, 3)] * 10}, reports=10)
    assert compared(head({"dead": (1, 3)}, {"dead": (2, 5)}), newly_worse).cases


def test_luck_that_a_case_has_on_all_variants_widens_its_p_value() -> None:
    baseline = base({"swings": [(3, 3), (2, 3)] * 5, "dead": [(3, 3)] * 10}, 10)
    cells = head({"dead": (0, 3), "swings": (3, 3)}, {"dead": (0, 5)})
    [case] = compared(cells, baseline).cases
    independent = stratified_lower([(0, 8, 30, 30)] * 6)
    squares = 9 * 6**2 + 5
    variances = 9 * 6 * 9 * (25 * 5 / 30 / 29) * (2 / 3) + 5
    factor = 1 + (squares / variances - 1) * 8 / 3
    assert case.p == pytest.approx(norm.cdf(norm.ppf(independent) / factor**0.5), rel=1e-6)


def test_a_single_variant_is_tested_by_its_cells_alone() -> None:
    cells = head_of({"dead": (0, 3)} | dict.fromkeys(STEADY, (3, 3)), {"dead": (0, 14)})
    baseline = base_of({"dead": (3, 3)} | dict.fromkeys(STEADY, (3, 3)))
    found = compared(cells, baseline)
    assert found.cases == ()
    assert found.counts["regressed"] == 1


def test_the_cells_of_a_named_case_take_no_further_runs() -> None:
    baseline = base({"dead": [(3, 3)] * 10}, reports=10)
    assert next_runs(head({"dead": (0, 3)}, {"dead": (0, 5)}), baseline, 10, Gate()) is None
