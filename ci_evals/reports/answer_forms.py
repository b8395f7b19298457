"""Answers as elements: of JSON, of a table, of Markdown, with passages and changed words marked."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import chain, islice
from typing import Any, Final, Literal, NamedTuple

from ci_evals.format import visible

Node = str | tuple[Any, ...]
"""As in `markdown_nodes`, which is imported only for a text that needs it."""

MAX_CHARACTERS: Final = 8000
"""The longest answer that is parsed, not counting its images; a longer one is shown as text."""

MAX_WORDS: Final = 1200
"""The most words of either side of a difference; SequenceMatcher takes quadratic time."""

_MAX_IMAGES = 1_000_000  # characters of all images of an answer
_MAX_COLUMNS = 30
_MAX_MARKS = 100
_FEWEST_ROWS = 3
_FEW_WORDS = 2  # of a cell that begins with a blank; more look like prose with commas
_LEAST_COMMON = 0.3
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_MARKDOWN = re.compile(
    r"^(?:#{1,6} |\|?[ :]*-{3,}[ :|-]*\||```|\d+\. |[*-] )|\*\*\S|!\[[^\]]*\]\(data:", re.MULTILINE
)
_IMAGE = re.compile(r"data:image/[a-z]+;base64,[A-Za-z0-9+/=]+")
_INLINE = ("strong", "em", "code", "mark", "s", "del", "ins", "img")


def elements_of(text: str) -> tuple[Node, ...] | None:
    """Return the elements of a table, JSON, an image or Markdown; None for any other text, and for
    one that is too long.

    All text in the elements is cleaned again: decoding JSON escapes and HTML entities can bring
    back invisible characters that the answer itself no longer had.
    """
    elements = _parse(text)
    if elements is None:
        return None
    return tuple(map(_make_visible, elements))


def _make_visible(node: Node) -> Node:
    if isinstance(node, str):
        return visible(node)
    name, *children = node
    return (name, *map(_make_visible, children))


def _parse(text: str) -> tuple[Node, ...] | None:
    images = sum(len(image[0]) for image in _IMAGE.finditer(text))
    if len(text) - images > MAX_CHARACTERS or images > _MAX_IMAGES:
        return None
    if images:
        from ci_evals.reports.markdown_nodes import IMAGE

        if re.fullmatch(IMAGE, text.strip()):
            return (("img", text.strip(), "the answer"),)
    # From strict to lax: an array of objects is JSON, too, and Markdown fits nearly any text.
    rows = _as_table(text)
    if rows is not None:
        return (_table_of(rows),)
    pretty = _as_json(text)
    if pretty is not None:
        return (("pre", pretty),)
    if _MARKDOWN.search(text):
        from ci_evals.reports.markdown_nodes import parse

        nodes: tuple[Node, ...] = parse(text)
        return nodes
    return None


def _as_json(text: str) -> str | None:
    """Indent a JSON object or array, unless it fits on one line; None for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        pretty = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return None
    if pretty.count("\n") <= 2 or len(pretty) > 4 * MAX_CHARACTERS:
        return text.strip()
    return pretty


def _table_of(rows: Sequence[Sequence[str]]) -> Node:
    head = ("thead", ("tr", *(("th", cell) for cell in rows[0])))
    body = [("tr", *(("td", cell) for cell in cells)) for cells in rows[1:]]
    return ("table", head, ("tbody", *body))


def _as_table(text: str) -> list[list[str]] | None:
    """Return the rows of CSV, TSV or a JSON array of objects, the column names first."""
    text = text.strip()
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
    # Lines of prose may have the same number of commas, but a blank follows each of them.
    for cell in chain.from_iterable(rows):
        if cell.startswith(" ") and (len(rows[0]) == 2 or len(cell.split()) > _FEW_WORDS):
            return None
    return rows


def text_of(nodes: Iterable[Node]) -> str:
    """Return the text of some elements, with a line break after each block and at each break."""
    text = ""
    for node in nodes:
        if isinstance(node, str):
            text += node
        elif node[0] != "img":
            text += text_of(node[1:])
            if node[0] not in _INLINE:
                text += "\n"
    return text


class Range(NamedTuple):
    """A part of a text, from `start` to before `end`."""

    start: int
    end: int


def wrap(nodes: Sequence[Node], spans: Sequence[Range], tag: str) -> tuple[Node, ...]:
    """Wrap spans of a text in elements named `tag`; positions refer to `text_of(nodes)`."""
    wrapped, _ = _wrap(nodes, spans, tag, 0)
    return wrapped


def _wrap(
    nodes: Sequence[Node], spans: Sequence[Range], tag: str, start: int
) -> tuple[tuple[Node, ...], int]:
    """Wrap the spans in nodes that begin at `start`; return them and the position after them."""
    wrapped: list[Node] = []
    for node in nodes:
        if isinstance(node, str):
            wrapped += _wrap_text(node, spans, tag, start)
            start += len(node)
        elif node[0] == "img":
            wrapped.append(node)
        else:
            children, start = _wrap(node[1:], spans, tag, start)
            wrapped.append((node[0], *children))
            if node[0] not in _INLINE:
                start += 1  # the line break that `text_of` adds after a block
    return tuple(wrapped), start


def _wrap_text(text: str, spans: Sequence[Range], tag: str, start: int) -> Iterator[Node]:
    done = 0
    for span in spans:
        first = max(span.start - start, done)
        last = min(span.end - start, len(text))
        if first < last:
            if done < first:
                yield text[done:first]
            yield (tag, text[first:last])
            done = last
    if done < len(text):
        yield text[done:]


def mark(nodes: Sequence[Node], passages: Iterable[str], tag: str = "mark") -> tuple[Node, ...]:
    """Wrap the passages wherever they are in the text of some nodes."""
    # Of alternatives, a regular expression takes the first that matches, not the longest.
    longest_first = sorted(filter(None, passages), key=len, reverse=True)
    if not longest_first:
        return tuple(nodes)
    expression = "|".join(re.escape(passage) for passage in longest_first)
    matches = re.finditer(expression, text_of(nodes))
    return wrap(nodes, [Range(*match.span()) for match in islice(matches, _MAX_MARKS)], tag)


def mark_difference(
    old: Sequence[Node], new: Sequence[Node]
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Wrap words that only the old nodes have in `del`, and words that only the new ones have in
    `ins`.

    Nothing is wrapped if the two have too little in common, or too many words.
    """
    removed: list[Range] = []
    added: list[Range] = []
    old_end = new_end = 0
    for piece in word_diff(text_of(old), text_of(new)) or ():
        old_start, new_start = old_end, new_end
        if piece.kind != "new":
            old_end += len(piece.text)
        if piece.kind != "old":
            new_end += len(piece.text)
        if piece.kind == "old":
            removed.append(Range(old_start, old_end))
        elif piece.kind == "new":
            added.append(Range(new_start, new_end))
    return wrap(old, removed, "del"), wrap(new, added, "ins")


def json_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


class Piece(NamedTuple):
    """A text of both sides, or of only the old or the new one."""

    kind: Literal["same", "old", "new"]
    text: str


def word_diff(old: str, new: str) -> tuple[Piece, ...] | None:
    """Return the pieces that turn `old` into `new`; None if they have too little in common, or too
    many words.
    """
    before, after = split_words(old), split_words(new)
    if max(len(before), len(after)) > MAX_WORDS:
        return None
    # By default, words that are frequent in a long text would never match.
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < _LEAST_COMMON:
        return None
    return tuple(pieces_of(matcher.get_opcodes(), before, after))


def split_words(text: str) -> list[str]:
    """Split a text into words, blanks and other characters."""
    return _WORD.findall(text)


def pieces_of(
    steps: Iterable[tuple[str, int, int, int, int]], before: Sequence[str], after: Sequence[str]
) -> Iterator[Piece]:
    """Yield the pieces; a blank between two changed words belongs to both changes.

    Args:
        steps: how to turn `before` into `after`, in the form of `SequenceMatcher.get_opcodes`.
        before: the words of the old text.
        after: the words of the new text.
    """
    old, new = "", ""
    for tag, old_from, old_to, new_from, new_to in steps:
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
