"""GitHub Actions as a host: the change under test, earlier results, and how verdicts are shown."""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TextIO

from ci_evals.dependencies import touched
from ci_evals.errors import CiEvalsError, HostError, Problem, StorageError
from ci_evals.files import file_name, write_atomically
from ci_evals.format import without_commands
from ci_evals.gate.bars import VerdictStatus
from ci_evals.hosts import (
    ChangedFiles,
    Earlier,
    Host,
    Job,
    Log,
    MainCommit,
    Posting,
    Remote,
)
from ci_evals.merge_base.checkout import fetch_commit
from ci_evals.merge_base.commit import find_merge_base, first_parent
from ci_evals.model.report import Checkout
from ci_evals.plugins.ci.annotations import Annotation, annotations, headline_notice
from ci_evals.plugins.ci.baseline import PATIENCE_S, checkout_problem
from ci_evals.plugins.ci.comment import CommentOutcome, Mode, log_outcome
from ci_evals.plugins.ci.places import checkout_of, locate_problems, path_in
from ci_evals.plugins.github.api import connect
from ci_evals.plugins.github.artifacts import PAGE_SUFFIX, page_name
from ci_evals.plugins.github.baseline import (
    changed_files,
    find_earlier,
    find_merge_base_online,
)
from ci_evals.plugins.github.comment import links_of, post_comment, post_progress, post_text
from ci_evals.plugins.github.context import read_context
from ci_evals.plugins.github.job import GitHubJob
from ci_evals.plugins.github.log import JobLog, annotation_commands
from ci_evals.plugins.github.step_files import (
    append_summary,
    outputs,
    outputs_of_all,
    write_outputs,
)
from ci_evals.redaction import Redactor, sensitive_values
from ci_evals.registry import CREDENTIALS, FORMATS
from ci_evals.reports.markdown import (
    problems_text,
    shard_text,
    suites_text,
    summary_document,
    unchanged_text,
)
from ci_evals.reports.read import read_summary
from ci_evals.reports.summary import Summary
from ci_evals.streams import say
from ci_evals.suite.types import CheckedSuite


class GitHubActions(Host):
    """A job of GitHub Actions."""

    name = "GitHub Actions"
    credentials = CREDENTIALS["GITHUB_ACTIONS"]

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        self._context = read_context(environ)
        self.lacks_secrets = self._context.read_only
        self.on_default_branch = self._context.makes_baselines
        self._published: list[Summary] = []

    def clean(self, text: str) -> str:
        """Return a text in which the runner finds no workflow command."""
        return without_commands(text)

    def warn(self, text: str, stream: TextIO) -> None:
        """Show a warning on the page of the workflow run."""
        JobLog(stream).warn(text)

    def print_error(self, text: str, problems: Sequence[Problem], folder: Path) -> None:
        """Print the error, and annotate its problems."""
        if text:
            say(sys.stderr, f"{without_commands(text)}\n")  # it may quote a dataset or an answer
        annotated = []
        for problem in locate_problems(problems, folder, self._root):
            message = problem.message
            if problem.path:
                message = f"{problem.path}: {message}"
            annotated.append(Annotation("error", message, problem.file, problem.line, "ci-evals"))
        say(sys.stderr, annotation_commands(annotated, "the log has them"))

    def start(self, suite: CheckedSuite, log: Log, stream: TextIO) -> Job:
        """Begin the log of a suite's run; it masks the suite's secrets from now on."""
        del log
        return GitHubJob(suite, self._context, stream, self._root)

    def explain_lost_baseline(self, checkout: Checkout) -> str | None:
        """Return why the results of the default branch cannot be a baseline; None if they can."""
        problem = checkout_problem(checkout)
        if problem is None or not self._context.makes_baselines:
            return None
        return f"this run cannot be a baseline: {problem}"

    def is_touched(self, suite: CheckedSuite, names: Sequence[str]) -> bool:
        """Return True if a suite, or the workflow that runs it, depends on one of these files."""
        patterns = list(suite.depends_on)
        if self._context.workflow_file:  # it may set the model
            patterns.append(f"/{self._context.workflow_file}")
        file = Path(suite.file)
        return bool(touched(names, path_in(checkout_of(file, self._root), file), patterns))

    # With credentials.

    def find_earlier(
        self,
        suite: str,
        suites: Sequence[str],
        folder: Path,
        base: str | None,
        attempts: str | None,
    ) -> Earlier:
        """Look among the artifacts of the base branch and of earlier attempts."""
        return find_earlier(self._context, suite, suites, folder, base, attempts)

    def find_main(self, root: Path) -> MainCommit | None:
        """Return the base of a pull request or merge group."""
        context = self._context
        if context.event not in ("pull_request", "merge_group"):
            return None
        base_sha, head_sha = context.base_sha or "", context.sha or ""
        sha: str | None = base_sha
        if context.event == "pull_request":
            sha = first_parent(root, head_sha) or find_merge_base(root, base_sha, head_sha)

        async def ask() -> str:
            async with connect(context, patience_s=PATIENCE_S) as github:
                return await find_merge_base_online(github, base_sha, head_sha)

        if not sha:
            sha = asyncio.run(ask())
        return MainCommit(sha, context.base_ref or "main")

    def fetch(self, sha: str, repository: Path) -> None:
        """Fetch a commit of the repository under test, without its history."""
        context = self._context
        if not context.repository:
            super().fetch(sha, repository)
        url = f"{context.server_url}/{context.repository}"
        remote = Remote(url, context.server_url, "x-access-token", context.token)
        fetch_commit(sha, remote, repository)

    def find_committed(self, path: Path, folder: Path) -> Path | None:
        """Return the report that is committed with a suite.

        For a change to be merged, it is read from the base branch: the change could bring its own.
        """
        context = self._context
        if context.event not in ("pull_request", "merge_group"):
            return super().find_committed(path, folder)
        name = path_in(checkout_of(path, self._root), path)

        async def download() -> str | None:
            async with connect(context, patience_s=PATIENCE_S) as github:
                return await github.read_text(name, context.base_sha or "")

        if not context.base_sha or Path(name).is_absolute():
            return None
        text = asyncio.run(download())
        if text is None:
            return None
        copy = folder / path.name
        write_atomically(copy, [text.encode()])
        return copy

    def find_changed_files(self) -> ChangedFiles | None:
        """Return the files that a pull request or merge group touches."""
        context = self._context
        if context.event not in ("pull_request", "merge_group"):
            return None

        async def ask() -> tuple[str, ...] | None:
            async with connect(context, patience_s=PATIENCE_S) as github:
                return await changed_files(github, context.base_sha or "", context.sha or "")

        try:
            names = asyncio.run(ask())
        except HostError as error:
            return ChangedFiles(None, str(error))
        return ChangedFiles(names, "GitHub lists no more than 300 changed files")

    def begin(self, folder: Path, posting: Posting) -> None:
        """Set where results will be, so that later steps upload them even if the process dies."""
        self._set_outputs({"results-path": str(posting.results or folder)}, posting)

    def announce(self, suite: str, posting: Posting) -> None:
        """Post that a run is under way, if the options ask for it."""
        wanted = posting.comment_progress and posting.comment == "auto"
        if wanted and self._context.pull_request:
            posted = post_progress(suite, self._context, posting.artifact)
            if posted.warning:
                self._log(posting).warn(posted.warning)

    def publish(self, report: Path, folder: Path, posting: Posting) -> None:
        """Set the outputs, show summary and annotations, and post the comment.

        Problems with writing or posting are warnings. After a signal nothing is posted: GitHub
        kills a cancelled job within seconds, and a newer run may already comment.
        """
        # The command does not know the job's token, so an answer may have it in any form.
        summary = read_summary(report, self._redactor)
        self._published.append(summary)
        self._append_summary(summary_document(summary).render, posting)
        self._set_outputs(outputs(summary, folder), posting)
        self._hand_on_page(summary.report.suite.name, folder, posting)
        shown = (headline_notice(summary), *annotations(summary))
        self._log(posting).write_commands(annotation_commands(map(self._cleaned, shown)))
        wanted = self._context.event == "pull_request" and not summary.report.was_signalled
        mode = posting.comment
        if wanted and mode != "off":
            self._comment(summary, folder, mode, posting)

    def publish_shard(self, shard: str, suite: str, outcome: str, posting: Posting) -> None:
        """Show in the job's summary that a shard gives no verdict."""
        self._append_summary(lambda _: shard_text(shard, suite, outcome), posting)

    def report_unchanged(self, text: str, suite: str, posting: Posting) -> None:
        """Show why a suite was not run, and set the verdict to `pass`."""

        def render(**options: str | None) -> str:
            return unchanged_text(text, suite, **options)  # type: ignore[arg-type]  # by keyword

        self._show_text(render, "pass", suite, posting)
        self._set_outputs({"verdict": "pass"}, posting)
        self._log(posting).say([f"{suite}: not run: {text}"])

    def report_problems(self, problems: Sequence[Problem], suite: str, posting: Posting) -> None:
        """Show in the job's summary and in the comment that an error has ended the command, and set
        the verdict to `error`.
        """
        located = self._redactor.clean(locate_problems(problems, Path.cwd(), self._root))

        def render(**options: str | None) -> str:
            return problems_text(located, **options)  # type: ignore[arg-type]  # by keyword

        self._show_text(render, "error", suite, posting)
        self._set_outputs({"verdict": "error"}, posting)

    def report_all(
        self, not_run: Mapping[str, str], folder: Path, posting: Posting, *, broken: bool
    ) -> None:
        """List several suites in the job's summary, and set outputs for all of them."""
        if not self._published:
            return  # each error has set the outputs
        text = suites_text(self._published, not_run)
        self._append_summary(lambda _: text, posting)
        values = outputs_of_all(self._published, folder)
        if broken:
            values["verdict"] = "error"
        self._set_outputs(values, posting)

    # Its parts.

    def _comment(self, summary: Summary, folder: Path, mode: Mode, posting: Posting) -> None:
        """Post the comment; if that fails, write it to the results folder."""
        posted = post_comment([summary], self._context, posting.artifact, mode)
        self._set_address(posted, posting)
        links = links_of(self._context)
        log_outcome(posted, summary, links, folder, self._log(posting), self._redactor)

    def _show_text(
        self, render: Callable[..., str], state: VerdictStatus, suite: str, posting: Posting
    ) -> None:
        """Show a text in the job's summary, and in the comment in place of a suite's section.

        Args:
            render: makes the text for the `level` of its heading, or with a `run_url`.
            state: the verdict that the text gives.
            suite: the name of the suite; empty if that could not be read.
            posting: where to show it.
        """
        context = self._context
        self._append_summary(lambda _: render(level="##"), posting)
        if posting.comment != "off" and context.event == "pull_request":
            text = render(run_url=context.run_url)
            posted = post_text(text, state, suite, context, posting.artifact, posting.comment)
            self._set_address(posted, posting)
            if posted.warning:
                self._log(posting).warn(self._clean(posted.warning))

    def _set_address(self, posted: CommentOutcome, posting: Posting) -> None:
        """Set the address of a comment as an output, if there is one."""
        if posted.url:
            self._set_outputs({"comment-url": posted.url}, posting)

    def _hand_on_page(self, suite: str, folder: Path, posting: Posting) -> None:
        """Copy the page for a later step, which uploads it as an artifact of its own.

        Such an artifact is named after its file, so the name of the copy must be unique among all
        jobs. The output `pages` lists the pages of all suites so far.
        """
        page = folder / FORMATS["html"].file
        if self._context.temp is None or not page.is_file():
            return
        pages = self._context.temp / "ci-evals-pages"
        artifact = posting.artifact
        try:
            write_atomically(pages / page_name(artifact, suite), [page.read_bytes()])
        except (OSError, CiEvalsError) as error:
            self._log(posting).warn(f"{page.name} cannot be uploaded: {error}")
            return
        names = [path.name for path in pages.glob(f"{file_name(artifact)}.*{PAGE_SUFFIX}")]
        self._set_outputs({"pages": json.dumps(sorted(names))}, posting)

    def _append_summary(self, render: Callable[[int], str], posting: Posting) -> None:
        """Add a text to the job's summary; if that fails, warn."""
        if self._context.step_summary_path:
            try:
                append_summary(self._context.step_summary_path, render)
            except StorageError as error:
                why = f"the summary is not on the job's page: GITHUB_STEP_SUMMARY: {error}"
                self._log(posting).warn(why)

    def _set_outputs(self, values: Mapping[str, str], posting: Posting) -> None:
        """Set outputs of the step; if that fails, warn."""
        if self._context.output_path:
            try:
                write_outputs(self._context.output_path, values)
            except StorageError as error:
                why = f"the outputs cannot be set: GITHUB_OUTPUT: {error}"
                self._log(posting).warn(why)

    def _log(self, posting: Posting) -> JobLog:
        return JobLog(getattr(sys, posting.log))

    def _cleaned(self, annotation: Annotation) -> Annotation:
        message, title = self._clean(annotation.message), self._clean(annotation.title)
        return replace(annotation, message=message, title=title)

    def _clean(self, text: str) -> str:
        return self._redactor.clean_text(text)

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor(sensitive_values(self.environ))

    @property
    def _root(self) -> Path:
        """The root of the repository; the working folder if that is unknown."""
        return Path(self.environ.get("GITHUB_WORKSPACE") or Path.cwd())
