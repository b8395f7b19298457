"""The comment on a pull request: one for all suites, jobs and runs, edited in place.

GitHub's comments know no compare-and-set: two jobs that read the same comment and write it one after the other would
lose the first one's section, and whoever looks too early does not see it. What saves it is time. Every write is made
directly after a read, and carries a random word; who has written waits `SETTLE_S` and reads again. If its word still
stands, then whoever had read before has long written, and everybody after has read this section. If not, it looks
whether its section is still there, writes it again if need be, and waits again. So a section can only be lost by a
write that reaches GitHub more than `SETTLE_S` after its read.
"""

import asyncio
import re
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote, unquote
from uuid import uuid4

from ci_evals.errors import GitHubError, StorageError
from ci_evals.files import write_whole
from ci_evals.github.api import (
    FORK_LIMITS,
    Artifact,
    Comment,
    GitHub,
    NoArtifacts,
    WorkflowRun,
    artifacts_of_run,
    connect,
    fetch,
    pull_requests_of,
    workflow_run,
)
from ci_evals.github.context import RESULTS, Context, PullRequest
from ci_evals.reports.markdown import Links, comment_document, progress_text
from ci_evals.reports.read import read_summary
from ci_evals.reports.report_json import REPORT
from ci_evals.reports.summary import Summary

Mode = Literal["auto", "new"]
"""`auto` keeps one comment for the pull request, `new` makes one for each workflow run."""

FILE: Final = "comment.md"
ARTIFACTS: Final = "ci-evals*"
"""Artifacts with such a name are taken for results."""

_MAX_ARTIFACTS = 20
_MAX_REPORT_BYTES = 64 * 1024 * 1024  # of another run's report; reading it takes several times as much memory
_NOT_POSTED = "no comment was posted"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of posting: the comment's `url`, or a `warning` in one sentence, or a `note`.

    A note says why there rightly is no comment of this run: without a pull request, or beside a newer run's. After a
    dry run there is none of them.
    """

    url: str | None = None
    warning: str | None = None
    note: str | None = None


def post_comment(summary: Summary, context: Context, part: str = RESULTS, mode: Mode = "auto") -> Outcome:
    """Put a suite's section into the comment on the pull request that this job is for.

    Whatever GitHub or the network do ends in a warning. Without a pull request, nothing is done.

    Args:
        summary: what was found.
        context: the job.
        part: tells the jobs of one workflow apart: the name of the job's artifact.
        mode: one comment for all runs, or one for each.
    """
    return _post(_contribution(summary, context, part), context, mode)


def post_progress(suite: str, context: Context, part: str = RESULTS) -> Outcome:
    """Say in the comment that a run is under way; `post_comment` puts its section in the place of this one."""
    text = progress_text(suite, context.run_url)
    section = SectionId(suite, context.workflow, part)
    return _post(Contribution(section, _stamp(context), lambda _max_bytes: text), context, "auto")


def comment_on(folder: Path, context: Context, part: str, mode: Mode, dry_run: Callable[[str], None] | None) -> Outcome:
    """Post what a results folder has to say on the pull request of this job.

    Args:
        folder: where report.json is.
        context, part, mode: as for `post_comment`.
        dry_run: given what would be posted, as far as that is known without asking GitHub, instead of posting it.

    Raises:
        StorageError: there is no report, or it is damaged.
    """
    summary = read_summary(folder)
    if dry_run is not None:
        dry_run(preview(_contribution(summary, context, part)))
        return Outcome()
    if context.problem is not None:
        return Outcome(warning=f"{_NOT_POSTED}: {context.problem}")
    return post_comment(summary, context, part, mode)


def write_comment(summary: Summary, context: Context, folder: Path) -> Path:
    """Write comment.md for a reader; what posts it elsewhere goes by report.json.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / FILE
    text = comment_document(summary, Links(context.run_url)).render(MAX_BYTES)
    write_whole(path, [f"{text}\n".encode()])
    return path


def comment_from_run(
    context: Context, run_id: int, artifact: str | None, mode: Mode, dry_run: Callable[[str], None] | None
) -> Outcome:
    """Post what another workflow run has found, as a `workflow_run` workflow does for pull requests from forks.

    Nothing that the run has uploaded is believed: archives are unpacked within limits, reports are decoded by their
    schema, the comment is rendered anew, and the pull request is the one whose head GitHub says the run had.

    Args:
        context: this job, with a token that may read artifacts and comment.
        run_id: the run that has uploaded results.
        artifact: the name of its artifact, or a pattern with `*`; None for `ARTIFACTS`.
        mode: one comment for all runs, or one for each.
        dry_run: given what would be posted, instead of posting it.
    """

    async def post(github: GitHub) -> Outcome:
        run = await workflow_run(github, run_id)
        pulls = await pull_requests_of(github, run)
        if not pulls:
            return Outcome(warning=f"{_NOT_POSTED}: no open pull request has the commit of run {run_id} as its head")
        contributions, problems = await _contributions_of_run(github, run, artifact or ARTIFACTS)
        outcome = Outcome()
        for contribution in contributions:
            if dry_run is not None:
                dry_run(preview(contribution))
                continue
            for pull in pulls:
                put = await put_section(github, pull.number, contribution, mode=mode)
                problems += [put.warning] if put.warning else []
                outcome = replace(outcome, url=put.url or outcome.url, note=put.note or outcome.note)
        return replace(outcome, warning="; ".join(problems) or None)

    return _with_github(context, post)


async def _contributions_of_run(
    github: GitHub, run: WorkflowRun, pattern: str
) -> "tuple[list[Contribution], list[str]]":
    """Return a section for each report that a run has uploaded, and a sentence for each that cannot be believed."""
    contributions: list[Contribution] = []
    problems: list[str] = []
    uploaded = await artifacts_of_run(github, run.id, pattern)
    if isinstance(uploaded, NoArtifacts):
        return [], [f"{_NOT_POSTED}: {uploaded.reason}"]
    with tempfile.TemporaryDirectory(prefix="ci-evals-") as folder:
        for number, artifact in enumerate(uploaded[:_MAX_ARTIFACTS]):
            try:
                reports = await fetch(github, artifact, Path(folder, str(number)), (REPORT,), FORK_LIMITS)
                if reports:  # a shard's has none: what it found is in that of the merge
                    contributions.append(_contribution_of_artifact(artifact, reports, run))
            except (GitHubError, StorageError) as error:
                problems.append(f"artifact {artifact.name!r} was left out: {error}")
    if not contributions and not problems:
        problems.append(f"{_NOT_POSTED}: no artifact {pattern!r} of run {run.id} has a {REPORT}")
    return contributions, problems


def _contribution_of_artifact(artifact: Artifact, reports: Sequence[Path], run: WorkflowRun) -> "Contribution":
    """Return the section that the report of an artifact makes; raises StorageError if it is damaged or not alone."""
    if len(reports) != 1:
        raise StorageError(f"it has {len(reports)} files named {REPORT}, and one is needed")
    if (size := reports[0].stat().st_size) > _MAX_REPORT_BYTES:
        raise StorageError(f"{REPORT} has {size:,} bytes, more than {_MAX_REPORT_BYTES:,}")
    try:
        summary = read_summary(reports[0])
    except StorageError as error:
        raise StorageError(f"{REPORT} {str(error).removeprefix(f'{reports[0]}: ')}") from error
    links = Links(run.html_url, f"{run.html_url}/artifacts/{artifact.id}")
    section = SectionId(summary.report.suite.name, run.name or "", artifact.name)
    return Contribution(section, Stamp(run.id, run.run_attempt, run.head_sha), comment_document(summary, links).render)


def _contribution(summary: Summary, context: Context, part: str) -> "Contribution":
    section = SectionId(summary.report.suite.name, context.workflow, part)
    return Contribution(section, _stamp(context), comment_document(summary, Links(context.run_url)).render)


def _stamp(context: Context) -> "Stamp":
    pull = context.pull_request
    return Stamp(context.run_id or 0, context.attempt, pull.head.sha if pull else "")


def _post(contribution: "Contribution", context: Context, mode: Mode) -> Outcome:
    pull = context.pull_request
    if pull is None:
        return Outcome(note="no pull request: nothing was posted")
    if reason := context.unusable or (None if context.run_id else "GITHUB_RUN_ID is not set"):
        return Outcome(warning=f"{_NOT_POSTED}: {reason}")
    return _with_github(context, lambda github: put_section(github, pull.number, contribution, mode=mode))


def _with_github(context: Context, work: Callable[[GitHub], Coroutine[Any, Any, Outcome]]) -> Outcome:
    """Connect and work; what goes wrong is a warning."""

    async def talk() -> Outcome:
        async with connect(context) as github:
            return await work(github)

    try:
        return asyncio.run(talk())
    except (GitHubError, StorageError) as error:
        return Outcome(warning=f"{_NOT_POSTED}: {error}")


# The text of the comment.

MAX_BYTES: Final = 65_000
"""GitHub's limit is 262,144 bytes, and 65,536 characters on older servers."""

_MAX_HEADLINE_BYTES = 1_500  # what a section may be reduced to, when others need the room

_HEAD = re.compile(r"<!-- ci-evals:comment v1 scope=(?P<scope>\S*) write=(?P<write>[0-9a-f]+) -->")
_START = re.compile(
    r"<!-- ci-evals:section suite=(?P<suite>\S*) job=(?P<job>\S*) part=(?P<part>\S*)"
    r" run=(?P<run>[0-9]{1,19}) attempt=(?P<attempt>[0-9]{1,19}) sha=(?P<sha>[0-9a-f]*)"
    r" write=(?P<write>[0-9a-f]*) -->"
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


@dataclass(frozen=True, slots=True)
class Stamp:
    """Which run wrote a section. A newer run has a higher id, a later attempt the same one."""

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


@dataclass(frozen=True, slots=True)
class Body:
    """A parsed comment. `write` is a random word of whoever wrote it last."""

    scope: str
    write: str
    sections: tuple[Section, ...]

    def section(self, whose: SectionId) -> Section | None:
        return next((section for section in self.sections if section.id == whose), None)


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
    """Return the comment with these sections, in the order of their ids, at most `MAX_BYTES` long in UTF-8.

    When they do not fit, the longest are reduced to their headline, and if that is not enough, the last ones are left
    out and counted.
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
    """Return how many bytes of Markdown a section may have: all that others leave, never less than its fair share.

    What others have beyond their share has to give way then, see `compose`.
    """
    used = sum(_size(_block(_safe(other))) for other in others if other.id != section)
    number = len({other.id for other in others} | {section})
    empty = _block(Section(section, stamp, "", "0" * 32))
    frame = _size(empty) + _size(f"<!-- ci-evals:comment v1 scope= write={'0' * 32} -->") + 400
    return max(0, max(MAX_BYTES - used, MAX_BYTES // number) - frame)


def with_section(sections: Sequence[Section], own: Section) -> tuple[Section, ...]:
    """Return `sections` with `own` in the place of what it had before.

    What the same workflow wrote before the run of that has missed a whole run since: its suite or its job is gone. So
    it goes, when a newer run writes.
    """
    last = max((section.stamp.run_id for section in sections if section.id == own.id), default=0)
    oldest = last if last < own.stamp.run_id else 0
    others = (section for section in sections if section.id != own.id)
    return (*(each for each in others if each.id.job != own.id.job or each.stamp.run_id >= oldest), own)


def _fits(text: str, max_bytes: int) -> bool:
    return len(text.encode("utf-8", "replace")) <= max_bytes


def _no_room(section: SectionId) -> str:
    """Return what stands in for a section whose shortest form does not fit."""
    suite = re.sub(r"[^\w .-]", "", section.suite)[:60].strip() or "suite"
    return _NO_ROOM.format(suite=suite)


def _reduced(sections: Sequence[Section], room: int) -> list[Section]:
    """Reduce the longest sections to their headline, until all fit or all are short."""
    reduced = list(sections)
    sizes = [_size(_block(section)) for section in reduced]
    for index in sorted(range(len(reduced)), key=lambda index: -sizes[index]):
        if sum(sizes) <= room:
            break
        section = reduced[index]
        headline = section.text.partition("\n")[0]
        shorter = section._replace(text=headline if _fits(headline, _MAX_HEADLINE_BYTES) else _no_room(section.id))
        if (size := _size(_block(shorter))) < sizes[index]:
            reduced[index], sizes[index] = shorter, size
    return reduced


def _safe(section: Section) -> Section:
    """Return the section with a text that holds no marker, and nothing that UTF-8 cannot hold."""
    plain = _LINE_ENDS.sub("\n", section.text.encode("utf-8", "replace").decode()).strip("\n")
    return section._replace(text=_MARKER.sub(_BROKEN_MARKER, plain))


def _block(section: Section) -> str:
    whose, stamp = section.id, section.stamp
    start = (
        f"<!-- ci-evals:section suite={_word(whose.suite)} job={_word(whose.job)} part={_word(whose.part)}"
        f" run={stamp.run_id} attempt={stamp.attempt} sha={stamp.sha}"
        f" write={section.write} -->"
    )
    return f"{start}\n{section.text}\n{_END}"


def _section(start: re.Match[str], text: str) -> Section:
    whose = SectionId(*(unquote(start[name]) for name in ("suite", "job", "part")))
    stamp = Stamp(int(start["run"]), int(start["attempt"]), start["sha"])
    return Section(whose, stamp, text, start["write"])


def _word(text: str) -> str:
    """Return `text` as one word of a marker: no blank, and no hyphen or bracket that could end the marker."""
    return quote(text.encode("utf-8", "replace"), safe="").replace("-", "%2D")


def _size(text: str) -> int:
    """Return the number of bytes, with the line feed before it."""
    return len(text.encode()) + 1


# Posting.

SETTLE_S: Final = 3.0
MAX_ROUNDS: Final = 12
MAX_LOST: Final = 3  # creations whose answer never came
_ACTIONS_LOGIN = "github-actions[bot]"  # who GITHUB_TOKEN is

Render = Callable[[int], str]
"""From the most bytes it may have in UTF-8 to the Markdown of a section."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one job has to say. `stamp.sha` is the head of the pull request that it speaks of."""

    id: SectionId
    stamp: Stamp
    render: Render

    def section(self, others: Sequence[Section], write: str) -> Section:
        """Return the section as large as it may be beside the others."""
        max_bytes = room_for(self.id, self.stamp, others)
        text = self.render(max_bytes)
        return Section(self.id, self.stamp, text if _fits(text, max_bytes) else _no_room(self.id), write)


def preview(contribution: Contribution) -> str:
    """Return the comment as it is without any other section in it."""
    write = uuid4().hex
    return compose("", write, (contribution.section((), write),))


async def put_section(github: GitHub, pull_request: int, contribution: Contribution, *, mode: Mode = "auto") -> Outcome:
    """Put a section into the pull request's comment, which is created if there is none.

    Args:
        github: with a token that has `pull-requests: write`; without, the outcome is a warning.
        pull_request: its number.
        contribution: the section.
        mode: one comment for all runs, or one for each.

    Raises:
        GitHubError: anything else that keeps the comment from being written.
    """
    scope = "" if mode == "auto" else f"run {contribution.stamp.run_id}"
    try:
        login = await github.login() or _ACTIONS_LOGIN
        return await _Thread(github, pull_request, scope, login, contribution).put()
    except GitHubError as error:
        if error.kind != "forbidden":
            raise
        return Outcome(
            warning=f"{_NOT_POSTED}: the token may not comment: {error}. Pull requests from forks and from Dependabot"
            " get a token that only reads; a `workflow_run` workflow with `ci-evals comment` posts it for them"
        )


class _Found(NamedTuple):
    comment: Comment
    body: Body


class _Thread:
    """The comments of one pull request, as far as they are ours."""

    def __init__(self, github: GitHub, number: int, scope: str, login: str, contribution: Contribution) -> None:
        self._github = github
        self._number = number
        self._scope = scope
        self._login = login
        self._contribution = contribution
        self._own = uuid4().hex  # marks the section
        self._seen: str | None = None  # whose write the comment held before it was left to settle
        self._tried = False
        self._replaced: set[str] = set()  # who wrote the section before
        self._created: set[int] = set()
        self._lost = 0

    async def put(self) -> Outcome:
        """Write until the section is there to stay, or is not to be written."""
        for _ in range(MAX_ROUNDS):
            if reason := await self._outdated():
                await self._clear(await self._ours() if self._created else [])
                return Outcome(note=reason)
            ours = await self._ours()
            if outcome := self._outcome(ours):
                await self._clear(ours)
                return outcome
            await self._write(ours[0] if ours else None)
            await self._github.sleep(SETTLE_S)
        raise GitHubError("unexpected", f"others write to the comment of #{self._number} again and again: it was left")

    def _outcome(self, ours: Sequence[_Found]) -> Outcome | None:
        """Return what has been reached, if there is nothing left to do."""
        if not ours:
            return None
        comment, body = ours[0]
        there = body.section(self._contribution.id)
        if there and there.stamp.is_newer_than(self._contribution.stamp):
            newer = f"run {there.stamp.run_id}, attempt {there.stamp.attempt}"
            return Outcome(note=f"the comment already has what a newer run found ({newer})")
        if there is None or self._seen is None or not self._has_written(there):
            return None
        return Outcome(url=comment.html_url) if body.write == self._seen else None

    def _has_written(self, there: Section) -> bool:
        """Return True if a section is ours; or of a job with the same name, which came later and may keep it."""
        return there.write == self._own or (
            there.stamp == self._contribution.stamp and there.write not in self._replaced
        )

    async def _outdated(self) -> str | None:
        pull = await self._github.get(f"pulls/{self._number}", PullRequest, "pull request")
        if pull.head.sha == self._contribution.stamp.sha:
            return None
        return (
            f"pull request {self._number} has moved on to {pull.head.sha[:7]};"
            f" the comment is left to the run of that commit, this one was of {self._contribution.stamp.sha[:7]}"
        )

    async def _ours(self) -> list[_Found]:
        """Return the comments with the marker by the right author, the lowest id first."""
        path = f"issues/{self._number}/comments"
        listed = await self._github.list(path, Comment, "comment")
        listed += await self._unlisted(listed)
        own = [comment for comment in listed if comment.user and comment.user.login == self._login]
        found = [_Found(comment, body) for comment in own if (body := parse(comment.body or ""))]
        return sorted((each for each in found if each.body.scope == self._scope), key=lambda each: each.comment.id)

    async def _unlisted(self, listed: Sequence[Comment]) -> tuple[Comment, ...]:
        """Return what was created here but is not listed: lists may lag behind, and nothing is to be made twice."""
        found = []
        for missing in self._created - {comment.id for comment in listed}:
            try:
                found.append(await self._github.get(f"issues/comments/{missing}", Comment, "comment"))
            except GitHubError as error:
                if error.kind != "missing":
                    raise
        return tuple(found)

    async def _write(self, found: _Found | None) -> None:
        """One attempt to bring the section into the first comment, or into a new one."""
        self._seen = None
        try:
            if found is None:
                await self._create()
            else:
                await self._edit(found.comment.id)
        except GitHubError as error:
            # The comment was deleted meanwhile; or it is not known whether it was created: the next look tells.
            self._lost += error.kind == "unreachable"
            if error.kind != ("unreachable" if found is None else "missing") or self._lost == MAX_LOST:
                raise

    async def _create(self) -> None:
        write = uuid4().hex
        body = compose(self._scope, write, (self._contribution.section((), self._own),))
        comment = await self._github.create(f"issues/{self._number}/comments", {"body": body}, Comment, "comment")
        self._tried = True
        self._seen = write
        self._created.add(comment.id)
        if comment.user:
            self._login = comment.user.login  # other GitHub Apps have other names: now older ones are found, too

    async def _edit(self, comment_id: int) -> None:
        path = f"issues/comments/{comment_id}"

        async def changed() -> Mapping[str, Any] | None:
            comment = await self._github.get(path, Comment, "comment")
            body = parse(comment.body or "")
            if body is None:
                return None
            there = body.section(self._contribution.id)
            if there and self._is_to_stay(there):
                self._seen = body.write
                return None
            if there:
                self._replaced.add(there.write)
            self._tried = True
            self._seen = uuid4().hex
            own = self._contribution.section(body.sections, self._own)
            return {"body": compose(self._scope, self._seen, with_section(body.sections, own))}

        await self._github.edit(path, changed, Comment, "comment")

    def _is_to_stay(self, there: Section) -> bool:
        if there.stamp.is_newer_than(self._contribution.stamp) or there.write == self._own:
            return True
        return self._tried and self._has_written(there)

    async def _clear(self, ours: Sequence[_Found]) -> None:
        """Delete second comments: those made here, and what cancelled jobs of earlier runs left behind."""
        for comment, body in ours[1:]:
            left_behind = all(self._contribution.stamp.is_newer_than(each.stamp) for each in body.sections)
            if comment.id in self._created or left_behind:
                await self._github.delete(f"issues/comments/{comment.id}")
