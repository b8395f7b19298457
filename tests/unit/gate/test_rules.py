"""The rules of the gate on a comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from factories import AGENT, STARTED_AT, Outcome, baseline_of, many, report_of
from sides import base_of, compared, head_of

from ci_evals.gate.baseline import (
    UNMEASURED,
    Baseline,
    PerRun,
    ReportRef,
    TrendPoint,
    TrendVariant,
    reported_cells,
)
from ci_evals.gate.compare import Comparison, NoComparison, compare
from ci_evals.gate.rules import best_stable_rate, broken_ratchets, rule_verdicts, ungated_increases
from ci_evals.gate.verdict import decide, exit_code
from ci_evals.gate.wording.comparisons import rate_change
from ci_evals.model.case import Variant
from ci_evals.model.report import SuiteReport
from ci_evals.model.rules import Gate, TagRule
from ci_evals.reports.summary import summarize

REPORT = report_of(many((3, "PPP")))


def regressed(*cases: str, **changes: Any) -> Comparison:
    """A hundred cases of which these fell."""
    fine = {f"ok {n}": (3, 3) for n in range(100 - len(cases))}
    fell = head_of(dict.fromkeys(cases, (0, 3)), dict.fromkeys(cases, (0, 7)), **changes)
    return compared([*head_of(fine), *fell], base_of(dict.fromkeys([*fine, *cases], (30, 30))))


def found(
    comparison: Comparison | NoComparison | None, report: SuiteReport = REPORT, **gate: Any
) -> list[tuple[str, str]]:
    return [(each.rule, each.status) for each in rule_verdicts(report, Gate(**gate), comparison)]


@pytest.mark.parametrize(
    ("cases", "critical", "gate", "rules"),
    [
        ((), False, {}, []),
        (("a",), False, {}, [("regressions", "fail")]),
        (("a",), False, {"max_regressions": 1}, []),
        (("a", "b"), False, {"max_regressions": 1}, [("regressions", "fail")]),
        (("a",), False, {"on_regression": "warn"}, [("regressions", "borderline")]),
        (("a",), True, {"max_regressions": 5, "on_regression": "warn"}, [("critical", "fail")]),
    ],
)
def test_what_is_red(
    cases: tuple[str, ...], critical: bool, gate: dict[str, Any], rules: list[tuple[str, str]]
) -> None:
    assert found(regressed(*cases, critical=critical), **gate) == rules


@pytest.mark.parametrize(
    ("confidence", "alpha"), [(0.95, 0.05), (0.9, 0.1), (0.99, 0.01), (0.999, 0.001)]
)
def test_what_confidence_leaves_is_a_round_number(confidence: float, alpha: float) -> None:
    assert Gate(confidence=confidence).alpha == alpha


def test_more_regressions_than_are_allowed_are_told_with_the_limit() -> None:
    [rule] = rule_verdicts(REPORT, Gate(max_regressions=1), regressed("a", "b", "c"))
    assert rule.sentence.endswith("cases; 2 more cases regressed, and the gate allows 1")


def test_the_variant_that_a_regression_is_named_of_is_no_further_reason() -> None:
    report = report_of({"a": "FFF", "b": "FFF"})
    verdict = decide(report, None, regressed("a", "b"))
    assert [rule.rule for rule in verdict.rules] == ["regressions"]
    assert " cases; 1 more case regressed; also, 6 of 6 runs failed" in verdict.reason
    assert "more reason" not in verdict.reason


def test_another_rule_is_a_further_reason_and_comes_last() -> None:
    critical = regressed("a", "b", critical=True)
    verdict = decide(report_of({"a": "FFF"}), None, critical)
    assert verdict.reason.endswith(
        "; also, 3 of 3 runs failed, and every run must pass; and 1 more reason"
    )


@pytest.mark.parametrize("comparison", [None, NoComparison("gone")])
def test_a_missing_baseline_matters_only_where_it_is_required(
    comparison: NoComparison | None,
) -> None:
    assert found(comparison) == []
    assert found(comparison, require_baseline=True) == [("baseline", "error")]


@pytest.mark.parametrize(
    ("required", "status"), [(False, "borderline"), ("expected", "error"), (True, "error")]
)
def test_a_comparison_that_was_expected_is_missed(required: bool | str, status: str) -> None:
    lack = NoComparison("gone", expected=True)
    assert found(lack, require_baseline=required) == [("baseline", status)]
    assert found(NoComparison("gone"), require_baseline="expected") == []
    assert found(None, require_baseline="expected") == []


def test_a_missed_bar_needs_no_baseline() -> None:
    gate = Gate(require_baseline=True)
    assert decide(REPORT, gate).status == "error"
    assert decide(report_of(many((3, "FFF"))), gate).status == "fail"


def test_a_regression_is_red_even_where_a_bar_has_no_graded_run() -> None:
    report = report_of(many((60, "P")) | {"slow": "E"}, cases={"slow": {"tags": ("slow",)}})
    gate = Gate(min_pass_rate=0.5, tags={"slow": 0.5})
    assert decide(report, gate).status == "error"
    verdict = decide(report, gate, regressed("a"))
    assert verdict.status == "fail"
    assert "tag slow: no run was graded" in verdict.reason


def test_a_tag_may_be_critical_without_a_bar() -> None:
    gate = Gate(
        tags={"safety": TagRule(critical=True), "billing": TagRule(min_pass_rate=0.9), "other": 0.5}
    )
    assert [tag for tag in gate.tags if gate.marks_critical([tag])] == ["safety"]
    assert dict(gate.tag_bars) == {"billing": 0.9, "other": 0.5}


def slower(*ratios: float, medians_s: Sequence[float] = (1.0, 1.01, 0.99)) -> Comparison:
    """A case for each ratio of its median latency to that of the base, which is a second."""
    cases = {f"case {n}": (3, 3) for n in range(len(ratios))}
    head = [
        replace(each, per_run=UNMEASURED._replace(latency_median_s=ratio))
        for each, ratio in zip(head_of(cases), ratios, strict=True)
    ]
    return compared(head, timed(base_of(cases), 1.0, medians_s))


def timed(base: Baseline, median_s: float, medians_s: Sequence[float]) -> Baseline:
    """A baseline with the median latency of every cell, and those of whole reports."""
    per_runs = {base.reports[0].id: UNMEASURED._replace(latency_median_s=median_s)}
    trend = tuple(
        TrendPoint(
            ReportRef(str(number), -number),
            (TrendVariant("agent", None, 1.0, 9.0, None, each, each, ""),),
        )
        for number, each in enumerate(medians_s)
    )
    cells = {key: replace(cell, per_runs=per_runs) for key, cell in base.cells.items()}
    return replace(base, cells=cells, trend=trend)


def took(median_s: float, cases: int = 3) -> SuiteReport:
    return report_of(many((cases, "PPP")), edit=lambda result: replace(result, latency_s=median_s))


@pytest.mark.parametrize(
    ("ratios", "gate", "rules"),
    [
        ((2.0, 2.0, 2.0), {"max_latency_increase": 1.5}, [("latency", "fail")]),
        ((2.0, 2.0, 2.0), {"max_latency_increase": 2.0}, []),
        ((2.0, 2.0, 2.0), {}, []),
        ((0.5, 5.0, 0.5), {"max_latency_increase": 1.5}, []),
        ((9.0,), {"max_latency_increase": 1.5}, [("latency", "borderline")]),
        ((9.0,), {"max_latency_increase": 1.5, "require_baseline": True}, [("latency", "error")]),
        ((2.0, 2.0, 2.0), {"max_cost_increase": 1.5}, [("cost", "borderline")]),
        (
            (2.0, 2.0, 2.0),
            {"max_cost_increase": 1.5, "require_baseline": True},
            [("cost", "error")],
        ),
    ],
    ids=[
        "slower",
        "as allowed",
        "not asked",
        "noise",
        "one case",
        "required",
        "cost unknown",
        "cost required",
    ],
)
def test_more_latency_is_red_only_if_asked_and_sure(
    ratios: tuple[float, ...], gate: dict[str, Any], rules: list[tuple[str, str]]
) -> None:
    assert found(slower(*ratios), took(2.0), **gate) == rules


def test_more_latency_is_told_with_its_bound_and_the_limit() -> None:
    [rule] = rule_verdicts(took(2.0), Gate(max_latency_increase=1.5), slower(2.0, 2.0, 2.0))
    assert rule.sentence == (
        "latency is 2.00 times main's (at least 2.00 times, 95 % confidence), and the gate"
        " allows 1.5 times; the last 3 reports of main took 990 ms to 1.01 s"
    )


@pytest.mark.parametrize(
    ("medians_s", "rules"),
    [
        pytest.param((1.0, 1.5, 1.2), [("latency", "fail")], id="outside"),
        pytest.param((1.0, 1.9, 1.2), [], id="inside: slow hours are usual"),
        pytest.param((1.0, 1.1), [], id="too few reports: shown, not gated"),
    ],
)
def test_more_latency_is_red_only_outside_the_spread_of_the_bases_last_reports(
    medians_s: tuple[float, ...], rules: list[tuple[str, str]]
) -> None:
    comparison = slower(2.0, 2.0, 2.0, medians_s=medians_s)
    assert found(comparison, took(2.0), max_latency_increase=1.5, require_baseline=True) == rules


def test_that_slow_hours_are_usual_is_said() -> None:
    comparison, gate = (
        slower(2.0, 2.0, 2.0, medians_s=(1.0, 1.9, 1.2)),
        Gate(max_latency_increase=1.5),
    )
    [sentence] = ungated_increases(took(2.0), comparison, gate)
    assert sentence.endswith("; not gated: the last 3 reports of main took 1.00 s to 1.90 s")
    assert not list(ungated_increases(took(2.0), slower(2.0, 2.0, 2.0), gate))
    assert not list(ungated_increases(took(2.0), comparison, Gate()))


def test_with_few_reports_more_latency_is_shown_and_does_not_block() -> None:
    gate = Gate(max_latency_increase=1.5, on_borderline="fail")
    comparison = slower(2.0, 2.0, 2.0, medians_s=[1.0])
    [sentence] = ungated_increases(took(2.0), comparison, gate)
    assert sentence.endswith("; not gated: that needs 3 base reports, there is 1")
    verdict = decide(took(2.0), gate, comparison)
    assert (verdict.status, verdict.rules, exit_code(verdict, gate)) == ("pass", (), 0)


@pytest.mark.parametrize(("was_s", "rules"), [(0.0001, []), (0.001, [("latency", "fail")])])
def test_an_increase_of_a_latency_that_rounds_to_0_ms_on_both_sides_is_none(
    was_s: float, rules: list[tuple[str, str]]
) -> None:
    cells = {f"case {number}": (3, 3) for number in range(5)}
    head = [replace(cell, per_run=PerRun(latency_median_s=4 * was_s)) for cell in head_of(cells)]
    comparison = compared(head, timed(base_of(cells), was_s, [was_s] * 3))
    report = report_of(many((3, "PPP")), edit=lambda result: replace(result, latency_s=4 * was_s))
    gate = Gate(max_latency_increase=1.5)
    assert [(each.rule, each.status) for each in rule_verdicts(report, gate, comparison)] == rules
    assert (comparison.variants[0].differences.latency is None) == (not rules)


# Missing evidence.


@pytest.mark.parametrize(
    ("usd", "words"), [(None, "cost is unknown, so max"), (0.1, "cost on main is unknown or 0, so")]
)
def test_a_limit_of_a_cost_that_is_not_known_is_said_not_to_be_checked(
    usd: float | None, words: str
) -> None:
    cases = many((3, "PPP"))
    base = report_of(
        cases, started_at=STARTED_AT - 60, edit=lambda result: replace(result, cost_usd=0.0)
    )
    report = report_of(cases, edit=lambda result: replace(result, cost_usd=usd))
    summary = summarize(report, Gate(max_cost_increase=1.1), baseline_of(base))
    assert summary.verdict.status == "borderline"
    assert words in summary.verdict.reason
    assert summary.verdict.reason.endswith("so max_cost_increase: 1.1 was not checked")
    assert exit_code(summary.verdict, summary.gate) == 0
    assert exit_code(summary.verdict, summary.gate, "borderline") == 1


@pytest.mark.parametrize(
    ("refund", "confirming", "status"),
    [("FFF", "FFFFFFF", "fail"), ("FFE", "FFFFFFE", "fail"), ("FEE", "FEEEEEE", "error")],
)
def test_a_regression_is_red_if_it_is_one_even_if_every_errored_run_had_passed(
    refund: str, confirming: str, status: str
) -> None:
    cases = many((3, "PPP")) | {"refund": "P" * 30}
    base = baseline_of(report_of(cases, started_at=STARTED_AT - 60))
    report = report_of(
        many((2, "PPP"), (1, "PEE")) | {"refund": refund},
        cases={"refund": {"critical": True}},
        confirming={"refund": confirming},
    )
    verdict = summarize(report, Gate(min_pass_rate=0.1), base, confirm_runs=3).verdict
    assert verdict.status == status
    assert "more than the 5 % that the gate allows" in verdict.reason
    if status == "fail":
        assert verdict.reason.startswith("critical: refund: 30 of 30 on main, 0 of ")


@pytest.mark.parametrize("critical", [{"critical": True}, {"tags": ("core",)}])
def test_a_critical_case_without_a_graded_run_is_no_verdict(critical: dict[str, Any]) -> None:
    gate = Gate(min_pass_rate=0.5, max_error_rate=0.5, tags={"core": TagRule(critical=True)})
    report = report_of(many((9, "PPP")) | {"refund": "EEE"}, cases={"refund": critical})
    verdict = decide(report, gate)
    assert (verdict.status, verdict.reason) == (
        "error",
        "no run of the critical case refund was graded",
    )
    fell = report_of(many((9, "FFF")) | {"refund": "EEE"}, cases={"refund": critical})
    assert decide(fell, gate).status == "fail", "what is sure needs no further evidence"


def test_a_critical_case_without_a_graded_run_is_no_reason_beside_an_outage() -> None:
    verdict = decide(report_of({"refund": "EEE"}, cases={"refund": {"critical": True}}), None)
    assert verdict.reason == "all 3 runs errored: 429: slow down"


@pytest.mark.parametrize(
    ("changed", "status"), [(2, "pass"), (3, "borderline"), (10, "borderline")]
)
def test_the_headline_says_how_many_cases_of_the_base_were_not_compared(
    changed: int, status: str
) -> None:
    cases = many((10, "PPP"))
    base = baseline_of(report_of(cases, started_at=STARTED_AT - 60))
    asks = {f"case {number}": "another question" for number in range(1, changed + 1)}
    report = report_of(cases, asks=asks)
    assert summarize(report, None, base).verdict.status == status
    if changed > 2:
        assert (
            f"{changed} of 10 cases of main were not compared: they were edited"
            in summarize(report, None, base).verdict.reason
        )
        assert summarize(report, Gate(require_baseline=True), base).verdict.status == "error"


def test_with_several_variants_cells_are_counted_that_were_not_compared() -> None:
    variants = (AGENT, Variant("other"))
    base = baseline_of(report_of(many((10, "PPP")), variants=variants, started_at=STARTED_AT - 60))
    asks = {f"case {number}": "another question" for number in range(1, 6)}
    reason = summarize(
        report_of(many((10, "PPP")), variants=variants, asks=asks), None, base
    ).verdict.reason
    assert "10 of 20 cells of main were not compared: they were edited" in reason


def test_the_only_case_that_was_not_compared_is_not_counted() -> None:
    base = baseline_of(report_of({"refund": "PPP"}, started_at=STARTED_AT - 60))
    report = report_of({"refund": "EEE", "new": "PPP"})
    reason = summarize(report, Gate(max_error_rate=1), base).verdict.reason
    assert reason == "not checked: refund; and 1 more reason"


def test_cases_of_other_graders_are_said_to_be_judged_by_them() -> None:
    base = base_of({f"case {number}": (3, 3) for number in range(40)})
    regraded = {
        key: replace(cell, fingerprint=f"{cell.fingerprint}.strict")
        for key, cell in base.cells.items()
    }
    head = [
        replace(cell, fingerprint=f"{cell.fingerprint}.{'strict' if not number else 'lax'}")
        for number, cell in enumerate(head_of({f"case {number}": (3, 3) for number in range(40)}))
    ]
    comparison = compared(head, replace(base, cells=regraded))
    [rule] = rule_verdicts(REPORT, Gate(), comparison)
    assert (
        rule.sentence
        == "39 of 40 cases of main were not compared: they were judged by other graders"
    )
    assert rate_change(comparison, comparison.variants[0]) == "1 of 40 compared", (
        "that it is the same tells little"
    )


def test_a_regression_among_few_compared_cases_is_red_all_the_same() -> None:
    base = baseline_of(
        *(report_of(many((10, "PPP")), started_at=STARTED_AT - 60 * n) for n in range(1, 11))
    )
    gone = {f"case {number}": "EEE" for number in range(2, 6)}
    report = report_of(many((10, "PPP")) | gone | {"case 1": "FFF"}, confirming={"case 1": "F" * 7})
    gate = Gate(min_pass_rate=0.5, max_error_rate=0.9, require_baseline=True)
    summary = summarize(report, gate, base, confirm_runs=3)
    assert summary.verdict.status == "fail"
    assert summary.verdict.reason.startswith("case 1: 30 of 30 on main, 0 of 10 here")
    assert "4 of 10 cases of main were not compared: they were not graded here" in [
        rule.sentence for rule in summary.verdict.rules
    ]


# The best rate that was held for good.


GOOD, BAD = many((40, "PPP")), many((30, "PPP"), (10, "FFF"))


def rated(rate: float | None, n_eff: float = 120) -> TrendVariant:
    return TrendVariant("agent", None, rate, n_eff, None, None, None, "")


def test_a_rate_is_held_when_three_reports_in_a_row_had_it() -> None:
    assert best_stable_rate([rated(1.0)] * 2, 0.95) is None
    assert best_stable_rate([rated(1.0), None, rated(1.0), rated(None)], 0.95) is None
    held = best_stable_rate([rated(0.5)] * 3 + [rated(1.0)] * 3, 0.95)
    assert held == pytest.approx((0.05 / 2) ** (1 / 360))


def told(
    head: Mapping[str, Outcome], base: Mapping[str, Outcome], gate: Gate, **names: str
) -> list[str]:
    """What is said of a report after three of the base branch, all of one variant."""
    here, there = (Variant(names.get(side, "agent")) for side in ("here", "there"))
    older = [
        report_of(base, variants=[there], started_at=STARTED_AT - number) for number in (1, 2, 3)
    ]
    report = report_of(head, variants=[here])
    comparison = compare(reported_cells(report, gate), baseline_of(*older), confirm_runs=0)
    return [rule.sentence for rule in broken_ratchets(report, gate, comparison)]


def test_a_fall_below_it_is_told_only_if_asked_for() -> None:
    [text] = told(BAD, GOOD, Gate(ratchet=True))
    assert text.startswith("pass rate 75 % (at most ")
    assert text.endswith(" that it has held before")
    assert told(BAD, GOOD, Gate()) == []
    assert told(GOOD, GOOD, Gate(ratchet=True)) == []


def test_a_variant_of_another_name_is_held_to_what_it_is_compared_with() -> None:
    [text] = told(BAD, GOOD, Gate(ratchet=True), here="agent 2", there="agent 1")
    assert text.startswith("pass rate 75 % (at most ")
    assert text.endswith(" that agent 1 has held before")


def test_reports_of_other_cases_do_not_count() -> None:
    assert told(BAD, many((3, "PPP")), Gate(ratchet=True)) == []
