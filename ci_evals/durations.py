"""How long runs took before, for shards that are to take equally long."""

from collections.abc import Mapping
from math import fsum
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_evals.engine.journal import JOURNAL
from ci_evals.engine.journal_lines import scan
from ci_evals.errors import StorageError
from ci_evals.matrix import CellKey
from ci_evals.model import Result


class _RecordedReport(Struct):
    """The part of a report.json that durations are read from."""

    results: list[Result]


def known_durations(path: Path) -> Mapping[CellKey, float]:
    """The mean duration of a run of each cell in an earlier journal or report.json, in seconds.

    Raises:
        StorageError: it is neither.
    """
    seen: dict[CellKey, list[float]] = {}

    def note(result: Result, *_: object) -> None:
        seen.setdefault((result.case, result.provider, result.prompt), []).append(result.latency_s)

    path = path / JOURNAL if path.is_dir() else path
    if path.suffix == ".json":
        try:
            for result in msgspec.json.decode(path.read_bytes(), type=_RecordedReport).results:
                note(result)
        except (OSError, msgspec.DecodeError) as error:
            raise StorageError(f"{path}: is no report of ci-evals: {error}") from error
    else:
        scan(path, note)
    # exact, so that all shards agree whatever the order of the file they were given
    return {key: fsum(latencies) / len(latencies) for key, latencies in seen.items()}
