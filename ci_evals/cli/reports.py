"""The commands that read saved reports, and run nothing: `compare`, `explain` and `view`."""

import asyncio
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import click

from ci_evals.cli import options
from ci_evals.cli.console import Console
from ci_evals.cli.live import LivePage, run_server
from ci_evals.errors import UsageError
from ci_evals.files import write_atomically
from ci_evals.format import name_of
from ci_evals.gate.compare import Comparison, NoComparison, compare
from ci_evals.gate.verdict import comparison_verdict, decide, exit_code
from ci_evals.model.rules import Gate
from ci_evals.reports import html, markdown, report_json, terminal
from ci_evals.reports.explain import (
    Explanation,
    explanations,
    render_json,
    render_markdown,
    render_text,
)
from ci_evals.reports.read import (
    read_baseline,
    read_report,
    read_summary,
    report_folders,
    with_answers,
)
from ci_evals.reports.saved import SavedReport
from ci_evals.reports.summary import Summary
from ci_evals.suite.problems import unknown
from ci_evals.suite.types import RESULTS

ReportFormat = Literal["text", "markdown", "json"]


def compare_reports(base: Sequence[Path], head: Path) -> Summary:
    """Compare a saved report with others.

    The verdict is that of the head's own gate on the comparison alone: its bars were judged when it
    was run. A suspect counts as regressed only with the confirm runs that it got then.

    Args:
        base: reports, folders of them, or folders of such folders: the newest and its history.
        head: the report that is compared, or its folder.

    Raises:
        StorageError: a file cannot be read, is damaged, or a newer ci-evals wrote it.
    """
    saved = read_report(head)
    report, gate = saved.report, saved.gate
    found = _compare(saved, base)
    return Summary(report, comparison_verdict(report, gate, found), gate, found)


def _compare(head: SavedReport, base: Sequence[Path]) -> Comparison | NoComparison:
    found = read_baseline(base, head.suite.name, but=head)
    if isinstance(found, NoComparison):
        return found
    return compare(
        head.head,
        found,
        confirm_runs=head.confirm_runs,
        alpha=(head.gate or Gate()).alpha,
        is_selection=head.suite.selection is not None,
    )


def summary_to_view(path: Path, base: Sequence[Path] = ()) -> Summary:
    """Return the summary of a saved report, judged again by all its rules.

    Args:
        path: the report, or its folder.
        base: what to compare it with; without it, what the report itself has of its comparison.

    Raises:
        StorageError: see `read_report`.
    """
    saved = read_report(path)
    if not base:
        return saved.summary
    report, gate = saved.report, saved.gate
    found = _compare(saved, base)
    return with_answers(Summary(report, decide(report, gate, found), gate, found))


def explain_cells(
    head: Path,
    case: str,
    provider: str | None = None,
    prompt: str | None = None,
    *,
    suite: str | None = None,
    base: Sequence[Path] = (),
) -> list[Explanation]:
    """Explain the cells of a case, on every or one provider, with every or one prompt.

    Args:
        head: the report, its folder, or a folder with those of several suites.
        case, provider, prompt: the cells.
        suite: the name of the one whose report is looked at, where there are several; None for all.
        base: what to compare it with; without it, what the report itself has of its comparison.

    Raises:
        StorageError: a file cannot be read, is damaged, or a newer ci-evals wrote it.
        UsageError: the report has no such case, or not on such a provider or prompt.
    """
    folders = report_folders(head) or [head]
    summaries = [compare_reports(base, each) if base else read_summary(each) for each in folders]
    if suite is not None:
        names = [summary.report.suite.name for summary in summaries]
        if suite not in names:
            raise UsageError(
                f"{head.as_posix()} has no report of {suite!r}, only of {', '.join(map(name_of, names))}"
            )
        summaries = [summary for summary in summaries if summary.report.suite.name == suite]
    chosen = {
        (number, cell.cell): summary.report.plan.key(cell.cell)
        for number, summary in enumerate(summaries)
        for cell in summary.report.cells
    }
    for noun, name, part in (("case", case, 0), ("provider", provider, 1), ("prompt", prompt, 2)):
        known = dict.fromkeys(
            name_of(key[part]) for key in chosen.values() if key[part] is not None
        )
        chosen = {place: key for place, key in chosen.items() if name in (None, key[part])}
        if not chosen:
            raise UsageError(unknown(noun, str(name), known))
    found: list[Explanation] = []
    for number, summary in enumerate(summaries):
        if cells := [cell for of, cell in chosen if of == number]:
            source = summary.compared.baseline.source if summary.compared else None
            found += explanations(
                summary, cells, read_summary(Path(source)).report if source else None
            )
    return found


@options.command("compare")
@click.argument("reports", nargs=-1, required=True, type=options.PATH, metavar="BASE... HEAD")
@options.report_format
def compare_command(reports: tuple[Path, ...], output: ReportFormat) -> int:
    """Compare a report with those of its base, offline.

    Says what got worse, and how sure that is. BASE and HEAD are each a report.json or a results
    folder; HEAD comes last. Several BASEs, or a folder with reports in it, are the newest with its
    history. The exit code is what HEAD's gate says of the comparison alone, whatever its bars say.
    Nothing is run: a case that looks worse counts only with the confirm runs that HEAD has.

    \b
    Examples:
      ci-evals compare main/report.json ci-evals-results
      ci-evals compare reports-of-main/ ci-evals-results --format markdown
    """
    *base, head = reports
    if not base:
        raise click.UsageError(
            "name at least one report to compare with, and then the report that is compared"
        )

    summary = compare_reports(base, head)
    console = Console.of_process(output)
    match output:
        case "markdown":
            console.print(b"".join(markdown.render(summary)).decode())
        case "json":
            console.print(report_json.render_comparison(summary))
        case "text":
            console.print(terminal.render(summary, width=console.width, color=console.color))
    return exit_code(summary.verdict, summary.gate)


@options.command()
@click.argument("case")
@options.option(
    "--report",
    type=options.PATH,
    metavar="PATH",
    help="A report.json or a results folder; default: the suite's folder for results, else ci-evals-results.",
)
@options.config
@options.baseline_reports
@options.option("--provider", help="Only on this provider.")
@options.option("--prompt", help="Only with this prompt.")
@options.report_format
def explain(
    case: str,
    report: Path | None,
    config: Path | None,
    baseline: tuple[Path, ...],
    provider: str | None,
    prompt: str | None,
    output: ReportFormat,
) -> int:
    """Show everything about one CASE.

    Prints every run here and on the base, its grades, and the statistical test in words. Without
    --baseline, the comparison is the one that the report has; with it, the comparison is made anew,
    and the runs of the newest base report are shown, too. Where several suites were run, each that
    has such a case is looked at; --config names one.

    \b
    Examples:
      ci-evals explain refund
      ci-evals explain refund --provider gpt-4o-mini --baseline main/report.json
    """
    usual = Path(RESULTS)
    suite = None
    if config is not None or (report is None and not usual.is_dir()):
        suite = options.load_named_suite(config, offline=True)
    report = report or (suite.out if suite else usual)
    found = explain_cells(
        report, case, provider, prompt, suite=suite.name if suite else None, base=baseline
    )
    render = {"text": render_text, "markdown": render_markdown, "json": render_json}[output]
    Console.of_process(output).print(render(found))
    return 0


@options.command()
@click.argument("report", type=options.PATH, required=False, metavar="[REPORT]")
@options.baseline_reports
@options.option(
    "--no-browser", is_flag=True, help="Print the page's path or address; open nothing."
)
@options.option(
    "--serve",
    "live",
    is_flag=True,
    help="Follow a run that is going on, at an address of this machine.",
)
@options.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Of --serve; default: any that is free.",
)
def view(
    report: Path | None, baseline: tuple[Path, ...], port: int, *, no_browser: bool, live: bool
) -> None:
    """Make report.html from a saved report, and open it.

    REPORT is a report.json or a results folder (default: ci-evals-results), of one suite or of
    several; the page goes beside the report. Several have one page with a section each, which leads
    to theirs. It says what the report says; with --baseline, the comparison is made anew. Nothing
    is run.

    With --serve, the page shows the results of a run as they come, and its report in the end; no
    file is written. It stays, and follows the next run into the same folder, until Ctrl-C.

    \b
    Examples:
      ci-evals view
      ci-evals view downloads/report.json --baseline main/report.json
      ci-evals view --serve
    """
    path = report or Path(RESULTS)
    console = Console.of_process()

    def show(url: str) -> None:
        if not no_browser and not webbrowser.open(url):
            console.remark("no browser could be started: open the page yourself")

    if live:
        folder = path.parent if path.suffix == ".json" else path
        live_page = LivePage(folder, lambda each: summary_to_view(each, baseline))

        async def follow() -> None:
            async with run_server(live_page, port) as url:
                console.print(url)
                await asyncio.to_thread(show, url)
                await asyncio.Event().wait()

        with suppress(KeyboardInterrupt):
            asyncio.run(follow())
        return
    folders = report_folders(path) or [path]
    pages = [
        each / "report.html" if each.is_dir() else each.with_suffix(".html") for each in folders
    ]
    summaries = [summary_to_view(each, baseline) for each in folders]
    for summary, page in zip(summaries, pages, strict=True):
        write_atomically(page, html.render(summary))
    if len(folders) > 1:  # the page of all leads to theirs
        sections = [
            (summary, page.relative_to(path).as_posix())
            for summary, page in zip(summaries, pages, strict=True)
        ]
        pages.insert(0, path / "report.html")
        write_atomically(pages[0], html.render_several(sections, {}))
    for page in pages:
        console.print(page.as_posix())
    show(pages[0].absolute().as_uri())
