"""GitLab CI as a host: the change under test, earlier results, and how verdicts are shown."""

import asyncio
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final, TextIO

from ci_evals.dependencies import touched
from ci_evals.errors import CiEvalsError, ConfigError, HostError, Problem
from ci_evals.format import number_of
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
from ci_evals.merge_base.commit import first_parent
from ci_evals.model.report import Checkout
from ci_evals.plugins.ci.baseline import PATIENCE_S, another_commit, checkout_problem
from ci_evals.plugins.ci.places import checkout_of, locate_problems, path_in
from ci_evals.plugins.gitlab.api import connect
from ci_evals.plugins.gitlab.baseline import changed_files, complete, find_earlier
from ci_evals.plugins.gitlab.context import GitLabContext, read_context, remove_credentials
from ci_evals.plugins.gitlab.job import GitLabJob
from ci_evals.plugins.gitlab.log import GitLabLog, without_sections
from ci_evals.plugins.gitlab.note import post_text
from ci_evals.redaction import Redactor, sensitive_values
from ci_evals.reports.markdown import problems_text, unchanged_text
from ci_evals.streams import say
from ci_evals.suite.types import CheckedSuite

_MAX_REPORT_BYTES: Final = 512 * 1024 * 1024


class GitLabCI(Host):
    """A job of GitLab CI."""

    name = "GitLab CI"

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        self._variables = read_context(environ)
        self.lacks_secrets = self._variables.runs_in_fork
        self.on_default_branch = self._variables.makes_baselines
        self.job_revision = self._variables.sha or None

    def remove_credentials(self, environ: MutableMapping[str, str]) -> None:
        """Remove the job's tokens."""
        remove_credentials(environ)

    def clean(self, text: str) -> str:
        """Return a text in which GitLab finds no section, and without the job's secrets.

        Unlike on GitHub, a job cannot name values to mask, and GitLab masks only variables that are
        marked as such.
        """
        return without_sections(self._redactor.clean_text(text))

    def report_failure(
        self, text: str, problems: Sequence[Problem], folder: Path, arguments: Sequence[str]
    ) -> None:
        """Print the error."""
        del problems, folder, arguments
        if text:
            say(sys.stderr, f"{self.clean(text)}\n")  # it may quote a dataset or an answer

    def start(self, suite: CheckedSuite, posting: Posting, log: Log, stream: TextIO) -> Job:
        """Begin the run of a suite; its secrets are redacted in the log from now on."""
        del log
        return GitLabJob(suite, self._context, posting, stream, self._root())

    def find_earlier(
        self, choice: BaselineChoice, suite: CheckedSuite, artifacts: ArtifactNames, folder: Path
    ) -> Previous:
        """Look among the artifacts of the base branch and of earlier attempts."""
        return find_earlier(choice, suite, self._context, artifacts, folder)

    def find_main(self, root: Path) -> MainCommit | None:
        """Return the base of a merge request."""
        context = self._context
        request = context.merge_request
        if request is None:
            return None
        sha = first_parent(root, request.head_sha) or request.base_sha
        if not sha:
            return None
        server = context.api_url.partition("/api/")[0]
        project_url = request.url.partition("/-/")[0]  # the target's, also in a fork's pipeline
        remote = Remote(f"{project_url}.git", server, "gitlab-ci-token", context.job_token)
        return MainCommit(sha, request.target_branch or "main", remote)

    def explain_lost_baseline(self, checkout: Checkout) -> str | None:
        """Return why the results of the default branch cannot be a baseline; None if they can."""
        if not self._context.makes_baselines:
            return None
        problem = checkout_problem(checkout)
        if problem is None and checkout.revision != self._context.sha:
            problem = another_commit(str(checkout.revision), self._context.sha)
        if problem is None:
            return None
        return f"this run cannot be a baseline: {problem}"

    def find_committed(self, suite: CheckedSuite, folder: Path) -> Path | None:
        """Return the report that is committed with a suite.

        For a merge request, it is read from the target branch: the change could bring its own. Only
        an access token can do that.
        """
        context = self._context
        merge_request = context.merge_request
        if merge_request is None:
            return super().find_committed(suite, folder)
        path = committed_baseline(suite)
        name = path_in(checkout_of(suite, self._root()), path)
        base_sha = merge_request.base_sha
        if not base_sha or Path(name).is_absolute():
            return None
        if context.token is None:
            if path.is_file():
                raise HostError(
                    "forbidden", "that needs a token with the scope `read_api` in GITLAB_TOKEN"
                )
            return None
        copy = folder / path.name

        async def download() -> bool:
            async with connect(context, merge_request.project_id, patience_s=PATIENCE_S) as gitlab:
                with copy.open("wb") as file:
                    return await gitlab.read_file(name, base_sha, file, _MAX_REPORT_BYTES)

        if not asyncio.run(download()):
            return None
        return copy

    def find_unchanged(self, suite: CheckedSuite, stream: TextIO) -> str | None:
        """Return why a suite need not run: the change touches nothing that it depends on.

        Only merge requests are looked at. Failing to list the changed files is a warning.
        """
        context = self._context
        merge_request = context.merge_request
        if not suite.skip_unchanged or merge_request is None:
            return None

        async def ask() -> tuple[str, ...] | None:
            if context.token is None:
                raise HostError(
                    "forbidden", "that needs a token with the scope `read_api` in GITLAB_TOKEN"
                )
            async with connect(context, merge_request.project_id, patience_s=PATIENCE_S) as gitlab:
                return await changed_files(gitlab, merge_request.iid)

        problem = "it changes too many files"
        try:
            changed = asyncio.run(ask())
        except HostError as error:
            changed, problem = None, str(error)
        if changed is None:
            GitLabLog(stream).warn(
                f"{suite.name} runs although it has `skip_unchanged`:"
                f" the changed files are unknown: {problem}"
            )
            return None
        # The pipeline's own file may set the model.
        patterns = [*suite.depends_on, f"/{context.config_path}"]
        if touched(changed, path_in(checkout_of(suite, self._root()), Path(suite.file)), patterns):
            return None
        others = number_of(len(changed), "other file")
        return f"nothing that the suite depends on has changed ({others} did)"

    def report_unchanged(self, text: str, suite: str, posting: Posting, stream: TextIO) -> None:
        """Show why a suite was not run."""
        shown = unchanged_text(text, suite, self._context.job_url)
        self._show_text(shown, "pass", suite, posting, stream)
        GitLabLog(stream).say([f"{suite}: not run: {text}"])

    def report_problems(
        self, error: CiEvalsError, folder: Path, suite: str, posting: Posting, stream: TextIO
    ) -> None:
        """Show in the note that an error has ended the command."""
        problems: Sequence[Problem] = [Problem("", None, "", str(error))]
        if isinstance(error, ConfigError):
            problems = error.problems
        problems = self._redactor.clean(locate_problems(problems, folder, self._root()))
        shown = problems_text(problems, self._context.job_url)
        self._show_text(shown, "error", suite, posting, stream)

    def report_lost_run(self, text: str, note: Mapping[str, str]) -> None:
        """Show in the note that a run ended without a verdict."""
        if note:
            comment: CommentMode = note["comment"]  # type: ignore[assignment]  # as `Posting.note` has it
            posting = Posting(note["artifact"], comment)
            self.report_problems(CiEvalsError(text), Path.cwd(), note["suite"], posting, sys.stderr)

    def _show_text(
        self, text: str, state: VerdictStatus, suite: str, posting: Posting, stream: TextIO
    ) -> None:
        """Show a text in the note in place of a suite's section."""
        if posting.comment == "off" or self._context.merge_request is None:
            return
        posted = post_text(text, state, suite, self._context, posting.comment)
        if posted.warning:
            GitLabLog(stream).warn(posted.warning)

    def _root(self) -> Path:
        """Return the root of the repository; the working folder if that is unknown."""
        return self._context.workspace or Path.cwd()

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
