"""Notes beside the findings: the course of the run, its cost, and the evidence that the verdict
rests on.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from itertools import islice
from math import isclose

from ci_evals.format import name_of, number_of, one_line, percent, seconds, usd
from ci_evals.gate.compare import Comparison, NoComparison, beyond_naming
from ci_evals.gate.power import detectable_sentence
from ci_evals.gate.rules import ungated_increases
from ci_evals.gate.wording import (
    SourceSentence,
    baseline_sentence,
    few_runs_sentence,
    lost_report_sentences,
)
from ci_evals.model.report import Resumption, SuiteReport
from ci_evals.model.rules import Gate, TagRule
from ci_evals.reports.cells import judged_cells
from ci_evals.reports.summary import Note, Summary

_MOST_CASES = 5


def outcome(report: SuiteReport) -> str:
    """`102 of 110 runs passed (92.7 %), 8 failed`.

    Where runs are missing from the rate, or it is not the share of these runs, it says so:
    `2 of 4 graded runs passed, pass rate 50.0 % (mean over cases), 2 failed, 10 errored`.
    """
    totals, rate = report.totals, report.pass_rate
    share, complete = totals.pass_rate, totals.graded == totals.planned
    if share is None or rate is None:
        parts = ["no run was graded"]
    else:
        text = f"{totals.passed:,} of {number_of(totals.graded, 'run' if complete else 'graded run')} passed"
        mean = (
            "mean over cases" if len(report.plan.variants) == 1 else "mean over cases and variants"
        )
        plain = complete and isclose(rate, share)
        parts = [
            f"{text} ({percent(share)})" if plain else f"{text}, pass rate {percent(rate)} ({mean})"
        ]
    rest = {"failed": totals.failed, "errored": totals.errored, "not run": totals.missing}
    return ", ".join(parts + [f"{number:,} {word}" for word, number in rest.items() if number])


def notes(report: SuiteReport) -> Iterator[Note]:
    """Yield notes on a run: interruption, resumption, recordings, judges, cost."""
    if reason := report.interrupted:
        way_on = "; what ran is kept, and --resume goes on from it (in GitHub Actions, a re-run of the job)"
        yield Note("Interrupted", reason + (way_on if reason.startswith("SIG") else ""), brief=True)
    if run_id := report.suite.given_run_id:
        yield Note("Run id", one_line(run_id))
    if report.suite.selection:
        yield Note(
            "Selected", f"{report.suite.selection}: the other cases were not run", brief=True
        )
    yield from _quarantined_cases(report)
    if report.resumption is not None:
        yield Note("Resumed", _resumed_runs(report.resumption, report.total), brief=True)
        for journal in report.resumption.torn:
            yield Note(
                "Torn",
                f"the last line of {journal} was cut off in the middle, and its run does not count",
            )
    yield from _recorded_runs(report)
    if (judging := report.judging).calls:
        count, cost = (
            judging.input_tokens + judging.output_tokens,
            usd(judging.cost_usd, "cost unknown"),
        )
        tokens = number_of(count, "token") if count else "tokens unknown"
        of = f" for {judging.priced:,} of them" if judging.priced and judging.unpriced else ""
        yield Note("Judged", f"{number_of(judging.calls, 'call')} of judges, {tokens}, {cost}{of}")
    purposes = zip(report.spent, ("planned runs", "confirm runs", "judges"), strict=True)
    parts = [f"{usd(cost)} for {purpose}" for cost, purpose in purposes if cost]
    if len(parts) > 1:
        lack = _unpriced_calls(report)
        yield Note(
            "Spent", f"{_total(report)} in all: {', '.join(parts)}{f'; {lack}' if lack else ''}"
        )
    if orders := report.orders_to_judges:
        count = sum(orders.values())
        does = (
            "seems to give orders to its judge"
            if count == 1
            else "seem to give orders to their judge"
        )
        yield Note("Suspicious", f"{number_of(count, 'answer')} {does}: {_case_list(orders)}")


def _case_list(cases: Collection[str]) -> str:
    """`refund, cancel, 12 more cases`."""
    names = [name_of(case) for case in islice(cases, _MOST_CASES)]
    more = len(cases) - len(names)
    return ", ".join([*names, number_of(more, "more case")] if more else names)


def _quarantined_cases(report: SuiteReport) -> Iterator[Note]:
    """`refund until 2026-12-31: waits for the index; the gate leaves it out`."""
    marked = [(case.id, case.quarantine) for case in report.plan.cases if case.quarantine]
    shown = [
        f"{name_of(id_)} until {each.until}: {one_line(each.reason)}"
        for id_, each in marked[:_MOST_CASES]
    ]
    shown += [number_of(more, "more case")] if (more := len(marked) - len(shown)) else []
    if shown:
        yield Note(
            "Quarantined",
            f"{'; '.join(shown)}; the gate leaves {'it' if len(marked) == 1 else 'them'} out",
            brief=True,
        )


def _recorded_runs(report: SuiteReport) -> Iterator[Note]:
    of = number_of(report.total, "run")
    if report.reused:
        why = "unchanged since an earlier run; graded again"
        yield Note(
            "Reused",
            f"{report.reused:,} of {of} {_was(report.reused)} not made again: {why}",
            brief=True,
        )
    if recorded := report.recorded - report.reused:
        yield Note(
            "Recorded",
            f"{recorded:,} of {of} {_was(recorded)} recorded, no provider was called for them",
            brief=True,
        )


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _resumed_runs(found: Resumption, total: int) -> str:
    """`120 of 200 runs kept, 3 errored ones tried again, 77 new ones`."""
    new = total - (found.kept + found.retried + found.changed)
    others = (
        (found.retried, "errored", " tried again"),
        (found.changed, "changed", " run anew"),
        (new, "new", ""),
    )
    parts = [
        f"{count:,} {word} {'one' if count == 1 else 'ones'}{fate}"
        for count, word, fate in others
        if count
    ]
    return ", ".join([f"{found.kept:,} of {number_of(total, 'run')} kept", *parts])


def comparison_notes(summary: Summary) -> Iterator[Note]:
    """Yield notes on the judgement: by whose rules, beside which report or why beside none, and the
    confirm runs.
    """
    report, comparison = summary.report, summary.comparison
    for note in summary.notes:  # on how it was judged, so nobody may miss them
        yield note._replace(brief=True)
    if looks := report.looks:
        most, last = looks.rounds[-1], looks.rounds[looks.taken - 1] if looks.taken else 0
        rounds = number_of(most, "round")
        yield Note(
            "Looks",
            f"stopped after {last} of up to {rounds}"
            if last < most
            else f"all {rounds} were needed",
        )
    if isinstance(comparison, NoComparison):
        yield Note("Not compared", comparison.reason)
    if not isinstance(comparison, Comparison):
        return
    sentence = str(baseline_sentence(comparison, report.started_at))
    yield Note("Compared", sentence.removeprefix("compared "))
    for text in lost_report_sentences(comparison.baseline):
        yield Note("Left out", text, brief=True)
    yield from _changed_judgement(summary, comparison)
    if report.confirmation is not None:
        yield Note("Confirmed", _confirmed_suspects(report.confirmation, comparison))
    elif comparison.confirm_runs and (unsure := comparison.counts.get("suspect", 0)):
        why = "the verdict was settled" if report.settled else "the run had ended"
        yield Note("Not confirmed", f"{number_of(unsure, 'suspect')} did not run again: {why}")
    for text in ungated_increases(report, comparison, summary.gate or Gate()):
        yield Note("Latency", text, brief=True)
    if beyond := beyond_naming(comparison):
        yield Note("Not named", few_runs_sentence(comparison, beyond), brief=True)


def _changed_judgement(summary: Summary, comparison: Comparison) -> Iterator[Note]:
    """Yield notes on what is judged otherwise than on the baseline, which its own change may have
    brought about.
    """
    if changed := [*_changed_rules(summary, comparison)]:
        yield Note("Gate changed", "; ".join(changed), brief=True)
    if regraded := dict.fromkeys(cell.case for cell in comparison.cells if cell.regraded):
        one, base = len(regraded) == 1, comparison.baseline.label
        have, they = ("has", "it was") if one else ("have", "they were")
        judged = f"{number_of(len(regraded), 'case')} {have} other graders than on {base}, so {they} not compared"
        yield Note("Graders changed", f"{judged}: {_case_list(regraded)}", brief=True)


def _changed_rules(summary: Summary, comparison: Comparison) -> Iterator[str]:
    """Yield each rule that is not that of the baseline: `min_pass_rate is 0.8 here and 0.9 on
    main`.

    The bars of single cases are told where the gate itself is the same.
    """
    base, before, now = comparison.baseline.label, comparison.baseline.gate, summary.gate or Gate()
    there = {} if before is None else _rules_of(before)
    here = {} if before is None else _rules_of(now)
    for name in [name for name in {**there, **here} if there.get(name) != here.get(name)]:
        yield f"{name_of(name)} is {here.get(name, 'not set')} here and {there.get(name, 'not set')} on {base}"
    bars: dict[str, str] = {}
    hidden: dict[str, None] = {}
    for cell in judged_cells(summary):
        known = comparison.base_of(cell.key) if cell.found else None
        if known and cell.case.quarantine and not known.quarantined:
            hidden[cell.case.id] = None
        elif known and before == now and known.bar not in (None, cell.bar):
            bars.setdefault(
                cell.case.id, f"{percent(cell.bar)} here and {percent(known.bar)} on {base}"
            )
    yield from (
        f"the bar of {name_of(case)} is {text}" for case, text in islice(bars.items(), _MOST_CASES)
    )
    if (more := len(bars) - _MOST_CASES) > 0:
        yield f"and {number_of(more, 'more bar')}"
    if hidden:
        yield f"in quarantine only here: {_case_list(hidden)}"


def _rules_of(gate: Gate) -> Mapping[str, object]:
    """Return the rules of a gate as they are shown, by the keys of the suite; those that are not
    set are left out.
    """
    shown: dict[str, object] = {}
    for field in fields(gate):
        value = getattr(gate, field.name)
        if isinstance(value, Mapping):
            shown |= {f"{field.name}.{key}": _rule(each) for key, each in value.items()}
        elif value is not None:
            shown[field.name] = _rule(value)
    return shown


def _rule(value: object) -> str:
    """`0.9`, `true`, `warn`, `0.9, critical`."""
    if isinstance(value, TagRule):
        parts = [f"{value.min_pass_rate:g}"] if value.min_pass_rate is not None else []
        return ", ".join([*parts, *(["critical"] if value.critical else [])]) or "not critical"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def bounds_fact(gate: Gate | None) -> str:
    """`one-sided, each 95 % sure`."""
    return f"one-sided, each {percent((gate or Gate()).confidence)} sure"


def _confirmed_suspects(confirmation: SuiteReport, comparison: Comparison) -> str:
    """`3 suspects ran again, 21 more runs, $0.02: 1 regressed, 2 within noise`."""
    keys = [confirmation.plan.key(cell.cell) for cell in confirmation.cells]
    regressed = sum(
        comparison.by_key[key].kind == "regressed" for key in keys if key in comparison.by_key
    )
    totals, figures = confirmation.totals, confirmation.figures()
    of = f"{totals.planned - totals.missing:,} of " if totals.missing else ""
    parts = [
        f"{number_of(len(keys), 'suspect')} ran again",
        f"{of}{number_of(totals.planned, 'more run')}",
    ]
    if figures.cost_usd is not None:
        lacking = any(record.lacks_price for record in confirmation.records.values())
        parts.append(
            f"{usd(figures.cost_usd)}{f' for {figures.priced_runs:,} of them' if lacking else ''}"
        )
    lost = [
        result.error
        for result in confirmation.results(confirmation.indices("errored"))
        if result.error
    ]
    parts += [f"{len(lost):,} errored"] if lost else []
    ended = ((regressed, "regressed"), (len(keys) - regressed, "within noise"))
    outages = dict.fromkeys(error.message for error in lost if error.kind == "outage")
    found = ", ".join(f"{count:,} {word}" for count, word in ended if count)
    return f"{', '.join(parts)}: {'; '.join([found, *outages])}"


def facts(summary: Summary) -> Iterator[str]:
    """Yield what the run came to, in a few words each: `91 of 100 runs passed (91 %)`, `main 97 %`,
    `$0.15`, `48 s`.
    """
    report, comparison = summary.report, summary.compared
    yield outcome(report)
    if comparison and len(comparison.variants) == 1:
        (variant,) = comparison.variants
        yield f"{comparison.baseline.label.removeprefix('the ')} {percent(variant.base_rate, variant.head_rate)}"
    if report.confirmation is not None:
        yield f"{number_of(report.confirmation.total, 'repeat')} to be sure"
    if report.spent.total_usd is not None:
        lack = _unpriced_calls(report)
        yield f"{_total(report)}{f' ({lack})' if lack else ''}"
    yield seconds(report.duration_s)


def basis(summary: Summary) -> Iterator[SourceSentence | str]:
    """Yield the basis of the verdict: the baseline, the size of the plan, what bounds mean."""
    report, comparison = summary.report, summary.comparison
    plan = [number_of(len(report.plan.cases), "case")]
    plan += (
        [number_of(len(report.plan.variants), "variant")] if len(report.plan.variants) > 1 else []
    )
    size = f"{' × '.join(plan)}, {number_of(report.total, 'run')}"
    if isinstance(comparison, Comparison):
        yield baseline_sentence(comparison, report.started_at)
        yield detectable_sentence(comparison) or size
    else:
        yield comparison.reason if isinstance(comparison, NoComparison) else "compared with nothing"
        yield size
    yield f"bounds are {bounds_fact(summary.gate)}"


def _total(report: SuiteReport) -> str:
    """`$0.054`, or `at least $0.054` where the price of a call is not known."""
    return f"{'at least ' if any(report.unpriced) else ''}{usd(report.spent.total_usd)}"


def _unpriced_calls(report: SuiteReport) -> str:
    """`the price of 12 runs and 3 calls of judges is not known`; nothing if all prices are."""
    runs, calls = report.unpriced
    parts = [number_of(runs, "run")] if runs else []
    parts += [f"{number_of(calls, 'call')} of judges"] if calls else []
    return f"the price of {' and '.join(parts)} is not known" if parts else ""
