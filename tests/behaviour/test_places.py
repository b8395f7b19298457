"""What cannot be opened is reported with its place in the suite, all at once, before any call."""

from pathlib import Path

import pytest
from suites import write_suite

from ci_evals.engine.journal import JOURNAL
from ci_evals.errors import ConfigError
from ci_evals.invocation import Invocation
from ci_evals.session import execute
from ci_evals.suite.load import load_suite
from ci_evals.suite.overrides import Overrides

MODULE = """\
def answer(text): return text
def is_polite(output): return True
"""


async def problems(folder: Path, suite: str) -> list[str]:
    """What is told of a suite that is run, with files relative to the folder."""
    path = folder / "evals.yaml"
    path.write_text(suite, "utf-8")
    with pytest.raises(ConfigError) as caught:
        await execute(Invocation(suite=load_suite(path, {}), journal=folder / JOURNAL))
    assert not (folder / JOURNAL).exists()
    return [str(problem).replace(f"{folder.as_posix()}/", "") for problem in caught.value.problems]


@pytest.fixture
def module(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A module that no other test has loaded."""
    name = f"opened_in_{request.node.name}".partition("[")[0]
    (tmp_path / f"{name}.py").write_text(MODULE, "utf-8")
    return name


async def test_a_misspelt_grader_function_is_told_with_its_line(
    tmp_path: Path, module: str
) -> None:
    suite = f"""\
name: test
providers: [{{type: mock}}]
cases:
  - id: a
    input: hi
    expect:
      - not_empty: true
      - python: {module}:is_polit
  - id: b
    turns:
      - user: hello
        expect:
          - python:
              target: {module}:polite
"""
    hint = f"in {module}, did you mean 'is_polite'?"
    assert await problems(tmp_path, suite) == [
        f"evals.yaml:8: cases[0].expect[1].python: there is no 'is_polit' {hint}",
        f"evals.yaml:13: cases[1].turns[0].expect[0].python: there is no 'polite' {hint}",
    ]


async def test_what_shows_only_as_a_module_is_imported_is_told_with_its_line(
    tmp_path: Path, module: str
) -> None:
    (tmp_path / f"{module}.py").write_text(MODULE + "from math import *\n", "utf-8")
    suite = f"""\
name: test
providers:
  - name: a
    type: python
    target: {module}:answr
  - type: mock
    before:
      - {module}:answer
      - {module}:anser
  - {{name: c, type: python, factory: true, target: "{module}:answer"}}
cases:
  - id: a
    input: hi
    expect: [{{python: "{module}:nope"}}]
"""
    called = (
        f"target '{module}:answer': cannot be called with (): missing a required argument: 'text'"
    )
    assert await problems(tmp_path, suite) == [
        (
            f"evals.yaml:14: cases[0].expect[0].python: "
            f"target '{module}:nope': there is no 'nope' in {module} ({module}.py)"
        ),
        *(
            f"evals.yaml:{line}: {path}: target '{module}:{name}':"
            f" there is no {name!r} in {module}, did you mean 'answer'? ({module}.py)"
            for line, path, name in [
                (9, "providers[1].before[1]", "anser"),
                (5, "providers[0].target", "answr"),
            ]
        ),
        f"evals.yaml:10: providers[2].target: {called} ({module}.py:1)",
    ]


async def test_a_stage_that_is_neither_provider_nor_function_is_told_with_its_line(
    tmp_path: Path,
) -> None:
    suite = """\
name: test
providers:
  - name: x
    type: mock
    after:
      - nowhere:speak
      - y
cases: [{id: a, input: hi, expect: [{not_empty: true}]}]
"""
    speak, y = await problems(tmp_path, suite)
    assert speak.startswith(
        "evals.yaml:6: providers[0].after[0]: target: there is no module 'nowhere' in "
    )
    assert y.startswith(
        "evals.yaml:7: providers[0].after[1]: unknown provider 'y', known: x; or name a function"
    )


def test_a_stage_is_suggested_among_all_providers_whichever_are_run(tmp_path: Path) -> None:
    providers = [
        {"name": "agent", "type": "mock", "after": ["voise"]},
        {"name": "voice", "type": "mock"},
    ]
    with pytest.raises(ConfigError, match="unknown provider 'voise', did you mean 'voice'"):
        load_suite(write_suite(tmp_path, providers=providers), {}, Overrides(providers=("agent",)))


async def test_a_model_that_no_grader_can_ask_is_told_with_its_line(tmp_path: Path) -> None:
    suite = """\
name: test
providers: [{type: mock}]
judges:
  - {name: strict, type: mock}
cases:
  - id: a
    input: hi
    expect:
      - not_empty: true
      - judge:
          rubric: polite
          provider: strikt
      - embedding_similar: hello
"""
    judge, embeddings = await problems(tmp_path, suite)
    assert judge.startswith(
        "evals.yaml:12: cases[0].expect[1].judge.provider: unknown judge 'strikt', did you mean"
    )
    assert embeddings.startswith(
        "evals.yaml:13: cases[0].expect[2].embedding_similar: needs an `embeddings` model"
    )
