"""The drops that a suite detects, before and after money is spent on runs."""

from collections.abc import Iterable
from math import sqrt
from statistics import NormalDist, fmean, harmonic_mean
from typing import NamedTuple

from ci_evals.stats.exact_tests import Table
from ci_evals.stats.rates import ADDED_NOISE, run_variance

_NORMAL = NormalDist()
_DISCRETENESS = 1.1
"""The exact test needs this much more of a drop than the normal distribution says, for passes are
whole numbers.
"""
NEWEST_ALONE = 2
"""Against a pooled history, the newest report alone has to show the drop at this multiple of the
level.
"""


class Plan(NamedTuple):
    """Runs that have not been made, and what is assumed of them.

    Args:
        cases: how many, in (0, ∞).
        runs: of each case, in (0, ∞).
        rate: the true pass rate, the mean over cases, in [0, 1].
        correlation: the share of the variance of single runs that lies between cases, in [0, 1): 0
            if all cases pass equally often. What is left is noise. Published tool-agent benchmarks
            have 0.4 to 0.53.
    """

    cases: int
    runs: int
    rate: float
    correlation: float = 0.5

    @property
    def noise(self) -> float:
        """The variance of one run of a case, meaned over cases."""
        return self.rate * (1 - self.rate) * (1 - self.correlation)

    def noise_after(self, drop: float) -> float:
        """The noise when all cases pass less often in proportion, so that the rate falls by `drop`.

        Then cases that never failed vary, too: more noise than in a suite that always had the lower
        rate.
        """
        left = max(0.0, 1 - drop / self.rate) if self.rate else 0.0
        between = self.rate * (1 - self.rate) * self.correlation
        return self.rate * left * (1 - self.rate * left) - between * left * left

    @property
    def total(self) -> int:
        """The number of all runs."""
        return self.cases * self.runs

    @property
    def variance(self) -> float:
        """The variance of the pass rate, as `run_variance` will measure it: of single runs as if
        independent.
        """
        if self.runs == 1:
            return self.rate * (1 - self.rate) / self.total + 1 / self.total**2
        return self.noise / self.total + ADDED_NOISE / self.total**2


def detectable_gate_drop(
    cells: Iterable[tuple[int, int]], confidence: float = 0.95, power: float = 0.8
) -> float | None:
    """Return the distance below its bar at which the gate fails a true rate with chance `power`.

    From (passed, graded) of each cell, as a fraction of 1; None if nothing was graded. With equal
    runs it is (z_confidence + z_power)·√(Σ k(n-k)/(n-1) + 3)/N: the normal sample-size formula, A.
    Agresti, Categorical Data Analysis (2002), section 6.5.1.
    """
    variance = run_variance(cells)
    return None if variance is None else _reach(confidence, power) * sqrt(variance)


def detectable_drop(
    cells: Iterable[Table], confidence: float = 0.95, power: float = 0.8
) -> float | None:
    """Return the fall of the true rate that the comparison detects with chance `power`.

    Over cells with runs on both sides, as a fraction of 1; None if there are none, or even a fall
    to nothing would not be seen. What the base shows is taken to be true, and all cases to get
    worse in proportion: `comparison_power`.
    """
    matched = [counts for counts in cells if counts[1] and counts[3]]
    if not matched:
        return None
    rate = fmean(passed / runs for _, _, passed, runs in matched)
    head, base = (round(harmonic_mean([counts[side] for counts in matched])) for side in (1, 3))
    noise = [
        passed * (runs - passed) / (runs * (runs - 1)) for _, _, passed, runs in matched if runs > 1
    ]
    uniform = rate * (1 - rate)
    within = fmean(noise) if noise else uniform
    correlation = min(1.0, max(0.0, 1 - within / uniform)) if uniform else 0.0
    return planned_drop(Plan(len(matched), head, rate, correlation), base, confidence, power)


def planned_gate_drop(plan: Plan, confidence: float = 0.95, power: float = 0.8) -> float:
    """`detectable_gate_drop` of runs to come."""
    return _reach(confidence, power) * sqrt(plan.variance)


def planned_drop(
    plan: Plan, base_runs: int, confidence: float = 0.95, power: float = 0.8
) -> float | None:
    """The drop that `comparison_power` sees with chance `power`. None where even a fall to nothing
    is not seen.
    """
    seen, unseen = plan.rate, 0.0
    if comparison_power(plan, seen, base_runs, confidence) < power:
        return None
    while seen - unseen > 1e-6:
        middle = (seen + unseen) / 2
        if comparison_power(plan, middle, base_runs, confidence) >= power:
            seen = middle
        else:
            unseen = middle
    return seen


def comparison_power(plan: Plan, drop: float, base_runs: int, confidence: float = 0.95) -> float:
    """The chance that the comparison is significant when all cases get worse, in proportion, by
    `drop` on the mean.

    `base_runs` more than `plan.runs` are taken for a pooled history whose newest report has as many
    as the plan. Where some cases break wholly instead, the chance is mostly higher: those that
    still pass stay without noise.
    """
    fallen = plan.noise_after(drop) / plan.total + 1 / plan.total**2
    pooled = _significance_probability(
        drop, fallen + plan._replace(runs=base_runs).variance, confidence
    )
    if base_runs <= plan.runs:
        return pooled
    return min(
        pooled,
        _significance_probability(
            drop, fallen + plan.variance, 1 - NEWEST_ALONE * (1 - confidence)
        ),
    )


def _significance_probability(drop: float, variance: float, confidence: float) -> float:
    """Return the probability that a difference with this mean and variance is significant."""
    return _NORMAL.cdf(drop / (_DISCRETENESS * sqrt(variance)) - _NORMAL.inv_cdf(confidence))


def comparison_runs_needed(
    plan: Plan,
    drop: float,
    base_runs: int | None,
    power: float = 0.8,
    confidence: float = 0.95,
    most: int = 100,
) -> int | None:
    """The fewest runs of each case with which `comparison_power` reaches `power`. None where `most`
    do not.

    `base_runs` None: the base has as many as the head.
    """
    for runs in range(
        1, most + 1
    ):  # one by one: as passes are whole numbers, power falls back a little now and then
        if comparison_power(plan._replace(runs=runs), drop, base_runs or runs, confidence) >= power:
            return runs
    return None


def _reach(confidence: float, power: float) -> float:
    """2.486 at the usual 0.95 and 0.8: how many standard errors apart two rates are that can be
    told apart.
    """
    return _NORMAL.inv_cdf(confidence) + _NORMAL.inv_cdf(power)
