"""The judge's share of the noise between runs, and the gain from asking it more often."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import comb, sqrt
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
    rates: Counter[Fraction] = Counter()
    for passed, graded in cells:
        if graded > 1:
            flip_rate = Fraction(2 * passed * (graded - passed), graded * (graded - 1))
            rates[flip_rate] += 1
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


def majority_error(error: float, samples: int) -> float:
    """The chance that the majority of opinions is wrong, each being wrong with chance `error`.

    They are independent: it is Σ C(n, k)·eᵏ·(1-e)ⁿ⁻ᵏ over k > n/2, and half of the term k = n/2, as
    a tie is as likely wrong as right. So an even number is as good as one opinion less. Of a scale,
    the median is on the side of the threshold on which the majority is.
    Source: N. de Condorcet, "Essai sur l'application de l'analyse" (1785).

    Args:
        error: in [0, 1].
        samples: the number of opinions, from 1.
    """
    total = 0.0
    for wrong in range(samples + 1):
        chance = comb(samples, wrong) * error**wrong * (1 - error) ** (samples - wrong)
        if 2 * wrong > samples:
            total += chance
        elif 2 * wrong == samples:
            total += chance / 2
    return total


def error_of_flips(flip_rate: float) -> float:
    """Return the chance in [0, ½] that a grade is wrong, from the chance that two of them disagree.

    That is 2e(1-e), if all answers are equally hard to judge; it is never above a half.
    """
    return (1 - sqrt(max(0.0, 1 - 2 * flip_rate))) / 2


def opinion_error(error: float, samples: int) -> float:
    """Return the error of one opinion from the error of a majority of `samples`, by bisection."""
    least = 0.0
    most = 0.5
    for _ in range(60):
        middle = (least + most) / 2
        if majority_error(middle, samples) < error:
            least = middle
        else:
            most = middle
    return (least + most) / 2


class Purchase(NamedTuple):
    """The smallest drops that a comparison detects, as fractions of 1 on the scale of today's rate.

    None where even a fall to nothing is not seen.

    Args:
        flip_rate: the chance that two gradings of one answer would disagree with more samples.
        now: the drop with the judge as it is.
        by_samples: the drop with more samples.
        by_runs: the drop with twice the runs.
    """

    flip_rate: float
    now: float | None
    by_samples: float | None
    by_runs: float | None


def what_samples_buy(
    plan: Plan, flip_rate: float, samples: int, more_samples: int, base_runs: int
) -> Purchase:
    """Return the drops that a comparison detects with more samples of its judge, or with more runs.

    A judge that is wrong with chance e moves a rate of p to p(1-2e) + e: it adds e(1-e) to the
    variance of a run, and makes every drop smaller by the factor 1-2e. Both are less with a smaller
    e. All answers are taken to be equally hard to judge: if the doubt is about a few of them, more
    samples buy less.

    Args:
        plan: the runs of one variant, and what they show with the judge as it is.
        flip_rate: the chance that two gradings of one answer disagree.
        samples: the opinions behind a grade now.
        more_samples: the opinions behind a grade then.
        base_runs: the runs of each case in the history.
    """
    error = error_of_flips(flip_rate)
    less = majority_error(opinion_error(error, samples), more_samples)
    now = planned_drop(plan, base_runs)
    runs = 2 * plan.runs
    by_runs = planned_drop(plan._replace(runs=runs), max(base_runs, runs))
    by_samples = None
    if error < 0.5:  # else its grades say nothing of the answers
        drop = planned_drop(_with_error(plan, error, less), base_runs)
        if drop is not None:
            by_samples = drop * (1 - 2 * error) / (1 - 2 * less)
    return Purchase(2 * less * (1 - less), now, by_samples, by_runs)


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
