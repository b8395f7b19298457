"""The commands that read saved reports, and run nothing: `comment`, `compare` and `explain`."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from ci_evals import options, streams, world

if TYPE_CHECKING:
    from ci_evals.commenting import Mode
    from ci_evals.comparing import ReportFormat

report_path = click.Path(path_type=Path)


@click.command()
@click.argument("reports", nargs=-1, required=True, type=report_path, metavar="BASE... HEAD")
@options.report_format
def compare(reports: tuple[Path, ...], output: "ReportFormat") -> int:
    """Compare a report with those of its base, offline.

    Tells what is worse, and how sure that is. BASE and HEAD are each a report.json or a results folder; HEAD comes
    last. Several BASEs, or a folder with reports in it, are the newest with its history. The exit code is what HEAD's
    gate says of the comparison alone, whatever its bars say. Nothing is run: a case that looks worse counts only with
    the confirm runs that HEAD has.

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
@options.baseline_reports
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
    """Tell all that is known of one CASE.

    That is every run here and on the base, its grades, and the test in words. Without --baseline it is what the report
    itself has of its comparison; with it, the comparison is made anew and the runs of the newest base report are shown
    too.

    \b
    Examples:
      ci-evals explain refund
      ci-evals explain refund --provider gpt-4o-mini --baseline main/report.json
    """
    from ci_evals.explaining import Wanted, explanations, shown

    found = explanations(Wanted(case, **only), report or _results(config), baseline)
    _print(shown(found, output), output)
    return 0


@click.command()
@click.argument("results", type=click.Path(path_type=Path), required=False, metavar="[RESULTS_DIR]")
@options.setting(
    "--from-run",
    type=click.IntRange(min=1),
    metavar="ID",
    help="Comment on the pull request of this workflow run with the reports that it has uploaded.",
)
@options.setting(
    "--artifact",
    metavar="NAME",
    help="What the job's artifact is called (default: ci-evals-results), which tells the jobs of a workflow apart."
    " With --from-run, which artifacts to take; may have a * (default: ci-evals*).",
)
@options.setting(
    "--mode",
    type=click.Choice(["auto", "new"]),
    default="auto",
    show_default=True,
    envvar="CI_EVALS_COMMENT_MODE",
    help="One comment for the pull request, which is edited; or a new one for each workflow run.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be posted, and post nothing.")
def comment(results: Path | None, from_run: int | None, artifact: str | None, mode: "Mode", *, dry_run: bool) -> int:
    """Post the comment on a pull request from a report.json.

    This is for a job of GitHub Actions. RESULTS_DIR (default: ci-evals-results) is the results folder of a run of this
    pull request. With --from-run it is what another workflow run has uploaded: that is how pull requests from forks,
    whose own jobs may not comment, get theirs. Such reports are taken for hostile.

    \b
    Examples:
      ci-evals comment
      ci-evals comment --dry-run
      ci-evals comment --from-run ${{ github.event.workflow_run.id }}   in a workflow_run workflow

    \b
    Exit codes: 0 posted, or rightly not (no pull request, a newer run) · 1 not posted, the reason is printed ·
    2 the command line is wrong · 3 the report cannot be read
    """
    if from_run is not None and results is not None:
        raise click.UsageError("RESULTS_DIR and --from-run ID exclude each other")

    from ci_evals import commenting
    from ci_evals.github.context import read_context
    from ci_evals.github.names import RESULTS

    context = read_context(os.environ)
    show = _say_on(sys.stdout) if dry_run else None
    if from_run is not None:
        outcome = commenting.comment_from_run(context, from_run, artifact, mode, show)
    else:
        place = commenting.Place(artifact or RESULTS, mode)
        outcome = commenting.comment_on(results or Path("ci-evals-results"), context, place, show)
    if outcome.warning:
        _say_on(sys.stderr)(f"warning: {outcome.warning}")
    elif said := outcome.note or (outcome.url and f"posted: {outcome.url}"):
        _say_on(sys.stdout)(said)
    return int(outcome.warning is not None)


def _results(config: Path | None) -> Path:
    """Where the results of the suite are."""
    usual = Path("ci-evals-results")
    if config is None and usual.is_dir():
        return usual
    return options.suite_named(config, offline=True).out


def _print(text: str, output: "ReportFormat") -> None:
    """On stdout."""
    shown = text if output == "json" else _inert(text)
    streams.say(sys.stdout, shown.rstrip("\n") + "\n")


def _inert(text: str) -> str:
    """In a log of GitHub Actions nothing in it is taken for a workflow command."""
    if not world.in_actions(os.environ):
        return text
    from ci_evals.reports.text import without_commands

    return without_commands(text)


def _appearance() -> tuple[int, bool]:
    """The width of the terminal, and whether it has colors."""
    from ci_evals.conclusion import terminal_width

    return terminal_width(world.here()), sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _say_on(stream: TextIO) -> Callable[[str], None]:
    """Prints lines, which may quote models."""
    return lambda text: streams.say(stream, f"{_inert(text)}\n")
