"""The drops that a suite detects, before and after money is spent on runs."""

from collections.abc import Iterable
from math import sqrt
from statistics import NormalDist, fmean
from typing import NamedTuple

from ci_evals.stats.exact_tests import Table
from ci_evals.stats.rates import mean_runs
from ci_evals.stats.thresholds import (
    ADDED_FLIPPED_RUNS,
    ADDED_PLANNED_RUNS,
    ASSUMED_CORRELATION,
    CONFIDENCE,
    DISCRETENESS,
    FURTHER_ROUNDS,
    POWER,
)

_NORMAL = NormalDist()


class Plan(NamedTuple):
    """Runs that have not been made, and what is assumed of them.

    Args:
        cases: how many, in (0, ∞).
        runs: of each case, in (0, ∞).
        rate: the true pass rate, the mean over cases, in [0, 1].
        correlation: the share of the variance of single runs that lies between cases, in [0, 1): 0
            if all cases pass equally often. What is left is noise. Published tool-agent benchmarks
            have 0.4 to 0.53.
        further_rounds: the rounds that a variant in doubt makes beyond the plan, which a comparison
            counts, too, and a bar does not.
    """

    cases: int
    runs: int
    rate: float
    correlation: float = ASSUMED_CORRELATION
    further_rounds: int = FURTHER_ROUNDS

    @property
    def noise(self) -> float:
        """The variance of one run of a case, meaned over cases."""
        return self.rate * (1 - self.rate) * (1 - self.correlation)

    def noise_after(self, drop: float) -> float:
        """The noise when all cases pass less often in proportion, so that the rate falls by `drop`.

        Then cases that never failed vary, too: more noise than in a suite that always had the lower
        rate.
        """
        if self.rate == 0:
            return 0.0
        left = max(0.0, 1 - drop / self.rate)
        fallen = self.rate * left
        between = self.rate * (1 - self.rate) * self.correlation
        return fallen * (1 - fallen) - between * left**2

    @property
    def total(self) -> int:
        """The total number of runs."""
        return self.cases * self.runs

    @property
    def variance(self) -> float:
        """The variance of the pass rate as the gate will measure it.

        Single runs count as independent.
        """
        total = self.total
        if self.runs == 1:
            return self.rate * (1 - self.rate) / total + ADDED_PLANNED_RUNS / total**2
        return self.noise / total + ADDED_FLIPPED_RUNS / total**2


def detectable_drop(
    cells: Iterable[Table],
    confidence: float = CONFIDENCE,
    power: float = POWER,
    *,
    further_rounds: int = FURTHER_ROUNDS,
) -> float | None:
    """Return the fall of the true rate that the comparison detects with chance `power`.

    Over cells with runs on both sides, as a fraction of 1; None if there are none, or even a fall
    to nothing would not be seen. What the base shows is taken to be true, and all cases to get
    worse in proportion: `comparison_power`.
    """
    head_runs = []
    base_runs = []
    rates = []
    noise = []
    for _, n_head, passed, n_base in cells:
        if n_head and n_base:
            head_runs.append(n_head)
            base_runs.append(n_base)
            rates.append(passed / n_base)
            if n_base > 1:
                noise.append(passed * (n_base - passed) / (n_base * (n_base - 1)))
    if not rates:
        return None
    rate = fmean(rates)
    correlation = 0.0
    uniform = rate * (1 - rate)
    if uniform and noise:
        correlation = 1 - fmean(noise) / uniform
        correlation = min(1.0, max(0.0, correlation))
    plan = Plan(len(rates), round(mean_runs(head_runs)), rate, correlation, further_rounds)
    return planned_drop(plan, round(mean_runs(base_runs)), confidence, power)


def planned_gate_drop(plan: Plan, confidence: float = CONFIDENCE, power: float = POWER) -> float:
    """Return the distance below its bar at which the gate fails a true rate with chance `power`.

    As a fraction of 1, (z_confidence + z_power) standard errors: the normal sample-size formula, A.
    Agresti, Categorical Data Analysis (2002), section 6.5.1. With equal runs of cases that passed k
    of n times, and the defaults, it is 2.486·√(Σ k(n-k)/(n-1) + 3)/N.
    """
    standard_errors = _NORMAL.inv_cdf(confidence) + _NORMAL.inv_cdf(power)
    return standard_errors * sqrt(plan.variance)


def planned_drop(
    plan: Plan, base_runs: int, confidence: float = CONFIDENCE, power: float = POWER
) -> float | None:
    """The drop that `comparison_power` sees with chance `power`, by bisection.

    None where even a fall to nothing is not seen.
    """
    seen = plan.rate
    unseen = 0.0
    if comparison_power(plan, seen, base_runs, confidence) < power:
        return None
    while seen - unseen > 1e-6:
        middle = (seen + unseen) / 2
        power_there = comparison_power(plan, middle, base_runs, confidence)
        if power_there >= power:
            seen = middle
        else:
            unseen = middle
    return seen


def comparison_power(
    plan: Plan, drop: float, base_runs: int, confidence: float = CONFIDENCE
) -> float:
    """The chance that the comparison is significant when all cases get worse in proportion.

    Where some cases break wholly instead, the chance is mostly higher: those that still pass stay
    without noise. A variant that falls is taken to be in doubt after its planned runs, so that its
    further rounds count: with a single run of each case that is not always so, and
    `gate.rehearsal` knows better.

    Args:
        plan: the head's runs, and the base's behaviour.
        drop: the fall of the mean rate, as a fraction of 1.
        base_runs: the base's runs of each case.
        confidence: of the comparison.
    """
    total = plan.cases * (plan.runs + plan.further_rounds)
    head_variance = plan.noise_after(drop) / total
    head_variance += ADDED_PLANNED_RUNS / total**2
    base_variance = plan._replace(runs=base_runs).variance
    return _significance_probability(drop, head_variance + base_variance, confidence)


def _significance_probability(drop: float, variance: float, confidence: float) -> float:
    """Return the probability that a difference with this mean and variance is significant."""
    standard_errors = drop / (DISCRETENESS * sqrt(variance))
    z = standard_errors - _NORMAL.inv_cdf(confidence)
    return _NORMAL.cdf(z)
