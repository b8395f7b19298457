import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from projects import CASE, Project

from ci_evals.config.schema import suite_schema, suite_schema_text
from ci_evals.config.source import parse, plain
from ci_evals.errors import ConfigError
from ci_evals.graders import GRADERS
from ci_evals.providers import PROVIDERS

ROOT = Path(__file__).parents[2]
VALIDATOR = Draft202012Validator(suite_schema())
MINIMAL = {"providers": [{"type": "mock"}], "cases": [CASE]}


def accepts(config: object) -> bool:
    return VALIDATOR.is_valid(config)


def test_the_schema_is_valid_json_schema() -> None:
    schema = json.loads(suite_schema_text())
    Draft202012Validator.check_schema(schema)
    assert schema == json.loads(json.dumps(suite_schema()))


def test_every_reference_leads_somewhere() -> None:
    text = suite_schema_text()
    definitions = json.loads(text)["$defs"]
    names = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert names <= definitions.keys()


def test_every_provider_and_grader_is_in_it() -> None:
    definitions = suite_schema()["$defs"]
    graders = definitions["Expectation"]["properties"]
    assert graders.keys() == {*GRADERS, *(f"not_{name}" for name in GRADERS)}
    assert len(definitions["Provider"]["anyOf"]) == len(PROVIDERS)


@pytest.mark.parametrize("path", ["examples/flight_agent/evals.yaml", "templates/init/evals.yaml"])
def test_our_own_suites_are_accepted(path: str) -> None:
    config = plain(parse((ROOT / path).read_text("utf-8"), path, []))
    assert [error.message for error in VALIDATOR.iter_errors(config)] == []


@pytest.mark.parametrize(
    "change",
    [
        {"promts": []},
        {"runs": 0},
        {"runs": "three"},
        {"runs": 1.5},
        {"timeout_s": 0},
        {"retries": 21},
        {"providers": [{"type": "opena", "model": "x"}]},
        {"providers": [{"type": "openai"}]},
        {"providers": [{"type": "openai", "model": "x", "api_key": "sk-123"}]},
        {"providers": [{"type": "openai", "model": "x", "temperature": 0}]},
        {"providers": ["mock"]},
        {"prompts": [5]},
        {"prompts": "{{ q }}"},
        {"prompts": [{"usr": "x"}]},
        {"cases": "cases.yaml"},
        {"cases": [{"input": "x"}]},
        {"cases": [{"id": 5, "input": "x"}]},
        {"cases": [{"id": "a", "input": "x", "expect": {"contains": "x"}}]},
        {"cases": [{"id": "a", "input": "x", "expect": [{"contians": "x"}]}]},
        {"cases": [{"id": "a", "input": "x", "expect": [{"contains": 5}]}]},
        {"cases": [{"id": "a", "input": "x", "expect": [{"contains": {"value": "x", "ignorecase": True}}]}]},
        {"cases": [{"id": "a", "input": "x", "expect": [{"contains": "x", "equals": "y"}]}]},
        {"cases": [{"id": "a", "input": "x", "runs": "${RUNS}"}]},
        {"cases": [{"id": "a", "input": "x", "tags": "critical"}]},
        {"cases": [{"file": "x.csv", "tags": ["a"]}]},
        {"expect": [{"latency": "{{ limit }}"}]},
        {"gate": {"min_pass_rate": 90}},
        {"gate": {"on_borderline": "wran"}},
        {"gate": {"tags": {"critical": 100}}},
        {"report": {"formats": ["pdf"]}},
    ],
)
def test_typical_mistakes_are_rejected_by_the_schema_and_by_the_loader(
    project: Project, change: dict[str, Any]
) -> None:
    assert accepts(MINIMAL)
    assert not accepts(MINIMAL | change)
    project.suite(**change)
    assert project.problems()


SCALARS = (
    st.none() | st.booleans() | st.integers(-1, 30) | st.floats(0, 2) | st.sampled_from(["x", "", "${N}", "${T:-true}"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=4,
)


def fields(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=strategies)


def mixed(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly right, sometimes anything."""
    return st.one_of(strategy, strategy, strategy, SCALARS)


NUMBERS = mixed(st.integers(1, 5))
SHARES = mixed(st.floats(0, 1))
WORDS = mixed(st.sampled_from(["x", "y"]))
GRADERS_GIVEN = st.tuples(
    st.sampled_from([*GRADERS, *(f"not_{name}" for name in GRADERS)]),
    st.one_of(
        JSON,
        st.just("x"),
        st.just(["x", "y"]),
        fields(
            value=JSON,
            schema=JSON,
            path=WORDS,
            name=WORDS,
            pattern=WORDS,
            ignore_case=JSON,
            weight=NUMBERS,
            threshold=SHARES,
        ),
    ),
).map(lambda pair: {pair[0]: pair[1]})
EXPECTED = mixed(st.lists(GRADERS_GIVEN, max_size=2))
MESSAGES = mixed(st.lists(fields(role=st.sampled_from(["user", "tool"]), content=WORDS), max_size=2))
CASES = st.builds(
    lambda given, more: given | more,
    st.fixed_dictionaries({"id": st.sampled_from(["a", "b"]), "input": JSON, "expect": st.just([{"contains": "x"}])}),
    fields(expect=EXPECTED, vars=mixed(st.dictionaries(st.sampled_from("abc"), JSON)), messages=MESSAGES, tags=mixed(st.lists(WORDS)),
           runs=NUMBERS, min_pass_rate=SHARES, threshold=SHARES, timeout_s=NUMBERS, description=WORDS, metadata=JSON),
)  # fmt: skip
COMMON = {"name": WORDS, "max_concurrency": NUMBERS, "timeout_s": NUMBERS, "retries": NUMBERS,
          "on_error": mixed(st.just("fail")), "price": mixed(fields(input_per_mtok=NUMBERS, output_per_mtok=NUMBERS))}  # fmt: skip
PROVIDERS_GIVEN = st.one_of(
    fields(**COMMON, flakiness=SHARES, wrong=WORDS, seed=NUMBERS,
           answers=mixed(st.dictionaries(st.sampled_from("ab"), mixed(fields(output=WORDS))))).map(lambda f: f | {"type": "mock"}),
    fields(**COMMON, api_key=mixed(st.just("${N}")), params=mixed(st.dictionaries(st.sampled_from("ab"), JSON)), headers=JSON).map(
        lambda f: f | {"type": "openai", "model": "m", "base_url": "http://localhost"}
    ),
    fields(**COMMON, method=mixed(st.just("GET")), body=JSON).map(lambda f: f | {"type": "http", "url": "http://localhost"}),
)  # fmt: skip
GATES = mixed(fields(min_pass_rate=SHARES, confidence=SHARES, on_borderline=WORDS, prove=SCALARS, max_error_rate=SHARES,
                     per_variant=SCALARS, tags=mixed(st.dictionaries(WORDS.map(str), SHARES))))  # fmt: skip
CONFIGS = st.builds(
    lambda given, more: given | more,
    st.fixed_dictionaries({"providers": st.lists(PROVIDERS_GIVEN, min_size=1, max_size=2), "cases": st.lists(CASES, min_size=1, max_size=2)}),
    fields(name=WORDS, description=WORDS, runs=NUMBERS, max_concurrency=NUMBERS, timeout_s=NUMBERS, retries=NUMBERS, seed=NUMBERS,
           prompts=mixed(st.lists(WORDS | fields(name=WORDS, user=WORDS, system=WORDS, messages=MESSAGES), max_size=2)),
           expect=EXPECTED, threshold=SHARES, gate=GATES, report=mixed(fields(out=WORDS, formats=mixed(st.just(["json"]))))),
)  # fmt: skip


def test_what_the_loader_accepts_the_schema_accepts_too(project: Project) -> None:
    seen = Counter[bool]()

    @settings(max_examples=300, deadline=None)
    @given(config=CONFIGS)
    def check(config: dict[str, Any]) -> None:
        project.write("evals.yaml", json.dumps(config))
        try:
            project.load({"N": "1"})
        except ConfigError:
            seen[False] += 1
        else:
            seen[True] += 1
            assert [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(config)] == []

    check()
    assert min(seen[True], seen[False]) > 10
