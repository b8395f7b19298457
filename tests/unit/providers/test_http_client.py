"""Calls over HTTP: what comes back whole, and how each failure is named."""

import asyncio
import errno
import gzip
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import ClientSession, web
from fakes.http_server import FakeServer, Scripted, fake_resources, never, serving
from multidict import CIMultiDict
from pydantic import TypeAdapter
from yarl import URL

from ci_evals.errors import ProviderError
from ci_evals.providers.http_client import HttpClient, open_session, why_lost
from ci_evals.providers.http_headers import retry_after_s
from ci_evals.providers.http_messages import Call, decode, place_of, readable

NOW = datetime(2025, 6, 15, 12, 0, 0, tzinfo=UTC)


async def call(
    server: FakeServer, *, timeout_s: float = 5, headers: Any = (), **options: Any
) -> bytes:
    async with fake_resources() as resources:
        sent = Call("POST", URL(server.url), CIMultiDict(headers), options.pop("data", b"{}"))
        return (await HttpClient(resources, **options).send(sent, timeout_s)).body


def place(server: FakeServer) -> str:
    return server.url.removeprefix("http://").rstrip("/")


async def refused(server: FakeServer, **options: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await call(server, **options)
    return caught.value


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "rejected"),
        (401, "auth"),
        (402, "no_credit"),
        (403, "auth"),
        (404, "not_found"),
        (408, "server"),
        (409, "server"),
        (413, "rejected"),
        (422, "rejected"),
        (429, "rate_limit"),
        (500, "server"),
        (503, "server"),
        (529, "server"),
    ],
)
async def test_each_status_has_its_kind(server: FakeServer, status: int, kind: str) -> None:
    server.answers(Scripted({"error": {"message": "no such luck"}}, status))
    error = await refused(server)
    assert (error.kind, error.status, error.message) == (
        kind,
        status,
        f"{place(server)} answered {status}: no such luck",
    )


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"error": {"message": "of OpenAI", "code": None}}, "of OpenAI"),
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            "Overloaded",
        ),
        (
            [{"error": {"code": 400, "message": "of Google", "status": "INVALID_ARGUMENT"}}],
            "of Google",
        ),
        ({"error": "of Ollama"}, "of Ollama"),
        ({"message": "of Mistral"}, "of Mistral"),
        ({"detail": "of FastAPI"}, "of FastAPI"),
        ({"detail": [{"msg": "Field required"}]}, '{"detail": [{"msg": "Field required"}]}'),
        (b"plain \x00 text\nin two lines", "plain \\x00 text in two lines"),
        (b"", "Bad Gateway"),
        ("<html><style>p{}</style><title>502</title><p>Bad\n<b>luck</b></html>", "502 Bad luck"),
        (b"[" * 5000, f"{'[' * 299}…"),
        (b"x" * 301, f"{'x' * 299}…"),
    ],
)
async def test_a_refusal_is_told_in_the_servers_own_words(
    server: FakeServer, body: Any, shown: str
) -> None:
    server.answers(Scripted(body, 502))
    assert (await refused(server)).message == f"{place(server)} answered 502: {shown}"


async def test_a_key_that_the_server_repeats_is_not_shown(server: FakeServer) -> None:
    server.answers(Scripted({"error": {"message": "bad key sk-12345 for team-7"}}, 401))
    error = await refused(server, headers={"Authorization": "Bearer sk-12345", "X-Team": "team-7"})
    assert error.message == f"{place(server)} answered 401: bad key *** for team-7"


async def test_a_key_that_is_none_leaves_the_message_readable(server: FakeServer) -> None:
    server.answers(Scripted({"error": {"message": "no such model: expected one of xl, xs"}}, 404))
    error = await refused(server, headers={"Authorization": "Bearer x"})
    assert error.message == f"{place(server)} answered 404: no such model: expected one of xl, xs"


async def test_a_redirect_is_not_followed_and_its_address_not_advised(server: FakeServer) -> None:
    server.answers(
        Scripted(status=307, headers={"Location": "https://elsewhere.example/v1?key=secret"})
    )
    error = await refused(server)
    assert (error.kind, error.status, len(server.seen)) == ("not_found", 307, 1)
    advice = "check the provider's `base_url` or `url`"
    assert (
        error.message
        == f"{place(server)} answered 307, a redirect, which is not followed: {advice}"
    )


@pytest.mark.parametrize(
    ("headers", "expected_s"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "Sun, 15 Jun 2025 12:00:30 GMT"}, 30),
        ({"Retry-After": "Sun, 15 Jun 2025 11:00:00 GMT"}, 0),
        ({"Retry-After": "7", "retry-after-ms": "250"}, 0.25),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": ""}, None),
        ({"Retry-After": "Sun, 15 Jun 2025 12:00:30 +99999999999999999999"}, None),
    ],
)
def test_retry_after_is_understood_in_all_its_forms(
    headers: dict[str, str], expected_s: float | None
) -> None:
    assert retry_after_s(CIMultiDict(headers), NOW) == expected_s


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_kept(server: FakeServer, status: int) -> None:
    server.answers(Scripted(status=status, headers={"Retry-After": "12"}))
    assert (await refused(server)).retry_after_s == 12


async def test_a_date_to_retry_after_is_measured_by_the_servers_own_clock(
    server: FakeServer,
) -> None:
    dates = {
        "Date": "Sun, 15 Jun 2025 12:00:00 GMT",
        "Retry-After": "Sun, 15 Jun 2025 12:01:00 GMT",
    }
    server.answers(Scripted(status=429, headers=dates))
    assert (await refused(server)).retry_after_s == 60


async def test_googles_retry_info_is_read_from_the_body(server: FakeServer) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    error = {
        "code": 429,
        "message": "Quota exceeded",
        "status": "RESOURCE_EXHAUSTED",
        "details": [info],
    }
    server.answers(Scripted({"error": error}, 429))
    assert (await refused(server)).retry_after_s == 34.5


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://api.example/v1/chat?key=sk-12345", "api.example/v1/chat"),
        ("http://me:sk-12345@localhost:8000/ask#top", "localhost:8000/ask"),
        ("http://[::1]:8000/", "[::1]:8000"),
    ],
)
def test_an_address_is_told_with_host_port_and_path_and_nothing_that_may_be_secret(
    url: str, place: str
) -> None:
    assert place_of(URL(url)) == place


async def test_a_time_out_names_its_seconds(server: FakeServer) -> None:
    server.answers(never)
    error = await refused(server, timeout_s=0.05)
    assert (error.kind, error.message) == (
        "timeout",
        f"{place(server)} did not answer within 0.05 s",
    )


async def test_a_time_out_while_the_answer_arrives_is_a_time_out(server: FakeServer) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        await begun(request)
        return await never(request)

    server.answers(half)
    assert (await refused(server, timeout_s=0.1)).kind == "timeout"


async def test_half_an_answer_is_a_lost_connection(server: FakeServer) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = await begun(request)
        assert request.transport is not None
        request.transport.close()
        return response

    server.answers(half)
    error = await refused(server)
    assert error.kind == "network"
    assert error.message.startswith("no answer from 127.0.0.1:")


async def begun(request: web.Request) -> web.StreamResponse:
    """Half of what was announced."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b"{")
    return response


async def test_a_dropped_connection_is_a_network_error(server: FakeServer) -> None:
    async def drop(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    server.answers(drop)
    assert (await refused(server)).kind == "network"


async def test_a_refused_connection_is_a_network_error_that_says_where() -> None:
    async with serving() as server:
        pass
    error = await refused(server)
    refusal = "the connection was refused; is a server running there?"
    assert (error.kind, error.message) == (
        "network",
        f"no answer from {URL(server.url).authority}: {refusal}",
    )


async def test_a_proxy_that_cannot_be_reached_is_named_without_its_password() -> None:
    async with serving() as gone:
        proxy = URL(gone.url).with_user("team").with_password("sk-12345")
    async with ClientSession(proxy=proxy) as session, fake_resources() as resources:
        resources.made[open_session] = session
        call = Call("POST", URL("http://model.example/v1?key=sk-12345"), {})
        with pytest.raises(ProviderError) as caught:
            await HttpClient(resources).send(call, 5)
    reached = f"model.example/v1 through the proxy {URL(gone.url).authority}"
    assert (
        caught.value.message
        == f"no answer from {reached}: the connection was refused; is a server running there?"
    )


@pytest.mark.parametrize("host", ["bücher.localhost", "[::1]"])
async def test_a_host_is_named_as_it_was_written_and_no_proxy_is_made_up(host: str) -> None:
    async with serving() as gone:
        port = URL(gone.url).port
    async with fake_resources() as resources:
        with pytest.raises(ProviderError) as caught:
            await HttpClient(resources).send(Call("POST", URL(f"http://{host}:{port}/v1"), {}), 5)
    assert caught.value.message.startswith(f"no answer from {host}:{port}/v1: ")


def test_what_asyncio_says_of_any_connection_is_told_in_the_systems_words() -> None:
    unreachable = OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.1', 80)")
    assert why_lost(unreachable) == os.strerror(errno.EHOSTUNREACH)


async def test_something_that_is_no_http_is_a_network_error_without_the_url() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        writer.close()

    ssh = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with ssh, fake_resources() as resources:
        url = URL(f"http://127.0.0.1:{ssh.sockets[0].getsockname()[1]}/?key=sk-12345")
        with pytest.raises(ProviderError) as caught:
            await HttpClient(resources).send(Call("POST", url, {}), 5)
    assert caught.value.kind == "network"
    assert "sk-12345" not in caught.value.message


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_answer_within_the_limit_is_read_and_a_longer_one_refused(
    server: FakeServer, chunked: bool
) -> None:
    async def thousand(request: web.Request) -> web.StreamResponse:
        response = web.Response(body=b"x" * 1000)
        if chunked:
            response.enable_chunked_encoding()
        return response

    server.answers(thousand)
    assert await call(server, max_bytes=1000) == b"x" * 1000
    error = await refused(server, max_bytes=999)
    assert (error.kind, error.message) == (
        "bad_answer",
        f"{place(server)} answered with more than 999 bytes",
    )


async def test_a_compressed_answer_is_measured_unpacked(server: FakeServer) -> None:
    server.answers(Scripted(gzip.compress(b"x" * 100_000), headers={"Content-Encoding": "gzip"}))
    assert len(await call(server, max_bytes=100_000)) == 100_000
    assert (await refused(server, max_bytes=99_999)).kind == "bad_answer"


async def test_a_large_body_arrives_whole(server: FakeServer) -> None:
    server.answers(Scripted({}))
    await call(server, data=b"x" * 3_000_000)
    assert len(server.seen[0].body) == 3_000_000


@dataclass
class Named:
    name: str


named = TypeAdapter(Named)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"name": "plain"}', "plain"),
        (b'{"name": "a\xff"}', "a\ufffd"),
        (b'{"name": "\\ud800"}', "\ufffd"),
        (b'{"name": "a\x01\nb"}', "a\x01\nb"),
        (b'\xef\xbb\xbf{"name": "after a BOM"}', "after a BOM"),
    ],
)
def test_json_that_is_slightly_broken_is_read_all_the_same(body: bytes, name: str) -> None:
    assert decode(named, body, "host") == Named(name)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "an empty body"),
        (b"<!DOCTYPE html><p>Sign in", "host answered with HTML, not JSON: Sign in"),
        (b'{"name": 1}', "something unexpected (name: Input should be a valid string)"),
        (b'{"name": ', "something unexpected"),
        (b'{"x":' + b"[" * 100_000, "something unexpected"),
    ],
)
def test_an_answer_of_another_shape_is_quoted(body: bytes, message: str) -> None:
    with pytest.raises(ProviderError) as caught:
        decode(named, body, "host")
    assert caught.value.kind == "bad_answer"
    assert message in caught.value.message
    assert len(caught.value.message) < 500


def test_hostile_text_becomes_one_short_line() -> None:
    assert readable("a\x1b[31m\u202e\ud800\r\n::error::b") == "a\\x1b[31m\\u202e\\ud800 ::error::b"
    assert len(readable("<" * 1_000_000)) <= 301
