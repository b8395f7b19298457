"""Replays runs that others have published: how often verdicts are wrong on suites as they are.

`real_runs.json` has the sources with their commits and licences: how often each item passed, whole
reports where these were recorded, and beta distributions fitted to sources whose counts may not be
passed on. Everything that is drawn follows from a seed.
"""

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from benchmarks.pull_requests import (
    Beta,
    Change,
    Distribution,
    Outcome,
    Rates,
    Story,
    Suite,
    pull_request,
    pull_requests,
    stored_reports,
)
from benchmarks.simulate import RULES, with_error
from ci_evals.gate.baseline import ReportedCell
from ci_evals.gate.compare import compare
from ci_evals.gate.rehearsal import judge
from ci_evals.model.case import Case, Variant
from ci_evals.model.report import Counts, Tally
from ci_evals.model.rules import Gate
from ci_evals.stats.rates import pass_rate
from ci_evals.stats.thresholds import CONFIDENCE

FILE = Path(__file__).with_suffix(".json")
CASES, RUNS = 40, 3
REPORTS = 10
"""Reports of main that tell the noise of cases with a single run."""
BELOW = 0.1
"""How far suites are under their bar that ought to miss it."""
GOOD = 0.75
"""Suites whose mean is at least this are as gates have them; some sources pass only a tenth."""
SAME_QUESTIONS = "navigate"
"""The task that four systems of one source were asked, in the same order."""


class System(NamedTuple):
    """Repeated runs of the same items by the same system.

    Args:
        name: its name in the source.
        runs: how many runs each item has.
        passed: how many of them passed, item by item.
        reports: whole reports, whether each item passed; empty where runs were recorded one by one.
    """

    name: str
    runs: int
    passed: Sequence[int]
    reports: Sequence[Sequence[bool]] = ()

    @property
    def rates(self) -> Rates:
        return [passed / self.runs for passed in self.passed]


class Shape(NamedTuple):
    """The distribution of the pass rates of one system's items, as a source has it."""

    source: str
    items: int
    rates: Beta


def read() -> tuple[Sequence[System], Sequence[Shape]]:
    document: Mapping[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    systems = []
    for each in document["sets"].values():
        for name, found in each["systems"].items():
            passed = [int(character, 16) for character in found["passed"]]
            reports = [[bit == "1" for bit in report] for report in found.get("reports", ())]
            systems.append(System(name, found["n"], passed, reports))
    shapes = []
    for source, fits in document["fits"].items():
        for items, _, _, a, b in fits["rows"]:
            if a and b:  # items of a few systems always had the same answer
                shapes.append(Shape(source, items, Beta(a, b)))
    return systems, shapes


def correlation_of(rates: Rates, runs: int) -> float:
    """The share of the variance of single runs that lies between items."""
    mean = fmean(rates)
    noise = fmean(rate * (1 - rate) * runs / (runs - 1) for rate in rates)
    return 1 - noise / (mean * (1 - mean))


def shapes_table(systems: Sequence[System], shapes: Sequence[Shape]) -> Iterator[str]:
    yield "| shapes of suites | items × runs | mean | always pass | never pass | between items |"
    yield "|---" * 6 + "|"
    for system in systems:
        rates = system.rates
        always, never = (fmean(rate == end for rate in rates) for end in (1, 0))
        yield (
            f"| {system.name} | {len(rates)} × {system.runs} | {fmean(rates):.0%} | {always:.0%}"
            f" | {never:.0%} | {correlation_of(rates, system.runs):.2f} |"
        ).replace("%", " %")
    for source in dict.fromkeys(shape.source for shape in shapes):
        fits = [shape for shape in shapes if shape.source == source]
        means = [shape.rates.a / sum(shape.rates) for shape in fits]
        between = [1 / (1 + sum(shape.rates)) for shape in fits]
        yield (
            f"| {source}, {len(fits)} systems | {fits[0].items} items | {min(means):.0%} to"
            f" {max(means):.0%} | | | median {median(between):.2f} |"
        ).replace("%", " %")


# Nothing changed, as recorded.


def recorded_verdicts(system: System, number: int) -> Iterator[bool]:
    """Yield whether one report of a system is red against its others, in orders drawn at random.

    Each case ran once, and no run can be repeated, so the recorded runs decide.
    """
    rng = random.Random(f"recorded {system.name}")
    for _ in range(number):
        items = rng.sample(range(len(system.passed)), min(CASES, len(system.passed)))
        head, *others = rng.sample(system.reports, len(system.reports))
        cells = []
        for cell, item in enumerate(items):
            passed = int(head[item])
            case = Case(id=str(item))
            counts = Counts(passed, 1 - passed, 0, 1)
            cells.append(ReportedCell(cell, case, AGENT, counts, case.id, Tally(passed, 1)))
        before = [[Tally(int(report[item]), 1) for item in items] for report in others]
        base = stored_reports([cell.key for cell in cells], before)
        yield judge(compare(cells, base, confirm_runs=0), Gate()).red


AGENT = Variant("agent")


# By rates.


class Items(NamedTuple):
    """The rates of a system's items, of which each case of a suite is one."""

    rates: tuple[float, ...]

    def draw(self, rng: random.Random) -> float:
        return rng.choice(self.rates)


class Row(NamedTuple):
    """What pull requests came to.

    Args:
        change: what became of the mean pass rate, as a fraction of 1.
        number: how many pull requests there were.
        red: the share of them that each rule calls red.
        calls: the mean number of calls.
        named: how many cases were named.
        lower: how many of these pass less often in the reports that the gate did not see, too.
        higher: how many pass more often there.
    """

    change: float
    number: int
    red: Mapping[str, float]
    calls: float
    named: int
    lower: int = 0
    higher: int = 0


def row_of(change: float, seen: Sequence[Outcome]) -> Row:
    return Row(
        change=change,
        number=len(seen),
        red={name: fmean(map(rule, seen)) for name, rule in RULES.items()},
        calls=fmean(each.calls for each in seen),
        named=sum(len(each.named) for each in seen),
    )


def unchanged(rates: Distribution, number: int) -> Row:
    """Pull requests that change nothing, on suites of such items; main's code runs, too."""
    suite = Suite(rates, cases=CASES, runs=RUNS)
    return row_of(0.0, list(pull_requests(suite, Story(main_runs=True), number=number)))


class Halves(NamedTuple):
    """The rates of one system in its even reports and in its odd ones.

    The gate sees runs that are drawn from the first; names are checked by the others.
    """

    seen: Rates
    unseen: Rates


def halves_of(system: System) -> Halves:
    even, odd = system.reports[::2], system.reports[1::2]
    items = range(len(system.passed))
    return Halves(
        [fmean(report[item] for report in even) for item in items],
        [fmean(report[item] for report in odd) for item in items],
    )


def becomes(rates: Rates) -> Change:
    """The change that leads to these rates."""
    return lambda _rates, _rng: (rates, frozenset())


def replaced(before: System, after: System, number: int) -> Row:
    """Pull requests that replace one system by another, asked the same questions."""
    old, new = halves_of(before), halves_of(after)
    suite = Suite(cases=CASES, runs=RUNS)
    seen = []
    lower = higher = 0
    for seed in range(number):
        rng = random.Random(f"{before.name} {after.name} {seed}")
        items = rng.sample(range(len(old.seen)), CASES)
        story = Story(main_runs=True, change=becomes([new.seen[item] for item in items]))
        found = pull_request(suite, story, [old.seen[item] for item in items], rng)
        seen.append(found)
        for case in found.named:
            item = items[case]
            lower += new.unseen[item] < old.unseen[item]
            higher += new.unseen[item] > old.unseen[item]
    row = row_of(fmean(new.seen) - fmean(old.seen), seen)
    return row._replace(lower=lower, higher=higher)


class Bars(NamedTuple):
    """The shares of suites that miss a bar.

    Args:
        at: of those whose true rate is exactly at the bar.
        below: of those whose true rate is `BELOW` under it; 100 % is the highest bar.
    """

    at: float
    below: float


def bars(rates: Distribution, runs: int, number: int) -> Bars:
    """Hold suites to bars at their true rate and above it.

    Where each case has a single run, main's reports tell the noise between runs.
    """
    at = below = 0
    for seed in range(number):
        rng = random.Random(f"bars {seed}")
        true = [rates.draw(rng) for _ in range(CASES)]
        here = drawn(true, runs, rng)
        earlier: Sequence[tuple[int, int]] = ()
        if runs == 1:
            earlier = drawn(true, REPORTS, rng)
        estimate = pass_rate(here, earlier)
        assert estimate is not None
        upper = estimate.bounds(CONFIDENCE).upper
        at += upper < fmean(true)
        below += upper < min(1.0, fmean(true) + BELOW)
    return Bars(at / number, below / number)


def drawn(rates: Rates, runs: int, rng: random.Random) -> Sequence[tuple[int, int]]:
    """So many runs of each case: how many passed, and how many there are."""
    return [(sum(rng.random() < rate for _ in range(runs)), runs) for rate in rates]


# The tables.


def recorded_table(systems: Sequence[System], number: int) -> Iterator[str]:
    yield "| nothing changed, as recorded: 40 cases × 1 run | reports before | red |"
    yield "|---" * 3 + "|"
    shares = []
    for system in systems:
        if len(system.reports) < 2:
            continue
        share = fmean(recorded_verdicts(system, number))
        shares.append(share)
        yield f"| {system.name} | {len(system.reports) - 1} | {with_error(100 * share, number)} |"
    yield f"| all | | {with_error(100 * fmean(shares), number * len(shares))} |"


def rules_table(title: str, rows: Mapping[str, Row]) -> Iterator[str]:
    yield f"| {title} | change | {' | '.join(RULES)} | calls | cases named |"
    yield "|---" * (4 + len(RULES)) + "|"
    for name, row in rows.items():
        shares = [f"{100 * row.red[rule]:.0f} %" for rule in RULES]
        shares[0] = with_error(100 * row.red["ci-evals"], row.number)
        named = f"{row.named}"
        if row.change:
            named = f"{row.named}: {row.lower} lower, {row.higher} higher elsewhere"
        yield (
            f"| {name} | {100 * row.change:+.0f} points | {' | '.join(shares)} | {row.calls:.0f}"
            f" | {named} |"
        )


def tables(number: int, processes: Executor) -> Iterator[str]:
    systems, shapes = read()
    yield from (*shapes_table(systems, shapes), "")
    yield from (*recorded_table(systems, number), "")

    suites: dict[str, Distribution] = {
        system.name: Items(tuple(system.rates)) for system in systems if fmean(system.rates) >= GOOD
    }
    good = [shape for shape in shapes if shape.rates.a / sum(shape.rates) >= GOOD]
    for source in dict.fromkeys(shape.source for shape in good):
        fits = [shape.rates for shape in good if shape.source == source]
        fits.sort(key=lambda fit: fit.a + fit.b)
        suites[f"{source}, the median of {len(fits)} systems"] = fits[len(fits) // 2]
    quiet = {name: processes.submit(unchanged, rates, number) for name, rates in suites.items()}
    held = {
        (name, runs): processes.submit(bars, rates, runs, number)
        for name, rates in suites.items()
        for runs in (RUNS, 1)
    }
    asked = [each for each in systems if f"-{SAME_QUESTIONS}-" in each.name]
    changes = {
        f"{short(before.name)} → {short(after.name)}": processes.submit(
            replaced, before, after, number
        )
        for before in asked
        for after in asked
        if before is not after
    }
    rows = {name: each.result() for name, each in quiet.items()}
    yield from (*rules_table("nothing changed, by rates", rows), "")
    pairs = {name: each.result() for name, each in changes.items()}
    pairs = dict(sorted(pairs.items(), key=lambda pair: pair[1].change))
    yield from (*rules_table("one system replaced by another", pairs), "")
    yield "| suites that miss a bar | cases × runs | the true rate is at it | 10 points below it |"
    yield "|---" * 4 + "|"
    for (name, runs), each in held.items():
        shares = [with_error(100 * share, number) for share in each.result()]
        yield f"| {name} | {CASES} × {runs} | {' | '.join(shares)} |"


def short(name: str) -> str:
    """The name of a system without its source and its task."""
    return name.removeprefix("stab/").removesuffix(f"-{SAME_QUESTIONS}-few")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=100, help="pull requests a row")
    number = parser.parse_args().number
    with ProcessPoolExecutor() as processes:
        for line in tables(number, processes):
            print(line, flush=True)


if __name__ == "__main__":
    main()
