"""What the comparison found, in words with their numbers; every format takes its sentences from here."""

from ci_evals.model import Variant
from ci_evals.verdict.comparison import Comparison, VariantComparison
from ci_evals.verdict.history import Tally
from ci_evals.verdict.pairing import CellComparison
from ci_evals.verdict.words import duration, name_of, number_of, once_in, percent

_REVISION_CHARACTERS = 7


def cell_sentence(comparison: Comparison, cell: CellComparison) -> str:
    """`refund: 30 of 30 on main, 4 of 10 here; a drop like this happens by chance once in 18,000 comparisons`."""
    return f"{cell_name(comparison, cell)}: {cell_finding(comparison, cell)}"


def cell_name(comparison: Comparison, cell: CellComparison) -> str:
    """The case, with its variant if there are several, and its former name if it has one."""
    of = f" on {name_of(str(Variant(cell.provider, cell.prompt)))}" if comparison.several_variants else ""
    was = f" (was {name_of(cell.renamed_from)})" if cell.renamed_from else ""
    return f"{name_of(cell.case)}{of}{was}"


def cell_finding(comparison: Comparison, cell: CellComparison) -> str:
    """What became of a cell, without its name."""
    base = comparison.baseline.name
    before, here = f"{of_runs(cell.base)} on {base}", f"{of_runs(cell.head)} here"
    chance = "" if cell.p is None else f"by chance {once_in(cell.p)} comparisons"
    return {
        "regressed": f"{before}, {here}; a drop like this happens {chance}",
        "fixed": f"{before}, {here}; a rise like this happens {chance}",
        "suspect": f"{before}, {here}: possible, within noise; a drop like this happens {chance}",
        "flaky": f"{before}, {here}: answers vary from run to run, no change is shown",
        "unchanged": f"{before}, {here}: unchanged",
        "new": f"new, {here}",
        "removed": f"removed, {before}",
        "edited": f"edited, so not compared: {before}, {here}",
        "not compared": f"not compared: no run of its own was graded {f'on {base}' if cell.head.graded else 'here'}",
    }[cell.kind]


def variant_sentence(comparison: Comparison, variant: VariantComparison) -> str:
    """`pass rate 93 % on main, 85 % here over 40 cases; a drop like this happens by chance once in 120 comparisons`."""
    base, here = percent(variant.base_rate, variant.head_rate), percent(variant.head_rate, variant.base_rate)
    rates = f"pass rate {base} on {comparison.baseline.name}, {here} here over {number_of(variant.cells, 'case')}"
    of = variant_name(comparison, variant)
    if variant.adjusted_p > comparison.alpha:
        return f"{of}{rates}: within noise"
    return f"{of}{rates}; a drop like this happens by chance {once_in(variant.p)} comparisons"


def variant_name(comparison: Comparison, variant: VariantComparison) -> str:
    """What a sentence about a variant starts with: its name if there are several, and what it was compared with."""
    name = name_of(str(Variant(variant.provider, variant.prompt)))
    if variant.renamed:
        return f"{name} (compared with {name_of(str(Variant(variant.base_provider, variant.base_prompt)))}): "
    return f"{name}: " if comparison.several_variants else ""


def baseline_sentence(comparison: Comparison, started_at: float) -> str:
    """`compared with 0123456 of main, 3 h older, and 5 reports before it; up to 30 runs a case`.

    Args:
        comparison: what was compared.
        started_at: when the head was run, in seconds since the epoch.
    """
    newest, *older = comparison.baseline.reports
    revision = f"{newest.revision[:_REVISION_CHARACTERS]} of " if newest.revision else ""
    age = started_at - newest.started_at
    older_by = f", {duration(age)} older" if age >= 1 else ""
    more = f", and {number_of(len(older), 'report')} before it" if older else ""
    most = max((cell.base.graded for cell in comparison.cells), default=0)
    return f"compared with {revision}{comparison.baseline.name}{older_by}{more}: up to {number_of(most, 'run')} a case"


def of_runs(tally: Tally) -> str:
    """`4 of 10`, or `no runs`."""
    return f"{tally.passed} of {tally.graded}" if tally.graded else "no runs"
