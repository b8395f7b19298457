"""The pass rates of the last reports as a line of bars: plain characters, which show in e-mails as well."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from ci_evals.reports.figures import rate
from ci_evals.reports.variants import VariantReport
from ci_evals.verdict.comparison import Comparison
from ci_evals.verdict.history import TrendPoint

POINTS: Final = 20
_BARS: Final = "▁▂▃▄▅▆▇█"
_LEAST_SPAN: Final = 0.1
"""A tenth is the least that the height of a bar stands for, so that noise does not look like mountains."""


class Trend(Struct, frozen=True):
    """One variant's way: bars from the oldest report to this one, and the range that they span."""

    bars: str
    lowest: str
    highest: str
    reports: int


def trends(comparison: Comparison | None, variants: Iterable[VariantReport]) -> Iterator[tuple[VariantReport, Trend]]:
    """The variants that have a trend, with it; none without a baseline."""
    if comparison is not None:
        for each in variants:
            if trend := trend_of(comparison.baseline.trend, *comparison.base_variant(each.variant), each.pass_rate):
                yield each, trend


def trend_of(points: Sequence[TrendPoint], provider: str, prompt: str | None, here: float | None) -> Trend | None:
    """The trend of one variant; None with fewer than two earlier reports.

    Args:
        points: earlier reports, newest first.
        provider, prompt: the variant as the earlier reports call it.
        here: its pass rate now, which is the last bar.
    """
    rates = [
        each.pass_rate
        for point in reversed(points[:POINTS])
        for each in point.variants
        if (each.provider, each.prompt) == (provider, prompt) and each.pass_rate is not None
    ]
    if len(rates) < 2:
        return None
    shown = rates if here is None else [*rates, here]
    return Trend(_bars(shown), rate(min(rates)), rate(max(rates)), len(rates))


def _bars(rates: Sequence[float]) -> str:
    lowest, highest = min(rates), max(rates)
    top = min(1.0, max(highest, lowest + _LEAST_SPAN))
    bottom = min(lowest, top - _LEAST_SPAN)
    steps = len(_BARS) - 1
    return "".join(_BARS[round((each - bottom) / (top - bottom) * steps)] for each in rates)
