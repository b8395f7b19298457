"""Slow loss on a branch, which no single report shows: an e-detector over its reports.

Each bet is that failures are more frequent now than before, by a factor exp(bet) of their odds.
Source: J. Shin, A. Ramdas and A. Rinaldo, "E-detectors: a nonparametric framework for sequential
change detection", New England J. Stat. Data Sci. 2 (2024).
"""

from collections.abc import Iterable, Sequence
from math import exp, fsum, log, sqrt
from statistics import NormalDist, fmean
from typing import NamedTuple

from ci_evals.stats.distributions import hypergeometric
from ci_evals.stats.exact_tests import Table
from ci_evals.stats.thresholds import CONFIDENCE, DRIFT_BETS

MOST_EVIDENCE = 1e300
"""Evidence stays a number, however long nobody reacts to an alarm."""


class DriftEvidence(NamedTuple):
    """The evidence of one bet, after some reports.

    Args:
        s: the sum, over all reports that a loss may have begun with, of the product of the e-values
            since.
        best: the logarithm of the largest of these products; the last e-value's where it is not
            above 0.
    """

    s: float = 0.0
    best: float = 0.0

    def update(self, log_e: float) -> "DriftEvidence":
        """Return the evidence after one more report."""
        s = min(MOST_EVIDENCE, (self.s + 1) * exp(log_e))
        return DriftEvidence(s, max(0.0, self.best) + log_e)


def log_e_values(tables: Iterable[Table]) -> tuple[float, ...] | None:
    """Return the logarithm of a report's e-value for each bet; None if it tells nothing.

    e = exp(bF) / E exp(bF), where F are the report's failures. Given the failures of both sides
    together, those of the report are hypergeometric in each cell if nothing has changed, so that
    the expectation of e is 1.

    Args:
        tables: the cells of the report, each with all earlier runs of the same as the base.
    """
    logs = [0.0] * len(DRIFT_BETS)
    for passed, runs, earlier_passed, earlier_runs in tables:
        failed = runs - passed
        all_failed = failed + earlier_runs - earlier_passed
        if not runs or not earlier_runs or all_failed in (0, runs + earlier_runs):
            continue
        chances = hypergeometric(runs, earlier_runs, all_failed)
        for number, bet in enumerate(DRIFT_BETS):
            logs[number] += bet * failed - _log_mean(bet, chances.least, chances.probabilities)
    if not any(logs):
        return None
    return tuple(logs)


def _log_mean(bet: float, least: int, probabilities: Sequence[float]) -> float:
    """Return log E exp(bet · F), where F is `least` or more with these probabilities."""
    terms = [chance * exp(bet * more) for more, chance in enumerate(probabilities)]
    return bet * least + log(fsum(terms))


def total_evidence(bets: Iterable[DriftEvidence]) -> float:
    """Return the evidence of all bets together, to compare with `DRIFT_ALARM` and `DRIFT_QUIET`."""
    return fmean(bet.s for bet in bets)


class Loss(NamedTuple):
    """The fall of the mean pass rate, and its lower bound: 0.05 is five points."""

    value: float
    at_least: float


def loss(tables: Iterable[Table], confidence: float = CONFIDENCE) -> Loss | None:
    """Estimate by how much cells pass less often than before; None if none has runs on both sides.

    The bound is one-sided. The rate of a cell without failures is not taken as certain: each side
    has half a pass and half a failure more in its variance.

    Args:
        tables: the runs of each cell since the loss began, with those before as the base.
        confidence: of the bound.
    """
    falls = []
    variances = []
    for passed, runs, before_passed, before_runs in tables:
        if runs and before_runs:
            falls.append(before_passed / before_runs - passed / runs)
            variances += [_variance(passed, runs), _variance(before_passed, before_runs)]
    if not falls:
        return None
    value = fmean(falls)
    error = sqrt(fsum(variances)) / len(falls)
    return Loss(value, value - NormalDist().inv_cdf(confidence) * error)


def _variance(passed: int, runs: int) -> float:
    return (passed + 0.5) * (runs - passed + 0.5) / (runs + 1) ** 2 / runs
