"""The CI system that a command runs on, or a machine without one.

A host knows the change under test, finds the results of earlier runs, and shows a verdict. The
classes here are for a machine without a CI system. Plug-ins such as `plugins/github/` have
subclasses, which are listed in `registry.HOSTS`.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol, TextIO

from ci_evals.errors import HostError, Problem
from ci_evals.format import number_of, short_sha
from ci_evals.gate.baseline import Baseline
from ci_evals.gate.compare import NoComparison
from ci_evals.gate.verdict import FailOn
from ci_evals.gate.wording.bases import (
    broken_base_sentences,
    lost_report_sentences,
    source_sentence,
)
from ci_evals.model.fields import Secret
from ci_evals.model.plan import Shard
from ci_evals.model.report import Checkout, SuiteReport
from ci_evals.redaction import Redactor
from ci_evals.suite.types import RESULTS, CheckedSuite

BaselineChoice = Literal["auto", "none"] | tuple[Path, ...]
"""The baseline: the one that the host can find, none, or these reports."""

CommentMode = Literal["auto", "changes", "off", "new"]


@dataclass(frozen=True, slots=True)
class Posting:
    """Options for publishing a verdict.

    Args:
        artifact: the name of the artifact with the results.
        comment: edit the one comment of the pull request (`auto`), do so only if something changed
            or the comment would be outdated (`changes`), leave it alone (`off`), or post a new one
            (`new`).
        comment_progress: True to comment as soon as the run starts.
        fail_on: exit 1 on this verdict or worse; None leaves that to the suite.
        results: the folder that is uploaded; None for the suite's results folder.
        log: the stream that the host shows: stderr if a program reads stdout.
    """

    artifact: str = RESULTS
    comment: CommentMode = "auto"
    comment_progress: bool = False
    fail_on: FailOn | None = None
    results: Path | None = None
    log: Literal["stdout", "stderr"] = "stdout"


@dataclass(frozen=True, slots=True)
class ArtifactNames:
    """The artifacts to look for, and the suites whose results they may have.

    Attributes:
        base: the name of the artifact with the base branch's results.
        attempts: the name of the artifact of earlier attempts of this run; None to ignore them.
        suites: all suites that the command runs.
    """

    base: str
    attempts: str | None = None
    suites: Sequence[CheckedSuite] = ()


@dataclass(frozen=True, slots=True)
class StoredSuite:
    """A suite's name and file, as its report has them."""

    name: str
    file: str


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report of the base branch that a host has kept.

    Attributes:
        path: its report.json, downloaded.
        branch: the base branch.
        place: how its commit is related to the one under test, in words.
        run_url: the page of the run that left it.
        recording: the journal in the same artifact, if there is one.
        suites: all suites with a report in the same artifact.
    """

    path: Path
    branch: str
    place: str
    run_url: str
    recording: Path | None = None
    suites: tuple[StoredSuite, ...] = ()


@dataclass(frozen=True, slots=True)
class NotFound:
    """The base branch has no report that can be used.

    Attributes:
        reason: the reason.
        expected: False only if no comparison could be expected: this is the first run.
        failed: True if the CI system did not let us look.
    """

    reason: str
    expected: bool
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a host has kept of earlier runs, as files.

    Attributes:
        base: the base branch's report, or why there is none; None if nobody asked.
        warnings: the problems of the search.
        journals: the journals of earlier attempts of this run.
        main_journals: those of main's code, which ran alongside.
    """

    base: StoredReport | NotFound | None = None
    warnings: tuple[str, ...] = ()
    journals: tuple[Path, ...] = ()
    main_journals: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The files that the change under test touches, from the root of its repository; None if they
    are not known, for the reason `problem`.
    """

    names: tuple[str, ...] | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Previous:
    """The results of earlier runs that this one may use.

    Attributes:
        baseline: what to compare with, or why there is nothing; None if nobody asked.
        notes: sentences for the log.
        warnings: the problems of the search.
        journals: the journals of earlier attempts of this run.
        main_journals: those of main's code, which ran alongside.
        recording: the journal of the base branch.
    """

    baseline: Baseline | NoComparison | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    journals: tuple[Path, ...] = ()
    main_journals: tuple[Path, ...] = ()
    recording: Path | None = None


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a commit that is not in the checkout can be fetched from.

    Args:
        url: the repository, without credentials.
        server: the server's address, to which alone the token is sent.
        user: the name that the server takes for the token.
        token: the job's token; None without one.
    """

    url: str
    server: str
    user: str
    token: Secret | None


@dataclass(frozen=True, slots=True)
class MainCommit:
    """The commit that a change is compared with.

    Args:
        sha: the commit.
        name: the branch, for sentences.
    """

    sha: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({short_sha(self.sha)})"


class Log(Protocol):
    """Prints sentences and warnings."""

    def say(self, lines: Iterable[str]) -> None: ...

    def warn(self, text: str) -> None: ...


class Job:
    """The log of a suite's run. On a machine without a CI system, it prints."""

    links: Mapping[str, str] = MappingProxyType({})
    """Pages of the host about this run, by name."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def say(self, lines: Iterable[str]) -> None:
        """Print sentences."""
        self._log.say(lines)

    def warn(self, text: str) -> None:
        """Show a warning."""
        self._log.warn(text)

    def locate_cases(self, suite: CheckedSuite) -> CheckedSuite:
        """Return the suite with the files of its cases as the host names them."""
        return suite

    def guard_log(self) -> AbstractContextManager[None]:
        """Keep output of code under test from steering the host."""
        return nullcontext()

    def lift_guard(self) -> AbstractContextManager[None]:
        """Let the host itself print within the context of `guard_log`."""
        return nullcontext()

    def fold(self, title: str) -> AbstractContextManager[None]:
        """Fold the output within the context, under a title."""
        del title
        return nullcontext()

    def finish_shard(self, shard: Shard, report: SuiteReport) -> None:
        """Show the outcome of a shard, and say that it is not a verdict."""


class Host:
    """The CI system that a process runs in. This class is for a machine without one.

    Args:
        environ: the environment of the process.
    """

    name = ""
    """The name for people; empty without a CI system."""
    credentials: tuple[str, ...] = ()
    """Patterns of the variables that code under test must not see."""
    lacks_secrets = False
    """True if the host gives no secrets to this job, as for pull requests from forks."""
    on_default_branch: bool | None = None
    """True if this job runs on the default branch, whose results are baselines; None if that is
    unknown.
    """
    job_revision: str | None = None
    """The commit that this job was started for, which may differ from the one that it has checked
    out; None if that is unknown.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ

    def clean(self, text: str) -> str:
        """Return a text in which the host's log finds no command."""
        return text

    def warn(self, text: str, stream: TextIO) -> None:
        """Show a warning.

        Args:
            text: the warning.
            stream: the host's log.
        """
        raise NotImplementedError

    def print_error(self, text: str, problems: Sequence[Problem], folder: Path) -> None:
        """Print the error that ended the command.

        Args:
            text: the error, for the log.
            problems: the error, for annotations.
            folder: where relative files of problems start.
        """
        raise NotImplementedError

    def start(self, suite: CheckedSuite, log: Log, stream: TextIO) -> Job:
        """Begin the log of a suite's run.

        Args:
            suite: the suite.
            log: prints without a CI system.
            stream: the host's log.
        """
        del suite, stream
        return Job(log)

    def explain_lost_baseline(self, checkout: Checkout) -> str | None:
        """Return why this run cannot be a baseline; None if it can, or is not meant to be one.

        Args:
            checkout: the commit under test.
        """
        del checkout
        return None

    def is_touched(self, suite: CheckedSuite, names: Sequence[str]) -> bool:
        """Return True if a suite depends on one of these files of the repository."""
        del suite, names
        return True

    # What is shown if there is no verdict.

    def note_section(self, suite: str | None, posting: Posting) -> None:
        """Note what an error replaces that ends the command without a verdict.

        To be called before code under test runs, which may end this process.

        Args:
            suite: the name of the suite; empty before it is known, None if all has been published.
            posting: how the verdict would be published.
        """

    def report_error(self, problems: Sequence[Problem], fallback: Mapping[str, str] | None) -> None:
        """Show, in place of the section that was noted, that an error has ended the command.

        Args:
            problems: what is wrong; relative files start in the working folder.
            fallback: how it is published, as fields of a `Posting`, if no section was noted; None
                if the command gives no verdict.
        """

    # What follows needs the job's credentials, and may therefore happen in another process: its
    # arguments and results are values that can be sent there.

    def find_earlier(
        self,
        suite: str,
        suites: Sequence[str],
        folder: Path,
        base: str | None,
        attempts: str | None,
    ) -> Earlier:
        """Look for the results of earlier runs that the host keeps.

        Args:
            suite: the name of the suite.
            suites: the names of all suites that the command runs.
            folder: where files are unpacked.
            base: the name of the artifact with the base branch's results; None to look for none.
            attempts: the name of the artifact of earlier attempts of this run; None to ignore them.
        """
        del suite, suites, folder, base, attempts
        return Earlier()

    def find_main(self, root: Path) -> MainCommit | None:
        """Return the commit that the change under test is merged into; None if it is no change.

        Args:
            root: the root of the checkout.

        Raises:
            HostError: the commit is not in the checkout, and the host does not tell it.
        """
        del root
        return None

    def fetch(self, sha: str, repository: Path) -> None:
        """Fetch a commit of the repository under test, without its history.

        Args:
            sha: the commit.
            repository: the git repository that gets it.

        Raises:
            HostError: the host refuses or cannot be reached.
        """
        del repository
        raise HostError("missing", f"the checkout does not have {sha}, and nobody to fetch it from")

    def find_committed(self, path: Path, folder: Path) -> Path | None:
        """Return the report that is committed with a suite; None if there is none.

        Args:
            path: its place in the checkout.
            folder: an existing folder for a downloaded copy.

        Raises:
            HostError: the host refuses or cannot be reached.
        """
        del folder
        if path.is_file():
            return path
        return None

    def find_changed_files(self) -> ChangedFiles | None:
        """Return the files that the change under test touches; None if it is no change."""
        return None

    def begin(self, folder: Path, posting: Posting) -> None:
        """Tell the host where results will be.

        Args:
            folder: the results folder.
            posting: how the verdict will be published.
        """

    def announce(self, suite: str, posting: Posting) -> None:
        """Announce that the run of a suite is under way, if the options ask for it."""

    def publish(self, report: Path, folder: Path, posting: Posting) -> None:
        """Show the verdict on a suite.

        Problems with showing it are warnings.

        Args:
            report: its report.json.
            folder: the results folder, which may have report.html.
            posting: how to publish it.
        """

    def publish_shard(self, shard: str, suite: str, outcome: str, posting: Posting) -> None:
        """Show the outcome of a shard, which is not a verdict.

        Args:
            shard: its number and the number of all: `2/5`.
            suite: the name of the suite.
            outcome: what became of its runs.
            posting: how to publish it.
        """

    def report_unchanged(self, text: str, suite: str, posting: Posting) -> None:
        """Show that a suite was not run because nothing that it depends on has changed."""

    def report_problems(self, problems: Sequence[Problem], suite: str, posting: Posting) -> None:
        """Show that an error has ended the command without a verdict.

        Args:
            problems: what is wrong; relative files start in the working folder.
            suite: the name of the suite; empty if that could not be read.
            posting: where to show it.
        """

    def report_all(
        self, not_run: Mapping[str, str], folder: Path, posting: Posting, *, broken: bool
    ) -> None:
        """Show the verdict over several suites: those that were published, and others.

        Args:
            not_run: why each of the other suites was not run, by name.
            folder: the folder with the results of all.
            posting: how to publish it.
            broken: an error is the reason why one of them was not run.
        """


def committed_baseline(suite: CheckedSuite) -> Path:
    """Return the path of the report that may be committed with a suite."""
    return Path(suite.file).with_suffix(".baseline.json")


def find_previous(
    choice: BaselineChoice,
    suite: CheckedSuite,
    host: Host,
    artifacts: ArtifactNames,
    folder: Path,
) -> Previous:
    """Look for the results of earlier runs.

    Reports that are named are taken as they are. Otherwise, the host's results of the base branch
    are preferred to a report that is committed with the suite, which is read from the base branch.
    If the host refuses, that is a warning.

    Args:
        choice: what to compare with.
        suite: the suite.
        host: where to look.
        artifacts: what to look for there.
        folder: where artifacts are unpacked; they must stay until the reports are written.

    Raises:
        StorageError: a report that is named or committed cannot be read.
    """
    suites = artifacts.suites or (suite,)
    names = [other.name for other in suites]
    base = artifacts.base if choice == "auto" else None
    earlier = host.find_earlier(suite.name, names, folder, base, artifacts.attempts)
    previous = _read_base(earlier.base, suite, suites)
    previous = replace(
        previous,
        warnings=(*earlier.warnings, *previous.warnings),
        journals=earlier.journals,
        main_journals=earlier.main_journals,
    )
    if choice == "none" or isinstance(previous.baseline, Baseline):
        return previous
    if choice != "auto":
        name, paths = None, choice
    else:
        path = committed_baseline(suite)
        name = path.name
        try:
            committed = host.find_committed(path, folder)
        except HostError as error:
            problem = f"{name} of the base branch cannot be read: {error}"
            # There may be one: a run that should have been compared is not green (0024).
            none = NoComparison(problem, expected=True)
            return replace(previous, baseline=none, warnings=(*previous.warnings, problem))
        if committed is None and not host.name:
            reason = f"there is no {path.as_posix()}, and no artifacts outside of a CI system"
            none = NoComparison(reason)
            return replace(previous, baseline=none, notes=(none.sentence,))
        if committed is None:
            return previous
        paths = (committed,)
    redactor = Redactor(suite.secrets)
    from ci_evals.reports.read import read_baseline

    baseline = read_baseline(paths, suite.name, name, redactor=redactor, suites=frozenset(names))
    if isinstance(baseline, NoComparison) and choice != "auto":
        warnings = (baseline.sentence, *previous.warnings)
        return replace(previous, baseline=baseline, warnings=warnings)
    notes = (*previous.notes, describe_baseline(baseline))
    warnings = (*previous.warnings, *lost_reports(baseline))
    return replace(previous, baseline=baseline, notes=notes, warnings=warnings)


def _read_base(
    found: StoredReport | NotFound | None, suite: CheckedSuite, suites: Sequence[CheckedSuite]
) -> Previous:
    """Return the results of the base branch for a run of a suite, one of several.

    Raises:
        StorageError: the report cannot be read.
    """
    if found is None:
        return Previous()
    if isinstance(found, NotFound):
        none = NoComparison(found.reason, found.expected)
        if found.failed:
            return Previous(none, warnings=(none.sentence,))
        return Previous(none, notes=(none.sentence,))
    redactor = Redactor(suite.secrets)
    from ci_evals.reports.read import read_baseline

    baseline = read_baseline([found.path], suite.name, found.branch, redactor=redactor)
    if isinstance(baseline, Baseline):
        baseline = replace(baseline, run_url=found.run_url)
    if isinstance(baseline, Baseline) and suite.name == suites[0].name:  # once for all suites
        removed = redactor.clean(removed_suites(found.suites, suites))
        baseline = replace(baseline, removed_suites=removed)
    note = describe_baseline(baseline, found.place)
    return Previous(
        baseline, notes=(note,), warnings=lost_reports(baseline), recording=found.recording
    )


def find_unchanged(suite: CheckedSuite, host: Host, stream: TextIO) -> str | None:
    """Return why a suite with `skip_unchanged` need not run: the change under test touches nothing
    that it depends on. None if it must run.

    Args:
        suite: the suite.
        host: knows the change under test.
        stream: the host's log, which gets a warning if the changed files are not known.
    """
    if not suite.skip_unchanged:
        return None
    changed = host.find_changed_files()
    if changed is None:
        return None
    if changed.names is None:
        text = f"{suite.name} runs although it has `skip_unchanged`: the changed files are unknown"
        host.warn(f"{text}: {changed.problem}", stream)
        return None
    if host.is_touched(suite, changed.names):
        return None
    others = number_of(len(changed.names), "other file")
    return f"nothing that the suite depends on has changed ({others} did)"


def removed_suites(known: Iterable[StoredSuite], suites: Sequence[CheckedSuite]) -> tuple[str, ...]:
    """Return the names of the suites that the change under test no longer has.

    A suite whose file still exists was just not selected, unless the file has another suite now.

    Args:
        known: the suites of the base branch.
        suites: the suites that are run.
    """
    names = {suite.name for suite in suites}
    files = {Path(suite.file).resolve() for suite in suites}
    removed = []
    for info in known:
        file = Path(info.file)
        is_left_out = file.is_file() and file.resolve() not in files
        if info.name not in names and not is_left_out:
            removed.append(info.name)
    return tuple(sorted(set(removed)))


def describe_baseline(baseline: Baseline | NoComparison, place: str = "") -> str:
    """Return a sentence on the baseline, or why there is none.

    Args:
        baseline: the baseline, or the reason that there is none.
        place: how its commit is related to the one under test.
    """
    if isinstance(baseline, NoComparison):
        return baseline.sentence
    if baseline.is_broken:
        return f"nothing is compared with {baseline.label}, which is broken itself"
    runs = {cell.history.tally.graded for cell in baseline.cells.values()}
    runs.discard(0)
    now = datetime.now(UTC).timestamp()
    return str(source_sentence(baseline, now, runs, place))


def lost_reports(baseline: Baseline | NoComparison) -> tuple[str, ...]:
    """Return sentences on the variants that the base branch itself fails, and on each report of the
    baseline that looks like an outage.
    """
    if isinstance(baseline, NoComparison):
        return ()
    return (*broken_base_sentences(baseline), *lost_report_sentences(baseline))
