"""The commands that read saved reports, and run nothing: `compare` and `explain`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_evals import options, streams

if TYPE_CHECKING:
    from ci_evals.app import World
    from ci_evals.comparing import ReportFormat

report_path = click.Path(path_type=Path)


@click.command()
@click.argument("reports", nargs=-1, required=True, type=report_path, metavar="BASE... HEAD")
@options.report_format
def compare(reports: tuple[Path, ...], output: "ReportFormat") -> int:
    """Compare a report with those of its base, offline: what is worse, and how sure that is.

    Each is a report.json or a results folder; HEAD comes last. Several BASEs, or a folder with reports in it, are the
    newest with its history. The exit code is what HEAD's gate says of the comparison alone, whatever its bars say.
    Nothing is run: a case that looks worse counts only with the confirm runs that HEAD has.

    \b
    Examples:
      ci-evals compare main/report.json ci-evals-results
      ci-evals compare reports-of-main/ ci-evals-results --format markdown
    """
    *base, head = reports
    if not base:
        raise click.UsageError("name at least one report to compare with, and then the report that is compared")

    from ci_evals.comparing import compared, shown
    from ci_evals.verdict.gate import exit_code

    summary = compared(base, head)
    width, color = _appearance()
    _print(shown(summary, output, width=width, color=color), output)
    return exit_code(summary.verdict, summary.gate)


@click.command()
@click.argument("case")
@click.option(
    "--report",
    type=report_path,
    metavar="PATH",
    help="A report.json or a results folder; default: the suite's folder for results, else ci-evals-results.",
)
@options.config
@options.baseline
@click.option("--provider", help="Only on this provider.")
@click.option("--prompt", help="Only with this prompt.")
@options.report_format
def explain(
    case: str,
    report: Path | None,
    config: Path | None,
    baseline: tuple[Path, ...],
    output: "ReportFormat",
    **only: str | None,
) -> int:
    """Tell all that is known of one CASE: every run here and on the base, its grades, and the test in words.

    Without --baseline it is what the report itself has of its comparison; with it, the comparison is made anew and
    the runs of the newest base report are shown too.

    \b
    Examples:
      ci-evals explain refund
      ci-evals explain refund --provider gpt-4o-mini --baseline main/report.json
    """
    from ci_evals.explaining import Wanted, explanations, shown

    found = explanations(Wanted(case, **only), report or _results(config), baseline)
    _print(shown(found, output), output)
    return 0


def _results(config: Path | None) -> Path:
    """Where the results of the suite are."""
    usual = Path("ci-evals-results")
    if config is None and usual.is_dir():
        return usual
    from ci_evals.config.load import Overrides, find_config, load_suite

    return load_suite(config or find_config(Path()), os.environ, Overrides(), offline=True).out


def _print(text: str, output: "ReportFormat") -> None:
    """On stdout; in a log of GitHub Actions nothing in it is taken for a workflow command."""
    if output != "json" and os.environ.get("GITHUB_ACTIONS") == "true":
        from ci_evals.reports.text import without_commands

        text = without_commands(text)
    streams.say(sys.stdout, text.rstrip("\n") + "\n")


def _appearance() -> tuple[int, bool]:
    """The width of the terminal, and whether it has colors."""
    from ci_evals.app import terminal_width

    return terminal_width(_world()), sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _world() -> "World":
    from ci_evals.app import World

    return World(os.environ, Path(), sys.stdout, sys.stderr)
