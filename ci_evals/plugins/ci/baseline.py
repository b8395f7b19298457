"""Finds the base branch's report among the results of earlier runs on a CI system."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from ci_evals.engine.journal import JOURNAL, MAIN_JOURNAL, journals_of
from ci_evals.errors import HostError, StorageError
from ci_evals.format import name_of, number_of, short_sha
from ci_evals.gate.compare import NoComparison
from ci_evals.hosts import NotFound, StoredReport, StoredSuite
from ci_evals.model.report import Checkout, SuiteInfo
from ci_evals.reports.read import baseline_of, read_report
from ci_evals.reports.report_json import REPORT
from ci_evals.reports.saved import SavedReport

T = TypeVar("T")

MAX_TRIED: Final = 5  # downloads
PATIENCE_S: Final = 60.0  # with the CI system's limits and failures, before a run starts

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Candidate(Generic[T]):
    """Results that a run of the base branch has left.

    Attributes:
        source: the CI system's own data for downloading them.
        run: the name of the run: `run 12`.
        head_sha: the commit of the run; None if only its report says so.
        place: how that commit is related to the one under test, in words.
        of_other_job: True if another job has probably left them, under the same name.
    """

    source: T
    run: str
    head_sha: str | None
    place: str = "the newest there is"
    of_other_job: bool = False


@dataclass(frozen=True, slots=True)
class Download:
    """Unpacked results, and the page of the run that left them."""

    files: Sequence[Path]
    run_url: str


@dataclass(frozen=True, slots=True)
class NoResults:
    """A run has left nothing to download; `reason` says why if it is known."""

    reason: str | None = None


class BaseBranch(Protocol[T]):
    """The base branch on a CI system. Every method may raise `HostError`.

    Attributes:
        name: its name.
        start: the commit where `history` starts, in words: `the merge base`.
        takes_other_commits: True if a report counts although its run checked out another commit of
            the branch than the one that it was started for.
    """

    name: str
    start: str
    takes_other_commits: bool

    async def history(self) -> Sequence[str]:
        """Return the commit to compare with and those before it, the nearest first.

        The history is empty if the commit is not known.
        """
        ...

    async def candidates(self, history: Collection[str]) -> Sequence[Candidate[T]] | NotFound:
        """Return the results of the branch's own runs, newest first.

        Runs of other branches count for the commits of the history: a branch that a change is
        stacked on has no runs of its own.
        """
        ...

    async def download(
        self, source: T, folder: Path, names: Collection[str]
    ) -> Download | NoResults | str:
        """Unpack the files of these names, or return why the run cannot be trusted.

        Return `NoResults` if there is nothing to download.
        """
        ...

    async def has_commit(self, sha: str) -> bool:
        """Return True if a commit is on the branch: the newest there, or before it."""
        ...


@dataclass(frozen=True, slots=True)
class BaseReport:
    """A report of the base branch.

    Attributes:
        path: its report.json.
        report: the report.
        recording: the journal in the same artifact, if there is one.
        place: how its commit is related to the one under test, in words.
        run_url: the page of the run that left it.
        suites: all suites with a report in the same artifact.
    """

    path: Path
    report: SavedReport
    recording: Path | None
    place: str
    run_url: str
    suites: Sequence[SuiteInfo] = ()

    def stored(self, branch: str) -> StoredReport:
        """Return its place, for a process that has no credentials to download it.

        Args:
            branch: the name of the base branch.
        """
        suites = tuple(StoredSuite(info.name, info.file) for info in self.suites)
        return StoredReport(self.path, branch, self.place, self.run_url, self.recording, suites)


@dataclass(frozen=True, slots=True)
class _OtherSuites:
    """An artifact has reports, but of other suites."""

    suites: Sequence[SuiteInfo]


@dataclass(frozen=True, slots=True)
class _Refused:
    """The CI system did not let us look at a run."""

    reason: str


async def find_base_report(
    branch: BaseBranch[T], suite: str, folder: Path, suites: Collection[str] = ()
) -> BaseReport | NotFound:
    """Look for a suite's report of the base branch and unpack it below `folder`.

    The report of the merge base is preferred, then the one of the nearest commit before it, then
    the newest of the branch; results of other jobs come after all of these. Only complete reports
    of concluded runs of the repository's own branch count, and only if the checkout was a commit of
    that branch, without changes. Reports of another commit than their run's come last, where they
    count at all.

    Args:
        branch: where to look.
        suite: the name of the suite.
        folder: where artifacts are unpacked.
        suites: the names of all suites that are run. If the base branch has others, the suite may
            be one of them under a new name, so a comparison was expected.

    Raises:
        HostError: the CI system cannot be reached or refuses.
        StorageError: `folder` cannot be written.
    """
    history = await branch.history()
    candidates = await branch.candidates(history)
    if isinstance(candidates, NotFound):
        return candidates
    own = [candidate for candidate in candidates if not candidate.of_other_job]
    others = [candidate for candidate in candidates if candidate.of_other_job]
    found = await _find_among(branch, own or others, history, suite, folder / "own", suites)
    if isinstance(found, NotFound) and own and others:
        moved = await _find_among(branch, others, history, suite, folder / "others", suites)
        if isinstance(moved, BaseReport):
            return moved
    return found


async def _find_among(
    branch: BaseBranch[T],
    candidates: Sequence[Candidate[T]],
    history: Sequence[str],
    suite: str,
    folder: Path,
    suites: Collection[str],
) -> BaseReport | NotFound:
    """Return the best report among candidates, of which `MAX_TRIED` are downloaded at most."""
    best_first = _sort_candidates(candidates, history, branch.start)
    reasons: list[str] = []
    known_suites: set[str] = set()
    failed = False
    of_another_commit: BaseReport | None = None
    tried = 0
    for candidate in best_first:
        if tried == MAX_TRIED:
            break
        report = await _try(branch, candidate, suite, folder / str(tried), history)
        if not isinstance(report, NoResults):
            tried += 1
        match report:
            case BaseReport() if _is_of_its_run(candidate, report.report):
                return report
            case BaseReport():
                of_another_commit = of_another_commit or report
            case _OtherSuites():
                known_suites |= {info.name for info in report.suites}
            case NoResults(reason=None):
                pass
            case _Refused(reason) | NoResults(reason):
                reasons.append(f"{candidate.run}: {reason}")
                failed = failed or isinstance(report, _Refused)
            case reason:
                reasons.append(f"{candidate.run}: {reason}")
    if of_another_commit:
        return of_another_commit
    if not tried and not reasons:
        reason = f"none of the last runs of {name_of(branch.name)} has left results of this job"
        return NotFound(reason, expected=True)
    return _explain(branch.name, reasons, known_suites.difference(suites, (suite,)), failed=failed)


def _explain(
    branch: str, reasons: Sequence[str], others: Collection[str], *, failed: bool
) -> NotFound:
    """Return why no report of the base branch is the baseline.

    Args:
        branch: the name of the base branch.
        reasons: why reports cannot be used.
        others: the suites that have reports but are not run.
        failed: True if the CI system refused to show one of the reports.
    """
    branch = name_of(branch)
    if reasons:
        why = "; ".join(reasons[:MAX_TRIED])
        reason = f"none of the last reports of {branch} can be used ({why})"
        return NotFound(reason, expected=True, failed=failed)
    if others:
        names = ", ".join(map(name_of, sorted(others)))
        reason = f"{branch} has no report of this suite, only of {names}, which was not run here"
        return NotFound(reason, expected=True)
    return NotFound(f"{branch} has no report of this suite yet", expected=False)


def _sort_candidates(
    newest_first: Sequence[Candidate[T]], history: Sequence[str], start: str
) -> Iterator[Candidate[T]]:
    """Yield the best candidates first: along the history, then by age."""
    for behind, sha in enumerate(history):
        place = start
        if behind:
            place = f"{number_of(behind, 'commit')} before the one it is based on"
        for candidate in newest_first:
            if candidate.head_sha == sha:
                yield replace(candidate, place=place)
    for candidate in newest_first:
        if candidate.head_sha not in history:
            yield candidate


def _is_of_its_run(candidate: Candidate[T], report: SavedReport) -> bool:
    """Return True if a run checked out the commit that it was started for."""
    return report.suite.revision == (candidate.head_sha or report.suite.job_revision)


def another_commit(checked_out: str, run: str) -> str:
    """Return the problem of a run that checked out another commit than its own."""
    return f"it checked out {short_sha(checked_out)}, but ran on {short_sha(run)}"


async def _check_commit(
    branch: BaseBranch[T], candidate: Candidate[T], report: BaseReport, history: Sequence[str]
) -> BaseReport | str:
    """Return the report if the commit that it checked out counts, else the reason why not."""
    sha = str(report.report.suite.revision)
    if not branch.takes_other_commits and not _is_of_its_run(candidate, report.report):
        run_sha = candidate.head_sha or report.report.suite.job_revision
        if run_sha is None:
            return "it does not say which commit it ran on"
        return another_commit(sha, run_sha)
    if sha in history or await branch.has_commit(sha):
        return report
    return f"it checked out {short_sha(sha)}, which is not a commit of {name_of(branch.name)}"


async def _try(
    branch: BaseBranch[T],
    candidate: Candidate[T],
    suite: str,
    folder: Path,
    history: Sequence[str],
) -> BaseReport | _OtherSuites | NoResults | _Refused | str:
    """Return the report of a candidate, or why it cannot be used."""
    try:
        report = await _read(branch, candidate, suite, folder)
        if isinstance(report, BaseReport):
            return await _check_commit(branch, candidate, report, history)
    except HostError as error:
        # The next candidate would fail as well.
        if error.kind in ("expired", "rate_limited", "unreachable"):
            raise
        if error.kind == "missing":
            return str(error)
        return _Refused(str(error))
    return report


async def _read(
    branch: BaseBranch[T], candidate: Candidate[T], suite: str, folder: Path
) -> BaseReport | _OtherSuites | NoResults | str:
    """Download a candidate and return its report, or why it cannot be used."""
    download = await branch.download(candidate.source, folder, (REPORT, JOURNAL))
    if not isinstance(download, Download):
        return download
    try:
        reports = [(path, read_report(path)) for path in download.files if path.name == REPORT]
    except StorageError as error:
        return str(error)
    if not reports:
        return f"it has no {REPORT}"
    suites = [report.suite for _, report in reports]
    of_suite = [(path, report) for path, report in reports if report.suite.name == suite]
    if not of_suite:
        return _OtherSuites(suites)
    path, report = of_suite[0]
    problem = _unusable(report, suite)
    if problem:
        return problem
    place = candidate.place
    if not _is_of_its_run(candidate, report):
        place = "another commit than its run's"
    recording: Path | None = path.with_name(JOURNAL)
    if recording not in download.files:
        recording = None
    return BaseReport(path, report, recording, place, download.run_url, suites)


def checkout_problem(checkout: Checkout) -> str | None:
    """Return why results of a checkout cannot be a baseline; None if they can."""
    if not checkout.revision or checkout.dirty is None:
        return "git did not tell which commit was checked out"
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


def both_journals(files: Sequence[Path], suite: str) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the journals of a suite among the files of an attempt, and those of main's code.

    Raises:
        StorageError: a file is not a journal.
    """
    own = [path for path in files if path.name == JOURNAL]
    of_main = [path for path in files if path.name == MAIN_JOURNAL]
    return journals_of(own, suite), journals_of(of_main, suite)
