"""Formats figures, and text that others wrote, for people."""

import json
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Context, Decimal, localcontext
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from itertools import count
from math import floor, isclose, log10
from typing import Any, Final

UNKNOWN: Final = "—"
"""Shown for an unknown figure."""

RAREST = 1e-9
_FEWEST_IN_A_ROW = 4  # run numbers that are shown as `4 to 7`


# Figures.


def exact(bar: float) -> Fraction:
    """Return the decimal that the user wrote: 9 of 10 meet a bar of 0.9, although the float is
    larger (docs/decisions/0005).
    """
    return Fraction(str(bar))


# More digits than any sum of scores has. Code under test may change the default context.
_DECIMALS = Context(prec=60, traps=[])


def exact_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Return the mean of numbers as decimals: 0.9 for 0.85 and 0.95, which floats may miss by their
    last digit.

    Args:
        values: at least one.
        weights: one for each value, not all of them 0; default: equal weights.
    """
    if weights is None:
        weights = [1.0] * len(values)
    with localcontext(_DECIMALS):
        total = Decimal(0)
        shares = Decimal(0)
        for value, weight in zip(values, weights, strict=True):
            share = Decimal(str(float(weight)))
            total += share * Decimal(str(float(value)))
            shares += share
        return float(total / shares)


def number_of(number: int, noun: str) -> str:
    """`1 run`, `1,200 runs`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def percent(rate: float | None, *marks: float | None) -> str:
    """Format a fraction with one decimal, or more if it would look equal to 0 %, 100 % or a mark.

    A rate is never shown as equal to a bar that it misses. An exact figure has no trailing zeros.
    """
    if rate is None:
        return UNKNOWN
    return f"{percent_figure(rate, *marks)} %"


def percent_figure(rate: float, *marks: float | None) -> str:
    """Return `percent` without the unit: `87.5`."""
    value = Decimal(str(rate)) * 100
    edges = [Decimal(0), Decimal(100)]
    known = [mark for mark in marks if mark is not None]
    # Equal means may differ in the last digits of their floats.
    edges += [Decimal(str(mark)) * 100 for mark in known if not isclose(rate, mark, rel_tol=1e-12)]
    for places in count(1):
        shown = round(value, places)
        if shown == value:
            return f"{shown.normalize():f}"
        # Formatted, because `round` is limited to 28 digits.
        shown_edges = [Decimal(f"{edge:.{places}f}") for edge in edges]
        if [shown.compare(edge) for edge in shown_edges] == [value.compare(edge) for edge in edges]:
            break
    return f"{shown:f}"


_ORDINALS = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
]


def ordinal(number: int) -> str:
    """`third`, `12th`."""
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    endings = {1: "st", 2: "nd", 3: "rd"}
    ending = endings.get(number % 10, "th")
    if number % 100 in (11, 12, 13):
        ending = "th"
    return f"{number}{ending}"


def interval(lower: float, upper: float) -> str:
    """`87.6 to 98.4 %`."""
    return f"{percent_figure(lower)} to {percent(upper)}"


def rate_with_interval(
    rate: float | None, lower: float | None, upper: float | None, *marks: float | None
) -> str:
    """`95 % (87.6 to 98.4 %)`, without the brackets if the interval is unknown."""
    if rate is None or lower is None or upper is None:
        return percent(rate, *marks)
    return f"{percent(rate, *marks)} ({interval(lower, upper)})"


def score(value: float | None) -> str:
    """`0.93`."""
    if value is None:
        return UNKNOWN
    return f"{value:.2f}"


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
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s"


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h`, `5 days`: the age of something, in one unit."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} days"


def once_in(p: float) -> str:
    """Format a chance as a frequency with two significant digits: `once in 18,000`."""
    if p < RAREST:
        return "less than once in a billion"
    times = 1 / p
    further_digits = max(0, floor(log10(times)) - 1)
    return f"once in {int(round(times, -further_digits)):,}"


def span(values: Iterable[float], show: Callable[[float], str]) -> str:
    """`500 ms`, or `500 ms to 1.20 s` if the values differ; empty without any."""
    known = sorted(values)
    if not known:
        return ""
    least, most = show(known[0]), show(known[-1])
    if least == most:
        return least
    return f"{least} to {most}"


def run_numbers(numbers: Iterable[int]) -> str:
    """`run 2`, `runs 1, 2 and 3`, `runs 1, 4 to 7 and 9`; the numbers rise."""
    rows: list[list[int]] = []
    for number in numbers:
        if rows and rows[-1][-1] == number - 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    shown: list[str] = []
    for row in rows:
        if len(row) >= _FEWEST_IN_A_ROW:
            shown.append(f"{row[0]} to {row[-1]}")
        else:
            shown += map(str, row)
    *others, last = shown
    if others:
        return f"runs {', '.join(others)} and {last}"
    if len(rows[0]) == 1:
        return f"run {last}"
    return f"runs {last}"


def keep_units(sentence: str) -> str:
    """Put no-break spaces between figures and their units, so that no line ends there."""
    return re.sub(r"(?<=\d) (?=(?:%|ms|s|min|h|points)(?!\w))", "\xa0", sentence)


def code_spans(sentence: str) -> Iterator[tuple[str, bool]]:
    """Split a sentence of ours at its backticks; yield each piece, and True if it is code."""
    for number, piece in enumerate(re.split("`([^`]+)`", sentence)):
        yield piece, number % 2 == 1


# Text of others: names, answers, errors.

_LEFT_TO_RIGHT_MARK = "\u200e"
# Default-ignorable characters of Unicode, which a runner may skip when it looks for its commands.
_IGNORED = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2060-\u206f\ufe00-\ufe0f\ufeff"
)


@cache
def _acting() -> re.Pattern[str]:
    """Match the characters that have an effect instead of a shape."""
    noncharacters = "".join(chr(plane << 16 | 0xFFFE) for plane in range(17))
    noncharacters += "".join(chr(plane << 16 | 0xFFFF) for plane in range(17))
    return re.compile(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, except tab and line feed
        "\u2028\u2029"  # line breaks of their own kind
        "\u202a-\u202e\u2066-\u2069"  # overrides of the writing direction
        "\ud800-\udfff"  # surrogates: not text in any encoding
        f"\ufdd0-\ufdef{noncharacters}]"
    )


@cache
def _right_to_left() -> re.Pattern[str]:
    return re.compile(
        "[\u0590-\u08ff\u200f\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
    )


def visible(text: str) -> str:
    r"""Replace characters that have an effect instead of a shape with escapes, such as `\x1b`.

    The result is valid UTF-8 and valid XML 1.0. Line feeds and tabs stay.
    """
    if text.isprintable():
        return text
    return _acting().sub(_escape, text.replace("\r\n", "\n"))


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code <= 0xFF:
        return f"\\x{code:02x}"
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


def shorten(text: str, limit: int) -> str:
    """Return the first `limit` characters, made visible, and the number of further ones."""
    if len(text) <= limit:
        return visible(text)
    return f"{visible(text[:limit])}… ({len(text) - limit:,} more characters)"


def abridge(text: str, limit: int) -> str:
    """Replace the middle of a text longer than `limit` characters with its length."""
    if len(text) <= limit:
        return text
    end = limit // 3
    return f"{text[: limit - end]}\n[… {len(text) - limit:,} characters …]\n{text[-end:]}"


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is closest to a misspelt one; None if none has a similarity of
    `cutoff`.
    """
    names = list(known)
    for candidate in names:
        if candidate.lower() == name.lower():
            return candidate
    for candidate in get_close_matches(name, names, n=1, cutoff=cutoff):
        return candidate
    return None


def capitalize_first(text: str) -> str:
    """Begin a sentence with a capital; `str.capitalize` would make the rest small."""
    return text[:1].upper() + text[1:]


def one_line(text: str, limit: int = 200) -> str:
    """Make a text visible on one line, with single spaces, and cut it at `limit` characters."""
    start = text[: 4 * limit]  # a text of megabytes is not walked to its end
    shown = visible(" ".join(start.split()))
    if len(shown) <= limit and len(start) == len(text):
        return shown
    return f"{shown[: limit - 1]}…"


def describe_status(status: int) -> str:
    """Return `exit status 1`, or `killed by SIGKILL` for a negative status."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def short_sha(revision: str) -> str:
    """Return the first 7 characters of a commit, as git shows it."""
    return revision[:7]


def name_of(name: object, limit: int = 80) -> str:
    """Return a name for the middle of a sentence, on one line.

    A name that is written from right to left gets marks around it: it would otherwise reorder
    adjacent numbers.
    """
    shown = one_line(str(name), limit)
    if _right_to_left().search(shown):
        return f"{_LEFT_TO_RIGHT_MARK}{shown}{_LEFT_TO_RIGHT_MARK}"
    return shown


def join_first(parts: Sequence[str], most: int) -> str:
    """`refund, cancel and 3 more`: the first `most` parts, and how many others there are."""
    joined = ", ".join(parts[:most])
    if len(parts) > most:
        joined += f" and {len(parts) - most:,} more"
    return joined


def quote(value: Any, limit: int = 200) -> str:
    """Quote a text on one line, and any other value as JSON, cut at `limit` characters."""
    if isinstance(value, str):
        if len(value) <= limit:
            return repr(value)
        start = repr(value[:limit])
        return f"{start[:-1]}…{start[-1]} ({len(value):,} characters)"
    shown = ""
    # Piece by piece, so that a million items or ten thousand levels are not walked to the end.
    for piece in _JSON.iterencode(value):
        shown += piece
        if len(shown) > limit:
            return f"{visible(shown[:limit])}…"
    return visible(shown)


def cite(value: Any, limit: int = 60) -> str:
    """Quote a value inside a sentence for people: a text in double quotes on one line, any other
    value as JSON.
    """
    if isinstance(value, str):
        if len(value) > limit or not value.isprintable():
            value = one_line(value, limit)
        return f'"{value}"'
    # Escaped line breaks within JSON are single spaces, too.
    return re.sub(r"(?<!\\)(?:\\[nrt])+", " ", quote(value, limit))


_JSON = json.JSONEncoder(ensure_ascii=False, skipkeys=True, check_circular=False, default=str)


def without_commands(text: str) -> str:
    """Disarm commands that a CI runner would execute in a log: `::error::` at the start of a line
    and `##[error]` anywhere.

    The text keeps its width. A carriage return, which may also start a line, becomes a line feed.
    """
    command, old_command = _commands()
    return old_command.sub(" ", command.sub(r"\1.", text.replace("\r", "\n")))


@cache
def _commands() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Match the commands of a runner, in their new and in their old form."""
    indent = rf"(?:[^\S\n]|[{_IGNORED}]|\x1b\[[0-9;]*m)*"
    command = re.compile(rf"^({indent}):(?=[{_IGNORED}]*:)", re.MULTILINE)
    return command, re.compile(rf"#(?=[{_IGNORED}]*\[)")
