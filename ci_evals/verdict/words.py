"""The words of a verdict: counts, names, durations."""

import re
from math import floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

_LONGEST_NAME = 80
_RIGHT_TO_LEFT = "[\u0590-\u08ff\u200f\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
_LEFT_TO_RIGHT = "\u200e"  # a mark that nobody sees
_PART_OF_WORDS = "\u200c\u200d\u200e\u200f\xa0\u3000"  # joiners, marks and blanks that scripts and emoji need
_RAREST = 1e-15


def exact(bar: float) -> "Fraction":
    """The decimal that the user wrote: 9 of 10 passed runs meet a bar of 0.9, although the double is a bit above."""
    from fractions import Fraction  # which a log needs none of

    return Fraction(str(bar))


def number_of(number: int, noun: str) -> str:
    """`1 run`, `1,200 runs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def name_of(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name inside a sentence; names come from datasets, and may hold anything."""
    shown = name if all(each.isprintable() or each in _PART_OF_WORDS for each in name) else repr(name)
    return in_place(shown if len(shown) <= longest else shown[: longest - 1] + "…")


def in_place(text: str) -> str:
    """What others wrote, inside our text: from right to left, it would else reorder the numbers beside it."""
    if text.isascii() or not re.search(_RIGHT_TO_LEFT, text):
        return text
    return f"{_LEFT_TO_RIGHT}{text}{_LEFT_TO_RIGHT}"


def once_in(p: float) -> str:
    """A chance as a frequency with two digits that count: `once in 18,000`."""
    if p < _RAREST:
        return "less than once in 10^15"
    return f"once in {_two_digits(1 / p):,}"


def _two_digits(value: float) -> int:
    places = max(0, floor(log10(value)) - 1)
    return int(round(value, -places))


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h`, `5 days`: the age of something."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (unit != "days" and seconds >= size):
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
