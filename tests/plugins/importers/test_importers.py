import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from counting import count_calls
from hypothesis import given
from hypothesis import strategies as st

from ci_evals.errors import ConfigError
from ci_evals.plugins.importers import import_suite, suite_text, translate
from ci_evals.plugins.importers.draft import SuiteDraft
from ci_evals.plugins.importers.source import Source
from ci_evals.plugins.importers.writing import YamlComment, write_yaml
from ci_evals.suite.nodes import Node
from ci_evals.suite.yaml import Lines, parse

TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Co", "Cn"])
    | st.sampled_from("\n \t#:-'\"{}[]|")
)
TRICKY = [
    "yes",
    "null",
    "1e3",
    "0o7",
    "- a",
    "a: b",
    "a #b",
    "~",
    "line\nline\n",
    "x\n\n\ny",
    "|",
    " x",
    "${A}",
    "*a",
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-10, 10**6)
    | st.floats(-5, 5)
    | TEXT
    | st.sampled_from(TRICKY)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)
KEYS = st.sampled_from(["cases", "expect", "providers", "vars", "name"])


@given(st.dictionaries(KEYS, VALUES, min_size=1))
def test_what_is_written_reads_as_what_it_was(suite: dict[str, Any]) -> None:
    assert parse(write_yaml(suite), "evals.yaml")[0] == suite


def commented(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            YamlComment("before\nall"): None,
            **{key: commented(item) for key, item in value.items()},
            YamlComment("x: "): None,
        }
    return (
        [YamlComment("# - of"), *map(commented, value), YamlComment("after")]
        if isinstance(value, list)
        else value
    )


@given(st.dictionaries(KEYS, VALUES.filter(bool), min_size=1))
def test_comments_stand_among_values_and_change_none(suite: dict[str, Any]) -> None:
    draft = SuiteDraft("test", commented(suite))
    text = write_yaml(draft.suite)
    assert draft.plain()[0] == suite
    assert "# before\n# all\n" in text


TEST = """\
  # the {number}th customer
  - description: case {number}
    vars:
      question: 'may I return order {number}: yes or no?'
      name: customer {number}  # who asks
    assert:
      - {{type: contains, value: 'yes, order {number}'}}
      - type: llm-rubric
        value: |
          names order {number}
          is polite
"""
FEW_CALLS = 1000


def test_a_further_test_takes_few_calls(tmp_path: Path) -> None:
    calls = {}
    for size in (50, 100):
        path = tmp_path / f"{size}.yaml"
        tests = "".join(TEST.format(number=number) for number in range(size))
        path.write_text(f"prompts: ['{{{{ question }}}}']\nproviders: [echo]\ntests:\n{tests}")

        def convert(path: Path = path) -> None:
            suite_text(import_suite([path], tmp_path), [path])

        convert()  # what is loaded once does not count
        calls[size] = count_calls(convert)
    assert (calls[100] - calls[50]) / 50 < FEW_CALLS


FILES = Path(__file__).parents[2] / "data" / "imports"
NAMES = [
    *(
        "promptfoo/promptfooconfig.yaml",
        "promptfoo/everything.yaml",
        "gh-models/support.prompt.yml",
    ),
    *("pydantic-evals/capitals.yaml", "promptopus/suite.yaml", "deepeval/goldens.json"),
    "openai-evals/registry/evals/capitals.yaml",
]
JUNK = [
    None,
    5,
    "",
    "x",
    [],
    {},
    [None],
    {"a": 1},
    "file://nope.yaml",
    "file://*.zzz",
    "file://x.js",
    "{{ a",
    {"type": 5},
]


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    for key in (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    ):
        yield from places(value[key], (*place, key))


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_whatever_stands_in_a_file_it_is_translated_or_refused(
    name: str, data: st.DataObject
) -> None:
    path = FILES / name
    value = json.loads(json.dumps(parse(path.read_text(), name)[0]))  # without what aliases share
    *way, last = data.draw(st.sampled_from([place for place in places(value) if place]))
    holder = value
    for key in way:
        holder = holder[key]
    holder[last] = data.draw(st.sampled_from(JUNK))
    try:
        draft = translate(Source(path, name, path.parent, Node(value, Lines(1), name)))
    except ConfigError:
        return
    if draft is not None:
        assert parse(suite_text(draft, [path]), "evals.yaml")[0] == draft.plain()[0]
