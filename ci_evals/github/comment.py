"""The comment on a pull request: one for all suites, jobs and runs, edited in place.

GitHub offers no compare-and-set for comments. If two jobs read the same comment and then write it,
the second write removes the section of the first, and a job that checks too early doesn't notice.
So every write follows directly on a read and carries a random word, and the job reads again after
`SETTLE_S`. If its word is still there, every job that read before has written by now, and every
later one has read this section. Otherwise the job writes its section again if it is gone, and waits
again. Only a write that reaches GitHub more than `SETTLE_S` after its read can remove a section.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

from ci_evals.errors import HostError, Problem, StorageError
from ci_evals.files import write_atomically
from ci_evals.format import name_of, short_sha
from ci_evals.gate.bars import SEVERITY
from ci_evals.gate.baseline import Baseline
from ci_evals.gate.compare import Change, NoComparison
from ci_evals.github.api import GitHub, User, WorkflowRun, connect
from ci_evals.github.artifacts import (
    FORK_LIMITS,
    MAX_LISTED,
    Artifact,
    artifact_url,
    artifacts_of_run,
    fetch,
    page_name,
    pages_of_run,
)
from ci_evals.github.baseline import NotFound, Search, find_base_report
from ci_evals.github.comment_body import (
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
from ci_evals.github.context import Context, PullRequest
from ci_evals.github.step_files import append_summary
from ci_evals.hosts import BaselineChoice
from ci_evals.reports.markdown import (
    Links,
    comment_document,
    pages_text,
    problems_text,
    progress_text,
)
from ci_evals.reports.notes import changed_rules
from ci_evals.reports.read import ReportError, baseline_of, judge_beside, read_baseline, read_report
from ci_evals.reports.report_json import REPORT
from ci_evals.reports.saved import SavedReport
from ci_evals.reports.summary import Note, Summary
from ci_evals.suite.types import RESULTS

Mode = Literal["auto", "changes", "new"]
"""`auto` keeps one comment for the pull request, `new` makes one for each workflow run.

`changes` is like `auto`, but a suite without a change only replaces its older section.
"""

FILE: Final = "comment.md"
ARTIFACTS: Final = "ci-evals*"
"""The pattern of the artifacts that hold results."""

_MAX_ARTIFACTS = 20
_MAX_REPORTS = 20  # of one artifact: those of several suites
_NOT_POSTED = "no comment was posted"
_NO_CHANGES = "nothing changed: no comment was posted"
_CHANGES: Final[frozenset[Change]] = frozenset(
    ("worse", "probably worse", "fixed", "removed", "edited", "not compared")
)

SETTLE_S: Final = 3.0
MAX_ROUNDS: Final = 12
MAX_LOST: Final = 3
"""The most attempts to create a comment when GitHub does not answer."""
WRITE_SPACING_S: Final = 1.0
"""GitHub's advice."""
_ACTIONS_LOGIN = "github-actions[bot]"
"""The account of GITHUB_TOKEN."""


@dataclass(frozen=True, slots=True)
class CommentOutcome:
    """The outcome of posting.

    Attributes:
        url: the comment.
        warning: why it could not be posted, in one sentence.
        note: why this run rightly posts nothing, such as without a pull request or after a newer
            run.
        preview: what would be posted; in a dry run only.
    """

    url: str | None = None
    warning: str | None = None
    note: str | None = None
    preview: str | None = None


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
        pages: the addresses at which report.html opens in the browser, by suite, where known.
        dry_run: return the comment, without the sections of others, instead of posting it.
    """
    contributions = []
    for summary in summaries:
        suite = summary.report.suite.name
        document = comment_document(summary, _links(context, pages.get(suite)))
        contribution = Contribution(
            SectionId(suite, context.workflow, part),
            _stamp(context),
            summary.verdict.status,
            document.render,
            replaces_only=mode == "changes" and not _has_changes(summary),
        )
        contributions.append(contribution)
    if dry_run:
        previews = [contribution.preview() for contribution in contributions]
        return CommentOutcome(preview="\n".join(previews))
    return _post(contributions, context, mode)


def post_progress(suite: str, context: Context, part: str = RESULTS) -> CommentOutcome:
    """Say in the comment that a run is under way, until `post_comment` replaces the section."""
    return post_text(progress_text(suite, context.run_url), "running", suite, context, part)


def post_text(
    text: str, state: State, suite: str, context: Context, part: str = RESULTS, mode: Mode = "auto"
) -> CommentOutcome:
    """Put Markdown in place of a suite's section.

    `suite` is empty if the name of the suite could not be read.
    """
    section = SectionId(suite, context.workflow, part)
    contribution = _text_of(section, _stamp(context), state, text)
    if mode == "changes" and state == "pass":
        contribution = replace(contribution, replaces_only=True)
    return _post([contribution], context, mode)


def link_pages(context: Context, part: str, summaries: Sequence[Summary]) -> Mapping[str, str]:
    """Link the pages that this workflow run has uploaded so far in the job's summary.

    Args:
        context: the job, with a token that has `actions: read`.
        part: the name of the job's artifact.
        summaries: the suites.

    Returns:
        The addresses at which they open in the browser, by suite.

    Raises:
        HostError: GitHub cannot be reached or refuses.
        StorageError: the summary cannot be written.
    """

    async def look() -> Mapping[str, Artifact]:
        async with connect(context) as github:
            return await pages_of_run(github, context.run_id or 0)

    uploaded = asyncio.run(look())
    pages = {}
    for summary in summaries:
        suite = summary.report.suite.name
        page = uploaded.get(page_name(part, suite))
        if page is not None and context.run_url:
            pages[suite] = artifact_url(context.run_url, page)
    if pages and context.step_summary_path:
        append_summary(context.step_summary_path, lambda _: pages_text(summaries, pages))
    return pages


def write_comment(summary: Summary, context: Context, folder: Path) -> Path:
    """Write comment.md for people to read; programs that post it elsewhere use report.json.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / FILE
    text = comment_document(summary, _links(context)).render(MAX_BYTES)
    write_atomically(path, [f"{text}\n".encode()])
    return path


def _links(context: Context, page: str | None = None) -> Links:
    artifacts = None
    if context.run_url:
        artifacts = f"{context.run_url}#artifacts"
    return Links(context.run_url, artifacts, context.source_url, page)


def _has_changes(summary: Summary) -> bool:
    """Return True if something differs from the base, or is not known to be the same.

    New cases are no such change, nor are drops that may be chance.
    """
    compared = summary.compared
    if summary.verdict.status != "pass" or compared is None or summary.report.totals.errored:
        return True
    if summary.notes or any(changed_rules(summary, compared)):
        return True
    if any(variant.p <= compared.alpha for variant in compared.variants):
        return True
    return any(compared.change(cell) in _CHANGES for cell in compared.cells)


def _stamp(context: Context) -> Stamp:
    sha = ""
    if context.pull_request is not None:
        sha = context.pull_request.head.sha
    return Stamp(context.run_id or 0, context.attempt, sha)


def _post(contributions: Sequence[Contribution], context: Context, mode: Mode) -> CommentOutcome:
    if context.problem:
        return CommentOutcome(warning=f"{_NOT_POSTED}: {context.problem}")
    pull = context.pull_request
    if pull is None:
        return CommentOutcome(note="no pull request: nothing was posted")

    async def put(github: GitHub) -> CommentOutcome:
        return await put_sections(github, pull.number, contributions, mode=mode)

    return _with_github(context, put)


def _with_github(
    context: Context, work: Callable[[GitHub], Awaitable[CommentOutcome]]
) -> CommentOutcome:
    """Connect and work; problems become a warning."""

    async def connect_and_work() -> CommentOutcome:
        async with connect(context) as github:
            return await work(github)

    try:
        return asyncio.run(connect_and_work())
    except (HostError, StorageError) as error:
        return CommentOutcome(warning=f"{_NOT_POSTED}: {error}")


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

    Of all that the run has uploaded, only the results are believed: archives are unpacked within
    limits, reports are decoded by their schema and judged again against a baseline fetched here,
    the comment is rendered here, and the pull request is the one whose head GitHub says the run
    had. Sections of older runs are replaced if this run has left no usable report for them.

    Args:
        context: this job, with a token that may read artifacts and comment.
        run_id: the run that has uploaded results.
        artifact: the name of its artifact, or a pattern with `*`.
        mode: one comment for all runs, or one for each.
        baseline: what to compare with: `auto` for the base branch's report, `none`, or these
            reports.
        dry_run: return what would be posted instead of posting it.
    """

    async def post(github: GitHub) -> CommentOutcome:
        run = await github.get(f"actions/runs/{run_id}", WorkflowRun)
        pulls = await pull_requests_of(github, run)
        if not pulls:
            why = f"no open pull request has the commit of run {run_id} as its head"
            return CommentOutcome(warning=f"{_NOT_POSTED}: {why}")
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
                    contribution = _contribution(summary, run, source, page)
                    if mode == "changes" and not _has_changes(summary):
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

    There is none if their head has moved on. They are looked up by the branch that GitHub says the
    run had, never by an artifact, which code of a fork may have written.
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
        problems: the same and other problems in sentences.
        note: why it is right that there is no report.
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
        problems = [f"{_NOT_POSTED}: no artifact {pattern!r} of run {run.id} has a {REPORT}"]
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

    Without a baseline, all there is to go by is the report's own word on the gate. It may be a
    forger's, so the verdict is `borderline` at best, and the summary says why. A note names suites
    of the base branch that are not among the `suites` of the run.
    """
    suite = report.suite.name
    report = report.off_default_branch()
    if choice == "none":
        return _mark_unverified(report.judge(None))
    baseline: Baseline | NoComparison
    missing: Sequence[str] = ()
    if choice == "auto":
        try:
            found = await find_base_report(github, search, suite, folder, suites)
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
    # Its rules are its author's, so it never passes by them.
    unverified = _mark_unverified(report.judge(replace(baseline, expected=True)))
    if isinstance(report.base, Baseline):
        own_word = report.summary
        if SEVERITY[own_word.verdict.status] >= SEVERITY[unverified.verdict.status]:
            return _mark_unverified(own_word, f" ({baseline.sentence})")
    return unverified


def _mark_unverified(summary: Summary, why: str = "") -> Summary:
    """Return the summary with a note that it takes the word of the pull request's own job."""
    subject = "the gate is"
    if summary.compared:
        subject = "gate and baseline are"
    text = f"{subject} what the pull request's own job reports{why}"
    return replace(summary, notes=(Note("Not verified", text, brief=True),))


def _contribution(
    summary: Summary, run: WorkflowRun, artifact: Artifact, page: Artifact | None
) -> Contribution:
    """Return the section for a report that an artifact of the run holds.

    Its page was written by the pull request's own job, so the link to it says so.
    """
    source = None
    if run.head_repository is not None:
        server = run.html_url.removesuffix(urlsplit(run.html_url).path)
        source = f"{server}/{run.head_repository.full_name}/blob/{run.head_sha}"
    links = Links(run.html_url, artifact_url(run.html_url, artifact), source)
    if page is not None:
        text = "open the report that the pull request's own job wrote"
        links = replace(links, page=artifact_url(run.html_url, page), page_text=text)
    section = SectionId(summary.report.suite.name, run.name or "", artifact.name)
    document = comment_document(summary, links)
    return Contribution(section, _stamp_of_run(run), summary.verdict.status, document.render)


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
        comments = await _own_comments(github, pull.number, "", await _login(github))
    except HostError as error:
        if error.kind != "forbidden":
            raise
        comments = []  # then nothing can be posted, either
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
        sentence = f"no verdict: this run has left no report that can be used ({why})"
        text = problems_text([Problem("", None, "", sentence)], run.html_url)
        withdrawn.append(_text_of(section.id, stamp, "error", text))
    return withdrawn


def _text_of(section: SectionId, stamp: Stamp, state: State, text: str) -> Contribution:
    return Contribution(section, stamp, state, lambda _max_bytes: text)


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
    """Put a section into the pull request's comment; see `put_sections`."""
    return await put_sections(github, pull_request, [contribution], mode=mode)


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
        return await _Thread(github, pull_request, scope, login, contributions).put()
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
        return CommentOutcome(warning=f"{_NOT_POSTED}: {why}")


async def _login(github: GitHub) -> str:
    """Return the account that comments; that of GITHUB_TOKEN where GitHub does not say.

    If that is wrong, a comment is created, whose author is known then.
    """
    try:
        return await github.login() or _ACTIONS_LOGIN
    except HostError as error:
        if error.kind == "rate_limited":
            raise
        return _ACTIONS_LOGIN


class _OwnComment(NamedTuple):
    comment: Comment
    body: Body


async def _own_comments(github: GitHub, number: int, scope: str, login: str) -> list[_OwnComment]:
    """Return the comments by `login` that have our marker and this scope, ordered by id."""
    own = []
    for comment in await github.list(f"issues/{number}/comments", Comment):
        if comment.user is None or comment.user.login != login:
            continue
        body = parse(comment.body or "")
        if body is not None and body.scope == scope:
            own.append(_OwnComment(comment, body))
    return sorted(own, key=lambda each: each.comment.id)


def _belongs(contribution: Contribution, body: Body) -> bool:
    """Return True unless a section would be new and must not be."""
    return not contribution.replaces_only or body.section(contribution.id) is not None


class _Thread:
    """Our comments on one pull request, and sections of one run to put into the first of them."""

    def __init__(
        self,
        github: GitHub,
        number: int,
        scope: str,
        login: str,
        contributions: Sequence[Contribution],
    ) -> None:
        self._github = github
        self._number = number
        self._scope = scope
        self._login = login
        self._contributions = contributions
        self._stamp = contributions[0].stamp
        self._section_word = uuid4().hex
        self._last_write: str | None = None  # must still be there after SETTLE_S
        self._created: set[int] = set()
        self._lost = 0

    async def put(self) -> CommentOutcome:
        """Write until the sections are there to stay, or must not be written."""
        for _ in range(MAX_ROUNDS):
            pull = await self._github.get(f"pulls/{self._number}", PullRequest)
            own = await _own_comments(self._github, self._number, self._scope, self._login)
            outcome = self._outcome(pull.head.sha, own)
            if outcome is not None:
                await self._delete_others(own)
                return outcome
            if own:
                await self._edit(own[0].comment.id)
            else:
                await self._create()
            await self._github.sleep(SETTLE_S)
        raise HostError(
            "unexpected",
            f"other jobs write to the comment of #{self._number} again and again:"
            " does each have its own --artifact?",
        )

    def _outcome(self, head_sha: str, own: Sequence[_OwnComment]) -> CommentOutcome | None:
        """Return the outcome, or None if a section still has to be written or to settle."""
        stamp = self._stamp
        if head_sha != stamp.sha:
            note = (
                f"pull request {self._number} has moved on to {short_sha(head_sha)};"
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
            newer = f"run {overtaken_by[0].run_id}, attempt {overtaken_by[0].attempt}"
            return CommentOutcome(note=f"the comment already has what a newer run found ({newer})")
        return CommentOutcome(url=comment.html_url)

    async def _create(self) -> None:
        write = uuid4().hex
        text = compose(self._scope, write, self._add_to(()))
        path = f"issues/{self._number}/comments"
        try:
            comment = await self._github.create(path, {"body": text}, Comment)
        except HostError as error:
            self._lost += 1
            if error.kind != "unreachable" or self._lost == MAX_LOST:
                raise
            return  # it may have been created all the same: the next round sees it
        self._last_write = write
        self._created.add(comment.id)
        if comment.user:
            # Other GitHub Apps have other names; with the right one, their older comments are
            # found, too.
            self._login = comment.user.login

    def _add_to(self, sections: tuple[Section, ...]) -> tuple[Section, ...]:
        """Return sections with those of this run that are not there yet and not overtaken."""
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
        path = f"issues/comments/{comment_id}"

        async def read_and_write() -> None:
            comment = await self._github.get(path, Comment)
            body = parse(comment.body or "")
            if body is None:
                return
            sections = self._add_to(body.sections)
            if sections == body.sections:
                self._last_write = body.write
                return
            self._last_write = uuid4().hex
            text = compose(self._scope, self._last_write, sections)
            await self._github.edit(path, {"body": text})

        try:
            await self._github.retry(read_and_write)
        except HostError as error:
            if error.kind != "missing":  # deleted meanwhile: the next round sees that
                raise

    async def _delete_others(self, own: Sequence[_OwnComment]) -> None:
        """Delete second comments: those created here, and those that older runs left behind."""
        for comment, body in own[1:]:
            is_old = all(self._stamp.is_newer_than(section.stamp) for section in body.sections)
            if is_old or comment.id in self._created:
                await self._github.sleep(WRITE_SPACING_S)
                await self._github.delete(f"issues/comments/{comment.id}")
