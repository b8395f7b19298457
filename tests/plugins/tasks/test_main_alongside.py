"""Main alongside on tasks: each side has its own task folders, agent and verifiers."""

import sys
from pathlib import Path

import pytest
from repositories import Repository, against_main, sides
from suites import write_suite, write_task

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="commands and verifiers are shell scripts"
)

VERIFIER = 'grep -q "^GIVEN, from " answer.txt && echo 1 > "$LOGS_DIR/verifier/reward.txt"\n'
AGENT = """
import sys
from pathlib import Path

Path("answer.txt").write_text(Path("given.txt").read_text() + ", from WHO\\n")
print(sys.stdin.read() + ", says WHO")
"""


async def test_each_side_has_its_own_tasks_agent_and_verifier(tmp_path: Path) -> None:
    """The change edits one of two tasks, so its agent works on main's as well."""
    shop = Repository.new(tmp_path)
    command = [sys.executable, "{{ folder }}/agent.py"]
    agent = {"name": "agent", "type": "task", "command": command}

    def write(who: str) -> None:
        write_suite(tmp_path, {"tasks": "tasks/**/task.toml"}, name="shop", providers=[agent])
        for name, given in (("greet", who), ("thank", "everybody")):
            verifier = VERIFIER.replace("GIVEN", given)
            environment = {"given.txt": given}
            write_task(tmp_path, name, instruction=name, test=verifier, environment=environment)
        shop.write({"agent.py": AGENT.replace("WHO", who)})

    write("main")
    shop.commit({".gitignore": "ci-evals-results/\n"})
    write("the change")
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "which ran alongside" in ended.out, ended.err
    assert sides(tmp_path) == (
        {"greet, says the change", "thank, says the change"},
        {"greet, says main", "thank, says main"},
    )
    assert "as it has them: greet 1 of 1 (before: 1 of 1)" in ended.unwrapped
