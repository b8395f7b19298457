"""Skills of agents: put where the agent looks for them, and found in its steps."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from leftovers import journaled, report_in
from processes import ci_evals
from suites import write_suite, write_task

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands are shell scripts")

FORMATS = ("claude-code", "codex", "gemini-cli", "opencode")
FRONT_MATTER = "---\nname: stamps\ndescription: Sells stamps.\n---\nAsk for the country.\n"


def write_skill(folder: Path, name: str = "stamps") -> Path:
    skill = folder / name
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text(FRONT_MATTER)
    (skill / "scripts" / "price.py").write_text("print(1)\n")
    (skill / "evals").mkdir()
    (skill / "evals" / "evals.json").write_text("{}")
    return skill


def agent(script: str, **changes: Any) -> dict[str, Any]:
    defaults = {"name": "agent", "type": "task", "skills": ["stamps"]}
    return {**defaults, "command": ["sh", "-c", script], **changes}


def call(kind: str, tool: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of an agent that calls one tool, as each of them writes them."""
    match kind:
        case "claude-code":
            use = {"type": "tool_use", "id": "1", "name": tool, "input": arguments}
            result = {"type": "tool_result", "tool_use_id": "1", "content": "ok"}
            return [
                {"type": "system", "subtype": "init", "model": "m"},
                {"type": "assistant", "message": {"id": "a", "model": "m", "content": [use]}},
                {"type": "user", "message": {"role": "user", "content": [result]}},
                {"type": "result", "subtype": "success", "is_error": False, "result": "Done."},
            ]
        case "codex":
            done = {"type": "command_execution", "id": "1", "exit_code": 0, **arguments}
            if tool == "file_change":
                done = {"type": "file_change", "id": "1", **arguments}
            return [
                {"type": "thread.started", "thread_id": "t"},
                {"type": "item.completed", "item": done},
                {"type": "item.completed", "item": {"type": "agent_message", "text": "Done."}},
                {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}},
            ]
        case "gemini-cli":
            return [
                {"type": "init", "model": "m"},
                {"type": "tool_use", "tool_id": "1", "tool_name": tool, "parameters": arguments},
                {"type": "tool_result", "tool_id": "1", "status": "success", "output": "ok"},
                {"type": "message", "role": "assistant", "content": "Done."},
                {"type": "result", "status": "success"},
            ]
    state = {"status": "completed", "input": arguments, "output": "ok"}
    return [
        {"type": "step_start", "part": {}},
        {"type": "tool_use", "part": {"tool": tool, "state": state}},
        {"type": "text", "part": {"text": "Done."}},
        {"type": "step_finish", "part": {"reason": "stop"}},
    ]


def say(events: list[dict[str, Any]]) -> str:
    """A script that prints events."""
    lines = "\n".join(json.dumps(event) for event in events)
    return f"cat <<'EVENTS'\n{lines}\nEVENTS\n"


async def run(folder: Path, *providers: dict[str, Any], **suite: Any) -> dict[str, Any]:
    cases = suite.pop(
        "cases", [{"id": "a", "input": "Sell me a stamp.", "expect": [{"not_empty": True}]}]
    )
    write_suite(folder, cases, providers=list(providers), **suite)
    done = await ci_evals(folder, "run", "--out", "out")
    assert done.code in (0, 1), done.err
    return report_in(folder / "out")


@pytest.mark.parametrize(
    ("transcript", "place"),
    [
        ("claude-code", ".claude/skills"),
        ("codex", ".agents/skills"),
        ("gemini-cli", ".gemini/skills"),
        ("opencode", ".opencode/skills"),
        (None, ".agents/skills"),
    ],
)
async def test_a_skill_is_put_where_the_agent_looks_and_not_into_its_prompt(
    tmp_path: Path, transcript: str | None, place: str
) -> None:
    write_skill(tmp_path)
    script = 'cat > "$LOGS_DIR/prompt"; find . -type f | sort > "$LOGS_DIR/files"; '
    provider = agent(script + "echo Done.")
    if transcript is not None:
        events = call(transcript, "track", {"command": "ls"})
        provider = agent(script + say(events), transcript=transcript)
    await run(tmp_path, provider)
    logs = tmp_path / "out" / "tasks" / "a" / "agent" / "run-1" / "logs"
    assert (logs / "prompt").read_text() == "Sell me a stamp."
    assert (logs / "files").read_text().split() == [
        f"./{place}/stamps/SKILL.md",
        f"./{place}/stamps/scripts/price.py",
    ]


async def test_the_variant_without_skills_has_none_of_the_same_name(tmp_path: Path) -> None:
    write_skill(tmp_path)
    inside = {
        ".claude/skills/stamps/SKILL.md": "old",
        ".claude/skills/parcels/SKILL.md": "another",
    }
    test = 'echo 1 > "$LOGS_DIR/verifier/reward.txt"\n'
    write_task(tmp_path, "sell", test=test, instruction="Sell.", environment=inside)
    script = "cat $(find . -name SKILL.md | sort)"
    here = {"transcript": "claude-code", "transcript_file": "t.jsonl"}
    events = say(call("claude-code", "Bash", {"command": "ls"})).rstrip() + "\n"
    prints = f'{{ {script}; }} > "$LOGS_DIR/skills"\nexec > t.jsonl\n{events}'
    await run(
        tmp_path,
        agent(prints, name="with", **here),
        agent(prints, name="without", without_skills=True, **here),
        cases={"tasks": "tasks/**/task.toml"},
    )
    tasks = tmp_path / "out" / "tasks" / "sell"
    found = {
        name: (tasks / name / "run-1" / "logs" / "skills").read_text()
        for name in ("with", "without")
    }
    assert found == {"with": "another" + FRONT_MATTER, "without": "another"}


FILE = ".agents/skills/stamps/SKILL.md"
USES = [
    ("claude-code", "Skill", {"skill": "stamps"}),
    ("claude-code", "Skill", {"skill": "shop:stamps"}),
    ("claude-code", "Read", {"file_path": "/work/.claude/skills/stamps/SKILL.md"}),
    ("codex", "", {"command": f"bash -lc 'sed -n 1,80p {FILE}'"}),
    ("gemini-cli", "activate_skill", {"name": "stamps"}),
    ("opencode", "skill", {"name": "stamps"}),
]
OTHERS = [
    ("claude-code", "Skill", {"skill": "rare-stamps"}),
    ("claude-code", "Write", {"file_path": FILE}),
    ("claude-code", "Read", {"file_path": ".claude/skills/rare-stamps/SKILL.md"}),
    ("codex", "", {"command": "ls .agents/skills/stamps"}),
    ("codex", "file_change", {"changes": [{"path": FILE, "kind": "update"}]}),
    ("gemini-cli", "read_file", {"path": "stamps.md"}),
    ("opencode", "skill", {"name": "parcels"}),
]


@pytest.mark.parametrize(
    ("kind", "tool", "arguments", "used"),
    [(*use, True) for use in USES] + [(*other, False) for other in OTHERS],
)
async def test_the_steps_of_each_agent_say_whether_a_skill_was_used(
    tmp_path: Path, kind: str, tool: str, arguments: dict[str, Any], *, used: bool
) -> None:
    write_skill(tmp_path)
    expect = [{"skill_used": "stamps"}, {"not_skill_used": "stamps"}]
    provider = agent(say(call(kind, tool, arguments)), transcript=kind)
    await run(tmp_path, provider, cases=[{"id": "a", "input": "Go.", "expect": expect}])
    (result,) = journaled(tmp_path / "out")
    assert [grade["passed"] for grade in result["grades"]] == [used, not used]


async def test_a_skill_that_failed_to_load_was_not_used(tmp_path: Path) -> None:
    write_skill(tmp_path)
    events = call("claude-code", "Skill", {"skill": "stamps"})
    events[2]["message"]["content"][0] |= {"is_error": True, "content": "unknown skill"}
    expect = [{"not_skill_used": "stamps"}]
    cases = [{"id": "a", "input": "Go.", "expect": expect}]
    report = await run(tmp_path, agent(say(events), transcript="claude-code"), cases=cases)
    assert report["results"][0]["status"] == "passed"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"skills": ["missing"]}, "there is no SKILL.md in"),
        ({"skills": ["shop"]}, "name a folder in it, such as shop/stamps"),
        ({"skills": ["stamps", "shop/stamps"]}, "stamps and shop/stamps have the same name"),
        ({"skills": [], "without_skills": True}, "skills"),
    ],
)
async def test_wrong_skills_are_told_before_anything_runs(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    write_skill(tmp_path)
    write_skill(tmp_path / "shop")
    cases = [{"id": "a", "input": "Go.", "expect": [{"not_empty": True}]}]
    write_suite(tmp_path, cases, providers=[agent("true", **changes)])
    done = await ci_evals(tmp_path, "validate")
    assert done.code == 2
    assert told in done.out + done.err


@pytest.mark.parametrize(
    ("classify", "told"),
    [
        ({"label": "yes", "skill": "stamps"}, "is `true` where the agent should use the skill"),
        ({"label": "true", "skill": "stamps", "path": "$.a"}, "leave out `labels`, `path`"),
    ],
)
async def test_a_label_of_a_skill_says_whether_it_should_trigger(
    tmp_path: Path, classify: dict[str, Any], told: str
) -> None:
    write_skill(tmp_path)
    cases = [{"id": "a", "input": "Go.", "expect": [{"classify": classify}]}]
    provider = agent("true", transcript="claude-code")
    write_suite(tmp_path, cases, providers=[provider])
    done = await ci_evals(tmp_path, "validate")
    assert done.code == 2
    assert told in done.out + done.err


async def test_files_of_a_case_are_in_the_working_copy_and_the_instruction(tmp_path: Path) -> None:
    write_skill(tmp_path)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "all.txt").write_text("Rome\n")
    (tmp_path / "stamp.png").write_bytes(b"a stamp")
    sent = [{"text": "Sort these."}, {"file": "letters/all.txt"}, {"image": "stamp.png"}]
    cases = [{"id": "a", "input": sent, "expect": [{"contains": "Rome\na stamp"}]}]
    script = 'cat > "$LOGS_DIR/prompt"; ls > "$LOGS_DIR/files"; cat all.txt stamp.png'
    providers = [agent(script), agent(script, name="bare", without_skills=True)]
    report = await run(tmp_path, *providers, cases=cases)
    assert [result["status"] for result in report["results"]] == ["passed", "passed"]
    for name in ("agent", "bare"):
        logs = tmp_path / "out" / "tasks" / "a" / name / "run-1" / "logs"
        assert (logs / "prompt").read_text() == "Sort these.\n[file all.txt]\n[image stamp.png]"
        assert (logs / "files").read_text().split() == ["all.txt", "stamp.png"]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (["all.txt", "old/all.txt"], "all.txt and old/all.txt are both all.txt in the working"),
        (["https://example.org/all.txt"], "https://example.org/all.txt is not a file of this"),
        (["data:text/plain,Rome"], "a file without a path cannot be put into the working copy"),
        (["none.txt"], "none.txt cannot be read: No such file or directory"),
    ],
)
async def test_files_that_cannot_be_put_into_a_working_copy_are_told_before_anything_runs(
    tmp_path: Path, files: list[str], told: str
) -> None:
    write_skill(tmp_path)
    (tmp_path / "old").mkdir()
    for folder in (tmp_path, tmp_path / "old"):
        (folder / "all.txt").write_text("Rome\n")
    sent = [{"text": "Sort these."}, *({"file": file} for file in files)]
    cases = [{"id": "a", "input": sent, "expect": [{"not_empty": True}]}]
    write_suite(tmp_path, cases, providers=[agent("true")])
    done = await ci_evals(tmp_path, "validate")
    assert done.code == 2
    assert told in done.out + done.err


def work(text: str, cost_usd: float, *tools: str) -> str:
    """A script that prints the events of Claude Code: calls of tools, and an answer."""
    events: list[dict[str, Any]] = [{"type": "system", "subtype": "init", "model": "m"}]
    for number, tool in enumerate(tools):
        use = {"type": "tool_use", "id": f"use {number}", "name": tool, "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"use {number}", "content": "ok"}
        message = {"id": f"message {number}", "model": "m", "content": [use]}
        events.append({"type": "assistant", "message": message})
        events.append({"type": "user", "message": {"role": "user", "content": [result]}})
    ending = {"type": "result", "subtype": "success", "is_error": False, "result": text}
    events.append({**ending, "total_cost_usd": cost_usd})
    return say(events)


def with_and_without(skilled: str, without: str, **changes: Any) -> list[dict[str, Any]]:
    """Two agents that do one thing if they have the skill, and another if they don't."""
    script = f"if [ -d .claude/skills/stamps ]; then\n{skilled}else\n{without}fi\n"
    both = agent(script, transcript="claude-code", name="skilled")
    return [both, {**both, "name": "bare", "without_skills": True, **changes}]


PRICED = [{"contains": "1.30"}]
LETTERS = [
    {"id": "Rome", "input": "What does a letter to Rome cost?", "expect": PRICED},
    {"id": "Oslo", "input": "What does a letter to Oslo cost?", "expect": PRICED},
    {"id": "parcel", "input": "And a parcel?", "providers": ["skilled"], "expect": PRICED},
]


async def told_of_skills(folder: Path, *providers: dict[str, Any]) -> list[str]:
    """The sentences on skills at the end of a run, each on one line."""
    write_skill(folder)
    gate = {"min_pass_rate": 0.1}
    write_suite(folder, LETTERS, providers=list(providers), runs=2, gate=gate)
    done = await ci_evals(folder, "run", "--out", "out", environ={"COLUMNS": "1000"})
    assert done.code == 0, done.err
    prefix = "Skills: "
    lines = done.out.splitlines()
    return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]


async def test_a_skill_is_compared_by_the_case_with_its_cost_and_steps(tmp_path: Path) -> None:
    skilled = work("It costs 1.30.", 0.06, "Skill", "Bash")
    bare = work("I don't know.", 0.02, "Bash")
    (sentence,) = await told_of_skills(tmp_path, *with_and_without(skilled, bare))
    # Clopper and Pearson's bounds of 4 of 4 and of 0 of 4 runs: 1 - 2 ** 0.5 * (1 - 0.05 ** 0.25).
    assert sentence == (
        "skilled against bare, over 2 cases: +100.0 points (+25.5 to +100.0),"
        " +$0.040 a run ($0.060 instead of $0.020), +2 steps a run (4 instead of 2)"
    )
    for report in ("summary.md", "report.html"):
        text = (tmp_path / "out" / report).read_text("utf-8")
        assert "skilled against bare, over 2 cases: +100.0" in text


async def test_what_a_skill_does_not_change_surely_is_told(tmp_path: Path) -> None:
    both = work("It costs 1.30.", 0.02)
    (sentence,) = await told_of_skills(tmp_path, *with_and_without(both, both))
    assert (
        "0.0 points (-52.7 to +52.7, so these runs cannot tell them apart), +$0 a run" in sentence
    )


async def test_what_is_not_known_of_skills_is_left_out(tmp_path: Path) -> None:
    script = "[ -d .agents/skills ] && echo 1.30\nexit 0"
    providers = [agent(script, name="skilled"), agent(script, name="bare", without_skills=True)]
    (sentence,) = await told_of_skills(tmp_path, *providers)
    assert sentence == "skilled against bare, over 2 cases: +100.0 points (+25.5 to +100.0)"


async def test_what_is_known_of_some_cases_only_is_told(tmp_path: Path) -> None:
    unpriced = work("It costs 1.30.", 0.02).replace(', "total_cost_usd": 0.02', "")
    assert "total_cost_usd" not in unpriced
    priced = work("It costs 1.30.", 0.02)
    both = f"cat > ../prompt\nif grep -q Oslo ../prompt; then\n{unpriced}else\n{priced}fi\n"
    (sentence,) = await told_of_skills(tmp_path, *with_and_without(both, both))
    assert "+$0 a run ($0.020 instead of $0.020, known in 1 of these cases)" in sentence


async def test_variants_that_differ_in_more_than_skills_are_not_compared(tmp_path: Path) -> None:
    both = work("It costs 1.30.", 0.02)
    other = {"model": "another"}
    assert not await told_of_skills(tmp_path, *with_and_without(both, both, **other))
