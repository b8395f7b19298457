"""What is counted of planned runs, from the matrix and the columns."""

import statistics
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import compress, filterfalse, pairwise
from math import fsum, isnan
from operator import not_
from typing import Literal, NamedTuple, TypeVar

from msgspec import Struct

from ci_evals.columns import Columns
from ci_evals.matrix import Matrix
from ci_evals.model import Case, Variant
from ci_evals.summary_line import summary_line

Column = TypeVar("Column", "array[float]", "array[int]", bytearray)


class Counts(NamedTuple):
    """How a set of runs ended. `planned` includes runs that never happened."""

    passed: int
    failed: int
    errored: int
    planned: int

    @property
    def graded(self) -> int:
        return self.passed + self.failed

    @property
    def missing(self) -> int:
        return self.planned - self.graded - self.errored

    @property
    def pass_rate(self) -> float | None:
        """The share of graded runs that passed; None when none was graded."""
        return self.passed / self.graded if self.graded else None


_NONE = Counts(0, 0, 0, 0)


class Figures(NamedTuple):
    """Latency in seconds over the runs that took place, cost and tokens over the runs that report them."""

    latency_mean_s: float | None
    latency_p50_s: float | None
    latency_p95_s: float | None
    cost_usd: float
    priced_runs: int
    input_tokens: int
    output_tokens: int


class CellReport(Struct, frozen=True):
    """One case on one variant."""

    cell: int
    case: Case
    variant: Variant
    counts: Counts


class Counted:
    """Planned runs and what became of them, in numbers.

    Args:
        matrix: what was planned.
        columns: what became of it.
        settled: the verdict that no outcome of the runs that were left out could change, or None if none was.
    """

    def __init__(
        self, matrix: Matrix, columns: Columns, settled: Literal["pass", "borderline", "fail"] | None = None
    ) -> None:
        self.matrix = matrix
        self.columns = columns
        self.settled = settled

    @cached_property
    def by_cell(self) -> Sequence[Counts]:
        """How the runs of every cell ended."""
        status = bytes(self.columns.status)
        return [_counted(status[start:end]) for start, end in pairwise(self.matrix.first_slots)]

    def counts(self, cells: Iterable[int]) -> Counts:
        """Count the runs of some cells."""
        chosen = map(self.by_cell.__getitem__, cells)
        return Counts(*map(sum, zip(_NONE, *chosen, strict=True)))

    @cached_property
    def _repeats(self) -> bool:
        return self.columns.recorded > 0

    def fresh(self, cell: int) -> tuple[int, int]:
        """Passed and graded runs of a cell, without those that only repeat a record."""
        if not self._repeats:
            counts = self.by_cell[cell]
            return counts.passed, counts.graded
        start, end = self.matrix.first_slots[cell], self.matrix.first_slots[cell + 1]
        codes = self.columns.status[start:end]
        if 1 in (repeated := self.columns.repeated[start:end]):
            codes = bytearray(compress(codes, map(not_, repeated)))
        passed = codes.count(1)
        return passed, passed + codes.count(2)

    @property
    def budget_violations(self) -> int:
        """How many runs took more than `budget.per_run` allows."""
        return self.columns.budget_violations

    @cached_property
    def totals(self) -> Counts:
        status = self.columns.status
        return Counts(status.count(1), status.count(2), status.count(3), len(status))

    @property
    def total(self) -> int:
        """The number of planned runs."""
        return self.totals.planned

    @property
    def passed(self) -> int:
        return self.totals.passed

    @property
    def failed(self) -> int:
        return self.totals.failed

    @property
    def errored(self) -> int:
        return self.totals.errored

    @cached_property
    def pass_rate(self) -> float | None:
        """The mean over cells of their share of passed runs, as the gate sees it.

        None without graded runs, and of a run phase that was settled early: what had run by then is no fair sample.
        """
        if self.settled is not None:
            return None
        rates = [rate for counts in self.by_cell if (rate := counts.pass_rate) is not None]
        return statistics.fmean(rates) if rates else None

    @property
    def match_rate(self) -> float | None:
        """The mean score of all graded runs; None without any, or if they are no fair sample."""
        return self.mean_score()

    def mean_score(self, cells: Sequence[int] | None = None) -> float | None:
        """As `match_rate`, of some cells."""
        if self.settled is not None:
            return None
        scores = _known(self._values(self.columns.score, cells))
        return statistics.fmean(scores) if scores else None

    @property
    def cells(self) -> Iterator[CellReport]:
        """Every cell that has runs, in plan order."""
        return self.cells_among(range(len(self.matrix)))

    def cells_among(self, cells: Iterable[int]) -> Iterator[CellReport]:
        """Those of some cells that have runs."""
        cases, variants, by_cell = self.matrix.cases, self.matrix.variants, self.by_cell
        width = len(variants)
        for cell in cells:
            if (counts := by_cell[cell]).planned:
                row, column = divmod(cell, width)
                yield CellReport(cell, cases[row], variants[column], counts)

    def cells_of(self, variant: Variant) -> range:
        """The cells of one column of the matrix."""
        return range(self.matrix.variants.index(variant), len(self.matrix), len(self.matrix.variants))

    def figures(self, cells: Sequence[int] | None = None) -> Figures:
        """Latency, cost and tokens of some cells, or of all."""
        columns = self.columns
        latencies = sorted(self.latencies_s(cells))
        costs = self.costs_usd(cells)
        return Figures(
            latency_mean_s=statistics.fmean(latencies) if latencies else None,
            latency_p50_s=_quantile(latencies, 0.5),
            latency_p95_s=_quantile(latencies, 0.95),
            cost_usd=fsum(costs),
            priced_runs=len(costs),
            input_tokens=sum(self._values(columns.input_tokens, cells)),
            output_tokens=sum(self._values(columns.output_tokens, cells)),
        )

    def unpriced_runs(self, cells: Sequence[int]) -> int:
        """How many graded runs of some cells have no known price."""
        graded = map((1, 2).__contains__, self._values(self.columns.status, cells))
        return sum(map(isnan, compress(self._values(self.columns.cost_usd, cells), graded)))

    @property
    def unknown_prices(self) -> int:
        """How many graded runs called their provider at a price that is not known."""
        columns = self.columns
        runs = zip(columns.status, columns.repeated, columns.cost_usd, strict=True)
        return sum(isnan(cost_usd) for code, repeated, cost_usd in runs if code in (1, 2) and not repeated)

    def latencies_s(self, cells: Sequence[int] | None = None) -> "array[float]":
        """How long each run of some cells took, or of all, in plan order; those that never took place left out."""
        return _known(self._values(self.columns.latency_s, cells))

    def costs_usd(self, cells: Sequence[int] | None = None) -> "array[float]":
        """What each run of some cells cost, or of all, in plan order; those whose price is not known left out."""
        return _known(self._values(self.columns.cost_usd, cells))

    def _values(self, column: Column, cells: Sequence[int] | None) -> Column:
        """What a column has of some cells, or of all."""
        if cells is None or len(cells) == len(self.matrix):
            return column
        first_slots, values = self.matrix.first_slots, column[:0]
        for cell in cells:
            values += column[first_slots[cell] : first_slots[cell + 1]]
        return values

    def grader_means(self, variant: Variant) -> Mapping[str, float]:
        """The mean score of each grader on one variant, by the grader's YAML name."""
        return {
            grader: total / count
            for (provider, prompt, grader), (count, total) in self.columns.grader_scores.items()
            if (provider, prompt) == (variant.provider, variant.prompt)
        }

    @property
    def by_case(self) -> Mapping[str, Counts]:
        """Case id to counts over all its variants."""
        width = len(self.matrix.variants)
        return {
            case.id: self.counts(range(index * width, (index + 1) * width))
            for index, case in enumerate(self.matrix.cases)
        }

    @property
    def by_variant(self) -> Mapping[str, Counts]:
        """Variant (`provider` or `provider · prompt`) to counts over all its cases."""
        return {str(variant): self.counts(self.cells_of(variant)) for variant in self.matrix.variants}

    def summary(self) -> str:
        """One line for a person: `102 of 110 runs passed (92.7 %), 8 failed`.

        Where runs are missing from the rate, or it is not the share of these runs, it says so:
        `2 of 4 graded runs passed, pass rate 50.0 % (mean over cases), 2 failed, 10 errored`. A run phase that was
        settled early has no rate: `at least 19 failures, stopped at 63 of 120 runs`.
        """
        return summary_line(self.totals, self.pass_rate, self.settled, len(self.matrix.variants))


@lru_cache(maxsize=4096)  # the runs of most cells end in one of a few ways
def _counted(codes: bytes) -> Counts:
    return Counts(codes.count(1), codes.count(2), codes.count(3), len(codes))


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """The nearest-rank quantile: the smallest value with at least `share` of the values at or below it."""
    if not ordered:
        return None
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def _known(values: "array[float]") -> "array[float]":
    """Those that are numbers."""
    return array("d", filterfalse(isnan, values))
