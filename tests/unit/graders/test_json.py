"""Graders that read the answer as JSON."""

from collections.abc import Callable
from typing import Any

import pytest
from factories import checked

from ci_evals.graders import ContainsJson, IsJson, JsonPath, JsonSchema
from ci_evals.graders.json_text import strip_fence
from ci_evals.model.request import Answer

AnswerOf = Callable[..., Answer]

FLIGHT = '{"flights": [{"to": "Paris", "price": 99.5}, {"to": "Rome", "price": 120}]}'


@pytest.mark.parametrize("output", ["{}", " [1]\n", '"a"'])
def test_the_whole_answer_is_json(output: str, answer_of: AnswerOf) -> None:
    assert IsJson().grade(answer_of(output)).passed
    assert JsonSchema({}).grade(answer_of(output)).passed


@pytest.mark.parametrize("output", ["```json\n{}\n```", "```\n[]\n```", "```JSON \r\n{}```"])
def test_json_in_a_fence_is_json_only_where_that_is_allowed(
    output: str, answer_of: AnswerOf
) -> None:
    answer = answer_of(output)
    for strict in (IsJson(), IsJson(schema={}), JsonSchema({})):
        finding = strict.grade(answer)
        assert not finding.passed
        assert (
            finding.reason == "the answer is not JSON but a code fence, which `fenced: true` allows"
        )
    for lenient in (IsJson(fenced=True), JsonSchema({}, fenced=True), JsonPath("$")):
        assert lenient.grade(answer).passed


@pytest.mark.parametrize(
    "output",
    [
        "",
        "{",
        "Here it is: {}",
        "```json\n{}\n``` as asked",
        "```yaml\n{}\n```",
        "```",
        "``````",
        "{'a': 1}",
        "NaN",
        "-Infinity",
        "[" * 100_000,
        "9" * 5_000,
    ],
)
def test_other_text_is_not_json_and_says_so(output: str, answer_of: AnswerOf) -> None:
    finding = IsJson().grade(answer_of(output))
    assert not finding.passed
    assert finding.text.startswith("the answer is not JSON")
    assert finding.text.isprintable()


def test_a_syntax_error_is_located(answer_of: AnswerOf) -> None:
    reason = IsJson().grade(answer_of('{"a": 1,\n "b" 2}')).text
    assert "expected `:` at line 2 column 6" in reason


def test_a_fence_inside_the_text_is_left_alone() -> None:
    assert strip_fence('{"code": "```"}') == '{"code": "```"}'


@pytest.mark.parametrize(
    ("options", "passed", "reason"),
    [
        ({"path": "$.flights[0].to"}, True, '$.flights[0].to is "Paris"'),
        ({"path": "$.flights[0].to", "value": "Paris"}, True, '$.flights[0].to is "Paris"'),
        (
            {"path": "$.flights[0].to", "value": "Oslo"},
            False,
            '$.flights[0].to is "Paris", expected "Oslo"',
        ),
        ({"path": "$.flights[1].price", "value": 120.0}, True, "$.flights[1].price is 120.0"),
        ({"path": "$.flights[*].to", "value": "Rome"}, True, '$.flights[*].to is "Rome"'),
        (
            {"path": "$.flights[*].to", "value": "Oslo"},
            False,
            'no value at $.flights[*].to is "Oslo": they are ["Paris", "Rome"]',
        ),
        ({"path": "$.hotels"}, False, "nothing at $.hotels"),
        ({"path": "$.hotels", "value": None}, False, "nothing at $.hotels"),
    ],
)
def test_json_path_looks_up_a_value(
    options: dict[str, Any], passed: bool, reason: str, answer_of: AnswerOf
) -> None:
    finding = JsonPath(**options).grade(answer_of(FLIGHT))
    assert (finding.passed, finding.text) == (passed, reason)


def test_json_path_finds_a_null(answer_of: AnswerOf) -> None:
    assert JsonPath(path="$.a", value=None).grade(answer_of('{"a": null}')).passed


def test_json_path_does_not_look_into_json_inside_a_text(answer_of: AnswerOf) -> None:
    assert not JsonPath(path="$.a").grade(answer_of(r'"{\"a\": 1}"')).passed
    assert not JsonPath(path="$.a").grade(answer_of(r'"{\"a"')).passed
    assert JsonPath(path="$", value='{"a": 1}').grade(answer_of(r'"{\"a\": 1}"')).passed


def test_json_path_on_a_deep_answer_is_a_finding(answer_of: AnswerOf) -> None:
    finding = JsonPath(path="$..a").grade(answer_of("[" * 2000 + "]" * 2000))
    assert "recursion limit" in finding.text


def test_a_bad_json_path_is_located() -> None:
    assert JsonPath(path="$.a[0]").problems() == []
    assert JsonPath(path="$.a[").problems() == ["bad JSONPath '$.a[': unexpected end of query"]
    assert JsonPath(path="$.a b").problems() == [
        "bad JSONPath '$.a b': unexpected token 'b' at position 4"
    ]


def test_json_schema_says_where_the_answer_does_not_fit(answer_of: AnswerOf) -> None:
    grader = JsonSchema(
        schema={
            "type": "object",
            "required": ["age"],
            "properties": {"age": {"$ref": "#/$defs/age"}},
            "$defs": {"age": {"type": "integer"}},
        }
    )
    assert grader.problems() == []
    assert grader.grade(answer_of('{"age": 5}')).passed
    assert grader.grade(answer_of('{"age": "5"}')).text == (
        "the answer does not fit the schema at $.age (type): \"5\" is not of type 'integer'"
    )
    assert (
        grader.grade(answer_of("{}")).text
        == "the answer does not fit the schema at $ (required): 'age' is a required property"
    )
    assert grader.grade(answer_of("five")).text.startswith("the answer is not JSON")


def test_json_schema_keeps_reasons_short_on_a_huge_answer(answer_of: AnswerOf) -> None:
    finding = JsonSchema(schema={"items": {"type": "string"}}).grade(
        answer_of(f"[{','.join('1' * 100_000)}]")
    )
    assert not finding.passed
    assert (
        len(JsonSchema(schema={"type": "string"}).grade(answer_of(f'["{"x" * 100_000}"]')).text)
        < 300
    )


def test_json_schema_on_a_number_beyond_floats_is_a_finding(answer_of: AnswerOf) -> None:
    finding = JsonSchema(schema={"multipleOf": 0.1}).grade(answer_of("9" * 400))
    assert "too large" in finding.text


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "strin"}, "bad JSON Schema at $.type: 'strin'"),
        ({"pattern": "a{99999999999}"}, "bad JSON Schema: the repetition number is too large"),
        ({"properties": {"a": {"pattern": "("}}}, "bad JSON Schema at $.properties.a.pattern"),
        ({"$ref": "#/$defs/missing"}, "`$ref: #/$defs/missing` leads nowhere"),
        (
            {"items": {"$ref": "https://example.com/schema.json"}},
            "`$ref: https://example.com/schema.json` leads nowhere",
        ),
        ({"$schema": 5}, "`$schema` must be text"),
        ({"$schema": "http://["}, "bad JSON Schema"),
        ({"type": "\ud800"}, "bad JSON Schema"),
    ],
)
def test_a_bad_schema_is_seen_before_any_call(schema: dict[str, Any], problem: str) -> None:
    (message,) = JsonSchema(schema=schema).problems()
    assert problem in message


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"const": {"$ref": "#/not/a/reference"}},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"a": {}},
            "$ref": "#/definitions/a",
        },
        {
            "$id": "https://example.com/a",
            "$defs": {"b": {"$id": "b", "$ref": "#/$defs/c", "$defs": {"c": {}}}},
        },
        {"properties": {"children": {"items": {"$ref": "#"}}}},
    ],
)
def test_a_good_schema_has_no_problems(schema: dict[str, Any]) -> None:
    assert JsonSchema(schema=schema).problems() == []


@pytest.mark.parametrize(
    ("output", "mistake"),
    [
        ('{"a": 1}', None),
        (
            '```json\n{"a": 1}\n```',
            "the answer is not JSON but a code fence, which `fenced: true` allows",
        ),
        ('{"a": "1"}', "the answer does not fit the schema at $.a (type): "),
        ("no JSON", "the answer is not JSON"),
    ],
)
def test_json_may_be_held_to_a_schema(
    output: str, mistake: str | None, answer_of: AnswerOf
) -> None:
    finding = IsJson(schema={"properties": {"a": {"type": "integer"}}}).grade(answer_of(output))
    assert finding.passed is (mistake is None)
    assert finding.text.startswith(mistake or "the answer fits the schema")


@pytest.mark.parametrize(
    ("options", "output", "reason"),
    [
        ({}, 'Sure: {"a": [1]}. Anything else?', '{"a": '),
        ({}, "Here is a list [1, 2]", "[1, 2] is in the answer"),
        ({}, "no { JSON } here, 5, and NaN [NaN]", "no JSON object or list in the answer"),
        ({"subset": {"a": 1}}, 'As in [1]: {"a": 1, "b": 2}', '{"a": '),
        ({"subset": {"a": {"b": 1}}}, '{"a": {"b": 1, "c": 2}}', '{"a": '),
        (
            {"subset": {"a": 1}},
            '{"a": 2}',
            "JSON in the answer: $.a is 2, expected 1",
        ),
        (
            {"subset": {"a": [1]}},
            '{"a": [1, 2]}',
            "JSON in the answer: $.a is [1, 2], expected [1]",
        ),
        (
            {"schema": {"required": ["a"]}},
            '{"b": 1} {"c": 2}',
            "the JSON in the answer does not fit the schema at $ (required): 'a' is a",
        ),
        ({"schema": {"required": ["a"]}}, '{"b": 1} {"a": 2}', '{"a": 2} is in the answer'),
        ({}, "[" * 100_000, "no JSON object or list in the answer"),
        ({}, '{"a":' * 50_000, "no JSON object or list in the answer"),
        ({}, ("[" + "1," * 20_000) * 900, "no JSON object or list in the answer"),
    ],
)
def test_json_may_stand_anywhere_in_a_text(
    options: dict[str, Any], output: str, reason: str, answer_of: AnswerOf
) -> None:
    finding = checked(options, ContainsJson).grade(answer_of(output))
    assert finding.text.startswith(reason), finding.text
    assert finding.passed is reason.startswith(("{", "[1"))
