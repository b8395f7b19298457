"""A judge's share of the noise between runs, and what more of its opinions buy."""

import random
from collections.abc import Callable, Iterator
from math import sqrt
from statistics import fmean

import pytest
from statsmodels.stats.proportion import proportion_confint

from ci_evals.stats.judge_noise import (
    error_of_flips,
    judge_noise,
    noise_left,
    ratio_interval,
    what_samples_buy,
)
from ci_evals.stats.power import Plan, planned_drop
from ci_evals.stats.rates import Estimate, Interval

ERRORS = [0.0, 0.01, 0.05, 0.2, 0.5]


@pytest.mark.parametrize("error", ERRORS)
def test_the_error_follows_from_the_chance_that_two_grades_disagree(error: float) -> None:
    assert error_of_flips(2 * error * (1 - error)) == pytest.approx(error, abs=1e-7)
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
    error, less = 0.05, 3 * 0.05**2 - 2 * 0.05**3
    left = less * (1 - less) / (error * (1 - error))
    found = what_samples_buy(judged_plan(error), 2 * error * (1 - error), Interval(left, 1.0), 30)
    assert found.now == planned_drop(judged_plan(error), 30)
    assert found.by_runs == planned_drop(judged_plan(error, 6), 30)
    drop = planned_drop(judged_plan(less), 30)
    assert drop is not None
    # A true drop d shows as d(1-2e) today: that is the scale.
    least, most = found.by_samples
    assert least == pytest.approx(drop / (1 - 2 * less) * (1 - 2 * error), abs=1e-4)
    assert most == pytest.approx(found.now)
    assert found.now is not None
    assert found.by_runs is not None
    assert least is not None
    assert found.by_runs < least < found.now


def test_samples_buy_nothing_of_a_judge_that_never_changes_its_mind() -> None:
    found = what_samples_buy(judged_plan(0.0), 0.0, Interval(0.0, 1.0), 30)
    assert found.by_samples == pytest.approx((found.now, found.now))


def test_a_judge_that_tosses_coins_about_everything_cannot_be_helped() -> None:
    found = what_samples_buy(judged_plan(0.0), 0.5, Interval(1.0, 1.0), 30)
    assert found.by_samples == (None, None)


# What a majority of three leaves of the noise.

JUDGES: dict[str, Callable[[random.Random], float]] = {
    "tosses a coin about one in ten": lambda rng: choose(rng, 0.1, 0.5, rng.choice((0.0, 1.0))),
    "is torn over one in seven": lambda rng: choose(rng, 0.15, rng.uniform(0.3, 0.7), 1.0),
    "is in slight doubt everywhere": lambda rng: rng.choice((0.05, 0.95)),
    "is in some doubt everywhere": lambda rng: rng.choice((0.1, 0.9)),
    "is in doubt about one in three": lambda rng: choose(rng, 0.3, 0.2, 1.0),
    "is anything between": lambda rng: rng.betavariate(0.4, 0.2),
    "is in slight doubt, and torn over some": lambda rng: choose(rng, 0.05, 0.5, 0.95),
}
"""Draws the chance that a grade of an answer is `passed`."""


def choose(rng: random.Random, chance: float, one: float, other: float) -> float:
    return one if rng.random() < chance else other


def share_left(judge: Callable[[random.Random], float]) -> float:
    """The variance of the majority of three over that of one grade, by enumeration."""
    rng = random.Random(0)
    one = three = 0.0
    for _ in range(50_000):
        passes = judge(rng)
        majority = passes**3 + 3 * passes**2 * (1 - passes)
        one += passes * (1 - passes)
        three += majority * (1 - majority)
    return three / one


def changed_answers(
    judge: Callable[[random.Random], float], answers: int, rng: random.Random
) -> Iterator[tuple[int, int]]:
    """Grade answers twice, and four times more those whose grade changes."""
    for _ in range(answers):
        passes = judge(rng)
        first, second, *further = (rng.random() < passes for _ in range(6))
        if first != second:
            yield sum(further), 4


@pytest.mark.parametrize("kind", JUDGES)
@pytest.mark.parametrize("answers", [40, 120, 1000])
def test_the_range_holds_what_a_majority_leaves(kind: str, answers: int) -> None:
    judge = JUDGES[kind]
    truth = share_left(judge)
    held = []
    widths = []
    for seed in range(400):
        left = noise_left(changed_answers(judge, answers, random.Random(f"{kind} {seed}")))
        if left is None:  # no grade changed
            continue
        assert 0 <= left.lower <= left.upper <= 1
        held.append(left.lower <= truth <= left.upper)
        widths.append(left.upper - left.lower)
    assert fmean(held) >= 0.93
    if answers == 1000:
        assert fmean(widths) < 0.35


def test_many_changed_answers_tell_coins_from_slight_doubt() -> None:
    def left_of(kind: str) -> Interval:
        left = noise_left(changed_answers(JUDGES[kind], 1000, random.Random(1)))
        assert left is not None
        return left

    assert left_of("tosses a coin about one in ten").lower > 0.8
    assert left_of("is in slight doubt everywhere").upper < 0.5


def test_without_a_changed_answer_nothing_is_known() -> None:
    assert noise_left([]) is None
    assert noise_left([(1, 1), (0, 0)]) is None
    one = noise_left([(2, 4)])
    assert one is not None
    assert one.upper == 1
