"""Figures as a person reads them: rates, money, seconds, counts."""

from collections.abc import Callable, Iterable
from itertools import groupby

from ci_evals.percentage import percent
from ci_evals.verdict.words import number_of

__all__ = [
    "UNKNOWN",
    "between",
    "interval",
    "number_of",
    "rate",
    "rate_with_interval",
    "run_numbers",
    "score",
    "seconds",
    "span",
    "usd",
]

_FEWEST_IN_A_ROW = 4  # that are shown as `4 to 7`

UNKNOWN = "—"


def rate(value: float | None, *marks: float | None) -> str:
    """`95 %`, never rounded to 0 %, to 100 % or to one of the `marks`; a dash when it is not known."""
    return UNKNOWN if value is None else percent(value, *(mark for mark in marks if mark is not None))


def rate_with_interval(value: float | None, lower: float | None, upper: float | None, *marks: float | None) -> str:
    """`95 % (87.6 to 98.4 %)`, without the brackets if the interval is not known."""
    if value is None or lower is None or upper is None:
        return rate(value, *marks)
    return f"{rate(value, *marks)} ({interval(lower, upper)})"


def interval(lower: float, upper: float) -> str:
    """`87.6 to 98.4 %`."""
    return f"{rate(lower).removesuffix(' %')} to {rate(upper)}"


def between(lower: float, upper: float) -> str:
    """`between 84.1 and 96.9 %`."""
    return f"between {rate(lower).removesuffix(' %')} and {rate(upper)}"


def score(value: float | None) -> str:
    """`0.93`, or a dash when there is none."""
    return UNKNOWN if value is None else f"{value:.2f}"


def usd(amount: float | None, unknown: str = "unknown") -> str:
    """`$12.34`, `$0.012`, `$0.00034`: cents, or two digits that count where cents would say nothing."""
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


def seconds(duration: float | None, unknown: str = UNKNOWN) -> str:
    """`850 ms`, `1.23 s`, `12.3 s`, `2 min 5 s`."""
    if duration is None:
        return unknown
    if duration < 0.9995:
        return f"{duration * 1000:.0f} ms"
    if duration < 9.995:
        return f"{duration:.2f} s"
    if duration < 59.95:
        return f"{duration:.1f} s"
    minutes, rest = divmod(round(duration), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def span(values: Iterable[float], show: Callable[[float], str]) -> str:
    """`500 ms`, or `500 ms to 1.20 s` where they differ; nothing of nothing."""
    known = sorted(values)
    return " to ".join(dict.fromkeys((show(known[0]), show(known[-1])))) if known else ""


def run_numbers(numbers: Iterable[int]) -> str:
    """`run 2`, `runs 1, 2 and 3`, `runs 1, 4 to 7 and 9`; of rising numbers."""
    rising = enumerate(numbers)
    rows = [[number for _, number in row] for _, row in groupby(rising, lambda each: each[1] - each[0])]
    shown = [
        text for row in rows for text in ([f"{row[0]} to {row[-1]}"] if len(row) >= _FEWEST_IN_A_ROW else map(str, row))
    ]
    if len(rows) == len(rows[0]) == 1:
        return f"run {shown[0]}"
    *others, last = shown
    return f"runs {', '.join(others)} and {last}" if others else f"runs {last}"
