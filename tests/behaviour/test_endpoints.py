"""Endpoints of teams: bearer tokens from commands, and the docs' recipes on documented shapes."""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fakes.chat import completion
from fakes.http_server import FakeServer, Scripted, serving
from leftovers import journaled
from processes import Finished, ci_evals
from suites import chat, write_suite
from token_scripts import TOKEN, accepting, counting, script

from ci_evals.suite.yaml import parse

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the commands are shell scripts")

RESULTS = "ci-evals-results"
CASES = [
    {"id": f"case-{number}", "input": f"q{number}", "expect": [{"not_empty": True}]}
    for number in range(6)
]
DOCS = Path(__file__).parents[2] / "docs" / "providers.md"


def calls(folder: Path) -> int:
    return (folder / "calls").read_text().count("called")


async def test_a_token_is_fetched_once_for_all_calls_and_shown_nowhere(tmp_path: Path) -> None:
    counting(tmp_path)
    async with serving() as server:
        server.answers(accepting("ya29-tok-1-Zx9qPw"))
        service = {"type": "http", "name": "service", "url": server.url, "retries": 0, **TOKEN}
        judged = [{"judge": {"rubric": "polite", "provider": "judge"}}]
        write_suite(
            tmp_path,
            CASES,
            expect=judged,
            providers=[chat(server.url, **TOKEN), chat(server.url, "other", **TOKEN), service],
            judges=[chat(server.url, "judge", **TOKEN)],
            report={"formats": ["json", "junit", "markdown", "html"]},
        )
        ended = await ci_evals(tmp_path, "run")
        assert {seen.headers["Authorization"] for seen in server.seen} == {
            "Bearer ya29-tok-1-Zx9qPw"
        }
    assert calls(tmp_path) == 1
    assert "you sent Bearer ***" in (tmp_path / RESULTS / "results.jsonl").read_text()
    written = [path.read_text() for path in (tmp_path / RESULTS).iterdir() if path.is_file()]
    assert [text for text in (*written, ended.out, ended.err) if "Zx9qPw" in text] == []


async def test_a_refused_token_is_fetched_anew_once_for_all_calls(tmp_path: Path) -> None:
    counting(tmp_path)
    async with serving() as server:
        server.answers(accepting("ya29-tok-2-Zx9qPw"))
        write_suite(tmp_path, CASES, providers=[chat(server.url, retries=0, **TOKEN)])
        ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.err
    assert calls(tmp_path) == 2
    assert "Zx9qPw" not in ended.out + ended.err


async def test_a_token_that_is_refused_for_good_is_an_auth_error_without_it(tmp_path: Path) -> None:
    counting(tmp_path)
    async with serving() as server:
        server.answers(accepting())
        write_suite(tmp_path, CASES[:1], providers=[chat(server.url, **TOKEN)])
        ended = await ci_evals(tmp_path, "run")
        assert len(server.seen) == 2
    assert ended.code == 3
    (line,) = [
        json.loads(line) for line in (tmp_path / RESULTS / "results.jsonl").read_text().splitlines()
    ][1:]
    assert line["error"]["kind"] == "auth"
    assert line["error"]["message"].endswith("answered 401: Bearer *** has expired")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["./no.sh"], "providers[0].token: command: there is no program {folder}/no.sh"),
        ([], "providers[0].token: command is empty: name a program, as in [python, agent.py]"),
        (
            ["sh", "-c", "echo no login >&2; exit 3"],
            (
                "providers[0]: token: no token: `sh -c 'echo no login >&2; "
                "exit 3'` exited with status 3: no login"
            ),
        ),
        (
            "false",
            (
                "providers[0]: token: no token: `false` exited "
                "with status 1 and printed nothing on stderr"
            ),
        ),
        ("true", "providers[0]: token: no token: `true` printed nothing on stdout"),
        (
            "echo a b",
            (
                "providers[0]: token: no token: `echo a b` must "
                "print only the token, on one line: {plain}"
            ),
        ),
    ],
)
async def test_a_command_that_brings_no_token_ends_everything_before_any_call(
    tmp_path: Path, command: str | list[str], problem: str
) -> None:
    async with serving() as server:
        server.answers(Scripted())
        write_suite(
            tmp_path, CASES, providers=[chat(server.url, token={"command": command}, retries=0)]
        )
        ended = await ci_evals(tmp_path, "run")
        assert server.seen == []
    assert ended.code == 2
    expected = problem.format(folder=tmp_path, plain="select plain output, such as `-o tsv` of az")
    assert ended.err.splitlines()[0] == f"evals.yaml:1: {expected}"
    assert "1 problem, nothing was run." in ended.err


async def test_judges_that_are_asked_by_themselves_get_their_token_first(tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text('{"output": "x", "label": "pass"}\n')
    script(tmp_path / "token.sh", "exit 4")
    polite = {**CASES[0], "expect": [{"judge": "polite"}]}
    async with serving() as server:
        server.answers(Scripted())
        judges = [chat(server.url, "strict", retries=0, **TOKEN)]
        write_suite(tmp_path, [polite], judges=judges)
        ended = await ci_evals(tmp_path, "judge", "check", "labels.jsonl")
        assert ended.code == 2, ended.out
        assert "judges[0]: token: no token: `./token.sh` exited with status 4" in ended.err
        assert server.seen == []


async def test_a_token_beside_a_key_is_a_problem(tmp_path: Path) -> None:
    headers = {"authorization": "Basic x"}
    write_suite(
        tmp_path,
        providers=[chat("http://h", token={"command": "true"}, api_key="${KEY}", headers=headers)],
    )
    ended = await ci_evals(tmp_path, "validate", environ={"KEY": "sk-12345678"})
    assert ended.err.splitlines()[:2] == [
        (
            "evals.yaml:1: providers[0]: headers.authorization: the `token` "
            "uses this header: remove one of them"
        ),
        "evals.yaml:1: providers[0]: token: there is also an `api_key`: remove one of them",
    ]


# The recipes.


class Endpoint(NamedTuple):
    """What a recipe sends, and an answer in the documented shape."""

    path: str
    headers: Mapping[str, str]
    answer: Mapping[str, Any]
    cost_usd: float | None = None
    answer_headers: Mapping[str, str] = {}


AZURE: dict[str, Any] = {
    "prompt_filter_results": [
        {"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False}}}
    ],
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "logprobs": None,
            "content_filter_results": {"hate": {"filtered": False, "severity": "safe"}},
            "message": {
                "role": "assistant",
                "content": "Paris",
                "refusal": None,
                "annotations": [],
            },
        }
    ],
    "usage": {"prompt_tokens": 8, "completion_tokens": 1, "total_tokens": 9},
}
PLAIN: dict[str, Any] = {
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Paris"}}
    ],
    "usage": {"prompt_tokens": 8, "completion_tokens": 1, "total_tokens": 9},
}
ENDPOINTS = {
    "azure": Endpoint(
        "/openai/v1/chat/completions", {"Authorization": "Bearer from-az-12345"}, AZURE
    ),
    "azure with a key": Endpoint("/openai/v1/chat/completions", {"api-key": "azure-key-1"}, AZURE),
    "azure with an api-version": Endpoint(
        "/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21",
        {"api-key": "azure-key-1"},
        AZURE,
    ),
    "vertex": Endpoint(
        "/v1/projects/my-project/locations/us-central1/endpoints/openapi/chat/completions",
        {"Authorization": "Bearer from-gcloud-12345"},
        {
            **PLAIN,
            "usage": {
                **PLAIN["usage"],
                "extra_properties": {"google": {"traffic_type": "ON_DEMAND"}},
            },
        },
    ),
    "bedrock": Endpoint(
        "/openai/v1/chat/completions",
        {"Authorization": "Bearer bedrock-key-1"},
        {**PLAIN, "service_tier": "default"},
    ),
    "ollama": Endpoint("/v1/chat/completions", {}, {**PLAIN, "system_fingerprint": "fp_ollama"}),
    "vllm": Endpoint(
        "/v1/chat/completions",
        {"Authorization": "Bearer vllm-key-1"},
        {
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "stop_reason": None,
                    "message": {
                        "role": "assistant",
                        "content": "Paris",
                        "reasoning_content": None,
                        "tool_calls": [],
                    },
                }
            ],
            "usage": {**PLAIN["usage"], "prompt_tokens_details": None},
            "prompt_logprobs": None,
        },
    ),
    "litellm": Endpoint(
        "/v1/chat/completions",
        {"Authorization": "Bearer litellm-key-1"},
        PLAIN,
        cost_usd=0.00021,
        answer_headers={"x-litellm-response-cost": "0.00021"},
    ),
    "openrouter": Endpoint(
        "/api/v1/chat/completions",
        {"Authorization": "Bearer openrouter-key-1"},
        {
            "provider": "Anthropic",
            "choices": [{**PLAIN["choices"][0], "native_finish_reason": "end_turn", "error": None}],
            "usage": {
                **PLAIN["usage"],
                "cost": 0.00014,
                "cost_details": {"upstream_inference_cost": None},
            },
        },
        cost_usd=0.00014,
    ),
}
KEYS = {
    "AZURE_OPENAI_API_KEY": "azure-key-1",
    "AWS_BEARER_TOKEN_BEDROCK": "bedrock-key-1",
    "VLLM_API_KEY": "vllm-key-1",
    "LITELLM_API_KEY": "litellm-key-1",
    "OPENROUTER_API_KEY": "openrouter-key-1",
}


def recipes() -> Mapping[str, dict[str, Any]]:
    """The providers in the docs' section on endpoints, by name."""
    section = DOCS.read_text("utf-8").partition("### Endpoints\n")[2]
    found = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert found
    return {entry["name"]: entry for entry in parse(found[1], DOCS.name)[0]}


async def run_recipe(folder: Path, server: FakeServer, recipe: dict[str, Any]) -> Finished:
    """Run a suite with a recipe whose host is the stand-in."""
    url = re.sub(r"^https?://[^/]+", server.url, recipe["base_url"])
    for program in ("az", "gcloud"):
        script(folder / "bin" / program, f'echo "$@" > {program}.args\necho from-{program}-12345')
    question = {"id": "capital", "input": "Capital of France?", "expect": [{"equals": "Paris"}]}
    write_suite(folder, [question], providers=[{**recipe, "base_url": url}])
    return await ci_evals(
        folder, "run", environ={**KEYS, "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
    )


@pytest.mark.parametrize("name", ENDPOINTS)
async def test_the_recipe_fits_the_documented_shape(name: str, tmp_path: Path) -> None:
    endpoint, recipe = ENDPOINTS[name], recipes()[name]
    async with serving() as server:
        answer = {"id": "chatcmpl-1", "object": "chat.completion", "model": "m", **endpoint.answer}
        server.answers(Scripted(answer, headers=endpoint.answer_headers))
        ended = await run_recipe(tmp_path, server, recipe)
        (seen,) = server.seen
    assert ended.code == 0, ended.out + ended.err
    assert (seen.method, seen.path) == ("POST", endpoint.path)
    sent = {
        header: seen.headers[header]
        for header in ("Authorization", "api-key")
        if header in seen.headers
    }
    assert sent == endpoint.headers
    (result,) = journaled(tmp_path / RESULTS)
    assert result.get("cost_usd") == endpoint.cost_usd
    assert seen.json == {
        "model": recipe["model"],
        "messages": [{"role": "user", "content": "Capital of France?"}],
    }


async def test_every_recipe_is_tried() -> None:
    assert list(recipes()) == list(ENDPOINTS)


# Proxies.


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HTTP_PROXY", "proxy.example:3128"),
        ("https_proxy", "http://team:sk-12345@proxy:port"),
        ("ALL_PROXY", "socks5://127.0.0.1:1080"),
    ],
)
async def test_a_variable_that_names_no_http_proxy_is_refused_once(
    variable: str, value: str, tmp_path: Path
) -> None:
    write_suite(
        tmp_path,
        CASES,
        providers=[chat("http://model.example/v1"), chat("https://model.example/v1", "other")],
    )
    ended = await ci_evals(tmp_path, "run", environ={variable: value})
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(
        "evals.yaml:1: providers[0] and 1 more: "
        f"{variable} is not the URL of an HTTP proxy: write http://HOST:PORT"
    )
    assert "1 problem, nothing was run" in ended.err
    assert "sk-12345" not in ended.err


@pytest.mark.parametrize("variable", ["http_proxy", "ALL_PROXY"])
async def test_calls_go_through_the_proxy_of_the_environment(variable: str, tmp_path: Path) -> None:
    async with serving() as proxy:
        proxy.answers(Scripted(completion("hello")))
        write_suite(tmp_path, CASES, providers=[chat("http://model.example/v1")])
        with_password = proxy.url.replace("http://", "http://team:sk-12345@")
        ended = await ci_evals(tmp_path, "run", environ={variable: with_password})
        assert ended.code == 0, ended
        seen = proxy.seen[0]
        assert seen.path == "http://model.example/v1/chat/completions"
        assert seen.headers["Proxy-Authorization"] == "Basic dGVhbTpzay0xMjM0NQ=="
        asked = len(proxy.seen)
        environ = {variable: with_password, "NO_PROXY": "model.example"}
        ended = await ci_evals(tmp_path, "run", "--first", "1", "--retries", "0", environ=environ)
        assert (ended.code, len(proxy.seen)) == (3, asked)
