"""Percentages as people read them."""

from ci_evals.percentage import percent


def test_a_share_is_never_shown_as_a_mark_that_it_is_not() -> None:
    assert [percent(0.89999, 0.9), percent(0.9, 0.9), percent(0.99999), percent(1.0)] == [
        "89.999 %",
        "90 %",
        "99.999 %",
        "100 %",
    ]
    assert percent(1 - 0.05 / 3) == "98.3 %"
