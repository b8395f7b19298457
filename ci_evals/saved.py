"""Reports of earlier runs, read back from disk: as a baseline, as the head of a comparison."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.json import Decoder

from ci_evals.errors import StorageError
from ci_evals.redaction import Redactor
from ci_evals.report import SuiteInfo
from ci_evals.reports.json_entries import SCHEMA_VERSION
from ci_evals.reports.json_report import REPORT
from ci_evals.reports.text import one_line
from ci_evals.saved_cells import SavedCell
from ci_evals.verdict.comparison import NoComparison
from ci_evals.verdict.history import (
    BaseCell,
    Baseline,
    Evidence,
    History,
    ReportRef,
    Tally,
    TrendPoint,
    joined,
)
from ci_evals.verdict.pairing import HeadCell

Read = TypeVar("Read")


class _Version(Struct, frozen=True):
    schema_version: int
    suite: Mapping[str, Any] = {}


class _History(Struct, frozen=True):
    reports: tuple[ReportRef, ...] = ()
    trend: tuple[TrendPoint, ...] = ()


class _Confirmation(Struct, frozen=True):
    confirm_runs: int = 0


class _Document(Struct, frozen=True):
    """What is needed of a report.json."""

    schema_version: Annotated[int, Meta(le=SCHEMA_VERSION)]
    suite: SuiteInfo
    started_at: float
    cells: tuple[SavedCell, ...]
    interrupted: str | None = None
    id: str = ""
    history: _History = _History()
    trend_point: TrendPoint | None = None
    comparison: _Confirmation | None = None

    def __post_init__(self) -> None:
        """Refuse a history that cannot be, or of reports that are not named. Thousands of cells share a few hundred."""
        known = range(len(self.history.reports))
        for history, case in {cell.history: cell.case for cell in self.cells}.items():
            if any(number not in known for number, _, _ in history):
                raise ValueError("a cell's history names a report that `history.reports` does not have")
            if any(not 0 <= passed <= graded for _, passed, graded in history):
                raise ValueError(f"the counts in the history of the case {case!r} are impossible")


class SavedReport(Struct, frozen=True):
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
    def own_id(self) -> str:
        """Tells it from other reports; version 1 had no ids."""
        return self.document.id or self.path.as_posix()

    @property
    def interrupted(self) -> str | None:
        """Why it ended early, or None."""
        return self.document.interrupted

    @property
    def confirm_runs(self) -> int:
        """How many further runs its suspects were given."""
        return self.document.comparison.confirm_runs if self.document.comparison else 0

    @property
    def head(self) -> list[HeadCell]:
        """Its cells, to be compared with a baseline."""
        return [
            HeadCell(
                cell.key, cell.fingerprint, cell.fresh, cell.confirming, cell.confirmed, cell.critical, cell.measured
            )
            for cell in self.document.cells
        ]

    @property
    def baseline(self) -> Baseline:
        """Itself and the reports before it, as a side to compare with."""
        document = self.document
        own = ReportRef(self.own_id, document.started_at, document.suite.revision)
        earlier = document.history.reports

        @cache
        def history(fresh: Tally, older: tuple[tuple[int, int, int], ...]) -> History:
            before = (Evidence(earlier[number].id, passed, graded) for number, passed, graded in older)
            return History((Evidence(own.id, *fresh), *before))

        cells = {
            cell.key: BaseCell(cell.fingerprint, history(cell.fresh, cell.history), cell.measured)
            for cell in document.cells
        }
        point = (document.trend_point,) if document.trend_point else ()
        return Baseline(
            suite=document.suite.name,
            reports=(own, *earlier),
            cells=cells,
            trend=(*point, *document.history.trend),
            source=str(self.path),
        )


def read_report(path: Path) -> SavedReport:
    """Read one report.json, or the one in a folder.

    Raises:
        StorageError: there is none, it is damaged, or a newer ci-evals wrote it.
    """
    path, content = content_of(path)
    try:
        return SavedReport(path, read_known(path, content, Decoder(_Document).decode))
    except (ValueError, RecursionError) as error:
        empty = "it is empty" if not content.strip() else f"damaged or cut off: {error}"
        raise StorageError(
            f"{path}: is no whole report of ci-evals ({empty}): fetch it again, or name another"
        ) from error


def content_of(path: Path) -> tuple[Path, bytes]:
    """Which file a path stands for, a report.json or the one in a folder, and what is in it.

    Raises:
        StorageError: it cannot be read.
    """
    path = path / REPORT if path.is_dir() else path
    try:
        return path, path.read_bytes()
    except FileNotFoundError:
        raise StorageError(f"{path}: there is no report: name one that `ci-evals run` wrote, or its folder") from None
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from error


def read_known(path: Path, content: bytes, read: Callable[[bytes], Read]) -> Read:
    """What `read` makes of a report.json. The schema is looked at when it refuses one: to decode twice takes time.

    Raises:
        StorageError: a newer ci-evals wrote it.
        ValueError, RecursionError: it is no report.json.
    """
    try:
        return read(content)
    except (ValueError, RecursionError):
        _check_version(path, content)
        raise


def _check_version(path: Path, content: bytes) -> None:
    version = msgspec.json.decode(content, type=_Version)
    if version.schema_version > SCHEMA_VERSION:
        writer = one_line(str(version.suite.get("version", "a newer version")), 40)
        text = f"schema version {version.schema_version}, written by ci-evals {writer}"
        raise StorageError(f"{path}: is of {text}; this one reads up to {SCHEMA_VERSION}: upgrade ci-evals here")


def read_baseline(
    paths: Sequence[Path],
    suite: str,
    name: str | None = None,
    *,
    but: SavedReport | None = None,
    redactor: Redactor | None = None,
) -> Baseline | NoComparison:
    """Read the reports that a run is compared with, the newest of them being the baseline and the others its history.

    Args:
        paths: report.json files, folders with one in them, or folders of such folders.
        suite: what is compared with them.
        name: what sentences call the base side.
        but: a report that is no part of its own baseline, wherever it lies.
        redactor: takes secrets out of the names of cases, as it does out of those that they are compared with.

    Returns:
        The baseline, or why there is none: nothing is there, or it is of another suite.

    Raises:
        StorageError: a file cannot be read, is damaged, or a newer ci-evals wrote it.
    """
    found = read_reports(paths)
    if not found:
        return NoComparison(f"no baseline: there is no report at {' or '.join(path.as_posix() for path in paths)}")
    return baseline_of(found, suite, name, but=but, redactor=redactor)


def baseline_of(
    found: Sequence[SavedReport],
    suite: str,
    name: str | None = None,
    *,
    but: SavedReport | None = None,
    redactor: Redactor | None = None,
) -> Baseline | NoComparison:
    """As `read_baseline`, of reports that were read already; there is at least one."""
    same = [report for report in found if report.suite.name == suite]
    if not same:
        other = found[0]
        return NoComparison(f"no baseline: {other.path.as_posix()} is of another suite, {other.suite.name!r}")
    others = [report for report in same if but is None or report.own_id != but.own_id]
    if not others:
        return NoComparison(f"no baseline: {same[0].path.as_posix()} is the very report that is to be compared")
    baseline = joined([report.baseline for report in others])
    if not baseline.cells:
        return NoComparison(f"no baseline: {same[0].path.as_posix()} has no cells")
    if redactor is not None and redactor.finds(msgspec.json.encode(list(baseline.cells))):
        cells = {redactor.clean(key): cell for key, cell in baseline.cells.items()}
        baseline = msgspec.structs.replace(baseline, cells=cells)
    return msgspec.structs.replace(baseline, name=name) if name else baseline


def read_reports(paths: Sequence[Path]) -> list[SavedReport]:
    """Every report at some paths, as `read_baseline` takes them."""
    return [report for path in paths for report in _reports(path)]


def _reports(path: Path) -> Iterator[SavedReport]:
    if path.is_file() or (path / REPORT).is_file():
        yield read_report(path)
    elif path.is_dir():
        yield from (read_report(file) for file in sorted(path.glob(f"*/{REPORT}")) + sorted(path.glob("*.json")))
