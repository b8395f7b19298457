"""The pictures of report.html as coordinates and path data: nothing in them was written by anybody
else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ci_evals.format import duration, percent, rate_with_interval, seconds, short_sha, usd
from ci_evals.gate.baseline import ReportRef
from ci_evals.gate.compare import Comparison
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.reports.variants import VariantReport

MAX_LINES = 6
"""Lines of a chart that can still be told apart."""

_SPARK_REPORTS = 9
_SPARK_HEIGHT, _SPARK_STEP = 12, 4
_TREND_REPORTS = 30
_FEWEST_POINTS = 3
_LEAST_SPAN = 0.1
_LABEL_HEIGHT = 12
_ROOM = 0.05  # beside the lowest and the highest value of an axis, as a share of its span


def _axis(values: Sequence[float], least_span: float = _LEAST_SPAN) -> tuple[float, float]:
    """Return the ends of an axis of rates: all values with some room, and no more than 0 to 1."""
    lowest, highest = min(values), max(values)
    span = max(least_span, highest - lowest) * (1 + 2 * _ROOM)
    top = min(1.0, (lowest + highest + span) / 2)
    bottom = max(0.0, top - span)
    return bottom, min(1.0, bottom + span)


# A rate beside its bar.


@dataclass(frozen=True, slots=True)
class RateChart:
    """A pass rate with its interval and its bar, as positions between 0 and `width`; None where one
    is not known.
    """

    width: int
    rate: float
    lower: float
    upper: float
    bar: float | None
    text: str


def rate_chart(
    rate: float | None,
    lower: float | None,
    upper: float | None,
    bar: float | None = None,
    *,
    whole: bool = True,
) -> RateChart | None:
    """Draw a pass rate, on an axis from 0 to 100 % or on what of that is needed; None where nothing
    was graded.
    """
    if rate is None or lower is None or upper is None:
        return None
    known = [rate, lower, upper, *([] if bar is None else [bar])]
    width = 200
    bottom, top = (0.0, 1.0) if whole else _axis([*known, 1.0])

    def place(value: float) -> float:
        return round((value - bottom) / (top - bottom) * width, 1)

    limit = "" if bar is None else f", the bar is {percent(bar)}"
    return RateChart(
        width=width,
        rate=place(rate),
        lower=place(lower),
        upper=place(upper),
        bar=None if bar is None else place(bar),
        text=f"{rate_with_interval(rate, lower, upper, bar)}{limit}",
    )


# The history of a cell.


@dataclass(frozen=True, slots=True)
class Spark:
    """Columns of one cell's pass rate, the oldest report first: path data of the earlier ones and
    of this one.
    """

    width: int
    before: str
    here: str
    text: str


def spark(comparison: Comparison | None, key: CellKey, here: Tally) -> Spark | None:
    """Draw the history of a cell; None without earlier runs."""
    base = comparison.base_of(key) if comparison else None
    earlier = (
        [each.tally for each in base.history.evidence if each.graded][: _SPARK_REPORTS - 1]
        if base
        else []
    )
    if not earlier:
        return None
    shown = [*reversed(earlier), *([here] if here.graded else [])]
    columns = [
        f"M{2 + number * _SPARK_STEP} 12V{_spark_top(tally.rate)}"
        for number, tally in enumerate(shown)
    ]
    split = len(earlier)
    text = ", ".join(f"{tally.passed}/{tally.graded}" for tally in shown)
    return Spark(len(shown) * _SPARK_STEP, "".join(columns[:split]), "".join(columns[split:]), text)


def _spark_top(rate: float) -> int:
    return min(_SPARK_HEIGHT - 2, round((1 - rate) * _SPARK_HEIGHT))


# The trend of the last reports.


@dataclass(frozen=True, slots=True)
class Point:
    """One value; `text` says it in words."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """The values of one variant, oldest first, the last of them of this report. `number` tells its
    style.
    """

    variant: Variant
    number: int
    points: tuple[Point, ...]

    @property
    def path(self) -> str:
        return "M" + "L".join(f"{point.x:g} {point.y:g}" for point in self.points)


@dataclass(frozen=True, slots=True)
class TrendChart:
    """Pass rates over reports in a picture of `width` × `height`; `grid` are labelled heights."""

    width: int
    height: int
    lines: tuple[Line, ...]
    grid: tuple[tuple[float, str], ...]
    bar: float | None
    first: str
    reports: int

    @property
    def text(self) -> str:
        """The first and the last value of every line in words."""
        return "; ".join(f"{line.points[0].text}, {line.points[-1].text}" for line in self.lines)


def trend_chart(
    report: SuiteReport,
    comparison: Comparison | None,
    variants: Sequence[VariantReport],
    bar: float | None,
) -> TrendChart | None:
    """Draw the pass rates of the last reports and of this one; None with too few of them for a
    line.
    """
    if comparison is None:
        return None
    width, height = 360, 64
    earlier = [point for point in comparison.baseline.trend if point.report.id != report.id][
        : _TREND_REPORTS - 1
    ]
    refs = [point.report for point in reversed(earlier)]
    rates: list[tuple[Variant, list[float | None]]] = []
    for each in variants[:MAX_LINES]:
        theirs = comparison.base_variant(each.variant)
        before = [
            next((found.pass_rate for found in point.variants if found.variant == theirs), None)
            for point in reversed(earlier)
        ]
        rates.append((each.variant, [*before, each.pass_rate]))
    known = [rate for _, line in rates for rate in line if rate is not None]
    if len(refs) + 1 < _FEWEST_POINTS or not known:
        return None
    bottom, top = _axis([*known, *([] if bar is None else [bar])])

    def at(number: int) -> float:
        return round(number / len(refs) * width, 1)

    def height_of(rate: float) -> float:
        return round((top - rate) / (top - bottom) * height, 1)

    names = [f"{short_sha(ref.revision or ref.id)}" for ref in refs] + ["here"]
    lines = [
        Line(
            variant,
            number,
            tuple(
                Point(at(place), height_of(rate), f"{name}: {percent(round(rate, 4))}")
                for place, (name, rate) in enumerate(zip(names, line, strict=True))
                if rate is not None
            ),
        )
        for number, (variant, line) in enumerate(rates)
    ]
    return TrendChart(
        width=width,
        height=height,
        lines=tuple(line for line in lines if len(line.points) > 1),
        grid=tuple((height_of(value), percent(value)) for value in _ticks(bottom, top)),
        bar=None if bar is None else height_of(bar),
        first=_age(refs[0], report.started_at),
        reports=len(refs) + 1,
    )


def _ticks(bottom: float, top: float) -> Iterator[float]:
    """Yield two to five round rates between the ends of an axis."""
    step = next(
        step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5) if (top - bottom) / step <= 4
    )
    number = -int(-bottom // step)
    while round(number * step, 4) <= round(top, 4):
        yield round(number * step, 4)
        number += 1


def _age(ref: ReportRef, now: float) -> str:
    """`12 days ago`."""
    return f"{duration(max(0.0, now - ref.started_at))} ago"


# Variants beside each other.


@dataclass(frozen=True, slots=True)
class Scatter:
    """Variants as points: their pass rate against what they take, in a picture of `width` ×
    `height`.

    `labels` are the heights of their names, None of one that is not named: of many, those are that
    no other beats in both.
    """

    title: str
    width: int
    height: int
    points: tuple[tuple[Variant, Point], ...]
    labels: tuple[float | None, ...]
    x_ends: tuple[str, str]
    y_ends: tuple[str, str]

    @property
    def text(self) -> str:
        """All points in words."""
        return "; ".join(f"{variant}: {point.text}" for variant, point in self.points)


def scatters(variants: Sequence[VariantReport]) -> Iterator[Scatter]:
    """Yield cost and latency against the pass rate, as far as they are known of two variants or
    more.
    """
    graded = [each for each in variants if each.pass_rate is not None]
    costs = [(each, each.figures.cost_per_run_usd) for each in graded]
    latencies = [(each, each.figures.latency_p50_s) for each in graded]
    for title, values, show in (("cost per run", costs, usd), ("latency p50", latencies, seconds)):
        known = [(each, found) for each, found in values if found is not None]
        most = max((found for _, found in known), default=0)
        if len(known) < 2 or not most:
            continue
        width, height = 300, 160
        bottom, top = _axis([each.pass_rate or 0.0 for each, _ in known])
        points = tuple(
            (
                each.variant,
                Point(
                    round(found / most * width, 1),
                    round((top - (each.pass_rate or 0.0)) / (top - bottom) * height, 1),
                    f"{percent(each.pass_rate)}, {show(found)}",
                ),
            )
            for each, found in known
        )
        few = len(points) <= MAX_LINES
        labels: list[float | None] = []
        for _, point in points:  # no label on another one
            beaten = any(_beats(other, point) for _, other in points)
            room = point.y
            while any(taken is not None and abs(room - taken) < _LABEL_HEIGHT for taken in labels):
                room += _LABEL_HEIGHT
            labels.append(room if few or not beaten else None)
        ends = (percent(round(bottom, 2)), percent(round(top, 2)))
        yield Scatter(title, width, height, points, tuple(labels), ("0", show(most)), ends)


def _beats(one: Point, other: Point) -> bool:
    """Return True if one point is better than another in one direction, and no worse in the other
    one.
    """
    return one.x <= other.x and one.y <= other.y and (one.x, one.y) != (other.x, other.y)
