"""What answers tell beside their text, from the provider to every page that shows it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes.http_server import Scripted, serving
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
    agent = {
        "type": "command",
        "name": "agent",
        "command": [sys.executable, "agent.py"],
        "env": {"TOKEN": "${TOKEN}"},
    }
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
    assert first["response"]["metadata"] == {
        "trace": "7f3a",
        "index": {"version": 4},
        "token": "***",
    }
    assert first["cost_usd"] == 40 * 0.15e-6 + 5 * 0.6e-6

    page = (results / "report.html").read_text("utf-8")
    assert '1. policy.md (0.83): <span class="passage">Refunds take 30 days.</span>' in page
    assert '2. <span class="passage">&lt;/pre&gt;&lt;script&gt;' in page
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


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        ({"output": "$.anwser"}, "output: no field 'anwser' in the answer, which has: answer,"),
        (
            {"output": "$.answer", "context": "$.contxt[*].text"},
            "context: no field 'contxt' in the answer, which has: answer, context",
        ),
    ],
)
async def test_the_first_run_says_which_field_a_mistyped_path_misses(
    paths: dict[str, str], told: str, tmp_path: Path
) -> None:
    case = {"id": "refund", "input": "Until when?", "expect": [{"contains": "30 days"}]}
    async with serving() as server:
        server.answers(Scripted(body={"answer": "Within 30 days.", "context": [{"text": "30"}]}))
        write_suite(tmp_path, [case], providers=[{"type": "http", "url": server.url, **paths}])
        ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1
    assert told in " ".join(ended.out.split())


async def test_a_recording_answers_with_its_context(tmp_path: Path) -> None:
    before = await run_agent(tmp_path)
    journal = (tmp_path / "ci-evals-results" / "results.jsonl").rename(tmp_path / "recorded.jsonl")
    done = await ci_evals(
        tmp_path, "run", "--replay", str(journal), "--replay-only", environ={"TOKEN": SECRET}
    )
    assert done.code == 3, "the agent is code of one's own, and was not run"
    after = json.loads((tmp_path / "ci-evals-results" / "report.json").read_bytes())
    assert [result["response"] for result in after["results"]] == [
        result["response"] for result in before["results"]
    ]


# What was asked.


async def test_what_was_sent_tells_two_prompts_of_a_case_apart(tmp_path: Path) -> None:
    prompts = [
        {"name": "short", "user": "Answer briefly: {{ q }}"},
        {"name": "polite", "system": "Be polite.", "user": "{{ q }} {{ pad }}"},
    ]
    write_suite(
        tmp_path,
        [
            {
                "id": "refund",
                "vars": {"q": "Until when?", "pad": "x" * 40_000},
                "expect": [{"contains": "30 days"}],
            }
        ],
        prompts=prompts,
        providers=[{"type": "mock", "name": "agent", "default": "No idea."}],
        report={"formats": ["json", "html", "markdown"]},
    )
    done = await ci_evals(tmp_path, "run")
    assert done.code == 1, done.out + done.err
    results = tmp_path / "ci-evals-results"
    short, polite = json.loads((results / "report.json").read_bytes())["results"]
    assert short["messages"] == [{"role": "user", "content": "Answer briefly: Until when?"}]
    assert polite["messages"][0] == {"role": "system", "content": "Be polite."}
    assert polite["messages"][1]["content"].startswith("Until when? xxx")
    assert len(polite["messages"][1]["content"]) < 21_000, (
        "the middle of a long message is left out"
    )
    page = (results / "report.html").read_text("utf-8")
    assert "Answer briefly: Until when?" in page
    assert "system: Be polite.\nuser: Until when?" in page
    text = (results / "summary.md").read_text("utf-8")
    assert "Answer briefly: Until when?" in text, "a case has one entry, with its first question"
    text = (await ci_evals(tmp_path, "explain", "refund", "--prompt", "short")).out
    assert "Asked\n  Answer briefly: Until when?\n" in text
    shown = json.loads((await ci_evals(tmp_path, "explain", "refund", "--format", "json")).out)
    assert [cell["asked"].partition("?")[0] for cell in shown["cells"]] == [
        "Answer briefly: Until when",
        "system: Be polite.\nuser: Until when",
    ]


async def test_explain_shows_that_the_prompt_was_another_on_the_base(tmp_path: Path) -> None:
    for folder, template in (
        ("base", "Answer: {{ input }}"),
        ("head", "Answer in Latin: {{ input }}"),
    ):
        (tmp_path / folder).mkdir()
        case = {"id": "greeting", "input": "hello", "expect": [{"contains": "hello"}]}
        write_suite(tmp_path / folder, [case], prompts=[{"name": "main", "user": template}])
        await ci_evals(tmp_path / folder, "run")
    base = str(tmp_path / "base" / "ci-evals-results")
    text = (await ci_evals(tmp_path / "head", "explain", "greeting", "--baseline", base)).out
    assert "Asked\n  Answer in Latin: hello\n\nAsked on the base\n  Answer: hello\n" in text


async def test_of_a_conversation_the_messages_before_its_first_turn_are_kept(
    tmp_path: Path,
) -> None:
    case = {
        "id": "talk",
        "turns": [{"user": "Hi."}, {"user": "And now?"}],
        "expect": [{"contains": "nothing"}],
    }
    prompts = [{"name": "main", "messages": [{"role": "system", "content": "Be polite."}]}]
    write_suite(tmp_path, [case], prompts=prompts, report={"formats": ["json", "markdown"]})
    await ci_evals(tmp_path, "run")
    results = tmp_path / "ci-evals-results"
    (result,) = json.loads((results / "report.json").read_bytes())["results"]
    assert result["messages"] == [{"role": "system", "content": "Be polite."}]
    assert "system: Be polite.\nuser: Hi.\nuser: And now?" in (results / "summary.md").read_text(
        "utf-8"
    )
