"""A change of the code that judges: its cases are edited, and earlier grades no longer count."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes.chat import ChatServer, chatting
from leftovers import journaled, report_in
from processes import ci_evals
from suites import chat, run, write_files, write_suite

JUDGE = "from words import word\ndef judge(output):\n    return word in output\n"
FILES = {".git/HEAD": "", "evals/checks.py": JUDGE, "words.py": "word = 'hello'\n"}
CHECKS = [{"python": "checks:judge"}]


async def kinds_after(folder: Path, changes: Mapping[str, str], **settings: Any) -> dict[str, int]:
    """Return how many cells of each kind a comparison has, once files are changed."""
    evals = folder / "evals"
    settings.setdefault("expect", CHECKS)
    write_files(folder, FILES)
    write_suite(evals, **settings)
    base = await ci_evals(evals, "run", "--out", "base")
    assert base.code == 0, base.err
    write_files(folder, changes)
    head = await run(evals, "--baseline", "base")
    assert head.code == 0, head.err
    kinds: dict[str, int] = report_in(evals / "out")["comparison"]["counts"]
    return {kind: count for kind, count in kinds.items() if count}


@pytest.mark.parametrize(
    "changes",
    [
        {"evals/checks.py": "from words import word\ndef judge(output):\n    return True\n"},
        {"words.py": "word = ''\n"},
    ],
)
async def test_cases_whose_grader_changed_are_edited(
    changes: Mapping[str, str], tmp_path: Path
) -> None:
    assert await kinds_after(tmp_path, changes) == {"edited": 1}
    (cell,) = report_in(tmp_path / "evals/out")["cells"]
    assert cell["comparison"]["regraded"] is True


async def test_cases_whose_transform_changed_are_edited(tmp_path: Path) -> None:
    write_files(tmp_path, {"evals/views.py": "def view(output):\n    return output\n"})
    changes = {"evals/views.py": "def view(output):\n    return 'hello'\n"}
    expect = [{"contains": "hello"}]
    kinds = await kinds_after(tmp_path, changes, expect=expect, transform="views:view")
    assert kinds == {"edited": 1}


async def test_other_code_of_the_repository_edits_nothing(tmp_path: Path) -> None:
    changes = {"agent.py": "word = ''\n", "evals/other.py": "word = ''\n", "data.json": "[]"}
    assert await kinds_after(tmp_path, changes) == {"unchanged": 1}


async def test_resumed_runs_have_no_grades_of_an_earlier_grader(tmp_path: Path) -> None:
    async with chatting(ChatServer()) as server:
        write_files(tmp_path, {"checks.py": JUDGE, "words.py": "word = 'q'\n"})
        cases = [
            {"id": "own", "input": "q1", "expect": CHECKS},
            {"id": "built-in", "input": "q2", "expect": [{"contains": "q"}]},
        ]
        write_suite(tmp_path, cases, providers=[chat(server.url)])
        assert (await run(tmp_path)).code == 0
        write_files(tmp_path, {"words.py": "word = 'Paris'\n"})
        resumed = await run(tmp_path, "--resume")
        assert server.asked == {"q1": 2, "q2": 1}
    assert resumed.code == 1
    assert "Resumed: 1 of 2 runs kept, 1 changed one run again" in resumed.out
    statuses = {each["case"]: each["status"] for each in report_in(tmp_path / "out")["results"]}
    assert statuses == {"own": "failed", "built-in": "passed"}


async def test_a_replay_asks_a_judge_again_whose_code_changed(tmp_path: Path) -> None:
    judge = 'def answer(question):\n    return \'{"verdict": "%s", "reason": "%s"}\'\n'
    write_files(tmp_path, {"judges.py": judge % ("pass", "polite")})
    judges = [{"type": "python", "target": "judges:answer"}]
    write_suite(tmp_path, judges=judges, expect=[{"judge": "Is it polite?"}])
    assert (await ci_evals(tmp_path, "run", "--out", "first")).code == 0
    assert (await run(tmp_path, "--replay", "first", "--replay-only")).code == 0
    write_files(tmp_path, {"judges.py": judge % ("fail", "it is impolite")})
    assert (await run(tmp_path, "--replay", "first")).code == 1
    (result,) = journaled(tmp_path / "out")
    assert result["recorded"] is True
    assert (await run(tmp_path, "--replay", "first", "--replay-only")).code == 3


PROGRAM = """
import sys
from ci_evals import Case, Suite, evaluate_sync
from checks import judge

suite = Suite(cases=[Case(input="hello", id="a")], providers=[str.lower], expect=[judge])
out, *baseline = sys.argv[1:]
report = evaluate_sync(suite, out=out, **{"baseline": path for path in baseline})
counts = getattr(report.comparison, "counts", {})  # none without a baseline
print(report.verdict.status, *(kind for kind, cells in counts.items() if cells))
"""


def test_a_grader_that_is_given_as_a_function_counts_with_its_helpers(tmp_path: Path) -> None:
    write_files(tmp_path, {**FILES, "checks.py": JUDGE, "program.py": PROGRAM})

    def evaluate(*arguments: str) -> str:
        command = [sys.executable, "program.py", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, check=True, capture_output=True
        ).stdout.decode()

    evaluate("base")
    assert evaluate("same", "base").split() == ["pass", "unchanged"]
    write_files(tmp_path, {"words.py": "word = ''\n"})
    assert evaluate("head", "base").split() == ["borderline", "edited"]
