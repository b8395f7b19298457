"""Files that appear whole or not at all."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from ci_evals.errors import StorageError
from ci_evals.files import write_atomically


def test_the_folder_is_made_and_nothing_else_is_left_in_it(tmp_path: Path) -> None:
    path = tmp_path / "some" / "folder" / "report.json"
    write_atomically(path, [b"a", b"b"])
    assert [(each.name, each.read_bytes()) for each in path.parent.iterdir()] == [
        ("report.json", b"ab")
    ]


def test_what_was_there_stays_until_the_new_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"old")

    def chunks() -> Iterator[bytes]:
        yield b"new"
        assert path.read_bytes() == b"old"
        raise OSError(28, "No space left on device")

    with pytest.raises(
        StorageError,
        match=r"report\.json: cannot be written: No space left on device: free some space",
    ):
        write_atomically(path, chunks())
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]
    assert path.read_bytes() == b"old"


def test_many_may_write_the_same_file_at_once_and_one_of_theirs_is_there_in_the_end(
    tmp_path: Path,
) -> None:
    path = tmp_path / "report.json"
    others_began = Barrier(4)

    def chunks(text: bytes) -> Iterator[bytes]:
        yield text
        others_began.wait(30)
        yield text

    with ThreadPoolExecutor(4) as writers:
        list(
            writers.map(lambda text: write_atomically(path, chunks(text)), (b"a", b"b", b"c", b"d"))
        )
    assert path.read_bytes() in (b"aa", b"bb", b"cc", b"dd")
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]


def test_a_folder_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        write_atomically(tmp_path / "file" / "report.json", [b""])
