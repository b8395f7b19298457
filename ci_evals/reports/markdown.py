"""summary.md and the comment: the findings as Markdown of limited size, in which no foreign text acts."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import unified_diff
from functools import cache
from typing import Any, Final

from jinja2 import Environment, Template

from ci_evals import templating
from ci_evals.errors import Problem
from ci_evals.format import (
    abridge,
    code_spans,
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
from ci_evals.gate.wording import scope_label
from ci_evals.release import __version__
from ci_evals.reports.cells import answer_text, asked_text, detail_text, place_of
from ci_evals.reports.findings import Entry, Findings, Group, GroupKind, findings
from ci_evals.reports.summary import Summary
from ci_evals.reports.variants import MAX_LABELS_SHOWN, TIES

MAX_BYTES: Final = 900_000
"""Of summary.md. GitHub drops a step summary of more than 1,048,576 bytes whole."""

_VERDICT_MARKS: Mapping[VerdictStatus, str] = {"pass": "✅", "borderline": "🟡", "fail": "❌", "error": "⚠️"}
_MARKS: Mapping[GroupKind, str] = {"regressed": "🔴", "errored": "⚠️", "failing": "❌", "fixed": "🎉"}
_MAX_ROWS = 50
_MAX_PROBLEMS = 10
_MAX_OPEN = 10  # entries of a group that unfold in the open; the others are behind their number
_PLAIN_CHARACTERS = 1000
_NAME_CHARACTERS = 200
_ASKED_CHARACTERS = 2000
_ASKED_IN_COMMENT_CHARACTERS = 600
_ANSWER_CHARACTERS = 2000
_DIFF_LINES = 60
_DIFF_CHARACTERS = 300


def render(summary: Summary) -> Iterator[bytes]:
    """Yield summary.md, at most `MAX_BYTES` long."""
    yield summary_document(summary).render(MAX_BYTES).encode()


def summary_document(summary: Summary) -> "Document":
    """Return summary.md, which also is the job's summary."""
    found = findings(summary)
    return Document(
        _environment().get_template("summary.md.j2"),
        {"found": found},
        _blocks(found, _ASKED_CHARACTERS),
        (f"## {_headline(found, 1000)}\n",),
    )


@dataclass(frozen=True, slots=True)
class Links:
    """URLs of the workflow run and of its artifact, as far as there are any."""

    run: str | None = None
    artifact: str | None = None


def comment_document(summary: Summary, links: Links = Links()) -> "Document":
    """Return one suite's section of the comment on a pull request."""
    found = findings(summary)
    suite = summary.report.suite.name
    shortest = [
        f"### {_headline(found, reason, one_line(suite, name))}" for reason in (1000, 300, 100, 30) for name in (80, 30)
    ]
    shortest.append(f"### {verdict_title(summary.verdict.status)}")
    values = {"found": found, "links": asdict(links), "version": __version__}
    return Document(
        _environment().get_template("comment.md.j2"), values, _blocks(found, _ASKED_IN_COMMENT_CHARACTERS), shortest
    )


def progress_text(suite: str, run_url: str | None) -> str:
    """Return the section of the comment that stands there while its run lasts."""
    see = fill(": {}", link("see the run", run_url)) if run_url else Markdown()
    return fill("### ⏳ Running · {}{}", code(one_line(suite, 80)), see)


def problems_text(problems: Sequence[Problem], run_url: str | None = None, *, level: str = "###") -> str:
    """Return what stands in the place of a suite's section, or summary, where an error ended the command."""
    placed = [problem for problem in problems if problem.file]
    reason = f"the suite is broken ({number_of(len(placed), 'problem')}), and nothing was run"
    headline = plain(reason) if placed else with_code(problems[0].message)
    lines = [fill("{} {}: {}\n", Markdown(level), verdict_title("error"), headline)]
    for file, line, path, message in placed[:_MAX_PROBLEMS]:
        place = code(f"{file}:{line}" if line else file)
        lines.append(fill("- {}{}: {}", place, fill(", {}", code(path)) if path else Markdown(), with_code(message)))
    if (left_out := len(placed) - _MAX_PROBLEMS) > 0:
        lines.append(fill("- … and {}, see the log", number_of(left_out, "more problem")))
    if run_url:
        lines.append(fill("\n{}", link("see the run", run_url)))
    return "\n".join(lines) + "\n"


def verdict_title(status: VerdictStatus) -> str:
    """`❌ Fail`."""
    return f"{_VERDICT_MARKS[status]} {VERDICTS[status]}"


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


class Markdown(str):
    """Text that is Markdown already and goes into a document as it is."""

    __slots__ = ()


def finalize(value: Any) -> str:
    """Return Markdown as it is, and anything else as plain text."""
    return value if isinstance(value, Markdown) else plain(str(value))


def fill(template: str, *values: object) -> Markdown:
    """Put a value in the place of each `{}` of a text of ours."""
    return Markdown(template.format(*map(finalize, values)))


def plain(text: str) -> Markdown:
    """Return running text on one line that formats nothing, links to nothing and notifies nobody."""
    return Markdown(_inert(one_line(text, _PLAIN_CHARACTERS)))


def units(text: str) -> Markdown:
    """Return plain text in which no line ends between a figure and its unit."""
    return Markdown(keep_units(plain(text)))


def code(text: str) -> Markdown:
    """Return a name on one line as `<code>`, which unlike backticks holds in table cells and in `<summary>` too.

    People, issues and commits are no links in there; e-mail addresses are.
    """
    shown = _E_MAIL.sub("@\u200b", name_of(text, _NAME_CHARACTERS))
    return Markdown(f"<code>{_SYNTAX.sub(_entity, shown)}</code>")


def with_code(text: str) -> Markdown:
    """Return a sentence of ours, in which backticks mark code; only what stands outside of them is escaped."""
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
    """Return both answers in a fence, with changed lines marked; only the new one if there is no difference."""
    new = _lines(after)
    if before is None or (old := _lines(before)) == new:
        return fence("\n".join(new))
    lines = list(unified_diff(old, new, n=len(old) + len(new), lineterm=""))[3:]
    return fence("\n".join(lines), "diff")


def _lines(text: str) -> list[str]:
    every = text.rstrip("\n").split("\n")
    lines = [line if len(line) <= _DIFF_CHARACTERS else f"{line[:_DIFF_CHARACTERS]}…" for line in every[:_DIFF_LINES]]
    return [*lines, f"… ({len(every) - _DIFF_LINES:,} more lines)"] if len(every) > _DIFF_LINES else lines


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
    """One entry as Markdown: in one line, and with all that unfolds, where there is more and room for it."""

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

        Details fold away before entries go, and the least important entries go first; what went is counted.
        """
        places = [(number, place) for number, (_, blocks) in enumerate(self.groups) for place in range(len(blocks))]

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
            return next((text for text in self.shortest if _size(text) <= max_bytes), self.shortest[-1])
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


def _blocks(found: Findings, asked_characters: int) -> list[tuple[Group, list[Block]]]:
    return [
        (group, [_block(found.summary, entry, asked_characters) for entry in group.entries]) for group in found.groups
    ]


def _block(summary: Summary, entry: Entry, asked_characters: int) -> Block:
    line = Markdown(entry.line(code, lambda text: _inert(visible(text).replace("\n", " "))))
    why = fill("<br>{}", entry.reasons[0]) if entry.reasons else Markdown()
    brief = Markdown(f"- {'**critical** ' if entry.critical else ''}{line}{why}")
    if entry.cell is None or entry.failed is None:
        return Block(brief)
    cell, before = entry.cell, summary.before.get(entry.cell.key)
    text = (
        _environment()
        .get_template("entry.md.j2")
        .render(
            entry=entry,
            line=line,
            why=why,
            place=place_of(cell.case),
            bar="every run must pass" if cell.bar >= 1 else f"at least {percent(cell.bar)} must pass",
            asked=abridge(asked_text(cell.case, entry.failed), asked_characters),
            base=None if before is None else summary.base,
            answers=difference(before, shorten(answer_text(entry.failed) or "(nothing)", _ANSWER_CHARACTERS)),
            detail=detail_text(entry.failed),
        )
    )
    return Block(brief, Markdown(text.strip("\n")))


def _headline(found: Findings, reason_characters: int, suite: str | None = None) -> str:
    """`❌ Fail · suite: its reason`."""
    verdict = found.summary.verdict
    of = fill(" · {}", code(suite)) if suite else Markdown()
    return fill("{}{}: {}", verdict_title(verdict.status), of, units(one_line(verdict.reason, reason_characters)))


@cache
def _environment() -> Environment:
    environment = templating.environment(finalize)
    environment.globals |= {"max_rows": _MAX_ROWS, "max_labels": MAX_LABELS_SHOWN, "ties": TIES}
    environment.filters |= {
        "code": code,
        "fence": fence,
        "headline": _headline,
        "interval": _interval,
        "link": link,
        "note": lambda text: fill("<br><sub>{}</sub>", text) if text else Markdown(),
        "number_of": number_of,
        "percent": percent,
        "score": score,
        "scope_label": scope_label,
        "seconds": seconds,
        "taken_for": lambda task, row: Markdown(task.taken_for(row, code)),
        "units": units,
        "usd": usd,
        "verdict": verdict_title,
        "with_code": with_code,
        "with_interval": rate_with_interval,
    }
    return environment


def _interval(lower: float | None, upper: float | None) -> str:
    return "" if lower is None or upper is None else interval(lower, upper)
