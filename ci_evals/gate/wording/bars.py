"""Sentences about bars, and about runs that errored, were stopped or were left out."""

from collections.abc import Sequence

from ci_evals.format import name_of, number_of, percent
from ci_evals.gate.bars import Cause, ScopeVerdict, VerdictStatus
from ci_evals.gate.compare import (
    Comparison,
    NoComparison,
)
from ci_evals.gate.run_errors import all_errored_sentence, error_rate_sentence, no_answer_clause
from ci_evals.gate.wording.bases import no_regression_sentence, not_compared_sentence
from ci_evals.model.report import SuiteReport
from ci_evals.model.rules import Gate

HOW_TO_SET_A_BAR = "to let some runs fail, set a bar: `gate: {min_pass_rate: 0.9}`"


def scope_label(scope: ScopeVerdict, report: SuiteReport) -> str:
    """Return the kind of a scope, or `suite, other cases` if some cases have bars of their own."""
    if scope.kind == "suite" and _leaves_cases_out(scope, report):
        return "suite, other cases"
    return scope.kind


def scope_subject(scope: ScopeVerdict, report: SuiteReport) -> str:
    """Return the start of a sentence about a scope."""
    name = scope_name(scope, report)
    if not name:
        return ""
    return f"{name}: "


def scope_name(scope: ScopeVerdict, report: SuiteReport) -> str:
    """`tag critical`; empty for the whole suite."""
    if scope.kind != "suite":
        return f"{scope.kind} {name_of(scope.name)}"
    if _leaves_cases_out(scope, report):
        return "other cases"
    return ""


def bar_sentence(scope: ScopeVerdict, rules: Gate) -> str:
    """Compare a scope's graded runs with its bar: `pass rate 95 % meets the bar of 90 %`."""
    assert scope.bar is not None
    assert scope.rate is not None
    if scope.bar >= 1 and scope.kind != "metric":
        runs = number_of(scope.graded, "run")
        if scope.status == "fail":
            return f"{scope.failed:,} of {runs} failed, and every run must pass"
        return f"{scope.graded:,} of {runs} passed"
    rate = percent(scope.rate, scope.bar)
    if scope.kind != "metric":
        rate = f"pass rate {rate}"
    bar = f"the bar of {percent(scope.bar, scope.bar)}"
    confidence = f"{percent(scope.confidence)} confidence"
    if scope.status == "fail":
        return f"{rate} is below {bar} (at most {percent(scope.upper, scope.bar)}, {confidence})"
    if scope.status == "pass" and not rules.prove:
        return f"{rate} meets {bar}"
    if scope.rate < scope.bar:
        return f"{rate} is below {bar}, but {_doubt(scope, rules)}"
    proof = f"(at least {percent(scope.lower, scope.bar)}, {confidence})"
    if scope.status == "pass":
        return f"{rate} meets {bar} {proof}"
    return f"{rate} meets {bar}, but more runs are needed to prove it {proof}"


def _doubt(scope: ScopeVerdict, rules: Gate) -> str:
    """`120 runs are too few to tell; not blocking`, and the number that would be enough."""
    runs = f"{scope.graded:,} runs are"
    if scope.graded == 1:
        runs = "1 run is"
    outcome = "not blocking"
    if rules.on_borderline == "fail":
        outcome = "blocking, as `on_borderline` says"
    sentence = f"{runs} too few to tell; {outcome}"
    if scope.runs_needed and scope.calls_needed:
        runs = f"{number_of(scope.runs_needed, 'run')} per case"
        calls = number_of(scope.calls_needed, "call")
        sentence += f". With {runs} ({calls}), even odds of a clear verdict"
    return sentence


_MOST_BARS = 3  # that a clause names


def alike_bars_clause(
    scopes: Sequence[ScopeVerdict], status: VerdictStatus, report: SuiteReport
) -> str:
    """`tag critical is too low`, `5 more bars are missed`, `2 more bars are met`."""
    count = len(scopes)
    if status == "fail" and count <= _MOST_BARS:
        names = [scope_name(scope, report) or "the suite" for scope in scopes]
        if count == 1:
            return f"{names[0]} is too low"
        return f"{', '.join(names[:-1])} and {names[-1]} are too low"
    outcomes = {"pass": "met", "borderline": "in doubt", "fail": "missed"}
    bars = "bar is" if count == 1 else "bars are"
    return f"{count} more {bars} {outcomes[status]}"


def further_reasons_clause(count: int) -> str:
    """`and 2 more reasons`."""
    return f"and {number_of(count, 'more reason')}"


def stopped_clause(report: SuiteReport) -> str:
    """`stopped after 3 of 10 runs`; empty for a complete report.

    `3 of 10 runs ran: shard 2/3 is missing` if the reason is known.
    """
    totals = report.totals
    if totals.missing:
        ended = _ended(report)
        if not ended and (report.interrupted is None or report.was_signalled):
            return ""  # the verdict says so
        runs = f"{ended:,} of {number_of(totals.planned, 'run')}"
        if report.interrupted is None or report.was_signalled:
            return f"stopped after {runs}"
        return f"{runs} ran: {name_of(report.interrupted)}"
    if report.settled is not None:
        rounds = number_of(report.plan.rounds, "round")
        return f"stopped after {rounds}: the rest could not change the verdict"
    return ""


def _ended(report: SuiteReport) -> int:
    """Return the number of runs that ended."""
    return report.totals.planned - report.totals.missing


def cause_sentence(
    cause: Cause,
    report: SuiteReport,
    rules: Gate,
    comparison: Comparison | NoComparison | None = None,
) -> str:
    """Return the reason for a verdict that neither a bar nor a rule decided."""
    match cause:
        case "unchecked":
            return unchecked_sentence(report)
        case "not compared":
            return not_compared_sentence(comparison)
        case "no regression":
            assert isinstance(comparison, Comparison)
            return no_regression_sentence(comparison)
        case "all in quarantine":
            return "only cases in quarantine were to run"
        case "nothing graded" if report.totals.planned and not _ended(report):
            runs = number_of(report.totals.planned, "run")
            return f"interrupted before any of the {runs} finished"
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


def unknown_budget_sentence(report: SuiteReport) -> str | None:
    """`3 of 12 runs don't report their tokens, so budget.per_run was not checked`.

    Return None if every run that has a budget reports what it bounds.
    """
    records = list(report.records_of(report.gated_cells))
    unknown = [record for record in records if record.budget_unknown]
    if not unknown:
        return None
    figures = {figure for record in unknown for figure in record.budget_unknown}
    lack = "runs don't report their"
    if len(records) == 1:
        lack = "run doesn't report its"
    subject = f"{len(unknown):,} of {len(records):,} {lack} {' and '.join(sorted(figures))}"
    return f"{subject}, so budget.per_run was not checked"


def scope_sentence(scope: ScopeVerdict, report: SuiteReport, rules: Gate) -> str:
    """Compare a scope with its bar, or report that it has no graded runs."""
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
    cases = [case for case in report.plan.cases if case.quarantine is None]
    return scope.cases < len(cases)


def unchecked_sentence(report: SuiteReport) -> str:
    """`not checked: this pull request's agent was not run, for lack of secrets`."""
    which = ""
    if len(report.unchecked) < len(report.plan.variants):
        names = dict.fromkeys(name_of(variant.provider) for variant in report.unchecked)
        which = f" ({', '.join(names)})"
    if report.suite.without_secrets:
        return f"not checked: this pull request's agent{which} was not run, for lack of secrets"
    return f"not checked: your own code{which} was not run, only a recording of it was graded"


def how_to_check(report: SuiteReport) -> str:
    """Return advice on running the code that was not run."""
    if report.suite.without_secrets:
        return (
            "To check it, a maintainer who has read the change runs it with secrets: push it to a"
            " branch of this repository and open a pull request from there. For Dependabot, add the"
            " keys to its own secrets and run the job again."
        )
    return "to check it, run without `--replay`; `gate: {on_unchecked: warn}` makes this a warning"


def unchanged_sentence(report: SuiteReport) -> str:
    """Return what recorded answers prove if no model was called; else empty.

    `prompts and cases are unchanged, and no model was called`
    """
    if not report.proves_unchanged:
        return ""
    unchanged = "prompts and cases are unchanged"
    if report.errored:
        unchanged += f" but for {number_of(report.errored, 'run')}"
    return f"{unchanged}, and no model was called"


def unchanged_clause(report: SuiteReport) -> str:
    """Return `unchanged_sentence` as the beginning of a sentence on the recorded answers."""
    unchanged = unchanged_sentence(report)
    if not unchanged:
        return ""
    return f"{unchanged}; their recorded answers: "


def scope_clause(report: SuiteReport) -> str:
    """`3 of 40 cases selected, all 9 runs reused: `; empty if the whole suite ran."""
    part = part_of_suite(report)
    if not part:
        return ""
    return f"{part}: "


def part_of_suite(report: SuiteReport) -> str:
    """`3 of 40 cases selected, all 9 runs reused`; empty if the whole suite ran."""
    parts = []
    if report.suite.selection:
        parts.append(f"{report.suite.selection} selected")
    if report.all_reused:
        if report.reused == 1:
            parts.append("the only run reused")
        else:
            parts.append(f"all {number_of(report.reused, 'run')} reused")
    return ", ".join(parts)
