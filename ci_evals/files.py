"""Files of ours that appear whole or not at all."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from ci_evals.errors import StorageError


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
