"""summary.md and the comment: findings as Markdown of limited size, foreign text inert."""

import re
import textwrap
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from functools import cache
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, Template

from ci_evals import templating
from ci_evals.errors import Problem
from ci_evals.format import (
    abridge,
    capitalize_first,
    code_spans,
    duration,
    interval,
    keep_units,
    name_of,
    number_of,
    one_line,
    percent,
    rate_with_interval,
    score,
    seconds,
    shorten,
    usd,
    visible,
)
from ci_evals.gate.bars import VERDICTS, VerdictStatus
from ci_evals.gate.wording.bars import scope_label
from ci_evals.gate.wording.bases import SourceSentence
from ci_evals.model.case import Case
from ci_evals.release import __version__
from ci_evals.reports.files import Format
from ci_evals.reports.findings import ROWS, CaseRow, Findings, findings
from ci_evals.reports.groups import Group, GroupItem, GroupKind, cells_by_group, join_sentence
from ci_evals.reports.page_top import Top
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import MAX_LABELS_SHOWN, TIES
from ci_evals.reports.view import (
    FEW,
    LINE_CHARACTERS,
    MOST,
    NAME_CHARACTERS,
    SOME,
    TEXT_CHARACTERS,
    CaseView,
    CellView,
    RunView,
    address_of,
    asked_text,
    case_views,
    place_of,
)

MAX_BYTES: Final = 900_000
"""The limit of summary.md. GitHub rejects a step summary of more than 1,048,576 bytes entirely."""

_MAX_ROWS = 50  # of a table
_DIFF_LINES = 60
_DIFF_CHARACTERS = 96  # of a line, about the width of a comment
_BRIEF_CHARACTERS = 60  # of a name in the headline
_REASON_CHARACTERS = 160  # of a reason in an entry's line: room for two values
_ASKED_CHARACTERS = 600  # of a question in the comment
_SENTENCE_CHARACTERS = 1000
_ACCEPT_A_REGRESSION = "recipes/accept-a-regression.md"  # in the docs

VERDICT_MARKS: Mapping[VerdictStatus, str] = {
    "pass": "✅",
    "borderline": "🟡",
    "fail": "❌",
    "error": "⚠️",
}
CLAIM_MARK = "❔"
"""The mark of a verdict `pass` that nobody has checked."""
_MARKS: Mapping[GroupKind, str] = {
    "regressed": "🔴",
    "errored": "⚠️",
    "probably worse": "🟠",
    "failing": "❌",
    "fixed": "🟢",
}


class Markdown(str):
    """Text that is already Markdown, and is put into a document without escaping."""

    __slots__ = ()


def render(summary: Summary) -> Iterator[bytes]:
    """Yield summary.md, at most `MAX_BYTES` long."""
    yield summary_document(summary).render(MAX_BYTES).encode()


def summary_document(summary: Summary) -> "Document":
    """Return summary.md, which is also the job's summary."""
    found = findings(summary)
    return Document(
        _environment().get_template("summary.md.j2"),
        {"found": found, "links": Links()},
        _blocks(found, Links(), TEXT_CHARACTERS),
        (f"## {_headline(found)}\n",),
    )


@dataclass(frozen=True, slots=True)
class Links:
    """The known URLs of a workflow run.

    Attributes:
        run: the page of the workflow run on its CI system.
        artifact: the results as a zip file.
        source: the files at the commit.
        page: report.html, if a browser can open it there.
        page_text: the text of the link to `page`.
        docs: the pages of the docs.
    """

    run: str | None = None
    artifact: str | None = None
    source: str | None = None
    page: str | None = None
    page_text: str = "open the report"
    docs: str | None = None

    @property
    def accept_recipe(self) -> Markdown:
        """The recipe for an intended change, as a link if the docs have an address."""
        if self.docs is None:
            return plain(f"docs/{_ACCEPT_A_REGRESSION}")
        return link("how to accept it", f"{self.docs}/{_ACCEPT_A_REGRESSION}")

    def to_page(self, address: str, text: str = "open in the report") -> Markdown:
        """Return a place in report.html, as a link if a browser can open it."""
        if self.page is None:
            return code(f"report.html#{address}")
        fragment = quote(address, safe="%&=")  # quotes and parentheses may end a link
        return link(text, f"{self.page}#{fragment}")

    def to_place(self, case: Case) -> Markdown:
        """Return the place of a case, as a link if its file is in the repository."""
        if not case.file:
            return Markdown()
        place = place_of(case)
        file = PurePosixPath(case.file)
        if self.source is None or file.is_absolute() or ".." in file.parts:
            return code(place)
        return link(place, f"{self.source}/{quote(case.file)}#L{case.line}")


def comment_document(
    summary: Summary, links: Links = Links(), *, is_claim: bool = False
) -> "Document":
    """Return one suite's section of the comment on a pull request.

    Args:
        summary: the report and its verdict.
        links: the pages that it links to.
        is_claim: code that nobody trusts may have written the report, as that of a fork: the second
            line says so, and a verdict `pass` has no green mark.
    """
    found = findings(summary)
    mark = VERDICT_MARKS[summary.verdict.status]
    if is_claim and summary.verdict.status == "pass":
        mark = CLAIM_MARK
    suite = summary.report.suite.name
    shortest: list[str] = []
    for reason in (_SENTENCE_CHARACTERS, 300, 100, 30):
        for name in (80, 30):
            headline = _headline(found, reason, mark=mark)
            shortest.append(fill("### {} · {}", headline, code(one_line(suite, name))))
    shortest.append(f"### {mark} {VERDICTS[summary.verdict.status]}")
    results = "results"
    if links.page is None:
        results = "results (unzip, then open report.html)"
    pages = {"run": links.run, results: links.artifact, **summary.base_links}
    return Document(
        _environment().get_template("comment.md.j2"),
        {
            "found": found,
            "is_claim": is_claim,
            "links": links,
            "mark": mark,
            "pages": pages,
            "version": __version__,
        },
        _blocks(found, links, _ASKED_CHARACTERS),
        shortest,
    )


def progress_text(suite: str, run_url: str | None) -> str:
    """Return the section of the comment while the suite runs."""
    text = fill("### ⏳ Running · {}", _suite(suite))
    if run_url is None:
        return text
    return fill("{}: {}", text, link("see the run", run_url))


def problems_text(
    problems: Sequence[Problem], run_url: str | None = None, *, level: str = "###"
) -> str:
    """Return the section, or the summary, of a suite that could not run because of an error."""
    placed = [problem for problem in problems if problem.file]
    if placed:
        count = number_of(len(placed), "problem")
        headline = plain(f"The suite is broken ({count}), and nothing was run")
    else:
        headline = with_code(capitalize_first(problems[0].message))
    lines = [fill("{} {} {}\n", Markdown(level), VERDICT_MARKS["error"], headline)]
    for problem in placed[:SOME]:
        place = code(problem.file)
        if problem.line:
            place = code(f"{problem.file}:{problem.line}")
        if problem.path:
            place = fill("{}, {}", place, code(problem.path))
        lines.append(fill("- {}: {}", place, with_code(problem.message)))
    if len(placed) > SOME:
        more = number_of(len(placed) - SOME, "more problem")
        lines.append(fill("- … and {}, see the log", more))
    if run_url:
        lines.append(fill("\n{}", link("see the run", run_url)))
    return "\n".join(lines) + "\n"


def unchanged_text(
    reason: str, suite: str, run_url: str | None = None, *, level: str = "###"
) -> str:
    """Return the section, or the summary, of a suite that did not need to run."""
    headline = fill("{} {} Not run: {}", Markdown(level), VERDICT_MARKS["pass"], reason)
    name = fill("**{}**", _suite(suite))
    if run_url:
        name = fill("{} · {}", name, link("see the run", run_url))
    return f"{headline}\n\n{name}\n"


def shard_text(shard: str, suite: str, outcome: str) -> str:
    """Return the summary of a shard, which gives no verdict.

    Args:
        shard: its number and the number of all: `2/5`.
        suite: the name of the suite.
        outcome: what became of its runs.
    """
    headline = fill("## Shard {}: {}", shard, outcome)
    advice = "This job gives no verdict. Require the job that merges the shards, not this one."
    return f"{headline}\n\n{fill('**{}**', _suite(suite))}\n\n{advice}\n"


def suites_text(summaries: Sequence[Summary], not_run: Mapping[str, str]) -> str:
    """Return the list of the suites of one step, which follows their sections."""
    total = number_of(len(summaries) + len(not_run), "suite")
    lines = [fill("## {} of {} run\n", f"{len(summaries):,}", total)]
    for each in summaries:
        mark = VERDICT_MARKS[each.verdict.status]
        reason = one_line(each.verdict.reason, LINE_CHARACTERS)
        lines.append(fill("- {} {}: {}", mark, _suite(each.report.suite.name), reason))
    for name, why in not_run.items():
        lines.append(fill("- {}: not run: {}", _suite(name), why))
    return "\n".join(lines) + "\n"


def pages_text(summaries: Sequence[Summary], pages: Mapping[str, str]) -> str:
    """Return links to the pages of suites, and to the first cases that decided.

    Args:
        summaries: the suites.
        pages: the URLs of their pages, by the name of the suite.
    """
    lines = []
    for summary in summaries:
        name = summary.report.suite.name
        if name not in pages:
            continue
        links = Links(page=pages[name])
        line = fill("**{}**: {}", _suite(name), link("open the report", pages[name]))
        groups = cells_by_group(summary)
        cells = [*groups["regressed"], *groups["probably worse"], *groups["failing"]]
        for case in case_views(cells)[:SOME]:
            line = fill("{} · {}", line, links.to_page(address_of(case.case.id), case.case.id))
        lines.append(f"{line}\n")
    return "\n".join(lines)


def _suite(name: str) -> Markdown:
    return code(one_line(name, NAME_CHARACTERS))


def verdict_title(status: VerdictStatus) -> str:
    """`❌ Fail`."""
    return f"{VERDICT_MARKS[status]} {VERDICTS[status]}"


# Escaping. A template's values, and those of `fill`, are escaped unless they are `Markdown`.

_SYNTAX = re.compile(r"[&<>\"'|*_\[\]`~\\$]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_REFERENCE = re.compile(
    r"@(?=\w)"  # a person, who would be notified
    r"|(?:#|\bGH-)(?=\d)"  # an issue
    r"|:(?=//)|\bwww(?=\.)",  # a link
    re.IGNORECASE,
)
_COMMIT = re.compile(r"\b[0-9a-f]{7,40}\b", re.IGNORECASE)
_E_MAIL = re.compile(r"(?<=[\w.+-])@(?=\w)")
_URL = re.compile(r"https?://[\w.:/?#@!$&%=+,;~-]+", re.ASCII)


def finalize(value: Any) -> str:
    """Return Markdown unchanged, and anything else as plain text."""
    if isinstance(value, Markdown):
        return value
    return plain(str(value))


def fill(template: str, *values: object) -> Markdown:
    """Replace each `{}` of a text of ours with a value, escaped unless it is `Markdown`."""
    return Markdown(template.format(*map(finalize, values)))


def plain(text: str) -> Markdown:
    """Return running text on one line that formats, links and notifies nothing."""
    return Markdown(_inert(one_line(text, _SENTENCE_CHARACTERS)))


def units(text: str) -> Markdown:
    """Return plain text in which no line breaks between a figure and its unit."""
    return Markdown(keep_units(plain(text)))


def code(text: str) -> Markdown:
    """Return a name on one line as `<code>`, which also works in table cells and in `<summary>`.

    GitHub does not link people, issues or commits in there, but it does link e-mail addresses.
    """
    shown = _E_MAIL.sub("@\u200b", name_of(text, LINE_CHARACTERS))
    return Markdown(f"<code>{_SYNTAX.sub(_entity, shown)}</code>")


def with_code(sentence: str) -> Markdown:
    """Return a sentence of ours in which backticks mark code; the rest is escaped."""
    pieces = []
    for text, is_code in code_spans(one_line(sentence, _SENTENCE_CHARACTERS)):
        if is_code:
            pieces.append(f"`{text}`")
        else:
            pieces.append(_inert(text))
    return Markdown("".join(pieces))


def link(text: str, url: str) -> Markdown:
    """Return a link to a page of the CI system, or only its text without a proper web URL."""
    if not _URL.fullmatch(url):
        return plain(text)
    return Markdown(f"[{plain(text)}](<{url}>)")


def fence(text: str, language: str = "text") -> Markdown:
    """Return a fenced block, with more backticks than the text has in a row."""
    shown = visible(text)
    longest = max(map(len, re.findall("`+", shown)), default=0)
    ticks = "`" * max(3, longest + 1)
    return Markdown(f"{ticks}{language}\n{shown}\n{ticks}")


def difference(before: str | None, after: str) -> Markdown:
    """Return both answers as a diff in a fence, or only the new one if they are equal."""
    if before is None or _lines(before) == _lines(after):
        return fence("\n".join(_lines(after)))
    return fence("\n".join(difference_lines(before, after)), "diff")


def difference_lines(before: str, after: str) -> list[str]:
    """Return the lines of a diff of two answers, each behind `-`, `+` or a blank."""
    old, new = _lines(before), _lines(after)
    _, _, _, *lines = unified_diff(old, new, n=len(old) + len(new), lineterm="")
    return lines


def _lines(text: str) -> list[str]:
    """Return the first lines of an answer, the long ones wrapped: a diff does not wrap them."""
    every: list[str] = []
    for line in text.rstrip("\n").split("\n"):
        every += textwrap.wrap(line, _DIFF_CHARACTERS, replace_whitespace=False) or [""]
    lines = every[:_DIFF_LINES]
    left_out = len(every) - len(lines)
    if left_out:
        lines.append(f"… ({left_out:,} more lines)")
    return lines


def _inert(text: str) -> str:
    # A backslash would not do: GitHub finds references and links after Markdown has been rendered.
    text = _REFERENCE.sub("\\g<0>\u200b", text)
    text = _COMMIT.sub(_in_parts, text)
    return _SYNTAX.sub(_entity, text)


def _in_parts(match: re.Match[str]) -> str:
    """Split a word that looks like a commit into parts that are too short to be linked."""
    commit = match[0]
    parts = [commit[start : start + 6] for start in range(1, len(commit), 6)]
    return "\u200b".join([commit[0], *parts])


def _entity(match: re.Match[str]) -> str:
    return f"&#{ord(match.group())};"


# Documents of limited size.


@dataclass(frozen=True, slots=True)
class Block:
    """One entry as Markdown: in one line, and in full if it can be unfolded."""

    brief: Markdown
    full: Markdown = Markdown()  # noqa: RUF009  it is immutable


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """A group with the entries that there is room for."""

    group: Group
    blocks: Sequence[Markdown]
    unfolds: bool

    @property
    def mark(self) -> str:
        return _MARKS.get(self.group.kind, "")

    @property
    def in_table(self) -> bool:
        """Return True if its cells are also in the table of cells."""
        return self.group.kind in ROWS

    @property
    def brief(self) -> str:
        """`3 flaky cases`, or `1 case new · 2 cases edited`."""
        if self.group.kind == "changed":
            return " · ".join(join_sentence(entry.subject) for entry in self.group.entries)
        return number_of(self.group.count, self.group.noun)

    @property
    def first(self) -> Markdown:
        """The entries that are not folded: all, or the first of many that unfold."""
        return self._join(self.blocks[: self._in_the_open])

    @property
    def others(self) -> Markdown:
        """The folded entries."""
        return self._join(self.blocks[self._in_the_open :])

    @property
    def number_of_others(self) -> str:
        return number_of(len(self.blocks) - self._in_the_open, f"more {self.group.noun}")

    @property
    def left_out(self) -> int:
        return self.group.total - len(self.blocks)

    @property
    def _in_the_open(self) -> int:
        # A fold for one or two more would take as much room as they do.
        if self.unfolds and not self.group.folded and len(self.blocks) > SOME + 2:
            return SOME
        return len(self.blocks)

    def _join(self, blocks: Sequence[Markdown]) -> Markdown:
        separator = "\n\n" if self.unfolds else "\n"
        return Markdown(separator.join(blocks))


@dataclass(frozen=True, slots=True)
class Document:
    """A template with groups of entries, which shows as many entries as there is room for.

    Attributes:
        template: renders `groups`, and `left_out` with the groups that there is no room for.
        values: its other values.
        groups: the entries of each group, the most important first.
        shortest: replacements for a document that is too long even without entries, the longest
            first.
    """

    template: Template
    values: Mapping[str, Any]
    groups: Sequence[tuple[Group, Sequence[Block]]]
    shortest: Sequence[str]

    def render(self, max_bytes: int) -> str:
        """Return the document in at most `max_bytes` of UTF-8, or the last of `shortest`.

        Details are dropped before entries, and the least important entries first; dropped entries
        are counted.
        """
        entries = sum(len(blocks) for _, blocks in self.groups)
        # Rendering is costly, so search by bisection, and only if not all entries fit.
        count = entries
        if self._size(entries) > max_bytes:
            count = bisect_right(range(entries), max_bytes, key=self._size) - 1
        if count < 0:
            for text in self.shortest:
                if _size(text) <= max_bytes:
                    return text
            return self.shortest[-1]
        return self._fill(self._unfold(count, max_bytes - self._size(count)))

    def _size(self, count: int) -> int:
        """Return the size of the document with the first `count` entries, all of them folded."""
        return _size(self._fill(self._unfold(count, room=0)))

    def _unfold(self, count: int, room: int) -> list[list[Markdown]]:
        """Return the first `count` entries by group, those in full for which there is room."""
        shown = []
        for _, blocks in self.groups:
            texts = []
            for block in blocks[:count]:
                growth = _size(block.full) - _size(block.brief)
                if block.full and growth <= room:
                    texts.append(block.full)
                    room -= growth
                else:
                    texts.append(block.brief)
            count -= len(texts)
            shown.append(texts)
        return shown

    def _fill(self, shown: Sequence[Sequence[Markdown]]) -> str:
        groups = []
        left_out: Counter[str] = Counter()
        for (group, blocks), texts in zip(self.groups, shown, strict=True):
            if texts:
                unfolds = any(block.full for block in blocks)
                groups.append(ShownGroup(group, texts, unfolds))
            else:
                left_out[group.noun] += group.total
        lacking = ", ".join(number_of(count, noun) for noun, count in left_out.items())
        return self.template.render(self.values, groups=groups, left_out=lacking)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


# Entries.


def _blocks(
    found: Findings, links: Links, asked_characters: int
) -> list[tuple[Group, list[Block]]]:
    """Return the entries of each group, except for fixed cells that the table of cells all has; if
    it has some, they are folded.
    """
    fixed = [row for row in _rows(found) if row.kind == "fixed"]
    shown = []
    opened = False  # the first answer is seen without a click
    for group in found.groups:
        if group.kind == "fixed" and group.total == len(fixed):
            continue
        if group.kind == "fixed":
            group = replace(group, folded=True)  # noqa: PLW2901
        blocks = []
        for entry in group.entries:
            is_open = not opened and not group.folded and entry.run is not None
            blocks.append(_block(group, entry, links, asked_characters, is_open=is_open))
            opened = opened or is_open
        shown.append((group, blocks))
    return shown


def _rows(found: Findings) -> list[CaseRow]:
    """Return the rows of the table of cells: the first of each kind."""
    rows: list[CaseRow] = []
    for kind in ROWS:
        rows += [row for row in found.rows if row.kind == kind][:SOME]
    return rows


def _block(
    group: Group, entry: GroupItem, links: Links, asked_characters: int, *, is_open: bool
) -> Block:
    is_shared = len(entry.cells) > 1
    cases = case_views(entry.cells)
    in_table = group.kind in ROWS
    reasons = entry.reasons
    if in_table:
        # The table of cells has the figures, so the line has the reason; the answer follows it.
        reasons = entry.missed
    whole = "".join(reasons[:1])
    reason = one_line(whole, _REASON_CHARACTERS)
    subject = Markdown(join_sentence(entry.subject, code, _own))
    if is_shared and entry.run is not None:
        finding = Markdown(join_sentence(entry.finding, plain, _own))
        line = fill("<b>{}</b>: {}", subject, finding)
    elif in_table and reason and not is_shared:
        line = fill("<b>{}</b>: {}", subject, reason)
    else:
        line = Markdown(entry.line(code, _own))
        if reason and not is_shared:
            line = fill("{}<br>{}", line, reason)
    if entry.critical:
        line = fill("<b>critical</b> {}", line)
    brief = fill("- {}", line)
    if entry.run is None:
        return Block(brief)
    ids = Markdown()
    if is_shared:
        ids = Markdown(", ".join(code(case.case.id) for case in cases[:MOST]))
    details: Sequence[str] = entry.reasons
    if whole == reason and len(reasons) < 2:
        details = ()  # the line has it
    examples = _examples(cases, entry.run, links, asked_characters)
    template = _environment().get_template("entry.md.j2")
    text = template.render(
        is_open=is_open,
        line=line,
        examples=examples,
        reasons=details,
        ids=ids,
        count=len(cases),
        more=len(cases) - MOST,
    )
    return Block(brief, Markdown(text.strip("\n")))


def _own(text: str) -> Markdown:
    """Return a piece of a sentence of ours, keeping the blanks at both ends."""
    return Markdown(_inert(visible(text).replace("\n", " ")))


@dataclass(frozen=True, slots=True)
class Example:
    """One cell with its first failed run, ready to be shown.

    Attributes:
        base: what gave the base's answer; empty if that is not known.
        base_now: the base gave it in the same minutes.
        base_missed: the unmet expectations of the base's answer.
        is_same: the base gave the same answer.
        alike: how many of the failed runs gave an answer like this.
        answers: both answers as a diff, or the one that there is.
    """

    cell: CellView
    run: RunView
    place: Markdown
    address: Markdown
    bar: str
    alike: str
    asked: str
    base: str
    base_now: bool
    base_missed: str
    is_same: bool
    answers: Markdown


def _examples(
    cases: Sequence[CaseView], run: RunView, links: Links, asked_characters: int
) -> list[Example]:
    """Return a few cases whose answers are not alike, first those with an answer of the base."""
    if len(cases) == 1:
        return [_example(cases[0].cells[0], run, links, asked_characters)]
    from ci_evals.reports.similar_answers import group_alike

    cells = [case.cells[0] for case in cases[:MOST]]
    shown = [(cell, cell.failed_run or run) for cell in cells]
    shown.sort(key=lambda example: example[0].before is None)
    kinds = group_alike(shown, lambda example: example[1].answer or "")
    return [_example(*kind[0], links, asked_characters) for kind in kinds[:FEW]]


def _example(cell: CellView, run: RunView, links: Links, asked_characters: int) -> Example:
    before, base, base_missed, base_now = None, "", "", False
    if cell.before is not None:
        before, base_missed, base_now = cell.before.text, cell.before.missed, cell.before.is_now
        base = cell.summary.source_of(cell.before)
    bar = "every run must pass"
    if cell.bar < 1:
        bar = f"at least {percent(cell.bar)} must pass"
    if cell.case.quarantine:
        bar = f"in quarantine until {cell.case.quarantine.until}"
    answer = shorten(run.answer or "(nothing)", TEXT_CHARACTERS)
    if before is None:
        answer = shorten(run.evidence or "(nothing)", TEXT_CHARACTERS)
    return Example(
        cell=cell,
        run=run,
        place=links.to_place(cell.case),
        address=links.to_page(cell.address),
        bar=bar,
        alike=_alike_clause(cell),
        asked=abridge(asked_text(cell.case, run.first), asked_characters),
        base=base,
        base_now=base_now,
        base_missed=base_missed,
        is_same=before == answer,
        answers=difference(before, answer),
    )


def _alike_clause(cell: CellView) -> str:
    """`all 17 failed runs alike`, `14 of 17 failed runs alike`; empty if they differ."""
    failures = cell.failures
    if failures.runs < 2 or not failures.alike:
        return ""
    if failures.alike == failures.runs == 2:
        return "both failed runs alike"
    if failures.alike == failures.runs:
        return f"all {failures.runs:,} failed runs alike"
    return f"{failures.alike:,} of {failures.runs:,} failed runs alike"


def _basis(fact: SourceSentence | str) -> Markdown:
    """Return a fact with its commit as code, as plain text splits commits (see `_in_parts`)."""
    if isinstance(fact, SourceSentence) and fact.commit:
        start = capitalize_first(fact.start)
        return fill("{} at {}{}", start, code(fact.commit), Markdown(_own(fact.rest)))
    return plain(capitalize_first(str(fact)))


def _headline(
    found: Findings, characters: int = _SENTENCE_CHARACTERS, *, mark: str | None = None
) -> Markdown:
    """`❌ 2 cases regressed: refund, cancel`; each piece has at most `characters`.

    `mark` replaces that of the verdict.
    """
    name_characters = min(characters, _BRIEF_CHARACTERS)

    def own(text: str) -> Markdown:
        if len(text) > characters:
            # Only then: it drops the blanks at both ends, which separate the pieces.
            text = one_line(text, characters)
        return _own(text)

    def name(text: str) -> Markdown:
        return code(one_line(text, name_characters))

    text = join_sentence(found.headline, name, own)
    mark = mark or VERDICT_MARKS[found.summary.verdict.status]
    return Markdown(keep_units(f"{mark} {capitalize_first(text)}"))


@cache
def _environment() -> Environment:
    environment = templating.environment(finalize)
    environment.globals |= {"max_rows": _MAX_ROWS, "max_labels": MAX_LABELS_SHOWN, "ties": TIES}
    environment.filters |= {
        "basis": _basis,
        "brief_cells": _rows,
        "capitalize_first": capitalize_first,
        "cell_mark": lambda row: _MARKS[row.kind],
        "subject": lambda sentence: Markdown(join_sentence(sentence, code, _own)),
        "code": code,
        "duration": duration,
        "fence": fence,
        "shorten": lambda text: shorten(text, TEXT_CHARACTERS),
        "fits_inline": lambda text: "\n" not in text and len(text) <= NAME_CHARACTERS,
        "headline": _headline,
        "interval": _interval,
        "link": link,
        "note": _note,
        "number_of": number_of,
        "percent": percent,
        "scope_label": scope_label,
        "score": score,
        "seconds": seconds,
        "taken_for": lambda task, row: Markdown(task.taken_for(row, code)),
        "top": Top,
        "unbroken": lambda text: Markdown(plain(text).replace(" ", "\xa0")),
        "units": units,
        "usd": usd,
        "verdict": verdict_title,
        "with_code": with_code,
        "with_interval": rate_with_interval,
    }
    return environment


def _note(text: str) -> Markdown:
    """Return a figure's remark on a line of its own, in small print."""
    if not text:
        return Markdown()
    return fill("<br><sub>{}</sub>", text)


def _interval(lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None:
        return ""
    return interval(lower, upper)


MARKDOWN = Format("summary.md", render, b"## (?:%s) " % "|".join(VERDICT_MARKS.values()).encode())
