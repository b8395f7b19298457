"""How long runs took before, for shards that are to take equally long."""

from collections.abc import Mapping
from math import fsum
from pathlib import Path

from ci_evals.engine.journal import JOURNAL
from ci_evals.engine.recorded import scan_results
from ci_evals.matrix import CellKey
from ci_evals.model import Result


def known_durations(path: Path) -> Mapping[CellKey, float]:
    """The mean duration of a run of each cell in an earlier journal or report.json, in seconds.

    Raises:
        StorageError: it is neither.
    """
    seen: dict[CellKey, list[float]] = {}

    def note(result: Result) -> None:
        seen.setdefault((result.case, result.provider, result.prompt), []).append(result.latency_s)

    scan_results(path / JOURNAL if path.is_dir() else path, note)
    # exact, so that all shards agree whatever the order of the file they were given
    return {key: fsum(latencies) / len(latencies) for key, latencies in seen.items()}
