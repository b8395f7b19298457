"""The drops that a suite detects, and what more runs or cases would buy."""

from collections import defaultdict
from dataclasses import dataclass
from math import ceil

from ci_evals.format import number_of
from ci_evals.gate.baseline import POOLED_RUNS, Baseline
from ci_evals.gate.compare import Comparison
from ci_evals.model.case import Variant
from ci_evals.stats.power import (
    Plan,
    comparison_runs_needed,
    detectable_drop,
    planned_drop,
    planned_gate_drop,
)

ASSUMED_RATE = 0.9
ASSUMED_CORRELATION = 0.5
"""As published for tool-agent benchmarks."""
_RUNS = (1, 2, 3, 5, 10)
_MORE_CASES = (2, 4)


@dataclass(frozen=True, slots=True)
class Size:
    """So many cases with so many runs each, on one variant."""

    cases: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectable:
    """The drops that one size detects with a chance of 80 %, in fractions of 1; None: not even a
    fall to nothing.

    `one_report` is the drop against a baseline of a single report, `pooled` against a history of
    about `POOLED_RUNS` runs a case, `gate` how far below its bar the rate has to be to fail.
    """

    cases: int
    runs: int
    calls: int
    one_report: float | None
    pooled: float | None
    gate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """The drops that a suite detects on each of its variants.

    `rate` and `correlation` are what was assumed of it, or what the report named `known_from`
    shows. The first of `sizes` is the suite as it is. `runs_for_half` is how many runs a case would
    halve the drop that the pooled comparison detects; None if no number up to 100 does.
    """

    suite: str
    variants: int
    rate: float
    correlation: float
    known_from: str | None
    sizes: tuple[Detectable, ...]
    runs_for_half: int | None

    @property
    def now(self) -> Detectable:
        """The suite as it is."""
        return self.sizes[0]


def power_of(
    suite: str, size: Size, variants: int, history: Baseline | None, known_from: str | None = None
) -> Power:
    """Work out what a suite detects.

    Args:
        suite: its name.
        size: its cases and runs, on each variant.
        variants: how many there are.
        history: reports of the same suite that show how its answers vary; None takes the usual.
        known_from: what `history` was read from.
    """
    rate, correlation = _behaviour(history) if history else (ASSUMED_RATE, ASSUMED_CORRELATION)
    plan = Plan(size.cases, size.runs, rate, correlation)
    sizes = dict.fromkeys(
        (
            size,
            *(Size(size.cases, runs) for runs in _RUNS),
            *(Size(size.cases * times, size.runs) for times in _MORE_CASES),
        )
    )
    found = tuple(
        _detectable(plan._replace(cases=each.cases, runs=each.runs), variants) for each in sizes
    )
    half = found[0].pooled / 2 if found[0].pooled else None
    return Power(
        suite=suite,
        variants=variants,
        rate=rate,
        correlation=correlation,
        known_from=known_from if history else None,
        sizes=found,
        runs_for_half=comparison_runs_needed(plan, half, POOLED_RUNS) if half else None,
    )


def size_sentence(cases: int, runs: int, drop: float | None) -> str:
    """`40 cases × 3 runs: this comparison detects drops of 8 points or more`."""
    size = f"{number_of(cases, 'case')} × {number_of(runs, 'run')}"
    if drop is None:
        return f"{size}: too few for this comparison to detect a drop of the whole"
    return f"{size}: this comparison detects drops of {number_of(max(1, ceil(100 * drop - 1e-9)), 'point')} or more"


def detectable_sentence(comparison: Comparison) -> str | None:
    """Say which drop of a whole variant a comparison of this size detects; None where nothing was
    compared.

    Of several variants it speaks of the one that shows least. Confirm runs take no part.
    """
    tables: dict[Variant, list[tuple[int, int, int, int]]] = defaultdict(list)
    if not (runs := comparison.usual_runs):
        return None
    for cell in comparison.cells:
        if cell.p is not None:
            tables[cell.variant].append((0, runs, *cell.base))
    drops = [
        (len(chosen), detectable_drop(chosen, 1 - comparison.alpha)) for chosen in tables.values()
    ]
    cases, drop = max(drops, key=lambda each: 1.0 if each[1] is None else each[1])
    return size_sentence(cases, runs, drop)


def _detectable(plan: Plan, variants: int) -> Detectable:
    return Detectable(
        cases=plan.cases,
        runs=plan.runs,
        calls=plan.cases * plan.runs * variants,
        one_report=planned_drop(plan, plan.runs),
        pooled=planned_drop(plan, max(POOLED_RUNS, plan.runs)),
        gate=planned_gate_drop(plan),
    )


def _behaviour(history: Baseline) -> tuple[float, float]:
    """The mean pass rate of the cells, and the share of the variance of single runs that lies
    between them.
    """
    pools = [pool for cell in history.cells.values() if (pool := cell.history.tally).graded]
    if not pools:
        return ASSUMED_RATE, ASSUMED_CORRELATION
    rate = sum(pool.rate for pool in pools) / len(pools)
    noises = [
        pool.passed * (pool.graded - pool.passed) / (pool.graded * (pool.graded - 1))
        for pool in pools
        if pool.graded > 1
    ]
    uniform = rate * (1 - rate)
    if not noises or not uniform:
        return rate, ASSUMED_CORRELATION
    return rate, min(0.99, max(0.0, 1 - sum(noises) / len(noises) / uniform))
