"""The log of a suite's run in a job of GitLab CI."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TextIO

from ci_evals.hosts import Job
from ci_evals.model.plan import Shard
from ci_evals.model.report import SuiteReport
from ci_evals.plugins.ci.places import locate_cases
from ci_evals.plugins.gitlab.context import GitLabContext
from ci_evals.plugins.gitlab.log import GitLabLog
from ci_evals.redaction import Redactor, learn
from ci_evals.reports.notes import outcome
from ci_evals.suite.types import CheckedSuite


class GitLabJob(Job):
    """Shows sentences, warnings and folded output in the log of a job.

    Args:
        suite: the suite. Its secrets are redacted in the log from now on.
        context: the job.
        stream: the job's log.
        workspace: the root of the repository.
    """

    def __init__(
        self, suite: CheckedSuite, context: GitLabContext, stream: TextIO, workspace: Path
    ) -> None:
        self._redactor = Redactor(suite.secrets)
        self._job_log = GitLabLog(stream)
        self._folder = Path.cwd()  # code under test may change it
        self._workspace = workspace
        self.links = context.links
        # GitLab can't be told to mask values, so every redactor of this process must know them.
        for secret in suite.secrets:
            learn(secret)

    def say(self, lines: Iterable[str]) -> None:
        """Print sentences of ours, which may quote text of others."""
        self._job_log.say(self._redactor.clean_text(" ".join(line.split())) for line in lines)

    def warn(self, text: str) -> None:
        """Print a warning."""
        self._job_log.warn(self._redactor.clean_text(text))

    def locate_cases(self, suite: CheckedSuite) -> CheckedSuite:
        """Return the suite with the files of its cases as paths from the root of the repository."""
        return locate_cases(suite, self._folder, self._workspace)

    def fold(self, title: str) -> AbstractContextManager[None]:
        """Fold the output within the context, under a title."""
        return self._job_log.fold(title)

    def finish_shard(self, shard: Shard, report: SuiteReport) -> None:
        """Warn if a run of a shard did not pass: its job is green, even without a merge."""
        if report.totals.passed < report.totals.planned:
            self.warn(
                f"shard {shard} of {report.suite.name}: {outcome(report)}. This job gives no"
                " verdict: the job that merges the shards does"
            )
