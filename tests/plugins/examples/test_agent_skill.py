import sys
from pathlib import Path

import pytest
from example_runs import EXAMPLES, run_suite

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agent is started by a shell")


def test_the_skill_triggers_where_it_should_and_helps(tmp_path: Path) -> None:
    ran = run_suite(tmp_path, EXAMPLES / "agent_skill" / "evals.yaml")
    assert ran.code == 0, ran.printed
    report = ran.report
    passed: dict[str, list[bool]] = {}
    for result in report["results"]:
        passed.setdefault(result["provider"], []).append(result["status"] == "passed")
    assert passed == {"without skill": 4 * [False], "with skill": 12 * [True]}
    bars = {scope["name"]: scope["rate"] for scope in report["verdict"]["scopes"]}
    assert bars["recall.true on with skill"] == 1
    assert bars["precision.true on with skill"] == 1
    recipe = (EXAMPLES.parent / "docs" / "recipes" / "skills.md").read_text("utf-8")
    assert " ".join(recipe.split()).count(sentence_in(ran.printed)) == 1


def sentence_in(printed: str) -> str:
    """The sentence on what the skill gains and costs, on one line."""
    lines = printed.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("Skills: "))
    continued = [lines[start]]
    for line in lines[start + 1 :]:
        if not line.startswith(" "):
            break
        continued.append(line)
    return " ".join(" ".join(continued).split())
