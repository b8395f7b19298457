"""The verdict of the gate: a report and its comparison in, pass, borderline, fail or error out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from ci_evals.format import exact
from ci_evals.gate.bars import (
    NO_BASE,
    SEVERITY,
    BaseNoise,
    Cause,
    ScopeVerdict,
    VerdictStatus,
    has_bars,
    judge_scopes,
    worst_first,
)
from ci_evals.gate.baseline import Baseline, reported_cells
from ci_evals.gate.cells import cell_key, match_variants, variants_of
from ci_evals.gate.compare import Comparison, NoComparison, compare
from ci_evals.gate.rules import RuleVerdict, rule_verdicts
from ci_evals.gate.run_errors import HOW_TO_GO_ON, errored_clause
from ci_evals.gate.wording.bars import (
    HOW_TO_SET_A_BAR,
    alike_bars_clause,
    cause_sentence,
    further_reasons_clause,
    how_to_check,
    scope_clause,
    scope_sentence,
    stopped_clause,
    unchanged_clause,
    unchecked_sentence,
    unknown_budget_sentence,
)
from ci_evals.gate.wording.comparisons import missed_on_main_clause
from ci_evals.gate.wording.rules import quarantine_clause, stricter_checks_clause
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey, RunPlan
from ci_evals.model.report import Counts, SuiteReport, Tally
from ci_evals.model.ruler import Ruler
from ci_evals.model.rules import Gate
from ci_evals.stats.rates import Bounds, look_confidence, population_rate
from ci_evals.stats.thresholds import LOST_REPEATS_SHARE

if TYPE_CHECKING:
    from ci_evals.gate.missed_on_main import MissedOnMain

FailOn = Literal["fail", "borderline", "never"]

_STATUS: dict[Cause, VerdictStatus] = {
    "unchecked": "error",
    "not compared": "error",
    "no regression": "pass",
    "all in quarantine": "pass",
    "nothing graded": "error",
    "all errored": "error",
    "too many errored": "error",
    "too few runs": "error",
    "over budget": "fail",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision of the gate.

    `leading` is what decided: a rule, the part of the matrix that is furthest from its bar, or a
    cause of another kind; None while the run is going on. `sentence` says it in words, `further`
    adds clauses, and `preface` says what part of the suite was judged.

    `scopes` are the parts of the matrix with their bars, the whole suite first; `rules` those that
    the comparison with the baseline broke, the worst first. `missed_on_main` says that the base
    branch misses the bars that decided, too.
    """

    status: VerdictStatus
    leading: RuleVerdict | ScopeVerdict | Cause | None
    sentence: str
    further: tuple[str, ...] = ()
    preface: str = ""
    scopes: tuple[ScopeVerdict, ...] = ()
    rules: tuple[RuleVerdict, ...] = ()
    hint: str | None = None
    missed_on_main: "MissedOnMain | None" = None

    @property
    def reason(self) -> str:
        """The whole reason for a reviewer: preface, sentence and further clauses."""
        return self.preface + "; ".join((self.sentence, *self.further))

    @property
    def unchecked(self) -> bool:
        """Return True if the code under test was not run, for lack of secrets or in a replay."""
        return self.leading == "unchecked"

    @property
    def blocking_cells(self) -> frozenset[CellKey]:
        """The regressed cells that make the gate red."""
        return frozenset(key for rule in self.rules if rule.status == "fail" for key in rule.cells)


def decide(
    report: SuiteReport, gate: Gate | None, comparison: Comparison | NoComparison | None = None
) -> Verdict:
    """Judge a report by its gate.

    Without a bar for the suite, a provider or a tag, every run must pass; even then, a case with a
    `min_pass_rate` is held to that instead. The verdict is `error` if the run was stopped before it
    could show that the bars are met, or if a bar has no graded run; and if too many runs errored,
    unless it were `fail` even if all of these had passed.

    Args:
        report: all results.
        gate: the rules; None means the defaults.
        comparison: the comparison with the baseline, or the reason why there is none; None if
            nobody asked for one.
    """
    rules = _share_confidence(report, strictest(report, comparison, gate) or Gate())
    if report.unchecked:
        scopes = judge_scopes(report, _tallies(report), rules, noise_of_base(report, comparison))
        return _unchecked_verdict(report, scopes)
    verdict = _judge(report, rules, comparison)
    if verdict.leading == "too many errored":
        without_errored = _judge(report, replace(rules, max_error_rate=1.0), comparison)
        if without_errored.status == "fail" and _is_red_anyway(report, rules, comparison):
            further = (*without_errored.further, f"also, {verdict.sentence}")
            verdict = replace(without_errored, further=further)
    preface = scope_clause(report)
    if verdict.status != "error":
        preface += unchanged_clause(report)
    return replace(verdict, preface=preface)


def exit_code(verdict: Verdict, gate: Gate | None, fail_on: FailOn | None = None) -> int:
    """Return 0 for pass, 1 for fail, 3 for no verdict.

    A borderline is 0 unless the gate says `on_borderline: fail`. Code that was not run is no
    verdict, either, unless the gate says `on_unchecked: warn`.

    Args:
        verdict: the decision.
        gate: the suite's.
        fail_on: fail on this verdict or worse; overrides `on_borderline`; `never` returns 0
            even without a verdict.
    """
    if fail_on == "never":
        return 0
    if verdict.unchecked and gate is not None and gate.on_unchecked == "warn":
        return 0
    match verdict.status:
        case "pass":
            return 0
        case "fail":
            return 1
        case "error":
            return 3
    if fail_on is None:
        blocks = gate is not None and gate.on_borderline == "fail"
    else:
        blocks = fail_on == "borderline"
    return int(blocks)


def comparison_verdict(
    report: SuiteReport, gate: Gate | None, comparison: Comparison | NoComparison
) -> Verdict:
    """Decide by the comparison alone, without the report's own bars."""
    if report.unchecked:
        return _unchecked_verdict(report)
    rules = _share_confidence(report, strictest(report, comparison, gate) or Gate())
    if not isinstance(comparison, Comparison) or not comparison.compared:
        sentence = cause_sentence("not compared", report, rules, comparison)
        return Verdict(status="error", leading="not compared", sentence=sentence)
    calm = Verdict(
        status="pass",
        leading="no regression",
        sentence=cause_sentence("no regression", report, rules, comparison),
        further=_present(quarantine_clause(report)),
    )
    return _add_rules(calm, rule_verdicts(report, rules, comparison))


def settle(
    report: SuiteReport,
    plan: RunPlan,
    gate: Gate | None,
    baseline: Baseline | NoComparison | None = None,
) -> Literal["pass", "borderline", "fail"] | None:
    """Return the verdict of the bars if no outcome of the remaining runs can change it, else None.

    The labels of runs to come are not known, so metrics with bars can only settle a failure.

    Args:
        report: the first rounds of the plan.
        plan: all rounds.
        gate: the rules; None means the defaults.
        baseline: what the report will be compared with.
    """
    rules = _share_confidence(report, gate or Gate())
    if _share(report.gated.errored, plan.total) > exact(rules.max_error_rate):
        return None
    over_budget, allowed = _over_budget(report), rules.max_budget_violations
    if allowed is not None and over_budget > allowed:
        return "fail"
    noise = noise_of_base(report, baseline)
    best = _worst_status(report, plan, rules, noise, rest_passes=True)
    worst = _worst_status(report, plan, rules, noise, rest_passes=False)
    if best != worst or best == "error":
        return None
    if best == "fail":
        return best
    if rules.metrics:
        return None
    runs_to_come = plan.total - len(report.records)
    if allowed is not None and over_budget + runs_to_come > allowed:
        return None
    if allowed is not None and unknown_budget_sentence(report):
        return None
    return best


def is_certain(
    report: SuiteReport, gate: Gate | None, baseline: Baseline | NoComparison | None = None
) -> bool:
    """Return True if a bar is surely missed, or every bar is met beyond doubt.

    More runs would then change nothing. A bar of 1 is never met beyond doubt: the next run may
    fail. The report will be compared with `baseline`.
    """
    rules = _share_confidence(report, gate or Gate())
    noise = noise_of_base(report, baseline)
    if _judge_bars(report, rules, noise).status == "fail":
        return True
    proven = _judge_bars(report, replace(rules, prove=True), noise)
    bars = [scope.bar for scope in proven.scopes if scope.bar is not None]
    return proven.status == "pass" and all(bar < 1 for bar in bars)


def too_many_errored(report: SuiteReport, gate: Gate | None) -> bool:
    """Return True if more of the runs errored than the gate allows."""
    return _share_errored(report.gated) > exact((gate or Gate()).max_error_rate)


def unanswered_variants(report: SuiteReport, gate: Gate | None) -> frozenset[Variant]:
    """Return the variants that nothing is run of again, since too many of their runs errored.

    Repeats would only meet the same provider, or the same broken setup. Either there is no verdict
    anyway, or the repeats themselves errored. Rounds that were withdrawn for an outage don't count:
    the others had answers.
    """
    allowed = (gate or Gate()).max_error_rate
    no_verdict = too_many_errored(report, gate)
    found = set()
    for variant in report.plan.variants:
        cells = report.gated_cells_of(variant)
        is_lost = no_verdict and _share_lost(report, cells) > exact(allowed)
        if report.confirmation is not None:
            share = _share_lost(report.confirmation, cells)
            is_lost = is_lost or share > LOST_REPEATS_SHARE
        if is_lost:
            found.add(variant)
    return frozenset(found)


def population_bounds(report: SuiteReport, gate: Gate | None) -> Bounds | None:
    """Return bounds of the pass rate on new cases like these; None with too few cases."""
    tallies = _tallies(report)
    by_case = []
    for row, case in enumerate(report.plan.cases):
        if case.quarantine is None:
            by_case.append([tallies[cell] for cell in report.plan.cells_of_row(row)])
    estimate = population_rate(by_case)
    if estimate is None:
        return None
    return estimate.bounds((gate or Gate()).confidence)


def noise_of_base(
    report: SuiteReport, base: Baseline | Comparison | NoComparison | None
) -> BaseNoise:
    """Return what the base's reports tell about the noise of a report.

    It is the same before and after the comparison, so that a run does not stop for a verdict that
    it does not get.
    """
    if isinstance(base, Comparison):
        base = base.baseline
    if not isinstance(base, Baseline):
        return NO_BASE
    keys = [report.plan.key(cell) for cell, runs in enumerate(report.plan.counts) if runs]
    if report.suite.selection is not None:
        base = base.restrict_to({case for case, *_ in keys})
    known = base.overdispersion
    matched = match_variants(variants_of(keys), base.variants)
    runs = {}
    for number in range(len(report.plan)):
        variant = matched.get(report.plan.variant(number))
        if variant is None:
            continue
        cell = base.cells.get(cell_key(report.plan.case(number).id, variant))
        fingerprint = report.fingerprints[report.plan.row(number)]
        if cell is not None and cell.fingerprint == fingerprint and cell.history.tally.graded:
            runs[number] = cell.history.tally
    return BaseNoise(
        {variant: known[theirs] for variant, theirs in matched.items() if theirs in known}, runs
    )


def strictest(
    report: SuiteReport, comparison: Comparison | NoComparison | None, gate: Gate | None
) -> Gate | None:
    """Return the rules with main's `require_baseline` and `on_unchecked`, where these are stricter.

    A change must not decide for itself what becomes of a verdict that could not be had.

    Args:
        report: the report, which may have main's rules.
        comparison: what it is compared with, whose rules count otherwise.
        gate: the change's rules.
    """
    main: Gate | None = None
    if report.ruler is not None:
        main = report.ruler.gate
    elif isinstance(comparison, Comparison):
        main = comparison.baseline.gate
    if main is None:
        return gate
    own = gate or Gate()
    if main.require_baseline is True or own.require_baseline is False:
        own = replace(own, require_baseline=main.require_baseline)
    if main.on_unchecked == "error":
        own = replace(own, on_unchecked="error")
    return own


def _share_confidence(report: SuiteReport, rules: Gate) -> Gate:
    """Share the accepted chance of error among the looks that are taken at the results."""
    if report.looks is None:
        return rules
    confidence = look_confidence(rules.confidence, len(report.looks.rounds))
    return replace(rules, confidence=confidence)


def _judge(
    report: SuiteReport, rules: Gate, comparison: Comparison | NoComparison | None
) -> Verdict:
    """Decide by the bars and the comparison."""
    noise = noise_of_base(report, comparison)
    bars = _judge_bars(report, rules, noise)
    if bars.status == "fail" and isinstance(comparison, Comparison):
        from ci_evals.gate.missed_on_main import missed_on_main

        found = missed_on_main(report, rules, bars.scopes, comparison, noise)
        if found is not None:
            clause = missed_on_main_clause(comparison, found)
            bars = replace(bars, missed_on_main=found, further=(clause, *bars.further))
    verdict = _add_rules(bars, rule_verdicts(report, rules, comparison))
    if report.ruler is not None and verdict.status in {"fail", "borderline"}:
        from ci_evals.gate.edited_checks import edited_checks

        edited = edited_checks(report, None, rules)
        if edited is not None:
            clause = stricter_checks_clause(edited.ruler, edited.stricter)
            return replace(verdict, further=(*verdict.further, *_present(clause)))
    return verdict


def _is_red_anyway(
    report: SuiteReport, rules: Gate, comparison: Comparison | NoComparison | None
) -> bool:
    """Return True if a bar is missed or cases regressed even if every errored run had passed.

    Metrics, cost and latency are left out: nobody knows those of runs that errored.
    """
    best = _with_errored_as_passed(report)
    scopes = judge_scopes(best, _tallies(best), rules, noise_of_base(best, comparison))
    if any(scope.status == "fail" and scope.kind != "metric" for scope in scopes):
        return True
    if not isinstance(comparison, Comparison):
        return False
    if best.confirmation is not None:
        best = replace(best, confirmation=_with_errored_as_passed(best.confirmation))
    rules = replace(rules, max_cost_increase=None, max_latency_increase=None)
    compared = compare(
        reported_cells(best, rules),
        comparison.baseline,
        confirm_runs=comparison.confirm_runs,
        rules=rules,
        is_selection=report.suite.selection is not None,
        main_now=report.main_now,
    )
    return any(rule.status == "fail" for rule in rule_verdicts(best, rules, compared))


def _with_errored_as_passed(report: SuiteReport) -> SuiteReport:
    records = dict(report.records)
    for index, record in report.records.items():
        if record.status == "errored":
            records[index] = record._replace(status="passed")
    if report.ruler is None:
        return replace(report, records=records)
    # Main's checks have no answer of these, either.
    ruler = _with_passed(report.ruler, report)
    if report.confirmation is not None:
        ruler = _with_passed(ruler, report.confirmation)
    return replace(report, records=records, ruler=ruler)


def _with_passed(ruler: Ruler, report: SuiteReport) -> Ruler:
    """Return main's grades as if the runs of a report that errored had passed."""
    plan, cells = report.plan, []
    numbers = {key: number for number, key in enumerate(plan.keys)}
    for cell in ruler.cells:
        passed = dict(cell.passed)
        if (number := numbers.get(cell.key)) is not None:
            for run, index in plan.numbered(number):
                record = report.records.get(index)
                if record is not None and not record.graded:
                    passed[run] = True
        cells.append(replace(cell, passed=passed))
    return replace(ruler, cells=tuple(cells))


def _tallies(report: SuiteReport) -> list[Tally]:
    """Return the graded runs of every cell."""
    return [counts.tally for counts in report.by_cell]


def _worst_status(
    report: SuiteReport,
    plan: RunPlan,
    rules: Gate,
    noise: BaseNoise,
    *,
    rest_passes: bool,
) -> VerdictStatus:
    """Return the worst verdict on a bar if all runs to come passed, or all failed.

    Metrics are left out; without a bar, all scopes count.
    """
    tallies = []
    for cell, counts in enumerate(report.by_cell):
        rest = plan.runs(cell) - counts.graded - counts.errored
        passed = counts.passed
        if rest_passes:
            passed += rest
        tallies.append(Tally(passed, counts.graded + rest))
    judged = judge_scopes(report, tallies, rules, noise)
    scopes = [each for each in judged if each.kind != "metric"]
    with_bar = [scope for scope in scopes if scope.bar is not None]
    return worst_first(with_bar or scopes)[0].status


def _judge_bars(report: SuiteReport, rules: Gate, noise: BaseNoise) -> Verdict:
    """Decide on a report by itself."""
    scopes = judge_scopes(report, _tallies(report), rules, noise)
    leading = _lead(report, scopes, rules)
    clauses, hint = [], None
    if isinstance(leading, ScopeVerdict):
        status, sentence = leading.status, scope_sentence(leading, report, rules)
        others = [each for each in scopes if each.bar is not None and each is not leading]
        alike = [each for each in others if each.status == status]
        if alike and leading.graded:
            clauses.append(alike_bars_clause(alike, status, report))
        if leading.kind == "suite" and status == "fail" and leading.rate and not has_bars(rules):
            hint = HOW_TO_SET_A_BAR
    else:
        status, sentence = _STATUS[leading], cause_sentence(leading, report, rules)
    if status == "error" and leading != "too few runs" and report.gated.errored:
        hint = HOW_TO_GO_ON
    if status == "fail":
        clauses += [scope_sentence(each, report, rules) for each in _ungraded(scopes)]
    clauses.append(stopped_clause(report))
    if status == "pass":
        clauses += [errored_clause(report.gated), quarantine_clause(report)]
    return Verdict(
        status=status,
        leading=leading,
        sentence=sentence,
        further=_present(*clauses),
        scopes=scopes,
        hint=hint,
    )


def _lead(report: SuiteReport, scopes: Sequence[ScopeVerdict], rules: Gate) -> ScopeVerdict | Cause:
    """Return what decides about a report by itself."""
    if report.suite.selection and not report.gated_cells:
        return "all in quarantine"
    totals = report.gated
    if not totals.graded:
        return "all errored" if totals.errored else "nothing graded"
    if too_many_errored(report, rules):
        return "too many errored"
    allowed = rules.max_budget_violations
    if allowed is not None and _over_budget(report) > allowed:
        return "over budget"
    ungraded = _ungraded(scopes)
    graded = [scope for scope in scopes if scope.bar is not None and scope.graded]
    if ungraded and all(scope.status != "fail" for scope in graded):
        return ungraded[0]
    worst = worst_first(graded)[0]
    too_few = _share(totals.missing, totals.planned) > exact(rules.max_error_rate)
    if too_few and worst.status != "fail":
        return "too few runs"
    return worst


def _ungraded(scopes: Sequence[ScopeVerdict]) -> list[ScopeVerdict]:
    """Return the parts of the matrix that have a bar, and no graded run to hold against it."""
    return [scope for scope in scopes if scope.bar is not None and not scope.graded]


def _over_budget(report: SuiteReport) -> int:
    return sum(record.over_budget for record in report.records_of(report.gated_cells))


def _unchecked_verdict(report: SuiteReport, scopes: tuple[ScopeVerdict, ...] = ()) -> Verdict:
    return Verdict(
        status="error",
        leading="unchecked",
        sentence=unchecked_sentence(report),
        scopes=scopes,
        hint=how_to_check(report),
    )


def _add_rules(bars: Verdict, rules: Iterable[RuleVerdict]) -> Verdict:
    """Return the worse of what the bars and the comparison say; if alike, the comparison leads."""
    order = ("fail", "error", "borderline", "pass")  # what is sure needs no further evidence
    # What was found is told before what was not compared.
    found = tuple(
        sorted(rules, key=lambda rule: (order.index(rule.status), rule.rule == "coverage"))
    )
    if not found:
        return bars
    worst = found[0]
    needs_no_baseline = bars.status == "fail" and worst.status == "error"
    milder = SEVERITY[worst.status] < SEVERITY[bars.status]
    has_ungraded = bars.status == "error" and isinstance(bars.leading, ScopeVerdict)
    red_wins = has_ungraded and worst.status == "fail"
    if not red_wins and (needs_no_baseline or milder or bars.status == "error"):
        return replace(bars, rules=found)
    clauses = []
    if bars.status == worst.status or red_wins:
        clauses += [f"also, {bars.sentence}", *bars.further]
    if others := sum(rule.status == worst.status for rule in found[1:]):
        clauses.append(further_reasons_clause(others))
    return Verdict(
        status=worst.status,
        leading=worst,
        sentence=worst.sentence,
        further=tuple(clauses),
        scopes=bars.scopes,
        rules=found,
        hint=HOW_TO_GO_ON if worst.rule in ("ungraded", "repeats") else None,
    )


def _present(*clauses: str) -> tuple[str, ...]:
    return tuple(clause for clause in clauses if clause)


def _share_lost(report: SuiteReport, cells: Sequence[int]) -> Fraction:
    """Return the share of runs that errored, without those withdrawn for an outage."""
    counts = report.counts(cells)
    lost = 0
    for result in report.results(report.indices("errored", cells)):
        if result.error is not None and result.error.kind != "outage":
            lost += 1
    return _share(lost, counts.graded + counts.errored)


def _share_errored(counts: Counts) -> Fraction:
    return _share(counts.errored, counts.graded + counts.errored)


def _share(part: int, whole: int) -> Fraction:
    return Fraction(part, whole) if whole else Fraction(0)
