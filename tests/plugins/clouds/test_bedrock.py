"""What Bedrock has of its own, above all its credentials; the rest is in `test_model_apis.py`."""

from pathlib import Path
from typing import Any

import pytest
from fakes.bedrock import check_answer, check_event, check_request, event_frame, is_signed_by
from fakes.http_server import (
    FakeResources,
    FakeServer,
    Scripted,
    Seen,
    answered,
    ask,
    request_of,
    streaming,
)

from ci_evals.errors import ConfigError, ProviderError
from ci_evals.model.request import ToolDefinition
from ci_evals.model.response import Message, Part, Response, ToolCall, Usage
from ci_evals.plugins.clouds.bedrock import Bedrock
from ci_evals.providers.base import NativeMessage, ToolRequest, ToolResult
from ci_evals.providers.mock_apis import BedrockConverse
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


def bedrock(server: FakeServer, **changes: Any) -> Bedrock:
    return Bedrock(**{"model": MODEL, "base_url": server.url, "profile": "team", **changes})


@pytest.mark.parametrize("model", [MODEL, ARN])
async def test_the_call_is_signed_as_it_arrives(
    server: FakeServer, resources: FakeResources, model: str
) -> None:
    options = bedrock(server, model=model, headers={"X-Team": "support"})
    await answered(server, resources, options, HELLO)
    (seen,) = server.seen
    assert check_request(seen) == model
    assert is_signed_by(seen, ACCESS_KEY, SECRET, "eu-west-1")
    assert (seen.headers["X-Amz-Security-Token"], seen.headers["X-Team"]) == (TOKEN, "support")
    assert not is_signed_by(seen, ACCESS_KEY, "another", "eu-west-1")


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
        await answered(server, resources, bedrock(server), HELLO, Message("user", (part,)))
    assert (caught.value.kind, server.seen) == ("rejected", [])


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
    provider = bedrock(server, params=params).open(resources)
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


async def test_a_secret_that_a_refusal_repeats_is_not_shown(
    server: FakeServer, resources: FakeResources
) -> None:
    headers = {"x-amzn-ErrorType": "AccessDeniedException"}
    server.answers(Scripted({"message": f"{TOKEN} is not welcome"}, 403, headers))
    with pytest.raises(ProviderError, match=r"\*\*\* is not welcome") as caught:
        await ask(bedrock(server), resources)
    assert (caught.value.kind, len(server.seen)) == ("auth", 1)


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
    provider = bedrock(server, profile="short", region="us-east-1").open(resources)
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
    provider = bedrock(server, profile="short", region="us-east-1").open(resources)
    await provider.answer(request_of())
    await provider.answer(request_of())
    assert [access_key(seen) for seen in server.seen] == ["AKID1", "AKID2", "AKID2"]
    assert is_signed_by(server.seen[1], "AKID2", SECRET, "us-east-1")


async def test_a_refusal_of_credentials_that_stay_the_same_is_an_error(
    server: FakeServer, resources: FakeResources
) -> None:
    server.answers(EXPIRED)
    with pytest.raises(ProviderError, match="answered 403: The security token") as caught:
        await ask(bedrock(server), resources)
    assert (caught.value.kind, len(server.seen)) == ("auth", 1)


# Streams.


def delta(piece: Any, index: int = 0) -> bytes:
    return event_frame("contentBlockDelta", {"delta": piece, "contentBlockIndex": index})


async def test_the_turn_of_a_streamed_tool_call_has_its_thoughts(
    server: FakeServer, resources: FakeResources
) -> None:
    use = {"toolUse": {"toolUseId": "t1", "name": "book"}}
    frames = [
        event_frame("messageStart", {"role": "assistant"}),
        delta({"reasoningContent": {"text": "H"}}),
        delta({"reasoningContent": {"text": "m."}}),
        delta({"reasoningContent": {"signature": "Cpw"}}),
        delta({"text": "Bon"}, 1),
        delta({"text": "jour"}, 1),
        event_frame("contentBlockStart", {"start": use, "contentBlockIndex": 2}),
        delta({"toolUse": {"input": '{"to": '}}, 2),
        delta({"toolUse": {"input": '"Paris"}'}}, 2),
        event_frame("messageStop", {"stopReason": "tool_use"}),
    ]
    server.answers(streaming(frames, kind="application/vnd.amazon.eventstream"))
    response = await ask(bedrock(server, stream=True), resources, tools=(BOOK,))
    check_request(server.seen[0])
    assert isinstance(response, ToolRequest)
    assert response.native == [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "Cpw"}}},
        {"text": "Bonjour"},
        {"toolUse": {"toolUseId": "t1", "name": "book", "input": {"to": "Paris"}}},
    ]


# The mock server.


def test_the_mock_server_answers_as_described() -> None:
    api = BedrockConverse()
    calls = (ToolCall("book", {"to": "Paris"}),)
    rendered = api.render(Response("Hello!", calls, Usage(3, 4)), MODEL, 1)
    check_answer(rendered)
    for kind, data in api.events(rendered):
        check_event({kind: data})


# Settings.


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
