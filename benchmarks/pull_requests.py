"""Pull requests on suites whose true rates are known, to see how often their verdict is wrong.

Cases differ as published for tool-agent benchmarks: their own rates follow a beta distribution with an intra-class
correlation of 0.5. The same cases are run again and again; only the runs are random, and they follow from a seed.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from ci_evals.gate.baseline import BaseCell, Baseline, Evidence, HeadCell, History, ReportRef
from ci_evals.gate.compare import MOST_CONFIRM_RUNS, Comparison, compare, suspects
from ci_evals.gate.outages import outages
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Tally
from ci_evals.model.rules import ConfirmRuns
from ci_evals.stats.distributions import beta_quantile

ALPHA = 0.05
CORRELATION = 0.5
Rates = tuple[float, ...]


class Suite(NamedTuple):
    """A suite and its habits. `rate` is the mean over its cases on the base branch now."""

    cases: int = 40
    rate: float = 0.9
    runs: int = 3
    reports: int = 10
    confirm_runs: ConfirmRuns = "auto"
    variants: int = 1
    alike: bool = False

    @property
    def rates(self) -> Rates:
        """The true rate of each case, the steadiest last."""
        return case_rates(self.cases, self.rate, alike=self.alike)


class Outcome(NamedTuple):
    """What a pull request came to. `named` are the numbers of the cases that are said to have regressed."""

    named: frozenset[int]
    fallen: bool
    calls: int
    outage: bool = False

    @property
    def red(self) -> bool:
        return not self.outage and (self.fallen or bool(self.named))


@lru_cache
def case_rates(cases: int, mean: float, *, alike: bool) -> Rates:
    if alike or mean in (0, 1):
        return (mean,) * cases
    spread = (1 - CORRELATION) / CORRELATION
    return tuple(beta_quantile((i + 0.5) / cases, mean * spread, (1 - mean) * spread) for i in range(cases))


def moved(rates: Rates, by: float) -> Rates:
    """All rates moved so that their mean moves by so much: down in proportion, or up towards 1."""
    mean = sum(rates) / len(rates)
    if by < 0:
        return tuple(rate * (1 + by / mean) for rate in rates)
    by = min(by, 1 - mean)
    return tuple(rate + (1 - rate) * by / (1 - mean) for rate in rates) if by else rates


def broken(rates: Rates, number: int, to: float) -> Rates:
    """The steadiest cases broken."""
    return tuple(min(rate, to) if i >= len(rates) - number else rate for i, rate in enumerate(rates))


Past = Callable[[Rates, int], Rates]
"""From the rates now and an age in reports, the rates then."""


def steady(rates: Rates, _age: int) -> Rates:
    """Nothing ever changed on the base branch."""
    return rates


def slowly(by: float) -> Past:
    """The mean rate changed by so much from one report to the next; below 0, it was higher before."""
    return lambda rates, age: moved(rates, -by * age)


def at_once(by: float, age: int) -> Past:
    """The mean rate changed by so much, `age` reports ago."""
    return lambda rates, then: moved(rates, -by) if then >= age else rates


def one_case(age: int, before: float, now: float) -> Past:
    """The last case changed, `age` reports ago."""
    return lambda rates, then: (*rates[:-1], before if then >= age else now)


def to_and_fro(by: float) -> Past:
    """Every other report was better by so much."""
    return lambda rates, age: moved(rates, by) if age % 2 else rates


def pull_requests(
    suite: Suite,
    *,
    number: int,
    past: Past = steady,
    now: Rates | None = None,
    change: Callable[[Rates], Rates] | None = None,
    lost_rounds: int = 0,
) -> Iterator[Outcome]:
    """The outcomes of so many pull requests, each with a history of its own.

    Args:
        suite: what is run.
        number: of pull requests.
        past: what the base branch did.
        now: the rates of the base branch now; None are the suite's.
        change: what the pull request makes of them; None: nothing.
        lost_rounds: planned rounds in which every run fails, as the provider is out.
    """
    rates = now or suite.rates
    head_rates = change(rates) if change else rates
    history = [past(rates, age) for age in range(suite.reports)]
    rng = random.Random(f"{suite} {rates} {head_rates} {history}")
    for _ in range(number):
        yield outcome(suite, base_of(suite, history, rng), head_rates, rng, lost_rounds)


def outcome(suite: Suite, base: Baseline, rates: Rates, rng: random.Random, lost_rounds: int = 0) -> Outcome:
    """Run the head, confirm its suspects, and judge it."""
    planned = [
        Tally(drawn(rng, rates[i], suite.runs - lost_rounds).passed if lost_rounds < suite.runs else 0, suite.runs)
        for i, _ in keys(suite)
    ]
    return attempt(suite, base, planned, lambda i, runs: drawn(rng, rates[i], runs))


def attempt(suite: Suite, base: Baseline, planned: Sequence[Tally], confirm: Callable[[int, int], Tally]) -> Outcome:
    """What planned runs come to; `confirm` makes so many more of a case."""
    cells = list(keys(suite))
    head = [HeadCell(key, key[0], tally) for (_, key), tally in zip(cells, planned, strict=True)]
    found = suspects(head, base, suite.confirm_runs)
    confirmed = [
        cell._replace(confirming=confirm(i, found[key]), confirmed=True) if key in found else cell
        for cell, (i, key) in zip(head, cells, strict=True)
    ]
    made = judged(suite, compare(confirmed, base, confirm_runs=suite.confirm_runs), sum(found.values()))
    return made._replace(named=frozenset(), outage=True) if outages(confirmed, base, ALPHA) else made


def re_run(
    suite: Suite, *, number: int, change: Callable[[Rates], Rates], lost: float = 0.2
) -> Iterator[tuple[Outcome, Outcome]]:
    """Pull requests of one variant that lost a share of their planned runs to errors, and then their second attempts.

    The second attempt goes on with the first one's journal: what was graded stays, what errored is run again.
    """
    rates = change(suite.rates)
    history = [suite.rates] * suite.reports
    rng = random.Random(f"{suite} {rates} {lost}")
    for _ in range(number):
        base = base_of(suite, history, rng)
        confirming = [[drawn(rng, rate, 1) for _ in range(MOST_CONFIRM_RUNS)] for rate in rates]
        early, whole = [], []
        for rate in rates:
            graded = sum(rng.random() >= lost for _ in range(suite.runs))
            first, rest = drawn(rng, rate, graded), drawn(rng, rate, suite.runs - graded)
            early.append(first)
            whole.append(Tally(first.passed + rest.passed, suite.runs))

        def confirm(i: int, runs: int, confirming: Sequence[Sequence[Tally]] = confirming) -> Tally:
            return Tally(sum(each.passed for each in confirming[i][:runs]), runs)

        yield attempt(suite, base, early, confirm), attempt(suite, base, whole, confirm)


def judged(suite: Suite, comparison: Comparison, confirmed: int) -> Outcome:
    named = frozenset(int(cell.case) for cell in comparison.of("regressed"))
    calls = suite.cases * suite.variants * suite.runs + confirmed
    return Outcome(named, any(comparison.worse_variants()), calls)


def base_of(suite: Suite, history: Sequence[Rates], rng: random.Random) -> Baseline:
    refs = tuple(ReportRef(f"report {age}", -float(age)) for age in range(len(history)))
    shared = cache(History)
    cells: Mapping[CellKey, BaseCell] = {
        key: BaseCell(
            key[0],
            shared(
                tuple(
                    Evidence(ref.id, *drawn(rng, rates[i], suite.runs))
                    for ref, rates in zip(refs, history, strict=True)
                )
            ),
        )
        for i, key in keys(suite)
    }
    return Baseline(suite="simulated", reports=refs, cells=cells)


def keys(suite: Suite) -> Iterator[tuple[int, CellKey]]:
    """The number of its case and the key of each cell."""
    return ((i, (str(i), f"agent {variant}", None)) for i in range(suite.cases) for variant in range(suite.variants))


def drawn(rng: random.Random, rate: float, runs: int) -> Tally:
    if rate in (0, 1):
        return Tally(int(rate) * runs, runs)
    return Tally(sum(rng.random() < rate for _ in range(runs)), runs)


class Frequencies(NamedTuple):
    """In per cent of the pull requests. `named` is how often a case that is broken was named, `false_name` another."""

    outage: float
    red: float
    false_name: float
    named: float | None
    calls: float


def frequencies(outcomes: Iterator[Outcome], broken_cases: frozenset[int] = frozenset()) -> Frequencies:
    seen = list(outcomes)
    hits = sum(len(each.named & broken_cases) for each in seen)
    return Frequencies(
        outage=100 * sum(each.outage for each in seen) / len(seen),
        red=100 * sum(each.red for each in seen) / len(seen),
        false_name=100 * sum(bool(each.named - broken_cases) for each in seen) / len(seen),
        named=100 * hits / len(seen) / len(broken_cases) if broken_cases else None,
        calls=sum(each.calls for each in seen) / len(seen),
    )
