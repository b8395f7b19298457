"""What is called a regression, and what is called noise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom
from verdict.sides import base_of, compared, head_of, key_of

from ci_evals.verdict.comparison import suspects

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
        ((1, 1), None, (0, 1), "flaky"),
        ((0, 1), None, (1, 1), "flaky"),
        ((0, 1), (0, 7), (50, 50), "regressed"),
        ((0, 50), None, (1, 1), "suspect"),
        ((0, 50), (0, 7), (1, 1), "regressed"),
    ],
)
def test_kinds(head: tuple[int, int], more: tuple[int, int] | None, base: tuple[int, int], kind: str) -> None:
    confirming = {} if more is None else {"a": more}
    [cell] = compared(head_of({"a": head}, confirming), base_of({"a": base})).cells
    assert cell.kind == kind, cell


def test_p_is_fishers_on_all_runs_and_the_other_cells_adjust_it() -> None:
    head, base = head_of({"a": (0, 3)} | MANY, {"a": (4, 7)}), base_of({"a": (30, 30)} | MANY_BASE)
    cell = compared(head, base).by_key[key_of("a")]
    expected = hypergeom.cdf(4, 40, 34, 10)
    assert (cell.p, cell.adjusted_p) == pytest.approx((expected, 40 * expected))
    assert cell.kind == "regressed"


def test_nothing_is_named_before_it_is_confirmed() -> None:
    head, base = head_of({"a": (0, 3)} | MANY), base_of({"a": (30, 30)} | MANY_BASE)
    assert compared(head, base).counts == {"suspect": 1, "unchanged": 39}
    assert compared(head, base, confirm_runs=0).counts == {"regressed": 1, "unchanged": 39}


def test_only_what_fell_further_than_usual_is_a_suspect() -> None:
    head = head_of({"fell": (2, 3), "rose": (3, 3), "same": (3, 3), "flaky": (2, 3), "new": (0, 3), "none": (0, 0)})
    base = base_of({"fell": (30, 30), "rose": (0, 30), "same": (30, 30), "flaky": (22, 30), "none": (30, 30)})
    assert suspects(head, base) == {key_of("fell")}


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
    assert [variant.provider for variant in comparison.fallen()] == ["agent"]
    assert "regressed" not in comparison.counts


def test_a_variant_may_have_fallen_only_where_cells_regressed() -> None:
    head, base = head_of({"a": (0, 3)} | MANY, {"a": (0, 7)}), base_of({"a": (30, 30)} | MANY_BASE)
    comparison = compared(head, base)
    assert len(list(comparison.fallen())) == 1
    assert list(comparison.fallen(beyond_regressions=True)) == []


def test_one_of_ten_thousand_cells_is_found() -> None:
    ok = {f"ok {n}": (3, 3) for n in range(9_999)}
    head = head_of(ok | {"a": (0, 3)}, {"a": (0, 7)})
    comparison = compared(head, base_of(dict.fromkeys(ok, (30, 30)) | {"a": (30, 30)}))
    assert comparison.counts == {"regressed": 1, "unchanged": 9_999}
    assert [cell.case for cell in comparison.of("regressed")] == ["a"]


def test_of_several_the_surest_comes_first() -> None:
    head = head_of({"a": (1, 3), "b": (0, 3)}, {"a": (1, 7), "b": (0, 7)})
    assert [cell.case for cell in compared(head, base_of({"a": (30, 30), "b": (30, 30)})).of("regressed")] == ["b", "a"]


@pytest.mark.parametrize("outcome", [(0, 3), (3, 3)], ids=["all-fail", "all-pass"])
def test_what_did_not_change_is_unchanged(outcome: tuple[int, int]) -> None:
    cells = dict.fromkeys("abc", outcome)
    comparison = compared(head_of(cells), base_of(cells))
    assert comparison.counts == {"unchanged": 3}
    assert [variant.p for variant in comparison.variants] == [1.0]


tallies = st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(tallies, tallies, tallies), min_size=1), st.integers(0, 7))
def test_every_cell_gets_one_kind_and_red_needs_a_lower_rate(
    cells: dict[str, tuple[tuple[int, int], tuple[int, int], tuple[int, int]]], confirm_runs: int
) -> None:
    head = head_of({case: each[0] for case, each in cells.items()}, {case: each[1] for case, each in cells.items()})
    comparison = compared(head, base_of({case: each[2] for case, each in cells.items()}), confirm_runs)
    assert sorted(cell.case for cell in comparison.cells) == sorted(cells)
    for cell in comparison.cells:
        assert cell.p is not None
        assert cell.adjusted_p is not None
        assert 0 <= cell.p <= cell.adjusted_p + 1e-12 <= 1 + 2e-12 or cell.kind in ("flaky", "unchanged", "suspect")
        if cell.kind == "regressed":
            assert cell.head.rate < cell.base.rate
        if cell.kind == "fixed":
            assert cell.head.rate > cell.base.rate
