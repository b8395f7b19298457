"""GitLab CI as a host: the change under test, earlier results, and how verdicts are shown."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final, TextIO

from ci_evals.dependencies import touched
from ci_evals.errors import CiEvalsError, HostError, Problem
from ci_evals.files import write_atomically
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
from ci_evals.merge_base.commit import first_parent
from ci_evals.model.report import Checkout
from ci_evals.plugins.ci.annotations import annotations
from ci_evals.plugins.ci.baseline import PATIENCE_S, another_commit, checkout_problem
from ci_evals.plugins.ci.comment import Mode, log_outcome
from ci_evals.plugins.ci.places import checkout_of, locate_problems, path_in
from ci_evals.plugins.gitlab.api import connect
from ci_evals.plugins.gitlab.baseline import changed_files, complete, find_earlier
from ci_evals.plugins.gitlab.context import GitLabContext, read_context
from ci_evals.plugins.gitlab.job import GitLabJob
from ci_evals.plugins.gitlab.log import GitLabLog, without_sections
from ci_evals.plugins.gitlab.note import links_of, post_summary, post_text
from ci_evals.plugins.gitlab.quality import FILE, render
from ci_evals.redaction import Redactor, sensitive_values
from ci_evals.registry import CREDENTIALS, FORMATS
from ci_evals.reports.markdown import problems_text, progress_text, unchanged_text
from ci_evals.reports.read import read_summary
from ci_evals.reports.summary import Summary
from ci_evals.streams import say
from ci_evals.suite.types import CheckedSuite

_MAX_REPORT_BYTES: Final = 512 * 1024 * 1024
_LACK: Final = "that needs a token with the scope `read_api` in GITLAB_TOKEN"


class GitLabCI(Host):
    """A job of GitLab CI."""

    name = "GitLab CI"
    credentials = CREDENTIALS["GITLAB_CI"]

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        self._variables = read_context(environ)
        self.lacks_secrets = self._variables.runs_in_fork
        self.on_default_branch = self._variables.makes_baselines
        self.job_revision = self._variables.sha or None

    def clean(self, text: str) -> str:
        """Return a text in which GitLab finds no section, and without the job's secrets.

        Unlike on GitHub, a job cannot name values to mask, and GitLab masks only variables that are
        marked as such.
        """
        return without_sections(self._redactor.clean_text(text))

    def warn(self, text: str, stream: TextIO) -> None:
        """Print a warning."""
        GitLabLog(stream).warn(text)

    def print_error(self, text: str, problems: Sequence[Problem], folder: Path) -> None:
        """Print the error."""
        del problems, folder
        if text:
            say(sys.stderr, f"{self.clean(text)}\n")  # it may quote a dataset or an answer

    def start(self, suite: CheckedSuite, log: Log, stream: TextIO) -> Job:
        """Begin the log of a suite's run; its secrets are redacted there from now on."""
        del log
        return GitLabJob(suite, self._variables, stream, self._root)

    def explain_lost_baseline(self, checkout: Checkout) -> str | None:
        """Return why the results of the default branch cannot be a baseline; None if they can."""
        context = self._variables
        if not context.makes_baselines:
            return None
        problem = checkout_problem(checkout)
        if problem is None and checkout.revision != context.sha:
            problem = another_commit(str(checkout.revision), context.sha)
        if problem is None:
            return None
        return f"this run cannot be a baseline: {problem}"

    def is_touched(self, suite: CheckedSuite, names: Sequence[str]) -> bool:
        """Return True if a suite, or the pipeline that runs it, depends on one of these files."""
        # The pipeline's own file may set the model.
        patterns = [*suite.depends_on, f"/{self._variables.config_path}"]
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
        """Return the base of a merge request."""
        request = self._context.merge_request
        if request is None:
            return None
        sha = first_parent(root, request.head_sha) or request.base_sha
        if not sha:
            return None
        return MainCommit(sha, request.target_branch or "main")

    def fetch(self, sha: str, repository: Path) -> None:
        """Fetch a commit of the repository under test, without its history."""
        context = self._context
        if context.merge_request is None:
            super().fetch(sha, repository)
            return
        server = context.api_url.partition("/api/")[0]
        # The target's, also in a fork's pipeline.
        project_url = context.merge_request.url.partition("/-/")[0]
        remote = Remote(f"{project_url}.git", server, "gitlab-ci-token", context.job_token)
        fetch_commit(sha, remote, repository)

    def find_committed(self, path: Path, folder: Path) -> Path | None:
        """Return the report that is committed with a suite.

        For a merge request, it is read from the target branch: the change could bring its own. Only
        an access token can do that.
        """
        context = self._context
        merge_request = context.merge_request
        if merge_request is None:
            return super().find_committed(path, folder)
        name = path_in(checkout_of(path, self._root), path)
        base_sha = merge_request.base_sha
        if not base_sha or Path(name).is_absolute():
            return None
        if context.token is None:
            if path.is_file():
                raise HostError("forbidden", _LACK)
            return None
        copy = folder / path.name

        async def download() -> bool:
            async with connect(context, merge_request.project_id, patience_s=PATIENCE_S) as gitlab:
                with copy.open("wb") as file:
                    return await gitlab.read_file(name, base_sha, file, _MAX_REPORT_BYTES)

        if not asyncio.run(download()):
            return None
        return copy

    def find_changed_files(self) -> ChangedFiles | None:
        """Return the files that a merge request touches."""
        context = self._context
        merge_request = context.merge_request
        if merge_request is None:
            return None
        if context.token is None:
            return ChangedFiles(None, _LACK)

        async def ask() -> tuple[str, ...] | None:
            async with connect(context, merge_request.project_id, patience_s=PATIENCE_S) as gitlab:
                return await changed_files(gitlab, merge_request.iid)

        try:
            names = asyncio.run(ask())
        except HostError as error:
            return ChangedFiles(None, str(error))
        return ChangedFiles(names, "it changes too many files")

    def announce(self, suite: str, posting: Posting) -> None:
        """Post that a run is under way, if the options ask for it."""
        wanted = posting.comment_progress and posting.comment == "auto"
        if wanted and self._context.merge_request:
            text = progress_text(suite, self._context.job_url)
            posted = post_text(text, "running", suite, self._context)
            if posted.warning:
                self._log(posting).warn(posted.warning)

    def publish(self, report: Path, folder: Path, posting: Posting) -> None:
        """Write the code-quality report, and post the note.

        Problems with writing or posting are warnings. After a signal nothing is posted.
        """
        # The command does not know the job's tokens, so an answer may have them in any form.
        summary = read_summary(report, self._redactor)
        self._write_quality_report(summary, folder, posting)
        mode = posting.comment
        wanted = self._context.merge_request and not summary.report.was_signalled
        if wanted and mode != "off":
            self._comment(summary, folder, mode, posting)

    def report_unchanged(self, text: str, suite: str, posting: Posting) -> None:
        """Show why a suite was not run."""
        shown = unchanged_text(text, suite, self._context.job_url)
        self._show_text(shown, "pass", suite, posting)
        self._say(f"{suite}: not run: {text}", posting)

    def report_problems(self, problems: Sequence[Problem], suite: str, posting: Posting) -> None:
        """Show in the note that an error has ended the command."""
        located = self._redactor.clean(locate_problems(problems, Path.cwd(), self._root))
        shown = problems_text(located, self._context.job_url)
        self._show_text(shown, "error", suite, posting)

    # Its parts.

    def _write_quality_report(self, summary: Summary, folder: Path, posting: Posting) -> None:
        clean = self._redactor.clean_text
        cleaned = [
            replace(shown, message=clean(shown.message), title=clean(shown.title))
            for shown in annotations(summary)
        ]
        try:
            write_atomically(folder / FILE, [render(cleaned, summary.report.suite.name)])
        except CiEvalsError as error:
            self._log(posting).warn(f"there is no code-quality report: {error}")

    def _comment(self, summary: Summary, folder: Path, mode: Mode, posting: Posting) -> None:
        """Post the note; if that fails, write it to the results folder."""
        page = None
        file = folder / FORMATS["html"].file
        if file.is_file():
            page = file
        posted = post_summary(summary, self._context, mode, page)
        links = links_of(self._context, page)
        log_outcome(posted, summary, links, folder, self._log(posting), self._redactor)

    def _show_text(self, text: str, state: VerdictStatus, suite: str, posting: Posting) -> None:
        """Show a text in the note in place of a suite's section."""
        if posting.comment == "off" or self._context.merge_request is None:
            return
        posted = post_text(text, state, suite, self._context, posting.comment)
        if posted.warning:
            self._log(posting).warn(posted.warning)

    def _say(self, text: str, posting: Posting) -> None:
        self._log(posting).say([self._redactor.clean_text(text)])

    def _log(self, posting: Posting) -> GitLabLog:
        return GitLabLog(getattr(sys, posting.log))

    @property
    def _root(self) -> Path:
        """The root of the repository; the working folder if that is unknown."""
        return self._variables.workspace or Path.cwd()

    @cached_property
    def _context(self) -> GitLabContext:
        """The job, with what its variables don't tell about the merge request of its branch.

        Where GitLab does not tell, the default branch is taken for the target; what is asked for
        next gives the reason.
        """
        context = self._variables
        request = context.merge_request
        if request is None or not request.is_listed_only or context.token is None:
            return context
        try:
            return replace(context, merge_request=asyncio.run(complete(request, context)))
        except HostError:
            return context

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor(sensitive_values(self.environ))
