"""`transform`: what a grader sees of an answer, and what happens when nothing is left to see."""

from pathlib import Path
from typing import Any

import pytest
from suites import results_of, write_suite

from ci_evals import Case, Suite, evaluate
from ci_evals.errors import ConfigError
from ci_evals.graders import AnyOf, Contains, Equals
from ci_evals.suite.load import load_suite

MODULE = """
def first(output): return output.split()[0]
async def last(output, answer): return output.split()[-1] + str(answer.request.run)
def items(output): return [1, 2]
def nothing(output): return None
def crash(output): return {}["key"]
def is_list(output): return output == [1, 2]
def error(output): return TwoPartError(output, 2)

class TwoPartError(Exception):
    def __init__(self, text, number):
        super().__init__(text)
"""
ANSWER = "Here: Paris"
JSON = """```json
{"city": "Paris", "stops": [{"to": "Rome"}, {"to": "Oslo"}], "none": null, "n": 5}
```"""


async def judged(
    folder: Path, answer: str, *expect: dict[str, Any], **settings: Any
) -> dict[str, Any]:
    (folder / "mine.py").write_text(MODULE, "utf-8")
    case = {"id": "a", "input": answer, "vars": {"field": "city"}, "expect": expect}
    (result,) = await results_of(folder, [case], **settings)
    return result


@pytest.mark.parametrize(
    ("answer", "transform", "value"),
    [
        (JSON, "$.city", "Paris"),
        (JSON, "$.{{ field }}", "Paris"),
        (JSON, "$.stops[*].to", ["Rome", "Oslo"]),
        (JSON, "$.stops[0]", {"to": "Rome"}),
        (JSON, "$.n", 5),
        (JSON, "(output | from_json).stops | map(attribute='to') | join('-')", "Rome-Oslo"),
        (JSON, "(output | from_json).n + 1", 6),
        (ANSWER, "output.split(': ')[1] | upper", "PARIS"),
        (ANSWER, "output | replace(vars.field, '') | length", 11),
        (ANSWER, "mine:first", "Here:"),
        (ANSWER, "mine:last", "Paris1"),
        (ANSWER, "mine:items", [1, 2]),
        (ANSWER, "output", ANSWER),
    ],
)
async def test_a_grader_sees_what_a_transform_finds(
    tmp_path: Path, answer: str, transform: str, value: Any
) -> None:
    result = await judged(tmp_path, answer, {"equals": {"value": value, "transform": transform}})
    assert (result["status"], result["grades"][0]["reason"][:10]) == ("passed", "the answer"), (
        result
    )


@pytest.mark.parametrize(
    ("answer", "transform", "reason"),
    [
        (ANSWER, "$.city", "transform $.city: the answer is not JSON"),
        (JSON, "$.town", "transform $.town: nothing is there"),
        (
            JSON,
            "(output | from_json).town",
            "transform (output | from_json).town: there is no 'town'; known: city, stops, none, n",
        ),
        (
            JSON,
            "(output | from_json).none",
            "transform (output | from_json).none: it is none",
        ),
        (ANSWER, "output | from_json", "transform output | from_json: expected"),
        (ANSWER, "output.split('|')[3]", "transform output.split('|')[3]: "),
        (ANSWER, "mine:nothing", "transform mine:nothing: it returned nothing"),
    ],
)
async def test_an_answer_without_it_fails_even_under_not(
    tmp_path: Path, answer: str, transform: str, reason: str
) -> None:
    options = {"value": "Lyon", "transform": transform}
    result = await judged(tmp_path, answer, {"contains": options}, {"not_contains": options})
    assert result["status"] == "failed"
    assert [grade["passed"] for grade in result["grades"]] == [False, False]
    for grade in result["grades"]:
        assert grade["reason"].startswith(reason)


async def test_an_exception_of_the_function_is_a_failed_check_even_under_not(
    tmp_path: Path,
) -> None:
    options = {"value": "x", "transform": "mine:crash"}
    result = await judged(tmp_path, ANSWER, {"contains": options}, {"not_contains": options})
    assert result["status"] == "failed"
    reason = "transform mine:crash: raised KeyError: 'key' (mine.py:6 in crash)"
    assert [(each["passed"], each["reason"]) for each in result["grades"]] == [(False, reason)] * 2


async def test_an_exception_of_the_suites_transform_is_a_failed_check(tmp_path: Path) -> None:
    result = await judged(tmp_path, ANSWER, {"not_contains": "x"}, transform="mine:crash")
    assert result["status"] == "failed"


async def test_nothing_for_a_part_to_see_fails_the_negation_of_the_whole(tmp_path: Path) -> None:
    part = {"contains": {"value": "x", "transform": "$.city"}}
    result = await judged(tmp_path, ANSWER, {"not_any_of": [part]})
    assert result["status"] == "failed"


async def test_a_value_that_cannot_be_unpickled_is_seen(tmp_path: Path) -> None:
    result = await judged(
        tmp_path, ANSWER, {"contains": {"value": "Paris", "transform": "mine:error"}}
    )
    assert result["status"] == "passed", result


async def test_own_functions_get_the_value_itself(tmp_path: Path) -> None:
    result = await judged(
        tmp_path, ANSWER, {"python": {"target": "mine:is_list", "transform": "mine:items"}}
    )
    assert result["status"] == "passed"


async def test_the_suites_transform_is_for_graders_that_read_text_and_have_none(
    tmp_path: Path,
) -> None:
    result = await judged(
        tmp_path,
        JSON,
        {"equals": "Paris"},
        {"any_of": [{"equals": "Paris"}, {"contains": "Lyon"}]},
        {"any_of": {"of": [{"equals": "Rome"}], "transform": "$.stops[0].to"}},
        {"contains": {"value": "stops", "transform": "output"}},
        {"tool_call": {"calls": []}},
        {"latency": 60},
        transform="$.city",
    )
    assert result["status"] == "passed", result["grades"]
    result = await judged(
        tmp_path, ANSWER, {"latency": 60}, {"tool_call": {"calls": []}}, transform="$.city"
    )
    assert result["status"] == "passed", result["grades"]


def test_a_transform_is_part_of_how_a_case_is_judged(tmp_path: Path) -> None:
    def fingerprint(grader: dict[str, Any], **settings: Any) -> str:
        suite = load_suite(
            write_suite(tmp_path, [{"id": "a", "input": "x", "expect": [grader]}], **settings), {}
        )
        return suite.case_fingerprint(0)

    plain, own = {"contains": "a"}, {"contains": {"value": "a", "transform": "$.a"}}
    assert fingerprint(plain) != fingerprint(own) == fingerprint(plain, transform="$.a")
    assert fingerprint(own) != fingerprint({"contains": {"value": "a", "transform": "$.b"}})


def test_a_wrong_transform_of_the_suite_is_told_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load_suite(write_suite(tmp_path, transform="{{ output | trim }}"), {})
    (problem,) = raised.value.problems
    assert str(problem).endswith(
        "transform: write the expression without braces, as in `output | trim`:"
        " got '{{ output | trim }}'"
    )


async def test_transforms_in_python() -> None:
    expect = [
        Equals("Paris", transform="$.city"),
        AnyOf([Contains("Rome")], transform="$.stops"),
        Contains("pari"),
    ]
    suite = Suite(
        providers=lambda text: text,
        cases=[Case(input=JSON, expect=expect)],
        transform="output | lower",
    )
    report = await evaluate(suite, runs=1)
    assert report.passed == 1, report.runs
