"""GitHub Actions as a host: the change under test, earlier results, and how verdicts are shown."""

import asyncio
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from ci_evals.dependencies import touched
from ci_evals.errors import CiEvalsError, ConfigError, HostError, Problem, StorageError
from ci_evals.files import write_atomically
from ci_evals.format import number_of, without_commands
from ci_evals.gate.bars import VerdictStatus
from ci_evals.hosts import (
    ArtifactNames,
    BaselineChoice,
    CommentMode,
    Host,
    Job,
    Log,
    MainCommit,
    Posting,
    Previous,
    Remote,
    committed_baseline,
)
from ci_evals.merge_base.commit import find_merge_base, first_parent
from ci_evals.model.report import Checkout
from ci_evals.plugins.ci.annotations import Annotation
from ci_evals.plugins.ci.baseline import PATIENCE_S, checkout_problem
from ci_evals.plugins.ci.places import checkout_of, locate_problems, path_in
from ci_evals.plugins.github.api import connect
from ci_evals.plugins.github.baseline import (
    changed_files,
    find_earlier,
    find_merge_base_online,
)
from ci_evals.plugins.github.comment import post_text
from ci_evals.plugins.github.context import read_context, remove_credentials
from ci_evals.plugins.github.job import GitHubJob
from ci_evals.plugins.github.log import JobLog, annotation_commands
from ci_evals.plugins.github.step_files import append_summary, outputs_of_all, write_outputs
from ci_evals.redaction import Redactor, sensitive_values
from ci_evals.reports.markdown import problems_text, suites_text, unchanged_text
from ci_evals.reports.summary import Summary
from ci_evals.streams import say
from ci_evals.suite.types import CheckedSuite

_DECIDING = ("run", "merge", "grade")
"""The commands that set the output `verdict` for later steps."""


class GitHubActions(Host):
    """A job of GitHub Actions."""

    name = "GitHub Actions"

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        self._context = read_context(environ)
        self.lacks_secrets = self._context.read_only
        self.on_default_branch = self._context.makes_baselines

    def remove_credentials(self, environ: MutableMapping[str, str]) -> None:
        """Remove the job's tokens, and the files with which a step controls later steps."""
        remove_credentials(environ)

    def clean(self, text: str) -> str:
        """Return a text in which the runner finds no workflow command."""
        return without_commands(text)

    def report_failure(
        self, text: str, problems: Sequence[Problem], folder: Path, arguments: Sequence[str]
    ) -> None:
        """Print the error, annotate its problems, and set the output `verdict`."""
        if text:
            say(sys.stderr, f"{without_commands(text)}\n")  # it may quote a dataset or an answer
        annotations = []
        for problem in locate_problems(problems, folder, self._root(folder)):
            message = problem.message
            if problem.path:
                message = f"{problem.path}: {message}"
            annotations.append(Annotation("error", message, problem.file, problem.line, "ci-evals"))
        say(sys.stderr, annotation_commands(annotations, "the log has them"))
        decides = bool(arguments) and arguments[0] in _DECIDING
        if decides and self._context.output_path:
            with suppress(CiEvalsError):  # the exit code tells the same
                write_outputs(self._context.output_path, {"verdict": "error"})

    def start(self, suite: CheckedSuite, posting: Posting, log: Log, stream: TextIO) -> Job:
        """Begin the run of a suite; the log masks its secrets from now on."""
        del log
        return GitHubJob(suite, self._context, posting, stream, self._root(Path.cwd()))

    def find_earlier(
        self, choice: BaselineChoice, suite: CheckedSuite, artifacts: ArtifactNames, folder: Path
    ) -> Previous:
        """Look among the artifacts of the base branch and of earlier attempts."""
        return find_earlier(choice, suite, self._context, artifacts, folder)

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
        remote = None
        if context.repository:
            url = f"{context.server_url}/{context.repository}"
            remote = Remote(url, context.server_url, "x-access-token", context.token)
        return MainCommit(sha, context.base_ref or "main", remote)

    def explain_lost_baseline(self, checkout: Checkout) -> str | None:
        """Return why the results of the default branch cannot be a baseline; None if they can."""
        problem = checkout_problem(checkout)
        if problem is None or not self._context.makes_baselines:
            return None
        return f"this run cannot be a baseline: {problem}"

    def find_committed(self, suite: CheckedSuite, folder: Path) -> Path | None:
        """Return the report that is committed with a suite.

        For a change to be merged, it is read from the base branch: the change could bring its own.
        """
        context = self._context
        if context.event not in ("pull_request", "merge_group"):
            return super().find_committed(suite, folder)
        path = committed_baseline(suite)
        name = path_in(checkout_of(suite, self._root(Path.cwd())), path)

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

    def find_unchanged(self, suite: CheckedSuite, stream: TextIO) -> str | None:
        """Return why a suite need not run: the change touches nothing that it depends on.

        Only pull requests and merge groups are looked at. Failing to list the changed files is a
        warning.
        """
        context = self._context
        if not suite.skip_unchanged or context.event not in ("pull_request", "merge_group"):
            return None

        async def ask() -> tuple[str, ...] | None:
            async with connect(context, patience_s=PATIENCE_S) as github:
                return await changed_files(github, context.base_sha or "", context.sha or "")

        problem = "GitHub lists no more than 300 changed files"
        try:
            changed = asyncio.run(ask())
        except HostError as error:
            changed, problem = None, str(error)
        if changed is None:
            JobLog(stream).warn(
                f"{suite.name} runs although it has `skip_unchanged`:"
                f" the changed files are unknown: {problem}"
            )
            return None
        patterns = list(suite.depends_on)
        if context.workflow_file:  # it may set the model
            patterns.append(f"/{context.workflow_file}")
        if touched(
            changed, path_in(checkout_of(suite, self._root(Path.cwd())), Path(suite.file)), patterns
        ):
            return None
        others = number_of(len(changed), "other file")
        return f"nothing that the suite depends on has changed ({others} did)"

    def report_unchanged(self, text: str, suite: str, posting: Posting, stream: TextIO) -> None:
        """Show why a suite was not run, and set the verdict to `pass`."""

        def render(**options: str | None) -> str:
            return unchanged_text(text, suite, **options)  # type: ignore[arg-type]  # by keyword

        self._show_text(render, "pass", suite, posting, stream)
        if self._context.output_path:
            write_outputs(self._context.output_path, {"verdict": "pass"})
        JobLog(stream).say([f"{suite}: not run: {text}"])

    def report_problems(
        self, error: CiEvalsError, folder: Path, suite: str, posting: Posting, stream: TextIO
    ) -> None:
        """Show in the job's summary and in the comment that an error has ended the command."""
        problems: Sequence[Problem] = [Problem("", None, "", str(error))]
        if isinstance(error, ConfigError):
            problems = error.problems
        redactor = Redactor(sensitive_values(self.environ))
        problems = redactor.clean(locate_problems(problems, folder, self._root(folder)))

        def render(**options: str | None) -> str:
            return problems_text(problems, **options)  # type: ignore[arg-type]  # by keyword

        self._show_text(render, "error", suite, posting, stream)

    def report_lost_run(self, text: str, note: Mapping[str, str]) -> None:
        """Show in the job's summary and in the comment that a run ended without a verdict."""
        if note:
            comment: CommentMode = note["comment"]  # type: ignore[assignment]  # as `Posting.note` has it
            posting = Posting(note["artifact"], comment)
            error = CiEvalsError(text)
            self.report_problems(error, Path.cwd(), note["suite"], posting, sys.stderr)

    def report_all(
        self, summaries: Sequence[Summary], not_run: Mapping[str, str], out: Path, stream: TextIO
    ) -> None:
        """List several suites in the job's summary, and set outputs for all of them."""
        try:
            if self._context.step_summary_path:
                append_summary(
                    self._context.step_summary_path, lambda _: suites_text(summaries, not_run)
                )
            if self._context.output_path:
                write_outputs(self._context.output_path, outputs_of_all(summaries, out))
        except StorageError as error:
            JobLog(stream).warn(
                f"the outputs or the summary of all suites cannot be written: {error}"
            )

    def _show_text(
        self,
        render: Callable[..., str],
        state: VerdictStatus,
        suite: str,
        posting: Posting,
        stream: TextIO,
    ) -> None:
        """Show a text in the job's summary, and in the comment in place of a suite's section.

        Args:
            render: makes the text for the `level` of its heading, or with a `run_url`.
            state: the verdict that the text gives.
            suite: the name of the suite; empty if that could not be read.
            posting: where to show it.
            stream: the job's log.
        """
        context, log = self._context, JobLog(stream)
        try:
            if context.step_summary_path:
                append_summary(context.step_summary_path, lambda _: render(level="##"))
            if posting.comment != "off" and context.event == "pull_request":
                text = render(run_url=context.run_url)
                posted = post_text(text, state, suite, context, posting.artifact, posting.comment)
                if posted.url and context.output_path:
                    write_outputs(context.output_path, {"comment-url": posted.url})
                if posted.warning:
                    log.warn(posted.warning)
        except StorageError as error:
            log.warn(str(error))

    def _root(self, folder: Path) -> Path:
        """Return the root of the repository; `folder` if that is unknown."""
        return Path(self.environ.get("GITHUB_WORKSPACE") or folder)
