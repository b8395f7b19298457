"""A report as the side that is compared with a baseline, and as one point of the trend."""

from array import array
from collections.abc import Iterator, Sequence
from itertools import compress, filterfalse
from math import isnan
from operator import add, gt, mul
from statistics import median

from ci_evals.columns import STATUSES
from ci_evals.model import Variant
from ci_evals.report import Report
from ci_evals.rules import Gate
from ci_evals.stats.pass_rate import PassRate, pass_rate
from ci_evals.verdict.history import NO_RUNS, CellFigures, ReportRef, Tally, Totals, TrendPoint, TrendVariant
from ci_evals.verdict.pairing import HeadCell

_GRADED = bytes(status in ("passed", "failed") for status in STATUSES).ljust(256, b"\0")  # to translate codes with


def head_cells(report: Report, gate: Gate | None, *, everything: bool = False) -> list[HeadCell]:
    """Every cell of a report that has runs, in plan order; or `everything` that its suite has."""
    return list(stream_head_cells(report, gate, everything=everything))


def stream_head_cells(report: Report, gate: Gate | None, *, everything: bool = False) -> Iterator[HeadCell]:
    """The same, none of which is made before it is asked for."""
    critical_tags = gate.critical_tags if gate else frozenset()
    for cell in range(len(report.matrix)):
        if everything or report.matrix.runs(cell):
            yield _head_cell(report, cell, critical_tags)


def _head_cell(report: Report, cell: int, critical_tags: frozenset[str]) -> HeadCell:
    case = report.matrix.case(cell)
    more, confirmed = NO_RUNS, False
    if (confirmation := report.confirmation) is not None and confirmation.matrix.runs(cell):
        more = Tally(*confirmation.fresh(cell))
        confirmed = bool(more.graded) and not confirmation.by_cell[cell].missing
    return HeadCell(
        key=report.matrix.key(cell),
        fingerprint=report.fingerprints[cell // len(report.matrix.variants)],
        planned=Tally(*report.fresh(cell)),
        confirming=more,
        confirmed=confirmed,
        critical=case.critical or not critical_tags.isdisjoint(case.tags),
        figures=cell_figures(report, cell),
    )


def cell_figures(report: Report, cell: int) -> CellFigures:
    """What the graded runs of a cell took; runs that repeat a record take no part."""
    columns, slots = report.columns, report.matrix.slots(cell)
    runs = slice(slots.start, slots.stop)
    chosen = bytes(map(gt, columns.status[runs].translate(_GRADED), columns.repeated[runs]))

    def of(column: "array[float] | array[int]") -> Iterator[float]:
        return compress(column[runs], chosen)

    latencies_s = sorted(of(columns.latency_s))
    return CellFigures(
        scores=_totals(list(filterfalse(isnan, of(columns.score)))),
        cost=_totals(list(filterfalse(isnan, of(columns.cost_usd)))),
        tokens=_totals(list(filter(None, map(add, of(columns.input_tokens), of(columns.output_tokens))))),
        latency_median_s=median(latencies_s) if latencies_s else None,
    )


def trend_point(report: Report) -> TrendPoint:
    """What a report came to; without rates if it was settled early, since what had run by then is no fair sample."""
    variants = tuple(_trend_variant(report, variant) for variant in report.matrix.variants)
    return TrendPoint(report_ref(report), report.cases_fingerprint, variants)


def report_ref(report: Report) -> ReportRef:
    return ReportRef(report.id, report.started_at, report.suite.revision)


def fresh_rate(report: Report, variant: Variant) -> PassRate | None:
    """The pass rate of a variant over the runs that repeat no record; None without any.

    None as well where they ended as soon as the verdict was certain: those are no fair sample.
    """
    if report.settled is not None:
        return None
    return pass_rate(report.fresh(cell) for cell in report.cells_of(variant))


def _totals(values: Sequence[float]) -> Totals:
    return Totals(len(values), float(sum(values)), float(sum(map(mul, values, values))))


def _trend_variant(report: Report, variant: Variant) -> TrendVariant:
    cells = report.cells_of(variant)
    rate = fresh_rate(report, variant)
    figures = report.figures(cells)
    return TrendVariant(
        provider=variant.provider,
        prompt=variant.prompt,
        pass_rate=float(rate.rate) if rate else None,
        n_eff=rate.n_eff if rate else 0.0,
        cost_usd=figures.cost_usd if figures.priced_runs else None,
        latency_p50_s=figures.latency_p50_s,
        latency_p95_s=figures.latency_p95_s,
    )
