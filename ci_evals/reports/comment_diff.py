"""What was answered before and what is answered now, as a diff that GitHub colours."""

from difflib import unified_diff
from typing import Final

from ci_evals.reports.markdown_text import Markdown, fence

_MOST_LINES: Final = 60
_LINE_CHARACTERS: Final = 300


def difference(before: str | None, after: str) -> Markdown:
    """Both answers in a fence: their lines marked with `-` and `+`, or only what is there now if that is all."""
    new = _lines(after)
    if before is None or (old := _lines(before)) == new:
        return fence("\n".join(new))
    lines = list(unified_diff(old, new, n=len(old) + len(new), lineterm=""))[3:]
    return fence("\n".join(lines), "diff")


def _lines(text: str) -> list[str]:
    every = text.rstrip("\n").split("\n")
    lines = [line if len(line) <= _LINE_CHARACTERS else f"{line[:_LINE_CHARACTERS]}…" for line in every[:_MOST_LINES]]
    return [*lines, f"… ({len(every) - _MOST_LINES:,} more lines)"] if len(every) > _MOST_LINES else lines
