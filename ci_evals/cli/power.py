"""`ci-evals power`: the losses that a suite can detect, and the gain from more runs or cases."""

from collections import Counter
from pathlib import Path

import click

from ci_evals.cli import options
from ci_evals.cli.console import Console
from ci_evals.errors import StorageError, UsageError
from ci_evals.gate.compare import NoComparison
from ci_evals.gate.power import power_of
from ci_evals.gate.rehearsal import PlannedCell, replay, simulate
from ci_evals.model.rules import Gate
from ci_evals.reports.read import read_baseline
from ci_evals.reports.tools import PowerFormat, render_power
from ci_evals.stats.thresholds import FURTHER_ROUNDS
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

    Draws pull requests at random and judges them as real ones would be, main's code beside the
    change. Calls nothing and costs nothing. With --history, the reports also show how often this
    gate would have been red on them. CONFIG is the same as --config.

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
    cells = [
        PlannedCell(case, variant, case.runs or suite.runs)
        for case in suite.cases
        for variant in suite.columns
        if case.runs_on(variant) and case.quarantine is None
    ]
    if not cells:
        raise UsageError("all cases are in quarantine: there is nothing that could be red")
    source = ", ".join(path.as_posix() for path in history)
    if baseline is not None and not any(cell.key in baseline.cells for cell in cells):
        raise StorageError(f"{source} has none of the cases and providers of this suite")
    runs_of_cases = Counter(cell.runs for cell in cells)
    [(most_common_runs, _)] = runs_of_cases.most_common(1)
    cases = list(Counter(cell.variant for cell in cells).values())
    further_rounds = 0
    if suite.confirm_runs:
        further_rounds = FURTHER_ROUNDS
    found = power_of(
        suite.name, cases, most_common_runs, baseline, source, further_rounds=further_rounds
    )
    rules = suite.gate or Gate()
    simulated = simulate(
        cells,
        baseline,
        confirm_runs=suite.confirm_runs,
        rules=rules,
        likely_drop=found.now.pooled,
    )
    replayed = None
    if baseline is not None:
        replayed = replay(cells, baseline, rules)
    Console.of_process(output).print(render_power(found, simulated, replayed, output))
