"""GitHub's API: limits, failures, redirects, and where the token goes."""

import pytest
from fakes.github import TOKEN, FakeGitHub, Fault, github
from fakes.http_server import Scripted, serving
from fakes.virtual_time import VirtualTime
from pulls import NUMBER, context_of, open_pull, put_section, says

from ci_evals.errors import HostError
from ci_evals.model.fields import Secret
from ci_evals.plugins.ci.requests import MAX_ATTEMPTS
from ci_evals.plugins.github.api import GitHub, connect
from ci_evals.plugins.github.comment import Comment
from ci_evals.plugins.github.context import Context, PullRequest

NOW = 1_750_000_000.0


def any_request(_method: str, _path: str) -> bool:
    return True


async def pull(client: GitHub) -> PullRequest:
    return await client.get(f"pulls/{NUMBER}", PullRequest)


async def refused(client: GitHub) -> HostError:
    with pytest.raises(HostError) as caught:
        await pull(client)
    assert TOKEN not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("status", "headers", "wait_s"),
    [
        (403, {"retry-after": "17"}, 17),
        (429, {"retry-after": "17"}, 17),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 90)}, 91),
        (429, {}, 60),
    ],
)
async def test_a_limit_is_waited_for_as_long_as_it_says(
    fake: FakeGitHub, client: GitHub, status: int, headers: dict[str, str], wait_s: float
) -> None:
    open_pull(fake)
    fake.fails(Fault(any_request, status, headers, "Slow down"))
    assert (await pull(client)).number == NUMBER
    assert fake.time.slept == [wait_s]


async def test_a_secondary_limit_without_a_time_is_waited_for_longer_each_time(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    fake.fails(*[Fault(any_request, 403, message="You have exceeded a secondary rate limit")] * 2)
    await pull(client)
    assert fake.time.slept == [60, 120]


async def test_a_limit_that_lasts_too_long_is_an_error_at_once(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    reset = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 3_000)}
    fake.fails(Fault(any_request, 403, reset, "API rate limit exceeded"))
    error = await refused(client)
    assert error.kind == "rate_limited"
    assert "3,001 s" in str(error)
    assert not fake.time.slept


async def test_all_waiting_together_is_bounded(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    fake.fails(*[Fault(any_request, 429, {"retry-after": "70"})] * 20)
    assert (await refused(client)).kind == "rate_limited"
    assert (await refused(client)).kind == "rate_limited"
    assert sum(fake.time.slept) <= 300


async def test_the_fakes_own_hourly_limit_is_kept(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    fake._used[int(fake.time.now // 3600)] = 1_000
    assert (await refused(client)).kind == "rate_limited"


async def test_a_forbidden_call_is_no_limit_even_if_it_was_the_last_one_allowed(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    last = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 60)}
    fake.fails(Fault(any_request, 403, last, "Resource not accessible by integration"))
    error = await refused(client)
    assert error.kind == "forbidden"
    assert "permissions" in str(error)


@pytest.mark.parametrize(
    "fault", [Fault(any_request, 500), Fault(any_request, 502), Fault(any_request, None)]
)
async def test_failures_of_reads_are_tried_again(
    fake: FakeGitHub, client: GitHub, fault: Fault
) -> None:
    open_pull(fake)
    fake.fails(fault, fault)
    assert (await pull(client)).number == NUMBER
    # aiohttp itself repeats a read on a connection that was cut.
    assert fake.time.slept in ([1, 2], [1])


async def test_failures_end_with_a_reason(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    fake.fails(*[Fault(any_request, 503)] * 9)
    error = await refused(client)
    assert error.kind == "unreachable"
    assert "503" in str(error)
    assert len(fake.calls) == MAX_ATTEMPTS


async def test_a_creation_is_not_repeated_when_it_may_have_happened(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    fake.fails(Fault(lambda method, _path: method == "POST", 502, after=True))
    with pytest.raises(HostError) as caught:
        await client.create(f"issues/{NUMBER}/comments", {"body": "once"}, Comment)
    assert caught.value.kind == "unreachable"
    assert len(fake.state.comments) == 1


async def test_a_creation_that_a_limit_refused_is_repeated(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    fake.fails(
        Fault(
            lambda method, _path: method == "POST",
            403,
            {"retry-after": "5"},
            "secondary rate limit",
        )
    )
    created = await client.create(f"issues/{NUMBER}/comments", {"body": "once"}, Comment)
    assert created.body == "once"


async def test_a_body_that_github_does_not_store_is_too_large(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    fits = await client.create(f"issues/{NUMBER}/comments", {"body": "x" * 262_144}, Comment)
    assert len(fits.body or "") == 262_144
    with pytest.raises(HostError, match="too long") as caught:
        await client.create(f"issues/{NUMBER}/comments", {"body": "x" * 262_145}, Comment)
    assert caught.value.kind == "too_large"


async def test_deleting_what_is_gone_is_no_error(client: GitHub) -> None:
    await client.delete("issues/comments/1")


async def test_a_wrong_token_is_forbidden(fake: FakeGitHub) -> None:
    open_pull(fake)
    async with connect(context_of(fake, "ghs_wrong"), sleep=fake.time.sleep) as client:
        with pytest.raises(HostError, match="Bad credentials") as caught:
            await pull(client)
    assert caught.value.kind == "forbidden"


async def test_a_context_without_a_token_says_so() -> None:
    with pytest.raises(HostError, match="GITHUB_TOKEN is not set"):
        async with connect(Context(repository="acme/app")):
            pass


async def test_an_enterprise_servers_base_path_is_kept() -> None:
    async with github(base_path="/api/v3") as fake:
        open_pull(fake)
        for number in range(150):
            fake.state.add_comment(NUMBER, "reviewer", f"Remark {number}")
        async with connect(context_of(fake), sleep=fake.time.sleep) as client:
            await put_section(client, NUMBER, says("Hello."))
            assert len(await client.list(f"issues/{NUMBER}/comments", Comment)) == 151


async def test_no_more_items_are_listed_than_asked_for(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    for number in range(150):
        fake.state.add_comment(NUMBER, "reviewer", f"Remark {number}")
    assert len(await client.list(f"issues/{NUMBER}/comments", Comment, limit=120)) == 120
    assert len(fake.calls) == 2


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    time = VirtualTime()
    context = Context(
        repository="acme/app", api_url="http://127.0.0.1:9", token=Secret(TOKEN, "GITHUB_TOKEN")
    )
    async with connect(context, sleep=time.sleep) as client:
        assert (await refused(client)).kind == "unreachable"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Scripted(b"<html>", headers={"Content-Type": "text/html"}), "unexpected"),
        (Scripted(b"{"), "unexpected"),
        (Scripted(b"\xff\xfe"), "unexpected"),
        (
            Scripted(b"{}", headers={"Content-Type": "application/json; charset=nonsense"}),
            "unexpected",
        ),
        (Scripted([]), "unexpected"),
        (Scripted({"number": "seven"}), "unexpected"),
        (Scripted(b"", status=204), "unexpected"),
        (
            Scripted(
                {"number": 7},
                headers={"x-ratelimit-limit": "many", "x-ratelimit-remaining": "1"},
            ),
            "unexpected",
        ),
        (Scripted(b"null", status=422), "rejected"),
        (Scripted({"message": f"no {TOKEN}"}, status=418), "rejected"),
        (Scripted(b"x", status=301, headers={"Location": "/again"}), "unreachable"),
    ],
)  # fmt: skip
async def test_answers_that_github_would_not_give_are_errors(answer: Scripted, kind: str) -> None:
    time = VirtualTime()
    async with serving() as server:
        server.answers(answer)
        context = Context(
            repository="acme/app", api_url=server.url, token=Secret(TOKEN, "GITHUB_TOKEN")
        )
        async with connect(context, sleep=time.sleep) as client:
            assert (await refused(client)).kind == kind


async def test_the_token_is_not_sent_to_another_host() -> None:
    time = VirtualTime()
    async with serving() as server, serving() as elsewhere:
        moved = Scripted(
            b"", status=301, headers={"Location": f"{elsewhere.url}/repos/acme/app/pulls/7"}
        )
        paged = Scripted([], headers={"Link": f'<{elsewhere.url}/more>; rel="next"'})
        elsewhere.answers(Scripted([]))
        context = Context(
            repository="acme/app", api_url=server.url, token=Secret(TOKEN, "GITHUB_TOKEN")
        )
        async with connect(context, sleep=time.sleep) as client:
            server.answers(moved)
            await refused(client)
            server.answers(paged)
            with pytest.raises(HostError, match="token is not sent"):
                await client.list("pulls", PullRequest)
        (asked,) = elsewhere.seen
        assert TOKEN not in str(asked.headers)


async def test_a_renamed_repository_is_followed_on_its_own_host() -> None:
    time = VirtualTime()
    async with serving() as server:
        answer = {
            "number": 7,
            "state": "open",
            "head": {"ref": "feature", "sha": "a" * 40},
            "base": {"ref": "main", "sha": "b" * 40},
        }
        server.answers(
            Scripted(b"", status=301, headers={"Location": "/repositories/1/pulls/7"}),
            Scripted(answer),
        )
        context = Context(
            repository="acme/app", api_url=server.url, token=Secret(TOKEN, "GITHUB_TOKEN")
        )
        async with connect(context, sleep=time.sleep) as client:
            assert (await pull(client)).number == 7
        assert server.seen[1].path == "/repositories/1/pulls/7"
        assert server.seen[0].headers["Authorization"] == f"Bearer {TOKEN}"
        assert server.seen[0].headers["X-GitHub-Api-Version"]


async def test_a_header_alone_makes_no_limit(fake: FakeGitHub, client: GitHub) -> None:
    fake.fails(Fault(any_request, 404, {"retry-after": "9"}, "rate limit"))
    assert (await refused(client)).kind == "missing"
