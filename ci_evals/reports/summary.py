"""A report with its verdict and comparison: the input of every format."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from ci_evals.gate.baseline import Baseline, head_cells
from ci_evals.gate.compare import Comparison, NoComparison, compare
from ci_evals.gate.verdict import Verdict, decide
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport
from ci_evals.model.rules import ConfirmRuns, Gate


class Note(NamedTuple):
    """A label and one sentence: `Resumed`, `120 of 200 runs kept, 80 new ones`."""

    label: str
    text: str

    @property
    def brief(self) -> bool:
        """Return True if it belongs even where there is little room."""
        return self.label in _BRIEF


_BRIEF = (
    "Interrupted",
    "Selected",
    "Quarantined",
    "Resumed",
    "Reused",
    "Recorded",
    "Not verified",
    "Rules",
    "Missing",
    "Edited",
    "Gate changed",
    "Graders changed",
    "Left out",
    "Latency",
    "Not named",
)


class Summary(NamedTuple):
    """A report with its verdict, and beside its baseline: `comparison` is None if nobody asked for
    one.

    `before` has what the baseline answered to cells that look worse, as far as that is at hand;
    `notes` are what else is to be known of how it was judged; `links` are pages of the CI system
    about it, by what they are called. Of a run that `is_going_on` there is no verdict yet.
    """

    report: SuiteReport
    verdict: Verdict
    gate: Gate | None
    comparison: Comparison | NoComparison | None = None
    before: Mapping[CellKey, str] = MappingProxyType({})
    notes: tuple[Note, ...] = ()
    links: Mapping[str, str] = MappingProxyType({})
    is_going_on: bool = False

    @property
    def compared(self) -> Comparison | None:
        """The comparison, where there is one."""
        return self.comparison if isinstance(self.comparison, Comparison) else None

    @property
    def base(self) -> str | None:
        """The name of the baseline in sentences, where there is a comparison with it."""
        return self.compared.baseline.called if self.compared else None


class Renderer(Protocol):
    """One format: chunks of UTF-8, made while they are read. Opens no file, prints nothing."""

    def __call__(self, summary: Summary) -> Iterable[bytes]: ...


def summarize(
    report: SuiteReport,
    gate: Gate | None,
    baseline: Baseline | NoComparison | None = None,
    *,
    confirm_runs: ConfirmRuns = 0,
) -> Summary:
    """Compare a report and judge it.

    Args:
        report: what was run.
        gate: the rules for merging.
        baseline: what to compare with, or why there is nothing; None if nobody asked.
        confirm_runs: how often suspects were to be run again.
    """
    comparison: Comparison | NoComparison | None
    if isinstance(baseline, Baseline):
        alpha = (gate or Gate()).alpha
        comparison = compare(
            head_cells(report, gate),
            baseline,
            confirm_runs=confirm_runs,
            alpha=alpha,
            is_selection=report.suite.selection is not None,
        )
    else:
        comparison = baseline
    return Summary(report, decide(report, gate, comparison), gate, comparison)
