"""Chances, ages and shares as people read them."""

import pytest

from ci_evals.verdict.words import duration, name_of, number_of, once_in, percent


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (1.0, "once in 1"),
        (0.3, "once in 3"),
        (0.05, "once in 20"),
        (1 / 31, "once in 31"),
        (1 / 17_949, "once in 18,000"),
        (1e-9, "once in 1,000,000,000"),
        (1e-16, "less than once in 10^15"),
        (5e-324, "less than once in 10^15"),
        (0.0, "less than once in 10^15"),
    ],
)
def test_a_chance_is_a_frequency(p: float, text: str) -> None:
    assert once_in(p) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (720, "12 min"),
        (3 * 3600, "3 h"),
        (47 * 3600, "47 h"),
        (432000, "5 days"),
    ],
)
def test_an_age_has_one_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_share_is_never_shown_as_a_mark_that_it_is_not() -> None:
    assert [percent(0.89999, 0.9), percent(0.9, 0.9), percent(0.99999), percent(1.0)] == [
        "89.999 %",
        "90 %",
        "99.999 %",
        "100 %",
    ]
    assert percent(1 - 0.05 / 3) == "98.3 %"


def test_names_are_kept_short_and_on_one_line() -> None:
    assert name_of("a\nb") == r"'a\nb'"
    assert len(name_of("x" * 500)) == 80
    assert (number_of(1, "run"), number_of(1200, "run")) == ("1 run", "1,200 runs")
