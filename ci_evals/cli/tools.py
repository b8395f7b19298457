"""The commands beside a run: check a suite, measure it, and judge answers that exist."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import click

from ci_evals.cli import options
from ci_evals.cli.console import Console, environment
from ci_evals.cli.run import revision, run_and_report
from ci_evals.engine.interrupt import run_until_signal
from ci_evals.engine.journal import JOURNAL
from ci_evals.engine.judge_check import check_judge, find_judge, read_labelled_answers
from ci_evals.engine.pairwise import (
    DEFAULT_RUBRIC,
    Answers,
    PreferenceJudge,
    ask_preferences,
    choose_variant,
    read_answers,
)
from ci_evals.engine.traces import match_traces, read_traces
from ci_evals.errors import ConfigError, Problem, StorageError, UsageError
from ci_evals.format import number_of
from ci_evals.gate.compare import NoComparison
from ci_evals.gate.power import Size, power_of
from ci_evals.gate.preference import preference
from ci_evals.github.baseline import ArtifactNames
from ci_evals.github.context import RESULTS
from ci_evals.github.job import Posting
from ci_evals.model.plan import plan_runs
from ci_evals.model.rules import Gate
from ci_evals.providers.mock import Mock
from ci_evals.providers.mock_server import serve
from ci_evals.reports.read import read_baseline
from ci_evals.reports.tools import (
    PairwiseFormat,
    PairwiseReport,
    PowerFormat,
    render_judge_check,
    render_pairwise,
    render_power,
)
from ci_evals.session import Invocation
from ci_evals.suite.configs import find_config, find_configs
from ci_evals.suite.load import load_judge, load_mock
from ci_evals.suite.overrides import Overrides
from ci_evals.suite.schema import suite_schema_text


@options.command()
@options.suites
@options.providers
@options.tags
@options.runs
def validate(
    named: tuple[Path, ...],
    providers: tuple[str, ...] | None,
    tags: tuple[str, ...] | None,
    runs: int | None,
) -> None:
    """Check suites without calling anything.

    SUITE is a config, or a folder for all that are in it and below; default: evals.yaml here or in
    .github/.

    Lists every problem with its file, line and a suggestion: unknown keys, wrong types, duplicate
    ids, missing files, variables that are not set, templates that do not fit their cases, functions
    that their modules do not define.
    """
    problems: list[Problem] = []
    for path in find_configs(named):
        try:
            suite = options.load_named_suite(
                path, Overrides(providers=providers, tags=tags, runs=runs)
            )
        except ConfigError as error:
            problems += error.problems
            continue
        total = plan_runs(suite.cases, suite.columns, suite.runs).total
        shape = (
            f"{number_of(len(suite.cases), 'case')} × {number_of(len(suite.columns), 'variant')}"
        )
        Console.of_process().print(f"{suite.file} is valid: {shape}, {number_of(total, 'run')}")
    if problems:
        raise ConfigError(problems)


@options.command()
@click.argument("file", required=False, type=options.PATH, metavar="[CONFIG]")
@options.config
@options.option(
    "--history",
    multiple=True,
    type=options.PATH,
    metavar="PATH",
    help="A report.json of this suite, or a folder of them, that shows how its answers vary; may be repeated.",
)
@options.providers
@options.runs
@options.report_format
def power(
    file: Path | None,
    config: Path | None,
    history: tuple[Path, ...],
    runs: int | None,
    providers: tuple[str, ...] | None,
    output: PowerFormat,
) -> None:
    """Say what a suite can detect, and what more runs would buy.

    Also says what more cases would buy. Calls nothing and costs nothing. CONFIG is the same as
    --config.

    \b
    Examples:
      ci-evals power
      ci-evals power evals/support.yaml --runs 5 --history main/report.json
    """
    suite = options.load_named_suite(
        file or config, Overrides(runs=runs, providers=providers), offline=True
    )
    known = read_baseline(history, suite.name) if history else None
    if isinstance(known, NoComparison):
        raise StorageError(known.reason)
    each = Counter(suite.runs if case.runs is None else case.runs for case in suite.cases)
    size = Size(len(suite.cases), each.most_common(1)[0][0])
    found = power_of(
        suite.name, size, len(suite.columns), known, ", ".join(path.as_posix() for path in history)
    )
    Console.of_process(output).print(render_power(found, output))


@options.command()
def schema() -> None:
    """Print the JSON Schema of evals.yaml.

    Editors complete and check the file with it:

    \b
      ci-evals schema > evals.schema.json
      # yaml-language-server: $schema=evals.schema.json

    The second line is the first one of evals.yaml.
    """
    Console.of_process("json").print(suite_schema_text())


@options.command("mock-server")
@options.setting(
    "-c",
    "--config",
    type=options.PATH,
    help="The suite whose `mock` provider answers; default: echo.",
)
@options.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@options.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    default=8080,
    show_default=True,
    help="0 takes a free one.",
)
def mock_server(config: Path | None, host: str, port: int) -> None:
    """Serve an OpenAI-compatible endpoint on loopback.

    Tries a suite without a key: point an `openai` provider at it with `base_url:
    http://127.0.0.1:8080/v1`. Answers as the first `mock` provider of the config does; without a
    config, it echoes the question.
    """
    mock = load_mock(config, environment()) if config else Mock()
    asyncio.run(serve(mock, host, port, log=Console.of_process().print))


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
        revision=revision(console.environ),
        run_id=uuid4().hex,
        files=suite.out,
    )
    return run_and_report(
        invocation, console, Posting(comment="off"), ArtifactNames(RESULTS)
    ).exit_code


@click.group()
def judge() -> None:
    """Measure how well a model judges."""


@judge.command("check", context_settings=options.SETTINGS)
@click.argument(
    "labels", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="LABELS.jsonl"
)
@options.suite
@options.option("--rubric", help="Which judge, by its rubric, if the suite has several.")
@options.output
def judge_check(labels: Path, config: Path | None, rubric: str | None, output: str) -> int:
    """Say whether a judge is fit to gate.

    Compares its verdicts with people's labels. LABELS.jsonl has one answer per line: `output`,
    `label` (pass or fail), and perhaps `input`, `reference`, `context` and `case`. The judge is the
    suite's. It is fit with at least 30 labels and a Cohen's kappa whose 95 % interval lies from 0.6
    on.

    \b
    Exit codes: 0 fit to gate · 1 not fit · 3 too little to tell

    \b
    Example:
      ci-evals judge check labels.jsonl --suite evals.yaml
    """
    suite = options.load_named_suite(config, offline=True, judging=True)
    console = Console.of_process(output)
    found = run_until_signal(
        check_judge(suite, find_judge(suite, rubric), read_labelled_answers(labels))
    )
    for reason in dict.fromkeys(found.unanswered[:3]):
        console.remark(f"no verdict: {reason}")
    console.print(render_judge_check(found, "json" if output == "json" else "table"))
    return {True: 0, False: 1, None: 3}[found.fit]


@options.command("pairwise")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@options.config
@options.option(
    "--report",
    type=options.PATH,
    default=RESULTS,
    show_default=True,
    help="Where A and B are looked up when they are variants: a report, a journal, or the folder of either.",
)
@options.option(
    "--judge", metavar="PROVIDER", help="The judge or provider of the suite that prefers."
)
@options.option(
    "--rubric",
    metavar="TEXT",
    help="What the judge goes by; default: correct, helpful, to the point.",
)
@options.option(
    "--function", metavar="MODULE:FUNCTION", help="A function that prefers, instead of a judge."
)
@options.table_format
@options.option(
    "--fail-if-worse",
    is_flag=True,
    help="Exit 1 if A is preferred beyond what luck explains, 3 if over 5 % of the pairs got no judgement.",
)
def pairwise_command(
    *,
    a: str,
    b: str,
    config: Path | None,
    report: Path,
    judge: str | None,
    rubric: str | None,
    function: str | None,
    output: PairwiseFormat,
    fail_if_worse: bool,
) -> int:
    """Ask which of two variants is preferred, case by case.

    Each pair of answers is shown in both orders. A and B are variants of one report, or the paths
    of two (PATH, or PATH::VARIANT where there are several). A preference counts if it is the same
    in both orders; one that goes with the order is a flip, and a tie.

    \b
    Examples:
      ci-evals pairwise gpt-4o-mini gpt-4o --judge claude
      ci-evals pairwise main-results results --function taste:prefer
    """
    if (judge is None) == (function is None):
        raise click.UsageError("name who prefers: --judge PROVIDER, or --function MODULE:FUNCTION")
    if rubric and function:
        raise click.UsageError("--rubric is for a --judge; a --function has its own")
    if judge:
        suite, model = load_judge(config or find_config(Path()), environment(), judge)
        options.learn_secrets(suite)
        prefers = PreferenceJudge(provider=model, rubric=rubric or DEFAULT_RUBRIC)
    else:
        suite, prefers = options.load_named_suite(config, offline=True), PreferenceJudge(function)
    (name_a, answers_a), (name_b, answers_b) = _side(a, report), _side(b, report)
    pairs = run_until_signal(ask_preferences(suite, answers_a, answers_b, prefers))
    found = preference(pairs, (suite.gate or Gate()).confidence)
    labels = (name_a, name_b) if name_a != name_b else (a, b)
    Console.of_process(output).print(render_pairwise(PairwiseReport(*labels, found), output))
    if not fail_if_worse:
        return 0
    return int(found.side == "a") if found.has_verdict else 3


def _side(side: str, report: Path) -> tuple[str, Answers]:
    """Return the name and the answers of a side: the path of a report (`PATH`, `PATH::VARIANT`), or
    a variant.
    """
    path, _, name = side.partition("::")
    if Path(path).exists():
        return choose_variant(read_answers(Path(path)), name or None, path)
    return choose_variant(read_answers(report), side, report.as_posix())
