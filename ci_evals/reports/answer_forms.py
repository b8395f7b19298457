"""Other forms of an answer: laid out as JSON, as a table, or as its Markdown shows it."""

import csv
import json
import re
from itertools import chain
from typing import Any, Final

from ci_evals.registry import lazy_attributes

MAX_CHARACTERS: Final = 8000
"""Of an answer; a longer one has no other form."""

_MAX_COLUMNS = 30
_FEWEST_ROWS = 3
_FEW_WORDS = 5  # of a cell that follows a blank; prose has commas, too
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
    rows = _rows_of_objects(text) if text.startswith("[") else _rows_of_lines(text)
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
    return [names, *([json_text(each.get(name, "")) for name in names] for each in objects)]


def _rows_of_lines(text: str) -> list[list[str]] | None:
    first, _, rest = text.partition("\n")
    if not rest:
        return None
    separator = max("\t;,", key=first.count)
    try:
        rows = list(csv.reader(text.splitlines(), delimiter=separator, strict=True))
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
