"""The time that is counted of what waited for a place to run."""

import pytest

from ci_evals.engine.calls import Stopwatch, discount


def test_waiting_is_left_out_of_everything_that_it_is_a_part_of() -> None:
    with Stopwatch() as whole:
        with Stopwatch() as part:
            discount(-1000.0)
        with Stopwatch() as other:
            discount(-10.0)
    discount(5.0)
    assert other.elapsed_s == pytest.approx(10, abs=5)
    assert part.elapsed_s == pytest.approx(1000, abs=5)
    assert whole.elapsed_s == pytest.approx(1010, abs=5)


def test_no_time_is_below_nothing() -> None:
    with Stopwatch() as watch:
        discount(60.0)
    assert watch.elapsed_s == 0
