"""One agent with an MCP server's tools, written in four ways, acts the same (`make test-slow`)."""

from pathlib import Path

import pytest
from example_runs import run_example

WAYS = {
    "cheapest": [("find_flights", {"city": "Paris"}), ("book", {"flight": "AF7"})],
    "only": [("find_flights", {"city": "Oslo"}), ("book", {"flight": "SK3"})],
    "nowhere": [("find_flights", {"city": "Atlantis"})],
}


@pytest.mark.slow
def test_the_same_agent_in_four_frameworks_has_the_same_trajectories(tmp_path: Path) -> None:
    report = run_example("mcp_agents", tmp_path, environ={"PYTHONWARNINGS": "error"})
    for run in report["results"]:
        calls = [step for step in run["response"]["steps"] if step["kind"] == "tool_call"]
        assert [(call["name"], call["arguments"]) for call in calls] == WAYS[run["case"]], run[
            "provider"
        ]
        assert all(call["result"] for call in calls)
    variants = {run["provider"] for run in report["results"]}
    assert variants == {"plain", "pydantic-ai", "openai-agents", "langgraph"}
