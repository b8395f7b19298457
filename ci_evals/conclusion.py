"""What is made of a report: files, the outcome on stdout, the exit code."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_evals.actions.posting import Posting
from ci_evals.files import remove_abandoned, write_whole
from ci_evals.order import Order
from ci_evals.redaction import Redactor
from ci_evals.report import Report
from ci_evals.reports.notes import notes
from ci_evals.reports.renderers import RENDERERS
from ci_evals.reports.summary import Summary, summarize
from ci_evals.streams import columns_of, say
from ci_evals.verdict.gate import exit_code
from ci_evals.world import Appearance, World

if TYPE_CHECKING:
    from ci_evals.actions.job import Job

FILES = {"json": "report.json", "junit": "junit.xml", "markdown": "summary.md", "html": "report.html"}


class Conclusion(Struct, frozen=True):
    """What is made of a report. `out` is where the suite's results go, wherever the code under test went."""

    order: Order
    out: Path
    world: World
    appearance: Appearance
    posting: Posting
    redactor: Redactor
    job: "Job | None"

    def draw(self, report: Report) -> int:
        """Write and show what was found; returns the exit code."""
        order, suite = self.order, self.order.suite
        if self.job:
            self.job.log.close_group()
        told: list[str] = []
        if order.resume and report.resumption is None:
            told.append(f"nothing to resume: there was no {order.journal.as_posix()}")
        if order.merge and not order.run_missing and report.interrupted:
            told.append(f"missing: {report.interrupted}: name its folder too, or have it run with --run-missing")
        if order.shard:
            told.extend(f"{label.lower()}: {text}" for label, text in notes(report))
            told.append(f"shard {order.shard} of {suite.name}: {report.summary()}; `ci-evals merge` decides")
            code = 3 if report.interrupted else 0
        else:
            summary = self.write(report)
            show(summary, self.world, self.appearance.output, self.redactor)
            told.append(f"written: {self.written}")
            code = exit_code(summary.verdict, suite.gate, self.posting.fail_on)
        if not self.appearance.quiet:
            self._tell(told)
        return code

    def salvage(self, report: Report) -> None:
        """Write what was found while code under test has the terminal, and say so in a line."""
        told = f"{report.interrupted}: the code under test did not end in time and was left behind"
        if self.order.shard is None:
            self.write(report)
            told = f"{told}; written: {self.written}"
        self._tell([told])

    def write(self, report: Report) -> Summary:
        suite = self.order.suite
        summary = summarize(report, suite.gate, self.order.baseline, confirm_runs=suite.confirm_runs)
        if summary.compared:
            from ci_evals.recalled import with_answers

            summary = with_answers(summary)
        write_reports(summary, self.out, suite.formats)
        if self.job:
            self.job.show(summary)
        return summary

    @property
    def written(self) -> str:
        suite = self.order.suite
        files = (*(suite.out / FILES[each] for each in suite.formats), self.order.journal)
        return ", ".join(path.as_posix() for path in files)

    def tell(self, sentence: str) -> None:
        """Say on stderr what is done next, and why."""
        self._tell([sentence])

    def _tell(self, lines: Iterable[str]) -> None:
        text = self.redactor.clean_text("".join(f"{line}\n" for line in lines))
        say(self.world.stderr, self.world.over_the_bar + text)


def write_reports(summary: Summary, out: Path, formats: Iterable[str]) -> None:
    """Write the chosen formats into `out`; each file appears whole or not at all."""
    for name in (FILES[each] for each in formats):
        write_whole(out / name, RENDERERS[name](summary))
        remove_abandoned(out / name)


def show(summary: Summary, world: World, output: str, redactor: Redactor) -> None:
    """Print the outcome on stdout."""
    if output == "json":
        from ci_evals.reports import json_brief

        text = json_brief.render_json(summary)
    else:
        from ci_evals.reports import terminal

        color = world.stdout.isatty() and "NO_COLOR" not in world.environ
        text = terminal.render(summary, width=terminal_width(world), color=color)
    say(world.stdout, redactor.clean_text(text).rstrip("\n") + "\n")


def terminal_width(world: World) -> int:
    """The width of the terminal, at least 40; 120 columns in a log, and where a terminal does not know it."""
    if said := world.environ.get("COLUMNS", ""):
        columns = int(said) if said.isdecimal() else 0
    else:
        columns = columns_of(world.stdout)
    return max(40, columns) if columns else 120
