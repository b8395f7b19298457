"""Reports that were written by schema version 1."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

from factories import STARTED_AT, baseline_of, many, report_of

from ci_evals.gate.compare import Comparison, NoComparison
from ci_evals.gate.outages import find_lost_reports
from ci_evals.model.case import Quarantine, Variant
from ci_evals.model.rules import Gate
from ci_evals.reports.read import read_report
from ci_evals.reports.saved import SavedReport
from ci_evals.reports.summary import Summary, summarize

WRITTEN = Path(__file__).parent / "schema-1.json"
"""What ci-evals wrote of `measured()` then."""


def measured() -> Summary:
    """A report with every kind of change, on a renamed variant, with an outage in its history."""
    steady = many((6, "PPP"))
    here = {
        **steady,
        "refund": "FFF",
        "cancel": "PFF",
        "upgrade": "PPP",
        "edited": "PPP",
        "renamed": "PPP",
        "new": "PPF",
        "down": "EEE",
        "known": "FFF",
    }
    there = {
        **steady,
        "refund": "PPP",
        "cancel": "PPP",
        "upgrade": "FFF",
        "edited": "PPP",
        "old name": "PPP",
        "removed": "PPP",
        "down": "PPP",
        "known": "PPP",
    }
    older = [
        report_of(
            dict.fromkeys(there, "FFF") if day == 2 else there,
            variants=(Variant("agent", "rude"),),
            started_at=STARTED_AT - 86_400 * day,
            suite={"revision": f"{day:040x}"},
        )
        for day in range(1, 9)
    ]
    report = report_of(
        here,
        variants=(Variant("agent", "polite"),),
        confirming={"refund": "FFFFFFF", "cancel": "PPPPPPP"},
        asks={"renamed": "old name", "edited": "What else?"},
        cases={
            "case 1": {"min_pass_rate": 0.5, "tags": ("vital",)},
            "refund": {"critical": True},
            "known": {"quarantine": Quarantine(reason="slow", until=date(2999, 1, 1))},
        },
    )
    gate = Gate(min_pass_rate=0.6, max_error_rate=0.5, tags={"vital": 1.0})
    baseline = find_lost_reports(baseline_of(*older))
    summary = summarize(report, gate, baseline, confirm_runs=7)
    return replace(summary, before={("refund", "agent", "polite"): "Paris"})


def test_a_report_of_schema_1_has_the_same_verdict_and_comparison() -> None:
    expected, summary = measured(), read_report(WRITTEN).summary
    assert summary.verdict == expected.verdict
    assert summary.before == expected.before
    assert isinstance(expected.comparison, Comparison)
    assert isinstance(summary.comparison, Comparison)
    assert set(summary.comparison.counts) == {
        "regressed",
        "suspect",
        "fixed",
        "edited",
        "unchanged",
        "new",
        "removed",
        "not compared",
    }
    assert summary.comparison.variants == expected.comparison.variants
    assert summary.comparison.by_key == expected.comparison.by_key


def test_a_report_of_schema_1_is_the_same_baseline() -> None:
    expected, baseline = SavedReport.of(measured()).baseline, read_report(WRITTEN).baseline
    assert baseline.cells == expected.cells
    assert baseline.reports == expected.reports
    assert baseline.trend == expected.trend
    assert baseline.gate == expected.gate
    assert baseline.source == str(WRITTEN)


def test_the_reason_for_having_no_baseline_is_read_without_its_beginning(tmp_path: Path) -> None:
    document = json.loads(WRITTEN.read_text())
    for cell in document["cells"]:
        cell["comparison"] = None
    document["comparison"] = {"reason": "no baseline: there is no report at main"}
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    assert read_report(path).base == NoComparison("there is no report at main")
