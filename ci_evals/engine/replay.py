"""A recorded journal that answers instead of the provider."""

from pathlib import Path
from typing import Protocol

from ci_evals.engine.cells import PreparedCell
from ci_evals.engine.journal_lines import decode, scan
from ci_evals.engine.judges import Judges
from ci_evals.engine.outcome import Outcome, judged
from ci_evals.errors import StorageError
from ci_evals.graders.judge import asks_a_model
from ci_evals.model import Answer, Result, RunError

NOT_RECORDED = Outcome(
    "errored", error=RunError("not_recorded", "not in the recording: what is asked is new or has changed")
)
NO_RECORDING = Outcome("errored", error=RunError("not_recorded", "nothing is recorded that could answer"))


class Answers(Protocol):
    """What answers without a provider being called; `absence` is what becomes of a run that it has no answer for."""

    absence: Outcome

    def find(self, cell: PreparedCell, run: int) -> Result | None:
        """One run of a cell, or None if there is no answer for it."""
        ...


class Recording:
    """The answers in a journal, by what was asked; and what the system under test answered with a failure.

    Only where each one is stands in memory. Graders take no part: a recorded answer is judged anew. The file stays
    open until `close`, so that it may be moved away meanwhile.

    Raises:
        StorageError: the file is not a journal or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._offsets: dict[tuple[str, int], int] = {}
        scan(path, self._note)
        self.absence = NOT_RECORDED if self._offsets else NO_RECORDING
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise StorageError(f"{path}: cannot be read: {error.strerror}") from error

    def _note(self, result: Result, _line: bytes, offset: int) -> None:
        if result.response is not None or (result.status == "failed" and result.error is not None):
            self._offsets[_asked(result.fingerprint), result.run] = offset

    def find(self, cell: PreparedCell, run: int) -> Result | None:
        """The recorded run of a cell, or None if it was not recorded as it is asked now."""
        offset = self._offsets.get((cell.asked, run))
        if offset is None:
            return None
        self._file.seek(offset)
        return decode(self._file.readline())

    def close(self) -> None:
        self._file.close()


async def judged_anew(recorded: Result, cell: PreparedCell, judges: Judges | None) -> Outcome:
    """What the suite's graders now say of a recorded answer; a recorded failure stays one.

    What a model said of this very answer by these very graders is not asked again.
    """
    if recorded.response is None:
        return Outcome(recorded.status, recorded.score, error=recorded.error)
    same = recorded.fingerprint == cell.fingerprint and len(recorded.grades) == len(cell.case.expect)
    known = {
        number: recorded.grades[number]
        for number, expectation in enumerate(cell.case.expect)
        if same and asks_a_model(expectation)
    }
    answer = Answer(cell.request(recorded.run), recorded.response, recorded.latency_s, recorded.cost_usd)
    return await judged(answer, judges, known)


def _asked(fingerprint: str) -> str:
    return fingerprint.partition(".")[0]
