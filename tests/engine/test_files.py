"""Files in answers, as they are kept."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from ci_evals.engine.files import keep_file
from ci_evals.errors import StorageError
from ci_evals.response import Content

WRITERS, ROUNDS = 4, 200


def test_many_may_keep_the_same_content_at_once(tmp_path: Path) -> None:
    start = Barrier(WRITERS)

    def keep(_: int) -> list[str | None]:
        paths = []
        for number in range(ROUNDS):
            start.wait()
            try:
                paths.append(keep_file(Content(b"%d" % number * 1000, "audio/wav"), tmp_path).path)
            except BaseException:
                start.abort()  # or the others wait for ever
                raise
        return paths

    with ThreadPoolExecutor(WRITERS) as writers:
        first, *others = writers.map(keep, range(WRITERS))
    assert all(paths == first for paths in others)
    assert [(tmp_path / str(path)).read_bytes() for path in first] == [b"%d" % n * 1000 for n in range(ROUNDS)]
    assert len(list((tmp_path / "files").iterdir())) == ROUNDS, "and nothing is left over"


def test_a_folder_that_takes_no_files_is_told(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        keep_file(Content(b"x", "audio/wav"), tmp_path)
