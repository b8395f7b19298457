"""GitHub's API: limits, failures, redirects, where the token goes, and artifacts unpacked without trust."""

import io
import stat
import struct
import warnings
import zipfile
from pathlib import Path

import pytest
from archives import REPORT, archive, entry_named, of_entries, symlink
from fakes.github import TOKEN, FakeGitHub, Fault, github
from fakes.github_state import FORK, Token
from fakes.http_server import Scripted, serving
from fakes.virtual_time import VirtualTime
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pulls import HEAD, NUMBER, context_of, open_pull, says
from pydantic import TypeAdapter

from ci_evals.errors import GitHubError, StorageError
from ci_evals.github.api import (
    FORK_LIMITS,
    MAX_ATTEMPTS,
    OWN_LIMITS,
    ArchiveLimits,
    Artifact,
    Comment,
    GitHub,
    NoArtifacts,
    Reply,
    artifacts_of_run,
    connect,
    decode,
    fetch,
    limit_wait_s,
    pull_requests_of,
    unpack,
    workflow_run,
)
from ci_evals.github.comment import put_section
from ci_evals.github.context import Context, PullRequest
from ci_evals.model.fields import Secret

# The client: limits, failures, redirects, and where the token goes.


NOW = 1_750_000_000.0


def any_request(_method: str, _path: str) -> bool:
    return True


async def pull(client: GitHub) -> PullRequest:
    return await client.get(f"pulls/{NUMBER}", PullRequest, "pull request")


async def refused(client: GitHub) -> GitHubError:
    with pytest.raises(GitHubError) as caught:
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


async def test_a_limit_that_lasts_too_long_is_an_error_at_once(fake: FakeGitHub, client: GitHub) -> None:
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


@pytest.mark.parametrize("fault", [Fault(any_request, 500), Fault(any_request, 502), Fault(any_request, None)])
async def test_failures_of_reads_are_tried_again(fake: FakeGitHub, client: GitHub, fault: Fault) -> None:
    open_pull(fake)
    fake.fails(fault, fault)
    assert (await pull(client)).number == NUMBER
    assert fake.time.slept in ([1, 2], [1])  # aiohttp itself repeats a read on a connection that was cut


async def test_failures_end_with_a_reason(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    fake.fails(*[Fault(any_request, 503)] * 9)
    error = await refused(client)
    assert error.kind == "unreachable"
    assert "503" in str(error)
    assert len(fake.calls) == MAX_ATTEMPTS


async def test_a_creation_is_not_repeated_when_it_may_have_happened(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    fake.fails(Fault(lambda method, _path: method == "POST", 502, after=True))
    with pytest.raises(GitHubError) as caught:
        await client.create(f"issues/{NUMBER}/comments", {"body": "once"}, Comment, "comment")
    assert caught.value.kind == "unreachable"
    assert len(fake.state.comments) == 1


async def test_a_creation_that_a_limit_refused_is_repeated(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    fake.fails(Fault(lambda method, _path: method == "POST", 403, {"retry-after": "5"}, "secondary rate limit"))
    created = await client.create(f"issues/{NUMBER}/comments", {"body": "once"}, Comment, "comment")
    assert created.body == "once"


async def test_a_body_that_github_does_not_store_is_too_large(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    fits = await client.create(f"issues/{NUMBER}/comments", {"body": "x" * 262_144}, Comment, "comment")
    assert len(fits.body or "") == 262_144
    with pytest.raises(GitHubError, match="too long") as caught:
        await client.create(f"issues/{NUMBER}/comments", {"body": "x" * 262_145}, Comment, "comment")
    assert caught.value.kind == "too_large"


async def test_deleting_what_is_gone_is_no_error(client: GitHub) -> None:
    await client.delete("issues/comments/1")


async def test_a_wrong_token_is_forbidden(fake: FakeGitHub) -> None:
    open_pull(fake)
    async with connect(context_of(fake, "ghs_wrong"), sleep=fake.time.sleep, clock=fake.time.clock) as client:
        with pytest.raises(GitHubError, match="Bad credentials") as caught:
            await pull(client)
    assert caught.value.kind == "forbidden"


async def test_a_context_without_a_token_says_so() -> None:
    with pytest.raises(GitHubError, match="GITHUB_TOKEN is not set"):
        async with connect(Context(repository="acme/app")):
            pass


async def test_an_enterprise_servers_base_path_is_kept() -> None:
    async with github(base_path="/api/v3") as fake:
        open_pull(fake)
        for number in range(150):
            fake.state.add_comment(NUMBER, "reviewer", f"Remark {number}")
        async with connect(context_of(fake), sleep=fake.time.sleep, clock=fake.time.clock) as client:
            await put_section(client, NUMBER, says("Hello."))
            assert len(await client.list(f"issues/{NUMBER}/comments", Comment, "comment")) == 151


async def test_no_more_items_are_listed_than_asked_for(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    for number in range(150):
        fake.state.add_comment(NUMBER, "reviewer", f"Remark {number}")
    assert len(await client.list(f"issues/{NUMBER}/comments", Comment, "comment", limit=120)) == 120
    assert len(fake.calls) == 2


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    time = VirtualTime()
    context = Context(repository="acme/app", api_url="http://127.0.0.1:9", token=Secret(TOKEN, "GITHUB_TOKEN"))
    async with connect(context, sleep=time.sleep, clock=time.clock) as client:
        assert (await refused(client)).kind == "unreachable"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Scripted(b"<html>", headers={"Content-Type": "text/html"}), "unexpected"),
        (Scripted(b"{"), "unexpected"),
        (Scripted(b"\xff\xfe"), "unexpected"),
        (Scripted(b"{}", headers={"Content-Type": "application/json; charset=nonsense"}), "unexpected"),
        (Scripted([]), "unexpected"),
        (Scripted({"number": "seven"}), "unexpected"),
        (Scripted(b"", status=204), "unexpected"),
        (Scripted({"number": 7}, headers={"x-ratelimit-limit": "many", "x-ratelimit-remaining": "1"}), "unexpected"),
        (Scripted(b"null", status=422), "rejected"),
        (Scripted({"message": f"no {TOKEN}"}, status=418), "rejected"),
        (Scripted(b"x", status=302, headers={"Location": "/elsewhere"}), "unexpected"),
        (Scripted(b"x", status=301, headers={"Location": "/again"}), "unexpected"),
    ],
)  # fmt: skip
async def test_answers_that_github_would_not_give_are_errors(answer: Scripted, kind: str) -> None:
    time = VirtualTime()
    async with serving() as server:
        server.answers(answer)
        context = Context(repository="acme/app", api_url=server.url, token=Secret(TOKEN, "GITHUB_TOKEN"))
        async with connect(context, sleep=time.sleep, clock=time.clock) as client:
            assert (await refused(client)).kind == kind


async def test_the_token_is_not_sent_to_another_host() -> None:
    time = VirtualTime()
    async with serving() as server, serving() as elsewhere:
        moved = Scripted(b"", status=301, headers={"Location": f"{elsewhere.url}/repos/acme/app/pulls/7"})
        paged = Scripted([], headers={"Link": f'<{elsewhere.url}/more>; rel="next"'})
        elsewhere.answers(Scripted([]))
        context = Context(repository="acme/app", api_url=server.url, token=Secret(TOKEN, "GITHUB_TOKEN"))
        async with connect(context, sleep=time.sleep, clock=time.clock) as client:
            server.answers(moved)
            assert "token is not sent" in str(await refused(client))
            server.answers(paged)
            with pytest.raises(GitHubError, match="token is not sent"):
                await client.list("pulls", PullRequest, "pull request")
        assert not elsewhere.seen


async def test_a_renamed_repository_is_followed_on_its_own_host() -> None:
    time = VirtualTime()
    async with serving() as server:
        answer = {
            "number": 7,
            "state": "open",
            "head": {"ref": "feature", "sha": "a" * 40},
            "base": {"ref": "main", "sha": "b" * 40},
        }
        server.answers(Scripted(b"", status=301, headers={"Location": "/repositories/1/pulls/7"}), Scripted(answer))
        context = Context(repository="acme/app", api_url=server.url, token=Secret(TOKEN, "GITHUB_TOKEN"))
        async with connect(context, sleep=time.sleep, clock=time.clock) as client:
            assert (await pull(client)).number == 7
        assert server.seen[1].path == "/repositories/1/pulls/7"
        assert server.seen[0].headers["Authorization"] == f"Bearer {TOKEN}"
        assert server.seen[0].headers["X-GitHub-Api-Version"]


@pytest.mark.parametrize("status", [200, 404, 422, 500])
def test_only_403_and_429_are_limits(status: int) -> None:
    assert (
        limit_wait_s(Reply(status, {"retry-after": "9", "x-ratelimit-remaining": "0"}, b"rate limit"), 1, NOW) is None
    )


# Artifacts: of which run, from where, and without the token.


NAMES = ("report.json", "results.jsonl")


async def fetched(client: GitHub, run_id: int, folder: Path, limits: ArchiveLimits = OWN_LIMITS) -> tuple[Path, ...]:
    """The files of a run's newest artifact called evals."""
    found = await artifacts_of_run(client, run_id, "evals")
    assert not isinstance(found, NoArtifacts), found
    return await fetch(client, found[0], folder, NAMES, limits)


async def test_a_download_leaves_the_token_behind(fake: FakeGitHub, client: GitHub, tmp_path: Path) -> None:
    run = fake.state.add_run(HEAD)
    fake.state.add_artifact(run, archive())
    assert [path.read_bytes() for path in await fetched(client, run.id, tmp_path)] == [REPORT]
    (headers,) = fake.storage_requests
    assert "Authorization" not in headers
    assert TOKEN not in str(headers)


async def test_the_newest_of_each_name_that_matches_is_taken_the_newest_first(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    run = fake.state.add_run(HEAD)
    fake.state.add_artifact(run, archive({"results.jsonl": b"attempt 1"}), "shard-1")
    fake.state.add_artifact(run, archive({"results.jsonl": b"attempt 2"}), "shard-1")
    fake.state.add_artifact(run, archive({"results.jsonl": b"other"}), "shard-2")
    fake.state.add_artifact(run, archive({"results.jsonl": b"unrelated"}), "logs")
    found = await artifacts_of_run(client, run.id, "shard-*")
    assert not isinstance(found, NoArtifacts)
    assert [artifact.name for artifact in found] == ["shard-2", "shard-1"]
    files = [file for artifact in found for file in await fetch(client, artifact, tmp_path / artifact.name, NAMES)]
    assert [file.read_bytes() for file in files] == [b"other", b"attempt 2"]


async def test_an_artifact_of_another_run_is_not_taken(fake: FakeGitHub, client: GitHub) -> None:
    run, other = fake.state.add_run(HEAD), fake.state.add_run(HEAD)
    fake.state.add_artifact(other, archive())
    found = await artifacts_of_run(client, run.id, "evals")
    assert found == NoArtifacts(f"the artifact 'evals' of run {run.id} is not there")


async def test_a_name_with_brackets_is_itself_where_it_is_exact_and_shown_as_it_is(
    fake: FakeGitHub, client: GitHub
) -> None:
    run, name = fake.state.add_run(HEAD), "evals [gpt*]"
    fake.state.add_artifact(run, archive(), "evals g")
    found = await artifacts_of_run(client, run.id, name, exact=True)
    assert found == NoArtifacts(f"the artifact 'evals [gpt*]' of run {run.id} is not there")
    fake.state.add_artifact(run, archive(), name)
    found = await artifacts_of_run(client, run.id, name, exact=True)
    assert not isinstance(found, NoArtifacts)
    assert [artifact.name for artifact in found] == [name]


async def test_an_expired_artifact_is_a_reason(fake: FakeGitHub, client: GitHub) -> None:
    run = fake.state.add_run(HEAD)
    fake.state.add_artifact(run, archive(), expired=True)
    found = await artifacts_of_run(client, run.id, "evals")
    assert isinstance(found, NoArtifacts)
    assert "expired" in found.reason


async def test_a_storage_that_fails_is_asked_again_with_a_new_address(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    run = fake.state.add_run(HEAD)
    fake.state.add_artifact(run, archive())
    fake.fails(Fault(lambda method, _path: method == "STORAGE", 503))
    await fetched(client, run.id, tmp_path)
    assert len(fake.storage_requests) == 2
    assert len(fake.asked("GET", "/zip$")) == 2


async def test_a_signed_address_that_is_refused_is_an_error_without_the_address(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    run = fake.state.add_run(HEAD)
    fake.state.add_artifact(run, archive())
    fake.fails(Fault(lambda method, _path: method == "STORAGE", 403))
    with pytest.raises(GitHubError) as caught:
        await fetched(client, run.id, tmp_path)
    assert "sig=" not in str(caught.value)


async def test_an_artifact_over_the_limit_is_not_downloaded(fake: FakeGitHub, client: GitHub, tmp_path: Path) -> None:
    run = fake.state.add_run(HEAD)
    fake.state.add_artifact(run, archive({"report.json": bytes(range(256)) * 20}, method=0))
    with pytest.raises(GitHubError) as caught:
        await fetched(client, run.id, tmp_path, ArchiveLimits(1_000, 1_000, 10))
    assert caught.value.kind == "too_large"
    assert not fake.storage_requests


async def test_a_download_larger_than_was_said_is_cut_off(fake: FakeGitHub, client: GitHub, tmp_path: Path) -> None:
    run = fake.state.add_run(HEAD)
    artifact = fake.state.add_artifact(run, archive())
    listed = (await client.get(f"actions/runs/{run.id}/artifacts", dict, "list"))["artifacts"][0]
    artifact.content = archive({"report.json": bytes(range(256)) * 20}, method=0)
    small = ArchiveLimits(listed["size_in_bytes"], 100_000, 10)
    with pytest.raises(GitHubError) as caught:
        await fetch(client, decode(listed, TypeAdapter(Artifact), "artifact"), tmp_path, NAMES, small)
    assert caught.value.kind == "too_large"


async def test_a_hostile_archive_is_an_error(fake: FakeGitHub, client: GitHub, tmp_path: Path) -> None:
    run = fake.state.add_run(HEAD, head_repository=FORK, event="pull_request")
    fake.state.add_artifact(run, symlink("report.json", b"/etc/passwd"))
    with pytest.raises(GitHubError, match="no plain file"):
        await fetched(client, run.id, tmp_path)


async def test_a_folder_that_cannot_be_written_is_a_storage_error(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    run = fake.state.add_run(HEAD)
    fake.state.add_artifact(run, archive())
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be unpacked"):
        await fetched(client, run.id, tmp_path / "file")


async def test_a_token_without_actions_read_is_forbidden(fake: FakeGitHub, client: GitHub, tmp_path: Path) -> None:
    fake.state.tokens[TOKEN] = Token(may_read_actions=False)
    with pytest.raises(GitHubError) as caught:
        await fetched(client, 1, tmp_path)
    assert caught.value.kind == "forbidden"


async def test_a_forks_pull_request_is_found_by_its_branch(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake, 7, HEAD, head_repository=FORK, head_ref="main")
    open_pull(fake, 8, "c" * 40, head_repository=FORK, head_ref="other")
    open_pull(fake, 9, HEAD, head_ref="main")
    run = fake.state.add_run(HEAD, head_branch="main", head_repository=FORK, event="pull_request")
    found = await pull_requests_of(client, await workflow_run(client, run.id))
    assert [pull.number for pull in found] == [7]


async def test_a_pull_request_that_moved_on_is_not_commented_for_an_old_run(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake, 7, "d" * 40, head_repository=FORK)
    run = fake.state.add_run(HEAD, head_branch="feature", head_repository=FORK, event="pull_request")
    assert await pull_requests_of(client, await workflow_run(client, run.id)) == ()


async def test_a_branch_with_an_odd_name_is_looked_up_as_it_is(fake: FakeGitHub, client: GitHub) -> None:
    odd = "a&state=all#é%2F{x}"
    open_pull(fake, 7, HEAD, head_repository=FORK, head_ref=odd)
    run = fake.state.add_run(HEAD, head_branch=odd, head_repository=FORK, event="pull_request")
    assert [pull.number for pull in await pull_requests_of(client, await workflow_run(client, run.id))] == [7]


async def test_a_run_whose_fork_was_deleted_belongs_to_no_pull_request(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake, 7, HEAD, head_repository=None)
    run = fake.state.add_run(HEAD, head_branch="feature", head_repository=FORK, event="pull_request")
    assert await pull_requests_of(client, await workflow_run(client, run.id)) == ()


# Unpacking what anybody may have packed.


LIMITS = ArchiveLimits(1_000_000, 1_000_000, 20)


def unpacked(content: bytes, folder: Path, limits: ArchiveLimits = LIMITS) -> dict[str, bytes]:
    files = unpack(io.BytesIO(content), folder / "out", NAMES, limits)
    return {path.relative_to(folder / "out").as_posix(): path.read_bytes() for path in files}


def refusal(content: bytes, folder: Path, limits: ArchiveLimits = LIMITS) -> GitHubError:
    with pytest.raises(GitHubError) as caught:
        unpacked(content, folder, limits)
    outside = [path for path in folder.rglob("*") if path.is_file() and not path.is_relative_to(folder / "out")]
    assert not outside
    assert "\n" not in str(caught.value)
    return caught.value


def test_known_names_are_taken_from_any_folder_and_others_passed_over(tmp_path: Path) -> None:
    content = archive({"report.json": REPORT, "b/results.jsonl": b"{}", "b/virus.exe": b"x", "c/": b""})
    assert unpacked(content, tmp_path) == {"1/report.json": REPORT, "2/results.jsonl": b"{}"}
    assert not list(tmp_path.rglob("virus*"))


def test_a_stored_file_is_as_good_as_a_deflated_one(tmp_path: Path) -> None:
    assert unpacked(archive(method=zipfile.ZIP_STORED), tmp_path) == {"1/report.json": REPORT}


@pytest.mark.parametrize(
    "name",
    [
        "../report.json",
        "a/../../report.json",
        "/report.json",
        "/etc/report.json",
        "C:/report.json",
        "a//report.json",
        "./report.json",
        "a\n/report.json",
        "a /report.json",
        "\u202ea/report.json",
    ],
)
def test_a_path_of_the_archive_leads_nowhere(tmp_path: Path, name: str) -> None:
    content = archive({"results.jsonl": b"{}", name: REPORT})
    assert REPORT in unpacked(content, tmp_path).values()
    assert all(file.name in NAMES for file in tmp_path.rglob("*.*"))


@pytest.mark.parametrize(
    "name", ["C:report.json", "..\\report.json", "\\\\host\\report.json", "report.json\0.txt", "Report.json"]
)
def test_a_name_that_is_another_is_passed_over(tmp_path: Path, name: str) -> None:
    assert unpacked(archive({"results.jsonl": b"{}", name: REPORT}), tmp_path) == {"1/results.jsonl": b"{}"}


def test_what_agents_and_verifiers_leave_behind_is_passed_over_whatever_they_call_it(tmp_path: Path) -> None:
    run = "tasks/greeting/agent/run-2"
    left = ("agent.stdout.txt", "Notes", "notes", "notes.", "a b ", "logs/verifier/reward.txt", "report.json")
    content = archive({"report.json": REPORT, **{f"{run}/{name}": b"x" for name in left}})
    assert unpacked(content, tmp_path) == {"1/report.json": REPORT}


@pytest.mark.parametrize("limits", [OWN_LIMITS, FORK_LIMITS])
def test_there_is_room_for_the_files_of_many_runs(tmp_path: Path, limits: ArchiveLimits) -> None:
    content = archive({"report.json": REPORT, **{f"tasks/a/b/run-{number}/out.txt": b"" for number in range(5_000)}})
    assert unpacked(content, tmp_path, limits) == {"1/report.json": REPORT}


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_nothing_but_plain_files_is_unpacked(tmp_path: Path, kind: int) -> None:
    assert "no plain file" in str(refusal(of_entries((entry_named("report.json", kind), b"/etc/passwd")), tmp_path))


def test_a_link_under_another_name_is_passed_over(tmp_path: Path) -> None:
    assert unpacked(symlink("folder", b"/tmp"), tmp_path) == {}


def test_the_same_file_twice_is_refused(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns of what it writes here
        content = of_entries(*[(entry_named("report.json"), REPORT)] * 2)
    assert "twice" in str(refusal(content, tmp_path))


def test_a_bomb_is_cut_off_at_the_limit(tmp_path: Path) -> None:
    content = archive({"report.json": bytes(20_000_000)})
    assert len(content) < 100_000
    error = refusal(content, tmp_path)
    assert error.kind == "too_large"
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= LIMITS.max_unpacked_bytes


def test_the_limit_is_that_of_all_files_together(tmp_path: Path) -> None:
    content = archive({f"{name}/report.json": bytes(300_000) for name in "abcd"})
    assert refusal(content, tmp_path).kind == "too_large"


def test_a_size_that_is_a_lie_is_not_believed(tmp_path: Path) -> None:
    content = bytearray(archive({"report.json": bytes(5_000_000)}))
    directory = content.rindex(b"PK\x01\x02")
    struct.pack_into("<I", content, directory + 24, 10)  # the size when unpacked
    refusal(bytes(content), tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= LIMITS.max_unpacked_bytes


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    content = archive({f"{number}.txt": b"" for number in range(21)})
    assert refusal(content, tmp_path).kind == "too_large"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_refused(tmp_path: Path, method: int) -> None:
    assert "packed" in str(refusal(archive(method=method), tmp_path))


def test_an_encrypted_file_is_refused(tmp_path: Path) -> None:
    content = bytearray(archive())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.rindex(mark) + offset] |= 1
    refusal(bytes(content), tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip", archive()[:-10], archive()[20:]])
def test_what_is_no_zip_is_an_error_with_a_reason(tmp_path: Path, content: bytes) -> None:
    assert "not a sound zip" in str(refusal(content, tmp_path))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 400), st.binary(min_size=1, max_size=4))
def test_a_damaged_zip_is_unpacked_right_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, damage: bytes
) -> None:
    folder = tmp_path_factory.mktemp("zip")
    sound = archive({"report.json": REPORT * 10, "a/results.jsonl": b"{}" * 50})
    at %= len(sound)
    content = sound[:at] + damage + sound[at + len(damage) :]
    try:
        files = unpacked(content, folder)
    except GitHubError:
        return
    assert all(name.split("/")[-1] in NAMES for name in files)
