"""Models in the clouds: credentials that are found, missing, renewed, and shown nowhere."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from fakes.bedrock import check_request, is_signed_by
from fakes.google import check_vertex, giving_tokens, write_key_file
from fakes.http_server import FakeServer, Scripted, serving
from leftovers import journaled
from processes import ci_evals
from suites import write_suite

RESULTS = "ci-evals-results"
MODEL = "amazon.nova-lite-v1:0"
PRICE = {"input_per_mtok": 0.06, "output_per_mtok": 0.24}
CASES = [
    {"id": f"case-{number}", "input": f"q{number}", "expect": [{"not_empty": True}]}
    for number in range(3)
]
ACCESS_KEY, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI-K7MDENG", "session-token-1234"
AWS = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "eu-west-1"}
KEYS = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_SESSION_TOKEN": TOKEN,
}


def bedrock(**changes: Any) -> dict[str, Any]:
    return {"type": "bedrock", "model": MODEL, **changes}


def converse(text: str) -> dict[str, Any]:
    return {
        "output": {"message": {"role": "assistant", "content": [{"text": text}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 1000, "outputTokens": 100, "totalTokens": 1100},
        "metrics": {"latencyMs": 5},
    }


def proxied(server: FakeServer) -> dict[str, str]:
    """The environment in which calls to Bedrock, without TLS, arrive at the stand-in."""
    return {**AWS, "HTTP_PROXY": server.url}


async def test_bedrock_is_called_with_the_credentials_of_the_environment(tmp_path: Path) -> None:
    address = "http://bedrock-runtime.eu-west-1.amazonaws.com"
    async with serving() as server:
        throttled = {"message": "Too many requests, please wait before trying again."}
        headers = {"x-amzn-ErrorType": "ThrottlingException", "Retry-After": "0"}
        server.answers(Scripted(throttled, 429, headers), Scripted(converse(f"Paris {TOKEN}")))
        write_suite(
            tmp_path,
            CASES,
            providers=[bedrock(base_url=address, price=PRICE)],
            report={"formats": ["json", "junit", "markdown", "html"]},
        )
        ended = await ci_evals(tmp_path, "run", environ={**KEYS, **proxied(server)})
        assert ended.code == 0, ended.out + ended.err
        assert len(server.seen) == 4
        for seen in server.seen:
            assert check_request(seen) == MODEL
            assert is_signed_by(seen, ACCESS_KEY, SECRET, "eu-west-1")
    results = journaled(tmp_path / RESULTS)
    assert [result["response"]["output"] for result in results] == ["Paris ***"] * 3
    assert [result["cost_usd"] for result in results] == [pytest.approx(0.000084)] * 3
    written = [path.read_text() for path in (tmp_path / RESULTS).iterdir() if path.is_file()]
    assert [text for text in (*written, ended.out, ended.err) if TOKEN in text] == []


async def test_a_profile_and_its_secrets_are_not_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "aws").write_text(
        f"[team]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET}\n"
    )
    environ = {**AWS, "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "aws")}
    async with serving() as server:
        server.answers(Scripted(converse(f"My secret is {SECRET}.")))
        provider = bedrock(base_url=server.url, profile="team")
        write_suite(tmp_path, CASES[:1], providers=[provider])
        ended = await ci_evals(tmp_path, "run", environ=environ)
        assert is_signed_by(server.seen[0], ACCESS_KEY, SECRET, "eu-west-1")
    assert ended.code == 0, ended.out + ended.err
    (result,) = journaled(tmp_path / RESULTS)
    assert result["response"]["output"] == "My secret is ***."
    assert SECRET not in json.dumps(result)


async def test_missing_aws_credentials_end_everything_before_any_call(tmp_path: Path) -> None:
    async with serving() as server:
        server.answers(Scripted())
        address = "http://bedrock-runtime.eu-west-1.amazonaws.com"
        write_suite(tmp_path, CASES, providers=[bedrock(base_url=address)])
        environ = {**proxied(server), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none")}
        ended = await ci_evals(tmp_path, "run", environ=environ)
        assert server.seen == []
    assert ended.code == 2
    start = "evals.yaml:1: providers[0]: credentials: no AWS credentials were found: set AWS_ACCESS"
    assert ended.err.startswith(start)
    assert "1 problem, nothing was run" in ended.err


# Vertex AI.

VERTEX = {
    "type": "vertex",
    "model": "gemini-2.5-flash",
    "project": "shop",
    "location": "us-central1",
    "base_url": "http://us-central1-aiplatform.googleapis.com",
}


async def gemini(request: web.Request) -> web.StreamResponse:
    """Answers with what was sent as authorization."""
    text = f"Paris {request.headers['Authorization']}"
    answer = {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
        ],
        "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 100},
        "modelVersion": "gemini-2.5-flash",
    }
    return web.json_response(answer)


async def test_vertex_is_called_with_a_token_that_is_shown_nowhere(tmp_path: Path) -> None:
    async with serving() as server:
        server.answers(giving_tokens(gemini))
        write_key_file(tmp_path / "key.json", f"{server.url}/token")
        write_suite(
            tmp_path,
            CASES,
            providers=[VERTEX, {**VERTEX, "name": "other"}],
            report={"formats": ["json", "junit", "markdown", "html"]},
        )
        environ = {
            "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "key.json"),
            "HTTP_PROXY": server.url,
            "NO_PROXY": "127.0.0.1",
        }
        ended = await ci_evals(tmp_path, "run", environ=environ)
        assert ended.code == 0, ended.out + ended.err
        tokens, *calls = server.seen
    assert tokens.path == "/token"
    assert {seen.headers["Authorization"] for seen in calls} == {"Bearer ya29-google-1-Zx9qPw"}
    assert len(calls) == 6
    for seen in calls:
        check_vertex(seen.json, "request")
    outputs = {result["response"]["output"] for result in journaled(tmp_path / RESULTS)}
    assert outputs == {"Paris Bearer ***"}
    written = [path.read_text() for path in (tmp_path / RESULTS).iterdir() if path.is_file()]
    assert [text for text in (*written, ended.out, ended.err) if "Zx9qPw" in text] == []


async def test_missing_google_credentials_end_everything_before_any_call(tmp_path: Path) -> None:
    async with serving() as server:
        server.answers(Scripted())
        write_suite(tmp_path, CASES, providers=[VERTEX])
        missing = str(tmp_path / "none.json")
        environ = {"HTTP_PROXY": server.url, "GOOGLE_APPLICATION_CREDENTIALS": missing}
        ended = await ci_evals(tmp_path, "run", environ=environ)
        assert server.seen == []
    assert ended.code == 2
    assert ended.err.startswith("evals.yaml:1: providers[0]: credentials: no Google credentials: ")
    assert "gcloud auth application-default login" in ended.err


async def test_a_missing_project_and_region_are_problems_of_one_run(tmp_path: Path) -> None:
    write_suite(tmp_path, CASES, providers=[bedrock(), {"type": "vertex", "model": "m"}])
    ended = await ci_evals(tmp_path, "run", environ={"AWS_EC2_METADATA_DISABLED": "true"})
    assert ended.code == 2
    region = "region: name the AWS region, as in `region: us-east-1`, or set AWS_REGION"
    project = "project: name the Google Cloud project, or set GOOGLE_CLOUD_PROJECT"
    assert ended.err.splitlines()[:2] == [
        f"evals.yaml:1: providers[0]: {region}",
        f"evals.yaml:1: providers[1]: {project}",
    ]
