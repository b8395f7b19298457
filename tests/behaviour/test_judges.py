"""Judges in a whole run: their limits, their errors, their cost, and what is not asked twice."""

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.http_server import Scripted, serving
from processes import ci_evals
from projects import Project
from suites import write_suite

from ci_evals.api import evaluate
from ci_evals.engine.journal import JOURNAL
from ci_evals.invocation import Invocation
from ci_evals.session import execute
from ci_evals.suite.load import load_suite

PASSES = '{"reason": "Fine.", "verdict": "pass"}'
JUDGE = {
    "name": "strict",
    "type": "mock",
    "default": PASSES,
    "price": {"input_per_mtok": 1e6, "output_per_mtok": 1e6},
}
CASE = {"id": "capital", "input": "Capital of France?", "expect": [{"judge": "polite"}]}
FREE = {"name": "echo", "type": "mock", "price": {"input_per_mtok": 0, "output_per_mtok": 0}}


async def test_a_judge_decides_and_is_no_column_of_the_matrix(tmp_path: Path) -> None:
    report = await evaluate(write_suite(tmp_path, [CASE], judges=[JUDGE], runs=3))
    assert [str(variant) for variant in report.plan.variants] == ["echo"]
    assert report.passed == 3
    assert report.runs[0].grades[0].reason == "judged pass: Fine."


async def test_what_a_judge_takes_is_counted_apart_and_shown(tmp_path: Path) -> None:
    path = write_suite(tmp_path, [CASE], judges=[JUDGE], providers=[FREE], runs=2)
    report = await evaluate(path, out=tmp_path / "out")
    judging = report.runs[0].judging
    assert judging is not None
    assert (judging.calls, judging.unpriced) == (1, 0)
    assert judging.cost_usd == judging.input_tokens + judging.output_tokens > 0
    assert report.runs[0].cost_usd == 0
    totals = json.loads((tmp_path / "out" / "report.json").read_bytes())["totals"]
    assert totals["judging"]["calls"] == 2
    assert totals["judging"]["cost_usd"] == 2 * judging.cost_usd
    assert "**Judged**: 2 calls of judges" in (tmp_path / "out" / "summary.md").read_text("utf-8")


async def test_a_judge_of_unknown_price_never_costs_0(tmp_path: Path) -> None:
    judge = {key: value for key, value in JUDGE.items() if key != "price"}
    report = await evaluate(
        write_suite(tmp_path, [CASE], judges=[judge], providers=[FREE]), out=tmp_path / "out"
    )
    assert report.judging.cost_usd is None
    document = json.loads((tmp_path / "out" / "report.json").read_bytes())
    judging = document["totals"]["judging"]
    assert (judging["calls"], judging["unpriced"], judging["cost_usd"]) == (1, 1, None)
    assert document["results"][0]["judging"].get("cost_usd") is None
    assert "cost unknown" in (tmp_path / "out" / "summary.md").read_text("utf-8")
    assert document["totals"]["cost_usd"] == 0, (
        "the answers were free, and nothing else has a price"
    )


async def test_a_budget_counts_judges(tmp_path: Path) -> None:
    path = write_suite(
        tmp_path, [CASE], judges=[JUDGE], providers=[FREE], runs=50, max_concurrency=1
    )
    suite = {**json.loads(path.read_bytes()), "budget": {"max_cost_usd": 1}}
    path.write_text(json.dumps(suite), "utf-8")
    report = await evaluate(path)
    assert report.interrupted is not None
    assert len(report.runs) < 50


@pytest.mark.parametrize(
    ("judge", "told"),
    [
        (
            {"default": "No idea."},
            'must reply {"verdict": "pass", "reason": "…"} with one of pass, fail as verdict, got',
        ),
        ({"error_rate": 1, "retries": 0}, "strict did not answer: mock error 500"),
    ],
)
async def test_a_judge_that_gives_no_verdict_makes_the_run_errored(
    judge: dict[str, Any], told: str, tmp_path: Path
) -> None:
    report = await evaluate(write_suite(tmp_path, [CASE], judges=[{**JUDGE, **judge}]))
    (result,) = report.runs
    assert (result.status, result.score) == ("errored", None)
    assert result.error is not None
    assert result.error.kind == "judge"
    assert told in result.error.message
    assert result.response is not None


async def test_a_function_that_judges_is_told_what_to_return(tmp_path: Path) -> None:
    (tmp_path / "strict.py").write_text(
        "def judge(request): return {'verdict': 'pass', 'reason': 'fine'}\n"
        "def approve(request): return True\n"
    )
    judge = {"name": "strict", "type": "python", "target": "strict:judge"}
    (result,) = (await evaluate(write_suite(tmp_path, [CASE], judges=[judge]))).runs
    assert result.status == "passed"
    judge = {"name": "strict", "type": "python", "target": "strict:approve"}
    (result,) = (await evaluate(write_suite(tmp_path, [CASE], judges=[judge]))).runs
    assert result.error is not None
    assert 'must reply {"verdict": "pass", "reason": "…"}' in result.error.message


async def test_a_judge_is_asked_again_after_a_refusal(tmp_path: Path) -> None:
    async with serving() as server:
        refused = Scripted(b"{}", status=429, headers={"Retry-After": "0"})
        server.answers(refused, Scripted({"choices": [{"message": {"content": PASSES}}]}))
        judge = {"name": "strict", "type": "openai", "model": "m", "base_url": f"{server.url}/v1"}
        report = await evaluate(write_suite(tmp_path, [CASE], judges=[judge]))
        assert report.passed == 1
        assert len(server.seen) == 2
        assert server.seen[1].json["response_format"]["json_schema"]["schema"]["required"] == [
            "reason",
            "verdict",
        ]


async def test_an_endpoint_that_knows_no_schema_is_asked_without(tmp_path: Path) -> None:
    async with serving() as server:
        server.answers(
            Scripted({"error": "response_format?"}, status=400),
            Scripted({"choices": [{"message": {"content": PASSES}}]}),
        )
        judge = {"name": "strict", "type": "openai", "model": "m", "base_url": f"{server.url}/v1"}
        report = await evaluate(write_suite(tmp_path, [CASE], judges=[judge]))
        assert report.passed == 1
        assert ["response_format" in seen.json for seen in server.seen] == [True, False]


async def test_embeddings_come_from_any_compatible_endpoint(tmp_path: Path) -> None:
    async with serving() as server:
        vectors = [{"index": 1, "embedding": [1.0, 0.0]}, {"index": 0, "embedding": [1.0, 0.1]}]
        server.answers(Scripted({"data": vectors, "model": "e", "usage": {"prompt_tokens": 9}}))
        judge = {"name": "e", "type": "embeddings", "model": "e", "base_url": f"{server.url}/v1"}
        case = {**CASE, "expect": [{"embedding_similar": "Paris"}]}
        report = await evaluate(write_suite(tmp_path, [case], judges=[judge]))
        (result,) = report.runs
        assert result.status == "passed"
        assert result.judging is not None
        assert result.judging.input_tokens == 9
        assert (server.seen[0].path, server.seen[0].json["input"]) == (
            "/v1/embeddings",
            ["Capital of France?", "Paris"],
        )


async def test_a_provider_may_judge_and_needs_not_be_selected(tmp_path: Path) -> None:
    case = {**CASE, "expect": [{"judge": {"rubric": "polite", "provider": "strict"}}]}
    path = write_suite(tmp_path, [case], providers=[{"name": "echo", "type": "mock"}, JUDGE])
    report = await evaluate(path, providers="echo")
    assert (report.total, report.passed) == (1, 1)


async def test_a_replay_asks_no_judge_about_what_it_has_judged(tmp_path: Path) -> None:
    path = write_suite(tmp_path, [CASE], judges=[JUDGE])
    first = (await evaluate(path, out=tmp_path / "out")).runs[0]
    recorded = tmp_path / "recorded.jsonl"
    (tmp_path / "out" / JOURNAL).rename(recorded)
    for replay_only in (False, True):
        order = Invocation(
            suite=load_suite(path, {}),
            journal=tmp_path / "again.jsonl",
            replay=recorded,
            replay_only=replay_only,
        )
        report, _ = await execute(order)
        assert report.runs[0].grades == first.grades
        assert report.runs[0].judging is None


async def test_another_judge_is_another_judgement(tmp_path: Path) -> None:
    path = write_suite(tmp_path, [CASE], judges=[JUDGE])
    await evaluate(path, out=tmp_path / "out")
    write_suite(tmp_path, [CASE], judges=[{**JUDGE, "default": PASSES.replace("pass", "fail")}])
    order = Invocation(
        suite=load_suite(path, {}),
        journal=tmp_path / "again.jsonl",
        replay=tmp_path / "out" / JOURNAL,
    )
    report, _ = await execute(order)
    assert report.failed == 1


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "needs a model that answers with text: add one to `judges`"),
        (
            {"judges": [JUDGE, {**JUDGE, "name": "mild"}]},
            "name one of the judges with `provider`: strict, mild",
        ),
        ({"judges": [{**JUDGE, "name": "echo"}]}, "'echo' is also the name of a provider"),
        ({"judges": [{**JUDGE, "type": "mok"}]}, "unknown provider type 'mok'"),
    ],
)
def test_what_is_wrong_with_judges_is_found_before_any_call(
    settings: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    project = Project(tmp_path)
    project.suite(cases=[CASE], **settings)
    assert any(problem in told for told in project.problems())


def test_a_judge_that_is_not_there_is_named_with_the_closest(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.suite(
        cases=[{**CASE, "expect": [{"judge": {"rubric": "polite", "provider": "strickt"}}]}],
        judges=[JUDGE],
    )
    (problem,) = project.problems()
    assert "unknown judge 'strickt', did you mean 'strict'?" in problem


# By the context of an answer.

SOURCES = [{"text": "Refunds take 30 days.", "id": "policy.md"}, {"text": "We ship to Oslo."}]
LISTED = {
    "statements": [
        {"text": "Refunds take 30 days.", "texts": [1], "holds": True},
        {"text": "They are <b>free</b>.", "texts": [], "holds": False},
    ]
}


async def test_what_holds_and_where_it_was_found_is_on_every_page(tmp_path: Path) -> None:
    agent = {
        "name": "rag",
        "type": "mock",
        "answers": {"refund": {"output": "30 days, free.", "context": SOURCES}},
    }
    (tmp_path / "judge.txt").write_text("Judge {{ answer }} by {{ rubric }} {{ reply }}", "utf-8")
    recall = {
        "rubric": "context_recall",
        "reference": "{{ expected }}",
        "prompt": {"file": "judge.txt"},
    }
    precision = {
        "rubric": "context_precision",
        "prompt": "{{ rubric }} {{ reply }}",
        "reference": "{{ expected }}",
    }
    path = write_suite(
        tmp_path,
        [{"id": "refund", "input": "How long?", "vars": {"expected": "30 days"}}],
        providers=[agent],
        judges=[{"name": "strict", "type": "mock", "default": json.dumps(LISTED)}],
        expect=[
            {"judge": {"rubric": "faithful", "name": "faithful"}},
            {"judge": recall},
            {"judge": precision},
        ],
        report={"formats": ["json", "html"]},
    )
    report = await evaluate(path, out=tmp_path / "out")
    assert report.runs[0].error is not None, "one list for two texts is no judgement of their order"
    assert "one for each of 2 texts" in report.runs[0].error.message

    LISTED["statements"][1]["texts"] = [2]
    suite = json.loads(path.read_bytes()) | {
        "judges": [{"name": "strict", "type": "mock", "default": json.dumps(LISTED)}]
    }
    path.write_text(json.dumps(suite), "utf-8")
    report = await evaluate(path, out=tmp_path / "out")
    faithful, recalled, precise = report.runs[0].grades
    assert faithful.reason == "the context supports 1 of 2 statements; not 'They are <b>free</b>.'"
    assert (faithful.score, faithful.passed) == (0.5, False)
    assert (recalled.score, precise.score, precise.passed) == (0.5, 1, True)
    (result,) = json.loads((tmp_path / "out" / "report.json").read_bytes())["results"]
    assert result["grades"][0]["statements"][0] == {
        "text": "Refunds take 30 days.",
        "holds": True,
        "texts": [1],
    }
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "Refunds take 30 days. (text 1)</span></li>" in page
    assert "They are &lt;b&gt;free&lt;/b&gt;. (text 2)</span></li>" in page
    told = (await ci_evals(tmp_path, "explain", "refund", "--report", "out")).out
    assert "↳ ✓ Refunds take 30 days. (text 1)" in told
    assert "↳ ✗ They are <b>free</b>. (text 2)" in told


async def test_a_python_agent_that_forgets_its_context_is_errored_and_not_failed(
    tmp_path: Path,
) -> None:
    (tmp_path / "agent.py").write_text("def answer(question):\n    return 'Yes.'\n", "utf-8")
    path = write_suite(
        tmp_path,
        [{"id": "a", "input": "?", "expect": [{"judge": "faithful"}]}],
        providers=[{"type": "python", "target": "agent:answer"}],
        judges=[JUDGE],
    )
    report = await evaluate(path)
    assert (report.errored, report.failed) == (1, 0)
    assert report.runs[0].error is not None
    assert "has no retrieved context: return `context`" in report.runs[0].error.message
