"""pass@k and pass^k of variants, where cases run more than once."""

import pytest
from factories import report_of

from ci_evals.model import Variant
from ci_evals.reports import terminal
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import variant_reports
from ci_evals.verdict.gate import decide


def summary_of(**outcomes: str) -> Summary:
    """Each variant with one case for every word of its outcomes."""
    rows = zip(*(words.split() for words in outcomes.values()), strict=True)
    variants = [Variant(name) for name in outcomes]
    report = report_of({f"case {number}": list(row) for number, row in enumerate(rows)}, variants=variants)
    return Summary(report, decide(report, None), None)


def test_any_and_all_of_the_runs_are_means_over_cases() -> None:
    good, bad = variant_reports(summary_of(good="PPP PFF", bad="FFF FFF"))
    assert (good.draws, good.pass_at_k, good.pass_hat_k) == (3, 1.0, 0.5)
    assert (bad.draws, bad.pass_at_k, bad.pass_hat_k) == (3, 0.0, 0.0)


def test_k_is_what_every_graded_case_has() -> None:
    (only,) = variant_reports(summary_of(only="PFE PFF EEE"))
    assert only.draws == 2
    assert only.pass_at_k == pytest.approx((1 + 2 / 3) / 2)
    assert only.pass_hat_k == 0


def test_single_runs_say_nothing_of_repeats() -> None:
    (only,) = variant_reports(summary_of(only="PE FF"))
    assert (only.draws, only.pass_at_k, only.pass_hat_k) == (None, None, None)
    assert "pass@" not in terminal.render(summary_of(only="PE FF"), width=80, color=False)


def test_the_table_marks_the_best() -> None:
    table = terminal.render(summary_of(a="PPP PFF", b="FFF PFF"), width=80, color=False)
    line = next(line for line in table.splitlines() if line.startswith("pass@3"))
    assert line.split() == ["pass@3", "(any)", "100", "%", "▲", "50", "%", "▼"]
