"""Text that others wrote, and figures, as people read them."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_evals.reports.figures import rate_with_interval, run_numbers, seconds, span, usd
from ci_evals.reports.text import bound, one_line, shortened, visible, without_commands


@given(st.text(st.characters()))
def test_visible_text_is_encodable_and_has_no_control_characters(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert all(character.isprintable() or character in "\n\t" or ord(character) > 0x9F for character in shown)


def test_what_acts_is_shown_as_its_escape() -> None:
    assert visible("a\x1b[2J\u202eb\ud800\U0001fffe\r\nc\rd") == "a\\x1b[2J\\u202eb\\ud800\\U0001fffe\nc\\x0dd"


def test_ordinary_text_of_any_script_is_left_alone() -> None:
    text = "Zürich, 東京, \u200f\u05e9\u05dc\u05d5\u05dd\u200e, 👩\u200d💻\n\tnext"
    assert visible(text) == text


def test_shortened_text_says_how_much_is_missing() -> None:
    assert shortened("abc", 3) == "abc"
    assert shortened("x" * 1_000_000, 3) == "xxx… (999,997 more characters)"


def test_one_line_is_one_line() -> None:
    assert one_line(" a\n\n b\tc ", 10) == "a b c"
    assert one_line("abcdef", 3) == "abc…"
    assert one_line("a" + "\n" * 1_000_000 + "b", 10) == "a…"
    assert one_line("\x1b" * 10, 10) == "\\x1b\\x1b\\x…"


def test_figures_are_bound_to_their_units_and_to_nothing_else() -> None:
    text = "33.8 % of 20 runs in 2 min 5 s, 850 ms, 3 h older: -8.3 points, 5 minutes, 3 % 2, a s"
    kept = "33.8_% of 20 runs in 2_min 5_s, 850_ms, 3_h older: -8.3_points, 5 minutes, 3_% 2, a s"
    assert bound(text).replace("\xa0", "_") == kept


def test_commands_of_a_runner_are_broken_without_moving_anything() -> None:
    log = "::error::x\n  ::warning::y ##[error]z std::vector #\u200b#\ufeff[error] \n\x1b[1m \u200b:\u200b:a"
    broken = ".:error::x\n  .:warning::y # [error]z std::vector #\u200b \ufeff[error] \n\x1b[1m \u200b.\u200b:a"
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
