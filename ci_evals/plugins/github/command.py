"""`ci-evals comment`: post the comment on a pull request from saved reports."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import click

from ci_evals.cli import options
from ci_evals.cli.console import Console, ask_for_credentials
from ci_evals.cli.run_options import to_baseline
from ci_evals.errors import HostError, StorageError
from ci_evals.hosts import BaselineChoice
from ci_evals.plugins.ci.comment import CommentOutcome, Mode
from ci_evals.plugins.github.comment import (
    ARTIFACTS,
    comment_from_run,
    link_pages,
    post_comment,
)
from ci_evals.plugins.github.context import Context, read_context
from ci_evals.reports.read import read_summary, report_folders
from ci_evals.suite.types import RESULTS


@options.command()
@click.argument("results", type=options.PATH, required=False, metavar="[RESULTS_DIR]")
@options.setting(
    "--from-run",
    type=options.WholeNumber(min=1),
    metavar="ID",
    help="Comment on the pull request of this workflow run with the reports that it has uploaded.",
)
@options.setting(
    "--artifact",
    metavar="NAME",
    help="The name of the job's artifact (default: ci-evals-results), which tells the jobs of a"
    " workflow apart. With --from-run, the artifacts to use; may have a * (default: ci-evals*).",
)
@options.setting(
    "--mode",
    type=click.Choice(["auto", "changes", "new", "off"]),
    default="auto",
    show_default=True,
    envvar="CI_EVALS_COMMENT_MODE",
    help="Edit one comment for the pull request; do so only once something changed; post a new one"
    " for each workflow run; or only link the uploaded pages in the job's summary.",
)
@options.setting(
    "--baseline",
    multiple=True,
    callback=to_baseline,
    type=click.Path(),
    metavar="auto|none|PATH",
    help="With --from-run: compare with this report.json, or a folder with one or more; may be"
    " repeated. `auto`, the default in GitHub Actions: the base branch's report there.",
)
@options.option("--dry-run", is_flag=True, help="Print the comment instead of posting it.")
def comment(
    results: Path | None,
    from_run: int | None,
    artifact: str | None,
    mode: Mode | Literal["off"],
    baseline: BaselineChoice,
    *,
    dry_run: bool,
) -> int:
    """Post the comment on a pull request from a report.json.

    For jobs of GitHub Actions. RESULTS_DIR (default: ci-evals-results) is the results folder of a
    run of this pull request, of one suite or of several. Pages that this workflow run has uploaded
    are linked. With --from-run, another workflow run has uploaded the reports: this is for pull
    requests from forks, whose own jobs may not comment. Such reports are not trusted: they are
    judged again by their results, against a freshly downloaded --baseline.

    \b
    Examples:
      ci-evals comment
      ci-evals comment --dry-run
      ci-evals comment --from-run ${{ github.event.workflow_run.id }}

    \b
    Exit codes: 0 posted, or nothing to post (no pull request, a newer run) ·
    1 not posted, the reason is printed · 2 the command line is wrong ·
    3 the report cannot be read
    """
    if from_run is not None and results is not None:
        raise click.UsageError("RESULTS_DIR and --from-run cannot be combined")

    console = Console.of_process()
    # It runs no code of a suite.
    context = read_context({**console.environ, **ask_for_credentials()})
    if from_run is None:
        part = artifact or RESULTS
        outcome = _comment_on_results(
            context, results or Path(RESULTS), part, mode, console, dry_run=dry_run
        )
    elif mode == "off":
        outcome = CommentOutcome()
    else:
        outcome = comment_from_run(
            context, from_run, artifact or ARTIFACTS, mode, baseline=baseline, dry_run=dry_run
        )
    if outcome.preview:
        console.print(outcome.preview)
    elif outcome.note:
        console.print(outcome.note)
    elif outcome.url:
        console.print(f"posted: {outcome.url}")
    if outcome.warning:
        console.warn(outcome.warning)
        return 1
    return 0


def _comment_on_results(
    context: Context,
    folder: Path,
    part: str,
    mode: Mode | Literal["off"],
    console: Console,
    *,
    dry_run: bool,
) -> CommentOutcome:
    """Post the comment on the reports of a results folder, with links to uploaded pages."""
    summaries = [read_summary(path) for path in report_folders(folder) or [folder]]
    pages: Mapping[str, str] = {}
    problem: str | None = None
    shows_pages = context.pull_request is not None or mode == "off"
    if shows_pages and not dry_run and not context.unusable:
        try:
            pages = link_pages(context, part, summaries)
        except (HostError, StorageError) as error:
            problem = f"no link to report.html: {error}"
    outcome = CommentOutcome()
    if mode != "off":
        outcome = post_comment(summaries, context, part, mode, pages=pages, dry_run=dry_run)
    if problem and not outcome.warning:
        console.warn(problem)
    return outcome
