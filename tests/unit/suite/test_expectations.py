import json
from pathlib import Path
from typing import Any

import pytest

from ci_evals.graders import GRADERS
from ci_evals.model.grading import Expectation
from ci_evals.suite.expectations import read_expect
from ci_evals.suite.nodes import Node, collect
from ci_evals.suite.yaml import parse

FOLDER = Path(__file__).parents[1] / "graders"
SHORT: dict[str, Any] = {
    "equals": "Paris",
    "contains": "Paris",
    "contains_all": ["a", "b"],
    "contains_any": ["a", "b"],
    "starts_with": "The",
    "ends_with": ".",
    "regex": "P.*s",
    "is_json": True,
    "contains_json": True,
    "json_schema": {"type": "object"},
    "json_path": "$.a",
    "similar": "Paris",
    "max_length": 10,
    "word_count": 50,
    "not_empty": True,
    "latency": 2.5,
    "cost": 1,
    "finish_reason": "stop",
    "tool_call": "book",
    "tool_arguments": "book",
    "trajectory": ["search", "book"],
    "skill_used": "release-notes",
    "no_tool_errors": True,
    "max_tool_calls": 3,
    "max_steps": 3,
    "max_model_requests": 3,
    "classify": "refund",
    "judge": "polite",
    "embedding_similar": "Paris",
    "python": "json:loads",
    "javascript": "output.length < 9",
    "any_of": [{"contains": "a"}, {"not_contains": "b"}],
    "all_of": [{"contains": "a"}, {"any_of": [{"contains": "b"}, {"tool_call": "book"}]}],
    "reward": 0.5,
    "goal_reached": True,
}


def decode(text: str) -> tuple[tuple[Expectation, ...], list[str]]:
    value, lines, _ = parse(text, "f")
    found, problems = collect(read_expect(Node(value, lines, "f", "expect"), FOLDER))
    return found, [str(problem) for problem in problems]


def decode_one(entry: object) -> Expectation:
    (expectation,), problems = decode(json.dumps([entry]))
    assert problems == []
    return expectation


def test_every_grader_is_tried_here() -> None:
    assert SHORT.keys() == GRADERS.keys()


@pytest.mark.parametrize("name", SHORT)
def test_the_short_form_and_the_long_form_are_the_same_grader(name: str) -> None:
    short = decode_one({name: SHORT[name]})
    assert short == decode_one({name: {GRADERS[name].short: SHORT[name]}})
    assert isinstance(short.grader, GRADERS[name])
    assert (short.name, short.negated, short.weight) == (name, False, 1.0)


@pytest.mark.parametrize("name", SHORT)
def test_not_negates_every_grader_in_both_forms(name: str) -> None:
    opposed = decode_one({name: SHORT[name]}).grader.for_negation()  # type: ignore[attr-defined]
    for options in (SHORT[name], {GRADERS[name].short: SHORT[name]}):
        negated = decode_one({f"not_{name}": options})
        assert (negated.name, negated.negated, negated.grader) == (f"not_{name}", True, opposed)


@pytest.mark.parametrize("name", SHORT)
def test_every_grader_takes_a_weight(name: str) -> None:
    assert decode_one({name: {GRADERS[name].short: SHORT[name], "weight": 2}}).weight == 2.0


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ({"equals": {"a": 1}}, {"a": 1}),
        ({"equals": {"value": {"a": 1}}}, {"a": 1}),
        ({"equals": {"value": 1, "trim": True}}, 1),
        ({"equals": {"value": 1, "other": 2}}, {"value": 1, "other": 2}),
        ({"equals": {}}, {}),
        ({"equals": []}, []),
        ({"equals": None}, None),
        ({"equals": {"weight": 2}}, {"weight": 2}),
    ],
)
def test_a_mapping_may_be_the_value_of_equals(entry: object, value: object) -> None:
    assert decode_one(entry).grader.value == value  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "schema"),
    [
        ({"type": "object", "required": ["a"]}, {"type": "object", "required": ["a"]}),
        ({"schema": {"type": "object"}}, {"type": "object"}),
        ({"schema": {"type": "object"}, "weight": 2}, {"type": "object"}),
        ({}, {}),
    ],
)
def test_a_schema_may_be_written_at_once_or_under_its_key(options: object, schema: object) -> None:
    assert decode_one({"json_schema": options}).grader.schema == schema  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("contains: x", "expect: expected a list of graders, as in `- contains: Paris`"),
        ("[5]", "expect[0]: expected one grader with its value, as in `contains: Paris`"),
        ("[{}]", "expect[0]: expected one grader with its value, as in `contains: Paris`"),
        (
            "[{contains: a, equals: b}]",
            "expect[0]: 2 graders in one entry: write `- ` before each of contains, equals",
        ),
        (
            "[{regex: a, equals: b, weight: 2}]",
            (
                "expect[0]: 2 graders in one entry: write `- ` before each of regex, equals; "
                "move weight inside"
            ),
        ),
        (
            "[{regex: a, equals: b, weight: 2, ignore_case: true}]",
            (
                "expect[0]: 2 graders in one entry: write `- ` before each of regex, equals; "
                "move weight and ignore_case inside"
            ),
        ),
        ("[contains]", "expect[0]: 'contains' needs a value, as in `contains: …`"),
        ("[not_empty]", "expect[0]: 'not_empty' needs a value, as in `not_empty: true`"),
        ("[is_json]", "expect[0]: 'is_json' needs a value, as in `is_json: true`"),
        ("[not_is_json]", "expect[0]: 'not_is_json' needs a value, as in `not_is_json: true`"),
        (
            "[{contains: P, weight: 2}]",
            "expect[0]: move weight inside: `contains: {value: P, weight: 2}`",
        ),
        (
            "[{weight: 2, not_empty: true}]",
            "expect[0]: move weight inside: `not_empty: {value: true, weight: 2}`",
        ),
        (
            "[{not_contains: a b, ignore_case: true, weight: 2}]",
            (
                'expect[0]: move ignore_case and weight inside: `not_contains: {value: "a b", '
                "ignore_case: true"
            ),
        ),
        (
            "[{contains: {value: P, ignore_case: true}, weight: 2}]",
            "expect[0]: move weight inside: `contains: {value: P, ignore_case: true, weight: 2}`",
        ),
        (
            "[{contains: P, wieght: 2}]",
            "expect[0]: next to `contains`: unknown key 'wieght', did you mean 'weight'?",
        ),
        (
            "[{contains: P, equlas: Q}]",
            "expect[0]: next to `contains`: unknown key 'equlas', did you mean 'equals'?",
        ),
        (
            "[{is_json: true, zzz: 2}]",
            (
                "expect[0]: next to `is_json`: unknown key 'zzz', known: fenced, metric, name,"
                " schema, transform, value, weight"
            ),
        ),
        (
            "[{zzz: 1, yyy: 2}]",
            "expect[0]: expected one grader with its value, as in `contains: Paris`",
        ),
        ("[python: 'nomod:x']", "expect[0].python: there is no module 'nomod' in"),
        ("[contians: x]", "expect[0]: unknown grader 'contians', did you mean 'contains'?"),
        (
            "[not_contians: x]",
            "expect[0]: unknown grader 'not_contians', did you mean 'not_contains'?",
        ),
        (
            "[not_not_empty: {valeu: true}]",
            "expect[0].not_not_empty: unknown key 'valeu', did you mean 'value'?",
        ),
        ("[contains: ]", "expect[0].contains: expected text, got nothing"),
        (
            "[no_tool_errors: false]",
            "expect[0].no_tool_errors: `false` is not a check: write `not_no_tool_errors: true`",
        ),
        (
            "[no_tool_errors: {tools: []}]",
            "expect[0].no_tool_errors.tools: expected at least 1 entry",
        ),
        ("[no_tool_errors: {tools: track}]", "expect[0].no_tool_errors.tools: expected a list"),
        (
            "[goal_reached: false]",
            "expect[0].goal_reached: `false` is not a check: write `not_goal_reached: true`",
        ),
        (
            "[judge: {rubric: Is it kind?, choices: {a: 1}}]",
            "expect[0].judge.choices: expected at least 2 entries, got 1",
        ),
        (
            "[judge: pollite]",
            (
                "expect[0].judge: unknown rubric 'pollite', did you mean 'polite'? If not, "
                "describe it in a sentence"
            ),
        ),
        ("[contains: '']", "expect[0].contains: expected text of length >= 1, got ''"),
        ("[regex: '']", "expect[0].regex: expected text of length >= 1, got ''"),
        ("[contains: {ignore_case: true}]", "expect[0].contains: the key 'value' is missing"),
        (
            "[contains: {value: x, ignore_case: yes}]",
            "expect[0].contains.ignore_case: expected true or false, got 'yes'",
        ),
        (
            "[contains_any: x]",
            (
                "expect[0].contains_any: expected a list, got 'x': write `- ` before each item, "
                "or put [ ] round them"
            ),
        ),
        ("[latency: 0]", "expect[0].latency: expected a number > 0, got 0"),
        (
            "[similar: {value: x, threshold: 80}]",
            "expect[0].similar.threshold: expected a number <= 1, got 80: 80 % is written 0.8",
        ),
        (
            "[contains: {value: x, weight: -1}]",
            "expect[0].contains.weight: expected a number >= 0, got -1",
        ),
        ("[json_schema: {type: nonsense}]", "expect[0].json_schema: bad JSON Schema"),
        ("[json_schema: text]", "expect[0].json_schema: expected a mapping, got 'text'"),
        ("[regex: (]", "expect[0].regex: bad regular expression '('"),
        (
            "[{regex: 'a{99999999}'}]",
            "expect[0].regex: bad regular expression 'a{99999999}': repetitions make it longer",
        ),
        (
            "[{regex: '(?:[ab]{1000}x){1000}'}]",
            "expect[0].regex: bad regular expression '(?:[ab]{1000}x){1000}': repetitions make it",
        ),
        ("[json_path: '$[']", "expect[0].json_path: bad JSONPath"),
        ("[python: nofunction]", "expect[0].python: expected `module:function`"),
        (
            "[python: len(output) <]",
            "expect[0].python: expected `module:function`, such as `graders:is_polite`, or Python",
        ),
        (
            "[python: x = 1]",
            (
                "expect[0].python: expected `module:function`, such as `graders:is_polite`, or "
                "Python code,"
            ),
        ),
        (
            "[contains: {value: x, name: ''}]",
            "expect[0].contains.name: expected text of length >= 1, got ''",
        ),
        (
            "[contains: {value: x, metrik: a}]",
            "expect[0].contains: unknown key 'metrik', did you mean 'metric'?",
        ),
        (
            "[tool_call: {name: book}]",
            "expect[0].tool_call: `name` is the name in reports: write `tool: book`",
        ),
        ("[word_count: {}]", "expect[0].word_count: give `max`, `min` or both"),
        (
            "[word_count: {min: 5, max: 3}]",
            "expect[0].word_count: no answer has at least 5 and at most 3 words",
        ),
        ("[is_json: {schema: {type: x}}]", "expect[0].is_json: bad JSON Schema at $.type"),
        (
            "[contains_json: {schmea: {}}]",
            "expect[0].contains_json: unknown key 'schmea', did you mean 'schema'?",
        ),
        (
            "[finish_reason: 5]",
            "expect[0].finish_reason: expected text or a list, got 5: put quotes round it",
        ),
        (
            "[contains: {value: x, transform: '$['}]",
            "expect[0].contains.transform: bad JSONPath '$['",
        ),
        (
            "[contains: {value: x, transform: 'nomod:x'}]",
            "expect[0].contains.transform: there is no module 'nomod' in",
        ),
        (
            "[contains: {value: x, transform: output |}]",
            "expect[0].contains.transform: expected JSONPath (`$.answer`), ",
        ),
        (
            "[contains: {value: x, transform: '{{ output }}'}]",
            "expect[0].contains.transform: write the expression wi",
        ),
        (
            "[contains: {value: x, transform: outptu | trim}]",
            "expect[0].contains.transform: 'outptu' is undefined, did you mean 'output'?",
        ),
        (
            "[cost: {value: 1, transform: $.x}]",
            "expect[0].cost.transform: this grader does not read the text of the answer",
        ),
        ("[any_of: []]", "expect[0].any_of: expected at least 1 entry, got 0"),
        ("[any_of: contains]", "expect[0].any_of: expected a list"),
        (
            "[any_of: {contains: x, regex: y}]",
            "expect[0].any_of: expected a list of graders: write `- ` before contains and regex",
        ),
        ("[any_of: {threshold: 0.5}]", "expect[0].any_of: the key 'of' is missing"),
        (
            "[all_of: [contains: x, contians: y]]",
            "expect[0].all_of[1]: unknown grader 'contians', did you mean",
        ),
        (
            "[all_of: {of: [any_of: [latency: 0]]}]",
            "expect[0].all_of.of[0].any_of[0].latency: expected a number > 0",
        ),
        (
            "[any_of: [contains: {value: x, weight: 0}]]",
            "expect[0].any_of: all of these have weight 0, so none",
        ),
        (
            "[{type: contains, value: Paris}]",
            "expect[0]: the grader is the key: write `contains: Paris`",
        ),
        (
            "[{type: contains-any, value: [a], weight: 2}]",
            'expect[0]: the grader is the key: write `contains_any: {value: ["a"], weight: 2}`',
        ),
        (
            "[{type: llm-rubric, value: good}]",
            "expect[0]: unknown grader 'llm-rubric', which is called 'judge' here",
        ),
        ("[tool_call: {arguments: {}}]", "expect[0].tool_call: give either `tool`"),
        (
            "[tool_call: {calls: [{nam: x}]}]",
            "expect[0].tool_call.calls[0]: unknown key 'nam', did you mean 'name'?",
        ),
    ],
)
def test_a_wrong_expectation_says_where_what_and_what_to_try(text: str, problem: str) -> None:
    found, problems = decode(text)
    assert problems[0].startswith(f"f:1: {problem}")
    assert len(found) <= 1


def test_an_unknown_grader_far_from_any_brings_the_list_without_negations() -> None:
    _, (problem,) = decode("[zzzzzz: 1]")
    assert "known: all_of, any_of, classify, contains, contains_all," in problem
    assert "not_contains" not in problem


def test_nothing_under_expect_is_an_empty_list() -> None:
    assert decode("") == ((), [])


def test_each_wrong_entry_is_told_at_its_own_line() -> None:
    _, problems = decode(
        "- contains: 5\n- contains: x\n- regex:\n    pattern: (\n- latency: soon\n"
    )
    assert [problem.split(": ")[0] for problem in problems] == ["f:1", "f:3", "f:5"]
