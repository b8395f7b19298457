"""Artifacts: of which run, from where, and without the token."""

from pathlib import Path

import pytest
from archives import REPORT, archive, symlink
from fakes.github import TOKEN, FakeGitHub, Fault
from fakes.github_state import FORK, Token
from pulls import HEAD, open_pull

from ci_evals.errors import GitHubError, StorageError
from ci_evals.github.archive import OWN_LIMITS, ArchiveLimits
from ci_evals.github.artifacts import NothingLeft, artifacts_of_run, fetch, pull_requests_of, run_of
from ci_evals.github.client import GitHub


async def fetched(client: GitHub, run_id: int, folder: Path, limits: ArchiveLimits = OWN_LIMITS) -> tuple[Path, ...]:
    """The files of a run's newest artifact called evals."""
    found = await artifacts_of_run(client, run_id, "evals")
    assert not isinstance(found, NothingLeft), found
    return await fetch(client, found[0], folder, limits=limits)


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
    assert not isinstance(found, NothingLeft)
    assert [artifact.name for artifact in found] == ["shard-2", "shard-1"]
    files = [file for artifact in found for file in await fetch(client, artifact, tmp_path / artifact.name)]
    assert [file.read_bytes() for file in files] == [b"other", b"attempt 2"]


async def test_an_artifact_of_another_run_is_not_taken(fake: FakeGitHub, client: GitHub) -> None:
    run, other = fake.state.add_run(HEAD), fake.state.add_run(HEAD)
    fake.state.add_artifact(other, archive())
    found = await artifacts_of_run(client, run.id, "evals")
    assert found == NothingLeft(f"the artifact 'evals' of run {run.id} is not there")


async def test_a_name_with_brackets_is_itself_where_it_is_exact_and_shown_as_it_is(
    fake: FakeGitHub, client: GitHub
) -> None:
    run, name = fake.state.add_run(HEAD), "evals [gpt*]"
    fake.state.add_artifact(run, archive(), "evals g")
    found = await artifacts_of_run(client, run.id, name, exact=True)
    assert found == NothingLeft(f"the artifact 'evals [gpt*]' of run {run.id} is not there")
    fake.state.add_artifact(run, archive(), name)
    found = await artifacts_of_run(client, run.id, name, exact=True)
    assert not isinstance(found, NothingLeft)
    assert [artifact.name for artifact in found] == [name]


async def test_an_expired_artifact_is_a_reason(fake: FakeGitHub, client: GitHub) -> None:
    run = fake.state.add_run(HEAD)
    fake.state.add_artifact(run, archive(), expired=True)
    found = await artifacts_of_run(client, run.id, "evals")
    assert isinstance(found, NothingLeft)
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
    from ci_evals.github.answers import Artifact, read

    with pytest.raises(GitHubError) as caught:
        await fetch(client, read(listed, Artifact, "artifact"), tmp_path, limits=small)
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
    found = await pull_requests_of(client, await run_of(client, run.id))
    assert [pull.number for pull in found] == [7]


async def test_a_pull_request_that_moved_on_is_not_commented_for_an_old_run(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake, 7, "d" * 40, head_repository=FORK)
    run = fake.state.add_run(HEAD, head_branch="feature", head_repository=FORK, event="pull_request")
    assert await pull_requests_of(client, await run_of(client, run.id)) == ()


async def test_a_branch_with_an_odd_name_is_looked_up_as_it_is(fake: FakeGitHub, client: GitHub) -> None:
    odd = "a&state=all#é%2F{x}"
    open_pull(fake, 7, HEAD, head_repository=FORK, head_ref=odd)
    run = fake.state.add_run(HEAD, head_branch=odd, head_repository=FORK, event="pull_request")
    assert [pull.number for pull in await pull_requests_of(client, await run_of(client, run.id))] == [7]


async def test_a_run_whose_fork_was_deleted_belongs_to_no_pull_request(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake, 7, HEAD, head_repository=None)
    run = fake.state.add_run(HEAD, head_branch="feature", head_repository=FORK, event="pull_request")
    assert await pull_requests_of(client, await run_of(client, run.id)) == ()
