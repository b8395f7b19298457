"""The sentences and figures of a summary for people, in the order of reading.

The terminal, summary.md, the comment and report.html are all views of `findings`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor
from typing import TYPE_CHECKING, Final

from ci_evals.format import UNKNOWN, number_of, one_line, percent, percent_figure, seconds
from ci_evals.gate.bars import VERDICTS, ScopeVerdict, worst_first
from ci_evals.gate.baseline import add_tallies
from ci_evals.gate.cases import MetricComparison, TagComparison
from ci_evals.gate.compare import Comparison
from ci_evals.gate.rules import RuleVerdict
from ci_evals.gate.run_errors import (
    errored_cause,
    errored_headline,
    limit_sentence,
    refusal_sentence,
)
from ci_evals.gate.verdict import population_bounds
from ci_evals.gate.wording.bars import (
    part_of_suite,
    scope_subject,
    stopped_clause,
    unchanged_clause,
    unchanged_sentence,
)
from ci_evals.gate.wording.bases import SourceSentence
from ci_evals.gate.wording.comparisons import missed_on_main_clause, points_gained, score_texts
from ci_evals.gate.wording.rules import quarantine_clause
from ci_evals.model.case import Variant
from ci_evals.model.report import STAND_IN, Tally
from ci_evals.model.rules import Gate
from ci_evals.reports.alike_cases import AlikeCases, alike_cases, cases_by_grader
from ci_evals.reports.groups import (
    CellGroup,
    ForeignText,
    Group,
    GroupKind,
    Sentence,
    case_subject,
    case_tallies,
    cells_by_group,
    groups_of,
    missed_text,
    on_variant,
    quoted_answer,
    shared_subject,
    worse_case,
)
from ci_evals.reports.notes import (
    basis,
    comparison_notes,
    facts,
    lack_of_history,
    notes,
    outcome,
    ranges_note,
    rate_is_share,
    repeats_made,
)
from ci_evals.reports.summary import Note, Summary, once_per_summary
from ci_evals.reports.variants import (
    MetricReport,
    Standing,
    TaskReport,
    Trend,
    VariantChange,
    VariantReport,
    leaderboard,
    trend_of,
    variant_changes,
    variant_reports,
)
from ci_evals.reports.view import FEW, MANY, SOME, CaseView, CellView, case_views, covers

if TYPE_CHECKING:
    from ci_evals.gate.missed_on_main import MissedOnMain

_HEADLINE_CHARACTERS: Final = 80  # two lines of a phone
_REASON_CHARACTERS: Final = 80  # of the reason of a row that several cases share

# The headline.


@dataclass(frozen=True, slots=True)
class Headline:
    """The outcome in a sentence: `2 cases regressed: refund, cancel`.

    Attributes:
        sentence: the outcome, naming the cases that decided.
        short: the same without names.
        evidence: the rest of the verdict's reason; may be empty.
        is_outcome: it states how many runs passed, and nothing else.
    """

    sentence: Sentence
    short: str
    evidence: str = ""
    is_outcome: bool = False


def _headline(summary: Summary) -> Headline:
    """Return what decided in a few words, or the verdict's own reason if that is as short."""
    verdict = summary.verdict
    # The order matters: regressions and errors explain a verdict before any bar does, and a run
    # that proves the suite unchanged has no results of its own that could pass or miss one.
    match verdict.leading:
        case RuleVerdict(rule="critical" | "regressions" | "waived"):
            return _regression_headline(summary, verdict.leading)
        case RuleVerdict(rule="variant"):
            return _fallen(summary, verdict.leading)
        case "all errored" | "too many errored":
            return _error_headline(summary)
        case _ if verdict.status == "error":
            return _reason(summary)
        case _ if summary.report.proves_unchanged:
            return _unchanged_headline(summary)
        case RuleVerdict() | "over budget" | None:
            return _reason(summary)
        case _ if verdict.status == "pass":
            return _pass_headline(summary)
        case ScopeVerdict() if verdict.missed_on_main is not None and summary.compared is not None:
            return _missed_on_main_headline(
                summary, verdict.leading, summary.compared, verdict.missed_on_main
            )
        case ScopeVerdict():
            return _missed_bar_headline(summary, verdict.leading)
        case _:
            return _reason(summary)


def _reason(summary: Summary) -> Headline:
    reason = _evidence(summary)
    if summary.verdict.status != "error":
        reason = unchanged_clause(summary.report) + reason
    is_outcome = summary.verdict.leading == "nothing graded"
    return _head(summary, reason, is_outcome=is_outcome)


def _evidence(summary: Summary) -> str:
    """Return the verdict's reason without the clause on the part of the suite that was judged."""
    return "; ".join((summary.verdict.sentence, *summary.verdict.further))


def _head(
    summary: Summary,
    short: str,
    names: Sentence = (),
    *,
    evidence: str = "",
    is_outcome: bool = False,
) -> Headline:
    """Return a headline that ends with the part of the suite that was judged, if not all was."""
    part = part_of_suite(summary.report)
    if part:
        part = f" ({part})"
    return Headline((short, *names, part), short + part, evidence, is_outcome)


def _regression_headline(summary: Summary, rule: RuleVerdict) -> Headline:
    """`12 cases better, 2 worse: refund (critical), cancel`, or `2 cases regressed: …` if none is
    better; `at least 20` if not all suspects were confirmed.
    """
    regressed = cells_by_group(summary)["regressed"]
    blocking = summary.verdict.blocking_cells
    # With `on_regression: warn` or `net`, no cell blocks, but the regressed ones still decided.
    cells = [cell for cell in regressed if cell.key in blocking] or regressed
    cases = case_views(cells)
    short = _count_both_sides(summary, cases)
    names = _name_cases(summary, cases)
    worse = case_views([*regressed, *cells_by_group(summary)["probably worse"]])
    broken = [case for case in worse if case.is_broken]
    if answer := _one_answer(broken, "now answer"):
        short = f"{_count_cases(summary, broken)} broke"
        names = (*_change_of_rate(summary), *answer)
    elif tags := _shared_tags(summary, cases):
        names = (*_common_place(summary, cases), ": ", *_name_tags(tags))
    if rule.rule == "waived":
        short += " (waived)" if len(rule.cells) == len(cells) else " (waived or allowed)"
        names = (*names, *_gained_points(summary))
        return _head(summary, short, names, evidence=_evidence(summary))
    if not cells_by_group(summary)["fixed"]:  # many gain a little, so that no case is named
        names = (*names, *_gained_points(summary))
    if summary.gate and summary.gate.max_regressions and rule.rule == "regressions":
        names = (*names, f"; the gate allows {summary.gate.max_regressions}")
    return _head(summary, short, names)


def _one_answer(cases: Sequence[CaseView], verb: str) -> Sentence:
    """Return `: they now answer "I cannot look into that."` if half of the cases or more give one
    answer and are too many to be named; else nothing.
    """
    broken = [case for case in cases if case.is_broken]
    if len(broken) <= SOME:
        return ()
    largest = max(alike_cases(broken), key=lambda alike: len(alike.cases))
    if largest.answer is None or 2 * len(largest.cases) < len(cases):
        return ()
    who = "they"
    if len(largest.cases) < len(cases):
        who = f"{len(largest.cases):,}"
    return (f": {who} {verb} ", *quoted_answer(largest.answer))


def _change_of_rate(summary: Summary) -> Iterator[str]:
    """Yield ` (96.4 → 17.1 %)`, the pass rate on the base and here."""
    comparison, here = summary.compared, summary.report.pass_rate
    if comparison is None or here is None:
        return
    base = comparison.base_rate(comparison.cells)
    if base is not None:
        yield f" ({percent_figure(base.rate, here)} → {percent(here, base.rate)})"


def _count_both_sides(summary: Summary, worse: Sequence[CaseView]) -> str:
    """`12 cases better, 2 worse`, or `2 cases regressed` if none is better."""
    at_least = ""
    if summary.compared and summary.compared.unconfirmed:
        at_least = "at least "
    better = case_views(cells_by_group(summary)["fixed"])
    if not better:
        return f"{at_least}{_count_cases(summary, worse)} regressed"
    return f"{number_of(len(better), 'case')} better, {at_least}{len(worse):,} worse"


def _gained_points(summary: Summary) -> Iterator[str]:
    """Yield `; +6.1 points on the whole`, or `; +6.1 points on gpt-4o`, if one variant is surely
    better.
    """
    if summary.compared is None:
        return
    variants = summary.compared.variants
    better = [each for each in variants if each.better or each.surely_higher]
    if len(better) != 1:
        return
    yield f"; {points_gained(better[0])}"
    yield from on_variant(summary, better[0].variant) or (" on the whole",)


def _shared_tags(summary: Summary, cases: Sequence[CaseView]) -> Sequence[TagComparison]:
    """Return the tags that explain all regressed cases, if they say more than a list of names.

    Most cases of each of these tags got worse.
    """
    if len(cases) <= FEW:
        return ()
    chosen = _broken_tags(summary)
    names = {tag.tag for tag in chosen}
    if all(names.intersection(case.case.tags) for case in cases):
        return chosen
    return ()


def _broken_tags(summary: Summary) -> Sequence[TagComparison]:
    """Return the first tags that fell and whose cases are mostly worse, or possibly worse."""
    if summary.compared is None:
        return ()
    found = summary.compared.select("regressed", "suspect")
    worse = {cell.case for cell in found if not cell.cleared}
    chosen: list[TagComparison] = []
    explained: set[str] = set()
    for tag in summary.compared.fallen_tags:
        cases = {case.id for case in summary.report.plan.cases if tag.tag in case.tags}
        broken = cases & worse
        # A tag whose broken cases all have a surer tag adds a name, but no information.
        if 2 * len(broken) > len(cases) and not broken <= explained:
            chosen.append(tag)
            explained |= broken
    return chosen[:FEW]


def _name_tags(tags: Sequence[TagComparison]) -> Iterator[str]:
    """Yield the pieces of `tags refund (95 → 12 %) and parcel (98 → 8 %)`."""
    changes = []
    for tag in tags:
        before = percent_figure(tag.base_rate, tag.head_rate)
        changes.append((tag.tag, before, percent(tag.head_rate, tag.base_rate)))
    yield from _name_changes("tag", changes)


def _name_metrics(metrics: Sequence[MetricComparison]) -> Iterator[str]:
    """Yield the pieces of `metrics tone (0.91 → 0.74) and brevity (0.95 → 0.80)`."""
    changes = []
    for metric in metrics:
        here, before = score_texts(metric.scores)
        changes.append((metric.metric, before, here))
    yield from _name_changes("metric", changes)


def _name_changes(noun: str, changes: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Yield the pieces of a list; each change has its name, and its figure before and here."""
    yield f"{noun} " if len(changes) == 1 else f"{noun}s "
    for number, (name, before, here) in enumerate(changes):
        if number and number == len(changes) - 1:
            yield " and "
        elif number:
            yield ", "
        yield ForeignText(name)
        yield f" ({before} → {here})"


def _fallen(summary: Summary, rule: RuleVerdict) -> Headline:
    """`pass rate fell from 100 % on main to 83.3 % on gpt-4o: tag refund (95 → 12 %)`.

    Several variants are only counted: `pass rate fell on 6 of 6 variants: tags …`.
    """
    comparison = summary.compared
    if comparison is None or rule.variant is None:
        return _reason(summary)
    worse = list(comparison.worse_variants())
    (fallen,) = [each for each in comparison.variants if each.variant == rule.variant]
    figure = "pass rate"
    base = percent(fallen.base_rate, fallen.head_rate)
    here = percent(fallen.head_rate, fallen.base_rate)
    if fallen.scores is not None:
        figure = "mean score"
        here, base = score_texts(fallen.scores)
    rates = f"from {base} on {comparison.baseline.label} to {here}"
    broken = tuple(_broken(summary))
    if len(worse) < 2:
        short = f"{figure} fell {rates}"
        names = (*on_variant(summary, fallen.variant), *broken)
        return _head(summary, short, names, evidence=_evidence(summary))
    short = f"{figure} fell on {len(worse)} of {number_of(len(comparison.variants), 'variant')}"
    names = broken
    if not broken:
        names = (f", {rates}", *on_variant(summary, fallen.variant))
    return _head(summary, short, names, evidence=_evidence(summary))


def _broken(summary: Summary) -> Iterator[str]:
    """Yield what explains the fall of a variant: one answer, tags, metrics, or the cases that are
    probably worse.
    """
    tags = _broken_tags(summary)
    metrics = summary.compared.fallen_metrics if summary.compared else ()
    cells = cells_by_group(summary)
    cases = case_views([*cells["regressed"], *cells["probably worse"]])
    if answer := _one_answer(cases, "now answer"):
        yield f"; {_count_cases(summary, cases)} broke"
        yield from answer
    elif tags:
        yield ": "
        yield from _name_tags(tags)
    elif metrics:
        yield ": "
        yield from _name_metrics(metrics[:FEW])
    elif cases:
        yield f"; {_count_cases(summary, cases)} probably worse"
        yield from _name_cases(summary, cases)


def _error_headline(summary: Summary) -> Headline:
    """`not checked: gpt refused 30 of 60 runs (429)` if one provider did that.

    Else `30 of 60 runs errored, all on gpt: 429: slow down`, or the verdict's reason if short.
    """
    if refusal := refusal_sentence(summary.report):
        return _head(summary, refusal, evidence=summary.verdict.reason)
    if len(summary.verdict.reason) <= _HEADLINE_CHARACTERS:
        return _reason(summary)
    report, verdict = summary.report, summary.verdict
    cause = errored_cause(report)
    if not cause:
        return _head(summary, errored_headline(report), evidence=verdict.reason)
    clauses = list(verdict.further)
    if verdict.leading == "too many errored":
        clauses.insert(0, limit_sentence(report, (summary.gate or Gate()).max_error_rate))
    names = (": ", ForeignText(one_line(cause, _HEADLINE_CHARACTERS)))
    return _head(summary, errored_headline(report), names, evidence="; ".join(clauses))


def _unchanged_headline(summary: Summary) -> Headline:
    """`prompts and cases are unchanged, and no model was called`."""
    evidence = f"their recorded answers: {_evidence(summary)}"
    return _head(summary, unchanged_sentence(summary.report), evidence=evidence)


def _pass_headline(summary: Summary) -> Headline:
    """`105 of 107 runs passed, 2 errored; 1 of 36 cases is in quarantine`."""
    report, verdict = summary.report, summary.verdict
    if verdict.leading == "all in quarantine":
        return _reason(summary)
    counts = report.gated
    short = f"{counts.passed:,} of {number_of(counts.graded + counts.errored, 'run')} passed"
    if counts.errored:
        short += f", {counts.errored:,} errored"
    if quarantined := quarantine_clause(report):
        short = f"{short}; {quarantined}"
    if regressed := case_views(cells_by_group(summary)["regressed"]):
        allowed = f"; {_count_both_sides(summary, regressed)} (allowed)"
        return _head(summary, short, (allowed, *_name_cases(summary, regressed)))
    clauses = [verdict.sentence, *verdict.further]
    if quarantined or counts.errored:  # the headline has the clauses on that
        clauses = [verdict.sentence, stopped_clause(report)]
    if _says_how_many_passed(verdict.leading, counts.graded):
        clauses = clauses[1:]
    is_part = bool(report.suite.selection or report.all_reused)
    names: Sentence = ()
    if lack := lack_of_history(summary.compared):
        names = (f"; {lack}",)
    return _head(
        summary,
        short,
        names,
        evidence="; ".join(clause for clause in clauses if clause),
        is_outcome=not is_part and (rate_is_share(report) or not counts.failed + counts.missing),
    )


def _says_how_many_passed(leading: object, graded: int) -> bool:
    """Return True if every run of the whole suite had to pass, and did."""
    return (
        isinstance(leading, ScopeVerdict)
        and leading.kind == "suite"
        and leading.bar == 1
        and leading.graded == graded
    )


def _missed_bar_headline(summary: Summary, scope: ScopeVerdict) -> Headline:
    """`2 cases failed: refund, cancel`, or `92.9 % is below 94 %, but could be luck`."""
    if scope.rate is None or scope.bar is None or scope.rate >= scope.bar:
        return _reason(summary)
    if summary.verdict.status == "borderline":
        return _doubt_headline(summary, scope)
    cells = cells_by_group(summary)
    failed = [*cells["failing"], *cells["still failing"]]
    if not failed or scope.kind == "metric":
        return _reason(summary)
    cases = case_views(failed)
    short = f"{_count_cases(summary, cases)} failed"
    names = _one_answer(cases, "answer") or _name_cases(summary, cases)
    return _head(summary, short, names, evidence=_evidence(summary))


def _missed_on_main_headline(
    summary: Summary, scope: ScopeVerdict, comparison: Comparison, missed: "MissedOnMain"
) -> Headline:
    """`77.5 % passed, 90 % needed; main has 74.2 %, so this change did not cause it`."""
    rate, bar = percent(scope.rate, scope.bar), percent(scope.bar, scope.bar)
    subject = scope_subject(scope, summary.report)
    short = f"{subject}{rate} passed, {bar} needed"
    clause = missed_on_main_clause(comparison, missed)
    verdict = summary.verdict
    others = [each for each in verdict.further if each != clause]
    evidence = "; ".join([verdict.sentence, *others])
    return _head(summary, short, (f"; {clause}",), evidence=evidence)


_WORTH_A_LOOK: Final[tuple[CellGroup, ...]] = ("probably worse", "failing")


def _doubt_headline(summary: Summary, scope: ScopeVerdict) -> Headline:
    """`92.9 % passed, 94 % needed: could be luck; probably worse: refund, cancel`."""
    rate, bar = percent(scope.rate, scope.bar), percent(scope.bar, scope.bar)
    subject = scope_subject(scope, summary.report)
    if scope.kind == "metric":
        short = f"{subject}{rate}, {bar} needed: could be luck"
        return _head(summary, short, evidence=_evidence(summary))
    short = f"{subject}{rate} passed, {bar} needed: could be luck"
    # Cases that only failed a run or two need nothing done, so they are not named.
    names: Sentence = ()
    cells = cells_by_group(summary)
    for kind in _WORTH_A_LOOK:
        below = [cell for cell in cells[kind] if cell.below_bar and covers(scope, cell)]
        if below:
            cases = case_views(below)
            names = _name_cases(summary, cases) or (f": {_count_cases(summary, cases)}",)
            names = (f"; {kind}", *names)
            break
    return _head(summary, short, names, evidence=_evidence(summary))


_MOST_NAMED: Final = MANY  # more cases are only counted


def _count_cases(summary: Summary, cases: Sequence[CaseView]) -> str:
    """`6 cases`, or `128 of 150 cases` if they are too many to be named."""
    if len(cases) <= _MOST_NAMED:
        return number_of(len(cases), "case")
    judged = [case for case in summary.report.plan.cases if case.quarantine is None]
    return f"{len(cases):,} of {number_of(len(judged), 'case')}"


def _name_cases(summary: Summary, cases: Sequence[CaseView]) -> Sentence:
    """Return ` on 6 variants: refund (critical), cancel and 4 more`, or `: refund on gpt-4o, cancel
    on 2 variants`; nothing if the cases are too many to be named.

    It has at least one name, and no more than fit into two lines on a phone.
    """
    if len(cases) > _MOST_NAMED:
        return ()
    common: Sentence = ()
    if len(cases) > 1:
        common = _common_place(summary, cases)
    names: list[str] = [*common]
    room = _HEADLINE_CHARACTERS - len("".join(common))
    named = 0
    for case in cases[:FEW]:
        name: list[str] = [ForeignText(case.case.id)]
        if case.critical:
            name.append(" (critical)")
        if not common:
            name += _place_of_case(summary, case)
        room -= len("".join(name)) + 2  # and the separator
        if room < 0 and named:
            break
        names.append(", " if named else ": ")
        names += name
        named += 1
    if len(cases) > named:
        names.append(f" and {len(cases) - named:,} more")
    return tuple(names)


def _common_place(summary: Summary, cases: Sequence[CaseView]) -> Sentence:
    """Return ` on 6 variants` or ` on gpt-4o` if this is true of every case; else nothing."""
    places = {_place_of_case(summary, case) for case in cases}
    if len(places) > 1:
        return ()
    return places.pop()


def _place_of_case(summary: Summary, case: CaseView) -> Sentence:
    """` on gpt-4o`, ` on 2 variants`, or ` over 6 variants` if no variant shows it by itself."""
    worse = worse_case(summary, case)
    if worse and not worse.variants:
        return (f" over {number_of(worse.cells, 'variant')}",)
    if len(case.cells) > 1:
        return (f" on {number_of(len(case.cells), 'variant')}",)
    return on_variant(summary, case.cells[0].variant)


# Cases in columns.


@dataclass(frozen=True, slots=True)
class CaseRow:
    """A case that decided or was fixed, as figures in columns: `30/30` on the base, `4/10` here,
    `p < 0.001`. Many cases that failed for the same reason share a row.

    `base` is empty if the case was not compared, and `base_now` if the base did not run with it.
    """

    kind: CellGroup
    subject: Sentence
    critical: bool
    base: str
    base_now: str
    here: str
    note: str


ROWS: Final[tuple[CellGroup, ...]] = ("regressed", "probably worse", "failing", "fixed")
"""The groups whose cells are rows of the table of cells."""


def _rows(summary: Summary, kind: CellGroup) -> Iterator[CaseRow]:
    cases = case_views(cells_by_group(summary)[kind])
    groups = [AlikeCases([case]) for case in cases]
    # The same answer or reason says most; the same grader is for a list that is still too long.
    if len(cases) > SOME:
        groups = list(alike_cases(cases))
    if len(groups) > SOME:
        groups = list(cases_by_grader(cases))
    for alike in groups:
        subject = case_subject(summary, alike.cases[0])
        if len(alike.cases) > 1:
            subject = shared_subject(summary, alike.cases)
            subject = (
                *subject,
                *_shared_reason(alike, is_whole_group=len(alike.cases) == len(cases)),
            )
        yield _row(summary, kind, alike.cases, subject)


def _shared_reason(alike: AlikeCases, *, is_whole_group: bool) -> Sentence:
    """`: "I cannot look into that."`, `: no "refund" in the answer`, or `: contains` if the reasons
    differ.
    """
    if alike.answer is not None:
        return (": ", *quoted_answer(alike.answer))
    reasons = {missed_text(case.cells[0]) for case in alike.cases}
    if len(reasons) > 1:
        graders = ", ".join(alike.cases[0].cells[0].failures.graders)
        return (": ", ForeignText(one_line(graders, _REASON_CHARACTERS)))
    if is_whole_group:
        return ()  # the only entry of the group says it
    return (": ", ForeignText(one_line(reasons.pop(), _REASON_CHARACTERS)))


def _row(
    summary: Summary, kind: CellGroup, cases: Sequence[CaseView], subject: Sentence
) -> CaseRow:
    case, first = cases[0], cases[0].cells[0]
    note = ""
    if len(cases) > 1:
        pass  # each has a p-value of its own
    elif worse := worse_case(summary, case):
        note = brief_chance(worse.adjusted_p)
    elif first.found and first.found.cleared:
        note = "not this change"
    elif first.change in ("new", "edited", "fixed", "probably worse", "can't tell"):
        note = first.change
    elif first.found and first.change == "worse":
        note = brief_chance(first.found.adjusted_p)
    tallies = [case_tallies(summary, each) for each in cases]
    base = brief_tally(add_tallies(base for base, _ in tallies))
    here = brief_tally(add_tallies(head for _, head in tallies))
    base_now = brief_tally(add_tallies(each.base_now for each in cases))
    base, base_now = base.replace(UNKNOWN, ""), base_now.replace(UNKNOWN, "")
    return CaseRow(kind, subject, case.critical, base, base_now, here, note)


def brief_tally(tally: Tally) -> str:
    """`29/30`, for a column."""
    if not tally.graded:
        return UNKNOWN
    return f"{tally.passed:,}/{tally.graded:,}"


def base_now_clause(summary: Summary, case: CaseView) -> str:
    """`main now 10/10`; empty if main has not run the case in the same minutes."""
    if not case.base_now.graded:
        return ""
    return f"{summary.base_heading} now {brief_tally(case.base_now)}"


def brief_chance(p: float | None) -> str:
    """`p = 0.012`, or `p < 0.001`, for a column."""
    if p is None:
        return ""
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.2g}"


# Metrics.


@dataclass(frozen=True, slots=True)
class MetricFinding:
    """The mean scores of a metric, variant by variant, and its change over all of them.

    `against_base` is `91 % on main, p = 0.002`, the latter only if it surely fell; empty where it
    is not compared.
    """

    name: str
    means: Sequence[tuple[Variant, MetricReport]]
    against_base: str = ""


def _against_base(comparison: Comparison, metric: MetricComparison) -> str:
    head, base = metric.scores
    text = f"{percent(base, head)} on {comparison.baseline.label}"
    if metric.adjusted_p <= comparison.alpha:
        text += f", {brief_chance(metric.adjusted_p)}"
    return text


# All of it.


@dataclass(frozen=True, eq=False)
class Findings:
    """A summary in sentences and figures for people; each part is computed on first use."""

    summary: Summary

    @cached_property
    def _headline(self) -> Headline:
        headline = _headline(self.summary)
        if not self.summary.report.suite.asks_stand_in:
            return headline
        remark = f" ({STAND_IN})"
        return replace(
            headline, sentence=(*headline.sentence, remark), short=headline.short + remark
        )

    @property
    def headline(self) -> Sentence:
        """The outcome, by name: `2 cases regressed: refund, cancel`."""
        return self._headline.sentence

    @property
    def short_headline(self) -> str:
        """`2 cases regressed`."""
        return self._headline.short

    @property
    def evidence(self) -> str:
        """The verdict's reason beyond the headline; empty if rows of regressed cells show it."""
        leading = self.summary.verdict.leading
        is_waived = isinstance(leading, RuleVerdict) and leading.rule == "waived"
        if self.cells["regressed"] and not is_waived:
            return ""
        return self._headline.evidence

    @property
    def verdict(self) -> str:
        """`Fail`."""
        return VERDICTS[self.summary.verdict.status]

    @cached_property
    def facts(self) -> tuple[str, ...]:
        """Facts in a few words each: passed runs, the base's pass rate, repeats, cost, time."""
        rest = facts(self.summary)
        if self._headline.is_outcome:
            return tuple(rest)
        return (outcome(self.summary.report), *rest)

    @property
    def outcome(self) -> str:
        """`34 of 50 runs passed, …, +24 to be sure (5 on main), in 12.5 s`."""
        report = self.summary.report
        parts = [outcome(report), *repeats_made(report), f"in {seconds(report.duration_s)}"]
        return ", ".join(parts)

    @cached_property
    def expected(self) -> str | None:
        """The pass rate to expect of similar new cases, if there are enough cases to know."""
        bounds = population_bounds(self.summary.report, self.summary.gate)
        if bounds is None:
            return None
        rates = f"{floor(100 * bounds.lower)}–{ceil(100 * bounds.upper)} %"
        return f"Expected on similar new cases: {rates} (not part of the verdict)"

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """Remarks about the run and the verdict."""
        found = [*notes(self.summary.report)]
        if self.summary.report.suite.without_skills:
            from ci_evals.reports.skills import skills_notes

            found += skills_notes(self.summary)
        return (*found, *comparison_notes(self.summary), ranges_note(self.summary))

    @cached_property
    def basis(self) -> tuple[SourceSentence | str, ...]:
        """The basis of the verdict: the baseline, the size of the plan, the meaning of bounds."""
        return tuple(basis(self.summary))

    # Cells.

    @property
    def cells(self) -> Mapping[CellGroup, Sequence[CellView]]:
        """Every cell, by its group."""
        return cells_by_group(self.summary)

    @cached_property
    def rows(self) -> tuple[CaseRow, ...]:
        """The cells that decided and those that were fixed, in the order of `groups`."""
        return tuple(row for kind in ROWS for row in _rows(self.summary, kind))

    @cached_property
    def broken_tags(self) -> Sequence[TagComparison]:
        """The first tags that fell and whose cases are mostly worse, the surest first."""
        return _broken_tags(self.summary)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups to look at, the most important first; none is empty."""
        return groups_of(self.summary)

    def group(self, kind: GroupKind) -> Group | None:
        """Return the group of this kind, if there is one."""
        return next((group for group in self.groups if group.kind == kind), None)

    # Variants, and the parts of the matrix with a bar.

    @property
    def variants(self) -> tuple[VariantReport, ...]:
        return variant_reports(self.summary)

    @property
    def several_variants(self) -> bool:
        return len(self.variants) > 1

    @property
    def first_cell(self) -> CellView | None:
        """The cell to look at first; None if all groups with cells are folded."""
        for group in self.groups:
            for entry in group.entries:
                if entry.cell is not None and not group.folded:
                    return entry.cell
        return None

    @cached_property
    def variant_changes(self) -> Mapping[Variant, VariantChange]:
        """Each variant compared with the baseline; empty without a comparison."""
        return variant_changes(self.summary)

    @cached_property
    def leaderboard(self) -> tuple[Standing, ...]:
        """The variants by rank, the best first; empty if a ranking makes no sense."""
        return leaderboard(self.variants)

    @cached_property
    def trend(self) -> Trend | None:
        """The pass rates of the variants in earlier reports, if there are two."""
        return trend_of(self.summary, self.variants)

    @cached_property
    def metrics(self) -> Sequence[MetricFinding]:
        """The metrics of graders, the surest drop first; then those that are not compared."""
        means: dict[str, list[tuple[Variant, MetricReport]]] = {}
        for variant in self.variants:
            for metric in variant.metrics:
                means.setdefault(metric.name, []).append((variant.variant, metric))
        against_base: dict[str, str] = {}
        if self.summary.compared is not None:
            for change in self.summary.compared.metrics:
                against_base[change.metric] = _against_base(self.summary.compared, change)
        return [
            MetricFinding(name, means[name], against_base.get(name, ""))
            for name in dict.fromkeys((*against_base, *means))
            if name in means
        ]

    @property
    def tasks(self) -> list[tuple[Variant, TaskReport]]:
        """The classifications of every variant."""
        return [(each.variant, task) for each in self.variants for task in each.classifications]

    @cached_property
    def bars(self) -> list[ScopeVerdict]:
        """The parts of the matrix with a bar of their own, the worst first; empty if only the suite
        has one.

        If every case has a bar, the cases that meet it are left out.
        """
        gate = self.summary.gate
        bars = [scope for scope in self.summary.verdict.scopes if scope.bar is not None]
        if gate is not None and gate.min_case_pass_rate is not None:
            bars = [scope for scope in bars if scope.kind != "case" or scope.status != "pass"]
        if len(bars) < 2:
            return []
        return worst_first(bars)


@once_per_summary
def findings(summary: Summary) -> Findings:
    """Return the findings of a summary."""
    return Findings(summary)
