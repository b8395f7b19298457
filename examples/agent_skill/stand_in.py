"""A coding agent without a model: it follows a skill and prints the events of Claude Code."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

MODEL = "claude-sonnet-4-5"


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)


def reply(number: int, content: Mapping[str, object]) -> None:
    usage = {"input_tokens": 900, "output_tokens": 40}
    message = {"id": f"msg_{number}", "model": MODEL, "content": [content], "usage": usage}
    say(type="assistant", message=message)


def use_skill(name: str, text: str) -> None:
    use = {"type": "tool_use", "id": "tool_1", "name": "Skill", "input": {"skill": name}}
    reply(1, use)
    content = {"type": "tool_result", "tool_use_id": "tool_1", "content": text}
    say(type="user", message={"role": "user", "content": [content]})


instruction = sys.stdin.read()
say(type="system", subtype="init", model=MODEL)
skill = Path(".claude/skills/release-notes/SKILL.md")
asks_for_notes = "release notes" in instruction or "changelog" in instruction
changes = instruction.partition(": ")[2]
cost_usd = 0.01
if asks_for_notes and skill.is_file():
    use_skill("release-notes", skill.read_text(encoding="utf-8"))
    cost_usd = 0.014
    answer = ""
    if "new" in changes:
        answer += "### Added\n- A dark theme\n"
    if "fixed" in changes:
        answer += "### Fixed\n- The crash at start\n"
else:
    answer = f"Here is what I suggest: {changes or 'let us talk about it.'}"
answer = answer or "There is nothing to note yet."
reply(2, {"type": "text", "text": answer})
say(
    type="result",
    subtype="success",
    is_error=False,
    result=answer,
    stop_reason="end_turn",
    total_cost_usd=cost_usd,
    usage={"input_tokens": 1800, "output_tokens": 80},
)
