import sys
from pathlib import Path

import pytest
from example_runs import run_example

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the verifiers are shell scripts")


def test_the_agent_earns_its_rewards_and_its_diff_is_kept(tmp_path: Path) -> None:
    report = run_example("coding_agent", tmp_path)
    scores = {(result["case"], result["run"]): result["score"] for result in report["results"]}
    assert set(scores.values()) == {1}
    assert len(scores) == 4
    assert {result["cost_usd"] for result in report["results"]} == {0.012}
    logs = tmp_path / "results" / "tasks" / "fix-total" / "agent" / "run-2" / "logs"
    diff = (logs / "agent.diff").read_text()
    assert "-    return sum(prices) - 1\n+    return sum(prices)\n" in diff
