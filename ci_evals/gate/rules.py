"""The rules of the gate on a comparison: regressions, falls, ratchet, cost, latency.

Missing evidence is never a pass: a rule whose figure is not known says so.
"""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal

from ci_evals.gate.bars import VerdictStatus
from ci_evals.gate.baseline import TrendVariant, fresh_rate
from ci_evals.gate.cells import CellComparison
from ci_evals.gate.compare import Comparison, NoComparison, VariantComparison
from ci_evals.gate.differences import LEAST_LATENCY_S, Difference, RatioFigure
from ci_evals.gate.wording.bars import unknown_budget_sentence
from ci_evals.gate.wording.bases import (
    broken_sentence,
    not_compared_sentence,
    removed_suites_sentence,
)
from ci_evals.gate.wording.comparisons import (
    case_sentence,
    collapsed_main_sentence,
    pending_sentence,
    variant_sentence,
)
from ci_evals.gate.wording.rules import (
    coverage_sentence,
    dropped_sentence,
    hidden_critical_sentence,
    increase_sentence,
    looser_checks_sentence,
    quarantine_sentence,
    ratchet_sentence,
    regressions_sentence,
    too_few_latencies_clause,
    ungraded_critical_sentence,
    ungraded_repeats_sentence,
    ungraded_sentence,
    unknown_increase_sentence,
    usual_latencies_clause,
    waived_sentence,
)
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport
from ci_evals.model.ruler import Ruler
from ci_evals.model.rules import Gate
from ci_evals.stats.rates import PassRate, look_confidence
from ci_evals.stats.thresholds import (
    LATENCY_MAX_REPORTS,
    LATENCY_MIN_REPORTS,
    LATENCY_SPREAD_SD,
    MIN_COMPARED_SHARE,
    RATCHET_REPORTS,
)

if TYPE_CHECKING:
    from ci_evals.gate.edited_checks import EditedChecks

_REQUIRED = ", and the gate requires a comparison"

RuleName = Literal[
    "baseline",
    "ungraded",
    "repeats",
    "budget",
    "coverage",
    "quarantine",
    "checks",
    "cases",
    "settings",
    "critical",
    "regressions",
    "waived",
    "variant",
    "main",
    "ratchet",
    "cost",
    "latency",
]


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """The verdict of one rule.

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
    lack: VerdictStatus = "error" if rules.require_baseline is True else "borderline"
    yield from _ungraded_cells(report, rules)
    yield from _unknown_budgets(report, rules)
    compared = comparison if isinstance(comparison, Comparison) else None
    edited = None
    if report.ruler is not None:
        from ci_evals.gate.edited_checks import edited_checks

        edited = edited_checks(report, compared, rules)
        yield from _by_main_checks(report.ruler, rules, compared, edited)
    yield from _weaker_settings(report)  # before what else is missing for that reason
    if isinstance(comparison, Comparison):
        yield from _missing_cells(report, rules, comparison, lack)
    yield from _ended_quarantines(report)
    if isinstance(comparison, Comparison) and comparison.baseline.removed_suites:
        yield RuleVerdict("baseline", "borderline", removed_suites_sentence(comparison.baseline))
    if not isinstance(comparison, Comparison) or not comparison.compared:
        yield from _not_compared(rules, comparison)
        return
    if comparison.broken:
        yield _lack_of_comparison(rules, broken_sentence(comparison))
    red: VerdictStatus = "borderline" if rules.on_regression == "warn" else "fail"
    excused_cells: Container[CellKey] = ()
    excused_variants: Container[Variant] = ()
    if edited is not None:
        excused_cells, excused_variants = edited.excused
    yield from _lost_repeats(report, comparison)
    yield from _regressions(rules, comparison, red, excused_cells)
    for variant in comparison.worse_variants():
        if variant.variant in excused_variants:
            continue
        text = variant_sentence(comparison, variant)
        yield RuleVerdict("variant", red, text, variant=variant.variant)
    if comparison.main_collapsed:
        yield RuleVerdict("main", "error", collapsed_main_sentence(comparison))
    yield from _unchecked_on_main(comparison)
    yield from broken_ratchets(report, rules, comparison)
    yield from _increases(report, rules, comparison, lack)


def _by_main_checks(
    ruler: Ruler, rules: Gate, comparison: Comparison | None, edited: "EditedChecks | None"
) -> Iterator[RuleVerdict]:
    """Yield a verdict if edited checks hide something, or a dropped case got worse."""
    from ci_evals.gate.dropped_cases import dropped_cases

    if edited is not None and edited.hide_something:
        text = looser_checks_sentence(ruler, edited.looser)
        cells = tuple(sorted(edited.excused.cells, key=str))
        yield RuleVerdict("checks", "borderline", text, cells)
    dropped = dropped_cases(ruler, comparison, rules.alpha)
    if dropped.worse:
        yield RuleVerdict("cases", "borderline", dropped_sentence(ruler.main, dropped))


def _weaker_settings(report: SuiteReport) -> Iterator[RuleVerdict]:
    """Yield a verdict if the change measures less strictly than main does."""
    if report.changed_settings is not None and report.changed_settings.weaker:
        from ci_evals.gate.wording.settings import weaker_settings_sentence

        text = weaker_settings_sentence(report.changed_settings)
        yield RuleVerdict("settings", "borderline", text)


def _unchecked_on_main(comparison: Comparison) -> Iterator[RuleVerdict]:
    """Warn if something is not known because main could not be run, or not to the end."""
    if comparison.pending is not None:
        yield RuleVerdict("main", "borderline", pending_sentence(comparison.pending))
    main_now = comparison.main_now
    if main_now is None or not main_now.lack:
        return
    is_red = comparison.worse_variants() or comparison.select("regressed")
    # Main's plan was run in what the change alters: a loss by that is on both sides.
    if is_red or comparison.baseline.alongside:
        text = f"not checked on main: {main_now.lack}"
        yield RuleVerdict("main", "borderline", text)


def _not_compared(
    rules: Gate, comparison: Comparison | NoComparison | None
) -> Iterator[RuleVerdict]:
    """Yield a verdict if a comparison is required, or was expected."""
    text = not_compared_sentence(comparison)
    if isinstance(comparison, Comparison):
        expected = bool(comparison.broken)
    else:
        expected = comparison is not None and comparison.expected
    if expected:
        yield _lack_of_comparison(rules, text)
    elif rules.require_baseline is True:
        yield RuleVerdict("baseline", "error", f"{text}{_REQUIRED}")


def _lack_of_comparison(rules: Gate, text: str) -> RuleVerdict:
    """Return the verdict where a comparison was expected, and is missing."""
    if rules.require_baseline:
        return RuleVerdict("baseline", "error", f"{text}{_REQUIRED}")
    return RuleVerdict("baseline", "borderline", text)


def _ungraded_cells(report: SuiteReport, rules: Gate) -> Iterator[RuleVerdict]:
    """Yield a verdict if cases have no graded run: they may have broken.

    Critical cases are told apart, since they must be known.
    """
    critical, others = [], []
    for cell, counts in enumerate(report.by_cell):
        case = report.plan.case(cell)
        if counts.graded or not counts.planned or case.quarantine is not None:
            continue
        if case.critical or rules.marks_critical(case.tags):
            critical.append(cell)
        else:
            others.append(cell)
    if critical:
        yield RuleVerdict("ungraded", "error", ungraded_critical_sentence(report, critical))
    if others:
        yield RuleVerdict("ungraded", "borderline", ungraded_sentence(report, others))


def _lost_repeats(report: SuiteReport, comparison: Comparison) -> Iterator[RuleVerdict]:
    """Yield a verdict if repeats of suspects errored, so that these could not be confirmed."""
    if report.confirmation is None:
        return
    suspects = {cell.key for cell in comparison.select("suspect") if not cell.cleared}
    critical: list[int] = []
    others: list[int] = []
    for cell, counts in enumerate(report.confirmation.by_cell):
        key = report.plan.key(cell)
        if not counts.errored or key not in suspects:
            continue
        if comparison.by_key[key].critical:
            critical.append(cell)
        else:
            others.append(cell)
    if critical:
        text = ungraded_repeats_sentence(report, critical)
        yield RuleVerdict("repeats", "error", text)
    if others:
        text = ungraded_repeats_sentence(report, others)
        yield RuleVerdict("repeats", "borderline", text)


def _unknown_budgets(report: SuiteReport, rules: Gate) -> Iterator[RuleVerdict]:
    """Yield a verdict if runs don't report what their budget bounds, and the gate counts that."""
    if rules.max_budget_violations is None and not rules.require_usage:
        return
    if sentence := unknown_budget_sentence(report):
        status: VerdictStatus = "error" if rules.require_usage else "borderline"
        yield RuleVerdict("budget", status, sentence)


def _missing_cells(
    report: SuiteReport, rules: Gate, comparison: Comparison, lack: VerdictStatus
) -> Iterator[RuleVerdict]:
    """Yield a verdict if many cells of the base were not compared, or critical ones were hidden.

    A quarantine that comes with the change must not hide what the change does.
    """
    missing, hidden = _find_missing(report, comparison)
    critical = [cell for cell in hidden if cell.critical]
    if critical:
        yield RuleVerdict("ungraded", lack, hidden_critical_sentence(comparison, critical))
    required = rules.require_baseline is True
    if not comparison.compared and (required or not report.totals.graded):
        return  # other rules say so
    if len(missing) > (comparison.compared + len(missing)) * (1 - MIN_COMPARED_SHARE):
        keys = {cell.key for cell in hidden}
        yield RuleVerdict("coverage", lack, coverage_sentence(comparison, missing, keys))


def _find_missing(
    report: SuiteReport, comparison: Comparison
) -> tuple[list[CellComparison], list[CellComparison]]:
    """Return the cells that should have been compared, and those in quarantine only here.

    Cells that only a recording answered are left out: there was nothing new to be compared. So are
    those in quarantine, if the base had them there, too.
    """
    missing, hidden = [], []
    numbers: Mapping[CellKey, int] = {}
    untested = [cell for cell in comparison.cells if cell.p is None and cell.kind != "new"]
    if untested:
        numbers = {key: number for number, key in enumerate(report.plan.keys)}
    for cell in untested:
        if cell.kind == "not compared" and comparison.is_broken(cell.variant):
            continue  # another rule says so
        number = numbers.get(cell.key)
        if number is None or not report.plan.runs(number):
            missing.append(cell)
            continue
        if report.plan.case(number).quarantine is not None:
            base = comparison.base_of(cell.key)
            if base is not None and base.quarantined:
                continue
            hidden.append(cell)
        if not report.by_cell[number].graded or report.fresh(number).graded:
            missing.append(cell)
    return missing, hidden


def _ended_quarantines(report: SuiteReport) -> Iterator[RuleVerdict]:
    """Warn of cases whose quarantine should have ended."""
    today = datetime.fromtimestamp(report.started_at, UTC).date()
    ended = [
        case
        for case in report.plan.cases
        if case.quarantine is not None and case.quarantine.until < today
    ]
    if ended:
        yield RuleVerdict("quarantine", "borderline", quarantine_sentence(ended))


def _regressions(
    rules: Gate, comparison: Comparison, red: VerdictStatus, excused: Container[CellKey]
) -> Iterator[RuleVerdict]:
    """Yield each critical case that regressed, the others if they are more than allowed, and those
    that are waived.

    A case counts once, on however many variants it is worse. Cells that are `excused` are left out.
    """
    critical: dict[str, list[CellComparison]] = defaultdict(list)
    others = []
    waived = []
    for cell in comparison.select("regressed"):
        if cell.key in excused:
            continue
        if cell.key in comparison.waived:
            waived.append(cell)
        elif cell.critical:
            critical[cell.case].append(cell)
        else:
            others.append(cell)
    for cells in critical.values():
        text = f"critical: {case_sentence(comparison, cells[0])}"
        yield RuleVerdict("critical", "fail", text, cells=tuple(cell.key for cell in cells))
    if not rules.allows([cell.case for cell in others]):
        text = regressions_sentence(comparison, others, rules.max_regressions)
        yield RuleVerdict("regressions", red, text, cells=tuple(cell.key for cell in others))
    if waived:
        text = waived_sentence(comparison, waived)
        yield RuleVerdict("waived", "borderline", text, cells=tuple(cell.key for cell in waived))


def broken_ratchets(
    report: SuiteReport, rules: Gate, comparison: Comparison
) -> Iterator[RuleVerdict]:
    """Yield the variants whose rate is surely below the best that it has surely held.

    Only points of the baseline's trend count in which it has the same cases; for a variant that is
    compared under another name, the points of that one. A variant that the base branch itself fails
    is left out. Both bounds are one-sided at the gate's confidence.
    """
    if not rules.ratchet:
        return
    for variant in report.plan.variants:
        if comparison.is_broken(variant):
            continue
        base = comparison.base_variant(variant)
        cases = report.cases_fingerprint(variant)
        points = []
        for point in comparison.baseline.trend:
            found = point.find(base)
            if found is None or found.cases == cases:
                points.append(found)
        best = best_stable_rate(points, rules.confidence)
        rate = fresh_rate(report, variant)
        if rate is None or best is None:
            continue
        if rate.bounds(rules.confidence).upper < best:
            text = ratchet_sentence(comparison, variant, rate, best, rules.confidence)
            yield RuleVerdict("ratchet", "fail", text, variant=variant)


def best_stable_rate(points: Sequence[TrendVariant | None], confidence: float) -> float | None:
    """Return the highest lower bound of `RATCHET_REPORTS` reports in a row, taken together.

    Of many bounds the highest is too high more often than one of them is, so each is at the
    confidence that is right for the highest of as many as do not overlap. None with fewer reports.
    """
    each_confidence = look_confidence(confidence, max(1, len(points) // RATCHET_REPORTS))
    best = None
    for start in range(len(points) - RATCHET_REPORTS + 1):
        rate = _pool_rates(points[start : start + RATCHET_REPORTS])
        if rate is not None:
            lower = rate.bounds(each_confidence).lower
            best = lower if best is None else max(best, lower)
    return best


def _pool_rates(points: Sequence[TrendVariant | None]) -> PassRate | None:
    """Return the pass rate of some reports together; None if one of them does not have it."""
    runs = passed = 0.0
    for point in points:
        if point is None or point.pass_rate is None or not point.n_eff:
            return None
        runs += point.n_eff
        passed += point.pass_rate * point.n_eff
    return PassRate(Fraction(min(1.0, passed / runs)), runs)


def _increases(
    report: SuiteReport, rules: Gate, comparison: Comparison, lack: VerdictStatus
) -> Iterator[RuleVerdict]:
    """Yield the variants whose cost or latency is surely above its limit, or is not known."""
    for variant in comparison.variants:
        if rules.max_cost_increase is not None:
            limit = rules.max_cost_increase
            figures = report.figures(report.cells_of(variant.variant))
            is_known = figures.cost_usd is not None
            yield from _judge_increase(
                comparison, variant, "cost", limit, lack, known_here=is_known
            )
        if rules.max_latency_increase is not None:
            limit = rules.max_latency_increase
            ratio = variant.differences.latency
            if ratio is None and _median_latency_s(report, variant) < LEAST_LATENCY_S:
                continue
            if _is_above(ratio, limit) and not _is_unusual(report, comparison, variant):
                continue
            yield from _judge_increase(comparison, variant, "latency", limit, lack)


def _judge_increase(
    comparison: Comparison,
    variant: VariantComparison,
    figure: RatioFigure,
    limit: float,
    lack: VerdictStatus,
    *,
    known_here: bool = True,
) -> Iterator[RuleVerdict]:
    """Yield a verdict if a figure is surely above its limit, or is not known."""
    ratio = variant.differences.ratio(figure)
    if ratio is None or ratio.lower is None:
        text = unknown_increase_sentence(comparison, variant, figure, limit, known_here=known_here)
        yield RuleVerdict(figure, lack, text, variant=variant.variant)
    elif ratio.lower > limit:
        text = increase_sentence(comparison, variant, figure, limit)
        if figure == "latency":
            medians_s = base_latencies(comparison, variant.variant)
            text += f"; {usual_latencies_clause(comparison, medians_s)}"
        yield RuleVerdict(figure, "fail", text, variant=variant.variant)


def ungated_increases(report: SuiteReport, comparison: Comparison, rules: Gate) -> Iterator[str]:
    """Yield the increases of latency that are not held against a variant.

    The base's last reports vary as much, or there are too few of them to tell.
    """
    limit = rules.max_latency_increase
    if limit is None:
        return
    for variant in comparison.variants:
        if not _is_above(variant.differences.latency, limit):
            continue
        if _is_unusual(report, comparison, variant):
            continue
        medians_s = base_latencies(comparison, variant.variant)
        is_known = len(medians_s) >= LATENCY_MIN_REPORTS
        if is_known:
            why = usual_latencies_clause(comparison, medians_s)
        else:
            why = too_few_latencies_clause(len(medians_s), LATENCY_MIN_REPORTS)
        text = increase_sentence(comparison, variant, "latency", limit, with_bound=is_known)
        yield f"{text}; not gated: {why}"


def _median_latency_s(report: SuiteReport, variant: VariantComparison) -> float:
    """Return the median latency of a variant; 0 without runs."""
    return report.figures(report.cells_of(variant.variant)).latency_p50_s or 0.0


def _is_above(ratio: Difference | None, limit: float) -> bool:
    """Return True if a ratio is surely above its limit."""
    return ratio is not None and ratio.lower is not None and ratio.lower > limit


def _is_unusual(report: SuiteReport, comparison: Comparison, variant: VariantComparison) -> bool:
    """Return True if a variant's latency is above the spread of enough reports of the base."""
    medians_s = usual_latencies(comparison, variant.variant)
    if not medians_s:
        return False
    median_s = _median_latency_s(report, variant)
    return median_s > fmean(medians_s) + LATENCY_SPREAD_SD * stdev(medians_s)


def usual_latencies(comparison: Comparison, variant: Variant) -> Sequence[float]:
    """Return `base_latencies` if there are enough of them to show how much they vary, else none."""
    medians_s = base_latencies(comparison, variant)
    if len(medians_s) < LATENCY_MIN_REPORTS:
        return ()
    return medians_s


def base_latencies(comparison: Comparison, variant: Variant) -> list[float]:
    """Return the median latencies of the base's last reports with the same cases, newest first.

    Outages are left out.
    """
    base, name = comparison.baseline, comparison.base_variant(variant)
    lost: set[str] = set()
    for cell in base.by_variant.get(name, {}).values():
        lost |= cell.history.lost
    points = []
    for point in base.trend:
        found = point.find(name)
        if found is not None and point.report.id not in lost:
            points.append(found)
    same_cases = [point for point in points if point.cases == points[0].cases]
    last = [point.latency_p50_s for point in same_cases[:LATENCY_MAX_REPORTS]]
    return [latency_s for latency_s in last if latency_s is not None]
