"""The run of one suite in a job of GitLab CI."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from ci_evals.errors import CiEvalsError
from ci_evals.files import write_atomically
from ci_evals.gate.bars import VERDICTS
from ci_evals.hosts import Job, Posting
from ci_evals.model.plan import Shard
from ci_evals.model.report import SuiteReport
from ci_evals.plugins.ci.annotations import annotations
from ci_evals.plugins.ci.comment import CommentOutcome, Mode, write_comment
from ci_evals.plugins.ci.places import locate_cases
from ci_evals.plugins.gitlab.context import GitLabContext
from ci_evals.plugins.gitlab.log import GitLabLog
from ci_evals.plugins.gitlab.note import links_of, post_summary, post_text
from ci_evals.plugins.gitlab.quality import FILE, render
from ci_evals.redaction import Redactor, learn
from ci_evals.registry import FORMATS
from ci_evals.reports.markdown import progress_text
from ci_evals.reports.notes import outcome
from ci_evals.reports.summary import Summary
from ci_evals.suite.types import CheckedSuite


class GitLabJob(Job):
    """Shows a verdict in the log, as a code-quality report and in the note on the merge request.

    Args:
        suite: the suite. Its secrets are redacted in the log from now on.
        context: the job.
        posting: how to publish the verdict.
        stream: the job's log.
        workspace: the root of the repository.
    """

    def __init__(
        self,
        suite: CheckedSuite,
        context: GitLabContext,
        posting: Posting,
        stream: TextIO,
        workspace: Path,
    ) -> None:
        self._redactor = Redactor(suite.secrets)
        self._job_log = GitLabLog(stream)
        self._context = context
        self._posting = posting
        self._suite = suite.name
        self._out = suite.out.absolute()
        self._page: Path | None = None
        if "html" in suite.formats:
            self._page = self._out / FORMATS["html"].file
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

    def announce(self) -> None:
        """Post that a run is under way, if the options ask for it."""
        wanted = self._posting.comment_progress and self._posting.comment == "auto"
        if wanted and self._context.merge_request:
            text = progress_text(self._suite, self._context.job_url)
            posted = post_text(text, "running", self._suite, self._context)
            if posted.warning:
                self.warn(posted.warning)

    def fold(self, title: str) -> AbstractContextManager[None]:
        """Fold the output within the context, under a title."""
        return self._job_log.fold(title)

    def finish(self, summary: Summary) -> None:
        """Write the code-quality report, post the note, and print the verdict.

        Problems with writing or posting are warnings. After a signal nothing is posted.
        """
        self._write_quality_report(summary)
        mode = self._posting.comment
        wanted = self._context.merge_request and not summary.report.was_signalled
        if wanted and mode != "off":
            self._comment(summary, mode)
        self.say([f"{VERDICTS[summary.verdict.status].upper()}: {summary.verdict.reason}"])

    def finish_shard(self, shard: Shard, report: SuiteReport) -> None:
        """Warn if a run of a shard did not pass: its job is green, even without a merge."""
        if report.totals.passed < report.totals.planned:
            self.warn(
                f"shard {shard} of {report.suite.name}: {outcome(report)}. This job gives no"
                " verdict: the job that merges the shards does"
            )

    def _write_quality_report(self, summary: Summary) -> None:
        clean = self._redactor.clean_text
        cleaned = [
            replace(shown, message=clean(shown.message), title=clean(shown.title))
            for shown in annotations(summary)
        ]
        try:
            write_atomically(self._out / FILE, [render(cleaned, self._suite)])
        except CiEvalsError as error:
            self.warn(f"there is no code-quality report: {error}")

    def _comment(self, summary: Summary, mode: Mode) -> None:
        """Post the note; if that fails, write it to the results folder."""
        posted: CommentOutcome = post_summary(summary, self._context, mode, self._page)
        done = posted.url or posted.note
        if done:
            self.say([f"comment: {done}"])
        if posted.warning:
            self.warn(posted.warning)
            try:
                file = write_comment(summary, links_of(self._context, self._page), self._out)
            except CiEvalsError as error:
                self.warn(str(error))
            else:
                self.say([f"the comment is left in {file.name}"])
