"""Streamed answers: server-sent events in each API's documented shapes, and broken streams."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from fakes.http_server import (
    FakeResources,
    FakeServer,
    Scripted,
    event,
    never,
    request_of,
    streaming,
)
from yarl import URL

from ci_evals.errors import ProviderError
from ci_evals.model.response import Passage, Response, ToolCall, Usage
from ci_evals.providers.anthropic import Anthropic
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.gemini import Gemini
from ci_evals.providers.http import Http, Stream
from ci_evals.providers.http_client import HttpClient
from ci_evals.providers.http_messages import Call
from ci_evals.providers.openai import Embeddings, OpenAI

DONE = b"data: [DONE]\n\n"


async def answer(
    server: FakeServer,
    resources: FakeResources,
    options: ProviderOptions,
    *pieces: bytes,
    breaks: bool = False,
) -> Any:
    server.answers(streaming(pieces, breaks=breaks))
    return await options.open(resources).answer(request_of())


async def refusal(
    server: FakeServer,
    resources: FakeResources,
    options: ProviderOptions,
    *pieces: bytes,
    breaks: bool = False,
) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await answer(server, resources, options, *pieces, breaks=breaks)
    return caught.value


def without_wait(response: Response) -> Response:
    """The response, whose first token came after some time."""
    assert response.first_token_s is not None
    assert 0 < response.first_token_s < 5
    return Response(
        **{name: getattr(response, name) for name in Response.__dataclass_fields__}
        | {"first_token_s": None}
    )


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


USAGE = chunk(
    usage={
        "prompt_tokens": 19,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
)


async def test_openai_assembles_text_and_usage(
    server: FakeServer, resources: FakeResources
) -> None:
    pieces = [
        chunk({"role": "assistant", "content": "", "refusal": None}),
        chunk({"content": "Hällo"}),
        b": OPENROUTER PROCESSING\n\n",
        b"data:\n\n",
        # Azure.
        event(
            {"choices": [{"index": 0, "content_filter_offsets": {}}, {"index": 0, "delta": None}]}
        ),
        chunk({"content": " there"}),
        chunk({}, "stop"),
        USAGE,
        DONE,
    ]
    assert without_wait(await answer(server, resources, openai(server), *pieces)) == Response(
        "Hällo there", usage=Usage(19, 2, 4), model="gpt-4.1", finish_reason="stop"
    )
    (seen,) = server.seen
    assert (seen.json["stream"], seen.json["stream_options"]) == (True, {"include_usage": True})


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
    response = without_wait(await answer(server, resources, openai(server), *pieces))
    assert response.tool_calls == (
        ToolCall("get_weather", {"city": "Paris"}, "call_1"),
        ToolCall("get_time", {"zone": "CET"}, "call_2"),
        ToolCall("whole", {"index": "again"}, "call_3"),
        ToolCall("without", {}, "call_4"),
    )


async def test_an_answer_that_comes_at_once_all_the_same_is_read(
    server: FakeServer, resources: FakeResources
) -> None:
    server.answers(Scripted({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}))
    assert await openai(server).open(resources).answer(request_of()) == Response(
        "Hi", finish_reason="stop"
    )


@pytest.mark.parametrize(
    ("pieces", "kind", "words"),
    [
        (
            [chunk({"content": "He"})],
            "network",
            "broke off its stream before the answer was complete",
        ),
        ([], "network", "broke off its stream before the answer was complete"),
        (
            [event({"error": {"message": "overloaded", "code": 503}})],
            "server",
            "answered 503: overloaded",
        ),
        (
            [event({"error": {"message": "gone", "code": "x"}})],
            "network",
            "broke off its stream: gone",
        ),
        ([event("{]")], "bad_answer", "something unexpected"),
        ([event({"choices": "none"})], "bad_answer", "something unexpected"),
    ],
)
async def test_a_stream_of_openai_that_is_no_answer(
    pieces: list[bytes], kind: str, words: str, server: FakeServer, resources: FakeResources
) -> None:
    error = await refusal(server, resources, openai(server), *pieces)
    assert error.kind == kind
    assert words in error.message


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
        await openai(server).open(resources).answer(request_of(timeout_s=0.2))
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


def test_stream_among_the_params_is_told_where_to_go() -> None:
    (problem,) = OpenAI(model="m", params={"stream": True}).problems(Path())
    assert (
        problem == "params.stream: is set by ci-evals itself; write `stream: true` next to `model`"
    )


# Anthropic.

CLAUDE = [
    event(
        {
            "type": "message_start",
            "message": {
                "id": "msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyY",
                "type": "message",
                "role": "assistant",
                "content": [],
                "model": "claude-sonnet-4-5",
                "stop_reason": None,
                "usage": {"input_tokens": 25, "output_tokens": 1, "cache_read_input_tokens": 5},
            },
        },
        "message_start",
    ),
    event(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    ),
    event({"type": "ping"}, "ping"),
    event(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Let me"},
        }
    ),
    event(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": " look."},
        }
    ),
    event({"type": "content_block_stop", "index": 0}),
    event(
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {
                "type": "tool_use",
                "id": "toolu_01",
                "name": "get_weather",
                "input": {},
            },
        }
    ),
    event(
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": ""},
        }
    ),
    event(
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"a"'},
        }
    ),
    event(
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": ": 1}"},
        }
    ),
    event({"type": "content_block_stop", "index": 1}),
    event(
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 89},
        }
    ),
    event({"type": "message_stop"}, "message_stop"),
]


def anthropic(server: FakeServer) -> Anthropic:
    return Anthropic(model="claude-sonnet-4-5", base_url=server.url, stream=True)


async def test_anthropic_assembles_text_tool_calls_and_usage(
    server: FakeServer, resources: FakeResources
) -> None:
    assert without_wait(await answer(server, resources, anthropic(server), *CLAUDE)) == Response(
        "Let me look.",
        tool_calls=(ToolCall("get_weather", {"a": 1}, "toolu_01"),),
        usage=Usage(30, 89, 5),
        model="claude-sonnet-4-5",
        finish_reason="tool_use",
    )
    assert server.seen[0].json["stream"] is True


async def test_a_stream_of_anthropic_that_breaks(
    server: FakeServer, resources: FakeResources
) -> None:
    error = await refusal(server, resources, anthropic(server), *CLAUDE[:5])
    assert (error.kind, error.retryable) == ("network", True)
    overloaded = event(
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "error"
    )
    error = await refusal(server, resources, anthropic(server), *CLAUDE[:5], overloaded)
    assert (error.kind, error.message) == ("network", "127.0.0.1 broke off its stream: Overloaded")


# Gemini.


def gemini(parts: list[dict[str, Any]], **more: Any) -> bytes:
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0}
    finish = {"finishReason": more.pop("finishReason")} if "finishReason" in more else {}
    return event({"candidates": [candidate | finish], "modelVersion": "gemini-2.5-flash", **more})


async def test_gemini_assembles_parts(server: FakeServer, resources: FakeResources) -> None:
    options = Gemini(model="gemini-2.5-flash", base_url=f"{server.url}?v=1", stream=True)
    pieces = [
        gemini([{"text": "Hmm.", "thought": True}], usageMetadata={"promptTokenCount": 4}),
        gemini([{"text": "Par"}]),
        gemini(
            [{"text": "is"}, {"functionCall": {"name": "book", "args": {"to": "Paris"}}}],
            finishReason="STOP",
            usageMetadata={
                "promptTokenCount": 4,
                "candidatesTokenCount": 2,
                "thoughtsTokenCount": 1,
            },
        ),
    ]
    assert without_wait(await answer(server, resources, options, *pieces)) == Response(
        "Paris",
        tool_calls=(ToolCall("book", {"to": "Paris"}),),
        usage=Usage(4, 3),
        model="gemini-2.5-flash",
        finish_reason="STOP",
    )
    assert (
        server.seen[0].path == "/v1beta/models/gemini-2.5-flash:streamGenerateContent?v=1&alt=sse"
    )
    assert (await refusal(server, resources, options, *pieces[:2])).kind == "network"
    blocked = event({"promptFeedback": {"blockReason": "SAFETY"}})
    assert (await refusal(server, resources, options, blocked)).kind == "rejected"


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
    response = without_wait(await answer(server, resources, http(server, Stream()), *pieces))
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
    assert without_wait(await answer(server, resources, options, *pieces)) == Response(
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
    response = without_wait(await answer(server, resources, options, *pieces))
    assert (response.usage, response.metadata) == (Usage(9, 4), {"trace": "t-1", "stop": "end"})


async def test_the_output_may_come_whole_in_a_last_event(
    server: FakeServer, resources: FakeResources
) -> None:
    options = http(server, Stream(text="$.delta"), output="$.answer")
    pieces = [event({"delta": "Par"}), event({"delta": "is"}), event({"answer": "Paris."})]
    assert without_wait(await answer(server, resources, options, *pieces)).output == "Paris."


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
        await http(server, Stream()).open(resources).answer(request_of())
    assert caught.value.message.endswith(
        "answered with application/json, not with text/event-stream"
    )
