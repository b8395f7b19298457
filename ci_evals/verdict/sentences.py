"""What the comparison found, in words with their numbers; every format takes its sentences from here."""

from ci_evals.model import Variant
from ci_evals.percentage import percent
from ci_evals.verdict.comparison import Comparison, VariantComparison
from ci_evals.verdict.differences import Difference
from ci_evals.verdict.history import PoolStep, Tally
from ci_evals.verdict.pairing import CellComparison
from ci_evals.verdict.words import duration, name_of, number_of, once_in

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
    base = comparison.baseline.called
    before, here = f"{of_runs(cell.base)} on {base}", f"{of_runs(cell.head)} here"
    chance = "" if cell.p is None else f"by chance {once_in(cell.p)} comparisons"
    return {
        "regressed": f"{before}, {here}; a drop like this happens {chance}",
        "fixed": f"{before}, {here}; a rise like this happens {chance}",
        "suspect": f"{before}, {here}: possible, within noise; a drop like this happens {chance}",
        "flaky": f"{before}, {here}: {_unsure(cell)}",
        "unchanged": f"{before}, {here}: unchanged",
        "new": f"new, {here}",
        "removed": f"removed, {before}",
        "edited": f"edited, so not compared: {before}, {here}",
        "not compared": f"not compared: no run of its own was graded {f'on {base}' if cell.head.graded else 'here'}",
    }[cell.kind]


def tested_sentence(cell: CellComparison, alpha: float) -> str:
    """The test behind a kind: `Fisher's exact test for a drop, 4 of 10 against 30 of 30: p = 5.7e-07, …`."""
    if cell.p is None or cell.adjusted_p is None:
        return "not tested: there is nothing to hold it against"
    of = "a rise" if cell.kind == "fixed" else "a drop"
    test = f"Fisher's exact test for {of}, {of_runs(cell.head)} against {of_runs(cell.base)}: p = {cell.p:.2g}"
    allowed = f"{test}, {cell.adjusted_p:.2g} after allowing for all cells that were compared"
    if cell.kind in ("regressed", "fixed"):
        return f"{allowed}; at most {alpha:g}, so it is named"
    waiting = (
        " (a suspect counts as 1 until it is confirmed)" if cell.kind == "suspect" and cell.adjusted_p >= 1 else ""
    )
    return f"{allowed}{waiting}; more than {alpha:g}, so it is not named"


def step_sentence(step: PoolStep) -> str:
    """What became of one report's evidence: `10 of 10, pooled`."""
    runs = of_runs(Tally(step.evidence.passed, step.evidence.graded))
    chance = "" if step.p is None else f"by chance {once_in(step.p)} comparisons"
    own = step.older is None or step.older.graded == step.evidence.graded
    rest = "" if own or step.older is None else f"with all older ones {of_runs(step.older)}, "
    return {
        "pooled": f"{runs}, pooled",
        "disagrees": f"{runs}, {rest}unlike the newer ones, as happens {chance}: behaviour changed, pooling stops here",
        "beyond a change": f"{runs}, older than the change: left out",
        "enough without": f"{runs}, left out: the newer ones are enough",
        "nothing graded": "no run was graded",
    }[step.outcome]


def _unsure(cell: CellComparison) -> str:
    if all(side.passed in (0, side.graded) for side in (cell.head, cell.base)):
        return "too few runs to call it a change"
    return "answers vary from run to run, no change is shown"


def variant_sentence(comparison: Comparison, variant: VariantComparison) -> str:
    """`pass rate 93 % on main, 85 % here over 40 cases; a drop like this happens by chance once in 120 comparisons`."""
    base, here = percent(variant.base_rate, variant.head_rate), percent(variant.head_rate, variant.base_rate)
    rates = f"pass rate {base} on {comparison.baseline.called}, {here} here over {number_of(variant.cells, 'case')}"
    of = variant_name(comparison, variant)
    if surely_higher(variant):
        return f"{of}{rates}; a rise beyond noise"
    if variant.adjusted_p > comparison.alpha:
        return f"{of}{rates}: within noise"
    return f"{of}{rates}; a drop like this happens by chance {once_in(variant.p)} comparisons"


def rate_change(comparison: Comparison, variant: VariantComparison) -> str:
    """`-8.3 points, p = 0.0083`, `+20.0 points (+8.1 to +31.0)`, or `-1.2 points, noise`."""
    points = 100 * (variant.head_rate - variant.base_rate)
    if round(points, 1) == 0:
        return "no change"
    text = f"{_signed(points, 1)} points"
    if points < 0 and variant.adjusted_p <= comparison.alpha:
        return f"{text}, p {'< 0.0001' if variant.adjusted_p < 0.0001 else f'= {variant.adjusted_p:.2g}'}"
    change = variant.differences.pass_rate
    if surely_higher(variant) and change is not None and change.lower is not None and change.upper is not None:
        return f"{text} ({_signed(100 * change.lower, 1)} to {_signed(100 * change.upper, 1)})"
    return f"{text}, noise"


def ratio_change(ratio: Difference | None) -> str:
    """A ratio as a change: `+30 % (+10 to +52 %)`, or `+2 %, noise`; nothing where a side does not know the figure."""
    if ratio is None:
        return ""
    if round(100 * (ratio.value - 1)) == 0:
        return "no change"
    text = f"{_signed(100 * (ratio.value - 1))} %"
    if ratio.lower is None or ratio.upper is None:
        return f"{text}, too few cases to tell"
    if ratio.lower <= 1 <= ratio.upper:
        return f"{text}, noise"
    return f"{text} ({_signed(100 * (ratio.lower - 1))} to {_signed(100 * (ratio.upper - 1))} %)"


def _signed(value: float, places: int = 0) -> str:
    """`-8.3`, `+2.0`, `+4,186`, `0`."""
    shown = f"{value:+,.{places}f}"
    return shown if shown.strip("+-0.") else f"{0:.{places}f}"


def surely_higher(variant: VariantComparison) -> bool:
    """Whether even the lower bound of the difference is a rise."""
    change = variant.differences.pass_rate
    return change is not None and change.lower is not None and change.lower > 0


def calm_sentence(comparison: Comparison) -> str:
    """`nothing is surely worse than on main: 40 cases compared, 2 possibly worse, within noise`."""
    possible, allowed = (comparison.counts.get(kind, 0) for kind in ("suspect", "regressed"))
    found = f"nothing is surely worse than on {comparison.baseline.called}"
    if allowed:
        found = f"no more is worse than on {comparison.baseline.called} than the gate allows"
    parts = [f"{number_of(comparison.compared, 'case')} compared"]
    parts += [f"{allowed} regressed"] if allowed else []
    parts += [f"{possible} possibly worse, within noise"] if possible else []
    return f"{found}: {', '.join(parts)}"


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
    if not comparison.compared:
        return nothing_compared(comparison)
    revision = f"{newest.revision[:_REVISION_CHARACTERS]} of " if newest.revision else ""
    age = started_at - newest.started_at
    older_by = f", {duration(age)} older" if age >= 1 else ""
    more = f", and {number_of(len(older), 'report')} before it" if older else ""
    most = max((cell.base.graded for cell in comparison.cells), default=0)
    return (
        f"compared with {revision}{comparison.baseline.called}{older_by}{more}: up to {number_of(most, 'run')} a case"
    )


def nothing_compared(comparison: Comparison) -> str:
    """Why a comparison has nothing to say."""
    base = comparison.baseline
    if base.variants and not comparison.base_variants:
        theirs = ", ".join(name_of(str(Variant(*variant))) for variant in base.variants)
        return f"nothing to compare: {base.called} has other providers or prompts ({theirs})"
    return f"nothing to compare: no case that is the same here and on {base.called} was graded on both"


def of_runs(tally: Tally) -> str:
    """`4 of 10`, or `no runs`."""
    return f"{tally.passed:,} of {tally.graded:,}" if tally.graded else "no runs"
