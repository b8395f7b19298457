"""What `ci-evals compare --format json` prints: the verdict of the comparison, and every cell of it."""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, structs

from ci_evals.report import SuiteInfo
from ci_evals.reports.comparison_entries import ComparisonEntry, comparison_entry
from ci_evals.reports.json_entries import SCHEMA_VERSION
from ci_evals.reports.json_text import printed
from ci_evals.reports.summary import Summary
from ci_evals.verdict.comparison import Comparison
from ci_evals.verdict.gate import Verdict
from ci_evals.verdict.pairing import CellComparison
from ci_evals.verdict.sentences import cell_sentence


class ComparedCellEntry(CellComparison, frozen=True, kw_only=True):
    """A cell beside its base, in numbers and in words."""

    sentence: str


class ComparisonDocument(Struct, frozen=True, kw_only=True):
    """The comparison of two reports; `cells` has every cell that either side has."""

    schema_version: Literal[2]
    suite: SuiteInfo
    started_at: float
    verdict: Verdict
    comparison: ComparisonEntry | None
    cells: tuple[ComparedCellEntry, ...]


def render_json(summary: Summary) -> str:
    """One line of JSON; see `ComparisonDocument`."""
    compared = summary.compared
    document = ComparisonDocument(
        schema_version=SCHEMA_VERSION,
        suite=summary.report.suite,
        started_at=summary.report.started_at,
        verdict=summary.verdict,
        comparison=comparison_entry(summary),
        cells=tuple(_cells(compared)) if compared else (),
    )
    return printed(document)


def _cells(comparison: Comparison) -> Iterator[ComparedCellEntry]:
    for cell in comparison.cells:
        yield ComparedCellEntry(**structs.asdict(cell), sentence=cell_sentence(comparison, cell))
