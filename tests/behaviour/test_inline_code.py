"""Code in a suite: what it may be, what it sees, and what becomes of a run whose code fails."""

from pathlib import Path
from typing import Any

import pytest
from leftovers import report_in
from processes import ci_evals
from suites import write_suite

JSON = '{"city": "Paris", "n": [1, 2], "ok": true}'


async def run(folder: Path, answer: str, grader: dict[str, Any]) -> dict[str, Any]:
    case = {"id": "a", "description": "A", "input": answer, "vars": {"key": "city"}, "expect": [grader]}
    write_suite(folder, [case])
    ended = await ci_evals(folder, "run", "--out", "out")
    assert ended.code != 2, ended.err
    (result,) = report_in(folder / "out")["results"]
    assert isinstance(result, dict)
    return result


@pytest.mark.parametrize(
    ("code", "passed", "score"),
    [
        ("len(output) < 200", True, 1),
        ("'Lyon' in output", False, 0),
        ("json.loads(output)['city'] == 'Paris'", True, 1),
        ("json.loads(output)[vars['key']].startswith('P')", True, 1),
        ("bool(re.search(r'P\\w+s', output)) and math.pi > 3", True, 1),
        ("0.25", False, 0.25),
        ("{'pass': True, 'score': 0.5, 'reason': 'half'}", True, 0.5),
        ("len(output) > 5 and\n  output.count('{') == 1", True, 1),
        ("[x for x in json.loads(output)['n'] if x > 1] == [2]", True, 1),
        ("context['vars']['key'] == 'city' and context['prompt'] == input == output", True, 1),
        ("context['test']['description'] == 'A' and context['providerResponse']['output'] == output", True, 1),
        ("answer.request.run == 1", True, 1),
        ("data = json.loads(output)\nreturn data['ok']", True, 1),
        ("import datetime\nreturn datetime.date(2026, 1, 1).year == 2026", True, 1),
        ("if 'x' in output:\n    return False\ndef check(o):\n    return 'Paris' in o\nreturn check(output)", True, 1),
        ("return len(output) > 1  # at least", True, 1),
        ("import asyncio\nawait asyncio.sleep(0)\nreturn True", True, 1),
        ('return """\n  x\n""" != output', True, 1),
    ],
)
async def test_python_code_judges(tmp_path: Path, code: str, passed: bool, score: float) -> None:
    (grade,) = (await run(tmp_path, JSON, {"python": code}))["grades"]
    assert (grade["passed"], grade["score"]) == (passed, score), grade


async def test_an_answer_that_is_no_json_has_failed_and_other_crashes_are_errors(tmp_path: Path) -> None:
    failed = await run(tmp_path, "Paris", {"python": "json.loads(output)['city'] == 'Paris'"})
    assert failed["status"] == "failed"
    assert failed["grades"][0]["reason"].startswith("is not JSON: Expecting value")
    errored = await run(tmp_path, "Paris", {"python": "json.loads('{')"})
    assert (errored["status"], errored["error"]["kind"]) == ("errored", "grader")
    assert (await run(tmp_path, JSON, {"python": "json.loads(output)['town']"}))["status"] == "errored"
    returned = await run(tmp_path, JSON, {"python": "output"})
    assert "must return a bool, a score from 0 to 1, or a mapping" in returned["error"]["message"]


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("outptu == 1", "'outptu' is not defined: there are output, answer, vars, input, context, json, math, re"),
        ("return [x for x in numbers]", "'numbers' is not defined"),
        ("x = 1", "nothing is returned"),
        ("x = 1\nreturn (", "line 2: '(' was never closed"),
        ("graders.is_polite", "'graders' is not defined"),
        ("graders:is_polite", "there is no module 'graders'"),
    ],
)
async def test_wrong_code_is_found_before_any_call(tmp_path: Path, code: str, problem: str) -> None:
    write_suite(tmp_path, [{"id": "a", "input": "x", "expect": [{"python": code}]}])
    ended = await ci_evals(tmp_path, "validate")
    assert (ended.code, problem in ended.err) == (2, True), ended.err
