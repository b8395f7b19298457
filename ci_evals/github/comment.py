"""The sticky comment: one for all suites, jobs and runs of a pull request, edited in place.

GitHub's comments know no compare-and-set: two jobs that read the same comment and write it one after the other would
lose the first one's section, and whoever looks too early does not see it. What saves it is time. Every write is made
directly after a read, and carries a random word; who has written waits `SETTLE_S` and reads again. If its word still
stands, then whoever had read before has long written, and everybody after has read this section. If not, it looks
whether its section is still there, writes it again if need be, and waits again. So a section can only be lost by a
write that reaches GitHub more than `SETTLE_S` after its read.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple
from uuid import uuid4

from msgspec import Struct

from ci_evals.errors import GitHubError
from ci_evals.github.answers import Comment, Pull
from ci_evals.github.client import GitHub
from ci_evals.github.comment_body import (
    SHORT_BYTES,
    Body,
    Section,
    SectionId,
    Stamp,
    compose,
    fits,
    no_room,
    parse,
    room_for,
    with_section,
)

Render = Callable[[int], str]
"""From the most bytes it may have in UTF-8 to the Markdown of a section."""

SETTLE_S: Final = 3.0
MAX_ROUNDS: Final = 12
MAX_LOST: Final = 3  # creations whose answer never came
ACTIONS_LOGIN: Final = "github-actions[bot]"  # who GITHUB_TOKEN is


class Contribution(Struct, frozen=True):
    """What one job has to say. `stamp.sha` is the head of the pull request that it speaks of."""

    id: SectionId
    stamp: Stamp
    render: Render


class Posted(Struct, frozen=True):
    """The comment has the section."""

    id: int
    url: str
    created: bool


class NotPosted(Struct, frozen=True):
    """The comment was left alone. `reason` is a sentence for the log."""

    kind: Literal["stale", "forbidden"]
    reason: str


def preview(contribution: Contribution) -> str:
    """The comment as it would be without any other section in it, which is when no short form is needed beside it."""
    write = uuid4().hex
    return compose("", write, (rendered(contribution, (), write)._replace(short=""),))


async def put_section(
    github: GitHub,
    pull_request: int,
    contribution: Contribution,
    *,
    mode: Literal["auto", "new"] = "auto",
) -> Posted | NotPosted:
    """Put a section into the pull request's comment, which is created if there is none.

    Args:
        github: with a token that has `pull-requests: write`; without, the outcome is `NotPosted`.
        pull_request: its number.
        contribution: the section.
        mode: `auto` keeps one comment for the pull request, `new` makes one for each workflow run.

    Raises:
        GitHubError: anything else that keeps the comment from being written.
    """
    scope = "" if mode == "auto" else f"run {contribution.stamp.run_id}"
    try:
        login = await github.login() or ACTIONS_LOGIN
        thread = _Thread(github, pull_request, scope, login, contribution)
        return await thread.put()
    except GitHubError as error:
        if error.kind != "forbidden":
            raise
        reason = (
            f"the token may not comment: {error}. Pull requests from forks and from Dependabot get a token that only"
            " reads; a `workflow_run` workflow with `ci-evals comment` posts it for them"
        )
        return NotPosted("forbidden", reason)


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

    async def put(self) -> Posted | NotPosted:
        """Write until the section is there to stay, or is not to be written."""
        for _ in range(MAX_ROUNDS):
            if reason := await self._outdated():
                await self._clear(await self._ours() if self._created else [])
                return NotPosted("stale", reason)
            ours = await self._ours()
            if outcome := self._outcome(ours):
                await self._clear(ours)
                return outcome
            await self._write(ours[0] if ours else None)
            await self._github.patience.sleep(SETTLE_S)
        raise GitHubError("unexpected", f"others write to the comment of #{self._number} again and again: it was left")

    def _outcome(self, ours: Sequence[_Found]) -> Posted | NotPosted | None:
        """What has been reached, if there is nothing left to do."""
        if not ours:
            return None
        comment, body = ours[0]
        there = _section_in(body, self._contribution.id)
        if there and there.stamp.is_newer_than(self._contribution.stamp):
            newer = f"run {there.stamp.run_id}, attempt {there.stamp.attempt}"
            return NotPosted("stale", f"the comment already has what a newer run found ({newer})")
        if there is None or self._seen is None or not self._has_written(there):
            return None
        settled = body.write == self._seen
        return Posted(comment.id, comment.html_url, created=comment.id in self._created) if settled else None

    def _has_written(self, there: Section) -> bool:
        """Whether a section is ours; or of a job with the same name, which came later and may keep it."""
        return there.write == self._own or (
            there.stamp == self._contribution.stamp and there.write not in self._replaced
        )

    async def _outdated(self) -> str | None:
        pull = await self._github.get(f"pulls/{self._number}", Pull, "pull request")
        if pull.head.sha == self._contribution.stamp.sha:
            return None
        return (
            f"pull request {self._number} has moved on to {pull.head.sha[:7]};"
            f" the comment is left to the run of that commit, this one was of {self._contribution.stamp.sha[:7]}"
        )

    async def _ours(self) -> list[_Found]:
        """Comments with the marker by the right author, the lowest id first."""
        path = f"issues/{self._number}/comments"
        every = await self._github.every(path, Comment, "comment")
        every += await self._unlisted(every)
        own = [comment for comment in every if comment.user and comment.user.login == self._login]
        found = [_Found(comment, body) for comment in own if (body := parse(comment.body or ""))]
        return sorted((each for each in found if each.body.scope == self._scope), key=lambda each: each.comment.id)

    async def _unlisted(self, listed: Sequence[Comment]) -> tuple[Comment, ...]:
        """What was created here but is not in the list: lists may lag behind, and nothing is to be made twice."""
        found = []
        for id in self._created - {comment.id for comment in listed}:  # noqa: A001  the field's own name
            try:
                found.append(await self._github.get(f"issues/comments/{id}", Comment, "comment"))
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
        body = compose(self._scope, write, (self._rendered(()),))
        comment = await self._github.create(f"issues/{self._number}/comments", {"body": body}, Comment, "comment")
        self._tried = True
        self._seen = write
        self._created.add(comment.id)
        if comment.user:
            self._login = comment.user.login  # other GitHub Apps have other names: now older ones are found, too

    async def _edit(self, id: int) -> None:  # noqa: A002  the field's own name
        path = f"issues/comments/{id}"

        async def changed() -> Mapping[str, Any] | None:
            comment = await self._github.get(path, Comment, "comment")
            body = parse(comment.body or "")
            if body is None:
                return None
            there = _section_in(body, self._contribution.id)
            if there and self._is_to_stay(there):
                self._seen = body.write
                return None
            if there:
                self._replaced.add(there.write)
            self._tried = True
            self._seen = uuid4().hex
            return {
                "body": compose(self._scope, self._seen, with_section(body.sections, self._rendered(body.sections)))
            }

        await self._github.edit(path, changed, Comment, "comment")

    def _is_to_stay(self, there: Section) -> bool:
        if there.stamp.is_newer_than(self._contribution.stamp) or there.write == self._own:
            return True
        return self._tried and self._has_written(there)

    def _rendered(self, others: Sequence[Section]) -> Section:
        return rendered(self._contribution, others, self._own)

    async def _clear(self, ours: Sequence[_Found]) -> None:
        """Delete second comments: those made here, and what cancelled jobs of earlier runs left behind."""
        for comment, body in ours[1:]:
            left_behind = all(self._contribution.stamp.is_newer_than(each.stamp) for each in body.sections)
            if comment.id in self._created or left_behind:
                await self._github.delete(f"issues/comments/{comment.id}")


def rendered(contribution: Contribution, others: Sequence[Section], write: str) -> Section:
    """The section as large as it may be beside the others."""
    max_bytes = room_for(contribution.id, contribution.stamp, others)
    text = contribution.render(max_bytes)
    short = contribution.render(min(SHORT_BYTES, max_bytes))
    if not fits(short, min(SHORT_BYTES, max_bytes)):
        short = no_room(contribution.id)
    if not fits(text, max_bytes):
        text = short
    return Section(contribution.id, contribution.stamp, text, short if short != text else "", write)


def _section_in(body: Body, id: SectionId) -> Section | None:  # noqa: A002  the field's own name
    return next((section for section in body.sections if section.id == id), None)
