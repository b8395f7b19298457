"""Whose fault it is: what a provider or the suite did is not put down to the change."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from fakes.http_server import FakeServer, Scripted, serving
from leftovers import journaled
from processes import Finished, ci_evals
from suites import AGENT, chat, write_files, write_suite

CASES = 25
ODD = "c07"
"""The case whose request or answer differs from the others."""
HURRIED = {"ci_evals.engine.calls.BACKOFF_S": 0.01}
PARIS = {"message": {"role": "assistant", "content": "Paris"}, "finish_reason": "stop"}


def questions(number: int = CASES) -> list[dict[str, Any]]:
    return [
        {"id": f"c{n:02}", "input": f"question {n:02}", "expect": [{"contains": "Paris"}]}
        for n in range(number)
    ]


SHAPES: Mapping[str, Mapping[str, Any]] = {
    "openai": {"model": "m", "choices": [PARIS]},
    "responses": {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Paris"}]}],
    },
    "anthropic": {"content": [{"type": "text", "text": "Paris"}], "stop_reason": "end_turn"},
    "gemini": {"candidates": [{"content": {"parts": [{"text": "Paris"}]}, "finishReason": "STOP"}]},
}
"""The answer of each model API."""
every_api = pytest.mark.parametrize("api", SHAPES)


def api_at(url: str, api: str) -> Mapping[str, Any]:
    """A provider that calls an API at some URL."""
    if api == "responses":
        return chat(f"{url}/v1", api="responses")
    if api == "openai":
        return chat(f"{url}/v1")
    return {"type": api, "model": "m", "base_url": url}


def answering(odd: Scripted, *then: Scripted, api: str = "openai") -> Any:
    """Answers `Paris`, but the odd case with what is scripted: the last one as often as asked."""
    script = [odd, *then]

    async def respond(request: web.Request) -> web.StreamResponse:
        scripted = Scripted(SHAPES[api])
        if f"question {ODD[1:]}" in await request.text():
            scripted = script.pop(0) if len(script) > 1 else script[0]
        return web.json_response(scripted.body, status=scripted.status)

    return respond


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with serving() as found:
        yield found


def installed(folder: Path) -> Mapping[str, str]:
    """The environment in which the packages of `PACKAGES` are installed."""
    return {"PYTHONPATH": str(folder / "site-packages")}


def install_packages(folder: Path) -> None:
    write_files(folder / "site-packages", PACKAGES)


async def run(folder: Path, out: str = "out") -> tuple[Finished, dict[str, Any]]:
    """Run the suite; return how it ended, and the result of the odd case."""
    ended = await ci_evals(
        folder, "run", "--out", out, constants=HURRIED, environ=installed(folder)
    )
    assert ended.code in (0, 1, 3), ended.err
    odd = [each for each in journaled(folder / out) if each["case"] == ODD]
    return ended, {"attempts": 1, **odd[-1]}


# What a model API says.


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"message": "at most 8192 tokens", "code": "context_length_exceeded"}}),
        (400, {"error": {"message": "Invalid schema for function 'book'", "param": "tools"}}),
        (400, {"error": {"message": "Invalid schema for response_format 'answer'"}}),
        (400, {"error": {"message": "the prompt was filtered", "code": "content_filter"}}),
        (413, {"error": {"message": "the request is too large"}}),
        (422, {"detail": "the field `stop` is not supported"}),
        (400, {"error": {"message": "no tool 'x'; asked: what is insufficient_quota?"}}),
        (400, {"error": {"message": "asked: Incorrect API key provided", "type": "invalid"}}),
    ],
)
async def test_a_request_that_is_refused_for_good_is_the_changes(
    status: int, body: Mapping[str, Any], server: FakeServer, tmp_path: Path
) -> None:
    server.answers(answering(Scripted(body, status)))
    write_suite(tmp_path, questions(), providers=[chat(f"{server.url}/v1")], retries=1)
    ended, odd = await run(tmp_path)
    assert ended.code == 1, ended.out
    assert (odd["status"], odd["error"]["kind"]) == ("failed", "rejected")
    message = body.get("detail") or body["error"]["message"]
    assert message in odd["error"]["message"]
    assert message in ended.unwrapped
    assert len(server.seen) == CASES


@every_api
@pytest.mark.parametrize("status", [400, 413, 422])
async def test_every_api_may_refuse_a_request_for_good(
    api: str, status: int, server: FakeServer, tmp_path: Path
) -> None:
    refusal = Scripted({"error": {"message": "not this request"}}, status)
    server.answers(answering(refusal, api=api))
    write_suite(tmp_path, questions(), providers=[api_at(server.url, api)], retries=1)
    ended, odd = await run(tmp_path)
    assert ended.code == 1, ended.out
    assert (odd["status"], odd["error"]["kind"], odd["attempts"]) == ("failed", "rejected", 1)


@every_api
@pytest.mark.parametrize("status", [401, 402, 403, 404, 408, 409, 429, 503])
async def test_other_refusals_are_the_providers_and_leave_the_case_unchecked(
    api: str, status: int, server: FakeServer, tmp_path: Path
) -> None:
    server.answers(answering(Scripted({"error": {"message": "not now"}}, status), api=api))
    write_suite(tmp_path, questions(), providers=[api_at(server.url, api)], retries=1)
    ended, odd = await run(tmp_path)
    assert odd["status"] == "errored"
    assert ended.code == 0, ended.out
    assert ended.headline == f"~ BORDERLINE  not checked: {ODD}"


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "Your credit balance is too low to access the API.", "no_credit"),
        (400, "API key not valid. Please pass a valid API key.", "auth"),
        (400, "Incorrect API key provided: xai-123.", "auth"),
        (400, "This organization has been disabled.", "auth"),
        (429, "insufficient_quota: check your plan", "no_credit"),
    ],
)
async def test_an_empty_account_and_a_wrong_key_are_told_by_more_than_the_status(
    status: int, message: str, kind: str, server: FakeServer, tmp_path: Path
) -> None:
    server.answers(answering(Scripted({"error": {"message": message}}, status)))
    write_suite(tmp_path, questions(), providers=[chat(f"{server.url}/v1")], retries=3)
    _, odd = await run(tmp_path)
    assert (odd["status"], odd["error"]["kind"], odd["attempts"]) == ("errored", kind, 1)


LOST: Mapping[str, Any] = {
    "lost": {
        **PARIS,
        "finish_reason": "error",
        "error": {"code": 502, "message": "the upstream is gone"},
    },
    "lost midway": {"message": {"content": "Par"}, "finish_reason": "error"},
    "lost network": {"message": {"content": ""}, "finish_reason": "network_error"},
    "no room": {"message": {"content": ""}, "finish_reason": "insufficient_system_resource"},
}


@pytest.mark.parametrize("lost", LOST)
async def test_a_choice_that_reports_a_breakdown_is_retried_and_then_the_providers(
    lost: str, server: FakeServer, tmp_path: Path
) -> None:
    broken = Scripted({"model": "m", "choices": [LOST[lost]]})
    server.answers(answering(broken))
    write_suite(tmp_path, questions(), providers=[chat(f"{server.url}/v1")], retries=2)
    ended, odd = await run(tmp_path)
    assert (odd["status"], odd["error"]["kind"], odd["attempts"]) == ("errored", "server", 3)
    assert f"not checked: {ODD}" in ended.headline
    server.answers(answering(broken, Scripted({"model": "m", "choices": [PARIS]})))
    _, odd = await run(tmp_path, "again")
    assert (odd["status"], odd["attempts"]) == ("passed", 2)


async def test_an_answer_without_choices_is_retried_and_then_the_providers(
    server: FakeServer, tmp_path: Path
) -> None:
    server.answers(answering(Scripted({"model": "m", "choices": []})))
    write_suite(tmp_path, questions(), providers=[chat(f"{server.url}/v1")], retries=1)
    _, odd = await run(tmp_path)
    assert (odd["status"], odd["error"]["kind"], odd["attempts"]) == ("errored", "server", 2)


async def test_a_full_context_window_is_the_changes(server: FakeServer, tmp_path: Path) -> None:
    full = {"message": {"content": ""}, "finish_reason": "model_context_window_exceeded"}
    server.answers(answering(Scripted({"model": "m", "choices": [full]})))
    write_suite(tmp_path, questions(), providers=[chat(f"{server.url}/v1")], retries=2)
    ended, odd = await run(tmp_path)
    assert ended.code == 1
    assert (odd["status"], odd["error"]["kind"], odd["attempts"]) == ("failed", "rejected", 1)


async def test_an_empty_answer_is_asked_for_again_and_then_graded(
    server: FakeServer, tmp_path: Path
) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    thought = {"message": {"content": None, "reasoning_content": "Hm."}, "finish_reason": "stop"}
    empty = Scripted({"model": "m", "choices": [thought], "usage": usage})
    server.answers(answering(empty))
    write_suite(tmp_path, questions(), providers=[chat(f"{server.url}/v1")], retries=2)
    ended, odd = await run(tmp_path)
    assert ended.code == 1
    assert (odd["status"], odd["attempts"], odd["repeated_for"]) == ("failed", 3, "empty answer")
    assert odd["response"]["usage"]["input_tokens"] == 30
    assert "answered after up to 3 attempts: empty answer" in ended.unwrapped
    paris = Scripted({"model": "m", "choices": [PARIS], "usage": usage})
    server.answers(answering(empty, paris))
    _, odd = await run(tmp_path, "again")
    assert (odd["status"], odd["attempts"], odd["response"]["usage"]["input_tokens"]) == (
        "passed",
        2,
        20,
    )


# What a function of the team's own lets through.

# The classes of the vendors' packages, as far as faults are told by them.
PACKAGES = {
    "openai/__init__.py": """
class OpenAIError(Exception): pass
class APIError(OpenAIError):
    def __init__(self, text, body=None):
        super().__init__(text)
        self.body = body
class APIStatusError(APIError):
    def __init__(self, status, text, body=None):
        super().__init__(f"Error code: {status} - {text}", body or {"message": text})
        self.status_code = status
class APIConnectionError(APIError): pass
""",
    "google/genai/errors.py": """
class APIError(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code} {text}")
        self.code = code
""",
    "google/genai/client.py": """
import socket
def connect(port):
    socket.create_connection(("127.0.0.1", port))
def call(tool):
    return tool()
""",
    "azure/core/exceptions.py": """
class AzureError(Exception): pass
class ServiceRequestError(AzureError): pass
class HttpResponseError(AzureError):
    def __init__(self, status, text):
        super().__init__(text)
        self.status_code = status
""",
    "framework.py": """
class FrameworkError(Exception): pass
def ask():
    import openai
    try:
        raise openai.APIStatusError(503, "overloaded")
    except openai.APIError as error:
        raise FrameworkError("no answer") from error
""",
}
RAISING = """
import asyncio, socket
def answer(question):
    if "07" not in question:
        return "Paris"
    {statement}
"""
RAISED = {
    "openai 429": (
        "import openai; raise openai.APIStatusError(429, 'slow down')",
        "rate_limit",
    ),
    "openai 401": ("import openai; raise openai.APIStatusError(401, 'bad key')", "auth"),
    "openai 402": ("import openai; raise openai.APIStatusError(402, 'pay')", "no_credit"),
    "openai quota": (
        "import openai; raise openai.APIStatusError(429, 'insufficient_quota')",
        "no_credit",
    ),
    "openai in a stream": (
        "import openai; raise openai.APIError('x', {'type': 'server_error', 'message': 'gone'})",
        "upstream",
    ),
    "openai without a key": (
        "import openai; raise openai.OpenAIError('The api_key client option must be set')",
        "auth",
    ),
    "anthropic in a stream": (
        (
            "import openai; body = {'error': {'type': 'overloaded_error'}};"
            " raise openai.APIStatusError(200, 'x', body)"
        ),
        "upstream",
    ),
    "openai 409": ("import openai; raise openai.APIStatusError(409, 'conflict')", "upstream"),
    "openai connection": ("import openai; raise openai.APIConnectionError('gone')", "upstream"),
    "google 503": (
        "from google.genai import errors; raise errors.APIError(503, 'UNAVAILABLE')",
        "upstream",
    ),
    "google connection": ("from google.genai import client; client.connect(1)", "upstream"),
    "azure 403": (
        "from azure.core import exceptions; raise exceptions.HttpResponseError(403, 'no')",
        "auth",
    ),
    "azure connection": (
        "from azure.core import exceptions; raise exceptions.ServiceRequestError('gone')",
        "upstream",
    ),
    "botocore status": (
        (
            "from botocore.exceptions import ClientError;"
            " raise ClientError({'Error': {'Code': 'ThrottlingException'},"
            " 'ResponseMetadata': {'HTTPStatusCode': 429}}, 'Converse')"
        ),
        "rate_limit",
    ),
    "botocore connection": (
        (
            "from botocore.exceptions import EndpointConnectionError;"
            " raise EndpointConnectionError(endpoint_url='https://bedrock')"
        ),
        "upstream",
    ),
    "botocore credentials": (
        "from botocore.exceptions import NoCredentialsError; raise NoCredentialsError()",
        "auth",
    ),
    "framework": ("import framework; framework.ask()", "upstream"),
    "group": (
        "import openai; raise ExceptionGroup('two', [openai.APIStatusError(500, 'down')])",
        "upstream",
    ),
}
OWN = {
    "openai 400": "import openai; raise openai.APIStatusError(400, 'too long')",
    "openai 404": "import openai; raise openai.APIStatusError(404, 'no such model')",
    "openai without a status": "import openai; raise openai.APIError('strange')",
    "own connection": "socket.create_connection(('127.0.0.1', 1))",
    "own module with a vendor's name": "import replicate; replicate.connect()",
    "own tool called by an SDK": "from google.genai import client; client.call(lambda: 1 / 0)",
    "own connection in an SDK": (
        "from google.genai import client;"
        " client.call(lambda: socket.create_connection(('127.0.0.1', 1)))"
    ),
    "own time-out": "raise TimeoutError('my index')",
    "own requests": "import requests; requests.get('http://127.0.0.1:1')",
    "own class": "raise type('APIStatusError', (Exception,), {'status_code': 429})()",
    "mixed group": (
        "import openai; raise ExceptionGroup('two', [openai.APIError('x'), KeyError('seat')])"
    ),
}


def write_raising(folder: Path, statement: str, **settings: Any) -> None:
    install_packages(folder)
    own = "class ConnectTimeout(Exception): pass\ndef connect(): raise ConnectTimeout('store')\n"
    write_files(folder, {"replicate.py": own})
    write_files(folder, {"agent.py": RAISING.format(statement=statement)})
    write_suite(folder, questions(), providers=[AGENT], **settings)


@pytest.mark.parametrize("raised", RAISED)
async def test_what_a_vendors_sdk_raises_is_the_providers(raised: str, tmp_path: Path) -> None:
    statement, kind = RAISED[raised]
    write_raising(tmp_path, statement)
    ended, odd = await run(tmp_path)
    assert (odd["status"], odd["error"]["kind"], odd["attempts"]) == ("errored", kind, 1), odd
    assert f"not checked: {ODD}" in ended.headline


@pytest.mark.parametrize("raised", OWN)
async def test_what_else_a_function_raises_is_the_changes(raised: str, tmp_path: Path) -> None:
    write_raising(tmp_path, OWN[raised])
    ended, odd = await run(tmp_path)
    assert ended.code == 1
    assert (odd["status"], odd["error"]["kind"]) == ("failed", "crash"), odd


async def test_a_check_that_a_model_api_refuses_is_no_verdict(tmp_path: Path) -> None:
    install_packages(tmp_path)
    check = (
        "def refused(output):\n    import openai\n    raise openai.APIStatusError(429, 'slow')\n"
    )
    write_files(tmp_path, {"checks.py": check})
    cases = questions()
    cases[7]["expect"] = [{"python": "checks:refused"}]
    write_suite(tmp_path, cases, providers=[{"type": "mock", "default": "Paris"}])
    ended, odd = await run(tmp_path)
    assert (odd["status"], odd["error"]["kind"]) == ("errored", "grader")
    assert f"not checked: {ODD}" in ended.headline


# What follows for the verdict.


async def test_a_provider_that_refused_much_is_named_and_nothing_is_asked_again(
    tmp_path: Path,
) -> None:
    install_packages(tmp_path)
    write_files(tmp_path, {"agent.py": "def answer(question):\n    return 'Paris'\n"})
    gate = {"min_pass_rate": 0.5}
    write_suite(tmp_path, questions(), providers=[AGENT], runs=3, gate=gate)
    await ci_evals(tmp_path, "run", "--out", "base", "--runs", "10")
    refusing = """
def answer(question, request):
    import openai
    with open("calls", "a") as calls:
        calls.write(".")
    if int(question[-2:]) < 10:
        raise openai.APIStatusError(429, "slow down")
    return "Rome" if question.endswith("10") and request.run == 1 else "Paris"
"""
    write_files(tmp_path, {"agent.py": refusing})
    ended = await ci_evals(tmp_path, "run", "--baseline", "base", environ=installed(tmp_path))
    assert ended.code == 3, ended.out
    assert "not checked: agent refused 30 of 75 runs (429)" in ended.unwrapped
    assert len((tmp_path / "calls").read_text()) == 3 * CASES


async def test_repeats_end_where_the_provider_refuses_them(tmp_path: Path) -> None:
    install_packages(tmp_path)
    write_files(tmp_path, {"agent.py": "def answer(question):\n    return 'Paris'\n"})
    write_suite(tmp_path, questions(), providers=[AGENT], runs=3, max_concurrency=1)
    await ci_evals(tmp_path, "run", "--out", "base", "--runs", "10")
    refusing = """
from collections import Counter
asked = Counter()
def answer(question):
    import openai
    with open("calls", "a") as calls:
        calls.write(".")
    asked[question] += 1
    if asked[question] > 3:
        raise openai.APIStatusError(429, "slow down")
    return "Rome" if int(question[-2:]) < 4 else "Paris"
"""
    write_files(tmp_path, {"agent.py": refusing})
    ended = await ci_evals(tmp_path, "run", "--baseline", "base", environ=installed(tmp_path))
    assert len((tmp_path / "calls").read_text()) == 3 * CASES + 4 * 4
    assert "not checked, since the repeats errored: c00, c01, c02, c03" in ended.unwrapped


async def test_a_suspect_of_which_some_repeats_were_refused_is_not_green(tmp_path: Path) -> None:
    install_packages(tmp_path)
    write_files(tmp_path, {"agent.py": "def answer(question):\n    return 'Paris'\n"})
    gate = {"min_pass_rate": 0.5}
    write_suite(tmp_path, questions(), providers=[AGENT], runs=2, max_concurrency=1, gate=gate)
    await ci_evals(tmp_path, "run", "--out", "base", "--runs", "2")
    refusing = """
from collections import Counter
asked = Counter()
def answer(question):
    import openai
    asked[question] += 1
    if "07" not in question:
        return "Paris"
    if asked[question] > 5:
        raise openai.APIStatusError(429, "slow down")
    return "Rome"
"""
    write_files(tmp_path, {"agent.py": refusing})
    ended = await ci_evals(tmp_path, "run", "--baseline", "base", environ=installed(tmp_path))
    assert "~ BORDERLINE  not checked, since the repeats errored: c07" in ended.headline, ended.out


async def test_an_empty_answer_before_an_outage_was_paid(
    server: FakeServer, tmp_path: Path
) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    empty = {"message": {"content": ""}, "finish_reason": "stop"}
    server.answers(
        answering(Scripted({"model": "m", "choices": [empty], "usage": usage}), Scripted({}, 503))
    )
    price = {"input_per_mtok": 1e6, "output_per_mtok": 0}
    write_suite(tmp_path, questions(), providers=[chat(f"{server.url}/v1", price=price)], retries=1)
    _, odd = await run(tmp_path)
    assert (odd["status"], odd["cost_usd"]) == ("errored", 10)


async def test_a_filtered_answer_is_not_asked_for_again(server: FakeServer, tmp_path: Path) -> None:
    filtered = {"message": {"content": ""}, "finish_reason": "content_filter"}
    server.answers(answering(Scripted({"model": "m", "choices": [filtered]})))
    write_suite(tmp_path, questions(), providers=[chat(f"{server.url}/v1")], retries=2)
    _, odd = await run(tmp_path)
    assert (odd["status"], odd["attempts"]) == ("failed", 1)


async def test_a_setup_that_always_fails_for_a_case_leaves_it_unchecked(tmp_path: Path) -> None:
    setup = "def shop(request):\n    assert request.case.id != 'c07', 'no stock'\n    return {}\n"
    write_files(tmp_path, {"shop.py": setup})
    settings: dict[str, Any] = {"setup": ["shop:shop"], "runs": 2}
    providers = [{"type": "mock", "default": "Paris"}]
    write_suite(tmp_path, questions(), providers=providers, **settings)
    ended, odd = await run(tmp_path)
    assert (odd["status"], odd["error"]["kind"]) == ("errored", "setup"), odd
    assert ended.code == 0
    assert ended.headline == f"~ BORDERLINE  not checked: {ODD}"
    summary = json.loads((tmp_path / "out" / "report.json").read_bytes())
    assert summary["verdict"]["status"] == "borderline"
