"""A report with its verdict and comparison: the input of every format."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, NamedTuple, Protocol, TypeVar

from ci_evals.gate.baseline import Baseline, ReportedCell, reported_cells
from ci_evals.gate.compare import Comparison, NoComparison, compare
from ci_evals.gate.verdict import Verdict, decide, luck_in_common
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport
from ci_evals.model.rules import ConfirmRuns, Gate

T = TypeVar("T")


class Note(NamedTuple):
    """A label and one sentence: `Resumed`, `120 of 200 runs kept, 80 new ones`.

    A `brief` one is shown even where there is little room. `command` is what to run to learn more.
    """

    label: str
    text: str
    brief: bool = False
    command: str = ""


@dataclass(frozen=True, eq=False)
class Summary:
    """A report, its verdict and its comparison: what every format renders.

    What follows from it, such as its cells or its findings, is computed once and kept with it: see
    `once_per_summary`.

    Args:
        report: what was run.
        cells: every cell of it that has runs, in plan order.
        verdict: what the gate says of it.
        gate: the rules for merging; None if there are none.
        comparison: the report against its baseline, or why there is none; None if nobody asked.
        before: what the baseline answered to cells that changed or failed, if it is known.
        notes: what else a reader should know about how the report was judged.
        links: the name and URL of pages of the CI system about it.
        is_going_on: the run has not ended, so `verdict` is provisional.
        derived: what follows from it, by the function that derives it.
    """

    report: SuiteReport
    cells: Sequence[ReportedCell]
    verdict: Verdict
    gate: Gate | None
    comparison: Comparison | NoComparison | None = None
    before: Mapping[CellKey, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    is_going_on: bool = False
    derived: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def compared(self) -> Comparison | None:
        """The comparison, where there is one."""
        return self.comparison if isinstance(self.comparison, Comparison) else None

    @property
    def base_links(self) -> Mapping[str, str]:
        """The name and URL of the newest run of a base branch that is broken itself, if known."""
        comparison = self.compared
        if comparison is None or not comparison.broken or not comparison.baseline.run_url:
            return {}
        return {f"newest run of {comparison.baseline.label}": comparison.baseline.run_url}

    @property
    def base(self) -> str | None:
        """The name of the baseline in sentences, where there is a comparison with it."""
        return self.compared.baseline.label if self.compared else None


def once_per_summary(derive: Callable[[Summary], T]) -> Callable[[Summary], T]:
    """Decorate a function of a summary so that all formats share one call of it."""

    @wraps(derive)
    def derive_once(summary: Summary) -> T:
        derived = summary.derived
        if derive not in derived:
            derived[derive] = derive(summary)
        value: T = derived[derive]
        return value

    return derive_once


@once_per_summary
def common_luck(summary: Summary) -> Mapping[Variant, float]:
    """Return how much more the base's reports of each variant vary than independent runs would.

    Variants of which that is not known are left out.
    """
    return luck_in_common(summary.report, summary.comparison)


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
    cells = reported_cells(report, gate)
    comparison: Comparison | NoComparison | None
    if isinstance(baseline, Baseline):
        alpha = (gate or Gate()).alpha
        comparison = compare(
            cells,
            baseline,
            confirm_runs=confirm_runs,
            alpha=alpha,
            is_selection=report.suite.selection is not None,
        )
    else:
        comparison = baseline
    return Summary(report, cells, decide(report, gate, comparison), gate, comparison)
