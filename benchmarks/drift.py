"""Simulates years of a base branch, to see how often the warning of drift is false or late.

Every figure follows from a seed; each branch has cases of its own. Standard errors are in
brackets.
"""

import argparse
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count, islice
from math import ceil, fsum, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from benchmarks.pull_requests import SPLIT, USUAL, Beta, Rates, moved
from ci_evals.stats.drift import DriftEvidence, log_e_values, total_evidence
from ci_evals.stats.exact_tests import Table
from ci_evals.stats.thresholds import DRIFT_ALARM, DRIFT_BETS

YEAR = 250
"""Reports of a year: one on every working day."""
WEEK = 5
BEFORE = 60
"""Quiet reports before a loss begins."""
LATEST = 400
"""A loss that is not seen after so many reports counts as seen then."""
CASES, RUNS = 40, 3

Move = Callable[[int, random.Random], float]
"""How far the mean rate of a report is from the first one's, by its number."""
Report = Sequence[tuple[int, int]]


class Branch(NamedTuple):
    """A base branch: how its cases' rates are spread, and what becomes of them."""

    rates: Beta = USUAL
    move: Move = lambda _number, _rng: 0.0


def wobbles(sd: float) -> Move:
    """Every report is off by its own luck, as from one slow hour or one index."""
    return lambda _number, rng: rng.gauss(0, sd)


def slides(by_week: float) -> Move:
    """The rate falls by so much in a week, after `BEFORE` reports."""
    return lambda number, _rng: -by_week / WEEK * max(0, number - BEFORE + 1)


def steps(by: float) -> Move:
    """The rate falls once by so much, after `BEFORE` reports."""
    return lambda number, _rng: -by * (number >= BEFORE)


def reports(branch: Branch, seed: object) -> Iterator[Report]:
    """Yield passed and graded runs of each case, report by report, without end."""
    rng = random.Random(f"{branch.rates} {seed}")
    rates: Rates = [branch.rates.draw(rng) for _ in range(CASES)]
    for number in count():
        shifted = moved(rates, max(branch.move(number, rng), -sum(rates) / CASES))
        yield [(sum(rng.random() < rate for _ in range(RUNS)), RUNS) for rate in shifted]


@cache  # branches share most of their tables
def cell_logs(table: Table) -> Sequence[float] | None:
    """Return what one cell adds to the logarithms of a report's e-values."""
    return log_e_values([table])


def evidence(branch: Iterable[Report]) -> Iterator[float]:
    """Yield the evidence for a loss after each report."""
    bets = [DriftEvidence()] * len(DRIFT_BETS)
    sums = [(0, 0)] * CASES
    for report in branch:
        both = list(zip(report, sums, strict=True))
        added = [cell_logs((*newest, *earlier)) for newest, earlier in both]
        known = [logs for logs in added if logs is not None]
        if known:
            logs = [fsum(column) for column in zip(*known, strict=True)]
            bets = [bet.update(log_e) for bet, log_e in zip(bets, logs, strict=True)]
        sums = [(passed + p, runs + n) for (passed, runs), (p, n) in both]
        yield total_evidence(bets)


def has_alarm(branch: Branch, seed: object) -> bool:
    """Return True if a year of reports ends in a warning at any time."""
    return any(each >= DRIFT_ALARM for each in islice(evidence(reports(branch, seed)), YEAR))


def reports_until_seen(branch: Branch, seed: object) -> int | None:
    """Return how many reports of a loss it takes to warn; None after a false alarm."""
    for number, each in enumerate(islice(evidence(reports(branch, seed)), LATEST)):
        if each >= DRIFT_ALARM:
            if number < BEFORE:
                return None
            return number - BEFORE + 1
    return LATEST - BEFORE


class Delay(NamedTuple):
    """Reports until a loss is seen: the mean with its standard error, and that of 90 %."""

    mean: float
    error: float
    most: float


def delay(branch: Branch, number: int) -> Delay:
    """Measure how soon a loss is seen, over so many branches."""
    known = (reports_until_seen(branch, seed) for seed in count())
    seen = sorted(islice((each for each in known if each is not None), number))
    return Delay(fmean(seen), stdev(seen) / sqrt(number), seen[ceil(0.9 * number) - 1])


def false_alarms(branch: Branch, number: int) -> tuple[float, float]:
    """Measure the share of quiet years with a warning, and its standard error."""
    share = sum(has_alarm(branch, seed) for seed in range(number)) / number
    return share, sqrt(max(share * (1 - share), 1 / number / 4) / number)


QUIET: Mapping[str, Branch] = {
    "beta(8, 1)": Branch(),
    "ICC 0.5": Branch(SPLIT),
    "every report off by 1 point (sd)": Branch(move=wobbles(0.01)),
    "every report off by 2 points (sd)": Branch(move=wobbles(0.02)),
}
LOSSES: Mapping[str, Branch] = {
    "1 point a week": Branch(move=slides(0.01)),
    "2 points a week": Branch(move=slides(0.02)),
    "2 points a week, ICC 0.5": Branch(SPLIT, slides(0.02)),
    "3 points at once": Branch(move=steps(0.03)),
    "5 points at once": Branch(move=steps(0.05)),
    "5 points at once, ICC 0.5": Branch(SPLIT, steps(0.05)),
    "10 points at once": Branch(move=steps(0.1)),
}


def tables(number: int) -> Iterator[str]:
    """Yield the tables of docs/statistics.md, line by line."""
    yield from (f"| {YEAR} reports in which nothing was lost | years with a warning |", "|---|---|")
    for name, branch in QUIET.items():
        share, error = false_alarms(branch, number)
        yield f"| {name} | {100 * share:.1f} % (± {100 * error:.1f}) |"
    yield from ("", "| a loss of | reports until the warning | 9 of 10 within |", "|---|---|---|")
    for name, branch in LOSSES.items():
        seen = delay(branch, number)
        yield f"| {name} | {seen.mean:.1f} (± {seen.error:.1f}) | {seen.most} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=500, help="branches a row (default: 500)")
    for line in tables(parser.parse_args().number):
        print(line, flush=True)


if __name__ == "__main__":
    main()
