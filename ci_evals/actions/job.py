"""A job of GitHub Actions: what it hands on, shows and posts of a run."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import msgspec

from ci_evals.actions.log import Log
from ci_evals.actions.posting import Posting
from ci_evals.actions.remarks import remarks
from ci_evals.errors import CiEvalsError
from ci_evals.github.annotations import annotation_commands
from ci_evals.github.commands import command
from ci_evals.github.context import read_context
from ci_evals.github.outputs import append_summary, write_outputs
from ci_evals.redaction import Redactor
from ci_evals.reports.json_report import REPORT
from ci_evals.reports.markdown import pieces
from ci_evals.reports.summary import Summary
from ci_evals.suite import Suite
from ci_evals.verdict.scopes import STATUS_WORDS

_SIGNALS = frozenset(("SIGINT", "SIGTERM"))


class Job:
    """One invocation of ci-evals in a job of GitHub Actions.

    Args:
        suite: what is run.
        environ: the environment of the job.
        posting: what becomes of the verdict.
        out: the results folder, absolute.
        stream: the job's log.
    """

    def __init__(self, suite: Suite, environ: Mapping[str, str], posting: Posting, out: Path, stream: TextIO) -> None:
        self.context = read_context(environ)
        self.log = Log(stream)
        self._suite = suite
        self._posting = posting
        self._out = out
        self._redactor = Redactor(suite.secrets)
        self._folder = Path.cwd()  # the code under test may go elsewhere
        self._workspace = Path(environ.get("GITHUB_WORKSPACE") or self._folder)
        self._summary: Summary | None = None

    def begin(self) -> None:
        """Hide the secrets, and say where the results will be, whatever happens to this process."""
        self.log.mask(self._suite.secrets)
        if self.context.problem:
            self.warn(self.context.problem)
        self._hand_on({"results-path": str(self._out)})

    def announce(self) -> None:
        """Say in the comment that a run is under way, where that was asked for."""
        if self._posting.comment_progress and self._posting.comment == "auto" and self.context.pull_request:
            from ci_evals.commenting import Place, post_progress

            posted = post_progress(self._suite.name, self.context, Place(self._posting.artifact))
            if posted.warning:
                self.warn(posted.warning)

    @contextmanager
    def working(self) -> Iterator[None]:
        """The time in which code under test prints: folded, and without workflow commands."""
        self.log.open_group(f"Progress of {self._suite.name}")
        with self.log.stopped():
            yield
        self.log.close_group()

    def show(self, summary: Summary) -> None:
        """Hand on the outputs, and show the summary and the annotations. What cannot be written is a warning."""
        self._summary = summary
        if path := self.context.step_summary_path:
            try:
                append_summary(path, pieces(summary))
            except CiEvalsError as error:
                self.warn(f"the summary is not on the job's page: GITHUB_STEP_SUMMARY: {error}")
        self._hand_on(outputs(summary, self._out))
        found = remarks(summary, self._path_of)
        clean = self._redactor.clean_text
        self.log.obey(
            annotation_commands(
                msgspec.structs.replace(each, message=clean(each.message), title=clean(each.title)) for each in found
            )
        )

    def finish(self) -> None:
        """Post the comment, unless the job was told to end, and say the verdict last."""
        summary = self._summary
        if summary is None:
            return
        lines: list[str] = []
        if summary.report.interrupted not in _SIGNALS:
            lines.extend(self._post(summary))
        verdict = summary.verdict
        lines.append(f"{STATUS_WORDS[verdict.status]}: {verdict.reason}")
        self.say(lines)

    def say(self, lines: Iterable[str]) -> None:
        """Print sentences of ours, which may quote others."""
        self.log.say(self._redactor.clean_text(" ".join(line.split())) for line in lines)

    def warn(self, text: str) -> None:
        """Show a warning on the page of the workflow run."""
        self.log.obey(command("warning", self._redactor.clean_text(text), title="ci-evals"))

    def _post(self, summary: Summary) -> Iterator[str]:
        """Post the comment; yields a sentence for the log."""
        if self._posting.comment == "off" or self.context.event != "pull_request":
            return
        from ci_evals.commenting import Place, post_comment, write_comment

        place = Place(part=self._posting.artifact, mode=self._posting.comment)
        posted = post_comment(summary, self.context, place)
        if posted.url:
            self._hand_on({"comment-url": posted.url})
        if told := posted.url or posted.note:
            yield f"comment: {told}"
        if posted.warning:
            self.warn(posted.warning)
            try:
                yield f"the comment is left in {write_comment(summary, self.context, self._out).name}"
            except CiEvalsError as error:
                self.warn(str(error))

    def _hand_on(self, values: Mapping[str, str]) -> None:
        if path := self.context.output_path:
            try:
                write_outputs(path, values)
            except CiEvalsError as error:
                self.warn(f"the outputs are not handed on: GITHUB_OUTPUT: {error}")

    def _path_of(self, file: str) -> str | None:
        """Where the repository has a file that the suite names."""
        try:
            return (self._folder / file).resolve().relative_to(self._workspace.resolve()).as_posix()
        except (ValueError, OSError):
            return None


def outputs(summary: Summary, out: Path) -> dict[str, str]:
    """What later steps may ask for. What is not known is empty."""
    report = summary.report
    path = out / REPORT
    return {
        "verdict": summary.verdict.status,
        "pass-rate": "" if report.pass_rate is None else f"{report.pass_rate:.4f}",
        "regressions": str(summary.compared.counts.get("regressed", 0)) if summary.compared else "",
        "cost-usd": "" if (cost_usd := report.spent.total_usd) is None else f"{cost_usd:.6f}",
        "report-path": str(path if path.is_file() else out),
    }
