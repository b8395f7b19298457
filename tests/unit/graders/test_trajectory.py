"""`trajectory` and the graders of steps: what passes, and where two trajectories part."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from factories import checked

from ci_evals.errors import GradingError
from ci_evals.graders import GRADERS
from ci_evals.graders.scoring import grade
from ci_evals.model.grading import Expectation, Finding
from ci_evals.model.request import Answer
from ci_evals.model.response import Step, ToolCall

AnswerOf = Callable[..., Answer]


def call(name: str, error: str | None = None, **arguments: Any) -> Step:
    return Step("tool_call", name, arguments, error=error)


def found(name: str, options: Mapping[str, Any], answer: Answer) -> Finding:
    finding = checked(options, GRADERS[name]).grade(answer)
    assert isinstance(finding, Finding)
    return finding


SEARCH, PARIS, LONDON, PAY = (
    call("search"),
    call("book", to="Paris"),
    call("book", to="London"),
    call("pay"),
)


@pytest.mark.parametrize(
    ("match", "calls", "steps", "passed"),
    [
        ("exact", ["search", "book"], [SEARCH, PARIS], True),
        ("exact", ["search", "book"], [PARIS, SEARCH], False),
        ("exact", ["search", "book"], [SEARCH, PARIS, PAY], False),
        ("exact", [], [], True),
        ("exact", [], [PAY], False),
        ("in_order", ["search", "pay"], [SEARCH, PARIS, PAY], True),
        ("in_order", ["pay", "search"], [SEARCH, PARIS, PAY], False),
        ("in_order", ["book", "book"], [PARIS], False),
        ("any_order", ["book", "search"], [SEARCH, PARIS], True),
        ("any_order", ["book", "search"], [SEARCH, PARIS, PAY], False),
        ("any_order", ["book", "book"], [PARIS], False),
        ("subset", ["search", "book", "pay"], [PARIS], True),
        ("subset", ["search"], [SEARCH, SEARCH], False),
        ("subset", [], [], True),
        ("superset", ["pay", "search"], [SEARCH, PARIS, PAY], True),
        ("superset", ["cancel"], [SEARCH, PARIS, PAY], False),
        ("superset", [{"name": "book", "arguments": {"to": "London"}}], [PARIS, LONDON], True),
        ("superset", [{"name": "book", "arguments": {}}], [PARIS], False),
    ],
)
def test_what_matches_and_what_does_not(
    match: str, calls: list[Any], steps: list[Step], passed: bool, answer_of: AnswerOf
) -> None:
    finding = found("trajectory", {"calls": calls, "match": match}, answer_of(steps=tuple(steps)))
    assert finding.passed is passed
    assert (finding.score == 1) is passed


@pytest.mark.parametrize(
    ("match", "calls", "steps", "reason"),
    [
        (
            "exact",
            ["search", "pay"],
            [SEARCH, PARIS],
            ('call 2 is "book" with {"to": "Paris"}: called search → book, expected search → pay'),
        ),
        (
            "exact",
            [{"name": "book", "arguments": {"to": "Paris"}}],
            [LONDON],
            'book: to is "London", expected "Paris" (call 1)',
        ),
        (
            "exact",
            ["search", "pay"],
            [SEARCH],
            'stops before the call of "pay": called search, expected search → pay',
        ),
        (
            "exact",
            ["search"],
            [SEARCH, PAY],
            'a further call of "pay" at the end: called search → pay, expected search',
        ),
        ("exact", [], [PAY], 'a further call of "pay" at the end: called pay, expected no tool'),
        (
            "in_order",
            ["search", "pay", "book"],
            [SEARCH, PARIS, PAY],
            (
                'no call of "book" after "pay":'
                " called search → book → pay, expected search → pay → book"
            ),
        ),
        (
            "in_order",
            ["search", "cancel"],
            [SEARCH, PAY],
            'no call of "cancel" after "search": called search → pay, expected search → cancel',
        ),
        (
            "superset",
            [{"name": "book", "arguments": {"to": "Rome"}}],
            [SEARCH, PARIS],
            'book: to is "Paris", expected "Rome" (call 2)',
        ),
        (
            "subset",
            ["search"],
            [SEARCH, PAY],
            'unexpected call of "pay": called search → pay, expected search',
        ),
        (
            "any_order",
            ["pay"],
            [PAY, SEARCH],
            'unexpected call of "search": called pay → search, expected pay',
        ),
    ],
)
def test_a_reason_says_where_the_trajectories_part(
    match: str, calls: list[Any], steps: list[Step], reason: str, answer_of: AnswerOf
) -> None:
    assert (
        found("trajectory", {"calls": calls, "match": match}, answer_of(steps=tuple(steps))).text
        == reason
    )


def test_the_score_is_the_share_of_calls_as_expected(answer_of: AnswerOf) -> None:
    answer = answer_of(steps=(SEARCH, PARIS, PAY))
    assert found("trajectory", {"calls": ["search", "cancel"]}, answer).score == 0.5
    assert found(
        "trajectory", {"calls": ["search"], "match": "exact"}, answer
    ).score == pytest.approx(1 / 3)


def test_calls_of_sub_agents_count_and_other_steps_do_not(answer_of: AnswerOf) -> None:
    inner = Step("tool_call", "search", agent="researcher")
    answer = answer_of(
        steps=(Step("agent", "researcher"), inner, Step("message", "assistant", result="hm"), PARIS)
    )
    assert found("trajectory", {"calls": ["search", "book"], "match": "exact"}, answer).passed


def test_an_answer_without_steps_is_judged_by_its_tool_calls(answer_of: AnswerOf) -> None:
    answer = answer_of(tool_calls=(ToolCall("search"), ToolCall("book")))
    assert found("trajectory", {"calls": ["search", "book"], "match": "exact"}, answer).passed


async def test_negation_and_weight_are_those_of_every_grader(answer_of: AnswerOf) -> None:
    grader = checked({"calls": ["pay"]}, GRADERS["trajectory"])
    given = await grade(
        Expectation("not_trajectory", grader, negated=True, weight=3), answer_of(steps=(SEARCH,))
    )
    assert (given.passed, given.score, given.weight) == (True, 1, 3)


def test_thousands_of_calls_end_in_a_sentence(answer_of: AnswerOf) -> None:
    answer = answer_of(steps=(SEARCH,) * 5000)
    assert "(5,000 calls)" in found("trajectory", {"calls": ["search"] * 100}, answer).text


def test_a_trajectory_that_always_passes_is_refused() -> None:
    for match in ("in_order", "superset"):
        (problem,) = checked({"calls": [], "match": match}, GRADERS["trajectory"]).problems()
        assert "always pass" in problem


# Steps.


def test_a_failed_tool_call_is_named_with_its_step(answer_of: AnswerOf) -> None:
    steps = (
        Step("model_request", "m"),
        SEARCH,
        call("book", error="no seats"),
        call("book", error="no seats"),
        PAY,
    )
    finding = found("no_tool_errors", {}, answer_of(steps=steps))
    assert (finding.passed, finding.score) == (False, 0.5)
    assert finding.text == 'the call of "book" failed at step 3: "no seats" (and 1 more error)'
    assert found("no_tool_errors", {}, answer_of(steps=(SEARCH, PAY))).passed


def test_failed_calls_of_other_tools_may_be_allowed(answer_of: AnswerOf) -> None:
    """An agent's shell command may fail on the way, its order must not."""
    answer = answer_of(steps=(call("bash", error="exit 1"), PAY, call("book", error="no seats")))
    finding = found("no_tool_errors", {"tools": ["pay", "search"]}, answer)
    assert finding.passed
    assert finding.text == "none of 1 call of pay, search failed"
    finding = found("no_tool_errors", {"tools": ["pay", "book"]}, answer)
    assert (finding.passed, finding.score) == (False, 0.5)
    assert finding.text == 'the call of "book" failed at step 3: "no seats"'


@pytest.mark.parametrize(
    ("name", "options", "passed", "reason"),
    [
        ("max_tool_calls", {"value": 3}, True, "3 tool calls, no more than 3"),
        (
            "max_tool_calls",
            {"value": 2},
            False,
            "3 tool calls, at most 2 allowed (number 3 is pay)",
        ),
        (
            "max_tool_calls",
            {"value": 0, "tool": "cancel"},
            True,
            "0 cancel calls, no more than 0",
        ),
        (
            "max_tool_calls",
            {"value": 0, "tool": "pay"},
            False,
            "1 pay call, at most 0 allowed (number 1 is pay)",
        ),
        ("max_steps", {"value": 5}, True, "5 steps, no more than 5"),
        (
            "max_steps",
            {"value": 4},
            False,
            "5 steps, at most 4 allowed (number 5 is pay)",
        ),
        ("max_model_requests", {"value": 2}, True, "2 model requests, no more than 2"),
        (
            "max_model_requests",
            {"value": 1},
            False,
            "2 model requests, at most 1 allowed (number 2 is m)",
        ),
    ],
)
def test_steps_are_counted(
    name: str, options: dict[str, Any], passed: bool, reason: str, answer_of: AnswerOf
) -> None:
    asked, said = Step("model_request", "m"), Step("message", "assistant", result="hm")
    finding = found(name, options, answer_of(steps=(said, asked, SEARCH, PARIS, asked, PAY)))
    assert finding.passed is passed
    assert finding.text.startswith(reason)


@pytest.mark.parametrize("name", ["no_tool_errors", "max_steps", "max_model_requests"])
def test_what_needs_steps_gives_no_verdict_without_them(name: str, answer_of: AnswerOf) -> None:
    options: dict[str, Any] = {} if name == "no_tool_errors" else {"value": 3}
    with pytest.raises(GradingError, match="return `steps`"):
        found(name, options, answer_of("Paris"))


def test_steps_without_a_model_request_say_nothing_about_their_number(answer_of: AnswerOf) -> None:
    with pytest.raises(GradingError, match="model_request"):
        found("max_model_requests", {"value": 3}, answer_of(steps=(SEARCH,)))
