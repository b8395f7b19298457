"""A coding agent without a model: it edits shop.py and prints the events of Claude Code."""

import json
import sys
from pathlib import Path

MODEL = "claude-sonnet-4-5"
FIXES = {
    "discount": ("    return sum(prices)\n", "    return sum(prices) * (1 - discount)\n"),
    "total": ("sum(prices) - 1", "sum(prices)"),
}


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)


def call(number: int, name: str, arguments: dict[str, str], result: str) -> None:
    content = {"type": "tool_use", "id": f"tool_{number}", "name": name, "input": arguments}
    usage = {"input_tokens": 900, "output_tokens": 40}
    message = {"id": f"msg_{number}", "model": MODEL, "content": [content], "usage": usage}
    say(type="assistant", message=message)
    content = {"type": "tool_result", "tool_use_id": f"tool_{number}", "content": result}
    say(type="user", message={"role": "user", "content": [content]})


instruction = sys.stdin.read()
fix = "discount" if "discount" in instruction else "total"
old, new = FIXES[fix]
shop = Path("shop.py")
source = shop.read_text(encoding="utf-8")
changed = source.replace(old, new)
if fix == "discount":
    changed = changed.replace("(prices)", "(prices, discount=0)", 1)

say(type="system", subtype="init", model=MODEL)
call(1, "Read", {"file_path": "shop.py"}, source)
shop.write_text(changed, encoding="utf-8")
call(2, "Edit", {"file_path": "shop.py", "old_string": old, "new_string": new}, "updated")
say(
    type="result",
    subtype="success",
    is_error=False,
    result=f"I changed `{fix}` in shop.py.",
    stop_reason="end_turn",
    total_cost_usd=0.012,
    usage={"input_tokens": 1800, "output_tokens": 80},
)
