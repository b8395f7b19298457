"""The comment on a pull request, also when another workflow posts it for a fork."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar
from urllib.parse import urlsplit

from ci_evals.errors import HostError, Problem, StorageError
from ci_evals.format import name_of
from ci_evals.gate.bars import SEVERITY
from ci_evals.gate.baseline import Baseline
from ci_evals.gate.compare import NoComparison
from ci_evals.hosts import BaselineChoice, NotFound
from ci_evals.plugins.ci.archives import FORK_LIMITS
from ci_evals.plugins.ci.baseline import BaseReport, find_base_report
from ci_evals.plugins.ci.comment import (
    NOT_POSTED,
    CommentApi,
    CommentOutcome,
    Mode,
    PostedComment,
    Thread,
    has_changes,
    own_comments,
    suite_contribution,
    text_contribution,
)
from ci_evals.plugins.ci.comment_body import Contribution, SectionId, Stamp, State
from ci_evals.plugins.github.api import GitHub, User, WorkflowRun, connect
from ci_evals.plugins.github.artifacts import (
    MAX_LISTED,
    Artifact,
    artifact_url,
    artifacts_of_run,
    fetch,
    page_name,
    pages_of_run,
)
from ci_evals.plugins.github.baseline import GitHubBranch, Search
from ci_evals.plugins.github.context import Context, PullRequest
from ci_evals.plugins.github.step_files import append_summary
from ci_evals.reports.markdown import (
    Links,
    comment_document,
    pages_text,
    problems_text,
    progress_text,
)
from ci_evals.reports.read import ReportError, baseline_of, judge_beside, read_baseline, read_report
from ci_evals.reports.report_json import REPORT
from ci_evals.reports.saved import SavedReport
from ci_evals.reports.summary import Note, Summary
from ci_evals.suite.types import RESULTS

T = TypeVar("T")

ARTIFACTS: Final = "ci-evals*"
"""The pattern of the artifacts that hold results."""

_MAX_ARTIFACTS = 20
_MAX_REPORTS = 20  # of one artifact: those of several suites

_ACTIONS_LOGIN = "github-actions[bot]"
"""The account of GITHUB_TOKEN."""


def post_comment(
    summaries: Sequence[Summary],
    context: Context,
    part: str = RESULTS,
    mode: Mode = "auto",
    *,
    pages: Mapping[str, str] = MappingProxyType({}),
    dry_run: bool = False,
) -> CommentOutcome:
    """Put the sections of suites into the comment on the pull request of this job.

    Problems with GitHub or the network become a warning. Without a pull request, nothing is posted.

    Args:
        summaries: the reports and their verdicts.
        context: the job.
        part: tells the jobs of one workflow apart: the name of the job's artifact.
        mode: one comment for all runs, or one for each.
        pages: the addresses of uploaded report.html files, by suite.
        dry_run: return the comment, without the sections of other jobs, instead of posting it.
    """
    contributions = []
    for summary in summaries:
        suite = summary.report.suite.name
        links = links_of(context, pages.get(suite))
        section = SectionId(suite, context.workflow, part)
        contribution = suite_contribution(summary, links, section, _stamp(context), mode)
        contributions.append(contribution)
    if dry_run:
        previews = [contribution.preview() for contribution in contributions]
        return CommentOutcome(preview="\n".join(previews))
    return _post(contributions, context, mode)


def post_progress(suite: str, context: Context, part: str = RESULTS) -> CommentOutcome:
    """Post that a run is under way, until `post_comment` replaces the section."""
    return post_text(progress_text(suite, context.run_url), "running", suite, context, part)


def post_text(
    text: str, state: State, suite: str, context: Context, part: str = RESULTS, mode: Mode = "auto"
) -> CommentOutcome:
    """Put Markdown in place of a suite's section.

    `suite` is empty if the name of the suite could not be read.
    """
    section = SectionId(suite, context.workflow, part)
    contribution = text_contribution(section, _stamp(context), state, text)
    if mode == "changes" and state == "pass":
        contribution = replace(contribution, replaces_only=True)
    return _post([contribution], context, mode)


def link_pages(context: Context, part: str, summaries: Sequence[Summary]) -> Mapping[str, str]:
    """Add links to the pages that this workflow run has uploaded so far to the job's summary.

    Args:
        context: the job, with a token that has `actions: read`.
        part: the name of the job's artifact.
        summaries: the suites.

    Returns:
        The addresses of the pages, by suite.

    Raises:
        HostError: GitHub cannot be reached or refuses.
        StorageError: the summary cannot be written.
    """

    async def list_pages() -> Mapping[str, Artifact]:
        async with connect(context) as github:
            return await pages_of_run(github, context.run_id or 0)

    uploaded = asyncio.run(list_pages())
    pages = {}
    for summary in summaries:
        suite = summary.report.suite.name
        page = uploaded.get(page_name(part, suite))
        if page is not None and context.run_url:
            pages[suite] = artifact_url(context.run_url, page)
    if pages and context.step_summary_path:
        append_summary(context.step_summary_path, lambda _: pages_text(summaries, pages))
    return pages


def links_of(context: Context, page: str | None = None) -> Links:
    artifacts = None
    if context.run_url:
        artifacts = f"{context.run_url}#artifacts"
    return Links(context.run_url, artifacts, context.source_url, page, docs=context.docs_url)


def _stamp(context: Context) -> Stamp:
    sha = ""
    if context.pull_request is not None:
        sha = context.pull_request.head.sha
    return Stamp(context.run_id or 0, context.attempt, sha)


def _post(contributions: Sequence[Contribution], context: Context, mode: Mode) -> CommentOutcome:
    if context.problem:
        return CommentOutcome(warning=f"{NOT_POSTED}: {context.problem}")
    pull = context.pull_request
    if pull is None:
        return CommentOutcome(note="no pull request: nothing was posted")

    async def put(github: GitHub) -> CommentOutcome:
        return await put_sections(github, pull.number, contributions, mode=mode)

    return _with_github(context, put)


def _with_github(
    context: Context, work: Callable[[GitHub], Awaitable[CommentOutcome]]
) -> CommentOutcome:
    """Connect to GitHub and do some work; problems become a warning."""

    async def connect_and_work() -> CommentOutcome:
        async with connect(context) as github:
            return await work(github)

    try:
        return asyncio.run(connect_and_work())
    except (HostError, StorageError) as error:
        return CommentOutcome(warning=f"{NOT_POSTED}: {error}")


def comment_from_run(
    context: Context,
    run_id: int,
    artifact: str = ARTIFACTS,
    mode: Mode = "auto",
    *,
    baseline: BaselineChoice = "auto",
    dry_run: bool = False,
) -> CommentOutcome:
    """Post the results of another workflow run, as a `workflow_run` workflow does for forks.

    Only the results of the uploaded reports are trusted. Archives are unpacked within limits,
    reports are decoded by their schema and judged again against a baseline that is fetched here.
    The comment is rendered here, and GitHub tells which pull request the run was for. Sections of
    older runs are replaced if this run has left no usable report for them.

    Args:
        context: this job, with a token that may read artifacts and comment.
        run_id: the run that has uploaded results.
        artifact: the name of its artifact, or a pattern with `*`.
        mode: one comment for all runs, or one for each.
        baseline: what to compare with: `auto` for the base branch's report, `none`, or these
            reports.
        dry_run: return the comment instead of posting it.
    """

    async def post(github: GitHub) -> CommentOutcome:
        run = await github.get(f"actions/runs/{run_id}", WorkflowRun)
        pulls = await pull_requests_of(github, run)
        if not pulls:
            why = f"no open pull request has the commit of run {run_id} as its head"
            return CommentOutcome(warning=f"{NOT_POSTED}: {why}")
        with tempfile.TemporaryDirectory(prefix="ci-evals-") as scratch:
            uploads = await _download_reports(github, run, artifact, Path(scratch, "head"))
            pages = await pages_of_run(github, run_id)
            outcome = CommentOutcome(note=uploads.note)
            problems = list(uploads.problems)
            previews: list[str] = []
            for pull in pulls:
                contributions: list[Contribution] = []
                suites = {report.suite.name for _, report in uploads.reports}
                for source, report in uploads.reports:
                    folder = Path(scratch, f"base-{pull.number}-{len(contributions)}")
                    search = Search(source.name, pull.base.ref, pull.base.sha, run.head_sha)
                    summary = await _judge(github, report, baseline, search, folder, suites)
                    page = pages.get(page_name(source.name, report.suite.name))
                    contribution = _contribution(summary, run, source, page, context)
                    if mode == "changes" and not has_changes(summary):
                        contribution = replace(contribution, replaces_only=True)
                    contributions.append(contribution)
                if dry_run:
                    previews += [contribution.preview() for contribution in contributions]
                    continue
                withdrawn: Sequence[Contribution] = ()
                if mode != "new":
                    withdrawn = await _withdraw(github, pull, run, artifact, uploads)
                posted = await put_sections(
                    github, pull.number, [*contributions, *withdrawn], mode=mode
                )
                if posted.warning:
                    problems.append(posted.warning)
                if contributions and posted.url:
                    outcome = replace(outcome, url=posted.url)
                if contributions and posted.note:
                    outcome = replace(outcome, note=posted.note)
        warning = "; ".join(problems) or None
        return replace(outcome, warning=warning, preview="\n".join(previews) or None)

    return _with_github(context, post)


async def pull_requests_of(github: GitHub, run: WorkflowRun) -> tuple[PullRequest, ...]:
    """Return the open pull requests that a run was for, ordered by number.

    There is none if their head has moved on. GitHub tells the branch of the run; an artifact, which
    code of a fork may have written, is never asked.
    """
    head = run.head_repository
    if head is None or not run.head_branch:
        return ()
    owner = head.full_name.partition("/")[0]
    branch = f"{owner}:{run.head_branch}"
    listed = await github.list("pulls", PullRequest, limit=MAX_LISTED, state="open", head=branch)
    pulls = []
    for pull in listed:
        repository = pull.head.repo
        if repository is None or repository.id != head.id:
            continue
        if pull.head.sha == run.head_sha:
            pulls.append(pull)
    return tuple(sorted(pulls, key=lambda pull: pull.number))


@dataclass(frozen=True, slots=True)
class _Uploads:
    """The reports that a workflow run has uploaded.

    Attributes:
        reports: each with its artifact.
        unusable: why other artifacts cannot be used, by name.
        problems: all problems in sentences.
        note: why there need not be a report.
    """

    reports: Sequence[tuple[Artifact, SavedReport]] = ()
    unusable: Mapping[str, str] = field(default_factory=dict)
    problems: Sequence[str] = ()
    note: str | None = None


async def _download_reports(
    github: GitHub, run: WorkflowRun, pattern: str, folder: Path
) -> _Uploads:
    """Download the reports in the run's artifacts of these names.

    Raises:
        HostError: GitHub cannot be reached or refuses.
    """
    try:
        artifacts = await artifacts_of_run(github, run.id, pattern)
    except HostError as error:
        if error.kind != "missing":
            raise
        if run.conclusion == "success":  # for example, every suite is unchanged
            return _Uploads(note=f"run {run.id} succeeded and ran no suite: {error}")
        problem = f"artifact {pattern!r} was left out: {error}"
        return _Uploads(unusable={pattern: str(error)}, problems=[problem])
    reports: list[tuple[Artifact, SavedReport]] = []
    unusable: dict[str, str] = {}
    for number, artifact in enumerate(artifacts[:_MAX_ARTIFACTS]):
        try:
            files = await fetch(github, artifact, folder / str(number), (REPORT,), FORK_LIMITS)
            # The artifact of a shard has no report: the merge of the shards uploads one.
            reports += [(artifact, _report_of_artifact(file)) for file in files[:_MAX_REPORTS]]
        except (HostError, StorageError) as error:
            unusable[artifact.name] = str(error)
    problems = [f"artifact {name!r} was left out: {why}" for name, why in unusable.items()]
    if not reports and not unusable:
        problems = [f"{NOT_POSTED}: no artifact {pattern!r} of run {run.id} has a {REPORT}"]
    return _Uploads(reports, unusable, problems)


def _report_of_artifact(file: Path) -> SavedReport:
    """Return a report of an artifact; raises StorageError if it is damaged."""
    try:
        return read_report(file)
    except ReportError as error:
        raise StorageError(f"{REPORT} {error.problem}") from error


async def _judge(
    github: GitHub,
    report: SavedReport,
    choice: BaselineChoice,
    search: Search,
    folder: Path,
    suites: Collection[str],
) -> Summary:
    """Judge a report by its results, against the chosen baseline and by the baseline's rules.

    Without a baseline, the only rules are the report's own. They may be forged, so the verdict is
    `borderline` at best, and the summary says why. A note names suites of the base branch that are
    not among the `suites` of the run.
    """
    suite = report.suite.name
    report = report.off_default_branch()
    if choice == "none":
        return _mark_unverified(report.judge(None))
    baseline: Baseline | NoComparison
    missing: Sequence[str] = ()
    if choice == "auto":
        found: BaseReport | NotFound
        branch = GitHubBranch(github, search)
        try:
            found = await find_base_report(branch, suite, folder, suites)
        except HostError as error:
            found = NotFound(str(error), expected=True, failed=True)
        if isinstance(found, NotFound):
            baseline = NoComparison(found.reason)
        else:
            baseline = baseline_of([found.report], suite, search.base_ref)
            if isinstance(baseline, Baseline):
                baseline = replace(baseline, run_url=found.run_url)
            missing = sorted({info.name for info in found.suites}.difference(suites))
    else:
        baseline = read_baseline(choice, suite)
    if isinstance(baseline, Baseline):
        summary = judge_beside(report, baseline)
        if missing:
            names = ", ".join(map(name_of, missing))
            text = f"not run here, but on {baseline.label}: {names}"
            summary = replace(summary, notes=(*summary.notes, Note("Missing", text, brief=True)))
        return summary
    # The rules are its author's: it never passes by them.
    unverified = _mark_unverified(report.judge(replace(baseline, expected=True)))
    if isinstance(report.base, Baseline):
        own_word = report.summary
        if SEVERITY[own_word.verdict.status] >= SEVERITY[unverified.verdict.status]:
            return _mark_unverified(own_word, f" ({baseline.sentence})")
    return unverified


def _mark_unverified(summary: Summary, why: str = "") -> Summary:
    """Return the summary with a note that it relies on the pull request's own job."""
    subject = "the gate is"
    if summary.compared:
        subject = "gate and baseline are"
    text = f"{subject} what the pull request's own job reports{why}"
    return replace(summary, notes=(Note("Not verified", text, brief=True),))


def _contribution(
    summary: Summary,
    run: WorkflowRun,
    artifact: Artifact,
    page: Artifact | None,
    context: Context,
) -> Contribution:
    """Return the section for a report in an artifact of the run.

    It says that a fork's own job claims this, and the text of the link to its page says that the
    pull request's own job wrote that.

    Args:
        summary: the report and its verdict.
        run: the run.
        artifact: where the report was.
        page: the page that the run has uploaded.
        context: the job that comments.
    """
    head = run.head_repository
    is_fork = head is None or head.full_name.casefold() != (context.repository or "").casefold()
    state: State = summary.verdict.status
    if is_fork and state == "pass":
        state = "claimed"
    source = None
    if run.head_repository is not None:
        server = run.html_url.removesuffix(urlsplit(run.html_url).path)
        source = f"{server}/{run.head_repository.full_name}/blob/{run.head_sha}"
    links = Links(run.html_url, artifact_url(run.html_url, artifact), source, docs=context.docs_url)
    if page is not None:
        text = "open the report that the pull request's own job wrote"
        links = replace(links, page=artifact_url(run.html_url, page), page_text=text)
    section = SectionId(summary.report.suite.name, run.name or "", artifact.name)
    document = comment_document(summary, links, is_claim=is_fork)
    return Contribution(section, _stamp_of_run(run), state, document.render)


def _stamp_of_run(run: WorkflowRun) -> Stamp:
    return Stamp(run.id, run.run_attempt, run.head_sha)


async def _withdraw(
    github: GitHub, pull: PullRequest, run: WorkflowRun, pattern: str, uploads: _Uploads
) -> Sequence[Contribution]:
    """Return "no verdict" for the sections of older runs for which this run has left no report.

    Args:
        github: with a token that may comment.
        pull: the pull request.
        run: the run.
        pattern: the artifacts in question.
        uploads: the reports in them.
    """
    try:
        comments = await own_comments(
            PullRequestComments(github, pull.number), "", await _login(github)
        )
    except HostError as error:
        if error.kind != "forbidden":
            raise
        comments = []  # nothing can be posted either
    if not comments:
        return ()
    withdrawn = []
    stamp = _stamp_of_run(run)
    names = {artifact.name for artifact, _ in uploads.reports}
    for section in comments[0].body.sections:
        part = section.id.part
        if section.id.job != (run.name or "") or not fnmatchcase(part, pattern):
            continue
        if part in names or not stamp.is_newer_than(section.stamp):
            continue
        if part in uploads.unusable:
            why = uploads.unusable[part]
        elif run.conclusion == "success":
            why = "it ran no suite"
        else:
            why = "its job ended before"
        sentence = f"no verdict: this run has left no usable report ({why})"
        text = problems_text([Problem("", None, "", sentence)], run.html_url)
        withdrawn.append(text_contribution(section.id, stamp, "error", text))
    return withdrawn


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a pull request. `user` is None when the account was deleted."""

    id: int
    html_url: str
    user: User | None = None
    body: str | None = None

    def posted(self) -> PostedComment:
        """Return the comment in the form for all CI systems."""
        author = None
        if self.user:
            author = self.user.login
        return PostedComment(self.id, self.html_url, author, self.body or "")


class PullRequestComments(CommentApi):
    """The comments on a pull request."""

    def __init__(self, github: GitHub, number: int) -> None:
        self.change = f"pull request {number}"
        self.sleep = github.sleep
        self._github = github
        self._number = number

    async def retry(self, call: Callable[[], Awaitable[T]]) -> T:
        return await self._github.retry(call)

    async def head_sha(self) -> str:
        pull = await self._github.get(f"pulls/{self._number}", PullRequest)
        return pull.head.sha

    async def list(self) -> Sequence[PostedComment]:
        comments = await self._github.list(f"issues/{self._number}/comments", Comment)
        return [comment.posted() for comment in comments]

    async def create(self, text: str) -> PostedComment:
        path = f"issues/{self._number}/comments"
        comment = await self._github.create(path, {"body": text}, Comment)
        return comment.posted()

    async def read(self, comment_id: int) -> PostedComment:
        comment = await self._github.get(f"issues/comments/{comment_id}", Comment)
        return comment.posted()

    async def edit(self, comment_id: int, text: str) -> None:
        await self._github.edit(f"issues/comments/{comment_id}", {"body": text})

    async def delete(self, comment_id: int) -> None:
        await self._github.delete(f"issues/comments/{comment_id}")

    def describe_run(self, stamp: Stamp) -> str:
        return f"run {stamp.run_id}, attempt {stamp.attempt}"


async def put_sections(
    github: GitHub, pull_request: int, contributions: Sequence[Contribution], *, mode: Mode = "auto"
) -> CommentOutcome:
    """Put sections into the pull request's comment at once, creating it if there is none.

    Args:
        github: with a token that has `pull-requests: write`; without, the outcome is a warning.
        pull_request: its number.
        contributions: the sections, all of one run.
        mode: one comment for all runs, or one for each.

    Raises:
        HostError: the comment cannot be written for another reason than a lack of permission.
    """
    if not contributions:
        return CommentOutcome()
    scope = ""
    if mode == "new":
        scope = f"run {contributions[0].stamp.run_id}"
    try:
        login = await _login(github)
        comments = PullRequestComments(github, pull_request)
        return await Thread(comments, scope, login, contributions).put()
    except HostError as error:
        if error.kind != "forbidden":
            raise
        if "is locked" in str(error):
            why = f"pull request {pull_request} is locked: unlock its conversation"
        else:
            why = (
                f"the token may not comment: {error}. Pull requests from forks and from Dependabot"
                " get a token that only reads; a `workflow_run` workflow with `ci-evals comment`"
                " posts it for them"
            )
        return CommentOutcome(warning=f"{NOT_POSTED}: {why}")


async def _login(github: GitHub) -> str:
    """Return the account that comments; the account of GITHUB_TOKEN if GitHub does not say.

    If that guess is wrong, a new comment is created, and its author is the account.
    """
    try:
        return await github.login() or _ACTIONS_LOGIN
    except HostError as error:
        if error.kind == "rate_limited":
            raise
        return _ACTIONS_LOGIN
