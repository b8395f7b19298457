"""The note on a merge request."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from ci_evals.errors import HostError
from ci_evals.plugins.ci.comment import (
    NOT_POSTED,
    CommentApi,
    CommentOutcome,
    Mode,
    PostedComment,
    Thread,
    suite_contribution,
    text_contribution,
)
from ci_evals.plugins.ci.comment_body import Contribution, SectionId, Stamp, State
from ci_evals.plugins.gitlab.api import GitLab, connect
from ci_evals.plugins.gitlab.context import GitLabContext, MergeRequest
from ci_evals.plugins.gitlab.markdown import inert
from ci_evals.reports.markdown import Links
from ci_evals.reports.summary import Summary

T = TypeVar("T")

_NEEDED: Final = "a project access token with the scope `api` in GITLAB_TOKEN"


def post_summary(
    summary: Summary, context: GitLabContext, mode: Mode, page: Path | None = None
) -> CommentOutcome:
    """Put a suite's section into the note on the merge request of this job.

    Problems with GitLab or the network become a warning. Without a merge request, nothing is
    posted.

    Args:
        summary: the report and its verdict.
        context: the job.
        mode: one note for all pipelines, or one for each.
        page: report.html, if it is among the job's artifacts.
    """
    section = SectionId(summary.report.suite.name, "", context.job_name)
    links = links_of(context, page)
    return _post(suite_contribution(summary, links, section, _stamp(context), mode), context, mode)


def post_text(
    text: str, state: State, suite: str, context: GitLabContext, mode: Mode = "auto"
) -> CommentOutcome:
    """Put Markdown in place of a suite's section.

    `suite` is empty if the name of the suite could not be read.
    """
    section = SectionId(suite, "", context.job_name)
    contribution = text_contribution(section, _stamp(context), state, text)
    if mode == "changes" and state == "pass":
        contribution = replace(contribution, replaces_only=True)
    return _post(contribution, context, mode)


def links_of(context: GitLabContext, page: Path | None = None) -> Links:
    """Return the pages that a section links to."""
    page_url = None
    if page is not None:
        page_url = context.page_url(page)
    return Links(context.job_url, context.artifacts_url, context.source_url, page_url)


def _stamp(context: GitLabContext) -> Stamp:
    sha = ""
    if context.merge_request is not None:
        sha = context.merge_request.head_sha
    return Stamp(context.pipeline_id, context.job_id, sha)  # a retried job has a higher id


def _post(contribution: Contribution, context: GitLabContext, mode: Mode) -> CommentOutcome:
    merge_request = context.merge_request
    if merge_request is None or merge_request.in_train:
        return CommentOutcome(note="no merge request: nothing was posted")
    if context.token is None and context.runs_in_fork:
        why = (
            "this pipeline runs in the fork and has no token for the merge request; a member of the"
            " target project can run the pipeline there"
        )
        return CommentOutcome(warning=f"{NOT_POSTED}: {why}")
    if context.token is None:
        return CommentOutcome(note=f"{NOT_POSTED}: that needs {_NEEDED}")

    async def put() -> CommentOutcome:
        async with connect(context, merge_request.project_id) as gitlab:
            scope = ""
            if mode == "new":
                scope = f"pipeline {contribution.stamp.run_id}"
            user = await gitlab.get("/user", _User)
            notes = MergeRequestNotes(gitlab, merge_request)
            return await Thread(notes, scope, user.username, [contribution]).put()

    try:
        return asyncio.run(put())
    except HostError as error:
        why = str(error)
        # GitLab hides what a token may not see: a lack of permission may look like a 404.
        if error.kind in ("expired", "forbidden", "missing"):
            why += f" (a note on {merge_request.url} needs {_NEEDED})"
        return CommentOutcome(warning=f"{NOT_POSTED}: {why}")


@dataclass(frozen=True, slots=True)
class _User:
    username: str


@dataclass(frozen=True, slots=True)
class _Note:
    """A note. `system` is True if GitLab itself wrote it."""

    id: int
    body: str
    author: _User | None = None
    system: bool = False


@dataclass(frozen=True, slots=True)
class _Head:
    sha: str | None = None


class MergeRequestNotes(CommentApi):
    """The notes on a merge request."""

    def __init__(self, gitlab: GitLab, merge_request: MergeRequest) -> None:
        self.change = f"merge request !{merge_request.iid}"
        self.sleep = gitlab.sleep
        self._gitlab = gitlab
        self._url = merge_request.url
        self._path = f"merge_requests/{merge_request.iid}"

    async def retry(self, call: Callable[[], Awaitable[T]]) -> T:
        return await self._gitlab.retry(call)

    async def head_sha(self) -> str:
        head = await self._gitlab.get(self._path, _Head)
        return head.sha or ""

    async def list(self) -> Sequence[PostedComment]:
        notes = await self._gitlab.list(
            f"{self._path}/notes", _Note, sort="asc", order_by="created_at"
        )
        return [self._posted(note) for note in notes if not note.system]

    async def create(self, text: str) -> PostedComment:
        data = {"body": inert(text)}
        return self._posted(await self._gitlab.create(f"{self._path}/notes", data, _Note))

    async def read(self, comment_id: int) -> PostedComment:
        return self._posted(await self._gitlab.get(f"{self._path}/notes/{comment_id}", _Note))

    async def edit(self, comment_id: int, text: str) -> None:
        await self._gitlab.edit(f"{self._path}/notes/{comment_id}", {"body": inert(text)})

    async def delete(self, comment_id: int) -> None:
        await self._gitlab.delete(f"{self._path}/notes/{comment_id}")

    def describe_run(self, stamp: Stamp) -> str:
        return f"pipeline {stamp.run_id}, job {stamp.attempt}"

    def _posted(self, note: _Note) -> PostedComment:
        author = None
        if note.author is not None:
            author = note.author.username
        return PostedComment(note.id, f"{self._url}#note_{note.id}", author, note.body)
