"""A provider that is down, hangs or talks nonsense costs only its own runs, and little time."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from fakes.chat import ChatServer, chatting, completion
from fakes.http_server import FakeServer, Scripted, serving
from processes import Finished, ci_evals
from suites import chat, echo_cases, write_suite

CASES = 30
IMPATIENT = {
    "ci_evals.engine.calls.BACKOFF_S": 0.05,
    "ci_evals.engine.pace.LONGEST_PROBE_GAP_S": 0.05,
    "ci_evals.engine.pace.LONGEST_INTERVAL_S": 0.3,
}


class Outcome:
    """What one run of the suite left behind."""

    def __init__(self, folder: Path, finished: Finished) -> None:
        self.finished = finished
        assert (folder / "ci-evals-results" / "report.json").exists(), (
            finished.code,
            finished.out,
            finished.err,
        )
        self.report = json.loads((folder / "ci-evals-results" / "report.json").read_bytes())
        self.results: list[dict[str, Any]] = self.report["results"]

    def of(self, provider: str, status: str) -> list[dict[str, Any]]:
        return [
            each
            for each in self.results
            if each["provider"] == provider and each["status"] == status
        ]

    def reasons(self, provider: str) -> set[str]:
        return {each["error"]["message"] for each in self.of(provider, "errored")}


async def run_beside(
    folder: Path, broken_url: str, good_url: str, cases: int = CASES, **options: Any
) -> Outcome:
    """Run cases against a broken provider and a good one, under one small limit."""
    providers = [chat(broken_url, "broken", **options), chat(good_url, "good")]
    write_suite(
        folder, echo_cases(cases), providers=providers, max_concurrency=4, retries=1, timeout_s=60
    )
    outcome = Outcome(folder, await ci_evals(folder, "run", constants=IMPATIENT))
    assert len(outcome.of("good", "passed")) == cases
    return outcome


@asynccontextmanager
async def both() -> AsyncIterator[tuple[FakeServer, ChatServer]]:
    async with serving() as broken, chatting(ChatServer()) as good:
        yield broken, good


async def test_a_refused_connection_costs_its_own_runs_only(tmp_path: Path, port: str) -> None:
    async with chatting(ChatServer()) as good:
        outcome = await run_beside(tmp_path, f"http://127.0.0.1:{port}/v1", good.url)
    assert outcome.finished.code == 3
    assert len(outcome.of("broken", "errored")) == CASES
    assert all("no answer from 127.0.0.1" in reason for reason in outcome.reasons("broken"))
    told = " ".join(outcome.finished.out.split())
    assert "not checked: broken did not answer 30 of 60 runs" in told
    assert "30 of 60 runs errored (50 %, all on broken), more than the 5 % that the gate" in told


async def test_what_fails_even_if_every_lost_run_had_passed_is_red_and_not_without_a_verdict(
    tmp_path: Path, port: str
) -> None:
    wrong = [{"id": f"case-{n}", "input": f"q{n}", "expect": [{"equals": "x"}]} for n in range(9)]
    lost = {"id": "lost", "input": "q", "expect": [{"judge": {"rubric": "good"}}]}
    judges = [chat(f"http://127.0.0.1:{port}/v1", "judge", retries=0)]
    async with chatting(ChatServer()) as good:
        write_suite(tmp_path, [*wrong, lost], providers=[chat(good.url)], judges=judges)
        ended = await ci_evals(tmp_path, "run", constants=IMPATIENT)
    told = " ".join(ended.out.split())
    assert ended.code == 1, ended
    assert "9 cases failed" in told
    assert "also, 1 of 10 runs errored (10 %), more than the 5 % that the gate allows" in told


@pytest.mark.parametrize(
    "down_for", [CASES // 3, CASES + CASES // 3], ids=["soon over", "runs are lost"]
)
async def test_after_an_outage_the_rest_is_graded(down_for: int, tmp_path: Path) -> None:
    async def recovering(request: web.Request) -> web.StreamResponse:
        if len(broken.seen) <= down_for:
            return web.json_response({"error": {"message": "maintenance"}}, status=503)
        return web.Response(
            body=completion(json.loads(await request.read())["messages"][-1]["content"])
        )

    async with both() as (broken, good):
        broken.answers(recovering)
        outcome = await run_beside(tmp_path, broken.url, good.url, retries=2)
    errored = outcome.of("broken", "errored")
    assert len(errored) < CASES // 3
    assert len(outcome.of("broken", "passed")) == CASES - len(errored)
    assert outcome.reasons("broken") <= {"127.0.0.1 answered 503: maintenance"}
    assert len(broken.seen) <= CASES + down_for
    assert outcome.finished.code == (3 if len(errored) > 0.05 * 2 * CASES else 0)


async def test_a_pass_that_was_refused_on_its_way_says_so_and_why_it_waited(tmp_path: Path) -> None:
    refusal = Scripted({"error": {"message": "slow down"}}, 429, {"Retry-After": "1"})
    async with serving() as server:
        server.answers(refusal, refusal, Scripted(completion("hello")))
        case = {"id": "greeting", "input": "hello", "expect": [{"contains": "hello"}]}
        write_suite(tmp_path, [case], providers=[chat(server.url)], retries=2)
        ended = await ci_evals(
            tmp_path, "run", constants={"ci_evals.engine.progress.LINE_INTERVAL_S": 0.05}
        )
    assert ended.code == 0, ended
    assert "0/1 runs  1 waiting: rate-limited (429), next try in " in ended.err
    sentence = "1 of 1 run was answered after up to 3 attempts: rate-limited (429)"
    assert f"Retried: {sentence}" in ended.out


async def test_calls_that_were_never_answered_are_not_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def answer(question): raise ValueError(question)\n")
    provider = {"name": "agent", "type": "python", "target": "agent:answer", "retries": 1}
    write_suite(tmp_path, providers=[provider])
    ended = await ci_evals(tmp_path, "run", constants={"ci_evals.engine.calls.BACKOFF_S": 0.01})
    assert ended.code == 1, ended
    assert "was answered after" not in ended.out


async def test_a_provider_that_hangs_holds_nobody_up(tmp_path: Path) -> None:
    events: list[str] = []

    async def hang(request: web.Request) -> web.StreamResponse:
        try:
            await asyncio.Event().wait()
        finally:
            events.append("broken was left")
        raise AssertionError("unreachable")

    class Noting(ChatServer):
        async def complete(self, request: web.Request) -> web.StreamResponse:
            answer = await super().complete(request)
            events.append("good answered")
            return answer

    async with serving() as broken, chatting(Noting()) as good:
        broken.answers(hang)
        outcome = await run_beside(tmp_path, broken.url, good.url, 24, timeout_s=1, retries=0)
    assert events[:24] == ["good answered"] * 24
    assert len(outcome.of("broken", "errored")) == 24
    assert any("did not answer within 1 s" in reason for reason in outcome.reasons("broken"))
    assert outcome.finished.code == 3
    assert len(broken.seen) <= 4 + 10


async def test_half_a_body_is_no_answer(tmp_path: Path) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        body = completion("half")
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Content-Length": str(len(body))}
        )
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
        assert request.transport is not None
        request.transport.close()
        return response

    async with both() as (broken, good):
        broken.answers(half)
        outcome = await run_beside(tmp_path, broken.url, good.url)
    assert len(outcome.of("broken", "errored")) == CASES
    assert all("no answer from 127.0.0.1" in reason for reason in outcome.reasons("broken"))
    assert outcome.finished.code == 3
    assert len(broken.seen) < 2 * CASES


async def test_a_login_page_with_status_200_is_no_answer(tmp_path: Path) -> None:
    async with both() as (broken, good):
        broken.answers(Scripted("<html><title>Sign in</title><p>Please sign in to Wi-Fi</html>"))
        outcome = await run_beside(tmp_path, broken.url, good.url)
    assert len(outcome.of("broken", "errored")) == CASES
    assert all(
        "HTML, not JSON: Sign in Please sign in to Wi-Fi" in reason
        for reason in outcome.reasons("broken")
    )
    assert outcome.finished.code == 3
    assert len(broken.seen) <= CASES


@pytest.mark.parametrize(
    ("status", "message"), [(401, "Incorrect API key"), (402, "no credit"), (404, "no such model")]
)
async def test_a_provider_that_refuses_for_good_is_asked_a_handful_of_times(
    status: int, message: str, tmp_path: Path
) -> None:
    async with both() as (broken, good):
        broken.answers(Scripted({"error": {"message": message}}, status=status))
        outcome = await run_beside(tmp_path, broken.url, good.url, 300)
    assert len(outcome.of("broken", "errored")) == 300
    assert len(broken.seen) <= 4 + 5
    assert all(message in reason for reason in outcome.reasons("broken"))
    errors = [each["error"] for each in outcome.of("broken", "errored")]
    causes = {each["cause"] for each in errors if each["kind"] == "given_up"}
    assert causes == {each["message"] for each in errors if each["kind"] != "given_up"}
    assert outcome.finished.code == 3


async def test_the_teams_own_service_is_judged_by_its_errors_run_by_run(tmp_path: Path) -> None:
    async with serving() as service:
        service.answers(Scripted("oops", status=500))
        cases = [
            {"id": f"case-{n}", "input": "hi", "expect": [{"equals": "hi"}]} for n in range(CASES)
        ]
        write_suite(
            tmp_path,
            cases,
            providers=[{"type": "http", "url": service.url}],
            max_concurrency=4,
            retries=0,
        )
        ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1
    assert "30 of 30 runs failed" in ended.out
    assert len(service.seen) == CASES
