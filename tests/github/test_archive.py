"""Unpacking what anybody may have packed."""

import io
import stat
import struct
import warnings
import zipfile
from pathlib import Path

import pytest
from archives import REPORT, archive, entry_named, of_entries, symlink
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ci_evals.errors import GitHubError
from ci_evals.github.archive import FORK_LIMITS, OWN_LIMITS, ArchiveLimits, unpack

NAMES = ("report.json", "results.jsonl")
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
    assert unpacked(content, tmp_path) == {"report.json": REPORT, "b/results.jsonl": b"{}"}
    assert not list(tmp_path.rglob("virus*"))


def test_a_stored_file_is_as_good_as_a_deflated_one(tmp_path: Path) -> None:
    assert unpacked(archive(method=zipfile.ZIP_STORED), tmp_path) == {"report.json": REPORT}


@pytest.mark.parametrize(
    "name",
    [
        "../report.json",
        "a/../../report.json",
        "/report.json",
        "/etc/report.json",
        "C:/report.json",
        "C:report.json",
        "..\\report.json",
        "\\\\host\\share\\report.json",
        "a//report.json",
        "./report.json",
        "a/./report.json",
        "report.json\0.txt",
        "a\n/report.json",
        "a /report.json",
        "a./report.json",
        "\u202ea/report.json",
    ],
)
def test_a_path_that_leads_elsewhere_refuses_the_whole_archive(tmp_path: Path, name: str) -> None:
    error = refusal(archive({"results.jsonl": b"{}", name: REPORT}), tmp_path)
    assert "not a plain path" in str(error)
    assert not (tmp_path / "out").exists()


def test_what_agents_and_verifiers_leave_behind_is_passed_over_whatever_they_call_it(tmp_path: Path) -> None:
    run = "tasks/greeting/agent/run-2"
    left = ("agent.stdout.txt", "Notes", "notes", "notes.", "a b ", "logs/verifier/reward.txt", "report.json")
    content = archive({"report.json": REPORT, **{f"{run}/{name}": b"x" for name in left}})
    assert unpacked(content, tmp_path) == {"report.json": REPORT}


@pytest.mark.parametrize("limits", [OWN_LIMITS, FORK_LIMITS])
def test_there_is_room_for_the_files_of_many_runs(tmp_path: Path, limits: ArchiveLimits) -> None:
    content = archive({"report.json": REPORT, **{f"tasks/a/b/run-{number}/out.txt": b"" for number in range(5_000)}})
    assert unpacked(content, tmp_path, limits) == {"report.json": REPORT}


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_nothing_but_plain_files_is_unpacked(tmp_path: Path, kind: int) -> None:
    assert "no plain file" in str(refusal(of_entries((entry_named("report.json", kind), b"/etc/passwd")), tmp_path))


def test_a_link_under_another_name_refuses_the_archive_too(tmp_path: Path) -> None:
    refusal(symlink("folder", b"/tmp"), tmp_path)


@pytest.mark.parametrize("names", [("report.json", "report.json"), ("a/report.json", "A/Report.JSON")])
def test_the_same_file_twice_is_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns of what it writes here
        content = of_entries(*((entry_named(name), REPORT) for name in names))
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


def test_too_many_files_are_refused_before_they_are_listed(tmp_path: Path) -> None:
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
    assert set(files) <= {"report.json", "a/results.jsonl"} or all(name.split("/")[-1] in NAMES for name in files)
