"""Code in a suite: what it may be, what it sees, and what becomes of a run whose code fails."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from leftovers import report_in
from processes import ci_evals
from suites import results_of, write_suite
from written_answers import ANSWERS

JSON = '{"city": "Paris", "n": [1, 2], "ok": true}'
CORPUS = yaml.safe_load((Path(__file__).parents[1] / "data" / "python.yaml").read_text("utf-8"))


async def judge(folder: Path, *judged: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of answers with a grader each."""
    cases = [
        {"id": str(number), "input": answer, "expect": [grader]}
        for number, (answer, grader) in enumerate(judged)
    ]
    return await results_of(folder, cases)


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
    for each, result in zip(CORPUS, await results_of(tmp_path, cases), strict=True):
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
    elsewhere = "from unittest import TestCase\nTestCase().assertTrue(False)\nreturn True"
    codes = ["assert 'x' in output", "assert False, 'no city'", elsewhere]
    found = await judge(tmp_path, *(("Paris", {"python": code}) for code in codes))
    assert [result["status"] for result in found] == ["failed"] * 3
    bare, with_message, in_library = [result["grades"][0] for result in found]
    assert bare["reason"] == "assert 'x' in output"
    assert with_message["reason"] == "no city"
    assert in_library["reason"] == "raised AssertionError: False is not true (line 2)"


async def test_an_exception_is_a_failed_check_with_its_line(tmp_path: Path) -> None:
    expression = "json.loads(output)['town'] == 'Paris'"
    lines = "answer = json.loads(output)\nreturn answer['town'] == 'Paris'"
    *raised, not_json, negated, returned = await judge(
        tmp_path,
        (JSON, {"python": expression}),
        (JSON, {"not_python": expression}),
        (JSON, {"python": lines}),
        (JSON, {"not_python": lines}),
        ("Paris", {"python": "json.loads(output)['city'] == 'Paris'"}),
        ("Paris", {"not_python": "json.loads(output)['city'] == 'x'"}),
        (JSON, {"python": "json.loads(output)['n']"}),
    )
    for result, line in zip(raised, (1, 1, 2, 2), strict=True):
        assert (result["status"], result.get("error")) == ("failed", None)
        (grade,) = result["grades"]
        assert grade["reason"] == f"raised KeyError: 'town' (line {line})"
        assert grade["detail"].startswith("Traceback")
    assert not_json["status"] == "failed"
    (grade,) = not_json["grades"]
    assert grade["reason"] == "the answer is not JSON"
    assert negated["status"] == "failed"
    reason = returned["grades"][0]["reason"]
    assert "must return a bool, a score from 0 to 1, or a mapping" in reason


async def test_code_that_takes_what_a_transform_made_for_text_is_told(tmp_path: Path) -> None:
    code = {"target": "output.lower() == 'a'", "transform": "$.n"}
    (result,) = await judge(tmp_path, (JSON, {"python": code}))
    assert result["grades"][0]["reason"] == (
        "raised AttributeError: 'list' object has no attribute 'lower' (line 1):"
        " the transform makes `output` a list, not text"
    )


async def test_a_missing_module_is_the_answers_failure_or_no_verdict(tmp_path: Path) -> None:
    of_answer, of_grader = await judge(
        tmp_path,
        ("import nope", {"python": "exec(output, {})\nreturn True"}),
        (JSON, {"python": "import nope\nreturn nope.check(output)"}),
    )
    (grade,) = of_answer["grades"]
    assert grade["reason"].startswith("raised ModuleNotFoundError: No module named 'nope'")
    assert of_answer["status"] == "failed"
    assert (of_grader["status"], of_grader["error"]["kind"]) == ("errored", "grader")
    assert "it raised ModuleNotFoundError: No module named 'nope'" in of_grader["error"]["message"]


async def test_one_answer_on_which_the_check_raises_is_not_green(tmp_path: Path) -> None:
    cases = [{"id": f"case {number}", "input": '{"items": [1]}'} for number in range(24)]
    cases.append({"id": "odd", "input": '{"error": "x"}'})
    write_suite(tmp_path, cases, expect=[{"python": "len(json.loads(output)['items']) > 0"}])
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 1
    assert report_in(tmp_path / "out")["totals"]["failed"] == 1
    assert "python: raised KeyError: 'items' (line 1)" in ended.out


TEXTS = {
    "True if output == 'b' else 'expected b'": "expected b",
    "if output != 'b':\n    return 'expected b'\nreturn True": "expected b",
    "'true'": "'true' returned a text: return the boolean without quotes",
    "str(output == 'a')": "str(output == 'a') returned a text: return the boolean without",
}


async def test_a_text_is_the_reason_of_a_failure(tmp_path: Path) -> None:
    found = await judge(tmp_path, *(("a", {"python": code}) for code in TEXTS))
    for result, reason in zip(found, TEXTS.values(), strict=True):
        assert result["status"] == "failed"
        assert result["grades"][0]["reason"].startswith(reason)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (
            "outptu == 1",
            (
                "'outptu' is not defined;"
                " known: output, answer, vars, input, context, json, math, re"
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
