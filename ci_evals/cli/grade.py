"""`ci-evals grade`: grade answers in recorded traces."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from uuid import uuid4

import click

from ci_evals.cli import options
from ci_evals.cli.console import Console
from ci_evals.cli.run import read_checkout, run_and_report
from ci_evals.engine.journal import JOURNAL
from ci_evals.engine.traces import MatchedTraces, match_traces, read_traces
from ci_evals.errors import UsageError
from ci_evals.format import number_of
from ci_evals.hosts import ArtifactNames, Posting
from ci_evals.invocation import Invocation
from ci_evals.providers.emitters import advise
from ci_evals.providers.mock import Mock
from ci_evals.suite.overrides import Overrides
from ci_evals.suite.types import RESULTS


def _warnings(matched: MatchedTraces, suite_file: str) -> Iterator[str]:
    """Say which traces match no case, and what wrote those without a question or an answer."""
    unmatched = matched.unmatched
    if unmatched:
        titles = [repr(trace.title)[:80] for trace in unmatched[:5]]
        named = ", ".join(dict.fromkeys(titles))
        verb = "match"
        if len(unmatched) == 1:
            verb = "matches"
        number = number_of(len(unmatched), "trace")
        yield f"{number} {verb} no case of {suite_file}: {named}"
    silent = [
        trace.emitter
        for trace in unmatched
        if trace.emitter is not None and trace.case_id is None and trace.question is None
    ]
    if silent:
        advice = "; ".join(advise(silent, "question"))
        yield f"no question in {number_of(len(silent), 'trace')}: {advice}"
    unanswered = [
        trace.emitter
        for trace in chain.from_iterable(matched.by_case.values())
        if trace.emitter is not None and trace.response is not None and not trace.response.output
    ]
    if unanswered:
        advice = "; ".join(advise(unanswered, "answer"))
        yield f"no answer in {number_of(len(unanswered), 'trace')}, graded as empty: {advice}"


@options.command()
@click.argument(
    "traces",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="TRACES...",
)
@options.suite
@options.option(
    "--match", metavar="ATTRIBUTE", help="The attribute of a trace with the id of its case."
)
@options.out
@options.console
def grade(
    traces: tuple[Path, ...],
    config: Path | None,
    match: str | None,
    out: Path | None,
    console: Console,
) -> int:
    """Grade recorded traces without running anything.

    The verdict is the exit code. TRACES are files, or folders of files: OTLP JSON of OpenTelemetry,
    spans exported from Phoenix, Langfuse or LangSmith (one document, or one per line), or a run
    JSON of ag2. A trace belongs to the case whose id is in its attribute `ci_evals.case.id`,
    `case_id`, `case.id` or `task_id`, or whose input is its question. Judges are called; cases
    without a trace are errored.

    \b
    Example:
      ci-evals grade traces.jsonl --suite evals.yaml
    """
    posting = Posting(comment="off", log=console.log_name)
    if console.host is not None:
        console.host.note_section("", posting)
    suite = options.load_named_suite(config, Overrides(out=out), offline=True, judging=True)
    recorded = chain.from_iterable(read_traces(path, match) for path in traces)
    matched = match_traces(recorded, suite.cases)
    if not matched.by_case and not matched.unmatched:
        places = ", ".join(path.as_posix() for path in traces)
        raise UsageError(f"there is no trace in {places}")
    for warning in _warnings(matched, suite.file):
        console.warn(warning)
    cases = []
    for case in suite.cases:
        runs = len(matched.by_case.get(case.id, ()))
        cases.append(replace(case, runs=max(1, runs), providers=(), prompts=()))
    # Nothing tells which provider of the suite gave the answers: they are one variant of their own.
    suite = replace(suite, providers=(Mock(name="traces"),), prompts=(), cases=cases)
    invocation = Invocation(
        suite=suite,
        journal=suite.out / JOURNAL,
        traces=matched.by_case,
        checkout=read_checkout(suite.folder),
        run_id=uuid4().hex,
        files=suite.out,
    )
    ended = run_and_report(invocation, console, posting, ArtifactNames(RESULTS))
    return ended.exit_code
