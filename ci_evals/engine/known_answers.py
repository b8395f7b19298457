"""Results and answers that exist already: one store that is asked before anything is called.

In order of precedence, a run has

1. a result: of the journal that is resumed, of earlier attempts, of shards. It is taken over as it
is where the run's
   fingerprint is the same;
2. an answer, which is judged anew: that of a trace, where traces are graded; else that of the
recording that its case
   names; else that of a journal to replay, where the question is the same; else that of an earlier
   run to be reused, where the provider is no code of the team's own, which may have changed.
"""

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ci_evals.engine.cells import Cells, PreparedCell
from ci_evals.engine.journal import (
    JOURNAL,
    Journal,
    headers,
    is_torn,
    read_results,
    restore_output,
)
from ci_evals.engine.traces import CASE_ATTRIBUTES, Trace
from ci_evals.errors import StorageError
from ci_evals.model.case import Case
from ci_evals.model.fields import first_problem
from ci_evals.model.plan import CellKey, RunPlan
from ci_evals.model.report import Resumption, RunRecord
from ci_evals.model.response import Response
from ci_evals.model.result import Result, RunError, Status, decode_result
from ci_evals.providers.answer import as_response
from ci_evals.redaction import Redactor

_JOURNAL_SUFFIXES = (".jsonl", ".ndjson")


class _Place(NamedTuple):
    """The place of a result in an open journal."""

    file: BinaryIO
    offset: int
    is_own: bool = False

    def read(self) -> Result:
        self.file.seek(self.offset)
        return decode_result(self.file.readline())

    def read_answer(self) -> Result:
        """Read a result whose answer is to be judged again.

        Raises:
            StorageError: the rest of a long answer is missing.
        """
        result = replace(self.read(), reused=False)
        if result.response is None:
            return result
        return replace(
            result, response=restore_output(result.response, Path(self.file.name).parent)
        )


class KnownAnswers:
    """The results and answers of a plan's runs that are there before they are run.

    Only where each one stands is kept in memory. The files stay open until `close`, so that they
    may be moved away meanwhile.

    Args:
        keep_errored: take over errored results too, instead of running them again.
        keep_unchecked: take over what only a recording answered because a job had no secrets, too.
    """

    def __init__(self, *, keep_errored: bool = False, keep_unchecked: bool = False) -> None:
        self.torn: list[Path] = []
        """The journals whose last line a crash cut off."""
        self.ended_at = 0.0
        """The end of the last of the runs that were taken over, in seconds since the epoch."""
        self._keep_errored = keep_errored
        self._keep_unchecked = keep_unchecked
        self._files = ExitStack()
        self._graded: dict[tuple[str, str | None, int], _Place] = {}
        self._errored: dict[tuple[str, str | None, int], _Place] = {}
        self._named: set[tuple[CellKey, int]] = set()
        self._recordings: dict[Path, _Recording | Trace] = {}
        self._replayed: dict[tuple[str, int], _Place] | None = None
        self._reusable: dict[tuple[str, int], _Place] = {}
        self._own_code: Container[str] = ()
        self._traces: Mapping[str, Sequence[Trace]] | None = None

    # Sources.

    def add_results(self, path: Path, *, is_own: bool = False) -> None:
        """Add a journal's results; journals added earlier win.

        Args:
            path: the journal.
            is_own: it is the one that is written, so that its results need not be copied.

        Raises:
            StorageError: it cannot be read.
        """
        file = self._open(path)
        drop_recorded = not self._keep_unchecked and any(
            each.suite.without_secrets for each in headers(path)
        )
        places: dict[tuple[str, str | None, int], tuple[Status, _Place]] = {}
        for offset, result in read_results(path):
            if drop_recorded and result.recorded:
                continue
            key = result.fingerprint, result.prompt, result.run
            status, _ = places.get(key, ("errored", None))
            if status == "errored" or (
                result.error and result.error.kind == "outage"
            ):  # which withdraws a grade
                places[key] = result.status, _Place(file, offset, is_own)
            self._named.add(((result.case, result.provider, result.prompt), result.run))
        for key, (status, place) in places.items():
            if status == "errored":
                self._errored[key] = place
            else:
                self._graded.setdefault(key, place)
        if is_torn(path):
            self.torn.append(path)

    def add_replay(self, path: Path) -> None:
        """Add a journal's answers and failures, by their question; the last one wins.

        Raises:
            StorageError: it cannot be read.
        """
        file = self._open(path)
        self._replayed = {
            (_question_of(result), result.run): _Place(file, offset)
            for offset, result in read_results(path)
            if _has_answer(result)
        }

    def add_reusable(self, path: Path, not_before: float, own_code: Container[str]) -> None:
        """Add a journal's answers to be reused; journals added earlier win.

        Args:
            path: the journal.
            not_before: what was answered earlier than that, in seconds since the epoch, is not
                taken.
            own_code: the providers that run code of the team's own, whose answers are not taken.

        Raises:
            StorageError: it cannot be read.
        """
        self._own_code = own_code
        file = self._open(path)
        found = {
            (_question_of(result), result.run): _Place(file, offset)
            for offset, result in read_results(path)
            if result.response is not None
            and result.started_at >= not_before
            and result.recorded == result.reused
        }
        self._reusable = found | self._reusable

    def end_reuse(self) -> None:
        """Take no further answers of earlier runs: what comes is to be fresh evidence."""
        self._reusable = {}

    def add_recordings(self, cases: Iterable[Case]) -> None:
        """Add the recordings that cases name: journals, and files that hold one answer.

        Raises:
            StorageError: a file cannot be read, or holds no answer.
        """
        wanted: dict[Path, set[str]] = {}
        for case in cases:
            if case.cassette:
                wanted.setdefault(case.cassette.path, set()).add(case.id)
        for path, ids in wanted.items():
            if path.suffix in _JOURNAL_SUFFIXES:
                file = self._open(path)
                recording: _Recording = {}
                for offset, result in read_results(path):
                    if result.case in ids and _has_answer(result):
                        key = (result.case, result.provider, result.prompt)
                        recording.setdefault(key, {})[result.run] = _Place(file, offset)
                self._recordings[path] = recording
            else:
                self._recordings[path] = _stored_answer(path)

    def add_traces(self, traces: Mapping[str, Sequence[Trace]]) -> None:
        """Add answers from elsewhere by case: its first run gets the first one. Nothing else
        answers then.
        """
        self._traces = traces

    def close(self) -> None:
        self._files.close()

    def _open(self, path: Path) -> BinaryIO:
        try:
            return self._files.enter_context(path.open("rb"))
        except OSError as error:
            raise StorageError(f"{path}: cannot be read: {error.strerror}") from error

    # Queries.

    def take_over(
        self,
        plan: RunPlan,
        records: dict[int, RunRecord],
        cells: Cells,
        journal: Journal,
        redactor: Redactor,
    ) -> Resumption:
        """Record the known results of a plan's runs, and copy those that `journal` lacks into it.

        Args:
            plan: the plan.
            records: where results are counted; runs that have one already are left alone.
            cells: the fingerprints of the plan.
            journal: the one that is written.
            redactor: takes secrets out of names, as it did in journals.
        """
        kept = retried = changed = 0
        for number in range(len(plan)) if self._named else ():
            missing = [index for index in plan.indices(number) if index not in records]
            if not missing:
                continue
            cell, name = cells.cell(number), redactor.clean(plan.key(number))
            for index in missing:
                run = cell.run_of(index)
                key = (cell.fingerprint, name[2], run)
                errored = self._errored.get(key)
                place = self._graded.get(key) or (errored if self._keep_errored else None)
                if place is not None:
                    result = place.read()
                    offset = place.offset if place.is_own else journal.append(result)[1]
                    records[index] = RunRecord.of(result, offset)
                    self.ended_at = max(self.ended_at, result.started_at + result.latency_s)
                    kept += 1
                elif errored is not None:
                    retried += 1
                elif (name, run) in self._named:
                    changed += 1
        torn = tuple(path.as_posix() for path in self.torn)
        return Resumption(kept=kept, retried=retried, changed=changed, torn=torn)

    @property
    def has_answers(self) -> bool:
        return (
            bool(self._recordings or self._reusable)
            or self._replayed is not None
            or self._traces is not None
        )

    def answer(self, cell: PreparedCell, run: int) -> Result | None:
        """Return a run's answer, as a result to be judged anew; an errored one where the case's
        recording has none.

        Raises:
            StorageError: the rest of a long answer is missing.
        """
        if self._traces is not None:
            traces = self._traces.get(cell.case.id, ())
            return _from_trace(cell, run, traces[run - 1]) if run <= len(traces) else None
        if cell.case.cassette is not None:
            return self._find_recorded(cell, run, cell.case.cassette.path)
        key = (cell.question, run)
        if place := (self._replayed or {}).get(key):
            return place.read_answer()
        if cell.variant.provider in self._own_code or not (place := self._reusable.get(key)):
            return None
        try:
            return replace(place.read_answer(), reused=True)
        except StorageError:
            return None  # it can be asked again

    @property
    def absence(self) -> RunError:
        """The error of a run that has no answer, where nothing may be called."""
        if self._traces is not None:
            remedy = (
                f"give it the attribute {CASE_ATTRIBUTES[0]}, or name the attribute with --match"
            )
            return RunError("not_recorded", f"no trace belongs to this case: {remedy}")
        if self._replayed:
            return RunError(
                "not_recorded", "not in the recording: what is asked is new or has changed"
            )
        return RunError("not_recorded", "nothing is recorded that could answer")

    def _find_recorded(self, cell: PreparedCell, run: int, path: Path) -> Result:
        """Return the answer of a case's own recording.

        The runs of the same provider and prompt answer, if it has some, else whatever it has of the
        case. They answer in turn: with three recorded, the fourth run gets the first one's answer.
        """
        recording = self._recordings[path]
        if isinstance(recording, Trace):
            return _from_trace(cell, run, recording)
        same = recording.get((cell.case.id, cell.variant.provider, cell.variant.prompt))
        runs = same or next(
            (runs for (case, *_), runs in recording.items() if case == cell.case.id), None
        )
        if runs:
            numbers = sorted(runs)
            return runs[numbers[(run - 1) % len(numbers)]].read_answer()
        text = f"the recording {path.name} has no answer to this case: record it, or take it out"
        return _result(cell, run, "errored", 0.0, error=RunError("not_recorded", text))


_Recording = dict[CellKey, dict[int, _Place]]
"""The runs of some cases in a journal."""


def _has_answer(result: Result) -> bool:
    return result.response is not None or (result.status == "failed" and result.error is not None)


def _question_of(result: Result) -> str:
    """Return the half of a fingerprint that identifies the question."""
    return result.fingerprint.partition(".")[0]


def _stored_answer(path: Path) -> Trace:
    """Read a file with the JSON of an answer, or with its text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        response = as_response(json.loads(text) if path.suffix == ".json" else text)
        return Trace(None, None, response, latency_s=0.0, started_at=path.stat().st_mtime)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise StorageError(f"{path}: does not hold a recorded answer: {error}") from error


def _from_trace(cell: PreparedCell, run: int, trace: Trace) -> Result:
    if trace.response is not None:
        return _result(
            cell, run, "passed", trace.started_at, trace.latency_s, response=trace.response
        )
    error = RunError("crash", trace.error or "no answer")
    return _result(cell, run, "failed", trace.started_at, trace.latency_s, error=error)


def _result(  # noqa: PLR0913  a result of what is there
    cell: PreparedCell,
    run: int,
    status: Status,
    started_at: float,
    latency_s: float = 0.0,
    *,
    response: Response | None = None,
    error: RunError | None = None,
) -> Result:
    return Result(
        fingerprint=cell.fingerprint,
        case=cell.case.id,
        provider=cell.variant.provider,
        prompt=cell.variant.prompt,
        run=run,
        status=status,
        score=0.0 if status == "failed" else None,
        started_at=started_at,
        latency_s=latency_s,
        cost_usd=response.cost_usd if response else None,
        response=response,
        error=error,
    )


class _Report(TypedDict):
    results: list[Result]


_REPORT = TypeAdapter(_Report)


def load_results(path: Path) -> Iterator[Result]:
    """Read every result of a report, whose name ends in `.json`, or of a journal.

    Raises:
        StorageError: it cannot be read, or is neither.
    """
    if path.suffix != ".json":
        yield from (result for _, result in read_results(path))
        return
    instead = f"name a report.json, a {JOURNAL}, or the folder of either"
    try:
        results = _REPORT.validate_json(path.read_bytes())["results"]
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}: {instead}") from error
    except ValidationError as error:
        raise StorageError(
            f"{path}: is not a report of ci-evals ({first_problem(error)}): {instead}"
        ) from error
    yield from results
