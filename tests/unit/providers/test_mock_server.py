import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import ClientSession
from fakes.http_server import fake_resources, request_of

from ci_evals.errors import UsageError
from ci_evals.model.response import ToolCall
from ci_evals.providers.anthropic import Anthropic
from ci_evals.providers.gemini import Gemini
from ci_evals.providers.mock import Mock, MockAnswer
from ci_evals.providers.mock_server import run_server, serve
from ci_evals.providers.openai import Embeddings


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    async with ClientSession() as session:
        yield session


def body_of(text: Any = "Hello!", **changes: Any) -> dict[str, Any]:
    return {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}]} | changes


async def ask(session: ClientSession, url: str, body: Any) -> tuple[int, Any]:
    async with session.post(f"{url}/chat/completions", json=body) as response:
        return response.status, await response.json()


async def test_it_answers_in_the_documented_shape(session: ClientSession) -> None:
    async with run_server(Mock(answers={"Hello!": "Hello to you, too."})) as url:
        status, reply = await ask(session, url, body_of())
    assert status == 200
    assert reply.pop("created") > 0
    assert reply == {
        "id": "chatcmpl-mock-1",
        "object": "chat.completion",
        "model": "gpt-4o-mini",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello to you, too.", "refusal": None},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5},
    }


async def test_tool_calls_come_as_json_text(session: ClientSession) -> None:
    options = Mock(answers={"Hello!": MockAnswer(tool_calls=(ToolCall("book", {"to": "Paris"}),))})
    async with run_server(options) as url:
        _, reply = await ask(session, url, body_of())
    (choice,) = reply["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert (call["id"], call["type"], call["function"]["name"]) == ("call_0", "function", "book")
    assert json.loads(call["function"]["arguments"]) == {"to": "Paris"}


async def test_the_last_user_message_is_answered(session: ClientSession) -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "1", "tool_call_id": "x"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Two"}, {"type": "text", "text": "?"}],
        },
    ]
    async with run_server(Mock()) as url:
        _, reply = await ask(session, url, body_of(messages=messages))
    assert reply["choices"][0]["message"]["content"] == "Two?"


BOOKED = MockAnswer("I book two  seats.\n", tool_calls=(ToolCall("book", {"to": "Paris"}),))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"model": "m", "input": "Two?", "instructions": "Be brief."}),
        (
            "/v1/responses",
            {
                "model": "m",
                "input": [
                    {"role": "user", "content": [{"type": "input_text", "text": "Two?"}]},
                    {"type": "function_call_output", "call_id": "c", "output": "1"},
                ],
            },
        ),
    ],
)
async def test_responses_are_in_the_documented_shape(
    session: ClientSession, path: str, body: dict[str, Any]
) -> None:
    async with run_server(Mock(answers={"Two?": BOOKED})) as url:
        address = url.removesuffix("/v1") + path
        async with session.post(address, json=body) as response:
            answer = await response.json()
        async with session.post(address, json={**body, "stream": True}) as response:
            events = await response.text()
    message, call = answer["output"]
    assert answer["status"] == "completed"
    assert message["content"][0]["text"] == "I book two  seats.\n"
    assert (call["type"], call["name"]) == ("function_call", "book")
    assert json.loads(call["arguments"]) == {"to": "Paris"}
    streamed = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: ")]
    deltas = [each["delta"] for each in streamed if each["type"] == "response.output_text.delta"]
    assert "".join(deltas) == "I book two  seats.\n"
    assert (streamed[0]["type"], streamed[-1]["type"]) == ("response.created", "response.completed")
    assert [each["sequence_number"] for each in streamed] == list(range(len(streamed)))


async def test_embeddings_of_texts_that_share_words_are_close() -> None:
    texts = ["a refund for the order", "The order: a refund", "weather in Paris"]
    async with run_server(Mock()) as url, fake_resources() as resources:
        options = Embeddings(model="m", base_url=url)
        request = replace(request_of(), input=texts)
        response = await options.open(resources).answer(request)
    first, second, other = json.loads(response.output)
    close = sum(a * b for a, b in zip(first, second, strict=True))
    far = sum(a * b for a, b in zip(first, other, strict=True))
    assert close > 0.8 > far
    assert sum(a * a for a in first) == pytest.approx(1)


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("/v1/messages", {"model": "m", "max_tokens": 9}, ["error", "message"]),
        ("/v1/responses", {"model": "m"}, ["error", "message"]),
        ("/v1/embeddings", {"model": "m"}, ["error", "message"]),
        ("/v1beta/models/m:generateContent", {"contents": []}, ["error", "message"]),
    ],
)
async def test_a_wrong_request_is_told_in_the_shape_of_its_api(
    session: ClientSession, path: str, body: Any, place: list[str]
) -> None:
    async with (
        run_server(Mock()) as url,
        session.post(url.removesuffix("/v1") + path, json=body) as response,
    ):
        assert response.status == 400
        reply = await response.json()
    for key in place:
        reply = reply[key]
    assert "not in the documented shape" in reply


@pytest.mark.parametrize(
    ("kind", "status", "name"),
    [
        (Anthropic, 500, "api_error"),
        (Anthropic, 429, "rate_limit_error"),
        (Gemini, 500, "INTERNAL"),
        (Gemini, 429, "RESOURCE_EXHAUSTED"),
    ],
)
async def test_faults_are_named_as_each_api_does(
    session: ClientSession, kind: type[Anthropic | Gemini], status: int, name: str
) -> None:
    mock = Mock(error_rate=1) if status == 500 else Mock(rate_limit_rate=1)
    path, body = "/v1/messages", body_of(max_tokens=9)
    if kind is Gemini:
        path, body = "/v1beta/models/m:generateContent", {"contents": [{"parts": [{"text": "x"}]}]}
    async with (
        run_server(mock) as url,
        session.post(url.removesuffix("/v1") + path, json=body) as response,
    ):
        assert response.status == status
        assert name in (await response.json())["error"].values()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (body_of(n=2), "one choice"),
        (body_of(messages=[]), "not in the documented shape"),
        ({"model": "m"}, "messages: Field required"),
        ("hello", "not in the documented shape"),
        (body_of(messages=[{"role": "robot", "content": ""}]), "messages[0].role: Input should be"),
    ],
)
async def test_a_wrong_request_is_told_what_is_wrong(
    session: ClientSession, body: Any, words: str
) -> None:
    async with run_server(Mock()) as url:
        status, reply = await ask(session, url, body)
    assert (status, reply["error"]["type"]) == (400, "invalid_request_error")
    assert words in reply["error"]["message"]


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 100_000])
async def test_what_is_no_json_is_refused(session: ClientSession, raw: bytes) -> None:
    async with (
        run_server(Mock()) as url,
        session.post(f"{url}/chat/completions", data=raw) as response,
    ):
        assert response.status == 400


async def test_faults_become_statuses(session: ClientSession) -> None:
    async with run_server(Mock(error_rate=1)) as url:
        status, reply = await ask(session, url, body_of())
    assert (status, reply["error"]["message"], reply["error"]["type"]) == (
        500,
        "mock error 500",
        "server_error",
    )
    async with (
        run_server(Mock(rate_limit_rate=1, retry_after_s=2)) as url,
        session.post(f"{url}/chat/completions", json=body_of()) as response,
    ):
        assert (response.status, response.headers["Retry-After"]) == (429, "2")


async def test_a_template_that_fails_is_a_refusal(session: ClientSession) -> None:
    async with run_server(Mock(default="{{ city }}")) as url:
        status, reply = await ask(session, url, body_of())
    assert status == 400
    assert "'city' is undefined" in reply["error"]["message"]


async def test_asking_again_draws_anew_and_a_new_server_draws_the_same(
    session: ClientSession,
) -> None:
    async def drawn() -> list[str]:
        async with run_server(Mock(flakiness=0.5, wrong="dunno")) as url:
            replies = [await ask(session, url, body_of()) for _ in range(60)]
        return [reply["choices"][0]["message"]["content"] for _, reply in replies]

    first = await drawn()
    assert set(first) == {"dunno", "Hello!"}
    assert await drawn() == first


async def test_many_at_once_are_answered(session: ClientSession) -> None:
    async with run_server(Mock(latency_s=0.01)) as url, asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(session, url, body_of(str(number)))) for number in range(50)]
        replies = [await task for task in tasks]
    outputs = Counter(reply["choices"][0]["message"]["content"] for _, reply in replies)
    assert outputs == Counter(str(number) for number in range(50))


async def test_models_are_listed_and_other_paths_say_where_to_go(session: ClientSession) -> None:
    async with run_server(Mock()) as url:
        async with session.get(f"{url}/models") as response:
            assert [model["id"] for model in (await response.json())["data"]] == ["mock"]
        async with session.post(
            f"{url.removesuffix('/v1')}/chat/completions", json=body_of()
        ) as response:
            assert response.status == 404
            assert "base_url ends in /v1" in (await response.json())["error"]["message"]


GEMINI_BODY = {"contents": [{"parts": [{"text": "hi"}], "role": "user"}]}


@pytest.mark.parametrize("base", ["", "/v1"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", body_of("hi", max_tokens=9)),
        ("/v1/models/gemini-3:generateContent", GEMINI_BODY),
        ("/v1beta/models/gemini-3:generateContent", GEMINI_BODY),
        ("/v1/models/gemini-3:streamGenerateContent?alt=sse", GEMINI_BODY),
    ],
)
async def test_sdks_that_add_the_version_may_have_it_in_their_base_url(
    session: ClientSession, base: str, path: str, body: Any
) -> None:
    async with run_server(Mock()) as url:
        root = url.removesuffix("/v1")
        async with session.post(f"{root}{base}{path}", json=body) as response:
            assert response.status == 200
            assert '"hi"' in await response.text()
        async with session.get(f"{root}{base}/v1/models") as response:
            listed = await response.json()
            assert listed["data"][0]["id"] == "mock"
            assert listed["models"][0]["name"] == "models/mock"
        async with session.get(f"{root}{base}/v1/models/gpt-5") as response:
            assert (await response.json())["id"] == "gpt-5"


@pytest.mark.parametrize("tokens", [[1, 2, 3], [[1, 2, 3]]])
async def test_embeddings_of_tokens(session: ClientSession, tokens: Any) -> None:
    async with (
        run_server(Mock()) as url,
        session.post(f"{url}/embeddings", json={"model": "m", "input": tokens}) as response,
    ):
        assert response.status == 200
        assert len((await response.json())["data"]) == 1


async def test_a_port_that_is_taken_is_a_usage_error() -> None:
    async with run_server(Mock()) as url:
        port = int(url.rsplit(":", 1)[1].removesuffix("/v1"))
        with pytest.raises(
            UsageError, match=f"cannot listen on 127.0.0.1:{port}: .*--port"
        ) as caught:
            async with run_server(Mock(), port=port):
                pass
        assert "attempting to bind" not in str(caught.value)


async def test_serve_logs_its_url_and_its_requests_until_it_is_cancelled(
    session: ClientSession,
) -> None:
    lines: asyncio.Queue[str] = asyncio.Queue()
    serving = asyncio.create_task(serve(Mock(), "127.0.0.1", 0, log=lines.put_nowait))
    url = (await lines.get()).split()[3]
    await ask(session, url, body_of("\x1b[31m"))
    assert await lines.get() == "POST '/v1/chat/completions' 200"
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving
    with pytest.raises(aiohttp.ClientConnectionError):
        await ask(session, url, body_of())
