"""`any_of` and `all_of`: what they decide and show, and that every grader works inside them."""

import json
from pathlib import Path
from typing import Any

import pytest
from leftovers import report_in
from processes import ci_evals
from suites import write_suite

from ci_evals import Case, Suite, evaluate
from ci_evals.graders import AllOf, AnyOf, Contains, MaxLength, Not
from ci_evals.suite.load import load_suite

A, B, C = ({"contains": letter} for letter in "abc")
NOT_A, NOT_B = {"not_contains": "a"}, {"not_contains": "b"}


async def grade(folder: Path, grader: dict[str, Any], **settings: Any) -> dict[str, Any]:
    write_suite(folder, [{"id": "ab", "input": "ab", "expect": [grader]}], **settings)
    await ci_evals(folder, "run", "--out", "out")
    (result,) = report_in(folder / "out")["results"]
    assert "error" not in result, result["error"]
    (found,) = result["grades"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("grader", "passed", "score", "reason"),
    [
        ({"any_of": [C, B]}, True, 1, '"b" is in the answer'),
        (
            {"any_of": [C, NOT_A]},
            False,
            0,
            'none of 2 checks passed: no "c" in the answer; "a" is in the answer',
        ),
        ({"all_of": [A, B]}, True, 1, "all of 2 checks passed"),
        (
            {"all_of": [A, C]},
            False,
            0.5,
            '1 of 2 checks failed: no "c" in the answer',
        ),
        (
            {"all_of": {"of": [A, C], "threshold": 0.5}},
            True,
            0.5,
            "score of at least 0.5",
        ),
        (
            {"all_of": {"of": [A, C], "threshold": 0.6}},
            False,
            0.5,
            'score below 0.6: no "c"',
        ),
        (
            {"all_of": [A, {"contains": {"value": "c", "weight": 0}}]},
            True,
            1,
            "all of 2 checks passed",
        ),
        ({"all_of": [{"contains": {"value": "a", "weight": 3}}, C]}, False, 0.75, "1 of 2 checks"),
        (
            {"any_of": [C, {"contains": {"value": "a", "weight": 0}}]},
            False,
            0,
            'none of 1 check passed: no "c"',
        ),
        (
            {"any_of": {"of": [C, {"contains_all": ["a", "z"]}], "threshold": 0.5}},
            True,
            0.5,
            "best score of at least 0.5",
        ),
        (
            {"any_of": {"of": [C, {"contains_all": ["a", "z"]}], "threshold": 0.6}},
            False,
            0.5,
            "best score below",
        ),
        ({"not_any_of": [C, NOT_A]}, True, 1, "none of 2 checks passed"),
        ({"not_all_of": [A, B]}, False, 0, "all of 2 checks passed"),
        (
            {"any_of": [{"all_of": [A, C]}, {"not_any_of": [C]}]},
            True,
            1,
            "none of 1 check passed",
        ),
    ],
)
async def test_a_composition_decides_by_its_parts(
    tmp_path: Path, grader: dict[str, Any], passed: bool, score: float, reason: str
) -> None:
    found = await grade(tmp_path, grader)
    assert (found["passed"], found["score"]) == (passed, score)
    assert found["reason"].startswith(reason), found["reason"]


async def test_extras_are_no_excuse_inside_a_negation(tmp_path: Path) -> None:
    answer = {
        "output": "x",
        "tool_calls": [{"name": "book", "arguments": {}}, {"name": "pay", "arguments": {}}],
    }
    providers = [{"name": "agent", "type": "mock", "answers": {"ab": answer}}]
    assert not (
        await grade(tmp_path, {"not_any_of": [{"tool_call": "book"}]}, providers=providers)
    )["passed"]
    assert not (await grade(tmp_path, {"any_of": [{"tool_call": "book"}]}, providers=providers))[
        "passed"
    ]


async def test_judges_metrics_and_names_work_inside(tmp_path: Path) -> None:
    verdict = {
        "name": "strict",
        "type": "mock",
        "default": '{"reason": "So it is.", "verdict": "pass"}',
    }
    kind = {"judge": {"rubric": "polite", "name": "kindness", "metric": "tone"}}
    grader = {"any_of": [C, {"all_of": [A, kind]}]}
    found = await grade(tmp_path, grader, judges=[verdict], gate={"metrics": {"tone": 0.9}})
    assert found["passed"]
    assert [part["grader"] for part in found["parts"][1]["parts"]] == ["contains", "kindness"]
    report = report_in(tmp_path / "out")
    assert [metric["name"] for metric in report["variants"][0]["metrics"]] == ["tone"]
    assert report["verdict"]["status"] == "pass"
    assert report["totals"]["judging"]["calls"] == 1

    again = await ci_evals(tmp_path, "run", "--replay", "out/results.jsonl", "--out", "again")
    assert again.code == 0, again.err
    (result,) = report_in(tmp_path / "again")["results"]
    assert result["grades"][0] == found
    assert report_in(tmp_path / "again")["totals"]["judging"] is None


def test_the_parts_decide_what_identifies_a_case_and_their_names_do_not(tmp_path: Path) -> None:
    def fingerprint(*graders: dict[str, Any]) -> str:
        suite = write_suite(
            tmp_path, [{"id": "a", "input": "x", "expect": [{"any_of": list(graders)}]}]
        )
        return load_suite(suite, {}).case_fingerprint(0)

    named = {"contains": {"value": "a", "name": "first", "metric": "letters"}}
    prints = [
        fingerprint(A),
        fingerprint(B),
        fingerprint(A, B),
        fingerprint(NOT_A),
        fingerprint({"all_of": [A]}),
    ]
    assert len(set(prints)) == len(prints)
    assert fingerprint(named) == prints[0]


async def test_an_exception_inside_is_a_failed_check_and_a_missing_function_is_found_before(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.py").write_text("def crash(output):\n    return 1 / 0\n", "utf-8")
    write_suite(
        tmp_path, [{"id": "a", "input": "x", "expect": [{"any_of": [{"python": "mine:crash"}]}]}]
    )
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 1
    assert "ZeroDivisionError" in ended.out
    write_suite(
        tmp_path, [{"id": "a", "input": "x", "expect": [{"any_of": [{"python": "mine:crush"}]}]}]
    )
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert (
        ended.code,
        "any_of[0].python: there is no 'crush' in mine, did you mean 'crash'?" in ended.err,
    ) == (
        2,
        True,
    )


async def test_score_threshold_and_weights_are_shown(tmp_path: Path) -> None:
    expect = [
        {"contains": {"value": "a", "weight": 3}},
        {"any_of": [C, {"contains": "<i>d"}]},
        {"contains": {"value": "zz", "weight": 0}},
    ]
    formats = ["json", "junit", "markdown", "html"]
    cases = [{"id": "ab", "input": "ab", "threshold": 0.8, "expect": expect}]
    write_suite(tmp_path, cases, report={"formats": formats})
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert "score 0.75, below the threshold of 0.8" in ended.out
    for name in ("summary.md", "junit.xml"):
        text = (tmp_path / "out" / name).read_text("utf-8")
        assert "below the threshold of 0.8" in text
        assert "zz" not in text
    assert "zz" not in ended.out
    explained = (await ci_evals(tmp_path, "explain", "ab", "--report", "out")).out
    assert "run 1 failed, score 0.75 (threshold 0.8)" in explained
    assert '✓ "a" is in the answer (weight 3)' in explained
    assert '↳ ✗ no "c" in the answer' in explained
    assert '✗ no "zz" in the answer (weight 0: for information)' in explained
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert "score 0.75 (threshold 0.8)" in page
    assert '<span class="score">1.00 (weight 3)</span>' in page
    assert "(for information)" in page
    assert "no &#34;&lt;i&gt;d&#34; in the answer" in page
    assert (
        json.loads((tmp_path / "out/results.jsonl").read_text("utf-8").splitlines()[1])["threshold"]
        == 0.8
    )


async def test_compositions_in_python() -> None:
    expect = [
        AnyOf([Contains("z"), Not(Contains("z"))], name="either"),
        Not(AllOf([Contains("a"), lambda output: len(output) > 9, {"contains": "b"}])),
        AllOf([Contains("a"), MaxLength(1)], threshold=0.5, metric="some"),
    ]
    report = await evaluate(
        Suite(providers=lambda text: text, cases=[Case(input="ab", expect=expect)], runs=1)
    )
    (run,) = report.runs
    assert [(grade.grader, grade.passed) for grade in run.grades] == [
        ("either", True),
        ("not_all_of", True),
        ("all_of", True),
    ]
