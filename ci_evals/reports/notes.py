"""Notes beside the findings: how the run went, what it cost, and what the verdict rests on."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from ci_evals.format import interval, name_of, number_of, usd
from ci_evals.gate.compare import Comparison, NoComparison
from ci_evals.gate.power import detectable_sentence
from ci_evals.gate.verdict import population_bounds
from ci_evals.gate.wording import baseline_sentence
from ci_evals.model.report import Looks, Report, Spent, Unpriced
from ci_evals.model.result import Judging
from ci_evals.reports.summary import Summary

_MOST_CASES = 5


class Note(NamedTuple):
    """A label and one sentence: `Resumed`, `120 of 200 runs kept, 80 new ones`."""

    label: str
    text: str

    @property
    def brief(self) -> bool:
        """True if it belongs even where there is little room."""
        return self.label in ("Interrupted", "Resumed", "Recorded")


def notes(report: Report) -> Iterator[Note]:
    """Yield notes on a run: interruption, resumption, recordings, judges, cost."""
    if report.interrupted:
        yield Note("Interrupted", _interrupted(report.interrupted))
    if report.resumption is not None:
        yield Note("Resumed", _resumed(report))
        for journal in report.resumption.torn:
            yield Note("Torn", f"the last line of {journal} was cut off in the middle, and its run does not count")
    if report.recorded:
        of = number_of(report.total, "run")
        yield Note("Recorded", f"{report.recorded:,} of {of} were recorded, no provider was called for them")
    if report.judging.calls:
        yield Note("Judged", _judged_notes(report.judging))
    if report.spent.several:
        yield Note("Spent", _spent(report))
    if report.orders_to_judges:
        yield Note("Suspicious", _orders(report.orders_to_judges))


def _interrupted(reason: str) -> str:
    """Return the reason that a run ended early; for a signal, with the way to continue."""
    if reason not in ("SIGINT", "SIGTERM"):
        return reason
    return f"{reason}; what ran is kept, and --resume goes on from it (in GitHub Actions, a re-run of the job)"


def _judged_notes(judging: Judging) -> str:
    """`120 calls of judges, 45,000 tokens, $0.034`."""
    tokens = judging.input_tokens + judging.output_tokens
    cost = usd(judging.known_cost_usd, "cost unknown")
    of = f" for {judging.priced:,} of them" if judging.priced and judging.unpriced else ""
    return f"{number_of(judging.calls, 'call')} of judges, {number_of(tokens, 'token')}, {cost}{of}"


def _spent(report: Report) -> str:
    """`$0.054 in all: $0.03 for planned runs, $0.02 for confirm runs, $0.004 for judges`."""
    parts = zip(report.spent, ("planned runs", "confirm runs", "judges"), strict=True)
    told = ", ".join(f"{usd(cost)} for {of}" for cost, of in parts if cost)
    missing = _missing(report.unpriced)
    return f"{_total(report.spent, missing)} in all: {told}{f'; {missing}' if missing else ''}"


def total_cost(report: Report) -> str | None:
    """`$0.054`, `at least $0.054 (the price of 12 runs is not known)`, or None where no price is known."""
    if report.spent.total_usd is None:
        return None
    missing = _missing(report.unpriced)
    return f"{_total(report.spent, missing)}{f' ({missing})' if missing else ''}"


def _total(spent: Spent, missing: str) -> str:
    return f"{'at least ' if missing else ''}{usd(spent.total_usd)}"


def _missing(unpriced: Unpriced) -> str:
    """`the price of 12 runs and 3 calls of judges is not known`; nothing if all prices are."""
    calls = f"{number_of(unpriced.judge_calls, 'call')} of judges" if unpriced.judge_calls else ""
    of = " and ".join(filter(None, [number_of(unpriced.runs, "run") if unpriced.runs else "", calls]))
    return f"the price of {of} is not known" if of else ""


def _orders(runs: Mapping[str, int]) -> str:
    """`2 answers seem to give orders to their judge: capital`."""
    count = sum(runs.values())
    does = "seems to give orders to its judge" if count == 1 else "seem to give orders to their judge"
    cases = [name_of(case) for case in islice(runs, _MOST_CASES)]
    cases += [number_of(more, "more case")] if (more := len(runs) - len(cases)) else []
    return f"{number_of(count, 'answer')} {does}: {', '.join(cases)}"


def expected_on_new_cases(summary: Summary) -> str | None:
    """`Expected on similar new cases: 79.3 to 98.6 %`, where there are cases enough to tell."""
    bounds = population_bounds(summary.report, summary.gate)
    return f"Expected on similar new cases: {interval(bounds.lower, bounds.upper)}" if bounds else None


def comparison_notes(summary: Summary) -> Iterator[Note]:
    """Yield notes on the comparison: with which report, or why with none, and the confirm runs."""
    report, comparison = summary.report, summary.comparison
    if report.looks is not None:
        yield Note("Looks", _looks(report.looks))
    if isinstance(comparison, NoComparison):
        yield Note("Not compared", comparison.reason)
    if not isinstance(comparison, Comparison):
        return
    sentence = baseline_sentence(comparison, report.started_at)
    yield Note("Compared", sentence.removeprefix("compared "))
    if report.confirmation is not None:
        yield Note("Confirmed", _confirmed(report.confirmation, comparison))
    elif comparison.confirm_runs and (unsure := comparison.counts.get("suspect", 0)):
        why = "the verdict was settled" if report.settled else "the run had ended"
        yield Note("Not confirmed", f"{number_of(unsure, 'suspect')} did not run again: {why}")


def new_runs(report: Report) -> int:
    """Count the runs of a resumed report that no earlier journal had a result of."""
    found = report.resumption
    return report.total - (found.kept + found.retried + found.changed if found else 0)


def _resumed(report: Report) -> str:
    found = report.resumption
    assert found is not None
    parts = [f"{found.kept:,} of {number_of(report.total, 'run')} kept"]
    parts += [f"{found.retried:,} errored {_ones(found.retried)} tried again"] if found.retried else []
    parts += [f"{found.changed:,} changed {_ones(found.changed)} run anew"] if found.changed else []
    new = new_runs(report)
    parts += [f"{new:,} new {_ones(new)}"] if new else []
    return ", ".join(parts)


def _looks(looks: Looks) -> str:
    most, last = looks.rounds[-1], looks.rounds[looks.taken - 1] if looks.taken else 0
    if last < most:
        return f"stopped after {last} of up to {number_of(most, 'round')}"
    return f"all {number_of(most, 'round')} were needed"


def _confirmed(confirmation: Report, comparison: Comparison) -> str:
    """`3 suspects ran again, 21 more runs, $0.02: 1 regressed, 2 within noise`."""
    keys = [confirmation.plan.key(cell.cell) for cell in confirmation.cells]
    regressed = sum(comparison.by_key[key].kind == "regressed" for key in keys if key in comparison.by_key)
    totals, figures = confirmation.totals, confirmation.figures()
    runs = number_of(totals.planned - totals.missing, "more run")
    done = f"{totals.planned - totals.missing:,} of {number_of(totals.planned, 'more run')}" if totals.missing else runs
    for_some = f" for {figures.priced_runs:,} of them" if confirmation.unknown_prices else ""
    cost = [f"{usd(figures.cost_usd)}{for_some}"] if figures.priced_runs else []
    ended = [f"{count:,} {word}" for count, word in ((regressed, "regressed"), (len(keys) - regressed, "within noise"))]
    told = ", ".join(part for part in ended if not part.startswith("0 "))
    did = ", ".join([f"{number_of(len(keys), 'suspect')} ran again", done, *cost])
    return f"{did}: {told}"


def _ones(count: int) -> str:
    return "one" if count == 1 else "ones"


def basis(summary: Summary) -> Iterator[str]:
    """Yield the basis of the verdict: the baseline, the size of the plan, the cost."""
    report, comparison = summary.report, summary.comparison
    plan = [number_of(len(report.plan.cases), "case")]
    plan += [number_of(len(report.plan.variants), "variant")] if len(report.plan.variants) > 1 else []
    size = f"{' × '.join(plan)}, {number_of(report.total, 'run')}"
    if isinstance(comparison, Comparison):
        yield baseline_sentence(comparison, report.started_at)
        yield detectable_sentence(comparison) or size
    else:
        yield comparison.reason if isinstance(comparison, NoComparison) else "compared with nothing"
        yield size
    if (cost := total_cost(report)) is not None:
        yield cost
