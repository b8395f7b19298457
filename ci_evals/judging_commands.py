"""The commands that ask judges of answers that are there: `grade`, `judge` and `pairwise`."""

import os
from pathlib import Path
from typing import Any

import click

from ci_evals import options, world


@click.command()
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="TRACES...")
@options.suite
@options.option("--match", metavar="ATTRIBUTE", help="The attribute of a trace that holds the id of its case.")
@options.out
@options.output
@options.quiet
def grade(
    traces: tuple[Path, ...], config: Path | None, match: str | None, out: Path | None, output: str, *, quiet: bool
) -> int:
    """Grade traces that are there, without running anything.

    The verdict is the exit code. TRACES are files, or folders of files: OTLP JSON of OpenTelemetry (one document, or
    one to the line), or a run JSON of ag2. A trace belongs to the case whose id it has as `ci_evals.case.id`,
    `case_id`, `case.id` or `task_id`, or whose input it was asked. Judges are asked; cases without a trace are errored.

    \b
    Example:
      ci-evals grade traces.jsonl --suite evals.yaml
    """
    suite = options.suite_named(config, {"out": out}, offline=True, judging=True)

    from ci_evals import app

    return app.grade(suite, traces, world.here(), world.Appearance(output, quiet), match=match)


@click.group()
def judge() -> None:
    """Measure models that judge."""


@judge.command("check")
@click.argument("labels", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="LABELS.jsonl")
@options.suite
@options.option("--rubric", help="Which judge, by its rubric, if the suite has several.")
@options.output
def judge_check(labels: Path, config: Path | None, rubric: str | None, output: str) -> int:
    """Say whether a judge is fit to gate.

    It is measured against people's labels. LABELS.jsonl has one answer to the line: `output`, `label` (pass or
    fail), and perhaps `input`, `reference`, `context` and `case`. The judge is the suite's. It is fit with at
    least 30 labels and a Cohen's kappa whose 95 % interval lies from 0.6 on.

    \b
    Exit codes: 0 fit to gate · 1 not fit · 3 too little to tell

    \b
    Example:
      ci-evals judge check labels.jsonl --suite evals.yaml
    """
    suite = options.suite_named(config, offline=True, judging=True)

    from ci_evals import measuring

    return measuring.check_judge(suite, labels, rubric, world.here(), output)


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@options.config
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    default="ci-evals-results",
    show_default=True,
    help="Where A and B are looked up when they are variants: a report, a journal, or the folder of either.",
)
@click.option("--judge", metavar="PROVIDER", help="The judge or provider of the suite that prefers.")
@click.option("--rubric", metavar="TEXT", help="What the judge goes by; default: correct, helpful, to the point.")
@click.option("--function", metavar="MODULE:FUNCTION", help="A function that prefers, instead of a judge.")
@options.setting(
    "--format",
    "output",
    type=click.Choice(["table", "markdown", "json"]),
    default="table",
    show_default=True,
    help="What is printed on stdout.",
)
@click.option(
    "--fail-if-worse",
    is_flag=True,
    help="Exit 1 if A is preferred beyond what luck explains, 3 if over 5 % of the pairs got no judgement.",
)
def pairwise(a: str, b: str, config: Path | None, output: str, *, fail_if_worse: bool, **others: Any) -> int:
    """Ask which of two variants is preferred, case by case.

    Each pair of answers is shown in both orders. A and B are variants of one report, or the paths of two (PATH, or
    PATH::VARIANT where there are several). A preference counts if it is the same in both orders; one that goes with the
    order is a flip, and a tie.

    \b
    Examples:
      ci-evals pairwise gpt-4o-mini gpt-4o --judge claude
      ci-evals pairwise main-results results --function taste:prefer --fail-if-worse
    """
    from ci_evals import measuring
    from ci_evals.config.asked import load_asked
    from ci_evals.config.load import find_config
    from ci_evals.engine.pairwise import RUBRIC, Judge

    judge, function, rubric = others["judge"], others["function"], others["rubric"]
    if (judge is None) == (function is None):
        raise click.UsageError("name who prefers: --judge PROVIDER, or --function MODULE:FUNCTION")
    if rubric and function:
        raise click.UsageError("--rubric is for a --judge; a --function has its own")
    if judge:
        suite, model = load_asked(config or find_config(Path()), os.environ, judge)
        prefers = Judge(provider=model, rubric=rubric or RUBRIC)
    else:
        suite, prefers = options.suite_named(config, offline=True), Judge(function)
    found = measuring.pairwise(suite, (a, b), others["report"], prefers, world.here(), output)
    if not fail_if_worse:
        return 0
    return int(found.preference.side == "a") if found.preference.has_verdict else 3
