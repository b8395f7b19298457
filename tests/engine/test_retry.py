"""How long a refused or lost call waits for its next attempt."""

import pytest

from ci_evals.engine.retry import CAP_S, LONGEST_RETRY_AFTER_S, delay_s


@pytest.mark.parametrize(("attempt", "most_s"), [(1, 0.5), (2, 1.0), (3, 2.0), (100, CAP_S)])
def test_without_a_word_the_delay_is_drawn_from_a_range_that_doubles(attempt: int, most_s: float) -> None:
    assert delay_s(attempt, None, lambda: 0.0) == 0.0
    assert delay_s(attempt, None, lambda: 1.0) == most_s


def test_what_is_asked_for_is_kept_with_a_little_on_top_and_cut_where_it_is_absurd() -> None:
    assert delay_s(1, 7.0, lambda: 0.0) == 7.0
    assert delay_s(3, 7.0, lambda: 1.0) == 7.1
    assert delay_s(1, 1e9, lambda: 0.0) == LONGEST_RETRY_AFTER_S


@pytest.mark.parametrize("asked_for_s", [0.0, 0.001])
def test_what_is_asked_for_is_not_all_once_it_was_of_no_help(asked_for_s: float) -> None:
    """Else a provider that asks for next to nothing uses up all attempts of a run in a moment."""
    assert delay_s(1, asked_for_s, lambda: 1.0) <= 0.11
    assert delay_s(2, asked_for_s, lambda: 1.0) == 1.0
    assert delay_s(4, asked_for_s, lambda: 1.0) == 4.0
