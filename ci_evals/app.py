"""The whole story of a suite: run it, judge it, write what was found, say it, return the exit code."""

import asyncio
import contextlib
import functools
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from uuid import uuid4

import msgspec
from msgspec import Struct

from ci_evals import progress
from ci_evals.actions.earlier import Artifacts, Earlier, Wanted, earlier
from ci_evals.actions.posting import Posting
from ci_evals.conclusion import Conclusion
from ci_evals.engine.journal import JOURNAL
from ci_evals.engine.journal_lines import first_header
from ci_evals.engine.runner import Run
from ci_evals.engine.shards import Shard
from ci_evals.execution import Stop, check_sources, execute, missing_shards
from ci_evals.github.names import RESULTS
from ci_evals.interruption import until_stopped
from ci_evals.matrix import CellKey
from ci_evals.order import Order
from ci_evals.redaction import Redactor
from ci_evals.report import Report
from ci_evals.reports.text import without_commands
from ci_evals.streams import prints_go_to, say
from ci_evals.suite import Suite, digest
from ci_evals.verdict.words import number_of
from ci_evals.world import Appearance, World, in_actions, loaded

if TYPE_CHECKING:
    from ci_evals.actions.job import Job


class Continuation(Struct, frozen=True):
    """How a run relates to earlier ones: see `ci-evals run --help`.

    `without_secrets`: keys are missing because GitHub gives none to this job, so that only what is recorded answers.
    """

    resume: bool = False
    resume_from: tuple[Path, ...] = ()
    shard: Shard | None = None
    balance_by: Path | None = None
    replay: Path | None = None
    replay_only: bool = False
    record: Path | None = None
    without_secrets: bool = False
    baseline: Wanted = "none"


class Shards(Struct, frozen=True):
    """What is put together: folders with a journal each, or journals; whether to run what none has a result of."""

    folders: tuple[Path, ...]
    run_missing: bool = False
    baseline: Wanted = "none"


def run(suite: Suite, continuation: Continuation, world: World, appearance: Appearance, posting: Posting) -> int:
    """Run a suite and return the exit code.

    Args:
        suite: what to run.
        continuation: what earlier runs contribute.
        world: environment and streams.
        appearance: what is printed.
        posting: what becomes of the verdict in GitHub Actions.
    """
    job = _job_here(world, suite, posting, appearance)
    with tempfile.TemporaryDirectory(prefix="ci-evals-", ignore_cleanup_errors=True) as folder:
        # A shard's own artifact has no report: the base branch's is that of the merge, by its usual name.
        artifacts = Artifacts(RESULTS if continuation.shard else posting.artifact, attempts=posting.artifact)
        found = look_back(continuation.baseline, suite, job, artifacts, Path(folder), world)
        replay = _journals([continuation.replay])[0] if continuation.replay else None
        if continuation.without_secrets:
            replay, why = _recording(continuation, found, Path(folder))
            for warning in why:
                warn(warning, suite, job, world)
        order = Order(
            suite=suite,
            journal=suite.out / JOURNAL,
            resume=continuation.resume or bool(continuation.resume_from or found.journals),
            sources=(*_journals(continuation.resume_from), *found.journals),
            shard=continuation.shard,
            durations_s=_known_durations(continuation.balance_by),
            replay=replay,
            replay_only=continuation.replay_only or continuation.without_secrets,
            revision=revision(world),
            run_id=uuid4().hex,
            files=suite.out,
            baseline=found.baseline,
        )
        return carry_out(order, world, appearance, posting, job)


def merge(suite: Suite, shards: Shards, world: World, appearance: Appearance, posting: Posting) -> int:
    """Put the journals of shards together, decide, and return the exit code.

    Args:
        suite: what the shards ran shares of.
        shards: where their results are.
        world: environment and streams.
        appearance: what is printed.
        posting: what becomes of the verdict in GitHub Actions.
    """
    job = _job_here(world, suite, posting, appearance)
    with tempfile.TemporaryDirectory(prefix="ci-evals-", ignore_cleanup_errors=True) as folder:
        sources = _journals(shards.folders)
        order = Order(
            suite=suite,
            journal=suite.out / JOURNAL,
            sources=sources,
            merge=True,
            run_missing=shards.run_missing,
            revision=revision(world),
            run_id=_merged_id(sources),
            files=suite.out,
        )
        check_sources(order)
        found = look_back(shards.baseline, suite, job, Artifacts(posting.artifact), Path(folder), world)
        order = msgspec.structs.replace(order, baseline=found.baseline)
        if shards.run_missing and (missing := missing_shards(order.sources)):
            say(world.stderr, f"missing: shard {', '.join(missing)}: its runs are run now\n")
        return carry_out(order, world, appearance, posting, job)


def look_back(
    wanted: Wanted, suite: Suite, job: "Job | None", artifacts: Artifacts, folder: Path, world: World
) -> Earlier:
    """Find what earlier runs left behind, and say in a line what that is."""
    found = earlier(wanted, suite, job.context if job else None, artifacts, folder)
    if job:
        job.say(found.said)
    elif wanted == "auto":
        say(world.stderr, "".join(f"{line}\n" for line in found.said))
    for warning in found.warnings:
        warn(warning, suite, job, world)
    return found


def warn(text: str, suite: Suite, job: "Job | None", world: World) -> None:
    """Show a warning: on the page of the workflow run, or on stderr."""
    if job:
        job.warn(text)
    else:
        line = f"warning: {' '.join(text.split())}\n"
        say(world.stderr, Redactor(suite.secrets).clean_text(without_commands(line)))


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
        ids = ", ".join(dict.fromkeys(repr(trace.title)[:80] for trace in found.strangers[:5]))
        number = len(found.strangers)
        text = f"{number_of(number, 'trace')} {'matches' if number == 1 else 'match'} no case of {suite.file}: {ids}"
        warn(text, suite, None, world)
    cases = [msgspec.structs.replace(case, runs=max(1, len(found.by_case.get(case.id, ())))) for case in suite.cases]
    traced = msgspec.structs.replace(suite, providers=(Mock(name="traces"),), prompts=(), cases=cases)
    order = Order(
        suite=traced,
        journal=suite.out / JOURNAL,
        traces=TraceAnswers(found.by_case),
        revision=revision(world),
        run_id=uuid4().hex,
    )
    posting = Posting(comment="off")
    job = _job_here(world, traced, posting, appearance)
    return carry_out(order, world, appearance, posting, job)


def carry_out(order: Order, world: World, appearance: Appearance, posting: Posting, job: "Job | None") -> int:
    """Execute an order, report, and return the exit code."""
    suite = order.suite
    conclusion = Conclusion(order, suite.out.absolute(), world, appearance, posting, Redactor(suite.secrets), job)

    def clean(printed: str) -> str:
        text = conclusion.redactor.clean_text(printed)
        return without_commands(text) if job else text

    def watch(run: Run) -> contextlib.AbstractAsyncContextManager[None]:
        loaded()
        return contextlib.nullcontext() if appearance.quiet else progress.shown(run, world.stderr, live=world.redraws)

    async def phase(stop: Stop) -> Report:
        if not order.run_missing:
            loaded()  # nothing runs that would be watched
        tell = (lambda _: None) if appearance.quiet else conclusion.tell
        return await execute(order, stop=stop, tell=tell, watch=watch)

    if job and not order.shard:
        job.announce()
    with job.working() if job else contextlib.nullcontext():
        around = functools.partial(prints_go_to, world.stderr, clean, start=world.over_the_bar)
        code = until_stopped(phase, conclusion.draw, conclusion.salvage, around)
    if job:
        job.finish()
    return code


def serve_mock(config: Path | None, world: World, host: str, port: int) -> None:
    """Serve the config's `mock` provider, or one that echoes, until interrupted."""
    from ci_evals.config.load import load_mock
    from ci_evals.providers.mock import Mock
    from ci_evals.providers.mock_server import serve

    options = load_mock(config, world.environ) if config else Mock()
    loaded()
    asyncio.run(serve(options, host, port, log=lambda line: say(world.stdout, line + "\n")))


def revision(world: World) -> str | None:
    """The commit under test, as the CI system or git knows it: of a pull request its head, not the throw-away merge."""
    if "GITHUB_SHA" in world.environ:
        from ci_evals.github.context import read_context

        if sha := read_context(world.environ).sha:
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


def _known_durations(path: Path | None) -> Mapping[CellKey, float]:
    if path is None:
        return {}
    from ci_evals.durations import known_durations

    return known_durations(path)


def _merged_id(sources: Iterable[Path]) -> str:
    """What a merge is called: the same for the same journals, so that it can be repeated to the byte."""
    starts = filter(None, map(first_header, sources))
    return digest([(header.suite.run_id, header.started_at) for header in starts])


def _job_here(world: World, suite: Suite, posting: Posting, appearance: Appearance) -> "Job | None":
    """The job of GitHub Actions that this runs in, begun; None elsewhere."""
    if not in_actions(world.environ):
        return None
    from ci_evals.actions.job import Job

    job = Job(suite, world.environ, posting, suite.out.absolute(), _log(world, appearance))
    job.begin()
    return job


def _log(world: World, appearance: Appearance) -> TextIO:
    """Where the log is: with JSON, stdout is not the log but a file or another program."""
    return world.stderr if appearance.output == "json" else world.stdout


def _recording(continuation: Continuation, found: Earlier, folder: Path) -> tuple[Path, list[str]]:
    """What answers where nothing can be called (the named recording, the base side's, or nothing), and warnings."""
    named = continuation.record
    if named and named.exists():
        return _journals([named])[0], []
    missing = [f"no recording is at {named.as_posix()}, which --record names"] if named else []
    if found.recording:
        return found.recording, [f"{text}: the base branch's is taken" for text in missing]
    empty = folder / "nothing.jsonl"
    empty.touch()
    reason = missing[0] if named else "no recording: the base branch has left none that can be used"
    return empty, [f"{reason}; nothing could be checked, for this job gets no secrets"]


def _journals(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Journals by their own name or by the folder they are in."""
    return tuple(path / JOURNAL if path.is_dir() else path for path in paths)
