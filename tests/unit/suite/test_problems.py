from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest

from ci_evals.graders import GRADERS
from ci_evals.graders.judge import LlmJudge
from ci_evals.model.case import Case
from ci_evals.model.fields import (
    Bool,
    Float,
    Int,
    Interpolated,
    Many,
    OneOrMore,
    Options,
    Positive,
    Secret,
    Share,
)
from ci_evals.providers import PROVIDERS
from ci_evals.providers.base import ProviderOptions
from ci_evals.suite import spellings as tables
from ci_evals.suite.keys import keys_of
from ci_evals.suite.nodes import Node, collect
from ci_evals.suite.problems import check, resolve_texts, try_check, unknown
from ci_evals.suite.types import PromptTemplate, Suite
from ci_evals.suite.yaml import Lines, parse


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True, slots=True)
class Inner(Options):
    x: Int
    y: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer(Options):
    whole: Positive = 1
    real: Float | None = None
    flag: Bool = False
    share: Share = 0.0
    text: str = ""
    word: Literal["a", "b"] = "a"
    inner: Inner | None = None
    many: Many[Inner] = ()
    table: Mapping[str, str | Inner] = field(default_factory=dict)
    rates: Mapping[str, Float] = field(default_factory=dict)
    words: OneOrMore[str] = ("x",)
    either: str | Many[str] = ""
    key: Secret | None = None
    free: Mapping[str, Any] = field(default_factory=dict)


def decode(text: str, environ: Mapping[str, str] | None = None) -> tuple[Outer | None, list[str]]:
    data, lines, duplicates = parse(text, "f")
    for name, value in (environ or {}).items():
        data[name] = Interpolated(value, (name.upper(),))
    decoded, problems = collect(check(Outer, Node(data, lines, "f")))
    return decoded, [str(problem) for problem in (*duplicates, *problems)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("whole: 1.5", "whole: expected a whole number, got 1.5"),
        ("whole: 1.0", "whole: expected a whole number, got 1.0"),
        ("whole: true", "whole: expected a whole number, got true"),
        ("whole: '2'", "whole: expected a whole number, got '2'"),
        ("whole: 0", "whole: expected a whole number >= 1, got 0"),
        ("whole:", "whole: expected a whole number, got nothing"),
        ("real: fast", "real: expected a number, got 'fast'"),
        ("flag: yes", "flag: expected true or false, got 'yes'"),
        ("flag: 1", "flag: expected true or false, got 1"),
        ("share: 90", "share: expected a number <= 1, got 90: 90 % is written 0.9"),
        ("text: 5", 'text: expected text, got 5: put quotes round it, as in "5"'),
        ("text: [a]", "text: expected text, got a list"),
        ("word: c", "word: expected a or b, got 'c'"),
        ("inner: 5", "inner: expected a mapping with keys such as x, y, got 5"),
        ("inner: {}", "inner: the key 'x' is missing"),
        ("inner: {x: 1, z: 2}", "inner: unknown key 'z', known: x, y"),
        ("inner: {X: 1}", "inner: unknown key 'X', did you mean 'x'?"),
        (
            "many: {x: 1}",
            (
                "many: expected a list, got a mapping: write `- ` before each item, or put [ ] "
                "round them"
            ),
        ),
        ("many: [{x: 1}, {x: a}]", "many[1].x: expected a whole number, got 'a'"),
        (
            "table: {k: 5}",
            'table.k: expected text or a mapping, got 5: put quotes round it, as in "5"',
        ),
        ("table: {k: {x: a}}", "table.k.x: expected a whole number, got 'a'"),
        ("rates: {k: high}", "rates.k: expected a number, got 'high'"),
        ("words: []", "words: expected at least 1 entry, got 0"),
        ("words: [a, 5]", 'words[1]: expected text, got 5: put quotes round it, as in "5"'),
        ("either: [a, 5]", 'either[1]: expected text, got 5: put quotes round it, as in "5"'),
        (
            "key: sk-123",
            (
                "key: a key does not belong in the file: name its environment variable, as in "
                "${MY_API_KEY}"
            ),
        ),
    ],
)
def test_a_wrong_value_is_told_with_its_place_and_what_was_expected(
    text: str, problem: str
) -> None:
    assert decode(text) == (None, [f"f:1: {problem}"])


def test_all_problems_are_told_at_once_each_with_its_line() -> None:
    _, problems = decode("whole: 0\nmany:\n  - x: a\n  - y: 5\nrates:\n  k: a\n  l: b\nunknwon: 1")
    assert [problem.split(": ")[0] for problem in problems] == [
        "f:8",
        "f:1",
        "f:3",
        "f:4",
        "f:6",
        "f:7",
        "f:4",
    ]


def test_the_key_is_not_repeated() -> None:
    _, problems = decode("key: sk-very-secret")
    assert "sk-very-secret" not in problems[0]


@dataclass(frozen=True, slots=True)
class OfAPlugin(Options):
    count: int = 1
    share: float = 0.5
    flag: bool = False
    path: Path = Path()
    day: date = date(2026, 1, 1)
    colour: Colour = Colour.RED


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("count: many", "count: expected a whole number, got 'many'"),
        ("count: 1.5", "count: expected a whole number, got 1.5"),
        ("share: half", "share: expected a number, got 'half'"),
        ("flag: perhaps", "flag: expected true or false, got 'perhaps'"),
        ("path: 5", 'path: expected text, got 5: put quotes round it, as in "5"'),
        ("colour: pink", "colour: expected red or green, got 'pink'"),
        ("day: soon", "day: expected a valid date or datetime, input is too short, got 'soon'"),
    ],
)
def test_plain_types_of_plugins_are_told_as_plainly(written: str, message: str) -> None:
    data, lines, _ = parse(written, "f")
    _, (problem,) = collect(check(OfAPlugin, Node(data, lines, "f")))
    assert str(problem) == f"f:1: {message}"


def test_right_values_are_decoded_into_their_types() -> None:
    decoded, problems = decode(
        "{whole: 2, real: 1, flag: true, word: b, inner: {x: 1}, many: [{x: 2, y: z}], "
        "table: {a: t, b: {x: 3}}, "
        "rates: {a: 1}, words: [a], either: [a, b], free: {a: [1, {b: null}]}}"
    )
    assert problems == []
    assert decoded == Outer(
        whole=2,
        real=1.0,
        flag=True,
        word="b",
        inner=Inner(1),
        many=(Inner(2, "z"),),
        table={"a": "t", "b": Inner(3)},
        rates={"a": 1.0},
        words=("a",),
        either=("a", "b"),
        free={"a": [1, {"b": None}]},
    )


def test_text_of_the_environment_becomes_what_the_key_wants() -> None:
    environ = {
        "whole": "3",
        "real": "0.5",
        "flag": "true",
        "text": "12",
        "word": "b",
        "key": "sk-1",
    }
    decoded, problems = decode("{}", environ)
    assert problems == []
    assert decoded is not None
    assert (decoded.whole, decoded.real, decoded.flag, decoded.text, decoded.word) == (
        3,
        0.5,
        True,
        "12",
        "b",
    )
    assert decoded.key is not None
    assert (decoded.key.reveal(), decoded.key.name) == ("sk-1", "KEY")


@pytest.mark.parametrize(
    ("name", "value"),
    [("whole", "3.5"), ("whole", "many"), ("real", "nan"), ("real", "inf"), ("word", "sk-9")],
)
def test_a_wrong_value_of_the_environment_is_not_shown(name: str, value: str) -> None:
    _, (problem,) = decode("{}", {name: value})
    assert problem.endswith(f"got the value of ${{{name.upper()}}}")
    assert value not in problem


def test_values_of_the_environment_are_plain_text_in_what_is_passed_on() -> None:
    written = Node(
        {"free": {"user": [Interpolated("u1", ("USER",)), Interpolated("7", ("AGE",))]}},
        Lines(1),
        "f",
    )
    decoded = resolve_texts(try_check(Outer, written))
    assert decoded.free == {"user": ["u1", 7]}
    assert type(decoded.free["user"][0]) is str


def test_what_is_no_mapping_is_told_so() -> None:
    checked, problems = collect(check(Outer, Node([1], Lines(7), "f", "gate")))
    assert checked is None
    assert (
        str(problems[0])
        == "f:7: gate: expected a mapping with keys such as whole, real, flag, got a list"
    )


def test_an_unknown_name_brings_the_closest_or_the_list() -> None:
    assert (
        unknown("key", "promts", ["prompts", "cases"])
        == "unknown key 'promts', did you mean 'prompts'?"
    )
    assert unknown("tag", "zzz", ["b", "a"]) == "unknown tag 'zzz', known: a, b"
    assert unknown("tag", "zzz", []) == "unknown tag 'zzz', known: none"


NOT_ANY = ", which is `not_contains_any: {value: […], ignore_case: true}` here"


@pytest.mark.parametrize(
    ("noun", "name", "known", "here"),
    [
        ("key", "tests", ["cases"], ", which is called 'cases' here"),
        ("key", "expected_output", ["expect"], ", which is `expect: [{equals: …}]` here"),
        ("key", "prompt", ["input", "id"], ", which is called 'input' here"),
        ("key", "nunjucksFilters", ["cases"], ": ci-evals has no equivalent"),
        ("grader", "llm-rubric", ["judge"], ", which is called 'judge' here"),
        ("grader", "not-llm-rubric", ["judge"], ", which is called 'not_judge' here"),
        ("grader", "FaithfulnessMetric", ["judge"], ", which is `judge: faithful` here"),
        ("grader", "not-icontains-any", ["contains_any"], NOT_ANY),
        ("grader", "ruby", ["python"], ": write it in `python` or `javascript`"),
    ],
)
def test_names_of_other_tools_are_translated_where_they_may_stand(
    noun: str, name: str, known: list[str], here: str
) -> None:
    said = f"unknown {noun} {name!r}{here}"
    assert unknown(noun, name, known) == said
    if here.startswith(","):
        assert unknown(noun, name, ["other"]) == f"unknown {noun} {name!r}, known: other"


def test_every_spelling_for_names_of_other_tools_begins_with_a_key_that_there_is() -> None:
    assert {each.partition(":")[0] for each in tables.GRADER_SPELLINGS.values()} <= GRADERS.keys()
    assert set(tables.PROVIDER_SPELLINGS.values()) <= {*PROVIDERS, *PROVIDERS.missing}
    kinds = (Suite, Case, PromptTemplate, LlmJudge, ProviderOptions)
    keys = {key for kind in kinds for key in keys_of(kind)}
    assert {
        each.partition(":")[0] for spellings in tables.KEY_SPELLINGS.values() for each in spellings
    } <= keys
