"""`ci-evals grade`: judge answers that traces have recorded."""

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import click

from ci_evals.cli import options
from ci_evals.cli.console import Console
from ci_evals.cli.run import revision, run_and_report
from ci_evals.engine.journal import JOURNAL
from ci_evals.engine.traces import match_traces, read_traces
from ci_evals.errors import UsageError
from ci_evals.format import number_of
from ci_evals.hosts import ArtifactNames, Posting
from ci_evals.providers.mock import Mock
from ci_evals.session import Invocation
from ci_evals.suite.overrides import Overrides
from ci_evals.suite.types import RESULTS


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
    "--match", metavar="ATTRIBUTE", help="The attribute of a trace that holds the id of its case."
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

    The verdict is the exit code. TRACES are files, or folders of files: OTLP JSON of OpenTelemetry
    (one document, or one per line), or a run JSON of ag2. A trace belongs to the case whose id it
    has as `ci_evals.case.id`, `case_id`, `case.id` or `task_id`, or whose input it was asked.
    Judges are asked; cases without a trace are errored.

    \b
    Example:
      ci-evals grade traces.jsonl --suite evals.yaml
    """
    suite = options.load_named_suite(config, Overrides(out=out), offline=True, judging=True)
    found = match_traces(
        (trace for path in traces for trace in read_traces(path, match)), suite.cases
    )
    if not (found.by_case or found.unmatched):
        raise UsageError(f"there is no trace in {', '.join(path.as_posix() for path in traces)}")
    if found.unmatched:
        ids = ", ".join(dict.fromkeys(repr(trace.title)[:80] for trace in found.unmatched[:5]))
        number = len(found.unmatched)
        text = f"{number_of(number, 'trace')} {'matches' if number == 1 else 'match'} no case of {suite.file}: {ids}"
        console.warn(text)
    cases = [
        replace(case, runs=max(1, len(found.by_case.get(case.id, ())))) for case in suite.cases
    ]
    suite = replace(suite, providers=(Mock(name="traces"),), prompts=(), cases=cases)
    invocation = Invocation(
        suite=suite,
        journal=suite.out / JOURNAL,
        traces=found.by_case,
        revision=revision(console),
        run_id=uuid4().hex,
        files=suite.out,
    )
    return run_and_report(
        invocation, console, Posting(comment="off"), ArtifactNames(RESULTS)
    ).exit_code
