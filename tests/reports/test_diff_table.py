"""A comparison as a table of text."""

import pytest
from factories import STARTED_AT, baseline_of, report_of

from ci_evals.reports import diff_table
from ci_evals.reports.terminal_layout import width_of
from ci_evals.verdict.comparison import compare
from ci_evals.verdict.head import head_cells


@pytest.mark.parametrize("name", ["refund", "\u6771\u4eac", "\u05e9\u05dc\u05d5\u05dd 1"])
def test_columns_stand_below_each_other_in_every_script(name: str) -> None:
    base = report_of({name: "PP", "a longer name": "PP"}, started_at=STARTED_AT - 60)
    table = diff_table.render(compare(head_cells(report_of({name: "PP"}), None), baseline_of(base), confirm_runs=0))
    heading, *_, same, gone = table.split("\n")
    lines = ((heading, "baseline"), (same, "2 of 2"), (gone, "2 of 2"))
    assert len({width_of(line[: line.index(text)]) for line, text in lines}) == 1
