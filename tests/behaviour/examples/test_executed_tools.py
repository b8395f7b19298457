"""The example's tools are carried out, and what they did is in the report."""

from pathlib import Path

import pytest
from example_runs import EXAMPLES, Ran, run_suite


def run_tools(folder: Path, suite: str, port: str) -> Ran:
    return run_suite(folder, EXAMPLES / "executed_tools" / suite, environ={"PORT": port})


def calls(ran: Ran, case: str) -> list[tuple[str, str]]:
    """The tool calls of a case with their results or errors."""
    result = next(result for result in ran.report["results"] if result["case"] == case)
    steps = result["response"]["steps"]
    return [
        (step["name"], step.get("error") or step["result"])
        for step in steps
        if step["kind"] == "tool_call"
    ]


def test_functions_are_called_and_their_errors_are_told(tmp_path: Path, port: str) -> None:
    ran = run_tools(tmp_path, "evals.yaml", port)
    assert ran.code == 0, ran.printed
    assert ran.report["totals"]["passed"] == 9
    assert calls(ran, "shipped") == [("find_order", "your lamp is shipped")]
    (_, refused), cancelled = calls(ran, "cancelled")
    assert refused.startswith("ValueError: it is shipped already (")
    assert cancelled == ("cancel_order", "order 1043 is cancelled")
    page = (tmp_path / "results" / "report.html").read_text("utf-8")
    assert page.count('<p class="reason">ValueError: it is shipped already') == 1


def test_the_tools_of_an_mcp_server_are_called(tmp_path: Path, port: str) -> None:
    pytest.importorskip("mcp")
    ran = run_tools(tmp_path, "mcp.yaml", port)
    assert ran.code == 0, ran.printed
    assert calls(ran, "another") == [
        ("find_order", "your chair is packed"),
        ("count_items", "0"),
    ]
