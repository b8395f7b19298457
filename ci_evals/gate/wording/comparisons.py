"""Sentences about changes of cells, cases and variants with their certainty, and about outages."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ci_evals.format import RAREST, join_first, name_of, number_of, once_in, percent, seconds
from ci_evals.gate.baseline import add_tallies
from ci_evals.gate.cases import CaseComparison
from ci_evals.gate.cells import CellComparison
from ci_evals.gate.compare import BaseRate, Comparison, RatesNow, VariantComparison
from ci_evals.gate.differences import Difference
from ci_evals.model.report import Tally
from ci_evals.stats.differences import ScoreMeans
from ci_evals.stats.thresholds import FURTHER_ROUNDS, MIN_COMPARED_SHARE

if TYPE_CHECKING:
    from ci_evals.gate.confirmation import FurtherRuns
    from ci_evals.gate.history_only import Outage, RecentPool
    from ci_evals.gate.missed_on_main import MissedOnMain
    from ci_evals.gate.outages import FailedRound

MAX_PENDING = 5


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
    if cell.by_main:
        here += " by its checks"
    both = f"{before}, {here}"
    if cell.main_now.graded and cell.kind in ("regressed", "suspect"):
        return _finding_now(comparison, cell)
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
            found = "unchanged"
            if cell.head.rate != cell.base.rate:
                found = "too few runs to call it a change"
            return f"{both}: {found}"
        case "new":
            return f"new, {here}"
        case "removed":
            return f"removed, {before}"
        case "edited":
            return f"edited, so not compared: {both}"
        case "not compared":
            return f"not compared: {_why_not_compared(comparison, cell, both)}"


def _finding_now(comparison: Comparison, cell: CellComparison) -> str:
    """`fails now: 0 of 10 here, 10 of 10 on main (0123456) in the same minutes (before: 29 …)`."""
    main = comparison.main
    here, there = tally_text(cell.here_now), tally_text(cell.main_now)
    if cell.by_main:
        here = f"{here} here by its checks"
    else:
        here = f"{here} here"
    before = f"before: {tally_text(cell.base)}"
    both = f"{here}, {there} on {main} in the same minutes ({before})"
    if cell.kind == "regressed":
        verb = "fails now"
        if cell.here_now.passed:
            verb = "is worse now"
        return f"{verb}: {both}; {_adjusted_chance_now(comparison, cell)}"
    if cell.cleared:
        return f"{main} fails it now, too ({there}): not this change"
    return f"can't tell: {both}"


def _adjusted_chance_now(comparison: Comparison, cell: CellComparison) -> str:
    case = comparison.by_case.get(cell.case)
    if case is None:
        return _adjusted_chance(comparison, cell)
    return f"worse {variants_clause(case)}, {_adjusted_chance_of_case(comparison, case)}"


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
    cells = [cell for cell in comparison.cells if cell.case == case.case]
    now = add_tallies(cell.main_now for cell in cells)
    if now.graded:
        before += f" ({now.graded:,} of them now)"
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
    base = cell.base
    if cell.kind == "regressed" and cell.main_now.graded:
        base = add_tallies((base, cell.main_now))
    sides = f"{tally_text(cell.head)} against {tally_text(base)}"
    adjusted = f"{_p_figure(cell.adjusted_p)} adjusted for the number of compared cells"
    test = f"Fisher's exact test for {change}, {sides}: {_p_value(cell.p)}, {adjusted}"
    if case := comparison.by_case.get(cell.case):
        return f"{test}; {_case_test_clause(case, alpha)}"
    if cell.kind in ("regressed", "fixed"):
        return f"{test}; at most {alpha:g}, so it is named"
    if cell.adjusted_p <= alpha:
        lack = "the newest reports that agree do not show it by themselves"
        if cell.main_now.graded:
            lack = f"the runs of {comparison.main} now do not show it by themselves"
        return f"{test}; {lack}, so it is not named"
    if cell.kind == "suspect" and cell.adjusted_p >= 1:
        test += " (a suspect counts as 1 until confirmed)"
    return f"{test}; more than {alpha:g}, so it is not named"


def _case_test_clause(case: CaseComparison, alpha: float) -> str:
    """`its case, by the exact test over its 6 variants: p = 3e-09, 1.2e-07 adjusted …`."""
    adjusted = f"{_p_figure(case.adjusted_p)} adjusted for the number of compared cases"
    test = f"the exact test of its case over {case.cells} variants: {_p_value(case.p)}, {adjusted}"
    return f"{test}; at most {alpha:g}, so the case is named"


def pooled_sentence(runs: Tally, recent: "RecentPool", age: int) -> str:
    """`10 of 10, pooled`, or that what is named must show against newer reports, too.

    Args:
        runs: those of one report.
        recent: the recent pool of the cell.
        age: the number of pooled reports that are newer than this one.
    """
    pooled = f"{tally_text(runs)}, pooled"
    if age != recent.reports:
        return pooled
    if recent.p is None or recent.older is None:
        newer = "the whole variant has passed less since"
        return f"{pooled}, but {newer}: what is named must show against newer ones, too"
    if recent.older.graded > runs.graded:
        pooled = f"{tally_text(runs)} ({tally_text(recent.older)} with all older ones), pooled"
    newer = f"the newer ones ({_p_value(recent.p)})"
    return f"{pooled}, but unlike {newer}: what is named must show against those, too"


def tally_text(tally: Tally) -> str:
    """`4 of 10`, or `no runs`."""
    if not tally.graded:
        return "no runs"
    return f"{tally.passed:,} of {tally.graded:,}"


def _adjusted_chance(comparison: Comparison, cell: CellComparison) -> str:
    """`p = 0.0023, adjusted for 40 cases`, or for a single case its frequency by chance."""
    assert cell.adjusted_p is not None  # only cells that were tested are named
    return _chance_among(cell.adjusted_p, comparison.compared, compared_noun(comparison))


def compared_noun(comparison: Comparison) -> str:
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


def variant_sentence(comparison: Comparison, variant: VariantComparison) -> str:
    """`pass rate 93 % on main, 85 % here over 40 cases; p = 0.0083 (by chance, once in 120)`.

    The p is that of the two rates, or mean scores. `, with 3 further rounds` tells that of here
    from the rate of the planned runs.
    """
    if variant.scores is None:
        figure = "pass rate"
        before = percent(variant.base_rate, variant.head_rate)
        here = percent(variant.head_rate, variant.base_rate)
    else:
        figure = "mean score"
        here, before = score_texts(variant.scores)
    cases = number_of(variant.cells, "case")
    name = variant_name(comparison, variant)
    where = f"on {comparison.baseline.label}{_pool_clause(comparison, variant)}"
    rates = f"{name}{figure} {before} {where}, {here} here over {cases}"
    if variant.further_rounds:
        rates += f", with {FURTHER_ROUNDS} further rounds"
    if variant.better:  # its names are waived, which another sentence says
        return f"{rates}; {_better_clause(comparison, variant)}"
    if variant.now is not None:
        return _variant_now(comparison, variant, variant.now)
    named = comparison.named_cases(variant.variant)
    if named and not variant.fell:
        return f"{rates}: {_named_clause(named)}"
    match comparison.change_of_variant(variant):
        case "better":
            return f"{rates}; a sure rise"
        case "worse":
            return f"{rates}; {_chance(variant.p)}"
        case "probably worse":
            return f"{rates}: probably worse; {_chance(variant.p)}"
        case change:
            return f"{rates}: {change}"


def _better_clause(comparison: Comparison, variant: VariantComparison) -> str:
    """`better as a whole, p = 0.0021`, and the rates of both sides if main ran, too."""
    assert variant.rise_p is not None  # that of a better variant is known
    better = f"better as a whole, {_p_value(variant.rise_p)}"
    if variant.now is None:
        return better
    here = percent(variant.now.here, variant.now.main)
    main = percent(variant.now.main, variant.now.here)
    return f"{better}; {here} here, {main} on {comparison.main} in the same minutes"


def _variant_now(comparison: Comparison, variant: VariantComparison, now: RatesNow) -> str:
    """`fell as a whole: 81 % here, 89 % on main now; p = 0.002`, or that main is below, too."""
    figure = ""
    here, main = percent(now.here, now.main), percent(now.main, now.here)
    if now.scores is not None:
        figure = "mean score "
        here, main = score_texts(now.scores)
    name = variant_name(comparison, variant)
    if variant.fell:
        rates = f"{figure}{here} here, {main} on {comparison.main} now"
        return f"{name}fell as a whole: {rates}; {_chance(now.p)}"
    if now.main_fell:
        below = f"below the reports of {comparison.baseline.label}, but so is {comparison.main} now"
        return f"{name}{below}: {figure}{here} here, {main} there: not this change"
    rates = f"{figure}{here} here, {main} on {comparison.main} in the same minutes"
    return f"{name}can't tell: {rates}; {_chance(now.p)}"


def score_texts(means: ScoreMeans) -> tuple[str, str]:
    """Return the mean scores of head and base, with as many digits as tell them apart."""
    for digits in (2, 3):
        head, base = f"{means.head:.{digits}f}", f"{means.base:.{digits}f}"
        if head != base:
            break
    return head, base


def _pool_clause(comparison: Comparison, variant: VariantComparison) -> str:
    """` (its newest 3 reports)`, where older ones are pooled for single cases only."""
    newest = newest_reports_text(comparison.newest_reports(variant))
    return f" (its {newest})" if newest else ""


def newest_reports_text(newest: int | None) -> str:
    """`newest 3 reports`, `newest report`; empty for all reports."""
    match newest:
        case None:
            return ""
        case 1:
            return "newest report"
        case _:
            return f"newest {newest} reports"


def base_rate_text(comparison: Comparison, base: BaseRate, here: float | None) -> str:
    """`main 88.5 % (newest 4 reports)`, with as many decimals as tell it from the rate here."""
    text = f"{comparison.baseline.label.removeprefix('the ')} {percent(base.rate, here)}"
    if newest := newest_reports_text(base.newest_reports):
        text += f" ({newest})"
    return text


def missed_on_main_clause(comparison: Comparison, found: "MissedOnMain") -> str:
    """`main has 74.2 %, so this change did not cause it`."""
    if found.main is not None:
        has = f"{found.main} has {percent(found.base.rate)} now"
    else:
        has = f"{comparison.baseline.label} has {percent(found.base.rate)}"
        if newest := newest_reports_text(found.base.newest_reports):
            has += f" ({newest})"
    return f"{has}, so this change did not cause it"


def rate_basis(comparison: Comparison, variant: VariantComparison) -> str:
    """`main 88.5 % (newest 4 reports), here 84.1 % with 3 further rounds, without named cases`.

    Empty if `rate_change` is between the planned runs and all reports that are pooled, of all
    cases.
    """
    newest = comparison.newest_reports(variant)
    compared = [cell for cell in comparison.cells if cell.variant == variant.variant]
    is_part = variant.cells < sum(cell.p is not None for cell in compared)
    if newest is None and not variant.further_rounds and not is_part:
        return ""
    base = BaseRate(variant.base_rate, newest)
    text = base_rate_text(comparison, base, variant.head_rate)
    text += f", here {percent(variant.head_rate, variant.base_rate)}"
    if variant.further_rounds:
        text += f" with {FURTHER_ROUNDS} further rounds"
    if is_part:
        text += ", without the named cases"
    return text


def _named_clause(named: Sequence[str]) -> str:
    """`2 cases worse`."""
    return f"{number_of(len(named), 'case')} worse"


def variant_name(comparison: Comparison, variant: VariantComparison) -> str:
    """Return the start of a sentence: the variant, if there are several or it was renamed."""
    name = name_of(variant.variant)
    if variant.renamed:
        return f"{name} (compared with {name_of(variant.base_variant)}): "
    if comparison.several_variants:
        return f"{name}: "
    return ""


def rate_change(comparison: Comparison, variant: VariantComparison) -> str:
    """`-8.3 points, p = 0.0083`, `-40.0 points, 2 cases worse`, `+20.0 points (+8.1 to +31.0)`, or
    `-1.2 points, can't tell`.

    Where nothing changed in the few cells that were compared, that is all there is to say: `1 of 40
    compared`.
    """
    points = 100 * (variant.head_rate - variant.base_rate)
    named = comparison.named_cases(variant.variant)
    if round(points, 1) == 0:
        text = coverage_clause(comparison, variant) or "no change"
        return f"{text} as a whole, {_named_clause(named)}" if named else text
    text = points_gained(variant)
    change = variant.differences.pass_rate
    if variant.better:
        text += ", better"
    elif variant.surely_higher and change is not None:
        assert change.lower is not None
        assert change.upper is not None
        text += f" ({signed(100 * change.lower, 1)} to {signed(100 * change.upper, 1)})"
    if named and not variant.fell:
        return f"{text}, {_named_clause(named)}"
    if variant.better:
        return text
    match comparison.change_of_variant(variant):
        case "better":
            return text
        case "worse" if variant.p < 0.0001:
            return f"{text}, p < 0.0001"
        case "worse":
            return f"{text}, p = {variant.p:.2g}"
        case found:
            return f"{text}, {found}"


def points_gained(variant: VariantComparison) -> str:
    """`+6.1 points`."""
    return f"{signed(100 * (variant.head_rate - variant.base_rate), 1)} points"


def coverage_clause(comparison: Comparison, variant: VariantComparison) -> str:
    """`1 of 40 compared` if too few cases were compared for meaningful figures; else empty."""
    names = (variant.variant, variant.base_variant)
    known = [cell for cell in comparison.cells if cell.kind != "new" and cell.variant in names]
    if variant.cells >= len(known) * MIN_COMPARED_SHARE:
        return ""
    return f"{variant.cells:,} of {len(known):,} compared"


def ratio_change(ratio: Difference | None) -> str:
    """`+30 % (+10 to +52 %)`, or `+2 %, can't tell`; empty if either side does not know it."""
    if ratio is None:
        return ""
    if not _is_change(ratio):
        return "no change"
    text = _ratio_text(ratio)
    if ratio.lower is None or ratio.upper is None:
        return f"{text}, too few cases to tell"
    if not _is_beyond_noise(ratio):
        return f"{text}, can't tell"
    return f"{text} ({signed(100 * (ratio.lower - 1))} to {signed(100 * (ratio.upper - 1))} %)"


def latency_change(
    comparison: Comparison, variant: VariantComparison, medians_s: Sequence[float]
) -> str:
    """`+30 % (+10 to +52 %); main: 0.8 s to 2.1 s`, or `+30 %, can't tell`.

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
        return f"{_ratio_text(ratio)}, can't tell"
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
    return f"{signed(100 * (ratio.value - 1))} %"


def signed(value: float, places: int = 0) -> str:
    """`-8.3`, `+2.0`, `+4,186`, `0`."""
    if round(value, places) == 0:
        return f"{0:.{places}f}"
    return f"{value:+,.{places}f}"


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


def failed_repeats_sentence(planned: Tally, repeated: Tally) -> str:
    """`2 of 70 repeats passed, and 20 of 30 planned runs of the same cases: likely an outage …`."""
    repeats = f"{repeated.passed:,} of {number_of(repeated.graded, 'repeat')} passed"
    runs = f"{planned.passed:,} of {number_of(planned.graded, 'planned run')} of the same cases"
    return f"{repeats}, and {runs}: likely an outage, so nothing is named"


def _part_of(part: int, whole: int, noun: str) -> str:
    """`all 40 failures`, `38 of 42 failures`."""
    if part == whole > 1:
        return f"all {number_of(whole, noun)}"
    return f"{part:,} of {number_of(whole, noun)}"


def pending_sentence(pending: "FurtherRuns") -> str:
    """`not checked on main, as the runs ended first: refund, cancel`."""
    subjects = [*pending.cases, *(case for case, *_ in pending.cells), *map(str, pending.variants)]
    names = list(dict.fromkeys(name_of(subject) for subject in subjects))
    return f"not checked on main, as the runs ended first: {join_first(names, MAX_PENDING)}"


def collapsed_main_sentence(comparison: Comparison) -> str:
    """`main (0123456) passes 12 of 120 runs now, less than half of its newest report: …`."""
    now = add_tallies(cell.main_now for cell in comparison.cells)
    passes = f"{comparison.main} passes {tally_text(now)} runs now"
    return f"{passes}, less than half of its newest report: likely an outage"
