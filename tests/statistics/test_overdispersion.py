"""How much more reports vary than independent runs: against the formula, and on simulated ones."""

import random
from statistics import fmean

import numpy as np
import pytest

from ci_evals.stats.overdispersion import overdispersion

Report = list[tuple[int, int]]


def draw(chance: random.Random, rates: list[float]) -> Report:
    return [(sum(chance.random() < rate for _ in range(3)), 3) for rate in rates]


def by_numpy(reports: list[Report]) -> float:
    """The same, over arrays: reports × cells."""
    passed = np.array([[k for k, _ in report] for report in reports], float)
    runs = np.array([[n for _, n in report] for report in reports], float)
    s, n = passed.sum(0), runs.sum(0)
    varies = (s > 0) & (s < n)
    weight = np.where(s >= 2 * (n - s), 2, 1) * varies
    d = (weight * (passed[:-1] / runs[:-1] - passed[1:] / runs[1:])).sum(1)
    v = (weight**2 * s * (n - s) / (n * (n - 1)) * (1 / runs[:-1] + 1 / runs[1:])).sum(1)
    return max(1.0, float((np.minimum(d**2 / v, 10).sum() + 5) / (len(reports) - 1 + 5)))


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_ratio_of_variances_between_successive_reports(seed: int) -> None:
    chance = random.Random(seed)
    rates = [chance.betavariate(8, 1) for _ in range(40)]
    wobble = [chance.gauss(0, 0.1) for _ in range(8)]
    reports = [draw(chance, [rate + each for rate in rates]) for each in wobble]
    assert overdispersion(reports) == pytest.approx(by_numpy(reports), rel=1e-12)


def test_fewer_than_five_reports_say_nothing() -> None:
    swinging: list[Report] = [[(3, 3)] * 40, [(1, 3)] * 40] * 3
    assert overdispersion(swinging[:4]) == overdispersion([]) == 1
    assert overdispersion(swinging[:5]) > 4


def test_no_pair_of_reports_counts_for_more_than_ten() -> None:
    once: list[Report] = [[(3, 3)] * 40] * 2 + [[(0, 3)] * 40] * 4
    assert overdispersion(once) == pytest.approx((10 + 5) / (5 + 5))


def test_reports_that_never_vary_are_independent() -> None:
    assert overdispersion([[(3, 3)] * 40] * 8) == 1


def test_cells_that_a_report_lacks_are_left_out_of_its_pairs() -> None:
    chance = random.Random(1)
    whole = [draw(chance, [0.8] * 40) for _ in range(8)]
    lacking = [[*report, (0, 0)] for report in whole[:-1]] + [[*whole[-1], (2, 3)]]
    assert overdispersion(lacking) == pytest.approx(overdispersion(whole))


def test_independent_runs_give_about_one_and_a_wobble_more() -> None:
    chance = random.Random(2)
    steady, wobbling = [], []
    for _ in range(200):
        rates = [chance.betavariate(8, 1) for _ in range(40)]
        steady.append(overdispersion([draw(chance, rates) for _ in range(10)]))
        by = [chance.gauss(0, 0.08) for _ in range(10)]
        wobbling.append(overdispersion([draw(chance, [r + b for r in rates]) for b in by]))
    assert 1 <= fmean(steady) < 1.3
    assert fmean(wobbling) > 1.6
