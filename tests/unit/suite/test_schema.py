import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from projects import CASE, Project, schema
from without_plugins import skip_without_plugins

from ci_evals.errors import ConfigError
from ci_evals.graders import GRADERS
from ci_evals.providers import PROVIDERS
from ci_evals.suite.schema import suite_schema_text
from ci_evals.suite.yaml import parse

ROOT = Path(__file__).parents[3]
schema_text = cache(suite_schema_text)
MINIMAL = {"providers": [{"type": "mock"}], "cases": [CASE]}


@cache
def validator() -> Draft202012Validator:
    return Draft202012Validator(schema())


def accepts(config: object) -> bool:
    return validator().is_valid(config)


def test_the_schema_is_valid_json_schema() -> None:
    written = json.loads(schema_text())
    Draft202012Validator.check_schema(written)
    assert written["$defs"].keys() == schema()["$defs"].keys()


def test_every_reference_leads_somewhere() -> None:
    text = schema_text()
    definitions = json.loads(text)["$defs"]
    names = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert names <= definitions.keys()


def test_every_provider_and_grader_is_in_it() -> None:
    definitions = schema()["$defs"]
    graders = definitions["Expectation"]["properties"]
    assert graders.keys() == {*GRADERS, *(f"not_{name}" for name in GRADERS)}
    text, *mappings = definitions["Provider"]["anyOf"]
    assert text["type"] == "string"
    assert len(mappings) == len(PROVIDERS)


SUITES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in ROOT.glob("examples/*/evals.yaml")
    if path.parent.name != "plugin"  # whose grader and provider are those of another package
)


@pytest.mark.parametrize("path", SUITES)
def test_our_own_suites_are_accepted(path: str) -> None:
    config, _, _ = parse((ROOT / path).read_text("utf-8"), path)
    skip_without_plugins(config)
    assert [error.message for error in validator().iter_errors(config)] == []


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
        {"providers": ["a mock"]},
        {"prompts": [5]},
        {"prompts": "{{ q }}"},
        {"prompts": [{"usr": "x"}]},
        {"cases": "cases.yaml"},
        {"cases": {"file": "x.csv", "map": {"vras": {"question": "Q"}}}},
        {"cases": {"python": "module:function", "parms": {"n": 1}}},
        {"cases": [{"input": "x", "matrix": {"lang": "en"}}]},
        {"cases": [{"id": 5, "input": "x"}]},
        {"cases": [{"id": "a", "input": "x", "expect": {"contains": "x"}}]},
        {"cases": [{"id": "a", "input": "x", "expect": [{"contians": "x"}]}]},
        {"cases": [{"id": "a", "input": "x", "expect": [{"contains": 5}]}]},
        {
            "cases": [
                {
                    "id": "a",
                    "input": "x",
                    "expect": [{"contains": {"value": "x", "ignorecase": True}}],
                }
            ]
        },
        {"cases": [{"id": "a", "input": "x", "expect": [{"contains": "x", "equals": "y"}]}]},
        {"cases": [{"id": "a", "input": "x", "runs": "${RUNS}"}]},
        {"cases": [{"id": "a", "input": "x", "tags": "critical"}]},
        {"cases": [{"file": "x.csv", "tags": ["a"]}]},
        {"cases": [{"id": "a", "input": "x", "overrides": {"modle": "y"}}]},
        {"cases": [{"id": "a", "turns": [{"usr": "x"}]}]},
        {
            "cases": [
                {
                    "id": "a",
                    "user": {"provider": "mock", "persona": "x", "goal": "y", "max_turns": 0},
                }
            ]
        },
        {"cases": [{"id": "a", "input": "x", "overrides": {"timeout_s": 0}}]},
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


Strategy = st.SearchStrategy[Any]

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-1, 30)
    | st.floats(0, 2)
    | st.sampled_from(["x", "", "${N}", "${T:-true}"])
)
KEYS = st.sampled_from("abc")
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)


def mixed(strategy: Strategy) -> Strategy:
    """Mostly right, now and then anything."""
    return st.integers(0, 19).flatmap(lambda draw: SCALARS if draw == 0 else strategy)


def fields(**strategies: Strategy) -> Strategy:
    return st.fixed_dictionaries(
        {}, optional={name: mixed(strategy) for name, strategy in strategies.items()}
    )


NUMBERS = st.integers(1, 5)
SHARES = st.floats(0, 1)
WORDS = st.sampled_from(["x", "y"])
OPTIONS = fields(
    value=JSON,
    schema=JSON,
    path=WORDS,
    name=WORDS,
    pattern=WORDS,
    ignore_case=JSON,
    weight=NUMBERS,
    threshold=SHARES,
)
ANY_GRADER = st.sampled_from([*GRADERS, *(f"not_{name}" for name in GRADERS)])
GRADER = st.dictionaries(
    ANY_GRADER, st.one_of(JSON, WORDS, st.just(["x", "y"]), OPTIONS), min_size=1, max_size=1
)
RIGHT_GRADER = st.sampled_from(
    [{"contains": "x"}, {"not_equals": {"a": 1}}, {"json_schema": {"type": "object"}}]
)
EXPECT = st.lists(RIGHT_GRADER | RIGHT_GRADER | GRADER, max_size=2)
MESSAGES = st.lists(
    fields(role=st.just("user"), content=WORDS).map(lambda given: {"role": "user"} | given),
    max_size=2,
)
CASES = st.builds(
    lambda needed, more: needed | more,
    st.fixed_dictionaries(
        {"id": st.uuids().map(str), "input": WORDS | JSON, "expect": st.just([{"contains": "x"}])}
    ),
    fields(
        expect=EXPECT,
        vars=st.dictionaries(KEYS, JSON),
        messages=MESSAGES,
        tags=st.lists(WORDS),
        runs=NUMBERS,
        min_pass_rate=SHARES,
        threshold=SHARES,
        timeout_s=NUMBERS,
        description=WORDS,
        metadata=st.dictionaries(KEYS, JSON),
        overrides=fields(model=WORDS, params=st.dictionaries(KEYS, JSON), timeout_s=NUMBERS),
        budget=fields(max_tokens=NUMBERS, max_duration_s=NUMBERS),
    ),
)
PRICES = st.fixed_dictionaries({"input_per_mtok": NUMBERS, "output_per_mtok": NUMBERS})
COMMON = {
    "max_concurrency": NUMBERS,
    "timeout_s": NUMBERS,
    "retries": NUMBERS,
    "on_error": st.just("fail"),
    "price": PRICES,
}
ANSWERS = st.dictionaries(KEYS, mixed(WORDS | fields(output=WORDS)))
MOCKS = fields(**COMMON, flakiness=SHARES, wrong=WORDS, seed=NUMBERS, answers=ANSWERS)
MODELS = fields(
    **COMMON,
    api_key=st.just("${N}"),
    params=st.dictionaries(KEYS, JSON),
    headers=st.dictionaries(KEYS, WORDS),
)
SERVICES = fields(**COMMON, method=st.just("GET"), body=JSON)
PROVIDER = st.one_of(
    MOCKS.map(lambda given: given | {"type": "mock"}),
    MODELS.map(
        lambda given: given | {"type": "openai", "model": "m", "base_url": "http://localhost"}
    ),
    SERVICES.map(lambda given: given | {"type": "http", "url": "http://localhost"}),
)
GATES = fields(
    min_pass_rate=SHARES,
    confidence=st.floats(0.6, 0.9),
    on_borderline=st.just("warn"),
    prove=st.booleans(),
    max_error_rate=SHARES,
    tags=st.just({}),
)
PROMPTS = st.lists(
    WORDS | fields(system=WORDS).map(lambda given: {"user": "x"} | given), max_size=2
)
CONFIGS = st.builds(
    lambda needed, more: needed | more,
    st.fixed_dictionaries(
        {
            "providers": st.lists(PROVIDER, min_size=1, max_size=1),
            "cases": st.lists(CASES, min_size=1, max_size=2),
        }
    ),
    fields(
        name=WORDS,
        description=WORDS,
        runs=NUMBERS,
        max_concurrency=NUMBERS,
        timeout_s=NUMBERS,
        retries=NUMBERS,
        seed=NUMBERS,
        prompts=PROMPTS,
        expect=EXPECT,
        threshold=SHARES,
        gate=GATES,
        report=fields(out=WORDS, formats=st.just(["json"])),
    ),
)


@pytest.mark.hypothesis
def test_what_the_loader_accepts_the_schema_accepts_too(project: Project) -> None:
    seen = Counter[bool]()

    @given(config=CONFIGS)
    def check(config: dict[str, Any]) -> None:
        project.write("evals.yaml", json.dumps(config))
        try:
            project.load({"N": "1"})
        except ConfigError:
            seen[False] += 1
        else:
            seen[True] += 1
            assert [
                f"{error.json_path}: {error.message}" for error in validator().iter_errors(config)
            ] == []

    check()
    assert min(seen[True], seen[False]) > 0
