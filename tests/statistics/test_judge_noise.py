"""A judge's share of the noise between runs, and what more of its opinions buy."""

import random
from collections.abc import Iterator
from itertools import product
from math import prod, sqrt
from statistics import fmean, median_low

import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from ci_evals.stats.judge_noise import (
    error_of_flips,
    judge_noise,
    majority_error,
    opinion_error,
    ratio_interval,
    what_samples_buy,
)
from ci_evals.stats.power import Plan, planned_drop
from ci_evals.stats.rates import Estimate, Interval

ERRORS = [0.0, 0.01, 0.05, 0.2, 0.5]


def every_opinion(error: float, samples: int) -> Iterator[tuple[int, float]]:
    """How many of `samples` opinions are wrong, and how likely that is: 2ⁿ outcomes."""
    for wrong in product((True, False), repeat=samples):
        yield sum(wrong), prod(error if each else 1 - error for each in wrong)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("samples", [1, 2, 3, 4, 5, 9])
def test_the_error_of_a_majority_is_that_of_exact_enumeration(error: float, samples: int) -> None:
    expected = 0.0
    for wrong, chance in every_opinion(error, samples):
        if 2 * wrong > samples:
            expected += chance
        elif 2 * wrong == samples:
            expected += chance / 2
    assert majority_error(error, samples) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("error", ERRORS)
def test_of_an_odd_number_it_is_a_binomial_tail(error: float) -> None:
    for samples in (1, 3, 5, 25):
        expected = stats.binom.sf(samples // 2, samples, error)
        assert majority_error(error, samples) == pytest.approx(expected, abs=1e-12)
        if samples < 25:
            assert majority_error(error, samples + 1) == pytest.approx(expected, abs=1e-12)


def test_a_median_on_a_scale_is_a_majority() -> None:
    """The judge reaches 3 of 5 with the chances of its grades 3, 4 and 5."""
    chances = {1: 0.05, 2: 0.1, 3: 0.25, 4: 0.4, 5: 0.2}
    failing = 0.0
    for grades in product(chances, repeat=3):
        if median_low(grades) < 3:
            failing += prod(chances[grade] for grade in grades)
    assert majority_error(0.15, 3) == pytest.approx(failing)


@pytest.mark.parametrize("error", ERRORS)
def test_the_error_follows_from_the_chance_that_two_grades_disagree(error: float) -> None:
    flips = 0.0
    for wrong, chance in every_opinion(error, 2):
        if wrong == 1:
            flips += chance
    assert error_of_flips(flips) == pytest.approx(error, abs=1e-7)
    for samples in (1, 3, 4, 9):
        assert opinion_error(majority_error(error, samples), samples) == pytest.approx(
            error, abs=1e-3
        )
    assert error_of_flips(0.7) == 0.5


def test_the_share_is_the_ratio_of_two_flip_rates() -> None:
    cells = [(3, 3)] * 30 + [(2, 3)] * 9 + [(1, 3)] * 1
    found = judge_noise(2, 40, cells)
    assert found.flips.value == 0.05
    assert found.flips.interval == pytest.approx(proportion_confint(2, 40, method="wilson"))
    assert found.run_flips == pytest.approx(10 * (2 / 3) / 40)
    assert found.share is not None
    assert found.share.value == pytest.approx(0.05 / (10 * (2 / 3) / 40))


def test_without_noise_or_a_second_run_there_is_no_share() -> None:
    assert judge_noise(2, 40, [(3, 3)] * 40)[1:] == (0.0, None)
    assert judge_noise(2, 40, [(1, 1), (0, 1), (0, 0)])[1:] == (None, None)
    more_than_all = judge_noise(20, 40, [(3, 3)] * 39 + [(2, 3)]).share
    assert more_than_all is not None
    assert more_than_all.value == 1.0


def test_the_interval_is_that_of_the_published_formula() -> None:
    part, whole = Estimate(0.05, Interval(0.02, 0.09)), Estimate(0.2, Interval(0.15, 0.26))
    (a, (l1, u1)), (b, (l2, u2)) = (part.value, (0.02, 0.09)), (whole.value, (0.15, 0.26))
    lower = (a * b - sqrt((a * b) ** 2 - l1 * u2 * (2 * a - l1) * (2 * b - u2))) / (
        u2 * (2 * b - u2)
    )
    upper = (a * b + sqrt((a * b) ** 2 - u1 * l2 * (2 * a - u1) * (2 * b - l2))) / (
        l2 * (2 * b - l2)
    )
    assert ratio_interval(part, whole) == pytest.approx((lower, upper))
    none = ratio_interval(Estimate(0.0, Interval(0.0, 0.09)), whole)
    assert none == pytest.approx((0, 0.09 / sqrt(l2 * (2 * b - l2))))


@pytest.mark.parametrize(
    ("error", "graded_again", "stated", "bounds"),
    [(0.05, 40, 0.4, (0.15, 0.9)), (0.05, 120, 0.4, (0.2, 0.8)), (0.1, 40, 0.61, (0.3, 0.97))],
)
def test_the_share_of_a_judge_and_its_interval_hold_in_simulation(
    error: float, graded_again: int, stated: float, bounds: tuple[float, float]
) -> None:
    """40 cases from beta(8, 1), three runs each; the answers and the judge are drawn."""
    lower, upper = [], []
    shares, held = [], []
    for seed in range(300):
        rng = random.Random(seed)
        rates = [rng.betavariate(8, 1) for _ in range(40)]
        answers: list[tuple[bool, bool]] = []  # its first grade, and what it is
        cells = []
        for rate in rates:
            passed = 0
            for _ in range(3):
                good = rng.random() < rate
                grade = good != (rng.random() < error)
                answers.append((grade, good))
                passed += grade
            cells.append((passed, 3))
        answers.sort()
        chosen = answers[:: len(answers) // graded_again]
        changed = sum(grade != (good != (rng.random() < error)) for grade, good in chosen)
        noise = fmean(rate * (1 - rate) for rate in rates) * (1 - 2 * error) ** 2
        truth = error * (1 - error) / (noise + error * (1 - error))
        share = judge_noise(changed, graded_again, cells).share
        assert share is not None
        assert share.interval is not None
        shares.append(share.value)
        lower.append(share.interval.lower)
        upper.append(share.interval.upper)
        held.append(share.interval.lower <= truth <= share.interval.upper)
    assert fmean(shares) == pytest.approx(stated, abs=0.04)
    assert (fmean(lower), fmean(upper)) == pytest.approx(bounds, abs=0.03)
    assert fmean(held) >= 0.95


def judged_plan(error: float, runs: int = 3) -> Plan:
    """40 cases of beta(8, 1), as a judge shows them that is wrong with some chance."""
    rate = 8 / 9 * (1 - 2 * error) + error
    noise = 8 / 90 * (1 - 2 * error) ** 2 + error * (1 - error)
    return Plan(40, runs, rate, 1 - noise / (rate * (1 - rate)))


def test_more_samples_are_worth_what_the_better_judge_shows() -> None:
    error, less = 0.05, majority_error(0.05, 3)
    found = what_samples_buy(judged_plan(error), 2 * error * (1 - error), 1, 3, 30)
    assert found.now == planned_drop(judged_plan(error), 30)
    assert found.by_runs == planned_drop(judged_plan(error, 6), 30)
    assert found.flip_rate == pytest.approx(2 * less * (1 - less))
    drop = planned_drop(judged_plan(less), 30)
    assert drop is not None
    # A true drop d shows as d(1-2e) today: that is the scale.
    assert found.by_samples == pytest.approx(drop / (1 - 2 * less) * (1 - 2 * error), abs=1e-4)
    assert found.now is not None
    assert found.by_samples is not None
    assert found.by_runs is not None
    assert found.by_runs < found.by_samples < found.now


def test_samples_buy_nothing_of_a_judge_that_never_changes_its_mind() -> None:
    found = what_samples_buy(judged_plan(0.0), 0.0, 1, 3, 30)
    assert found.by_samples == pytest.approx(found.now)
    assert found.flip_rate == pytest.approx(0.0)


def test_a_judge_that_tosses_coins_cannot_be_helped() -> None:
    assert what_samples_buy(judged_plan(0.0), 0.5, 1, 3, 30).by_samples is None
