"""The commands that run a suite and decide, `run` and `merge`, and the story that they share."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import click

from ci_evals import github
from ci_evals.cli import options
from ci_evals.cli.console import Console, environment, error_redactor, git
from ci_evals.cli.suites import Selection, load_suite_of_job, load_suites_of_job, select
from ci_evals.engine import progress
from ci_evals.engine.interrupt import EXIT_CODES, StoppableRun
from ci_evals.engine.journal import JOURNAL, first_header, journals_at, journals_of
from ci_evals.engine.runner import Run
from ci_evals.errors import CiEvalsError, ConfigError, UsageError
from ci_evals.files import file_name, write_atomically
from ci_evals.format import name_of, number_of, one_line
from ci_evals.gate.bars import VERDICTS
from ci_evals.gate.verdict import exit_code
from ci_evals.github.baseline import ArtifactNames, BaselineChoice
from ci_evals.github.context import RESULTS, in_actions, read_context
from ci_evals.github.job import Job, Posting
from ci_evals.model.fingerprint import digest
from ci_evals.model.plan import Shard
from ci_evals.model.report import SuiteReport
from ci_evals.registry import FORMATS
from ci_evals.reports import html
from ci_evals.reports.files import remove_reports, write_reports
from ci_evals.reports.notes import notes, outcome
from ci_evals.reports.read import with_answers
from ci_evals.reports.summary import Summary, summarize
from ci_evals.session import (
    Invocation,
    Watcher,
    check_sources,
    execute,
    known_durations,
    missing_shards,
)
from ci_evals.streams import redirect_prints
from ci_evals.suite.overrides import ALL_CASES, Overrides
from ci_evals.suite.types import CheckedSuite


class Ended(NamedTuple):
    """The end of a run: the exit code, and what was found.

    That is None where a shard leaves the verdict to the merge, or where nothing was run, for the
    reason `not_run`.
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
) -> Ended:
    """Run a suite, compare it with its baseline, decide and report.

    Args:
        invocation: what to run.
        console: where people read.
        posting: what becomes of the verdict outside of the results folder.
        artifacts: where GitHub has the results of earlier runs.
        baseline: what to compare with.
        needs_recording: nothing can be called: answer from `invocation.replay`, else from the base
            branch's journal.
    """
    suite, out = (
        invocation.suite,
        invocation.suite.out.absolute(),
    )  # code under test may change the folder
    job = github.job.start(suite, console.environ, posting, console.log)
    commenting = (
        replace(posting, comment="off") if invocation.shard else posting
    )  # the merge comments
    with (
        _reporting_errors(commenting, suite),
        tempfile.TemporaryDirectory(prefix="ci-evals-", ignore_cleanup_errors=True) as scratch,
    ):
        previous = github.baseline.find(
            baseline, suite, job.context if job else None, artifacts, Path(scratch)
        )
        if job or baseline == "auto":
            (job or console).say(previous.notes)
        for warning in previous.warnings:
            (job or console).warn(warning)
        invocation = replace(
            invocation,
            suite=job.locate_cases(suite) if job else suite,
            baseline=previous.baseline,
            resume=invocation.resume or bool(previous.journals),
            sources=(*invocation.sources, *previous.journals),
            reusable=(previous.recording,) if previous.recording else (),
        )
        if needs_recording:
            recording = _recording(
                invocation.replay, previous.recording, Path(scratch), job or console
            )
            invocation = replace(invocation, replay=recording)
        if job and not invocation.shard:
            job.announce()

        redirected = partial(
            redirect_prints, console.stderr, console.clean, start=console.line_start
        )
        with job.guard_log() if job else nullcontext(), StoppableRun(redirected) as running:
            with job.log.fold(f"Progress of {suite.name}") if job else nullcontext():
                report = running.run(
                    execute(invocation, watcher=_Progress(console), stop=running.stop)
                )
            console.remark(*_missing_parts(invocation, report))
            if invocation.shard:
                name = f"shard {invocation.shard} of {suite.name}"
                found = [f"{note.label.lower()}: {note.text}" for note in notes(report)]
                console.remark(*found, f"{name}: {outcome(report)}; `ci-evals merge` decides")
                return Ended(running.exit_code or (3 if report.interrupted else 0))

            summary = with_answers(
                summarize(report, suite.gate, invocation.baseline, confirm_runs=suite.confirm_runs)
            )
            if job:
                summary = replace(summary, links=job.context.links)
            write_reports(summary, out, suite.formats)
            console.show(summary)
            files = (
                *(suite.out / FORMATS[name].file for name in suite.formats),
                invocation.journal,
            )
            page = [
                f"open: {path.as_posix()}" for path in files if path.name == FORMATS["html"].file
            ]
            console.remark(f"written: {', '.join(path.as_posix() for path in files)}", *page)
        if job:
            job.finish(summary)
        return Ended(
            running.exit_code or exit_code(summary.verdict, suite.gate, posting.fail_on), summary
        )


def run_each(
    selection: Selection, run: Callable[[CheckedSuite], Ended], console: Console, out: Path
) -> int:
    """Run several suites one after the other, so that they share one limit on calls; return the
    worst exit code.

    An error of one does not keep the others from being run. A signal does. One page and a few lines
    tell of all.

    Args:
        selection: what to run.
        run: runs one of them, and reports.
        console: where people read.
        out: the folder with the results of all.

    Raises:
        CiEvalsError: the first error, in the end.
    """
    here, codes, summaries, errors = Path.cwd(), [0], list[Summary](), list[CiEvalsError]()
    not_run = dict.fromkeys((suite.name for suite in selection.suites), "the command ended before")
    not_run |= selection.left_out
    remove_reports(out)  # of an earlier run of one suite
    for suite in selection.suites:
        os.chdir(here)  # code under test may have left it
        if console.output != "json":
            console.print(f"\n{name_of(suite.name)}\n")
        try:
            ended = run(suite)
        except CiEvalsError as error:
            console.warn(f"{suite.name} could not be run: {error}")
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
    os.chdir(here)
    redactor = error_redactor(console.environ)
    not_run = {
        name: one_line(console.clean(redactor.clean_text(why)), 1000)
        for name, why in not_run.items()
    }
    _show_all(selection.suites, summaries, not_run, console, out, broken=bool(errors))
    if summaries and in_actions(console.environ):
        github.job.report_all(summaries, not_run, out, read_context(console.environ), console.log)
    problems = [
        problem for error in errors if isinstance(error, ConfigError) for problem in error.problems
    ]
    if errors:
        raise (
            ConfigError(problems, others_ran=bool(summaries))
            if isinstance(errors[0], ConfigError)
            else errors[0]
        )
    return max(codes)


def _show_all(
    suites: Sequence[CheckedSuite],
    summaries: Sequence[Summary],
    not_run: Mapping[str, str],
    console: Console,
    out: Path,
    *,
    broken: bool,
) -> None:
    """Print a line for each of several suites, and write the page that leads to those of all."""
    if console.output != "json":
        lines = [f"{name_of(name)}: not run: {why}" for name, why in not_run.items()]
        lines += [
            f"{name_of(each.report.suite.name)}: {VERDICTS[each.verdict.status]}: {each.verdict.reason}"
            for each in summaries
        ]
        named = number_of(len(summaries) + len(not_run), "suite")
        console.print("\n".join((f"\n{len(summaries)} of {named} run", *lines)))
    if with_page := {suite.name for suite in suites if "html" in suite.formats}:
        page = out / FORMATS["html"].file
        names = [each.report.suite.name for each in summaries]
        pages = [f"{file_name(name)}/{page.name}" if name in with_page else None for name in names]
        write_atomically(
            page,
            html.render_several(list(zip(summaries, pages, strict=True)), not_run, broken=broken),
        )
        console.remark(
            f"open: {(page.relative_to(Path.cwd()) if page.is_relative_to(Path.cwd()) else page).as_posix()}"
        )


def _skip_unchanged(suite: CheckedSuite, console: Console, posting: Posting) -> str | None:
    """End green, and say why, where a pull request changes nothing that the suite depends on, if it
    asks for that.
    """
    if not (suite.skip_unchanged and in_actions(console.environ)):
        return None
    context, workspace = (
        read_context(console.environ),
        Path(console.environ.get("GITHUB_WORKSPACE") or Path.cwd()),
    )
    if unchanged := github.job.find_unchanged(suite, context, workspace, console.log):
        github.job.report_unchanged(unchanged, suite.name, context, posting, console.log)
    return unchanged


@contextmanager
def _reporting_errors(posting: Posting, suite: CheckedSuite | None = None) -> Iterator[None]:
    """Say on the job's page and in the comment that there is no verdict, where an error ends the
    block.
    """
    environ, folder = environment(), Path.cwd()
    redactor = error_redactor(environ)
    try:
        yield
    except CiEvalsError as error:
        if in_actions(environ):
            problems = redactor.clean(github.job.problems_of(error, environ, folder))
            name = suite.name if suite else ""
            github.job.report_problems(problems, name, read_context(environ), posting, sys.stderr)
        raise


class _Progress(Watcher):
    """Shows on stderr how a run goes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def note_decision(self, sentence: str) -> None:
        self._console.remark(sentence)

    def watch(self, run: Run) -> AbstractAsyncContextManager[None]:
        if self._console.quiet:
            return nullcontext()
        return progress.show_progress(run, self._console.stderr, live=self._console.is_live)


def _recording(named: Path | None, of_base: Path | None, scratch: Path, log: Job | Console) -> Path:
    """Return the journal to answer from where nothing can be called: the named, the base branch's,
    or an empty one.
    """
    if named and named.exists():
        return named
    lack = f"no recording is at {named.as_posix()}, which --record names" if named else None
    if of_base:
        if lack:
            log.warn(f"{lack}: the base branch's is taken")
        return of_base
    lack = lack or "no recording: the base branch has left none that can be used"
    log.warn(f"{lack}; nothing could be checked, for this job gets no secrets")
    empty = scratch / "nothing.jsonl"
    empty.touch()
    return empty


def _missing_parts(invocation: Invocation, report: SuiteReport) -> list[str]:
    """Name what is missing although the command line asked for it."""
    if invocation.resume and report.resumption is None:
        return [f"nothing to resume: there was no {invocation.journal.as_posix()}"]
    if invocation.merge and not invocation.run_missing and report.interrupted:
        return [
            f"missing: {report.interrupted}: name its folder too, or have it run with --run-missing"
        ]
    return []


def revision(environ: Mapping[str, str]) -> str | None:
    """Return the commit under test, as the CI system or git knows it.

    Of a pull request that is its head, not the merge commit that GitHub makes for the job.
    """
    if "GITHUB_SHA" in environ and (sha := read_context(environ).sha):
        return sha
    return git("rev-parse", "HEAD") or None


def _journal(path: Path) -> Path:
    """Return a journal that is named itself or by its folder."""
    return path / JOURNAL if path.is_dir() else path


@options.command("run", cls=options.SectionedCommand)
@options.failed
@options.suites
@options.overriding
@options.setting(
    "--resume",
    is_flag=True,
    help="Go on with the journal in the results folder: graded runs are kept, errored ones tried again.",
)
@options.option(
    "--resume-from",
    multiple=True,
    type=options.PATH,
    metavar="PATH",
    help="Take over the results of another journal, of the one in a folder, or of all in its folders; may be repeated.",
)
@options.setting(
    "--shard",
    callback=options.to_shard,
    metavar="K/N",
    help="Run only the K-th of N shares of the cells; `ci-evals merge` puts them together and decides.",
)
@options.setting(
    "--balance-by",
    type=options.PATH,
    metavar="PATH",
    help="Balance shards by the durations in this journal or report.json; every shard must be given the same.",
)
@options.setting(
    "--replay",
    type=options.PATH,
    metavar="PATH",
    help="Answer from this journal what was asked before, and call providers for the rest.",
)
@options.setting(
    "--replay-only",
    is_flag=True,
    help="With --replay: call no provider; runs that are not recorded are errored. Needs no keys.",
)
@options.setting(
    "--record",
    type=options.PATH,
    metavar="PATH",
    help="A journal to answer from where a pull request of a fork gets no secrets; default: the base branch's.",
)
@options.run_id
@options.baseline
@options.posting
@options.console
def run_command(
    named: tuple[Path, ...],
    resume_from: tuple[Path, ...],
    failed: str | None,
    shard: Shard | None,
    balance_by: Path | None,
    replay: Path | None,
    record: Path | None,
    run_id: str | None,
    baseline: BaselineChoice,
    overrides: Overrides,
    posting: Posting,
    console: Console,
    *,
    resume: bool,
    replay_only: bool,
) -> int:
    """Run suites, judge them, and exit with the worst verdict.

    SUITE is a config, or a folder for all that are in it and below; default: evals.yaml here or in
    .github/. Several run one after the other, each with a folder of its name in the results folder.

    Writes report.html, report.json, junit.xml, summary.md and results.jsonl (one line per run,
    while they happen) into the results folder, progress to stderr and the outcome to stdout. The
    command line wins over CI_EVALS_… variables, those over the file.

    \b
    Examples:
      ci-evals run
      ci-evals run evals/support.yaml --runs 5
      ci-evals run evals                        every suite in the folder
      ci-evals run --providers gpt-4o-mini,claude --format json
      ci-evals run --case 'refund*'             or --first 5, --tags smoke
      ci-evals run --failed                     what did not pass the last time
      ci-evals run --baseline main/report.json  what got worse, and how sure it is
      ci-evals run --resume                     after a crash or a cancelled job
      ci-evals run --shard 2/5 --out shard-2    then: ci-evals merge shard-*
    """
    if replay_only and replay is None:
        raise click.UsageError("--replay-only needs --replay PATH")
    with _reporting_errors(replace(posting, comment="off") if shard else posting):
        suites, without_secrets = load_suites_of_job(
            named, replace(overrides, **ALL_CASES), offline=replay_only
        )
        are_several = len(suites) > 1
        of_one = {
            "--shard": shard,
            "--balance-by": balance_by,
            "--replay": replay,
            "--record": record,
        }
        if are_several and (given := [name for name, value in of_one.items() if value]):
            raise UsageError(
                f"{given[0]} is for one suite, and {len(suites)} are named: run them one by one"
            )
        selection = select(suites, overrides, failed)
        console.say(selection.remarks)
    out = overrides.out or Path(RESULTS)
    if are_several:
        posting = replace(posting, results=out.absolute())
    sources = [journal for path in resume_from for journal in journals_at(path)]
    # A shard's own artifact has no report: the base branch's is that of the merge, by its usual
    # name.
    artifacts = ArtifactNames(RESULTS if shard else posting.artifact, attempts=posting.artifact)

    def run(suite: CheckedSuite) -> Ended:
        if unchanged := _skip_unchanged(
            suite, console, replace(posting, comment="off") if shard else posting
        ):
            return Ended(0, not_run=unchanged)
        lacks_secrets = suite.name in without_secrets
        recording = record if lacks_secrets else replay
        invocation = Invocation(
            suite=suite,
            journal=suite.out / JOURNAL,
            resume=resume or bool(resume_from),
            sources=journals_of(sources, suite.name) if are_several else tuple(sources),
            shard=shard,
            durations_s=known_durations(balance_by) if balance_by else {},
            replay=_journal(recording) if recording else None,
            replay_only=replay_only or lacks_secrets,
            without_secrets=lacks_secrets,
            revision=revision(console.environ),
            run_id=run_id or uuid4().hex,
            files=suite.out,
        )
        return run_and_report(
            invocation, console, posting, artifacts, baseline, needs_recording=lacks_secrets
        )

    if not are_several and selection.suites:
        return run(selection.suites[0]).exit_code
    if not selection.suites:
        console.say(
            f"{f'{name_of(name)}: ' if are_several else ''}nothing to run: {why}"
            for name, why in selection.left_out.items()
        )
        return 0
    return run_each(selection, run, console, out.absolute())


@options.command("merge", cls=options.SectionedCommand)
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path, exists=True), metavar="DIR...")
@options.config
@options.overriding
@options.setting(
    "--run-missing",
    is_flag=True,
    help="Run what no shard has a result of, and again what looks worse than the baseline.",
)
@options.run_id
@options.baseline
@options.posting
@options.console
def merge_command(
    folders: tuple[Path, ...],
    config: Path | None,
    run_id: str | None,
    baseline: BaselineChoice,
    overrides: Overrides,
    posting: Posting,
    console: Console,
    *,
    run_missing: bool,
) -> int:
    """Merge the results of shards, and judge them.

    The verdict is the exit code. DIR is a shard's results folder. The suite, --runs and --providers
    must be those of the shards. What comes out is what one unsharded run would have written.

    \b
    Example:
      ci-evals merge shard-1 shard-2 shard-3 --out ci-evals-results
    """
    with _reporting_errors(posting):
        suite, without_secrets = load_suite_of_job(config, overrides, offline=not run_missing)
        if _skip_unchanged(suite, console, posting):
            return 0
        if not folders:
            raise UsageError(
                "there is nothing to merge: no shard has left a results folder, or none was named"
            )
    run_missing = run_missing and not without_secrets
    sources = tuple(map(_journal, folders))
    starts = [start for start in map(first_header, sources) if start]
    invocation = Invocation(
        suite=suite,
        journal=suite.out / JOURNAL,
        sources=sources,
        merge=True,
        run_missing=run_missing,
        without_secrets=without_secrets or any(each.suite.without_secrets for each in starts),
        replayed=any(each.suite.replayed for each in starts),
        revision=revision(console.environ),
        run_id=run_id
        or digest(
            [(each.suite.run_id, each.started_at) for each in starts]
        ),  # the same when repeated
        files=suite.out,
    )
    with _reporting_errors(posting, suite):
        check_sources(invocation)
    if run_missing and (missing := missing_shards(sources)):
        console.say([f"missing: shard {', '.join(missing)}: its runs are run now"])
    return run_and_report(
        invocation, console, posting, ArtifactNames(posting.artifact), baseline
    ).exit_code
