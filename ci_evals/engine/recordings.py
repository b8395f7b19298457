"""Results and answers of earlier runs, which are looked up before anything is called.

In order of precedence, a run has

1. a result, from the journal that is resumed, earlier attempts, or shards. It is reused as it is if
   the fingerprint is the same;
2. an answer, which is graded again. If traces are graded, it comes from a trace. Otherwise, it is
   the first of: the run's own answer, which an earlier invocation could not grade; the recording
   that its case names; the recording of the whole invocation, if the question is the same; an
   earlier run, unless the provider is the team's own code, which may have changed.
"""

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ci_evals.engine.cells import Cells, PreparedCell
from ci_evals.engine.journal import (
    JOURNAL,
    Journal,
    decode_entry,
    headers,
    is_torn,
    read_entries,
    read_results,
    refuse_pipe,
    restore_output,
)
from ci_evals.errors import StorageError
from ci_evals.model.case import Case
from ci_evals.model.fields import first_problem
from ci_evals.model.fingerprint import question_half
from ci_evals.model.plan import CellKey, RunPlan
from ci_evals.model.report import Resumption, RunRecord
from ci_evals.model.response import Response
from ci_evals.model.result import Result, RunError, Status
from ci_evals.providers.answer import as_response
from ci_evals.redaction import Redactor

CASE_ATTRIBUTES = ("ci_evals.case.id", "case_id", "case.id", "task_id")
"""The attributes of a trace that may hold the id of its case."""

_JOURNAL_SUFFIXES = (".jsonl", ".ndjson")

ResultKey = tuple[str, str | None, int]
"""A run's fingerprint, its prompt and its number."""

QuestionKey = tuple[str, int]
"""The fingerprint of the question, and the number of the run."""


@dataclass(frozen=True, slots=True)
class Trace:
    """An answer from elsewhere, matched to a case by `case_id` or `question`.

    `emitter` is what wrote its spans; None if it has no spans.
    """

    case_id: str | None
    question: str | None
    response: Response | None
    latency_s: float
    started_at: float
    error: str | None = None
    name: str = ""
    emitter: str | None = None

    @property
    def title(self) -> str:
        """The name to show to people."""
        return self.case_id or self.question or self.name


class _Place(NamedTuple):
    """The place of a result in an open journal."""

    file: BinaryIO
    offset: int
    is_own: bool = False

    def read(self) -> Result:
        self.file.seek(self.offset)
        return decode_entry(self.file.readline())

    def read_answer(self) -> Result:
        """Read a result whose answer is to be graded again.

        Raises:
            StorageError: the rest of a long answer is missing.
        """
        result = replace(self.read(), reused=False)
        if result.response is None:
            return result
        folder = Path(self.file.name).parent
        return replace(result, response=restore_output(result.response, folder))


RecordedCase = dict[CellKey, dict[int, _Place]]
"""The runs of some cases in a journal, by their number."""


class Recordings:
    """The results and answers that exist before the runs of a plan start.

    Only their places are kept in memory. The files stay open until `close`, so that they may be
    moved away meanwhile.

    Args:
        keep_errored: reuse errored results as well, instead of running them again.
        keep_unchecked: reuse results that a recording answered because a job had no secrets.
    """

    def __init__(self, *, keep_errored: bool = False, keep_unchecked: bool = False) -> None:
        self.torn: list[Path] = []
        """The journals whose last line a crash cut off."""
        self.ended_at = 0.0
        """When the last of the reused runs ended, in seconds since 1970."""
        self._keep_errored = keep_errored
        self._keep_unchecked = keep_unchecked
        self._files = ExitStack()
        self._graded: dict[ResultKey, _Place] = {}
        self._errored: dict[ResultKey, _Place] = {}
        self._ungraded: dict[QuestionKey, _Place] = {}
        self._runs: set[tuple[CellKey, int]] = set()  # with a result, maybe of another version
        self._of_cases: dict[Path, RecordedCase | Trace] = {}
        self._of_invocation: dict[QuestionKey, _Place] | None = None
        self._reusable: dict[QuestionKey, _Place] = {}
        self._own_code: Container[str] = ()
        self._traces: Mapping[str, Sequence[Trace]] | None = None

    # Sources.

    def add_results(self, path: Path, *, is_own: bool = False) -> None:
        """Add a journal's results; journals added earlier win.

        Args:
            path: the journal.
            is_own: this journal is the one that is written: its results need not be copied.

        Raises:
            StorageError: it cannot be read.
        """
        file = self._open(path)
        drop_recorded = False
        if not self._keep_unchecked:
            drop_recorded = any(header.suite.without_secrets for header in headers(path))
        statuses: dict[ResultKey, Status] = {}
        places: dict[ResultKey, _Place] = {}
        ungraded: dict[QuestionKey, _Place] = {}
        for offset, result, is_graded in read_entries(path):
            if drop_recorded and result.recorded:
                continue
            question = _question_of(result)
            ungraded.pop(question, None)
            if not is_graded or _lacks_grades(result):
                ungraded[question] = _Place(file, offset)
            if not is_graded:
                continue
            cell = (result.case, result.provider, result.prompt)
            self._runs.add((cell, result.run))
            key = (result.fingerprint, result.prompt, result.run)
            # The first verdict of a run counts, so that repeating a run can't change it. A later
            # line may replace an errored result, withdraw a verdict because of an outage, or add
            # the failure of a teardown.
            withdraws_grade = result.error is not None and result.error.kind == "outage"
            is_later_note = result.teardown_error is not None
            if statuses.get(key, "errored") == "errored" or withdraws_grade or is_later_note:
                statuses[key] = result.status
                places[key] = _Place(file, offset, is_own)
        for key, place in places.items():
            if statuses[key] == "errored":
                self._errored[key] = place
            else:
                self._graded.setdefault(key, place)
        if not self._keep_errored:
            self._ungraded = ungraded | self._ungraded
        if is_torn(path):
            self.torn.append(path)

    def add_recording(self, path: Path) -> None:
        """Add a journal whose answers and failures replace calls to providers with the same
        question; a later line wins.

        Raises:
            StorageError: it cannot be read.
        """
        file = self._open(path)
        self._of_invocation = {}
        for offset, result in read_results(path):
            if _has_answer(result):
                question = _question_of(result)
                self._of_invocation[question] = _Place(file, offset)

    def add_reusable(self, path: Path, not_before: float, own_code: Container[str]) -> None:
        """Add a journal's answers to be reused; journals added earlier win.

        Args:
            path: the journal.
            not_before: older answers are not reused; in seconds since 1970.
            own_code: the providers that run the team's own code, whose answers are not reused.

        Raises:
            StorageError: it cannot be read.
        """
        self._own_code = own_code
        file = self._open(path)
        places = {}
        for offset, result in read_results(path):
            is_recent = result.started_at >= not_before
            # A recording answers in the place of a provider, which never gave this answer.
            is_replayed = result.recorded and not result.reused
            is_answer = result.response is not None and not result.is_broken_off
            if is_answer and is_recent and not is_replayed:
                question = _question_of(result)
                places[question] = _Place(file, offset)
        self._reusable = places | self._reusable

    def end_reuse(self) -> None:
        """Reuse no further answers: runs that confirm a suspect must be fresh evidence."""
        self._reusable = {}

    def add_case_recordings(self, cases: Iterable[Case]) -> None:
        """Add the recordings that cases name: journals, and files that hold one answer.

        Raises:
            StorageError: a file cannot be read, or holds no answer.
        """
        wanted: dict[Path, set[str]] = {}
        for case in cases:
            if case.recording is not None:
                ids = wanted.setdefault(case.recording.path, set())
                ids.add(case.id)
        for path, ids in wanted.items():
            if path.suffix in _JOURNAL_SUFFIXES:
                self._of_cases[path] = self._read_cases(path, ids)
            else:
                self._of_cases[path] = _read_answer_file(path)

    def _read_cases(self, path: Path, ids: Container[str]) -> RecordedCase:
        file = self._open(path)
        recorded: RecordedCase = {}
        for offset, result in read_results(path):
            if result.case in ids and _has_answer(result):
                key = (result.case, result.provider, result.prompt)
                runs = recorded.setdefault(key, {})
                runs[result.run] = _Place(file, offset)
        return recorded

    def add_traces(self, traces: Mapping[str, Sequence[Trace]]) -> None:
        """Add answers from elsewhere by case; its first run gets the first one. All other sources
        are ignored then.
        """
        self._traces = traces

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    def _open(self, path: Path) -> BinaryIO:
        refuse_pipe(path)
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
        """Record the existing results of a plan's runs, and copy them into `journal` if it lacks
        them.

        Args:
            plan: the plan.
            records: where results are counted; runs that already have one are left alone.
            cells: the cells of the plan, with their fingerprints.
            journal: the journal that is written.
            redactor: takes secrets out of names, because they were taken out in journals.
        """
        torn = tuple(path.as_posix() for path in self.torn)
        if not self._runs:
            return Resumption(torn=torn)
        kept = 0
        retried = 0
        changed = 0
        for number in range(len(plan)):
            missing = [index for index in plan.indices(number) if index not in records]
            if not missing:
                continue
            cell = cells.cell(number)
            name = redactor.clean(plan.key(number))
            for index in missing:
                run = cell.run_of(index)
                key = (cell.fingerprint, name[2], run)
                place = self._graded.get(key)
                if place is None and self._keep_errored:
                    place = self._errored.get(key)
                if place is not None:
                    records[index] = self._reuse(place, journal)
                    kept += 1
                elif key in self._errored:
                    retried += 1
                elif (name, run) in self._runs:
                    changed += 1
        return Resumption(kept=kept, retried=retried, changed=changed, torn=torn)

    def _reuse(self, place: _Place, journal: Journal) -> RunRecord:
        result = place.read()
        self.ended_at = max(self.ended_at, result.started_at + result.latency_s)
        offset = place.offset
        if not place.is_own:
            _, offset = journal.append(result)
        return RunRecord.of(result, offset)

    @property
    def has_answers(self) -> bool:
        """True if a run may have an answer already."""
        if self._traces is not None or self._of_invocation is not None:
            return True
        return bool(self._of_cases or self._reusable or self._ungraded)

    def ungraded(self, cell: PreparedCell, run: int) -> Result | None:
        """Return a run's own answer, which an earlier invocation got and could not grade."""
        place = self._ungraded.get((cell.question, run))
        if place is None or self._traces is not None or cell.setup:
            return None  # graders may look at what the setup made, which was torn down
        try:
            return place.read_answer()
        except StorageError:
            return None  # it can be asked again

    def answer(self, cell: PreparedCell, run: int) -> Result | None:
        """Return a run's answer, as a result to be graded again; an errored one if the case names a
        recording that has none.

        Raises:
            StorageError: the rest of a long answer is missing.
        """
        if self._traces is not None:
            traces = self._traces.get(cell.case.id, ())
            if run > len(traces):
                return None
            return _from_trace(cell, run, traces[run - 1])
        if cell.case.recording is not None:
            return self._find_recorded(cell, run, cell.case.recording.path)
        key = (cell.question, run)
        if self._of_invocation is not None and key in self._of_invocation:
            return self._of_invocation[key].read_answer()
        if cell.variant.provider in self._own_code or key not in self._reusable:
            return None
        if cell.setup:
            return None  # as in `ungraded`
        try:
            return replace(self._reusable[key].read_answer(), reused=True)
        except StorageError:
            return None  # it can be asked again

    @property
    def absence(self) -> RunError:
        """The error of a run that has no answer although nothing may be called."""
        if self._traces is not None:
            attribute = CASE_ATTRIBUTES[0]
            advice = f"set its attribute {attribute}, or name another attribute with --match"
            text = f"no trace matches this case: {advice}"
        elif self._of_invocation:
            text = "not in the recording: the question is new or has changed"
        else:
            text = "no answer is recorded"
        return RunError("not_recorded", text)

    def _find_recorded(self, cell: PreparedCell, run: int, path: Path) -> Result:
        """Return the answer of a case's own recording.

        The runs of the same provider and prompt answer, or, if it has none, the first others of the
        case. They answer in turn: with three recorded, the fourth run gets the first one's answer.
        """
        recorded = self._of_cases[path]
        if isinstance(recorded, Trace):
            return _from_trace(cell, run, recorded)
        key = (cell.case.id, cell.variant.provider, cell.variant.prompt)
        if key not in recorded:
            keys_of_case = [key for key in recorded if key[0] == cell.case.id]
            if not keys_of_case:
                problem = f"the recording {path.name} has no answer to this case"
                error = RunError("not_recorded", f"{problem}: record it, or take it out")
                return _result(cell, run, "errored", 0.0, error=error)
            key = keys_of_case[0]
        runs = recorded[key]
        numbers = sorted(runs)
        number = numbers[(run - 1) % len(numbers)]
        return runs[number].read_answer()


def _has_answer(result: Result) -> bool:
    if result.response is not None and not result.is_broken_off:
        return True
    return result.status == "failed" and result.error is not None


def _lacks_grades(result: Result) -> bool:
    """Return True if a run has an answer and is errored because of a grader or judge."""
    if result.error is None or result.response is None:
        return False
    return result.error.is_of_grading


def _question_of(result: Result) -> QuestionKey:
    """Return the part of the fingerprint that identifies the question, and the run number."""
    return question_half(result.fingerprint), result.run


def _read_answer_file(path: Path) -> Trace:
    """Read a file with the JSON of an answer, or with its text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        answer = text
        if path.suffix == ".json":
            answer = json.loads(text)
        response = as_response(answer)
        written_at = path.stat().st_mtime
        return Trace(None, None, response, latency_s=0.0, started_at=written_at)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise StorageError(f"{path}: is not a recorded answer: {error}") from error


def _from_trace(cell: PreparedCell, run: int, trace: Trace) -> Result:
    started_at = trace.started_at
    latency_s = trace.latency_s
    if trace.response is not None:
        return _result(cell, run, "passed", started_at, latency_s, response=trace.response)
    error = RunError("crash", trace.error or "no answer")
    return _result(cell, run, "failed", started_at, latency_s, error=error)


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
    score = None
    if status == "failed":
        score = 0.0
    cost_usd = None
    if response is not None:
        cost_usd = response.cost_usd
    return Result(
        fingerprint=cell.fingerprint,
        case=cell.case.id,
        provider=cell.variant.provider,
        prompt=cell.variant.prompt,
        run=run,
        status=status,
        score=score,
        started_at=started_at,
        latency_s=latency_s,
        cost_usd=cost_usd,
        response=response,
        error=error,
    )


class _Report(TypedDict):
    results: list[Result]


def load_results(path: Path) -> Iterator[Result]:
    """Read every result of a report (`*.json`) or of a journal.

    Raises:
        StorageError: it cannot be read, or is neither.
    """
    if path.suffix != ".json":
        for _, result in read_results(path):
            yield result
        return
    instead = f"name a report.json, a {JOURNAL}, or the folder of either"
    try:
        report = TypeAdapter(_Report).validate_json(path.read_bytes())
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}: {instead}") from error
    except ValidationError as error:
        problem = first_problem(error)
        raise StorageError(f"{path}: is not a ci-evals report ({problem}): {instead}") from error
    yield from report["results"]
