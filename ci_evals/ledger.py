"""What an order plans, what became of it so far, and the report of that at any moment."""

import time
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from ci_evals import __version__
from ci_evals.columns import Columns
from ci_evals.engine.cells import Cells
from ci_evals.engine.journal import Journal
from ci_evals.engine.journal_lines import Header, decode, first_header, read_lines
from ci_evals.engine.resume import Resumer
from ci_evals.matrix import Matrix
from ci_evals.model import Case
from ci_evals.order import Order
from ci_evals.redaction import Redactor
from ci_evals.report import Looks, Report, Resumption, SuiteInfo


class Part(NamedTuple):
    """Runs of every cell: the planned ones, or those that confirm suspects."""

    matrix: Matrix
    columns: Columns
    cells: Cells
    resumption: Resumption


class Ledger:
    """The parts of an order's plan, filled from earlier journals when they are made.

    Args:
        order: what is to be done; its paths are absolute.
        named: what these paths are called in a report.
        journal: where results are written.
        continued: whether that journal was there.
        matrix: the plan to begin with.
        columns: where its results are counted.
        redactor: takes secrets out of what is reported.
    """

    def __init__(  # noqa: PLR0913  a ledger is where these meet
        self,
        order: Order,
        named: Mapping[Path, Path],
        journal: Journal,
        matrix: Matrix,
        columns: Columns,
        redactor: Redactor,
        *,
        continued: bool,
    ) -> None:
        self.looks: Looks | None = None
        self.settled: Literal["pass", "borderline", "fail"] | None = None
        self.confirmation: Part | None = None
        self.fresh = False
        """Whether a run has ended in this invocation."""
        self._order = order
        self._named = named
        self._journal = journal
        self._redactor = redactor
        self._continued = continued
        self._until: int | None = None
        self._started_at, self._start = time.time(), time.perf_counter()
        self._ended_at = 0.0
        self.plan = self._taken_over(matrix, columns)

    def grow(self, matrix: Matrix) -> Part:
        """Plan more runs of the same cells."""
        old = self.plan
        part = self._taken_over(matrix, old.columns.extended(old.matrix, matrix))
        self.plan = part._replace(resumption=_sum(old.resumption, part.resumption))
        return self.plan

    def confirm(self, matrix: Matrix) -> Part:
        """Plan runs that confirm suspects; they stay apart from those that the gate judges."""
        self.confirmation = self._taken_over(matrix, Columns(matrix.total))
        return self.confirmation

    def _taken_over(self, matrix: Matrix, columns: Columns) -> Part:
        """A part with what earlier journals hold of it."""
        order, journal = self._order, self._journal
        cells = Cells(order.suite, matrix)
        resumer = Resumer(matrix, columns, cells, self._redactor, keep_errored=order.merge, until=self._until)
        if self._continued:
            if self._until is None:
                journal.clean()
            resumer.go_on(journal)
        if self._until is None:
            self._until = journal.end
            journal.start(Header(suite=self._redactor.clean(describe(order)), started_at=self._started_at))
        resumer.take_over(order.sources, journal)
        self._ended_at = max(self._ended_at, resumer.ended_at)
        return Part(matrix, columns, cells, resumer.resumption)

    # Reporting.

    def report(self, interrupted: str | None) -> Report:
        """The report of what is recorded by now; `interrupted` says why there is no more."""
        confirmation = self.confirmation and self._report_of(self.confirmation, None)
        return self._report_of(self.plan, interrupted, confirmation)

    def _report_of(self, part: Part, interrupted: str | None, confirmation: Report | None = None) -> Report:
        order, columns = self._order, part.columns
        started_at, duration_s = self._span()
        return Report(
            self._redactor.clean(describe(order)),
            self._shown(part.matrix),
            columns,
            read=lambda slots: read_lines(order.journal, map(columns.offset.__getitem__, slots)),
            decode=decode,
            started_at=started_at,
            duration_s=duration_s,
            interrupted=interrupted,
            resumption=self._resumption(part) if self._continued or order.sources else None,
            fingerprint_of=order.suite.case_fingerprint,
            looks=self.looks,
            settled=self.settled,
            confirmation=confirmation,
        )

    def _shown(self, matrix: Matrix) -> Matrix:
        """A matrix as reports may show it."""
        shown = copy(matrix)
        shown.cases = self._shown_cases
        return shown

    @cached_property
    def _shown_cases(self) -> Sequence[Case]:
        """The cases without secrets: they may hold what the suite elsewhere takes from a variable."""
        clean, redactor = self._redactor.clean, self._redactor
        return [clean(case) if _tells_secrets(case, redactor) else case for case in self._order.suite.cases]

    def _span(self) -> tuple[float, float]:
        """When the results began to come about, and for how long; where nothing ran, as the journals have it.

        So the same journals make the same report, whenever they are read.
        """
        if self.fresh or not self._ended_at:
            return self._first_started_at, time.perf_counter() - self._start
        return self._first_started_at, max(0.0, round(self._ended_at - self._first_started_at, 3))

    @cached_property
    def _first_started_at(self) -> float:
        """When the first of the invocations that this one goes on with was started."""
        paths = (*([self._order.journal] if self._continued else ()), *self._order.sources)
        return min((each.started_at for each in filter(None, map(first_header, paths))), default=self._started_at)

    def _resumption(self, part: Part) -> Resumption | None:
        """A merge is reported as one run, unless a line of a journal was lost."""
        found = part.resumption
        if self._order.merge and not found.torn:
            return None
        torn = tuple(self._named[Path(name)].as_posix() for name in found.torn)
        return msgspec.structs.replace(found, torn=torn)


def describe(order: Order) -> SuiteInfo:
    """What a journal and a report say of their suite."""
    suite = order.suite
    return SuiteInfo(
        name=suite.name,
        description=suite.description,
        file=suite.file,
        fingerprint=suite.fingerprint,
        runs=suite.runs,
        version=__version__,
        revision=order.revision,
        shard=str(order.shard) if order.shard else None,
        label=suite.label,
        run_id=order.run_id,
    )


def _sum(one: Resumption, other: Resumption) -> Resumption:
    return Resumption(
        kept=one.kept + other.kept,
        retried=one.retried + other.retried,
        changed=one.changed + other.changed,
        torn=one.torn,
    )


def _tells_secrets(case: Case, redactor: Redactor) -> bool:
    told = (case.id, case.vars, case.input, case.messages, case.tags, case.description, case.metadata)
    try:
        return redactor.finds(msgspec.json.encode(told, enc_hook=repr))
    except UnicodeEncodeError:  # lone surrogates
        return True
