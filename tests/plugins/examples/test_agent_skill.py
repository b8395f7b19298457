import sys
from pathlib import Path

import pytest
from example_runs import run_example

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agent is started by a shell")


def test_the_skill_triggers_where_it_should_and_helps(tmp_path: Path) -> None:
    report = run_example("agent_skill", tmp_path)
    passed: dict[str, list[bool]] = {}
    for result in report["results"]:
        passed.setdefault(result["provider"], []).append(result["status"] == "passed")
    assert passed == {"without skill": 4 * [False], "with skill": 12 * [True]}
    bars = {scope["name"]: scope["rate"] for scope in report["verdict"]["scopes"]}
    assert bars["recall.true on with skill"] == 1
    assert bars["precision.true on with skill"] == 1
