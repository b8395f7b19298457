"""What earlier runs left behind: the report to compare with, journals of earlier attempts, a recording for forks."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from ci_evals.engine.journal import JOURNAL
from ci_evals.errors import CiEvalsError, GitHubError, StorageError
from ci_evals.format import duration, name_of, number_of
from ci_evals.gate.baseline import Baseline
from ci_evals.gate.compare import NoComparison
from ci_evals.github.api import (
    MAX_LISTED,
    Artifact,
    ArtifactOrigin,
    Commit,
    CommitComparison,
    GitHub,
    NoArtifacts,
    artifacts_named,
    artifacts_of_run,
    connect,
    fetch,
    workflow_run,
)
from ci_evals.github.context import Context
from ci_evals.redaction import Redactor
from ci_evals.reports.read import SavedReport, baseline_of, read_baseline, read_report
from ci_evals.reports.report_json import REPORT
from ci_evals.suite.types import CheckedSuite

Wanted = Literal["auto", "none"] | tuple[Path, ...]
"""What to compare with: whatever can be found, nothing, or these reports."""

MAX_COMMITS: Final = 50
MAX_TRIED: Final = 5  # downloads
PATIENCE_S: Final = 60.0  # waited at most for GitHub's limits and failures before a run starts

# Runs of other events name the base branch as theirs while they evaluate somebody's pull request.
_TRUSTED_EVENTS = frozenset(("push", "schedule", "workflow_dispatch"))
_NAMES = (REPORT, JOURNAL)


@dataclass(frozen=True, slots=True)
class Previous:
    """What earlier runs left behind.

    Attributes:
        baseline: what to compare with, or why there is nothing; None if nobody asked.
        said: sentences for the log.
        warnings: what went wrong on the way.
        journals: what earlier attempts of this workflow run have finished.
        recording: the journal of the base side.
    """

    baseline: Baseline | NoComparison | None = None
    said: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    journals: tuple[Path, ...] = ()
    recording: Path | None = None


@dataclass(frozen=True, slots=True)
class ArtifactNames:
    """The artifacts to look for: the base branch's results, and those of earlier attempts, or None to start anew."""

    base: str
    attempts: str | None = None


def find(
    wanted: Wanted, suite: CheckedSuite, context: Context | None, artifacts: ArtifactNames, folder: Path
) -> Previous:
    """Look for what earlier runs left behind. GitHub's refusals become sentences, not errors.

    A report that is named is taken as it is. Else an artifact of the base branch is preferred to a report that is
    committed beside the suite.

    Args:
        wanted: what to compare with.
        suite: what is run.
        context: the job of GitHub Actions; None elsewhere.
        artifacts: where to look on GitHub.
        folder: where artifacts are unpacked; they must stay there until the reports are written.

    Raises:
        StorageError: a report that was named, or that is committed, cannot be read.
    """
    search = search_for(context, artifacts.base) if context and wanted == "auto" else None
    found = _find_on_github(search, suite, context, artifacts.attempts, folder)
    if wanted == "none" or isinstance(found.baseline, Baseline):
        return found
    committed = committed_baseline(suite)
    if wanted != "auto":
        baseline = read_baseline(wanted, suite.name, redactor=Redactor(suite.secrets))
    elif committed.is_file():
        baseline = read_baseline((committed,), suite.name, committed.name, redactor=Redactor(suite.secrets))
    elif context is None:
        reason = f"no baseline: there is no {committed.as_posix()}, and no artifacts outside of GitHub Actions"
        return replace(found, baseline=NoComparison(reason), said=(*found.said, reason))
    else:
        return found
    if isinstance(baseline, Baseline):
        return replace(found, baseline=baseline, said=(*found.said, _sentence(baseline)))
    if wanted == "auto":
        return replace(found, baseline=baseline, said=(*found.said, baseline.reason))
    return replace(found, baseline=baseline, warnings=(baseline.reason, *found.warnings))


def committed_baseline(suite: CheckedSuite) -> Path:
    """Return where a team may keep a report beside its suite: `evals.baseline.json` of `evals.yaml`."""
    return Path(suite.file).with_suffix(".baseline.json")


def _find_on_github(
    search: "Search | None", suite: CheckedSuite, context: Context | None, attempts: str | None, folder: Path
) -> Previous:
    """Find the base side's report, where there is a search, and the journals of earlier attempts."""
    if context is None or context.attempt == 1:
        attempts = None
    if context is None or not (search or attempts):
        return Previous()
    anew = f"attempt {context.attempt} starts anew"
    if context.unusable:
        none = NoComparison(f"no baseline: {context.unusable}") if search else None
        warnings = [none.reason] if none else []
        warnings += [f"{anew}: {context.unusable}"] if attempts else []
        return Previous(none, warnings=tuple(warnings))

    async def find_both() -> Previous:
        async with connect(context, patience_s=PATIENCE_S) as github:
            found = await _base_side(github, search, suite, folder / "base") if search else Previous()
            if attempts is None:
                return found
            journals = await _journals(github, context, attempts, folder / "attempts")
            if isinstance(journals, str):
                return replace(found, warnings=(*found.warnings, f"{anew}: {journals}"))
            return replace(found, journals=journals)

    return asyncio.run(find_both())


async def _base_side(github: GitHub, search: "Search", suite: CheckedSuite, folder: Path) -> Previous:
    """Find the base side's report and journal."""
    tried: list[SavedReport] = []

    def check(files: Sequence[Path], sha: str) -> str | None:
        try:
            tried.append(read_report(next((file for file in files if file.name == REPORT), folder / REPORT)))
        except CiEvalsError as error:
            return str(error)
        return _unusable(tried[-1], suite.name, sha)

    try:
        found = await find_artifact(github, search, folder, check)
    except StorageError as error:
        found = NotFound(f"no baseline: {error}", failed=True)
    if isinstance(found, NotFound):
        sentences = (found.reason,)
        return Previous(
            NoComparison(found.reason),
            said=() if found.failed else sentences,
            warnings=sentences if found.failed else (),
        )
    baseline = baseline_of(tried[-1:], suite.name, search.base_ref, redactor=Redactor(suite.secrets))
    runs = f": {_evidence(baseline)}" if isinstance(baseline, Baseline) else ""
    recording = next((file for file in found.files if file.name == JOURNAL), None)
    return Previous(baseline, (f"{found.sentence(datetime.now(UTC))}{runs}",), recording=recording)


def _unusable(report: SavedReport, suite: str, sha: str) -> str | None:
    """Return why a report is no baseline of a suite; None if it is one."""
    if report.suite.name != suite:
        return f"its report is of another suite, {report.suite.name!r}"
    if report.suite.revision != sha:
        return f"its report is of another commit, {name_of(report.suite.revision)}"
    if report.interrupted:
        return f"its report is incomplete: {report.interrupted}"
    if not any(cell.planned.graded for cell in report.head):
        return "no run of its report was graded"
    return None


async def _journals(github: GitHub, context: Context, artifact: str, folder: Path) -> tuple[Path, ...] | str:
    """Return the journals of earlier attempts, or why there are none."""
    assert context.run_id is not None
    try:
        found = await artifacts_of_run(github, context.run_id, artifact, exact=True)
        if isinstance(found, NoArtifacts):
            return found.reason
        return await fetch(github, found[0], folder, (JOURNAL,)) or f"{artifact} has no {JOURNAL}"
    except (GitHubError, StorageError) as error:
        return str(error)


def _sentence(baseline: Baseline) -> str:
    newest = baseline.reports[0]
    at = f" at {newest.revision[:7]}" if newest.revision else ""
    age_s = datetime.now(UTC).timestamp() - newest.started_at
    return f"compared with {baseline.called}{at}, {duration(max(0.0, age_s))} old: {_evidence(baseline)}"


def _evidence(baseline: Baseline) -> str:
    most = max((cell.history.pool.graded for cell in baseline.cells.values()), default=0)
    return f"{number_of(len(baseline.reports), 'report')}, up to {number_of(most, 'run')} a case"


# Which artifact of the base branch.


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for.

    Attributes:
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


def search_for(context: Context, artifact: str) -> Search | None:
    """Return which runs an event is compared with; None for one that runs plainly.

    A pull request and a merge group are compared with their base, a push to the default branch with what was there
    before, a scheduled or dispatched run of that branch with its newest report.
    """
    event, branch = context.event, context.branch
    if event == "pull_request" and context.base_ref:
        return Search(artifact, context.base_ref, context.base_sha, context.sha)
    if event == "merge_group" and context.base_ref:
        return Search(artifact, context.base_ref, context.base_sha)
    if event == "push" and branch and context.on_default_branch:
        return Search(artifact, branch, context.base_sha)
    # GitHub schedules the default branch only, and the event need not name it.
    if branch and (event == "schedule" or (event == "workflow_dispatch" and context.on_default_branch)):
        return Search(artifact, branch, None)
    return None


Relation = Literal["merge_base", "base", "history", "newest"]


@dataclass(frozen=True, slots=True)
class FoundArtifact:
    """An artifact that was taken.

    Attributes:
        files: what was unpacked of it.
        relation: how its commit is related to the one that is tested.
        behind: how many commits of the base branch's history lie between the starting point and its own commit; None
            when it is not among the last `MAX_COMMITS`.
    """

    files: tuple[Path, ...]
    sha: str
    base_ref: str
    relation: Relation
    behind: int | None
    created_at: datetime | None

    def sentence(self, now: datetime) -> str:
        """What was taken and how old it is: `compared with main at 1a2b3c4 (the merge base), 3 h old`."""
        age = f", {duration(max(0.0, (now - self.created_at).total_seconds()))} old" if self.created_at else ""
        place = {
            "merge_base": "the merge base",
            "base": "its base",
            "history": f"{number_of(self.behind or 0, 'commit')} before the one it is based on",
            "newest": "the newest there is",
        }[self.relation]
        return f"compared with {name_of(self.base_ref)} at {self.sha[:7]} ({place}){age}"


@dataclass(frozen=True, slots=True)
class NotFound:
    """There is none. `reason` is a sentence; `failed` tells that GitHub was in the way, and there may be one."""

    reason: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class _Candidate:
    artifact: Artifact
    origin: ArtifactOrigin
    relation: Relation
    behind: int | None


Check = Callable[[Sequence[Path], str], str | None]
"""From the files of an artifact and its run's commit to why it is no use; None if it is."""


async def find_artifact(github: GitHub, search: Search, folder: Path, check: Check) -> FoundArtifact | NotFound:
    """Look for a report of the base branch and unpack it below `folder`.

    The merge base's own is preferred, then that of the nearest commit before it, then the newest of the branch. Only
    reports of concluded runs of the repository's own branch are taken. GitHub's refusals are reasons, too.

    Raises:
        StorageError: `folder` cannot be written.
    """
    try:
        listed = await artifacts_named(github, search.artifact)
        trusted = [artifact for artifact in listed if _is_of_branch(artifact, search.base_ref)]
        fresh = [artifact for artifact in trusted if not artifact.expired]
        if not fresh:
            return NotFound(_why_none(search, listed, trusted))
        history = await _history(github, search)
        first: Relation = "merge_base" if search.head_sha else "base"
        refused: list[str] = []
        failed = False
        for number, candidate in enumerate(_in_order(fresh, history, first), start=1):
            try:
                found = await _try(github, candidate, folder / str(number), check)
            except GitHubError as error:
                if error.kind in ("rate_limited", "unreachable"):
                    raise
                failed |= error.kind != "missing"
                found = str(error)
            if not isinstance(found, str):
                sha, created_at = candidate.origin.head_sha, candidate.artifact.created_at
                return FoundArtifact(found, sha, search.base_ref, candidate.relation, candidate.behind, created_at)
            refused.append(f"run {candidate.origin.id}: {found}")
            if number == MAX_TRIED:
                break
    except GitHubError as error:
        hint = " (reading artifacts needs `actions: read`)" if error.kind == "forbidden" else ""
        return NotFound(f"no baseline: {error}{hint}", failed=True)
    reason = f"no baseline: none of the last reports of {search.branch} can be used ({'; '.join(refused)})"
    return NotFound(reason, failed)


async def _try(github: GitHub, candidate: _Candidate, folder: Path, check: Check) -> tuple[Path, ...] | str:
    """Return the files of a candidate, or why it is not taken."""
    run = await workflow_run(github, candidate.origin.id)
    if run.status != "completed":
        return "it has not ended"
    if run.event not in _TRUSTED_EVENTS:
        return f"it ran on {run.event}"
    files = await fetch(github, candidate.artifact, folder, _NAMES)
    return check(files, candidate.origin.head_sha) or files


def _is_of_branch(artifact: Artifact, branch: str) -> bool:
    """Return True if the repository's own branch made it: a fork may have a branch of the same name."""
    run = artifact.workflow_run
    return run is not None and run.head_branch == branch and run.head_repository_id == run.repository_id


def _in_order(artifacts: Sequence[Artifact], history: Sequence[str], first: Relation) -> Iterator[_Candidate]:
    """Yield the best first: along the history, then by age. Of one commit, the newest."""
    newest_first = sorted(artifacts, key=lambda artifact: -artifact.id)
    runs = [(artifact, artifact.workflow_run) for artifact in newest_first if artifact.workflow_run]
    for behind, sha in enumerate(history):
        for artifact, run in runs:
            if run.head_sha == sha:
                yield _Candidate(artifact, run, "history" if behind else first, behind)
    for artifact, run in runs:
        if run.head_sha not in history:
            yield _Candidate(artifact, run, "newest", None)


async def _history(github: GitHub, search: Search) -> list[str]:
    """Return the merge base and the commits before it, the nearest first; empty when GitHub does not know them."""
    try:
        start = search.base_sha
        if start and search.head_sha:
            path = f"compare/{start}...{search.head_sha}"
            start = (await github.get(path, CommitComparison, "comparison", per_page=1)).merge_base_commit.sha
        if not start:
            return []
        commits = await github.list("commits", Commit, "commit", limit=MAX_COMMITS, sha=start)
    except GitHubError as error:
        if error.kind in ("rate_limited", "unreachable"):
            raise
        return []  # a rewritten branch: the newest report is still there
    return [commit.sha for commit in commits]


def _why_none(search: Search, listed: Sequence[Artifact], trusted: Sequence[Artifact]) -> str:
    if trusted:
        return f"no baseline: every artifact {search.artifact!r} of {search.branch} has expired"
    if listed:
        among = f" among the last {MAX_LISTED:,}" if len(listed) == MAX_LISTED else ""
        return f"no baseline: no run of {search.branch} itself has left an artifact {search.artifact!r}{among}"
    return f"no baseline: there is no artifact {search.artifact!r} yet; the first run on {search.branch} makes one"
