"""Code in a suite: what it may be, what it sees, and what becomes of a run whose code fails."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from leftovers import report_in
from processes import ci_evals
from suites import write_suite
from written_answers import ANSWERS

JSON = '{"city": "Paris", "n": [1, 2], "ok": true}'
CORPUS = yaml.safe_load((Path(__file__).parents[1] / "data" / "python.yaml").read_text("utf-8"))


async def run(folder: Path, answer: str, grader: dict[str, Any]) -> dict[str, Any]:
    case = {
        "id": "a",
        "description": "A",
        "input": answer,
        "vars": {"key": "city"},
        "expect": [grader],
    }
    write_suite(folder, [case])
    ended = await ci_evals(folder, "run", "--out", "out")
    assert ended.code != 2, ended.err
    (result,) = report_in(folder / "out")["results"]
    assert isinstance(result, dict)
    return result


async def test_python_code_judges_as_people_write_it(tmp_path: Path) -> None:
    assert len(CORPUS) >= 60
    given = {"description": "A", "vars": {"city": "Paris", "words": ["Paris", "Seine"]}}
    cases = [
        {
            **given,
            "id": str(number),
            "input": ANSWERS[each["answer"]],
            "expect": [{"python": {"target": each["code"], "threshold": 0.05}}],
        }
        for number, each in enumerate(CORPUS)
    ]
    write_suite(tmp_path, cases)
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code != 2, ended.err
    for each, result in zip(CORPUS, report_in(tmp_path / "out")["results"], strict=True):
        score = each["score"]
        if score > 1:
            assert "must return a score from 0 to 1" in result["grades"][0]["reason"]
            continue
        assert result["status"] != "errored", (each, result["error"])
        (grade,) = result["grades"]
        assert (grade["score"], grade["passed"]) == (pytest.approx(score, abs=0.001), score > 0), (
            each,
            grade,
        )


async def test_a_failed_assertion_is_the_reason(tmp_path: Path) -> None:
    for code, reason in [
        ("assert 'x' in output", "assert 'x' in output"),
        ("assert False, 'no city'", "no city"),
    ]:
        failed = await run(tmp_path, "Paris", {"python": code})
        (grade,) = failed["grades"]
        assert failed["status"] == "failed"
        assert (grade["reason"], grade["got"]) == (reason, "'Paris'")
    elsewhere = "from unittest import TestCase\nTestCase().assertTrue(False)\nreturn True"
    failed = await run(tmp_path, "Paris", {"python": elsewhere})
    assert failed["status"] == "failed"
    assert failed["grades"][0]["reason"] == "raised AssertionError: False is not true (line 2)"


async def test_an_exception_is_a_failed_check_with_its_line(tmp_path: Path) -> None:
    failed = await run(tmp_path, "Paris", {"python": "json.loads(output)['city'] == 'Paris'"})
    assert failed["status"] == "failed"
    (grade,) = failed["grades"]
    assert grade["reason"] == "is not JSON"
    assert grade["got"].startswith("'Paris': Expecting value")
    lines = "answer = json.loads(output)\nreturn answer['town'] == 'Paris'"
    for code, line in [("json.loads(output)['town'] == 'Paris'", 1), (lines, 2)]:
        for name in ("python", "not_python"):
            result = await run(tmp_path, JSON, {name: code})
            assert (result["status"], result.get("error")) == ("failed", None)
            (grade,) = result["grades"]
            assert grade["reason"] == f"raised KeyError: 'town' (line {line})"
            assert grade["detail"].startswith("Traceback")
    negated = await run(tmp_path, "Paris", {"not_python": "json.loads(output)['city'] == 'x'"})
    assert negated["status"] == "failed"
    returned = await run(tmp_path, JSON, {"python": "json.loads(output)['n']"})
    reason = returned["grades"][0]["reason"]
    assert "must return a bool, a score from 0 to 1, or a mapping" in reason


async def test_an_answer_that_imports_a_missing_module_has_failed(tmp_path: Path) -> None:
    result = await run(tmp_path, "import nope", {"python": "exec(output, {})\nreturn True"})
    (grade,) = result["grades"]
    assert grade["reason"].startswith("raised ModuleNotFoundError: No module named 'nope'")
    assert result["status"] == "failed"


async def test_a_missing_module_is_no_verdict(tmp_path: Path) -> None:
    result = await run(tmp_path, JSON, {"python": "import nope\nreturn nope.check(output)"})
    assert (result["status"], result["error"]["kind"]) == ("errored", "grader")
    assert "it raised ModuleNotFoundError: No module named 'nope'" in result["error"]["message"]


async def test_one_answer_on_which_the_check_raises_is_not_green(tmp_path: Path) -> None:
    cases = [{"id": f"case {number}", "input": '{"items": [1]}'} for number in range(24)]
    cases.append({"id": "odd", "input": '{"error": "x"}'})
    write_suite(tmp_path, cases, expect=[{"python": "len(json.loads(output)['items']) > 0"}])
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 1
    assert report_in(tmp_path / "out")["totals"]["failed"] == 1
    assert "python: raised KeyError: 'items' (line 1)" in ended.out


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("True if output == 'b' else 'expected b'", "expected b"),
        ("if output != 'b':\n    return 'expected b'\nreturn True", "expected b"),
        ("'true'", "'true' returned a text: return the boolean without quotes"),
        ("str(output == 'a')", "str(output == 'a') returned a text: return the boolean without"),
    ],
)
async def test_a_text_is_the_reason_of_a_failure(tmp_path: Path, code: str, reason: str) -> None:
    result = await run(tmp_path, "a", {"python": code})
    assert result["status"] == "failed"
    assert result["grades"][0]["reason"].startswith(reason)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (
            "outptu == 1",
            (
                "'outptu' is not defined:"
                " there are output, answer, vars, input, context, json, math, re"
            ),
        ),
        ("return [x for x in numbers]", "'numbers' is not defined"),
        ("x = 1", "nothing is returned"),
        ("def check(text):\n    return True", "nothing is returned"),
        ("x = 1\nreturn (", "line 2: '(' was never closed"),
        ("graders.is_polite", "'graders' is not defined"),
        ("graders:is_polite", "there is no module 'graders'"),
    ],
)
async def test_wrong_code_is_found_before_any_call(tmp_path: Path, code: str, problem: str) -> None:
    write_suite(tmp_path, [{"id": "a", "input": "x", "expect": [{"python": code}]}])
    ended = await ci_evals(tmp_path, "validate")
    assert (ended.code, problem in ended.err) == (2, True), ended.err
