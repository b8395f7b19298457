"""The files that a suite depends on: what it names in any place, and no more than that."""

from pathlib import Path

import pytest
from factories import case_of

from ci_evals.dependencies import find_dependencies, touched
from ci_evals.model.case import Case, Task
from ci_evals.model.response import Message, Part
from ci_evals.user_code.folders import CodeFolders

CODE = [
    {"javascript": {"file": "checks/length.mjs:brief"}},
    {"javascript": "require('./words')(output) && true"},
    {"python": "from tone.rules import polite\nreturn polite(output)\n"},
]
WRITTEN = {
    "cases": {"file": "cases/*.jsonl"},
    "prompts": [{"file": "../prompts/polite.txt"}, "Answer {{ input }} in [a-z]*"],
    "providers": [
        {"target": "support.agent:answer"},
        {"command": ["python3", "./tools/run.py"]},
        {"serve": {"command": "python3 service/app.py 18917"}},
        {"url": "https://example.org/evals/docs"},
    ],
    "expect": [{"regex": "[a-z]*"}, {"json_schema": {"value": {"file": "schema.json"}}}, *CODE],
}


def found(
    changed: str,
    *,
    file: str = "evals/evals.yaml",
    paths: tuple[str, ...] = (),
    case: Case | None = None,
) -> bool:
    patterns = find_dependencies(WRITTEN, [case] if case else [], paths, Path("/repo/evals"))
    return touched([changed], file, patterns) == [changed]


@pytest.mark.parametrize(
    "changed",
    [
        "evals/evals.yaml",
        "evals/cases/deleted.jsonl",
        "evals/cases/images/cat.png",
        "prompts/polite.txt",
        "prompts/shared.txt",
        "evals/support/agent.py",
        "evals/tools/run.py",
        "evals/service/app.py",
        "evals/tools/helper.py",
        "evals/schema.json",
        "evals/checks/length.mjs",
        "evals/checks/shared.mjs",
        "evals/words.js",
        "evals/tone/rules.py",
    ],
)
def test_what_a_suite_names_counts_and_what_lies_beside_it_in_a_folder_of_its_own(
    changed: str,
) -> None:
    assert found(changed)


@pytest.mark.parametrize(
    "changed",
    [
        "README.md",
        "evals/notes.md",
        "evals.yaml",
        "docs/cases/new.jsonl",
        "src/app.py",
        "evals/supporting.py",
    ],
)
def test_nothing_else_does(changed: str) -> None:
    assert not found(changed)


@pytest.mark.parametrize(
    ("paths", "changed", "counts"),
    [
        ("../src", "src/deep/app.py", True),
        ("../src/**/*.py", "src/app.py", True),
        ("../src/**/*.py", "src/deep/er/app.py", True),
        ("../src/**/*.py", "src/app.md", False),
        ("/src/**", "src/app.py", True),
        ("src/**", "src/app.py", False),
        ("src/**", "evals/src/app.py", True),
        ("/**/uv.lock", "uv.lock", True),
    ],
)
def test_paths_start_in_the_suites_folder_and_with_a_slash_at_the_root(
    paths: str, changed: str, *, counts: bool
) -> None:
    assert found(changed, paths=(paths,)) == counts


@pytest.mark.parametrize(
    "changed", ["src/support/agent.py", "support/agent.py", "src/tone/rules.py"]
)
def test_modules_count_in_every_folder_of_the_suites_code(changed: str) -> None:
    folders = CodeFolders(named=(Path("/repo/src"),), usual=(Path("/repo"),))
    patterns = find_dependencies(WRITTEN, [], (), Path("/repo/evals"), folders)
    assert touched([changed], "evals/evals.yaml", patterns) == [changed]
    assert not found(changed)


def test_a_suite_at_the_root_of_the_repository_is_one_file_there() -> None:
    assert found("evals.yaml", file="evals.yaml")
    assert not found("README.md", file="evals.yaml")


def test_cases_name_files_too() -> None:
    picture = case_of(messages=(Message("user", (Part(image="pictures/cat.png"),)),))
    assert found("evals/pictures/cat.png", case=picture)
    task = Task(folder=Path("/repo/evals/tasks/one"), digest="d")
    assert found("evals/tasks/one/tests/test.sh", case=case_of(task=task))
