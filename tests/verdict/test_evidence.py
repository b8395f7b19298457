"""Never green without evidence."""

import pytest
from factories import many, report_of
from hypothesis import given
from hypothesis import strategies as st

from ci_evals.report import Report
from ci_evals.rules import Gate
from ci_evals.verdict.gate import decide


def test_nothing_graded_is_no_verdict() -> None:
    assert decide(report_of({}), None).reason == "no run was graded"
    for gate in (None, Gate(min_pass_rate=0.0, max_error_rate=1.0)):
        verdict = decide(report_of({"a": "EEE"}), gate)
        assert (verdict.status, verdict.reason) == ("error", "all 3 runs errored: 429: slow down")
        assert [(s.status, s.rate, s.lower, s.upper) for s in verdict.scopes] == [("error", None, None, None)]


def test_too_many_errored_runs_are_no_verdict() -> None:
    cells = many((26, "PPP"), (14, "PPE"))
    for gate in (None, Gate(min_pass_rate=0.9)):
        verdict = decide(report_of(cells), gate)
        assert verdict.status == "error"
        found = "14 of 120 runs errored (11.7 %), more than the 5 % that the gate allows"
        assert verdict.reason == f"{found}: 429: slow down"
    assert decide(report_of(cells), Gate(min_pass_rate=0.9, max_error_rate=0.2)).status == "pass"


def test_as_many_errored_runs_as_allowed_are_fine() -> None:
    for cases, limit in ((20, 0.05), (10, 0.1), (100, 0.07)):
        errored = round(cases * limit)
        cells = many((cases - errored, "P"), (errored, "E"))
        assert decide(report_of(cells), Gate(min_pass_rate=0.9, max_error_rate=limit)).status == "pass"


def test_a_share_of_errors_just_above_the_limit_is_not_shown_as_the_limit() -> None:
    verdict = decide(report_of({"a": "P" * 94_999 + "E" * 5_001}), None)
    assert verdict.reason.startswith("5,001 of 100,000 runs errored (5.001 %), more than the 5 %")


def test_a_bar_without_a_graded_run_is_no_verdict() -> None:
    cells = many((99, "P")) | {"refund": "E"}
    verdict = decide(report_of(cells, cases={"refund": {"tags": ("critical",)}}), Gate(tags={"critical": 0.5}))
    assert (verdict.status, verdict.reason) == ("error", "tag critical: no run was graded")
    own = decide(report_of(cells, cases={"refund": {"min_pass_rate": 0.5}}), Gate(min_pass_rate=0.9))
    assert (own.status, own.reason) == ("error", "case refund: no run was graded")


@pytest.mark.parametrize(
    ("gate", "name"),
    [(Gate(tags={"critcal": 1.0}), "tag critcal"), (Gate(providers={"slow": 0.9}), "provider slow")],
)
def test_a_bar_on_what_does_not_exist_is_no_verdict(gate: Gate, name: str) -> None:
    verdict = decide(report_of({"a": "PPP"}), gate)
    assert (verdict.status, verdict.reason) == ("error", f"{name}: it has a bar, but nothing like it was run")


def test_a_run_that_was_stopped_early_never_passes() -> None:
    verdict = decide(report_of(many((4, "P.."), (36, "..."))), Gate(min_pass_rate=0.9))
    assert verdict.status == "error"
    assert verdict.reason == "too few runs for a verdict; stopped after 4 of 120 runs"
    verdict = decide(report_of(many((1200, "P.."))), Gate(min_pass_rate=0.9))
    assert verdict.reason == "too few runs for a verdict; stopped after 1,200 of 3,600 runs"


def test_a_run_that_was_stopped_early_may_fail() -> None:
    verdict = decide(report_of(many((40, "F.."))), Gate(min_pass_rate=0.9))
    assert verdict.status == "fail"
    assert verdict.reason.endswith("; stopped after 40 of 120 runs")


def test_a_few_missing_runs_do_not_hide_the_verdict() -> None:
    verdict = decide(report_of(many((38, "PPP"), (2, "PP."))), Gate(min_pass_rate=0.9))
    assert verdict.status == "pass"
    assert verdict.reason == "pass rate 100 % meets the bar of 90 %; stopped after 118 of 120 runs"


def test_runs_that_never_happened_do_not_water_down_the_share_of_errors() -> None:
    verdict = decide(report_of({"a": "P" * 9 + "E" + "." * 90}), Gate(min_pass_rate=0.5))
    found = "1 of 10 runs errored (10 %), more than the 5 % that the gate allows: 429: slow down"
    assert verdict.reason == f"{found}; stopped after 10 of 100 runs"


@given(st.lists(st.text("PFE.", min_size=1, max_size=4), max_size=12), st.floats(0, 1), st.booleans())
def test_no_report_passes_that_has_nothing_to_show(outcomes: list[str], bar: float, prove: bool) -> None:
    report: Report = report_of(many(*((1, outcome) for outcome in outcomes)))
    verdict = decide(report, Gate(min_pass_rate=bar, prove=prove))
    if verdict.status in {"pass", "borderline"}:
        assert report.totals.graded
        assert report.errored <= 0.05 * (report.totals.graded + report.errored)
    if verdict.status == "pass":
        assert report.pass_rate is not None
        assert report.pass_rate >= bar - 1e-12
