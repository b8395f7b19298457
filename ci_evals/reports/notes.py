"""Facts and notes: the outcome of the run, its course, and the basis of the verdict."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from math import isclose
from operator import itemgetter

from ci_evals.format import name_of, number_of, one_line, percent, seconds, usd
from ci_evals.gate.compare import Change, Comparison, NoComparison
from ci_evals.gate.rules import ungated_increases
from ci_evals.gate.run_errors import outage_sentences
from ci_evals.gate.verdict import unanswered_variants
from ci_evals.gate.wording.bars import unknown_budget_sentence
from ci_evals.gate.wording.bases import (
    SourceSentence,
    baseline_sentence,
    broken_remarks,
    lost_report_sentences,
)
from ci_evals.gate.wording.comparisons import base_rate_text, variant_sentence
from ci_evals.gate.wording.rules import dropped_sentence, gate_rule_text
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Looks, MainCost, Resumption, SuiteReport
from ci_evals.model.rules import Gate
from ci_evals.reports.summary import Note, Summary, common_luck
from ci_evals.reports.view import FEW, cell_views
from ci_evals.stats.thresholds import FURTHER_ROUNDS, OVERDISPERSION_MIN_REPORTS

SHOWN_LUCK = 1.1
"""A note appears if the base's reports vary this many times as much as independent runs."""

_REASON_CHARACTERS = 300

# The run.


def outcome(report: SuiteReport) -> str:
    """`102 of 110 runs passed (92.7 %), 8 failed`.

    If the pass rate differs from the share of passed runs, it comes last: `2 of 14 runs passed, 2
    failed, 10 errored; pass rate 50 % (mean over cases)`. Runs in quarantine are counted
    separately, unless there are no others.
    """
    totals = report.counts(report.judged_cells)
    planned = number_of(totals.planned, "run")
    if totals.planned and totals.missing == totals.planned:
        text = f"none of {planned} finished"
    else:
        text = f"{totals.passed:,} of {planned} passed"
        if rate_is_share(report):
            text += f" ({percent(totals.pass_rate)})"
        if totals.failed:
            text += f", {totals.failed:,} failed"
        if totals.errored:
            text += f", {totals.errored:,} errored"
        if totals.missing:
            text += f", {totals.missing:,} not run"
        if totals.failed and not rate_is_share(report):
            mean = "mean over cases"
            if len(report.plan.variants) > 1:
                mean = "mean over cases and variants"
            text += f"; pass rate {percent(report.pass_rate)} ({mean})"
    if apart := report.totals.planned - totals.planned:
        text += f"; {number_of(apart, 'run')} in quarantine"
    return text


def rate_is_share(report: SuiteReport) -> bool:
    """Return True if the pass rate, a mean over cells, equals the share of passed planned runs."""
    totals, rate = report.counts(report.judged_cells), report.pass_rate
    if rate is None or totals.pass_rate is None:
        return False
    return totals.graded == totals.planned and isclose(rate, totals.pass_rate)


def notes(report: SuiteReport) -> Iterator[Note]:
    """Yield notes on a run: interruption, resumption, recordings, judges, cost."""
    if reason := report.interrupted:
        if report.was_signalled:
            title = "Interrupted"
            how = "in GitHub Actions and GitLab CI, a re-run of the job"
            reason = f"{reason}; what ran is kept, and --resume goes on from it ({how})"
        elif report.totals.missing:
            title = "Incomplete"
        else:
            title = "Ended early"  # during the last runs, so none is missing
        yield Note(title, reason, brief=True)
    elif lack := unknown_budget_sentence(report):
        yield Note("Budget", lack)
    if run_id := report.suite.given_run_id:
        yield Note("Run id", one_line(run_id))
    if selection := report.suite.selection:
        yield Note("Selected", f"{selection}: the other cases were not run", brief=True)
    yield from _quarantine_notes(report)
    if report.resumption is not None:
        yield Note("Resumed", _resumption_text(report.resumption, report.total), brief=True)
        for journal in report.resumption.torn:
            yield Note(
                "Torn",
                f"the last line of {journal} was cut off in the middle, and its run does not count",
            )
    yield from _recording_notes(report)
    yield from _retry_notes(report)
    yield from _teardown_notes(report)
    yield from _judging_notes(report)
    yield from _spent(report)
    cost = report.main_cost
    if cost is not None and (cost.runs or cost.judge_calls):
        yield Note("Alongside", main_cost_sentence(cost))
    if orders := report.orders_to_judges:
        count = sum(orders.values())
        does = "seems to give orders to its judge"
        if count > 1:
            does = "seem to give orders to their judge"
        yield Note("Suspicious", f"{number_of(count, 'answer')} {does}: {_list(orders)}")


def _list(cases: Collection[str]) -> str:
    """`refund, cancel, faq, 12 more cases`."""
    names = [name_of(case) for case in islice(cases, FEW)]
    if len(cases) > FEW:
        names.append(number_of(len(cases) - FEW, "more case"))
    return ", ".join(names)


def _quarantine_notes(report: SuiteReport) -> Iterator[Note]:
    """`refund until 2026-12-31: waits for the index; the gate leaves it out`."""
    parts = []
    for case in report.plan.cases:
        if case.quarantine:
            reason = one_line(case.quarantine.reason)
            parts.append(f"{name_of(case.id)} until {case.quarantine.until}: {reason}")
    if not parts:
        return
    them = "it" if len(parts) == 1 else "them"
    if len(parts) > FEW:
        parts[FEW:] = [number_of(len(parts) - FEW, "more case")]
    parts.append(f"the gate leaves {them} out")
    yield Note("Quarantined", "; ".join(parts), brief=True)


def _resumption_text(found: Resumption, total: int) -> str:
    """`120 of 200 runs kept, 3 errored ones tried again, 77 new ones`."""
    parts = [f"{found.kept:,} of {number_of(total, 'run')} kept"]
    new = total - (found.kept + found.retried + found.changed)
    for count, word, fate in (
        (found.retried, "errored", " tried again"),
        (found.changed, "changed", " run again"),
        (new, "new", ""),
    ):
        if count == 1:
            parts.append(f"1 {word} one{fate}")
        elif count:
            parts.append(f"{count:,} {word} ones{fate}")
    return ", ".join(parts)


def _recording_notes(report: SuiteReport) -> Iterator[Note]:
    reused, recorded = report.reused, report.recorded - report.reused
    if reused:
        text = "not made again: unchanged since an earlier run; graded again"
        yield Note("Reused", f"{_share(reused, report)} {text}", brief=True)
    if recorded:
        text = "recorded, no provider was called for them"
        yield Note("Recorded", f"{_share(recorded, report)} {text}", brief=True)


def _retry_notes(report: SuiteReport) -> Iterator[Note]:
    """`2 of 6 runs were answered after up to 3 attempts: rate-limited (429)`."""
    repeated = [record for record in report.records.values() if record.attempts > 1]
    answered = [record for record in repeated if record.graded and not record.unanswered]
    retried = [record.attempts for record in answered]
    if retried:
        reasons = Counter(record.repeated_for for record in answered if record.repeated_for)
        why = ", ".join(one_line(reason) for reason, _ in reasons.most_common(FEW))
        text = f"answered after up to {max(retried):,} attempts: {why}"
        yield Note("Retried", f"{_share(len(retried), report)} {text}")


def _share(runs: int, report: SuiteReport) -> str:
    """`2 of 6 runs were`."""
    was = "was" if runs == 1 else "were"
    return f"{runs:,} of {number_of(report.total, 'run')} {was}"


def _teardown_notes(report: SuiteReport) -> Iterator[Note]:
    """`failed after 2 of 6 runs, which changes no grade: teardown of shop:open raised …`."""
    failures = []
    total = 0
    for part in (report, report.confirmation):
        if part is not None:
            total += len(part.records)
            failed = [index for index, record in part.records.items() if record.teardown_failed]
            failures += [result.teardown_error or "" for result in part.results(failed)]
    if failures:
        share = f"failed after {len(failures):,} of {number_of(total, 'run')}"
        text = f"{share}, which changes no grade: {one_line(failures[0], _REASON_CHARACTERS)}"
        yield Note("Teardown", text, brief=True)


def _judging_notes(report: SuiteReport) -> Iterator[Note]:
    judging = report.judging
    if not judging.calls:
        return
    tokens = "tokens unknown"
    if count := judging.input_tokens + judging.output_tokens:
        tokens = number_of(count, "token")
    cost = usd(judging.cost_usd, "cost unknown")
    if judging.priced and judging.unpriced:
        cost = f"{cost} for {judging.priced:,} of them"
    yield Note("Judged", f"{number_of(judging.calls, 'call')} of judges, {tokens}, {cost}")


def _spent(report: SuiteReport) -> Iterator[Note]:
    """`$0.054 in all: $0.05 for planned runs, $0.004 for judges`."""
    purposes = zip(report.spent, ("planned runs", "confirm runs", "judges"), strict=True)
    parts = [f"{usd(cost)} for {purpose}" for cost, purpose in purposes if cost]
    if len(parts) < 2:
        return
    text = f"{_total_cost(report)} in all: {', '.join(parts)}"
    if lack := _unpriced_text(report):
        text = f"{text}; {lack}"
    yield Note("Spent", text)


def main_cost_sentence(cost: MainCost) -> str:
    """`main (0123456) made 24 runs in the same minutes, $0.02`."""
    made = []
    if cost.runs:
        made.append(f"{number_of(cost.runs, 'run')} in the same minutes")
    if cost.judge_calls:
        made.append(f"{number_of(cost.judge_calls, 'call')} of judges")
    text = f"{name_of(cost.name)} made {' and '.join(made)}"
    if cost.cost_usd:
        text += f", {usd(cost.cost_usd)}"
    return text


def _total_cost(report: SuiteReport) -> str:
    """`$0.054`, or `at least $0.054` if the price of a call is not known."""
    total = usd(report.spent.total_usd)
    if any(report.unpriced):
        return f"at least {total}"
    return total


def _unpriced_text(report: SuiteReport) -> str:
    """`the price of 12 runs and 3 calls of judges is not known`; empty if all prices are."""
    runs, calls = report.unpriced
    parts = []
    if runs:
        parts.append(number_of(runs, "run"))
    if calls:
        parts.append(f"{number_of(calls, 'call')} of judges")
    if not parts:
        return ""
    return f"the price of {' and '.join(parts)} is not known"


# The comparison.


def comparison_notes(summary: Summary) -> Iterator[Note]:
    """Yield notes on the judgement: the rules, the baseline or why there is none, and the confirm
    runs.
    """
    report, comparison = summary.report, summary.comparison
    for note in summary.notes:  # on how it was judged, so nobody may miss them
        yield note._replace(brief=True)
    yield from _outage_notes(summary)
    if report.looks is not None:
        yield Note("Looks", _looks(report.looks))
    yield from _ruler_notes(summary)
    if isinstance(comparison, NoComparison):
        yield Note("Not compared", comparison.reason)
    if report.changed_settings is not None and report.changed_settings.changes:
        from ci_evals.gate.wording.settings import changed_settings_sentence

        text = changed_settings_sentence(report.changed_settings)
        yield Note("Changed here", text, brief=True)
    if not isinstance(comparison, Comparison):
        return
    from ci_evals.reports.drift import drift_notes

    if comparison.compared or not comparison.broken:
        yield _comparison_note(comparison, report.started_at)
    yield from _lack_notes(summary)
    if text := _luck_sentence(summary, comparison):
        yield Note("Common luck", text)
    for text in broken_remarks(comparison):
        yield Note("Not compared", text, brief=True)
    for text in lost_report_sentences(comparison.baseline):
        yield Note("Left out", text, brief=True)
    changed = list(changed_rules(summary, comparison))
    if changed and report.changed_settings is None:  # else, they are among the settings
        yield Note("Gate changed", "; ".join(changed), brief=True)
    yield from drift_notes(summary)
    yield from _regrading_notes(comparison)
    yield from _confirmation_notes(report, comparison, summary.gate)
    for variant in comparison.variants:
        if variant.now is not None and not variant.fell and not variant.better:
            yield Note("Main now", variant_sentence(comparison, variant), brief=True)
    for text in ungated_increases(report, comparison, summary.gate or Gate()):
        yield Note("Latency", text, brief=True)


def lack_of_history(comparison: Comparison | None) -> str:
    """`too little history to name a case: from the third report of main on`; empty if one can be
    named, or if nothing looks worse.
    """
    if comparison is None or not comparison.counts.get("suspect"):
        return ""
    from ci_evals.gate.power import no_name_yet, no_name_yet_sentence

    found = no_name_yet(comparison)
    if found is None:
        return ""
    return no_name_yet_sentence(comparison, found)


def _lack_notes(summary: Summary) -> Iterator[Note]:
    """Yield a note if no case can be named yet, unless the headline of a pass says so."""
    text = lack_of_history(summary.compared)
    if text and summary.verdict.status != "pass":
        yield Note("Names", text, brief=True)


def _ruler_notes(summary: Summary) -> Iterator[Note]:
    """Yield notes on what main's checks have graded, and why not more."""
    report, ruler = summary.report, summary.report.ruler
    if ruler is None:
        return
    from ci_evals.gate.dropped_cases import dropped_cases
    from ci_evals.gate.edited_checks import edited_checks

    rules = summary.gate or Gate()
    edited = edited_checks(report, summary.compared, rules)
    if edited is not None:
        graded = edited.graded_twice
        answers = f"{graded.mains:,} of {number_of(graded.answers, 'answer')}"
        text = f"of {name_of(ruler.main)} pass {answers}, whose checks this change has edited"
        yield Note("Checks", f"{text}; its own, {graded.own:,}")
    if ruler.problem:
        yield Note("Checks", f"not graded by main's: {one_line(ruler.problem, 300)}", brief=True)
    if ruler.dropped or ruler.dropped_unasked:
        dropped = dropped_cases(ruler, summary.compared, rules.alpha)
        yield Note("Dropped", dropped_sentence(ruler.main, dropped))


def _outage_notes(summary: Summary) -> Iterator[Note]:
    """Yield a note for each outage that ended planned runs, except a single one that is the reason
    for the verdict.
    """
    report = summary.report
    if not report.errored:
        return
    sentences = outage_sentences(report)
    if len(sentences) == 1 and summary.verdict.leading in ("all errored", "too many errored"):
        return
    for sentence in sentences:
        yield Note("Outage", sentence, brief=True)


def _comparison_note(comparison: Comparison, started_at: float) -> Note:
    """`with main at 0123456, 3 hours older, and 5 reports before it (up to 30 runs per case)`."""
    sentence = baseline_sentence(comparison, started_at)
    if not comparison.compared:
        return Note("Not compared", str(sentence))
    source = comparison.baseline.label
    if sentence.commit:
        source += f" at {sentence.commit}"
    return Note("Compared", f"with {source}{sentence.rest}")


def _luck_sentence(summary: Summary, comparison: Comparison) -> str:
    """`reports of main vary 1.8 times as much as independent runs, so bounds are wider`.

    Empty if they vary hardly more.
    """
    known = common_luck(summary)
    if not known:
        return ""
    variant, most = max(known.items(), key=itemgetter(1))
    if most < SHOWN_LUCK:
        return ""
    whose = f"reports of {comparison.baseline.label}"
    if comparison.several_variants:
        whose += f" on {name_of(variant)}"
    return f"{whose} vary {most:.1f} times as much as independent runs, so bounds are wider"


def _looks(looks: Looks) -> str:
    rounds = number_of(looks.rounds[-1], "round")
    if looks.taken == len(looks.rounds):
        return f"all {rounds} were needed"
    last = looks.rounds[looks.taken - 1] if looks.taken else 0
    return f"stopped after {last} of up to {rounds}"


def _regrading_notes(comparison: Comparison) -> Iterator[Note]:
    cases = dict.fromkeys(cell.case for cell in comparison.cells if cell.regraded)
    if not cases:
        return
    than = f"other graders than on {comparison.baseline.label}"
    text = f"{number_of(len(cases), 'case')} have {than}, so they were not compared"
    if len(cases) == 1:
        text = f"1 case has {than}, so it was not compared"
    yield Note("Graders changed", f"{text}: {_list(cases)}", brief=True)


def changed_rules(summary: Summary, comparison: Comparison) -> Iterator[str]:
    """Yield each rule that differs from the baseline's: `min_pass_rate is 0.8 here and 0.9 on
    main`.
    """
    base = comparison.baseline
    if base.gate is not None:
        there, here = base.gate.rules, (summary.gate or Gate()).rules
        for name in {**there, **here}:
            mine = gate_rule_text(here.get(name))
            theirs = gate_rule_text(there.get(name))
            if mine != theirs:
                yield f"{name_of(name)} is {mine} here and {theirs} on {base.label}"
    yield from _changed_cases(summary, comparison)


def _changed_cases(summary: Summary, comparison: Comparison) -> Iterator[str]:
    """Yield the cases that are in quarantine only here. If the gate itself is the same, also yield
    the cases whose bar differs from the baseline's.
    """
    base = comparison.baseline
    same_gate = base.gate == (summary.gate or Gate())
    bars: dict[str, str] = {}
    hidden: dict[str, None] = {}
    for cell in cell_views(summary):
        known = comparison.base_of(cell.key)
        if known is None or cell.found is None:
            continue
        if cell.case.quarantine and not known.quarantined:
            hidden[cell.case.id] = None
        elif same_gate and known.bar not in (None, cell.bar):
            text = f"{percent(cell.bar)} here and {percent(known.bar)} on {base.label}"
            bars.setdefault(cell.case.id, text)
    for case, text in islice(bars.items(), FEW):
        yield f"the bar of {name_of(case)} is {text}"
    if len(bars) > FEW:
        yield f"and {number_of(len(bars) - FEW, 'more bar')}"
    if hidden:
        yield f"in quarantine only here: {_list(hidden)}"


def _confirmation_notes(
    report: SuiteReport, comparison: Comparison, gate: Gate | None
) -> Iterator[Note]:
    """`2 cells ran again, 3 further rounds of agent, 20 more runs: 1 regressed, 1 not worse`.

    For a variant with further rounds, only its suspects count as cells that ran again: those with
    more runs than the rounds have.
    """
    confirmation = report.confirmation
    if confirmation is None:
        suspects = comparison.counts.get("suspect", 0)
        if suspects and comparison.confirm_runs:
            why = "the run had ended"
            if report.settled:
                why = "the verdict was settled"
            elif unanswered_variants(report, gate):
                why = "too many runs errored"
            text = f"{number_of(suspects, 'suspect')} did not run again: {why}"
            yield Note("Not confirmed", text)
        return
    doubted = _variants_in_doubt(confirmation, comparison)
    confirmed = []
    for key, runs_again in zip(confirmation.plan.keys, confirmation.plan.counts, strict=True):
        if not runs_again:
            continue
        if runs_again > FURTHER_ROUNDS or Variant(*key[1:]) not in doubted:
            confirmed.append(key)
    parts = []
    if confirmed:
        parts.append(f"{number_of(len(confirmed), 'cell')} ran again")
    parts += _further_rounds_clauses(doubted, comparison)
    totals, figures = confirmation.totals, confirmation.figures()
    runs = number_of(totals.planned, "more run")
    if totals.missing:
        runs = f"{totals.planned - totals.missing:,} of {runs}"
    parts.append(runs)
    if figures.cost_usd is not None:
        cost = usd(figures.cost_usd)
        if any(record.lacks_price for record in confirmation.records.values()):
            cost = f"{cost} for {figures.priced_runs:,} of them"
        parts.append(cost)
    lost = [
        result.error
        for result in confirmation.results(confirmation.indices("errored"))
        if result.error
    ]
    if lost:
        parts.append(f"{len(lost):,} errored")
    ended = list(_confirmed_clauses(confirmed, comparison))
    outages = dict.fromkeys(error.sentence for error in lost if error.kind == "outage")
    text = ", ".join(parts)
    came_to = [clause for clause in (", ".join(ended), *outages) if clause]
    if came_to:
        text += f": {'; '.join(came_to)}"
    yield Note("Confirm runs" if confirmed else "In doubt", text)


def _confirmed_clauses(confirmed: Iterable[CellKey], comparison: Comparison) -> Iterator[str]:
    """Yield `1 regressed`, `2 probably worse`, `3 can't tell`, `4 not worse`."""
    words: dict[Change, str] = {
        "worse": "regressed",
        "probably worse": "probably worse",
        "can't tell": "can't tell",
    }
    counts = dict.fromkeys([*words.values(), "not worse"], 0)
    for key in confirmed:
        found = comparison.by_key.get(key)
        word = "not worse"
        if found is not None:
            word = words.get(comparison.change(found), word)
        counts[word] += 1
    for word, count in counts.items():
        if count:
            yield f"{count:,} {word}"


def _variants_in_doubt(confirmation: SuiteReport, comparison: Comparison) -> list[Variant]:
    """Return the variants that got further rounds: all their compared cells were to run again.

    So were those of a variant all of whose cells are suspects. If some are named, it needs no
    further rounds.
    """
    planned = dict(zip(confirmation.plan.keys, confirmation.plan.counts, strict=True))
    doubted = []
    for variant in comparison.variants:
        if comparison.named_cases(variant.variant) and not variant.further_rounds:
            continue
        runs = [
            planned.get(cell.key, 0)
            for cell in comparison.cells
            if cell.variant == variant.variant and cell.p is not None
        ]
        if min(runs, default=0) >= FURTHER_ROUNDS:
            doubted.append(variant.variant)
    return doubted


def _further_rounds_clauses(doubted: Sequence[Variant], comparison: Comparison) -> Iterator[str]:
    """Yield `3 further rounds of agent`, and the same of variants whose rounds are incomplete."""
    counted = {each.variant for each in comparison.variants if each.further_rounds}
    complete = [variant for variant in doubted if variant in counted]
    incomplete = [variant for variant in doubted if variant not in counted]
    if complete:
        yield _further_rounds_clause(complete)
    if incomplete:
        yield f"{_further_rounds_clause(incomplete)} (incomplete, so not counted)"


def _further_rounds_clause(variants: Sequence[Variant]) -> str:
    """`3 further rounds of agent`, or `3 further rounds of 6 variants`."""
    whose = name_of(variants[0])
    if len(variants) > 1:
        whose = number_of(len(variants), "variant")
    return f"{FURTHER_ROUNDS} further rounds of {whose}"


# In short.


def facts(summary: Summary) -> Iterator[str]:
    """Yield facts in a few words each: `main 97 %`, `+24 to be sure (5 on main)`, `48 s`."""
    report, comparison = summary.report, summary.compared
    if comparison and len(comparison.variants) == 1 and not comparison.several_variants:
        base = comparison.base_rate(comparison.cells)
        if base is not None:
            yield base_rate_text(comparison, base, comparison.variants[0].head_rate)
    yield from repeats_made(report)
    if report.spent.total_usd is not None:
        cost, lack = _total_cost(report), _unpriced_text(report)
        if report.confirmation is not None and report.spent.confirming:
            cost += " in all"
        if lack:
            cost += f" ({lack})"
        yield cost
    yield seconds(report.duration_s)


def repeats_made(report: SuiteReport) -> Iterator[str]:
    """Yield `+24 to be sure (5 on main), $0.02` if there were runs beyond the plan.

    The cost is that of the runs here; what main has cost has a note of its own.
    """
    if report.confirmation is None:
        return
    totals, cost = report.confirmation.totals, report.spent.confirming
    here, on_main = totals.planned - totals.missing, 0
    if report.main_now is not None:
        on_main = sum(len(runs) for runs in report.main_now.runs.values())
    text = f"+{here + on_main:,} to be sure"
    if on_main:
        text += f" ({on_main:,} on main)"
    if cost:
        text += f", {usd(cost)}"
    yield text


def basis(summary: Summary) -> Iterator[SourceSentence | str]:
    """Yield the basis of the verdict: the baseline, the size of the plan, the meaning of bounds."""
    report, comparison = summary.report, summary.comparison
    matrix = number_of(len(report.plan.cases), "case")
    if len(report.plan.variants) > 1:
        matrix = f"{matrix} × {number_of(len(report.plan.variants), 'variant')}"
    size = f"{matrix}, {number_of(report.total, 'run')}"
    if isinstance(comparison, Comparison):
        from ci_evals.gate.power import detectable_sentence

        yield baseline_sentence(comparison, report.started_at)
        yield detectable_sentence(comparison) or size
        if text := _luck_sentence(summary, comparison):
            yield text
    elif isinstance(comparison, NoComparison):
        yield comparison.sentence
        yield size
    else:
        yield "compared with nothing"
        yield size
    yield ranges_fact(summary)


def ranges_note(summary: Summary) -> Note:
    """`each end is a 95 % confidence bound; cases are taken as independent: fewer than 5 reports of
    main`.
    """
    fact = _confidence_fact(summary)
    comparison = summary.compared
    if comparison is not None:
        known = common_luck(summary)
        if any(each.cells > 1 and each.variant not in known for each in comparison.variants):
            few = f"fewer than {OVERDISPERSION_MIN_REPORTS} reports of {comparison.baseline.label}"
            fact += f"; cases are taken as independent: {few}"
    return Note("Ranges", f"each end is {fact}")


def ranges_fact(summary: Summary) -> str:
    """`each end of a range is a 95 % confidence bound`."""
    return f"each end of a range is {_confidence_fact(summary)}"


def _confidence_fact(summary: Summary) -> str:
    """`a 95 % confidence bound`, with the higher confidence of bars that share the error."""
    confidence = (summary.gate or Gate()).confidence
    fact = f"a {percent(confidence)} confidence bound"
    shared = max((scope.confidence for scope in summary.verdict.scopes), default=confidence)
    if shared > confidence:
        fact = f"{fact}, of the gate up to {percent(shared)}"
    return fact
