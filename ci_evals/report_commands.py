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
