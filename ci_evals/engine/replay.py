"""A recorded journal that answers instead of the provider."""

from pathlib import Path

from ci_evals.engine.cells import PreparedCell
from ci_evals.engine.journal import decode, read_lines, scan
from ci_evals.model import Result


class Recording:
    """The graded runs of a journal, by what was asked.

    Only where each one is stands in memory. Graders take no part: a recorded answer is judged anew.

    Raises:
        StorageError: the file is not a journal or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets: dict[tuple[str, int], int] = {}
        scan(path, self._note)

    def _note(self, result: Result, _line: bytes, offset: int) -> None:
        if result.response is not None or (result.status == "failed" and result.error is not None):
            self._offsets[_asked(result.fingerprint), result.run] = offset

    def find(self, cell: PreparedCell, run: int) -> Result | None:
        """The recorded run of a cell, or None if it was not recorded as it is asked now."""
        offset = self._offsets.get((cell.asked, run))
        if offset is None:
            return None
        (line,) = read_lines(self._path, (offset,))
        return decode(line)


def _asked(fingerprint: str) -> str:
    return fingerprint.partition("-")[0]
