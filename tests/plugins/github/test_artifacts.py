"""Artifacts: of which run, without the token, and unpacked without trust."""

import io
import struct
import zipfile
from pathlib import Path

import pytest
from archives import REPORT, archive, symlink
from fakes.github import TOKEN, FakeGitHub, Fault
from fakes.github_state import Token
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pulls import HEAD
from pydantic import TypeAdapter

from ci_evals.errors import HostError, StorageError
from ci_evals.plugins.ci.archives import FORK_LIMITS, OWN_LIMITS, ArchiveLimits, unpack
from ci_evals.plugins.github.api import GitHub
from ci_evals.plugins.github.artifacts import (
    Artifact,
    artifacts_of_run,
    fetch,
)

NAMES = ("report.json", "results.jsonl")


async def fetched(
    client: GitHub, run_id: int, folder: Path, limits: ArchiveLimits = OWN_LIMITS
) -> tuple[Path, ...]:
    """The files of a run's newest artifact called evals."""
    found = await artifacts_of_run(client, run_id, "evals")
    return await fetch(client, found[0], folder, NAMES, limits)


async def test_a_download_leaves_the_token_behind(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
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
    assert [artifact.name for artifact in found] == ["shard-2", "shard-1"]
    files = [
        file
        for artifact in found
        for file in await fetch(client, artifact, tmp_path / artifact.name, NAMES)
    ]
    assert [file.read_bytes() for file in files] == [b"other", b"attempt 2"]


async def test_an_artifact_of_another_run_is_not_taken(fake: FakeGitHub, client: GitHub) -> None:
    run, other = fake.state.add_run(HEAD), fake.state.add_run(HEAD)
    fake.state.add_artifact(other, archive())
    with pytest.raises(HostError, match=f"the artifact 'evals' of run {run.id} is not there"):
        await artifacts_of_run(client, run.id, "evals")


async def test_a_name_with_brackets_is_found(fake: FakeGitHub, client: GitHub) -> None:
    run, name = fake.state.add_run(HEAD), "evals [gpt]"
    fake.state.add_artifact(run, archive(), name)
    assert [artifact.name for artifact in await artifacts_of_run(client, run.id, name)] == [name]


async def test_an_expired_artifact_is_a_reason(fake: FakeGitHub, client: GitHub) -> None:
    run = fake.state.add_run(HEAD)
    fake.state.add_artifact(run, archive(), expired=True)
    with pytest.raises(HostError, match="has expired"):
        await artifacts_of_run(client, run.id, "evals")


async def test_a_storage_that_fails_is_asked_again_with_a_new_address(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    run = fake.state.add_run(HEAD)
    fake.state.add_artifact(run, archive())
    fake.fails(Fault(lambda method, _path: method == "STORAGE", 503))
    await fetched(client, run.id, tmp_path)
    assert len(fake.storage_requests) == 2
    assert len(fake.asked("GET", "/zip$")) == 2


async def test_a_signed_address_that_has_expired_is_asked_for_again(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    run = fake.state.add_run(HEAD)
    fake.state.add_artifact(run, archive())
    fake.fails(Fault(lambda method, _path: method == "STORAGE", 403))
    await fetched(client, run.id, tmp_path)
    assert len(fake.asked("GET", "/zip$")) == 2


async def test_a_signed_address_that_is_refused_is_an_error_without_the_address(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    run = fake.state.add_run(HEAD)
    fake.state.add_artifact(run, archive())
    fake.fails(*[Fault(lambda method, _path: method == "STORAGE", 403)] * 9)
    with pytest.raises(HostError) as caught:
        await fetched(client, run.id, tmp_path)
    assert str(caught.value) == "127.0.0.1 refused a download (403)"
    assert caught.value.kind == "unreachable"  # a baseline that is missed is a warning then


async def test_an_artifact_over_the_limit_is_not_downloaded(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    run = fake.state.add_run(HEAD)
    fake.state.add_artifact(run, archive({"report.json": bytes(range(256)) * 20}, method=0))
    with pytest.raises(HostError) as caught:
        await fetched(client, run.id, tmp_path, ArchiveLimits(1_000, 1_000, 10))
    assert caught.value.kind == "too_large"
    assert not fake.storage_requests


async def test_a_download_larger_than_was_said_is_cut_off(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    run = fake.state.add_run(HEAD)
    artifact = fake.state.add_artifact(run, archive())
    listed = (await client.get(f"actions/runs/{run.id}/artifacts", dict))["artifacts"][0]
    artifact.content = archive({"report.json": bytes(range(256)) * 20}, method=0)
    small = ArchiveLimits(listed["size_in_bytes"], 100_000, 10)
    with pytest.raises(HostError) as caught:
        await fetch(client, TypeAdapter(Artifact).validate_python(listed), tmp_path, NAMES, small)
    assert caught.value.kind == "too_large"


async def test_a_folder_that_cannot_be_written_is_a_storage_error(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    run = fake.state.add_run(HEAD)
    fake.state.add_artifact(run, archive())
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be unpacked"):
        await fetched(client, run.id, tmp_path / "file")


async def test_a_token_without_actions_read_is_forbidden(
    fake: FakeGitHub, client: GitHub, tmp_path: Path
) -> None:
    fake.state.tokens[TOKEN] = Token(may_read_actions=False)
    with pytest.raises(HostError) as caught:
        await fetched(client, 1, tmp_path)
    assert caught.value.kind == "forbidden"


# Unpacking what anybody may have packed.


LIMITS = ArchiveLimits(1_000_000, 1_000_000, 20)


def unpacked(content: bytes, folder: Path, limits: ArchiveLimits = LIMITS) -> dict[str, bytes]:
    files = unpack(io.BytesIO(content), folder / "out", NAMES, limits)
    return {path.relative_to(folder / "out").as_posix(): path.read_bytes() for path in files}


def refusal(content: bytes, folder: Path, limits: ArchiveLimits = LIMITS) -> HostError:
    with pytest.raises(HostError) as caught:
        unpacked(content, folder, limits)
    outside = [
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_relative_to(folder / "out")
    ]
    assert not outside
    assert "\n" not in str(caught.value)
    return caught.value


def test_known_names_are_taken_from_any_folder_and_others_passed_over(tmp_path: Path) -> None:
    content = archive(
        {"report.json": REPORT, "b/results.jsonl": b"{}", "b/virus.exe": b"x", "c/": b""}
    )
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
    "name",
    [
        "C:report.json",
        "..\\report.json",
        "\\\\host\\report.json",
        "report.json\0.txt",
        "Report.json",
    ],
)
def test_a_name_that_is_another_is_passed_over(tmp_path: Path, name: str) -> None:
    assert unpacked(archive({"results.jsonl": b"{}", name: REPORT}), tmp_path) == {
        "1/results.jsonl": b"{}"
    }


def test_what_agents_and_verifiers_leave_behind_is_passed_over_whatever_they_call_it(
    tmp_path: Path,
) -> None:
    run = "tasks/greeting/agent/run-2"
    left = (
        "agent.stdout.txt",
        "Notes",
        "notes",
        "notes.",
        "a b ",
        "logs/verifier/reward.txt",
        "report.json",
    )
    content = archive({"report.json": REPORT, **{f"{run}/{name}": b"x" for name in left}})
    assert unpacked(content, tmp_path) == {"1/report.json": REPORT}


@pytest.mark.parametrize("limits", [OWN_LIMITS, FORK_LIMITS])
def test_there_is_room_for_the_files_of_many_runs(tmp_path: Path, limits: ArchiveLimits) -> None:
    content = archive(
        {
            "report.json": REPORT,
            **{f"tasks/a/b/run-{number}/out.txt": b"" for number in range(5_000)},
        }
    )
    assert unpacked(content, tmp_path, limits) == {"1/report.json": REPORT}


def test_a_link_becomes_a_plain_file(tmp_path: Path) -> None:
    assert unpacked(symlink("report.json", b"/etc/passwd"), tmp_path) == {
        "1/report.json": b"/etc/passwd"
    }
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]


def test_a_bomb_is_cut_off_at_the_limit(tmp_path: Path) -> None:
    content = archive({"report.json": bytes(20_000_000)})
    assert len(content) < 100_000
    error = refusal(content, tmp_path)
    assert error.kind == "too_large"
    assert (
        sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
        <= LIMITS.max_unpacked_bytes
    )


def test_the_limit_is_that_of_all_files_together(tmp_path: Path) -> None:
    content = archive({f"{name}/report.json": bytes(300_000) for name in "abcd"})
    assert refusal(content, tmp_path).kind == "too_large"


def test_a_size_that_is_a_lie_is_not_believed(tmp_path: Path) -> None:
    content = bytearray(archive({"report.json": bytes(5_000_000)}))
    directory = content.rindex(b"PK\x01\x02")
    struct.pack_into("<I", content, directory + 24, 10)  # the size when unpacked
    refusal(bytes(content), tmp_path)
    assert (
        sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
        <= LIMITS.max_unpacked_bytes
    )


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
    except HostError:
        return
    assert all(name.split("/")[-1] in NAMES for name in files)
