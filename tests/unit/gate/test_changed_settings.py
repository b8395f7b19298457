"""Which settings of a change are weaker than main's, and how often main runs a case."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest
from factories import STARTED_AT, baseline_of, report_of

from ci_evals.gate.changed_settings import compare_settings, runs_of_main
from ci_evals.gate.wording.settings import changed_settings_sentence
from ci_evals.model.rules import Budget, Gate, RunBudget, TagRule
from ci_evals.model.settings import CaseSettings, ProviderSettings, SuiteSettings
from ci_evals.reports.findings import findings
from ci_evals.reports.summary import summarize

NO_GATE = Gate()


def settings(
    cases: Mapping[str, CaseSettings] = {},
    providers: Mapping[str, ProviderSettings] = {},
    gate: Gate = NO_GATE,
    **numbers: Any,
) -> SuiteSettings:
    return SuiteSettings(gate=gate, providers=providers, cases=cases, **numbers)


def case(question: str = "q", **values: Any) -> CaseSettings:
    return CaseSettings(fingerprint=f"{question}.j", **values)


def is_weaker(here: SuiteSettings, main: SuiteSettings) -> bool:
    """Whether the one setting that differs is weaker."""
    (change,) = compare_settings("main", here, main).changes
    return change.weaker


@pytest.mark.parametrize(
    ("here", "main", "weaker"),
    [
        ({"min_pass_rate": 0.8}, {"min_pass_rate": 0.9}, True),
        ({"min_pass_rate": 0.9}, {"min_pass_rate": 0.8}, False),
        ({"min_pass_rate": 0.9}, {}, True),
        ({}, {"min_pass_rate": 0.9}, False),
        ({"tags": {"a": 0.9}}, {}, True),
        ({"tags": {"a": 0.5, "b": 0.5}}, {"tags": {"b": 0.5}}, False),
        ({"tags": {"b": 0.5}}, {"tags": {"a": 0.5, "b": 0.5}}, True),
        ({"tags": {"a": TagRule(min_pass_rate=0.5)}}, {"tags": {"a": 0.6}}, True),
        ({}, {"tags": {"a.b": TagRule(critical=True)}}, True),
        ({"tags": {"a": TagRule(critical=True)}}, {}, False),
        ({"providers": {"a": 0.5}}, {"providers": {"a": 0.6}}, True),
        ({"metrics": {"f1": 0.7}}, {"metrics": {"f1": 0.6}}, False),
        ({"min_case_pass_rate": 0.5}, {}, True),
        ({"confidence": 0.99}, {}, True),
        ({"confidence": 0.9}, {}, False),
        ({"max_error_rate": 0.2}, {}, True),
        ({"max_regressions": 1}, {}, True),
        ({"max_cost_increase": 1.5}, {"max_cost_increase": 1.2}, True),
        ({}, {"max_latency_increase": 1.2}, True),
        ({"max_latency_increase": 1.2}, {}, False),
        ({"on_regression": "net"}, {}, True),
        ({"on_regression": "warn"}, {"on_regression": "net"}, True),
        ({}, {"on_regression": "net"}, False),
        ({"on_borderline": "fail"}, {}, False),
        ({"on_unchecked": "warn"}, {}, True),
        ({"require_baseline": "expected"}, {"require_baseline": True}, True),
        ({"require_baseline": "expected"}, {}, False),
        ({}, {"prove": True}, True),
        ({}, {"per_variant": True}, True),
        ({"drift_since": "2026-11-01"}, {}, False),
    ],
)
def test_rules_of_the_gate(here: dict[str, Any], main: dict[str, Any], weaker: bool) -> None:
    assert is_weaker(settings(gate=Gate(**here)), settings(gate=Gate(**main))) == weaker


def test_the_bar_of_a_tag_is_one_rule_in_both_forms() -> None:
    short, long = Gate(tags={"a": 0.5}), Gate(tags={"a": TagRule(min_pass_rate=0.5)})
    assert compare_settings("main", settings(gate=short), settings(gate=long)).changes == ()


OTHER_VALUES: Mapping[type, Mapping[str, Any]] = {
    Gate: {
        "min_pass_rate": 0.5,
        "confidence": 0.9,
        "on_borderline": "fail",
        "prove": True,
        "max_error_rate": 0.2,
        "min_case_pass_rate": 0.5,
        "per_variant": True,
        "tags": {"a": 0.5},
        "providers": {"a": 0.5},
        "metrics": {"a": 0.5},
        "max_budget_violations": 3,
        "require_usage": True,
        "max_regressions": 3,
        "on_regression": "warn",
        "require_baseline": True,
        "on_unchecked": "warn",
        "drift_since": "2026-11-01",
        "ratchet": True,
        "max_cost_increase": 1.5,
        "max_latency_increase": 1.5,
    },
    TagRule: {"min_pass_rate": 0.5, "critical": True},
    Budget: {
        "max_cost_usd": 1.0,
        "max_tokens": 1000,
        "max_duration_s": 60.0,
        "per_run": RunBudget(max_tokens=10),
    },
    RunBudget: {"max_cost_usd": 1.0, "max_tokens": 1000, "max_duration_s": 60.0},
}
"""For each field of the rules a value that is not its default."""

NEITHER = {"drift_since"}
"""The rules that make a suite neither more nor less strict."""

FIELDS = [(kind, each.name) for kind in OTHER_VALUES for each in fields(kind)]


@pytest.mark.parametrize(("kind", "name"), FIELDS)
def test_no_field_of_the_rules_is_forgotten(kind: type, name: str) -> None:
    rule = kind(**{name: OTHER_VALUES[kind][name]})
    usual, changed = settings(budget=Budget()), settings()
    match rule:
        case Gate():
            changed = replace(usual, gate=rule)
        case TagRule():
            changed = replace(usual, gate=Gate(tags={"safety": rule}))
        case RunBudget():
            changed = replace(usual, budget=Budget(per_run=rule))
        case _:
            changed = replace(usual, budget=rule)
    tightened, loosened = (
        compare_settings("main", here, main) for here, main in ((changed, usual), (usual, changed))
    )
    assert name in changed_settings_sentence(tightened)
    assert name in changed_settings_sentence(loosened)
    weaker = [bool(each.weaker) for each in (tightened, loosened)]
    assert weaker.count(True) == (name not in NEITHER), "one of the two is less strict"


GATE_FIELDS = [(kind, name) for kind, name in FIELDS if kind in (Gate, TagRule)]


@pytest.mark.parametrize(("kind", "name"), GATE_FIELDS)
def test_a_stored_report_tells_each_rule_that_has_changed(kind: type, name: str) -> None:
    rule = kind(**{name: OTHER_VALUES[kind][name]})
    gate = rule if isinstance(rule, Gate) else Gate(tags={"safety": rule})
    report = report_of({"a": "PPP"}, started_at=STARTED_AT - 60)
    base = replace(baseline_of(report), gate=Gate())
    summary = summarize(report_of({"a": "PPP"}), gate, base)
    [note] = [each.text for each in findings(summary).notes if each.label == "Gate changed"]
    assert name in note
    assert note.endswith(("on main", "not set on main"))


@pytest.mark.parametrize(
    ("here", "main", "weaker"),
    [
        ("mock", "python", True),
        ("mock", "openai", True),
        ("anthropic", "openai", False),
        ("openai", "mock", False),
        ("python", "mock", False),
        ("python", "openai", True),
        ("openai", "python", True),
        ("http", "python", True),
    ],
)
def test_kinds_of_providers(here: str, main: str, weaker: bool) -> None:
    sides = []
    for kind in (here, main):
        provider = ProviderSettings(kind=kind, own_code=kind in {"python", "http"}, identity=kind)
        sides.append(settings(providers={"agent": provider}))
    assert is_weaker(*sides) == weaker


@pytest.mark.parametrize(
    ("here", "main", "weaker"),
    [
        ({"confirm_runs": 0}, {"confirm_runs": 10}, True),
        ({"confirm_runs": 2}, {"confirm_runs": 3}, True),
        ({"confirm_runs": 20}, {"confirm_runs": 10}, False),
        ({"runs": 1, "max_runs": 5}, {"runs": 5}, False),
        ({"runs": 1, "max_runs": 4}, {"runs": 5}, True),
        ({"runs": 6}, {"runs": 5}, False),
    ],
)
def test_numbers_of_runs(here: dict[str, Any], main: dict[str, Any], weaker: bool) -> None:
    assert is_weaker(settings(**here), settings(**main)) == weaker


def test_what_is_not_known_of_main_is_not_compared() -> None:
    provider = ProviderSettings(kind="python", own_code=True, identity="1")
    here = settings({"a": case(runs=3)}, {"agent": provider}, runs=1, confirm_runs=10, setup="1")
    unknown = ProviderSettings(kind="python")
    main = settings({"a": case()}, {"agent": unknown, "gone": unknown})
    assert compare_settings("main", here, main).changes == ()
    assert runs_of_main(here, main) == {}


def test_main_runs_a_case_more_often() -> None:
    here = settings(
        {
            "renamed": case("1"),
            "own": case("2", runs=2),
            "new": case("3"),
            "new with runs": case("4", runs=1),
            "more": case("5", runs=9),
        },
        runs=1,
    )
    main = settings({"old": case("1", runs=4), "own": case("2"), "more": case("5")}, runs=5)
    assert runs_of_main(here, main) == {"renamed": 4, "own": 5, "new": 5}


def test_many_cases_are_counted() -> None:
    here = settings({f"new {n}": case(f"n{n}") for n in range(40)})
    main = settings({f"old {n}": case(f"o{n}", critical=n < 5) for n in range(10)})
    text = changed_settings_sentence(compare_settings("main (0123456)", here, main))
    assert text == (
        "unlike on main (0123456): without the critical cases old 0, old 1, old 2 and 2 more,"
        " without old 5, old 6, old 7 and 2 more, 40 new cases"
    )
