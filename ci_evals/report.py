"""All results of one invocation. Columns of numbers stay in memory; the results themselves stay in the journal."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from math import fsum
from typing import Literal, NamedTuple, overload

from msgspec import Struct

from ci_evals.columns import Columns
from ci_evals.counting import CellReport, Counted, Counts, Figures
from ci_evals.matrix import Matrix
from ci_evals.model import Judging, Result

__all__ = ["CellReport", "Counts", "Figures", "Looks", "Report", "Resumption", "Spent", "SuiteInfo", "Unpriced"]


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


class Spent(NamedTuple):
    """What calls of known price cost, in USD, by what they were for; None where there is no such call."""

    planned: float | None
    confirming: float | None
    judging: float | None

    @property
    def several(self) -> bool:
        """Whether more than one of them cost something."""
        return len(list(filter(None, self))) > 1

    @property
    def total_usd(self) -> float | None:
        known = [cost for cost in self if cost is not None]
        return fsum(known) if known else None


class Unpriced(Struct, frozen=True):
    """How many calls `Spent` leaves out, as nobody knows what they cost: runs, confirm runs included, and judges."""

    runs: int
    judge_calls: int


class Report(Counted):
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
        super().__init__(matrix, columns, settled)
        self.suite = suite
        self.started_at = started_at
        self.duration_s = duration_s
        self.interrupted = interrupted
        self.resumption = resumption
        self.looks = looks
        self.confirmation = confirmation
        self.fingerprint_of = fingerprint_of
        self._read = read
        self._decode = decode

    @property
    def id(self) -> str:
        """Tells this report from every other one."""
        return blake2b(
            f"{self.suite.fingerprint} {self.suite.shard} {self.started_at}".encode(), digest_size=8
        ).hexdigest()

    @property
    def fingerprints(self) -> Sequence[str]:
        """Of each row of the matrix, what identifies its question and its judgement."""
        return [self.fingerprint_of(row) for row in range(len(self.matrix.cases))]

    @cached_property
    def cases_fingerprint(self) -> str:
        """Identifies all that is asked and how it is judged, in whatever order."""
        return blake2b("\n".join(sorted(self.fingerprints)).encode(), digest_size=8).hexdigest()

    @property
    def judging(self) -> Judging:
        """What the models that judge took, for confirm runs too."""
        own = self.columns.judging
        return own if self.confirmation is None else own + self.confirmation.columns.judging

    @cached_property
    def spent(self) -> Spent:
        """What all runs cost, the confirm runs and the judges included."""
        planned, further = self.costs_usd(), self.confirmation.costs_usd() if self.confirmation else ()
        return Spent(
            fsum(planned) if planned else None, fsum(further) if further else None, self.judging.known_cost_usd
        )

    @cached_property
    def unpriced(self) -> Unpriced:
        """What is missing from `spent`."""
        reports = (self, self.confirmation) if self.confirmation else (self,)
        return Unpriced(sum(each.unknown_prices for each in reports), self.judging.unpriced)

    def lines(self, slots: Iterable[int] | None = None) -> Iterator[bytes]:
        """The journal's lines of some slots, or of all, in plan order; slots that never ran are left out."""
        chosen = range(self.matrix.total) if slots is None else slots
        yield from self._read(filter(self.columns.status.__getitem__, chosen))  # who reads keeps report and journal

    def results(self, slots: Iterable[int] | None = None) -> Iterator[Result]:
        """As `lines`, decoded."""
        return map(self._decode, self.lines(slots))

    @property
    def runs(self) -> "Runs":
        """Every result in plan order, read from the journal when it is looked at."""
        return Runs(filter(self.columns.status.__getitem__, range(self.matrix.total)), self.results)


class Runs(Sequence[Result]):
    """Results as a sequence that reads the journal on demand.

    Args:
        slots: those that have one.
        read: returns the results of the given slots, in their order.
    """

    def __init__(self, slots: Iterable[int], read: Callable[[Iterable[int]], Iterator[Result]]) -> None:
        self._slots = array("Q", slots)
        self._read = read

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Result]:
        return self._read(self._slots)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> list[Result]: ...
    def __getitem__(self, index: int | slice) -> Result | list[Result]:
        if isinstance(index, slice):
            return list(self._read(self._slots[index]))
        return next(self._read((self._slots[index],)))
