"""The verdict of the gate: a report and its comparison in, pass, borderline, fail or error out."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from ci_evals.format import exact, number_of
from ci_evals.gate.bars import (
    SEVERITY,
    ScopeVerdict,
    VerdictStatus,
    has_bars,
    judge_scopes,
    worst_first,
)
from ci_evals.gate.compare import Comparison, NoComparison
from ci_evals.gate.rules import RuleVerdict, drop_of_same_variant, rule_verdicts
from ci_evals.gate.wording import (
    HOW_TO_GO_ON,
    all_errored_sentence,
    bar_sentence,
    calm_sentence,
    error_rate_sentence,
    how_to_check,
    no_answer_clause,
    not_compared_sentence,
    over_budget_sentence,
    quarantine_clause,
    scope_clause,
    scope_subject,
    stopped_clause,
    unchanged_clause,
    unchecked_sentence,
)
from ci_evals.model.plan import RunPlan
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.model.rules import Gate
from ci_evals.stats.rates import Bounds, look_confidence, population_rate

FailOn = Literal["fail", "borderline", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision of the gate. `reason` is one sentence for a reviewer.

    `scopes` are the parts of the matrix with their bars, the whole suite first; `rules` those that
    the comparison with the baseline broke, the worst first. `warning` marks a `borderline` that
    never blocks: the suite asked only to be told. `unchecked` marks an `error` whose cause is that
    the code under test was not run, for lack of secrets.
    """

    status: VerdictStatus
    reason: str
    scopes: tuple[ScopeVerdict, ...]
    rules: tuple[RuleVerdict, ...] = ()
    hint: str | None = None
    warning: bool = False
    unchecked: bool = False


def decide(
    report: SuiteReport, gate: Gate | None, comparison: Comparison | NoComparison | None = None
) -> Verdict:
    """Judge a report by its gate; without a bar for the suite, a provider or a tag, every run must
    pass.

    Even then, a case with a `min_pass_rate` is held to that instead. The verdict is `error` where
    too many runs errored, where the run was stopped before it could show that the bars are met, and
    where a bar has no graded run.

    Args:
        report: all results.
        gate: the rules; None are the usual ones.
        comparison: the report beside its baseline, or the reason why there is none; None if nobody
            asked for one.
    """
    rules = _over_looks(report, gate or Gate())
    if report.unchecked:
        return _unchecked(report, judge_scopes(report, _tallies(report), rules))
    verdict = _beside(comparison, _by_bars(report, rules), report, rules)
    clause = "" if verdict.status == "error" else unchanged_clause(report)
    return replace(verdict, reason=scope_clause(report) + clause + verdict.reason)


def exit_code(verdict: Verdict, gate: Gate | None, fail_on: FailOn | None = None) -> int:
    """Return 0 for pass, 1 for fail, 3 for no verdict; for borderline 0 unless the gate says
    `on_borderline: fail`.

    Code that was not run for lack of secrets is no verdict, either, unless the gate says
    `on_unchecked: warn`.

    Args:
        verdict: the decision.
        gate: the suite's.
        fail_on: fail on this verdict or worse, whatever `on_borderline` says; `never` returns 0
            even without a verdict.
    """
    if fail_on == "never" or (
        verdict.unchecked and gate is not None and gate.on_unchecked == "warn"
    ):
        return 0
    usual = gate is not None and gate.on_borderline == "fail"
    blocks = (usual if fail_on is None else fail_on == "borderline") and not verdict.warning
    return {"pass": 0, "borderline": int(blocks), "fail": 1, "error": 3}[verdict.status]


def comparison_verdict(
    report: SuiteReport, gate: Gate | None, comparison: Comparison | NoComparison
) -> Verdict:
    """Decide by the comparison alone, whatever the report's own bars say; without one there is no
    verdict.
    """
    if report.unchecked:
        return _unchecked(report)
    if not isinstance(comparison, Comparison) or not comparison.compared:
        return Verdict(status="error", reason=not_compared_sentence(comparison), scopes=())
    calm = Verdict(
        status="pass", reason=calm_sentence(comparison) + quarantine_clause(report), scopes=()
    )
    return _beside(comparison, calm, report, _over_looks(report, gate or Gate()))


def settle(
    report: SuiteReport, plan: RunPlan, gate: Gate | None
) -> Literal["pass", "borderline", "fail"] | None:
    """Return the verdict of the bars if no outcome of the remaining runs can change it, else None.

    The labels of runs to come are not known: where metrics have bars, only a failure can be
    settled.

    Args:
        report: the first rounds of the plan.
        plan: all rounds.
        gate: the rules; None are the usual ones.
    """
    rules = _over_looks(report, gate or Gate())
    if _share(report.gated.errored, plan.total) > exact(rules.max_error_rate):
        return None
    spent, allowed = _over_budget(report), rules.max_budget_violations
    if allowed is not None and spent > allowed:
        return "fail"
    best, worst = (_worst_if_rest(report, plan, rules, passes=passes) for passes in (True, False))
    if (
        best.status != worst.status
        or best.status == "error"
        or (rules.metrics and best.status != "fail")
    ):
        return None
    over = allowed is not None and spent + plan.total - len(report.records) > allowed
    return None if over and best.status != "fail" else best.status


def is_certain(report: SuiteReport, gate: Gate | None) -> bool:
    """Return True if a bar is surely missed, or every bar is met beyond doubt, so that more runs
    would change nothing.

    A bar of 1 is never met beyond doubt: the next run may fail.
    """
    rules = _over_looks(report, gate or Gate())
    if _by_bars(report, rules).status == "fail":
        return True
    found = _by_bars(report, replace(rules, prove=True))
    return found.status == "pass" and all(
        scope.bar is None or scope.bar < 1 for scope in found.scopes
    )


def too_many_errored(report: SuiteReport, gate: Gate | None) -> bool:
    """Return True if more of the runs errored than the gate allows, so that there can be no
    verdict.
    """
    totals, allowed = report.gated, (gate or Gate()).max_error_rate
    return _share(totals.errored, totals.graded + totals.errored) > exact(allowed)


def population_bounds(report: SuiteReport, gate: Gate | None) -> Bounds | None:
    """Return bounds of the pass rate on new cases like these, at the gate's confidence; None with
    too few cases.
    """
    width = len(report.plan.variants)
    tallies = _tallies(report)
    estimate = population_rate(tallies[row : row + width] for row in range(0, len(tallies), width))
    return estimate.bounds((gate or Gate()).confidence) if estimate else None


def _over_looks(report: SuiteReport, rules: Gate) -> Gate:
    """Share the accepted chance of error among the looks that are taken at the results."""
    if report.looks is None:
        return rules
    confidence = look_confidence(rules.confidence, len(report.looks.rounds))
    return replace(rules, confidence=confidence)


def _tallies(report: SuiteReport) -> list[Tally]:
    """The graded runs of every cell."""
    return [counts.tally for counts in report.by_cell]


def _worst_if_rest(
    report: SuiteReport, plan: RunPlan, rules: Gate, *, passes: bool
) -> ScopeVerdict:
    """Return the worst of the scopes that have a bar (of all if none has) if all runs to come
    passed, or all failed.

    Metrics are left out.
    """
    tallies = []
    for cell, counts in enumerate(report.by_cell):
        rest = plan.runs(cell) - counts.graded - counts.errored
        tallies.append(Tally(counts.passed + passes * rest, counts.graded + rest))
    judged = [each for each in judge_scopes(report, tallies, rules) if each.kind != "metric"]
    return worst_first([each for each in judged if each.bar is not None] or judged)[0]


def _by_bars(report: SuiteReport, rules: Gate) -> Verdict:
    """Decide on a report by itself."""
    scopes = judge_scopes(report, _tallies(report), rules)
    stopped = stopped_clause(report)

    def verdict(status: VerdictStatus, reason: str, hint: str | None = None) -> Verdict:
        left_out = quarantine_clause(report) if status == "pass" else ""
        return Verdict(status=status, reason=reason + stopped + left_out, scopes=scopes, hint=hint)

    if report.suite.selection and not report.gated_cells:
        return verdict("pass", "only cases in quarantine were to run")
    if (lack := _lack_of_evidence(report, scopes, rules)) is not None:
        return verdict("error", lack, HOW_TO_GO_ON if report.gated.errored else None)
    over = _over_budget(report)
    if rules.max_budget_violations is not None and over > rules.max_budget_violations:
        return verdict("fail", over_budget_sentence(over, rules.max_budget_violations))
    worst, *others = worst_first(scope for scope in scopes if scope.bar is not None)
    if worst.status != "fail" and _share(report.gated.missing, report.gated.planned) > exact(
        rules.max_error_rate
    ):
        return verdict("error", "too few runs for a verdict")
    why = no_answer_clause(report) if worst.status == "fail" else ""
    alike = sum(scope.status == worst.status for scope in others)
    outcome = {"pass": "met", "borderline": "in doubt", "fail": "missed"}[worst.status]
    more = f"; {alike} more {'bar is' if alike == 1 else 'bars are'} {outcome}" if alike else ""
    hint = None
    if worst.status == "fail" and worst.kind == "suite" and worst.rate and not has_bars(rules):
        hint = "to let some runs fail, set a bar: `gate: {min_pass_rate: 0.9}`"
    return verdict(
        worst.status, scope_subject(worst, report) + bar_sentence(worst, rules) + why + more, hint
    )


def _over_budget(report: SuiteReport) -> int:
    return sum(record.over_budget for record in report.records_of(report.gated_cells))


def _lack_of_evidence(
    report: SuiteReport, scopes: Iterable[ScopeVerdict], rules: Gate
) -> str | None:
    """Return the reason why there can be no verdict, if there is one."""
    totals = report.gated
    if not totals.graded:
        return all_errored_sentence(report) if totals.errored else "no run was graded"
    if too_many_errored(report, rules):
        share = _share(totals.errored, totals.graded + totals.errored)
        return error_rate_sentence(report, float(share), rules.max_error_rate)
    for scope in scopes:
        if scope.bar is not None and not scope.graded:
            lack = (
                "no run was graded" if scope.cases else "no case with this tag or provider was run"
            )
            return scope_subject(scope, report) + lack
    return None


def _unchecked(report: SuiteReport, scopes: tuple[ScopeVerdict, ...] = ()) -> Verdict:
    reason = unchecked_sentence(report)
    return Verdict(
        status="error", reason=reason, scopes=scopes, hint=how_to_check(report), unchecked=True
    )


def _beside(
    comparison: Comparison | NoComparison | None, bars: Verdict, report: SuiteReport, rules: Gate
) -> Verdict:
    """Return the worse of what bars and comparison say; where they are alike, the comparison comes
    first.
    """
    order = ("fail", "error", "borderline", "pass")  # what is sure needs no further evidence
    found = tuple(
        sorted(rule_verdicts(report, rules, comparison), key=lambda rule: order.index(rule.status))
    )
    if not found:
        return bars
    worst = found[0]
    certain = (
        bars.status == "fail" and worst.status == "error"
    )  # what the bars say needs no baseline
    if certain or bars.status == "error" or SEVERITY[bars.status] > SEVERITY[worst.status]:
        return replace(bars, rules=found)
    same = drop_of_same_variant(comparison, worst)
    others = sum(rule.status == worst.status and rule.sentence != same for rule in found[1:])
    parts = [worst.sentence] + ([f"also, {bars.reason}"] if bars.status == worst.status else [])
    if others:
        parts.append(f"and {number_of(others, 'more reason')}")
    return Verdict(
        status=worst.status,
        reason="; ".join(parts),
        scopes=bars.scopes,
        rules=found,
        warning=worst.status == "borderline" and bars.status == "pass",
    )


def _share(part: int, whole: int) -> Fraction:
    return Fraction(part, whole) if whole else Fraction(0)
