"""The comment as text: one section for each suite and job between hidden markers, and how they share the room."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from msgspec import Struct

MAX_BYTES: Final = 65_000
"""GitHub's limit is 262,144 bytes, and 65,536 characters on older servers."""

SHORT_BYTES: Final = 1_000  # what a section may be reduced to, when others need the room

_HEAD = re.compile(r"<!-- ci-evals:comment v1 scope=(?P<scope>\S*) write=(?P<write>[0-9a-f]+) -->")
_START = re.compile(
    r"<!-- ci-evals:section suite=(?P<suite>\S*) job=(?P<job>\S*) part=(?P<part>\S*)"
    r" run=(?P<run>[0-9]{1,19}) attempt=(?P<attempt>[0-9]{1,19}) sha=(?P<sha>[0-9a-f]*)"
    r" write=(?P<write>[0-9a-f]*) short=(?P<short>\S*) -->"
)
_END: Final = "<!-- ci-evals:end -->"
_MARKER = re.compile(r"<!--(\s*)ci-evals(?=:)", re.IGNORECASE)
_BROKEN_MARKER = r"<!--\1ci-evals "
_LINE_ENDS = re.compile(r"\r\n?")
_NO_ROOM: Final = "*{suite}: no room for this here; see the run's summary.*"
_LEFT_OUT: Final = "*No room for {number} more: see the summaries of their runs.*"


class SectionId(NamedTuple):
    """Whose section it is. `part` tells jobs of one matrix apart, which have the same job id."""

    suite: str
    job: str = ""
    part: str = ""


class Stamp(Struct, frozen=True):
    """Which run wrote a section. A newer run has a higher id, a later attempt the same one."""

    run_id: int
    attempt: int
    sha: str

    def is_newer_than(self, other: "Stamp") -> bool:
        return (self.run_id, self.attempt) > (other.run_id, other.attempt)


class Section(NamedTuple):
    """One suite's part of the comment, as Markdown.

    `short` takes the place of `text` when the others need the room. It is kept beside the text, hidden, so that
    another job can do that; it is empty once it has happened. `write` is a random word of whoever wrote it.
    """

    id: SectionId
    stamp: Stamp
    text: str
    short: str = ""
    write: str = ""


class Body(Struct, frozen=True):
    """A parsed comment. `write` is a random word of whoever wrote it last."""

    scope: str
    write: str
    sections: tuple[Section, ...]


def parse(body: str) -> Body | None:
    """Read a comment; None if it is none of ours: the marker must be the very first thing, which a quote never is.

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
            section = _section(start, "\n".join(text))
            sections[section.id] = section
            start = None
        else:
            text.append(line)
    return Body(unquote(head["scope"]), head["write"], tuple(sections.values()))


def compose(scope: str, write: str, sections: Iterable[Section]) -> str:
    """The comment with these sections, in the order of their ids, at most `MAX_BYTES` long in UTF-8.

    When they do not fit, the longest are reduced to their short form, and if that is not enough, the last ones are
    left out and counted.
    """
    head = f"<!-- ci-evals:comment v1 scope={_word(scope)} write={write} -->"
    ordered = sorted((_safe(section) for section in sections), key=lambda section: section.id)
    room = MAX_BYTES - _size(head)
    blocks = [_block(section) for section in _reduced(ordered, room)]
    shown = len(blocks)
    while shown and sum(map(_size, blocks[:shown])) + (_size(_LEFT_OUT) + 20) * (shown < len(blocks)) > room:
        shown -= 1
    left_out = [_LEFT_OUT.format(number=len(blocks) - shown)] if shown < len(blocks) else []
    return "\n".join((head, *blocks[:shown], *left_out))


def room_for(section: SectionId, stamp: Stamp, others: Sequence[Section]) -> int:
    """How many bytes of Markdown a section may have: all that the others leave, and never less than its fair share.

    What others have beyond their share has to give way then, see `compose`.
    """
    used = sum(_size(_block(_safe(other))) for other in others if other.id != section)
    number = len({other.id for other in others} | {section})
    empty = _block(Section(section, stamp, "", "x" * SHORT_BYTES, "0" * 32))
    frame = _size(empty) + _size(f"<!-- ci-evals:comment v1 scope= write={'0' * 32} -->") + 400
    return max(0, max(MAX_BYTES - used, MAX_BYTES // number) - frame)


def with_section(sections: Sequence[Section], own: Section) -> tuple[Section, ...]:
    """`sections` with `own` in the place of what it had before.

    What the same workflow wrote before the run of that has missed a whole run since: its suite or its job is gone. So
    it goes, when a newer run writes.
    """
    last = max((section.stamp.run_id for section in sections if section.id == own.id), default=0)
    oldest = last if last < own.stamp.run_id else 0
    others = (section for section in sections if section.id != own.id)
    return (*(each for each in others if each.id.job != own.id.job or each.stamp.run_id >= oldest), own)


def fits(text: str, max_bytes: int) -> bool:
    return len(text.encode("utf-8", "replace")) <= max_bytes


def no_room(id: SectionId) -> str:  # noqa: A002  the field's own name
    """What stands in for a section whose shortest form does not fit."""
    suite = re.sub(r"[^\w .-]", "", id.suite)[:60].strip() or "suite"
    return _NO_ROOM.format(suite=suite)


def _reduced(sections: Sequence[Section], room: int) -> list[Section]:
    """Put the short form in the place of the longest sections, until all fit or all are short."""
    reduced = list(sections)
    sizes = [_size(_block(section)) for section in reduced]
    for index in sorted(range(len(reduced)), key=lambda index: -sizes[index]):
        if sum(sizes) <= room:
            break
        section = reduced[index]
        shorter = section._replace(text=section.short or no_room(section.id), short="")
        if (size := _size(_block(shorter))) < sizes[index]:
            reduced[index], sizes[index] = shorter, size
    return reduced


def _safe(section: Section) -> Section:
    """The section with texts that hold no marker, and nothing that UTF-8 cannot hold."""
    return section._replace(text=_without_markers(section.text), short=_without_markers(section.short))


def _without_markers(text: str) -> str:
    plain = _LINE_ENDS.sub("\n", text.encode("utf-8", "replace").decode()).strip("\n")
    return _MARKER.sub(_BROKEN_MARKER, plain)


def _block(section: Section) -> str:
    id, stamp = section.id, section.stamp  # noqa: A001  the field's own name
    short = urlsafe_b64encode(section.short.encode()).decode() if fits(section.short, SHORT_BYTES) else ""
    start = (
        f"<!-- ci-evals:section suite={_word(id.suite)} job={_word(id.job)} part={_word(id.part)}"
        f" run={stamp.run_id} attempt={stamp.attempt} sha={stamp.sha}"
        f" write={section.write} short={short} -->"
    )
    return f"{start}\n{section.text}\n{_END}"


def _section(start: re.Match[str], text: str) -> Section:
    id = SectionId(*(unquote(start[name]) for name in ("suite", "job", "part")))  # noqa: A001  the field's own name
    stamp = Stamp(int(start["run"]), int(start["attempt"]), start["sha"])
    return Section(id, stamp, text, _decoded(start["short"]), start["write"])


def _decoded(short: str) -> str:
    try:
        return urlsafe_b64decode(short).decode()
    except ValueError:  # somebody has edited it
        return ""


def _word(text: str) -> str:
    """`text` as one word of a marker: no blank, and no hyphen or bracket that could end the marker."""
    return quote(text.encode("utf-8", "replace"), safe="").replace("-", "%2D")


def _size(text: str) -> int:
    """Bytes, with the line feed before it."""
    return len(text.encode()) + 1
