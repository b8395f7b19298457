"""The body of the comment: sections of several jobs between markers, each stamped, in limited
room.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import quote, unquote
from uuid import uuid4

from ci_evals.reports.markdown import VERDICT_MARKS, code

MAX_BYTES: Final = 65_000
"""GitHub's limit is 262,144 bytes, and 65,536 characters on older servers."""

_MAX_HEADLINE_BYTES = 1_500  # what a section may be reduced to, when others need the room
_MAX_LINE_BYTES = 500  # of what a section's line above the others says

_HEAD = re.compile(r"<!-- ci-evals:comment v1 scope=(?P<scope>\S*) write=(?P<write>[0-9a-f]+) -->")
_START = re.compile(
    r"<!-- ci-evals:section suite=(?P<suite>\S*) job=(?P<job>\S*) part=(?P<part>\S*)"
    r" run=(?P<run>[0-9]{1,19}) attempt=(?P<attempt>[0-9]{1,19}) sha=(?P<sha>[0-9a-f]*)"
    r" write=(?P<write>[0-9a-f]*) -->"
)
_MARK = re.compile(f"### ({'|'.join((*VERDICT_MARKS.values(), '⏳'))}) ")
_END: Final = "<!-- ci-evals:end -->"
_MARKER = re.compile(r"<!--(\s*)ci-evals(?=:)", re.IGNORECASE)
_BROKEN_MARKER = r"<!--\1ci-evals "
_LINE_ENDS = re.compile(r"\r\n?")


class SectionId(NamedTuple):
    """Identifies a section. `job` is the workflow; `part` tells its jobs apart by the artifacts
    that they upload.

    The `suite` is empty where its name could not be read.
    """

    suite: str
    job: str = ""
    part: str = ""

    def may_be(self, other: "SectionId") -> bool:
        """Return True if both are of the same suite, as far as their names are known."""
        return self == other or (self[1:] == other[1:] and not (self.suite and other.suite))


@dataclass(frozen=True, slots=True)
class Stamp:
    """Identifies the run that wrote a section. A newer run has a higher id, a later attempt the
    same one.
    """

    run_id: int
    attempt: int
    sha: str

    def is_newer_than(self, other: "Stamp") -> bool:
        return (self.run_id, self.attempt) > (other.run_id, other.attempt)


class Section(NamedTuple):
    """One suite's part of the comment, as Markdown whose first line is its headline.

    `write` is a random word of whoever wrote it.
    """

    id: SectionId
    stamp: Stamp
    text: str
    write: str = ""

    @property
    def headline(self) -> str:
        """The shortest form of the text."""
        headline = self.text.partition("\n")[0]
        if len(headline.encode()) <= _MAX_HEADLINE_BYTES:
            return f"{headline} · {code(self.id.suite)}" if self.id.suite else headline
        suite = re.sub(r"[^\w .-]", "", self.id.suite)[:60].strip() or "suite"
        return f"*{suite}: no room for this here; see the run's summary.*"

    @property
    def mark(self) -> str:
        """The sign at the beginning of its headline: ✅, ❌ …"""
        found = _MARK.match(self.text.lstrip("\n"))
        return found[1] if found else "·"

    @property
    def line(self) -> str:
        """`❌ flight agent: 1 case regressed: refund`, or without what happened if that is long."""
        headline = self.content.partition("\n")[0]
        found = _MARK.match(headline)
        said = headline[found.end() :] if found else ""
        return (
            f"{self.name}: {said}" if said and len(said.encode()) <= _MAX_LINE_BYTES else self.name
        )

    @property
    def content(self) -> str:
        """The text as it is posted: without markers, and without what UTF-8 cannot hold."""
        text = _LINE_ENDS.sub("\n", self.text.encode("utf-8", "replace").decode()).strip("\n")
        return _MARKER.sub(_BROKEN_MARKER, text)

    @property
    def is_green(self) -> bool:
        """Return True if there is nothing to do."""
        return self.mark == VERDICT_MARKS["pass"]

    @property
    def folded(self) -> str:
        """The section between its markers, behind its name."""
        return f"<details>\n<summary>{self.name}</summary>\n\n{self.block}\n\n</details>\n"

    @property
    def name(self) -> str:
        """`❌ flight agent`."""
        return f"{self.mark} {code(self.id.suite or 'suite')}"

    @property
    def block(self) -> str:
        """The section between its markers."""
        suite, job, part = map(_word, self.id)
        start = (
            f"<!-- ci-evals:section suite={suite} job={job} part={part} run={self.stamp.run_id}"
            f" attempt={self.stamp.attempt} sha={self.stamp.sha} write={self.write} -->"
        )
        return f"{start}\n{self.content}\n{_END}"


@dataclass(frozen=True, slots=True)
class Body:
    """A parsed comment. `write` is a random word of whoever wrote it last."""

    scope: str
    write: str
    sections: tuple[Section, ...]

    def section(self, whose: SectionId) -> Section | None:
        """Return the newest section of a suite; one that a run wrote under that very name before a
        nameless one.
        """
        own = [section for section in self.sections if whose.may_be(section.id)]
        return max(
            own,
            key=lambda each: (each.stamp.run_id, each.stamp.attempt, each.id == whose),
            default=None,
        )


def parse(body: str) -> Body | None:
    """Read a comment; None if it is none of ours: the marker must be the very first thing, which a
    quote never is.

    Sections that somebody has damaged are left out.
    """
    lines = _LINE_ENDS.sub("\n", body).split("\n")
    head = _HEAD.fullmatch(lines[0])
    if head is None:
        return None
    sections: dict[SectionId, Section] = {}
    start: re.Match[str] | None = None
    text: list[str] = []
    for line in lines[1:]:
        if found := _START.fullmatch(line):
            start, text = found, []
        elif line == _END and start:
            whose = SectionId(*(unquote(start[name]) for name in ("suite", "job", "part")))
            stamp = Stamp(int(start["run"]), int(start["attempt"]), start["sha"])
            sections[whose] = Section(whose, stamp, "\n".join(text), start["write"])
            start = None
        else:
            text.append(line)
    return Body(unquote(head["scope"]), head["write"], tuple(sections.values()))


def compose(scope: str, write: str, sections: Iterable[Section]) -> str:
    """Return the comment with these sections, in the order of their ids.

    Above several sections stands a line for each, and those with nothing to do are folded. When
    they have more than `MAX_BYTES` in UTF-8, the longest are reduced to their headline.
    """
    ordered = sorted(sections, key=lambda section: section.id)
    head = f"<!-- ci-evals:comment v1 scope={_word(scope)} write={write} -->{_overview(ordered)}"
    blocks = [_shown(section, ordered) for section in ordered]
    for number in sorted(range(len(blocks)), key=lambda number: -len(blocks[number].encode())):
        if sum(map(_size, (head, *blocks))) <= MAX_BYTES:
            break
        blocks[number] = _shown(ordered[number]._replace(text=ordered[number].headline), ordered)
    return "\n".join((head, *blocks))


def _shown(section: Section, sections: Sequence[Section]) -> str:
    """Return a section as it stands among these."""
    return section.folded if section.is_green and len(sections) > 1 else section.block


def _overview(sections: Sequence[Section]) -> str:
    """A list with a line for each section, such as `❌ flight agent: 1 case regressed: refund`;
    nothing for one.
    """
    if len(sections) < 2:
        return ""
    lines = [each.line for each in sections]
    if sum(map(_size, lines)) > MAX_BYTES // 4:
        return "\n\n" + " · ".join(each.name for each in sections) + "\n"
    return "\n\n" + "\n".join(f"- {line}" for line in lines) + "\n"


def room_for(section: SectionId, stamp: Stamp, others: Sequence[Section]) -> int:
    """Return how many bytes of Markdown a section may have: all that others leave, never less than
    its fair share.

    What others have beyond their share has to give way then, see `compose`.
    """
    others = [other for other in others if other.id != section]
    used = sum(_size(other.folded) for other in others)
    write = uuid4().hex
    own = Section(section, stamp, "", write)
    frame = _size(compose("", write, [own])) + _size(_overview([*others, own])) + 400
    frame += _MAX_LINE_BYTES + _size(own.folded) - _size(own.block) if others else 0
    return max(0, max(MAX_BYTES - used, MAX_BYTES // (len(others) + 1)) - frame)


def with_section(sections: Sequence[Section], own: Section) -> tuple[Section, ...]:
    """Return `sections` with `own` in the place of what it had before, and of what older runs wrote
    without its name.

    What the same workflow wrote before the run of that has missed a whole run since: its suite or
    its job is gone. So it goes, when a newer run writes.
    """
    last = max(
        (section.stamp.run_id for section in sections if own.id.may_be(section.id)), default=0
    )
    oldest = last if last < own.stamp.run_id else 0
    others = (
        section
        for section in sections
        if section.id != own.id
        and not (own.id.may_be(section.id) and own.stamp.is_newer_than(section.stamp))
    )
    return (
        *(each for each in others if each.id.job != own.id.job or each.stamp.run_id >= oldest),
        own,
    )


def _word(text: str) -> str:
    """Return `text` as one word of a marker: no blank, and no hyphen or bracket that could end the
    marker.
    """
    return quote(text.encode("utf-8", "replace"), safe="").replace("-", "%2D")


def _size(text: str) -> int:
    """Return the number of bytes, with a line feed."""
    return len(text.encode()) + 1


@dataclass(frozen=True, slots=True)
class Contribution:
    """A section that a job has to contribute.

    Attributes:
        id: whose it is.
        stamp: the run; its `sha` is the head of the pull request that it speaks of.
        render: from the most bytes it may have in UTF-8 to the Markdown of a section.
    """

    id: SectionId
    stamp: Stamp
    render: Callable[[int], str]

    def section(self, others: Sequence[Section], write: str) -> Section:
        """Return the section as large as it may be beside the others."""
        return Section(
            self.id, self.stamp, self.render(room_for(self.id, self.stamp, others)), write
        )

    def preview(self) -> str:
        """Return the comment as it is without any other section in it."""
        write = uuid4().hex
        return compose("", write, (self.section((), write),))
