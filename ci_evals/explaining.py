"""The story of `ci-evals explain`: a saved report and a case in, all that is known of its cells out."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from ci_evals.comparing import ReportFormat, compared
from ci_evals.errors import UsageError
from ci_evals.matrix import CellKey
from ci_evals.recalled import read_summary
from ci_evals.report import Report
from ci_evals.reports.explanation import (
    BaseEntry,
    Explanation,
    RunEntry,
    Told,
    explained,
    render_json,
    render_markdown,
    render_text,
    run_entries,
)
from ci_evals.verdict.comparison import Comparison
from ci_evals.verdict.history import Evidence, ReportRef, pool_steps
from ci_evals.verdict.sentences import baseline_sentence, cell_sentence, step_sentence, tested_sentence

_MAX_NAMES = 10
_NOT_COMPARED = "not compared with a baseline: name one with --baseline"


class Wanted(Struct, frozen=True):
    """Which cells are to be explained: of a case, on some provider, with some prompt."""

    case: str
    provider: str | None = None
    prompt: str | None = None

    def chosen(self, key: CellKey) -> bool:
        case, provider, prompt = key
        return case == self.case and self.provider in (None, provider) and self.prompt in (None, prompt)


def explanations(wanted: Wanted, head: Path, base: Sequence[Path] = ()) -> list[Explanation]:
    """Everything that is known of the chosen cells.

    Args:
        wanted: the cells.
        head: the report, or its folder.
        base: what to compare it with; without it, what the report itself has of its comparison.

    Raises:
        StorageError: a file cannot be read, is damaged, or a newer ci-evals wrote it.
        UsageError: the report has no such case, or not on such a provider or prompt.
    """
    summary = compared(base, head) if base else read_summary(head, oldest=1)
    report, comparison = summary.report, summary.comparison
    cells = _cells(wanted, report)
    if not isinstance(comparison, Comparison):
        reason = comparison.reason if comparison else _NOT_COMPARED
        return [explained(report, cell, Told(reason)) for cell in cells]
    told = partial(_told, comparison, baseline_sentence(comparison, report.started_at), _base_runs(comparison))
    return [explained(report, cell, told(report.matrix.key(cell))) for cell in cells]


def shown(found: Sequence[Explanation], output: ReportFormat) -> str:
    """The explanations as text."""
    return {"text": render_text, "markdown": render_markdown, "json": render_json}[output](found)


def _cells(wanted: Wanted, report: Report) -> list[int]:
    keys = {cell.cell: report.matrix.key(cell.cell) for cell in report.cells}
    cells = [cell for cell, key in keys.items() if wanted.chosen(key)]
    if cells:
        return cells
    of_case = [key for key in keys.values() if key[0] == wanted.case]
    if not of_case:
        raise UsageError(_unknown("case", wanted.case, [key[0] for key in keys.values()]))
    for noun, name, place in (("provider", wanted.provider, 1), ("prompt", wanted.prompt, 2)):
        known = [str(key[place]) for key in of_case if key[place] is not None]
        if name is not None and name not in known:
            raise UsageError(_unknown(noun, name, known))
    raise UsageError(f"{wanted.case!r} did not run on {wanted.provider!r} with the prompt {wanted.prompt!r}")


def _unknown(noun: str, name: str, known: Sequence[str]) -> str:
    """With what it may have meant, or some of what there is."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    names = list(dict.fromkeys(known))
    some = ", ".join(map(repr, names[:_MAX_NAMES])) + (", …" if len(names) > _MAX_NAMES else "")
    hint = f"did you mean {close[0]!r}?" if close else f"the report has {some or 'none'}"
    return f"unknown {noun} {name!r}: {hint}"


def _base_runs(comparison: Comparison) -> Callable[[CellKey], tuple[RunEntry, ...]]:
    """The runs of a cell of the baseline, where its newest report is at hand."""
    if comparison.baseline.source is None:
        return lambda _: ()
    report = read_summary(Path(comparison.baseline.source), oldest=1).report
    numbers = {report.matrix.key(cell.cell): cell.cell for cell in report.cells}
    return lambda key: run_entries(report, numbers[key]) if key in numbers else ()


def _told(
    comparison: Comparison, compared_with: str, base_runs: Callable[[CellKey], tuple[RunEntry, ...]], key: CellKey
) -> Told:
    """What a comparison says of a cell."""
    if (found := comparison.by_key.get(key)) is None:
        return Told(compared_with)
    cell = comparison.base_of(key)
    entries = _base_entries(cell.history.evidence if cell else (), {ref.id: ref for ref in comparison.baseline.reports})
    sentence, test = cell_sentence(comparison, found), tested_sentence(found, comparison.alpha)
    return Told(compared_with, found, sentence, test, entries, base_runs(comparison.base_key(key)))


def _base_entries(evidence: Iterable[Evidence], refs: Mapping[str, ReportRef]) -> tuple[BaseEntry, ...]:
    return tuple(
        BaseEntry(
            report=refs[step.evidence.report],
            passed=step.evidence.passed,
            graded=step.evidence.graded,
            pooled=step.outcome == "pooled",
            sentence=step_sentence(step),
        )
        for step in pool_steps(evidence)
    )
