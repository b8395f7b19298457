"""From expectations to grades, from grades to a score; and what holds for every grader."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

import pytest
from factories import checked
from hypothesis import example, given
from hypothesis import strategies as st

from ci_evals.errors import GradingError
from ci_evals.format import visible
from ci_evals.graders import (
    GRADERS,
    AllOf,
    AnyOf,
    Contains,
    ContainsJson,
    IsJson,
    JsonPath,
    JsonSchema,
    Regex,
    Similar,
)
from ci_evals.graders.base import Composite, GraderOptions, ModelGrader
from ci_evals.graders.javascript import JavaScriptGrader
from ci_evals.graders.python import PythonGrader
from ci_evals.graders.scoring import LONG_ANSWER, grade, passes, score_of
from ci_evals.model.grading import Expectation, Finding
from ci_evals.model.request import Answer
from ci_evals.model.response import Step, ToolCall
from ci_evals.model.result import Grade

AnswerOf = Callable[..., Answer]

OPTIONS: dict[str, dict[str, Any]] = {
    "equals": {"value": {"a": [1, True, None]}},
    "contains": {"value": "a"},
    "contains_all": {"value": ["a", "b"]},
    "contains_any": {"value": ["a", "b"]},
    "starts_with": {"value": "a"},
    "ends_with": {"value": "a"},
    "regex": {"pattern": "a.b"},
    "is_json": {},
    "json_schema": {"schema": {"type": "object", "properties": {"a": {"multipleOf": 0.5}}}},
    "contains_json": {"schema": {"type": "object"}, "subset": {"a": [1]}},
    "json_path": {"path": "$..a[?@ > 1]", "value": 1},
    "similar": {"value": "abc"},
    "max_length": {"value": 5},
    "word_count": {"min": 1, "max": 5},
    "not_empty": {},
    "latency": {"value": 1, "first_token": None},
    "cost": {"value": 1},
    "finish_reason": {"value": ["stop", "length"]},
    "tool_call": {"tool": "a", "arguments": {"a": 1}},
    "tool_arguments": {
        "tool": "a",
        "arguments": {"a": 1},
        "match": "subset",
        "schema": {"properties": {"b": {"type": "string"}}},
        "where": {
            "c.d": {"approx": 1, "min": 0, "max": 2},
            "e": {"regex": "a.b", "contains": "b"},
        },
    },
    "skill_used": {"value": "release-notes"},
    "trajectory": {"calls": ["a", {"name": "b", "arguments": {"a": 1}}], "match": "exact"},
    "no_tool_errors": {},
    "max_tool_calls": {"value": 1},
    "max_steps": {"value": 1},
    "max_model_requests": {"value": 1},
    "classify": {"label": "a", "labels": ["a", "b"], "path": "$.a", "scores": "$"},
    "judge": {"rubric": "polite"},
    "embedding_similar": {"value": "abc"},
    "python": {"target": "builtins:bool"},
    "javascript": {"code": "output.length < 9"},
    "any_of": {"of": [{"contains": "a"}]},
    "all_of": {"of": [{"contains": "a"}]},
    "reward": {"value": 0.5},
    "goal_reached": {},
}
NEEDING_MORE = {
    name
    for name, cls in GRADERS.items()
    if issubclass(cls, ModelGrader | Composite | PythonGrader | JavaScriptGrader)
}

KEYWORDS = [
    "$schema",
    "$id",
    "$ref",
    "$defs",
    "$anchor",
    "$dynamicRef",
    "type",
    "properties",
    "items",
    "pattern",
    "allOf",
]
HEAVY = {"rapidfuzz", "jsonschema", "jsonpath", "asyncio", "aiohttp", "jinja2"}

any_text = st.text(st.characters(codec=None, exclude_categories=()))
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text,
    lambda inner: st.lists(inner) | st.dictionaries(any_text, inner),
    max_leaves=10,
)
any_output = any_text | any_json.map(json.dumps)
any_steps = st.lists(
    st.builds(
        Step,
        st.just("tool_call"),
        any_text | st.just("a"),
        st.dictionaries(any_text, any_json) | any_text,
    )
    | st.builds(Step, st.just("tool_call"), error=any_text)
).map(lambda steps: (Step("model_request"), *steps))
any_calls = st.lists(
    st.builds(ToolCall, any_text | st.just("a"), st.dictionaries(any_text, any_json) | any_text)
)


def graded(score: float, *, weight: float = 1.0) -> Grade:
    return Grade("contains", score == 1, score, "", weight=weight)


async def test_a_negated_expectation_turns_verdict_and_score_around_and_keeps_the_reason(
    answer_of: AnswerOf,
) -> None:
    expectation = Expectation(
        "not_similar", Similar(value="abcd", threshold=0.7), negated=True, weight=2
    )
    found = await grade(expectation, answer_of("abce"))
    assert (found.grader, found.passed, found.score, found.weight) == (
        "not_similar",
        False,
        0.25,
        2,
    )
    assert found.text == 'similarity to "abcd" is 0.750, no less than 0.7'


class Raising:
    """Raises an exception whatever the answer is."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def grade(self, answer: Answer) -> Finding:
        raise self.error

    def prepare(self) -> None:
        pass


def raised_from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'nope'", name="nope"),
        SyntaxError("'(' was never closed", (__file__, 1, 1, "x = (")),
        ConnectionRefusedError("refused"),
        TimeoutError("too slow"),
        raised_from(RuntimeError("no judgement"), ConnectionResetError("reset")),
        ExceptionGroup("two", [TimeoutError(), ConnectionError()]),
        GradingError("no judge"),
    ],
)
async def test_what_says_nothing_about_the_answer_is_no_verdict(
    error: Exception, answer_of: AnswerOf
) -> None:
    with pytest.raises(GradingError):
        await grade(Expectation("broken", Raising(error)), answer_of())


async def test_the_reason_and_stack_of_an_exception_are_bounded(answer_of: AnswerOf) -> None:
    error = ValueError("could not convert " + "9" * 1_000_000)
    found = await grade(Expectation("broken", Raising(error)), answer_of())
    assert len(found.reason) < 400
    assert found.detail is not None
    assert len(found.detail) < 21_000


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("division by zero"),
        ImportError("this answer cannot be imported"),
        SyntaxError("invalid syntax", ("<unknown>", 1, 1, "the answer")),
        AssertionError("no city"),
        SystemExit(0),
        GeneratorExit(),
        FileNotFoundError("no such file"),
        ExceptionGroup("two", [TimeoutError(), KeyError("city")]),
    ],
)
async def test_an_exception_is_a_failed_check_even_under_not(
    error: BaseException, answer_of: AnswerOf
) -> None:
    broken = Expectation("broken", Raising(error))
    has_it = Expectation("contains", Contains("Paris"))
    inner = Expectation("any_of", AnyOf((broken,)))
    for expectation in (
        broken,
        replace(broken, negated=True),
        Expectation("not_any_of", AnyOf((broken,)), negated=True),
        Expectation("not_all_of", AllOf((broken, has_it)), negated=True),
        Expectation("not_all_of", AllOf((inner, has_it)), negated=True),
    ):
        found = await grade(expectation, answer_of("Paris"))
        assert (found.passed, found.score) == (False, 0.0)
    found = await grade(Expectation("any_of", AnyOf((broken, has_it))), answer_of("Paris"))
    assert found.passed
    raised = found.parts[0]
    assert raised.reason.startswith("raised ")
    assert raised.detail


@dataclass(frozen=True, slots=True)
class Slow(GraderOptions):
    """Judges for as long as the event loop has not come round."""

    may_take_long = True

    came_round: Event = field(default_factory=Event)

    def grade(self, answer: Answer) -> Finding:
        return Finding(passed=self.came_round.wait(30), score=1.0, reason="")


@dataclass(frozen=True, slots=True)
class SlowWithLongAnswers(Slow):
    may_take_long = False


@pytest.mark.parametrize(
    ("grader", "output"), [(Slow(), "short"), (SlowWithLongAnswers(), "x" * (LONG_ANSWER + 1))]
)
async def test_calls_go_on_while_a_grader_computes(
    grader: Slow, output: str, answer_of: AnswerOf
) -> None:
    async with asyncio.TaskGroup() as group:
        judged = group.create_task(grade(Expectation("slow", grader), answer_of(output)))
        await asyncio.sleep(0.01)
        grader.came_round.set()
    assert judged.result().passed


def test_what_may_take_long_with_a_short_answer_says_so() -> None:
    slow = {name for name in GRADERS if checked(OPTIONS[name], GRADERS[name]).may_take_long}
    assert slow == {"json_path"}
    pattern = {"items": [{"type": "string", "pattern": "^(a+)+$"}]}
    assert JsonSchema(pattern).may_take_long
    assert IsJson(schema=pattern).may_take_long
    assert ContainsJson(schema={"patternProperties": {"^(a+)+$": {}}}).may_take_long
    assert not ContainsJson(schema={"uniqueItems": True}).may_take_long
    assert JsonSchema({"$ref": "#/$defs/tree", "$defs": {"tree": {}}}).may_take_long
    assert not JsonSchema({"properties": {"to": {"type": "string"}}}).may_take_long
    assert not JsonPath("$.flight.to").may_take_long
    assert Similar("a" * 20_000).may_take_long
    assert not Similar("Paris").may_take_long


async def test_a_pattern_that_takes_long_does_not_hold_up_calls(answer_of: AnswerOf) -> None:
    expectation = Expectation("regex", Regex("(a|aa)+$"))
    turns = 0
    async with asyncio.TaskGroup() as group:
        judged = group.create_task(grade(expectation, answer_of("a" * 26 + "!")))
        while not judged.done():
            await asyncio.sleep(0)
            turns += 1
    assert not judged.result().passed
    assert turns > 10


@pytest.mark.parametrize(
    ("grades", "score"),
    [
        ([], 1.0),
        ([graded(1), graded(0)], 0.5),
        ([graded(1, weight=3), graded(0)], 0.75),
        ([graded(1, weight=0), graded(0, weight=0)], 0.5),
        ([graded(1, weight=0), graded(0)], 0.0),
    ],
)
def test_the_score_is_the_mean_by_weight(grades: list[Grade], score: float) -> None:
    assert score_of(grades) == score


@pytest.mark.parametrize(
    ("grades", "threshold", "passed"),
    [
        ([], None, True),
        ([graded(1), graded(1)], None, True),
        ([graded(1), graded(0.9)], None, False),
        ([graded(1), graded(0, weight=0)], None, True),
        ([graded(1), graded(0)], 0.5, True),
        ([graded(1), graded(0)], 0.51, False),
        ([graded(0.1), graded(0.2), graded(0.6)], 0.3, True),
    ],
)
def test_all_graders_must_pass_unless_a_threshold_is_given(
    grades: list[Grade], threshold: float | None, passed: bool
) -> None:
    assert passes(grades, threshold) is passed


def test_every_grader_has_options_here_and_a_short_form_that_exists() -> None:
    assert OPTIONS.keys() == GRADERS.keys()
    for name, grader in GRADERS.items():
        assert grader.short in grader.__dataclass_fields__, name
        assert checked(OPTIONS[name], grader).problems() == []


@given(output=any_output, calls=any_calls, steps=any_steps, cost_usd=st.none() | st.floats(0, 1))
def test_no_answer_makes_a_grader_crash(
    output: str,
    calls: list[ToolCall],
    steps: tuple[Step, ...],
    cost_usd: float | None,
    answer_of: AnswerOf,
) -> None:
    answer = answer_of(output, tool_calls=tuple(calls), steps=steps, cost_usd=cost_usd)
    for name in OPTIONS.keys() - NEEDING_MORE:
        finding = checked(OPTIONS[name], GRADERS[name]).grade(answer)
        assert isinstance(finding, Finding), name
        assert 0 <= finding.score <= 1, name
        assert finding.reason, name
        assert finding.reason == visible(finding.reason), name


@pytest.mark.filterwarnings("ignore")  # re warns of patterns that will mean something else one day
@given(text=any_text | st.text("$.[]?@*'()=<>,:|&!1a ") | st.text("()[]{}*+?|\\^$aA1,<>!=:-"))
@example(text="\ud800")
@example(text="[0-\x1f")
def test_no_pattern_or_path_makes_its_check_crash(text: str) -> None:
    for grader in (Regex(pattern=text), JsonPath(path=text), PythonGrader(target=text)):
        for problem in grader.problems():
            assert problem == visible(problem)


@given(schema=st.dictionaries(st.sampled_from(KEYWORDS) | any_text, any_json, max_size=4))
def test_no_schema_makes_its_check_crash(schema: dict[str, Any]) -> None:
    for problem in JsonSchema(schema=schema).problems():
        assert problem == visible(problem)
