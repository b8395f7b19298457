"""The comment on a pull request: one for all suites, jobs and runs, edited in place.

GitHub's comments know no compare-and-set: two jobs that read the same comment and write it one
after the other would lose the first one's section, and whoever looks too early does not see it.
What saves it is time. Every write is made directly after a read, and carries a random word; who has
written waits `SETTLE_S` and reads again. If its word still stands, then whoever had read before has
long written, and everybody after has read this section. If not, it looks whether its section is
still there, writes it again if need be, and waits again. So a section can only be lost by a write
that reaches GitHub more than `SETTLE_S` after its read.
"""

import asyncio
import tempfile
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

from ci_evals.errors import GitHubError, Problem, StorageError
from ci_evals.files import write_atomically
from ci_evals.format import short_sha
from ci_evals.gate.baseline import Baseline
from ci_evals.gate.compare import NoComparison
from ci_evals.github.api import GitHub, User, WorkflowRun, connect
from ci_evals.github.artifacts import FORK_LIMITS, MAX_LISTED, Artifact, artifacts_of_run, fetch
from ci_evals.github.baseline import NotFound, Search, find_base_report
from ci_evals.github.comment_body import (
    MAX_BYTES,
    Body,
    Contribution,
    SectionId,
    Stamp,
    compose,
    parse,
    with_section,
)
from ci_evals.github.context import Context, PullRequest
from ci_evals.hosts import BaselineChoice
from ci_evals.reports.markdown import Links, comment_document, problems_text, progress_text
from ci_evals.reports.read import baseline_of, judge_beside, read_baseline, read_report
from ci_evals.reports.report_json import REPORT
from ci_evals.reports.saved import SavedReport
from ci_evals.reports.summary import Note, Summary
from ci_evals.suite.types import RESULTS

Mode = Literal["auto", "new"]
"""`auto` keeps one comment for the pull request, `new` makes one for each workflow run."""

FILE: Final = "comment.md"
ARTIFACTS: Final = "ci-evals*"
"""Artifacts with such a name are taken for results."""

_MAX_ARTIFACTS = 20
_MAX_REPORTS = 20  # of one artifact: those of several suites
_NOT_POSTED = "no comment was posted"


@dataclass(frozen=True, slots=True)
class CommentOutcome:
    """The outcome of posting: the comment's `url`, or a `warning` in one sentence, or a `note`.

    A note says why there rightly is no comment of this run: without a pull request, or beside a
    newer run's. A dry run has nothing but a `preview`.
    """

    url: str | None = None
    warning: str | None = None
    note: str | None = None
    preview: str | None = None


def post_comment(
    summary: Summary,
    context: Context,
    part: str = RESULTS,
    mode: Mode = "auto",
    *,
    dry_run: bool = False,
) -> CommentOutcome:
    """Put a suite's section into the comment on the pull request that this job is for.

    Whatever GitHub or the network do ends in a warning. Without a pull request, nothing is done.

    Args:
        summary: what was found.
        context: the job.
        part: tells the jobs of one workflow apart: the name of the job's artifact.
        mode: one comment for all runs, or one for each.
        dry_run: return what would be posted, as far as that is known without asking GitHub, instead
            of posting it.
    """
    render = comment_document(summary, Links(context.run_url, source=context.source_url)).render
    contribution = Contribution(
        SectionId(summary.report.suite.name, context.workflow, part), _stamp(context), render
    )
    return (
        CommentOutcome(preview=contribution.preview())
        if dry_run
        else _post(contribution, context, mode)
    )


def post_progress(suite: str, context: Context, part: str = RESULTS) -> CommentOutcome:
    """Say in the comment that a run is under way; `post_comment` puts its section in the place of
    this one.
    """
    return post_text(progress_text(suite, context.run_url), suite, context, part)


def post_text(
    text: str, suite: str, context: Context, part: str = RESULTS, mode: Mode = "auto"
) -> CommentOutcome:
    """Put Markdown in the place of a suite's section; `suite` is empty if its name could not be
    read.
    """
    section = SectionId(suite, context.workflow, part)
    return _post(_text_of(section, _stamp(context), text), context, mode)


def write_comment(summary: Summary, context: Context, folder: Path) -> Path:
    """Write comment.md for a reader; what posts it elsewhere goes by report.json.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / FILE
    text = comment_document(summary, Links(context.run_url, source=context.source_url)).render(
        MAX_BYTES
    )
    write_atomically(path, [f"{text}\n".encode()])
    return path


def _stamp(context: Context) -> Stamp:
    pull = context.pull_request
    return Stamp(context.run_id or 0, context.attempt, pull.head.sha if pull else "")


def _post(contribution: Contribution, context: Context, mode: Mode) -> CommentOutcome:
    if context.problem:
        return CommentOutcome(warning=f"{_NOT_POSTED}: {context.problem}")
    pull = context.pull_request
    if pull is None:
        return CommentOutcome(note="no pull request: nothing was posted")
    return _with_github(
        context, lambda github: put_section(github, pull.number, contribution, mode=mode)
    )


def _with_github(
    context: Context, work: Callable[[GitHub], Coroutine[Any, Any, CommentOutcome]]
) -> CommentOutcome:
    """Connect and work; what goes wrong is a warning."""

    async def talk() -> CommentOutcome:
        async with connect(context) as github:
            return await work(github)

    try:
        return asyncio.run(talk())
    except (GitHubError, StorageError) as error:
        return CommentOutcome(warning=f"{_NOT_POSTED}: {error}")


# The comment for another workflow run.


def comment_from_run(
    context: Context,
    run_id: int,
    artifact: str = ARTIFACTS,
    mode: Mode = "auto",
    *,
    baseline: BaselineChoice = "auto",
    dry_run: bool = False,
) -> CommentOutcome:
    """Post what another workflow run has found, as a `workflow_run` workflow does for pull requests
    from forks.

    Nothing that the run has uploaded is believed but its results: archives are unpacked within
    limits, reports are decoded by their schema and judged again beside a baseline that is fetched
    anew, the comment is rendered anew, and the pull request is the one whose head GitHub says the
    run had. Where it has left nothing that can be used, what older runs said does not stand.

    Args:
        context: this job, with a token that may read artifacts and comment.
        run_id: the run that has uploaded results.
        artifact: the name of its artifact, or a pattern with `*`.
        mode: one comment for all runs, or one for each.
        baseline: what to compare with: what the base branch has left, nothing, or these reports.
        dry_run: return what would be posted instead of posting it.
    """

    async def post(github: GitHub) -> CommentOutcome:
        run = await github.get(f"actions/runs/{run_id}", WorkflowRun)
        pulls = await pull_requests_of(github, run)
        if not pulls:
            return CommentOutcome(
                warning=f"{_NOT_POSTED}: no open pull request has the commit of run {run_id} as its head"
            )
        outcome = CommentOutcome()
        previews: list[str] = []
        with tempfile.TemporaryDirectory(prefix="ci-evals-") as scratch:
            try:
                uploaded, unusable = await _reports_of_run(
                    github, run, artifact, Path(scratch, "head")
                )
            except GitHubError as error:
                if error.kind != "missing":
                    raise
                uploaded, unusable = [], {artifact: str(error)}
                if run.conclusion == "success":  # as where every suite is unchanged
                    outcome, unusable = (
                        CommentOutcome(note=f"run {run.id} succeeded and ran no suite: {error}"),
                        {},
                    )
            problems = [f"artifact {name!r} was left out: {why}" for name, why in unusable.items()]
            if not uploaded and not unusable and not outcome.note:
                problems.append(
                    f"{_NOT_POSTED}: no artifact {artifact!r} of run {run.id} has a {REPORT}"
                )
            for number, (pull, (found, report)) in enumerate(product(pulls, uploaded)):
                base = Path(scratch, f"base-{number}")
                summary = await _judge(
                    github,
                    report,
                    baseline,
                    Search(found.name, pull.base.ref, pull.base.sha, run.head_sha),
                    base,
                )
                contribution = _contribution(summary, run, found)
                if dry_run:
                    previews.append(contribution.preview())
                    continue
                put = await put_section(github, pull.number, contribution, mode=mode)
                problems += [put.warning] if put.warning else []
                outcome = replace(
                    outcome, url=put.url or outcome.url, note=put.note or outcome.note
                )
            judged = {found.name for found, _ in uploaded}
            for pull in () if dry_run or mode == "new" else pulls:
                await _withdraw(github, pull, run, artifact, judged, unusable)
        return replace(
            outcome, warning="; ".join(problems) or None, preview="\n".join(previews) or None
        )

    return _with_github(context, post)


async def pull_requests_of(github: GitHub, run: WorkflowRun) -> tuple[PullRequest, ...]:
    """Return the open pull requests that a run was for, the lowest number first; none when their
    head has moved on.

    They are looked up by the branch that GitHub says the run had. What an artifact says does not
    count: code of a fork may have written it.
    """
    head = run.head_repository
    if head is None or not run.head_branch:
        return ()
    branch = f"{head.full_name.partition('/')[0]}:{run.head_branch}"
    found = await github.list("pulls", PullRequest, limit=MAX_LISTED, state="open", head=branch)
    own = [
        pull
        for pull in found
        if pull.head.repo and pull.head.repo.id == head.id and pull.head.sha == run.head_sha
    ]
    return tuple(sorted(own, key=lambda pull: pull.number))


async def _reports_of_run(
    github: GitHub, run: WorkflowRun, pattern: str, folder: Path
) -> tuple[list[tuple[Artifact, SavedReport]], dict[str, str]]:
    """Return each report that a run has uploaded, and why others cannot be used, by the name of
    their artifact.

    Raises:
        GitHubError: it has uploaded nothing, or GitHub refuses.
    """
    reports: list[tuple[Artifact, SavedReport]] = []
    unusable: dict[str, str] = {}
    uploaded = await artifacts_of_run(github, run.id, pattern)
    for number, artifact in enumerate(uploaded[:_MAX_ARTIFACTS]):
        try:
            files = await fetch(github, artifact, folder / str(number), (REPORT,), FORK_LIMITS)
            # A shard's has none: what it found is in that of the merge.
            reports += [(artifact, _report_of_artifact(file)) for file in files[:_MAX_REPORTS]]
        except (GitHubError, StorageError) as error:
            unusable[artifact.name] = str(error)
    return reports, unusable


def _report_of_artifact(file: Path) -> SavedReport:
    """Return a report of an artifact; raises StorageError if it is damaged."""
    try:
        return read_report(file)
    except StorageError as error:
        raise StorageError(f"{REPORT} {str(error).removeprefix(f'{file}: ')}") from error


async def _judge(
    github: GitHub, report: SavedReport, choice: BaselineChoice, search: Search, folder: Path
) -> Summary:
    """Judge a report by its results, beside the chosen baseline and by its rules, too.

    Where there is none, what the report tells of gate and baseline is all there is, and shown as
    that.
    """
    suite = report.suite.name
    if choice == "none":
        return _unverified(report.judge(None))
    if choice != "auto":
        baseline = read_baseline(choice, suite)
    else:
        found = await find_base_report(github, search, suite, folder)
        baseline = (
            NoComparison(f"no baseline: {found.reason}")
            if isinstance(found, NotFound)
            else baseline_of([found.report], suite, search.base_ref)
        )
    if isinstance(baseline, Baseline):
        return judge_beside(report, baseline)
    if not isinstance(report.base, Baseline):
        return _unverified(report.judge(baseline))
    return _unverified(report.summary, f" ({baseline.reason})")


def _unverified(summary: Summary, why: str = "") -> Summary:
    """Return a summary that says whose word it takes."""
    what = "gate and baseline are" if summary.compared else "the gate is"
    return replace(
        summary,
        notes=(
            Note(
                "Not verified",
                f"{what} what the pull request's own job reports{why}",
                brief=True,
            ),
        ),
    )


def _contribution(summary: Summary, run: WorkflowRun, artifact: Artifact) -> Contribution:
    """Return the section that the report of an artifact makes."""
    server = run.html_url.removesuffix(urlsplit(run.html_url).path)
    head = run.head_repository.full_name if run.head_repository else None
    source = f"{server}/{head}/blob/{run.head_sha}" if head else None
    links = Links(run.html_url, f"{run.html_url}/artifacts/{artifact.id}", source)
    section = SectionId(summary.report.suite.name, run.name or "", artifact.name)
    return Contribution(
        section,
        Stamp(run.id, run.run_attempt, run.head_sha),
        comment_document(summary, links).render,
    )


async def _withdraw(
    github: GitHub,
    pull: PullRequest,
    run: WorkflowRun,
    pattern: str,
    judged: Collection[str],
    unusable: Mapping[str, str],
) -> None:
    """Say that there is no verdict where older runs of a workflow had one, and this one has left no
    report.

    Args:
        github: with a token that may comment.
        pull: the pull request.
        run: the run.
        pattern: the artifacts that it is about.
        judged: those that have a report.
        unusable: why others have none, by artifact.
    """
    stamp = Stamp(run.id, run.run_attempt, run.head_sha)
    found = await _own_comments(github, pull.number, "", await github.login() or _ACTIONS_LOGIN)
    for section in found[0].body.sections if found else ():
        part = section.id.part
        if section.id.job != (run.name or "") or part in judged or not fnmatchcase(part, pattern):
            continue
        if stamp.is_newer_than(section.stamp):
            why = unusable.get(
                part, "it ran no suite" if run.conclusion == "success" else "its job ended before"
            )
            problem = Problem(
                "", None, "", f"no verdict: this run has left no report that can be used ({why})"
            )
            text = problems_text([problem], run.html_url)
            await put_section(github, pull.number, _text_of(section.id, stamp, text))


def _text_of(section: SectionId, stamp: Stamp, text: str) -> Contribution:
    return Contribution(section, stamp, lambda _max_bytes: text)


# Posting.

SETTLE_S: Final = 3.0
MAX_ROUNDS: Final = 12
MAX_LOST: Final = 3  # creations whose answer never came
WRITE_SPACING_S: Final = 1.0  # GitHub's advice
_ACTIONS_LOGIN = "github-actions[bot]"  # who GITHUB_TOKEN is


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a pull request. `user` is None when the account was deleted."""

    id: int
    html_url: str
    user: User | None = None
    body: str | None = None


async def put_section(
    github: GitHub, pull_request: int, contribution: Contribution, *, mode: Mode = "auto"
) -> CommentOutcome:
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
        if "is locked" in str(error):
            return CommentOutcome(
                warning=f"{_NOT_POSTED}: pull request {pull_request} is locked: unlock its conversation"
            )
        return CommentOutcome(
            warning=f"{_NOT_POSTED}: the token may not comment: {error}. Pull requests from forks and from Dependabot"
            " get a token that only reads; a `workflow_run` workflow with `ci-evals comment` posts it for them"
        )


class _Found(NamedTuple):
    comment: Comment
    body: Body


async def _own_comments(github: GitHub, number: int, scope: str, login: str) -> list[_Found]:
    """Return the comments with the marker by the right author, the lowest id first."""
    listed = await github.list(f"issues/{number}/comments", Comment)
    own = [comment for comment in listed if comment.user and comment.user.login == login]
    found = [_Found(comment, body) for comment in own if (body := parse(comment.body or ""))]
    return sorted(
        (each for each in found if each.body.scope == scope), key=lambda each: each.comment.id
    )


class _Thread:
    """The comments of one pull request, as far as they are ours."""

    def __init__(
        self, github: GitHub, number: int, scope: str, login: str, contribution: Contribution
    ) -> None:
        self._github = github
        self._number = number
        self._scope = scope
        self._login = login
        self._contribution = contribution
        self._own = uuid4().hex  # marks the section
        self._seen: str | None = None  # whose write the comment held before it was left to settle
        self._created: set[int] = set()
        self._lost = 0

    async def put(self) -> CommentOutcome:
        """Write until the section is there to stay, or is not to be written."""
        for _ in range(MAX_ROUNDS):
            pull = await self._github.get(f"pulls/{self._number}", PullRequest)
            ours = await _own_comments(self._github, self._number, self._scope, self._login)
            if outcome := self._outcome(pull.head.sha, ours):
                await self._clear(ours)
                return outcome
            await (self._edit(ours[0].comment.id) if ours else self._create())
            await self._github.sleep(SETTLE_S)
        text = f"other jobs write to the comment of #{self._number} again and again: does each have its own --artifact?"
        raise GitHubError("unexpected", text)

    def _outcome(self, head_sha: str, ours: Sequence[_Found]) -> CommentOutcome | None:
        """Return what has been reached, if there is nothing left to do."""
        stamp = self._contribution.stamp
        if head_sha != stamp.sha:
            moved = f"pull request {self._number} has moved on to {short_sha(head_sha)}"
            left = f"the comment is left to the run of that commit, this one was of {short_sha(stamp.sha)}"
            return CommentOutcome(note=f"{moved}; {left}")
        there = ours[0].body.section(self._contribution.id) if ours else None
        if there and there.stamp.is_newer_than(stamp):
            newer = f"run {there.stamp.run_id}, attempt {there.stamp.attempt}"
            return CommentOutcome(note=f"the comment already has what a newer run found ({newer})")
        if there and there.write == self._own and ours[0].body.write == self._seen:
            return CommentOutcome(url=ours[0].comment.html_url)
        return None

    async def _create(self) -> None:
        write = uuid4().hex
        body = compose(self._scope, write, (self._contribution.section((), self._own),))
        try:
            comment = await self._github.create(
                f"issues/{self._number}/comments", {"body": body}, Comment
            )
        except GitHubError as error:
            self._lost += 1
            if error.kind != "unreachable" or self._lost == MAX_LOST:
                raise
            return  # it may be there all the same: the next look tells
        self._seen = write
        self._created.add(comment.id)
        if comment.user:
            self._login = (
                comment.user.login
            )  # other GitHub Apps have other names: now older ones are found, too

    async def _edit(self, comment_id: int) -> None:
        path = f"issues/comments/{comment_id}"

        async def read_and_write() -> None:
            body = parse((await self._github.get(path, Comment)).body or "")
            if body is None:
                return
            there = body.section(self._contribution.id)
            if there and (
                there.write == self._own or there.stamp.is_newer_than(self._contribution.stamp)
            ):
                self._seen = body.write
                return
            self._seen = uuid4().hex
            own = self._contribution.section(body.sections, self._own)
            await self._github.edit(
                path, {"body": compose(self._scope, self._seen, with_section(body.sections, own))}
            )

        try:
            await self._github.retry(read_and_write)
        except GitHubError as error:
            if error.kind != "missing":  # it was deleted meanwhile: the next look tells
                raise

    async def _clear(self, ours: Sequence[_Found]) -> None:
        """Delete second comments: those made here, and what cancelled jobs of earlier runs left
        behind.
        """
        for comment, body in ours[1:]:
            left_behind = all(
                self._contribution.stamp.is_newer_than(each.stamp) for each in body.sections
            )
            if comment.id in self._created or left_behind:
                await self._github.sleep(WRITE_SPACING_S)
                await self._github.delete(f"issues/comments/{comment.id}")
