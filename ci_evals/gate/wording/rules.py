"""Sentences about rules other than bars: regressions, increases, coverage, critical cases."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ci_evals.format import join_first, name_of, number_of, percent, seconds
from ci_evals.gate.cells import CellComparison
from ci_evals.gate.compare import (
    Comparison,
    VariantComparison,
)
from ci_evals.gate.differences import RatioFigure
from ci_evals.gate.wording.comparisons import (
    case_sentence,
    tally_text,
    variant_name,
    variant_sentence,
)
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import SuiteReport
from ci_evals.model.ruler import Ruler
from ci_evals.stats.rates import PassRate

MAX_DROPPED = 3
"""So many cases are named in a sentence."""
MAX_NAMES = 5
"""So many cases without a graded run are named in a sentence."""
MAX_FILES = 2
"""So many files are named in a sentence."""

if TYPE_CHECKING:
    from ci_evals.gate.dropped_cases import AskedAgain, DroppedCases
    from ci_evals.gate.edited_checks import GradedTwice


def regressions_sentence(
    comparison: Comparison, regressed: Sequence[CellComparison], allowed: int
) -> str:
    """Name the surest regressed cases if there are more than allowed, and count the others."""
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


def waived_sentence(comparison: Comparison, waived: Sequence[CellComparison]) -> str:
    """`2 cases are waived (on_regression: net): pass rate 76 % on main, 82 % here …; better …`."""
    count = len({cell.case for cell in waived})
    are = "is" if count == 1 else "are"
    on = {cell.variant for cell in waived}
    better = [each for each in comparison.variants if each.variant in on]
    rises = "; ".join(variant_sentence(comparison, each) for each in better)
    return f"{number_of(count, 'case')} {are} waived (on_regression: net): {rises}"


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
    """`cost is 1.50 times main's (at least 1.20 times, 95 % confidence), and the gate …`."""
    ratio = variant.differences.ratio(figure)
    assert ratio is not None
    found = f"{figure} is {ratio.value:.2f} times {comparison.baseline.label}'s"
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
    """Return the reason why a cell of both sides was not compared."""
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


def ungraded_sentence(report: SuiteReport, cells: Sequence[int]) -> str:
    """`not checked: refund, cancel on gpt`, by cases without a graded run."""
    return f"not checked: {join_first(_name_cells(report, cells), MAX_NAMES)}"


def ungraded_repeats_sentence(report: SuiteReport, cells: Sequence[int]) -> str:
    """`not checked, since the repeats errored: refund`."""
    names = join_first(_name_cells(report, cells), MAX_NAMES)
    return f"not checked, since the repeats errored: {names}"


def _name_cells(report: SuiteReport, cells: Sequence[int]) -> list[str]:
    """Return the name of each case, with its variants unless all of them are among the cells."""
    variants: dict[str, list[str]] = {}
    for cell in cells:
        case = name_of(report.plan.case(cell).id)
        variants.setdefault(case, []).append(name_of(report.plan.variant(cell)))
    names = []
    for case, on in variants.items():
        if len(on) == len(report.plan.variants):
            names.append(case)
        else:
            names.append(f"{case} on {' and '.join(on)}")
    return names


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
    names = join_first([name_of(case.id) for case in ended], MAX_QUARANTINED)
    when = f"on {dates[0]}"
    if len(dates) > 1:
        when = f"between {dates[0]} and {dates[-1]}"
    ways_out = "fix the case, remove it, or set another date"
    return f"the quarantine of {names} ended {when}: {ways_out}"


def looser_checks_sentence(ruler: Ruler, graded: "GradedTwice") -> str:
    """`by the checks of main (5e1369d), 0 of 70 answers pass; by this branch's, 70 of 70
    (checks.py changed)`.
    """
    answers = f"{graded.mains:,} of {number_of(graded.answers, 'answer')}"
    own = f"{graded.own:,} of {graded.answers:,}{_changed_files(ruler)}"
    return f"by the checks of {name_of(ruler.main)}, {answers} pass; by this branch's, {own}"


def _changed_files(ruler: Ruler) -> str:
    """` (checks.py changed)`; empty if no code differs, but what the suite itself says."""
    if not ruler.files:
        return ""
    return f" ({join_first([name_of(file) for file in ruler.files], MAX_FILES)} changed)"


def stricter_checks_clause(ruler: Ruler, graded: "GradedTwice") -> str:
    """`by the checks of main (5e1369d), 70 of 70 answers pass: the new ones fail some`; empty if
    the branch's own checks are not stricter.
    """
    if not graded.answers:
        return ""
    answers = f"{graded.mains:,} of {number_of(graded.answers, 'answer')}"
    by_main = f"by the checks of {name_of(ruler.main)}, {answers} pass"
    return f"{by_main}: the new ones fail some{_changed_files(ruler)}"


def dropped_sentence(main: str, dropped: "DroppedCases") -> str:
    """`2 cases of main (5e1369d) are gone or reworded; as it has them: case-3 (critical) 0 of 5`.

    The cases are those that got worse, or all if none did.
    """
    count = len(dropped.asked) + dropped.unasked
    verb = "is" if count == 1 else "are"
    parts = [f"{number_of(count, 'case')} of {name_of(main)} {verb} gone or reworded"]
    shown = dropped.worse or dropped.asked
    if shown:
        named = join_first([_asked_clause(case) for case in shown], MAX_DROPPED)
        parts.append(f"as it has them: {named}")
    if dropped.unasked:
        parts.append(f"{number_of(dropped.unasked, 'case')} not asked")
    return "; ".join(parts)


def _asked_clause(asked: "AskedAgain") -> str:
    """`case-3 (critical) 0 of 5, 5 of 5 on main`."""
    critical = " (critical)" if asked.case.critical else ""
    before = f" (before: {tally_text(asked.base)})" if asked.base.graded else ""
    return f"{name_of(asked.case.case)}{critical} {tally_text(asked.here)}{before}"


def gate_rule_text(value: object) -> str:
    """`0.9`, `true`, `warn`, `not set`."""
    match value:
        case None:
            return "not set"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case _:
            return str(value)
