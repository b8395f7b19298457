"""Pass rates, their bounds and intervals, pass@k, pass^k and flip rates."""

import random
import statistics
from collections import Counter
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from math import comb, factorial, prod
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known import known, suite

from ci_evals.stats.rates import (
    PassRate,
    flip_rate,
    look_confidence,
    pass_at_k,
    pass_hat_k,
    pass_rate,
    population_rate,
    sample_mean,
    suite_flip_rate,
    wilson,
)

one_cell = st.integers(1, 10).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
cells = st.lists(one_cell, min_size=1, max_size=60)


def estimated(given_cells: list[tuple[int, int]]) -> PassRate:
    estimate = pass_rate(given_cells)
    assert estimate is not None
    return estimate


def test_a_fixed_suite_is_known_better_than_its_number_of_runs_suggests() -> None:
    estimate = estimated(suite("S40"))
    assert estimate.rate == Fraction(11, 12)
    assert estimate.n_eff == pytest.approx(11 / 144 * 40**2 / (4 * 2 / 18 + 3 / 9))
    assert estimate.bounds(0.95) == pytest.approx(known("fractional_bounds"), abs=1e-10)


@pytest.mark.parametrize("flaky", [1, 2, 3])
@pytest.mark.parametrize("runs", [2, 3, 5])
@pytest.mark.parametrize("cases", [5, 10, 40])
def test_a_steady_suite_at_its_bar_hardly_ever_fails(cases: int, runs: int, flaky: int) -> None:
    """By enumeration: some cases are flaky at one rate, the others pass, the bar is the truth."""
    for rate in (Fraction(1, 10), Fraction(1, 2), Fraction(7, 10), Fraction(9, 10)):
        bar = 1 - flaky * (1 - rate) / cases
        chances = [comb(runs, k) * rate**k * (1 - rate) ** (runs - k) for k in range(runs + 1)]
        wrong = Fraction()
        for passed in combinations_with_replacement(range(runs + 1), flaky):
            orders = factorial(flaky) // prod(
                factorial(count) for count in Counter(passed).values()
            )
            estimate = estimated([(k, runs) for k in passed] + [(runs, runs)] * (cases - flaky))
            if estimate.bounds(0.95).upper < bar:
                wrong += orders * prod((chances[k] for k in passed), start=Fraction(1))
        assert wrong <= 0.051


def test_bounds_on_whole_numbers_are_those_of_clopper_and_pearson() -> None:
    assert estimated([(8, 10)]).n_eff == 10
    assert estimated([(8, 10)]).bounds(0.975) == pytest.approx(known("clopper_8_10_95"), abs=1e-10)


def test_the_upper_bound_falls_below_the_bar_exactly_where_the_binomial_test_rejects() -> None:
    critical = int(known("binom_critical_120"))
    assert PassRate(Fraction(critical, 120), 120).bounds(0.95).upper < 0.9
    assert PassRate(Fraction(critical + 1, 120), 120).bounds(0.95).upper >= 0.9


@pytest.mark.parametrize(
    ("given_cells", "n_eff"),
    [
        pytest.param(
            [(1, 1)] * 34 + [(0, 1)] * 6, 40, id="one run each cannot show the noise within a case"
        ),
        pytest.param([(1, 1)] + [(2, 3)] * 3, 8, id="nor can some cells with one run"),
        pytest.param([(3, 3)] * 40, 120, id="everything passed"),
        pytest.param([(0, 3)] * 40, 120, id="everything failed"),
        pytest.param([(2, 4)] * 10, 40, id="never less than the runs there are"),
    ],
)
def test_without_more_to_go_by_each_run_counts_once(
    given_cells: list[tuple[int, int]], n_eff: float
) -> None:
    assert estimated(given_cells).n_eff == pytest.approx(n_eff)


def test_cells_without_graded_runs_are_left_out() -> None:
    assert estimated([(2, 3), (0, 0), (3, 3)]) == estimated([(2, 3), (3, 3)])
    assert pass_rate([(0, 0)]) is None
    assert pass_rate([]) is None


def test_each_case_counts_the_same_however_often_it_ran() -> None:
    assert estimated([(1, 1), (0, 9)]).rate == Fraction(1, 2)


def test_the_rate_is_exact() -> None:
    assert estimated([(9, 10)] * 10).rate == Fraction(9, 10)
    assert estimated([(1, 3)] * 3_333 + [(2, 7)] * 777).rate == Fraction(
        3_333 * 7 + 777 * 6, 21 * 4_110
    )


@given(cells)
def test_the_bounds_enclose_the_rate(given_cells: list[tuple[int, int]]) -> None:
    estimate = estimated(given_cells)
    lower, upper = estimate.bounds(0.95)
    assert 0 <= lower <= estimate.rate <= upper <= 1


@given(cells)
def test_more_confidence_takes_wider_bounds(given_cells: list[tuple[int, int]]) -> None:
    narrow, wide = estimated(given_cells).bounds(0.8), estimated(given_cells).bounds(0.99)
    assert wide.lower <= narrow.lower
    assert narrow.upper <= wide.upper


@given(cells)
def test_the_order_of_cells_does_not_matter(given_cells: list[tuple[int, int]]) -> None:
    assert estimated(given_cells[::-1]) == pytest.approx(estimated(given_cells))


@given(cells)
def test_passing_and_failing_are_mirror_images(given_cells: list[tuple[int, int]]) -> None:
    lower, upper = estimated(given_cells).bounds(0.95)
    mirrored = estimated([(n - k, n) for k, n in given_cells]).bounds(0.95)
    assert (1 - upper, 1 - lower) == pytest.approx(mirrored, abs=1e-9)


# New cases like these.


def of_population(cases: list[list[tuple[int, int]]]) -> PassRate:
    estimate = population_rate(cases)
    assert estimate is not None
    return estimate


def test_new_cases_are_as_certain_as_scipy_says() -> None:
    from scipy.stats import beta  # slow to import, and only an oracle

    cells = suite("S40")
    estimate = of_population([[cell] for cell in cells])
    means = [k / n for k, n in cells]
    p, n_eff = statistics.fmean(means), 11 / 12 * 1 / 12 / (statistics.variance(means) / 40)
    assert 40 < n_eff < 120
    assert estimate.rate == Fraction(11, 12)
    assert estimate.n_eff == pytest.approx(n_eff)
    reference = (
        beta.ppf(0.05, p * n_eff, (1 - p) * n_eff + 1),
        beta.ppf(0.95, p * n_eff + 1, (1 - p) * n_eff),
    )
    assert estimate.bounds(0.95) == pytest.approx(reference, abs=1e-9)


@pytest.mark.parametrize(
    ("cases", "n_eff"),
    [
        pytest.param(
            [[(3, 3)]] * 8 + [[(0, 3)]] * 2, 10, id="cases that always end alike count once each"
        ),
        pytest.param([[(2, 3)]] * 10, 30, id="cases that are all alike count with every run"),
        pytest.param([[(3, 3)]] * 10, 10, id="everything passed"),
        pytest.param([[(0, 3)]] * 10, 10, id="everything failed"),
        pytest.param([[(3, 3), (0, 3)]] * 10, 60, id="a case is the mean of its cells"),
    ],
)
def test_new_cases_are_known_by_the_spread_between_cases(
    cases: list[list[tuple[int, int]]], n_eff: float
) -> None:
    assert of_population(cases).n_eff == pytest.approx(n_eff)


def test_fewer_than_five_graded_cases_say_nothing_of_new_ones() -> None:
    assert population_rate([[(3, 3)]] * 4 + [[(0, 0)], []]) is None
    assert population_rate([[(3, 3)]] * 5) is not None


@given(st.lists(st.lists(one_cell, min_size=1, max_size=3), min_size=5, max_size=40))
def test_new_cases_count_at_least_once_each_and_at_most_with_every_run(
    cases: list[list[tuple[int, int]]],
) -> None:
    estimate = of_population(cases)
    assert len(cases) <= estimate.n_eff <= sum(n for case in cases for _, n in case)
    assert 0 <= estimate.bounds(0.95).lower <= estimate.rate <= estimate.bounds(0.95).upper <= 1


# Wilson's interval.


def test_a_known_interval() -> None:
    estimate = wilson(8, 10)
    assert estimate is not None
    assert estimate.value == 0.8
    assert estimate.interval == pytest.approx(known("wilson_8_10_95"), rel=1e-12)


@given(
    st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.sampled_from((0.8, 0.95, 0.99)),
)
def test_the_interval_is_that_of_statsmodels(counts: tuple[int, int], confidence: float) -> None:
    # Slow to import, and only an oracle.
    from statsmodels.stats.proportion import proportion_confint

    estimate = wilson(*counts, confidence)
    assert estimate is not None
    oracle = proportion_confint(*counts, alpha=1 - confidence, method="wilson")
    assert estimate.interval == pytest.approx(oracle, rel=1e-9, abs=1e-12)


def test_no_runs_have_no_share() -> None:
    assert wilson(0, 0) is None


# pass@k, pass^k, flip rates and repeated looks.


def test_known_figures() -> None:
    at = [
        pass_at_k(c, n, k)
        for n, c, k in ((5, 2, 3), (10, 3, 5), (200, 20, 10), (4, 0, 2), (3, 3, 3))
    ]
    hat = [pass_hat_k(c, n, k) for n, c, k in ((4, 3, 2), (5, 4, 3), (8, 6, 4), (3, 1, 2))]
    flips = [flip_rate(c, n) for n, c in ((3, 2), (5, 4), (5, 3), (10, 10))]
    assert at == pytest.approx(known("pass_at_k"), rel=1e-12)
    assert hat == pytest.approx(known("pass_hat_k"), rel=1e-12)
    assert flips == pytest.approx(known("flip_rate"), rel=1e-12)


@given(
    st.integers(1, 7).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n), st.integers(1, n)))
)
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
    assert suite_flip_rate([(2, 3), (3, 3), (1, 1), (0, 0), (2, 3)]) == pytest.approx(
        (2 / 3 + 0 + 2 / 3) / 3
    )
    assert suite_flip_rate([(1, 1), (0, 0)]) is None
    assert suite_flip_rate([]) is None


def test_looks_share_the_error() -> None:
    assert 1 - look_confidence(0.95, 3) == pytest.approx(known("pocock_bonferroni")[0], rel=1e-12)
    assert look_confidence(0.95, 1) == pytest.approx(0.95)


# Mean scores.

SCORES = {  # what a case may score, each as likely
    "yes or no": [0, 1, 1, 1, 1],
    "a scale": [0.5, 0.75, 0.75, 1, 1],
    "hardly differing": [0.78, 0.8, 0.82],
    "mostly right": [0.5, *[1] * 9],
}


@pytest.mark.parametrize("size", [3, 5, 10, 40])
@pytest.mark.parametrize("scores", SCORES.values(), ids=SCORES)
def test_a_mean_score_is_hardly_ever_above_its_upper_bound(scores: list[float], size: int) -> None:
    rng, truth, repeats = random.Random(f"{scores} {size}"), fmean(scores), 1000

    def is_wrong() -> bool:
        found = sample_mean(Counter(Fraction(str(rng.choice(scores))) for _ in range(size)))
        return found.bounds(0.95).upper < truth

    assert sum(is_wrong() for _ in range(repeats)) / repeats <= 0.07


def test_one_case_says_little_and_cases_that_are_all_alike_say_most() -> None:
    assert sample_mean(Counter([Fraction(3, 4)])) == (Fraction(3, 4), 1)
    assert sample_mean(Counter([Fraction(3, 4)] * 10)) == (Fraction(3, 4), 100)
    assert sample_mean(Counter([Fraction(1)] * 10)) == (Fraction(1), 10)


# One run of each case, with the base branch's runs of the same cases.


def single_runs(
    rng: random.Random, rates: list[float], now: list[float], runs: int = 30
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """One run of each case at its rate now, and so many earlier ones at its rate then."""
    earlier = [(sum(rng.random() < rate for _ in range(runs)), runs) for rate in rates]
    return [(int(rng.random() < rate), 1) for rate in now], earlier


def test_the_noise_of_single_runs_is_how_far_they_are_from_earlier_ones() -> None:
    cells, earlier = [(1, 1), (0, 1), (1, 1)], [(10, 10), (9, 10), (3, 6)]
    found = pass_rate(cells, earlier)
    assert found is not None
    surprise = 0 + 0.9**2 * 10 / 11 + 0.5**2 * 6 / 7
    noise = (surprise + 3) / 9
    assert found.n_eff == pytest.approx(max(3, 2 / 9 / noise))
    assert found.rate == Fraction(2, 3)


def test_a_case_without_history_leaves_single_runs_independent() -> None:
    cells = [(1, 1), (0, 1)]
    assert pass_rate(cells, [(3, 3)]) == pass_rate(cells) == PassRate(Fraction(1, 2), 2.0)
    # Nor do several runs need it.
    assert pass_rate([(2, 3), (3, 3)], [(3, 3), (3, 3)]) == pass_rate([(2, 3), (3, 3)])


def test_single_runs_at_their_bar_are_rarely_below_it_and_five_points_lower_often() -> None:
    rng = random.Random("single runs")
    below, seen, blind = 0, 0, 0
    for _ in range(400):
        rates = [rng.betavariate(0.6, 0.1) for _ in range(100)]
        mean = fmean(rates)
        found = pass_rate(*single_runs(rng, rates, rates))
        assert found is not None
        below += found.bounds(0.95).upper < mean
        cells, earlier = single_runs(rng, rates, [rate * (1 - 0.05 / mean) for rate in rates])
        fallen, alone = pass_rate(cells, earlier), pass_rate(cells)
        assert fallen is not None
        assert alone is not None
        seen += fallen.bounds(0.95).upper < mean
        blind += alone.bounds(0.95).upper < mean
    assert below / 400 <= 0.07
    assert seen / 400 >= blind / 400 + 0.05
