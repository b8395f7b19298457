"""Figures as a person reads them: rates, money, seconds, counts."""

from ci_evals.verdict.words import number_of, percent

__all__ = ["UNKNOWN", "between", "interval", "number_of", "rate", "rate_with_interval", "seconds", "usd"]

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
