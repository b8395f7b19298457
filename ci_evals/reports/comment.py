"""A suite's section of the comment on a pull request: verdict first, then what got worse and why, the rest folded."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import msgspec
from msgspec import Struct

from ci_evals import __version__
from ci_evals.report import Report
from ci_evals.reports.comment_cells import MOST_ENTRIES, Cells, folded, on
from ci_evals.reports.comment_text import write
from ci_evals.reports.findings import MAX_CASES_OF_ERROR, ErrorGroup, error_groups
from ci_evals.reports.fitting import Document, Entry, Section
from ci_evals.reports.markdown_text import HEADLINES, Markdown, code, heading, plain, with_code
from ci_evals.reports.notes import notes, total_cost
from ci_evals.reports.summary import Summary
from ci_evals.reports.trend import trends
from ci_evals.reports.variants import VariantReport, variant_reports
from ci_evals.verdict.comparison import Comparison, NoComparison
from ci_evals.verdict.power import detectable_sentence
from ci_evals.verdict.scopes import ScopeVerdict, scope_label
from ci_evals.verdict.sentences import baseline_sentence
from ci_evals.verdict.words import number_of

_MOST_ROWS = 20
_REASON_CHARACTERS = (1000, 300, 100, 30)
_NAME_CHARACTERS = (80, 30)


class Links(Struct, frozen=True):
    """Where more is to be found, as URLs; None where there is nothing."""

    run: str | None = None
    artifact: str | None = None


class Comment:
    """One suite's section of the comment.

    Args:
        summary: what was found.
        links: what the last line leads to.
    """

    def __init__(self, summary: Summary, links: Links = Links()) -> None:  # noqa: B008  it is immutable
        self._summary = summary
        self._report = summary.report
        self._links = links

    def render(self, max_bytes: int) -> str:
        """The section as Markdown, at most so many bytes long in UTF-8 if these are 300 or more.

        What does not fit is left out by whole entries, the least important first, and counted.
        """
        return self._document.fitted(max_bytes)

    @cached_property
    def _document(self) -> Document:
        head = self._head()
        shortest = [self._headline(name, reason) for reason in _REASON_CHARACTERS for name in _NAME_CHARACTERS]
        sections = [section for section in self._sections() if section.entries]
        return Document(head, sections, self._footer(), (*shortest, f"### {HEADLINES[self._summary.verdict.status]}"))

    @cached_property
    def _variants(self) -> Sequence[VariantReport]:
        return variant_reports(self._summary)

    # Head and foot.

    def _head(self) -> str:
        verdict = self._summary.verdict
        parts = [self._headline(_NAME_CHARACTERS[0], _REASON_CHARACTERS[0])]
        if verdict.hint:
            parts.append(with_code(verdict.hint))
        told = (note for note in notes(self._report) if note.label in ("Interrupted", "Resumed", "Recorded"))
        return "\n\n".join([*parts, *(write("note", note=note) for note in told)])

    def _headline(self, name_characters: int, reason_characters: int) -> str:
        verdict = self._summary.verdict
        return write(
            "headline",
            status=HEADLINES[verdict.status],
            suite=_cut(self._report.suite.name, name_characters),
            reason=heading(_cut(verdict.reason, reason_characters)),
        )

    def _footer(self) -> str:
        comparison, report = self._summary.comparison, self._report
        facts = []
        if isinstance(comparison, Comparison):
            facts.append(baseline_sentence(comparison, report.started_at))
            facts.append(detectable_sentence(comparison) or shape(report))
        else:
            facts.append(comparison.reason if isinstance(comparison, NoComparison) else "compared with nothing")
            facts.append(shape(report))
        if (cost := total_cost(report)) is not None:
            facts.append(cost)
        return write("footer", facts=facts, links=msgspec.structs.asdict(self._links), version=__version__)

    # Sections, in the order of reading.

    def _sections(self) -> Iterator[Section]:
        yield self._table()
        yield self._gate()
        cells = Cells(self._summary)
        yield from cells.worse()
        yield from self._without_verdict()
        yield from cells.failing()
        yield from cells.others()
        yield self._trend()

    def _table(self) -> Section:
        base, variants = self._summary.base, self._variants
        rows = [
            Entry(write("row", variant=each, base=base, was_s=self._p95_before(each))) for each in variants[:_MOST_ROWS]
        ]
        opening = write("table", base=base) + "\n"
        return Section("variant", opening, rows, len(variants), 0, more="\n\n… and {number} more variants")

    def _p95_before(self, variant: VariantReport) -> float | None:
        """The baseline's 95th percentile, if it is over the same cases."""
        comparison = self._summary.compared
        if comparison is None or not comparison.baseline.trend:
            return None
        newest, key = comparison.baseline.trend[0], comparison.base_variant(variant.variant)
        if newest.cases != self._report.cases_fingerprint or newest.report.id != comparison.baseline.reports[0].id:
            return None
        return next((each.latency_p95_s for each in newest.variants if (each.provider, each.prompt) == key), None)

    def _gate(self) -> Section:
        """What speaks against merging beside the reason in the first line."""
        verdict = self._summary.verdict
        lines = [
            plain(rule.sentence)
            for rule in verdict.rules
            if rule.rule not in ("critical", "regressions") and rule.sentence not in verdict.reason
        ]
        missed = [scope for scope in verdict.scopes if scope.status != "pass" and scope.bar is not None]
        if verdict.rules or len(missed) > 1:  # else it is the reason in the first line
            lines += map(self._missed, missed)
        return _bullets("Also against merging", "more reason", 1, lines)

    def _missed(self, scope: ScopeVerdict) -> Markdown:
        return write("scope", scope=scope, label=scope_label(scope, self._report), status=HEADLINES[scope.status])

    def _without_verdict(self) -> Iterator[Section]:
        """Errored runs by reason; and apart from them, what no record had an answer to."""
        groups = error_groups(self._report) if self._report.errored else []
        errored = [group for group in groups if group.kind != "not_recorded"]
        lines = [self._errors(group) for group in errored]
        runs = number_of(sum(group.runs for group in errored), "run")
        yield _bullets(f"⚠️ Errored ({runs})", "reason of errors", 3, lines)
        unchecked = [
            Entry(f"- {code(case.id)}{on(self._summary, group.variant)}")
            for group in groups
            if group.kind == "not_recorded"
            for case in group.cases
        ]
        title = f"Not checked, for want of a recorded answer ({len(unchecked):,})"
        yield folded(title, "unchecked case", 4, unchecked[:MOST_ENTRIES], len(unchecked))

    def _errors(self, group: ErrorGroup) -> Markdown:
        return write("errors", group=group, on=on(self._summary, group.variant), most=MAX_CASES_OF_ERROR)

    def _trend(self) -> Section:
        entries = [
            Entry(
                write("trend", trend=trend, variant=each, on=on(self._summary, each.variant), base=self._summary.base)
            )
            for each, trend in trends(self._summary.compared, self._variants[:_MOST_ROWS])
        ]
        return Section("trend", "", entries, len(entries), 11, separator="<br>", more="")


def progress_text(suite: str, run_url: str | None) -> str:
    """What stands in for a section while its run lasts."""
    return write("progress", suite=_cut(suite, _NAME_CHARACTERS[0]), url=run_url)


def shape(report: Report) -> str:
    """`40 cases × 3 runs`, and × variants where there are several."""
    matrix = report.matrix
    several = f" × {number_of(len(matrix.variants), 'variant')}" if len(matrix.variants) > 1 else ""
    return f"{number_of(len(matrix.cases), 'case')}{several}, {number_of(report.total, 'run')}"


def _bullets(title: str, noun: str, rank: int, lines: Iterable[str]) -> Section:
    entries = [Entry(f"- {line}") for line in lines]
    return Section(noun, f"#### {title}\n\n", entries[:MOST_ENTRIES], len(entries), rank)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"
