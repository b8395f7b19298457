"""`ci-evals power`: the losses that a suite can detect, and the gain from more runs or cases."""

from collections import Counter
from pathlib import Path

import click

from ci_evals.cli import options
from ci_evals.cli.console import Console
from ci_evals.errors import StorageError
from ci_evals.gate.compare import NoComparison
from ci_evals.gate.power import power_of
from ci_evals.model.case import Variant
from ci_evals.reports.read import read_baseline
from ci_evals.reports.tools import PowerFormat, render_power
from ci_evals.suite.overrides import Overrides


@options.command()
@click.argument("file", required=False, type=options.PATH, metavar="[CONFIG]")
@options.config
@options.option(
    "--history",
    multiple=True,
    type=options.PATH,
    metavar="PATH",
    help="A report.json of this suite, or a folder of them, that shows how its answers vary; may be"
    " repeated.",
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
    """Show what a suite can detect, and what more runs or cases would gain.

    Calls nothing and costs nothing. CONFIG is the same as --config.

    \b
    Examples:
      ci-evals power
      ci-evals power evals/support.yaml --runs 5 --history main/report.json
    """
    suite = options.load_named_suite(
        file or config, Overrides(runs=runs, providers=providers), offline=True
    )
    baseline = None
    if history:
        baseline = read_baseline(history, suite.name)
    if isinstance(baseline, NoComparison):
        raise StorageError(baseline.sentence)
    runs_of_cases: Counter[int] = Counter()
    cases_of_variants: Counter[Variant] = Counter()
    for case in suite.cases:
        runs_of_cases[case.runs or suite.runs] += 1
        cases_of_variants.update(filter(case.runs_on, suite.columns))
    [(most_common_runs, _)] = runs_of_cases.most_common(1)
    source = ", ".join(path.as_posix() for path in history)
    cases = list(cases_of_variants.values())
    report = power_of(suite.name, cases, most_common_runs, baseline, source)
    Console.of_process(output).print(render_power(report, output))
