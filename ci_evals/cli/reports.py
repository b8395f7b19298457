"""The commands that read saved reports: `compare`, `explain` and `view`."""

import asyncio
import webbrowser
from collections.abc import Iterable, Sequence
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
from ci_evals.gate.baseline import Baseline
from ci_evals.gate.compare import Comparison, NoComparison, compare
from ci_evals.gate.verdict import comparison_verdict, decide, exit_code
from ci_evals.reports import html, markdown, report_json, terminal
from ci_evals.reports.explain import (
    Explanation,
    explanations,
    render_json,
    render_markdown,
    render_text,
)
from ci_evals.reports.read import (
    baseline_of,
    read_baseline,
    read_report,
    read_summary,
    report_folders,
    with_answers,
)
from ci_evals.reports.saved import SavedReport
from ci_evals.reports.summary import Summary
from ci_evals.suite.problems import suggestion, unknown
from ci_evals.suite.types import RESULTS

ReportFormat = Literal["text", "markdown", "json"]
ComparisonFormat = Literal["text", "markdown", "json", "html"]

_OF_VARIANT = "::"


def compare_reports(base: Sequence[Path], head: Path) -> Summary:
    """Compare a saved report with others.

    The head's own gate decides, by the comparison alone and without its bars. A suspect counts as
    regressed only with the confirm runs of the head's run.

    Args:
        base: reports, folders of them, or folders of such folders: the newest with its history.
        head: the report to compare, or its folder.

    Raises:
        StorageError: a file cannot be read, is damaged, or a newer ci-evals wrote it.
    """
    saved = read_report(head)
    comparison = _compare(saved, base)
    verdict = comparison_verdict(saved.report, saved.gate, comparison)
    return Summary(saved.report, saved.head, verdict, saved.gate, comparison)


def compare_variants(base: Path, head: Path) -> Summary:
    """Compare the planned runs of two variants of one saved report, or of two.

    Args:
        base, head: each `PATH::VARIANT`, or the path of a report with a single variant.

    Raises:
        StorageError: see `compare_reports`.
        UsageError: a report has no such variant, or has several, none of which is named.
    """
    name, saved_base = _read_variant(base)
    _, saved = _read_variant(head)
    baseline = baseline_of([saved_base], saved.suite.name, name)
    comparison = _compare_with(baseline, saved)
    verdict = comparison_verdict(saved.report, saved.gate, comparison)
    return Summary(saved.report, saved.head, verdict, saved.gate, comparison)


def _read_variant(side: Path) -> tuple[str, SavedReport]:
    path, _, wanted = str(side).partition(_OF_VARIANT)
    saved = read_report(Path(path))
    variants = {str(variant): variant for variant in saved.report.plan.variants}
    name, variant = options.choose_variant(variants, wanted or None, Path(path).as_posix())
    return name, saved.of_variant(variant)


def _compare(head: SavedReport, base: Sequence[Path]) -> Comparison | NoComparison:
    return _compare_with(read_baseline(base, head.suite.name, but=head), head)


def _compare_with(
    baseline: Baseline | NoComparison, head: SavedReport
) -> Comparison | NoComparison:
    if isinstance(baseline, NoComparison):
        return baseline
    return compare(
        head.head,
        baseline,
        confirm_runs=head.confirm_runs,
        rules=head.gate,
        # Without main's runs: if there are any, they were made for the report's own baseline.
        is_selection=head.suite.selection is not None,
    )


def summary_to_view(path: Path, base: Sequence[Path] = ()) -> Summary:
    """Return the summary of a saved report, judged again by all its rules.

    Args:
        path: the report, or its folder.
        base: the reports to compare it with; default: the baseline of the run itself.

    Raises:
        StorageError: see `read_report`.
    """
    saved = read_report(path)
    if not base:
        return saved.summary
    comparison = _compare(saved, base)
    verdict = decide(saved.report, saved.gate, comparison)
    return with_answers(Summary(saved.report, saved.head, verdict, saved.gate, comparison))


def explain_cells(
    head: Path,
    case: str,
    provider: str | None = None,
    prompt: str | None = None,
    *,
    suite: str | None = None,
    base: Sequence[Path] = (),
) -> list[Explanation]:
    """Explain the cells of a case, on one or every provider, with one or every prompt.

    Args:
        head: the report, its folder, or a folder with the results folders of several suites.
        case, provider, prompt: the cells.
        suite: the name of the suite to look at if there are several; None for all.
        base: the reports to compare it with; default: the baseline of the run itself.

    Raises:
        StorageError: a file cannot be read, is damaged, or a newer ci-evals wrote it.
        UsageError: the report has no such case, or no cell of it with this provider or prompt.
    """
    folders = report_folders(head) or [head]
    if base:
        summaries = [compare_reports(base, folder) for folder in folders]
    else:
        summaries = [read_summary(folder) for folder in folders]
    if suite is not None:
        names = [summary.report.suite.name for summary in summaries]
        if suite not in names:
            others = ", ".join(map(name_of, names))
            raise UsageError(f"{head.as_posix()} has no report of {suite!r}, only of {others}")
        summaries = [summary for summary in summaries if summary.report.suite.name == suite]
    cells_of_reports = choose_cells(summaries, (case, provider, prompt))
    explained: list[Explanation] = []
    for summary, cells in zip(summaries, cells_of_reports, strict=True):
        if not cells:
            continue
        base_report = None
        if summary.compared and summary.compared.baseline.source:
            base_report = read_summary(Path(summary.compared.baseline.source)).report
        explained += explanations(summary, cells, base_report)
    return explained


def choose_cells(
    summaries: Sequence[Summary], wanted: tuple[str, str | None, str | None]
) -> list[list[int]]:
    """Return the cells of each report with this case, provider and prompt; None for any.

    Raises:
        UsageError: no report has such a cell.
    """
    cells = [[cell.cell for cell in summary.cells] for summary in summaries]
    nouns = ("case", "provider", "prompt")
    for part, (noun, name) in enumerate(zip(nouns, wanted, strict=True)):
        if name is None:
            continue
        known: dict[str, None] = {}
        for number, summary in enumerate(summaries):
            names = {cell: summary.report.plan.key(cell)[part] for cell in cells[number]}
            cells[number] = [cell for cell, own in names.items() if own == name]
            known |= dict.fromkeys(name_of(own) for own in names.values() if own is not None)
        if any(cells):
            continue
        if noun == "case":
            raise UsageError(_explain_missing_case(summaries, name, known))
        raise UsageError(unknown(noun, name, known))
    return cells


def _explain_missing_case(summaries: Sequence[Summary], name: str, known: Iterable[str]) -> str:
    """`case 'refund' was not in the last run, which had 3 of 40 cases`."""
    text = f"case {name!r} was not in the last run"
    selections = [summary.report.suite.selection for summary in summaries]
    selected = [selection for selection in selections if selection]
    if selected:
        return f"{text}, which had {', '.join(selected)}"
    return f"{text}{suggestion('case', name, known)}"


@options.command("compare")
@click.argument("reports", nargs=-1, required=True, type=options.PATH, metavar="BASE... HEAD")
@options.comparison_format
def compare_command(reports: tuple[Path, ...], output: ComparisonFormat) -> int:
    """Compare a report with reports of its base, offline.

    Shows what got worse, and how sure that is. BASE and HEAD are each a report.json or a results
    folder; HEAD comes last. Several BASEs, or a folder with reports in it, are the newest with its
    history. The exit code follows from HEAD's gate and the comparison alone, without the bars.
    Nothing is run: a case that looks worse counts only with the confirm runs that HEAD has.

    PATH::VARIANT is one variant of a report, to compare with another variant of the same report or
    of another one. `--format html` writes the page compare.html next to HEAD.

    \b
    Examples:
      ci-evals compare main/report.json ci-evals-results
      ci-evals compare reports-of-main/ ci-evals-results --format markdown
      ci-evals compare main/report.json ci-evals-results --format html
      ci-evals compare ci-evals-results::gpt-4o ci-evals-results::gpt-5-mini
    """
    *base, head = reports
    if not base:
        raise click.UsageError(
            "name at least one report to compare with, then the report to compare"
        )
    if any(_OF_VARIANT in str(side) for side in reports):
        if len(base) > 1:
            raise click.UsageError("name two sides if one is a variant, as in PATH::VARIANT")
        summary = compare_variants(base[0], head)
    else:
        summary = compare_reports(base, head)
    console = Console.of_process(output)
    match output:
        case "markdown":
            text = b"".join(markdown.render(summary)).decode()
        case "json":
            text = report_json.render_comparison(summary)
        case "html":
            text = _write_comparison(summary, head).as_posix()
        case "text":
            text = terminal.render(summary, width=console.width, color=console.color)
    console.print(text)
    return exit_code(summary.verdict, summary.gate)


def _write_comparison(summary: Summary, head: Path) -> Path:
    """Write the page of a comparison next to its head, and return its path."""
    report = Path(str(head).partition(_OF_VARIANT)[0])
    page = report / "compare.html"
    if report.is_file():
        page = report.with_name("compare.html")
    write_atomically(page, html.render(with_answers(summary)))
    return page


@options.command()
@click.argument("case")
@options.option(
    "--report",
    type=options.PATH,
    metavar="PATH",
    help="A report.json or a results folder; default: the suite's results folder, otherwise"
    " ci-evals-results.",
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
    --baseline, it shows the comparison in the report; with it, the report is compared again, and
    the runs of the newest base report are shown as well. If several suites were run, every suite
    with such a case is shown; --config names one.

    \b
    Examples:
      ci-evals explain refund
      ci-evals explain refund --provider gpt-4o-mini --baseline main/report.json
    """
    suite: str | None = None
    has_report = report is not None or Path(RESULTS).is_dir()
    if config is not None or not has_report:
        loaded = options.load_named_suite(config, offline=True)
        suite = loaded.name
        report = report or loaded.out
    if report is None:
        report = Path(RESULTS)
    cells = explain_cells(report, case, provider, prompt, suite=suite, base=baseline)
    match output:
        case "markdown":
            text = render_markdown(cells)
        case "json":
            text = render_json(cells)
        case "text":
            text = render_text(cells)
    Console.of_process(output).print(text)
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
    help="Follow a run in progress, on a local address.",
)
@options.option(
    "--port",
    type=options.WholeNumber(0, 65535),
    default=0,
    help="The port of --serve; default: any free one.",
)
def view(
    report: Path | None, baseline: tuple[Path, ...], port: int, *, no_browser: bool, live: bool
) -> None:
    """Make report.html from a saved report, and open it.

    REPORT is a report.json or a results folder (default: ci-evals-results), of one suite or of
    several. The page is written next to the report; for several suites, one more page links to all
    of them. With --baseline, the report is compared again. Nothing is run.

    With --serve, the page shows the results of a run as they come in, and its report at the end; no
    file is written. It also follows the next run in the same folder, until Ctrl-C.

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
        folder = path
        if path.suffix == ".json":
            folder = path.parent
        live_page = LivePage(folder, lambda results: summary_to_view(results, baseline))

        async def follow() -> None:
            async with run_server(live_page, port) as url:
                console.print(url)
                await asyncio.to_thread(show, url)  # some browsers block until they are closed
                await asyncio.Event().wait()

        with suppress(KeyboardInterrupt):
            asyncio.run(follow())
        return
    pages: list[Path] = []
    summaries: list[Summary] = []
    for folder in report_folders(path) or [path]:
        page = folder.with_suffix(".html")
        if folder.is_dir():
            page = folder / "report.html"
        pages.append(page)
        summaries.append(summary_to_view(folder, baseline))
    # Nothing is written before all reports have been read.
    for summary, page in zip(summaries, pages, strict=True):
        write_atomically(page, html.render(summary))
    if len(pages) > 1:  # one more page links to all of them
        sections = [
            (summary, page.relative_to(path).as_posix())
            for summary, page in zip(summaries, pages, strict=True)
        ]
        pages.insert(0, path / "report.html")
        write_atomically(pages[0], html.render_several(sections, {}))
    for page in pages:
        console.print(page.as_posix())
    show(pages[0].absolute().as_uri())
