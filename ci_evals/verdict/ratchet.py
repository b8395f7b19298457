"""The ratchet: what a variant has once reached for good, it must not lose."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from ci_evals.model import Variant
from ci_evals.percentage import percent
from ci_evals.report import Report
from ci_evals.rules import Gate
from ci_evals.stats.looks import look_confidence
from ci_evals.stats.pass_rate import PassRate
from ci_evals.verdict.comparison import Comparison
from ci_evals.verdict.head import fresh_rate
from ci_evals.verdict.history import TrendPoint, TrendVariant
from ci_evals.verdict.pairing import VariantKey
from ci_evals.verdict.words import name_of

STABLE_REPORTS = 3
"""A rate is stable when so many reports in a row reached it together."""


def broken(report: Report, rules: Gate, comparison: Comparison) -> Iterator[str]:
    """A sentence for each variant whose rate is surely below the best that it has surely held.

    Only points of the baseline's trend with the same cases count, and of a variant that is compared under another name
    what that one held. Both bounds are one-sided at the gate's confidence.
    """
    if not rules.ratchet:
        return
    same = [point for point in comparison.baseline.trend if point.cases == report.cases_fingerprint]
    for variant in report.matrix.variants:
        found, base = fresh_rate(report, variant), comparison.base_variant(variant)
        best = best_stable_rate([_of(point, base) for point in same], rules.confidence)
        if found is None or best is None:
            continue
        upper = found.bounds(rules.confidence).upper
        if upper < best:
            of = f"{name_of(str(variant))}: " if comparison.several_variants else ""
            who = "it" if base == (variant.provider, variant.prompt) else name_of(str(Variant(*base)))
            rate, sure = percent(float(found.rate), best), percent(rules.confidence)
            at_most = f"({sure} sure: at most {percent(upper, best)})"
            yield f"{of}pass rate {rate} {at_most} is below the {percent(best)} that {who} has held before"


def best_stable_rate(points: Sequence[TrendVariant | None], confidence: float) -> float | None:
    """The highest lower bound of `STABLE_REPORTS` reports in a row, taken together; None with fewer.

    Of many bounds the highest is too high more often than one of them is, so each is at the confidence that is right
    for the highest of as many as do not overlap.
    """
    bounds = []
    each_confidence = look_confidence(confidence, max(1, len(points) // STABLE_REPORTS))
    for start in range(len(points) - STABLE_REPORTS + 1):
        window = [each for each in points[start : start + STABLE_REPORTS] if each is not None and each.n_eff]
        rated = [(each.pass_rate, each.n_eff) for each in window if each.pass_rate is not None]
        if len(rated) == STABLE_REPORTS:
            weight = sum(n_eff for _, n_eff in rated)
            rate = sum(rate * n_eff for rate, n_eff in rated) / weight
            bounds.append(PassRate(Fraction(min(1.0, rate)), weight).bounds(each_confidence).lower)
    return max(bounds, default=None)


def _of(point: TrendPoint, variant: VariantKey) -> TrendVariant | None:
    return next((each for each in point.variants if (each.provider, each.prompt) == variant), None)
