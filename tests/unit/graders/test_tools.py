"""`tool_call` and `tool_arguments`: which calls pass, and how a wrong one is explained."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from factories import checked

from ci_evals.graders import ToolArguments, ToolCallMatch
from ci_evals.graders.scoring import grade
from ci_evals.model.grading import Expectation, Finding
from ci_evals.model.request import Answer
from ci_evals.model.response import ToolCall

AnswerOf = Callable[..., Answer]


def call(name: str, arguments: Mapping[str, Any] | str | None = None) -> ToolCall:
    return ToolCall(name, {} if arguments is None else arguments)


def found(options: dict[str, Any], answer: Answer) -> Finding:
    return checked(options, ToolCallMatch).grade(answer)


PARIS = call("book", {"to": "Paris"})
LONDON = call("book", {"to": "London"})
SEARCH = call("search")


@pytest.mark.parametrize(
    ("options", "calls", "passed"),
    [
        ({"tool": "book"}, [PARIS], True),
        ({"tool": "book"}, [call("book", "{to: Par")], True),
        ({"tool": "book"}, [SEARCH, PARIS], False),
        ({"tool": "book", "ignore_extra_calls": True}, [SEARCH, PARIS], True),
        ({"tool": "book", "arguments": {"to": "Paris"}}, [PARIS], True),
        ({"tool": "book", "arguments": {}}, [PARIS], False),
        ({"tool": "book", "arguments": {}, "ignore_extra_args": True}, [PARIS], True),
        ({"tool": "book", "arguments": {"seats": 1}}, [call("book", {"seats": 1.0})], True),
        ({"tool": "book", "arguments": {"seats": 1}}, [call("book", {"seats": True})], False),
        ({"calls": [{"name": "search"}, {"name": "book"}]}, [PARIS, SEARCH], True),
        (
            {"calls": [{"name": "search"}, {"name": "book"}], "match_order": True},
            [PARIS, SEARCH],
            False,
        ),
        (
            {"calls": [{"name": "search"}, {"name": "book"}], "match_order": True},
            [SEARCH, PARIS],
            True,
        ),
        (
            {"calls": [{"name": "search"}, {"name": "book"}], "match_order": True},
            [SEARCH, LONDON, PARIS],
            False,
        ),
        (
            {
                "calls": [{"name": "search"}, {"name": "book", "arguments": {"to": "Paris"}}],
                "match_order": True,
                "ignore_extra_calls": True,
            },
            [SEARCH, LONDON, PARIS],
            True,
        ),
        ({"calls": [{"name": "book"}, {"name": "book"}]}, [PARIS], False),
        (
            {"calls": [{"name": "book"}, {"name": "book", "arguments": {"to": "Paris"}}]},
            [PARIS, LONDON],
            True,
        ),
        ({"calls": []}, [], True),
        ({"calls": []}, [PARIS], False),
    ],
)
def test_what_passes_and_what_does_not(
    options: dict[str, Any], calls: list[ToolCall], passed: bool, answer_of: AnswerOf
) -> None:
    assert found(options, answer_of(tool_calls=tuple(calls))).passed is passed


@pytest.mark.parametrize(
    ("options", "calls", "reason"),
    [
        ({"tool": "book"}, [], 'no call of "book", nor of any other tool'),
        (
            {"tool": "book", "arguments": {"to": "Paris"}},
            [SEARCH],
            'no call of "book" with {"to": "Paris"} (called: search)',
        ),
        (
            {"tool": "book", "arguments": {"to": "Paris"}},
            [LONDON],
            'book: to is "London", expected "Paris"',
        ),
        (
            {"tool": "book", "arguments": {"to": "Paris", "on": {"day": 1}}},
            [SEARCH, LONDON, call("book", {"to": "Paris", "on": {"day": 2}})],
            "book: on.day is 2, expected 1 (in the closest of 2 calls)",
        ),
        (
            {"tool": "book", "arguments": {"to": "Paris"}},
            [call("book", {"seats": 2})],
            'book: to is missing, expected "Paris"; seats is 2, but was not expected',
        ),
        (
            {"tool": "book", "arguments": {"to": "Paris"}},
            [call("book", "{to")],
            'book: arguments is "{to", expected {"to": "Paris"}',
        ),
        (
            {"tool": "book"},
            [PARIS, SEARCH],
            'also called "search", which `ignore_extra_calls: true` accepts',
        ),
        ({"calls": []}, [SEARCH], 'called "search", expected no call'),
        (
            {"calls": [{"name": "search"}, {"name": "book"}], "match_order": True},
            [PARIS, SEARCH],
            "called book → search, expected search → book",
        ),
    ],
)
def test_a_wrong_call_is_explained_against_the_closest_one(
    options: dict[str, Any], calls: list[ToolCall], reason: str, answer_of: AnswerOf
) -> None:
    assert found(options, answer_of("I cannot.", tool_calls=tuple(calls))).text == reason


@pytest.mark.parametrize(
    ("options", "calls", "passed"),
    [
        ({"tool": "book"}, [SEARCH], True),
        ({"tool": "book"}, [SEARCH, PARIS], False),
        (
            {"tool": "book", "arguments": {"to": "Paris"}},
            [call("book", {"to": "Paris", "seats": 2})],
            False,
        ),
        ({"tool": "book", "arguments": {"to": "Paris"}}, [LONDON], True),
        ({"calls": []}, [PARIS], True),
        ({"calls": []}, [], False),
    ],
)
async def test_extra_calls_or_arguments_do_not_excuse_a_forbidden_call(
    options: dict[str, Any], calls: list[ToolCall], passed: bool, answer_of: AnswerOf
) -> None:
    forbidden = Expectation(
        "not_tool_call", checked(options, ToolCallMatch).for_negation(), negated=True
    )
    assert (await grade(forbidden, answer_of(tool_calls=tuple(calls)))).passed is passed


def test_hostile_names_and_arguments_are_shown_short_and_printable(answer_of: AnswerOf) -> None:
    hostile = call("\x1b[31m" * 1000, {"\ud800\n" * 1000: "\x07" * 100_000})
    reason = found({"tool": "book"}, answer_of(tool_calls=(hostile, hostile))).text
    assert len(reason) < 1000
    assert reason.isprintable()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "either `tool`"),
        ({"tool": "book", "calls": []}, "either `tool`"),
        ({"calls": [], "arguments": {}}, "belongs to `tool`"),
        ({"calls": [], "ignore_extra_calls": True}, "always pass"),
    ],
)
def test_options_that_contradict_each_other_are_a_problem(
    options: dict[str, Any], problem: str
) -> None:
    (message,) = checked(options, ToolCallMatch).problems()
    assert problem in message


# `tool_arguments`.


def judge_arguments(options: Mapping[str, Any], answer: Answer) -> Finding:
    return checked({"tool": "book", **options}, ToolArguments).grade(answer)


@pytest.mark.parametrize(
    ("options", "passed"),
    [
        ({"arguments": {"to": "Paris", "seats": 2}}, True),
        ({"arguments": {"to": "Paris"}}, False),
        ({"arguments": {"to": "Paris"}, "match": "subset"}, True),
        ({"schema": {"required": ["to"], "properties": {"seats": {"minimum": 1}}}}, True),
        ({"schema": {"properties": {"seats": {"minimum": 3}}}}, False),
        ({"where": {"to": {"equals": "Paris"}}}, True),
        ({"where": {"to": {"one_of": ["Rome", "Paris"]}}}, True),
        ({"where": {"to": {"one_of": ["Rome"]}}}, False),
        ({"where": {"to": {"regex": "^P.ris$"}}}, True),
        ({"where": {"to": {"contains": "par"}}}, False),
        ({"where": {"to": {"contains": "par", "ignore_case": True}}}, True),
        ({"where": {"seats": {"approx": 2.2, "tolerance": 0.25}}}, True),
        ({"where": {"seats": {"approx": 2.2, "tolerance": 0.1}}}, False),
        ({"where": {"seats": {"min": 3}}}, False),
        ({"where": {"seats": {"max": 1}}}, False),
        ({"where": {"to": {"max": 1}}}, False),
        ({"where": {"who": {"equals": 1}}}, False),
    ],
)
def test_arguments_are_compared_by_value_schema_and_condition(
    options: dict[str, Any], passed: bool, answer_of: AnswerOf
) -> None:
    answer = answer_of(tool_calls=(call("book", {"to": "Paris", "seats": 2}),))
    assert judge_arguments(options, answer).passed is passed


@pytest.mark.parametrize(
    ("calls", "passed"), [("every", False), ("any", True), ("first", True), ("last", False)]
)
def test_it_is_said_which_calls_must_be_right(
    calls: str, passed: bool, answer_of: AnswerOf
) -> None:
    options = {"arguments": {"to": "Paris"}, "calls": calls}
    finding = judge_arguments(options, answer_of(tool_calls=(PARIS, SEARCH, LONDON)))
    assert finding.passed is passed
    if not passed:
        assert finding.text == 'book: to is "London", expected "Paris" (call 3)'


def test_inner_arguments_are_found_by_their_names_between_dots(answer_of: AnswerOf) -> None:
    answer = answer_of(tool_calls=(call("book", {"who": {"name": "Ada"}, "a.b": 1}),))
    where = {"who.name": {"equals": "Ada"}, "a.b": {"equals": 1}}
    assert judge_arguments({"where": where}, answer).passed
    assert "who.age is missing" in (
        judge_arguments({"where": {"who.age": {"min": 1}}}, answer).text
    )


def test_arguments_that_are_no_json_do_not_pass(answer_of: AnswerOf) -> None:
    answer = answer_of(tool_calls=(call("book", "{to:"),))
    asked: list[dict[str, Any]] = [
        {"arguments": {}},
        {"schema": {"type": "object"}},
        {"where": {"to": {"regex": ""}}},
    ]
    for options in asked:
        assert not judge_arguments(options, answer).passed


def test_a_tool_that_was_not_called_does_not_pass(answer_of: AnswerOf) -> None:
    finding = judge_arguments({"schema": {}}, answer_of(tool_calls=(SEARCH,)))
    assert (finding.passed, finding.text) == (False, 'no call of "book" (called: search)')


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"schema": {"type": "strin"}}, "bad JSON Schema"),
        ({"where": {"to": {"regex": "("}}}, "where.to: bad regular expression"),
        ({"where": {"to": {}}}, "where.to: no condition"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any], problem: str) -> None:
    (told,) = checked({"tool": "book", **options}, ToolArguments).problems()
    assert told.startswith(problem)


@pytest.mark.parametrize(
    ("options", "calls", "score"),
    [
        ({"calls": [{"name": "search"}, {"name": "book"}]}, [SEARCH], 0.5),
        ({"calls": [{"name": "search"}, {"name": "book"}]}, [SEARCH, PARIS, LONDON, LONDON], 0.5),
        (
            {"calls": [{"name": "search"}, {"name": "book"}], "match_order": True},
            [PARIS, SEARCH],
            0.5,
        ),
        (
            {"calls": [{"name": "search"}, {"name": "pay"}], "ignore_extra_calls": True},
            [SEARCH, PARIS, LONDON],
            0.5,
        ),
        ({"calls": [{"name": "search"}, {"name": "book"}]}, [SEARCH, PARIS], 1.0),
        ({"tool": "book"}, [SEARCH, PARIS], 0.0),
    ],
)
def test_the_score_of_several_calls_is_the_share_that_is_right(
    options: dict[str, Any], calls: list[ToolCall], score: float, answer_of: AnswerOf
) -> None:
    assert found(options, answer_of(tool_calls=tuple(calls))).score == score
