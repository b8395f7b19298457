"""The results of the base branch and of earlier attempts, found among GitHub's artifacts."""

import asyncio
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from ci_evals.engine.journal import JOURNAL, journals_of
from ci_evals.errors import HostError, StorageError
from ci_evals.format import name_of, number_of, short_sha
from ci_evals.gate.baseline import Baseline
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
    removed_suites,
)
from ci_evals.model.report import Checkout, SuiteInfo
from ci_evals.redaction import Redactor
from ci_evals.reports.read import baseline_of, read_report
from ci_evals.reports.report_json import REPORT
from ci_evals.reports.saved import SavedReport
from ci_evals.suite.types import CheckedSuite

MAX_COMMITS: Final = 50
MAX_TRIED: Final = 5  # downloads
MAX_CHANGED: Final = 300  # files that GitHub lists of a comparison
PATIENCE_S: Final = 60.0  # for GitHub's limits and failures, before a run starts

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

# Runs of other events can have the base branch as theirs while they evaluate a pull request.
_TRUSTED_EVENTS = frozenset(("push", "schedule", "workflow_dispatch"))


def find_earlier(
    choice: BaselineChoice,
    suite: CheckedSuite,
    context: Context,
    artifacts: ArtifactNames,
    folder: Path,
) -> Previous:
    """Look for the base branch's report and for the journals of earlier attempts of this run.

    Problems with GitHub become warnings.

    Args:
        choice: what to compare with.
        suite: the suite that is run.
        context: the job.
        artifacts: where to look.
        folder: where artifacts are unpacked.
    """
    previous = Previous()
    search = search_for(context, artifacts.base)
    if choice == "auto" and search:
        work = _find_base(context, search, suite, artifacts.suites, folder / "base")
        previous = asyncio.run(work)
    elif choice == "auto" and context.problem:
        previous = Previous(NoComparison(context.problem, expected=True))
    if context.attempt > 1 and artifacts.attempts:
        search_journals = _find_journals(
            context, artifacts.attempts, suite.name, folder / "attempts"
        )
        try:
            journals = asyncio.run(search_journals)
        except (HostError, StorageError) as error:
            warning = f"attempt {context.attempt} starts from scratch: {error}"
            return replace(previous, warnings=(*previous.warnings, warning))
        previous = replace(previous, journals=journals)
    return previous


async def _find_base(
    context: Context,
    search: "Search",
    suite: CheckedSuite,
    suites: Sequence[CheckedSuite],
    folder: Path,
) -> Previous:
    """Find the report and the journal of the base branch."""
    names = [each.name for each in suites]
    try:
        async with connect(context, patience_s=PATIENCE_S) as github:
            found = await find_base_report(github, search, suite.name, folder, names)
    except (HostError, StorageError) as error:
        reason = str(error)
        if context.token and isinstance(error, HostError) and error.kind == "forbidden":
            reason += " (reading artifacts needs `actions: read`)"
        found = NotFound(reason, expected=True, failed=True)
    if isinstance(found, NotFound):
        lack = NoComparison(found.reason, found.expected)
        if found.failed:
            return Previous(lack, warnings=(lack.sentence,))
        return Previous(lack, notes=(lack.sentence,))
    redactor = Redactor(suite.secrets)
    baseline = baseline_of([found.report], suite.name, search.base_ref, redactor=redactor)
    if isinstance(baseline, Baseline):
        baseline = replace(baseline, run_url=found.run_url)
    if isinstance(baseline, Baseline) and suite.name == names[0]:  # one of them says so
        removed = redactor.clean(removed_suites(found.suites, suites))
        baseline = replace(baseline, removed_suites=removed)
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
        files = await fetch(github, newest, folder, (JOURNAL,))
        journals = journals_of(files, suite)
    if not journals:
        raise HostError("missing", f"{artifact} has no {JOURNAL}")
    return journals


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
    """

    artifact: str
    base_ref: str
    base_sha: str | None
    head_sha: str | None = None
    head_ref: str | None = None


def search_for(context: Context, artifact: str) -> Search | None:
    """Return the report that an event is compared with; None for no comparison.

    Pull requests and merge groups are compared with their base, a push to the default branch with
    the commit before it, a scheduled or dispatched run of that branch with its newest report.
    """
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


@dataclass(frozen=True, slots=True)
class BaseReport:
    """A report of the base branch.

    Attributes:
        report: the report.
        recording: the journal in the same artifact, if there is one.
        place: how its commit is related to the one under test, in words.
        run_url: the page of the run that left it.
        suites: all suites with a report in the same artifact.
    """

    report: SavedReport
    recording: Path | None
    place: str
    run_url: str
    suites: Sequence[SuiteInfo] = ()


@dataclass(frozen=True, slots=True)
class NotFound:
    """The base branch has no report that can be used.

    Attributes:
        reason: the reason.
        expected: False only if no comparison could be expected: this is the first run.
        failed: True if GitHub did not let us look.
    """

    reason: str
    expected: bool
    failed: bool = False


@dataclass(frozen=True, slots=True)
class _OtherSuites:
    """An artifact has reports, but of other suites."""

    suites: Sequence[SuiteInfo]


async def find_base_report(
    github: GitHub, search: Search, suite: str, folder: Path, suites: Collection[str] = ()
) -> BaseReport | NotFound:
    """Look for a suite's report of the base branch and unpack it below `folder`.

    The report of the merge base is preferred, then that of the nearest commit before it, then the
    newest of the branch. Only complete reports of concluded runs of the repository's own branch
    count, and only if what was checked out is a commit of that branch, without changes. Those of
    another commit than their run's come last.

    Args:
        github: with a token that has `actions: read`.
        search: what to look for.
        suite: the name of the suite.
        folder: where artifacts are unpacked.
        suites: the names of all suites that are run. If the base branch has others, the suite may
            be one of them under a new name, so a comparison was expected.

    Raises:
        HostError: GitHub cannot be reached or refuses.
        StorageError: `folder` cannot be written.
    """
    candidates = await _list_candidates(github, search)
    if isinstance(candidates, NotFound):
        return candidates
    start = "its base"
    if search.head_sha:
        start = "the merge base"
    history = await _history(github, search)
    best_first = _sort_candidates(candidates, history, start)
    reasons: list[str] = []
    known_suites: set[str] = set()
    failed = False
    of_another_commit: BaseReport | None = None
    for number, candidate in enumerate(islice(best_first, MAX_TRIED)):
        try:
            report = await _try(github, candidate, suite, folder / str(number))
            if isinstance(report, BaseReport):
                report = await _check_commit(github, report, search, history)
        except HostError as error:
            if error.kind in ("rate_limited", "unreachable"):
                raise
            if error.kind != "missing":
                failed = True
            report = str(error)
        if isinstance(report, _OtherSuites):
            known_suites |= {info.name for info in report.suites}
        elif not isinstance(report, BaseReport):
            reasons.append(f"run {candidate.run.id}: {report}")
        elif report.report.suite.revision == candidate.run.head_sha:
            return report
        elif of_another_commit is None:
            of_another_commit = report
    if of_another_commit:
        return of_another_commit
    return _explain(search, reasons, known_suites.difference(suites, (suite,)), failed=failed)


def _explain(
    search: Search, reasons: Sequence[str], others: Collection[str], *, failed: bool
) -> NotFound:
    """Say why none of the reports of the base branch is the baseline.

    Args:
        search: what was looked for.
        reasons: why reports cannot be used.
        others: the suites that there are reports of, and that are not run.
        failed: GitHub did not let us look at one of them.
    """
    branch = name_of(search.base_ref)
    if reasons:
        why = "; ".join(reasons)
        reason = f"none of the last reports of {branch} can be used ({why})"
        return NotFound(reason, expected=True, failed=failed)
    if others:
        names = ", ".join(map(name_of, sorted(others)))
        reason = f"{branch} has no report of this suite, only of {names}, which was not run here"
        return NotFound(reason, expected=True)
    return NotFound(f"{branch} has no report of this suite yet", expected=False)


class _Candidate(NamedTuple):
    artifact: Artifact
    run: ArtifactOrigin
    place: str = "the newest there is"


async def _list_candidates(github: GitHub, search: Search) -> Sequence[_Candidate] | NotFound:
    """Return the artifacts of the base branch's own runs, newest first."""
    name = search.artifact
    branch = name_of(search.base_ref)
    artifacts = await github.list(
        "actions/artifacts", Artifact, key="artifacts", limit=MAX_LISTED, name=name
    )
    trusted = []
    for artifact in sorted(artifacts, key=lambda artifact: artifact.id, reverse=True):
        run = artifact.workflow_run
        if run is None or run.head_branch != search.base_ref:
            continue
        if run.head_repository_id == run.repository_id:  # a fork may have a branch of that name
            trusted.append(_Candidate(artifact, run))
    candidates = [each for each in trusted if not each.artifact.expired]
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
    branches = {each.workflow_run.head_branch for each in artifacts if each.workflow_run}
    return not branches <= {search.head_ref}


def _sort_candidates(
    newest_first: Sequence[_Candidate], history: Sequence[str], start: str
) -> Iterator[_Candidate]:
    """Yield the best first: along the history, then by age."""
    for behind, sha in enumerate(history):
        place = start
        if behind:
            place = f"{number_of(behind, 'commit')} before the one it is based on"
        for candidate in newest_first:
            if candidate.run.head_sha == sha:
                yield candidate._replace(place=place)
    for candidate in newest_first:
        if candidate.run.head_sha not in history:
            yield candidate


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

    A renamed file is there by both names.

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


async def _history(github: GitHub, search: Search) -> list[str]:
    """Return the merge base and the commits before it, the nearest first.

    The history is empty if GitHub does not know the commits.
    """
    try:
        start = search.base_sha
        if start and search.head_sha:
            path = f"compare/{start}...{search.head_sha}"
            comparison = await github.get(path, _CommitComparison, per_page=1)
            start = comparison.merge_base_commit.sha
        if not start:
            return []
        commits = await github.list("commits", _Commit, limit=MAX_COMMITS, sha=start)
    except HostError as error:
        if error.kind in ("rate_limited", "unreachable"):
            raise
        return []  # the branch was rewritten: its newest report is still there
    return [commit.sha for commit in commits]


async def _check_commit(
    github: GitHub, report: BaseReport, search: Search, history: Sequence[str]
) -> BaseReport | str:
    """Return the report if the commit that it checked out is one of the base branch."""
    sha = str(report.report.suite.revision)
    if sha in history or await _is_ancestor(github, sha, search.base_ref):
        return report
    return f"it checked out {short_sha(sha)}, which is not a commit of {name_of(search.base_ref)}"


async def _is_ancestor(github: GitHub, sha: str, branch: str) -> bool:
    """Return True if a commit is on a branch: the newest there, or before it."""
    path = f"compare/{sha}...{quote(branch, safe='')}"
    try:
        comparison = await github.get(path, _CommitComparison, per_page=1)
    except HostError as error:
        if error.kind == "missing":  # nobody knows the commit, or it has nothing in common
            return False
        raise
    return comparison.merge_base_commit.sha == sha


async def _try(
    github: GitHub, candidate: _Candidate, suite: str, folder: Path
) -> BaseReport | _OtherSuites | str:
    """Download a candidate and return its report, or why it cannot be used."""
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
    suites = [report.suite for _, report in reports]
    of_suite = [each for each in reports if each[1].suite.name == suite]
    if not of_suite:
        return _OtherSuites(suites)
    path, report = of_suite[0]
    problem = _unusable(report, suite)
    if problem:
        return problem
    place = candidate.place
    if report.suite.revision != run.head_sha:
        place = "another commit than its run's"
    recording: Path | None = path.with_name(JOURNAL)
    if recording not in files:
        recording = None
    return BaseReport(report, recording, place, run.html_url, suites)


def checkout_problem(checkout: Checkout) -> str | None:
    """Return why results of what was checked out cannot be a baseline; None if they can."""
    if not checkout.revision or checkout.dirty is None:
        return "git did not tell which commit it checked out"
    if not _SHA.fullmatch(checkout.revision):
        return f"{name_of(checkout.revision)} is not a commit"
    if checkout.dirty:
        return "files that git tracks were changed before it ran"
    return None


def _unusable(report: SavedReport, suite: str) -> str | None:
    """Return why a report cannot be the baseline of a suite; None if it can."""
    if problem := checkout_problem(Checkout(report.suite.revision, report.suite.dirty)):
        return problem
    if report.report.interrupted:
        return f"its report is incomplete: {report.report.interrupted}"
    if not any(cell.planned.graded for cell in report.head):
        return "no run of its report was graded"
    baseline = baseline_of([report], suite)
    if isinstance(baseline, NoComparison):
        return baseline.reason
    return None
