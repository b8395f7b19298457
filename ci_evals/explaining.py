"""The story of `ci-evals explain`: a saved report and a case in, all that is known of its cells out."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ci_evals.comparing import ReportFormat, compared
from ci_evals.errors import UsageError
from ci_evals.matrix import CellKey
from ci_evals.rebuilt import rebuilt
from ci_evals.report import Report
from ci_evals.reports.explanation import (
    BaseEntry,
    Explanation,
    Told,
    explained,
    render_json,
    render_markdown,
    render_text,
    run_entries,
)
from ci_evals.rules import Gate
from ci_evals.saved import SavedReport, read_report, read_reports
from ci_evals.verdict.comparison import Comparison, NoComparison
from ci_evals.verdict.history import Evidence, ReportRef, pool_steps
from ci_evals.verdict.pairing import CellComparison
from ci_evals.verdict.sentences import baseline_sentence, cell_sentence, step_sentence

_MAX_NAMES = 10
_NOT_COMPARED = "not compared with a baseline: name one with --baseline"


class Wanted(NamedTuple):
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
    saved = read_report(head)
    report, gate = rebuilt(head)
    cells = _cells(wanted, report)
    told = _against(base, head, saved) if base else partial(_recorded, saved)
    alpha = saved.alpha or round(1 - (gate or Gate()).confidence, 12)
    return [explained(report, cell, told(report.matrix.key(cell)), alpha) for cell in cells]


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


def _recorded(saved: SavedReport, key: CellKey) -> Told:
    """What the report has of its own comparison."""
    found, sentence = saved.comparison_of(key)
    if found is None:
        return Told(saved.compared_with or _NOT_COMPARED, None, None)
    refs = {ref.id: ref for ref in saved.earlier_reports}
    return Told(saved.compared_with, found, sentence, _base_entries(saved.earlier(key), refs))


def _against(base: Sequence[Path], head: Path, saved: SavedReport) -> Callable[[CellKey], Told]:
    """What a comparison with other reports says."""
    summary = compared(base, head)
    comparison = summary.comparison
    if not isinstance(comparison, Comparison):
        reason = comparison.reason if isinstance(comparison, NoComparison) else _NOT_COMPARED
        return lambda _: Told(reason, None, None)
    refs = {ref.id: ref for ref in comparison.baseline.reports}
    newest = next(each for each in read_reports(base) if each.own_id == comparison.baseline.reports[0].id)
    base_report, _ = rebuilt(newest.path)
    numbers = {base_report.matrix.key(cell.cell): cell.cell for cell in base_report.cells}
    compared_with = baseline_sentence(comparison, saved.started_at)

    def told(key: CellKey) -> Told:
        found = comparison.by_key.get(key)
        if found is None:
            return Told(compared_with, None, None)
        base_key = _base_key(found, comparison)
        cell = comparison.baseline.cells.get(base_key)
        runs = run_entries(base_report, numbers[base_key]) if base_key in numbers else ()
        evidence = cell.evidence if cell else ()
        return Told(compared_with, found, cell_sentence(comparison, found), _base_entries(evidence, refs), runs)

    return told


def _base_key(cell: CellComparison, comparison: Comparison) -> CellKey:
    """What a cell is called on the base side."""
    variant = cell.key[1:]
    for each in comparison.variants:
        if (each.provider, each.prompt) == variant:
            variant = each.base_provider, each.base_prompt
    return cell.renamed_from or cell.case, *variant


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
