"""A report with its verdict and comparison: the input of every format."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, NamedTuple, Protocol, TypeVar

from ci_evals.gate.bars import BaseNoise
from ci_evals.gate.baseline import Baseline, ReportedCell, reported_cells
from ci_evals.gate.compare import Comparison, NoComparison, compare
from ci_evals.gate.verdict import Verdict, decide, noise_of_base
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport
from ci_evals.model.rules import Gate

T = TypeVar("T")


class Note(NamedTuple):
    """A label and one sentence: `Resumed`, `120 of 200 runs kept, 80 new ones`.

    A `brief` note is shown even if there is little room. `command` is a command to learn more.
    """

    label: str
    text: str
    brief: bool = False
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseAnswer:
    """An answer of the base: from its newest report, or from main's runs in the same minutes.

    Attributes:
        text: the beginning of the answer.
        is_now: it is from main's runs in the same minutes.
        missed: the unmet expectations; empty if it passed, and where it is from a report.
    """

    text: str
    is_now: bool = False
    missed: str = ""


@dataclass(frozen=True, eq=False)
class Summary:
    """A report, its verdict and its comparison: what every format renders.

    Values derived from it, such as its cells and its findings, are computed once and kept with it:
    see `once_per_summary`.

    Args:
        report: all results.
        cells: every cell with runs, in plan order.
        verdict: the gate's verdict.
        gate: the rules for merging; None if there are none.
        comparison: the comparison with the baseline, or the reason why there is none; None if
            nobody asked for one.
        before: the base's answers for cells that changed or failed, if they are known.
        notes: further notes about how the report was judged.
        links: the URLs of the CI system's pages about it, by name.
        is_going_on: the run has not ended, so `verdict` is provisional.
        derived: the derived values, by the function that computes them.
    """

    report: SuiteReport
    cells: Sequence[ReportedCell]
    verdict: Verdict
    gate: Gate | None
    comparison: Comparison | NoComparison | None = None
    before: Mapping[CellKey, BaseAnswer] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    is_going_on: bool = False
    derived: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def compared(self) -> Comparison | None:
        """The comparison, if there is one."""
        return self.comparison if isinstance(self.comparison, Comparison) else None

    @property
    def base_links(self) -> Mapping[str, str]:
        """The URL of the newest run of a base branch that is itself broken, by name."""
        comparison = self.compared
        if comparison is None or not comparison.broken or not comparison.baseline.run_url:
            return {}
        return {f"newest run of {comparison.baseline.label}": comparison.baseline.run_url}

    @property
    def base(self) -> str | None:
        """The name of the baseline in sentences; None without a comparison."""
        return self.compared.baseline.label if self.compared else None

    @property
    def base_heading(self) -> str:
        """The name of the baseline in headings; empty without a comparison."""
        return (self.base or "").removeprefix("the ")

    def source_of(self, answer: BaseAnswer) -> str:
        """Return what gave an answer: `main`, or the commit that ran now: `main (0123456)`."""
        main_now = self.report.main_now
        if answer.is_now and main_now is not None:
            return main_now.name
        return self.base or ""

    def label_of(self, answer: BaseAnswer) -> str:
        """Return the heading of an answer: `main`, or `main (0123456), now`."""
        source = self.source_of(answer)
        if answer.is_now:
            return f"{source}, now"
        return source


def once_per_summary(derive: Callable[[Summary], T]) -> Callable[[Summary], T]:
    """Cache a function of a summary, so that all formats share one call.

    The values are kept with the summary and not by `functools.cache`, which would keep every
    summary alive.
    """

    @wraps(derive)
    def derive_once(summary: Summary) -> T:
        derived = summary.derived
        if derive not in derived:
            derived[derive] = derive(summary)
        value: T = derived[derive]
        return value

    return derive_once


@once_per_summary
def base_noise(summary: Summary) -> BaseNoise:
    """Return what the base's reports tell about the noise of the report."""
    return noise_of_base(summary.report, summary.comparison)


def common_luck(summary: Summary) -> Mapping[Variant, float]:
    """Return how much more the base's reports of each variant vary than independent runs would.

    Variants with too little history are left out.
    """
    return base_noise(summary).overdispersion


class Renderer(Protocol):
    """Renders a summary in one format, as an iterable of UTF-8 chunks. Opens and prints nothing."""

    def __call__(self, summary: Summary) -> Iterable[bytes]: ...


def summarize(
    report: SuiteReport,
    gate: Gate | None,
    baseline: Baseline | NoComparison | None = None,
    *,
    confirm_runs: int = 0,
) -> Summary:
    """Compare a report and judge it.

    Args:
        report: all results.
        gate: the rules for merging.
        baseline: the baseline, or the reason why there is none; None if nobody asked for one.
        confirm_runs: how many runs name a candidate.
    """
    cells = reported_cells(report, gate)
    comparison: Comparison | NoComparison | None
    if isinstance(baseline, Baseline):
        comparison = compare(
            cells,
            baseline,
            confirm_runs=confirm_runs,
            rules=gate,
            is_selection=report.suite.selection is not None,
            main_now=report.main_now,
        )
    else:
        comparison = baseline
    return Summary(report, cells, decide(report, gate, comparison), gate, comparison)
