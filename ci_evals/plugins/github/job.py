"""The log of a suite's run in a job of GitHub Actions."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TextIO

from ci_evals.hosts import Job
from ci_evals.model.plan import Shard
from ci_evals.model.report import SuiteReport
from ci_evals.plugins.ci.places import locate_cases
from ci_evals.plugins.github.context import Context
from ci_evals.plugins.github.log import JobLog
from ci_evals.redaction import Redactor, listen, mask_commands
from ci_evals.reports.notes import outcome
from ci_evals.suite.types import CheckedSuite


class GitHubJob(Job):
    """Shows sentences, warnings and folded output in the log of a job.

    Args:
        suite: the suite. The log masks its secrets from now on.
        context: the job.
        stream: the job's log.
        workspace: the root of the repository.
    """

    def __init__(
        self, suite: CheckedSuite, context: Context, stream: TextIO, workspace: Path
    ) -> None:
        self._redactor = Redactor(suite.secrets)
        self._job_log = JobLog(stream)
        self._folder = Path.cwd()  # code under test may change it
        self._workspace = workspace
        self.links = context.links
        self._job_log.write_commands(mask_commands(suite.secrets))
        if context.problem:
            self.warn(context.problem)

    def say(self, lines: Iterable[str]) -> None:
        """Print sentences of ours, which may quote text of others."""
        self._job_log.say(self._redactor.clean_text(" ".join(line.split())) for line in lines)

    def warn(self, text: str) -> None:
        """Show a warning on the page of the workflow run."""
        self._job_log.warn(self._redactor.clean_text(text))

    def locate_cases(self, suite: CheckedSuite) -> CheckedSuite:
        """Return the suite with the files of its cases as paths from the root of the repository."""
        return locate_cases(suite, self._folder, self._workspace)

    @contextmanager
    def guard_log(self) -> Iterator[None]:
        """Stop workflow commands while code under test runs, and mask secrets that turn up."""

        def hide(value: str) -> None:
            self._job_log.write_commands(mask_commands([value]))

        with self._job_log.stop_commands(), listen(hide):
            yield

    def lift_guard(self) -> AbstractContextManager[None]:
        """Let the host print commands within the context."""
        return self._job_log.resume_commands()

    def fold(self, title: str) -> AbstractContextManager[None]:
        """Fold the output within the context, under a title."""
        return self._job_log.fold(title)

    def finish_shard(self, shard: Shard, report: SuiteReport) -> None:
        """Warn if a run of a shard did not pass: its job is green, even without a merge."""
        if report.totals.passed < report.totals.planned:
            self.warn(
                f"shard {shard} of {report.suite.name}: {outcome(report)}. This job gives no"
                " verdict: require the job that merges the shards"
            )
