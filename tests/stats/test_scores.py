"""The stratified test of scores."""

import random
from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, fmean, variance

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_evals.stats.scores import ScoreSums, score_lower, score_upper

scores = st.lists(st.floats(0, 1).map(lambda score: round(score, 3)), min_size=1, max_size=6)
cells = st.lists(st.tuples(scores, scores), max_size=12)
Scores = Sequence[float]


def sums(values: Scores) -> ScoreSums:
    return ScoreSums(len(values), sum(values), sum(value * value for value in values))


def lower(cells: Sequence[tuple[Scores, Scores]]) -> float:
    return score_lower((sums(head), sums(base)) for head, base in cells)


def upper(cells: Sequence[tuple[Scores, Scores]]) -> float:
    return score_upper((sums(head), sums(base)) for head, base in cells)


@given(cells)
def test_it_compares_the_heads_sum_with_dealing_out_at_random(given_cells: list[tuple[Scores, Scores]]) -> None:
    excess = spread = 0.0
    for head, base in given_cells:
        pooled = [*head, *base]
        excess += sum(head) - len(head) * fmean(pooled)
        if len(set(pooled)) > 1:
            spread += len(head) * len(base) / len(pooled) * variance(pooled)
    expected = NormalDist().cdf(excess / sqrt(spread)) if spread else 1.0
    assert lower(given_cells) == pytest.approx(expected, abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_it_is_close_to_the_permutation_test(seed: int) -> None:
    chance = random.Random(seed)
    cells = [([chance.random() for _ in range(3)], [chance.random() for _ in range(3)]) for _ in range(12)]
    observed, rounds, fewer = sum(sum(head) for head, _ in cells), 2000, 0
    for _ in range(rounds):
        fewer += sum(sum(chance.sample([*head, *base], 3)) for head, base in cells) <= observed
    assert lower(cells) == pytest.approx(fewer / rounds, abs=0.06)


@given(cells)
def test_better_is_worse_with_the_sides_exchanged(given_cells: list[tuple[Scores, Scores]]) -> None:
    assert upper(given_cells) == pytest.approx(lower([(base, head) for head, base in given_cells]))


@pytest.mark.parametrize(
    "given_cells",
    [
        pytest.param([], id="no cells"),
        pytest.param([([0.1] * 3, [0.1] * 3), ([0.7] * 3, [0.7] * 7)], id="the same score always"),
        pytest.param([([], [0.1, 0.9]), ([0.4, 0.2], [])], id="one side only"),
    ],
)
def test_cells_that_can_tell_nothing_change_nothing(given_cells: list[tuple[Scores, Scores]]) -> None:
    telling: list[tuple[Scores, Scores]] = [([0.2, 0.3], [0.8, 0.9])]
    assert lower(given_cells) == upper(given_cells) == 1
    assert lower(given_cells + telling) == lower(telling) < 0.1
