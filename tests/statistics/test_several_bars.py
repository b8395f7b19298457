"""Bars written one by one: docs/statistics.md says how often one of eight fails by chance."""

import pytest

from benchmarks.several_bars import BAR, TAGS, chance_of_failing, chance_that_one_fails
from ci_evals.stats.rates import look_confidence


@pytest.mark.parametrize(("above", "stated"), [(0.0, 1 / 5), (0.03, 1 / 20)])
def test_one_of_eight_tags_fails_as_often_as_the_docs_say(above: float, stated: float) -> None:
    assert chance_that_one_fails(BAR + above) == pytest.approx(stated, rel=0.1)


def test_a_tag_keeps_its_own_error() -> None:
    assert chance_of_failing(BAR) <= 0.051


def test_sharing_the_error_would_miss_what_the_docs_say() -> None:
    below = BAR - 0.2
    assert chance_of_failing(below) == pytest.approx(0.78, abs=0.005)
    shared = chance_of_failing(below, look_confidence(0.95, TAGS))
    assert shared == pytest.approx(0.49, abs=0.005)
