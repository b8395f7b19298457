"""Figures, and text that others wrote, as people read them."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_evals.format import (
    duration,
    keep_units,
    name_of,
    number_of,
    once_in,
    one_line,
    percent,
    quote,
    rate_with_interval,
    run_numbers,
    seconds,
    shorten,
    span,
    usd,
    visible,
    without_commands,
)


def test_a_share_is_never_shown_as_a_mark_that_it_is_not() -> None:
    assert [percent(0.89999, 0.9), percent(0.9, 0.9), percent(0.99999), percent(1.0)] == [
        "89.999 %",
        "90 %",
        "99.999 %",
        "100 %",
    ]
    assert percent(1 - 0.05 / 3) == "98.3 %"


def test_equal_means_are_not_told_apart_by_the_last_digits_of_their_floats() -> None:
    assert percent(13 / 14, 1 - 1 / 14) == "92.9 %"
    assert percent(0.9285714285714286, 0.9285714285714285) == "92.9 %"
    assert percent(0.92857, 0.92858) == "92.857 %"


@given(st.text(st.characters()))
def test_visible_text_is_encodable_and_has_no_control_characters(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert all(
        character.isprintable() or character in "\n\t" or ord(character) > 0x9F
        for character in shown
    )


def test_what_acts_is_shown_as_its_escape() -> None:
    assert (
        visible("a\x1b[2J\u202eb\ud800\U0001fffe\r\nc\rd")
        == "a\\x1b[2J\\u202eb\\ud800\\U0001fffe\nc\\x0dd"
    )


def test_ordinary_text_of_any_script_is_left_alone() -> None:
    text = "Zürich, 東京, \u200f\u05e9\u05dc\u05d5\u05dd\u200e, 👩\u200d💻\n\tnext"
    assert visible(text) == text


def test_shortened_text_says_how_much_is_missing() -> None:
    assert shorten("abc", 3) == "abc"
    assert shorten("x" * 1_000_000, 3) == "xxx… (999,997 more characters)"


def test_one_line_is_one_line() -> None:
    assert one_line(" a\n\n b\tc ", 10) == "a b c"
    assert one_line("abcdef", 3) == "ab…"
    assert one_line("a" + "\n" * 1_000_000 + "b", 10) == "a…"
    assert one_line("\x1b" * 10, 10) == "\\x1b\\x1b\\…"


def test_figures_are_bound_to_their_units_and_to_nothing_else() -> None:
    text = "33.8 % of 20 runs in 2 min 5 s, 850 ms, 3 h older: -8.3 points, 5 minutes, 3 % 2, a s"
    kept = "33.8_% of 20 runs in 2_min 5_s, 850_ms, 3_h older: -8.3_points, 5 minutes, 3_% 2, a s"
    assert keep_units(text).replace("\xa0", "_") == kept


def test_commands_of_a_runner_are_broken_without_moving_anything() -> None:
    log = (
        "::error::x\n  ::warning::y ##[error]z std::vector"
        " #\u200b#\ufeff[error] \n\x1b[1m \u200b:\u200b:a"
    )
    broken = (
        ".:error::x\n  .:warning::y # [error]z std::vector"
        " #\u200b \ufeff[error] \n\x1b[1m \u200b.\u200b:a"
    )
    assert without_commands(log) == broken
    assert without_commands("50 %\r::error::x") == "50 %\n.:error::x"


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (None, "unknown"),
        (0, "$0"),
        (12.345, "$12.35"),
        (1234.5, "$1,234.50"),
        (0.25, "$0.250"),
        (0.012, "$0.012"),
        (0.00034, "$0.00034"),
        (0.0000001, "$0.00000010"),
    ],
)
def test_money(amount: float | None, shown: str) -> None:
    assert usd(amount) == shown


@pytest.mark.parametrize(
    ("duration", "shown"),
    [
        (None, "—"),
        (0.0004, "0 ms"),
        (0.85, "850 ms"),
        (0.9999, "1.00 s"),
        (12.34, "12.3 s"),
        (59.99, "1 min 0 s"),
        (125, "2 min 5 s"),
        (7260, "2 h 1 min"),
    ],
)
def test_durations(duration: float | None, shown: str) -> None:
    assert seconds(duration) == shown


def test_a_rate_is_never_rounded_to_all_none_or_its_bar() -> None:
    assert rate_with_interval(0.99996, 0.5, 1.0) == "99.996 % (50 to 100 %)"
    assert rate_with_interval(0.89996, None, None, 0.9) == "89.996 %"
    assert rate_with_interval(None, None, None) == "—"


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ([7], "run 7"),
        ([1, 2], "runs 1 and 2"),
        ([1, 2, 3], "runs 1, 2 and 3"),
        ([1, 2, 3, 4], "runs 1 to 4"),
        ([1, 4, 5, 6, 7, 9], "runs 1, 4 to 7 and 9"),
        (range(1, 1201), "runs 1 to 1200"),
        ([999, 1000, 1001], "runs 999, 1000 and 1001"),
    ],
)
def test_numbers_of_runs_in_a_row_are_not_listed(numbers: Iterable[int], shown: str) -> None:
    assert run_numbers(numbers) == shown


def test_a_span_is_one_figure_where_its_ends_look_the_same() -> None:
    assert span([1.2, 0.5, 0.8], seconds) == "500 ms to 1.20 s"
    assert span([0.5001, 0.5], seconds) == "500 ms"
    assert span([], seconds) == ""


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (1.0, "once in 1"),
        (0.3, "once in 3"),
        (0.05, "once in 20"),
        (1 / 31, "once in 31"),
        (1 / 17_949, "once in 18,000"),
        (1.01e-9, "once in 990,000,000"),
        (1e-16, "less than once in a billion"),
        (5e-324, "less than once in a billion"),
        (0.0, "less than once in a billion"),
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
    assert name_of("a\nb") == "a b"
    assert len(name_of("x" * 500)) == 80
    assert (number_of(1, "run"), number_of(1200, "run")) == ("1 run", "1,200 runs")


@pytest.mark.parametrize(
    "name",
    [
        "\u05e7\u05d5\u05d3 12",
        "refund\u200f",
        "\u0627\u0633\u062a\u0631\u062f\u0627\u062f (refund)",
    ],
)
def test_what_is_written_from_right_to_left_stays_between_marks_of_ours(name: str) -> None:
    """Else a name would show the numbers after it in another order: `15 of 12` for `12: 15 of`."""
    assert name_of(name) == f"\u200e{name}\u200e"


@pytest.mark.parametrize(
    "name",
    [
        "refund",
        "\u822a\u7a7a\u5238 \u9000\u6b3e",
        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\U0001f1e9\U0001f1ea \u2708\ufe0f",
    ],
)
def test_names_in_other_scripts_and_emoji_are_written_as_they_are(name: str) -> None:
    assert name_of(name) == name


@pytest.mark.parametrize("name", ["a\u202eb", "a\x1bb", "a\u2066b", "a\ud800b"])
def test_a_name_that_would_act_is_shown_with_its_escapes(name: str) -> None:
    assert name_of(name) == repr(name)[1:-1]


def test_any_value_is_quoted_on_one_line() -> None:
    assert quote("two\nlines") == r"'two\nlines'"
    assert quote("x" * 300, 10) == "'xxxxxxxxxx…' (300 characters)"
    assert quote({"a": ["  ", 1.5, None]}) == '{"a": ["  ", 1.5, null]}'
    assert quote([0] * 1_000_000, 10) == "[0, 0, 0, …"
