"""Thoughts of models: graders see the answer after them, the journal and the page keep both."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fakes.http_server import FakeServer, Scripted, serving
from leftovers import journaled
from processes import ci_evals
from suites import AGENT, chat, results_of, run, write_files, write_lines, write_suite

THOUGHT = "<think>\nFrance, so London? <script>alert(1)</script> No.\n</think>\n\n"
CUT_OFF = "<think>\nFrance, so the capital is Paris. But"
BOT = {
    "type": "mock",
    "name": "bot",
    "answers": {"capital": f"{THOUGHT}Paris", "cut": CUT_OFF},
}
JUDGE = {"type": "mock", "name": "strict", "default": '{"verdict": "pass", "reason": "Fine."}'}


def case(*expect: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "capital", "input": "Capital of France?", "expect": list(expect), **fields}


def said(text: str | None, **message: Any) -> Scripted:
    choice = {"message": {"content": text, **message}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    return Scripted({"model": "m", "choices": [choice], "usage": usage})


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with serving() as running:
        yield running


GRADERS = """
def whole(output, answer):
    assert output == answer.response.output == "Paris", output
    assert "London" in answer.response.thoughts
    return True


def upper(output):
    assert output == "Paris", output
    return output.upper()
"""


async def test_every_grader_sees_the_answer_without_its_thoughts(tmp_path: Path) -> None:
    write_files(tmp_path, {"checks.py": GRADERS})
    expect = [
        {"equals": "Paris"},
        {"not_contains": "London"},
        {"max_length": 5},
        {"python": "checks:whole"},
        {"equals": {"value": "PARIS", "transform": "checks:upper"}},
        {"all_of": [{"starts_with": "P"}, {"not_regex": "think"}]},
        {"judge": "Says Paris."},
    ]
    (result,) = await results_of(tmp_path, [case(*expect)], providers=[BOT], judges=[JUDGE])
    assert result["status"] == "passed", result
    assert (result["response"]["thoughts"], result["response"]["output"]) == (THOUGHT, "Paris")


async def test_a_judge_is_shown_no_thoughts_and_its_own_do_not_count(
    server: FakeServer, tmp_path: Path
) -> None:
    server.answers(said('<think>{"verdict": "fail"}</think>{"verdict": "pass", "reason": "r"}'))
    judges = [chat(f"{server.url}/v1", thoughts="keep")]
    (result,) = await results_of(
        tmp_path, [case({"judge": "Says Paris."})], providers=[BOT], judges=judges
    )
    assert (result["status"], len(server.seen)) == ("passed", 1)
    shown = server.seen[0].json["messages"][-1]["content"]
    assert ("Paris" in shown, "London" in shown) == (True, False)


async def test_a_provider_may_keep_its_thoughts(tmp_path: Path) -> None:
    providers = [{**BOT, "thoughts": "keep"}]
    cases = [case({"contains": "</think>\n\nParis"}, {"regex": "^<think>"})]
    (result,) = await results_of(tmp_path, cases, providers=providers)
    assert result["status"] == "passed"
    assert result["response"]["output"] == f"{THOUGHT}Paris"
    assert "thoughts" not in result["response"]


async def test_the_setting_in_another_place_is_an_error_that_names_the_provider(
    tmp_path: Path,
) -> None:
    write_suite(
        tmp_path,
        [case({"equals": "Paris"}, thoughts="keep")],
        providers=[{**BOT, "showThinking": True}],
        thoughts="keep",
    )
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert "unknown key 'showThinking', which is `thoughts: keep` here" in ended.err
    hint = "unknown key 'thoughts': it is a setting of a provider"
    assert ended.err.count(hint) == 2


async def test_reports_show_the_answer_and_the_page_folds_the_thoughts(tmp_path: Path) -> None:
    write_suite(
        tmp_path,
        [case({"equals": "Rome"})],
        providers=[BOT],
        report={"formats": ["html", "json", "junit", "markdown"]},
    )
    ended = await run(tmp_path)
    assert ended.code == 1
    texts = [ended.out, (await ci_evals(tmp_path, "explain", "capital", "--report", "out")).out]
    texts += [(tmp_path / "out" / file).read_text("utf-8") for file in ("summary.md", "junit.xml")]
    for text in texts:
        assert "Paris" in text
        assert "London" not in text
    explained = await ci_evals(
        tmp_path, "explain", "capital", "--report", "out", "--format", "json"
    )
    (run_of_case,) = json.loads(explained.out)["cells"][0]["runs"]
    assert (run_of_case["output"], run_of_case["thoughts"]) == ("Paris", THOUGHT)
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    thoughts = "France, so London? &lt;script&gt;alert(1)&lt;/script&gt; No."
    assert (
        f'<details class="thoughts"><summary>Thoughts</summary><pre dir="auto">{thoughts}</pre>'
        in page
    )


async def test_an_answer_of_thoughts_only_has_failed_with_that_reason(
    server: FakeServer, tmp_path: Path
) -> None:
    server.answers(said(CUT_OFF))
    cases = [case({"not_contains": "London"})]
    providers = [chat(f"{server.url}/v1")]
    (result,) = await results_of(tmp_path, cases, providers=providers, retries=1)
    reason = "the answer has only thoughts: allow more output tokens, or set `thoughts: keep`"
    assert (result["status"], result["score"]) == ("failed", 0)
    assert result["error"] == {"kind": "empty", "message": reason}
    assert (result["attempts"], result["response"]["usage"]["output_tokens"]) == (2, 10)
    assert result["response"]["thoughts"] == CUT_OFF
    ended = await run(tmp_path, "--replay", "out", "--replay-only", out="again")
    assert reason in ended.unwrapped

    server.answers(said(CUT_OFF), said(f"{THOUGHT}Paris"))
    (result,) = await results_of(tmp_path, cases, providers=providers, retries=1)
    assert (result["status"], result["attempts"]) == ("passed", 2)


async def test_thoughts_before_a_tool_call_are_no_empty_answer(
    server: FakeServer, tmp_path: Path
) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    server.answers(said("<think>I look it up.</think>", tool_calls=[call]))
    (result,) = await results_of(
        tmp_path, [case({"tool_call": "find"})], providers=[chat(f"{server.url}/v1")]
    )
    assert (result["status"], len(server.seen)) == ("passed", 1)


async def test_the_next_turn_is_asked_without_thoughts(server: FakeServer, tmp_path: Path) -> None:
    server.answers(said(f"{THOUGHT}Paris"), said("<think>Hm.</think>The Seine"))
    turns = [
        {"user": "Capital of France?", "expect": [{"equals": "Paris"}]},
        {"user": "And its river?", "expect": [{"equals": "The Seine"}]},
    ]
    cases = [{"id": "talk", "turns": turns, "expect": [{"equals": "The Seine"}]}]
    (result,) = await results_of(tmp_path, cases, providers=[chat(f"{server.url}/v1")])
    assert result["status"] == "passed", result
    assert [each["content"] for each in server.seen[1].json["messages"]] == [
        "Capital of France?",
        "Paris",
        "And its river?",
    ]
    assert [turn["response"]["thoughts"] for turn in result["response"]["turns"]] == [
        THOUGHT,
        "<think>Hm.</think>",
    ]


async def test_a_conversation_ends_at_an_answer_of_thoughts_only(
    server: FakeServer, tmp_path: Path
) -> None:
    server.answers(said(CUT_OFF))
    turns = [{"user": "Capital of France?"}, {"user": "And its river?"}]
    cases = [{"id": "talk", "turns": turns, "expect": [{"not_contains": "London"}]}]
    providers = [chat(f"{server.url}/v1")]
    (result,) = await results_of(tmp_path, cases, providers=providers, retries=0)
    assert (result["status"], result["error"]["kind"]) == ("failed", "empty")
    assert len(server.seen) == len(result["response"]["turns"]) == 1


async def test_a_model_that_calls_tools_gets_its_thoughts_back(
    server: FakeServer, tmp_path: Path
) -> None:
    write_files(tmp_path, {"shop.py": 'def find():\n    """Find it."""\n    return "Paris"\n'})
    call = {"id": "1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    thought = "<think>I look it up.</think>"
    server.answers(said(thought, tool_calls=[call]), said(f"{THOUGHT}Paris"))
    providers = [chat(f"{server.url}/v1", tools=["shop:find"])]
    (result,) = await results_of(tmp_path, [case({"equals": "Paris"})], providers=providers)
    assert result["status"] == "passed", result
    assert server.seen[1].json["messages"][1]["content"] == thought
    assert result["response"]["thoughts"] == THOUGHT


async def test_stages_get_the_answer_without_thoughts(tmp_path: Path) -> None:
    write_files(tmp_path, {"speech.py": "def shout(text):\n    return text.upper()\n"})
    providers = [{**BOT, "after": ["speech:shout"]}]
    (result,) = await results_of(tmp_path, [case({"equals": "PARIS"})], providers=providers)
    assert (result["status"], result["response"]["thoughts"]) == ("passed", THOUGHT)


async def test_recorded_answers_are_graded_without_thoughts(tmp_path: Path) -> None:
    (tmp_path / "answer.txt").write_text(f"{THOUGHT}Paris", "utf-8")
    cases = [case({"equals": "Paris"}, overrides={"recorded": "answer.txt"})]
    (result,) = await results_of(tmp_path, cases, providers=[BOT])
    assert (result["status"], result["response"]["thoughts"]) == ("passed", THOUGHT)


async def test_a_journal_from_before_is_graded_anew_and_judged_anew(
    server: FakeServer, tmp_path: Path
) -> None:
    server.answers(said('{"verdict": "pass", "reason": "r"}'))
    write_suite(
        tmp_path,
        [case({"equals": "Paris"}, {"judge": "Says Paris."})],
        providers=[BOT],
        judges=[chat(f"{server.url}/v1", name="strict")],
    )
    await run(tmp_path)
    journal = tmp_path / "out" / "results.jsonl"
    lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    for line in lines:
        response = line.get("response") or line.get("answered", {}).get("response")
        if response:
            response["output"] = response.pop("thoughts") + response["output"]
    write_lines(journal, *lines)
    assert (await run(tmp_path, "--replay", "out", out="again")).code == 0
    (result,) = journaled(tmp_path / "again")
    assert (result["response"]["thoughts"], result["response"]["output"]) == (THOUGHT, "Paris")
    assert len(server.seen) == 2, "the judge had seen the thoughts"


async def test_an_app_may_give_its_thoughts_apart(tmp_path: Path) -> None:
    answer = {"output": "Paris", "thoughts": "France, so Paris."}
    write_files(tmp_path, {"agent.py": f"def answer(question):\n    return {answer!r}\n"})
    (result,) = await results_of(tmp_path, [case({"equals": "Paris"})], providers=[AGENT])
    assert (result["status"], result["response"]["thoughts"]) == ("passed", "France, so Paris.")


async def test_long_thoughts_lose_their_middle_in_the_journal(tmp_path: Path) -> None:
    bot = {"type": "mock", "name": "bot", "default": f"<think>{'a' * 5000}</think>Paris"}
    (result,) = await results_of(
        tmp_path, [case({"equals": "Paris"})], providers=[bot], settings={"max_answer_bytes": 1000}
    )
    assert result["status"] == "passed"
    assert "characters …]" in result["response"]["thoughts"]
    assert len(result["response"]["thoughts"]) < 1000
