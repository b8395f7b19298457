"""The baseline of a pull request: which earlier run of the base branch to compare with, and whether to trust it."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from ci_evals.errors import GitHubError
from ci_evals.github.answers import Artifact, ArtifactRun, Commit, Comparison
from ci_evals.github.artifacts import MAX_LISTED, artifacts_named, fetch, run_of
from ci_evals.github.client import GitHub
from ci_evals.verdict.words import duration, name_of, number_of

Accept = Callable[[Path], str | None]
"""From the folder of an unpacked artifact to why it is no use as a baseline; None if it is."""

MAX_COMMITS: Final = 50
MAX_TRIED: Final = 5  # downloads
# Runs of these bring code or artifacts from elsewhere, although GitHub names the base branch as theirs.
_FOREIGN_EVENTS = frozenset(("pull_request", "pull_request_target", "workflow_run", "merge_group"))

How = Literal["merge_base", "base", "history", "newest"]


class Search(Struct, frozen=True):
    """What to look for.

    Args:
        artifact: its exact name.
        base_ref: the branch whose runs are trusted.
        base_sha: a commit of it: the base of a pull request or merge group, or what a push was made upon.
        head_sha: the head of the pull request, for the merge base; None when `base_sha` itself is the point to start.
    """

    artifact: str
    base_ref: str
    base_sha: str | None
    head_sha: str | None = None

    @property
    def branch(self) -> str:
        """The branch, inside a sentence."""
        return name_of(self.base_ref)


class Baseline(Struct, frozen=True):
    """An artifact that was taken.

    `behind` is how many commits of the base branch's history lie between the starting point and its own commit;
    None when it is not among the last `MAX_COMMITS`.
    """

    folder: Path
    sha: str
    base_ref: str
    how: How
    behind: int | None
    created_at: datetime | None

    def sentence(self, now: datetime) -> str:
        """What was taken and how old it is: `compared with main at 1a2b3c4 (the merge base), 3 h old`."""
        age = f", {duration(max(0.0, (now - self.created_at).total_seconds()))} old" if self.created_at else ""
        return f"compared with {name_of(self.base_ref)} at {self.sha[:7]} ({self._place}){age}"

    @property
    def _place(self) -> str:
        if self.how == "history":
            return f"{number_of(self.behind or 0, 'commit')} before the one it is based on"
        return {"merge_base": "the merge base", "base": "its base"}.get(self.how, "the newest there is")


class NoBaseline(Struct, frozen=True):
    """There is none. `reason` is a sentence; `failed` tells that GitHub was in the way, and there may be one."""

    reason: str
    failed: bool = False


class _Candidate(Struct, frozen=True):
    artifact: Artifact
    run: ArtifactRun
    how: How
    behind: int | None


async def find_baseline(github: GitHub, search: Search, folder: Path, accept: Accept) -> Baseline | NoBaseline:
    """Look for a report of the base branch and unpack it below `folder`.

    The merge base's own is preferred, then that of the nearest commit before it, then the newest of the branch. Taken
    are only complete reports of concluded runs of the repository's own branch. GitHub's refusals are reasons, too.

    Raises:
        StorageError: `folder` cannot be written.
    """
    try:
        return await _found(github, search, folder, accept)
    except GitHubError as error:
        hint = " (reading artifacts needs `actions: read`)" if error.kind == "forbidden" else ""
        return NoBaseline(f"no baseline: {error}{hint}", failed=True)


async def _found(github: GitHub, search: Search, folder: Path, accept: Accept) -> Baseline | NoBaseline:
    every = await artifacts_named(github, search.artifact)
    trusted = [artifact for artifact in every if _is_of_branch(artifact, search.base_ref)]
    fresh = [artifact for artifact in trusted if not artifact.expired]
    if not fresh:
        return NoBaseline(_why_none(search, every, trusted))
    history = await _history(github, search)
    refused: list[str] = []
    failed = False
    for number, candidate in enumerate(_in_order(fresh, history, "merge_base" if search.head_sha else "base"), start=1):
        target = folder / str(number)
        refusal = await _tried(github, candidate, target, accept)
        if refusal is None:
            return _baseline(candidate, target, search)
        failed |= isinstance(refusal, GitHubError) and refusal.kind != "missing"
        refused.append(f"run {candidate.run.id}: {refusal}")
        if number == MAX_TRIED:
            break
    reason = f"no baseline: none of the last reports of {search.branch} can be used ({'; '.join(refused)})"
    return NoBaseline(reason, failed)


async def _tried(github: GitHub, candidate: _Candidate, target: Path, accept: Accept) -> str | GitHubError | None:
    """Why a candidate is not taken, or what GitHub refused; None if it is taken."""
    try:
        run = await run_of(github, candidate.run.id)
        if run.status != "completed":
            return "it has not ended"
        if run.event in _FOREIGN_EVENTS:
            return f"it ran on {run.event}"
        await fetch(github, candidate.artifact, target)
    except GitHubError as error:
        if error.kind in ("rate_limited", "unreachable"):
            raise
        return error
    return accept(target)


def _is_of_branch(artifact: Artifact, branch: str) -> bool:
    """Whether the repository's own branch made it: a fork may have a branch of the same name."""
    run = artifact.workflow_run
    return run is not None and run.head_branch == branch and run.head_repository_id == run.repository_id


def _in_order(artifacts: Sequence[Artifact], history: Sequence[str], first: How) -> Iterator[_Candidate]:
    """The best first: along the history, then by age. Of one commit, the newest."""
    newest_first = sorted(artifacts, key=lambda artifact: -artifact.id)
    taken = set()
    for behind, sha in enumerate(history):
        for artifact in newest_first:
            if artifact.workflow_run and artifact.workflow_run.head_sha == sha:
                taken.add(artifact.id)
                yield _Candidate(artifact, artifact.workflow_run, "history" if behind else first, behind)
    for artifact in newest_first:
        if artifact.workflow_run and artifact.id not in taken:
            yield _Candidate(artifact, artifact.workflow_run, "newest", None)


async def _history(github: GitHub, search: Search) -> list[str]:
    """The merge base and the commits before it, the nearest first; empty when GitHub does not know them."""
    try:
        start = search.base_sha
        if start and search.head_sha:
            compared = await github.get(f"compare/{start}...{search.head_sha}", Comparison, "comparison", per_page=1)
            start = compared.merge_base_commit.sha
        if not start:
            return []
        commits = await github.every("commits", Commit, "commit", limit=MAX_COMMITS, sha=start)
    except GitHubError as error:
        if error.kind in ("rate_limited", "unreachable"):
            raise
        return []  # a rewritten branch: the newest report is still there
    return [commit.sha for commit in commits]


def _why_none(search: Search, every: Sequence[Artifact], trusted: Sequence[Artifact]) -> str:
    if trusted:
        return f"no baseline: every artifact {search.artifact!r} of {search.branch} has expired"
    if every:
        among = f" among the last {MAX_LISTED:,}" if len(every) == MAX_LISTED else ""
        return f"no baseline: no run of {search.branch} itself has left an artifact {search.artifact!r}{among}"
    return f"no baseline: there is no artifact {search.artifact!r} yet; the first run on {search.branch} makes one"


def _baseline(candidate: _Candidate, folder: Path, search: Search) -> Baseline:
    return Baseline(
        folder=folder,
        sha=candidate.run.head_sha,
        base_ref=search.base_ref,
        how=candidate.how,
        behind=candidate.behind,
        created_at=candidate.artifact.created_at,
    )
