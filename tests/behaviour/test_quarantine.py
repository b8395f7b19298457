"""Cases in quarantine run and are shown, and block nothing; the verdict says when it ended."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from leftovers import report_in
from processes import ci_evals, python
from suites import ONE_CASE, write_suite

from ci_evals.reports.read import read_summary

OPEN, ENDED = (
    {"reason": "waits for the <index>", "until": until} for until in ("2099-12-31", "2001-01-31")
)
BROKEN = {**ONE_CASE, "id": "broken", "expect": [{"equals": "goodbye"}], "quarantine": OPEN}
FORMATS = {"formats": ["json", "junit", "markdown", "html"]}


def quarantined(until: dict[str, str] = OPEN, **changes: Any) -> list[dict[str, Any]]:
    return [ONE_CASE, {**BROKEN, "quarantine": until, **changes}]


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        ({}, {}),
        ({"gate": {"min_pass_rate": 0.9, "per_variant": True}}, {}),
        ({"gate": {"min_case_pass_rate": 0.9}}, {}),
        ({"gate": {"tags": {"eu": 1.0}, "providers": {"echo": 1.0}}}, {"tags": ["eu"]}),
        ({}, {"min_pass_rate": 1.0, "critical": True}),
        (
            {"gate": {"metrics": {"right": 0.9}}},
            {"expect": [{"equals": {"value": "goodbye", "metric": "right"}}]},
        ),
        ({"gate": {"max_budget_violations": 0}}, {"budget": {"max_tokens": 0.5}}),
        ({"gate": {"max_error_rate": 0.1}}, {"expect": [{"python": "crash:now"}]}),
        ({"stop_early": True, "runs": 3, "gate": {"min_pass_rate": 0.9}}, {}),
    ],
)
async def test_what_is_in_quarantine_blocks_nothing(
    tmp_path: Path, settings: dict[str, Any], changes: dict[str, Any]
) -> None:
    (tmp_path / "crash.py").write_text("def now(output): raise RuntimeError\n")
    cases = quarantined(**changes)
    if "metrics" in settings.get("gate", {}):
        cases[0] = {**ONE_CASE, "expect": [{"equals": {"value": "hello", "metric": "right"}}]}
    write_suite(tmp_path, cases, **settings)
    ended = await ci_evals(tmp_path, "run", "--quiet")
    assert ended.code == 0, ended.out
    report = report_in(tmp_path / "ci-evals-results")
    assert report["verdict"]["status"] == "pass"
    assert report["totals"]["planned"] == 2 * settings.get("runs", 1), "it runs all the same"
    del cases[1]["quarantine"]
    write_suite(tmp_path, cases, **settings)
    await ci_evals(tmp_path, "run", "--quiet")
    control = report_in(tmp_path / "ci-evals-results")["verdict"]
    assert control["status"] != "pass", "without the quarantine"


async def test_headlines_count_what_the_gate_counts(tmp_path: Path) -> None:
    write_suite(tmp_path, quarantined(), runs=4, report=FORMATS)
    ended = await ci_evals(tmp_path, "run")
    out = tmp_path / "ci-evals-results"
    assert ended.out.count("4 of 4 runs passed; 1 of 2 cases is in quarantine") == 2
    said = "4 of 4 runs passed (100 %); 4 runs in quarantine"
    assert said not in ended.out, "the headline says so"
    assert said in (out / "summary.md").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert report_in(out)["totals"]["pass_rate"] == 1.0

    failing = {"id": "wrong", "input": "hello", "expect": [{"equals": "x"}]}
    write_suite(tmp_path, [failing, *quarantined()], runs=4)
    red = await ci_evals(tmp_path, "run")
    assert red.code == 1
    assert "4 of 8 runs failed" in red.out
    assert "4 of 8 runs passed (50 %), 4 failed; 4 runs in quarantine" in red.out


async def test_tables_count_what_the_gate_counts(tmp_path: Path) -> None:
    tagged = {**ONE_CASE, "tags": ["eu"]}
    cases: list[dict[str, Any]] = [
        tagged,
        {**tagged, "id": "again"},
        {**BROKEN, "tags": ["eu", "us"]},
    ]
    cases += [{**ONE_CASE, "id": f"case-{number}"} for number in range(7)]
    providers = [{"name": name, "type": "mock"} for name in ("small", "large")]
    write_suite(tmp_path, cases, runs=3, report=FORMATS, providers=providers)
    ended = await ci_evals(tmp_path, "run")
    out = tmp_path / "ci-evals-results"
    assert "54 of 54 runs passed; 1 of 10 cases is in quarantine" in ended.out
    assert ended.out.count("  27/27 ") == 2, "of each variant"
    assert "equals 1.00" in ended.out
    variants = report_in(out)["variants"]
    assert {each["counts"]["planned"] for each in variants} == {27}
    assert {each["match_rate"] for each in variants} == {1.0}
    assert {each["pass_hat_k"] for each in variants} == {1.0}
    summary = (out / "summary.md").read_text().replace("\N{NO-BREAK SPACE}", " ")
    [row] = [line for line in summary.splitlines() if line.startswith("| <code>small")]
    assert row.startswith("| <code>small</code> | 100 %<br>")
    assert "pass@" not in summary, "no run failed"
    assert "Expected on similar new cases: 71\N{EN DASH}100 %" in ended.out
    page = (out / "report.html").read_text()
    assert "27 of 27" in page
    assert 'title="eu"' in page
    assert 'title="us"' not in page, "the gate counts no case of it"


async def test_every_report_shows_it_apart(tmp_path: Path) -> None:
    write_suite(tmp_path, quarantined(), report=FORMATS)
    ended = await ci_evals(tmp_path, "run")
    assert "Quarantined (1)" in ended.out
    assert "broken until 2099-12-31: waits for the <index>; the gate leaves it out" in ended.out
    assert "Failing" not in ended.out
    out = tmp_path / "ci-evals-results"
    assert "Quarantined" in (out / "summary.md").read_text()
    assert "waits for the &lt;index&gt;" in (out / "report.html").read_text()
    cells = {cell["case"]: cell["quarantine"] for cell in report_in(out)["cells"]}
    assert cells == {"greeting": None, "broken": OPEN}
    tests = {
        test.get("name"): [child.tag for child in test]
        for test in ET.parse(out / "junit.xml").iter("testcase")
    }
    assert tests == {"greeting": [], "broken": ["skipped"]}
    explained = await ci_evals(tmp_path, "explain", "broken")
    assert explained.code == 0


async def test_after_the_last_day_a_warning_says_so_and_blocks_only_on_demand(
    tmp_path: Path,
) -> None:
    write_suite(tmp_path, quarantined(ENDED), gate={"on_borderline": "fail"})
    assert (await ci_evals(tmp_path, "run", "--quiet")).code == 1
    write_suite(tmp_path, quarantined(ENDED))
    assert (await ci_evals(tmp_path, "run", "--quiet", "--fail-on", "borderline")).code == 1
    ended = await ci_evals(tmp_path, "run", "--quiet")
    assert ended.code == 0
    verdict = report_in(tmp_path / "ci-evals-results")["verdict"]
    why = (
        "the quarantine of broken ended on 2001-01-31: fix the case, remove it, or set another date"
    )
    assert (verdict["status"], verdict["reason"], verdict["warning"]) == ("borderline", why, True)
    write_suite(tmp_path, [{**ONE_CASE, "expect": [{"equals": "x"}]}, *quarantined(ENDED)[1:]])
    assert (await ci_evals(tmp_path, "run", "--quiet")).code == 1, "what else fails is red"


async def test_its_fall_is_no_regression_and_its_results_are_a_baseline_again(
    tmp_path: Path,
) -> None:
    good = {**BROKEN, "expect": [{"not_equals": "goodbye"}]}
    write_suite(tmp_path, [ONE_CASE, good], runs=10)
    await ci_evals(tmp_path, "run", "--out", "base")
    falls = {"name": "echo", "type": "mock", "answers": {"broken": "goodbye"}}
    write_suite(tmp_path, [ONE_CASE, good], runs=10, providers=[falls])
    ended = await ci_evals(tmp_path, "run", "--baseline", "base", "--quiet")
    assert ended.code == 0, ended.out
    cells = {
        cell["case"]: cell["comparison"]["kind"]
        for cell in report_in(tmp_path / "ci-evals-results")["cells"]
    }
    assert cells == {"greeting": "unchanged", "broken": "not compared"}
    assert "confirming" not in ended.err
    compared = await ci_evals(tmp_path, "compare", "base", "ci-evals-results")
    assert compared.code == 0
    write_suite(
        tmp_path,
        [ONE_CASE, {key: value for key, value in good.items() if key != "quarantine"}],
        runs=10,
    )
    mended = await ci_evals(tmp_path, "run", "--baseline", "ci-evals-results", "--out", "mended")
    kinds = {
        cell["case"]: cell["comparison"]["kind"] for cell in report_in(tmp_path / "mended")["cells"]
    }
    assert kinds == {"greeting": "unchanged", "broken": "fixed"}, mended.out


@pytest.mark.parametrize(
    ("required", "status", "code"), [(False, "borderline", 0), (True, "error", 3)]
)
@pytest.mark.parametrize(
    ("critical", "reason"),
    [
        (False, "3 of 4 cases of the baseline were not compared: they were put into quarantine"),
        (
            True,
            (
                "the critical case a is in quarantine, unlike on the baseline, and so are 2"
                " other critical cases"
            ),
        ),
    ],
)
async def test_a_quarantine_that_comes_with_the_change_hides_nothing(
    tmp_path: Path, critical: bool, reason: str, required: bool, status: str, code: int
) -> None:
    good = [{**ONE_CASE, "id": name, "critical": critical} for name in "abc"]
    gate = {"require_baseline": required}
    write_suite(tmp_path, [ONE_CASE, *good], runs=3, gate=gate)
    await ci_evals(tmp_path, "run", "--out", "base", "--quiet")
    falls = {"name": "echo", "type": "mock", "answers": dict.fromkeys("abc", "goodbye")}
    put_aside = [{**case, "quarantine": OPEN} for case in good]
    write_suite(tmp_path, [ONE_CASE, *put_aside], runs=3, gate=gate, providers=[falls])
    ended = await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "head", "--quiet")
    verdict = report_in(tmp_path / "head")["verdict"]
    assert (ended.code, verdict["status"]) == (code, status)
    assert verdict["reason"].removesuffix("; and 1 more reason") == reason
    ended = await ci_evals(tmp_path, "run", "--baseline", "head", "--out", "next", "--quiet")
    passed = "3 of 3 runs passed; 3 of 4 cases are in quarantine"
    assert (ended.code, passed in ended.out) == (0, True), "the base has it in quarantine, too"
    for folder in ("head", "next"):
        assert (
            read_summary(tmp_path / folder).verdict.reason
            == report_in(tmp_path / folder)["verdict"]["reason"]
        )


async def test_nothing_but_quarantine_is_no_verdict(tmp_path: Path) -> None:
    write_suite(tmp_path, [BROKEN])
    ended = await ci_evals(tmp_path, "run", "--quiet")
    assert (ended.code, "no run was graded" in ended.out) == (3, True)


async def test_a_case_in_quarantine_that_is_selected_alone_blocks_nothing(tmp_path: Path) -> None:
    write_suite(tmp_path, quarantined())
    ended = await ci_evals(tmp_path, "run", "--case", "broken", "--quiet")
    assert (ended.code, "only cases in quarantine were to run" in ended.out) == (0, True), ended.out


def test_a_failing_test_of_pytest_is_expected(tmp_path: Path) -> None:
    write_suite(tmp_path, quarantined())
    ended = python(tmp_path, "-m", "pytest", "-rx", "-p", "no:cacheprovider", "evals.yaml")
    assert ended.code == 0, ended.out
    assert "1 passed, 1 xfailed" in ended.out
    assert "in quarantine until 2099-12-31: waits for the <index>" in ended.out


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"reason": "x", "until": "soon"}, "until: expected a date such as 2026-12-31, got 'soon'"),
        ({"reason": "x"}, "the key 'until' is missing"),
        ({"reason": "", "until": "2099-12-31"}, "reason: expected text of length >= 1"),
        (
            True,
            (
                "expected a mapping, as in `quarantine: {reason: known since Monday, until:"
                " 2026-12-31}`, got true"
            ),
        ),
    ],
)
async def test_a_quarantine_says_why_and_until_when(
    tmp_path: Path, wrong: Any, problem: str
) -> None:
    write_suite(tmp_path, [{**BROKEN, "quarantine": wrong}])
    assert problem in (await ci_evals(tmp_path, "validate")).err


async def test_it_may_stand_in_a_column(tmp_path: Path) -> None:
    quoted = json.dumps(OPEN).replace('"', '""')
    rows = f'id,input,expect,quarantine\nbroken,hello,"[{{equals: x}}]","{quoted}"\n'
    (tmp_path / "cases.csv").write_text(rows)
    write_suite(tmp_path, [ONE_CASE, {"file": "cases.csv"}])
    assert (await ci_evals(tmp_path, "run", "--quiet")).code == 0
