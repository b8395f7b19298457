"""The body of the comment: sections of several jobs, each between markers that name its run."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, cast
from urllib.parse import quote, unquote
from uuid import uuid4

from ci_evals.format import short_sha
from ci_evals.gate.bars import VerdictStatus
from ci_evals.reports.markdown import CLAIM_MARK, VERDICT_MARKS, code

MAX_BYTES: Final = 65_000
"""GitHub's limit is 262,144 bytes, and 65,536 characters on older servers; GitLab's, 1,000,000
characters.
"""

_MAX_HEADLINE_BYTES = 1_500  # of a section that is reduced to make room for others
_MAX_LINE_BYTES = 500  # of the line under which a section is folded
_MAX_NOTE_BYTES = 150  # of the line above a section of an older commit

_HEAD = re.compile(r"<!-- ci-evals:comment v1 scope=(?P<scope>\S*) write=(?P<write>[0-9a-f]+) -->")
_START = re.compile(
    r"<!-- ci-evals:section suite=(?P<suite>\S*) job=(?P<job>\S*) part=(?P<part>\S*)"
    r" run=(?P<run>[0-9]{1,19}) attempt=(?P<attempt>[0-9]{1,19}) sha=(?P<sha>[0-9a-f]*)"
    r" write=(?P<write>[0-9a-f]*) state=(?P<state>pass|borderline|fail|error|running|claimed) -->"
)
_END: Final = "<!-- ci-evals:end -->"
_MARKER = re.compile(r"<!--(\s*)ci-evals(?=:)", re.IGNORECASE)
_BROKEN_MARKER = r"<!--\1ci-evals "
_LINE_ENDS = re.compile(r"\r\n?")


State = VerdictStatus | Literal["running", "claimed"]
"""The verdict of a section, that its run is under way, or that a fork claims to pass."""

_WORST_FIRST: Final[tuple[State, ...]] = (
    "fail",
    "error",
    "borderline",
    "running",
    "claimed",
    "pass",
)


class SectionId(NamedTuple):
    """Identifies a section.

    Attributes:
        suite: the name of the suite; empty if it could not be read.
        job: the workflow.
        part: tells the jobs of the workflow apart: the name of the job's artifact.
    """

    suite: str
    job: str = ""
    part: str = ""

    def may_be(self, other: "SectionId") -> bool:
        """Return True if both are of the same suite, or if the name of one suite is unknown."""
        if (self.job, self.part) != (other.job, other.part):
            return False
        return self.suite == other.suite or not self.suite or not other.suite


@dataclass(frozen=True, slots=True)
class Stamp:
    """Identifies the run that wrote a section.

    A newer run has a higher id; a later attempt has the same id.
    """

    run_id: int
    attempt: int
    sha: str

    def is_newer_than(self, other: "Stamp") -> bool:
        return (self.run_id, self.attempt) > (other.run_id, other.attempt)


class Section(NamedTuple):
    """One suite's part of the comment: Markdown whose first line is the headline.

    `write` is a random word of the job that wrote it.
    """

    id: SectionId
    stamp: Stamp
    text: str
    state: State
    write: str = ""

    @property
    def headline(self) -> str:
        """The shortest form of the text."""
        headline, _, _ = self.text.partition("\n")
        if len(headline.encode()) <= _MAX_HEADLINE_BYTES:
            if not self.id.suite:
                return headline
            return f"{headline} · {code(self.id.suite)}"
        suite = re.sub(r"[^\w .-]", "", self.id.suite)[:60].strip() or "suite"
        return f"*{suite}: too long for this comment; see the run's summary.*"

    @property
    def mark(self) -> str:
        """The symbol of its state: ✅, ❌ …"""
        if self.state == "running":
            return "⏳"
        if self.state == "claimed":
            return CLAIM_MARK
        return VERDICT_MARKS[self.state]

    @property
    def line(self) -> str:
        """Its name and headline: `✅ flight agent: 105 of 105 runs passed`.

        A headline that is too long is left out.
        """
        headline, _, _ = self.content.partition("\n")
        start = f"### {self.mark} "
        text = headline.removeprefix(start)
        if not headline.startswith(start) or len(text.encode()) > _MAX_LINE_BYTES:
            return self.name
        return f"{self.name}: {text}"

    @property
    def content(self) -> str:
        """The text to post, without markers and lone surrogates: an answer may contain either."""
        text = self.text.encode("utf-8", "replace").decode()
        text = _LINE_ENDS.sub("\n", text).strip("\n")
        return _MARKER.sub(_BROKEN_MARKER, text)

    @property
    def is_green(self) -> bool:
        """True if reviewers need do nothing."""
        return self.state == "pass"

    @property
    def folded(self) -> str:
        """The section between its markers, folded under its name and headline."""
        return f"<details>\n<summary>{self.line}</summary>\n\n{self.block}\n\n</details>\n"

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
            f" attempt={self.stamp.attempt} sha={self.stamp.sha} write={self.write}"
            f" state={self.state} -->"
        )
        return f"{start}\n{self.content}\n{_END}"


@dataclass(frozen=True, slots=True)
class Body:
    """A parsed comment. `write` is a random word of the job that wrote it last."""

    scope: str
    write: str
    sections: tuple[Section, ...]

    def section(self, whose: SectionId) -> Section | None:
        """Return the newest section of a suite, or None.

        Of two sections by the same run, the one with this name wins over the one without a name.
        """
        own = [section for section in self.sections if whose.may_be(section.id)]

        def age_and_name(section: Section) -> tuple[int, int, bool]:
            return section.stamp.run_id, section.stamp.attempt, section.id == whose

        return max(own, key=age_and_name, default=None)


def parse(body: str) -> Body | None:
    """Read a comment; None if it is not one of ours.

    The marker must be the first line, which it never is in a quote. Damaged sections are left out.
    """
    lines = _LINE_ENDS.sub("\n", body).split("\n")
    head = _HEAD.fullmatch(lines[0])
    if head is None:
        return None
    sections: dict[SectionId, Section] = {}
    start: re.Match[str] | None = None
    text: list[str] = []
    for line in lines[1:]:
        new_start = _START.fullmatch(line)
        if new_start:
            start = new_start
            text = []
        elif line == _END and start:
            suite, job, part = start.group("suite", "job", "part")
            whose = SectionId(unquote(suite), unquote(job), unquote(part))
            stamp = Stamp(int(start["run"]), int(start["attempt"]), start["sha"])
            state = cast("State", start["state"])
            sections[whose] = Section(whose, stamp, "\n".join(text), state, start["write"])
            start = None
        else:
            text.append(line)
    return Body(unquote(head["scope"]), head["write"], tuple(sections.values()))


def compose(scope: str, write: str, sections: Iterable[Section]) -> str:
    """Return the comment with these sections, the worst first, then in the order of their ids.

    With several sections, there is a headline over all, green sections are folded, and those of
    older commits than the newest say so. If the
    comment has more than `MAX_BYTES` in UTF-8, the longest sections are reduced to their headlines.
    """
    ordered = sorted(sections, key=lambda section: (_WORST_FIRST.index(section.state), section.id))
    marker = f"<!-- ci-evals:comment v1 scope={_word(scope)} write={write} -->"
    head = marker + _overview(ordered)
    blocks = [_place(section, ordered) for section in ordered]
    longest_first = sorted(
        range(len(blocks)), key=lambda index: len(blocks[index].encode()), reverse=True
    )
    for index in longest_first:
        if sum(map(_size, (head, *blocks))) <= MAX_BYTES:
            break
        section = ordered[index]
        blocks[index] = _place(section._replace(text=section.headline), ordered)
    return "\n".join((head, *blocks))


def _place(section: Section, sections: Sequence[Section]) -> str:
    """Return the Markdown of a section among `sections`."""
    block = section.block
    if section.is_green and len(sections) > 1:
        block = section.folded
    newest_sha = _newest_sha(sections)
    if not _is_outdated(section, newest_sha):
        return block
    # Outside of the section's markers, so that whoever writes next decides again.
    own, newest = code(short_sha(section.stamp.sha)), code(short_sha(newest_sha))
    return f"\n*What follows is of commit {own}: its job has not reported on {newest}.*\n\n{block}"


def _newest_sha(sections: Sequence[Section]) -> str:
    """Return the commit of the newest run; empty if it is unknown."""

    def age(section: Section) -> tuple[int, int]:
        return section.stamp.run_id, section.stamp.attempt

    return max(sections, key=age).stamp.sha


def _is_outdated(section: Section, newest_sha: str) -> bool:
    """Return True if a section is of another commit than the newest one."""
    return "" not in (section.stamp.sha, newest_sha) and section.stamp.sha != newest_sha


def _overview(sections: Sequence[Section]) -> str:
    """Return a headline with the verdict of each section; empty for a single one."""
    if len(sections) < 2:
        return ""
    newest_sha = _newest_sha(sections)
    names = []
    for section in sections:
        name = section.name
        if _is_outdated(section, newest_sha):
            name += f" ({code(short_sha(section.stamp.sha))})"
        names.append(name)
    verdicts = " · ".join(names)
    if _size(verdicts) > MAX_BYTES // 4:
        marks = Counter(section.mark for section in sections)
        verdicts = " · ".join(f"{mark} {count:,}" for mark, count in marks.items())
    return f"\n\n## {verdicts}\n"


def room_for(section: SectionId, stamp: Stamp, others: Sequence[Section]) -> int:
    """Return the number of bytes that the Markdown of a section may have.

    It gets all the room that the others leave, and at least its fair share: `compose` then shortens
    sections that have more than theirs.
    """
    others = [other for other in others if other.id != section]
    write = uuid4().hex
    own = Section(section, stamp, "", "borderline", write)  # no state has a longer name
    frame = _size(compose("", write, [own])) + _size(_overview([*others, own])) + 400
    if others:
        frame += _MAX_NOTE_BYTES + _MAX_LINE_BYTES + _size(own.folded) - _size(own.block)
    used = sum(_size(other.folded) + _MAX_NOTE_BYTES for other in others)
    fair_share = MAX_BYTES // (len(others) + 1)
    return max(0, max(MAX_BYTES - used, fair_share) - frame)


def with_section(sections: Sequence[Section], own: Section) -> tuple[Section, ...]:
    """Return `sections` with `own` in place of earlier sections of its suite.

    When a newer run writes, sections of the same workflow that its previous run did not write are
    dropped as well, and those of other workflows that did not run on the previous commit: their
    suite or job is gone.
    """
    runs = [section.stamp for section in sections if own.id.may_be(section.id)]
    previous = max(runs, key=lambda stamp: stamp.run_id, default=Stamp(0, 0, ""))
    is_newer_run = previous.run_id < own.stamp.run_id
    is_newer_commit = previous.sha != own.stamp.sha
    kept = []
    for section in sections:
        if section.id == own.id:
            continue
        if own.id.may_be(section.id) and own.stamp.is_newer_than(section.stamp):
            continue
        missed_a_run = section.stamp.run_id < previous.run_id
        if is_newer_run and missed_a_run and section.id.job == own.id.job:
            continue
        is_of_either = section.stamp.sha in (previous.sha, own.stamp.sha)
        if is_newer_commit and missed_a_run and not is_of_either:
            continue
        kept.append(section)
    return (*kept, own)


def _word(text: str) -> str:
    """Quote `text` as one word of a marker, without hyphens or brackets that could end it."""
    return quote(text.encode("utf-8", "replace"), safe="").replace("-", "%2D")


def _size(text: str) -> int:
    """Return the number of bytes, with a line feed."""
    return len(text.encode()) + 1


@dataclass(frozen=True, slots=True)
class Contribution:
    """The section that a job contributes to the comment.

    Attributes:
        id: identifies the section.
        stamp: the run; its `sha` is the head of the pull request at that time.
        state: the verdict, or that the run is under way.
        render: returns the Markdown of the section within a number of bytes in UTF-8.
        replaces_only: True if the section may replace an older one of its suite, but not be new.
    """

    id: SectionId
    stamp: Stamp
    state: State
    render: Callable[[int], str]
    replaces_only: bool = False

    def section(self, others: Sequence[Section], write: str) -> Section:
        """Return the section, as large as the others allow."""
        text = self.render(room_for(self.id, self.stamp, others))
        return Section(self.id, self.stamp, text, self.state, write)

    def preview(self) -> str:
        """Return a comment with this section alone."""
        write = uuid4().hex
        return compose("", write, [self.section((), write)])
