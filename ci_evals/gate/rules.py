"""The rules of the gate on a comparison: regressions, falls of a whole variant, ratchet, cost,
latency.

Missing evidence is never a pass: a rule whose figure is not known says so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from statistics import fmean, stdev
from typing import Literal

from ci_evals.format import name_of, percent
from ci_evals.gate.bars import VerdictStatus
from ci_evals.gate.baseline import TrendVariant, fresh_rate
from ci_evals.gate.compare import LEAST_COMPARED, Comparison, NoComparison
from ci_evals.gate.differences import Difference
from ci_evals.gate.wording import (
    cell_sentence,
    coverage_sentence,
    hidden_critical_sentence,
    increase_sentence,
    not_compared_sentence,
    quarantine_sentence,
    regressions_sentence,
    too_few_latencies_clause,
    ungraded_critical_sentence,
    unknown_increase_sentence,
    usual_latencies_clause,
    variant_sentence,
)
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport
from ci_evals.model.rules import Gate
from ci_evals.stats.rates import PassRate, look_confidence

STABLE_REPORTS = 3
"""A rate is stable when this many reports in a row reached it together."""

LATENCY_HISTORY = 10
"""The spread of latencies is that of as many of the base's last reports."""
LATENCY_REPORTS, LATENCY_SPREAD = 3, 2
"""A machine's slow hour moves every cell at once: latency is red only where it lies this many
standard deviations above the medians of the base's last reports, of which there are at least so
many."""

_LEAST_LATENCY_S = 0.0005  # what is less is shown as 0 ms

RuleName = Literal[
    "baseline",
    "ungraded",
    "coverage",
    "quarantine",
    "critical",
    "regressions",
    "variant",
    "ratchet",
    "cost",
    "latency",
]


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """The verdict of one rule. A `borderline` one warns and never blocks.

    `cells` are the regressed cells that the rule speaks of, the surest first; `variant` is the one
    that it speaks of as a whole.
    """

    rule: RuleName
    status: VerdictStatus
    sentence: str
    cells: tuple[CellKey, ...] = ()
    variant: Variant | None = None


def rule_verdicts(
    report: SuiteReport, rules: Gate, comparison: Comparison | NoComparison | None
) -> Iterator[RuleVerdict]:
    """Yield the verdict of every rule that speaks against merging."""
    lack: VerdictStatus = "error" if rules.require_baseline else "borderline"
    yield from _missing_evidence(report, rules, comparison, lack)
    today = datetime.fromtimestamp(report.started_at, UTC).date()
    if ended := [
        case for case in report.plan.cases if case.quarantine and case.quarantine.until < today
    ]:
        yield RuleVerdict("quarantine", "borderline", quarantine_sentence(ended))
    if not isinstance(comparison, Comparison) or not comparison.compared:
        if rules.require_baseline:
            text = f"{not_compared_sentence(comparison)}, and the gate requires a comparison"
            yield RuleVerdict("baseline", "error", text)
        return
    red: VerdictStatus = "fail" if rules.on_regression == "fail" else "borderline"
    regressed = comparison.select("regressed")
    for cell in regressed:
        if cell.critical:
            text = f"critical: {cell_sentence(comparison, cell)}"
            yield RuleVerdict("critical", "fail", text, cells=(cell.key,))
    others = [cell for cell in regressed if not cell.critical]
    if len(others) > rules.max_regressions:
        text = regressions_sentence(comparison, others, rules.max_regressions)
        yield RuleVerdict("regressions", red, text, cells=tuple(cell.key for cell in others))
    # Where the gate allows regressions, a variant must have got worse even without them.
    for variant in comparison.worse_variants(beyond_regressions=rules.max_regressions > 0):
        text = variant_sentence(comparison, variant)
        yield RuleVerdict("variant", red, text, variant=variant.variant)
    yield from broken_ratchets(report, rules, comparison)
    yield from _increases(report, comparison, rules, lack)


def broken_ratchets(
    report: SuiteReport, rules: Gate, comparison: Comparison
) -> Iterator[RuleVerdict]:
    """Yield the variants whose rate is surely below the best that it has surely held.

    Only points of the baseline's trend with the same cases count; for a variant that is compared
    under another name, the points of that one. Both bounds are one-sided at the gate's confidence.
    """
    if not rules.ratchet:
        return
    same_cases = [
        point for point in comparison.baseline.trend if point.cases == report.cases_fingerprint
    ]
    for variant in report.plan.variants:
        found, base = fresh_rate(report, variant), comparison.base_variant(variant)
        held = [
            next((each for each in point.variants if each.variant == base), None)
            for point in same_cases
        ]
        best = best_stable_rate(held, rules.confidence)
        if found is None or best is None or (upper := found.bounds(rules.confidence).upper) >= best:
            continue
        of = f"{name_of(variant)}: " if comparison.several_variants else ""
        who = "it" if base == variant else name_of(base)
        rate, sure = percent(float(found.rate), best), percent(rules.confidence)
        at_most = f"({sure} sure: at most {percent(upper, best)})"
        text = f"{of}pass rate {rate} {at_most} is below the {percent(best)} that {who} has held before"
        yield RuleVerdict("ratchet", "fail", text, variant=variant)


def best_stable_rate(points: Sequence[TrendVariant | None], confidence: float) -> float | None:
    """Return the highest lower bound of `STABLE_REPORTS` reports in a row, taken together; None
    with fewer.

    Of many bounds the highest is too high more often than one of them is, so each is at the
    confidence that is right for the highest of as many as do not overlap.
    """
    bounds = []
    each_confidence = look_confidence(confidence, max(1, len(points) // STABLE_REPORTS))
    for start in range(len(points) - STABLE_REPORTS + 1):
        window = [
            each
            for each in points[start : start + STABLE_REPORTS]
            if each is not None and each.n_eff
        ]
        rated = [(each.pass_rate, each.n_eff) for each in window if each.pass_rate is not None]
        if len(rated) == STABLE_REPORTS:
            weight = sum(n_eff for _, n_eff in rated)
            rate = sum(rate * n_eff for rate, n_eff in rated) / weight
            bounds.append(PassRate(Fraction(min(1.0, rate)), weight).bounds(each_confidence).lower)
    return max(bounds, default=None)


def _missing_evidence(
    report: SuiteReport,
    rules: Gate,
    comparison: Comparison | NoComparison | None,
    lack: VerdictStatus,
) -> Iterator[RuleVerdict]:
    """Yield what could not be judged: critical cases without a graded run, many cells of the base
    without a comparison.

    Cells that only a recording answered are left out: there was nothing new to be compared. So are
    those in quarantine, if the base had them there, too: a quarantine that comes with the change
    must not hide what the change does.
    """
    gated = [each for each in report.cells if each.case.quarantine is None]
    critical = [
        each for each in gated if each.case.critical or rules.marks_critical(each.case.tags)
    ]
    if ungraded := [each for each in critical if not each.counts.graded]:
        yield RuleVerdict("ungraded", "error", ungraded_critical_sentence(report, ungraded))
    if isinstance(comparison, Comparison):
        replayed = {
            each.key
            for each in report.cells
            if each.counts.graded and not report.fresh(each.cell).graded
        }
        quarantined = [each for each in report.cells if each.case.quarantine is not None]
        held = {
            each.key
            for each in quarantined
            if (base := comparison.base_of(each.key)) and base.quarantined
        }
        hidden = [
            cell
            for each in quarantined
            if each.key not in held
            and (cell := comparison.by_key.get(each.key))
            and cell.kind != "new"
        ]
        if critical_hidden := [cell for cell in hidden if cell.critical]:
            yield RuleVerdict(
                "ungraded", lack, hidden_critical_sentence(comparison, critical_hidden)
            )
        left_out = replayed | held
        of = [cell for cell in comparison.cells if cell.kind != "new" and cell.key not in left_out]
        missing = [cell for cell in of if cell.p is None]
        told = not comparison.compared and (
            rules.require_baseline or not report.totals.graded
        )  # by others
        if len(missing) > len(of) * (1 - LEAST_COMPARED) and not told:
            yield RuleVerdict(
                "coverage", lack, coverage_sentence(comparison, missing, len(of), hidden)
            )


def _increases(
    report: SuiteReport, comparison: Comparison, rules: Gate, lack: VerdictStatus
) -> Iterator[RuleVerdict]:
    """Yield the variants of which even the lower bound of cost or latency is above the limit, or is
    not known.
    """
    for variant in comparison.variants:
        figures = report.figures(report.cells_of(variant.variant))
        known_here = {"cost": figures.cost_usd is not None, "latency": True}
        limited: Sequence[tuple[Literal["cost", "latency"], Difference | None, float | None]] = (
            ("cost", variant.differences.cost, rules.max_cost_increase),
            ("latency", variant.differences.latency, rules.max_latency_increase),
        )
        for rule, ratio, limit in limited:
            if limit is None or (
                rule == "latency"
                and ratio is None
                and (figures.latency_p50_s or 0) < _LEAST_LATENCY_S
            ):
                continue
            if ratio is None or ratio.lower is None:
                text = unknown_increase_sentence(
                    comparison,
                    variant,
                    rule,
                    limit,
                    known_here=known_here[rule],
                    one_cell=ratio is not None,
                )
                yield RuleVerdict(rule, lack, text, variant=variant.variant)
            elif ratio.lower > limit and (
                rule == "cost"
                or not _why_not_gated(comparison, variant.variant, figures.latency_p50_s)
            ):
                text = increase_sentence(comparison, variant, rule, ratio, limit)
                yield RuleVerdict(rule, "fail", text, variant=variant.variant)


def ungated_increases(report: SuiteReport, comparison: Comparison, rules: Gate) -> Iterator[str]:
    """Yield the increases of latency that are not held against a variant.

    The base's last reports vary as much, or there are too few of them to tell.
    """
    for variant in comparison.variants if rules.max_latency_increase else ():
        ratio, limit = variant.differences.latency, rules.max_latency_increase
        median = report.figures(report.cells_of(variant.variant)).latency_p50_s
        above = (
            ratio is not None
            and ratio.lower is not None
            and limit is not None
            and ratio.lower > limit
        )
        if (
            above
            and ratio
            and limit
            and (why := _why_not_gated(comparison, variant.variant, median))
        ):
            text = increase_sentence(comparison, variant, "latency", ratio, limit)
            yield f"{text}; not gated: {why}"


def _why_not_gated(comparison: Comparison, variant: Variant, median_s: float | None) -> str | None:
    """Return the reason why a higher latency is only shown, if there is one."""
    medians_s = _latencies_of_base(comparison, variant)
    if len(medians_s) < LATENCY_REPORTS:
        return too_few_latencies_clause(len(medians_s), LATENCY_REPORTS)
    usual = (median_s or 0) <= fmean(medians_s) + LATENCY_SPREAD * stdev(medians_s)
    return usual_latencies_clause(comparison, medians_s) if usual else None


def _latencies_of_base(comparison: Comparison, variant: Variant) -> list[float]:
    """Return the median latencies of the base's last reports of the same cases, newest first, but
    for outages.
    """
    base, name = comparison.baseline, comparison.base_variant(variant)
    lost = {
        id_
        for key, cell in base.cells.items()
        if Variant(*key[1:]) == name
        for id_ in cell.history.lost
    }
    points = [point for point in base.trend if point.report.id not in lost]
    same_cases = [point for point in points if point.cases == points[0].cases][:LATENCY_HISTORY]
    found = (each for point in same_cases for each in point.variants if each.variant == name)
    return [each.latency_p50_s for each in found if each.latency_p50_s is not None]
