"""What a suite can detect, as text, markdown or JSON."""

from collections.abc import Sequence
from typing import Literal

from ci_evals.percentage import percent
from ci_evals.reports.json_text import printed
from ci_evals.reports.markdown_text import code, plain
from ci_evals.verdict.power import Detectable, Power, size_sentence
from ci_evals.verdict.words import name_of, number_of

PowerFormat = Literal["text", "markdown", "json"]

_HEAD = ("cases × runs", "calls", "against one report", "against pooled history", "below its bar")


def render_power(power: Power, output: PowerFormat) -> str:
    """The table and what it comes to, in one of the formats."""
    if output == "json":
        return printed(power, indent=2).rstrip()
    rows = [_HEAD, *(_row(each) for each in power.sizes)]
    if output == "markdown":
        table = [f"| {' | '.join(row)} |" for row in rows]
        table.insert(1, "|---" + "|---:" * (len(_HEAD) - 1) + "|")
        name: str = code(power.suite)
    else:
        table = _aligned(rows)
        name = name_of(power.suite)
    sentences = [f"{name}: {_now(power)}.", _buys(power)]
    basis = plain(_basis(power)) if output == "markdown" else _basis(power)
    return "\n".join(["\n\n".join(each for each in sentences if each), "", *table, "", basis])


def _now(power: Power) -> str:
    return size_sentence(power.now.cases, power.now.runs, power.now.pooled)


def _buys(power: Power) -> str:
    if power.runs_for_half is None or power.now.pooled is None:
        return ""
    runs, points = number_of(power.runs_for_half, "run"), _points(power.now.pooled / 2)
    return f"{runs} of each case would detect half of that ({points}), at {_times(power)} the calls."


def _times(power: Power) -> str:
    assert power.runs_for_half is not None
    return f"{f'{power.runs_for_half / power.now.runs:.1f}'.removesuffix('.0')} times"


def _row(size: Detectable) -> tuple[str, ...]:
    drops = (size.one_report, size.pooled, size.gate)
    return (f"{size.cases:,} × {size.runs}", f"{size.calls:,}", *(_points(drop) for drop in drops))


def _points(drop: float | None) -> str:
    return "-" if drop is None or drop >= 1 else f"{100 * drop:.1f} points"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def _basis(power: Power) -> str:
    source = f"as {power.known_from} shows" if power.known_from else "as is usual; --history takes them from a report"
    return (
        "Drops of the pass rate of a variant that are detected with a chance of 80 %, at 5 % false alarms. They are for"
        f" a pass rate of {percent(round(power.rate, 3))}, and {percent(round(power.correlation, 2))} of the variance"
        f" between cases, {source}. A case that breaks wholly is named by its confirm runs, however small its share."
    )
