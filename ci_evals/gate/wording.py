"""The sentences of a verdict: on cells, variants, the baseline, rules and bars."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ci_evals.format import RAREST, name_of, number_of, once_in, percent, seconds
from ci_evals.gate.bars import Cause, ScopeVerdict, VerdictStatus
from ci_evals.gate.baseline import (
    FURTHER_ROUNDS,
    Baseline,
    BrokenVariant,
    LostReport,
    PoolStep,
    ReportRef,
    add_tallies,
)
from ci_evals.gate.cases import CaseComparison
from ci_evals.gate.cells import CellComparison
from ci_evals.gate.compare import (
    LEAST_COMPARED,
    Change,
    Comparison,
    NoComparison,
    VariantComparison,
)
from ci_evals.gate.confirmation import MOST_CONFIRM_RUNS
from ci_evals.gate.differences import Difference, RatioFigure
from ci_evals.gate.run_errors import all_errored_sentence, error_rate_sentence, no_answer_clause
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.model.rules import Gate
from ci_evals.stats.rates import PassRate

if TYPE_CHECKING:
    from ci_evals.gate.outages import FailedRound, Outage

# Cells.


def cell_sentence(comparison: Comparison, cell: CellComparison) -> str:
    """`refund: 30 of 30 on main, 4 of 10 here; p = 0.0023, adjusted for 40 cases`."""
    return f"{cell_name(comparison, cell)}: {cell_finding(comparison, cell)}"


def cell_name(comparison: Comparison, cell: CellComparison) -> str:
    """Return the case, with its variant if there are several, and its former name if it has one."""
    name = name_of(cell.case)
    if comparison.several_variants:
        name += f" on {name_of(cell.variant)}"
    if cell.renamed_from:
        name += f" (was {name_of(cell.renamed_from)})"
    return name


def cell_finding(comparison: Comparison, cell: CellComparison) -> str:
    """Return a cell's sentence without its name."""
    before = f"{tally_text(cell.base)} on {comparison.baseline.label}"
    here = "no new run was graded here"
    if cell.head.graded:
        here = f"{tally_text(cell.head)} here"
    both = f"{before}, {here}"
    match cell.kind:
        case "regressed" if cell.case in comparison.by_case:
            case = comparison.by_case[cell.case]
            chance = _adjusted_chance_of_case(comparison, case)
            return f"{both}; worse {variants_clause(case)}, {chance}"
        case "regressed" | "fixed":
            return f"{both}; {_adjusted_chance(comparison, cell)}"
        case "suspect":
            return f"{both}: {_suspicion(comparison, cell)}"
        case "flaky":
            return f"{both}: answers vary from run to run, no change detected"
        case "unchanged":
            if cell.head.rate != cell.base.rate:
                return f"{both}: too few runs to call it a change"
            return f"{both}: unchanged"
        case "new":
            return f"new, {here}"
        case "removed":
            return f"removed, {before}"
        case "edited":
            return f"edited, so not compared: {both}"
        case "not compared":
            return f"not compared: {_why_not_compared(comparison, cell, both)}"


def _suspicion(comparison: Comparison, cell: CellComparison) -> str:
    """`probably worse (p = 0.012), but too few runs to name it`, or `can't tell`."""
    assert cell.p is not None  # only cells that were tested are suspects
    assert cell.adjusted_p is not None
    change = comparison.change(cell)
    if change == "probably worse":
        lack = "too few runs to name it"
        if cell.key not in comparison.confirmed:
            lack = "not confirmed by further runs"
        elif cell.adjusted_p <= comparison.alpha:
            lack = f"the newest reports of {comparison.baseline.label} do not show it"
        return f"{change} ({_p_value(cell.p)}), but {lack}"
    if cell.adjusted_p < 1:
        return f"{change}; {_adjusted_chance(comparison, cell)}"
    return change


def case_sentence(comparison: Comparison, cell: CellComparison) -> str:
    """`refund on 6 of 6 variants: 18 of 18 on main, 0 of 60 here; p = 1e-12, adjusted for …`.

    That is the sentence of the cell unless its case is worse over its variants.
    """
    case = comparison.by_case.get(cell.case)
    if case is None:
        return cell_sentence(comparison, cell)
    return f"{name_of(case.case)} {variants_clause(case)}: {case_finding(comparison, case)}"


def variants_clause(case: CaseComparison) -> str:
    """`on 6 of 6 variants`, `over all 6 variants, clearly on 5`, or `over all 6 variants together`.

    The figures that follow are those of all its variants, so the clause says all.
    """
    if len(case.variants) == case.cells:
        return f"on {case.cells} of {case.cells} variants"
    if case.variants:
        return f"over all {case.cells} variants, clearly on {len(case.variants)}"
    return f"over all {case.cells} variants together"


def case_finding(comparison: Comparison, case: CaseComparison) -> str:
    """`18 of 18 on main, 0 of 60 here; p = 1e-12, adjusted for 40 cases`."""
    before = f"{tally_text(case.base)} on {comparison.baseline.label}"
    chance = _adjusted_chance_of_case(comparison, case)
    return f"{before}, {tally_text(case.head)} here; {chance}"


def _why_not_compared(comparison: Comparison, cell: CellComparison, both: str) -> str:
    if not cell.head.graded:
        return "no new run was graded here"
    if not cell.base.graded:
        return f"no new run was graded on {comparison.baseline.label}"
    if comparison.is_broken(cell.variant):
        return f"{comparison.baseline.label} itself is broken: {both}"
    return f"the case is in quarantine: {both}"


def test_sentence(comparison: Comparison, cell: CellComparison) -> str:
    """`Fisher's exact test for a drop, 4 of 10 against 30 of 30: p = 5.5e-05, 0.0023 …`."""
    alpha = comparison.alpha
    if cell.p is None or cell.adjusted_p is None:
        return "not tested: there is nothing to compare it with"
    change = "a rise" if cell.kind == "fixed" else "a drop"
    sides = f"{tally_text(cell.head)} against {tally_text(cell.base)}"
    adjusted = f"{_p_figure(cell.adjusted_p)} adjusted for the number of compared cells"
    test = f"Fisher's exact test for {change}, {sides}: {_p_value(cell.p)}, {adjusted}"
    if case := comparison.by_case.get(cell.case):
        return f"{test}; {_case_test_clause(case, alpha)}"
    if cell.kind in ("regressed", "fixed"):
        return f"{test}; at most {alpha:g}, so it is named"
    if cell.adjusted_p <= alpha:
        lack = "the newest reports that agree do not show it by themselves"
        return f"{test}; {lack}, so it is not named"
    if cell.kind == "suspect" and cell.adjusted_p >= 1:
        test += " (a suspect counts as 1 until confirmed)"
    return f"{test}; more than {alpha:g}, so it is not named"


def _case_test_clause(case: CaseComparison, alpha: float) -> str:
    """`its case, by the exact test over its 6 variants: p = 3e-09, 1.2e-07 adjusted …`."""
    adjusted = f"{_p_figure(case.adjusted_p)} adjusted for the number of compared cases"
    test = f"the exact test of its case over {case.cells} variants: {_p_value(case.p)}, {adjusted}"
    return f"{test}; at most {alpha:g}, so the case is named"


def step_sentence(step: PoolStep) -> str:
    """Say how one report's evidence was used: `10 of 10, pooled`."""
    runs = tally_text(step.evidence.tally)
    match step.outcome:
        case "recent" | "before a change":
            return f"{runs}, pooled"
        case "disagrees":
            if step.older is not None and step.older.graded > step.evidence.graded:
                runs += f" ({tally_text(step.older)} with all older ones)"
            newer = "the newer ones"
            if step.p is not None:
                newer += f" ({_p_value(step.p)})"
            return f"{runs}, pooled, but unlike {newer}: what is named must show against those, too"
        case "before a drop":
            newer = "the whole variant has passed less since"
            return f"{runs}, pooled, but {newer}: what is named must show against newer ones, too"
        case "before a fall":
            return f"{runs}, left out: the whole variant has been worse since"
        case "an outage":
            return f"{runs}, left out: likely an outage"
        case "enough without":
            return f"{runs}, left out: newer reports have enough runs"
        case "nothing graded":
            return "no run was graded"


def tally_text(tally: Tally) -> str:
    """`4 of 10`, or `no runs`."""
    if not tally.graded:
        return "no runs"
    return f"{tally.passed:,} of {tally.graded:,}"


def _adjusted_chance(comparison: Comparison, cell: CellComparison) -> str:
    """`p = 0.0023, adjusted for 40 cases`; of a single case, how often that happens by chance."""
    assert cell.adjusted_p is not None  # only cells that were tested are named
    return _chance_among(cell.adjusted_p, comparison.compared, _compared_noun(comparison))


def _compared_noun(comparison: Comparison) -> str:
    """Return the word for a cell: with one variant, each case has one."""
    return "cell" if comparison.several_variants else "case"


def _adjusted_chance_of_case(comparison: Comparison, case: CaseComparison) -> str:
    """`p = 0.0023, adjusted for 40 cases`, of a case over its variants."""
    return _chance_among(case.adjusted_p, comparison.cases_over_variants, "case")


def _chance_among(adjusted_p: float, number: int, noun: str) -> str:
    if number == 1:
        return _chance(adjusted_p)
    return f"{_p_value(adjusted_p)}, adjusted for {number_of(number, noun)}"


def _chance(p: float) -> str:
    """`p = 0.0034 (by chance, once in 290)`."""
    return f"{_p_value(p)} (by chance, {once_in(p)})"


def _p_value(p: float) -> str:
    """`p = 0.0034`, `p < 1e-09`."""
    if p < RAREST:
        return f"p {_p_figure(p)}"
    return f"p = {_p_figure(p)}"


def _p_figure(p: float) -> str:
    """`0.0034`, `< 1e-09`."""
    if p < RAREST:
        return f"< {RAREST:g}"
    return f"{p:.2g}"


# Variants.


def variant_sentence(comparison: Comparison, variant: VariantComparison) -> str:
    """`pass rate 93 % on main, 85 % here over 40 cases; p = 0.0083 (by chance, once in 120)`.

    The p is that of the two rates. `, with 3 further rounds` tells that of here from the rate of
    the planned runs.
    """
    before = percent(variant.base_rate, variant.head_rate)
    here = percent(variant.head_rate, variant.base_rate)
    cases = number_of(variant.cells, "case")
    name = variant_name(comparison, variant)
    where = f"on {comparison.baseline.label}{_pool_clause(comparison, variant)}"
    rates = f"{name}pass rate {before} {where}, {here} here over {cases}"
    if variant.further_rounds:
        rates += f", with {FURTHER_ROUNDS} further rounds"
    if _surely_higher(variant):
        return f"{rates}; a sure rise"
    if variant.adjusted_p <= comparison.alpha:
        return f"{rates}; {_chance(variant.p)}"
    if variant.p <= comparison.alpha and variant.newest_decides:
        newest = f"the newest report alone does not show it ({_p_value(variant.newest_p)})"
        return f"{rates}; {_chance(variant.p)}, but {newest}: probably worse"
    if variant.p <= comparison.alpha:
        return f"{rates}: probably worse; {_chance(variant.p)}"
    if variant.head_rate == variant.base_rate:
        return f"{rates}: no change"
    return f"{rates}: can't tell"


def _pool_clause(comparison: Comparison, variant: VariantComparison) -> str:
    """` (its newest 3 reports)`, where older ones are pooled for single cases only."""
    pooled = [cell.base_reports for cell in comparison.cells if cell.variant == variant.variant]
    if variant.pooled_reports >= max(pooled, default=0):
        return ""
    if variant.pooled_reports == 1:
        return " (its newest report)"
    return f" (its newest {variant.pooled_reports} reports)"


def variant_name(comparison: Comparison, variant: VariantComparison) -> str:
    """Return the start of a sentence: the variant, if there are several or it was renamed."""
    name = name_of(variant.variant)
    if variant.renamed:
        return f"{name} (compared with {name_of(variant.base_variant)}): "
    if comparison.several_variants:
        return f"{name}: "
    return ""


def rate_change(comparison: Comparison, variant: VariantComparison) -> str:
    """`-8.3 points, p = 0.0083`, `+20.0 points (+8.1 to +31.0)`, or `-1.2 points, can't tell`.

    Where nothing changed in the few cells that were compared, that is all there is to say: `1 of 40
    compared`.
    """
    points = 100 * (variant.head_rate - variant.base_rate)
    if round(points, 1) == 0:
        return coverage_clause(comparison, variant) or "no change"
    text = f"{_signed(points, 1)} points"
    if points < 0 and variant.adjusted_p <= comparison.alpha:
        if variant.p < 0.0001:
            return f"{text}, p < 0.0001"
        return f"{text}, p = {variant.p:.2g}"
    change = variant.differences.pass_rate
    if _surely_higher(variant) and change is not None:
        assert change.lower is not None
        assert change.upper is not None
        return f"{text} ({_signed(100 * change.lower, 1)} to {_signed(100 * change.upper, 1)})"
    if points < 0 and variant.p <= comparison.alpha:
        return f"{text}, probably worse"
    return f"{text}, can't tell"


def coverage_clause(comparison: Comparison, variant: VariantComparison) -> str:
    """`1 of 40 compared`, where figures of so few cases say little; else empty."""
    names = (variant.variant, variant.base_variant)
    known = [cell for cell in comparison.cells if cell.kind != "new" and cell.variant in names]
    if variant.cells >= len(known) * LEAST_COMPARED:
        return ""
    return f"{variant.cells:,} of {len(known):,} compared"


def ratio_change(ratio: Difference | None) -> str:
    """`+30 % (+10 to +52 %)`, or `+2 %, can't tell`; empty where a side does not know it."""
    if ratio is None:
        return ""
    if not _is_change(ratio):
        return "no change"
    text = _ratio_text(ratio)
    if ratio.lower is None or ratio.upper is None:
        return f"{text}, too few cases to tell"
    if not _is_beyond_noise(ratio):
        return f"{text}, can't tell"
    return f"{text} ({_signed(100 * (ratio.lower - 1))} to {_signed(100 * (ratio.upper - 1))} %)"


def latency_change(
    comparison: Comparison, variant: VariantComparison, medians_s: Sequence[float]
) -> str:
    """`+30 % (+10 to +52 %); main: 0.8 s to 2.1 s`, or `+30 %` alone.

    The bounds allow for the differences between cases, and not for a slow machine, which moves all
    of them: so they need the spread of the base's reports for a comparison.

    Args:
        comparison: the comparison.
        variant: the variant.
        medians_s: the median latencies of the base's reports; none where they are too few.
    """
    ratio = variant.differences.latency
    if ratio is None or not _is_change(ratio) or not _is_beyond_noise(ratio):
        return ratio_change(ratio)
    if not medians_s:
        return _ratio_text(ratio)
    spread = f"{seconds(min(medians_s))} to {seconds(max(medians_s))}"
    return f"{ratio_change(ratio)}; {comparison.baseline.label}: {spread}"


def _is_change(ratio: Difference) -> bool:
    return round(100 * (ratio.value - 1)) != 0


def _is_beyond_noise(ratio: Difference) -> bool:
    if ratio.lower is None or ratio.upper is None:
        return False
    return not ratio.lower <= 1 <= ratio.upper


def _ratio_text(ratio: Difference) -> str:
    """`+30 %`."""
    return f"{_signed(100 * (ratio.value - 1))} %"


def _signed(value: float, places: int = 0) -> str:
    """`-8.3`, `+2.0`, `+4,186`, `0`."""
    if round(value, places) == 0:
        return f"{0:.{places}f}"
    return f"{value:+,.{places}f}"


def _surely_higher(variant: VariantComparison) -> bool:
    """Return True if even the lower bound of the difference is a rise."""
    change = variant.differences.pass_rate
    return change is not None and change.lower is not None and change.lower > 0


# Outages.


def outage_sentence(outage: "Outage") -> str:
    """`all 30 planned runs of 10 cases failed, and all 70 repeats passed: likely an outage`."""
    failed = outage.planned.graded - outage.planned.passed
    failures = _part_of(failed, outage.planned.graded, "planned run")
    repeats = _part_of(outage.repeated.passed, outage.repeated.graded, "repeat")
    cases = number_of(outage.cells, "case")
    return f"{failures} of {cases} failed, and {repeats} passed: likely an outage"


def failed_round_sentence(found: "FailedRound") -> str:
    """`all 40 failures were in run 2, and all 80 other runs passed: likely an outage`."""
    inside = found.inside.graded - found.inside.passed
    outside = found.others.graded - found.others.passed
    failures = _part_of(inside, inside + outside, "failure")
    others = _part_of(found.others.passed, found.others.graded, "other run")
    return f"{failures} were in run {found.run}, and {others} passed: likely an outage"


def failed_confirmation_sentence(planned: Tally, repeated: Tally) -> str:
    """`2 of 70 repeats passed, and 20 of 30 planned runs of the same cases: likely an outage …`."""
    repeats = f"{repeated.passed:,} of {number_of(repeated.graded, 'repeat')} passed"
    runs = f"{planned.passed:,} of {number_of(planned.graded, 'planned run')} of the same cases"
    return f"{repeats}, and {runs}: likely an outage, so nothing is named"


def _part_of(part: int, whole: int, noun: str) -> str:
    """`all 40 failures`, `38 of 42 failures`."""
    if part == whole > 1:
        return f"all {number_of(whole, noun)}"
    return f"{part:,} of {number_of(whole, noun)}"


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
    """`compared with main at 0123456, 3 hours older, and 5 reports before it (30 runs per case)`.

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
    """`compared with main at 0123456 (the merge base), 3 hours older (30 runs per case)`.

    Args:
        baseline: what is compared with.
        started_at: when the head was run, in seconds since the epoch.
        runs: how many graded runs the cases have in the baseline.
        place: how the newest report's commit is related to the head's.
    """
    newest = baseline.reports[0]
    older = [report for report in baseline.pooled_reports if report != newest]
    rest = ""
    if place:
        rest += f" ({place})"
    age_s = started_at - newest.started_at
    if age_s >= 1:
        rest += f", {_age(age_s)} older"
    if older:
        rest += f", and {number_of(len(older), 'report')} before it"
    most = number_of(max(runs, default=0), "run")
    if len(runs) > 1:
        most = f"up to {most}"
    rest += f" ({most} per case)"
    return SourceSentence(f"compared with {baseline.label}", newest.commit, rest)


def _age(age_s: float) -> str:
    """`40 seconds`, `3 minutes`, `5 hours`, `2 days`."""
    if round(age_s) >= 2 * 86400:
        return number_of(round(age_s / 86400), "day")
    if round(age_s) >= 3600:
        return number_of(round(age_s / 3600), "hour")
    if round(age_s) >= 60:
        return number_of(round(age_s / 60), "minute")
    return number_of(round(age_s), "second")


def lost_report_sentences(baseline: Baseline) -> Iterator[str]:
    """`2 of 120 runs on main at 0123456 passed: likely an outage, so these runs do not count`."""
    alike: dict[tuple[ReportRef, bool], list[LostReport]] = defaultdict(list)
    for each in baseline.lost:
        if each.variant not in baseline.broken_variants:  # other sentences say so
            alike[each.report, each.unanswered > 0].append(each)
    for (report, unanswered), found in alike.items():
        total = add_tallies(each.runs for each in found)
        runs = number_of(total.graded, "run")
        if len(found) < len(baseline.variants):
            runs += f" of {', '.join(name_of(each.variant) for each in found)}"
        runs += f" on {baseline.label}"
        if report.commit:
            runs += f" at {report.commit}"
        if unanswered:
            count = sum(each.unanswered for each in found)
            yield f"{count:,} of {runs} failed without an answer, and do not count"
        else:
            passed = f"{total.passed:,} of {runs} passed"
            yield f"{passed}: likely an outage, so these runs do not count"


def broken_sentence(comparison: Comparison) -> str:
    """`main itself passes 3 % since 0123456: not compared`."""
    of_all = _all_are_broken(comparison)
    return "; ".join(_broken_sentences(comparison.baseline, comparison.broken, of_all=of_all))


def _all_are_broken(comparison: Comparison) -> bool:
    return len(comparison.broken) == len(comparison.base_variants)


def broken_base_sentences(baseline: Baseline) -> Iterator[str]:
    """`main itself passes 3 % on gpt since 0123456: not compared`."""
    return _broken_sentences(baseline, baseline.broken, of_all=baseline.is_broken)


def _broken_sentences(
    baseline: Baseline, broken: Sequence[BrokenVariant], *, of_all: bool
) -> Iterator[str]:
    for since, found in _broken_since(broken):
        rate = percent(add_tallies(each.runs for each in found).rate)
        where = ""
        if not of_all:
            where = f" on {_names(found)}"
        yield f"{baseline.label} itself passes {rate}{where} since {since}: not compared"


def broken_remarks(comparison: Comparison) -> Iterator[str]:
    """`6 of 60 runs passed in the reports of main since 0123456; the next good one ends this`."""
    for since, found in _broken_since(comparison.broken):
        total = add_tallies(each.runs for each in found)
        runs = f"{total.passed:,} of {number_of(total.graded, 'run')}"
        if not _all_are_broken(comparison):
            runs += f" of {_names(found)}"
        reports = f"in the reports of {comparison.baseline.label} since {since}"
        yield f"{runs} passed {reports}; the next good one ends this"


def _names(variants: Sequence[BrokenVariant]) -> str:
    return ", ".join(name_of(each.variant) for each in variants)


def _broken_since(broken: Sequence[BrokenVariant]) -> Iterator[tuple[str, list[BrokenVariant]]]:
    """Yield variants that broke in the same report, with its commit, or its date."""
    alike: dict[ReportRef, list[BrokenVariant]] = defaultdict(list)
    for each in broken:
        alike[each.since].append(each)
    for since, found in alike.items():
        name = since.commit
        if not name:
            name = datetime.fromtimestamp(since.started_at, UTC).date().isoformat()
        yield name, found


def few_runs_sentence(comparison: Comparison, suspects: Sequence[CellComparison]) -> str:
    """`with 1 run on main, not even 20 confirm runs name one of 40 cases: 2 suspects stay …`."""
    base = comparison.baseline.label
    most = number_of(max(each.base.graded for each in suspects), "run")
    compared = number_of(comparison.compared, _compared_noun(comparison))
    confirming = f"{MOST_CONFIRM_RUNS} confirm runs"
    lack = f"with {most} on {base}, not even {confirming} name one of {compared}"
    stay = "stays" if len(suspects) == 1 else "stay"
    return f"{lack}: {number_of(len(suspects), 'suspect')} {stay} open until {base} has more"


def no_regression_sentence(comparison: Comparison) -> str:
    """`no regression against main: 40 cases compared, 1 probably worse, can't tell about 2`."""
    base = comparison.baseline.label
    compared = {cell.case for cell in comparison.cells if cell.p is not None}
    regressed = len({cell.case for cell in comparison.select("regressed")})
    suspects: dict[Change, set[str]] = {"probably worse": set(), "can't tell": set()}
    for cell in comparison.select("suspect"):
        suspects[comparison.change(cell)].add(cell.case)
    probable = suspects["probably worse"]
    unclear = suspects["can't tell"] - probable
    found = f"no regression against {base}"
    parts = [f"{number_of(len(compared), 'case')} compared"]
    if regressed:
        found = f"no more regressions against {base} than the gate allows"
        parts.append(f"{regressed} regressed")
    if probable:
        parts.append(f"{len(probable)} probably worse")
    if unclear:
        parts.append(f"can't tell about {len(unclear)}")
    return f"{found}: {', '.join(parts)}"


def not_compared_sentence(comparison: Comparison | NoComparison | None) -> str:
    """Say why there is no comparison, or why it compared nothing."""
    if comparison is None:
        comparison = NoComparison("none was given with --baseline")
    if isinstance(comparison, NoComparison):
        return comparison.sentence
    base = comparison.baseline
    if comparison.broken:
        return broken_sentence(comparison)
    if base.variants and not comparison.base_variants:
        theirs = ", ".join(name_of(variant) for variant in base.variants)
        return f"nothing to compare: {base.label} has other providers or prompts ({theirs})"
    same = f"the same here and on {base.label}"
    return f"nothing to compare: no case that is {same} was graded on both"


def removed_suites_sentence(baseline: Baseline) -> str:
    """`the suite refunds of main is gone, so nothing is compared with it`."""
    names = ", ".join(name_of(name) for name in baseline.removed_suites)
    if len(baseline.removed_suites) == 1:
        return f"the suite {names} of {baseline.label} is gone, so nothing is compared with it"
    return f"the suites {names} of {baseline.label} are gone, so nothing is compared with them"


# Rules of the gate.


def regressions_sentence(
    comparison: Comparison, regressed: Sequence[CellComparison], allowed: int
) -> str:
    """Name the surest of more regressed cases than are allowed, and count the others."""
    first = regressed[0]
    others = {cell.case for cell in regressed if cell.case != first.case}
    more = []
    if others:
        count = f"{number_of(len(others), 'more case')} regressed"
        if comparison.unconfirmed:
            count = f"at least {count}"
        more.append(count)
    if allowed:
        more.append(f"the gate allows {allowed}")
    sentence = case_sentence(comparison, first)
    if more:
        sentence += f"; {', and '.join(more)}"
    return sentence


def ratchet_sentence(
    comparison: Comparison, variant: Variant, rate: PassRate, best: float, confidence: float
) -> str:
    """`pass rate 75 % (at most 83.1 %, 95 % confidence) is below the 98.3 % that it has held`."""
    name = ""
    if comparison.several_variants:
        name = f"{name_of(variant)}: "
    base = comparison.base_variant(variant)
    who = "it" if base == variant else name_of(base)
    upper = rate.bounds(confidence).upper
    at_most = f"at most {percent(upper, best)}, {percent(confidence)} confidence"
    found = f"{name}pass rate {percent(float(rate.rate), best)} ({at_most})"
    return f"{found} is below the {percent(best)} that {who} has held before"


def increase_sentence(
    comparison: Comparison,
    variant: VariantComparison,
    figure: RatioFigure,
    limit: float,
    *,
    with_bound: bool = True,
) -> str:
    """`cost is 1.50 times that of main (at least 1.20 times, 95 % confidence), and the gate …`."""
    ratio = variant.differences.ratio(figure)
    assert ratio is not None
    found = f"{figure} is {ratio.value:.2f} times that of {comparison.baseline.label}"
    if with_bound:
        assert ratio.lower is not None
        confidence = percent(1 - comparison.alpha)
        found += f" (at least {ratio.lower:.2f} times, {confidence} confidence)"
    return f"{variant_name(comparison, variant)}{found}, and the gate allows {limit:g} times"


def too_few_latencies_clause(reports: int, needed: int) -> str:
    """`that needs 3 base reports, there is 1`."""
    are = "is" if reports == 1 else "are"
    return f"that needs {needed} base reports, there {are} {reports}"


def usual_latencies_clause(comparison: Comparison, medians_s: Sequence[float]) -> str:
    """`the last 5 reports of main took 0.8 s to 2.1 s`."""
    reports = f"the last {number_of(len(medians_s), 'report')} of {comparison.baseline.label}"
    return f"{reports} took {seconds(min(medians_s))} to {seconds(max(medians_s))}"


def unknown_increase_sentence(
    comparison: Comparison,
    variant: VariantComparison,
    figure: RatioFigure,
    limit: float,
    *,
    known_here: bool,
) -> str:
    """`cost is unknown, so max_cost_increase: 1.1 was not checked`."""
    if variant.differences.ratio(figure) is not None:
        lack = f"{figure} of a single case cannot show an increase"
    elif known_here:
        lack = f"{figure} on {comparison.baseline.label} is unknown or 0"
    else:
        lack = f"{figure} is unknown"
    name = variant_name(comparison, variant)
    return f"{name}{lack}, so max_{figure}_increase: {limit:g} was not checked"


MAX_QUARANTINED = 3


def coverage_sentence(
    comparison: Comparison, missing: Sequence[CellComparison], hidden: Collection[CellKey]
) -> str:
    """`28 of 40 cases of main were not compared: 20 edited, 5 removed, 3 not graded here`, or `the
    only case of main was not compared: it was not graded here`.

    Args:
        comparison: the comparison.
        missing: the cells that should have been compared.
        hidden: those of them that are in quarantine only here.
    """
    counts: Counter[str] = Counter()
    for cell in missing:
        if cell.key in hidden:
            counts["put into quarantine"] += 1
        elif cell.regraded:
            counts["judged by other graders"] += 1
        elif cell.kind == "not compared":
            counts[_lack(comparison, cell)] += 1
        else:
            counts[cell.kind] += 1
    total = comparison.compared + len(missing)
    noun = "cell" if comparison.several_variants else "case"
    which = f"{len(missing):,} of {number_of(total, noun)}"
    if total == 1:
        which = f"the only {noun}"
    were = "was" if len(missing) == 1 else "were"
    why = ", ".join(f"{count:,} {word}" for word, count in counts.most_common())
    if len(counts) == 1:
        them = "it" if len(missing) == 1 else "they"
        why = f"{them} {were} {''.join(counts)}"
    return f"{which} of {comparison.baseline.label} {were} not compared: {why}"


def _lack(comparison: Comparison, cell: CellComparison) -> str:
    """Say what kept a cell of both sides from being compared."""
    if not cell.head.graded:
        return "not graded here"
    base = comparison.baseline.label
    if not cell.base.graded:
        return f"not graded on {base}"
    if comparison.is_broken(cell.variant):
        return f"on a variant that {base} itself fails"
    return "in quarantine"


def ungraded_critical_sentence(report: SuiteReport, cells: Sequence[int]) -> str:
    """`no run of the critical case refund was graded, nor of 2 other critical cases`."""
    first, *others = cells
    sentence = f"no run of the critical case {name_of(report.plan.case(first).id)}"
    if len(report.plan.variants) > 1:
        sentence += f" on {name_of(report.plan.variant(first))}"
    sentence += " was graded"
    if others:
        sentence += f", nor of {number_of(len(others), 'other critical case')}"
    return sentence


def hidden_critical_sentence(comparison: Comparison, cells: Sequence[CellComparison]) -> str:
    """`the critical case refund is in quarantine, unlike on main, and so is 1 other critical …`."""
    first, *others = cells
    sentence = f"the critical case {name_of(first.case)}"
    if comparison.several_variants:
        sentence += f" on {name_of(first.variant)}"
    sentence += f" is in quarantine, unlike on {comparison.baseline.label}"
    if others:
        are = "is" if len(others) == 1 else "are"
        sentence += f", and so {are} {number_of(len(others), 'other critical case')}"
    return sentence


def quarantine_clause(report: SuiteReport) -> str:
    """`39 of 40 cases are in quarantine`; empty if none is."""
    cases = report.plan.cases
    count = len([case for case in cases if case.quarantine is not None])
    if not count:
        return ""
    are = "is" if count == 1 else "are"
    return f"{count:,} of {number_of(len(cases), 'case')} {are} in quarantine"


def quarantine_sentence(ended: Sequence[Case]) -> str:
    """`the quarantine of refund ended on 2026-11-01: fix the case, remove it, or set another …`."""
    dates = sorted({str(case.quarantine.until) for case in ended if case.quarantine})
    names = ", ".join(name_of(case.id) for case in ended[:MAX_QUARANTINED])
    if len(ended) > MAX_QUARANTINED:
        names += f" and {len(ended) - MAX_QUARANTINED:,} more"
    when = f"on {dates[0]}"
    if len(dates) > 1:
        when = f"between {dates[0]} and {dates[-1]}"
    ways_out = "fix the case, remove it, or set another date"
    return f"the quarantine of {names} ended {when}: {ways_out}"


# Bars.

HOW_TO_SET_A_BAR = "to let some runs fail, set a bar: `gate: {min_pass_rate: 0.9}`"


def scope_label(scope: ScopeVerdict, report: SuiteReport) -> str:
    """Return the kind of a scope; a suite says so if it leaves out cases with bars of their own."""
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
    """Hold a scope with graded runs against its bar: `pass rate 95 % meets the bar of 90 %`."""
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
    """`120 runs are too few to tell; not blocking`, and how many would do."""
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

    `3 of 10 runs ran: shard 2/3 is missing` where it is known why.
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
    """Say what decided where neither a bar nor a rule did."""
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
    cases = [case for case in report.plan.cases if case.quarantine is None]
    return scope.cases < len(cases)


# Code that was not run.


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
    """Say how to run code that was not run."""
    if report.suite.without_secrets:
        return (
            "To check it, a maintainer who has read the change runs it with secrets: push it to a"
            " branch of this repository and open a pull request from there. For Dependabot, add the"
            " keys to its own secrets and run the job again."
        )
    return "to check it, run without `--replay`; `gate: {on_unchecked: warn}` makes this a warning"


def unchanged_sentence(report: SuiteReport) -> str:
    """Say what recorded answers prove where nothing was called; else empty.

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
    """`3 of 40 cases selected, all 9 runs reused: `; empty where the whole suite ran."""
    part = part_of_suite(report)
    if not part:
        return ""
    return f"{part}: "


def part_of_suite(report: SuiteReport) -> str:
    """`3 of 40 cases selected, all 9 runs reused`; empty where the whole suite ran."""
    parts = []
    if report.suite.selection:
        parts.append(f"{report.suite.selection} selected")
    if report.all_reused:
        if report.reused == 1:
            parts.append("the only run reused")
        else:
            parts.append(f"all {number_of(report.reused, 'run')} reused")
    return ", ".join(parts)
