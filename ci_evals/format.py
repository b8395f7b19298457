"""Figures, and text that others wrote, as people read them."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Context, Decimal, localcontext
from difflib import get_close_matches
from fractions import Fraction
from itertools import count, groupby
from math import floor, log10
from operator import mul
from typing import Any, Final

UNKNOWN: Final = "—"
"""Stands where a figure is not known."""

RAREST = 1e-15
_FEWEST_IN_A_ROW = 4  # run numbers that are shown as `4 to 7`


# Figures.


def exact(bar: float) -> Fraction:
    """Return the decimal that the user wrote: 9 of 10 meet a bar of 0.9, although the double is a
    bit above.
    """
    return Fraction(str(bar))


_DECIMALS = Context(
    prec=60, traps=[]
)  # digits that no sum of scores outgrows, whatever code under test sets


def exact_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Return the mean of decimals as they are written: 0.9 of 0.85 and 0.95, which floats may miss
    by their last digit.

    Args:
        values: at least one.
        weights: one for each value, not all of them 0; else all count alike.
    """
    with localcontext(_DECIMALS):
        parts = [Decimal(str(float(value))) for value in values]
        shares = [Decimal(str(float(weight))) for weight in weights or [1] * len(parts)]
        return float(sum(map(mul, shares, parts)) / sum(shares))


def number_of(number: int, noun: str) -> str:
    """`1 run`, `1,200 runs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(rate: float | None, *marks: float | None) -> str:
    """Format a fraction with one decimal, or as many more as keep it off 0 %, 100 % and the
    `marks`.

    So a rate is never shown as equal to a bar that it misses. Trailing zeros go when the figure is
    exact.
    """
    if rate is None:
        return UNKNOWN
    value = Decimal(str(rate)) * 100
    edges = (
        Decimal(0),
        Decimal(100),
        *(Decimal(str(mark)) * 100 for mark in marks if mark is not None),
    )
    for places in count(1):
        shown = round(value, places)
        if shown == value:
            return f"{shown.normalize():f} %"
        if all(shown.compare(edge) == value.compare(edge) for edge in edges):
            break
    return f"{shown:f} %"


def interval(lower: float, upper: float) -> str:
    """`87.6 to 98.4 %`."""
    return f"{percent(lower).removesuffix(' %')} to {percent(upper)}"


def rate_with_interval(
    rate: float | None, lower: float | None, upper: float | None, *marks: float | None
) -> str:
    """`95 % (87.6 to 98.4 %)`, without the brackets if the interval is not known."""
    if rate is None or lower is None or upper is None:
        return percent(rate, *marks)
    return f"{percent(rate, *marks)} ({interval(lower, upper)})"


def score(value: float | None) -> str:
    """`0.93`."""
    return UNKNOWN if value is None else f"{value:.2f}"


def usd(amount: float | None, unknown: str = "unknown") -> str:
    """`$12.34`, `$0.012`, `$0.00034`: cents, or two significant digits below one dollar."""
    if amount is None:
        return unknown
    if amount == 0:
        return "$0"
    if amount >= 0.995:
        return f"${amount:,.2f}"
    decimals = 3
    while round(amount, decimals) < 10 ** (1 - decimals) and decimals < 12:
        decimals += 1
    return f"${amount:.{decimals}f}"


def seconds(taken: float | None, unknown: str = UNKNOWN) -> str:
    """`850 ms`, `1.23 s`, `12.3 s`, `2 min 5 s`."""
    if taken is None:
        return unknown
    if taken < 0.9995:
        return f"{taken * 1000:.0f} ms"
    if taken < 9.995:
        return f"{taken:.2f} s"
    if taken < 59.95:
        return f"{taken:.1f} s"
    minutes, rest = divmod(round(taken), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h`, `5 days`: the age of something, in one unit."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (unit != "days" and seconds >= size):
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def once_in(p: float) -> str:
    """Format a chance as a frequency with two significant digits: `once in 18,000`."""
    if p < RAREST:
        return "less than once in 10^15"
    often = 1 / p
    return f"once in {int(round(often, -max(0, floor(log10(often)) - 1))):,}"


def span(values: Iterable[float], show: Callable[[float], str]) -> str:
    """`500 ms`, or `500 ms to 1.20 s` where the values differ; empty without any."""
    known = sorted(values)
    return " to ".join(dict.fromkeys((show(known[0]), show(known[-1])))) if known else ""


def run_numbers(numbers: Iterable[int]) -> str:
    """`run 2`, `runs 1, 2 and 3`, `runs 1, 4 to 7 and 9`; the numbers rise."""
    rising = enumerate(numbers)
    rows = [
        [number for _, number in row] for _, row in groupby(rising, lambda each: each[1] - each[0])
    ]
    shown: list[str] = []
    for row in rows:
        shown += [f"{row[0]} to {row[-1]}"] if len(row) >= _FEWEST_IN_A_ROW else map(str, row)
    if len(rows) == len(rows[0]) == 1:
        return f"run {shown[0]}"
    *others, last = shown
    return f"runs {', '.join(others)} and {last}" if others else f"runs {last}"


def keep_units(sentence: str) -> str:
    """Put no-break spaces between figures and their units, so that no line ends there."""
    return re.sub(r"(?<=\d) (?=(?:%|ms|s|min|h|points)(?!\w))", "\xa0", sentence)


def code_spans(sentence: str) -> Iterator[tuple[str, bool]]:
    """Split a sentence of ours at its backticks: each piece, and whether it is code."""
    for number, piece in enumerate(re.split("`([^`]+)`", sentence)):
        yield piece, number % 2 == 1


# Text that others wrote: names, answers, errors.

_NONCHARACTERS = "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but for tab and line feed
    "\u2028\u2029"  # line breaks of their own kind
    "\u202a-\u202e\u2066-\u2069"  # overrides of the writing direction
    "\ud800-\udfff"  # surrogates: not text in any encoding
    f"\ufdd0-\ufdef{_NONCHARACTERS}]"
)
_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\u200f\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_LEFT_TO_RIGHT_MARK = "\u200e"
# What Unicode calls default-ignorable, which a runner may skip when it looks for its commands.
_IGNORED = "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\ufe00-\ufe0f\ufeff"
_COMMAND = re.compile(
    rf"^((?:[^\S\n]|[{_IGNORED}]|\x1b\[[0-9;]*m)*):(?=[{_IGNORED}]*:)", re.MULTILINE
)
_OLD_COMMAND = re.compile(rf"#(?=[{_IGNORED}]*\[)")


def visible(text: str) -> str:
    r"""Write every character that acts instead of being seen as its escape: `\x1b`, `\u202e`,
    `\ud800`.

    The result is valid UTF-8 and valid XML 1.0. Line feeds and tabs stay.
    """
    return _ACTING.sub(_escape, text.replace("\r\n", "\n"))


def shorten(text: str, limit: int) -> str:
    """Return the first `limit` characters, made visible, and how many more there were."""
    if len(text) <= limit:
        return visible(text)
    return f"{visible(text[:limit])}… ({len(text) - limit:,} more characters)"


def abridge(text: str, limit: int) -> str:
    """Leave out the middle of a text that is longer than `limit` characters, and say how much that
    is.
    """
    if len(text) <= limit:
        return text
    end = limit // 3
    return f"{text[: limit - end]}\n[… {len(text) - limit:,} characters …]\n{text[-end:]}"


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is meant by a misspelt one; None if none is at least `cutoff`
    alike.
    """
    names = list(known)
    in_other_case = [each for each in names if each.lower() == name.lower()]
    return next(iter(in_other_case or get_close_matches(name, names, n=1, cutoff=cutoff)), None)


def one_line(text: str, limit: int = 200) -> str:
    """Make a text visible, with every run of white space as one space, and cut it at `limit`
    characters.
    """
    looked_at = text[: 4 * limit]
    shown = visible(" ".join(looked_at.split()))
    return (
        shown if len(shown) <= limit and len(looked_at) == len(text) else f"{shown[: limit - 1]}…"
    )


def short_sha(revision: str) -> str:
    """Return the first 7 characters of a commit, as git shows it."""
    return revision[:7]


def name_of(name: object, limit: int = 80) -> str:
    """Return a name for the middle of a sentence: on one line, between marks if it reads from right
    to left.

    Without the marks such a name would reorder the numbers beside it.
    """
    shown = one_line(str(name), limit)
    return (
        f"{_LEFT_TO_RIGHT_MARK}{shown}{_LEFT_TO_RIGHT_MARK}"
        if _RIGHT_TO_LEFT.search(shown)
        else shown
    )


def quote(value: Any, limit: int = 200) -> str:
    """Quote a text on one line, and any other value as JSON, cut at `limit` characters."""
    if isinstance(value, str):
        if len(value) <= limit:
            return repr(value)
        start = repr(value[:limit])
        return f"{start[:-1]}…{start[-1]} ({len(value):,} characters)"
    shown = ""
    # Piece by piece, so that neither a million items nor ten thousand levels are walked to the end.
    for piece in _JSON.iterencode(value):
        shown += piece
        if len(shown) > limit:
            return f"{visible(shown[:limit])}…"
    return visible(shown)


def without_commands(text: str) -> str:
    """Break what a CI runner would obey in a log: `::error::` at the start of a line and
    `##[error]` anywhere.

    The text stays as wide as it was. A carriage return, which may start a line too, becomes a line
    feed.
    """
    return _OLD_COMMAND.sub(" ", _COMMAND.sub(r"\1.", text.replace("\r", "\n")))


_JSON = json.JSONEncoder(ensure_ascii=False, skipkeys=True, check_circular=False, default=str)


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    return (
        f"\\x{code:02x}"
        if code <= 0xFF
        else f"\\u{code:04x}"
        if code <= 0xFFFF
        else f"\\U{code:08x}"
    )
