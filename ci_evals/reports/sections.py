"""The parts of a Markdown page that list cases: the comparison with the baseline, and what failed. Each is one value.

A page takes from them what fits: blocks come whole or not at all, the most important first.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from ci_evals.model import Result
from ci_evals.report import Report
from ci_evals.reports.changes import ComparedCell, Roster, changes, finding_of, roster_title, rosters
from ci_evals.reports.figures import rate
from ci_evals.reports.findings import (
    JudgedCell,
    answer_text,
    counted_reasons,
    detail_text,
    failed_runs,
    input_text,
    place_of,
)
from ci_evals.reports.markdown_text import Markdown, code, fence, fill, plain
from ci_evals.reports.summary import Summary
from ci_evals.reports.text import shortened
from ci_evals.verdict.comparison import Comparison

_MAX_REASONS = 8
_MAX_NAMES = 50
_INPUT_CHARACTERS = 1000
_ANSWER_CHARACTERS = 2000

Block = Callable[[ComparedCell], Markdown]


class Section(Struct, frozen=True):
    """Cells of which there is the same to say: the blocks that are shown, and how many cells there are.

    `left_out` are cells that are not shown. `listed` blocks are items of one list; the others stand by themselves. A
    `folded` section is behind its title.
    """

    title: str
    blocks: tuple[Markdown, ...]
    total: int
    left_out: int = 0
    listed: bool = False
    folded: bool = False


class Room:
    """How much may still be shown."""

    def __init__(self, max_bytes: int, max_blocks: int) -> None:
        self._bytes = max_bytes
        self._blocks = max_blocks

    def take(self, blocks: Iterable[Markdown]) -> tuple[Markdown, ...]:
        """The first blocks, as many as there is room for; the others are not even made if they are lazy."""
        taken = []
        for block in blocks if self._blocks > 0 else ():
            size = len(block.encode()) + 2
            if size > self._bytes:
                self._bytes = 0
                break
            self._bytes -= size
            self._blocks -= 1
            taken.append(block)
            if not self._blocks:
                break
        return tuple(taken)


def sections(summary: Summary, room: Room) -> list[Section]:
    """The sections that have something in them, the most important first; each takes of the room what it needs."""
    found = changes(summary)
    comparison = summary.compared

    def section(
        title: str, cells: Sequence[ComparedCell], block: Block, *, listed: bool = False, folded: bool = False
    ) -> Section:
        blocks = room.take(map(block, cells))
        return Section(title, blocks, len(cells), len(cells) - len(blocks), listed, folded)

    unfolding, line = _blocks(summary, comparison)
    quiet = comparison is not None
    made = [
        section("Regressed", found.regressed, unfolding),
        section("Possible, within noise", found.possible, unfolding, folded=not _any_failing(found.possible)),
        section("Fixed", found.fixed, line, listed=True),
        section("Failing", found.failing, unfolding),
        section("Still failing", found.still_failing, unfolding),
        *([_rosters(rosters(comparison), room)] if comparison else []),
        section("Flaky, but within the bar", found.flaky, unfolding, folded=quiet),
    ]
    return [section for section in made if section.total]


def _any_failing(cells: Iterable[ComparedCell]) -> bool:
    return any(cell.failing for cell in cells)


def _blocks(summary: Summary, comparison: Comparison | None) -> tuple[Block, Block]:
    """How a cell is shown: unfolding to what was asked and answered, and as one line."""
    several = len(summary.report.matrix.variants) > 1

    def unfolding(cell: ComparedCell) -> Markdown:
        return _unfolding(summary.report, cell, _headline(cell, comparison, several=several))

    def line(cell: ComparedCell) -> Markdown:
        return Markdown(f"- {_headline(cell, comparison, several=several)}")

    return unfolding, line


def _headline(cell: ComparedCell, comparison: Comparison | None, *, several: bool) -> Markdown:
    """`refund on gpt: 30 of 30 on main, 4 of 10 here; …`, or what became of its runs if no change is shown."""
    of = f" on {code(str(cell.judged.variant))}" if several else ""
    was = f" (was {code(cell.renamed_from)})" if cell.renamed_from else ""
    name = Markdown(f"{'<b>critical</b> ' if cell.critical else ''}{code(cell.judged.case.id)}")
    return Markdown(f"{name}{of}{was}: {plain(finding_of(cell, comparison))}")


def _unfolding(report: Report, cell: ComparedCell, headline: Markdown) -> Markdown:
    results = failed_runs(report, cell.judged.cell)
    reasons = counted_reasons(results, _MAX_REASONS)
    why = fill("<br>{}", code(reasons[0])) if reasons and (cell.worse or cell.failing) else Markdown()
    return Markdown(
        "".join(
            [
                fill("<details>\n<summary>{}{}</summary>\n\n", headline, why),
                *_asked(cell.judged),
                *(_answered(results[0], reasons) if results else ()),
                "\n</details>\n",
            ]
        )
    )


def _asked(judged: JudgedCell) -> Iterator[Markdown]:
    if place := place_of(judged.case):
        bar = "every run must pass" if judged.bar >= 1 else fill("at least {} must pass", rate(judged.bar))
        yield fill("{}, {}\n", code(place), bar)
    yield Markdown("\n")
    if asked := shortened(input_text(judged.case), _INPUT_CHARACTERS):
        yield fill("Asked:\n{}\n", fence(asked))
    yield Markdown("\n")


def _answered(result: Result, reasons: Sequence[str]) -> Iterator[Markdown]:
    """Why a run failed, and what it answered and left behind."""
    yield fill("Why it failed:\n{}\n\n", fence("\n".join(reasons)))
    answer = shortened(answer_text(result) or "(nothing)", _ANSWER_CHARACTERS)
    yield fill("Answer of run {}:\n{}\n", result.run, fence(answer))
    if detail := detail_text(result):
        yield fill("\nIt left behind:\n{}\n", fence(detail))


def _rosters(lists: Sequence[Roster], room: Room) -> Section:
    blocks = room.take(Markdown(f"- {roster.sentence(_MAX_NAMES, code)}") for roster in lists)
    total, left_out = (sum(len(roster.names) for roster in part) for part in (lists, lists[len(blocks) :]))
    return Section(roster_title(lists), blocks, total, left_out, listed=True, folded=True)
