"""The comparison: regressions and noise, cells that are matched, and variants as a whole."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sides import FAILED, PASSED, base_of, compared, head_of, key_of

from ci_evals.gate.baseline import Baseline, Evidence, History, ReportedCell
from ci_evals.gate.cells import match_variants
from ci_evals.gate.compare import Comparison, compare, next_runs
from ci_evals.gate.confirmation import FurtherRuns
from ci_evals.gate.falls import CellSample, fall
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Outcome, Tally
from ci_evals.model.rules import Gate
from ci_evals.stats.exact_tests import weighted_lower, widen

MANY = {f"ok {n}": (3, 3) for n in range(39)}
MANY_BASE = {f"ok {n}": (30, 30) for n in range(39)}


@pytest.mark.parametrize(
    ("head", "more", "base", "kind"),
    [
        ((0, 3), (0, 7), (30, 30), "regressed"),
        ((2, 3), (2, 7), (30, 30), "regressed"),
        ((0, 3), None, (30, 30), "suspect"),
        ((2, 3), (7, 7), (30, 30), "suspect"),
        ((2, 3), (7, 7), (28, 30), "flaky"),
        ((3, 3), None, (30, 30), "unchanged"),
        ((0, 3), None, (0, 30), "unchanged"),
        ((2, 3), None, (20, 30), "flaky"),
        ((3, 3), None, (0, 30), "fixed"),
        ((1, 1), None, (0, 1), "unchanged"),
        ((0, 1), None, (1, 1), "unchanged"),
        ((0, 1), (0, 7), (50, 50), "regressed"),
        ((0, 50), None, (1, 1), "suspect"),
        ((0, 50), (0, 7), (1, 1), "regressed"),
    ],
)
def test_kinds(
    head: tuple[int, int], more: tuple[int, int] | None, base: tuple[int, int], kind: str
) -> None:
    confirming = {} if more is None else {"a": more}
    [cell] = compared(head_of({"a": head}, confirming), base_of({"a": base})).cells
    assert cell.kind == kind, cell


def test_p_is_fishers_on_all_runs_and_the_other_cells_adjust_it() -> None:
    from scipy.stats import hypergeom  # slow to import, and only an oracle

    head, base = head_of({"a": (0, 3)} | MANY, {"a": (4, 7)}), base_of({"a": (30, 30)} | MANY_BASE)
    cell = compared(head, base).by_key[key_of("a")]
    expected = hypergeom.cdf(4, 40, 34, 10)
    assert (cell.p, cell.adjusted_p) == pytest.approx((expected, 40 * expected))
    assert cell.kind == "regressed"


def test_nothing_is_named_before_it_is_confirmed() -> None:
    head, base = head_of({"a": (0, 3)} | MANY), base_of({"a": (30, 30)} | MANY_BASE)
    assert compared(head, base).counts == {"suspect": 1, "unchanged": 39}
    again = head_of({"a": (0, 3)} | MANY, {"a": (0, 4)})
    assert compared(again, base, confirm_runs=10).counts == {"suspect": 1, "unchanged": 39}
    assert compared(again, base, confirm_runs=0).counts == {"regressed": 1, "unchanged": 39}


def step(head: list[ReportedCell], base: Baseline, confirm_runs: int = 10) -> FurtherRuns | None:
    return next_runs(head, base, confirm_runs, Gate())


def runs_again(head: list[ReportedCell], base: Baseline) -> Mapping[CellKey, int]:
    """How often each cell is to run again."""
    found = step(head, base)
    return found.runs if found is not None else {}


def test_only_what_fell_further_than_usual_is_a_suspect() -> None:
    head = head_of(
        {
            "fell": (2, 3),
            "rose": (3, 3),
            "same": (3, 3),
            "flaky": (2, 3),
            "new": (0, 3),
            "none": (0, 0),
        }
    )
    base = base_of(
        {"fell": (30, 30), "rose": (0, 30), "same": (30, 30), "flaky": (22, 30), "none": (30, 30)}
    )
    assert runs_again(head, base) == {key_of("fell"): 4}
    assert step(head, base, confirm_runs=0) is None


def test_a_single_failed_run_is_suspect_wherever_others_pass() -> None:
    assert runs_again(head_of({"a": (0, 1)}), base_of({"a": (1, 1)})) == {key_of("a"): 4}
    assert not runs_again(head_of({"a": (0, 1)}), base_of({"a": (2, 4)}))


def test_a_suspect_runs_again_a_few_times_first() -> None:
    base = base_of({"a": (30, 30)} | MANY_BASE)
    first = step(head_of({"a": (0, 3)} | MANY), base)
    assert first is not None
    assert (first.why, first.runs) == ("suspects", {key_of("a"): 4})
    then = step(head_of({"a": (0, 3)} | MANY, {"a": (0, 4)}), base)
    assert then is not None
    assert (then.why, then.runs) == ("candidates", {key_of("a"): 10})
    assert step(head_of({"a": (0, 3)} | MANY, {"a": (0, 14)}), base) is None


def test_a_suspect_that_recovers_gets_no_more_runs() -> None:
    base = base_of({"a": (28, 30)} | MANY_BASE)
    assert not runs_again(head_of({"a": (2, 3)} | MANY, {"a": (4, 4)}), base)


@pytest.mark.parametrize(("runs_on_main", "candidate"), [(9, True), (10, False)])
def test_with_few_runs_on_main_a_suspect_is_easily_a_candidate(
    runs_on_main: int, *, candidate: bool
) -> None:
    base = base_of({"a": (runs_on_main, runs_on_main)} | dict.fromkeys(MANY, (3, 3)))
    found = runs_again(head_of({"a": (2, 3)} | MANY, {"a": (3, 4)}), base)
    assert bool(found) == candidate


@pytest.mark.parametrize(("cells", "base"), [(40, 3), (40, 30), (500, 30), (500, 3)])
def test_a_case_that_always_fails_is_named(cells: int, base: int) -> None:
    steady = {str(number): (3, 3) for number in range(cells - 1)}
    head = head_of({"dead": (0, 3)} | steady, {"dead": (0, 14)})
    older = base_of({"dead": (base, base)} | dict.fromkeys(steady, (base, base)))
    dead = compared(head, older, confirm_runs=10).by_key[key_of("dead")]
    assert (dead.kind == "regressed") == ((cells, base) != (500, 3))


def test_of_many_suspects_the_critical_and_the_surest_are_run_again() -> None:
    fallen = {str(number): (number % 2, 3) for number in range(50)}
    head = [replace(cell, critical=cell.key == key_of("1")) for cell in head_of(fallen)]
    found = runs_again(head, base_of(dict.fromkeys(fallen, (30, 30))))
    assert len(found) == 20
    assert key_of("1") in found
    assert sum(int(case) % 2 for case, *_ in found) == 1


def test_a_drop_must_show_against_the_newer_reports_too() -> None:
    """The case has been worse on the base branch for two reports, which the full pool hides."""
    history: dict[str, tuple[int, int] | list[tuple[int, int]]] = {
        "a": [(1, 3), (2, 3), *[(3, 3)] * 8],
        **MANY_BASE,
    }
    head = head_of({"a": (1, 3)} | MANY, {"a": (1, 7)})
    cell = compared(head, base_of(history)).by_key[key_of("a")]
    assert cell.kind == "suspect"
    assert cell.adjusted_p is not None
    assert cell.adjusted_p <= 0.05


def test_confirm_runs_of_what_is_no_suspect_do_not_count() -> None:
    [cell] = compared(head_of({"a": (3, 3)}, {"a": (0, 7)}), base_of({"a": (30, 30)})).cells
    assert (cell.kind, cell.head) == ("unchanged", (3, 3))


def test_confirm_runs_stay_out_of_the_whole_variant() -> None:
    head, base = head_of({"a": (2, 3)} | MANY, {"a": (0, 7)}), base_of({"a": (30, 30)} | MANY_BASE)
    [variant] = compared(head, base).variants
    assert variant.head_rate == pytest.approx(1 - 1 / 3 / 40)
    assert variant.p == pytest.approx(3 / 33)


def test_a_slight_fall_everywhere_is_one_of_the_variant() -> None:
    cells = {f"case {n}": (2, 3) for n in range(12)}
    comparison = compared(head_of(cells), base_of(dict.fromkeys(cells, (29, 30))))
    assert [variant.provider for variant in comparison.worse_variants()] == ["agent"]
    assert "regressed" not in comparison.counts


def test_a_variant_of_which_a_case_is_named_is_not_called_worse_as_well() -> None:
    head, base = head_of({"a": (0, 3)} | MANY, {"a": (0, 7)}), base_of({"a": (30, 30)} | MANY_BASE)
    comparison = compared(head, base)
    assert comparison.counts["regressed"] == 1
    assert comparison.worse_variants() == []


def test_where_the_gate_allows_a_name_the_other_cells_are_tested() -> None:
    fallen = {f"fell {n}": (1, 3) for n in range(6)}
    head = head_of({"a": (0, 3)} | fallen, {"a": (0, 14)})
    head = [replace(cell, repeats=cell.repeats or (PASSED, FAILED, FAILED)) for cell in head]
    base = base_of({"a": (30, 30)} | dict.fromkeys(fallen, (29, 30)))
    allowed = compare(head, base, confirm_runs=10, rules=Gate(max_regressions=1))
    [variant] = allowed.worse_variants()
    assert variant.cells == 6
    assert not compare(head, base, confirm_runs=10).worse_variants()


def test_one_of_ten_thousand_cells_is_found() -> None:
    ok = {f"ok {n}": (3, 3) for n in range(9_999)}
    head = head_of(ok | {"a": (0, 3)}, {"a": (0, 7)})
    comparison = compared(head, base_of(dict.fromkeys(ok, (30, 30)) | {"a": (30, 30)}))
    assert comparison.counts == {"regressed": 1, "unchanged": 9_999}
    assert [cell.case for cell in comparison.select("regressed")] == ["a"]


def test_of_several_the_surest_comes_first() -> None:
    head = head_of({"a": (1, 3), "b": (0, 3)}, {"a": (1, 7), "b": (0, 7)})
    assert [
        cell.case
        for cell in compared(head, base_of({"a": (30, 30), "b": (30, 30)})).select("regressed")
    ] == ["b", "a"]


@pytest.mark.parametrize("outcome", [(0, 3), (3, 3)], ids=["all-fail", "all-pass"])
def test_what_did_not_change_is_unchanged(outcome: tuple[int, int]) -> None:
    cells = dict.fromkeys("abc", outcome)
    comparison = compared(head_of(cells), base_of(cells))
    assert comparison.counts == {"unchanged": 3}
    assert [variant.p for variant in comparison.variants] == [1.0]


tallies = st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.tuples(tallies, tallies, tallies), min_size=1),
    st.integers(0, 7),
)
def test_every_cell_gets_one_kind_and_red_needs_a_lower_rate(
    cells: dict[str, tuple[tuple[int, int], tuple[int, int], tuple[int, int]]], confirm_runs: int
) -> None:
    head = head_of(
        {case: each[0] for case, each in cells.items()},
        {case: each[1] for case, each in cells.items()},
    )
    comparison = compared(
        head, base_of({case: each[2] for case, each in cells.items()}), confirm_runs
    )
    assert sorted(cell.case for cell in comparison.cells) == sorted(cells)
    for cell in comparison.cells:
        assert cell.p is not None
        assert cell.adjusted_p is not None
        assert 0 <= cell.p <= cell.adjusted_p + 1e-12 <= 1 + 2e-12 or cell.kind in (
            "flaky",
            "unchanged",
            "suspect",
        )
        if cell.kind == "regressed":
            assert cell.head.rate < cell.base.rate
        if cell.kind == "fixed":
            assert cell.head.rate > cell.base.rate


# Which cell is compared with which.


A, B, C, D = Variant("a"), Variant("b"), Variant("c"), Variant("a", "short")


@pytest.mark.parametrize(
    ("head", "base", "matched"),
    [
        ([A, B], [A, B], {A: A, B: B}),
        ([A], [B], {A: B}),
        ([D], [A], {D: A}),
        ([A, C], [A, B], {A: A, C: B}),
        ([A, B], [C], {}),
        ([A], [B, C], {}),
        ([A], [A, B], {A: A}),
        ([A, B], [A], {A: A}),
        ([], [A], {}),
        ([A, A], [A, A], {A: A}),
    ],
)
def test_variants_are_matched_by_name_and_a_single_one_left_on_both_sides_by_that(
    head: list[Variant], base: list[Variant], matched: dict[Variant, Variant]
) -> None:
    assert match_variants(head, base) == matched


def kinds(head: dict[str, tuple[int, int]], base: dict[str, tuple[int, int]]) -> dict[str, str]:
    return {cell.case: cell.kind for cell in compared(head_of(head), base_of(base)).cells}


def test_what_only_one_side_has_is_new_or_removed() -> None:
    assert kinds({"a": (3, 3), "b": (3, 3)}, {"a": (3, 3), "c": (3, 3)}) == {
        "a": "unchanged",
        "b": "new",
        "c": "removed",
    }


def test_a_case_of_the_same_question_under_another_id_is_renamed() -> None:
    comparison = compared(head_of({"q/new": (3, 3)}), base_of({"q/old": (3, 3)}))
    [cell] = comparison.cells
    assert (cell.kind, cell.renamed_from) == ("unchanged", "q/old")
    assert comparison.base_of(cell.key) is comparison.baseline.cells[key_of("q/old")]


def test_renamed_cases_of_the_same_question_are_paired_in_order_and_each_once() -> None:
    comparison = compared(
        head_of({"q/x": (3, 3), "q/y": (3, 3), "q/z": (3, 3)}),
        base_of({"q/1": (3, 3), "q/2": (3, 3)}),
    )
    assert {cell.case: cell.renamed_from for cell in comparison.cells} == {
        "q/x": "q/1",
        "q/y": "q/2",
        "q/z": None,
    }
    assert comparison.counts == Counter(unchanged=2, new=1)


def test_a_copy_of_a_case_that_is_still_there_is_new() -> None:
    assert kinds({"q/1": (3, 3), "q/2": (3, 3)}, {"q/1": (3, 3)}) == {
        "q/1": "unchanged",
        "q/2": "new",
    }


def test_an_edited_case_is_not_compared() -> None:
    base = base_of({"a": (30, 30)})
    edited = {key: replace(cell, fingerprint="other") for key, cell in base.cells.items()}
    [cell] = compared(head_of({"a": (0, 3)}), replace(base, cells=edited)).cells
    assert (cell.kind, cell.p, cell.base) == ("edited", None, (30, 30))


@pytest.mark.parametrize(("head", "base"), [((0, 0), (3, 3)), ((3, 3), (0, 0)), ((0, 0), (0, 0))])
def test_a_cell_without_graded_runs_on_a_side_is_not_compared(
    head: tuple[int, int], base: tuple[int, int]
) -> None:
    comparison = compared(head_of({"a": head}), base_of({"a": base}))
    assert [cell.kind for cell in comparison.cells] == ["not compared"]
    assert (comparison.compared, comparison.variants) == (0, ())


def test_a_renamed_variant_is_compared_cell_by_cell() -> None:
    comparison = compared(
        head_of({"a": (3, 3)}, provider="new"), base_of({"a": (3, 3)}, provider="old")
    )
    assert comparison.counts == {"unchanged": 1}
    assert comparison.variants[0].renamed
    assert comparison.base_of(key_of("a", "new")) is comparison.baseline.cells[key_of("a", "old")]


def test_a_cell_is_found_by_whatever_the_baseline_calls_its_case_and_its_variant() -> None:
    head, base = (
        head_of({"a/new": (3, 3)}, provider="new"),
        base_of({"a/old": (3, 3)}, provider="old"),
    )
    comparison = compared(head, base)
    assert comparison.base_key(key_of("a/new", "new")) == key_of("a/old", "old")
    assert comparison.base_of(key_of("a/new", "new")) is base.cells[key_of("a/old", "old")]
    assert comparison.base_variant(Variant("new")) == Variant("old")
    assert comparison.base_key(key_of("elsewhere", "new")) == key_of("elsewhere", "old")
    assert comparison.base_of(key_of("elsewhere", "new")) is None


# A variant as a whole: which reports of the base it is held against.


def cells(
    *kinds: tuple[int, tuple[int, int], tuple[tuple[int, int], ...]],
) -> list[CellSample]:
    """So many cells with this head and this history, newest first."""
    return [
        CellSample(Tally(*head), History(tuple(Evidence("r", *each) for each in series)))
        for count, head, series in kinds
        for _ in range(count)
    ]


def test_reports_that_agree_are_all_pooled() -> None:
    found = fall(cells((5, (1, 3), ((3, 3),) * 4)))
    assert found.tables == [(1, 3, 12, 12)] * 5
    assert found.p == weighted_lower(found.tables)


def test_no_more_reports_are_pooled_than_it_takes() -> None:
    assert fall(cells((1, (1, 3), ((3, 3),) * 40))).tables == [(1, 3, 30, 30)]


def test_an_improvement_that_no_cell_shows_by_itself_ends_the_pool() -> None:
    improved = ((3, 3), (2, 3), (2, 3))
    assert fall(cells((40, (2, 3), improved))).tables == [(2, 3, 3, 3)] * 40
    assert fall(cells((1, (2, 3), improved))).tables == [(2, 3, 7, 9)], (
        "one cell is too little to tell"
    )


def test_less_evidence_ends_the_pool_where_main_fell_than_where_it_improved() -> None:
    fallen = ((2, 3), (3, 3))
    assert fall(cells((3, (2, 3), fallen)), cut_below_p=0.2).tables == [(2, 3, 2, 3)] * 3
    improved = ((3, 3), (2, 3))
    assert fall(cells((3, (2, 3), improved)), cut_below_p=0.2).tables == [(2, 3, 5, 6)] * 3


def test_where_main_itself_runs_a_fall_of_main_does_not_end_the_pool() -> None:
    fallen = ((2, 3), (3, 3), (3, 3))
    assert fall(cells((40, (2, 3), fallen))).tables == [(2, 3, 8, 9)] * 40


def test_p_values_are_widened_where_reports_vary_more_than_runs() -> None:
    steady = cells((5, (1, 3), ((3, 3),) * 4))
    assert fall(steady, 1.8).p == widen(fall(steady).p, 1.8) > fall(steady).p


def test_steady_cells_say_nothing_of_a_drop() -> None:
    found = fall(cells((10, (3, 3), ((3, 3),) * 3), (5, (0, 3), ((0, 3),))))
    assert found.p == 1
    assert fall([]).p == 1


def test_cells_of_unequal_age_end_where_their_own_reports_do() -> None:
    found = fall(cells((1, (3, 3), ((3, 3),)), (1, (3, 3), ((3, 3), (2, 3)))))
    assert found.tables == [(3, 3, 3, 3), (3, 3, 5, 6)]


# Further rounds of a variant in doubt.


def doubted(further: tuple[int, int] | None, planned: tuple[int, int] = (2, 3)) -> Comparison:
    """Eight cells, three of them a little below a steady base, with these further rounds."""
    head = head_of({str(n): planned if n < 3 else (3, 3) for n in range(8)})
    if further is not None:
        passed, runs = further
        repeats = tuple(Outcome(run < passed) for run in range(runs))
        head = [replace(cell, repeats=repeats) for cell in head]
    return compared(head, base_of({str(n): (30, 30) for n in range(8)}))


def test_a_variant_in_doubt_gets_further_rounds_of_all_its_cells() -> None:
    head = head_of({str(n): (2, 3) if n < 3 else (3, 3) for n in range(8)})
    base = base_of({str(n): (30, 30) for n in range(8)})
    again = {str(n): (4, 4) for n in range(3)}
    recovered = head_of({str(n): (2, 3) if n < 3 else (3, 3) for n in range(8)}, again)
    assert runs_again(head, base) == {key_of(str(n)): 4 for n in range(3)}
    found = step(recovered, base)
    assert found is not None
    assert (found.why, found.variants) == ("doubt", [Variant("agent")])
    assert found.runs == {key_of(str(n)): 3 for n in range(3, 8)}, "suspects have theirs"
    steady = head_of({str(n): (3, 3) for n in range(8)})
    assert step(steady, base) is None


def test_all_rounds_decide_together_where_there_are_further_ones() -> None:
    [planned_alone] = doubted(None).variants
    assert planned_alone.adjusted_p <= 0.05
    assert not planned_alone.further_rounds
    [recovered] = doubted((3, 3)).variants
    assert recovered.further_rounds
    assert recovered.head_rate == pytest.approx(1 - 3 / 6 / 8)
    assert recovered.p == pytest.approx(weighted_lower([(5, 6, 30, 30)] * 3))
    [worse] = doubted((2, 3)).variants
    assert worse.p < planned_alone.p


def test_luck_of_a_whole_report_is_not_averaged_out_by_further_rounds() -> None:
    swinging = {str(n): [(30, 30), (24, 30)] * 3 for n in range(8)}
    head = head_of({str(n): (0, 3) if n < 3 else (3, 3) for n in range(8)})
    cells = [replace(cell, repeats=(PASSED, FAILED, FAILED)) for cell in head]
    [found] = compared(cells, base_of(swinging)).variants
    assert found.further_rounds
    luck = found.overdispersion
    assert luck > 1
    tables: list[tuple[int, int, int, int]] = [(1, 6, 30, 30)] * 3 + [(4, 6, 30, 30)] * 5
    assert found.p == pytest.approx(widen(weighted_lower(tables), 1 + (luck - 1) * 2))


def test_further_rounds_count_only_for_a_variant_that_was_in_doubt() -> None:
    [calm] = doubted((0, 3), planned=(3, 3)).variants
    assert (calm.head_rate, calm.p, calm.further_rounds) == (1, 1, False)


FORTY = [str(number) for number in range(40)]
STEADY_BASE = dict.fromkeys(FORTY, (30, 30))


def test_repeats_that_are_worse_than_the_planned_runs_name_nothing() -> None:
    head = head_of(
        dict.fromkeys(FORTY, (3, 3)) | dict.fromkeys(FORTY[:4], (2, 3)),
        dict.fromkeys(FORTY[:4], (0, 7)),
    )
    assert compared(head, base_of(STEADY_BASE)).counts == {"suspect": 4, "unchanged": 36}
