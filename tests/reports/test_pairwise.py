"""Which of two variants is preferred, as text."""

import pytest

from ci_evals.reports.pairwise import Comparison, render_markdown, render_text
from ci_evals.reports.terminal_layout import width_of
from ci_evals.verdict.pairwise import Pair, preference


@pytest.mark.parametrize("name", ["gpt", "\u6771\u4eac", "\u05d0\u05d1"])
def test_numbers_stand_below_each_other_in_every_script(name: str) -> None:
    found = preference([Pair("refund", 1, "first", "second")])
    lines = render_text(Comparison(name, "other", found)).split("\n")[:3]
    assert len({width_of(line[: line.index(" case")]) for line in lines}) == 1


def test_a_name_that_is_read_from_right_to_left_reorders_nothing_on_github() -> None:
    name = "\u05d0\u05d1"
    kept = f"\u200e{name}\u200e"
    text = render_markdown(Comparison("other", name, preference([Pair("refund", 1, "second", "first")] * 2)))
    assert text.startswith(f"## {kept} is preferred in 100 % ")
    assert f"| prefer {kept} | 1 case |" in text
