"""What saved reports recall: everything that a later comment needs, and what a baseline answered."""

from collections.abc import Collection, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from ci_evals.errors import StorageError
from ci_evals.matrix import CellKey
from ci_evals.model import Result
from ci_evals.reports import json_summary
from ci_evals.reports.findings import answer_text
from ci_evals.reports.json_entries import SCHEMA_VERSION
from ci_evals.reports.summary import Summary
from ci_evals.reports.text import shortened
from ci_evals.saved import content_of, read_known

MOST_ANSWERS: Final = 100
ANSWER_CHARACTERS: Final = 2000


def read_summary(path: Path, *, oldest: int = SCHEMA_VERSION) -> Summary:
    """Read one report.json, or the one in a folder, back as what it was made from.

    Args:
        path: where it is.
        oldest: the first schema version that will do; those of version 1 know of no comparison.

    Raises:
        StorageError: there is none, it is damaged, or of an older version or a newer one.
    """
    path, content = content_of(path)
    try:
        return read_known(path, content, partial(json_summary.read, oldest=oldest))
    except (ValueError, RecursionError) as error:
        why = str(error) if content.strip() else "it is empty"
        text = f"is no report that this version of ci-evals wrote ({why}): fetch it again, or name another"
        raise StorageError(f"{path}: {text}") from error


def with_answers(summary: Summary) -> Summary:
    """The summary with what the baseline answered to the cells that regressed, where its file is still at hand."""
    comparison = summary.compared
    if comparison is None or comparison.baseline.source is None:
        return summary
    regressed = islice(comparison.of("regressed"), MOST_ANSWERS)
    wanted = {comparison.base_key(cell.key): cell.key for cell in regressed}
    found = _answers(Path(comparison.baseline.source), wanted.keys()) if wanted else {}
    return summary._replace(before={wanted[key]: text for key, text in found.items()})


class _RawResults(Struct):
    """The results of a report.json as they are written."""

    results: list[msgspec.Raw]


class _Named(Struct):
    """Whose result it is, and how it ended."""

    case: str
    provider: str
    status: str
    prompt: str | None = None


def _answers(path: Path, keys: Collection[CellKey]) -> Mapping[CellKey, str]:
    """The first answer to each of these cells that passed."""
    answers: dict[CellKey, str] = {}
    try:
        for raw in msgspec.json.decode(path.read_bytes(), type=_RawResults).results:
            named = msgspec.json.decode(raw, type=_Named)
            key = named.case, named.provider, named.prompt
            if named.status == "passed" and key in keys and key not in answers:
                answer = answer_text(msgspec.json.decode(raw, type=Result))
                answers[key] = shortened(answer or "", ANSWER_CHARACTERS)
    except (OSError, ValueError, RecursionError):  # an answer less is no reason to lose the verdict
        return answers
    return answers
