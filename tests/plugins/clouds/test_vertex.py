"""What Vertex AI has of its own, above all its tokens; the rest is in `test_model_apis.py`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from fakes.google import giving_tokens, write_key_file
from fakes.http_server import FakeResources, FakeServer, Respond, Scripted, answered
from yarl import URL

from ci_evals.errors import ConfigError, ProviderError
from ci_evals.model.fields import Secret
from ci_evals.model.response import Usage
from ci_evals.plugins.clouds.google import GoogleCredentials
from ci_evals.plugins.clouds.vertex import Vertex
from ci_evals.providers.http_client import HttpClient
from ci_evals.providers.http_messages import Call
from ci_evals.providers.pricing import has_price

HELLO: dict[str, Any] = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [{"text": "Hello!"}]},
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 9, "totalTokenCount": 29},
    "modelVersion": "gemini-2.5-flash",
    "createTime": "2026-01-01T00:00:00.000000Z",
    "responseId": "aGVsbG8",
}
CLAUDE: dict[str, Any] = {
    "id": "msg_vrtx_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5-20250929",
    "content": [{"type": "text", "text": "Hello!"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 20, "output_tokens": 9},
}
IN_PROJECT = "/v1/projects/shop/locations/global"


@pytest.fixture(autouse=True)
def _no_google(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))


def vertex(server: FakeServer, **changes: Any) -> Vertex:
    settings = {"model": "gemini-2.5-flash", "base_url": server.url, "project": "shop", **changes}
    return Vertex(**settings)


async def test_claude_is_asked_as_documented(server: FakeServer, resources: FakeResources) -> None:
    options = vertex(server, model="claude-sonnet-4-5@20250929", location="us-east5")
    response = await answered(server, resources, options, CLAUDE)
    assert (response.output, response.usage) == ("Hello!", Usage(20, 9))
    (seen,) = server.seen
    model = "publishers/anthropic/models/claude-sonnet-4-5@20250929"
    assert seen.path == f"/v1/projects/shop/locations/us-east5/{model}:rawPredict"
    assert seen.json == {
        "anthropic_version": "vertex-2023-10-16",
        "max_tokens": 1024,
        "messages": [{"role": "user", "content": "Hello!"}],
    }


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("endpoints/123", f"{IN_PROJECT}/endpoints/123:generateContent"),
        (
            "projects/1/locations/eu/endpoints/9",
            "/v1/projects/1/locations/eu/endpoints/9:generateContent",
        ),
    ],
)
async def test_a_tuned_model_is_named_by_its_endpoint(
    server: FakeServer, resources: FakeResources, model: str, path: str
) -> None:
    await answered(server, resources, vertex(server, model=model), HELLO)
    assert server.seen[0].path == path


@pytest.mark.parametrize(
    ("location", "address"),
    [
        (None, "https://aiplatform.googleapis.com"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com"),
        ("europe-west1", "https://europe-west1-aiplatform.googleapis.com"),
    ],
)
def test_the_address_is_that_of_the_location(location: str | None, address: str) -> None:
    options = Vertex(model="gemini-2.5-flash", project="shop", location=location)
    assert options.address == address
    assert has_price(options)


async def test_the_environment_names_project_and_location(
    server: FakeServer, resources: FakeResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "from-env")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "us-east1")
    await answered(server, resources, vertex(server, project=None), HELLO)
    assert server.seen[0].path.startswith("/v1/projects/from-env/locations/us-east1/publishers/")


async def test_no_project_is_a_problem_unless_there_is_a_key(
    server: FakeServer, resources: FakeResources
) -> None:
    with pytest.raises(ConfigError, match="project: name the Google Cloud project"):
        vertex(server, project=None).open(resources)
    options = vertex(server, project=None, api_key=Secret("AIza12345"))
    await answered(server, resources, options, HELLO)
    (seen,) = server.seen
    assert seen.path == "/v1/publishers/google/models/gemini-2.5-flash:generateContent"
    assert seen.headers["x-goog-api-key"] == "AIza12345"


# Credentials.


def test_a_header_that_would_replace_the_token_is_a_problem() -> None:
    options = Vertex(model="gemini-2.5-flash", headers={"Authorization": "Bearer mine-123456"})
    why = "Google's credentials use this header; remove it, or set `api_key` or `token` instead"
    assert options.problems(Path()) == [f"headers.Authorization: {why}"]
    assert replace(options, api_key=Secret("AIza12345")).problems(Path()) == []


def accepting(*tokens: str) -> Respond:
    """Answers whoever brings one of the tokens."""

    async def respond(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"].removeprefix("Bearer ") in tokens:
            return web.json_response(HELLO)
        sent = request.headers["Authorization"]
        return web.json_response({"error": {"message": f"{sent} is invalid"}}, status=401)

    return respond


async def call(server: FakeServer, resources: FakeResources, times: int) -> list[str]:
    """Make calls with the default credentials, and return the tokens that were sent."""
    client = HttpClient(resources, GoogleCredentials(resources))
    for _ in range(times):
        await client.send(Call("POST", URL(f"{server.url}/v1/model"), {}, b"{}"), 5)
    return [
        seen.headers["Authorization"].removeprefix("Bearer ")
        for seen in server.seen
        if seen.path == "/v1/model"
    ]


async def test_a_token_is_fetched_once_for_all_calls(
    server: FakeServer, resources: FakeResources, tmp_path: Path
) -> None:
    write_key_file(tmp_path / "key.json", f"{server.url}/token")
    server.answers(giving_tokens(accepting("ya29-google-1-Zx9qPw")))
    assert await call(server, resources, 3) == ["ya29-google-1-Zx9qPw"] * 3
    assert len(server.seen) == 4


async def test_a_refused_token_is_fetched_once_more(
    server: FakeServer, resources: FakeResources, tmp_path: Path
) -> None:
    write_key_file(tmp_path / "key.json", f"{server.url}/token")
    server.answers(giving_tokens(accepting("ya29-google-2-Zx9qPw")))
    sent = await call(server, resources, 2)
    assert sent == ["ya29-google-1-Zx9qPw", "ya29-google-2-Zx9qPw", "ya29-google-2-Zx9qPw"]


async def test_a_token_is_renewed_when_it_expires(
    server: FakeServer, resources: FakeResources, tmp_path: Path
) -> None:
    write_key_file(tmp_path / "key.json", f"{server.url}/token")
    tokens = [f"ya29-google-{number}-Zx9qPw" for number in (1, 2)]
    server.answers(giving_tokens(accepting(*tokens), lifetime_s=60))
    assert await call(server, resources, 2) == tokens


async def test_a_refused_key_file_is_an_auth_error(
    server: FakeServer, resources: FakeResources, tmp_path: Path
) -> None:
    write_key_file(tmp_path / "key.json", f"{server.url}/token")
    server.answers(Scripted({"error": "invalid_grant", "error_description": "gone"}, 400))
    with pytest.raises(ProviderError, match=r"no Google token: .*invalid_grant") as caught:
        await GoogleCredentials(resources).fetch()
    assert caught.value.kind == "auth"
