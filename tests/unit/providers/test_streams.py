"""Server-sent events: their limits, tool calls in pieces, and those of any service."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from fakes.http_server import (
    FakeResources,
    FakeServer,
    Scripted,
    ask,
    event,
    never,
    streaming,
)
from yarl import URL

from ci_evals.errors import ProviderError
from ci_evals.model.response import Passage, Response, ToolCall, Usage
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.http import Http, Stream
from ci_evals.providers.http_client import HttpClient
from ci_evals.providers.http_messages import Call
from ci_evals.providers.openai import Embeddings, OpenAI

DONE = b"data: [DONE]\n\n"


async def streamed(
    server: FakeServer,
    resources: FakeResources,
    options: ProviderOptions,
    *pieces: bytes,
    breaks: bool = False,
) -> Response:
    server.answers(streaming(pieces, breaks=breaks))
    return await ask(options, resources)


async def refusal(
    server: FakeServer,
    resources: FakeResources,
    options: ProviderOptions,
    *pieces: bytes,
    breaks: bool = False,
) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await streamed(server, resources, options, *pieces, breaks=breaks)
    return caught.value


def without_wait(response: Response) -> Response:
    """The response, whose first token came after some time."""
    assert response.first_token_s is not None
    assert 0 < response.first_token_s < 5
    return replace(response, first_token_s=None)


# OpenAI.


def openai(server: FakeServer, **changes: Any) -> OpenAI:
    return OpenAI(model="gpt-4.1", base_url=f"{server.url}/v1", stream=True, **changes)


def chunk(
    delta: dict[str, Any] | None = None, finish_reason: str | None = None, **more: Any
) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish_reason}
    shared = {
        "id": "chatcmpl-123",
        "object": "chat.completion.chunk",
        "created": 1694268190,
        "model": "gpt-4.1",
    }
    return event(
        {**shared, "choices": [choice] if delta is not None else [], "usage": None, **more}
    )


async def test_openai_assembles_tool_calls(server: FakeServer, resources: FakeResources) -> None:
    def part(index: int | None, id_: str | None, name: str | None, arguments: str) -> bytes:
        function = {"name": name, "arguments": arguments}
        return chunk(
            {"tool_calls": [{"index": index, "id": id_, "type": "function", "function": function}]}
        )

    pieces = [
        part(0, "call_1", "get_weather", ""),
        part(0, None, None, '{"city": "Pa'),
        part(1, "call_2", "get_time", '{"zone"'),
        part(0, None, None, 'ris"}'),
        part(1, None, None, ': "CET"}'),
        # As Gemini's compatible endpoint sends them.
        part(0, "call_3", "whole", '{"index": "again"}'),
        part(None, "call_4", "without", ""),
        chunk({}, "tool_calls"),
        DONE,
    ]
    response = without_wait(await streamed(server, resources, openai(server), *pieces))
    assert response.tool_calls == (
        ToolCall("get_weather", {"city": "Paris"}, "call_1"),
        ToolCall("get_time", {"zone": "CET"}, "call_2"),
        ToolCall("whole", {"index": "again"}, "call_3"),
        ToolCall("without", {}, "call_4"),
    )


async def test_the_older_function_call_is_assembled(
    server: FakeServer, resources: FakeResources
) -> None:
    pieces = [
        chunk({"function_call": {"name": "get_weather", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"city": "Pa'}}),
        chunk({"function_call": {"arguments": 'ris"}'}}),
        chunk({}, "function_call"),
        DONE,
    ]
    response = without_wait(await streamed(server, resources, openai(server), *pieces))
    assert response.tool_calls == (ToolCall("get_weather", {"city": "Paris"}),)


async def test_an_answer_that_comes_at_once_all_the_same_is_read(
    server: FakeServer, resources: FakeResources
) -> None:
    server.answers(Scripted({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}))
    assert await ask(openai(server), resources) == Response("Hi", finish_reason="stop")


async def test_a_connection_that_breaks_is_tried_again(
    server: FakeServer, resources: FakeResources
) -> None:
    error = await refusal(server, resources, openai(server), chunk({"content": "He"}), breaks=True)
    assert (error.kind, error.retryable) == ("network", True)


async def test_the_time_limit_holds_for_the_whole_stream(
    server: FakeServer, resources: FakeResources
) -> None:
    async def stuck(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        await stream.write(chunk({"content": "He"}))
        return await never(request)

    server.answers(stuck)
    with pytest.raises(ProviderError) as caught:
        await ask(openai(server), resources, timeout_s=0.2)
    assert caught.value.kind == "timeout"


async def test_a_stream_is_read_up_to_the_limit(
    server: FakeServer, resources: FakeResources
) -> None:
    server.answers(streaming([event("a" * 600)] * 100))
    with pytest.raises(ProviderError, match="answered with more than 5,000 bytes"):
        await HttpClient(resources, max_bytes=5_000).send(Call("GET", URL(server.url), {}), 5)


def test_embeddings_are_not_streamed() -> None:
    (problem,) = Embeddings(model="m", stream=True).problems(Path())
    assert problem == "stream: embeddings are not streamed; remove it"


# Any service.


def http(server: FakeServer, stream: Stream, **changes: Any) -> Http:
    return Http(url=server.url, stream=stream, **changes)


async def test_the_data_of_events_is_the_text(server: FakeServer, resources: FakeResources) -> None:
    pieces = [
        b"\xef\xbb\xbfdata: Caf\xc3",
        b"\xa9\r",
        b"\n\r\nda",
        b"ta:  au\rdata\rdata: lait\r\r",
        DONE,
    ]
    response = without_wait(await streamed(server, resources, http(server, Stream()), *pieces))
    assert response.output == "Café au\n\nlait"


async def test_paths_are_looked_up_in_the_events(
    server: FakeServer, resources: FakeResources
) -> None:
    stream = Stream(text="$.delta", event="token", end="done")
    options = http(
        server,
        stream,
        tool_calls="$.call",
        context="$.sources",
        usage={"input_tokens": "$.tokens.in", "output_tokens": "$.tokens.out"},
        metadata={"trace": "$.trace"},
    )
    pieces = [
        event({"trace": "t-1", "sources": [{"text": "A", "score": 1}]}, "meta"),
        event({"delta": "Within ", "tokens": {"in": 9, "out": 1}}, "token"),
        event({"delta": "not text of the answer"}, "other"),
        event({"call": {"name": "look", "arguments": {}}}, "tool"),
        event({"call": {"name": "book", "arguments": {"n": 1}}, "sources": ["B"]}, "tool"),
        event({"delta": "30 days", "tokens": {"in": 9, "out": 4}}, "token"),
        event("", "done"),
        event({"delta": " never"}, "token"),
    ]
    assert without_wait(await streamed(server, resources, options, *pieces)) == Response(
        "Within 30 days",
        tool_calls=(ToolCall("look"), ToolCall("book", {"n": 1})),
        context=(Passage("A", score=1.0), Passage("B")),
        usage=Usage(9, 4),
        metadata={"trace": "t-1"},
    )


async def test_each_count_and_each_name_has_its_own_last_event(
    server: FakeServer, resources: FakeResources
) -> None:
    usage = {
        "input_tokens": "$.message.usage.input_tokens",
        "output_tokens": "$.usage.output_tokens",
    }
    options = http(
        server, Stream(text="$.delta"), usage=usage, metadata={"trace": "$.trace", "stop": "$.stop"}
    )
    pieces = [
        event({"message": {"usage": {"input_tokens": 9, "output_tokens": 1}}, "trace": "t-1"}),
        event({"delta": "Paris", "usage": {"output_tokens": 2}}),
        event({"usage": {"output_tokens": 4}, "stop": "end"}),
    ]
    response = without_wait(await streamed(server, resources, options, *pieces))
    assert (response.usage, response.metadata) == (Usage(9, 4), {"trace": "t-1", "stop": "end"})


async def test_the_output_may_come_whole_in_a_last_event(
    server: FakeServer, resources: FakeResources
) -> None:
    options = http(server, Stream(text="$.delta"), output="$.answer")
    pieces = [event({"delta": "Par"}), event({"delta": "is"}), event({"answer": "Paris."})]
    assert without_wait(await streamed(server, resources, options, *pieces)).output == "Paris."


@pytest.mark.parametrize(
    ("stream", "pieces", "kind", "words"),
    [
        (
            Stream(end="done"),
            [event("a")],
            "network",
            "broke off its stream: it ended without 'done'",
        ),
        (
            Stream(),
            [event("a"), event("no model", "error")],
            "server",
            "broke off its stream: no model",
        ),
        (
            Stream(text="$.delta"),
            [event({"text": "a"})],
            "bad_answer",
            'nothing at $.delta in 1 event, of which the first is {"text": "a"}',
        ),
        (Stream(text="$.delta"), [], "bad_answer", "streamed nothing at $.delta in 0 events"),
    ],
)
async def test_a_stream_that_is_no_answer(
    stream: Stream,
    pieces: list[bytes],
    kind: str,
    words: str,
    server: FakeServer,
    resources: FakeResources,
) -> None:
    error = await refusal(server, resources, http(server, stream), *pieces)
    assert error.kind == kind
    assert words in error.message


async def test_a_service_that_does_not_stream_is_told_so(
    server: FakeServer, resources: FakeResources
) -> None:
    server.answers(Scripted({"answer": "Paris"}))
    with pytest.raises(ProviderError) as caught:
        await ask(http(server, Stream()), resources)
    assert caught.value.message.endswith(
        "answered with application/json, not with text/event-stream"
    )
