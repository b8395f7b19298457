"""summary.md and the comment: the findings as Markdown of limited size, in which no foreign text
acts.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from ci_evals.gate.wording import SourceSentence, scope_label
from ci_evals.model.case import Case
from ci_evals.release import __version__
from ci_evals.reports.cells import (
    JudgedCell,
    address_of,
    answer_text,
    asked_text,
    detail_text,
    failed_runs,
    place_of,
    whole_answers,
)
from ci_evals.reports.files import Format
from ci_evals.reports.findings import (
    CellRow,
    Entry,
    Findings,
    Group,
    GroupKind,
    findings,
    join_sentence,
)
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import MAX_LABELS_SHOWN, TIES

MAX_BYTES: Final = 900_000
"""Of summary.md. GitHub drops a step summary of more than 1,048,576 bytes whole."""

VERDICT_MARKS: Mapping[VerdictStatus, str] = {
    "pass": "✅",
    "borderline": "🟡",
    "fail": "❌",
    "error": "⚠️",
}
_MARKS: Mapping[GroupKind, str] = {
    "regressed": "🔴",
    "errored": "⚠️",
    "failing": "❌",
    "fixed": "🟢",
}
_IN_TABLE: tuple[GroupKind, ...] = ("regressed", "failing", "fixed")
_MAX_ROWS = 50
_MAX_CELLS = 10  # of a kind in the table of cells
_MAX_EXAMPLES = 3  # of cells that failed alike
_MAX_NAMES = 100
_BRIEF_CHARACTERS = 60
_HEADLINE_NAME = 40
_MAX_PROBLEMS = 10
_MAX_OPEN = 10  # entries of a group that unfold in the open; the others are behind their number
_PLAIN_CHARACTERS = 1000
_NAME_CHARACTERS = 200
_INLINE_CHARACTERS = 100  # what is asked on one line has no block of its own
_ASKED_CHARACTERS = 2000
_ASKED_IN_COMMENT_CHARACTERS = 600
_ANSWER_CHARACTERS = 2000
_DIFF_LINES = 60
_DIFF_CHARACTERS = 300


class Markdown(str):
    """Text that is Markdown already and goes into a document as it is."""

    __slots__ = ()


def render(summary: Summary) -> Iterator[bytes]:
    """Yield summary.md, at most `MAX_BYTES` long."""
    yield summary_document(summary).render(MAX_BYTES).encode()


def summary_document(summary: Summary) -> "Document":
    """Return summary.md, which also is the job's summary."""
    found = findings(summary)
    return Document(
        _environment().get_template("summary.md.j2"),
        {"found": found},
        _blocks(found, Links(), _ASKED_CHARACTERS),
        (f"## {_headline(found)}\n",),
    )


@dataclass(frozen=True, slots=True)
class Links:
    """URLs of the workflow run, of its artifact and of the files at its commit, as far as there are
    any.
    """

    run: str | None = None
    artifact: str | None = None
    source: str | None = None

    def to_place(self, case: Case) -> Markdown:
        """Return the place of a case in the suite, linked where that is a file of the
        repository.
        """
        file = PurePosixPath(case.file)
        if not case.file or self.source is None or file.is_absolute() or ".." in file.parts:
            return code(place_of(case)) if place_of(case) else Markdown()
        return link(place_of(case), f"{self.source}/{quote(case.file)}#L{case.line}")


def comment_document(summary: Summary, links: Links = Links()) -> "Document":
    """Return one suite's section of the comment on a pull request."""
    found = findings(summary)
    suite = summary.report.suite.name
    shortest: list[str] = [
        fill("### {} · {}", _headline(found, reason), code(one_line(suite, name)))
        for reason in (1000, 300, 100, 30)
        for name in (80, 30)
    ]
    shortest.append(f"### {verdict_title(summary.verdict.status)}")
    pages = {"run": links.run, "artifact": links.artifact}
    values = {"found": found, "links": pages, "version": __version__}
    blocks = _blocks(found, links, _ASKED_IN_COMMENT_CHARACTERS)
    return Document(_environment().get_template("comment.md.j2"), values, blocks, shortest)


def progress_text(suite: str, run_url: str | None) -> str:
    """Return the section of the comment that stands there while its run lasts."""
    see = fill(": {}", link("see the run", run_url)) if run_url else Markdown()
    return fill("### ⏳ Running · {}{}", code(one_line(suite, 80)), see)


def problems_text(
    problems: Sequence[Problem], run_url: str | None = None, *, level: str = "###"
) -> str:
    """Return what stands in the place of a suite's section, or summary, where an error ended the
    command.
    """
    placed = [problem for problem in problems if problem.file]
    text = f"The suite is broken ({number_of(len(placed), 'problem')}), and nothing was run"
    headline = (
        text if placed else with_code(problems[0].message[:1].upper() + problems[0].message[1:])
    )
    lines = [fill("{} {} {}\n", Markdown(level), VERDICT_MARKS["error"], headline)]
    for file, line, path, message in placed[:_MAX_PROBLEMS]:
        place = code(f"{file}:{line}" if line else file)
        lines.append(
            fill(
                "- {}{}: {}",
                place,
                fill(", {}", code(path)) if path else Markdown(),
                with_code(message),
            )
        )
    if (left_out := len(placed) - _MAX_PROBLEMS) > 0:
        lines.append(fill("- … and {}, see the log", number_of(left_out, "more problem")))
    if run_url:
        lines.append(fill("\n{}", link("see the run", run_url)))
    return "\n".join(lines) + "\n"


def unchanged_text(
    reason: str, suite: str, run_url: str | None = None, *, level: str = "###"
) -> str:
    """Return what stands in the place of a suite's section, or summary, where it was rightly not
    run.
    """
    lines = [fill("{} {} Not run: {}\n", Markdown(level), VERDICT_MARKS["pass"], reason)]
    see = fill(" · {}", link("see the run", run_url)) if run_url else Markdown()
    lines.append(fill("**{}**{}", code(one_line(suite, 80)), see))
    return "\n".join(lines) + "\n"


def suites_text(summaries: Sequence[Summary], not_run: Mapping[str, str]) -> str:
    """Return the list of several suites that one step ran, below what is said of each."""
    lines = [
        fill(
            "## {} of {} run\n",
            f"{len(summaries):,}",
            number_of(len(summaries) + len(not_run), "suite"),
        )
    ]
    for each in summaries:
        name, verdict = code(one_line(each.report.suite.name, 80)), each.verdict
        lines.append(
            fill("- {} {}: {}", VERDICT_MARKS[verdict.status], name, one_line(verdict.reason, 300))
        )
    lines += [
        fill("- {}: not run: {}", code(one_line(name, 80)), why) for name, why in not_run.items()
    ]
    return "\n".join(lines) + "\n"


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
    """Return Markdown as it is, and anything else as plain text."""
    return value if isinstance(value, Markdown) else plain(str(value))


def fill(template: str, *values: object) -> Markdown:
    """Put a value in the place of each `{}` of a text of ours."""
    return Markdown(template.format(*map(finalize, values)))


def plain(text: str) -> Markdown:
    """Return running text on one line that formats nothing, links to nothing and notifies
    nobody.
    """
    return Markdown(_inert(one_line(text, _PLAIN_CHARACTERS)))


def units(text: str) -> Markdown:
    """Return plain text in which no line ends between a figure and its unit."""
    return Markdown(keep_units(plain(text)))


def code(text: str) -> Markdown:
    """Return a name on one line as `<code>`, which unlike backticks holds in table cells and in
    `<summary>` too.

    People, issues and commits are no links in there; e-mail addresses are.
    """
    shown = _E_MAIL.sub("@\u200b", name_of(text, _NAME_CHARACTERS))
    return Markdown(f"<code>{_SYNTAX.sub(_entity, shown)}</code>")


def with_code(text: str) -> Markdown:
    """Return a sentence of ours, in which backticks mark code; only what stands outside of them is
    escaped.
    """
    spans = code_spans(one_line(text, _PLAIN_CHARACTERS))
    return Markdown("".join(f"`{span}`" if is_code else _inert(span) for span, is_code in spans))


def link(text: str, url: str) -> Markdown:
    """Return a link to a URL of the CI system's; what is no URL of the web is only text."""
    return Markdown(f"[{plain(text)}](<{url}>)") if _URL.fullmatch(url) else plain(text)


def fence(text: str, language: str = "text") -> Markdown:
    """Return a block of text behind more backticks than it has in a row."""
    shown = visible(text)
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", shown)), default=0))
    return Markdown(f"{ticks}{language}\n{shown}\n{ticks}")


def difference(before: str | None, after: str) -> Markdown:
    """Return both answers in a fence, with changed lines marked; only the new one if there is no
    difference.
    """
    new = _lines(after)
    if before is None or (old := _lines(before)) == new:
        return fence("\n".join(new))
    lines = list(unified_diff(old, new, n=len(old) + len(new), lineterm=""))[3:]
    return fence("\n".join(lines), "diff")


def _lines(text: str) -> list[str]:
    every = text.rstrip("\n").split("\n")
    lines = [
        line if len(line) <= _DIFF_CHARACTERS else f"{line[:_DIFF_CHARACTERS]}…"
        for line in every[:_DIFF_LINES]
    ]
    return (
        [*lines, f"… ({len(every) - _DIFF_LINES:,} more lines)"]
        if len(every) > _DIFF_LINES
        else lines
    )


def _inert(text: str) -> str:
    return _SYNTAX.sub(_entity, _COMMIT.sub(_in_parts, _REFERENCE.sub("\\g<0>\u200b", text)))


def _in_parts(found: re.Match[str]) -> str:
    """Split what looks like a commit into parts too short to be linked as one."""
    first, rest = found[0][0], found[0][1:]
    return "\u200b".join([first, *(rest[start : start + 6] for start in range(0, len(rest), 6))])


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found.group())};"


# Fitting into a number of bytes.


@dataclass(frozen=True, slots=True)
class Block:
    """One entry as Markdown: in one line, and with all that unfolds, where there is more and room
    for it.
    """

    brief: Markdown
    full: Markdown = Markdown()  # noqa: RUF009  it is immutable


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """A group with those of its entries that have room."""

    group: Group
    blocks: Sequence[Markdown]
    unfolds: bool

    @property
    def mark(self) -> str:
        return _MARKS.get(self.group.kind, "")

    @property
    def in_table(self) -> bool:
        """Return True if its cells are in the table of cells, too."""
        return self.group.kind in _IN_TABLE

    @property
    def brief(self) -> str:
        """`3 flaky cases`, or `1 case new · 2 cases edited`."""
        if self.group.kind == "changed":
            return " · ".join(join_sentence(entry.subject) for entry in self.group.entries)
        return number_of(self.group.count, self.group.noun)

    @property
    def first(self) -> Markdown:
        """The entries in the open: all, or a few where there are many that unfold."""
        return self._join(self.blocks[: self._open])

    @property
    def others(self) -> Markdown:
        """The entries behind their number."""
        return self._join(self.blocks[self._open :])

    @property
    def number_of_others(self) -> str:
        return number_of(len(self.blocks) - self._open, f"more {self.group.noun}")

    @property
    def left_out(self) -> int:
        return self.group.total - len(self.blocks)

    @property
    def _open(self) -> int:
        many = self.unfolds and not self.group.folded and len(self.blocks) > _MAX_OPEN + 2
        return _MAX_OPEN if many else len(self.blocks)

    def _join(self, blocks: Sequence[Markdown]) -> Markdown:
        return Markdown(("\n\n" if self.unfolds else "\n").join(blocks))


@dataclass(frozen=True, slots=True)
class Document:
    """A template with groups of entries, of which it shows as many as have room.

    Attributes:
        template: is given `groups`, and `left_out` for the groups that have no room at all.
        values: what else it is given.
        groups: the entries of each group, the most important first.
        shortest: what is left when not even a document without entries has room, the longest first.
    """

    template: Template
    values: Mapping[str, Any]
    groups: Sequence[tuple[Group, Sequence[Block]]]
    shortest: Sequence[str]

    def render(self, max_bytes: int) -> str:
        """Return the document in at most so many bytes of UTF-8, or the last of `shortest`.

        Details fold away before entries go, and the least important entries go first; what went is
        counted.
        """
        places = [
            (number, place)
            for number, (_, blocks) in enumerate(self.groups)
            for place in range(len(blocks))
        ]

        def shown(count: int) -> list[list[Markdown]]:
            chosen: list[list[Markdown]] = [[] for _ in self.groups]
            for number, place in places[:count]:
                chosen[number].append(self.groups[number][1][place].brief)
            return chosen

        def size(count: int) -> int:
            return _size(self._fill(shown(count)))

        count = len(places)
        if size(count) > max_bytes:
            count = bisect_right(range(count), max_bytes, key=size) - 1
        if count < 0:
            return next(
                (text for text in self.shortest if _size(text) <= max_bytes), self.shortest[-1]
            )
        blocks = shown(count)
        room = max_bytes - _size(self._fill(blocks))
        for number, place in places[:count]:
            block = self.groups[number][1][place]
            growth = _size(block.full) - _size(block.brief)
            if block.full and growth <= room:
                blocks[number][place] = block.full
                room -= growth
        return self._fill(blocks)

    def _fill(self, shown: Sequence[Sequence[Markdown]]) -> str:
        groups = [
            ShownGroup(group, chosen, unfolds=any(block.full for block in blocks))
            for (group, blocks), chosen in zip(self.groups, shown, strict=True)
        ]
        left_out: Counter[str] = Counter()
        for each in groups:
            left_out[each.group.noun] += 0 if each.blocks else each.group.total
        return self.template.render(
            self.values,
            groups=[each for each in groups if each.blocks],
            left_out=", ".join(number_of(count, noun) for noun, count in left_out.items() if count),
        )


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


# Entries.


def _blocks(
    found: Findings, links: Links, asked_characters: int
) -> list[tuple[Group, list[Block]]]:
    """Return the entries of every group; what a row of the table of cells tells whole has none."""
    told = {row.cell.key for row in _rows(found) if row.kind == "fixed"}
    return [
        (
            group,
            [
                _block(found.summary, group, entry, links, asked_characters)
                for entry in group.entries
            ],
        )
        for group in found.groups
        if group.kind != "fixed" or group.total > len(told)
    ]


def _rows(found: Findings) -> list[CellRow]:
    """Return the rows of the table of cells: the first of each kind."""
    return [
        row
        for kind in _IN_TABLE
        for row in [each for each in found.rows if each.kind == kind][:_MAX_CELLS]
    ]


def _block(
    summary: Summary, group: Group, entry: Entry, links: Links, asked_characters: int
) -> Block:
    subject = join_sentence(entry.subject, code, _own)
    several = len(entry.cells) > 1
    # In the table of cells, the answer is shown below.
    reasons = entry.missed if group.kind in _IN_TABLE else entry.reasons
    whole = "⏎".join(reasons[0].split("\n")) if reasons else ""
    reason = one_line(whole, _BRIEF_CHARACTERS)
    untold = entry.reasons if len(entry.reasons) > 1 or reason != whole else ()
    if several:
        line = fill(
            "<b>{}</b>: {}", Markdown(subject), Markdown(join_sentence(entry.finding, plain, _own))
        )
    elif group.kind in _IN_TABLE and reason:  # its figures are in the table of cells
        line = fill("<b>{}</b>: {}", Markdown(subject), reason)
    else:
        line = Markdown(entry.line(code, _own) + (fill("<br>{}", reason) if reason else ""))
    critical = Markdown("<b>critical</b> ") if entry.critical else Markdown()
    names = (
        Markdown(entry.line(code, _own).removeprefix(subject))
        if several and entry.failed is None
        else Markdown()
    )
    brief = fill("- {}{}", critical, Markdown(f"{subject}{names}") if names else line)
    if entry.cell is None or entry.failed is None:
        return Block(brief)
    examples = [
        _example(summary, cell, links, asked_characters) for cell in entry.cells[:_MAX_EXAMPLES]
    ]
    values = {
        "entry": entry,
        "critical": critical,
        "line": line,
        "examples": examples,
        "base": summary.base,
    }
    values |= {"reasons": untold}
    ids = (
        Markdown(", ".join(code(cell.case.id) for cell in entry.cells[:_MAX_NAMES]))
        if several
        else Markdown()
    )
    text = (
        _environment()
        .get_template("entry.md.j2")
        .render(**values, ids=ids, more=len(entry.cells) - _MAX_NAMES)
    )
    return Block(brief, Markdown(text.strip("\n")))


def _own(text: str) -> Markdown:
    """Return a piece of a sentence of ours, whose blanks at both ends count."""
    return Markdown(_inert(visible(text).replace("\n", " ")))


@dataclass(frozen=True, slots=True)
class Example:
    """One cell with its first failed run, ready to be shown."""

    case: str
    place: Markdown
    bar: str
    address: str
    asked: str
    run: int
    has_base: bool
    answers: Markdown
    whole: tuple[str, ...]
    detail: str | None


def _example(summary: Summary, cell: JudgedCell, links: Links, asked_characters: int) -> Example:
    (failed,) = failed_runs(summary.report, cell.cell, 1)
    before = summary.before.get(cell.key)
    variant = cell.variant if len(summary.report.plan.variants) > 1 else None
    bar = "every run must pass" if cell.bar >= 1 else f"at least {percent(cell.bar)} must pass"
    if quarantine := cell.case.quarantine:
        bar = f"in quarantine until {quarantine.until}"
    return Example(
        case=cell.case.id,
        place=links.to_place(cell.case),
        bar=bar,
        address=f"report.html#{address_of(cell.case.id, variant)}",
        asked=abridge(asked_text(cell.case, failed), asked_characters),
        run=failed.run,
        has_base=before is not None,
        answers=difference(before, shorten(answer_text(failed) or "(nothing)", _ANSWER_CHARACTERS)),
        whole=whole_answers(failed),
        detail=detail_text(failed),
    )


def _basis(fact: SourceSentence | str) -> Markdown:
    """Return a fact in which the baseline's commit can be copied: elsewhere it would be a link, or
    be cut up.
    """
    if isinstance(fact, SourceSentence) and fact.commit:
        start = _capitalize(fact.start)
        return fill("{} at {}{}", start, code(fact.commit), Markdown(_own(fact.rest)))
    return plain(_capitalize(str(fact)))


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _headline(found: Findings, characters: int = 1000) -> Markdown:
    """`❌ 2 cases regressed: refund, cancel`; texts are cut at so many characters."""

    def show(piece: str) -> Markdown:
        return _own(piece if len(piece) <= characters else one_line(piece, characters))

    text = join_sentence(
        found.headline, lambda name: code(one_line(name, min(characters, _HEADLINE_NAME))), show
    )
    return Markdown(
        keep_units(f"{VERDICT_MARKS[found.summary.verdict.status]} {text[:1].upper()}{text[1:]}")
    )


@cache
def _environment() -> Environment:
    environment = templating.environment(finalize)
    environment.globals |= {"max_rows": _MAX_ROWS, "max_labels": MAX_LABELS_SHOWN, "ties": TIES}
    environment.filters |= {
        "cell_mark": lambda row: _MARKS[row.kind],
        "code": code,
        "duration": duration,
        "fence": fence,
        "fits_inline": lambda text: "\n" not in text and len(text) <= _INLINE_CHARACTERS,
        "brief_cells": _rows,
        "headline": _headline,
        "interval": _interval,
        "basis": _basis,
        "capitalize_first": _capitalize,
        "link": link,
        "note": lambda text: fill("<br><sub>{}</sub>", text) if text else Markdown(),
        "number_of": number_of,
        "percent": percent,
        "score": score,
        "scope_label": scope_label,
        "seconds": seconds,
        "taken_for": lambda task, row: Markdown(task.taken_for(row, code)),
        "unbroken": lambda text: Markdown(plain(text).replace(" ", "\xa0")),
        "units": units,
        "usd": usd,
        "verdict": verdict_title,
        "with_code": with_code,
        "with_interval": rate_with_interval,
    }
    return environment


def _interval(lower: float | None, upper: float | None) -> str:
    return "" if lower is None or upper is None else interval(lower, upper)


MARKDOWN = Format("summary.md", render, b"## (?:%s) " % "|".join(VERDICT_MARKS.values()).encode())
