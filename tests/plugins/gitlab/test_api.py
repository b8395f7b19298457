"""GitLab's API: answers that it does not document, and where the token goes."""

from dataclasses import replace
from pathlib import Path

import pytest
from fakes.http_server import FakeServer, Scripted, serving

from ci_evals.errors import HostError
from ci_evals.model.fields import Secret
from ci_evals.plugins.gitlab.api import connect
from ci_evals.plugins.gitlab.context import GitLabContext

TOKEN = "glpat-0123456789abcdefghij"


def context_of(server: FakeServer) -> GitLabContext:
    return GitLabContext(api_url=server.url, project_id="7", token=Secret(TOKEN, "GITLAB_TOKEN"))


async def listed(context: GitLabContext) -> tuple[str, ...]:
    async with connect(context, "7", patience_s=0) as gitlab:
        return await gitlab.list("names", str)


async def refused(context: GitLabContext) -> HostError:
    with pytest.raises(HostError) as caught:
        await listed(context)
    assert TOKEN not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


async def test_pages_are_read_as_their_links_lead() -> None:
    async with serving() as server:
        link = f'<{server.url}/projects/7/names?page=2&per_page=100>; rel="next"'
        server.answers(Scripted(["a"], headers={"Link": link}), Scripted(["b"]))
        assert await listed(context_of(server)) == ("a", "b")
        assert server.seen[1].path == "/projects/7/names?page=2&per_page=100"


async def test_a_link_to_another_host_gets_no_token() -> None:
    async with serving() as server, serving() as other:
        link = f'<{other.url}/projects/7/names?page=2>; rel="next"'
        server.answers(Scripted(["a"], headers={"Link": link}))
        error = await refused(context_of(server))
        assert "no token is sent there" in str(error)
        assert other.seen == []


async def test_a_redirect_of_the_api_is_not_followed() -> None:
    async with serving() as server, serving() as other:
        server.answers(Scripted(b"", 302, {"Location": f"{other.url}/elsewhere"}))
        assert (await refused(context_of(server))).kind == "unexpected"
        assert other.seen == []


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Scripted(b"<html>a proxy</html>"), "unexpected"),
        (Scripted({"names": []}), "unexpected"),
        (Scripted([1]), "unexpected"),
        (Scripted({"message": {"base": ["is too long"]}}, 400), "rejected"),
        (Scripted(b"", 404), "missing"),
        (Scripted({"message": "404 Project Not Found"}, 404), "forbidden"),
        (Scripted({"message": "no"}, 429, {"Retry-After": "30"}), "rate_limited"),
        (Scripted(b"<html>Bad gateway</html>", 502), "unreachable"),
    ],
)
async def test_an_answer_that_is_of_no_use_is_an_error(answer: Scripted, kind: str) -> None:
    async with serving() as server:
        server.answers(answer)
        assert (await refused(context_of(server))).kind == kind


async def test_without_a_token_nothing_is_sent() -> None:
    async with serving() as server:
        context = replace(context_of(server), token=None)
        assert (await refused(context)).kind == "forbidden"
        assert server.seen == []


async def test_a_download_that_is_too_large_ends(tmp_path: Path) -> None:
    async with serving() as server:
        server.answers(Scripted(b"x" * 1_001))
        async with connect(context_of(server), "7") as gitlab:
            with (tmp_path / "file").open("wb") as file, pytest.raises(HostError) as caught:
                await gitlab.download("jobs/1/artifacts", file, 1_000)
    assert caught.value.kind == "too_large"
