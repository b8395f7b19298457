"""The run of one suite in a job of GitHub Actions."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from ci_evals.errors import CiEvalsError
from ci_evals.files import file_name, write_atomically
from ci_evals.gate.bars import VERDICTS
from ci_evals.hosts import Job, Posting
from ci_evals.model.plan import Shard
from ci_evals.model.report import SuiteReport
from ci_evals.plugins.ci.annotations import annotations, headline_notice
from ci_evals.plugins.ci.comment import Mode, write_comment
from ci_evals.plugins.ci.places import locate_cases
from ci_evals.plugins.github.artifacts import PAGE_SUFFIX, page_name
from ci_evals.plugins.github.comment import links_of, post_comment, post_progress
from ci_evals.plugins.github.context import Context
from ci_evals.plugins.github.log import JobLog, annotation_commands
from ci_evals.plugins.github.step_files import append_summary, outputs, write_outputs
from ci_evals.redaction import Redactor, listen, mask_commands
from ci_evals.registry import FORMATS
from ci_evals.reports.markdown import shard_text, summary_document
from ci_evals.reports.notes import outcome
from ci_evals.reports.summary import Summary
from ci_evals.suite.types import CheckedSuite


class GitHubJob(Job):
    """Shows a verdict as outputs, summary, annotations and the comment on the pull request.

    Args:
        suite: the suite. The log masks its secrets from now on.
        context: the job.
        posting: how to publish the verdict.
        stream: the job's log.
        workspace: the root of the repository.
    """

    def __init__(
        self,
        suite: CheckedSuite,
        context: Context,
        posting: Posting,
        stream: TextIO,
        workspace: Path,
    ) -> None:
        self._redactor = Redactor(suite.secrets)
        self._job_log = JobLog(stream)
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
        self._job_log.write_commands(mask_commands(suite.secrets))
        if context.problem:
            self.warn(context.problem)
        # Set now, so that later steps upload the folder even if this process dies.
        self._set_outputs({"results-path": str((posting.results or suite.out).absolute())})

    def say(self, lines: Iterable[str]) -> None:
        """Print sentences of ours, which may quote text of others."""
        self._job_log.say(self._redactor.clean_text(" ".join(line.split())) for line in lines)

    def warn(self, text: str) -> None:
        """Show a warning on the page of the workflow run."""
        self._job_log.warn(self._redactor.clean_text(text))

    def locate_cases(self, suite: CheckedSuite) -> CheckedSuite:
        """Return the suite with the files of its cases as paths from the root of the repository."""
        return locate_cases(suite, self._folder, self._workspace)

    def announce(self) -> None:
        """Post that a run is under way, if the options ask for it."""
        wanted = self._posting.comment_progress and self._posting.comment == "auto"
        if wanted and self._context.pull_request:
            posted = post_progress(self._suite, self._context, self._posting.artifact)
            if posted.warning:
                self.warn(posted.warning)

    @contextmanager
    def guard_log(self) -> Iterator[None]:
        """Stop workflow commands while code under test runs, and mask secrets that turn up."""

        def hide(value: str) -> None:
            self._job_log.write_commands(mask_commands([value]))

        with self._job_log.stop_commands(), listen(hide):
            yield

    def fold(self, title: str) -> AbstractContextManager[None]:
        """Fold the output within the context, under a title."""
        return self._job_log.fold(title)

    def finish(self, summary: Summary) -> None:
        """Set the outputs, show summary and annotations, post the comment, and print the verdict.

        Problems with writing or posting are warnings. After a signal nothing is posted: GitHub
        kills a cancelled job within seconds, and a newer run may already comment.
        """
        self._append_summary(summary_document(summary).render)
        self._set_outputs(outputs(summary, self._out))
        self._hand_on_page()
        clean = self._redactor.clean_text
        self._job_log.write_commands(
            annotation_commands(
                replace(shown, message=clean(shown.message), title=clean(shown.title))
                for shown in (headline_notice(summary), *annotations(summary))
            )
        )
        mode = self._posting.comment
        wanted = self._context.event == "pull_request" and not summary.report.was_signalled
        if wanted and mode != "off":
            self._comment(summary, mode)
        self.say([f"{VERDICTS[summary.verdict.status].upper()}: {summary.verdict.reason}"])

    def finish_shard(self, shard: Shard, report: SuiteReport) -> None:
        """Show in the job's summary that a shard gives no verdict, and warn if a run did not pass.

        The job of a shard is green, even if the workflow has no merge.
        """
        self._append_summary(lambda _: shard_text(shard, report))
        if report.totals.passed < report.totals.planned:
            self.warn(
                f"shard {shard} of {report.suite.name}: {outcome(report)}. This job gives no"
                " verdict: require the job that merges the shards"
            )

    def _hand_on_page(self) -> None:
        """Copy the page for a later step, which uploads it as an artifact of its own.

        Such an artifact is named after its file, so the name of the copy must be unique among all
        jobs. The output `pages` lists the pages of all suites so far.
        """
        if self._page is None or self._context.temp is None:
            return
        folder = self._context.temp / "ci-evals-pages"
        artifact = self._posting.artifact
        try:
            content = self._page.read_bytes()
            write_atomically(folder / page_name(artifact, self._suite), [content])
        except (OSError, CiEvalsError) as error:
            self.warn(f"{self._page.name} cannot be uploaded: {error}")
            return
        names = [path.name for path in folder.glob(f"{file_name(artifact)}.*{PAGE_SUFFIX}")]
        self._set_outputs({"pages": json.dumps(sorted(names))})

    def _append_summary(self, render: Callable[[int], str]) -> None:
        """Add a text to the job's summary; if that fails, warn."""
        if self._context.step_summary_path:
            try:
                append_summary(self._context.step_summary_path, render)
            except CiEvalsError as error:
                self.warn(f"the summary is not on the job's page: GITHUB_STEP_SUMMARY: {error}")

    def _set_outputs(self, values: Mapping[str, str]) -> None:
        """Set outputs of the step; warn if that fails."""
        if self._context.output_path:
            try:
                write_outputs(self._context.output_path, values)
            except CiEvalsError as error:
                self.warn(f"the outputs cannot be set: GITHUB_OUTPUT: {error}")

    def _comment(self, summary: Summary, mode: Mode) -> None:
        """Post the comment; if that fails, write it to the results folder."""
        posted = post_comment([summary], self._context, self._posting.artifact, mode)
        if posted.url:
            self._set_outputs({"comment-url": posted.url})
        done = posted.url or posted.note
        if done:
            self.say([f"comment: {done}"])
        if posted.warning:
            self.warn(posted.warning)
            try:
                file = write_comment(summary, links_of(self._context), self._out)
            except CiEvalsError as error:
                self.warn(str(error))
            else:
                self.say([f"the comment is left in {file.name}"])
