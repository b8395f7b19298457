"""Other forms of an answer: laid out as JSON, as a table, as its Markdown shows it, or as its
difference from another.
"""

import csv
import json
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

from ci_evals.registry import lazy_attributes

MAX_CHARACTERS: Final = 8000
"""Of an answer; a longer one has no other form."""

MAX_WORDS: Final = 1200
"""Of either side of a difference; more take too long to compare."""

_MAX_COLUMNS = 30
_FEWEST_ROWS = 3
_FEW_WORDS = 5  # of a cell that follows a blank; prose has commas, too
_LEAST_COMMON = 0.3
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_MARKDOWN = re.compile(r"^(?:#{1,6} |\|?[ :]*-{3,}[ :|-]*\||```|\d+\. |[*-] )|\*\*\S", re.MULTILINE)

_late = lazy_attributes(__name__, {"parse": "ci_evals.reports.markdown_nodes"})


def as_json(text: str) -> str | None:
    """Lay out a JSON object or array on several lines; None if it is laid out already."""
    if len(text) > MAX_CHARACTERS or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        pretty = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return None
    if pretty.count("\n") <= 2 or pretty == text.strip():
        return None
    return pretty


def as_table(text: str) -> list[list[str]] | None:
    """Return the rows of a table, the names first: of CSV, TSV or a JSON array of objects."""
    text = text.strip()
    if len(text) > MAX_CHARACTERS:
        return None
    if text.startswith("["):
        rows = _rows_of_objects(text)
    else:
        rows = _rows_of_lines(text)
    if rows is None or not 1 < len(rows[0]) <= _MAX_COLUMNS:
        return None
    return rows


def _rows_of_objects(text: str) -> list[list[str]] | None:
    try:
        objects = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not objects or not all(type(each) is dict and each for each in objects):
        return None
    names = list(dict.fromkeys(chain.from_iterable(objects)))
    rows = [[json_text(each.get(name, "")) for name in names] for each in objects]
    return [names, *rows]


def _rows_of_lines(text: str) -> list[list[str]] | None:
    first, _, rest = text.partition("\n")
    if not rest:
        return None
    separator = max("\t;,", key=first.count)
    try:
        lines = text.splitlines()
        rows = list(csv.reader(lines, delimiter=separator, strict=True))
    except csv.Error:
        return None
    if len(rows) < _FEWEST_ROWS or len({len(row) for row in rows}) > 1:
        return None
    for cell in chain.from_iterable(rows):
        if cell.startswith(" ") and len(cell.split()) > _FEW_WORDS:
            return None
    return rows


def as_markdown(text: str) -> tuple[Any, ...]:
    """Return the elements of a text's Markdown, as `markdown_nodes.parse` does; empty if it has
    none.

    The parser is loaded for the first text that needs it.
    """
    if len(text) > MAX_CHARACTERS or not _MARKDOWN.search(text):
        return ()
    nodes: tuple[Any, ...] = _late("parse")(text)
    return nodes


def json_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


class Piece(NamedTuple):
    """A text that both sides have, or only the old one, or only the new one."""

    kind: Literal["same", "old", "new"]
    text: str


def word_diff(old: str, new: str) -> tuple[Piece, ...] | None:
    """Return the pieces that make `new` out of `old`; None where they have too little in common, or
    too many words.
    """
    before, after = _WORD.findall(old), _WORD.findall(new)
    if max(len(before), len(after)) > MAX_WORDS:
        return None
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < _LEAST_COMMON:
        return None
    return tuple(_pieces(matcher, before, after))


def _pieces(
    matcher: "SequenceMatcher[str]", before: list[str], after: list[str]
) -> Iterator[Piece]:
    """Yield the pieces; a blank between two changed words belongs to both changes."""
    old, new = "", ""
    for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        removed = "".join(before[old_from:old_to])
        added = "".join(after[new_from:new_to])
        is_blank = removed.isspace() and "\n" not in removed
        if tag != "equal" or (is_blank and (old or new)):
            old += removed
            new += added
        else:
            yield from _change(old, new)
            old, new = "", ""
            yield Piece("same", removed)
    yield from _change(old, new)


def _change(old: str, new: str) -> Iterator[Piece]:
    """Yield a change; blanks at its end that both sides have are not part of it."""
    blank = old[len(old.rstrip()) :]
    if not new.endswith(blank):
        blank = ""
    old = old.removesuffix(blank)
    new = new.removesuffix(blank)
    if old:
        yield Piece("old", old)
    if new:
        yield Piece("new", new)
    if blank:
        yield Piece("same", blank)
