"""Cases over their variants: suspects, how they are confirmed, and what is named."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from scipy.stats import norm
from sides import base_of, head_of, key_of

from ci_evals.gate.baseline import Baseline, ReportedCell
from ci_evals.gate.compare import Comparison, compare
from ci_evals.gate.confirmation import plan_confirmation
from ci_evals.stats.exact_tests import stratified_lower

Counts = tuple[int, int]
VARIANTS = ("a", "b", "c", "d", "e", "f")
STEADY = [f"ok {number}" for number in range(39)]


def head(counts: dict[str, Counts], repeats: dict[str, int] | None = None) -> list[ReportedCell]:
    """Cells of six variants; `repeats` says how many of seven confirm runs passed, of a case."""
    passed = repeats or {}
    again = {case: (count, 7) for case, count in passed.items()}
    cells = []
    for provider in VARIANTS:
        made = head_of(dict.fromkeys(STEADY, (3, 3)) | counts, again, provider=provider)
        for cell in made:
            case = cell.key[0]
            outcomes = tuple(run < passed[case] for run in range(7)) if case in passed else ()
            cells.append(replace(cell, repeats=outcomes))
    return cells


def base(cases: Mapping[str, Counts | list[Counts]], reports: int = 1) -> Baseline:
    """A steady base branch of six variants, and some other cases."""
    steady = {case: [(3, 3)] * reports for case in STEADY}
    parts = [base_of({**steady, **cases}, provider) for provider in VARIANTS]
    cells = {key: cell for part in parts for key, cell in part.cells.items()}
    return Baseline(suite="test", name="main", reports=parts[0].reports, cells=cells)


def compared(cells: list[ReportedCell], baseline: Baseline) -> Comparison:
    return compare(cells, baseline, confirm_runs="auto")


def test_a_case_that_dies_everywhere_is_confirmed_on_every_variant_and_named_once() -> None:
    baseline = base({"dead": (3, 3)})
    planned = plan_confirmation(head({"dead": (0, 3)}), baseline, "auto")
    assert planned.cases["dead"].runs == 7
    assert {key for key in planned.runs if planned.runs[key] >= 7} == {
        key_of("dead", provider) for provider in VARIANTS
    }
    found = compared(head({"dead": (0, 3)}, {"dead": 0}), baseline)
    [case] = found.cases
    assert (case.case, case.head, case.base) == ("dead", (0, 60), (18, 18))
    assert [variant.provider for variant in case.variants] == list(VARIANTS)
    assert case.p == pytest.approx(stratified_lower([(0, 10, 3, 3)] * 6))
    assert case.adjusted_p == pytest.approx(40 * case.p)
    assert found.counts["regressed"] == 6


def test_what_no_variant_shows_by_itself_is_named_over_all_of_them() -> None:
    """Half of the runs fail, which six of ten against three of three do not show."""
    baseline = base({"worse": (3, 3)})
    found = compared(head({"worse": (1, 3)}, {"worse": 4}), baseline)
    [case] = found.cases
    assert (case.variants, case.cells) == ((), 6)
    assert case.adjusted_p <= 0.05
    assert found.counts["regressed"] == 6


def test_nothing_is_named_before_every_variant_ran_again() -> None:
    baseline = base({"dead": (3, 3)})
    cells = head({"dead": (0, 3)}, {"dead": 0})
    cells[-1] = replace(cells[-1], repeats=(False,) * 6)
    assert not compared(head({"dead": (0, 3)}), baseline).cases
    assert not compared(cells, baseline).cases
    planned_alone = compare(head({"dead": (0, 3)}), baseline, confirm_runs=0)
    assert [case.case for case in planned_alone.cases] == ["dead"]


def test_a_case_must_be_worse_than_newer_reports_too() -> None:
    """The case has been worse on the base branch for one report, which the full pool hides."""
    long_worse = base({"dead": [(1, 3)] + [(3, 3)] * 9}, reports=10)
    assert not compared(head({"dead": (1, 3)}, {"dead": 2}), long_worse).cases
    newly_worse = base({"dead": [(3, 3)] * 10}, reports=10)
    assert compared(head({"dead": (1, 3)}, {"dead": 2}), newly_worse).cases


def test_luck_that_a_case_has_on_all_variants_widens_its_p_value() -> None:
    baseline = base({"swings": [(3, 3), (2, 3)] * 5, "dead": [(3, 3)] * 10}, 10)
    cells = head({"dead": (0, 3), "swings": (3, 3)}, {"dead": 0})
    [case] = compared(cells, baseline).cases
    independent = stratified_lower([(0, 10, 30, 30)] * 6)
    squares = 9 * 6**2 + 5
    variances = 9 * 6 * 9 * (25 * 5 / 30 / 29) * (2 / 3) + 5
    factor = 1 + (squares / variances - 1) * 10 / 3
    assert case.p == pytest.approx(norm.cdf(norm.ppf(independent) / factor**0.5), rel=1e-6)


def test_many_suspects_share_the_runs_and_single_cells_get_what_is_left() -> None:
    """Ten cases on six variants would take 420 runs; a fifth of 240 cells has 48 × 7 = 336."""
    dead = {f"dead {number}": (0, 3) for number in range(10)}
    baseline = base(dict.fromkeys(dead, (3, 3)))
    planned = plan_confirmation(head(dead), baseline, "auto")
    cells = len(STEADY) * 6 + 60
    room = 7 * (cells // 5)
    assert {case.runs for case in planned.cases.values()} == {room // 60}
    assert len(planned.cases) == 10


def test_a_single_variant_is_tested_by_its_cells_alone() -> None:
    cells = head_of({"dead": (0, 3)} | dict.fromkeys(STEADY, (3, 3)), {"dead": (0, 12)})
    baseline = base_of({"dead": (3, 3)} | dict.fromkeys(STEADY, (3, 3)))
    found = compared(cells, baseline)
    assert found.cases == ()
    assert found.counts["regressed"] == 1


def test_the_surest_cell_of_a_named_case_counts_among_the_cells_wherever_it_stands() -> None:
    baseline = base({"worse": [(3, 3)] * 10, "alone": [(3, 3)] * 10}, reports=10)
    cells = head({"worse": (0, 3), "alone": (3, 3)}, {"worse": 0})
    for number, cell in enumerate(cells):
        if cell.key == key_of("worse", "a"):
            cells[number] = replace(
                cell,
                confirming=cell.confirming._replace(passed=5),
                repeats=(True,) * 5 + (False,) * 2,
            )
        elif cell.key == key_of("alone", "a"):
            [cells[number]] = head_of({"alone": (0, 3)}, {"alone": (2, 7)}, provider="a")
    in_order = compared(cells, baseline)
    reversed_ = compared(cells[::-1], baseline)
    assert [case.case for case in in_order.cases] == ["worse"]
    alone = key_of("alone", "a")
    assert in_order.by_key[alone].adjusted_p == reversed_.by_key[alone].adjusted_p
