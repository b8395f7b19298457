"""Every sentence of a verdict: on cells, variants, the baseline, bars, rules, and runs without an
answer.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from ci_evals.format import RAREST, name_of, number_of, once_in, percent, seconds, short_sha
from ci_evals.gate.bars import Cause, ScopeVerdict, VerdictStatus
from ci_evals.gate.baseline import Baseline, LostReport, PoolStep, ReportRef
from ci_evals.gate.compare import (
    LEAST_COMPARED,
    MOST_CONFIRM_RUNS,
    CellComparison,
    CellKind,
    Comparison,
    NoComparison,
    VariantComparison,
)
from ci_evals.gate.differences import Difference
from ci_evals.gate.outages import FailedRound, Outage
from ci_evals.model.case import Case
from ci_evals.model.report import CellReport, SuiteReport, Tally
from ci_evals.model.result import RunError, Status
from ci_evals.model.rules import Gate

# Cells.


def cell_sentence(comparison: Comparison, cell: CellComparison) -> str:
    """`refund: 30 of 30 on main, 4 of 10 here; p = 5.5e-05 (by chance, once in 18,000)`."""
    return f"{cell_name(comparison, cell)}: {cell_finding(comparison, cell)}"


def cell_name(comparison: Comparison, cell: CellComparison) -> str:
    """Return the case, with its variant if there are several, and its former name if it has one."""
    of = f" on {name_of(cell.variant)}" if comparison.several_variants else ""
    was = f" (was {name_of(cell.renamed_from)})" if cell.renamed_from else ""
    return f"{name_of(cell.case)}{of}{was}"


def cell_finding(comparison: Comparison, cell: CellComparison) -> str:
    """Return a cell's sentence without its name."""
    base = comparison.baseline.label
    before = f"{tally_text(cell.base)} on {base}"
    here = f"{tally_text(cell.head)} here" if cell.head.graded else "no new run was graded here"
    chance = "" if cell.p is None else _chance(cell.p)
    steady = all(side.passed in (0, side.graded) for side in (cell.head, cell.base))
    unsure = (
        "too few runs to call it a change"
        if steady
        else "answers vary from run to run, no change detected"
    )
    lack = f"no new run was graded {f'on {base}' if cell.head.graded else 'here'}"
    if cell.head.graded and cell.base.graded:
        lack = f"the case is in quarantine: {before}, {here}"
    return {
        "regressed": f"{before}, {here}; {chance}",
        "fixed": f"{before}, {here}; {chance}",
        "suspect": f"{before}, {here}: possibly worse, within noise; {chance}",
        "flaky": f"{before}, {here}: {unsure}",
        "unchanged": f"{before}, {here}: unchanged",
        "new": f"new, {here}",
        "removed": f"removed, {before}",
        "edited": f"edited, so not compared: {before}, {here}",
        "not compared": f"not compared: {lack}",
    }[cell.kind]


def test_sentence(cell: CellComparison, alpha: float) -> str:
    """`Fisher's exact test for a drop, 4 of 10 against 30 of 30: p = 5.5e-05, 0.0023 adjusted for
    …`.
    """
    if cell.p is None or cell.adjusted_p is None:
        return "not tested: there is nothing to compare it with"
    of = "a rise" if cell.kind == "fixed" else "a drop"
    test = f"Fisher's exact test for {of}, {tally_text(cell.head)} against {tally_text(cell.base)}: p = {cell.p:.2g}"
    adjusted = f"{test}, {cell.adjusted_p:.2g} adjusted for the number of compared cells"
    if cell.kind in ("regressed", "fixed"):
        return f"{adjusted}; at most {alpha:g}, so it is named"
    if cell.adjusted_p <= alpha:
        return f"{adjusted}; the newest reports that agree do not show it by themselves, so it is not named"
    waiting = (
        " (a suspect counts as 1 until confirmed)"
        if cell.kind == "suspect" and cell.adjusted_p >= 1
        else ""
    )
    return f"{adjusted}{waiting}; more than {alpha:g}, so it is not named"


def step_sentence(step: PoolStep) -> str:
    """Say how one report's evidence was used: `10 of 10, pooled`."""
    runs = tally_text(step.evidence.tally)
    together = step.older is not None and step.older.graded > step.evidence.graded
    older = f" ({tally_text(step.older)} with all older ones)" if together and step.older else ""
    p = "" if step.p is None else f" (p = {step.p:.2g})"
    return {
        "recent": f"{runs}, pooled",
        "disagrees": f"{runs}{older}, pooled, but unlike the newer ones{p}: what is named must show against those, too",
        "before a change": f"{runs}, pooled",
        "before a fall": f"{runs}, left out: the whole variant has been worse since",
        "an outage": f"{runs}, left out: likely an outage",
        "enough without": f"{runs}, left out: newer reports have enough runs",
        "nothing graded": "no run was graded",
    }[step.outcome]


def tally_text(tally: Tally) -> str:
    """`4 of 10`, or `no runs`."""
    return f"{tally.passed:,} of {tally.graded:,}" if tally.graded else "no runs"


def _chance(p: float) -> str:
    """`p = 0.0034 (by chance, once in 290)`."""
    return f"p {f'= {p:.2g}' if p >= RAREST else f'< {RAREST:g}'} (by chance, {once_in(p)})"


# Variants.


def variant_sentence(comparison: Comparison, variant: VariantComparison) -> str:
    """`pass rate 93 % on main, 85 % here over 40 cases; p = 0.0083 (by chance, once in 120)`."""
    base, here = (
        percent(variant.base_rate, variant.head_rate),
        percent(variant.head_rate, variant.base_rate),
    )
    rates = f"pass rate {base} on {comparison.baseline.label}, {here} here over {number_of(variant.cells, 'case')}"
    of = variant_name(comparison, variant)
    if _surely_higher(variant):
        return f"{of}{rates}; a rise beyond noise"
    if variant.adjusted_p > comparison.alpha:
        return f"{of}{rates}: within noise"
    return f"{of}{rates}; {_chance(variant.p)}"


def outage_sentence(outage: Outage) -> str:
    """`all 30 planned runs of 10 cases failed, and all 70 repeats passed: likely an outage`."""
    failed = _share_of(
        outage.planned.graded - outage.planned.passed, outage.planned.graded, "planned run"
    )
    repeats = _share_of(outage.repeated.passed, outage.repeated.graded, "repeat")
    return f"{failed} of {number_of(outage.cells, 'case')} failed, and {repeats} passed: likely an outage"


def failed_round_sentence(found: FailedRound) -> str:
    """`all 40 failures were in run 2, and all 80 other runs passed: likely an outage`."""
    inside, others = (tally.graded - tally.passed for tally in (found.inside, found.others))
    passed = _share_of(found.others.passed, found.others.graded, "other run")
    failures = _share_of(inside, inside + others, "failure")
    return f"{failures} were in run {found.run}, and {passed} passed: likely an outage"


def failed_confirmation_sentence(planned: Tally, repeated: Tally) -> str:
    """`2 of 70 repeats passed, and 20 of 30 planned runs of the same cases: likely an outage, so
    nothing is named`.
    """
    repeats = f"{repeated.passed:,} of {number_of(repeated.graded, 'repeat')}"
    planned_runs = f"{planned.passed:,} of {number_of(planned.graded, 'planned run')}"
    return f"{repeats} passed, and {planned_runs} of the same cases: likely an outage, so nothing is named"


def _share_of(part: int, whole: int, what: str) -> str:
    """`all 40 failures`, `38 of 42 failures`."""
    return (
        f"all {number_of(whole, what)}"
        if part == whole > 1
        else f"{part:,} of {number_of(whole, what)}"
    )


def variant_name(comparison: Comparison, variant: VariantComparison) -> str:
    """Return the start of a sentence: the variant if there are several, and its counterpart if that
    is another.
    """
    name = name_of(variant.variant)
    if variant.renamed:
        return f"{name} (compared with {name_of(variant.base_variant)}): "
    return f"{name}: " if comparison.several_variants else ""


def rate_change(comparison: Comparison, variant: VariantComparison) -> str:
    """`-8.3 points, p = 0.0083`, `+20.0 points (+8.1 to +31.0)`, or `-1.2 points, noise`.

    Where nothing changed in the few cells that were compared, that is all there is to say: `1 of 40
    compared`.
    """
    points = 100 * (variant.head_rate - variant.base_rate)
    if round(points, 1) == 0:
        return few_compared(comparison, variant) or "no change"
    text = f"{_signed(points, 1)} points"
    if points < 0 and variant.adjusted_p <= comparison.alpha:
        return f"{text}, p {'< 0.0001' if variant.adjusted_p < 0.0001 else f'= {variant.adjusted_p:.2g}'}"
    change = variant.differences.pass_rate
    if (
        _surely_higher(variant)
        and change is not None
        and change.lower is not None
        and change.upper is not None
    ):
        return f"{text} ({_signed(100 * change.lower, 1)} to {_signed(100 * change.upper, 1)})"
    return f"{text}, noise"


def few_compared(comparison: Comparison, variant: VariantComparison) -> str:
    """`1 of 40 compared`, where so few cases of a variant were that its figures say little; else
    nothing.
    """
    known = (cell.variant for cell in comparison.cells if cell.kind != "new")
    of = sum(each in (variant.variant, variant.base_variant) for each in known)
    return "" if variant.cells >= of * LEAST_COMPARED else f"{variant.cells:,} of {of:,} compared"


def ratio_change(ratio: Difference | None) -> str:
    """`+30 % (+10 to +52 %)`, or `+2 %, noise`; nothing where a side does not know the figure."""
    if ratio is None:
        return ""
    if round(100 * (ratio.value - 1)) == 0:
        return "no change"
    text = f"{_signed(100 * (ratio.value - 1))} %"
    if ratio.lower is None or ratio.upper is None:
        return f"{text}, too few cases to tell"
    if ratio.lower <= 1 <= ratio.upper:
        return f"{text}, noise"
    return f"{text} ({_signed(100 * (ratio.lower - 1))} to {_signed(100 * (ratio.upper - 1))} %)"


def _signed(value: float, places: int = 0) -> str:
    """`-8.3`, `+2.0`, `+4,186`, `0`."""
    shown = f"{value:+,.{places}f}"
    return shown if shown.strip("+-0.") else f"{0:.{places}f}"


def _surely_higher(variant: VariantComparison) -> bool:
    """Return True if even the lower bound of the difference is a rise."""
    change = variant.differences.pass_rate
    return change is not None and change.lower is not None and change.lower > 0


# The comparison as a whole.


class SourceSentence(NamedTuple):
    """A sentence on the baseline: `compared with main` `0123456` `, 3 hours older`.

    `commit` stands apart, for formats that mark it; it is empty if it is not known.
    """

    start: str
    commit: str
    rest: str

    def __str__(self) -> str:
        at = " at " if self.commit else ""
        return f"{self.start}{at}{self.commit}{self.rest}"


def baseline_sentence(comparison: Comparison, started_at: float) -> SourceSentence:
    """`compared with main at 0123456, 3 hours older, and 5 reports before it (up to 30 runs per
    case)`.

    Args:
        comparison: the comparison with that baseline.
        started_at: when the head was run, in seconds since the epoch.
    """
    if not comparison.compared:
        return SourceSentence(not_compared_sentence(comparison), "", "")
    runs = {cell.base.graded for cell in comparison.cells if cell.base.graded}
    return source_sentence(comparison.baseline, started_at, runs)


def source_sentence(
    baseline: Baseline, started_at: float, runs: Collection[int], place: str = ""
) -> SourceSentence:
    """`compared with main at 0123456 (the merge base), 3 hours older, and 5 reports before it (30
    runs per case)`.

    Args:
        baseline: what is compared with.
        started_at: when the head was run, in seconds since the epoch.
        runs: how many graded runs the cases have in the baseline.
        place: how the newest report's commit is related to the head's.
    """
    newest, *older = baseline.reports
    commit = short_sha(newest.revision) if newest.revision else ""
    age = started_at - newest.started_at
    older_by = f", {_age(age)} older" if age >= 1 else ""
    more = f", and {number_of(len(older), 'report')} before it" if older else ""
    where = f" ({place})" if place else ""
    most = f"{'up to ' if len(runs) > 1 else ''}{number_of(max(runs, default=0), 'run')}"
    rest = f"{where}{older_by}{more} ({most} per case)"
    return SourceSentence(f"compared with {baseline.label}", commit, rest)


def _age(seconds: float) -> str:
    """`40 seconds`, `3 minutes`, `5 hours`, `2 days`."""
    units = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
    unit, size = next(
        each for each in units if round(seconds) >= each[1] * (2 if each[0] == "day" else 1)
    )
    return number_of(round(seconds / size), unit)


def lost_report_sentences(baseline: Baseline) -> Iterator[str]:
    """`2 of 120 runs on main at 0123456 passed: likely an outage, so these runs do not count`."""
    alike: dict[tuple[ReportRef, bool], list[LostReport]] = defaultdict(list)
    for each in baseline.lost:
        alike[each.report, each.unanswered > 0].append(each)
    for (report, unanswered), found in alike.items():
        names = (
            ""
            if len(found) == len(baseline.variants)
            else f" of {', '.join(name_of(each.variant) for each in found)}"
        )
        revision = f" at {short_sha(report.revision)}" if report.revision else ""
        runs = f"{number_of(sum(each.runs.graded for each in found), 'run')}{names} on {baseline.label}{revision}"
        if unanswered:
            yield f"{sum(each.unanswered for each in found):,} of {runs} failed without an answer, and do not count"
        else:
            passed = sum(each.runs.passed for each in found)
            yield f"{passed:,} of {runs} passed: likely an outage, so these runs do not count"


def few_runs_sentence(comparison: Comparison, suspects: Sequence[CellComparison]) -> str:
    """`with 1 run on main, not even 20 confirm runs name a case among 40: 2 suspects stay open
    until main has more`.
    """
    base, most = comparison.baseline.label, max(each.base.graded for each in suspects)
    stay = f"{number_of(len(suspects), 'suspect')} {'stays' if len(suspects) == 1 else 'stay'} open until {base} has more"
    of = number_of(comparison.compared, "case")
    return f"with {number_of(most, 'run')} on {base}, not even {MOST_CONFIRM_RUNS} confirm runs name one of {of}: {stay}"


def calm_sentence(comparison: Comparison) -> str:
    """`no regression against main: 40 cases compared, 2 possibly worse, within noise`."""
    possible, allowed = (comparison.counts.get(kind, 0) for kind in ("suspect", "regressed"))
    found = f"no regression against {comparison.baseline.label}"
    if allowed:
        found = f"no more regressions against {comparison.baseline.label} than the gate allows"
    parts = [f"{number_of(comparison.compared, 'case')} compared"]
    parts += [f"{allowed} regressed"] if allowed else []
    parts += [f"{possible} possibly worse, within noise"] if possible else []
    return f"{found}: {', '.join(parts)}"


def not_compared_sentence(comparison: Comparison | NoComparison | None) -> str:
    """Say why there is no comparison, or why it compared nothing."""
    if comparison is None:
        return "no baseline: none was given with --baseline"
    if isinstance(comparison, NoComparison):
        return comparison.reason
    base = comparison.baseline
    if base.variants and not comparison.base_variants:
        theirs = ", ".join(name_of(variant) for variant in base.variants)
        return f"nothing to compare: {base.label} has other providers or prompts ({theirs})"
    return (
        f"nothing to compare: no case that is the same here and on {base.label} was graded on both"
    )


# Rules of the gate.


def regressions_sentence(
    comparison: Comparison, regressed: Sequence[CellComparison], allowed: int
) -> str:
    """Name the surest of more regressions than are allowed, and count the others."""
    first, *others = regressed
    more = [f"{number_of(len(others), 'more case')} regressed"] if others else []
    more += [f"the gate allows {allowed}"] if allowed else []
    return cell_sentence(comparison, first) + (f"; {', and '.join(more)}" if more else "")


def increase_sentence(
    comparison: Comparison,
    variant: VariantComparison,
    what: Literal["cost", "latency"],
    ratio: Difference,
    limit: float,
) -> str:
    """`cost is 1.50 times that of main (at least 1.20 times, 95 % sure), and the gate allows 1.1
    times`.
    """
    at_least = f"at least {ratio.lower or 0:.2f} times, {percent(1 - comparison.alpha)} sure"
    found = f"{what} is {ratio.value:.2f} times that of {comparison.baseline.label} ({at_least})"
    return f"{variant_name(comparison, variant)}{found}, and the gate allows {limit:g} times"


def too_few_latencies_clause(reports: int, needed: int) -> str:
    """`that needs 3 base reports, there is 1`."""
    return f"that needs {needed} base reports, there {'is' if reports == 1 else 'are'} {reports}"


def usual_latencies_clause(comparison: Comparison, medians_s: Sequence[float]) -> str:
    """`the last 5 reports of main took 0.8 s to 2.1 s`."""
    reports = f"the last {number_of(len(medians_s), 'report')} of {comparison.baseline.label}"
    return f"{reports} took {seconds(min(medians_s))} to {seconds(max(medians_s))}"


def unknown_increase_sentence(
    comparison: Comparison,
    variant: VariantComparison,
    what: Literal["cost", "latency"],
    limit: float,
    *,
    known_here: bool,
    one_cell: bool,
) -> str:
    """`cost is unknown, so max_cost_increase: 1.1 was not checked`."""
    base = comparison.baseline.label
    if one_cell:
        lack = f"{what} of one case alone tells no increase"
    else:
        lack = f"{what} {f'on {base} is unknown or 0' if known_here else 'is unknown'}"
    return f"{variant_name(comparison, variant)}{lack}, so max_{what}_increase: {limit:g} was not checked"


MAX_QUARANTINED = 3

_WHY_NOT_COMPARED: Mapping[CellKind, str] = {"not compared": "without a graded run"}


def coverage_sentence(
    comparison: Comparison,
    missing: Sequence[CellComparison],
    of: int,
    quarantined: Container[CellComparison] = (),
) -> str:
    """`28 of 40 cases of main were not compared: 20 edited, 5 removed, 3 without a graded run`."""

    def why_not(cell: CellComparison) -> str:
        if cell in quarantined:
            return "put into quarantine"
        return (
            "judged by other graders"
            if cell.regraded
            else _WHY_NOT_COMPARED.get(cell.kind, cell.kind)
        )

    why = ", ".join(
        f"{count:,} {word}" for word, count in Counter(map(why_not, missing)).most_common()
    )
    cells = number_of(of, "cell" if comparison.several_variants else "case")
    were = "was" if len(missing) == 1 else "were"
    return f"{len(missing):,} of {cells} of {comparison.baseline.label} {were} not compared: {why}"


def ungraded_critical_sentence(report: SuiteReport, cells: Sequence[CellReport]) -> str:
    """`no run of the critical case refund was graded, nor of 2 other critical cases`."""
    first, *others = cells
    on = f" on {name_of(first.variant)}" if len(report.plan.variants) > 1 else ""
    more = f", nor of {number_of(len(others), 'other critical case')}" if others else ""
    return f"no run of the critical case {name_of(first.case.id)}{on} was graded{more}"


def hidden_critical_sentence(comparison: Comparison, cells: Sequence[CellComparison]) -> str:
    """`the critical case refund is in quarantine, unlike on main, and so are 2 other critical
    cases`.
    """
    first, *others = cells
    on = f" on {name_of(first.variant)}" if comparison.several_variants else ""
    are = "is" if len(others) == 1 else "are"
    more = f", and so {are} {number_of(len(others), 'other critical case')}" if others else ""
    return f"the critical case {name_of(first.case)}{on} is in quarantine, unlike on {comparison.baseline.label}{more}"


def quarantine_clause(report: SuiteReport) -> str:
    """`39 of 40 cases are in quarantine`; empty if none is."""
    count = sum(case.quarantine is not None for case in report.plan.cases)
    if not count:
        return ""
    are = "is" if count == 1 else "are"
    return f"{count:,} of {number_of(len(report.plan.cases), 'case')} {are} in quarantine"


def quarantine_sentence(ended: Sequence[Case]) -> str:
    """`the quarantine of refund ended on 2026-11-01: fix the case, remove it, or set another
    date`.
    """
    dates = sorted({str(case.quarantine.until) for case in ended if case.quarantine})
    names = ", ".join(name_of(case.id) for case in ended[:MAX_QUARANTINED])
    more = f" and {len(ended) - MAX_QUARANTINED:,} more" if len(ended) > MAX_QUARANTINED else ""
    when = f"on {dates[0]}" if len(dates) == 1 else f"between {dates[0]} and {dates[-1]}"
    return f"the quarantine of {names}{more} ended {when}: fix the case, remove it, or set another date"


def scope_label(scope: ScopeVerdict, report: SuiteReport) -> str:
    """Return the kind of a scope; a suite that leaves out the cases with bars of their own says
    so.
    """
    return (
        "suite, other cases"
        if scope.kind == "suite" and _leaves_cases_out(scope, report)
        else scope.kind
    )


def scope_subject(scope: ScopeVerdict, report: SuiteReport) -> str:
    """Return the start of a sentence about a scope."""
    if scope.kind == "suite":
        return "other cases: " if _leaves_cases_out(scope, report) else ""
    return f"{scope.kind} {name_of(scope.name)}: "


def bar_sentence(scope: ScopeVerdict, rules: Gate) -> str:
    """Hold a scope with a bar and graded runs against it.

    `pass rate 87.5 % is below the bar of 90 %, but 120 runs of 40 cases cannot tell 87.5 from 90:
    not blocked`
    """
    assert scope.bar is not None
    assert scope.rate is not None
    assert scope.lower is not None
    assert scope.upper is not None
    if scope.bar >= 1 and scope.kind != "metric":
        if scope.status == "fail":
            return f"{scope.failed:,} of {number_of(scope.graded, 'run')} failed, and every run must pass"
        return f"{scope.graded:,} of {number_of(scope.graded, 'run')} passed"
    rate, bar = percent(scope.rate, scope.bar), percent(scope.bar, scope.bar)
    sure = f"{percent(rules.confidence)} sure"
    at_least = f"({sure}: at least {percent(scope.lower, scope.bar)})"
    what = "" if scope.kind == "metric" else "pass rate "
    if scope.status == "fail":
        return f"{what}{rate} is below the bar of {bar} ({sure}: at most {percent(scope.upper, scope.bar)})"
    if scope.status == "pass":
        return f"{what}{rate} meets the bar of {bar}" + (f" {at_least}" if rules.prove else "")
    if scope.rate >= scope.bar:
        return (
            f"{what}{rate} meets the bar of {bar}, but more runs are needed to prove it {at_least}"
        )
    evidence = f"{number_of(scope.graded, 'run')} of {number_of(scope.cases, 'case')}"
    apart = f"{rate.removesuffix(' %')} from {bar.removesuffix(' %')}"
    outcome = "blocked, as `on_borderline` says" if rules.on_borderline == "fail" else "not blocked"
    more = ""
    if scope.runs_needed and scope.calls_needed:
        calls = number_of(scope.calls_needed, "call")
        more = f". {number_of(scope.runs_needed, 'run')} a case ({calls}) would tell in half of such cases"
    return f"{what}{rate} is below the bar of {bar}, but {evidence} cannot tell {apart}: {outcome}{more}"


def alike_bars_clause(count: int, status: VerdictStatus) -> str:
    """`2 more bars are missed`."""
    outcomes = {"pass": "met", "borderline": "in doubt", "fail": "missed"}
    bars = "bar is" if count == 1 else "bars are"
    return f"{count} more {bars} {outcomes[status]}"


def further_reasons_clause(count: int) -> str:
    """`and 2 more reasons`."""
    return f"and {number_of(count, 'more reason')}"


def stopped_clause(report: SuiteReport) -> str:
    """`stopped after 3 of 10 runs`; empty for a complete report."""
    totals = report.totals
    if totals.missing:
        ended = totals.planned - totals.missing
        return f"stopped after {ended:,} of {number_of(totals.planned, 'run')}"
    if report.settled is not None:
        rounds = number_of(report.plan.rounds, "round")
        return f"stopped after {rounds}: the rest could not change the verdict"
    return ""


def cause_sentence(
    cause: Cause,
    report: SuiteReport,
    rules: Gate,
    comparison: Comparison | NoComparison | None = None,
) -> str:
    """Say what decided where neither a bar nor a rule did."""
    match cause:
        case "unchecked":
            return unchecked_sentence(report)
        case "not compared":
            return not_compared_sentence(comparison)
        case "no regression":
            assert isinstance(comparison, Comparison)
            return calm_sentence(comparison)
        case "all in quarantine":
            return "only cases in quarantine were to run"
        case "nothing graded":
            return "no run was graded"
        case "all errored":
            return all_errored_sentence(report)
        case "too many errored":
            return error_rate_sentence(report, rules.max_error_rate)
        case "too few runs":
            return "too few runs for a verdict"
        case "over budget":
            return over_budget_sentence(report, rules)


def over_budget_sentence(report: SuiteReport, rules: Gate) -> str:
    """`2 runs exceeded their budget, and the gate allows 0`."""
    runs = sum(record.over_budget for record in report.records_of(report.gated_cells))
    whose = "its" if runs == 1 else "their"
    allowed = rules.max_budget_violations
    return f"{number_of(runs, 'run')} exceeded {whose} budget, and the gate allows {allowed}"


def scope_sentence(scope: ScopeVerdict, report: SuiteReport, rules: Gate) -> str:
    """Hold a scope with a bar against it, if it has graded runs."""
    subject = scope_subject(scope, report)
    if not scope.graded and scope.cases:
        return f"{subject}no run was graded"
    if not scope.graded:
        return f"{subject}no case with this tag or provider was run"
    sentence = subject + bar_sentence(scope, rules)
    if scope.status == "fail":
        sentence += no_answer_clause(report)
    return sentence


def _leaves_cases_out(scope: ScopeVerdict, report: SuiteReport) -> bool:
    return scope.cases < sum(case.quarantine is None for case in report.plan.cases)


# Code that was not run.


def unchecked_sentence(report: SuiteReport) -> str:
    """`not checked: this pull request's agent was not run, for lack of secrets`, with its name if
    there are others.
    """
    unchecked = report.unchecked
    names = dict.fromkeys(name_of(variant.provider) for variant in unchecked)
    which = f" ({', '.join(names)})" if len(unchecked) < len(report.plan.variants) else ""
    if report.suite.without_secrets:
        return f"not checked: this pull request's agent{which} was not run, for lack of secrets"
    return f"not checked: your own code{which} was not run, only a recording of it was graded"


def how_to_check(report: SuiteReport) -> str:
    """Tell how code is run that was not."""
    if report.suite.without_secrets:
        return (
            "To check it, a maintainer who has read the change runs it with secrets: push it to a branch of this"
            " repository and open a pull request from there. For Dependabot, add the keys to its own secrets and run"
            " the job again."
        )
    return "to check it, run without `--replay`; `gate: {on_unchecked: warn}` makes this a warning"


def unchanged_sentence(report: SuiteReport) -> str:
    """Say what recorded answers prove where nothing was called: `prompts and cases are unchanged,
    and no model was called`; empty elsewhere.
    """
    if not (report.suite.without_secrets and report.recorded):
        return ""
    but = f" but for {number_of(report.errored, 'run')}" if report.errored else ""
    return f"prompts and cases are unchanged{but}, and no model was called"


def unchanged_clause(report: SuiteReport) -> str:
    """Return `unchanged_sentence` as the beginning of a sentence on the recorded answers."""
    proven = unchanged_sentence(report)
    return f"{proven}; their recorded answers: " if proven else ""


def scope_clause(report: SuiteReport) -> str:
    """Say that not all of the suite was to run, and that nothing was: `3 of 40 cases selected, all
    9 runs reused: `.
    """
    parts = [f"{report.suite.selection} selected"] if report.suite.selection else []
    if report.reused and report.reused == report.totals.graded:
        parts.append(
            f"all {number_of(report.reused, 'run')} reused"
            if report.reused > 1
            else "the only run reused"
        )
    return f"{', '.join(parts)}: " if parts else ""


# Runs without an answer.

HOW_TO_SET_A_BAR = "to let some runs fail, set a bar: `gate: {min_pass_rate: 0.9}`"
HOW_TO_GO_ON = (
    "once the cause is fixed, run with --resume, or re-run the job in GitHub Actions:"
    " only runs without a grade are repeated"
)
_MOST_READ = 1000  # runs: what is common shows in fewer
_LONGEST = 120
_COMPARED_CHARACTERS = 300
_WITH_DIGIT = (
    r"(?<![\w.-])(?<!answered )(?<!status )(?<!error )[\w.-]*\d[\w.-]*"  # but no `answered 401`
)
_GIVEN_UP = r"given up after \d+ failures in a row: "


def same_reason(error: RunError) -> Hashable:
    """Return a key that is equal for errors of one cause: words with digits are request ids, ports,
    waiting times.

    Runs that were given up have the reason of those before them.
    """
    return (
        re.sub(_WITH_DIGIT, "#", re.sub(_GIVEN_UP, "", error.message)[:_COMPARED_CHARACTERS])
        or error.kind
    )


def all_errored_sentence(report: SuiteReport) -> str:
    """`all 30 runs errored: api.openai.com answered 401: Incorrect API key provided`."""
    totals, why = report.totals, _commonest(_errors(report, "errored"))
    if totals.missing:
        return f"no run was graded, {totals.errored:,} errored{why}"
    runs = f"all {number_of(totals.errored, 'run')}" if totals.errored > 1 else "the only run"
    return f"{runs} errored{why}"


def error_rate_sentence(report: SuiteReport, allowed: float) -> str:
    """`30 of 60 runs errored (50 %, all on gpt), more than the 5 % that the gate allows: …`."""
    totals, gated = report.totals, report.gated
    share = gated.errored / (gated.graded + gated.errored)
    errored = [
        each for each in report.plan.variants if report.counts(report.cells_of(each)).errored
    ]
    of = "all on" if totals.errored > 1 else "on"
    where = f", {of} {name_of(errored[0])}" if len(errored) == 1 < len(report.plan.variants) else ""
    found = f"{totals.errored:,} of {number_of(totals.graded + totals.errored, 'run')} errored"
    limit = f"more than the {percent(allowed, allowed)} that the gate allows"
    return f"{found} ({percent(share, allowed)}{where}), {limit}{_commonest(_errors(report, 'errored'))}"


def no_answer_clause(report: SuiteReport) -> str:
    """Return `: no answer from localhost:8000: …` where all runs failed without an answer; else
    nothing.
    """
    errors = [] if report.totals.passed else _errors(report, "failed")
    return _commonest(errors) if all(errors) else ""


def _errors(report: SuiteReport, status: Status) -> list[RunError | None]:
    """Return the errors of the first runs that ended so; None for a run that has an answer."""
    return [result.error for result in report.results(report.indices(status)[:_MOST_READ])]


_CAUSE_OF_OUTAGE = "; most often: "


def outage_message(sentence: str, causes: Counter[str]) -> str:
    """Return the message of a run that is withdrawn: the sentence on the outage, and the commonest
    cause, if any.
    """
    return f"{sentence}{_CAUSE_OF_OUTAGE}{causes.most_common(1)[0][0]}" if causes else sentence


def split_outage_message(message: str) -> tuple[str, str]:
    """Return the sentence on an outage, and the commonest cause; empty if there is none."""
    sentence, _, cause = message.partition(_CAUSE_OF_OUTAGE)
    return sentence, cause


def errored_headline(report: SuiteReport) -> str:
    """`30 of 60 runs errored, all on gpt`, or what is said of the outage that most of them were
    lost in.
    """
    totals, variants = report.gated, report.plan.variants
    if (reason := _commonest_error(_errors(report, "errored"))) and reason.kind == "outage":
        return split_outage_message(reason.message)[0]
    errored = [each for each in variants if report.counts(report.cells_of(each)).errored]
    on = (
        f", all on {name_of(errored[0])}"
        if len(errored) == 1 < len(variants) and totals.errored > 1
        else ""
    )
    return f"{totals.errored:,} of {number_of(totals.graded + totals.errored, 'run')} errored{on}"


def _commonest(found: Iterable[RunError | None]) -> str:
    """Return the commonest reason as a clause, in the words of a run that was not given up, if
    there is one.
    """
    errors = list(filter(None, found))
    if not errors:
        return ""
    first = _commonest_error(errors)
    assert first is not None
    message = name_of(" ".join(first.message.split()) or first.kind, _LONGEST)
    if first.kind == "outage":
        message = split_outage_message(first.message)[0]
    return f"; most often: {message}" if len(set(map(same_reason, errors))) > 1 else f": {message}"


def _commonest_error(found: Iterable[RunError | None]) -> RunError | None:
    """Return an error of the commonest reason, one that was not given up if there is such; None
    without errors.
    """
    errors = list(filter(None, found))
    if not errors:
        return None
    reason = Counter(map(same_reason, errors)).most_common(1)[0][0]
    alike = (error for error in errors if same_reason(error) == reason)
    return min(alike, key=lambda error: error.kind == "given_up")
