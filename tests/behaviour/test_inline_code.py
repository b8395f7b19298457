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
            assert (
                f"must return a score from 0 to 1; it returned {score}"
                in result["error"]["message"]
            )
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
    assert (await run(tmp_path, "Paris", {"python": elsewhere}))["status"] == "errored"


async def test_an_answer_that_is_no_json_has_failed_and_other_crashes_are_errors(
    tmp_path: Path,
) -> None:
    failed = await run(tmp_path, "Paris", {"python": "json.loads(output)['city'] == 'Paris'"})
    assert failed["status"] == "failed"
    (grade,) = failed["grades"]
    assert grade["reason"] == "is not JSON"
    assert grade["got"].startswith("'Paris': Expecting value")
    errored = await run(tmp_path, "Paris", {"python": "json.loads('{')"})
    assert (errored["status"], errored["error"]["kind"]) == ("errored", "grader")
    assert (await run(tmp_path, JSON, {"python": "json.loads(output)['town']"}))[
        "status"
    ] == "errored"
    returned = await run(tmp_path, JSON, {"python": "output"})
    assert "must return a bool, a score from 0 to 1, or a mapping" in returned["error"]["message"]


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
