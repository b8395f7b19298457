"""Finds the results of the target branch and of retried jobs among the artifacts of jobs."""

import asyncio
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ci_evals.engine.journal import JOURNAL, MAIN_JOURNAL
from ci_evals.errors import HostError, StorageError
from ci_evals.format import name_of
from ci_evals.hosts import Earlier, NotFound
from ci_evals.plugins.ci.archives import OWN_LIMITS, unpack
from ci_evals.plugins.ci.baseline import (
    PATIENCE_S,
    BaseBranch,
    BaseReport,
    Candidate,
    Download,
    NoResults,
    both_journals,
    find_base_report,
)
from ci_evals.plugins.gitlab.api import GitLab, connect
from ci_evals.plugins.gitlab.context import CHILD, TRUSTED_SOURCES, GitLabContext, MergeRequest

MAX_COMMITS: Final = 50
MAX_PIPELINES: Final = 50
MAX_JOBS: Final = 1_000  # of one pipeline
MAX_CHILDREN: Final = 20  # of one pipeline
MAX_OTHER_JOBS: Final = 5  # of one pipeline, which may be the job under an earlier name
MAX_CHANGED: Final = 1_000  # files of a merge request

_NOT_THE_FIRST = (
    "no green pipeline that GitLab looks at has left results of the job {job}; if it was renamed,"
    " if its artifacts have expired, or if GitLab is older than 18.7, only a project access token"
    " with the scope `read_api` in GITLAB_TOKEN finds them"
)
_ADVICE = "reading artifacts needs a project access token with the scope `read_api` in GITLAB_TOKEN"


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """A pipeline. `source` is what started it."""

    id: int
    sha: str
    source: str
    web_url: str


@dataclass(frozen=True, slots=True)
class _File:
    filename: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class _Job:
    """A job. `tag` is True in a pipeline for a tag, which may have the name of a branch."""

    id: int
    name: str
    tag: bool
    artifacts_file: _File | None = None
    artifacts_expire_at: datetime | None = None

    @property
    def has_expired(self) -> bool:
        """Return True if artifacts have expired, although GitLab may have kept the newest ones."""
        return self.artifacts_expire_at is not None and self.artifacts_expire_at < datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class _Downstream:
    id: int
    source: str | None = None


@dataclass(frozen=True, slots=True)
class _Bridge:
    """A job that starts another pipeline, of this project or of another one."""

    downstream_pipeline: _Downstream | None = None

    @property
    def child(self) -> int | None:
        """The child pipeline; None if another project's pipeline was started, or none yet."""
        downstream = self.downstream_pipeline
        if downstream is None or downstream.source != CHILD:
            return None
        return downstream.id


@dataclass(frozen=True, slots=True)
class _Commit:
    id: str


@dataclass(frozen=True, slots=True)
class _ChangedFile:
    old_path: str
    new_path: str


@dataclass(frozen=True, slots=True)
class _Search:
    """The report of the base branch to look for.

    Attributes:
        job: the name of the job that leaves it.
        branch: the branch whose pipelines are trusted.
        base_sha: the merge base, or the commit before a push; None for the newest report.
        start: what `base_sha` is, in words.
    """

    job: str
    branch: str
    base_sha: str | None
    start: str


def _search_for(context: GitLabContext) -> _Search | None:
    """Return the report that a pipeline is compared with; None for no comparison.

    Merge requests are compared with their target branch, a push to the default branch with the
    commit before it, any other pipeline of that branch with its newest report.
    """
    merge_request = context.merge_request
    if merge_request is not None and merge_request.target_branch:
        branch = merge_request.target_branch
        return _Search(context.job_name, branch, merge_request.base_sha, "the merge base")
    if context.branch and context.makes_baselines:
        return _Search(context.job_name, context.branch, context.before_sha, "its base")
    return None


def find_earlier(
    context: GitLabContext,
    suite: str,
    suites: Sequence[str],
    folder: Path,
    base: str | None,
    attempts: str | None,
) -> Earlier:
    """Look for the base branch's report and for the journals of earlier attempts of this job.

    Problems with GitLab become warnings.

    Args:
        context: the job.
        suite: the name of the suite.
        suites: the names of all suites that are run.
        folder: where artifacts are unpacked.
        base: None to look for no report of the base branch. GitLab's artifacts have no names.
        attempts: None to ignore earlier attempts.
    """
    earlier = Earlier()
    search = _search_for(context)
    if base is not None and search:
        earlier = asyncio.run(_find_base(context, search, suite, suites, folder / "base"))
    # GitLab lets only an access token list jobs.
    if attempts and context.token and not context.runs_in_fork:
        try:
            found = asyncio.run(_find_journals(context, suite, folder / "attempts"))
        except (HostError, StorageError) as error:
            warning = f"earlier attempts of this job cannot be read: {error}"
            return replace(earlier, warnings=(*earlier.warnings, warning))
        journals, main_journals = found
        earlier = replace(earlier, journals=journals, main_journals=main_journals)
    return earlier


async def _find_base(
    context: GitLabContext, search: _Search, suite: str, suites: Sequence[str], folder: Path
) -> Earlier:
    """Find the report and the journal of the base branch."""
    warnings: tuple[str, ...] = ()
    try:
        try:
            found = await _search(context, search, suite, suites, folder / "pipelines")
        except HostError as error:
            if error.kind != "expired" or context.token is None or context.job_token is None:
                raise
            fallback = "the baseline was looked for with the job's own token"
            warnings = (f"GITLAB_TOKEN is not valid, or has expired: {fallback} ({error})",)
            context = replace(context, token=None)
            found = await _search(context, search, suite, suites, folder / "last")
    except (HostError, StorageError) as error:
        reason = str(error)
        if isinstance(error, HostError) and error.kind in ("expired", "forbidden"):
            reason += f" ({_ADVICE})"
        found = NotFound(reason, expected=True, failed=True)
    if isinstance(found, NotFound):
        return Earlier(found, warnings)
    return Earlier(found.stored(search.branch), warnings)


async def _search(
    context: GitLabContext, search: _Search, suite: str, suites: Collection[str], folder: Path
) -> BaseReport | NotFound:
    """Look for a report among all that the token of the context may see."""
    async with connect(context, context.target_project_id, patience_s=PATIENCE_S) as gitlab:
        if context.token is None:
            last_green = LastGreenPipeline(gitlab, search, context)
            return await find_base_report(last_green, suite, folder, suites)
        pipelines = Pipelines(gitlab, search, context)
        return await find_base_report(pipelines, suite, folder, suites)


async def _find_journals(
    context: GitLabContext, suite: str, folder: Path
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the journals of a suite, and of main's code, that earlier attempts of this job have
    left, if any.
    """
    async with connect(context, context.project_id, patience_s=PATIENCE_S) as gitlab:
        jobs = await _list_jobs(gitlab, context.pipeline_id, include_retried="true")
        for job in jobs:
            if job.name != context.job_name:
                continue
            if job.id < context.job_id and job.artifacts_file:
                names = (JOURNAL, MAIN_JOURNAL)
                return both_journals(await _fetch(gitlab, _path(job), folder, names), suite)
    return (), ()


class Pipelines(BaseBranch[_Pipeline]):
    """The base branch by its pipelines. Needs an access token with `read_api`."""

    # A pipeline that was started by hand may check out a merge request.
    takes_other_commits = False

    def __init__(self, gitlab: GitLab, search: _Search, context: GitLabContext) -> None:
        self.name = search.branch
        self.start = search.start
        self._gitlab = gitlab
        self._search = search
        self._context = context

    async def candidates(
        self, history: Collection[str]
    ) -> Sequence[Candidate[_Pipeline]] | NotFound:
        finished = list(await _finished_pipelines(self._gitlab, self.name, self._context))
        default = self._context.default_branch
        if default and default != self.name:
            of_default = await _finished_pipelines(self._gitlab, default, self._context)
            finished += [pipeline for pipeline in of_default if pipeline.sha in history]
        if not finished:
            return _first_run(self.name)
        candidates = [
            Candidate(pipeline, f"pipeline {pipeline.id}", pipeline.sha)
            for pipeline in sorted(finished, key=lambda pipeline: pipeline.id, reverse=True)
            # Others can name the base branch as theirs while they test a merge request.
            if pipeline.source in TRUSTED_SOURCES
        ]
        if not candidates:
            sources = ", ".join(sorted({pipeline.source for pipeline in finished}))
            reason = f"the last pipelines of {name_of(self.name)} were all started by {sources}"
            return NotFound(reason, expected=True)
        return candidates

    async def history(self) -> Sequence[str]:
        start = self._search.base_sha
        if not start:
            return []
        try:
            commits = await self._gitlab.list(
                "repository/commits", _Commit, limit=MAX_COMMITS, ref_name=start
            )
        except HostError as error:
            if error.kind in ("rate_limited", "unreachable"):
                raise
            return []  # the branch was rewritten: its newest report is still there
        return [commit.id for commit in commits]

    async def download(
        self, source: _Pipeline, folder: Path, names: Collection[str]
    ) -> Download | NoResults | str:
        jobs = await self._list_jobs(source)
        named = [job for job in jobs if job.name == self._search.job]
        for job in named:
            if job.tag:
                return "it ran on a tag"
            if job.artifacts_file:
                files = await _fetch(self._gitlab, _path(job), folder, names)
                return Download(files, source.web_url)
            if job.has_expired:
                return NoResults("its artifacts have expired")
        if named:
            return NoResults()
        files = await self._files_of_others(jobs, folder, names)
        if not files:
            return NoResults()
        return Download(files, source.web_url)

    async def _list_jobs(self, pipeline: _Pipeline) -> Sequence[_Job]:
        """Return the jobs of a pipeline, and of its children if none of its own has the name."""
        found: list[_Job] = []
        pipelines = [pipeline.id]
        for pipeline_id in pipelines:
            jobs = await _list_jobs(self._gitlab, pipeline_id)
            found += jobs
            if any(job.name == self._search.job for job in jobs):
                break
            most = MAX_CHILDREN + 1 - len(pipelines)
            if most > 0:
                path = f"pipelines/{pipeline_id}/bridges"
                bridges = await self._gitlab.list(path, _Bridge, limit=MAX_JOBS)
                children = [bridge.child for bridge in bridges if bridge.child is not None]
                pipelines += children[:most]
        return found

    async def _files_of_others(
        self, jobs: Sequence[_Job], folder: Path, names: Collection[str]
    ) -> tuple[Path, ...]:
        """Return the results of jobs of other names: this one may have been renamed."""
        others = [job for job in jobs if job.artifacts_file and not job.tag]
        # Builds and images are far larger than reports.
        others.sort(key=lambda job: job.artifacts_file.size if job.artifacts_file else 0)
        files: list[Path] = []
        for job in others[:MAX_OTHER_JOBS]:
            files += await _fetch(self._gitlab, _path(job), folder / str(job.id), names)
        return tuple(files)

    async def has_commit(self, sha: str) -> bool:
        path = f"repository/merge_base?refs%5B%5D={sha}&refs%5B%5D={quote(self.name, safe='')}"
        try:
            commit = await self._gitlab.get(path, _Commit)
        except HostError as error:
            if error.kind in ("missing", "rejected"):  # nobody knows the commit
                return False
            raise
        return commit.id == sha


class LastGreenPipeline(BaseBranch[None]):
    """The base branch for the token of a job, which can read the artifacts of its last green
    pipeline only.

    GitLab looks for that among the pipelines of the branch itself, so merge requests and forks are
    left out. The token may not ask which branch a commit is on.
    """

    takes_other_commits = False

    def __init__(self, gitlab: GitLab, search: _Search, context: GitLabContext) -> None:
        self.name = search.branch
        self.start = search.start
        self._gitlab = gitlab
        self._search = search
        self._context = context
        self._url = f"{context.project_url}/-/pipelines?ref={quote(search.branch, safe='')}"

    async def candidates(self, history: Collection[str]) -> Sequence[Candidate[None]] | NotFound:
        del history
        try:
            if not await _finished_pipelines(self._gitlab, self.name, self._context):
                return _first_run(self.name)
        except HostError as error:
            # Only a public project shows its pipelines to those who are not logged in.
            if error.kind not in ("expired", "forbidden", "missing"):
                raise
        return [Candidate(None, "the last green pipeline", None, "its last green pipeline")]

    async def history(self) -> Sequence[str]:
        return []

    async def download(
        self, source: None, folder: Path, names: Collection[str]
    ) -> Download | NoResults | str:
        del source
        path = f"jobs/artifacts/{quote(self.name, safe='')}/download"
        try:
            files = await _fetch(
                self._gitlab,
                path,
                folder,
                names,
                job=self._search.job,
                search_recent_successful_pipelines="true",  # since GitLab 18.7
            )
        except HostError as error:
            if error.kind == "missing":
                return NoResults(_NOT_THE_FIRST.format(job=name_of(self._search.job)))
            if error.kind == "forbidden":
                raise HostError("forbidden", f"{error} ({_ADVICE})") from error
            raise
        return Download(files, self._url)

    async def has_commit(self, sha: str) -> bool:
        del sha
        return True


async def _finished_pipelines(
    gitlab: GitLab, branch: str, context: GitLabContext
) -> Sequence[_Pipeline]:
    """Return the last pipelines of a branch, other than the one that is under way."""
    pipelines = await gitlab.list(
        "pipelines", _Pipeline, limit=MAX_PIPELINES, ref=branch, scope="finished"
    )
    return [pipeline for pipeline in pipelines if pipeline.id != context.pipeline_id]


def _first_run(branch: str) -> NotFound:
    return NotFound(f"no pipeline of {name_of(branch)} has finished yet", expected=False)


async def _list_jobs(gitlab: GitLab, pipeline_id: int, **query: str) -> Sequence[_Job]:
    """Return the jobs of a pipeline, newest first."""
    path = f"pipelines/{pipeline_id}/jobs"
    jobs = await gitlab.list(path, _Job, limit=MAX_JOBS, **query)
    return sorted(jobs, key=lambda job: job.id, reverse=True)


def _path(job: _Job) -> str:
    return f"jobs/{job.id}/artifacts"


async def _fetch(
    gitlab: GitLab, path: str, folder: Path, names: Collection[str], **query: str
) -> tuple[Path, ...]:
    """Download an archive and unpack its files of these names into `folder`; see `unpack`."""
    try:
        with tempfile.TemporaryFile() as file:
            await gitlab.download(path, file, OWN_LIMITS.max_archive_bytes, **query)
            return unpack(file, folder, names, OWN_LIMITS)
    except OSError as error:
        raise StorageError(f"{folder}: artifacts cannot be unpacked: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class _DiffRefs:
    base_sha: str | None = None


@dataclass(frozen=True, slots=True)
class _MergeRequest:
    target_branch: str
    diff_refs: _DiffRefs | None = None


async def complete(merge_request: MergeRequest, context: GitLabContext) -> MergeRequest:
    """Return a merge request with the target branch and the merge base that GitLab tells.

    Raises:
        HostError: GitLab cannot be reached, refuses, or does not know the merge request.
    """
    async with connect(context, merge_request.project_id, patience_s=PATIENCE_S) as gitlab:
        found = await gitlab.get(f"merge_requests/{merge_request.iid}", _MergeRequest)
    base_sha = None
    if found.diff_refs is not None:
        base_sha = found.diff_refs.base_sha
    return replace(
        merge_request,
        target_branch=found.target_branch,
        base_sha=base_sha,
        is_listed_only=False,
    )


async def changed_files(gitlab: GitLab, merge_request: int) -> tuple[str, ...] | None:
    """Return the files that a merge request changes; None if there are too many.

    A renamed file is listed under both names.

    Raises:
        HostError: GitLab cannot be reached, refuses, or does not know the merge request.
    """
    path = f"merge_requests/{merge_request}/diffs"
    files = await gitlab.list(path, _ChangedFile, limit=MAX_CHANGED)
    if len(files) == MAX_CHANGED:
        return None
    names: dict[str, None] = {}
    for file in files:
        names |= dict.fromkeys((file.old_path, file.new_path))
    return tuple(names)
