"""The append-only file of results: what it survives and what it refuses."""

import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from factories import result_of

from ci_evals.engine.journal import (
    MAX_ASKED_CHARACTERS,
    Header,
    Journal,
    is_torn,
    read_lines,
    read_results,
)
from ci_evals.errors import StorageError
from ci_evals.model.report import SuiteInfo
from ci_evals.model.response import Message, Response, ToolCall
from ci_evals.model.result import Result, decode_result
from ci_evals.redaction import Redactor

HEADER = Header(
    suite=SuiteInfo(name="s", file="evals.yaml", fingerprint="f", runs=1, version="0"),
    started_at=1.0,
)


def journal_of(path: Path, *results: Result, secrets: tuple[str, ...] = ()) -> list[int]:
    journal = Journal(path, Redactor(secrets))
    journal.start(HEADER)
    offsets = [journal.append(result)[1] for result in results]
    journal.close()
    return offsets


def scanned(path: Path) -> list[str]:
    return [result.case for _, result in read_results(path)]


def test_results_come_back_by_their_offsets_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    results = [result_of(f"case {n}", "failed" if n % 2 else "passed") for n in range(5)]
    offsets = journal_of(path, *results)
    assert list(map(decode_result, read_lines(path, reversed(offsets)))) == results[::-1]


def test_every_line_is_json_and_the_first_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    journal_of(path, result_of(response=Response('a\n"b"\x1b[31m\x00 ::error:: </details> ]]> é')))
    header, result = map(json.loads, path.read_text("utf-8").splitlines())
    assert (header["journal"], header["schema_version"], header["suite"]["name"]) == (
        "ci-evals",
        1,
        "s",
    )
    assert result["response"]["output"] == 'a\n"b"\x1b[31m\x00 ::error:: </details> ]]> é'


def test_a_lone_surrogate_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    journal_of(path, result_of(response=Response("a\ud800b")))
    assert json.loads(path.read_text("utf-8").splitlines()[1])["response"]["output"] == "a?b"


@pytest.mark.parametrize(
    "value", [b"\xff", {"a": "\ud800"}, object()], ids=["bytes", "surrogate", "object"]
)
def test_whatever_an_answer_holds_is_written(value: object, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    journal_of(path, result_of(response=Response("a", tool_calls=(ToolCall("x", {"k": value}),))))
    assert scanned(path) == ["capital"]


def test_an_answer_that_is_nested_without_end_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    nested: dict[str, Any] = {}
    for _ in range(2000):
        nested = {"a": nested}
    journal_of(path, result_of(response=Response("a", tool_calls=(ToolCall("x", nested),))))
    ((_, result),) = read_results(path)
    assert "nested too deeply" in str(result)


def test_secrets_are_masked_in_the_file_and_in_what_is_handed_on(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    journal = Journal(path, Redactor(["hunter2-and-more"]))
    journal.start(HEADER)
    written, _ = journal.append(result_of(response=Response("it is hunter2-and-more")))
    journal.close()
    assert written.response == Response("it is ***")
    assert b"hunter2" not in path.read_bytes()


def test_a_torn_last_line_is_found_and_what_is_before_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    *_, last = journal_of(path, *(result_of(f"case {n}") for n in range(3)))
    with path.open("r+b") as file:
        file.truncate(last + 20)
    assert (scanned(path), is_torn(path)) == (["case 0", "case 1"], True)
    with closing(Journal(path, Redactor([]), resume=True)) as journal:
        assert journal.torn
    assert (path.stat().st_size, is_torn(path)) == (last, False)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"id": 1}\n', "is not a ci-evals journal"),
        (b"hello\n", "is not a ci-evals journal"),
        (b'{"journal":"ci-evals","schema_version":99,"suite":{}}\n', "is not a ci-evals header"),
        (b"\xff\xfe\n", "is not a ci-evals journal"),
    ],
)
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(content)
    with pytest.raises(StorageError, match=words):
        scanned(path)


def test_a_journal_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    journal_of(path)
    path.write_bytes(path.read_bytes().replace(b'"schema_version":1', b'"schema_version":2'))
    with pytest.raises(StorageError, match="version 2, but this ci-evals reads version 1"):
        scanned(path)


@pytest.mark.parametrize(
    "line", [b"{damaged}", b'{"case": "\xff"}', b'{"metadata": ' + b"[" * 100_000]
)
def test_a_damaged_line_in_the_midst_is_refused_with_its_number(
    tmp_path: Path, line: bytes
) -> None:
    path = tmp_path / "results.jsonl"
    journal_of(path, result_of("one"), result_of("two"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + line + b"\n" + lines[2])
    with pytest.raises(StorageError, match=r"results\.jsonl:2: the line is damaged"):
        scanned(path)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    journal = Journal(path, Redactor([]))
    with pytest.raises(StorageError, match="another ci-evals is writing to it"):
        Journal(path, Redactor([]))
    journal.close()
    journal.close()
    Journal(path, Redactor([])).close()
    assert [each.name for each in tmp_path.iterdir()] == ["results.jsonl"]


def test_an_earlier_journal_is_kept_beside_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    journal_of(path, result_of("old"))
    journal_of(path, result_of("new"))
    assert scanned(path) == ["new"]
    assert scanned(tmp_path / "results.previous.jsonl") == ["old"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX resource limits")
def test_a_full_disk_is_an_error_and_the_journal_before_it_is_whole(tmp_path: Path) -> None:
    """A limit on file size stands in for a full disk: one write is cut short, the next refused."""
    path = tmp_path / "results.jsonl"
    script = f"""
import resource, signal
from pathlib import Path
from factories import result_of
from test_journal import HEADER
from ci_evals.engine.journal import Journal
from ci_evals.errors import StorageError
from ci_evals.redaction import Redactor
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
journal = Journal(Path({str(path)!r}), Redactor([]))
journal.start(HEADER)
try:
    for n in range(100):
        journal.append(result_of(f"case {{n}}"))
except StorageError as error:
    print(n, error)
"""
    here = Path(__file__).parent
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(here), str(here.parents[1] / "support"))),
    }
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    count, _, message = ended.stdout.partition(" ")
    assert "File too large" in message
    assert scanned(path) == [f"case {n}" for n in range(int(count))]


SECRET = "correct-horse-battery-staple"


def secretive(path: Path, *, torn: bytes = b"") -> list[bytes]:
    """A journal whose header and second result hold what is a secret later; gives its lines."""
    journal = Journal(path, Redactor([]))
    journal.start(replace(HEADER, suite=replace(HEADER.suite, label=SECRET)))
    for name, answer in (("one", "Paris"), ("two", f"it is {SECRET}"), ("three", "Rome")):
        journal.append(result_of(name, response=Response(answer)))
    journal.close()
    with path.open("ab") as file:
        file.write(torn)
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("torn", [b"", b'{"fingerprint":"0'])
def test_what_became_a_secret_is_taken_out_and_every_line_stays(
    torn: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    before = secretive(path, torn=torn)
    journal = Journal(path, Redactor([SECRET]), resume=True)
    after = path.read_bytes().splitlines(keepends=True)
    assert after == [line.replace(SECRET.encode(), b"***") for line in before[:4]]
    with pytest.raises(StorageError, match="another ci-evals is writing to it"):
        Journal(path, Redactor([]))
    journal.append(result_of("four"))
    journal.close()
    assert scanned(path) == ["one", "two", "three", "four"]
    assert [each.name for each in tmp_path.iterdir()] == ["results.jsonl"]


def test_a_journal_without_secrets_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    secretive(path)
    before = path.stat()
    Journal(path, Redactor(["something else"]), resume=True).close()
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links")
def test_the_file_behind_a_link_is_cleaned(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    secretive(tmp_path / "elsewhere" / "kept.jsonl")
    (tmp_path / "results.jsonl").symlink_to(tmp_path / "elsewhere" / "kept.jsonl")
    with closing(Journal(tmp_path / "results.jsonl", Redactor([SECRET]), resume=True)) as journal:
        journal.append(result_of("four"))
    assert (tmp_path / "results.jsonl").is_symlink()
    assert SECRET not in (tmp_path / "elsewhere" / "kept.jsonl").read_text()
    assert scanned(tmp_path / "results.jsonl") == ["one", "two", "three", "four"]


def test_what_became_a_secret_is_taken_out_of_a_damaged_line_too(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    lines = secretive(path)
    damaged = b"".join([*lines[:2], f'{{"it is": "{SECRET}"}}\n'.encode(), *lines[2:]])
    path.write_bytes(damaged)
    Journal(path, Redactor([SECRET]), resume=True).close()
    assert path.read_bytes() == damaged.replace(SECRET.encode(), b"***")
    with pytest.raises(StorageError, match=r"jsonl:3: the line"):
        scanned(path)
    assert [each.name for each in tmp_path.iterdir()] == ["results.jsonl"]


def test_what_became_a_secret_is_taken_out_of_the_journal_that_is_kept_beside_a_new_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "results.jsonl"
    *before, torn = secretive(path, torn=f'{{"fingerprint":"0{SECRET}'.encode())
    damaged = f'{{"it is": "{SECRET}\udcff"}}\n'.encode(errors="surrogateescape")
    path.write_bytes(b"".join([*before, damaged, torn]))
    Journal(path, Redactor([SECRET])).close()
    kept = (tmp_path / "results.previous.jsonl").read_bytes()
    assert kept == b"".join([*before, damaged, torn]).replace(SECRET.encode(), b"***")
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "results.jsonl",
        "results.previous.jsonl",
    ]


def test_a_foreign_file_makes_no_room_for_a_new_journal(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(f"my {SECRET}")
    with pytest.raises(
        StorageError, match=r"results\.jsonl: is not a ci-evals journal: .* move it away"
    ):
        Journal(path, Redactor([SECRET]))
    assert path.read_text() == f"my {SECRET}"
    assert [each.name for each in tmp_path.iterdir()] == ["results.jsonl"]


def test_the_middle_of_a_long_message_is_left_out_and_no_half_of_a_secret_stays(
    tmp_path: Path,
) -> None:
    secret = "hunter2-and-more"
    # Where it would be cut in two.
    at = MAX_ASKED_CHARACTERS - MAX_ASKED_CHARACTERS // 3 - len(secret) // 2
    asked = f"{'x' * at}{secret}{'y' * MAX_ASKED_CHARACTERS} Until when?"
    path = tmp_path / "results.jsonl"
    journal_of(path, result_of(messages=(Message("user", asked),)), secrets=(secret,))
    ((_, result),) = read_results(path)
    (message,) = result.messages
    assert len(message.content) < MAX_ASKED_CHARACTERS + 100
    assert message.text.startswith("xxx")
    assert message.text.endswith("Until when?")
    assert " characters …]" in message.content
    assert "hunter" not in message.content
