"""The results of earlier runs among GitHub's artifacts: the base branch's, and earlier attempts'."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from ci_evals.engine.journal import JOURNAL, journals_of
from ci_evals.errors import GitHubError, StorageError
from ci_evals.format import name_of, number_of
from ci_evals.gate.compare import NoComparison
from ci_evals.github.api import GitHub, WorkflowRun, connect
from ci_evals.github.artifacts import MAX_LISTED, Artifact, ArtifactOrigin, artifacts_of_run, fetch
from ci_evals.github.context import Context
from ci_evals.hosts import (
    ArtifactNames,
    BaselineChoice,
    Previous,
    describe_baseline,
    lost_reports,
)
from ci_evals.redaction import Redactor
from ci_evals.reports.read import baseline_of, read_report
from ci_evals.reports.report_json import REPORT
from ci_evals.reports.saved import SavedReport
from ci_evals.suite.types import CheckedSuite

MAX_COMMITS: Final = 50
MAX_TRIED: Final = 5  # downloads
MAX_CHANGED: Final = 300  # files that GitHub lists of a comparison
PATIENCE_S: Final = 60.0  # waited at most for GitHub's limits and failures before a run starts

# Runs of other events name the base branch as theirs while they evaluate somebody's pull request.
_TRUSTED_EVENTS = frozenset(("push", "schedule", "workflow_dispatch"))


def find_earlier(
    choice: BaselineChoice,
    suite: CheckedSuite,
    context: Context,
    artifacts: ArtifactNames,
    folder: Path,
) -> Previous:
    """Look for the base branch's report, and for what earlier attempts of this run have finished.

    What GitHub refuses becomes a sentence, not an error.

    Args:
        choice: what to compare with.
        suite: what is run.
        context: the job.
        artifacts: where to look.
        folder: where artifacts are unpacked.
    """
    found = Previous()
    search = search_for(context, artifacts.base)
    if choice == "auto" and search:
        redactor = Redactor(suite.secrets)
        found = asyncio.run(_find_base(context, search, suite.name, folder / "base", redactor))
    if context.attempt > 1 and artifacts.attempts:
        try:
            journals = asyncio.run(
                _find_journals(context, artifacts.attempts, suite.name, folder / "attempts")
            )
        except (GitHubError, StorageError) as error:
            warning = f"attempt {context.attempt} starts from scratch: {error}"
            return replace(found, warnings=(*found.warnings, warning))
        found = replace(found, journals=journals)
    return found


async def _find_base(
    context: Context, search: "Search", suite: str, folder: Path, redactor: Redactor
) -> Previous:
    """Find the report and the journal of the base branch."""
    try:
        async with connect(context, patience_s=PATIENCE_S) as github:
            found = await find_base_report(github, search, suite, folder)
    except (GitHubError, StorageError) as error:
        reason = str(error)
        if context.token and isinstance(error, GitHubError) and error.kind == "forbidden":
            reason += " (reading artifacts needs `actions: read`)"
        found = NotFound(reason, failed=True)
    if isinstance(found, NotFound):
        reason = f"no baseline: {found.reason}"
        if found.failed:
            return Previous(NoComparison(reason), warnings=(reason,))
        return Previous(NoComparison(reason), notes=(reason,))
    baseline = baseline_of([found.report], suite, search.base_ref, redactor=redactor)
    note = describe_baseline(baseline, found.place)
    return Previous(
        baseline, notes=(note,), warnings=lost_reports(baseline), recording=found.recording
    )


async def _find_journals(
    context: Context, artifact: str, suite: str, folder: Path
) -> tuple[Path, ...]:
    """Return the journals of a suite that earlier attempts of this workflow run have left."""
    async with connect(context, patience_s=PATIENCE_S) as github:
        newest, *_ = await artifacts_of_run(github, context.run_id or 0, artifact)
        journals = journals_of(await fetch(github, newest, folder, (JOURNAL,)), suite)
    if not journals:
        raise GitHubError("missing", f"{artifact} has no {JOURNAL}")
    return journals


@dataclass(frozen=True, slots=True)
class Search:
    """The base branch's report to look for.

    Attributes:
        artifact: its exact name.
        base_ref: the branch whose runs are trusted.
        base_sha: a commit of it: the base of a pull request or merge group, or what a push was made
            upon.
        head_sha: the head of the pull request, for the merge base; None when `base_sha` itself is
            the point to start.
    """

    artifact: str
    base_ref: str
    base_sha: str | None
    head_sha: str | None = None


def search_for(context: Context, artifact: str) -> Search | None:
    """Return which runs an event is compared with; None for one that runs plainly.

    A pull request and a merge group are compared with their base, a push to the default branch with
    what was there before, a scheduled or dispatched run of that branch with its newest report.
    """
    event, branch = context.event, context.branch
    if event == "pull_request" and context.base_ref:
        return Search(artifact, context.base_ref, context.base_sha, context.sha)
    if event == "merge_group" and context.base_ref:
        return Search(artifact, context.base_ref, context.base_sha)
    if event == "push" and branch and context.on_default_branch:
        return Search(artifact, branch, context.base_sha)
    # GitHub schedules the default branch only, and the event need not name it.
    if branch and (
        event == "schedule" or (event == "workflow_dispatch" and context.on_default_branch)
    ):
        return Search(artifact, branch, None)
    return None


@dataclass(frozen=True, slots=True)
class BaseReport:
    """A report of the base branch. `place` says how its commit is related to the one that is
    tested.
    """

    report: SavedReport
    recording: Path | None
    place: str


@dataclass(frozen=True, slots=True)
class NotFound:
    """The base branch has no report. `failed` tells that GitHub was in the way, and there may be
    one.
    """

    reason: str
    failed: bool = False


async def find_base_report(
    github: GitHub, search: Search, suite: str, folder: Path
) -> BaseReport | NotFound:
    """Look for a suite's report of the base branch and unpack it below `folder`.

    The merge base's own is preferred, then that of the nearest commit before it, then the newest of
    the branch. Only complete reports of concluded runs of the repository's own branch are taken.

    Raises:
        GitHubError: GitHub cannot be reached or refuses.
        StorageError: `folder` cannot be written.
    """
    name, branch = search.artifact, name_of(search.base_ref)
    listed = await github.list(
        "actions/artifacts", Artifact, key="artifacts", limit=MAX_LISTED, name=name
    )
    # A fork may have a branch of the same name.
    runs = [(artifact, artifact.workflow_run) for artifact in listed if artifact.workflow_run]
    trusted = [
        _Candidate(artifact, run)
        for artifact, run in sorted(runs, key=lambda each: -each[0].id)
        if run.head_branch == search.base_ref and run.head_repository_id == run.repository_id
    ]
    fresh = [each for each in trusted if not each.artifact.expired]
    if not fresh:
        if trusted:
            return NotFound(f"every artifact {name!r} of {branch} has expired")
        if listed:
            among = f" among the last {MAX_LISTED:,}" if len(listed) == MAX_LISTED else ""
            return NotFound(f"no run of {branch} itself has left an artifact {name!r}{among}")
        return NotFound(f"there is no artifact {name!r} yet; the first run on {branch} makes one")

    refused: list[str] = []
    failed = False
    best_first = _in_order(
        fresh, await _history(github, search), "the merge base" if search.head_sha else "its base"
    )
    for number, candidate in enumerate(islice(best_first, MAX_TRIED)):
        try:
            found = await _try(github, candidate, suite, folder / str(number))
        except GitHubError as error:
            if error.kind in ("rate_limited", "unreachable"):
                raise
            failed |= error.kind != "missing"
            found = str(error)
        if isinstance(found, BaseReport):
            return found
        refused.append(f"run {candidate.run.id}: {found}")
    return NotFound(
        f"none of the last reports of {branch} can be used ({'; '.join(refused)})", failed
    )


class _Candidate(NamedTuple):
    artifact: Artifact
    run: ArtifactOrigin
    place: str = "the newest there is"


def _in_order(
    newest_first: Sequence[_Candidate], history: Sequence[str], start: str
) -> Iterator[_Candidate]:
    """Yield the best first: along the history, then by age."""
    for behind, sha in enumerate(history):
        place = f"{number_of(behind, 'commit')} before the one it is based on" if behind else start
        yield from (each._replace(place=place) for each in newest_first if each.run.head_sha == sha)
    yield from (each for each in newest_first if each.run.head_sha not in history)


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
    """Return the files that differ since the merge base, renamed ones by both names; None if there
    are too many.

    Raises:
        GitHubError: GitHub cannot be reached, refuses, or does not know the commits.
    """
    files = (
        await github.get(f"compare/{base_sha}...{head_sha}", _CommitComparison, per_page=1)
    ).files
    if len(files) >= MAX_CHANGED:
        return None
    return tuple(name for each in files for name in (each.filename, each.previous_filename) if name)


async def _history(github: GitHub, search: Search) -> list[str]:
    """Return the merge base and the commits before it, the nearest first; empty when GitHub does
    not know them.
    """
    try:
        start = search.base_sha
        if start and search.head_sha:
            path = f"compare/{start}...{search.head_sha}"
            start = (await github.get(path, _CommitComparison, per_page=1)).merge_base_commit.sha
        if not start:
            return []
        return [
            commit.sha
            for commit in await github.list("commits", _Commit, limit=MAX_COMMITS, sha=start)
        ]
    except GitHubError as error:
        if error.kind in ("rate_limited", "unreachable"):
            raise
        return []  # a rewritten branch: the newest report is still there


async def _try(github: GitHub, candidate: _Candidate, suite: str, folder: Path) -> BaseReport | str:
    """Download a candidate; returns its report, or why it is not taken."""
    run = await github.get(f"actions/runs/{candidate.run.id}", WorkflowRun)
    if run.status != "completed":
        return "it has not ended"
    if run.event not in _TRUSTED_EVENTS:
        return f"it ran on {run.event}"
    files = await fetch(github, candidate.artifact, folder, (REPORT, JOURNAL))
    try:
        reports = [(path, read_report(path)) for path in files if path.name == REPORT]
    except StorageError as error:
        return str(error)
    if not reports:
        return f"it has no {REPORT}"
    path, report = next((each for each in reports if each[1].suite.name == suite), reports[0])
    journal = path.with_name(JOURNAL)
    recording = journal if journal in files else None
    return _unusable(report, suite, run.head_sha) or BaseReport(report, recording, candidate.place)


def _unusable(report: SavedReport, suite: str, sha: str) -> str | None:
    """Return why a report is no baseline of a suite; None if it is one."""
    if report.suite.name != suite:
        return f"its report is of another suite, {report.suite.name!r}"
    if report.suite.revision != sha:
        return f"its report is of another commit, {name_of(report.suite.revision)}"
    if report.report.interrupted:
        return f"its report is incomplete: {report.report.interrupted}"
    if not any(cell.planned.graded for cell in report.head):
        return "no run of its report was graded"
    found = baseline_of([report], suite)
    return found.reason.removeprefix("no baseline: ") if isinstance(found, NoComparison) else None
