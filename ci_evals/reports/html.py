"""report.html: a single file for the browser, which loads and runs nothing from elsewhere."""

import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup, escape

from ci_evals import templating
from ci_evals.format import (
    capitalize_first,
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
from ci_evals.gate.wording.bars import scope_label
from ci_evals.model.result import Status
from ci_evals.release import __version__
from ci_evals.reports.charts import rate_chart, scatters, trend_chart
from ci_evals.reports.files import Format
from ci_evals.reports.findings import Findings, findings
from ci_evals.reports.groups import ForeignText, GroupItem, Sentence, join_sentence
from ci_evals.reports.page import MAX_OPTIONS, count_outcomes, list_tags, page_of
from ci_evals.reports.page_cases import (
    NAME_CHARACTERS,
    REASON_CHARACTERS,
    PageRow,
    columns_of,
    page_case,
)
from ci_evals.reports.page_top import Top
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import TIES
from ci_evals.reports.view import CellOutcome

_DETAILS_BYTES = 12_000_000  # of the details of all cases, in the file
_PLAIN_BYTES = 4_000_000  # of folded rows as text; further ones are compressed
_UNPACKED_BYTES = 80_000_000  # of compressed rows, in the browser
_BATCH = 40  # rows
_MAX_ROWS = 100  # of a table
_MAX_ENTRIES_OF_SUITE = 10  # of a group, on the page of several suites
_MAX_SUITES_NAMED = 5
_MAX_COLUMNS = 40  # of fields in a row
_NARROW_COLUMNS = 6  # more have narrow fields
_UPRIGHT_COLUMNS = 12  # of more, the names are turned, and the fields are below the case's name
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
_SUITES_THAT: dict[VerdictStatus, str] = {
    "error": "without a verdict",
    "fail": "failed",
    "borderline": "borderline",
    "pass": "passed",
}


def render(summary: Summary, *, version: str = "") -> Iterator[bytes]:
    """Yield report.html. Parts that are too large for a browser are only counted.

    Args:
        summary: the report to show.
        version: the version of a page that a server keeps up to date; empty for a file.
    """
    report, verdict = summary.report, summary.verdict
    found = findings(summary)
    suite = verdict.scopes[0] if verdict.scopes else None
    title, mark = VERDICTS[verdict.status], _MARKS[verdict.status]
    if summary.is_going_on:
        title, mark = "Going on", "…"
    ranked = [(each.place, each.variant) for each in found.leaderboard]
    if not ranked:
        ranked = [("", each) for each in found.variants]
    columns = min(_MAX_COLUMNS, len(found.variants))
    layout = ""
    if columns > _UPRIGHT_COLUMNS:
        layout = "dense"
    elif columns > _NARROW_COLUMNS:
        layout = "narrow"
    if len(found.variants) > columns:
        layout = "dense wrapped"
    drift_since_s = None
    drift = []
    if summary.compared is not None:
        from ci_evals.reports.drift import drift_alarms, drift_legend

        alarms = drift_alarms(summary)
        drift_since_s = min((alarm.since.started_at for alarm in alarms), default=None)
        drift = [drift_legend(summary, alarm) for alarm in alarms]
    style, script = _style(columns), _script()
    return _generate(
        "report.html.j2",
        found=found,
        report=report,
        verdict=verdict,
        title=title,
        mark=mark,
        version=version,
        layout=layout,
        base=summary.base,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        started=datetime.fromtimestamp(report.started_at, UTC),
        suite=suite,
        trend=trend_chart(
            report,
            summary.compared,
            found.variants,
            suite.bar if suite else None,
            drift_since_s,
        ),
        drift=drift,
        top=Top(found),
        scatters=tuple(scatters(found.variants)),
        ranked=ranked,
        ties=TIES,
        page=page_of(found),
        cases=_Cases(summary),
        outcomes=count_outcomes(summary),
        tags=list_tags(summary),
        columns=columns_of(summary),
        max_rows=_MAX_ROWS,
        max_options=MAX_OPTIONS,
    )


class _Cases:
    """Renders cases, the most important ones first, with their details as long as there is room.

    Attributes:
        without_details: the number of cases whose details had no room.
    """

    def __init__(self, summary: Summary) -> None:
        template = _environment_of_cases().get_template("report_case.html.j2")
        several_variants = len(summary.report.plan.variants) > 1
        self._macros: Any = template.make_module(
            {
                "several_variants": several_variants,
                "base": one_line(summary.base or "", NAME_CHARACTERS),
            }
        )
        self._room = _DETAILS_BYTES
        self._plain_room = _PLAIN_BYTES
        self._unpacked_room = _UNPACKED_BYTES
        self.without_details = 0

    def html(self, rows: Sequence[PageRow]) -> Iterator[Markup]:
        """Yield cases; from the first one on whose details have no room, all lack them."""
        for row in rows:
            if self._room:
                text = self._macros.case(page_case(row))
                size = len(text.encode("utf-8", "replace"))
                if size <= self._room:
                    self._room -= size
                    yield text
                    continue
                self._room = 0
            self.without_details += 1
            yield self._macros.case(page_case(row, has_room=False))

    def folded(self, rows: Sequence[PageRow]) -> Iterator[tuple[Markup, str]]:
        """Yield batches of rows that the script turns into elements later, each with its media
        type.

        After some megabytes they are compressed, in base64. If even that has no room, they lack
        their details.
        """
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            yield self._with_details(batch) or self._without_details(batch)

    def _with_details(self, batch: Sequence[PageRow]) -> tuple[Markup, str] | None:
        """Return a batch of rows; None from the first batch on that has no room."""
        if not self._room:
            return None
        text = Markup("").join(self._macros.case(page_case(row)) for row in batch)
        data = text.encode("utf-8", "replace")
        if len(data) <= min(self._plain_room, self._room):
            self._plain_room -= len(data)
            self._room -= len(data)
            return text, "text/html"
        packed = b64encode(zlib.compress(data))
        if len(packed) > self._room or len(data) > self._unpacked_room:
            self._room = 0
            return None
        self._plain_room = 0
        self._room -= len(packed)
        self._unpacked_room -= len(data)
        return Markup(packed.decode()), "application/zlib"  # noqa: S704  base64

    def _without_details(self, batch: Sequence[PageRow]) -> tuple[Markup, str]:
        self.without_details += len(batch)
        text = Markup("").join(self._macros.case(page_case(row, has_room=False)) for row in batch)
        return text, "text/html"


# Several suites.


@dataclass(frozen=True, slots=True)
class SuiteSection:
    """One suite on the page of several.

    Attributes:
        found: its findings.
        top: the first screen of its own page.
        page: the URL of its own page, if it has one.
    """

    found: Findings
    top: Top
    page: str | None

    def address(self, entry: GroupItem) -> str | None:
        """Return the URL of the case that an entry is about; None unless it is about just one."""
        if self.page is None or len(entry.cells) != 1:
            return None
        return f"{self.page}#{entry.cells[0].address}"


def render_several(
    suites: Sequence[tuple[Summary, str | None]],
    not_run: Mapping[str, str],
    *,
    broken: bool = False,
) -> Iterator[bytes]:
    """Yield the page of several suites, with a section for each.

    Args:
        suites: the suites that were run, each with the relative path of its own page, if any.
        not_run: the reason for each suite that was not run, by name.
        broken: one of these could not be run because of an error.
    """
    sections = []
    for summary, page in suites:
        found = findings(summary)
        sections.append(SuiteSection(found, Top(found), page and quote(page)))
    sections.sort(key=lambda each: -SEVERITY[each.found.summary.verdict.status])
    status: VerdictStatus = "error"
    if sections and not broken:
        status = sections[0].found.summary.verdict.status
    style = _style(1)
    return _generate(
        "suites.html.j2",
        status=status,
        headline=_headline([summary for summary, _ in suites], not_run),
        number=len(suites) + len(not_run),
        sections=sections,
        not_run=not_run,
        style=style,
        style_hash=_hash(style),
        version=__version__,
        most_variants=_MAX_ROWS,
        most_entries=_MAX_ENTRIES_OF_SUITE,
    )


def _headline(suites: Sequence[Summary], not_run: Iterable[str]) -> Sentence:
    """`1 of 3 suites failed: router; 1 suite not run: search`. Suites that passed are not named."""
    clauses: list[Sentence] = []
    for status, words in _SUITES_THAT.items():
        names = [each.report.suite.name for each in suites if each.verdict.status == status]
        clause = f"{len(names):,} of {number_of(len(suites), 'suite')} {words}"
        if status != "pass" and names:
            clauses.append((clause, *_names(names)))
        elif names and len(names) == len(suites):
            clauses.append((clause,))
    if left := list(not_run):
        clauses.append((f"{number_of(len(left), 'suite')} not run", *_names(left)))
    headline: Sentence = ()
    for clause_pieces in clauses:
        headline += ("; ", *clause_pieces) if headline else clause_pieces
    return headline


def _names(names: Sequence[str]) -> Iterator[str]:
    """Yield `: a, b, 3 more` in pieces."""
    for number, name in enumerate(names[:_MAX_SUITES_NAMED]):
        yield ", " if number else ": "
        yield ForeignText(name)
    if len(names) > _MAX_SUITES_NAMED:
        yield f", {len(names) - _MAX_SUITES_NAMED:,} more"


# Templates, which escape all values.


def _generate(template: str, **values: Any) -> Iterator[bytes]:
    parts = _environment().get_template(template).generate(values)
    return (part.encode("utf-8", "replace") for part in parts)


def _style(columns: int) -> str:
    """Return the style sheet with the number of columns, as the page allows no inline styles."""
    text = (templating.folder() / "report.css").read_text(encoding="utf-8")
    return f"\n{text}:root {{ --columns: {columns}; }}\n"


def _script() -> str:
    return f"\n{(templating.folder() / 'report.js').read_text(encoding='utf-8')}"


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _with_code(text: str) -> Markup:
    """Render a sentence of ours in which backticks mark code."""
    spans = code_spans(one_line(text, REASON_CHARACTERS))
    pieces = [
        Markup("<code>{}</code>").format(span) if is_code else span for span, is_code in spans
    ]
    return Markup("").join(pieces)


def _marked(sentence: Sentence) -> Markup:
    """Render a sentence of findings; no name in it can reorder the text around it."""
    return Markup(  # noqa: S704  both escape
        join_sentence(
            sentence,
            name=lambda text: Markup("<bdi>{}</bdi>").format(one_line(text, NAME_CHARACTERS)),
            text=lambda text: escape(keep_units(visible(text))),
        )
    )


def _capitalize_sentence(sentence: Sentence) -> Sentence:
    """Begin a sentence with a capital, unless it begins with a name."""
    first, *rest = sentence
    if isinstance(first, ForeignText):
        return sentence
    return (capitalize_first(first), *rest)


def _keep_names(sentence: Markup) -> Markup:
    """Wrap each name with the mark after it, so that no line begins with a comma or colon, and
    with a short word before it, so that none ends with `tag`.
    """
    return Markup(  # noqa: S704  escaped
        re.sub(
            r"(?:\b\w{1,5} )?<bdi>[^<]*</bdi>[,;:]?",
            r'<span class="name">\g<0></span>',
            str(sentence),
        )
    )


def _heading(entry: GroupItem) -> Markup:
    """Render the reason that several cells share."""
    return _marked((*entry.subject, ": ", *entry.finding))


def _visible(value: Any) -> Any:
    """Clean a text; `Markup` was cleaned before."""
    if type(value) is str:
        return visible(value)
    return value


@cache
def _environment() -> Environment:
    environment = templating.environment(_visible, autoescape=True)
    environment.globals |= {"rate_chart": rate_chart}
    environment.filters |= {
        "headline": VERDICTS.__getitem__,
        "mark": _MARKS.__getitem__,
        "capitalize_sentence": _capitalize_sentence,
        "marked": _marked,
        "keep_names": _keep_names,
        "heading": _heading,
        "name": lambda text: one_line(str(text), NAME_CHARACTERS),
        "sentence": lambda text: keep_units(one_line(str(text), REASON_CHARACTERS)),
        "reason": lambda text: one_line(str(text), REASON_CHARACTERS),
        "with_code": _with_code,
        "count": "{:,}".format,
        "rate": percent,
        "score": score,
        "interval": interval,
        "seconds": seconds,
        "usd": usd,
        "scope_label": scope_label,
        "with_interval": rate_with_interval,
        "number_of": number_of,
    }
    return environment


@cache
def _environment_of_cases() -> Environment:
    """Return an environment that cleans nothing, as `page_cases` has cleaned all texts: doing it
    twice would take long with thousands of cases.
    """
    kind = templating.AttributeEnvironment
    environment = templating.environment(None, autoescape=True, kind=kind)
    environment.filters |= {"mark": _MARKS.__getitem__, "number_of": number_of}
    return environment


HTML = Format("report.html", render, rb'.*?<meta name="generator" content="ci-evals ')
