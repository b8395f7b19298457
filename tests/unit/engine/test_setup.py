"""Providers as they are opened: shared resources, and settings that cases override."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fakes.http_server import Scripted, serving
from suites import chat, run_in_process

from ci_evals.engine.resources import open_resources
from ci_evals.engine.setup import open_provider
from ci_evals.model.case import Case, CaseOverrides
from ci_evals.model.request import Request
from ci_evals.model.response import Response, Usage
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.providers.pricing import pricer

CASE = {"id": "a", "input": "a", "expect": [{"not_empty": True}]}


async def test_a_model_api_is_called_with_the_cases_own_model_and_params(tmp_path: Path) -> None:
    cases: list[dict[str, Any]] = [
        CASE,
        {
            **CASE,
            "id": "b",
            "input": "b",
            "overrides": {"model": "large", "params": {"temperature": 1}},
        },
    ]
    async with serving() as server:
        server.answers(Scripted({"choices": [{"message": {"content": "yes"}}]}))
        provider = chat(server.url, model="small", params={"temperature": 0, "top_p": 0.5})
        report = await run_in_process(tmp_path, cases, providers=[provider])
        sent = {
            body["messages"][0]["content"]: body for body in (seen.json for seen in server.seen)
        }
    assert report.passed == 2
    assert {key: sent["a"][key] for key in ("model", "temperature", "top_p")} == {
        "model": "small",
        "temperature": 0,
        "top_p": 0.5,
    }
    assert {key: sent["b"][key] for key in ("model", "temperature", "top_p")} == {
        "model": "large",
        "temperature": 1,
        "top_p": 0.5,
    }


async def test_a_program_and_a_service_are_told_of_them(tmp_path: Path) -> None:
    case = {**CASE, "overrides": {"model": "m", "params": {"k": 1}}}
    echo = {"type": "command", "command": ["cat"]}
    async with serving() as server:
        server.answers(Scripted({"answer": "yes"}))
        body = {"model": "{{ case.overrides.model }}", "params": "{{ case.overrides.params }}"}
        report = await run_in_process(
            tmp_path, [case], providers=[echo, {"type": "http", "url": server.url, "body": body}]
        )
        (seen,) = server.seen
    told, _ = report.runs
    assert told.response is not None
    assert json.loads(told.response.output)["overrides"] == {"model": "m", "params": {"k": 1}}
    assert seen.json == {"model": "m", "params": {"k": 1}}


async def test_the_time_that_a_case_may_take_is_its_own(tmp_path: Path) -> None:
    slow = {"type": "mock", "latency_s": 30}
    report = await run_in_process(
        tmp_path, [{**CASE, "overrides": {"timeout_s": 0.01}}], providers=[slow], retries=0
    )
    (result,) = report.runs
    assert result.error is not None
    assert (result.error.kind, result.error.message) == ("timeout", "no answer within 0.01 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(ProviderOptions):
    """Models whose prices are public; no answer says what it cost, nor which model gave it."""

    kind: ClassVar[str] = "listed"

    model: str

    @property
    def api_url(self) -> str:
        return "https://api.openai.com/v1"

    def open(self, resources: Resources) -> Provider:
        class Silent:
            async def answer(self, request: Request) -> Response:
                return Response("yes", usage=Usage(1000, 1000))

        return Silent()


async def test_another_model_has_its_own_price(tmp_path: Path) -> None:
    small = Listed(model="gpt-4o-mini")
    usual, other = Case(id="a"), Case(id="b", overrides=CaseOverrides(model="gpt-4o"))
    unlisted = Case(id="c", overrides=CaseOverrides(model="our-own"))
    async with open_resources(tmp_path, 1) as resources:
        provider, price = open_provider(small, [usual, other, unlisted], resources)
        costs = [
            price(await provider.answer(Request("?", (), case, 1, timeout_s=5)))
            for case in (usual, other, unlisted)
        ]
    expected = [
        pricer(Listed(model=model))(Response(usage=Usage(1000, 1000)))
        for model in ("gpt-4o-mini", "gpt-4o")
    ]
    assert costs == [*expected, None]
    assert costs[0] != costs[1]
