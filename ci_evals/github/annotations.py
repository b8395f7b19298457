"""Annotations: what is shown beside the lines of a suite's YAML in a pull request."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from ci_evals.github.commands import command

Level = Literal["error", "warning", "notice"]

MAX_PER_LEVEL: Final = 10  # per step; GitHub drops the others without a word
MAX_MESSAGE: Final = 4_096  # UTF-16 code units, as the runner counts
_MAX_TITLE: Final = 250
_LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "notice")


class Annotation(Struct, frozen=True):
    """One remark. `file` is relative to the repository's root; without it the remark stands at the workflow run."""

    level: Level
    message: str
    file: str | None = None
    line: int | None = None
    title: str = ""


def annotation_commands(annotations: Iterable[Annotation]) -> str:
    """The workflow commands for these annotations: errors, then warnings, then notices, each in the order given.

    Give what matters most first. GitHub shows ten of a level for each step; when there are more, the tenth says how
    many are not shown.
    """
    given = tuple(annotations)
    return "".join(line for level in _LEVELS for line in _lines([each for each in given if each.level == level]))


def _lines(annotations: Sequence[Annotation]) -> Iterator[str]:
    shown = annotations if len(annotations) <= MAX_PER_LEVEL else annotations[: MAX_PER_LEVEL - 1]
    for each in shown:
        line = each.line if each.file else None
        title = _shortened(" ".join(each.title.split()), _MAX_TITLE)
        yield command(each.level, _shortened(each.message, MAX_MESSAGE), file=each.file, line=line, title=title)
    if left_out := len(annotations) - len(shown):
        yield command(annotations[0].level, f"{left_out} more are not shown here; the summary has all of them")


def _shortened(text: str, limit: int) -> str:
    units = text.encode("utf-16-le", "replace")
    if len(units) <= 2 * limit:
        return text
    return f"{units[: 2 * (limit - 1)].decode('utf-16-le', 'ignore')}…"
