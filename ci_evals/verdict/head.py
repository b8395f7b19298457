"""A report as the side that is compared with a baseline, and as one point of the trend."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, filterfalse
from math import isnan
from operator import add, mul

from ci_evals.columns import STATUSES
from ci_evals.model import Variant
from ci_evals.report import Report
from ci_evals.rules import Gate
from ci_evals.stats.pass_rate import PassRate, pass_rate
from ci_evals.stats.scores import ScoreSums
from ci_evals.verdict.history import (
    NO_RUNS,
    UNMEASURED,
    PerRun,
    ReportRef,
    Tally,
    TrendPoint,
    TrendVariant,
)
from ci_evals.verdict.pairing import HeadCell

_GRADED = bytes((STATUSES.index("passed"), STATUSES.index("failed")))


def head_cells(report: Report, gate: Gate | None) -> list[HeadCell]:
    """Every cell of a report that has runs, in plan order."""
    return list(stream_head_cells(report, gate))


def stream_head_cells(report: Report, gate: Gate | None) -> Iterator[HeadCell]:
    """The same, none of which is made before it is asked for."""
    critical_tags = gate.critical_tags if gate else frozenset()
    for cell in range(len(report.matrix)):
        if report.matrix.runs(cell):
            yield _head_cell(report, cell, critical_tags, per_run_of(report, cell))


def counted_cells(report: Report, gate: Gate | None) -> list[HeadCell]:
    """Every cell that the suite of a report has, without what its runs came to."""
    critical_tags = gate.critical_tags if gate else frozenset()
    return [_head_cell(report, cell, critical_tags, UNMEASURED) for cell in range(len(report.matrix))]


def _head_cell(report: Report, cell: int, critical_tags: frozenset[str], per_run: PerRun) -> HeadCell:
    case = report.matrix.case(cell)
    more, confirmed = NO_RUNS, False
    if (confirmation := report.confirmation) is not None and confirmation.matrix.runs(cell):
        more = Tally(*confirmation.fresh(cell))
        confirmed = bool(more.graded) and not confirmation.by_cell[cell].missing
    return HeadCell(
        key=report.matrix.key(cell),
        fingerprint=report.fingerprint_of(report.matrix.row(cell)),
        planned=Tally(*report.fresh(cell)),
        confirming=more,
        confirmed=confirmed,
        critical=case.critical or not critical_tags.isdisjoint(case.tags),
        per_run=per_run,
    )


def per_run_of(report: Report, cell: int) -> PerRun:
    """What a graded run of a cell came to; runs that repeat a record take no part."""
    columns, first_slots = report.columns, report.matrix.first_slots
    slots = slice(first_slots[cell], first_slots[cell + 1])
    scores, costs, latencies = columns.score[slots], columns.cost_usd[slots], columns.latency_s[slots]
    tokens = list(map(add, columns.input_tokens[slots], columns.output_tokens[slots]))
    status, repeated = columns.status[slots], columns.repeated[slots]
    if status.translate(None, _GRADED) or 1 in repeated:
        counted = [code in _GRADED and not again for code, again in zip(status, repeated, strict=True)]
        scores, costs, latencies = (array("d", compress(each, counted)) for each in (scores, costs, latencies))
        tokens = list(compress(tokens, counted))
    if 0 in tokens:  # not known
        tokens = list(filter(None, tokens))
    return PerRun(_score_sums(_known(scores)), _mean(_known(costs)), _mean(tokens), _median(latencies))


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


def _known(values: Sequence[float]) -> Sequence[float]:
    """Those that are numbers."""
    return list(filterfalse(isnan, values)) if isnan(sum(values)) else values


def _score_sums(scores: Sequence[float]) -> ScoreSums:
    return ScoreSums(len(scores), float(sum(scores)), float(sum(map(mul, scores, scores))))


def _mean(values: Sequence[float]) -> float | None:
    """None of nothing."""
    return sum(values) / len(values) if values else None


def _median(values: Iterable[float]) -> float | None:
    """As `statistics.median`, which takes ten times as long; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


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
