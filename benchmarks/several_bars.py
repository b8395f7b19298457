"""How often one of several bars fails by chance: the figures of docs/statistics.md, exactly."""

from collections import Counter
from itertools import combinations_with_replacement
from math import comb, factorial

from ci_evals.stats.rates import look_confidence, pass_rate
from ci_evals.stats.thresholds import CONFIDENCE

TAGS, CASES, RUNS, BAR = 8, 10, 3, 0.85


def chance_of_failing(rate: float, confidence: float = CONFIDENCE) -> float:
    """Return the chance that a tag of `CASES` cases, whose runs all pass at `rate`, fails `BAR`.

    Every outcome is enumerated: the number of cases with each number of passed runs.
    """
    chances = [
        comb(RUNS, passed) * rate**passed * (1 - rate) ** (RUNS - passed)
        for passed in range(RUNS + 1)
    ]
    total = 0.0
    for outcome in combinations_with_replacement(range(RUNS + 1), CASES):
        estimate = pass_rate((passed, RUNS) for passed in outcome)
        assert estimate is not None
        if estimate.rate >= BAR or estimate.bounds(confidence).upper >= BAR:
            continue
        chance = float(factorial(CASES))
        for passed, cases in Counter(outcome).items():
            chance *= chances[passed] ** cases / factorial(cases)
        total += chance
    return total


def chance_that_one_fails(rate: float) -> float:
    """Return the chance that one or more of `TAGS` tags without a case in common fail."""
    return 1 - (1 - chance_of_failing(rate)) ** TAGS


def main() -> None:
    print(f"{TAGS} tags of {CASES} cases × {RUNS} runs, each with a bar of {BAR:.0%}")
    for above in (0, 3):
        chance = chance_that_one_fails(BAR + above / 100)
        print(f"all {above} points above their bars: one fails in {chance:.1%} of reports")
    own = chance_of_failing(BAR - 0.2)
    shared = chance_of_failing(BAR - 0.2, look_confidence(CONFIDENCE, TAGS))
    print(f"20 points below its bar, a tag fails in {own:.0%} of reports")
    print(f"if all tags shared the error, in {shared:.0%}")


if __name__ == "__main__":
    main()
