"""What answers tell beside their text, from the provider to every page that shows it."""

import json
import sys
from pathlib import Path
from typing import Any

from processes import ci_evals
from suites import write_suite

AGENT = """
import json, os
print(json.dumps({
    "output": "Within 30 days.",
    "context": [
        {"text": "Refunds take 30 days.", "id": "policy.md", "score": 0.83},
        "</pre><script>alert(1)</script> ##[error]oops " + os.environ["TOKEN"],
    ],
    "metadata": {"trace": "7f3a", "index": {"version": 4}, "token": os.environ["TOKEN"]},
    "usage": {"prompt_tokens": 40, "completion_tokens": 5, "total_tokens": 45},
}))
"""
SECRET = "tok-4f81c2d39a"


async def run_agent(folder: Path) -> dict[str, Any]:
    (folder / "agent.py").write_text(AGENT, "utf-8")
    agent = {"type": "command", "name": "agent", "command": [sys.executable, "agent.py"], "env": {"TOKEN": "${TOKEN}"}}
    write_suite(
        folder,
        [{"id": "refund", "input": "Until when?", "runs": 2, "expect": [{"contains": "30 days"}]}],
        providers=[{**agent, "price": "gpt-4o-mini"}],
        report={"formats": ["json", "html"]},
    )
    done = await ci_evals(folder, "run", environ={"TOKEN": SECRET})
    assert done.code == 0, done.out + done.err
    found: dict[str, Any] = json.loads((folder / "ci-evals-results" / "report.json").read_bytes())
    return found


async def test_context_and_metadata_reach_every_page_without_secrets(tmp_path: Path) -> None:
    report = await run_agent(tmp_path)
    results = tmp_path / "ci-evals-results"
    (first, _) = report["results"]
    assert first["response"]["context"] == [
        {"text": "Refunds take 30 days.", "id": "policy.md", "score": 0.83},
        {"text": "</pre><script>alert(1)</script> ##[error]oops ***"},
    ]
    assert first["response"]["metadata"] == {"trace": "7f3a", "index": {"version": 4}, "token": "***"}
    assert first["cost_usd"] == 40 * 0.15e-6 + 5 * 0.6e-6

    page = (results / "report.html").read_text("utf-8")
    assert "1. policy.md (0.83): Refunds take 30 days." in page
    assert "2. &lt;/pre&gt;&lt;script&gt;" in page
    assert "trace: 7f3a\nindex: {&#34;version&#34;:4}\ntoken: ***" in page

    text = (await ci_evals(tmp_path, "explain", "refund")).out
    assert "runs 1 and 2 passed alike" in text
    assert "context: 2 texts" in text
    assert "1. policy.md (0.83): Refunds take 30 days." in text
    assert "trace: 7f3a" in text
    assert "##[error]" not in text
    shown = await ci_evals(tmp_path, "explain", "refund", "--format", "json")
    (cell,) = json.loads(shown.out)["cells"]
    assert cell["runs"][0]["context"][0]["id"] == "policy.md"
    assert cell["runs"][0]["metadata"]["trace"] == "7f3a"

    for path in results.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


async def test_a_recording_answers_with_its_context(tmp_path: Path) -> None:
    before = await run_agent(tmp_path)
    journal = (tmp_path / "ci-evals-results" / "results.jsonl").rename(tmp_path / "recorded.jsonl")
    done = await ci_evals(tmp_path, "run", "--replay", str(journal), "--replay-only", environ={"TOKEN": SECRET})
    assert done.code == 0, done.out + done.err
    after = json.loads((tmp_path / "ci-evals-results" / "report.json").read_bytes())
    assert [result["response"] for result in after["results"]] == [result["response"] for result in before["results"]]
