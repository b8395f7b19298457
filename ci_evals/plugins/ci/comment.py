"""The comment on a change: one for all suites, jobs and runs, edited in place.

No CI system offers compare-and-set for comments. If two jobs read the same comment and then write
it, the second write removes the section of the first, and a job that checks too early doesn't
notice. So every write follows directly on a read and carries a random word, and the job reads again
after `SETTLE_S`. If its word is still there, every job that read before has written by now, and
every later one has read this section. Otherwise the job writes its section again if it is gone, and
waits again. Only a write that arrives more than `SETTLE_S` after its read can remove a section.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeVar
from uuid import uuid4

from ci_evals.errors import HostError, StorageError
from ci_evals.files import write_atomically
from ci_evals.format import short_sha
from ci_evals.gate.compare import Change
from ci_evals.hosts import Log
from ci_evals.plugins.ci.comment_body import (
    MAX_BYTES,
    Body,
    Contribution,
    Section,
    SectionId,
    Stamp,
    State,
    compose,
    parse,
    with_section,
)
from ci_evals.redaction import Redactor
from ci_evals.reports.markdown import Links, comment_document
from ci_evals.reports.notes import changed_rules
from ci_evals.reports.summary import Summary

T = TypeVar("T")

Mode = Literal["auto", "changes", "new"]
"""`auto` keeps one comment for the change, `new` makes one for each run of the CI system.

`changes` is like `auto`, but a suite without a change only replaces its older section.
"""

FILE: Final = "comment.md"
NOT_POSTED: Final = "no comment was posted"
_NO_CHANGES = "nothing changed: no comment was posted"
_CHANGES: Final[frozenset[Change]] = frozenset(
    ("worse", "probably worse", "fixed", "removed", "edited", "not compared")
)

SETTLE_S: Final = 3.0
MAX_ROUNDS: Final = 12
MAX_LOST: Final = 3
"""The most attempts to create a comment when there is no answer."""
WRITE_SPACING_S: Final = 1.0
"""GitHub's advice."""


@dataclass(frozen=True, slots=True)
class CommentOutcome:
    """The outcome of posting.

    Attributes:
        url: the address of the comment.
        warning: why it could not be posted, in one sentence.
        note: why there is nothing to post, such as no pull request or a newer run.
        preview: the comment that would be posted; only in a dry run.
    """

    url: str | None = None
    warning: str | None = None
    note: str | None = None
    preview: str | None = None


@dataclass(frozen=True, slots=True)
class PostedComment:
    """A comment on a change. `author` is None when the account was deleted."""

    id: int
    url: str
    author: str | None
    body: str


class CommentApi(Protocol):
    """The comments on one change in a CI system's API. Methods may raise `HostError`.

    Attributes:
        change: the change for people: `pull request 7`.
        sleep: how to wait.
    """

    change: str
    sleep: Callable[[float], Awaitable[None]]

    async def retry(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what `call` returns, repeating it after rate limits and failures."""
        ...

    async def head_sha(self) -> str:
        """Return the newest commit of the change."""
        ...

    async def list(self) -> Sequence[PostedComment]: ...

    async def create(self, text: str) -> PostedComment: ...

    async def read(self, comment_id: int) -> PostedComment: ...

    async def edit(self, comment_id: int, text: str) -> None: ...

    async def delete(self, comment_id: int) -> None: ...

    def describe_run(self, stamp: Stamp) -> str:
        """Return the name of a run: `run 12, attempt 1`."""
        ...


def has_changes(summary: Summary) -> bool:
    """Return True if something differs from the base, or is not known to be the same.

    New cases don't count, nor do drops that may be chance.
    """
    compared = summary.compared
    if summary.verdict.status != "pass" or compared is None or summary.report.totals.errored:
        return True
    if summary.notes or any(changed_rules(summary, compared)):
        return True
    settings = summary.report.changed_settings
    if settings is not None and not settings.adds_only:
        return True
    changes = {compared.change_of_variant(variant) for variant in compared.variants}
    if changes & {"worse", "probably worse"}:
        return True
    return any(compared.change(cell) in _CHANGES for cell in compared.cells)


def suite_contribution(
    summary: Summary, links: Links, section: SectionId, stamp: Stamp, mode: Mode
) -> Contribution:
    """Return the section of a suite.

    Args:
        summary: the report and its verdict.
        links: the pages that the section links to.
        section: identifies it.
        stamp: the run.
        mode: with `changes`, a suite without a change only replaces its older section.
    """
    return Contribution(
        section,
        stamp,
        summary.verdict.status,
        comment_document(summary, links).render,
        replaces_only=mode == "changes" and not has_changes(summary),
    )


def text_contribution(section: SectionId, stamp: Stamp, state: State, text: str) -> Contribution:
    """Return a section with a short text of ours, which is never cut."""
    return Contribution(section, stamp, state, lambda _max_bytes: text)


def write_comment(summary: Summary, links: Links, folder: Path) -> Path:
    """Write comment.md for people to read; programs that post it elsewhere use report.json.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / FILE
    text = comment_document(summary, links).render(MAX_BYTES)
    write_atomically(path, [f"{text}\n".encode()])
    return path


def log_outcome(
    posted: CommentOutcome,
    summary: Summary,
    links: Links,
    folder: Path,
    log: Log,
    redactor: Redactor,
) -> None:
    """Say where the comment is; if it could not be posted, warn and write it to a file.

    Args:
        posted: the outcome of posting.
        summary: what the comment is about.
        links: those of the comment.
        folder: the results folder, which gets the file.
        log: where it is said.
        redactor: takes secrets out of what is said.
    """
    done = posted.url or posted.note
    if done:
        log.say([redactor.clean_text(f"comment: {done}")])
    if not posted.warning:
        return
    log.warn(redactor.clean_text(posted.warning))
    try:
        file = write_comment(summary, links, folder)
    except StorageError as error:
        log.warn(redactor.clean_text(str(error)))
    else:
        log.say([redactor.clean_text(f"the comment is left in {file.name}")])


class OwnComment(NamedTuple):
    comment: PostedComment
    body: Body


async def own_comments(comments: CommentApi, scope: str, login: str) -> list[OwnComment]:
    """Return the comments by `login` that have our marker and this scope, ordered by id."""
    own = []
    for comment in await comments.list():
        if comment.author != login:
            continue
        body = parse(comment.body)
        if body is not None and body.scope == scope:
            own.append(OwnComment(comment, body))
    # Every job writes into the first one, so that two that create one at a time end up in the same.
    return sorted(own, key=lambda one: one.comment.id)


def _belongs(contribution: Contribution, body: Body) -> bool:
    """Return True unless a section would be new and must not be."""
    return not contribution.replaces_only or body.section(contribution.id) is not None


class Thread:
    """Puts sections of one run into our comment on a change.

    Args:
        comments: the comments on the change.
        scope: tells our comments apart; empty for the comment of all runs.
        login: the account that comments.
        contributions: the sections, all of one run; at least one.
    """

    def __init__(
        self, comments: CommentApi, scope: str, login: str, contributions: Sequence[Contribution]
    ) -> None:
        self._comments = comments
        self._scope = scope
        self._login = login
        self._contributions = contributions
        self._stamp = contributions[0].stamp
        self._section_word = uuid4().hex
        self._last_write: str | None = None  # must still be there after SETTLE_S
        self._created: set[int] = set()
        self._lost = 0

    async def put(self) -> CommentOutcome:
        """Write until the sections have settled, or must not be written.

        Raises:
            HostError: the comment cannot be written.
        """
        for _ in range(MAX_ROUNDS):
            head_sha = await self._comments.head_sha()
            own = await own_comments(self._comments, self._scope, self._login)
            outcome = self._outcome(head_sha, own)
            if outcome is not None:
                await self._delete_others(own)
                return outcome
            if own:
                await self._edit(own[0].comment.id)
            else:
                await self._create()
            await self._comments.sleep(SETTLE_S)
        raise HostError(
            "unexpected",
            f"other jobs keep overwriting the comment on {self._comments.change}:"
            " does each have its own --artifact?",
        )

    def _outcome(self, head_sha: str, own: Sequence[OwnComment]) -> CommentOutcome | None:
        """Return the outcome, or None if a section still has to be written or to settle."""
        stamp = self._stamp
        if head_sha != stamp.sha:
            note = (
                f"{self._comments.change} has moved on to {short_sha(head_sha)};"
                " the comment is left to the run of that commit,"
                f" this one was of {short_sha(stamp.sha)}"
            )
            return CommentOutcome(note=note)
        contributions = self._contributions
        if not own:
            if all(contribution.replaces_only for contribution in contributions):
                return CommentOutcome(note=_NO_CHANGES)
            return None
        comment, body = own[0]
        contributions = [each for each in contributions if _belongs(each, body)]
        if not contributions:
            return CommentOutcome(note=_NO_CHANGES)
        overtaken_by: list[Stamp] = []
        for contribution in contributions:
            section = body.section(contribution.id)
            if section is None:
                return None
            if section.stamp.is_newer_than(stamp):
                overtaken_by.append(section.stamp)
            elif section.write != self._section_word or body.write != self._last_write:
                return None
        if len(overtaken_by) == len(contributions):
            newer = self._comments.describe_run(overtaken_by[0])
            return CommentOutcome(note=f"the comment already has what a newer run found ({newer})")
        return CommentOutcome(url=comment.url)

    async def _create(self) -> None:
        write = uuid4().hex
        text = compose(self._scope, write, self._add_to(()))
        try:
            comment = await self._comments.create(text)
        except HostError as error:
            self._lost += 1
            if error.kind != "unreachable" or self._lost == MAX_LOST:
                raise
            return  # it may have been created nevertheless: the next round sees it
        self._last_write = write
        self._created.add(comment.id)
        if comment.author:
            # `login` may have been a guess: with the right account, its older comments are found.
            self._login = comment.author

    def _add_to(self, sections: tuple[Section, ...]) -> tuple[Section, ...]:
        """Return sections with this run's own, unless they are there already or newer ones are."""
        for contribution in self._contributions:
            body = Body(self._scope, "", sections)
            if not _belongs(contribution, body):
                continue
            section = body.section(contribution.id)
            if section is not None:
                newer = section.stamp.is_newer_than(self._stamp)
                if newer or section.write == self._section_word:
                    continue
            own = contribution.section(sections, self._section_word)
            sections = with_section(sections, own)
        return sections

    async def _edit(self, comment_id: int) -> None:
        # Retried as a whole: a text that was read before the wait may be out of date.
        async def read_and_write() -> None:
            comment = await self._comments.read(comment_id)
            body = parse(comment.body)
            if body is None:
                return
            sections = self._add_to(body.sections)
            if sections == body.sections:
                self._last_write = body.write
                return
            self._last_write = uuid4().hex
            text = compose(self._scope, self._last_write, sections)
            await self._comments.edit(comment_id, text)

        try:
            await self._comments.retry(read_and_write)
        except HostError as error:
            if error.kind != "missing":  # deleted meanwhile: the next round sees that
                raise

    async def _delete_others(self, own: Sequence[OwnComment]) -> None:
        """Delete further comments that were created here or left behind by older runs."""
        for comment, body in own[1:]:
            is_old = all(self._stamp.is_newer_than(section.stamp) for section in body.sections)
            if is_old or comment.id in self._created:
                await self._comments.sleep(WRITE_SPACING_S)
                await self._comments.delete(comment.id)
