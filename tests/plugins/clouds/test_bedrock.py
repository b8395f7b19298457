"""The Bedrock provider, against AWS's own description of its API."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from fakes.bedrock import check_answer, check_event, check_request, frame, is_signed_by
from fakes.http_server import FakeResources, FakeServer, Respond, Scripted, Seen, request_of

from ci_evals.errors import ConfigError, ProviderError
from ci_evals.model.fields import Secret
from ci_evals.model.request import ToolDefinition
from ci_evals.model.response import Message, Part, Response, ToolCall, Usage
from ci_evals.plugins.clouds.bedrock import Bedrock
from ci_evals.providers.base import NativeMessage, ToolRequest, ToolResult
from ci_evals.providers.mock import Mock
from ci_evals.providers.mock_apis import Converse
from ci_evals.providers.mock_server import run_server
from ci_evals.providers.openai import OpenAI
from ci_evals.providers.pricing import has_price

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
ARN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
ACCESS_KEY, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI-K7MDENG", "session-token-1234"
HELLO: dict[str, Any] = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {
                    "reasoningContent": {
                        "reasoningText": {"text": "The user greets me.", "signature": "Cpw"}
                    }
                },
                {"text": "Hello! "},
                {"text": "How can I help you?"},
            ],
        }
    },
    "stopReason": "end_turn",
    "usage": {
        "inputTokens": 10,
        "outputTokens": 9,
        "totalTokens": 135,
        "cacheReadInputTokens": 16,
        "cacheWriteInputTokens": 100,
    },
    "metrics": {"latencyMs": 551},
}


@pytest.fixture(autouse=True)
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of AWS's configuration, of which only a profile `team` has keys."""
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(variable, raising=False)
    credentials = tmp_path / "credentials"
    credentials.write_text(
        f"[team]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET}\n"
        f"aws_session_token = {TOKEN}\nregion = eu-west-1\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


async def answer(
    server: FakeServer, resources: FakeResources, body: Any, *messages: Message, **changes: Any
) -> Response:
    check_answer(body)
    server.answers(Scripted(body))
    settings = {"model": MODEL, "base_url": server.url, "profile": "team", **changes}
    response = await Bedrock(**settings).open(resources).answer(request_of(*messages))
    for seen in server.seen:
        assert check_request(seen) == settings["model"]
    return response


async def test_the_answer_is_read_and_thoughts_are_left_out(
    server: FakeServer, resources: FakeResources
) -> None:
    assert await answer(server, resources, HELLO) == Response(
        output="Hello! How can I help you?",
        usage=Usage(input_tokens=126, output_tokens=9, cached_tokens=16),
        finish_reason="end_turn",
    )


@pytest.mark.parametrize("model", [MODEL, ARN])
async def test_the_call_is_signed_as_it_arrives(
    server: FakeServer, resources: FakeResources, model: str
) -> None:
    await answer(server, resources, HELLO, model=model, headers={"X-Team": "support"})
    (seen,) = server.seen
    assert is_signed_by(seen, ACCESS_KEY, SECRET, "eu-west-1")
    assert (seen.headers["X-Amz-Security-Token"], seen.headers["X-Team"]) == (TOKEN, "support")
    assert not is_signed_by(seen, ACCESS_KEY, "another", "eu-west-1")


async def test_a_key_takes_the_place_of_a_signature(
    server: FakeServer, resources: FakeResources
) -> None:
    await answer(server, resources, HELLO, profile=None, api_key=Secret("bedrock-key-1"))
    assert server.seen[0].headers["Authorization"] == "Bearer bedrock-key-1"


async def test_another_address_gets_no_credentials_without_a_profile(
    server: FakeServer, resources: FakeResources
) -> None:
    await answer(server, resources, HELLO, profile=None)
    assert "Authorization" not in server.seen[0].headers


async def test_the_request_is_as_described(server: FakeServer, resources: FakeResources) -> None:
    await answer(
        server,
        resources,
        HELLO,
        Message("system", "Be brief."),
        Message(
            "user",
            (
                Part(text="What is this?"),
                Part(image=b"png", media_type="image/png"),
                Part(file=b"%PDF", media_type="application/pdf"),
            ),
        ),
        Message(
            "assistant",
            tool_calls=(ToolCall("book", {"to": "Paris"}, "t1"), ToolCall("pay", "{oops", "t2")),
        ),
        Message("tool", "booked", tool_call_id="t1"),
        Message("tool", "paid", tool_call_id="t2"),
        Message("user", "Thanks"),
        params={
            "inferenceConfig": {"temperature": 0, "maxTokens": 50},
            "additionalModelRequestFields": {"top_k": 5},
        },
    )
    (seen,) = server.seen
    assert seen.json == {
        "inferenceConfig": {"temperature": 0, "maxTokens": 50},
        "additionalModelRequestFields": {"top_k": 5},
        "system": [{"text": "Be brief."}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"text": "What is this?"},
                    {"image": {"format": "png", "source": {"bytes": "cG5n"}}},
                    {
                        "document": {
                            "name": "file",
                            "format": "pdf",
                            "source": {"bytes": "JVBERg=="},
                        }
                    },
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"toolUse": {"toolUseId": "t1", "name": "book", "input": {"to": "Paris"}}},
                    {
                        "toolUse": {
                            "toolUseId": "t2",
                            "name": "pay",
                            "input": {"arguments": "{oops"},
                        }
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "t1", "content": [{"text": "booked"}]}},
                    {"toolResult": {"toolUseId": "t2", "content": [{"text": "paid"}]}},
                    {"text": "Thanks"},
                ],
            },
        ],
    }


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Part(file="https://shop.example/a.pdf"), "does not accept the URL of a file"),
        (Part(file=b"RIFF", media_type="audio/wav"), "does not accept files of the type audio/wav"),
    ],
)
async def test_a_file_that_cannot_be_sent_is_rejected(
    server: FakeServer, resources: FakeResources, part: Part, message: str
) -> None:
    with pytest.raises(ProviderError, match=message) as caught:
        await answer(server, resources, HELLO, Message("user", (part,)))
    assert (caught.value.kind, server.seen) == ("rejected", [])


async def test_a_tool_call_is_read(server: FakeServer, resources: FakeResources) -> None:
    use = {"toolUseId": "tooluse_1", "name": "book", "input": {"to": "Paris"}}
    message = {"role": "assistant", "content": [{"text": "Booking."}, {"toolUse": use}]}
    body = {**HELLO, "output": {"message": message}, "stopReason": "tool_use"}
    response = await answer(server, resources, body)
    assert response.tool_calls == (ToolCall("book", {"to": "Paris"}, "tooluse_1"),)
    assert (response.output, response.finish_reason) == ("Booking.", "tool_use")


BOOK = ToolDefinition("book", "Book a trip.", {"type": "object", "properties": {"to": {}}})


async def test_the_turn_of_a_tool_call_goes_back_with_its_thoughts(
    server: FakeServer, resources: FakeResources
) -> None:
    thought = HELLO["output"]["message"]["content"][0]
    use = {"toolUse": {"toolUseId": "t1", "name": "book", "input": {"to": "Paris"}}}
    message = {"role": "assistant", "content": [thought, use]}
    called = {**HELLO, "output": {"message": message}, "stopReason": "tool_use"}
    server.answers(Scripted(called), Scripted(HELLO))
    params: dict[str, Any] = {"toolConfig": {"toolChoice": {"auto": {}}}}
    options = Bedrock(model=MODEL, base_url=server.url, profile="team", params=params)
    provider = options.open(resources)
    first = await provider.answer(request_of(tools=(BOOK,)))
    assert isinstance(first, ToolRequest)
    said = NativeMessage("assistant", "", first.tool_calls, native=first.native)
    result = ToolResult("tool", "sold out", tool_call_id="t1", name="book", is_error=True)
    question = request_of(Message("user", "Hello!"), said, result, tools=(BOOK,))
    await provider.answer(question)
    for seen in server.seen:
        check_request(seen)
    spec = {"name": "book", "description": "Book a trip.", "inputSchema": {"json": BOOK.parameters}}
    sent = server.seen[1].json
    assert sent["toolConfig"] == {"toolChoice": {"auto": {}}, "tools": [{"toolSpec": spec}]}
    told = {"toolUseId": "t1", "content": [{"text": "sold out"}], "status": "error"}
    assert sent["messages"][1:] == [
        {"role": "assistant", "content": [thought, use]},
        {"role": "user", "content": [{"toolResult": told}]},
    ]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(403, "auth"), (400, "rejected"), (429, "rate_limit"), (408, "server"), (503, "server")],
)
async def test_an_exception_is_an_error_of_its_kind(
    server: FakeServer, resources: FakeResources, status: int, kind: str
) -> None:
    headers = {"x-amzn-ErrorType": "AnException"}
    refusal = {"message": f"{TOKEN} is not welcome"}
    server.answers(Scripted(refusal, status, headers))
    provider = Bedrock(model=MODEL, base_url=server.url, profile="team").open(resources)
    with pytest.raises(ProviderError, match=r"\*\*\* is not welcome") as caught:
        await provider.answer(request_of())
    assert (caught.value.kind, len(server.seen)) == (kind, 1)


async def test_another_kind_of_endpoint_is_a_bad_answer(
    server: FakeServer, resources: FakeResources
) -> None:
    server.answers(Scripted({"choices": []}))
    provider = Bedrock(model=MODEL, base_url=server.url).open(resources)
    with pytest.raises(ProviderError, match="is this Bedrock's Converse") as caught:
        await provider.answer(request_of())
    assert caught.value.kind == "bad_answer"


# Credentials.


SSO = """
[profile staff]
sso_session = s
sso_account_id = 123456789012
sso_role_name = reader
[sso-session s]
sso_start_url = https://example.awsapps.com/start
sso_region = us-east-1
"""


@pytest.mark.parametrize(
    ("profile", "advice"),
    [
        ("nobody", r"profile \(nobody\) could not be found; known: staff, team"),
        ("staff", "Token for s does not exist; run `aws sso login --profile staff`"),
    ],
)
async def test_a_profile_without_credentials_says_what_to_try(
    resources: FakeResources, aws: Path, profile: str, advice: str
) -> None:
    (aws / "config").write_text(SSO)
    options = Bedrock(model=MODEL, region="us-east-1", profile=profile)
    credentials = options.credentials(resources)
    assert credentials is not None
    with pytest.raises(ProviderError, match=advice) as caught:
        await credentials.fetch()
    assert caught.value.kind == "auth"


async def test_no_region_is_a_problem_that_says_what_to_try(resources: FakeResources) -> None:
    with pytest.raises(ConfigError, match="name the AWS region, as in `region: us-east-1`"):
        Bedrock(model=MODEL).open(resources)


def give_temporary_credentials(folder: Path, lifetime: str) -> None:
    """Let the profile `short` have another key each time: AKID1, AKID2, …"""
    script = folder / "process.sh"
    script.write_text(
        f"""#!/bin/sh
echo called >> {folder}/calls
cat <<END
{{"Version": 1, "AccessKeyId": "AKID$(wc -l < {folder}/calls | tr -d ' ')",
  "SecretAccessKey": "{SECRET}", "SessionToken": "{TOKEN}",
  "Expiration": "$(date -u -d '{lifetime}' +%Y-%m-%dT%H:%M:%SZ)"}}
END
"""
    )
    script.chmod(0o755)
    (folder / "config").write_text(f"[profile short]\ncredential_process = {script}\n")


def access_key(seen: Seen) -> str:
    signature = seen.headers["Authorization"]
    return signature.partition("Credential=")[2].partition("/")[0]


async def test_temporary_credentials_are_renewed_before_they_expire(
    server: FakeServer, resources: FakeResources, aws: Path
) -> None:
    give_temporary_credentials(aws, "+5 minutes")
    server.answers(Scripted(HELLO))
    options = Bedrock(model=MODEL, base_url=server.url, profile="short", region="us-east-1")
    provider = options.open(resources)
    await provider.answer(request_of())
    await provider.answer(request_of())
    first, second = map(access_key, server.seen)
    assert first != second
    assert is_signed_by(server.seen[1], second, SECRET, "us-east-1")


EXPIRED = Scripted({"message": "The security token included in the request is expired"}, 403)


async def test_expired_credentials_are_fetched_once_more(
    server: FakeServer, resources: FakeResources, aws: Path
) -> None:
    give_temporary_credentials(aws, "+6 hours")
    server.answers(EXPIRED, Scripted(HELLO))
    options = Bedrock(model=MODEL, base_url=server.url, profile="short", region="us-east-1")
    provider = options.open(resources)
    await provider.answer(request_of())
    await provider.answer(request_of())
    assert [access_key(seen) for seen in server.seen] == ["AKID1", "AKID2", "AKID2"]
    assert is_signed_by(server.seen[1], "AKID2", SECRET, "us-east-1")


async def test_a_refusal_of_credentials_that_stay_the_same_is_an_error(
    server: FakeServer, resources: FakeResources
) -> None:
    server.answers(EXPIRED)
    provider = Bedrock(model=MODEL, base_url=server.url, profile="team").open(resources)
    with pytest.raises(ProviderError, match="answered 403: The security token") as caught:
        await provider.answer(request_of())
    assert (caught.value.kind, len(server.seen)) == ("auth", 1)


# Streams.


def streaming(*frames: bytes) -> Respond:
    async def respond(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "application/vnd.amazon.eventstream"})
        await stream.prepare(request)
        for each in frames:
            await stream.write(each)
        return stream

    return respond


def event(kind: str, payload: Any) -> bytes:
    check_event({kind: payload})
    return frame({":message-type": "event", ":event-type": kind}, payload)


def exception(kind: str, message: str) -> bytes:
    check_event({kind: {"message": message}})
    headers = {":message-type": "exception", ":exception-type": kind}
    return frame(headers, {"message": message})


def delta(piece: Any, index: int = 0) -> bytes:
    return event("contentBlockDelta", {"delta": piece, "contentBlockIndex": index})


STARTED = event("messageStart", {"role": "assistant"})


async def streamed(server: FakeServer, resources: FakeResources, *frames: bytes) -> Response:
    server.answers(streaming(*frames))
    options = Bedrock(model=MODEL, base_url=server.url, profile="team", stream=True)
    response = await options.open(resources).answer(request_of(tools=(BOOK,)))
    check_request(server.seen[0], "ConverseStream")
    return response


async def test_a_stream_is_assembled(server: FakeServer, resources: FakeResources) -> None:
    use = {"toolUse": {"toolUseId": "t1", "name": "book"}}
    response = await streamed(
        server,
        resources,
        STARTED,
        delta({"reasoningContent": {"text": "H"}}),
        delta({"reasoningContent": {"text": "m."}}),
        delta({"reasoningContent": {"signature": "Cpw"}}),
        delta({"text": "Bon"}, 1),
        delta({"text": "jour"}, 1),
        event("contentBlockStart", {"start": use, "contentBlockIndex": 2}),
        delta({"toolUse": {"input": '{"to": '}}, 2),
        delta({"toolUse": {"input": '"Paris"}'}}, 2),
        event("contentBlockStop", {"contentBlockIndex": 2}),
        event("messageStop", {"stopReason": "tool_use"}),
        event("metadata", {"usage": HELLO["usage"], "metrics": {"latencyMs": 5}}),
    )
    assert (response.output, response.finish_reason) == ("Bonjour", "tool_use")
    assert isinstance(response, ToolRequest)
    assert response.native == [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "Cpw"}}},
        {"text": "Bonjour"},
        {"toolUse": {"toolUseId": "t1", "name": "book", "input": {"to": "Paris"}}},
    ]
    assert response.tool_calls == (ToolCall("book", {"to": "Paris"}, "t1"),)
    assert response.usage == Usage(126, 9, 16)
    assert response.first_token_s is not None


@pytest.mark.parametrize(
    ("frames", "kind", "message"),
    [
        ([exception("throttlingException", "Slow.")], "rate_limit", "throttlingException: Slow."),
        ([exception("modelStreamErrorException", "Oops.")], "server", "Oops."),
        ([delta({"text": "Bon"})], "network", "before the answer was complete"),
        ([delta({"text": "Bon"})[:-1] + b"?"], "bad_answer", "the stream is damaged"),
    ],
)
async def test_a_stream_that_fails_is_an_error_of_its_kind(
    server: FakeServer, resources: FakeResources, frames: list[bytes], kind: str, message: str
) -> None:
    with pytest.raises(ProviderError, match=message) as caught:
        await streamed(server, resources, STARTED, *frames)
    assert caught.value.kind == kind


# The mock server.


@pytest.mark.parametrize("stream", [False, True])
async def test_the_mock_server_speaks_converse(resources: FakeResources, stream: bool) -> None:
    mock = Mock(answers={"Hello!": "Hello to you, too."})
    async with run_server(mock) as url:
        base_url = url.removesuffix("/v1")
        options = Bedrock(model=MODEL, base_url=base_url, stream=stream)
        response = await options.open(resources).answer(request_of())
    assert (response.output, response.finish_reason) == ("Hello to you, too.", "end_turn")
    assert response.usage is not None


def test_the_mock_server_answers_as_described() -> None:
    api = Converse()
    calls = (ToolCall("book", {"to": "Paris"}),)
    rendered = api.render(Response("Hello!", calls, Usage(3, 4)), MODEL, 1)
    check_answer(rendered)
    for kind, data in api.events(rendered):
        check_event({kind: data})


# Settings.


def test_settings_in_the_wrong_place_are_problems() -> None:
    options = Bedrock(model=MODEL, params={"temperature": 0, "messages": []})
    example = "params: {inferenceConfig: {temperature: …}}"
    assert options.problems(Path()) == [
        "params.messages: is set by ci-evals itself; remove it",
        f"params.temperature: belongs in `inferenceConfig`: {example}",
    ]


def test_a_header_that_would_replace_the_signature_is_a_problem() -> None:
    headers = {"authorization": "Bearer mine-123456"}
    why = "the AWS credentials use this header; remove it, or set `api_key` instead"
    assert Bedrock(model=MODEL, headers=headers).problems(Path()) == [
        f"headers.authorization: {why}"
    ]
    gateway = Bedrock(model=MODEL, base_url="https://llm.example.com", headers=headers)
    assert gateway.problems(Path()) == []


def test_models_have_a_public_price() -> None:
    assert has_price(Bedrock(model=MODEL))
    assert has_price(Bedrock(model="amazon.nova-lite-v1:0", region="eu-west-1"))
    assert not has_price(Bedrock(model=MODEL, base_url="http://localhost:8000"))
    assert has_price(OpenAI(model="a", base_url="http://localhost", price="amazon.nova-lite-v1:0"))
