"""From a run of the base branch to an explained red, through the command line."""

import json
from pathlib import Path

from processes import ci_evals
from suites import ONE_CASE, write_suite

STEADY = {"id": "steady", "input": "fine", "expect": [{"equals": "fine"}]}
BROKEN = {"name": "echo", "type": "mock", "answers": {"greeting": "fine"}}


async def test_a_regression_is_named_compared_offline_and_explained(tmp_path: Path) -> None:
    write_suite(tmp_path, [ONE_CASE, STEADY], runs=10)
    assert (await ci_evals(tmp_path, "run", "--out", "main")).code == 0
    write_suite(tmp_path, [ONE_CASE, STEADY], runs=3, providers=[BROKEN])
    red = await ci_evals(tmp_path, "run", "--baseline", "main")
    assert red.code == 1
    assert "Regressed (1)" in red.out
    assert "confirming 1 suspect" in red.err
    summary = (tmp_path / "ci-evals-results" / "summary.md").read_text(encoding="utf-8")
    assert "### 🔴 Regressed (1)" in summary
    sentence = "10 of 10 on the baseline, 0 of 10 here"
    assert sentence in summary

    offline = await ci_evals(tmp_path, "compare", "main", "ci-evals-results")
    assert offline.code == 1
    assert sentence in offline.out
    mended = await ci_evals(tmp_path, "compare", "ci-evals-results", "main", "--format", "json")
    assert mended.code == 0
    assert json.loads(mended.out)["verdict"]["status"] == "pass"

    why = await ci_evals(tmp_path, "explain", "greeting", "--baseline", "main")
    assert why.code == 0
    assert sentence in why.out
    assert "runs 4 to 10 failed alike" in why.out
    misspelt = await ci_evals(tmp_path, "explain", "greetin")
    assert misspelt.code == 2
    assert "did you mean 'greeting'?" in misspelt.err


async def test_nothing_that_cannot_be_compared_is_green_or_a_traceback(tmp_path: Path) -> None:
    write_suite(tmp_path)
    assert (await ci_evals(tmp_path, "run")).code == 0
    (tmp_path / "cut.json").write_bytes((tmp_path / "ci-evals-results" / "report.json").read_bytes()[:500])
    for base in ("cut.json", "nowhere", "ci-evals-results"):
        ended = await ci_evals(tmp_path, "compare", base, "ci-evals-results")
        assert ended.code == 3
        assert "Traceback" not in ended.err
        assert base in ended.out + ended.err
    alone = await ci_evals(tmp_path, "compare", "ci-evals-results")
    assert alone.code == 2


async def test_explain_finds_the_results_of_the_suite(tmp_path: Path) -> None:
    write_suite(tmp_path, [ONE_CASE], report={"out": "elsewhere"})
    assert (await ci_evals(tmp_path, "run")).code == 0
    assert "run 1 passed" in (await ci_evals(tmp_path, "explain", "greeting")).out


async def test_in_actions_an_answer_commands_nobody(tmp_path: Path) -> None:
    evil = {"id": "evil", "input": "::error::owned\n##[error]owned", "expect": [{"is_json": True}]}
    write_suite(tmp_path, [evil])
    await ci_evals(tmp_path, "run")
    for output in ("text", "markdown", "json"):
        ended = await ci_evals(tmp_path, "explain", "evil", "--format", output, environ={"GITHUB_ACTIONS": "true"})
        assert "owned" in ended.out
        assert not any(line.lstrip().startswith("::") or "##[" in line for line in ended.out.splitlines())
