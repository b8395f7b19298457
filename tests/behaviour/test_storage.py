"""A folder without write permission and a full disk: one line says so, and nothing is lost."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from processes import Finished, ci_evals
from suites import write_suite

from ci_evals.engine.journal import Header, Journal, headers, is_torn, read_results
from ci_evals.errors import StorageError
from ci_evals.model.report import SuiteInfo
from ci_evals.model.result import Result
from ci_evals.redaction import Redactor

CASES = 200
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits and permissions")


def echoes(folder: Path) -> None:
    text = "x" * 500
    write_suite(
        folder,
        [{"id": f"case-{n}", "input": text, "expect": [{"equals": text}]} for n in range(CASES)],
    )


def check_error(ended: Finished, *words: str) -> None:
    """Exit 3 and one line."""
    assert ended.code == 3
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    for word in words:
        assert word in ended.err


REPORTS = ("report.json", "junit.xml", "summary.md", "report.html")


@pytest.mark.parametrize("arguments", [("run",), ("run", "--shard", "1/2")])
async def test_no_report_of_an_earlier_run_contradicts_that_of_the_last(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    write_suite(tmp_path, report={"formats": ["json", "junit", "markdown", "html"]})
    assert (await ci_evals(tmp_path, "run")).code == 0
    results = tmp_path / "ci-evals-results"
    assert {path.name for path in results.iterdir()} >= set(REPORTS)
    wrong = {"id": "greeting", "input": "hello", "expect": [{"equals": "goodbye"}]}
    write_suite(tmp_path, [wrong], report={"formats": ["json"]})
    ended = await ci_evals(tmp_path, *arguments)
    left = {path.name for path in results.iterdir()} & set(REPORTS)
    assert (ended.code, left) == ((1, {"report.json"}) if arguments == ("run",) else (0, set()))


async def test_what_a_killed_process_left_unfinished_is_removed_by_the_next(tmp_path: Path) -> None:
    write_suite(tmp_path)
    results = tmp_path / "ci-evals-results"
    results.mkdir()
    unfinished = results / ".report.json.0123456789abcdef.partial"
    unfinished.write_text("{")
    assert (await ci_evals(tmp_path, "run")).code == 0
    assert not unfinished.exists()


async def test_reports_stay_while_the_suite_is_wrong_and_files_of_others_always(
    tmp_path: Path,
) -> None:
    results = tmp_path / "ci-evals-results"
    results.mkdir()
    others = {
        "junit.xml": '<?xml version="1.0" encoding="utf-8"?>'
        '<testsuites name="pytest tests"></testsuites>',
        "summary.md": "## Our notes\n",
        "report.html": "<!doctype html><title>coverage</title>",
        "notes.txt": "ours",
    }
    for name, text in others.items():
        (results / name).write_text(text)
    write_suite(tmp_path, report={"formats": ["json"]})
    for _ in range(2):
        assert (await ci_evals(tmp_path, "run")).code == 0
    assert {name: (results / name).read_text() for name in others} == others
    write_suite(
        tmp_path, providers=[{"name": "agent", "type": "python", "target": "nowhere:answer"}]
    )
    assert (await ci_evals(tmp_path, "run")).code == 2
    assert (results / "report.json").exists()


async def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    echoes(tmp_path)
    (tmp_path / "results").write_text("mine")
    check_error(
        await ci_evals(tmp_path, "run", "--out", "results"),
        "results",
        "cannot be written",
        "choose another --out",
    )
    assert (tmp_path / "results").read_text() == "mine"


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
@posix
@pytest.mark.parametrize(
    "arguments",
    [
        ("--out", "pipe"),
        ("--out", "pipe", "--resume"),
        ("--resume-from", "pipe"),
        ("--replay", "pipe/results.jsonl"),
        ("--balance-by", "pipe", "--shard", "1/2"),
    ],
)
async def test_a_journal_that_is_a_named_pipe_is_refused(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    echoes(tmp_path)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "results.jsonl")
    check_error(await ci_evals(tmp_path, "run", *arguments), "results.jsonl: is a named pipe")


async def test_a_folder_that_nobody_can_make(tmp_path: Path) -> None:
    echoes(tmp_path)
    check_error(
        await ci_evals(tmp_path, "run", "--out", "/proc/results"),
        "/proc/results",
        "choose another --out",
    )


def without_roots_rights() -> None:
    """Let the next program that this process becomes be held to permissions, even as root."""
    drop_from_bounding_set, dac_override = 24, 1  # linux/prctl.h, linux/capability.h
    if os.geteuid() == 0 and ctypes.CDLL(None).prctl(drop_from_bounding_set, dac_override) != 0:
        raise PermissionError


@posix
@pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() == 0 and sys.platform != "linux",
    reason="root may write everywhere",
)
async def test_a_read_only_folder(tmp_path: Path) -> None:
    echoes(tmp_path)
    (tmp_path / "results").mkdir(mode=0o500)
    ended = await ci_evals(tmp_path, "run", "--out", "results", preexec=without_roots_rights)
    check_error(ended, "Permission denied", "choose another --out")


async def test_a_report_that_cannot_be_written_leaves_the_journal(tmp_path: Path) -> None:
    echoes(tmp_path)
    out = tmp_path / "ci-evals-results"
    (out / "report.json").mkdir(parents=True)
    check_error(await ci_evals(tmp_path, "run", "--quiet"), "report.json", "cannot be written")
    assert len(journaled(out)) == CASES
    assert [path.name for path in out.iterdir() if path.name.endswith(".partial")] == []


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
async def test_an_outcome_that_cannot_be_printed_is_no_pass(tmp_path: Path) -> None:
    echoes(tmp_path)
    command = ("sh", "-c", f'exec "{sys.executable}" -m ci_evals run --quiet > /dev/full')
    check_error(await ci_evals(tmp_path, command=command), "stdout", "No space left on device")
    assert (tmp_path / "ci-evals-results" / "report.json").exists()


@posix
async def test_what_was_written_before_the_disk_was_full_is_whole_and_is_resumed(
    tmp_path: Path,
) -> None:
    echoes(tmp_path)
    out = tmp_path / "ci-evals-results"
    check_error(
        await ci_evals(tmp_path, "run", preexec=at_most(50_000)), "results.jsonl", "--resume"
    )
    kept = journaled(out)
    assert 0 < len(kept) < CASES
    resumed = await ci_evals(tmp_path, "run", "--resume")
    assert resumed.code == 0
    report = json.loads((out / "report.json").read_bytes())
    assert (report["resumption"]["kept"], report["totals"]["passed"]) == (len(kept), CASES)
    assert len(journaled(out)) == CASES


TMPFS = """
mount -t tmpfs -o size=128k none results || exit 77
{before}
"{python}" -m ci_evals run --out results --quiet
code=$?
cp -r results/. kept
exit $code
"""


def may_mount() -> bool:
    """Whether this process may mount something that only its children see."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    command = ("unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt")
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


mounting = pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here")


async def on_a_small_disk(folder: Path, before: str) -> Finished:
    """Run with a disk of 128 KB as the results folder; copy its final contents to `kept`."""
    for name in ("results", "kept"):
        (folder / name).mkdir()
    script = TMPFS.format(before=before, python=sys.executable)
    return await ci_evals(
        folder, command=("unshare", "--map-root-user", "--mount", "sh", "-c", script)
    )


@mounting
async def test_on_a_disk_that_is_full_what_was_written_before_is_whole_and_is_resumed(
    tmp_path: Path,
) -> None:
    echoes(tmp_path)
    ended = await on_a_small_disk(tmp_path, before=":")
    check_error(ended, "results.jsonl: cannot be written: No space left on device", "--resume")
    kept = journaled(tmp_path / "kept")
    assert 0 < len(kept) < CASES
    resumed = await ci_evals(tmp_path, "run", "--out", "kept", "--resume")
    assert resumed.code == 0
    assert json.loads((tmp_path / "kept" / "report.json").read_bytes())["resumption"][
        "kept"
    ] == len(kept)


@mounting
async def test_a_disk_that_was_mounted_to_be_read_only(tmp_path: Path) -> None:
    echoes(tmp_path)
    ended = await on_a_small_disk(tmp_path, before="mount -o remount,ro results")
    check_error(
        ended, "results.jsonl: cannot be written: Read-only file system", "choose another --out"
    )
    assert not list((tmp_path / "kept").iterdir())


@posix
async def test_a_disk_that_is_too_full_for_the_report_has_the_journal(tmp_path: Path) -> None:
    echoes(tmp_path)
    out = tmp_path / "ci-evals-results"
    first = await ci_evals(tmp_path, "run")
    assert first.code == 0
    size = (out / "results.jsonl").stat().st_size
    assert size < (out / "report.json").stat().st_size
    check_error(
        await ci_evals(tmp_path, "run", "--quiet", preexec=at_most(size + 1000)), "report.json"
    )
    assert len(journaled(out)) == CASES
    again = await ci_evals(tmp_path, "run", "--resume")
    assert again.code == 0
    assert json.loads((out / "report.json").read_bytes())["resumption"]["kept"] == CASES


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="there is no /dev/null")
async def test_a_disk_that_does_not_sync_is_said(tmp_path: Path) -> None:
    """The null device takes every line and refuses to sync."""
    echoes(tmp_path)
    (tmp_path / "ci-evals-results").mkdir()
    (tmp_path / "ci-evals-results" / "results.jsonl").symlink_to("/dev/null")
    check_error(
        await ci_evals(tmp_path, "run", "--quiet"), "results.jsonl: cannot be written", "--resume"
    )


def test_of_many_writers_that_start_anew_at_once_each_has_an_empty_journal_of_its_own(
    tmp_path: Path,
) -> None:
    path = tmp_path / "results.jsonl"

    def write(_: int) -> bool | None:
        try:
            journal = Journal(path, Redactor(()))
        except StorageError:
            return None  # another one holds it
        with closing(journal):
            journal.start(HEADER)
            return len(headers(path)) == 1

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(write, range(2000))) - {None} == {True}


HEADER = Header(
    suite=SuiteInfo(name="s", file="f", fingerprint="0", runs=1, version="0"), started_at=0.0
)


def journaled(out: Path) -> list[Result]:
    """The results in the journal, which must be whole."""
    path = out / "results.jsonl"
    assert not is_torn(path)
    return [result for _, result in read_results(path)]


def at_most(file_bytes: int) -> Callable[[], None]:
    """What makes a process unable to write more than that into any one file, as on a full disk."""

    def limit() -> None:
        import resource
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    return limit
