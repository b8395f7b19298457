"""What a cell's runs took, as a later report compares itself with it."""

from math import nan

import pytest
from factories import report_of

from ci_evals.report import Report
from ci_evals.stats.scores import ScoreSums
from ci_evals.verdict.head import counted_cells, head_cells, per_run_of
from ci_evals.verdict.history import UNMEASURED


@pytest.fixture
def report() -> Report:
    """One cell whose runs cost 1, 2, 4 and 8 dollars, take as many seconds, and tokens by the hundred."""
    report = report_of({"a": "PFPF"})
    columns = report.columns
    for slot, amount in enumerate((1, 2, 4, 8)):
        columns.score[slot] = amount / 8
        columns.cost_usd[slot] = columns.latency_s[slot] = amount
        columns.input_tokens[slot], columns.output_tokens[slot] = 90 * amount, 10 * amount
    return report


def test_a_run_comes_to_means_and_a_median_and_scores_are_summed_with_their_squares(
    report: Report,
) -> None:
    scores, cost, tokens, latency_s = per_run_of(report, 0)
    assert (scores, cost, tokens) == (ScoreSums(4, 15 / 8, 85 / 64), 15 / 4, 1500 / 4)
    assert latency_s == 3.0, "between the two in the middle"


@pytest.mark.parametrize("column", ["status", "repeated"])
def test_a_run_without_a_grade_and_one_that_repeats_a_record_take_no_part(report: Report, column: str) -> None:
    getattr(report.columns, column)[3] = {"status": 3, "repeated": 1}[column]
    scores, cost, tokens, latency_s = per_run_of(report, 0)
    assert (scores, cost, tokens) == (ScoreSums(3, 7 / 8, 21 / 64), 7 / 3, 700 / 3)
    assert latency_s == 2.0


def test_what_a_run_does_not_know_is_left_out_of_that_figure_alone(report: Report) -> None:
    report.columns.score[0] = report.columns.cost_usd[1] = nan
    report.columns.input_tokens[2] = report.columns.output_tokens[2] = 0
    scores, cost, tokens, latency_s = per_run_of(report, 0)
    assert (scores, cost, tokens) == (ScoreSums(3, 14 / 8, 84 / 64), 13 / 3, 1100 / 3)
    assert latency_s == 3.0


def test_a_cell_without_graded_runs_comes_to_nothing() -> None:
    assert per_run_of(report_of({"a": "EE"}), 0) == UNMEASURED


def test_counted_cells_are_those_of_the_whole_suite_without_what_their_runs_came_to(report: Report) -> None:
    assert counted_cells(report, None) == [cell._replace(per_run=UNMEASURED) for cell in head_cells(report, None)]
