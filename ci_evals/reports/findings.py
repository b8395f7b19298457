"""Everything that a person is shown of a summary, in the order of reading.

The pages for people are views of `findings`: terminal, summary.md, the comment and report.html.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import ceil, floor
from typing import Final

from ci_evals.format import UNKNOWN, number_of, percent, seconds
from ci_evals.gate.bars import VERDICTS, ScopeVerdict, worst_first
from ci_evals.gate.cases import CaseComparison, TagComparison
from ci_evals.gate.rules import RuleVerdict
from ci_evals.gate.run_errors import errored_headline
from ci_evals.gate.verdict import population_bounds
from ci_evals.gate.wording import (
    SourceSentence,
    quarantine_clause,
    scope_clause,
    scope_subject,
    stopped_clause,
    unchanged_sentence,
    variants_clause,
)
from ci_evals.model.case import Variant
from ci_evals.model.report import Tally
from ci_evals.reports.groups import (
    CellGroup,
    ForeignText,
    Group,
    GroupKind,
    Sentence,
    cells_by_group,
    groups_of,
    on_variant,
)
from ci_evals.reports.notes import (
    basis,
    bounds_note,
    comparison_notes,
    facts,
    notes,
    outcome,
    rate_is_share,
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
from ci_evals.reports.view import FEW, MANY, CaseView, CellView, case_views

_HEADLINE_CHARACTERS: Final = 80  # two lines of a phone

# The headline.


@dataclass(frozen=True, slots=True)
class Headline:
    """The outcome in a sentence: `2 cases regressed: refund, cancel`.

    Attributes:
        sentence: what happened, by name where single cases decided.
        short: the same without names.
        evidence: what the verdict says beyond it; may be empty.
        is_outcome: it says how many runs passed, and nothing else.
    """

    sentence: Sentence
    short: str
    evidence: str = ""
    is_outcome: bool = False


def _headline(summary: Summary) -> Headline:
    """Return what decided, in few words, or else the verdict's own reason."""
    verdict = summary.verdict
    match verdict.leading:
        case RuleVerdict(rule="critical" | "regressions"):
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
        case ScopeVerdict():
            return _missed_bar_headline(summary, verdict.leading)
        case _:
            return _reason(summary)


def _reason(summary: Summary) -> Headline:
    reason = summary.verdict.reason
    return Headline((reason,), reason)


def _evidence(summary: Summary) -> str:
    """Return the verdict's reason without what part of the suite was judged."""
    return "; ".join((summary.verdict.sentence, *summary.verdict.further))


def _head(
    summary: Summary,
    short: str,
    names: Sentence = (),
    *,
    evidence: str = "",
    is_outcome: bool = False,
) -> Headline:
    """Begin with what part of the suite was judged, if it was not all."""
    short = scope_clause(summary.report) + short
    return Headline((short, *names), short, evidence, is_outcome)


def _regression_headline(summary: Summary, rule: RuleVerdict) -> Headline:
    """`2 cases regressed: refund (critical), cancel`, or `at least 20` if not all suspects were
    confirmed.
    """
    regressed = cells_by_group(summary)["regressed"]
    blocking = summary.verdict.blocking_cells
    cells = [cell for cell in regressed if cell.key in blocking] or regressed
    short, names = _list_cells(summary, cells, "regressed")
    if summary.compared and summary.compared.unconfirmed:
        short = f"at least {short}"
    if tag := _shared_tag(summary, cells):
        names = (": ", *_tag_fell(summary, tag))
    if summary.gate and summary.gate.max_regressions and rule.rule == "regressions":
        names = (*names, f"; the gate allows {summary.gate.max_regressions}")
    return _head(summary, short, names)


def _shared_tag(summary: Summary, cells: Sequence[CellView]) -> TagComparison | None:
    """Return the tag that says more than a list of cases: it fell, and all of them have it."""
    tag = summary.compared.fallen_tag if summary.compared else None
    if tag is None or len(case_views(cells)) <= FEW:
        return None
    if any(tag.tag not in cell.case.tags for cell in cells):
        return None
    return tag


def _tag_fell(summary: Summary, tag: TagComparison) -> Sentence:
    """`cases tagged refund fell from 95 % on main to 12 %`."""
    assert summary.compared is not None
    base = percent(tag.base_rate, tag.head_rate)
    here = percent(tag.head_rate, tag.base_rate)
    rates = f" fell from {base} on {summary.compared.baseline.label} to {here}"
    return ("cases tagged ", ForeignText(tag.tag), rates)


def _fallen(summary: Summary, rule: RuleVerdict) -> Headline:
    """`pass rate fell from 100 % on main to 83.3 % on gpt-4o; cases tagged refund fell from …`."""
    comparison = summary.compared
    if comparison is None or rule.variant is None:
        return _reason(summary)
    (fallen,) = [each for each in comparison.variants if each.variant == rule.variant]
    base = percent(fallen.base_rate, fallen.head_rate)
    here = percent(fallen.head_rate, fallen.base_rate)
    short = f"pass rate fell from {base} on {comparison.baseline.label} to {here}"
    names = on_variant(summary, fallen.variant)
    if tag := comparison.fallen_tag:
        names = (*names, "; ", *_tag_fell(summary, tag))
    return _head(summary, short, names, evidence=_evidence(summary))


def _error_headline(summary: Summary) -> Headline:
    """`30 of 60 runs errored, all on gpt`, unless the reason is as short."""
    if len(summary.verdict.reason) <= _HEADLINE_CHARACTERS:
        return _reason(summary)
    return _head(summary, errored_headline(summary.report), evidence=summary.verdict.reason)


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
    if regressed := cells_by_group(summary)["regressed"]:
        allowed, names = _list_cells(summary, regressed, "regressed, as the gate allows")
        return _head(summary, short, ("; ", allowed, *names))
    clauses = [verdict.sentence, *verdict.further]
    if quarantined or counts.errored:  # the headline has the clauses on that
        clauses = [verdict.sentence, stopped_clause(report)]
    if _says_how_many_passed(verdict.leading, counts.graded):
        clauses = clauses[1:]
    is_part = bool(report.suite.selection or report.all_reused or quarantined)
    return _head(
        summary,
        short,
        evidence="; ".join(clause for clause in clauses if clause),
        is_outcome=not is_part and rate_is_share(report),
    )


def _says_how_many_passed(leading: object, graded: int) -> bool:
    """Return True for the whole suite where every run had to pass, and did."""
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
        rate, bar = percent(scope.rate, scope.bar), percent(scope.bar, scope.bar)
        subject = scope_subject(scope, summary.report)
        short = f"{subject}{rate} is below {bar}, but could be luck"
        return _head(summary, short, evidence=_evidence(summary))
    cells = cells_by_group(summary)
    failed = [*cells["failing"], *cells["still failing"]]
    if not failed or scope.kind == "metric":
        return _reason(summary)
    short, names = _list_cells(summary, failed, "failed")
    return _head(summary, short, names, evidence=_evidence(summary))


_MOST_NAMED: Final = MANY  # cases; more are only counted


def _list_cells(summary: Summary, cells: Sequence[CellView], what: str) -> tuple[str, Sentence]:
    """Return `6 cases regressed`, and `: refund (critical) on gpt-4o, cancel on 2 variants and 4
    more`, which is empty where they are many.

    At most as many names as fit into two lines on a phone, and at least one.
    """
    cases = case_views(cells)
    if len(cases) > _MOST_NAMED:
        judged = [case for case in summary.report.plan.cases if case.quarantine is None]
        total = number_of(len(judged), "case")
        return f"{len(cases):,} of {total} {what}", ()
    names: list[str] = []
    room = _HEADLINE_CHARACTERS
    named = 0
    for case in cases[:FEW]:
        name = list(_name_case(summary, case))
        room -= len("".join(name)) + 2
        if room < 0 and named:
            break
        names.append(", " if named else ": ")
        names += name
        named += 1
    if len(cases) > named:
        names.append(f" and {len(cases) - named:,} more")
    return f"{number_of(len(cases), 'case')} {what}", tuple(names)


def _name_case(summary: Summary, case: CaseView) -> Iterator[str]:
    """Yield the pieces of `refund (critical) on gpt-4o`.

    `over 6 variants` is said of a case that no variant shows to be worse by itself.
    """
    yield ForeignText(case.case.id)
    if case.critical:
        yield " (critical)"
    worse = _worse_over_variants(summary, case)
    if worse and not worse.variants:
        yield f" over {number_of(worse.cells, 'variant')}"
    elif len(case.cells) > 1:
        yield f" on {number_of(len(case.cells), 'variant')}"
    else:
        yield from on_variant(summary, case.cells[0].variant)


def _worse_over_variants(summary: Summary, case: CaseView) -> CaseComparison | None:
    """Return the comparison of a case that regressed over its variants."""
    if any(cell.found is None or cell.found.kind != "regressed" for cell in case.cells):
        return None
    if summary.compared is None:
        return None
    return summary.compared.by_case.get(case.case.id)


# Cells in columns.


@dataclass(frozen=True, slots=True)
class CellRow:
    """A cell that decided, or that was fixed, as figures in columns: `30/30` on the base, `4/10`
    here, `p < 0.001`.

    `base` is empty where it was not compared. `where` is set for a case that is worse over its
    variants, of which `cell` is the surest.
    """

    kind: CellGroup
    cell: CellView
    base: str
    here: str
    note: str
    where: str = ""


ROWS: Final[tuple[CellGroup, ...]] = ("regressed", "failing", "fixed")
"""The groups whose cells are rows of the table of cells."""


def _row(kind: CellGroup, cell: CellView) -> CellRow:
    found, comparison = cell.found, cell.summary.compared
    base, here, note = "", cell.counts.tally, ""
    if found and comparison and found.base.graded:
        base, here = brief_tally(found.base), found.head
        note = brief_chance(comparison.decisive_p(found))
    if found and found.kind in ("new", "edited", "fixed"):
        note = found.kind
    return CellRow(kind, cell, base, brief_tally(here), note)


def _regressed_rows(summary: Summary, cells: Sequence[CellView]) -> Iterator[CellRow]:
    """Yield a row for each case that is worse over its variants, and for each other cell."""
    worse_cases = dict(summary.compared.by_case) if summary.compared else {}
    known = set(worse_cases)
    for cell in cells:
        case = worse_cases.pop(cell.case.id, None)
        if case is not None:
            base, here = brief_tally(case.base), brief_tally(case.head)
            note = brief_chance(case.adjusted_p)
            yield CellRow("regressed", cell, base, here, note, variants_clause(case))
        elif cell.case.id not in known:
            yield _row("regressed", cell)


def brief_tally(tally: Tally) -> str:
    """`29/30`, for a column."""
    if not tally.graded:
        return UNKNOWN
    return f"{tally.passed:,}/{tally.graded:,}"


def brief_chance(p: float | None) -> str:
    """`p = 0.012`, or `p < 0.001`, for a column."""
    if p is None:
        return ""
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.2g}"


# All of it.


@dataclass(frozen=True, eq=False)
class Findings:
    """A summary in sentences for people; each part is computed on first use."""

    summary: Summary

    @cached_property
    def _headline(self) -> Headline:
        return _headline(self.summary)

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
        """The verdict beyond the headline; empty if rows of regressed cells say it."""
        if self.cells["regressed"]:
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
        """`34 of 43 graded runs passed, … in 12.5 s`."""
        report = self.summary.report
        return f"{outcome(report)} in {seconds(report.duration_s)}"

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
        bounds = bounds_note(self.summary)
        return (*notes(self.summary.report), *comparison_notes(self.summary), bounds)

    @cached_property
    def basis(self) -> tuple[SourceSentence | str, ...]:
        """The basis of the verdict: the baseline, the size of the plan, the meaning of bounds."""
        return tuple(basis(self.summary))

    # Cells.

    @property
    def cells(self) -> Mapping[CellGroup, Sequence[CellView]]:
        """Every cell, by what is to be said of it."""
        return cells_by_group(self.summary)

    @cached_property
    def rows(self) -> tuple[CellRow, ...]:
        """The cells that decided and those that were fixed, in the order of `groups`."""
        rows: list[CellRow] = []
        for kind in ROWS:
            if kind == "regressed":
                rows += _regressed_rows(self.summary, self.cells[kind])
            else:
                rows += [_row(kind, cell) for cell in self.cells[kind]]
        return tuple(rows)

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

    @cached_property
    def variant_changes(self) -> Mapping[Variant, VariantChange]:
        """Each variant against the baseline; empty without a comparison."""
        return variant_changes(self.summary)

    @cached_property
    def leaderboard(self) -> tuple[Standing, ...]:
        """The variants by rank, the best first; empty where nobody needs an order."""
        return leaderboard(self.variants)

    @cached_property
    def trend(self) -> Trend | None:
        """The pass rates of the variants in earlier reports, if there are two."""
        return trend_of(self.summary, self.variants)

    @cached_property
    def metrics(self) -> list[tuple[Variant, MetricReport]]:
        """The metrics of graders: every variant by the first one, then by the second."""
        by_name: dict[str, list[tuple[Variant, MetricReport]]] = {}
        for variant in self.variants:
            for metric in variant.metrics:
                by_name.setdefault(metric.name, []).append((variant.variant, metric))
        return list(chain.from_iterable(by_name.values()))

    @property
    def tasks(self) -> list[tuple[Variant, TaskReport]]:
        """The classifications of every variant."""
        return [(each.variant, task) for each in self.variants for task in each.classifications]

    @cached_property
    def bars(self) -> list[ScopeVerdict]:
        """The parts of the matrix that are judged by themselves, the worst first; empty if only
        the suite is.

        Where every case has a bar, those that meet it are left out.
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
    """Return everything that a person is shown of a summary."""
    return Findings(summary)
