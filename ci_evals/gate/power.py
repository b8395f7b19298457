"""The drops that a suite detects, and what more runs or cases would buy."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, comb, sqrt
from statistics import fmean
from typing import NamedTuple

from ci_evals.format import number_of, ordinal
from ci_evals.gate.baseline import Baseline
from ci_evals.gate.compare import Comparison
from ci_evals.model.case import Variant
from ci_evals.stats.exact_tests import Table
from ci_evals.stats.power import (
    Plan,
    detectable_drop,
    planned_drop,
    planned_gate_drop,
)
from ci_evals.stats.thresholds import (
    ASSUMED_CORRELATION,
    ASSUMED_FAILURES,
    ASSUMED_PASSES,
    FURTHER_ROUNDS,
    POOLED_RUNS,
    SUSPECT_RUNS,
)

_RUNS = (1, 2, 3, 5, 10)
_MORE_CASES = (2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectable:
    """The drops that one size detects with a chance of about 80 %, in fractions of 1.

    They follow from a formula; `gate.rehearsal` draws pull requests instead, which takes longer.
    `cases` and `runs` are those of one variant, `calls` those of all.
    `one_report` is the drop against a baseline of a single report, `pooled` against a history of
    about `POOLED_RUNS` runs a case, `gate` how far below its bar the rate has to be to fail. None
    means that not even a fall to nothing is detected.
    """

    cases: int
    runs: int
    calls: int
    one_report: float | None
    pooled: float | None
    gate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """The drops that a suite detects on the variant with the fewest cases.

    `rate` and `correlation` are what was assumed of it, or what the report named `known_from`
    shows. The first of `sizes` is the suite as it is.
    """

    suite: str
    variants: int
    rate: float
    correlation: float
    known_from: str | None
    sizes: tuple[Detectable, ...]

    @property
    def now(self) -> Detectable:
        """The suite as it is."""
        return self.sizes[0]


class NoNameYet(NamedTuple):
    """No case can be named, however often it fails.

    Args:
        from_report: the number of the report of the base from which on one can; None if never,
            because a case has too few runs.
    """

    from_report: int | None


def no_name_yet(comparison: Comparison) -> NoNameYet | None:
    """Return from which report on a case that always fails can be named; None if one can be now.

    None, too, if main's runs decide, which need no history, or if nothing looks worse. Reports of
    the base are taken to be as large as those that are pooled, and to pass.
    """
    suspects = [cell for cell in comparison.select("suspect") if not cell.cleared]
    if comparison.main is not None or not suspects or comparison.select("regressed"):
        return None
    tested = [cell for cell in comparison.cells if cell.p is not None]
    reports = max(cell.base_reports for cell in tested)
    runs = max(cell.base.graded for cell in tested)
    if _can_be_named(comparison, runs, len(suspects)):
        return None
    for more in range(reports + 1, POOLED_RUNS + 1):
        if _can_be_named(comparison, runs * more // reports):
            return NoNameYet(more)
        if runs * (more - 1) >= POOLED_RUNS * reports:
            break  # older reports are pooled no longer
    return NoNameYet(None)


def _can_be_named(comparison: Comparison, base_runs: int, together: int = 1) -> bool:
    """Return True if cells that always fail can be named, or a case that does so on all variants.

    Args:
        comparison: the comparison.
        base_runs: the runs of each cell on the base, all of which passed.
        together: how many cells fail.
    """
    again = deciding = 0
    if comparison.confirm_runs:
        again, deciding = SUSPECT_RUNS, comparison.confirm_runs
    head_runs = comparison.usual_runs + again + deciding
    chance = 1 / comb(base_runs + head_runs, head_runs)
    if chance * comparison.compared <= comparison.alpha * together:
        return True
    variants = len(comparison.variants)
    if variants < 2 or not comparison.cases_over_variants:
        return False
    head_runs = comparison.usual_runs + ceil(again / variants) + ceil(2 * deciding / variants)
    chance = 1 / comb(base_runs + head_runs, head_runs)
    return chance**variants * comparison.cases_over_variants <= comparison.alpha


def no_name_yet_sentence(comparison: Comparison, found: NoNameYet) -> str:
    """`too little history to name a case: from the third report of main on`."""
    if found.from_report is None:
        return "too few runs to name a case"
    number = ordinal(found.from_report)
    report = f"the {number} report of {comparison.baseline.label}"
    return f"too little history to name a case: from {report} on"


def power_of(
    suite: str,
    cases_of_variants: Sequence[int],
    runs: int,
    history: Baseline | None,
    known_from: str | None = None,
    *,
    further_rounds: int = FURTHER_ROUNDS,
) -> Power:
    """Work out what a suite detects on the variant with the fewest cases.

    Args:
        suite: its name.
        cases_of_variants: how many cases each variant has.
        runs: how often each case runs.
        history: reports of the same suite that show how its answers vary; None takes the usual.
        known_from: what `history` was read from.
        further_rounds: the rounds that a variant in doubt makes beyond the plan.
    """
    rate, correlation = _behaviour(history)
    if history is None:
        known_from = None
    cases, cells = min(cases_of_variants), sum(cases_of_variants)
    sizes = [(1, runs)]
    sizes += [(1, more_runs) for more_runs in _RUNS]
    sizes += [(times, runs) for times in _MORE_CASES]
    found = []
    for times, runs_of_case in dict.fromkeys(sizes):
        plan = Plan(cases * times, runs_of_case, rate, correlation, further_rounds)
        found.append(_detectable(plan, calls=cells * times * runs_of_case))
    return Power(
        suite=suite,
        variants=len(cases_of_variants),
        rate=rate,
        correlation=correlation,
        known_from=known_from,
        sizes=tuple(found),
    )


def size_sentence(cases: int, runs: int, drop: float | None, *, planned: int = 0) -> str:
    """`40 cases × 3 runs: this comparison detects drops of 8 points or more`.

    `38 of 40 cases × 3 runs` if more than `cases` were planned.
    """
    size = f"{number_of(cases, 'case')} × {number_of(runs, 'run')}"
    if planned > cases:
        size = f"{cases:,} of {number_of(planned, 'case')} × {number_of(runs, 'run')}"
    if drop is None:
        return f"{size}: too few for this comparison to detect a drop of the whole"
    points = max(1, ceil(100 * drop - 1e-9))  # a drop of 8 % is 8 points, despite rounding errors
    return f"{size}: this comparison detects drops of {number_of(points, 'point')} or more"


def detectable_sentence(comparison: Comparison) -> str | None:
    """Say which drop of a whole variant a comparison of this size detects.

    Of several variants it speaks of the one that shows least. The further rounds of a variant in
    doubt take part, the repeats of single cases do not. Reports of the base that vary more than
    independent runs hide more. None where nothing was compared.
    """
    runs = comparison.usual_runs
    if not runs:
        return None
    tables: dict[Variant, list[Table]] = defaultdict(list)
    further_rounds = FURTHER_ROUNDS if comparison.confirm_runs else 0
    for cell in comparison.cells:
        if cell.head.graded > runs:  # it ran again, whatever a saved report says
            further_rounds = FURTHER_ROUNDS
        if cell.p is not None:
            tables[cell.variant].append((0, runs, *cell.base))
    overdispersion = {each.variant: each.overdispersion for each in comparison.variants}
    planned = Counter(cell.variant for cell in comparison.cells if cell.kind != "removed")
    least, largest = None, -1.0
    for variant, chosen in tables.items():
        drop = detectable_drop(chosen, 1 - comparison.alpha, further_rounds=further_rounds)
        if drop is not None:
            drop *= sqrt(overdispersion[variant])
        if drop is None or drop > 1:
            return size_sentence(len(chosen), runs, None, planned=planned[variant])
        if drop > largest:
            least, largest = variant, drop
    assert least is not None  # some cell was compared
    return size_sentence(len(tables[least]), runs, largest, planned=planned[least])


def _detectable(plan: Plan, calls: int) -> Detectable:
    return Detectable(
        cases=plan.cases,
        runs=plan.runs,
        calls=calls,
        one_report=planned_drop(plan, plan.runs),
        pooled=planned_drop(plan, max(POOLED_RUNS, plan.runs)),
        gate=planned_gate_drop(plan),
    )


def _behaviour(history: Baseline | None) -> tuple[float, float]:
    """Return the mean pass rate of the cells, and their correlation.

    That is the share of the variance of single runs that lies between cells. Without history, both
    are those of the beta distribution that is assumed.
    """
    cells = history.cells.values() if history is not None else ()
    pools = [cell.history.tally for cell in cells]
    pools = [pool for pool in pools if pool.graded]
    if not pools:
        runs = ASSUMED_PASSES + ASSUMED_FAILURES
        return ASSUMED_PASSES / runs, 1 / (runs + 1)
    rate = fmean([pool.rate for pool in pools])
    variance = rate * (1 - rate)
    noises = [
        passed * (graded - passed) / (graded * (graded - 1))
        for passed, graded in pools
        if graded > 1
    ]
    if not noises or not variance:
        return rate, ASSUMED_CORRELATION
    between = 1 - fmean(noises) / variance
    return rate, min(0.99, max(0.0, between))
