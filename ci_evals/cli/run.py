"""The commands that run a suite and give a verdict, `run` and `merge`, and their common flow."""

import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast
from uuid import uuid4

import click

from ci_evals.cli import options, run_options
from ci_evals.cli.console import Console, reveal_credentials
from ci_evals.cli.run_options import RunRequest, main_to_run, names_main
from ci_evals.cli.suites import (
    Selection,
    failed_before,
    failed_last,
    load_suite_of_job,
    load_suites_of_job,
    select,
)
from ci_evals.cli.watchdog import end_if_forked, expect_end
from ci_evals.engine.interrupt import END_S, StoppableRun, deferred_signals
from ci_evals.engine.journal import (
    JOURNAL,
    Header,
    first_header,
    journals_at,
    journals_of,
    main_journals_of,
)
from ci_evals.engine.runner import Run
from ci_evals.errors import (
    EXIT_CODES,
    CiEvalsError,
    ConfigError,
    Problem,
    StorageError,
    problems_of,
)
from ci_evals.files import file_name, write_atomically
from ci_evals.format import name_of, number_of, one_line
from ci_evals.gate.bars import VERDICTS
from ci_evals.gate.baseline import Baseline
from ci_evals.gate.compare import NoComparison
from ci_evals.gate.verdict import FailOn, exit_code, strictest
from ci_evals.git import ask_git
from ci_evals.hosts import (
    ArtifactNames,
    BaselineChoice,
    Host,
    Job,
    Posting,
    Previous,
    find_previous,
    find_unchanged,
)
from ci_evals.invocation import (
    Invocation,
    Watcher,
    check_sources,
    known_durations,
    missing_shards,
    missing_shards_clause,
)
from ci_evals.model.fingerprint import digest
from ci_evals.model.plan import CellKey, Shard
from ci_evals.model.report import Checkout, SuiteReport
from ci_evals.redaction import Redactor, sensitive_values
from ci_evals.registry import FORMATS, missing_host
from ci_evals.reports import report_json, terminal
from ci_evals.reports.files import remove_reports, write_reports
from ci_evals.reports.findings import findings
from ci_evals.reports.notes import notes, outcome
from ci_evals.reports.summary import Summary, summarize
from ci_evals.reports.view import run_again
from ci_evals.session import execute
from ci_evals.streams import redirect_prints
from ci_evals.suite.configs import find_configs
from ci_evals.suite.environment import read_dotenv
from ci_evals.suite.overrides import ALL_CASES, Overrides
from ci_evals.suite.types import RESULTS, CheckedSuite
from ci_evals.user_code.crashes import seen_from_here

if TYPE_CHECKING:
    from ci_evals.cli.against import OpenMain
    from ci_evals.merge_base.client import MainSide


class Ended(NamedTuple):
    """The end of a run.

    `summary` is None for a shard, whose verdict is left to the merge, and when nothing ran;
    `not_run` says why nothing ran.
    """

    exit_code: int
    summary: Summary | None = None
    not_run: str = ""


def run_and_report(
    invocation: Invocation,
    console: Console,
    posting: Posting,
    artifacts: ArtifactNames,
    baseline: BaselineChoice = "none",
    *,
    needs_recording: bool = False,
    is_one_of_several: bool = False,
) -> Ended:
    """Run a suite, compare it with its baseline, decide and report.

    Args:
        invocation: what to run.
        console: the terminal or log.
        posting: how to publish the verdict.
        artifacts: the names of the artifacts with results of earlier runs.
        baseline: what to compare with.
        needs_recording: True if nothing can be called, so that answers come from
            `invocation.replay`, else from the base branch's journal.
        is_one_of_several: other suites follow, or came before.
    """
    suite = invocation.suite
    host = _host(console)
    out = suite.out.absolute()  # code under test may change the working folder
    job = host.start(suite, console, console.log)
    _host(console).note_section(suite.name, posting_of(posting, invocation.shard))
    host.begin(out, posting)
    with (
        tempfile.TemporaryDirectory(prefix="ci-evals-", ignore_cleanup_errors=True) as scratch,
        _with_dotenv(suite.folder),
    ):
        previous = find_previous(baseline, suite, host, artifacts, Path(scratch))
        if host.name or baseline == "auto":
            job.say(previous.notes)
        invocation = _add_previous(invocation, previous, host, job)
        invocation = replace(invocation, fail_on=posting.fail_on)
        if needs_recording:
            recording = _recording(invocation.replay, previous.recording, Path(scratch), job)
            invocation = replace(invocation, replay=recording)
        if not invocation.shard:
            host.announce(suite.name, posting)

        redirected = partial(
            redirect_prints, console.stderr, console.clean, start=console.line_start
        )
        with job.guard_log(), StoppableRun(redirected) as running:
            with job.fold(f"Progress of {suite.name}"):
                work = execute(invocation, watcher=_Progress(console), stop=running.stop)
                report, compared_with = running.run(work)
            end_if_forked()  # only the command itself reports
            console.remark(*_missing_parts(invocation, report))
            if invocation.shard:
                _describe_shard(invocation.shard, report, console)
                host.publish_shard(str(invocation.shard), suite.name, outcome(report), posting)
                job.finish_shard(invocation.shard, report)
                return Ended(running.exit_code or _code_of_shard(report))

            confirm_runs = suite.confirm_runs
            summary = summarize(report, suite.gate, compared_with, confirm_runs=confirm_runs)
            if summary.compared is not None:
                from ci_evals.reports.read import with_answers

                summary = with_answers(summary)
            summary = replace(summary, links={**job.links, **summary.base_links})
            write_reports(summary, out, suite.formats)
            _show(summary, console)
            _list_files(suite, invocation.journal, console)
            if host.name:
                report_file = _report_file(summary, suite, out, Path(scratch))
                with job.lift_guard():
                    host.publish(report_file, out, posting)
            else:
                _suggest_commands(summary, suite, console)
            # Code under test may block as it ends.
            code = running.exit_code or _exit_code(summary, posting.fail_on)
            expect_end(END_S, None if is_one_of_several else code)
        expect_end(None)
        verdict = summary.verdict
        if host.name:
            job.say([f"{VERDICTS[verdict.status].upper()}: {verdict.reason}"])
        return Ended(running.exit_code or _exit_code(summary, posting.fail_on), summary)


def _report_file(summary: Summary, suite: CheckedSuite, out: Path, folder: Path) -> Path:
    """Return the report.json of a summary, which is written to `folder` if the suite wants none."""
    if "json" not in suite.formats:
        write_reports(summary, folder, ("json",))
        out = folder
    return out / report_json.REPORT


def _add_previous(invocation: Invocation, previous: Previous, host: Host, job: Job) -> Invocation:
    """Return an invocation with the results of earlier runs; warn of what is wrong with them."""
    is_compared = isinstance(previous.baseline, Baseline)
    if isinstance(invocation.baseline, NoComparison) and not is_compared:
        job.warn(invocation.baseline.reason)
    for warning in previous.warnings:
        job.warn(warning)
    if lost := host.explain_lost_baseline(invocation.checkout):
        job.warn(lost)
    if invocation.main is not None:
        invocation.main.take_over(main_journals_of(invocation.sources))
        invocation.main.take_over(previous.main_journals)
    invocation = replace(
        invocation,
        suite=job.locate_cases(invocation.suite),
        baseline=previous.baseline or invocation.baseline,
        resume=invocation.resume or bool(previous.journals),
        sources=(*invocation.sources, *previous.journals),
        on_default_branch=host.on_default_branch,
        job_revision=host.job_revision,
    )
    if previous.recording:
        invocation = replace(invocation, reusable=(previous.recording,))
    return invocation


def run_each(
    selection: Selection,
    run: Callable[[CheckedSuite], Ended],
    posting: Posting,
    console: Console,
    out: Path,
) -> int:
    """Run several suites one after the other, and return the worst exit code.

    After an error in one, the others still run; after a signal they don't. One page and a few lines
    cover all of them.

    Args:
        selection: the suites to run.
        run: runs one suite, and reports.
        posting: how to publish the verdict.
        console: the terminal or log.
        out: the folder with the results of all.

    Raises:
        CiEvalsError: the first error, once all have ended.
    """
    start_folder = Path.cwd()
    codes = [0]
    summaries: list[Summary] = []
    errors: list[CiEvalsError] = []
    not_run = {suite.name: "the command ended first" for suite in selection.suites}
    not_run |= selection.left_out
    remove_reports(out)  # of an earlier run of one suite
    for suite in selection.suites:
        if console.output != "json":
            console.print(f"\n{name_of(suite.name)}\n")
        try:
            _return_to(start_folder)
            ended = run(suite)
        except CiEvalsError as error:
            console.warn(f"{suite.name} could not be run: {error}")
            _host(console).report_problems(problems_of(error), suite.name, posting)
            errors.append(error)
            not_run[suite.name] = str(error)
            continue
        codes.append(ended.exit_code)
        if ended.summary:
            summaries.append(ended.summary)
            del not_run[suite.name]
        elif ended.not_run:
            not_run[suite.name] = ended.not_run
        if ended.exit_code in EXIT_CODES.values():
            break
    os.chdir(start_folder)
    # Errors may quote files and variables that no suite has named as secret.
    redactor = Redactor(sensitive_values(console.environ))
    for name, why in not_run.items():
        cleaned = console.clean(redactor.clean_text(why))
        not_run[name] = one_line(cleaned, 1000)
    with deferred_signals() as received:
        _show_all(selection.suites, summaries, not_run, console, out, broken=bool(errors))
        _host(console).note_section(None, posting)
        _host(console).report_all(not_run, out, posting, broken=bool(errors))
    codes += [EXIT_CODES[which] for which in received]
    if errors:
        if not isinstance(errors[0], ConfigError):
            raise errors[0]
        problems: list[Problem] = []
        for failure in errors:
            problems += problems_of(failure)
        raise ConfigError(problems, others_ran=bool(summaries))
    return max(codes)


def _return_to(folder: Path) -> None:
    """Change to the folder in which the command began: code under test may have left it.

    Raises:
        StorageError: code under test has removed it.
    """
    try:
        os.chdir(folder)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be changed to: {error.strerror}") from error


def _show_all(
    suites: Sequence[CheckedSuite],
    summaries: Sequence[Summary],
    not_run: Mapping[str, str],
    console: Console,
    out: Path,
    *,
    broken: bool,
) -> None:
    """Print a line for each of several suites, and write a page with links to their pages."""
    if console.output != "json":
        total = number_of(len(summaries) + len(not_run), "suite")
        lines = [f"\n{len(summaries)} of {total} run"]
        for name, why in not_run.items():
            lines.append(f"{name_of(name)}: not run: {why}")
        for summary in summaries:
            name = name_of(summary.report.suite.name)
            verdict = summary.verdict
            lines.append(f"{name}: {VERDICTS[verdict.status]}: {verdict.reason}")
        console.print("\n".join(lines))
    with_page = {suite.name for suite in suites if "html" in suite.formats}
    if not with_page:
        return
    from ci_evals.reports.html import render_several

    page = out / FORMATS["html"].file
    sections = []
    for summary in summaries:
        name = summary.report.suite.name
        own_page = None
        if name in with_page:
            own_page = f"{file_name(name)}/{page.name}"
        sections.append((summary, own_page))
    write_atomically(page, render_several(sections, not_run, broken=broken))
    page = Path(seen_from_here(str(page)))
    console.remark(f"written: {page.as_posix()}")


def _host(console: Console) -> Host:
    """Return the CI system that the command runs on, or the host without one."""
    return console.host or Host(console.environ)


def _show(summary: Summary, console: Console) -> None:
    """Print the outcome of a run."""
    if console.output == "json":
        text = report_json.render_brief(summary)
    else:
        text = terminal.render(summary, width=console.width, color=console.color)
    console.print(text)


def _describe_shard(shard: Shard, report: SuiteReport, console: Console) -> None:
    """Print the outcome of a shard, which leaves the verdict to the merge."""
    for note in notes(report):
        console.remark(f"{note.label.lower()}: {note.text}")
    name = f"shard {shard} of {report.suite.name}"
    console.remark(f"{name}: {outcome(report)}; no verdict: `ci-evals merge` gives it")


def _exit_code(summary: Summary, fail_on: FailOn | None) -> int:
    """Return the exit code of a verdict, by main's settings where the change's are weaker.

    Args:
        summary: the report and its verdict.
        fail_on: fail on this verdict or worse; None leaves that to the suite.
    """
    report = summary.report
    if report.changed_settings is not None:
        for change in report.changed_settings.weaker:
            if change.what == "fail_on":
                fail_on = cast("FailOn", change.main)
    return exit_code(summary.verdict, strictest(report, summary.comparison, summary.gate), fail_on)


def _code_of_shard(report: SuiteReport) -> int:
    """Return the exit code of a shard.

    It has a share of the cells by chance, and the bars are of the whole suite: only one that did
    not end or has no graded run is an error (docs/decisions/0028).
    """
    no_evidence = report.totals.planned > 0 and not report.totals.graded
    if report.interrupted or no_evidence:
        return 3
    return 0


def _list_files(suite: CheckedSuite, journal: Path, console: Console) -> None:
    """Print where the results are: `written: ci-evals-results/report.html, with report.json`."""
    formats = sorted(suite.formats, key=lambda name: name != "html")  # the page for people first
    names = [FORMATS[name].file for name in formats]
    first, *others = [*names, journal.name]
    path = suite.out / first
    console.remark(f"written: {path.as_posix()}, with {', '.join(others)}")


def _suggest_commands(summary: Summary, suite: CheckedSuite, console: Console) -> None:
    """If the gate did not pass, print the commands that explain the first case to look at and rerun
    the cases that did not pass.

    `next: ci-evals explain refund`, then `      ci-evals run --failed`
    """
    cell = findings(summary).first_cell
    if cell is None or summary.verdict.status == "pass":
        return
    explain = ["ci-evals", "explain", cell.case.id]
    failed = "--failed"
    if suite.out != Path(RESULTS):
        explain += ["--report", suite.out.as_posix()]
        failed = f"--failed={suite.out.as_posix()}"
    console.remark(f"next: {one_line(shlex.join(explain))}")
    console.remark(f"      {one_line(run_again(suite.file, failed))}")


def _open_main(named: Sequence[Path], against: str, console: Console) -> "OpenMain | None":
    """Check out main until the command ends, unless `against` is empty.

    To be called before suites are loaded, since their code could change main's files.
    """
    if not against:
        return None
    from ci_evals.cli.against import open_main_of_job

    opening = open_main_of_job(against, find_configs(named), _host(console))
    return click.get_current_context().with_resource(opening)


def _reveal_credentials(configs: Sequence[Path], main: "OpenMain | None", console: Console) -> None:
    """Get the credentials of the job that a suite names, or main's, before its code is imported."""
    files = list(configs)
    if main is not None and main.main is not None:
        for path in configs:
            with suppress(ValueError):  # it is outside of the checkout
                files.append(main.main.worktree.counterpart(path))
    reveal_credentials(console.environ, files)


def _skip_unchanged(suite: CheckedSuite, console: Console, posting: Posting) -> str | None:
    """Return and show why a suite with `skip_unchanged` need not run; None if it must run."""
    host = _host(console)
    unchanged = find_unchanged(suite, host, console.log)
    if unchanged:
        host.report_unchanged(unchanged, suite.name, posting)
    return unchanged


@contextmanager
def _with_dotenv(folder: Path) -> Iterator[None]:
    """Give the team's own code the variables of the `.env` file next to a suite."""
    variables = read_dotenv(folder)
    added = [name for name in variables if name not in os.environ]
    for name in added:
        os.environ[name] = variables[name]
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


class _Progress(Watcher):
    """Shows the progress of a run on stderr."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def note_decision(self, sentence: str) -> None:
        self._console.remark(sentence)

    def watch(self, run: Run) -> AbstractAsyncContextManager[None]:
        if self._console.quiet:
            return nullcontext()
        from ci_evals.engine.progress import show_progress

        return show_progress(run, self._console.stderr, live=self._console.is_live)


def _recording(named: Path | None, of_base: Path | None, scratch: Path, job: Job) -> Path:
    """Return the journal to answer from if nothing can be called: the named one, else the base
    branch's, else an empty one.
    """
    if named and named.exists():
        return named
    problem = "no recording: the base branch has left none that can be used"
    if named:
        problem = f"no recording is at {named.as_posix()}, which --record names"
    if of_base:
        if named:
            job.warn(f"{problem}: using the base branch's recording")
        return of_base
    job.warn(f"{problem}; nothing could be checked, because this job gets no secrets")
    empty = scratch / "nothing.jsonl"  # every run is errored then, with a reason
    empty.touch()
    return empty


def _missing_parts(invocation: Invocation, report: SuiteReport) -> list[str]:
    """Return warnings about inputs that the command line asks for and that are missing."""
    if invocation.resume and report.resumption is None:
        return [f"nothing to resume: there was no {invocation.journal.as_posix()}"]
    if invocation.merge and not invocation.run_missing and report.interrupted:
        remedy = "name the folder of every shard, or add --run-missing"
        return [f"{report.interrupted}: {remedy}"]
    return []


_COMMIT_LINE: Final = "# branch.oid "


def read_checkout(folder: Path) -> Checkout:
    """Return the commit that is checked out in a folder, according to git.

    The environment of a CI system names the commit of the event, while the job may have checked out
    another one. Untracked files are no change: workflows write some themselves.
    """
    status = ask_git("status", "--porcelain=v2", "--branch", "--untracked-files=no", folder=folder)
    commit, dirty = "", False
    for line in status.splitlines():
        if line.startswith(_COMMIT_LINE):
            commit = line.removeprefix(_COMMIT_LINE)
        elif not line.startswith("#"):
            dirty = True
    if not commit or commit == "(initial)":
        return Checkout()
    return Checkout(commit, dirty)


def _checkout_of_shards(
    suite: CheckedSuite, headers: Sequence[Header], *, run_missing: bool
) -> Checkout:
    """Return the commit that all shards had checked out; an unknown one if they differ.

    A merge that runs missing cells counts as a shard.
    """
    checkouts = {Checkout(header.suite.revision, header.suite.dirty) for header in headers}
    if run_missing or not checkouts:
        checkouts.add(read_checkout(suite.folder))
    if len(checkouts) > 1:
        return Checkout()
    return checkouts.pop()


def posting_of(posting: Posting, shard: Shard | None) -> Posting:
    """Return the options for publishing; a shard leaves the comment to the merge."""
    if shard:
        return replace(posting, comment="off")
    return posting


def _journals_of_shards(folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the journals to merge.

    Raises:
        StorageError: no shard has left one.
    """
    journals: list[Path] = []
    for folder in folders:
        journals += journals_at(folder)
    if not any(path.is_file() for path in journals):
        where = ", ".join(folder.as_posix() for folder in folders) or "a folder that was named"
        # Not a usage error: exit code 3 is no verdict, as after a run without results.
        raise StorageError(f"there is nothing to merge: no shard has left results in {where}")
    return tuple(journals)


def _journal(path: Path) -> Path:
    """Return the journal at a path, which may be its folder."""
    if path.is_dir():
        return path / JOURNAL
    return path


@options.command("run", cls=run_options.SectionedCommand)
@run_options.failed
@options.suites
@run_options.overriding
@run_options.request
@run_options.posting
@options.console
def run_command(
    named: tuple[Path, ...],
    failed: str | None,
    overrides: Overrides,
    request: RunRequest,
    posting: Posting,
    console: Console,
) -> int:
    """Run suites, judge them, and exit with the worst verdict.

    SUITE is a suite file, or a folder to run all suites in it and below; default: evals.yaml here
    or in .github/. Several suites run one after the other, each with its own results folder.

    Writes report.html, report.json, junit.xml, summary.md and results.jsonl (one line per run, as
    it ends) to the results folder, progress to stderr and the outcome to stdout. The command line
    wins over CI_EVALS_… variables, and those win over the file.

    \b
    Examples:
      ci-evals run
      ci-evals run evals/support.yaml --runs 5
      ci-evals run evals                        every suite in the folder
      ci-evals run --providers gpt-4o-mini,claude --format json
      ci-evals run --case 'refund*'             or --first 5, --tags smoke
      ci-evals run --failed                     cases that did not pass last time
      ci-evals run --baseline main/report.json  what got worse, and how sure it is
      ci-evals run --watch                      again after every change
      ci-evals run --resume                     after a crash or a cancelled job
      ci-evals run --shard 2/5 --out shard-2    then: ci-evals merge shard-*
    """
    request.check()
    if request.watch:
        from ci_evals.cli.watch import watch_suites

        arguments = [word for word in sys.argv[2:] if word != "--watch"]
        out = overrides.out or Path(RESULTS)
        return watch_suites(find_configs(named), out, arguments, console)
    if lack := missing_host(console.environ):
        console.warn(f"nothing is posted, and no baseline is looked for: this CI system {lack}")
    posting = replace(posting, log=console.log_name)
    _host(console).note_section("", posting_of(posting, request.shard))
    # Shards leave the comparison to the merge, and what only replays calls nothing.
    calls = request.shard is None and request.replay is None
    against = main_to_run(request.against, request.baseline, _host(console), calls=calls)
    main = _open_main(named, against, console)
    _reveal_credentials(find_configs(named), main, console)
    # Cases are selected once all suites are known: an id or a tag may be in only one of them.
    all_cases = replace(overrides, **ALL_CASES)
    suites, without_secrets = load_suites_of_job(
        named, all_cases, _host(console), offline=request.replay_only
    )
    if len(suites) > 1:
        request.check_for_several(len(suites))
    selection = select(suites, overrides, failed)
    console.say(selection.remarks)
    if not selection.suites:
        for name, why in selection.left_out.items():
            text = f"nothing to run: {why}"
            if len(suites) > 1:
                text = f"{name_of(name)}: {text}"
            console.say([text])
        return 0
    is_one_of_several = len(suites) > 1
    out = overrides.out or Path(RESULTS)
    if is_one_of_several:
        posting = replace(posting, results=out.absolute())

    def side_of(suite: CheckedSuite) -> "MainSide | NoComparison | None":
        # Without its keys, nothing of main could be called, either.
        if main is None or suite.name in without_secrets:
            return None
        resume = request.resume or bool(request.resume_from)
        return main.side_of(suite, overrides, resume=resume)

    def run(suite: CheckedSuite) -> Ended:
        return _run_suite(
            suite,
            request,
            posting,
            console,
            lacks_secrets=suite.name in without_secrets,
            suites=suites,
            is_one_of_several=is_one_of_several,
            main=side_of(suite),
        )

    if is_one_of_several:
        return run_each(selection, run, posting, console, out.absolute())
    return run(selection.suites[0]).exit_code


def _run_suite(
    suite: CheckedSuite,
    request: RunRequest,
    posting: Posting,
    console: Console,
    *,
    lacks_secrets: bool,
    suites: Sequence[CheckedSuite],
    is_one_of_several: bool = False,
    main: "MainSide | NoComparison | None" = None,
) -> Ended:
    """Run one suite as the command line asks.

    Args:
        suite: the suite.
        request: the options of `run`.
        posting: how to publish the verdict.
        console: the terminal or log.
        lacks_secrets: True if its keys are missing, so that answers must come from a recording.
        suites: all suites that the command line names.
        is_one_of_several: True if `--resume-from` may name journals of other suites.
        main: main's side of it, or why there is none; None if it plays no part.
    """
    unchanged = _skip_unchanged(suite, console, posting_of(posting, request.shard))
    if unchanged:
        return Ended(0, not_run=unchanged)
    sources: list[Path] = []
    for path in request.resume_from:
        sources += journals_at(path)
    if is_one_of_several:
        sources = list(journals_of(sources, suite.name))
    recording = request.replay
    if lacks_secrets:
        recording = request.record
    if recording is not None:
        recording = _journal(recording)
    durations_s: Mapping[CellKey, float] = {}
    if request.balance_by:
        durations_s = known_durations(request.balance_by)
    first: frozenset[str] = frozenset()
    if request.failed_first:
        first = failed_last(suite)
    invocation = Invocation(
        suite=suite,
        journal=suite.out / JOURNAL,
        resume=request.resume or bool(request.resume_from),
        sources=tuple(sources),
        shard=request.shard,
        durations_s=durations_s,
        replay=recording,
        replay_only=request.replay_only or lacks_secrets,
        without_secrets=lacks_secrets,
        reuse_own_code=request.reuse_own_code,
        checkout=read_checkout(suite.folder),
        run_id=request.run_id or uuid4().hex,
        files=suite.out,
        first=first,
        failed_before=failed_before(suite),
    )
    invocation = _add_main(invocation, main)
    base = posting.artifact
    if request.shard:
        # The artifact of a shard has no report. The merge uploads one under the usual name.
        base = RESULTS
    return run_and_report(
        invocation,
        console,
        posting,
        ArtifactNames(base, attempts=posting.artifact, suites=suites),
        "none" if names_main(request.against) else request.baseline,
        needs_recording=lacks_secrets,
        is_one_of_several=is_one_of_several,
    )


def _add_main(invocation: Invocation, main: "MainSide | NoComparison | None") -> Invocation:
    """Return an invocation with main's side, or with the reason that there is none."""
    if isinstance(main, NoComparison):
        from ci_evals.cli.against import SwitchedOff

        is_off = isinstance(main, SwitchedOff)
        return replace(invocation, baseline=main, lacks_main=main.reason, is_off=is_off)
    return replace(invocation, main=main)


@options.command("merge", cls=run_options.SectionedCommand)
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path), metavar="DIR...")
@options.config
@run_options.overriding
@options.setting(
    "--run-missing",
    is_flag=True,
    help="Run what is missing from the shards, and rerun what looks worse than the baseline.",
)
@run_options.run_id
@run_options.against
@run_options.baseline
@run_options.posting
@options.console
def merge_command(
    folders: tuple[Path, ...],
    config: Path | None,
    run_id: str | None,
    against: str,
    baseline: BaselineChoice,
    overrides: Overrides,
    posting: Posting,
    console: Console,
    *,
    run_missing: bool,
) -> int:
    """Merge the results of shards, and judge them.

    The verdict is the exit code. DIR is a shard's results folder, or a folder of such folders. The
    suite, --runs and --providers must be the same as in the shards. The reports are the same as
    after one unsharded run.

    \b
    Example:
      ci-evals merge shard-1 shard-2 shard-3 --out ci-evals-results
    """
    posting = replace(posting, log=console.log_name)
    _host(console).note_section("", posting)
    named = (config,) if config else ()
    against = main_to_run(against, baseline, _host(console), calls=run_missing)
    main = _open_main(named, against, console)
    _reveal_credentials(find_configs(named), main, console)
    suite, without_secrets = load_suite_of_job(
        config, overrides, _host(console), offline=not run_missing
    )
    if _skip_unchanged(suite, console, posting):
        return 0
    run_missing = run_missing and not without_secrets
    _host(console).note_section(suite.name, posting)
    sources = _journals_of_shards(folders)
    headers = [header for header in map(first_header, sources) if header]
    if run_id is None:  # repeating a merge gives the same id
        starts = [(header.suite.run_id, header.started_at) for header in headers]
        run_id = digest(starts)
    without_secrets = without_secrets or any(header.suite.without_secrets for header in headers)
    invocation = Invocation(
        suite=suite,
        journal=suite.out / JOURNAL,
        sources=sources,
        merge=True,
        run_missing=run_missing,
        without_secrets=without_secrets,
        replayed=any(header.suite.replayed for header in headers),
        checkout=_checkout_of_shards(suite, headers, run_missing=run_missing),
        run_id=run_id,
        files=suite.out,
    )
    check_sources(invocation)
    if run_missing:
        missing = missing_shards(sources)
        if missing:
            console.say([f"{missing_shards_clause(missing)}: running the missing cells"])
    if main is not None:
        invocation = _add_main(invocation, main.side_of(suite, overrides, resume=False))
    if names_main(against):
        baseline = "none"
    artifacts = ArtifactNames(posting.artifact)
    ended = run_and_report(invocation, console, posting, artifacts, baseline)
    return ended.exit_code
