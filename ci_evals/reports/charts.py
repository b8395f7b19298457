"""The charts of report.html as coordinates and path data."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import floor
from typing import NamedTuple

from ci_evals.format import duration, percent, rate_with_interval, seconds, short_sha, usd
from ci_evals.gate.compare import Comparison
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.reports.variants import VariantReport, rate_in

MAX_LINES = 6
"""The most variants of a trend, and the most points of which each has a name."""

_SPARK_REPORTS = 9
_SPARK_HEIGHT, _SPARK_STEP = 12, 4
_TREND_REPORTS = 30
_FEWEST_POINTS = 3
_LEAST_SPAN = 0.1  # else an axis would blow up a difference of a single run
_LABEL_HEIGHT = 12
_POINT_RADIUS = 5
_ROOM = 0.05  # beyond the lowest and the highest value of an axis, as a share of its span
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
_MOST_TICKS = 4


def _axis(rates: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis: all rates with some room, within 0 to 1."""
    lowest, highest = min(rates), max(rates)
    span = max(_LEAST_SPAN, highest - lowest) * (1 + 2 * _ROOM)
    top = min(1.0, (lowest + highest + span) / 2)
    bottom = max(0.0, top - span)
    return bottom, min(1.0, bottom + span)


# A rate with its bar.


class Scale(NamedTuple):
    """The ends of the axis of rates, as fractions."""

    bottom: float
    top: float

    @property
    def ends(self) -> tuple[str, str]:
        """`0 %` and `100 %`."""
        return percent(self.bottom), percent(self.top)


def scale_of(rates: Sequence[float]) -> Scale:
    """Return an axis for some rates, up to 100 %. It begins at 0 % unless all are above 50 %."""
    lowest = min(rates, default=0.0)
    if lowest < 0.5:
        return Scale(0.0, 1.0)
    return Scale(min(0.9, floor(lowest * 10) / 10), 1.0)


@dataclass(frozen=True, slots=True)
class RateChart:
    """A pass rate with its interval, its bar and the baseline's rate, as positions between 0 and
    `width`.
    """

    width: int
    rate: float
    lower: float
    upper: float
    bar: float | None
    base: float | None
    text: str


def rate_chart(
    scale: Scale,
    rate: float | None,
    lower: float | None,
    upper: float | None,
    bar: float | None = None,
    base: float | None = None,
) -> RateChart | None:
    """Draw a pass rate; None if nothing was graded.

    Args:
        scale: the axis.
        rate: a fraction, as are all other arguments.
        lower: the lower end of its interval.
        upper: the upper end of its interval.
        bar: the bar that it must reach.
        base: the rate on the baseline.
    """
    if rate is None or lower is None or upper is None:
        return None
    width = 200

    def place(value: float) -> float:
        return round((value - scale.bottom) / (scale.top - scale.bottom) * width, 1)

    bar_at, base_at = None, None
    text = rate_with_interval(rate, lower, upper, bar)
    if base is not None:
        base_at = place(base)
        text = f"{text}, the baseline is at {percent(base, rate)}"
    if bar is not None:
        bar_at = place(bar)
        text = f"{text}, the bar is {percent(bar)}"
    return RateChart(
        width=width,
        rate=place(rate),
        lower=place(lower),
        upper=place(upper),
        bar=bar_at,
        base=base_at,
        text=text,
    )


# The history of a cell.


@dataclass(frozen=True, slots=True)
class Spark:
    """One cell's pass rate in the last reports as columns, oldest first.

    Attributes:
        before: path data of the earlier reports.
        here: path data of this one.
        text: all columns in words.
    """

    before: str
    here: str
    text: str


def spark(comparison: Comparison | None, key: CellKey, here: Tally) -> Spark | None:
    """Draw one cell's pass rate; None without earlier runs."""
    base = comparison.base_of(key) if comparison else None
    if base is None:
        return None
    newest_first = [evidence.tally for evidence in base.history.evidence if evidence.graded]
    earlier = newest_first[: _SPARK_REPORTS - 1][::-1]
    if not earlier:
        return None
    tallies = [*earlier, here] if here.graded else earlier
    columns = []
    for number, tally in enumerate(tallies):
        # A column of 0 % keeps two pixels, so that it does not look like a missing report.
        top = min(_SPARK_HEIGHT - 2, round((1 - tally.rate) * _SPARK_HEIGHT))
        columns.append(f"M{2 + number * _SPARK_STEP} {_SPARK_HEIGHT}V{top}")
    return Spark(
        before="".join(columns[: len(earlier)]),
        here="".join(columns[len(earlier) :]),
        text=", ".join(f"{tally.passed}/{tally.graded}" for tally in tallies),
    )


# The trend of the last reports.


@dataclass(frozen=True, slots=True)
class Point:
    """One value; `text` says it in words."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """The values of one variant, oldest first; the last one is this report's. `number` selects its
    style.
    """

    variant: Variant
    number: int
    points: tuple[Point, ...]

    @property
    def path(self) -> str:
        return "M" + "L".join(f"{point.x:g} {point.y:g}" for point in self.points)

    @property
    def text(self) -> str:
        """The first and the last value in words."""
        return f"{self.points[0].text}, {self.points[-1].text}"


@dataclass(frozen=True, slots=True)
class TrendChart:
    """Pass rates over reports in a chart of `width` × `height`; `grid` has labelled heights.

    Attributes:
        left_out: the number of variants without a line: those that pass most often.
        since: the place from which the reports together pass less often; None without drift.
    """

    width: int
    height: int
    lines: tuple[Line, ...]
    grid: tuple[tuple[float, str], ...]
    bar: float | None
    first: str
    reports: int
    left_out: int
    since: float | None = None


def trend_chart(
    report: SuiteReport,
    comparison: Comparison | None,
    variants: Sequence[VariantReport],
    bar: float | None,
    since_s: float | None = None,
) -> TrendChart | None:
    """Draw the pass rates of the last reports and this one; None if they are too few for a line.

    Args:
        report: this report.
        comparison: its comparison, which has the earlier reports.
        variants: the variants of this report.
        bar: the suite's bar.
        since_s: when the first report of the lower level started; None without drift.
    """
    if comparison is None:
        return None
    newest_first = [point for point in comparison.baseline.trend if point.report.id != report.id]
    earlier = newest_first[: _TREND_REPORTS - 1][::-1]
    if len(earlier) + 1 < _FEWEST_POINTS:
        return None
    shown = _worst(variants)
    rates = []
    known = []
    for each in shown:
        theirs = comparison.base_variant(each.variant)
        line = [rate_in(point, theirs) for point in earlier]
        line.append(each.pass_rate)
        rates.append(line)
        known += [rate for rate in line if rate is not None]
    if not known:
        return None
    if bar is not None:
        known.append(bar)
    bottom, top = _axis(known)
    width, height = 360, 64

    def height_of(rate: float) -> float:
        return round((top - rate) / (top - bottom) * height, 1)

    names = [short_sha(point.report.revision or point.report.id) for point in earlier]
    names.append("here")
    lines = []
    for number, line in enumerate(rates):
        points = []
        for place, rate in enumerate(line):
            if rate is not None:
                x = round(place / len(earlier) * width, 1)
                text = f"{names[place]}: {percent(round(rate, 4))}"
                points.append(Point(x, height_of(rate), text))
        if len(points) > 1:
            lines.append(Line(shown[number].variant, number, tuple(points)))
    oldest_s = max(0.0, report.started_at - earlier[0].report.started_at)
    grid = [(height_of(rate), percent(rate)) for rate in _round_rates(bottom, top)]
    bar_height = None
    if bar is not None:
        bar_height = height_of(bar)
    since = None
    if since_s is not None:
        places = [place for place, point in enumerate(earlier) if point.report.started_at < since_s]
        if places:  # else the loss began before the first report of the chart
            since = round((places[-1] + 0.5) / len(earlier) * width, 1)
    return TrendChart(
        width=width,
        height=height,
        lines=tuple(lines),
        grid=tuple(grid),
        bar=bar_height,
        first=f"{duration(oldest_s)} ago",
        reports=len(earlier) + 1,
        left_out=len(variants) - len(shown),
        since=since,
    )


def _worst(variants: Sequence[VariantReport]) -> Sequence[VariantReport]:
    """Return all variants, or those that pass least if they are many."""
    if len(variants) <= MAX_LINES:
        return variants
    rates = {each.variant: each.pass_rate for each in variants if each.pass_rate is not None}
    lowest = sorted(rates, key=rates.__getitem__)[:MAX_LINES]
    return [each for each in variants if each.variant in lowest]


def _round_rates(bottom: float, top: float) -> Iterator[float]:
    """Yield two to five round rates between the ends of an axis."""
    step = next(step for step in _TICKS if (top - bottom) / step <= _MOST_TICKS)
    number = -int(-bottom // step)
    while round(number * step, 4) <= round(top, 4):
        yield round(number * step, 4)
        number += 1


# Variants compared with each other.


@dataclass(frozen=True, slots=True)
class Scatter:
    """Variants as points: their pass rate against their cost or latency, in a chart of `width` ×
    `height`.

    `labels` has the height of each name; None for a variant without a label: its point is covered
    by another one, or there are many variants and another one beats it.
    """

    title: str
    width: int
    height: int
    points: tuple[tuple[Variant, Point], ...]
    labels: tuple[float | None, ...]
    x_ends: tuple[str, str]
    y_ends: tuple[str, str]

    @property
    def names_best(self) -> bool:
        """Return True if only the variants that no other one beats are labelled."""
        return len(self.points) > MAX_LINES

    @property
    def text(self) -> str:
        """All points in words."""
        return "; ".join(f"{variant}: {point.text}" for variant, point in self.points)


def scatters(variants: Sequence[VariantReport]) -> Iterator[Scatter]:
    """Yield the charts of cost and latency, if these are known for two variants or more."""
    costs = []
    latencies = []
    for each in variants:
        if each.pass_rate is None:
            continue
        cost, latency_s = each.figures.cost_per_run_usd, each.figures.latency_p50_s
        if cost is not None:
            costs.append((each.variant, each.pass_rate, cost))
        if latency_s is not None:
            latencies.append((each.variant, each.pass_rate, latency_s))
    yield from _scatter("cost per run", costs, usd)
    yield from _scatter("latency p50", latencies, seconds)


def _scatter(
    title: str, known: Sequence[tuple[Variant, float, float]], show: Callable[[float], str]
) -> Iterator[Scatter]:
    width, height = 300, 160
    most = max((value for _, _, value in known), default=0)
    if len({value for _, _, value in known}) < 2:  # all are above each other, or there is just one
        return
    bottom, top = _axis([rate for _, rate, _ in known])
    points = []
    for variant, rate, value in known:
        x = round(value / most * width, 1)
        y = round((top - rate) / (top - bottom) * height, 1)
        points.append((variant, Point(x, y, f"{percent(rate)}, {show(value)}")))
    yield Scatter(
        title=title,
        width=width,
        height=height,
        points=tuple(points),
        labels=tuple(_labels([point for _, point in points])),
        x_ends=("0", show(most)),
        y_ends=(percent(round(bottom, 2)), percent(round(top, 2))),
    )


def _labels(points: Sequence[Point]) -> list[float | None]:
    """Return the height of each point's label, so that none covers another."""
    heights: list[float] = []
    labels: list[float | None] = []
    for number, point in enumerate(points):
        is_beaten = len(points) > MAX_LINES and any(_beats(other, point) for other in points)
        # Points are drawn in their order, so a later one covers an earlier one.
        if is_beaten or any(_cover(other, point) for other in points[number + 1 :]):
            labels.append(None)
            continue
        height = point.y
        while any(abs(height - taken) < _LABEL_HEIGHT for taken in heights):
            height += _LABEL_HEIGHT
        heights.append(height)
        labels.append(height)
    return labels


def _cover(one: Point, other: Point) -> bool:
    return abs(one.x - other.x) < _POINT_RADIUS and abs(one.y - other.y) < _POINT_RADIUS


def _beats(one: Point, other: Point) -> bool:
    """Return True if a point is better in one direction, and not worse in the other one.

    Better is further left (cheaper or faster) and further up, where `y` is smaller.
    """
    no_worse = one.x <= other.x and one.y <= other.y
    better = one.x < other.x or one.y < other.y
    return no_worse and better
