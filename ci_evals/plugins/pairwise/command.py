"""`ci-evals pairwise`."""

from pathlib import Path

import click

from ci_evals.cli import options
from ci_evals.cli.console import Console, environment
from ci_evals.engine.interrupt import run_until_signal
from ci_evals.model.rules import Gate
from ci_evals.plugins.pairwise.judge import (
    DEFAULT_RUBRIC,
    Answers,
    PreferenceJudge,
    ask_preferences,
    read_answers,
)
from ci_evals.plugins.pairwise.preference import preference
from ci_evals.plugins.pairwise.report import PairwiseFormat, PairwiseReport, render_pairwise
from ci_evals.suite.configs import find_config
from ci_evals.suite.load import load_judge
from ci_evals.suite.types import RESULTS


@options.command("pairwise")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@options.config
@options.option(
    "--report",
    type=options.PATH,
    default=RESULTS,
    show_default=True,
    help="Where to look up A and B if they are variants: a report, a journal, or the folder of"
    " either.",
)
@options.option(
    "--judge", metavar="PROVIDER", help="The judge or provider of the suite that compares them."
)
@options.option(
    "--rubric",
    metavar="TEXT",
    help="The rubric for the judge; default: correct, helpful, to the point.",
)
@options.option(
    "--function",
    metavar="MODULE:FUNCTION",
    help="A function that compares them, instead of a judge.",
)
@options.table_format
@options.option(
    "--fail-if-worse",
    is_flag=True,
    help="Exit 1 if A is preferred beyond chance.",
)
def pairwise(
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
    of two reports (PATH, or PATH::VARIANT if a report has several variants). A preference counts if
    it is the same in both orders; one that changes with the order is a flip and counts as a tie.

    Exits with 0 for either preference, and with 3 if more than 5 % of the pairs got no verdict.

    \b
    Examples:
      ci-evals pairwise gpt-4o-mini gpt-4o --judge claude
      ci-evals pairwise main-results results --function taste:prefer
    """
    if (judge is None) == (function is None):
        raise click.UsageError("name a judge: --judge PROVIDER, or --function MODULE:FUNCTION")
    if rubric and function:
        raise click.UsageError("--rubric can only be used with --judge")
    if judge:
        suite, model = load_judge(config or find_config(Path()), environment(), judge)
        options.learn_secrets(suite)
        preference_judge = PreferenceJudge(provider=model, rubric=rubric or DEFAULT_RUBRIC)
    else:
        suite = options.load_named_suite(config, offline=True)
        preference_judge = PreferenceJudge(function)
    name_a, answers_a = _side(a, report)
    name_b, answers_b = _side(b, report)
    if name_a == name_b:  # the same variant of two reports: only the paths tell them apart
        name_a, name_b = a, b
    pairs = run_until_signal(ask_preferences(suite, answers_a, answers_b, preference_judge))
    found = preference(pairs, (suite.gate or Gate()).confidence)
    text = render_pairwise(PairwiseReport(name_a, name_b, found), output)
    Console.of_process(output).print(text)
    if not found.has_verdict:
        return 3
    return int(fail_if_worse and found.side == "a")


def _side(side: str, report: Path) -> tuple[str, Answers]:
    """Return the name and the answers of a side: a variant, or a path (`PATH`, `PATH::VARIANT`)."""
    path, _, name = side.partition("::")
    if Path(path).exists():
        return options.choose_variant(read_answers(Path(path)), name or None, path)
    return options.choose_variant(read_answers(report), side, report.as_posix())
