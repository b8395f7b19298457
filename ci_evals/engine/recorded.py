"""The results of an earlier run, whichever of its files has them."""

from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_evals.engine.journal import JOURNAL
from ci_evals.engine.journal_lines import scan
from ci_evals.errors import StorageError
from ci_evals.model import Result


class _Report(Struct):
    results: list[Result]


def scan_results(path: Path, found: Callable[[Result], None]) -> None:
    """Read every result of a report, whose name ends in `.json`, or of a journal.

    Raises:
        StorageError: it cannot be read, or is neither.
    """
    if path.suffix != ".json":
        scan(path, lambda result, *_: found(result))
        return
    try:
        results = msgspec.json.decode(path.read_bytes(), type=_Report).results
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}: {_INSTEAD}") from error
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path}: is no report of ci-evals ({error}): {_INSTEAD}") from error
    for result in results:
        found(result)


_INSTEAD = f"name a report.json, a {JOURNAL}, or the folder of either"
