"""A job of GitHub Actions: its log, and the outputs, summary, annotations and comment that it makes
of a run.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path
from typing import Any, Final, Literal, TextIO, get_args
from uuid import uuid4

from ci_evals.errors import CiEvalsError, ConfigError, GitHubError, Problem, StorageError
from ci_evals.format import number_of, one_line, without_commands
from ci_evals.gate.bars import SEVERITY, VERDICTS
from ci_evals.gate.verdict import FailOn
from ci_evals.gate.wording import same_reason
from ci_evals.github.api import connect
from ci_evals.github.baseline import PATIENCE_S, changed_files
from ci_evals.github.comment import Mode, post_comment, post_progress, post_text, write_comment
from ci_evals.github.context import RESULTS, Context, in_actions, read_context
from ci_evals.redaction import Redactor, listen, mask_commands
from ci_evals.reports.cells import (
    JudgedCell,
    address_of,
    changes,
    common_error,
    failed_runs,
    finding_of,
    reasons_of,
    results_of,
)
from ci_evals.reports.markdown import problems_text, suites_text, summary_document, unchanged_text
from ci_evals.reports.report_json import REPORT
from ci_evals.reports.summary import Summary
from ci_evals.streams import say
from ci_evals.suite.dependencies import touched
from ci_evals.suite.types import CheckedSuite

CommentMode = Literal["auto", "off", "new"]


@dataclass(frozen=True, slots=True)
class Posting:
    """The ways in which a verdict leaves the results folder.

    Args:
        artifact: the name of the artifact that the results are uploaded as.
        comment: edit the pull request's comment (`auto`), leave it alone (`off`), or make a new one
            (`new`).
        comment_progress: True to comment already while the run lasts.
        fail_on: the verdicts that end in a failure; None leaves that to the suite.
        results: the folder that is uploaded; None for the suite's own.
    """

    artifact: str = RESULTS
    comment: CommentMode = "auto"
    comment_progress: bool = False
    fail_on: FailOn | None = None
    results: Path | None = None


def start(
    suite: CheckedSuite, environ: Mapping[str, str], posting: Posting, stream: TextIO
) -> "Job | None":
    """Return the job of GitHub Actions that this process runs in; None elsewhere.

    Its log hides the suite's secrets from now on, and the output `results-path` is set, whatever
    happens to this process.

    Args:
        suite: what is run.
        environ: the environment of the process.
        posting: what becomes of the verdict.
        stream: the job's log.
    """
    if not in_actions(environ):
        return None
    job = Job(
        suite,
        read_context(environ),
        posting,
        stream,
        Path(environ.get("GITHUB_WORKSPACE") or Path.cwd()),
    )
    job.log.write_commands(mask_commands(suite.secrets))
    if job.context.problem:
        job.warn(job.context.problem)
    job.set_outputs({"results-path": str((posting.results or suite.out).absolute())})
    return job


def problems_of(error: CiEvalsError, environ: Mapping[str, str], folder: Path) -> list[Problem]:
    """Return what an error says, with files as paths from the repository's root; only a suite's
    problems have files.

    Args:
        error: what is wrong.
        environ: the environment of the process.
        folder: where the files start that the error names.
    """
    if not isinstance(error, ConfigError):
        return [Problem("", None, "", str(error))]
    root = Path(environ.get("GITHUB_WORKSPACE") or folder)
    return [each._replace(file=_path_in(root, folder / each.file)) for each in error.problems]


def report_problems(
    problems: Sequence[Problem], suite: str, context: Context, posting: Posting, stream: TextIO
) -> None:
    """Say on the job's page and in the comment that there is no verdict, because an error has ended
    the command.

    Args:
        problems: what is wrong, without secrets.
        suite: its name; empty if that could not be read.
        context: the job.
        posting: where to say it.
        stream: the job's log.
    """
    _show_text(
        lambda **options: problems_text(problems, **options), suite, context, posting, stream
    )


def find_unchanged(
    suite: CheckedSuite, context: Context, workspace: Path, stream: TextIO
) -> str | None:
    """Say that a pull request or merge group changes nothing that a suite depends on, if that is
    known; else None.

    Only a suite with `skip_unchanged` is looked at. What keeps the changes from being known is a
    warning.

    Args:
        suite: the suite.
        context: the job.
        workspace: where the repository is, if no folder above the suite is that of a checkout.
        stream: the job's log.
    """
    if not suite.skip_unchanged or context.event not in ("pull_request", "merge_group"):
        return None

    async def ask() -> tuple[str, ...] | None:
        async with connect(context, patience_s=PATIENCE_S) as github:
            return await changed_files(github, context.base_sha or "", context.sha or "")

    try:
        changed, lack = asyncio.run(ask()), "GitHub lists no more than 300 changed files"
    except GitHubError as error:
        changed, lack = None, str(error)
    if changed is None:
        text = f"{suite.name} runs although it has `skip_unchanged`: what has changed is not known: {lack}"
        Log(stream).write_commands(command("warning", text, title="ci-evals"))
        return None
    checkouts = (each for each in (suite.folder, *suite.folder.parents) if (each / ".git").exists())
    root = next(checkouts, workspace)
    workflow = (
        (f"/{context.workflow_file}",) if context.workflow_file else ()
    )  # it may say which model is asked
    if touched(changed, _path_in(root, Path(suite.file)), (*suite.depends_on, *workflow)):
        return None
    return f"nothing that the suite depends on has changed ({number_of(len(changed), 'other file')} did)"


def report_unchanged(
    text: str, suite: str, context: Context, posting: Posting, stream: TextIO
) -> None:
    """Say on the job's page and in the comment that a suite was not run, and hand on a green
    verdict.

    Args:
        text: why.
        suite: its name.
        context: the job.
        posting: where to say it.
        stream: the job's log.
    """
    _show_text(
        lambda **options: unchanged_text(text, suite, **options), suite, context, posting, stream
    )
    if context.output_path:
        write_outputs(context.output_path, {"verdict": "pass"})
    Log(stream).say([f"{suite}: not run: {text}"])


def _show_text(
    render: Callable[..., str], suite: str, context: Context, posting: Posting, stream: TextIO
) -> None:
    """Put a text into the job's summary, and into the place of a suite's section of the comment.

    Args:
        render: makes it of the `level` of its heading, or of the `run_url`.
        suite: the suite's name; empty if that could not be read.
        context: the job.
        posting: where to say it.
        stream: the job's log.
    """
    log = Log(stream)
    try:
        if path := context.step_summary_path:
            append_summary(path, lambda _max_bytes: render(level="##"))
        if posting.comment != "off" and context.event == "pull_request":
            mode: Mode = "new" if posting.comment == "new" else "auto"
            posted = post_text(
                render(run_url=context.run_url), suite, context, posting.artifact, mode
            )
            if posted.url and context.output_path:
                write_outputs(context.output_path, {"comment-url": posted.url})
            if posted.warning:
                log.write_commands(command("warning", posted.warning, title="ci-evals"))
    except StorageError as error:
        log.write_commands(command("warning", str(error), title="ci-evals"))


def _path_in(root: Path, path: Path) -> str:
    """Return a path from a folder, absolute outside of it."""
    path, root = path.resolve(), root.resolve()
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


class Job:
    """One invocation of ci-evals in a job of GitHub Actions; `start` makes it.

    Attributes:
        context: what GitHub Actions says of the job.
        log: what the runner reads.
        out: the results folder, absolute.
    """

    def __init__(
        self,
        suite: CheckedSuite,
        context: Context,
        posting: Posting,
        stream: TextIO,
        workspace: Path,
    ) -> None:
        self.context = context
        self.log = Log(stream)
        self.out = suite.out.absolute()
        self._suite = suite.name
        self._posting = posting
        self._redactor = Redactor(suite.secrets)
        self._folder = Path.cwd()  # code under test may change it
        self._workspace = workspace

    @contextmanager
    def guard_log(self) -> Iterator[None]:
        """Stop workflow commands while code under test runs, and hide the secrets that it brings
        up.
        """
        with (
            self.log.stop_commands(),
            listen(lambda value: self.log.write_commands(mask_commands([value]))),
        ):
            yield

    def locate_cases(self, suite: CheckedSuite) -> CheckedSuite:
        """Return the suite with the files of its cases as paths from the repository's root,
        absolute outside of it.

        So every report says the same of a case's place, whatever folder the job runs in.
        """
        paths = {
            file: _path_in(self._workspace, self._folder / file)
            for file in {case.file for case in suite.cases}
        }
        return replace(suite, cases=[replace(case, file=paths[case.file]) for case in suite.cases])

    def announce(self) -> None:
        """Say in the comment that a run is under way, where that was asked for."""
        if (
            self._posting.comment_progress
            and self._posting.comment == "auto"
            and self.context.pull_request
        ):
            posted = post_progress(self._suite, self.context, self._posting.artifact)
            if posted.warning:
                self.warn(posted.warning)

    def finish(self, summary: Summary) -> None:
        """Set the outputs, show summary and annotations, post the comment, and say the verdict
        last.

        What cannot be written or posted is a warning. Nothing is posted by a job that was told to
        end.
        """
        if path := self.context.step_summary_path:
            try:
                append_summary(path, summary_document(summary).render)
            except CiEvalsError as error:
                self.warn(f"the summary is not on the job's page: GITHUB_STEP_SUMMARY: {error}")
        self.set_outputs(outputs(summary, self.out))
        clean = self._redactor.clean_text
        self.log.write_commands(
            annotation_commands(
                replace(each, message=clean(each.message), title=clean(each.title))
                for each in annotations(summary)
            )
        )
        wanted = self._posting.comment != "off" and self.context.event == "pull_request"
        if wanted and not (summary.report.interrupted or "").startswith("SIG"):
            self._comment(summary)
        self.say([f"{VERDICTS[summary.verdict.status].upper()}: {summary.verdict.reason}"])

    def say(self, lines: Iterable[str]) -> None:
        """Print sentences of ours, which may quote others."""
        self.log.say(self._redactor.clean_text(" ".join(line.split())) for line in lines)

    def warn(self, text: str) -> None:
        """Show a warning on the page of the workflow run."""
        self.log.write_commands(
            command("warning", self._redactor.clean_text(text), title="ci-evals")
        )

    def set_outputs(self, values: Mapping[str, str]) -> None:
        """Set outputs of the step; what cannot be written is a warning."""
        if path := self.context.output_path:
            try:
                write_outputs(path, values)
            except CiEvalsError as error:
                self.warn(f"the outputs are not handed on: GITHUB_OUTPUT: {error}")

    def _comment(self, summary: Summary) -> None:
        """Post the comment, or leave it in the results folder."""
        mode: Mode = "new" if self._posting.comment == "new" else "auto"
        posted = post_comment(summary, self.context, self._posting.artifact, mode)
        if posted.url:
            self.set_outputs({"comment-url": posted.url})
        if done := posted.url or posted.note:
            self.say([f"comment: {done}"])
        if posted.warning:
            self.warn(posted.warning)
            try:
                self.say(
                    [
                        f"the comment is left in {write_comment(summary, self.context, self.out).name}"
                    ]
                )
            except CiEvalsError as error:
                self.warn(str(error))


# The log.


class Log:
    """A stream that the runner reads line by line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._token: str | None = None

    def write_commands(self, commands: str) -> None:
        """Write workflow commands, lifting stop-commands around them in one write."""
        if commands and self._token:
            before, self._token = self._token, uuid4().hex
            commands = f"::{before}::\n{commands}::stop-commands::{self._token}\n"
        if commands:
            say(self._stream, commands)

    def say(self, lines: Iterable[str]) -> None:
        """Print lines that the runner takes for nothing but text."""
        say(self._stream, without_commands("".join(f"{line}\n" for line in lines)))

    @contextmanager
    def stop_commands(self) -> Iterator[None]:
        """Let nothing that a model or the code under test wrote be taken for a workflow command."""
        self._token = uuid4().hex
        say(self._stream, f"::stop-commands::{self._token}\n")
        try:
            yield
        finally:
            token, self._token = self._token, None
            say(self._stream, f"::{token}::\n")

    @contextmanager
    def fold(self, title: str) -> Iterator[None]:
        """Fold what is printed meanwhile."""
        self.write_commands(command("group", " ".join(title.split())))
        try:
            yield
        finally:
            self.write_commands(command("endgroup", ""))


def command(name: str, message: str, **properties: str | int | None) -> str:
    """Return one line that the runner obeys; properties that are None or empty are left out."""
    given = {
        key: _escape(str(value)) for key, value in properties.items() if value not in (None, "")
    }
    parts = ",".join(
        f"{key}={value.replace(':', '%3A').replace(',', '%2C')}" for key, value in given.items()
    )
    return f"::{name}{' ' if parts else ''}{parts}::{_escape(message)}\n"


def _escape(text: str) -> str:
    # `##[` is the old form of a command, obeyed anywhere in a line.
    unarmed = text.replace("##[", "# #[")
    return unarmed.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


# The files of a step.

MAX_SUMMARY_BYTES: Final = 1_048_576
"""GitHub drops a step's summary whole if it has one byte more."""


def outputs(summary: Summary, out: Path) -> dict[str, str]:
    """Return what later steps may use. What is not known is empty."""
    report = summary.report
    path = out / REPORT
    compared = summary.compared
    regressed = (
        {cell.case for cell in compared.cells if cell.kind == "regressed"} if compared else ()
    )
    return {
        "verdict": summary.verdict.status,
        "pass-rate": "" if report.pass_rate is None else f"{report.pass_rate:.4f}",
        "regressions": str(len(regressed)) if compared else "",
        "cost-usd": "" if (cost_usd := report.spent.total_usd) is None else f"{cost_usd:.6f}",
        "report-path": str(path if path.is_file() else out),
    }


def report_all(
    summaries: Sequence[Summary],
    not_run: Mapping[str, str],
    out: Path,
    context: Context,
    stream: TextIO,
) -> None:
    """Set the outputs of a step that ran several suites, the worst verdict and sums, and list them
    in its summary.

    Args:
        summaries: what was found of each suite; at least one.
        not_run: the names of the others, with why.
        out: the folder with the results of all.
        context: the job.
        stream: its log.
    """
    each = [outputs(summary, out) for summary in summaries]
    regressions = [int(found) for values in each if (found := values["regressions"])]
    costs_usd = [float(found) for values in each if (found := values["cost-usd"])]
    found_of_all = {
        "verdict": max(
            summaries, key=lambda summary: SEVERITY[summary.verdict.status]
        ).verdict.status,
        "pass-rate": "",
        "regressions": str(sum(regressions)) if regressions else "",
        "cost-usd": f"{fsum(costs_usd):.6f}" if costs_usd else "",
        "report-path": str(out),
    }
    try:
        if path := context.step_summary_path:
            append_summary(path, lambda _max_bytes: suites_text(summaries, not_run))
        if path := context.output_path:
            write_outputs(path, found_of_all)
    except StorageError as error:
        text = f"the outputs or the summary of all suites are not handed on: {error}"
        Log(stream).write_commands(command("warning", text, title="ci-evals"))


def write_outputs(path: Path, values: Mapping[str, str]) -> None:
    """Append outputs, by name, to the file that `GITHUB_OUTPUT` names; a value may have several
    lines.

    Raises:
        StorageError: the file cannot be written.
    """
    delimiter = f"ci_evals_{uuid4().hex}"  # nobody can guess it, and end a value with it
    text = "".join(f"{name}<<{delimiter}\n{value}\n{delimiter}\n" for name, value in values.items())
    with _writing(path), path.open("ab") as file:
        file.write(text.encode("utf-8", "replace"))


def append_summary(path: Path, render: Callable[[int], str]) -> None:
    """Append Markdown to the file that `GITHUB_STEP_SUMMARY` names.

    Args:
        path: the file; what a step has written to it before counts against GitHub's limit, too.
        render: makes the text in at most so many bytes of UTF-8.

    Raises:
        StorageError: the file cannot be written.
    """
    with _writing(path), path.open("ab") as file:
        room = MAX_SUMMARY_BYTES - file.tell()
        content = render(room - 1).encode("utf-8", "replace") + b"\n"
        if len(content) <= room:
            file.write(content)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from error


# Annotations.

Level = Literal["error", "warning"]

MAX_PER_LEVEL: Final = 10  # per step; GitHub drops the others without a word
MAX_MESSAGE: Final = 4_096  # characters
_MAX_TITLE = 250


@dataclass(frozen=True, slots=True)
class Annotation:
    """A message beside a line of the suite. `file` is relative to the repository's root; without it
    the message stands at the workflow run.
    """

    level: Level
    message: str
    file: str | None = None
    line: int | None = None
    title: str = ""


def annotations(summary: Summary) -> Iterator[Annotation]:
    """Yield what is shown beside the lines of the suite, the most important first.

    Cells without a graded run whose first runs had the same error, as in an outage, are one
    annotation.
    """
    report, found, verdict = summary.report, changes(summary), summary.verdict
    if verdict.unchecked:
        only_told = summary.gate is not None and summary.gate.on_unchecked == "warn"
        yield Annotation(
            "warning" if only_told else "error",
            f"{verdict.reason}\n{verdict.hint}",
            title="Not checked",
        )

    def annotation(
        level: Level, word: str, cell: JudgedCell, finding: str, more: str = ""
    ) -> Annotation:
        case, number = cell.case, cell.cell
        results = failed_runs(report, number, 1) or results_of(report, number, "errored", 1)
        variant = cell.variant if len(report.plan.variants) > 1 else None
        on = f" on {variant}" if variant else ""
        page = () if more else (f"report.html#{address_of(case.id, variant)}",)
        message = "\n".join((finding, *(reasons_of(results[0])[:1] if results else ()), *page))
        file = None if Path(case.file).is_absolute() else case.file
        return Annotation(level, message, file, case.line, f"{word}: {case.id}{on}{more}")

    level: Level = "error" if verdict.status == "fail" else "warning"
    worse = [("Regressed", cell) for cell in found.regressed]
    worse += [("Failing", cell) for cell in (*found.failing, *found.still_failing)]
    unanswered: dict[tuple[Any, ...], list[JudgedCell]] = {}
    for word, cell in worse:
        error = common_error(report, cell)
        unanswered.setdefault(
            (word, cell.variant, same_reason(error)) if error else (word, cell.key), []
        ).append(cell)
    for (word, *_), (first, *others) in unanswered.items():
        more = f" and {len(others):,} more" if others else ""
        finding = (
            f"{_extent(summary, [first, *others])} without an answer"
            if others
            else finding_of(first, summary.comparison)
        )
        yield annotation(level, word, first, finding, more)
    alike: dict[Hashable, list[JudgedCell]] = {}
    for cell in found.errored:
        (result,) = results_of(report, cell.cell, "errored", 1)
        alike.setdefault(same_reason(result.error) if result.error else cell.key, []).append(cell)
    for first, *others in alike.values():
        more = f" and {len(others):,} more" if others else ""
        finding = (
            f"{_extent(summary, [first, *others])} without a graded run" if others else first.tally
        )
        yield annotation("warning", "No verdict", first, finding, more)


def _extent(summary: Summary, cells: Sequence[JudgedCell]) -> str:
    """Return `3 cases`, and where a suite has several variants, `3 cases on gpt` or `3 cases on 2
    variants`.
    """
    cases, variants = {cell.case.id for cell in cells}, {cell.variant for cell in cells}
    found = number_of(len(cases), "case")
    if len(summary.report.plan.variants) == 1:
        return found
    return (
        f"{found} on {number_of(len(variants), 'variant') if len(variants) > 1 else variants.pop()}"
    )


def annotation_commands(
    given: Iterable[Annotation], rest: str = "the summary has all of them"
) -> str:
    """Return the workflow commands for these annotations: errors, then warnings, each in the order
    given.

    Give what matters most first. GitHub shows ten of a level for each step; when there are more,
    the tenth says how many are not shown, and by `rest` where they are.
    """
    given = tuple(given)
    lines: list[str] = []
    for level in get_args(Level):
        chosen = [each for each in given if each.level == level]
        shown = chosen if len(chosen) <= MAX_PER_LEVEL else chosen[: MAX_PER_LEVEL - 1]
        for each in shown:
            title = one_line(each.title, _MAX_TITLE)
            line = each.line if each.file else None
            lines.append(
                command(level, each.message[:MAX_MESSAGE], file=each.file, line=line, title=title)
            )
        if left_out := len(chosen) - len(shown):
            lines.append(command(level, f"{left_out} more are not shown here; {rest}"))
    return "".join(lines)
