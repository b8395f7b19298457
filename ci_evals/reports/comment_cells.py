"""The parts of the comment that list cases: what got worse first, and everything that is no news folded."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from ci_evals.model import Variant
from ci_evals.percentage import percent
from ci_evals.reports.changes import ComparedCell, Told, changes, rosters, told
from ci_evals.reports.comment_diff import difference
from ci_evals.reports.comment_text import write
from ci_evals.reports.findings import JudgedCell, answer_text, place_of
from ci_evals.reports.fitting import Entry, Section
from ci_evals.reports.markdown_text import Markdown, code
from ci_evals.reports.summary import Summary
from ci_evals.reports.text import shortened
from ci_evals.stats.flips import suite_flip_rate
from ci_evals.verdict.words import number_of

MOST_ENTRIES: Final = 200  # of a section: more than that have no room anyway
MOST_OPEN: Final = 10  # of a section, if there are others behind them
MORE: Final = "- … and {number} more"

_MOST_NAMES = 20
_ANSWER_CHARACTERS = 1500


class Cells:
    """Makes sections of the cells of a summary.

    Args:
        summary: what was found.
    """

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._report = summary.report
        self._found = changes(summary)

    def worse(self) -> Iterator[Section]:
        """What regressed, with the reason, unfolding to the answers before and now."""
        return self._unfolding("🔴 Regressed", "regressed case", 2, self._found.regressed)

    def failing(self) -> Iterator[Section]:
        """What is below its bar, and was not so on the base branch as far as is known."""
        return self._unfolding("❌ Failing", "failing case", 5, self._found.failing)

    def others(self) -> Iterator[Section]:
        """All else, in the order of reading."""
        found = self._found
        title = f"Possible, within noise ({len(found.possible):,})"
        yield folded(title, "possibly worse case", 7, self._lines(found.possible), len(found.possible))
        yield self._listed("🎉 Fixed", "fixed case", 8, found.fixed)
        yield self._listed("Still failing", "case that still fails", 6, found.still_failing)
        yield self._changed()
        again = f": running again would change {percent(rate)} of the verdicts" if (rate := self._flip_rate) else ""
        title = f"Flaky ({len(found.flaky):,}){again}"
        yield folded(title, "flaky case", 10, self._lines(found.flaky), len(found.flaky))

    @cached_property
    def _flip_rate(self) -> float | None:
        """The chance that a run ends otherwise when it is run again."""
        rate = suite_flip_rate((counts.passed, counts.graded) for counts in self._report.by_cell)
        return None if rate is None else round(rate, 3)

    def _unfolding(self, title: str, noun: str, rank: int, cells: Sequence[ComparedCell]) -> Iterator[Section]:
        """The first cells, and the others behind their number where they are more than a few."""
        entries = [self._entry(cell) for cell in cells[:MOST_ENTRIES]]
        opening, apart = f"#### {title} ({len(cells):,})\n\n", "\n\n"
        some = MOST_OPEN if len(cells) > MOST_OPEN + 2 else len(cells)
        yield Section(noun, opening, entries[:some], some, rank, separator=apart, more=f"{apart}{MORE}")
        if rest := len(cells) - some:
            others = folded(number_of(rest, f"more {noun}"), noun, rank, entries[some:], rest)
            yield msgspec.structs.replace(others, separator=apart, more=f"{apart}{MORE}")

    def _listed(self, title: str, noun: str, rank: int, cells: Sequence[ComparedCell]) -> Section:
        return Section(noun, f"#### {title} ({len(cells):,})\n\n", self._lines(cells), len(cells), rank)

    def _lines(self, cells: Sequence[ComparedCell]) -> Sequence[Entry]:
        return [Entry(write("bullet", **self._facts(cell, told(self._summary, cell)))) for cell in cells[:MOST_ENTRIES]]

    def _entry(self, cell: ComparedCell) -> Entry:
        """What became of a cell and why; unfolds to what was answered."""
        said = told(self._summary, cell)
        facts = self._facts(cell, said)
        if said.failed is None:
            return Entry(write("bullet", **facts))
        before = self._summary.before.get(cell.judged.key)
        answers = difference(before, shortened(answer_text(said.failed) or "(nothing)", _ANSWER_CHARACTERS))
        base = None if before is None else self._summary.base
        place = place_of(cell.judged.case)
        full = write("unfolding", **facts, answers=answers, place=place, run=said.failed.run, base=base)
        return Entry(write("bullet", **facts), full)

    def _facts(self, cell: ComparedCell, said: Told) -> dict[str, Any]:
        name = self._name(cell.judged, cell.renamed_from)
        return {"name": name, "finding": said.finding, "critical": said.critical, "reason": said.reason}

    def _name(self, cell: JudgedCell, renamed_from: str | None) -> Markdown:
        was = f" (was {code(renamed_from)})" if renamed_from else ""
        return Markdown(f"{code(cell.case.id)}{on(self._summary, cell.variant)}{was}")

    def _changed(self) -> Section:
        lists = rosters(self._summary.compared) if self._summary.compared else []
        entries = [Entry(f"- {roster.counted}", f"- {roster.sentence(_MOST_NAMES, code)}") for roster in lists]
        title = ", ".join(roster.counted for roster in lists)
        return folded(title, "list of changed cases", 9, entries, len(entries))


def on(summary: Summary, variant: Variant) -> Markdown:
    """` on gpt-4o`, where there are several variants."""
    return Markdown(f" on {code(str(variant))}" if len(summary.report.matrix.variants) > 1 else "")


def folded(title: str, noun: str, rank: int, entries: Sequence[Entry], total: int) -> Section:
    """A list behind its title."""
    opening = write("fold", title=title) + "\n\n"
    return Section(noun, opening, entries, total, rank, closing="\n\n</details>")
