"""Text laid out for a terminal: styles, paragraphs wrapped at words, and tables, measured in the terminal's cells."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from msgspec import Struct

from ci_evals.reports.text import bound

_CODES: Final[Mapping[str, str]] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "magenta": "35",
}
_RULE = "─"
_JOINER = "\u200d"  # makes one emoji of two
_AS_EMOJI = "\ufe0f"  # makes an emoji of the sign before it


class Span(Struct, frozen=True):
    """Text of one style: nothing, or names such as `bold red`."""

    text: str
    style: str = ""


Text = tuple[Span, ...]
"""What stands in one line, or is to be wrapped into several; without line breaks of its own."""


class Paragraph(Struct, frozen=True):
    """Text wrapped at words. What it starts with stands before the first line, further ones below the first's text."""

    text: Text
    start: Text = ()

    def lines(self, width: int) -> Iterator[Text]:
        """What to draw on a terminal of `width` cells."""
        start, used = self.start, _width(self.start)
        for line in wrapped(self.text, max(1, width - used)):
            yield start + line
            start = plain(" " * used)


class Table(Struct, frozen=True):
    """Texts in columns, wrapped where they are wider than their column.

    Attributes:
        rows: the texts of each row, one for each column.
        header: what stands above the columns, if anything does.
        gap: cells between two columns.
        figures: whether the header is underlined, and all columns but the first are flush right.
        widths: the cells of each column; None: of its widest text, less where they do not fit into the terminal.
    """

    rows: Sequence[Sequence[Text]]
    header: Sequence[Text] = ()
    gap: int = 2
    figures: bool = False
    widths: Sequence[int] | None = None

    def lines(self, width: int) -> Iterator[Text]:
        """What to draw on a terminal of `width` cells."""
        widths = self._fitted(width) if self.widths is None else self.widths
        if self.header:
            yield from self._row(self.header, widths, at_bottom=True)
        if self.figures:
            yield plain(_RULE * (sum(widths) + self.gap * (len(widths) - 1)))
        for row in self.rows:
            yield from self._row(row, widths)

    def _fitted(self, width: int) -> list[int]:
        """The widths of the columns: the widest ones become narrower until all fit."""
        rows = [self.header, *self.rows] if self.header else self.rows
        gaps = [self.gap] * (len(rows[0]) - 1) + [0]
        wanted = [max(map(_width, column)) for column in zip(*rows, strict=True)]
        taken = [min(width, gap + cells) for cells, gap in zip(wanted, gaps, strict=True)]
        while sum(taken) > width:
            widest = max(range(len(taken)), key=lambda index: (taken[index], index))
            taken[widest] -= 1
        return [max(min(1, cells), each - gap) for cells, each, gap in zip(wanted, taken, gaps, strict=True)]

    def _row(self, texts: Sequence[Text], widths: Sequence[int], *, at_bottom: bool = False) -> Iterator[Text]:
        columns = [wrapped(text, width) for text, width in zip(texts, widths, strict=True)]
        height = max(map(len, columns))
        blanks: list[list[Text]] = [[()] * (height - len(column)) for column in columns]
        whole = (blank + column if at_bottom else column + blank for column, blank in zip(columns, blanks, strict=True))
        for texts_of_line in zip(*whole, strict=True):
            line: Text = ()
            for index, (text, width) in enumerate(zip(texts_of_line, widths, strict=True)):
                rest = plain(" " * (width - _width(text)))
                line += rest + text if self.figures and index else text + rest
                line += plain(" " * self.gap)
            yield line


Part = Paragraph | Table


def plain(text: str) -> Text:
    """Text without a style."""
    return (Span(text),)


def styled(text: str, style: str) -> Text:
    """Text of one style."""
    return (Span(text, style),)


def drawn(line: Text, *, color: bool) -> str:
    """A line as it is printed, with escape codes for its styles if `color`, and without blanks at its end."""
    return "".join(_drawn(span) if color and span.style else span.text for span in line).rstrip()


def width_of(text: str) -> int:
    """How many cells of a terminal a text takes.

    East Asian wide characters and emoji take two, marks and what joins characters none. Where terminals do not agree,
    as on an emoji that they may show as its parts, it is what those with full support for Unicode make of it.
    """
    return len(text) if text.isascii() else sum(width for _, width in _signs(text))


def padded(text: str, width: int) -> str:
    """With blanks at its end, so that it takes as many cells."""
    return text + " " * (width - width_of(text))


def wrapped(text: Text, width: int) -> list[Text]:
    """The lines of a text, each at most `width` cells wide, without blanks at its end.

    A word that is wider than that is folded; it begins a line of its own.
    """
    letters = "".join(span.text for span in text)
    breaks = _breaks(letters, width) if width_of(letters) > width else ()
    return [
        _cut(text, start, start + len(letters[start:end].rstrip()))
        for start, end in pairwise((0, *breaks, len(letters)))
    ]


def _breaks(text: str, width: int) -> Iterator[int]:
    """Where a text goes on in a new line."""
    used = 0
    for found in re.finditer(r"([^\S\xa0]*(?:\S|\xa0)+)([^\S\xa0]*)", bound(text)):
        word, blanks = found.groups()
        taken = width_of(word)
        if used and used + taken > width:
            yield found.start()
            used = 0
        if taken > width:
            taken = 0
            for offset, wide in _signs(word):
                if taken and taken + wide > width:
                    yield found.start() + offset
                    taken = 0
                taken += wide
        used += taken + width_of(blanks)


def _signs(text: str) -> Iterator[tuple[int, int]]:
    """Where each sign begins that must not be torn apart, with what belongs to it, and the cells that it takes."""
    begun = width = 0
    joined = False
    for offset, character in enumerate(text):
        cells = _cells(character)
        if character == _AS_EMOJI and width == 1 and not text[begun].isspace():
            width = 2
        elif cells and not joined:
            if width:
                yield begun, width
                begun = offset
            width = cells
        joined = character == _JOINER and width == 2
    if text:
        yield begun, width


@cache
def _cells(character: str) -> int:
    """Of one character that stands alone."""
    if character < "\u0300" or "\u2010" <= character <= "\u2027" or "\u2500" <= character <= "\u25fc":
        return 1  # Latin, dashes, lines: what most reports get by with
    import unicodedata

    kind = unicodedata.category(character)
    if kind == "Cn":  # newer than this Python; of what is, emoji and rare ideographs are seen most
        return 2 if character >= "\U0001f300" else 1
    vowel_or_final = "\u1160" <= character <= "\u11ff" or "\ud7b0" <= character <= "\ud7fb"  # of a Korean syllable
    skin = "\U0001f3fb" <= character <= "\U0001f3ff"
    if kind[0] == "M" or vowel_or_final or skin or (kind == "Cf" and character >= "\u200b"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _width(text: Text) -> int:
    return sum(width_of(span.text) for span in text)


def _cut(text: Text, start: int, end: int) -> Text:
    """The characters from `start` to before `end`."""
    spans = []
    for span in text:
        piece = span.text[max(0, start) : max(0, end)]
        if piece:
            spans.append(Span(piece, span.style))
        start, end = start - len(span.text), end - len(span.text)
    return tuple(spans)


def _drawn(span: Span) -> str:
    codes = ";".join(_CODES[name] for name in span.style.split())
    return f"\x1b[{codes}m{span.text}\x1b[0m"
