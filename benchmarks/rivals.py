"""Simpler rules for the pull requests that the gate judges, as scripts and other tools have them.

They see the planned runs, and the newest report of the base branch.
"""

import random
from collections.abc import Callable, Mapping
from statistics import fmean

from benchmarks.pull_requests import Outcome

PLAIN_BAR = 0.8
ACCEPTED_FALL = 0.05
RESAMPLES = 400


def is_below_bar(seen: Outcome) -> bool:
    """Return True if fewer than `PLAIN_BAR` of the planned runs passed."""
    return sum(each.passed for each in seen.here) < PLAIN_BAR * sum(
        each.graded for each in seen.here
    )


def has_fallen(seen: Outcome) -> bool:
    """Return True if the pass rate is more than `ACCEPTED_FALL` below that of the newest report."""
    falls = _falls(seen)
    return fmean(falls) > ACCEPTED_FALL


def has_flipped(seen: Outcome) -> bool:
    """Return True if most runs of a case passed in the newest report, and most fail here."""
    return any(
        2 * before.passed > before.graded and 2 * here.passed < here.graded
        for before, here in zip(seen.before, seen.here, strict=True)
    )


def is_below_by_bootstrap(seen: Outcome) -> bool:
    """Return True if the fall is above 0 in 95 % of the resamples of the cases.

    Source: B. Efron, "Bootstrap Methods: Another Look at the Jackknife", Annals of Statistics 7
    (1979); the percentile interval, one-sided.
    """
    falls = _falls(seen)
    if not any(falls):
        return False
    rng = random.Random(str(falls))
    above = sum(sum(rng.choices(falls, k=len(falls))) > 0 for _ in range(RESAMPLES))
    return above >= 0.95 * RESAMPLES


def _falls(seen: Outcome) -> list[float]:
    """How far the rate of each cell is below that in the newest report."""
    return [
        before.rate - here.rate
        for before, here in zip(seen.before, seen.here, strict=True)
        if before.graded and here.graded
    ]


Rule = Callable[[Outcome], bool]
RIVALS: Mapping[str, Rule] = {
    "threshold: fewer than 80 % of the runs passed": is_below_bar,
    "fall: more than 5 points below main's newest report": has_fallen,
    "bootstrap: below it in 95 % of the resamples": is_below_by_bootstrap,
    "any flip: a case passed on main and fails here": has_flipped,
}
