"""The difference of two answers, word by word."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

MAX_WORDS = 1200
"""Of either side; more take too long to compare."""

_LEAST_COMMON = 0.3
_WORD = re.compile(r"\w+|\s+|[^\w\s]")


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
