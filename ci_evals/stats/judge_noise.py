"""The judge's share of the noise between runs, and the gain from asking it more often."""

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import sqrt
from typing import NamedTuple

from ci_evals.stats.power import Plan, planned_drop
from ci_evals.stats.rates import Estimate, Interval, sample_mean, wilson
from ci_evals.stats.thresholds import CONFIDENCE


class JudgeNoise(NamedTuple):
    """The noise of a judge, compared with that between runs.

    Args:
        flips: the chance that two gradings of one answer disagree.
        run_flips: the chance that two runs of a case disagree; None where no cell has two runs.
        share: of the noise between runs, in [0, 1]; None where `run_flips` is 0 or not known.
    """

    flips: Estimate
    run_flips: float | None
    share: Estimate | None


def judge_noise(changed: int, graded_twice: int, cells: Sequence[tuple[int, int]]) -> JudgeNoise:
    """Compare the flips of a judge with those between runs.

    The variance of one run of a case is half the chance that two runs disagree. By the law of total
    variance, it is that of the answer plus that of the judge, given the answer, which is half the
    chance that two gradings of one answer disagree. So the judge's share is the ratio of these
    chances.

    Args:
        changed: the answers whose two grades differ.
        graded_twice: all answers that were graded twice, at least one; each run is as likely to be
            one of them.
        cells: (passed, graded) of each cell.
    """
    flips = wilson(changed, graded_twice, CONFIDENCE)
    assert flips is not None
    rates = _flip_rates(cells)
    if not rates:
        return JudgeNoise(flips, None, None)
    mean = sample_mean(rates)
    if not mean.rate:
        return JudgeNoise(flips, 0.0, None)
    run_flips = float(mean.rate)
    bounds = mean.bounds((1 + CONFIDENCE) / 2)
    runs = Estimate(run_flips, Interval(bounds.lower, bounds.upper))
    share = min(1.0, flips.value / run_flips)
    return JudgeNoise(flips, run_flips, Estimate(share, ratio_interval(flips, runs)))


def ratio_interval(part: Estimate, whole: Estimate) -> Interval:
    """Return an interval for the ratio of two independent estimates, at most 1.

    It has the confidence of the intervals of both. Source: A. Donner and G. Y. Zou, "Closed-form
    confidence intervals for functions of the normal mean and standard deviation", Stat. Methods
    Med. Res. 21 (2012) 347-359 (MOVER-R).
    """
    assert part.interval is not None
    assert whole.interval is not None
    product = part.value * whole.value
    lower = 0.0
    upper = 1.0
    if part.interval.lower > 0:
        # The published form times its conjugate, which never divides by 0.
        least_part = part.interval.lower * (2 * part.value - part.interval.lower)
        most_whole = whole.interval.upper * (2 * whole.value - whole.interval.upper)
        lower = least_part / (product + sqrt(product**2 - least_part * most_whole))
    if whole.interval.lower > 0:
        most_part = part.interval.upper * (2 * part.value - part.interval.upper)
        least_whole = whole.interval.lower * (2 * whole.value - whole.interval.lower)
        upper = (product + sqrt(product**2 - most_part * least_whole)) / least_whole
    return Interval(min(1.0, lower), min(1.0, upper))


def noise_left(changed: Iterable[tuple[int, int]]) -> Interval | None:
    """Return the share of a judge's noise that is left to a majority of three grades, as a range.

    A grade that passes with chance p has the variance q = p(1-p), and a majority of three has
    q²(3+4q). Two grades of an answer disagree with chance 2q, so that the share is the mean of
    3q+4q² over the answers whose grade has changed. As their mean q is half of the chance d that
    two further grades of one of them disagree, and none is above a quarter, the share is at least
    3d/2+d², by Jensen's inequality, and at most 2d. The range has the bounds of d as well, at
    `CONFIDENCE`.

    Args:
        changed: (passed, graded) of the further grades of each answer whose grade has changed.

    Returns:
        None without an answer that has two further grades.
    """
    flip_rates = _flip_rates(changed)
    if not flip_rates:
        return None
    bounds = sample_mean(flip_rates).bounds((1 + CONFIDENCE) / 2)
    lower = min(bounds.lower, 0.5)  # a coin disagrees with itself half of the time
    upper = min(bounds.upper, 0.5)
    return Interval(3 * lower / 2 + lower**2, 2 * upper)


def _flip_rates(tallies: Iterable[tuple[int, int]]) -> Counter[Fraction]:
    """Count the unbiased estimates of the chance that two of some (passed, graded) disagree."""
    rates: Counter[Fraction] = Counter()
    for passed, graded in tallies:
        if graded > 1:
            rates[Fraction(2 * passed * (graded - passed), graded * (graded - 1))] += 1
    return rates


def error_of_flips(flip_rate: float) -> float:
    """Return the chance in [0, ½] that a grade is wrong, from the chance that two of them disagree.

    That is 2e(1-e), if all answers are equally hard to judge; it is never above a half.
    """
    return (1 - sqrt(max(0.0, 1 - 2 * flip_rate))) / 2


class Purchase(NamedTuple):
    """The smallest drops that a comparison detects, as fractions of 1 on the scale of today's rate.

    None where even a fall to nothing is not seen.

    Args:
        now: the drop with the judge as it is.
        by_samples: the drops with the least and the most noise that may be left to more samples.
        by_runs: the drop with twice the runs.
    """

    now: float | None
    by_samples: tuple[float | None, float | None]
    by_runs: float | None


def what_samples_buy(plan: Plan, flip_rate: float, left: Interval, base_runs: int) -> Purchase:
    """Return the drops that a comparison detects with more samples of its judge, or with more runs.

    A judge that is wrong with chance e moves a rate of p to p(1-2e) + e: it adds e(1-e) to the
    variance of a run, and makes every drop smaller by the factor 1-2e. Both are less with a smaller
    e.

    Args:
        plan: the runs of one variant, and what they show with the judge as it is.
        flip_rate: the chance that two gradings of one answer disagree.
        left: the share of this noise that is left to more samples, as a range.
        base_runs: the runs of each case in the history.
    """
    error = error_of_flips(flip_rate)
    now = planned_drop(plan, base_runs)
    least = _drop_with(plan, error, error_of_flips(left.lower * flip_rate), base_runs)
    most = _drop_with(plan, error, error_of_flips(left.upper * flip_rate), base_runs)
    runs = 2 * plan.runs
    by_runs = planned_drop(plan._replace(runs=runs), max(base_runs, runs))
    return Purchase(now, (least, most), by_runs)


def _drop_with(plan: Plan, error: float, less: float, base_runs: int) -> float | None:
    """Return the drop that is detected with another error of the judge, on the scale of today's."""
    if error == 0.5:  # its grades say nothing of the answers
        return None
    drop = planned_drop(_with_error(plan, error, less), base_runs)
    if drop is None:
        return None
    return drop * (1 - 2 * error) / (1 - 2 * less)


def _with_error(plan: Plan, error: float, less: float) -> Plan:
    """Return a plan as another error of its judge would show it."""
    contrast = 1 - 2 * error
    rate = min(1.0, max(0.0, (plan.rate - error) / contrast))
    noise = max(0.0, (plan.noise - error * (1 - error)) / contrast**2)
    new_contrast = 1 - 2 * less
    new_rate = rate * new_contrast + less
    new_noise = noise * new_contrast**2 + less * (1 - less)
    correlation = 0.0
    total = new_rate * (1 - new_rate)
    if total:
        correlation = min(0.99, max(0.0, 1 - new_noise / total))
    return plan._replace(rate=new_rate, correlation=correlation)
