"""The whole story of a suite: run it, judge it, write what was found, say it, return the exit code."""

import asyncio
import contextlib
import functools
import gc
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO
from uuid import uuid4

import msgspec

from ci_evals import progress
from ci_evals.engine.journal import JOURNAL
from ci_evals.engine.pairwise import Judge, Results, chosen, compare, read_results
from ci_evals.engine.shards import Shard
from ci_evals.errors import StorageError
from ci_evals.execution import Stop, check_sources, execute, missing_shards
from ci_evals.interruption import until_stopped
from ci_evals.model import Gate
from ci_evals.order import Order
from ci_evals.redaction import Redactor, mask_commands
from ci_evals.report import Report
from ci_evals.reports.notes import notes
from ci_evals.reports.pairwise import Comparison, render_json, render_markdown, render_text
from ci_evals.reports.renderers import RENDERERS
from ci_evals.reports.summary import Summary, summarize
from ci_evals.reports.text import without_commands
from ci_evals.saved import known_durations, read_baseline
from ci_evals.streams import prints_go_to, say
from ci_evals.suite import Suite
from ci_evals.verdict.gate import exit_code
from ci_evals.verdict.pairwise import preference

FILES = {"json": "report.json", "junit": "junit.xml", "markdown": "summary.md", "html": "report.html"}


class World(NamedTuple):
    """Every handle on what is outside, made once in `cli`."""

    environ: Mapping[str, str]
    folder: Path
    stdout: TextIO
    stderr: TextIO


class Continuation(NamedTuple):
    """How a run relates to earlier ones: see `ci-evals run --help`."""

    resume: bool = False
    resume_from: tuple[Path, ...] = ()
    shard: Shard | None = None
    balance_by: Path | None = None
    replay: Path | None = None
    replay_only: bool = False
    baseline: tuple[Path, ...] = ()


class Appearance(NamedTuple):
    """What is printed: `output` is `table` or `json`; `quiet` shows no progress."""

    output: str = "table"
    quiet: bool = False


def run(suite: Suite, continuation: Continuation, world: World, appearance: Appearance) -> int:
    """Run a suite and return the exit code.

    Args:
        suite: what to run.
        continuation: what earlier runs contribute.
        world: environment and streams.
        appearance: what is printed.
    """
    order = Order(
        suite=suite,
        journal=suite.out / JOURNAL,
        resume=continuation.resume or bool(continuation.resume_from),
        sources=_journals(continuation.resume_from),
        shard=continuation.shard,
        durations_s=known_durations(continuation.balance_by) if continuation.balance_by else {},
        replay=_journals([continuation.replay])[0] if continuation.replay else None,
        replay_only=continuation.replay_only,
        revision=revision(world),
        run_id=uuid4().hex,
        files=suite.out,
        baseline=read_baseline(continuation.baseline, suite.name) if continuation.baseline else None,
    )
    return carry_out(order, world, appearance)


def merge(
    suite: Suite,
    folders: Iterable[Path],
    world: World,
    appearance: Appearance,
    *,
    run_missing: bool,
    baseline: tuple[Path, ...] = (),
) -> int:
    """Put the journals of shards together, decide, and return the exit code.

    Args:
        suite: what the shards ran shares of.
        folders: folders with a journal each, or journals.
        world: environment and streams.
        appearance: what is printed.
        run_missing: run what no shard has a result of.
        baseline: reports to compare with.
    """
    order = Order(
        suite=suite,
        journal=suite.out / JOURNAL,
        sources=_journals(folders),
        merge=True,
        run_missing=run_missing,
        revision=revision(world),
        run_id=uuid4().hex,
        files=suite.out,
        baseline=read_baseline(baseline, suite.name) if baseline else None,
    )
    check_sources(order)
    if run_missing and (missing := missing_shards(order.sources)):
        say(world.stderr, f"missing: shard {', '.join(missing)}: its runs are run now\n")
    return carry_out(order, world, appearance)


def grade(suite: Suite, paths: Iterable[Path], world: World, appearance: Appearance, *, match: str | None) -> int:
    """Grade traces that are there, and return the exit code; nothing is run, only judges are asked.

    Args:
        suite: whose cases they answer.
        paths: files of traces, or folders of them.
        world: environment and streams.
        appearance: what is printed.
        match: the attribute of a trace that holds the id of its case.
    """
    from ci_evals.engine.traces import TraceAnswers, matched, read_traces
    from ci_evals.providers.mock import Mock

    found = matched((trace for path in paths for trace in read_traces(path, match)), suite.cases)
    if found.strangers:
        ids = ", ".join(dict.fromkeys(repr(trace.case_id or trace.asked)[:80] for trace in found.strangers[:5]))
        text = f"warning: {len(found.strangers)} trace(s) match no case of {suite.file}: {ids}\n"
        say(world.stderr, Redactor(suite.secrets).clean_text(without_commands(text)))
    cases = [msgspec.structs.replace(case, runs=max(1, len(found.by_case.get(case.id, ())))) for case in suite.cases]
    traced = msgspec.structs.replace(suite, providers=(Mock(name="traces"),), prompts=(), cases=cases)
    order = Order(
        suite=traced,
        journal=suite.out / JOURNAL,
        traces=TraceAnswers(found.by_case),
        revision=revision(world),
        run_id=uuid4().hex,
    )
    return carry_out(order, world, appearance)


def check_judge(suite: Suite, labels: Path, rubric: str | None, world: World, output: str) -> int:
    """Measure a suite's judge against people's labels; returns 0 if it is fit to gate, 1 if not, 3 if unknown."""
    from ci_evals.engine import judge_check
    from ci_evals.reports.judge_check import render, render_json, sentence

    judge = judge_check.judge_of(suite, rubric)
    found = asyncio.run(judge_check.check(suite, judge, judge_check.read_rows(labels)))
    counted = (found.table, found.kappa, len(found.unanswered), found.judging)
    if output == "json":
        text = render_json(*counted, found.fit)
    else:
        text = render(*counted, sentence(found.fit, judge_check.BAR, judge_check.FEWEST_LABELS))
    redactor = Redactor(suite.secrets)
    for told in dict.fromkeys(found.unanswered[:3]):
        say(world.stderr, redactor.clean_text(without_commands(f"no verdict: {told}\n")))
    say(world.stdout, redactor.clean_text(text))
    return {True: 0, False: 1, None: 3}[found.fit]


def pairwise(suite: Suite, sides: Sequence[str], report: Path, judge: Judge, world: World, output: str) -> Comparison:
    """Compare two variants by preference, and print what was found.

    Args:
        suite: knows the cases.
        sides: each the path of a report (`PATH`, `PATH::VARIANT`), or the name of a variant of `report`.
        report: where variants that are no path are looked up.
        judge: who prefers.
        world: environment and streams.
        output: `table`, `markdown` or `json`.
    """
    names, results = zip(*(_side(side, report) for side in sides), strict=True)
    labels = names if names[0] != names[1] else sides
    pairs = asyncio.run(compare(suite, results[0], results[1], judge))
    comparison = Comparison(labels[0], labels[1], preference(pairs, (suite.gate or Gate()).confidence))
    render = {"table": render_text, "markdown": render_markdown, "json": render_json}[output]
    say(world.stdout, Redactor(suite.secrets).clean_text(render(comparison)))
    return comparison


def _side(side: str, report: Path) -> tuple[str, Results]:
    path, _, name = side.partition("::")
    if Path(path).exists():
        return chosen(read_results(Path(path)), name or None, path)
    return chosen(read_results(report), side, report.as_posix())


def carry_out(order: Order, world: World, appearance: Appearance) -> int:
    """Execute an order, report, and return the exit code."""
    conclusion = Conclusion(order, order.suite.out.absolute(), world, appearance, Redactor(order.suite.secrets))
    in_actions = world.environ.get("GITHUB_ACTIONS") == "true"

    def clean(printed: str) -> str:
        text = conclusion.redactor.clean_text(printed)
        return without_commands(text.replace("\r", "\n")) if in_actions else text

    async def phase(stop: Stop) -> Report:
        if appearance.quiet:
            return await execute(order, stop=stop)
        return await execute(
            order, stop=stop, tell=conclusion.tell, watch=lambda run: progress.shown(run, world.stderr)
        )

    gc.freeze()  # what is loaded by now stays to the end: the collector need not walk it again and again
    # With JSON, stdout is not the log but a file or another program.
    log = world.stderr if appearance.output == "json" else world.stdout
    with workflow_commands_stopped(order.suite.secrets, world.environ, log):
        around = functools.partial(prints_go_to, world.stderr, clean)
        return until_stopped(phase, conclusion.draw, conclusion.salvage, around)


class Conclusion(NamedTuple):
    """What is made of a report. `out` is where the suite's results go, wherever the code under test went."""

    order: Order
    out: Path
    world: World
    appearance: Appearance
    redactor: Redactor

    def draw(self, report: Report) -> int:
        """Write and show what was found; returns the exit code."""
        order, suite = self.order, self.order.suite
        told: list[str] = []
        if order.resume and report.resumption is None:
            told.append(f"nothing to resume: there was no {order.journal.as_posix()}")
        if order.merge and not order.run_missing and report.interrupted:
            told.append(f"missing: {report.interrupted}: name its folder too, or have it run with --run-missing")
        if order.shard:
            told.extend(f"{label.lower()}: {text}" for label, text in notes(report))
            told.append(f"shard {order.shard} of {suite.name}: {report.summary()}; `ci-evals merge` decides")
            code = 3 if report.interrupted else 0
        else:
            summary = self.write(report)
            show(summary, self.world, self.appearance.output, self.redactor)
            told.append(f"written: {self.written}")
            code = exit_code(summary.verdict, suite.gate)
        if not self.appearance.quiet:
            self._tell(told)
        return code

    def salvage(self, report: Report) -> None:
        """Write what was found while code under test has the terminal, and say so in a line."""
        told = f"{report.interrupted}: the code under test did not end in time and was left behind"
        if self.order.shard is None:
            self.write(report)
            told = f"{told}; written: {self.written}"
        self._tell([told])

    def write(self, report: Report) -> Summary:
        suite = self.order.suite
        summary = summarize(report, suite.gate, self.order.baseline, confirm_runs=suite.confirm_runs)
        write_reports(summary, self.out, suite.formats)
        append_step_summary(summary, self.world)
        return summary

    @property
    def written(self) -> str:
        suite = self.order.suite
        files = (*(suite.out / FILES[each] for each in suite.formats), self.order.journal)
        return ", ".join(path.as_posix() for path in files)

    def tell(self, sentence: str) -> None:
        """Say on stderr what is done next, and why."""
        self._tell([sentence])

    def _tell(self, lines: Iterable[str]) -> None:
        say(self.world.stderr, self.redactor.clean_text("".join(f"{line}\n" for line in lines)))


def serve_mock(config: Path | None, world: World, host: str, port: int) -> None:
    """Serve the config's `mock` provider, or one that echoes, until interrupted."""
    from ci_evals.config.load import load_mock
    from ci_evals.providers.mock import Mock
    from ci_evals.providers.mock_server import serve

    options = load_mock(config, world.environ) if config else Mock()
    asyncio.run(serve(options, host, port, log=lambda line: say(world.stdout, line + "\n")))


@contextlib.contextmanager
def workflow_commands_stopped(secrets: Iterable[str], environ: Mapping[str, str], log: TextIO) -> Iterator[None]:
    """In GitHub Actions, mask the secrets, and then let nothing that a model wrote be taken for a workflow command."""
    if environ.get("GITHUB_ACTIONS") != "true":
        yield
        return
    token = uuid4().hex
    say(log, f"{mask_commands(secrets)}::stop-commands::{token}\n")
    try:
        yield
    finally:
        say(log, f"::{token}::\n")


def revision(world: World) -> str | None:
    """The commit that is checked out, as the CI system or git knows it."""
    if sha := world.environ.get("GITHUB_SHA"):
        return sha
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607  the user's own git
            cwd=world.folder,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None


def _journals(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Journals by their own name or by the folder they are in."""
    return tuple(path / JOURNAL if path.is_dir() else path for path in paths)


def write_reports(summary: Summary, out: Path, formats: Iterable[str]) -> list[Path]:
    """Write the chosen formats into `out`; each file appears whole or not at all."""
    written = []
    for name in (FILES[each] for each in formats):
        path = out / name
        partial = path.with_name(f".{name}.partial")
        try:
            with partial.open("wb") as file:
                file.writelines(RENDERERS[name](summary))
            partial.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
        written.append(path)
    return written


def append_step_summary(summary: Summary, world: World) -> None:
    """Add the summary to the job's page when this runs in GitHub Actions."""
    path = world.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with Path(path).open("ab") as file:
            file.writelines(RENDERERS["summary.md"](summary))
    except OSError as error:  # a page less, and no reason to lose the verdict
        say(world.stderr, f"warning: GITHUB_STEP_SUMMARY: {path} cannot be written: {error.strerror}\n")


def show(summary: Summary, world: World, output: str, redactor: Redactor) -> None:
    """Print the outcome on stdout."""
    if output == "json":
        from ci_evals.reports import json_brief

        text = json_brief.render_json(summary)
    else:
        from ci_evals.reports import terminal

        color = world.stdout.isatty() and "NO_COLOR" not in world.environ
        text = terminal.render(summary, width=terminal_width(world), color=color)
    say(world.stdout, redactor.clean_text(text).rstrip("\n") + "\n")


def terminal_width(world: World) -> int:
    """The width of the terminal; 120 columns in a log."""
    if columns := world.environ.get("COLUMNS", ""):
        return max(40, int(columns)) if columns.isdecimal() else 120
    try:
        return os.get_terminal_size(world.stdout.fileno()).columns
    except (OSError, ValueError):
        return 120
