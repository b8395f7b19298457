import pytest

from ci_evals.plugins.pairwise.preference import Pair, Preferred, preference

Orders = tuple[Preferred | None, Preferred | None]

A: Orders = ("first", "second")
B: Orders = ("second", "first")
TIE: Orders = ("tie", "tie")
FLIP: Orders = ("first", "first")
OTHER_FLIP: Orders = ("second", "second")
HALF: Orders = ("first", "tie")


def pairs(*orders: Orders, case: str = "") -> list[Pair]:
    """One pair for each; each of a case of its own unless they are all of one."""
    return [Pair(case or f"case {n}", n, *order) for n, order in enumerate(orders)]


def test_what_is_preferred_in_both_orders_counts() -> None:
    found = preference(pairs(A, B, B, TIE))
    assert (found.a, found.b, found.ties, found.flips) == (1, 2, 1, 0)
    assert found.share == 2 / 3


@pytest.mark.parametrize(("order", "flips"), [(FLIP, 1), (OTHER_FLIP, 1), (HALF, 0), (TIE, 0)])
def test_what_goes_with_the_order_is_a_tie_and_only_a_reversal_is_a_flip(
    order: Orders, flips: int
) -> None:
    found = preference(pairs(order))
    assert (found.ties, found.flips, found.share, found.side) == (1, flips, None, "tie")


def test_a_case_has_one_vote_whatever_its_runs() -> None:
    found = preference([*pairs(B, B, A, case="x"), *pairs(A, case="y"), *pairs(A, B, case="z")])
    assert (found.a, found.b, found.ties) == (1, 1, 1)


def test_a_pair_that_was_not_judged_counts_for_nobody() -> None:
    found = preference(pairs(A, ("first", None), (None, None)))
    assert (found.a, found.ties, found.unjudged, found.pairs) == (1, 0, 2, 3)
    assert found.first_unjudged is not None
    assert found.first_unjudged.case == "case 1"


@pytest.mark.parametrize(
    ("judged", "unjudged", "has_verdict"),
    [(0, 0, False), (0, 3, False), (19, 1, True), (18, 1, False)],
)
def test_too_many_pairs_without_a_judgement_leave_no_verdict(
    judged: int, unjudged: int, has_verdict: bool
) -> None:
    assert preference(pairs(*[TIE] * judged, *[(None, None)] * unjudged)).has_verdict is has_verdict


@pytest.mark.parametrize(
    ("a", "b", "side"), [(0, 6, "b"), (6, 0, "a"), (2, 4, "tie"), (0, 1, "tie"), (20, 40, "b")]
)
def test_one_is_better_only_if_its_interval_excludes_an_even_chance(
    a: int, b: int, side: str
) -> None:
    assert preference(pairs(*[A] * a, *[B] * b)).side == side


def test_the_interval_is_wilsons() -> None:
    interval = preference(pairs(*[B] * 8, *[A] * 2)).interval
    assert interval == pytest.approx((0.4902, 0.9433), abs=1e-4)
