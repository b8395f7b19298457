"""Coding agents: their transcripts as steps and cost, repositories to work in, and the diff."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from github_markdown import page
from leftovers import journaled, report_in
from processes import ci_evals
from suites import write_suite, write_task

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="commands and verifiers are shell scripts"
)

RECORDED = Path(__file__).parents[2] / "data" / "transcripts"
OTHER_PROCESS = (sys.executable, "-m", "ci_evals")
PASSES = 'echo 1 > "$LOGS_DIR/verifier/reward.txt"\n'
HAS_DIFF = 'grep -q "^+new$" "$DIFF_FILE" && ' + PASSES
TASKS = {"tasks": "tasks/**/task.toml"}


def fix_task(folder: Path, toml: str = "", test: str = PASSES) -> Path:
    shop = {"shop.py": "old\n"}
    return write_task(folder, "fix", test=test, instruction="Fix it.", toml=toml, environment=shop)


def agent(script: str, **changes: Any) -> dict[str, Any]:
    command = ["sh", "-c", script]
    defaults = {"name": "agent", "type": "task", "transcript": "claude-code"}
    return {**defaults, "command": command, **changes}


def show(name: str) -> str:
    return f"cat '{RECORDED / name}'"


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, capture_output=True, check=True, text=True
    )
    return done.stdout.strip()


def write_repository(folder: Path) -> tuple[Path, str]:
    """Make a repository whose first commit has a bug that the second one fixes.

    Returns it and the first commit.
    """
    repository = folder / "shop"
    repository.mkdir()
    git(repository, "init", "--quiet")
    (repository / "shop.py").write_text("old\n")
    (repository / ".gitignore").write_text("cache/\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "Add the shop")
    first = git(repository, "rev-parse", "HEAD")
    (repository / "shop.py").write_text("solution\n")
    git(repository, "commit", "--quiet", "--all", "--message", "Fix the shop")
    return repository, first


async def test_steps_cost_tokens_and_diff_are_in_the_report(tmp_path: Path) -> None:
    fix_task(tmp_path, test=HAS_DIFF)
    script = f"echo new > shop.py; {show('claude-code.jsonl')}"
    expect = [
        {"reward": 1},
        {"contains": "I removed that"},
        {"trajectory": {"calls": ["Bash", "Agent", "Edit"]}},
        {"tool_arguments": {"tool": "Edit", "where": {"file_path": {"equals": "shop.py"}}}},
        {"cost": 0.05},
        {"regex": {"pattern": r"\+new", "transform": "metadata.diff"}},
    ]
    write_suite(tmp_path, TASKS, providers=[agent(script)], expect=expect)
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err
    (result,) = report_in(tmp_path / "ci-evals-results")["results"]
    assert result["cost_usd"] == 0.01872
    (line,) = journaled(tmp_path / "ci-evals-results")
    steps = line["response"]["steps"]
    assert len([step for step in steps if step["kind"] == "tool_call"]) == 6
    assert steps[-1]["name"] == "diff"
    diff = line["response"]["metadata"]["diff"]
    assert diff.startswith("diff --git a/shop.py b/shop.py\n")
    assert "-old\n+new\n" in diff
    kept = tmp_path / "ci-evals-results" / "tasks" / "fix" / "agent" / "run-1"
    assert (kept / "logs" / "agent.diff").read_text() == diff
    html = (tmp_path / "ci-evals-results" / "report.html").read_text()
    assert "+new" in html
    assert "Explore" in html
    assert "claude-opus-5-5-001" in html


async def test_failed_calls_under_the_name_of_another_agent_pass_no_limit(tmp_path: Path) -> None:
    fix_task(tmp_path)
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {}}
    failed = {"type": "tool_result", "tool_use_id": "c", "is_error": True}
    events: list[dict[str, Any]] = [{"type": "system", "subtype": "init"}]
    for number in range(30):
        message = {"id": f"m{number}", "model": "opus", "content": [call]}
        events.append({"type": "assistant", "message": message})
        events.append({"type": "user", "message": {"content": [failed]}})
    events.append({"type": "result", "subtype": "success", "result": "Fixed."})
    (tmp_path / "printed").write_text("\n".join(map(json.dumps, events)))
    agents = [
        agent(f"cat '{tmp_path}/printed'", name=name, transcript=name)
        for name in ("claude-code", "codex", "gemini-cli", "opencode")
    ]
    expect = [{"reward": 1}, {"max_tool_calls": 5}]
    write_suite(tmp_path, TASKS, providers=agents, expect=expect)
    assert (await ci_evals(tmp_path, "run")).code == 1
    errors = {}
    for line in journaled(tmp_path / "ci-evals-results"):
        assert line["status"] == "failed"
        errors[line["provider"]] = (line.get("error") or {}).get("message", "")
    assert errors.pop("claude-code") == "", "its calls are too many"
    for name, message in errors.items():
        assert f"is not a transcript of {name}" in message


async def test_the_work_of_an_agent_that_is_out_of_time_is_graded_and_the_page_says_so(
    tmp_path: Path,
) -> None:
    fix_task(tmp_path, test=HAS_DIFF)
    some = f"head -n 12 '{RECORDED / 'claude-code.jsonl'}'"
    script = f"echo new > shop.py; {some}; sleep 600"
    write_suite(tmp_path, TASKS, providers=[agent(script, timeout_s=3)])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err
    results = tmp_path / "ci-evals-results"
    (line,) = journaled(results)
    assert line["status"] == "passed"
    calls = [step["name"] for step in line["response"]["steps"] if step["kind"] == "tool_call"]
    assert calls == ["Skill", "Bash", "Agent", "Read"]
    assert line["response"]["finish_reason"] == "timeout"
    assert line["response"]["usage"]["input_tokens"] > 0
    assert "+new" in line["response"]["metadata"]["diff"]
    assert "finish reason timeout" in (results / "report.html").read_text()
    explained = await ci_evals(tmp_path, "explain", "fix")
    assert "finish reason timeout" in explained.out


@pytest.mark.parametrize(
    ("transcript", "events", "exit_status", "finish_reason"),
    [
        ("claude-code", [{"type": "result", "subtype": "error_max_turns"}], 1, "max_turns"),
        (
            "claude-code",
            [{"type": "result", "subtype": "error_max_budget_usd"}],
            1,
            "max_budget_usd",
        ),
        ("gemini-cli", [], 53, "max_turns"),
    ],
)
async def test_the_work_of_an_agent_that_used_up_its_turns_or_budget_is_graded(
    tmp_path: Path, transcript: str, events: list[Any], exit_status: int, finish_reason: str
) -> None:
    fix_task(tmp_path, test=HAS_DIFF)
    (tmp_path / "out.jsonl").write_text("\n".join(map(json.dumps, events)))
    script = f"echo new > shop.py; cat '{tmp_path / 'out.jsonl'}'; exit {exit_status}"
    write_suite(tmp_path, TASKS, providers=[agent(script, transcript=transcript)])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err
    (line,) = journaled(tmp_path / "ci-evals-results")
    assert line["response"]["finish_reason"] == finish_reason
    page = (tmp_path / "ci-evals-results" / "report.html").read_text()
    assert f"finish reason {finish_reason}" in page


async def test_an_agent_that_waits_for_its_model_until_it_is_out_of_time_is_not_to_blame(
    tmp_path: Path,
) -> None:
    fix_task(tmp_path)
    lost = {
        "type": "error",
        "message": "Reconnecting... 2/5 (stream disconnected before completion)",
    }
    script = f"echo '{json.dumps(lost)}'; sleep 600"
    write_suite(tmp_path, TASKS, providers=[agent(script, transcript="codex", timeout_s=3)])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 3, ended.out + ended.err
    (line,) = journaled(tmp_path / "ci-evals-results")
    assert (line["status"], line["error"]["kind"]) == ("errored", "upstream")


async def test_an_agent_that_breaks_has_failed_and_keeps_its_steps_and_its_diff(
    tmp_path: Path,
) -> None:
    fix_task(tmp_path)
    some = f"head -n 12 '{RECORDED / 'claude-code.jsonl'}'"
    script = f"echo new > shop.py; {some}; exit 7"
    write_suite(tmp_path, TASKS, providers=[agent(script)])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1, ended.out + ended.err
    message = "the agent ended with exit status 7; its transcript has 8 steps"
    assert message in ended.out
    results = tmp_path / "ci-evals-results"
    (line,) = journaled(results)
    assert (line["status"], line["error"]["kind"]) == ("failed", "crash")
    assert line["response"]["usage"]["input_tokens"] > 0
    assert "+new" in line["response"]["metadata"]["diff"]
    assert "sh check.sh" in (results / "report.html").read_text()

    # What was kept of it is not an answer, which a later run could grade.
    replay = ("--replay", str(results / "results.jsonl"), "--replay-only")
    await ci_evals(tmp_path, "run", *replay, "--out", "b")
    (replayed,) = journaled(tmp_path / "b")
    assert replayed["error"]["message"] == line["error"]["message"]
    assert replayed["response"]["steps"] == line["response"]["steps"]
    assert "grades" not in replayed


async def test_what_was_kept_of_an_agent_that_failed_is_not_reused(tmp_path: Path) -> None:
    fix_task(tmp_path)
    calls = tmp_path / "calls"
    script = f"echo called >> '{calls}'; {show('opencode-rate-limit.jsonl')}; exit 1"
    write_suite(tmp_path, TASKS, providers=[agent(script, transcript="opencode")])
    for _ in range(2):
        await ci_evals(tmp_path, "run", "--reuse", "--reuse-own-code")
    assert calls.read_text() == "called\ncalled\n"


async def test_a_budget_goes_on_after_an_agent_that_was_killed_before_it_told_its_cost(
    tmp_path: Path,
) -> None:
    fix_task(tmp_path)
    some = f"head -n 12 '{RECORDED / 'claude-code.jsonl'}'"
    script = f"{some}; exit 1"
    write_suite(
        tmp_path,
        TASKS,
        providers=[agent(script, max_concurrency=1)],
        runs=3,
        budget={"max_cost_usd": 5},
    )
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1, ended.out + ended.err
    assert len(journaled(tmp_path / "ci-evals-results")) == 3


async def test_an_agent_that_prints_without_end_has_failed_and_keeps_its_first_steps(
    tmp_path: Path,
) -> None:
    fix_task(tmp_path)
    some = f"head -n 12 '{RECORDED / 'claude-code.jsonl'}'"
    write_suite(tmp_path, TASKS, providers=[agent(f'{some}; exec yes "$(printf %01000d 0)"')])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1, ended.out + ended.err
    (line,) = journaled(tmp_path / "ci-evals-results")
    message = "the agent wrote too much to stdout; its transcript has 8 steps"
    assert (line["error"]["kind"], line["error"]["message"]) == ("bad_answer", message)
    assert len(line["response"]["steps"]) == 8


async def test_secrets_that_an_agent_prints_or_writes_are_kept_nowhere(tmp_path: Path) -> None:
    fix_task(tmp_path)
    secret = "correct-horse-battery-staple"
    events = ({"type": "thread.started"}, {"type": "turn.failed", "error": {"message": "%s"}})
    printed = r"\n".join(map(json.dumps, events))
    script = f"""echo "$SHOP_TOKEN" | tee shop.py >&2; printf '{printed}' "$SHOP_TOKEN\""""
    write_suite(tmp_path, TASKS, providers=[agent(script, transcript="codex")])
    ended = await ci_evals(tmp_path, "run", environ={"SHOP_TOKEN": secret})
    assert ended.code == 1, ended.out + ended.err
    results = tmp_path / "ci-evals-results"
    kept = results / "tasks" / "fix" / "agent" / "run-1"
    assert (kept / "logs" / "agent.diff").read_text().endswith("-old\n+***\n")
    files = [path for path in results.rglob("*") if path.is_file()]
    assert [path.name for path in files if secret.encode() in path.read_bytes()] == []
    assert secret not in ended.out + ended.err


async def test_files_that_cannot_be_read_are_left_out_of_the_diff(tmp_path: Path) -> None:
    fix_task(tmp_path, test=HAS_DIFF)
    script = f"echo new > shop.py; mkfifo pipe; ln -s / everything; {show('claude-code.jsonl')}"
    write_suite(tmp_path, TASKS, providers=[agent(script)])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err


async def test_an_outage_of_the_model_says_nothing_about_the_agent(tmp_path: Path) -> None:
    fix_task(tmp_path)
    script = f"{show('opencode-rate-limit.jsonl')}; exit 1"
    write_suite(tmp_path, TASKS, providers=[agent(script, transcript="opencode")])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 3, ended.out + ended.err
    (line,) = journaled(tmp_path / "ci-evals-results")
    assert line["status"] == "errored"
    assert line["error"]["kind"] == "rate_limit"
    assert line["error"]["message"] == "the agent stopped: Too many requests."


async def test_output_without_a_transcript_is_said_with_the_options_that_make_one(
    tmp_path: Path,
) -> None:
    fix_task(tmp_path)
    write_suite(tmp_path, TASKS, providers=[agent("echo I fixed it.")])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1
    (line,) = journaled(tmp_path / "ci-evals-results")
    assert line["status"] == "failed"
    assert line["error"]["message"] == (
        "the output is not a transcript of claude-code: it starts with 'I fixed it.';"
        " run the agent with `--output-format stream-json --verbose`"
    )


async def test_a_transcript_may_be_in_a_file_of_the_working_copy(tmp_path: Path) -> None:
    fix_task(tmp_path)
    script = f"{show('codex.jsonl')} > out.jsonl; echo noise"
    options = {"transcript": "codex", "transcript_file": "out.jsonl"}
    expect = [{"reward": 1}, {"contains": "I removed that"}]
    write_suite(tmp_path, TASKS, providers=[agent(script, **options)], expect=expect)
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err


async def test_a_command_may_print_a_transcript_too(tmp_path: Path) -> None:
    provider = agent(show("gemini-cli.jsonl"), type="command", transcript="gemini-cli")
    expect = [{"contains": "I removed that"}, {"max_tool_calls": 4}]
    write_suite(tmp_path, [{"input": "Fix it."}], providers=[provider], expect=expect)
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err


async def test_hostile_text_of_a_transcript_acts_nowhere(tmp_path: Path) -> None:
    fix_task(tmp_path)
    hostile = "::error::x\n<script>alert(1)</script>\x1b[31m](javascript:alert(1))"
    call = {"type": "tool_use", "id": "1", "name": hostile, "input": {hostile: hostile}}
    message = {"id": hostile, "model": hostile, "content": [call]}
    end = {"type": "result", "subtype": "success", "is_error": True, "result": hostile}
    events = [{"type": "assistant", "message": message}, end]
    (tmp_path / "out.jsonl").write_text("\n".join(map(json.dumps, events)))
    write_suite(tmp_path, TASKS, providers=[agent(f"cat '{tmp_path / 'out.jsonl'}'")])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1
    assert "\x1b[31m" not in ended.out
    assert not [line for line in ended.out.splitlines() if line.startswith("::")]
    results = tmp_path / "ci-evals-results"
    assert "<script>alert" not in (results / "report.html").read_text()
    assert "<script>alert" not in page((results / "summary.md").read_text())


async def test_a_rejected_work_shows_the_failing_test_and_the_diff_once(tmp_path: Path) -> None:
    fails = (
        r"printf '\033[31mFAILED\033[0m test_shop.py::test_total - assert 3 == 4\n'"
        '; echo 0 > "$LOGS_DIR/verifier/reward.txt"\n'
    )
    fix_task(tmp_path, test=fails)
    write_suite(
        tmp_path, TASKS, providers=[agent(f"echo new > shop.py; {show('claude-code.jsonl')}")]
    )
    ran = await ci_evals(tmp_path, "run", "--out", "out")
    assert ran.code == 1
    assert "    reward 0 of 1: test_total failed\n" in ran.out
    comment = (tmp_path / "out/summary.md").read_text("utf-8")
    output = "```text\nFAILED test_shop.py::test_total - assert 3 == 4\n```"
    assert f"The verifier's last lines:\n{output}" in comment
    assert "```diff\ndiff --git a/shop.py b/shop.py\n" in comment
    explained = (await ci_evals(tmp_path, "explain", "fix", "--report", "out")).out
    assert "    FAILED test_shop.py::test_total - assert 3 == 4\n" in explained
    assert explained.count("+new") == 1
    html = (tmp_path / "out/report.html").read_text("utf-8")
    assert html.count("<ins>+new\n</ins>") == html.count("+new") == 1


async def test_an_agent_works_on_a_copy_of_a_repository_at_a_revision(tmp_path: Path) -> None:
    repository, first = write_repository(tmp_path)
    toml = f'[environment]\nrepository = "../../shop"\nrevision = "{first[:10]}"\n'
    fix_task(tmp_path, toml, test=HAS_DIFF)
    script = (
        "grep -q old shop.py || exit 7; git log --all --oneline >&2;"
        " mkdir cache; echo x > cache/x; echo new > shop.py; echo more > other.py;"
        " git add . && git -c user.name=b -c user.email=b@c commit --quiet --message changed;"
        " git log --all --oneline | wc -l | grep -q 2 || exit 8;"
        f" {show('claude-code.jsonl')}"
    )
    write_suite(tmp_path, TASKS, providers=[agent(script)], runs=2)
    (tmp_path / "scratch").mkdir()
    environ = {"TMPDIR": str(tmp_path / "scratch")}
    ended = await ci_evals(tmp_path, "run", environ=environ)
    assert ended.code == 0, ended.out + ended.err
    for line in journaled(tmp_path / "ci-evals-results"):
        diff = line["response"]["metadata"]["diff"]
        assert "-old\n+new\n" in diff
        assert "+++ b/other.py" in diff
        assert "cache/" not in diff
    assert (repository / "shop.py").read_text() == "solution\n"
    assert git(repository, "status", "--porcelain") == ""
    left = [path.name for path in (tmp_path / "scratch").iterdir() if "ci-evals-" in path.name]
    assert not [name for name in left if name.startswith(("ci-evals-repo", "ci-evals-task"))]


async def test_a_repository_by_its_address_is_checked_out_once_for_all_runs(
    tmp_path: Path,
) -> None:
    repository, _ = write_repository(tmp_path)
    git(repository, "tag", "v1")
    git(repository, "config", "uploadpack.packObjectsHook", f"{tmp_path}/hook.sh")
    toml = f'[environment]\nrepository = "file://{repository}"\nrevision = "v1"\n'
    fix_task(tmp_path, toml, test="grep -q solution shop.py && " + PASSES)
    hook = tmp_path / "hook.sh"
    hook.write_text(f'#!/bin/sh\necho fetch >> "{tmp_path}/fetches"\nexec "$@"\n')
    hook.chmod(0o755)
    (tmp_path / "gitconfig").write_text(f"[uploadpack]\n\tpackObjectsHook = {hook}\n")
    environ = {"GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig")}
    providers = [agent("true", name=name, transcript=None) for name in ("a", "b")]
    write_suite(tmp_path, TASKS, providers=providers, runs=2)
    ended = await ci_evals(tmp_path, "run", environ=environ)
    assert ended.code == 0, ended.out + ended.err
    assert (tmp_path / "fetches").read_text() == "fetch\n"


async def test_a_hook_of_another_repository_keeps_its_own(tmp_path: Path) -> None:
    """Git sets `GIT_DIR` and the like for hooks, and runs ci-evals in one."""
    repository, _ = write_repository(tmp_path)
    mine = tmp_path / "mine"
    mine.mkdir()
    git(mine, "init", "--quiet", "--initial-branch", "work")
    (mine / "mine.txt").write_text("mine\n")
    git(mine, "add", ".")
    git(mine, "commit", "--quiet", "--message", "Begin")
    toml = f'[environment]\nrepository = "file://{repository}"\nrevision = "v1"\n'
    git(repository, "tag", "v1")
    fix_task(tmp_path, toml, test=HAS_DIFF)
    script = f"echo new > shop.py; git add .; {show('claude-code.jsonl')}"
    write_suite(tmp_path, TASKS, providers=[agent(script)])
    environ = {
        "GIT_DIR": str(mine / ".git"),
        "GIT_WORK_TREE": str(mine),
        "GIT_INDEX_FILE": str(mine / ".git" / "index"),
    }
    ended = await ci_evals(tmp_path, "run", environ=environ)
    assert ended.code == 0, ended.out + ended.err
    assert git(mine, "status", "--porcelain", "--branch") == "## work"
    assert git(mine, "ls-files") == "mine.txt"
    assert git(mine, "branch", "--format", "%(refname:short)") == "work"


async def test_a_repository_that_cannot_be_had_says_nothing_about_the_agent(
    tmp_path: Path,
) -> None:
    write_repository(tmp_path)
    toml = '[environment]\nrepository = "../../shop"\nrevision = "v9"\n'
    fix_task(tmp_path, toml)
    write_suite(tmp_path, TASKS, providers=[agent("touch /tmp/never")])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 3, ended.out + ended.err
    (line,) = journaled(tmp_path / "ci-evals-results")
    assert line["error"]["kind"] == "environment"
    assert "at v9 could not be checked out: there is no such revision" in line["error"]["message"]


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        ('repository = "../gone"', "repository: there is no folder /"),
        (
            'repository = "environment"',
            "environment.repository: is not a git repository: put files",
        ),
        ('revision = "v1"', "environment.revision: there is no repository for this revision: add"),
        ('repository = ""', "repository"),
    ],
)
async def test_a_repository_is_checked_with_the_suite(
    tmp_path: Path, toml: str, problem: str
) -> None:
    fix_task(tmp_path, f"[environment]\n{toml}\n")
    write_suite(tmp_path, TASKS, providers=[agent("true")])
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert "tasks/fix/task.toml:3: " in ended.err
    assert problem in ended.err


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"transcript": "claude"},
            "transcript: unknown transcript 'claude'; known: claude-code, codex, gemini-cli, ",
        ),
        (
            {"transcript": None, "transcript_file": "x.jsonl"},
            "transcript_file: name its format: add `transcript`",
        ),
        (
            {"command": ["no-such-agent", "-p"]},
            "command: there is no program 'no-such-agent' on the PATH: install it",
        ),
    ],
)
async def test_settings_are_checked_before_anything_is_paid(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    fix_task(tmp_path)
    write_suite(tmp_path, TASKS, providers=[agent("true", **changes)])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 2
    assert problem in ended.err


async def test_an_agent_that_the_setup_installs_need_not_be_there_before(tmp_path: Path) -> None:
    fix_task(tmp_path, '[environment]\nsetup_commands = ["true"]\n')
    write_suite(tmp_path, TASKS, providers=[agent("", command=["no-such-agent"])])
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 0, ended.err


OTHER_FORMAT = """\
from ci_evals.model.response import Step
from ci_evals.plugins.tasks.transcripts.reader import TranscriptReader


class Acme(TranscriptReader):
    options = "--acme"

    def read(self, event):
        if "tool" in event:
            self.add_step(Step("tool_call", event["tool"]))
        elif "answer" in event:
            self.output = event["answer"]
            self.has_ended = True
        else:
            return False
        return True
"""


async def test_another_package_adds_a_format(tmp_path: Path) -> None:
    site = tmp_path / "site"
    metadata = site / "acme-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "acme.py").write_text(OTHER_FORMAT)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[ci_evals.transcripts]\nacme = acme:Acme\n")
    environ = {"PYTHONPATH": str(site)}
    (tmp_path / "out.jsonl").write_text('{"tool": "look"}\n{"answer": "42"}\n')
    provider = agent(f"cat '{tmp_path / 'out.jsonl'}'", type="command", transcript="acme")
    expect = [{"equals": "42"}, {"trajectory": {"calls": ["look"]}}]
    write_suite(tmp_path, [{"input": "?"}], providers=[provider], expect=expect)
    ended = await ci_evals(tmp_path, "run", command=OTHER_PROCESS, environ=environ)
    assert ended.code == 0, ended.out + ended.err
    ended = await ci_evals(tmp_path, "schema", "--names", command=OTHER_PROCESS, environ=environ)
    assert "acme" in ended.out
    assert "codex exec --json" in ended.out


TRANSCRIPTS = ("claude-code", "codex", "gemini-cli", "opencode")
CHECKED = {"contains": "sh check.sh"}


async def test_one_expectation_serves_all_agents_by_the_names_that_their_tools_share(
    tmp_path: Path,
) -> None:
    fix_task(tmp_path)
    agents = [agent(show(f"{each}.jsonl"), name=each, transcript=each) for each in TRANSCRIPTS]
    expect = [
        {"trajectory": ["bash", "edit"]},
        {"tool_call": {"tool": "edit", "ignore_extra_calls": True}},
        {"tool_arguments": {"tool": "bash", "calls": "any", "where": {"command": CHECKED}}},
        {"max_tool_calls": {"value": 0, "tool": "web"}},
        {"not_max_tool_calls": {"value": 0, "tool": "bash"}},
        {"not_no_tool_errors": {"tools": ["bash"]}},
        {"no_tool_errors": {"tools": ["edit"]}},
        {"skill_used": "release-notes"},
        {"not_skill_used": "releases"},
    ]
    write_suite(tmp_path, TASKS, providers=agents, expect=expect)
    await ci_evals(tmp_path, "run")
    failed = {}
    for line in journaled(tmp_path / "ci-evals-results"):
        failed[line["provider"]] = [
            grade["reason"] for grade in line["grades"] if not grade["passed"]
        ]
    # Gemini CLI says nothing about the exit status of a command.
    assert failed.pop("gemini-cli") == ["no tool call failed"]
    assert failed == {"claude-code": [], "codex": [], "opencode": []}
    page = (tmp_path / "ci-evals-results" / "report.html").read_text()
    assert '<bdi>command_execution</bdi> <span class="facts">bash</span>' in page


async def test_a_tool_keeps_the_name_that_its_agent_has_for_it(tmp_path: Path) -> None:
    fix_task(tmp_path)
    expect = [
        {"trajectory": ["command_execution", "file_change"]},
        {"trajectory": {"calls": ["command_execution", "edit"], "match": "superset"}},
    ]
    provider = agent(show("codex.jsonl"), transcript="codex")
    write_suite(tmp_path, TASKS, providers=[provider], expect=expect)
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err


async def test_a_tool_of_an_agent_of_ones_own_has_the_alias_that_its_step_gives(
    tmp_path: Path,
) -> None:
    step = {"kind": "tool_call", "name": "replace", "arguments": {"with": "x"}}
    for name, alias, code in (("with", "edit", 0), ("without", None, 1)):
        folder = tmp_path / name
        folder.mkdir()
        steps = [{**step, **({"alias": alias} if alias else {})}]
        printed = json.dumps({"output": "Done.", "steps": steps})
        provider = {"name": "own", "type": "command", "command": ["echo", printed]}
        expect = [{"trajectory": {"calls": ["edit"], "match": "exact"}}]
        write_suite(folder, [{"input": "Go."}], providers=[provider], expect=expect)
        ended = await ci_evals(folder, "run")
        assert ended.code == code, ended.out + ended.err
