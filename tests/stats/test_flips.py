"""pass@k, pass^k and flip rates, and the confidence of repeated looks."""

from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stats.known import known

from ci_evals.stats.flips import flip_rate, pass_at_k, pass_hat_k, suite_flip_rate
from ci_evals.stats.looks import look_confidence


def test_known_figures() -> None:
    at = [pass_at_k(c, n, k) for n, c, k in ((5, 2, 3), (10, 3, 5), (200, 20, 10), (4, 0, 2), (3, 3, 3))]
    hat = [pass_hat_k(c, n, k) for n, c, k in ((4, 3, 2), (5, 4, 3), (8, 6, 4), (3, 1, 2))]
    flips = [flip_rate(c, n) for n, c in ((3, 2), (5, 4), (5, 3), (10, 10))]
    assert at == pytest.approx(known("pass_at_k"), rel=1e-12)
    assert hat == pytest.approx(known("pass_hat_k"), rel=1e-12)
    assert flips == pytest.approx(known("flip_rate"), rel=1e-12)


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n), st.integers(1, n))))
def test_they_are_what_drawing_runs_would_give(drawn: tuple[int, int, int]) -> None:
    passed, runs, k = drawn
    draws = list(combinations([True] * passed + [False] * (runs - passed), k))
    assert pass_at_k(passed, runs, k) == pytest.approx(fmean(any(draw) for draw in draws))
    assert pass_hat_k(passed, runs, k) == pytest.approx(fmean(all(draw) for draw in draws))
    if k == 2:
        assert flip_rate(passed, runs) == pytest.approx(fmean(a != b for a, b in draws))


def test_more_runs_than_there_are_cannot_be_drawn() -> None:
    assert pass_at_k(3, 3, 4) is None
    assert pass_hat_k(3, 3, 4) is None
    assert flip_rate(1, 1) is None
    assert flip_rate(0, 0) is None


def test_a_suite_flips_as_its_repeated_cells_do_on_average() -> None:
    assert suite_flip_rate([(2, 3), (3, 3), (1, 1), (0, 0), (2, 3)]) == pytest.approx((2 / 3 + 0 + 2 / 3) / 3)
    assert suite_flip_rate([(1, 1), (0, 0)]) is None
    assert suite_flip_rate([]) is None


def test_looks_share_the_error() -> None:
    assert 1 - look_confidence(0.95, 3) == pytest.approx(known("pocock_bonferroni")[0], rel=1e-12)
    assert look_confidence(0.95, 1) == pytest.approx(0.95)
