"""Whatever is written into the files of a suite, it loads or is refused with problems."""

import copy
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from processes import python
from projects import Project

from ci_evals.errors import ConfigError
from ci_evals.graders import GRADERS
from ci_evals.suite.types import CheckedSuite

VALID: dict[str, Any] = {
    "name": "fuzzed",
    "runs": 2,
    "timeout_s": "${T:-5}",
    "providers": [
        {
            "type": "mock",
            "answers": {"a": "b", "c": {"output": "x", "tool_calls": [{"name": "t"}]}},
            "flakiness": 0.5,
        },
        {
            "type": "openai",
            "model": "gpt",
            "base_url": "http://localhost/v1",
            "api_key": "${K}",
            "params": {"t": 0},
        },
        {
            "type": "http",
            "url": "http://localhost",
            "body": {"q": "{{ input }}"},
            "output": "$.a",
            "price": None,
        },
        {"type": "command", "command": "true x", "env": {"A": "b"}},
        {"type": "python", "target": "json:dumps", "factory": False},
    ],
    "prompts": [
        "{{ q }}",
        {"name": "p", "system": "s", "user": "{{ input }}"},
        {"name": "f", "file": "prompt.txt"},
    ],
    "cases": [
        {
            "id": "a",
            "input": "i",
            "vars": {"q": "v", "n": [1, {"k": None}]},
            "expect": [
                {"contains": "x"},
                {"not_equals": {"a": 1}},
                {
                    "json_schema": {
                        "type": "object",
                        "properties": {"a": {"$ref": "#/$defs/x"}},
                        "$defs": {"x": {}},
                    }
                },
                {
                    "tool_call": {
                        "calls": [{"name": "t", "arguments": {"a": 1}}],
                        "match_order": True,
                    }
                },
                {"regex": {"pattern": "a+", "flags": "i"}},
                {"json_path": {"path": "$.a[0]", "value": 1}},
            ],
            "tags": ["t"],
            "runs": 3,
        },
        {"id": "m", "input": 1, "vars": {"q": 1}, "messages": [{"role": "user", "content": "hi"}]},
        {"file": "cases.*"},
    ],
    "expect": [{"not_empty": True}, {"contains": "{{ q }}"}, {"latency": 5}],
    "gate": {"min_pass_rate": 0.9, "tags": {"t": 1.0}, "providers": {"mock": 0.5}},
    "report": {"out": "o", "formats": ["json"]},
}
ROW = {"id": "r", "input": "i", "vars": {"q": "v"}, "expect": [{"contains": "x"}], "tags": ["t"]}

TEXT = st.text(max_size=12) | st.sampled_from(
    [
        "",
        "${X}",
        "${",
        "{{ q }}",
        "{{",
        "{% for",
        "\0",
        "../..",
        "**",
        "[",
        "x" * 300,
        "<<",
        "$.a",
        "(",
        "http://[",
        "\ud83d\ude00",
    ]
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.integers(10**18, 10**25) | st.floats() | TEXT
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(TEXT | st.sampled_from([*VALID, *GRADERS]), inner, max_size=4)
    ),
)


def nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container inside a value with each of its keys."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield value, key
        yield from nodes(item)


@st.composite
def mutated(draw: st.DrawFn, valid: Any) -> Any:
    """A valid value with one to three of its nodes deleted, renamed, doubled or replaced."""
    value = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        places = list(nodes(value))
        if not places:
            break
        container, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["delete", "rename", "double", "replace", "swap"])):
            case "delete":
                del container[key]
            case "rename" if isinstance(container, dict):
                container[draw(TEXT)] = container.pop(key)
            case "double" if isinstance(container, list):
                container.append(copy.deepcopy(container[key]))
            case "swap":
                other, name = draw(st.sampled_from(places))
                container[key] = (
                    copy.deepcopy(other[name])
                    if name in (other if isinstance(other, dict) else range(len(other)))
                    else 0
                )
            case _:
                container[key] = draw(JSON)
    return value


pytestmark = pytest.mark.hypothesis  # generated inside of the tests, where it is not seen


def loads_or_is_refused(project: Project) -> bool:
    """Whether it loaded; anything but a suite or problems in their files comes through."""
    try:
        outcome: CheckedSuite | ConfigError = project.load({"K": "k"})
    except ConfigError as error:
        outcome = error
    if isinstance(outcome, CheckedSuite):
        return bool(outcome.fingerprint)
    assert outcome.problems
    assert all(problem.message and problem.file for problem in outcome.problems)
    return False


@pytest.fixture
def valid(project: Project) -> Project:
    project.write("prompt.txt", "{{ input }}")
    project.write("cases.jsonl", json.dumps(ROW) + "\n")
    project.write("cases.csv", 'id,input,q,expect\ncsv,i,v,"[{contains: x}]"\n')
    project.write("evals.yaml", json.dumps(VALID))
    return project


def test_the_config_that_is_mutated_is_valid(valid: Project) -> None:
    assert loads_or_is_refused(valid)


def test_any_mutation_of_a_config_loads_or_is_refused(valid: Project) -> None:
    seen = Counter[bool]()

    @given(mutated(VALID))
    def check(config: Any) -> None:
        valid.write("evals.yaml", json.dumps(config))
        seen[loads_or_is_refused(valid)] += 1

    check()
    assert min(seen[True], seen[False]) > 0


def test_any_structure_loads_or_is_refused(valid: Project) -> None:
    @given(
        JSON
        | st.fixed_dictionaries(
            {"providers": JSON, "cases": JSON},
            optional={"expect": JSON, "gate": JSON, "prompts": JSON},
        )
    )
    @example({"providers": None, "cases": None, "prompts": 1})
    def check(config: Any) -> None:
        valid.write("evals.yaml", json.dumps(config))
        loads_or_is_refused(valid)

    check()


@pytest.mark.parametrize(
    "name",
    ["evals.yaml", ".env", "prompt.txt", "cases.jsonl", "cases.csv", "cases.yaml", "cases.json"],
)
def test_any_text_or_bytes_in_any_file_load_or_are_refused(valid: Project, name: str) -> None:
    words = st.sampled_from(
        [
            "id",
            ",",
            '"',
            "\n",
            "a: ",
            "- ",
            "&a ",
            "*a",
            "<<: ",
            "{",
            "}",
            "[",
            "]",
            "!!x ",
            "|\n",
            "\t",
            "---\n",
            "id,q\n",
        ]
    )

    @given(
        st.binary(max_size=60)
        | st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace"))
        | st.lists(words, max_size=20).map("".join)
    )
    def check(content: bytes | str) -> None:
        valid.write(name, content)
        loads_or_is_refused(valid)

    check()


def test_any_row_of_a_dataset_loads_or_is_refused(valid: Project) -> None:
    @given(st.lists(mutated(ROW) | JSON, max_size=3))
    def check(rows: list[Any]) -> None:
        valid.write("cases.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        loads_or_is_refused(valid)

    check()


def test_any_cell_of_a_csv_loads_or_is_refused(valid: Project) -> None:
    columns = st.lists(
        st.sampled_from(["id", "input", "q", "expect", "tags", "runs", "threshold", "vars.x"])
        | TEXT,
        max_size=5,
    )

    @given(columns, st.lists(st.lists(TEXT | JSON.map(json.dumps), max_size=5), max_size=3))
    def check(header: list[str], rows: list[list[str]]) -> None:
        quoted = [
            ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)
            for cells in (["id", *header], *rows)
        ]
        valid.write("cases.csv", "\n".join(quoted).encode("utf-8", "replace"))
        loads_or_is_refused(valid)

    check()


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00",
        b'providers: [{type: command, command: "\'"}]\ncases: &a [*a]',
        json.dumps(VALID | {"runs": {}, "cases": 5}).encode(),
    ],
)
def test_the_command_line_shows_problems_and_no_traceback(valid: Project, content: bytes) -> None:
    valid.write("evals.yaml", content)
    done = python(valid.folder, "-m", "ci_evals", "validate", "-c", str(valid.config))
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err
    assert done.err.startswith(f"{valid.config}:")
    assert "nothing was run" in done.err
