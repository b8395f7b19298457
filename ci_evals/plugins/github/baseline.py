"""Finds the results of the base branch and of earlier attempts among GitHub's artifacts."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple
from urllib.parse import quote

from ci_evals.engine.journal import JOURNAL, MAIN_JOURNAL
from ci_evals.errors import HostError, StorageError
from ci_evals.format import name_of
from ci_evals.hosts import Earlier, NotFound, StoredReport
from ci_evals.plugins.ci.baseline import (
    PATIENCE_S,
    BaseBranch,
    Candidate,
    Download,
    both_journals,
    find_base_report,
)
from ci_evals.plugins.github.api import GitHub, WorkflowRun, connect
from ci_evals.plugins.github.artifacts import (
    MAX_LISTED,
    Artifact,
    ArtifactOrigin,
    artifacts_of_run,
    fetch,
)
from ci_evals.plugins.github.context import Context

MAX_COMMITS: Final = 50
MAX_CHANGED: Final = 300  # files: GitHub lists no more of a comparison
MAX_RUNS: Final = 200  # of a workflow on a branch
MAX_BRANCHES: Final = 3  # with runs on commits of the base branch

# Runs of other events can name the base branch as theirs while they evaluate a pull request.
_TRUSTED_EVENTS = frozenset(("push", "schedule", "workflow_dispatch"))


def find_earlier(
    context: Context,
    suite: str,
    suites: Sequence[str],
    folder: Path,
    base: str | None,
    attempts: str | None,
) -> Earlier:
    """Look for the base branch's report and for the journals of earlier attempts of this run.

    Problems with GitHub become warnings.

    Args:
        context: the job.
        suite: the name of the suite.
        suites: the names of all suites that are run.
        folder: where artifacts are unpacked.
        base: the name of the base branch's artifact; None to look for none.
        attempts: the name of the artifact of earlier attempts; None to ignore them.
    """
    earlier = Earlier()
    if base is not None:
        search = search_for(context, base)
        if search is not None:
            found = asyncio.run(_find_base(context, search, suite, suites, folder / "base"))
            earlier = Earlier(found)
        elif context.problem:
            earlier = Earlier(NotFound(context.problem, expected=True))
    if context.attempt > 1 and attempts:
        search_journals = _find_journals(context, attempts, suite, folder / "attempts")
        try:
            journals, main_journals = asyncio.run(search_journals)
        except (HostError, StorageError) as error:
            warning = f"attempt {context.attempt} starts from scratch: {error}"
            return replace(earlier, warnings=(warning,))
        earlier = replace(earlier, journals=journals, main_journals=main_journals)
    return earlier


async def _find_base(
    context: Context, search: "Search", suite: str, suites: Sequence[str], folder: Path
) -> StoredReport | NotFound:
    """Find the report and the journal of the base branch."""
    try:
        async with connect(context, patience_s=PATIENCE_S) as github:
            branch = GitHubBranch(github, search)
            found = await find_base_report(branch, suite, folder, suites)
    except (HostError, StorageError) as error:
        reason = str(error)
        if context.token and isinstance(error, HostError) and error.kind == "forbidden":
            reason += " (reading artifacts needs `actions: read`)"
        return NotFound(reason, expected=True, failed=True)
    if isinstance(found, NotFound):
        return found
    return found.stored(search.base_ref)


async def _find_journals(
    context: Context, artifact: str, suite: str, folder: Path
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the journals of a suite, and of main's code, that earlier attempts of this workflow
    run have left.
    """
    async with connect(context, patience_s=PATIENCE_S) as github:
        newest, *_ = await artifacts_of_run(github, context.run_id or 0, artifact)
        files = await fetch(github, newest, folder, (JOURNAL, MAIN_JOURNAL))
        journals, main_journals = both_journals(files, suite)
    if not journals:
        raise HostError("missing", f"{artifact} has no {JOURNAL}")
    return journals, main_journals


@dataclass(frozen=True, slots=True)
class Search:
    """The report of the base branch to look for.

    Attributes:
        artifact: the exact name of its artifact.
        base_ref: the branch whose runs are trusted.
        base_sha: the base of a pull request or merge group, or the commit before a push.
        head_sha: the head of the pull request, to find the merge base; None to start at `base_sha`
            itself.
        head_ref: the branch of the pull request.
        workflow: the file name of this job's workflow; other workflows may use the same name for
            their artifacts. None if it is unknown.
    """

    artifact: str
    base_ref: str
    base_sha: str | None
    head_sha: str | None = None
    head_ref: str | None = None
    workflow: str | None = None


def search_for(context: Context, artifact: str) -> Search | None:
    """Return the report that an event is compared with; None for no comparison.

    Pull requests and merge groups are compared with their base, a push to the default branch with
    the commit before it, a scheduled or dispatched run of that branch with its newest report.
    """
    search = _search_for(context, artifact)
    if search is None or context.workflow_file is None:
        return search
    return replace(search, workflow=PurePosixPath(context.workflow_file).name)


def _search_for(context: Context, artifact: str) -> Search | None:
    event = context.event
    branch = context.branch
    if event == "pull_request" and context.base_ref:
        head_ref = context.pull_request.head.ref if context.pull_request else None
        return Search(artifact, context.base_ref, context.base_sha, context.sha, head_ref)
    if event == "merge_group" and context.base_ref:
        return Search(artifact, context.base_ref, context.base_sha)
    if event == "push" and branch and context.on_default_branch:
        return Search(artifact, branch, context.base_sha)
    # GitHub schedules the default branch only, and the event need not name it.
    if event == "schedule" and branch:
        return Search(artifact, branch, None)
    if event == "workflow_dispatch" and branch and context.on_default_branch:
        return Search(artifact, branch, None)
    return None


class _Source(NamedTuple):
    artifact: Artifact
    run: ArtifactOrigin


class GitHubBranch(BaseBranch[_Source]):
    """The base branch on GitHub.

    Args:
        github: with a token that has `actions: read`.
        search: what to look for.
    """

    takes_other_commits = True

    def __init__(self, github: GitHub, search: Search) -> None:
        self.name = search.base_ref
        self.start = "its base"
        if search.head_sha:
            self.start = "the merge base"
        self._github = github
        self._search = search

    async def candidates(self, history: Collection[str]) -> Sequence[Candidate[_Source]] | NotFound:
        candidates = await _list_candidates(self._github, self._search, history)
        if isinstance(candidates, NotFound) or self._search.workflow is None:
            return candidates
        branches = dict.fromkeys(candidate.source.run.head_branch for candidate in candidates)
        own: set[int] = set()
        for branch in list(branches)[:MAX_BRANCHES]:
            own |= await self._runs_of_workflow(self._search.workflow, str(branch))
        return [
            replace(candidate, of_other_job=candidate.source.run.id not in own)
            for candidate in candidates
        ]

    async def _runs_of_workflow(self, workflow: str, branch: str) -> set[int]:
        """Return the last runs of a workflow on a branch; empty if it is new."""
        try:
            runs = await self._github.list(
                f"actions/workflows/{quote(workflow, safe='')}/runs",
                _Run,
                key="workflow_runs",
                limit=MAX_RUNS,
                branch=branch,
                exclude_pull_requests="true",
            )
        except HostError as error:
            if error.kind == "missing":
                return set()
            raise
        return {run.id for run in runs}

    async def history(self) -> Sequence[str]:
        return await _history(self._github, self._search)

    async def download(
        self, source: _Source, folder: Path, names: Collection[str]
    ) -> Download | str:
        run = await self._github.get(f"actions/runs/{source.run.id}", WorkflowRun)
        if run.status != "completed":
            return "it has not ended"
        if run.event not in _TRUSTED_EVENTS:
            return f"it ran on {run.event}"
        files = await fetch(self._github, source.artifact, folder, names)
        return Download(files, run.html_url)

    async def has_commit(self, sha: str) -> bool:
        path = f"compare/{sha}...{quote(self.name, safe='')}"
        try:
            comparison = await self._github.get(path, _CommitComparison, per_page=1)
        except HostError as error:
            if error.kind == "missing":  # nobody knows the commit, or it has nothing in common
                return False
            raise
        return comparison.merge_base_commit.sha == sha


async def _list_candidates(
    github: GitHub, search: Search, history: Collection[str]
) -> Sequence[Candidate[_Source]] | NotFound:
    """Return the artifacts of the repository's own runs on the base branch or on commits of its
    history, newest first.
    """
    name = search.artifact
    branch = name_of(search.base_ref)
    artifacts = await github.list(
        "actions/artifacts", Artifact, key="artifacts", limit=MAX_LISTED, name=name
    )
    trusted = []
    for artifact in sorted(artifacts, key=lambda artifact: artifact.id, reverse=True):
        run = artifact.workflow_run
        if run is None:
            continue
        if run.head_branch != search.base_ref and run.head_sha not in history:
            continue
        # A fork may have a branch of the same name, and its code wrote the artifact.
        if run.head_repository_id == run.repository_id:
            source = _Source(artifact, run)
            trusted.append(Candidate(source, f"run {run.id}", run.head_sha))
    candidates = [candidate for candidate in trusted if not candidate.source.artifact.expired]
    if candidates:
        return candidates
    if trusted:
        return NotFound(f"every artifact {name!r} of {branch} has expired", expected=True)
    if artifacts:
        reason = f"no run of {branch} itself has left an artifact {name!r}"
        if len(artifacts) == MAX_LISTED:
            reason += f" among the last {MAX_LISTED:,}"
        return NotFound(reason, expected=_is_not_the_first(artifacts, search))
    reason = f"there is no artifact {name!r} yet; the first run on {branch} makes one"
    return NotFound(reason, expected=False)


def _is_not_the_first(artifacts: Iterable[Artifact], search: Search) -> bool:
    """Return True if other pull requests have left artifacts before this one."""
    if search.head_ref is None:
        return False
    branches = {
        artifact.workflow_run.head_branch for artifact in artifacts if artifact.workflow_run
    }
    return not branches <= {search.head_ref}


@dataclass(frozen=True, slots=True)
class _Run:
    id: int


@dataclass(frozen=True, slots=True)
class _Commit:
    sha: str


@dataclass(frozen=True, slots=True)
class _ChangedFile:
    filename: str
    previous_filename: str | None = None


@dataclass(frozen=True, slots=True)
class _CommitComparison:
    merge_base_commit: _Commit
    files: tuple[_ChangedFile, ...] = ()


async def changed_files(github: GitHub, base_sha: str, head_sha: str) -> tuple[str, ...] | None:
    """Return the files changed since the merge base; None if there are too many.

    A renamed file is listed under both names.

    Raises:
        HostError: GitHub cannot be reached, refuses, or does not know the commits.
    """
    path = f"compare/{base_sha}...{head_sha}"
    comparison = await github.get(path, _CommitComparison, per_page=1)
    if len(comparison.files) >= MAX_CHANGED:
        return None
    names = []
    for file in comparison.files:
        names.append(file.filename)
        if file.previous_filename:
            names.append(file.previous_filename)
    return tuple(names)


async def find_merge_base_online(github: GitHub, base_sha: str, head_sha: str) -> str:
    """Return the newest common ancestor of two commits.

    Raises:
        HostError: GitHub cannot be reached, refuses, or does not know the commits.
    """
    path = f"compare/{base_sha}...{head_sha}"
    comparison = await github.get(path, _CommitComparison, per_page=1)
    return comparison.merge_base_commit.sha


async def _history(github: GitHub, search: Search) -> list[str]:
    """Return the merge base and the commits before it, the nearest first.

    The history is empty if GitHub does not know the commits.
    """
    try:
        start = search.base_sha
        if start and search.head_sha:
            start = await find_merge_base_online(github, start, search.head_sha)
        if not start:
            return []
        commits = await github.list("commits", _Commit, limit=MAX_COMMITS, sha=start)
    except HostError as error:
        if error.kind in ("rate_limited", "unreachable"):
            raise
        return []  # the branch was rewritten: its newest report is still there
    return [commit.sha for commit in commits]
