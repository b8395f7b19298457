"""report.html: one file to open in a browser, in which nothing from elsewhere is loaded or run."""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup, escape

from ci_evals import templating
from ci_evals.format import (
    code_spans,
    interval,
    keep_units,
    number_of,
    one_line,
    percent,
    rate_with_interval,
    score,
    seconds,
    usd,
    visible,
)
from ci_evals.gate.bars import SEVERITY, VERDICTS, VerdictStatus
from ci_evals.gate.wording import scope_label
from ci_evals.model.result import Status
from ci_evals.release import __version__
from ci_evals.reports.charts import rate_chart, scatters, trend_chart
from ci_evals.reports.files import Format
from ci_evals.reports.findings import Findings, findings
from ci_evals.reports.groups import Entry, ForeignText, Sentence, join_sentence
from ci_evals.reports.page import Page, PageGroup, PagePart, PageRow, slices
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import TIES
from ci_evals.reports.view import CellOutcome, address_of, statement_lines

MAX_BYTES: Final = 25_000_000
"""Of the page: what a browser still opens at once."""

_ROWS_BYTES = 9_000_000  # the lines of the cases
_TABLES_BYTES = 1_000_000  # all else: tables and lists of at most `_MAX_ROWS` rows
_DETAILS_BYTES = MAX_BYTES - _ROWS_BYTES - _TABLES_BYTES  # what unfolds of the cases
_MAX_ROWS = 100
_MAX_ENTRIES_OF_SUITE = 10  # of a group, on the page of several suites
_MAX_SUITES_NAMED = 5
_MAX_COLUMNS = 40  # of fields in a row
_REASON_CHARACTERS = 1000
_NAME_CHARACTERS = 200
_MARKS: dict[CellOutcome | Status | VerdictStatus, str] = {
    "passed": "✓",
    "flaky": "~",
    "failed": "✗",
    "errored": "!",
    "not run": "–",
    "pass": "✓",
    "borderline": "~",
    "fail": "✗",
    "error": "!",
}


def render(summary: Summary, *, version: str = "") -> Iterator[bytes]:
    """Yield report.html, at most `MAX_BYTES` long: what does not fit is counted instead of shown.

    Args:
        summary: what is shown.
        version: makes it a page that a server has newer versions of, of which `changes` tells.
    """
    report, found = summary.report, findings(summary)
    page = Page(found)
    groups, without_details, left_out = _rendered(
        page, summary.base, several_variants=found.several_variants
    )
    suite = summary.verdict.scopes[0] if summary.verdict.scopes else None
    columns = min(_MAX_COLUMNS, len(found.variants))
    style, script = _style(columns), _script()
    parts = (
        _environment()
        .get_template("report.html.j2")
        .generate(
            found=found,
            report=report,
            verdict=summary.verdict,
            title="Going on" if summary.is_going_on else VERDICTS[summary.verdict.status],
            mark="…" if summary.is_going_on else _MARKS[summary.verdict.status],
            version=version,
            columns=columns,
            base=summary.base,
            style=style,
            script=script,
            style_hash=_hash(style),
            script_hash=_hash(script),
            started=datetime.fromtimestamp(report.started_at, UTC),
            suite=suite,
            trend=trend_chart(
                report, summary.compared, found.variants, suite.bar if suite else None
            ),
            figures=report.figures(),
            scatters=tuple(scatters(found.variants)),
            ranked=[(each.place, each.variant) for each in found.leaderboard]
            or [("", each) for each in found.variants],
            ties=TIES,
            slices=slices(report, summary.gate),
            groups=groups,
            choices=page.choices(),
            graders=page.graders,
            without_details=without_details,
            left_out=left_out,
            max_rows=_MAX_ROWS,
        )
    )
    return (part.encode("utf-8", "replace") for part in parts)


@dataclass(frozen=True, slots=True)
class SuiteSection:
    """One of several suites on the page of all.

    Attributes:
        found: what was found of it.
        page: the address of its own page, if it has one.
    """

    found: Findings
    page: str | None

    def address(self, entry: Entry) -> str | None:
        """Return the address of the case that an entry is about; None if it is about none, or about
        several.
        """
        if self.page is None or len(entry.cells) != 1:
            return None
        (cell,) = entry.cells
        return f"{self.page}#{address_of(cell.case.id, cell.variant if self.found.several_variants else None)}"


def render_several(
    suites: Sequence[tuple[Summary, str | None]],
    not_run: Mapping[str, str],
    *,
    broken: bool = False,
) -> Iterator[bytes]:
    """Yield the page of several suites, with a section for each.

    Args:
        suites: those that were run, each with the path of its own page from this one, if it has
            one.
        not_run: the names of the others, with why.
        broken: one of these could not be run.
    """
    sections = [SuiteSection(findings(summary), page and quote(page)) for summary, page in suites]
    sections.sort(key=lambda each: -SEVERITY[each.found.summary.verdict.status])
    of_status: dict[VerdictStatus, list[str]] = {
        "error": [],
        "fail": [],
        "borderline": [],
        "pass": [],
    }
    for summary, _ in suites:
        of_status[summary.verdict.status].append(summary.report.suite.name)
    words = {
        "error": "without a verdict",
        "fail": "failed",
        "borderline": "borderline",
        "pass": "passed",
    }
    headline: list[str] = []
    for status, names in of_status.items():
        if names and (status != "pass" or len(names) == len(suites)):
            of = f"{len(names):,} of {number_of(len(suites), 'suite')} {words[status]}"
            headline += ["; " if headline else "", of]
            headline += () if status == "pass" else _listed(names)
    if not_run:
        headline += [
            "; " if headline else "",
            f"{number_of(len(not_run), 'suite')} not run",
            *_listed(list(not_run)),
        ]
    style = _style(1)
    parts = (
        _environment()
        .get_template("suites.html.j2")
        .generate(
            status="error"
            if broken
            else next((status for status, names in of_status.items() if names), "error"),
            headline=tuple(headline),
            number=len(suites) + len(not_run),
            sections=sections,
            not_run=not_run,
            style=style,
            style_hash=_hash(style),
            version=__version__,
            most_variants=_MAX_ROWS,
            most_entries=_MAX_ENTRIES_OF_SUITE,
        )
    )
    return (part.encode("utf-8", "replace") for part in parts)


def _listed(names: Sequence[str]) -> Iterator[str]:
    """Yield `: a, b, 3 more` in pieces."""
    for number, name in enumerate(names[:_MAX_SUITES_NAMED]):
        yield ", " if number else ": "
        yield ForeignText(name)
    if (more := len(names) - _MAX_SUITES_NAMED) > 0:
        yield f", {more:,} more"


@dataclass(frozen=True, slots=True)
class RenderedPart:
    """Rows that stand together, as HTML."""

    part: PagePart
    rows: tuple[Markup, ...]


@dataclass(frozen=True, slots=True)
class RenderedGroup:
    """A group with those of its rows that have room."""

    group: PageGroup
    parts: tuple[RenderedPart, ...]


def _rendered(
    page: Page, base: str | None, *, several_variants: bool
) -> tuple[list[RenderedGroup], int, int]:
    """Return the groups with as many rows as fit, how many of these are without details, and how
    many rows do not fit.

    Details are given to the first rows, which are the most important ones.
    """
    template = _environment().get_template("report_case.html.j2")
    room, room_for_details = _ROWS_BYTES, _DETAILS_BYTES
    without_details = left_out = 0
    tags: dict[str, int] = {tag: number for number, (tag, _) in enumerate(page.choices()["tag"])}

    def block(row: PageRow) -> Markup | None:
        nonlocal room, room_for_details, without_details, left_out
        if room < 0:
            left_out += 1
            return None
        details = page.details(row) if room_for_details > 0 else []
        shared = {"row": row, "several_variants": several_variants, "tags": tags, "base": base}
        text = template.render(
            shared, details=details, failed_graders={each.shown.column: each for each in details}
        )
        size = len(text.encode("utf-8", "replace"))
        if size > room_for_details:
            room_for_details, without_details = 0, without_details + 1
            text = template.render(shared, details=[], failed_graders={})
            size = len(text.encode("utf-8", "replace"))
            room -= size
        else:
            room_for_details -= size
        return Markup(text)  # noqa: S704  the template escapes

    groups = []
    for group in page.groups():
        parts = [
            RenderedPart(part, tuple(filter(None, map(block, part.rows)))) for part in group.parts
        ]
        groups.append(RenderedGroup(group, tuple(parts)))
    return groups, without_details, left_out


# The template's environment, which escapes all values.


def _style(columns: int) -> str:
    """Return the style sheet, which knows the number of columns."""
    text = (templating.folder() / "report.css").read_text(encoding="utf-8")
    return f"\n{text}:root {{ --columns: {columns}; }}\n"


def _script() -> str:
    return f"\n{(templating.folder() / 'report.js').read_text(encoding='utf-8')}"


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _with_code(text: str) -> Markup:
    """Render a sentence of ours, in which backticks mark code."""
    spans = code_spans(one_line(text, _REASON_CHARACTERS))
    return Markup("").join(
        Markup("<code>{}</code>").format(span) if is_code else span for span, is_code in spans
    )


def _marked(sentence: Sentence) -> Markup:
    """Render a sentence of findings; no name in it can reorder the text beside it."""
    return Markup(  # noqa: S704  both escape
        join_sentence(
            sentence,
            name=lambda text: Markup("<bdi>{}</bdi>").format(one_line(text, _NAME_CHARACTERS)),
            text=lambda text: escape(keep_units(visible(text))),
        )
    )


def _keep_names(sentence: Markup) -> Markup:
    """Wrap each name with the mark after it, so that no line begins with a comma."""
    return Markup(  # noqa: S704  escaped
        re.sub(r"<bdi>[^<]*</bdi>[,;]?", r'<span class="name">\g<0></span>', str(sentence))
    )


def _heading(entry: Entry) -> Markup:
    """Render the reason that several cells share."""
    return _marked((*entry.subject, ": ", *entry.finding))


def _visible(value: Any) -> Any:
    return visible(value) if type(value) is str and not value.isprintable() else value


@cache
def _environment() -> Environment:
    environment = templating.environment(_visible, autoescape=True)
    environment.globals |= {"rate_chart": rate_chart}
    environment.filters |= {
        "headline": VERDICTS.__getitem__,
        "mark": _MARKS.__getitem__,
        "marked": _marked,
        "keep_names": _keep_names,
        "heading": _heading,
        "name": lambda text: one_line(str(text), _NAME_CHARACTERS),
        "sentence": lambda text: keep_units(one_line(str(text), _REASON_CHARACTERS)),
        "reason": lambda text: one_line(str(text), _REASON_CHARACTERS),
        "with_code": _with_code,
        "count": "{:,}".format,
        "rate": percent,
        "score": score,
        "statements": statement_lines,
        "interval": interval,
        "seconds": seconds,
        "usd": usd,
        "scope_label": scope_label,
        "with_interval": rate_with_interval,
        "number_of": number_of,
    }
    return environment


HTML = Format("report.html", render, rb'.*?<meta name="generator" content="ci-evals ')
