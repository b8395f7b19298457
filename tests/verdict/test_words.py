"""Chances, ages and names as people read them."""

import pytest

from ci_evals.verdict.words import duration, in_place, name_of, number_of, once_in


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


def test_names_are_kept_short_and_on_one_line() -> None:
    assert name_of("a\nb") == r"'a\nb'"
    assert len(name_of("x" * 500)) == 80
    assert (number_of(1, "run"), number_of(1200, "run")) == ("1 run", "1,200 runs")


@pytest.mark.parametrize(
    "name", ["\u05e7\u05d5\u05d3 12", "refund\u200f", "\u0627\u0633\u062a\u0631\u062f\u0627\u062f (refund)"]
)
def test_what_is_written_from_right_to_left_stays_between_marks_of_ours(name: str) -> None:
    """Else a name would show the numbers after it in another order: `15 of 12` for `12: 15 of`."""
    assert in_place(name) == name_of(name) == f"\u200e{name}\u200e"


@pytest.mark.parametrize(
    "name",
    [
        "refund",
        "\u822a\u7a7a\u5238\u3000\u9000\u6b3e",
        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\U0001f1e9\U0001f1ea \u2708\ufe0f",
    ],
)
def test_names_in_other_scripts_and_emoji_are_written_as_they_are(name: str) -> None:
    assert in_place(name) == name_of(name) == name


@pytest.mark.parametrize("name", ["a\nb", "a\u202eb", "a\x1bb", "a\u2066b", "a\ud800b"])
def test_a_name_that_would_act_is_written_as_python_writes_it(name: str) -> None:
    assert name_of(name) == repr(name)
