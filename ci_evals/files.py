"""Files of ours that appear whole or not at all."""

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from ci_evals.errors import StorageError

_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{16}\.partial", re.DOTALL)
_LONGEST_WRITING_S = 24 * 60 * 60


def write_whole(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file beside its place, then put it there: nobody ever sees a part of it, whoever else writes it.

    Its folder is made if need be.

    Raises:
        StorageError: it cannot be written; what was there before still is.
    """
    partial = path.with_name(f".{path.name}.{os.urandom(8).hex()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.writelines(chunks)
        partial.replace(path)
    except OSError as error:
        text = f"{path}: cannot be written: {error.strerror}: make room there, or choose another folder"
        raise StorageError(text) from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def remove_abandoned(path: Path) -> None:
    """Remove what was to become a file, which has just been written, when the processes that wrote it were killed.

    Others may be writing it right now: a part that was added to within a day stays. The file tells what time it is, by
    the clock that its parts have their times from, which need not be that of this machine.
    """
    with contextlib.suppress(OSError):  # others remove them too; and a folder may be one that nobody may list
        long_ago = path.stat().st_mtime - _LONGEST_WRITING_S
        for each in path.parent.iterdir():
            found = _PARTIAL.fullmatch(each.name)
            if found and found[1] == path.name and each.stat().st_mtime < long_ago:
                each.unlink()
