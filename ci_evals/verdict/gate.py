"""The rules for merging: counts and their comparison in, verdict out."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

import msgspec
from msgspec import Struct

from ci_evals.percentage import percent
from ci_evals.report import Report
from ci_evals.rules import Gate
from ci_evals.stats.looks import look_confidence
from ci_evals.stats.pass_rate import Bounds, population_rate
from ci_evals.verdict.comparison import Comparison, NoComparison
from ci_evals.verdict.history import Tally
from ci_evals.verdict.rules import RuleVerdict, fall_behind, lack, rule_verdicts
from ci_evals.verdict.scopes import (
    SEVERITY,
    ScopeVerdict,
    VerdictStatus,
    has_bars,
    judged_scopes,
    sentence,
    subject,
    tally,
)
from ci_evals.verdict.sentences import calm_sentence
from ci_evals.verdict.unanswered import all_errored, too_many_errored, why_none_passed
from ci_evals.verdict.words import exact, number_of

FailOn = Literal["fail", "borderline", "never"]

_BAR_IS = {"pass": "met", "borderline": "in doubt", "fail": "missed"}


class Verdict(Struct, frozen=True, kw_only=True):
    """What the gate says. `reason` is one sentence for a reviewer.

    `scopes` are the parts of the matrix with their bars, the whole suite first; `rules` what follows from the
    comparison with the baseline, the worst first. `warning` is a `borderline` that never blocks: the suite asked only
    to be told.
    """

    status: VerdictStatus
    reason: str
    scopes: tuple[ScopeVerdict, ...]
    rules: tuple[RuleVerdict, ...] = ()
    hint: str | None = None
    warning: bool = False


def decide(report: Report, gate: Gate | None, comparison: Comparison | NoComparison | None = None) -> Verdict:
    """Judge a report by its gate; without a bar for the suite, a provider or a tag, every run must pass.

    Even then, a case with a `min_pass_rate` is held to that instead. Too many errored runs, a run phase that was
    stopped before it could show that the bars are met, or a bar on what was never graded end in `error`.

    Args:
        report: what was run.
        gate: the rules; None are the usual ones.
        comparison: the report beside its baseline, or why there is none; None if nobody asked for one.
    """
    rules = _over_looks(report, gate or Gate())
    return _beside(comparison, _by_bars(report, rules), report, rules)


def exit_code(verdict: Verdict, gate: Gate | None, fail_on: FailOn | None = None) -> int:
    """0 pass, 1 fail, 3 no verdict; borderline is 0 unless the gate says `on_borderline: fail`.

    Args:
        verdict: what the gate said.
        gate: the suite's.
        fail_on: the mildest verdict that fails, in place of the gate's `on_borderline`; `never`: none does, not even
            the lack of one.
    """
    if fail_on == "never":
        return 0
    usual = gate is not None and gate.on_borderline == "fail"
    blocks = (usual if fail_on is None else fail_on == "borderline") and not verdict.warning
    return {"pass": 0, "borderline": int(blocks), "fail": 1, "error": 3}[verdict.status]


def comparison_verdict(report: Report, gate: Gate | None, comparison: Comparison | NoComparison) -> Verdict:
    """What the comparison alone says, whatever the report's own bars do; without one there is no verdict."""
    if not isinstance(comparison, Comparison) or not comparison.compared:
        return Verdict(status="error", reason=lack(comparison), scopes=())
    calm = Verdict(status="pass", reason=calm_sentence(comparison), scopes=())
    return _beside(comparison, calm, report, _over_looks(report, gate or Gate()))


def settled(report: Report, gate: Gate | None) -> Literal["pass", "borderline", "fail"] | None:
    """What the bars will say whether all runs that are still to come pass or fail; None while that is open.

    Which labels they would have is not known: where metrics have bars, only a failure can be settled.
    """
    rules = _over_looks(report, gate or Gate())
    if _share(report.errored, report.total) > exact(rules.max_error_rate):
        return None
    spent, allowed = report.budget_violations, rules.max_budget_violations
    if allowed is not None and spent > allowed:
        return "fail"
    best, worst = (_worst(_counted(report, rules, passing=passing)) for passing in (True, False))
    if best.status != worst.status or best.status == "error" or (rules.metrics and best.status != "fail"):
        return None
    over = allowed is not None and spent + report.totals.missing > allowed
    return None if over and best.status != "fail" else best.status


def missed(report: Report, gate: Gate | None) -> bool:
    """Whether a bar is surely missed, so that more runs would change nothing."""
    return _by_bars(report, _over_looks(report, gate or Gate())).status == "fail"


def proven(report: Report, gate: Gate | None) -> bool:
    """Whether every bar is met beyond doubt, so that more runs would change nothing.

    A bar of 1 never is: the next run may fail.
    """
    rules = msgspec.structs.replace(_over_looks(report, gate or Gate()), prove=True)
    found = _by_bars(report, rules)
    return found.status == "pass" and all(scope.bar is None or scope.bar < 1 for scope in found.scopes)


def population_bounds(report: Report, gate: Gate | None) -> Bounds | None:
    """Where the pass rate on new cases like these is, each bound at the gate's confidence.

    None with too few cases, or of a run phase that was settled early: what had run by then is no fair sample.
    """
    if report.settled is not None:
        return None
    width = len(report.matrix.variants)
    tallies = _tallies(report)
    estimate = population_rate(tallies[row : row + width] for row in range(0, len(tallies), width))
    return estimate.bounds((gate or Gate()).confidence) if estimate else None


def _over_looks(report: Report, rules: Gate) -> Gate:
    """Several looks at the results share what one of them may be wrong."""
    if report.looks is None:
        return rules
    confidence = look_confidence(rules.confidence, len(report.looks.rounds))
    return msgspec.structs.replace(rules, confidence=confidence)


def _tallies(report: Report) -> list[Tally]:
    """The graded runs of every cell; of a run phase that was settled early, with those that the verdict is sure of."""
    if report.settled is not None:
        return _filled(report, passing=report.settled == "fail")
    return _seen(report)


def _seen(report: Report) -> list[Tally]:
    return list(map(tally, report.by_cell))


def _without_rates(judged: Iterable[ScopeVerdict], seen: Iterable[ScopeVerdict]) -> tuple[ScopeVerdict, ...]:
    """What is certain of a run phase that was settled early: statuses, and the runs that took place."""
    return tuple(
        msgspec.structs.replace(
            scope, rate=None, lower=None, upper=None, runs_needed=None, graded=found.graded, failed=found.failed
        )
        for scope, found in zip(judged, seen, strict=True)
    )


def _filled(report: Report, *, passing: bool) -> list[Tally]:
    """The tallies if all runs that are still to come passed, or all failed."""
    return [Tally(each.passed + passing * each.missing, each.graded + each.missing) for each in report.by_cell]


def _counted(report: Report, rules: Gate, *, passing: bool) -> list[ScopeVerdict]:
    """The scopes that follow from counts alone, if all runs that are still to come passed, or all failed."""
    scopes = judged_scopes(report, _filled(report, passing=passing), rules)
    return [scope for scope in scopes if scope.kind != "metric"]


def _worst(scopes: Iterable[ScopeVerdict]) -> ScopeVerdict:
    """The scope with the worst status, of those that have a bar; of all if none has."""
    judged = list(scopes)
    barred = [each for each in judged if each.bar is not None]
    return max(barred or judged, key=lambda each: SEVERITY[each.status])


def _by_bars(report: Report, rules: Gate) -> Verdict:
    """The verdict of one report by itself."""
    judged = judged_scopes(report, _tallies(report), rules)
    scopes = judged if report.settled is None else _without_rates(judged, judged_scopes(report, _seen(report), rules))
    totals = report.totals
    if (problem := _lack_of_evidence(report, scopes, rules)) is not None:
        return Verdict(status="error", reason=problem + _stopped(report), scopes=scopes)
    over = report.budget_violations
    if rules.max_budget_violations is not None and over > rules.max_budget_violations:
        what = f"{number_of(over, 'run')} took more than {'its' if over == 1 else 'their'} budget"
        text = f"{what}, and the gate allows {rules.max_budget_violations}"
        return Verdict(status="fail", reason=text + _stopped(report), scopes=scopes)
    barred = [scope for scope in judged if scope.bar is not None]
    worst = max(barred, key=lambda scope: SEVERITY[scope.status])
    too_few = report.settled is None and _share(totals.missing, totals.planned) > exact(rules.max_error_rate)
    if worst.status != "fail" and too_few:
        return Verdict(status="error", reason="too few runs for a verdict" + _stopped(report), scopes=scopes)
    others = sum(scope.status == worst.status for scope in barred) - 1
    more = f"; {others} more {'bar is' if others == 1 else 'bars are'} {_BAR_IS[worst.status]}" if others else ""
    why = why_none_passed(report) if worst.status == "fail" else ""
    text = _foregone(report, worst) + why if report.settled else sentence(worst, rules) + why + more + _stopped(report)
    return Verdict(status=worst.status, reason=subject(worst, report) + text, scopes=scopes, hint=_hint(worst, rules))


def _beside(comparison: Comparison | NoComparison | None, bars: Verdict, report: Report, rules: Gate) -> Verdict:
    """The worst of what bars and comparison say; where they are alike, what the comparison says comes first."""
    found = tuple(sorted(rule_verdicts(report, rules, comparison), key=lambda rule: -SEVERITY[rule.status]))
    if not found:
        return bars
    worst = found[0]
    certain = bars.status == "fail" and worst.status == "error"  # what the bars say needs no baseline
    if certain or SEVERITY[bars.status] > SEVERITY[worst.status]:
        return msgspec.structs.replace(bars, rules=found)
    same = fall_behind(comparison, worst)
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


def _lack_of_evidence(report: Report, scopes: Iterable[ScopeVerdict], rules: Gate) -> str | None:
    """Why there can be no verdict, if so."""
    totals = report.totals
    ended = totals.graded + totals.errored
    if not totals.graded:
        return all_errored(report) if totals.errored else "no run was graded"
    if (share := _share(totals.errored, ended)) > exact(rules.max_error_rate):
        return too_many_errored(report, float(share), rules.max_error_rate)
    for scope in scopes:
        if scope.bar is not None and not scope.graded:
            lack = "no run was graded" if scope.cases else "it has a bar, but nothing like it was run"
            return subject(scope, report) + lack
    return None


def _foregone(report: Report, worst: ScopeVerdict) -> str:
    """`at least 19 failures, stopped at 63 of 120 runs: …`; a share of these runs would say nothing."""
    totals = report.totals
    ended = f"stopped at {totals.planned - totals.missing:,} of {number_of(totals.planned, 'run')}"
    if report.settled == "fail":
        bar = (
            "every run must pass"
            if worst.bar is None or worst.bar >= 1
            else f"the bar of {percent(worst.bar)} is out of reach"
        )
        return f"at least {number_of(worst.failed, 'failure')}, {ended}: {bar}"
    return f"{number_of(totals.passed, 'run')} passed, {ended}: no outcome of the rest would change the verdict"


def _hint(worst: ScopeVerdict, rules: Gate) -> str | None:
    none_passed = worst.rate == 0
    if worst.status == "fail" and worst.kind == "suite" and not none_passed and not has_bars(rules):
        return "to let some runs fail, set a bar: `gate: {min_pass_rate: 0.9}`"
    return None


def _stopped(report: Report) -> str:
    totals = report.totals
    ended = totals.planned - totals.missing
    return f"; stopped after {ended:,} of {number_of(totals.planned, 'run')}" if totals.missing else ""


def _share(part: int, whole: int) -> Fraction:
    return Fraction(part, whole) if whole else Fraction(0)
