"""Reports of earlier runs, read back from disk: as a baseline, as the head of a comparison, for durations."""

from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from ci_evals.engine.journal import JOURNAL, scan
from ci_evals.errors import StorageError
from ci_evals.model import Result
from ci_evals.report import CellKey, SuiteInfo
from ci_evals.reports.json_entries import SCHEMA_VERSION
from ci_evals.reports.json_report import REPORT
from ci_evals.verdict.comparison import NoComparison
from ci_evals.verdict.history import (
    NO_FIGURES,
    BaseCell,
    Baseline,
    CellFigures,
    Evidence,
    ReportRef,
    Tally,
    TrendPoint,
    joined,
)
from ci_evals.verdict.pairing import HeadCell


class _Version(Struct, frozen=True):
    schema_version: int
    suite: Mapping[str, Any] = {}


class _Cell(Struct, frozen=True):
    """What is needed of a cell; version 1 has only its name and its counts."""

    case: str
    provider: str
    prompt: str | None
    passed: int
    failed: int
    fingerprint: str | None = None
    evidence: Tally | None = None
    confirming: Tally = Tally(0, 0)
    confirmed: bool = False
    critical: bool = False
    figures: CellFigures = NO_FIGURES
    history: tuple[tuple[int, int, int], ...] = ()

    @property
    def key(self) -> CellKey:
        return self.case, self.provider, self.prompt

    @property
    def fresh(self) -> Tally:
        """The planned runs that are no repetition of a record."""
        return self.evidence or Tally(self.passed, self.passed + self.failed)


class _History(Struct, frozen=True):
    reports: tuple[ReportRef, ...] = ()
    trend: tuple[TrendPoint, ...] = ()


class _Confirmation(Struct, frozen=True):
    confirm_runs: int = 0


class _Document(Struct, frozen=True):
    """What is needed of a report.json."""

    suite: SuiteInfo
    started_at: float
    cells: tuple[_Cell, ...]
    id: str = ""
    history: _History = _History()
    trend_point: TrendPoint | None = None
    comparison: _Confirmation | None = None


class SavedReport(NamedTuple):
    """A report.json that was read back."""

    path: Path
    document: _Document

    @property
    def suite(self) -> SuiteInfo:
        return self.document.suite

    @property
    def started_at(self) -> float:
        """Seconds since the epoch."""
        return self.document.started_at

    @property
    def confirm_runs(self) -> int:
        """How many further runs its suspects were given."""
        return self.document.comparison.confirm_runs if self.document.comparison else 0

    @property
    def head(self) -> list[HeadCell]:
        """Its cells, to be compared with a baseline."""
        return [
            HeadCell(
                cell.key, cell.fingerprint, cell.fresh, cell.confirming, cell.confirmed, cell.critical, cell.figures
            )
            for cell in self.document.cells
        ]

    @property
    def baseline(self) -> Baseline:
        """Itself and the reports before it, as a side to compare with."""
        document = self.document
        own = ReportRef(document.id or self.path.as_posix(), document.started_at, document.suite.revision)
        earlier = document.history.reports
        cells = {
            cell.key: BaseCell(
                cell.fingerprint,
                (
                    Evidence(own.id, *cell.fresh),
                    *(Evidence(earlier[number].id, passed, graded) for number, passed, graded in cell.history),
                ),
                cell.figures,
            )
            for cell in document.cells
        }
        point = (document.trend_point,) if document.trend_point else ()
        return Baseline(
            suite=document.suite.name, reports=(own, *earlier), cells=cells, trend=(*point, *document.history.trend)
        )


def read_report(path: Path) -> SavedReport:
    """Read one report.json, or the one in a folder.

    Raises:
        StorageError: there is none, it is damaged, or a newer ci-evals wrote it.
    """
    path = path / REPORT if path.is_dir() else path
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        version = msgspec.json.decode(content, type=_Version)
        if version.schema_version > SCHEMA_VERSION:
            raise _too_new(path, version)
        return SavedReport(path, msgspec.json.decode(content, type=_Document))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        empty = "it is empty" if not content.strip() else f"damaged or cut off: {error}"
        raise StorageError(
            f"{path}: is no whole report of ci-evals ({empty}): fetch it again, or name another"
        ) from error


def _too_new(path: Path, version: _Version) -> StorageError:
    writer = version.suite.get("version", "a newer version")
    text = f"schema version {version.schema_version}, written by ci-evals {writer}"
    return StorageError(f"{path}: is of {text}; this one reads up to {SCHEMA_VERSION}: upgrade ci-evals here")


def read_baseline(paths: Sequence[Path], suite: str, name: str | None = None) -> Baseline | NoComparison:
    """Read the reports that a run is compared with, the newest of them being the baseline and the others its history.

    Args:
        paths: report.json files, folders with one in them, or folders of such folders.
        suite: what is compared with them.
        name: what sentences call the base side.

    Returns:
        The baseline, or why there is none: nothing is there, or it is of another suite.

    Raises:
        StorageError: a file cannot be read, is damaged, or a newer ci-evals wrote it.
    """
    found = [report for path in paths for report in _reports(path)]
    if not found:
        return NoComparison(f"no baseline: there is no report at {' or '.join(path.as_posix() for path in paths)}")
    same = [report for report in found if report.suite.name == suite]
    if not same:
        other = found[0]
        return NoComparison(f"no baseline: {other.path.as_posix()} is of another suite, {other.suite.name!r}")
    baseline = joined([report.baseline for report in same])
    if not baseline.cells:
        return NoComparison(f"no baseline: {same[0].path.as_posix()} has no cells")
    return msgspec.structs.replace(baseline, name=name) if name else baseline


def _reports(path: Path) -> Iterator[SavedReport]:
    if path.is_file() or (path / REPORT).is_file():
        yield read_report(path)
    elif path.is_dir():
        yield from (read_report(file) for file in sorted(path.glob(f"*/{REPORT}")) + sorted(path.glob("*.json")))


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
