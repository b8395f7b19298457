"""Recorded answers that cases name themselves: a journal, or a stored response, instead of any provider."""

import json
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from ci_evals.engine.cells import PreparedCell
from ci_evals.engine.journal_lines import decode, scan
from ci_evals.engine.replay import NO_RECORDING, Answers
from ci_evals.errors import StorageError
from ci_evals.model import Case, Result, RunError
from ci_evals.providers.answer import as_response
from ci_evals.response import Response

_JOURNALS = (".jsonl", ".ndjson")


class Cassettes:
    """Answers the cases that name a recording; for the others looks where `otherwise` says.

    Where a journal has the same provider and prompt, those answer, else whatever it has of the case. Its runs answer
    in turn: with three recorded, the fourth run gets the first one's answer.

    Args:
        cases: the suite's.
        otherwise: where the other cases are looked up, if anywhere.

    Raises:
        StorageError: a file cannot be read, or holds no answer.
    """

    def __init__(self, cases: Iterable[Case], otherwise: Answers | None) -> None:
        self._otherwise = otherwise
        self.absence = otherwise.absence if otherwise else NO_RECORDING
        self._tapes: dict[Path, _Journal | _Stored] = {}
        self._files = ExitStack()
        wanted: dict[Path, set[str]] = {}
        for case in cases:
            if case.cassette:
                wanted.setdefault(case.cassette.path, set()).add(case.id)
        for path, ids in wanted.items():
            self._tapes[path] = self._journal(path, ids) if path.suffix in _JOURNALS else _stored(path)

    def find(self, cell: PreparedCell, run: int) -> Result | None:
        """The recorded run of a cell; a result with an error where its own recording has none."""
        if cell.case.cassette is None:
            return self._otherwise.find(cell, run) if self._otherwise else None
        found = self._tapes[cell.case.cassette.path].find(cell, run)
        return found or _result(cell, run, 0.0, error=_not_in(cell.case.cassette.path))

    def close(self) -> None:
        self._files.close()

    def _journal(self, path: Path, ids: set[str]) -> "_Journal":
        offsets: dict[tuple[str, str, str | None], dict[int, int]] = {}

        def note(result: Result, _line: bytes, offset: int) -> None:
            if result.case in ids and (result.response is not None or result.status == "failed"):
                offsets.setdefault((result.case, result.provider, result.prompt), {})[result.run] = offset

        scan(path, note)
        return _Journal(self._files.enter_context(path.open("rb")), offsets)


class _Journal(Struct, frozen=True):
    """The recorded runs of some cases, by case, provider and prompt and then by run, as offsets in bytes."""

    file: BinaryIO
    offsets: dict[tuple[str, str, str | None], dict[int, int]]

    def find(self, cell: PreparedCell, run: int) -> Result | None:
        same = (cell.case.id, cell.variant.provider, cell.variant.prompt)
        of_case = (runs for (case, *_), runs in self.offsets.items() if case == cell.case.id)
        runs = self.offsets.get(same) or next(of_case, None)
        if not runs:
            return None
        numbers = sorted(runs)
        self.file.seek(runs[numbers[(run - 1) % len(numbers)]])
        return decode(self.file.readline())


class _Stored(Struct, frozen=True):
    """One response that answers every run."""

    response: Response
    stored_at: float

    def find(self, cell: PreparedCell, run: int) -> Result:
        return _result(cell, run, self.stored_at, response=self.response)


def _stored(path: Path) -> _Stored:
    """A file with the JSON of an answer, or with its text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        stored_at = path.stat().st_mtime
        return _Stored(as_response(json.loads(text) if path.suffix == ".json" else text), stored_at)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise StorageError(f"{path}: holds no recorded answer: {error}") from error


def _result(
    cell: PreparedCell, run: int, at: float, *, response: Response | None = None, error: RunError | None = None
) -> Result:
    return Result(
        fingerprint=cell.fingerprint,
        case=cell.case.id,
        provider=cell.variant.provider,
        prompt=cell.variant.prompt,
        run=run,
        status="errored" if error else "passed",
        started_at=at,
        latency_s=0.0,
        cost_usd=response.cost_usd if response else None,
        response=response,
        error=error,
    )


def _not_in(path: Path) -> RunError:
    return RunError("not_recorded", f"the recording {path.name} has no answer to this case: record it, or take it out")
