"""The CI system that a command runs on, or a machine without one.

A host knows the change under test, finds the results of earlier runs, and shows a verdict. The
classes here are for a machine without a CI system. Plug-ins such as `plugins/github/` have
subclasses, which are listed in `registry.HOSTS`.
"""

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol, TextIO

from ci_evals.errors import CiEvalsError, HostError, Problem
from ci_evals.format import short_sha
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
from ci_evals.model.report import Checkout, SuiteInfo, SuiteReport
from ci_evals.redaction import Redactor
from ci_evals.reports.summary import Summary
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
    """

    artifact: str = RESULTS
    comment: CommentMode = "auto"
    comment_progress: bool = False
    fail_on: FailOn | None = None
    results: Path | None = None

    def note(self, suite: str) -> dict[str, str]:
        """Return the values that another process needs for `Host.report_lost_run`."""
        return {"suite": suite, "artifact": self.artifact, "comment": self.comment}


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
        remote: where it can be fetched from; None if it is in the checkout.
    """

    sha: str
    name: str
    remote: Remote | None = None

    def __str__(self) -> str:
        return f"{self.name} ({short_sha(self.sha)})"


class Log(Protocol):
    """Prints sentences and warnings."""

    def say(self, lines: Iterable[str]) -> None: ...

    def warn(self, text: str) -> None: ...


class Job:
    """The run of one suite on a host. On a machine without a CI system, it prints."""

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

    def announce(self) -> None:
        """Announce that the run is under way, if the options ask for it."""

    def guard_log(self) -> AbstractContextManager[None]:
        """Keep output of code under test from steering the host."""
        return nullcontext()

    def fold(self, title: str) -> AbstractContextManager[None]:
        """Fold the output within the context, under a title."""
        del title
        return nullcontext()

    def finish(self, summary: Summary) -> None:
        """Show the verdict."""

    def finish_shard(self, shard: Shard, report: SuiteReport) -> None:
        """Show the outcome of a shard, and say that it is not a verdict."""


class Host:
    """The CI system that a process runs in. This class is for a machine without one.

    Args:
        environ: the environment of the process.
    """

    name = ""
    """The name for people; empty without a CI system."""
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

    def remove_credentials(self, environ: MutableMapping[str, str]) -> None:
        """Remove variables from the environment that code under test must not see."""

    def clean(self, text: str) -> str:
        """Return a text in which the host's log finds no command."""
        return text

    def report_failure(
        self, text: str, problems: Sequence[Problem], folder: Path, arguments: Sequence[str]
    ) -> None:
        """Print the error that ended the command.

        Args:
            text: the error, for the log.
            problems: the error, for annotations.
            folder: where relative files of problems start.
            arguments: the command line.
        """
        raise NotImplementedError

    def start(self, suite: CheckedSuite, posting: Posting, log: Log, stream: TextIO) -> Job:
        """Begin the run of a suite.

        Args:
            suite: the suite.
            posting: how to publish the verdict.
            log: prints without a CI system.
            stream: the host's log.
        """
        del suite, posting, stream
        return Job(log)

    def find_earlier(
        self, choice: BaselineChoice, suite: CheckedSuite, artifacts: ArtifactNames, folder: Path
    ) -> Previous:
        """Look for the results of earlier runs that the host keeps; see `find_previous`."""
        del artifacts, folder
        if choice != "auto":
            return Previous()
        committed = committed_baseline(suite).as_posix()
        none = NoComparison(f"there is no {committed}, and no artifacts outside of a CI system")
        return Previous(none, notes=(none.sentence,))

    def find_main(self, root: Path) -> MainCommit | None:
        """Return the commit that the change under test is merged into; None if it is no change.

        Args:
            root: the root of the checkout.

        Raises:
            HostError: the commit is not in the checkout, and the host does not tell it.
        """
        del root
        return None

    def explain_lost_baseline(self, checkout: Checkout) -> str | None:
        """Return why this run cannot be a baseline; None if it can, or is not meant to be one.

        Args:
            checkout: the commit under test.
        """
        del checkout
        return None

    def find_committed(self, suite: CheckedSuite, folder: Path) -> Path | None:
        """Return the report that is committed with a suite; None if there is none.

        Args:
            suite: the suite.
            folder: an existing folder for a downloaded copy.

        Raises:
            HostError: the host refuses or cannot be reached.
        """
        del folder
        path = committed_baseline(suite)
        if path.is_file():
            return path
        return None

    def find_unchanged(self, suite: CheckedSuite, stream: TextIO) -> str | None:
        """Return why a suite with `skip_unchanged` need not run; None if it must run."""
        del suite, stream
        return None

    def report_unchanged(self, text: str, suite: str, posting: Posting, stream: TextIO) -> None:
        """Show that a suite was not run because nothing that it depends on has changed."""

    def report_problems(
        self, error: CiEvalsError, folder: Path, suite: str, posting: Posting, stream: TextIO
    ) -> None:
        """Show that an error has ended the command without a verdict.

        Args:
            error: the error.
            folder: where relative files of its problems start.
            suite: the name of the suite; empty if that could not be read.
            posting: where to show it.
            stream: the host's log.
        """

    def report_lost_run(self, text: str, note: Mapping[str, str]) -> None:
        """Show that the process of a run ended before there was a verdict.

        Args:
            text: what happened.
            note: what `Posting.note` returned for the suite; empty if none was running yet.
        """

    def report_all(
        self, summaries: Sequence[Summary], not_run: Mapping[str, str], out: Path, stream: TextIO
    ) -> None:
        """Show the verdict over several suites.

        Args:
            summaries: one for each suite that was run; at least one.
            not_run: why each of the other suites was not run, by name.
            out: the folder with the results of all.
            stream: the host's log.
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
    artifacts = replace(artifacts, suites=artifacts.suites or (suite,))
    previous = host.find_earlier(choice, suite, artifacts, folder)
    if choice == "none" or isinstance(previous.baseline, Baseline):
        return previous
    suites = {other.name for other in artifacts.suites}
    if choice != "auto":
        name, paths = None, choice
    else:
        name = committed_baseline(suite).name
        try:
            committed = host.find_committed(suite, folder)
        except HostError as error:
            problem = f"{name} of the base branch cannot be read: {error}"
            # There may be one: a run that should have been compared is not green (0024).
            none = NoComparison(problem, expected=True)
            return replace(previous, baseline=none, warnings=(*previous.warnings, problem))
        if committed is None:
            return previous
        paths = (committed,)
    redactor = Redactor(suite.secrets)
    from ci_evals.reports.read import read_baseline

    baseline = read_baseline(paths, suite.name, name, redactor=redactor, suites=suites)
    if isinstance(baseline, NoComparison) and choice != "auto":
        warnings = (baseline.sentence, *previous.warnings)
        return replace(previous, baseline=baseline, warnings=warnings)
    notes = (*previous.notes, describe_baseline(baseline))
    warnings = (*previous.warnings, *lost_reports(baseline))
    return replace(previous, baseline=baseline, notes=notes, warnings=warnings)


def removed_suites(known: Iterable[SuiteInfo], suites: Sequence[CheckedSuite]) -> tuple[str, ...]:
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
