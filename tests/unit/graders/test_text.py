"""Graders that look at the text of the answer."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from factories import checked
from pydantic import ValidationError

from ci_evals.errors import GradingError
from ci_evals.graders import GRADERS, Regex
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer

AnswerOf = Callable[..., Answer]


def found(name: str, options: dict[str, Any], answer: Answer) -> Finding:
    finding = checked(options, GRADERS[name]).grade(answer)
    assert isinstance(finding, Finding)
    return finding


@pytest.mark.parametrize(
    ("name", "options", "output", "passed"),
    [
        ("equals", {"value": "Paris"}, "Paris", True),
        ("equals", {"value": "Paris"}, "Paris\n", False),
        ("equals", {"value": "Paris", "trim": True}, " Paris\n", True),
        ("equals", {"value": "STRASSE", "ignore_case": True}, "Straße", True),
        ("equals", {"value": "1"}, "1.0", False),
        ("equals", {"value": 1}, "1.0", True),
        ("equals", {"value": True}, "1", False),
        ("equals", {"value": True}, "true", True),
        ("equals", {"value": 0}, "false", False),
        ("equals", {"value": None}, "null", True),
        (
            "equals",
            {"value": {"a": [1, {"b": True}]}},
            '```json\n{"a": [1.0, {"b": true}]}\n```',
            True,
        ),
        ("equals", {"value": {"a": [1, {"b": True}]}}, '{"a": [1, {"b": 1}]}', False),
        ("equals", {"value": {"a": 1}}, '{"a": 1, "b": 2}', False),
        ("equals", {"value": [1, 2]}, "[2, 1]", False),
        ("contains", {"value": "Paris"}, "It is Paris.", True),
        ("contains", {"value": "paris"}, "It is Paris.", False),
        ("contains", {"value": "paris", "ignore_case": True}, "It is Paris.", True),
        ("contains", {"value": "pArIs", "ignore_case": True}, "It is Paris.", True),
        ("contains", {"value": "Rome", "ignore_case": True}, "It is Paris.", False),
        ("contains_all", {"value": ["a", "b"]}, "b and a", True),
        ("contains_all", {"value": ["a", "x"]}, "b and a", False),
        ("contains_all", {"value": ["A", "B"], "ignore_case": True}, "b and a", True),
        ("contains_any", {"value": ["x", "b"]}, "b and a", True),
        ("contains_any", {"value": ["x", "y"]}, "b and a", False),
        ("contains_any", {"value": ["X", "B"], "ignore_case": True}, "b and a", True),
        ("starts_with", {"value": "It"}, "It is", True),
        ("starts_with", {"value": "It"}, " It is", False),
        ("starts_with", {"value": "it", "ignore_case": True, "trim": True}, " It is", True),
        ("ends_with", {"value": "is"}, "It is", True),
        ("ends_with", {"value": "is"}, "It is\n", False),
        ("ends_with", {"value": "IS", "ignore_case": True, "trim": True}, "It is\n", True),
        ("regex", {"pattern": r"\d{4}"}, "in 1999.", True),
        ("regex", {"pattern": r"^\d{4}$"}, "in 1999.", False),
        ("regex", {"pattern": r"^paris.end$", "flags": "ims"}, "x\nParis\nend\ny", True),
        ("max_length", {"value": 3}, "Rom", True),
        ("max_length", {"value": 3}, "Rome", False),
        ("not_empty", {"value": True}, " \n\t", False),
        ("not_empty", {}, ".", True),
        ("similar", {"value": "Paris, France"}, "Paris France", True),
        ("similar", {"value": "Paris"}, "London", False),
        ("similar", {"value": "PARIS", "ignore_case": True, "threshold": 1}, "Paris", True),
        ("similar", {"value": "PARIS", "threshold": 1}, "Paris", False),
        ("similar", {"value": "a" + "b" * 9, "threshold": 0.1}, "a" + "c" * 9, True),
    ],
)
def test_what_passes_and_what_does_not(
    name: str, options: dict[str, Any], output: str, passed: bool, answer_of: AnswerOf
) -> None:
    assert found(name, options, answer_of(output)).passed is passed


@pytest.mark.parametrize(
    ("name", "options", "output", "reason"),
    [
        ("equals", {"value": "Paris"}, "Paris", 'the answer is "Paris"'),
        ("equals", {"value": "Paris"}, "Rome", 'the answer is "Rome", expected "Paris"'),
        (
            "equals",
            {"value": {"to": ["Rome"]}},
            '{"to": ["Paris"]}',
            '$.to[0] is "Paris", expected "Rome"',
        ),
        ("equals", {"value": {"a": 1}}, "{}", "$.a is missing, expected 1"),
        ("equals", {"value": {}}, '{"a": null}', "$.a is null, but was not expected"),
        ("equals", {"value": [1]}, "[1, 2]", "the answer is [1, 2], expected [1]"),
        ("contains", {"value": "Paris"}, "It is Paris", '"Paris" is in the answer'),
        ("contains", {"value": "Paris"}, "London", 'no "Paris" in the answer'),
        ("contains_all", {"value": ["Rome", "x"]}, "x", 'no "Rome" in the answer'),
        ("contains_any", {"value": ["a", "b"]}, "c", 'none of "a", "b" in the answer'),
        ("starts_with", {"value": "a"}, "b", 'the answer starts with "b", expected "a"'),
        ("ends_with", {"value": "a"}, "b", 'the answer ends with "b", expected "a"'),
        ("regex", {"pattern": "a+"}, "caat", '"aa" matches `a+`'),
        ("regex", {"pattern": "a+"}, "b", "no match of `a+` in the answer"),
        ("max_length", {"value": 2}, "abc", "3 characters, at most 2 allowed"),
        ("similar", {"value": "ab"}, "cd", 'similarity to "ab" is 0.000, at least 0.8 needed'),
    ],
)
def test_the_reason_says_what_was_expected_and_what_was_there(
    name: str, options: dict[str, Any], output: str, reason: str, answer_of: AnswerOf
) -> None:
    assert found(name, options, answer_of(output)).text == reason


def test_a_difference_in_white_space_or_case_names_the_option_that_accepts_it(
    answer_of: AnswerOf,
) -> None:
    assert "`trim: true`" in found("equals", {"value": "Paris"}, answer_of("Paris\n")).text
    assert "`ignore_case: true`" in found("equals", {"value": "Paris"}, answer_of("paris")).text


def test_long_texts_are_shown_where_they_differ(answer_of: AnswerOf) -> None:
    reason = found("equals", {"value": "x" * 500 + "yes"}, answer_of("x" * 500 + "no")).text
    end = "x" * 20
    assert reason == f'the answer is "…{end}no", expected "…{end}yes"'


def test_contains_all_scores_the_share_that_is_there(answer_of: AnswerOf) -> None:
    assert found("contains_all", {"value": ["a", "b", "c", "d"]}, answer_of("a b c")).score == 0.75


def test_similar_scores_the_similarity(answer_of: AnswerOf) -> None:
    finding = found("similar", {"value": "abcd", "threshold": 0.5}, answer_of("abce"))
    assert finding.score == pytest.approx(0.75)
    assert finding.passed


def test_an_answer_of_only_tool_calls_is_not_empty(answer_of: AnswerOf) -> None:
    answer = msgspec.convert(
        {"output": "", "tool_calls": [{"name": "book"}]}, type(answer_of("").response)
    )
    assert found("not_empty", {}, answer_of(tool_calls=answer.tool_calls)).passed


def test_a_huge_hostile_answer_is_quoted_short_and_printable(answer_of: AnswerOf) -> None:
    answer = answer_of("\x1b[2J\ud800\n" + "x" * 1_000_000)
    reason = found("equals", {"value": "Paris"}, answer).text
    assert len(reason) < 200
    assert reason.isprintable()


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("regex", {"pattern": "a(b"}, "missing ) at position 3"),
        ("regex", {"pattern": "a{99999999999999999999}"}, "repeat count too big at position 2"),
        ("not_empty", {"value": False}, "leave it out"),
        ("is_json", {"value": False}, "`not_is_json: true`"),
    ],
)
def test_mistakes_are_seen_before_any_call(
    name: str, options: dict[str, Any], problem: str
) -> None:
    (message,) = checked(options, GRADERS[name]).problems()
    assert problem in message


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("contains", {"value": ""}),
        ("contains", {"value": 5}),
        ("contains_any", {"value": []}),
        ("regex", {"pattern": "a", "flags": "x"}),
        ("similar", {"value": "a", "threshold": 1.1}),
        ("max_length", {"value": -1}),
        ("latency", {"value": 0}),
        ("cost", {"value": -0.1}),
        ("equals", {}),
        ("equals", {"value": "a", "ignorecase": True}),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        checked(options, GRADERS[name])


def test_a_pattern_that_backtracks_for_ever_is_given_up() -> None:
    with pytest.raises(
        GradingError, match=r"was still matching after 0\.05 s; give it one way to match"
    ):
        Regex("(a|aa)+$").search(f"{'a' * 100}!", timeout_s=0.05)


@pytest.mark.parametrize(
    ("options", "output", "reason"),
    [
        ({"max": 3}, "one two  three\n", "3 words: no more than 3 words"),
        ({"max": 2}, "one two three", "3 words, at most 2 allowed"),
        ({"min": 2}, "one", "1 word, at least 2 needed"),
        ({"min": 1, "max": 2}, "one", "1 word: no more than 2 words and no fewer than 1 word"),
        ({"max": 0}, "", "0 words: no more than 0 words"),
        ({"min": 0}, "", "0 words: no fewer than 0 words"),
    ],
)
def test_words_are_counted(
    options: dict[str, int], output: str, reason: str, answer_of: AnswerOf
) -> None:
    finding = found("word_count", options, answer_of(output))
    assert (finding.text, finding.passed) == (reason, ":" in reason)


@pytest.mark.parametrize(
    "pattern",
    ["a{1000}", r"\{99999999\}", "[]{99999999}]", "a{0,99999999}", "(a{100}b){100}", "a{,3}"],
)
def test_a_pattern_with_repetitions_that_take_little_is_accepted(pattern: str) -> None:
    assert Regex(pattern).problems() == []
