"""All results of one invocation. Columns of numbers stay in memory; the results themselves stay in the journal."""

import statistics
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import count
from math import fsum, isclose, isnan
from typing import Literal, NamedTuple, overload

from msgspec import Struct

from ci_evals.columns import Columns
from ci_evals.matrix import Matrix
from ci_evals.model import Case, Result, Variant


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


class Figures(NamedTuple):
    """Latency in seconds over the runs that took place, cost and tokens over the runs that report them."""

    latency_mean_s: float | None
    latency_p50_s: float | None
    latency_p95_s: float | None
    cost_usd: float
    priced_runs: int
    input_tokens: int
    output_tokens: int


class CellReport(NamedTuple):
    """One case on one variant."""

    cell: int
    case: Case
    variant: Variant
    counts: Counts


class SuiteInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a report says of where it comes from.

    `fingerprint` identifies cases, prompts and providers together, `run_id` the journal, through all its
    continuations; `label` is the user's, to group reports by.
    """

    name: str
    description: str | None = None
    file: str
    fingerprint: str
    runs: int
    version: str
    revision: str | None = None
    shard: str | None = None
    label: str | None = None
    run_id: str | None = None


class Resumption(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an invocation found in earlier journals, in runs; `torn` are the journals whose last line was cut off."""

    kept: int = 0
    retried: int = 0
    changed: int = 0
    torn: tuple[str, ...] = ()


class Looks(Struct, frozen=True):
    """After which rounds the results may be looked at to stop early, and how many times that was done."""

    rounds: tuple[int, ...]
    taken: int


class Report:
    """All results of one invocation, with settings and revision.

    Args:
        suite: which suite ran, at which revision, by which version of ci-evals.
        matrix: what was planned.
        columns: what became of it.
        read: returns the journal's lines (raw JSON bytes) for the given slots, in their order.
        decode: turns one such line into a `Result`.
        started_at: seconds since the epoch.
        duration_s: wall time of the run phase.
        interrupted: the signal or reason that ended it early, or None.
        resumption: what was taken over from earlier journals, or None if nothing was to be.
        fingerprint_of: identifies what a row of the matrix asks and how it is judged, whatever the case is called.
        looks: what was agreed on stopping after some rounds, or None if all of them were to run.
        settled: the verdict that no outcome of the runs that were left out could change, or None if none was.
        confirmation: the further runs of suspects, as a report of the same cells; None if there were no suspects.
    """

    def __init__(  # noqa: PLR0913  the parts of a report; keyword-only where they could be mixed up
        self,
        suite: SuiteInfo,
        matrix: Matrix,
        columns: Columns,
        *,
        read: Callable[[Iterable[int]], Iterator[bytes]],
        decode: Callable[[bytes], Result],
        started_at: float,
        duration_s: float,
        interrupted: str | None = None,
        resumption: Resumption | None = None,
        fingerprint_of: Callable[[int], str] = str,
        looks: Looks | None = None,
        settled: Literal["pass", "borderline", "fail"] | None = None,
        confirmation: "Report | None" = None,
    ) -> None:
        self.suite = suite
        self.matrix = matrix
        self.columns = columns
        self.started_at = started_at
        self.duration_s = duration_s
        self.interrupted = interrupted
        self.resumption = resumption
        self.looks = looks
        self.settled = settled
        self.confirmation = confirmation
        self._fingerprint_of = fingerprint_of
        self._read = read
        self._decode = decode

    @property
    def id(self) -> str:
        """Tells this report from every other one."""
        return blake2b(
            f"{self.suite.fingerprint} {self.suite.shard} {self.started_at}".encode(), digest_size=8
        ).hexdigest()

    @cached_property
    def fingerprints(self) -> Sequence[str]:
        """Of each row of the matrix, what identifies its question and its judgement."""
        return [self._fingerprint_of(row) for row in range(len(self.matrix.cases))]

    @cached_property
    def cases_fingerprint(self) -> str:
        """Identifies all that is asked and how it is judged, in whatever order."""
        return blake2b("\n".join(sorted(self.fingerprints)).encode(), digest_size=8).hexdigest()

    # Counting.

    def counts(self, cells: Iterable[int]) -> Counts:
        """Count the runs of some cells."""
        by_code = [0, 0, 0, 0]
        for cell in cells:
            for code in self.columns.status[self.matrix.first_slots[cell] : self.matrix.first_slots[cell + 1]]:
                by_code[code] += 1
        return Counts(by_code[1], by_code[2], by_code[3], sum(by_code))

    def fresh(self, cell: int) -> tuple[int, int]:
        """Passed and graded runs of a cell, without those that only repeat a record."""
        columns, passed, graded = self.columns, 0, 0
        for slot in self.matrix.slots(cell):
            code = columns.status[slot]
            if code in (1, 2) and not columns.repeated[slot]:
                graded += 1
                passed += code == 1
        return passed, graded

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

    @property
    def pass_rate(self) -> float | None:
        """The mean over cells of their share of passed runs, as the gate sees it.

        None without graded runs, and of a run phase that was settled early: what had run by then is no fair sample.
        """
        if self.settled is not None:
            return None
        rates = [cell.counts.passed / cell.counts.graded for cell in self.cells if cell.counts.graded]
        return statistics.fmean(rates) if rates else None

    @property
    def match_rate(self) -> float | None:
        """The mean score of all graded runs; None without any, or if they are no fair sample."""
        if self.settled is not None:
            return None
        scores = array("d", (score for score in self.columns.score if not isnan(score)))
        return statistics.fmean(scores) if scores else None

    @property
    def cells(self) -> Iterator[CellReport]:
        """Every cell that has runs, in plan order."""
        return self.cells_among(range(len(self.matrix)))

    def cells_among(self, cells: Iterable[int]) -> Iterator[CellReport]:
        """Those of some cells that have runs."""
        for cell in cells:
            if self.matrix.runs(cell):
                yield CellReport(cell, self.matrix.case(cell), self.matrix.variant(cell), self.counts((cell,)))

    def cells_of(self, variant: Variant) -> range:
        """The cells of one column of the matrix."""
        return range(self.matrix.variants.index(variant), len(self.matrix), len(self.matrix.variants))

    def figures(self, cells: Iterable[int] | None = None) -> Figures:
        """Latency, cost and tokens of some cells, or of all."""
        columns = self.columns
        chosen = range(len(self.matrix)) if cells is None else cells
        slots = array("Q", (slot for cell in chosen for slot in self.matrix.slots(cell) if columns.status[slot]))
        latencies = sorted(array("d", (columns.latency_s[slot] for slot in slots)))
        costs = array("d", (cost for slot in slots if not isnan(cost := columns.cost_usd[slot])))
        return Figures(
            latency_mean_s=statistics.fmean(latencies) if latencies else None,
            latency_p50_s=_quantile(latencies, 0.5),
            latency_p95_s=_quantile(latencies, 0.95),
            cost_usd=fsum(costs),
            priced_runs=len(costs),
            input_tokens=sum(columns.input_tokens[slot] for slot in slots),
            output_tokens=sum(columns.output_tokens[slot] for slot in slots),
        )

    def grader_means(self, variant: Variant) -> Mapping[str, float]:
        """The mean score of each grader on one variant, by the grader's YAML name."""
        return {
            grader: total / count
            for (provider, prompt, grader), (count, total) in self.columns.grader_scores.items()
            if (provider, prompt) == (variant.provider, variant.prompt)
        }

    # Reading results back.

    def lines(self, slots: Iterable[int] | None = None) -> Iterator[bytes]:
        """The journal's lines of some slots, or of all, in plan order; slots that never ran are left out."""
        chosen = range(self.matrix.total) if slots is None else slots
        return self._read(slot for slot in chosen if self.columns.status[slot])

    def results(self, slots: Iterable[int] | None = None) -> Iterator[Result]:
        """As `lines`, decoded."""
        return map(self._decode, self.lines(slots))

    @property
    def runs(self) -> "Runs":
        """Every result in plan order, read from the journal when it is looked at."""
        return Runs(self)

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
        counts = self.totals
        if self.settled is not None:
            return self._settled_text(counts)
        parts = (("failed", counts.failed), ("errored", counts.errored), ("not run", counts.missing))
        return ", ".join([self._passed_text(counts), *(f"{count} {word}" for word, count in parts if count)])

    def _settled_text(self, counts: Counts) -> str:
        ended = counts.planned - counts.missing
        errored = f", {counts.errored} errored" if counts.errored else ""
        stopped = f"{errored}, stopped at {ended} of {counts.planned} {'run' if counts.planned == 1 else 'runs'}"
        if self.settled == "fail":
            return f"at least {counts.failed} {'failure' if counts.failed == 1 else 'failures'}{stopped}"
        passed = f"{counts.passed} {'run' if counts.passed == 1 else 'runs'} passed"
        return passed + (f", {counts.failed} failed" if counts.failed else "") + stopped

    def _passed_text(self, counts: Counts) -> str:
        rate, share = self.pass_rate, counts.pass_rate
        if share is None:
            return "no run was graded"
        complete = counts.graded == counts.planned
        runs = f"{'' if complete else 'graded '}{'run' if counts.graded == 1 else 'runs'}"
        text = f"{counts.passed} of {counts.graded} {runs} passed"
        if rate is None:
            return text
        if complete and isclose(rate, share):
            return f"{text} ({_percent(share)})"
        mean = "mean over cases" if len(self.matrix.variants) == 1 else "mean over cases and variants"
        return f"{text}, pass rate {_percent(rate)} ({mean})"


class Runs(Sequence[Result]):
    """The results of a report as a sequence that reads the journal on demand."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._slots = array("Q", (slot for slot, code in enumerate(report.columns.status) if code))

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Result]:
        return self._report.results(self._slots)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> list[Result]: ...
    def __getitem__(self, index: int | slice) -> Result | list[Result]:
        if isinstance(index, slice):
            return list(self._report.results(self._slots[index]))
        return next(self._report.results((self._slots[index],)))


def _percent(rate: float) -> str:
    """With one decimal, or the more it takes not to show a rate below 100 % as 100 %, or above 0 % as 0 %."""
    places = next(places for places in count(1) if rate in (0, 1) or 0 < round(100 * rate, places) < 100)
    return f"{100 * rate:.{places}f} %"


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """The nearest-rank quantile: the smallest value with at least `share` of the values at or below it."""
    if not ordered:
        return None
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]
