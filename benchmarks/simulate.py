"""Simulates pull requests of known truth and prints how often verdicts are right, as in the docs.

Every figure follows from a seed: the same code prints the same tables.
"""

import argparse
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from math import sqrt
from statistics import fmean
from typing import NamedTuple

from benchmarks.pull_requests import (
    MOST_REPEATS,
    QUIET,
    SPLIT,
    USUAL,
    Alike,
    Beta,
    Change,
    Frequencies,
    Luck,
    Rates,
    Scores,
    Story,
    Suite,
    UpperHalf,
    breaks,
    crashes,
    falls,
    fell,
    frequencies,
    keys,
    outcome,
    pull_requests,
    redraws,
    rises,
    run_again,
    slides,
    stored_reports,
)
from benchmarks.rivals import RIVALS, Rule
from ci_evals.format import number_of
from ci_evals.gate.baseline import tally_of
from ci_evals.model.report import Outcome as Run
from ci_evals.model.rules import Gate
from ci_evals.stats.rates import pass_rate
from ci_evals.stats.thresholds import ALPHA

REAL = Suite(Beta(0.6, 0.1))
"""Most cases always pass and few never do, as of the published runs of real systems."""

BETA, ICC = Suite(USUAL), Suite(SPLIT)
Rows = Mapping[str, tuple[Suite, Story]]

NOTHING_CHANGED: Rows = {
    "beta(.6, .1)": (REAL, QUIET),
    "beta(.6, .1), 1 base report": (REAL._replace(reports=1), QUIET),
    "beta(8, 1)": (BETA, QUIET),
    "ICC 0.5": (ICC, QUIET),
    "every case at 90 %": (Suite(Alike(0.9)), QUIET),
    "beta(2, 2)": (Suite(Beta(2, 2)), QUIET),
    "1 base report": (BETA._replace(reports=1), QUIET),
    "3 base reports": (BETA._replace(reports=3), QUIET),
    "20 cases": (BETA._replace(cases=20), QUIET),
    "100 cases": (BETA._replace(cases=100), QUIET),
    "500 cases": (BETA._replace(cases=500), QUIET),
    "40 × 1": (BETA._replace(runs=1), QUIET),
    "40 × 5": (BETA._replace(runs=5), QUIET),
    "3 variants": (BETA._replace(variants=3), QUIET),
    "one case at 80 %": (Suite(Alike(0.8), cases=1), QUIET),
    "5 % of all runs crash, on both sides": (BETA, Story(past=crashes(0.05))),
}
GROUPS_OF_4 = Story(luck=Luck(group=4, share=0.7))
GROUPS_OF_10 = Story(luck=Luck(group=10, share=0.7))
WOBBLE = Story(luck=Luck(wobble=0.04))
COMMON_LUCK: Rows = {
    "groups of 4 cases share 70 % of their luck": (BETA, GROUPS_OF_4),
    "groups of 10 cases share 70 % of their luck": (BETA, GROUPS_OF_10),
    "the pass rate wobbles by 4 points": (BETA, WOBBLE),
    "groups of 4, 3 base reports": (BETA._replace(reports=3), GROUPS_OF_4),
    "groups of 10, 3 base reports": (BETA._replace(reports=3), GROUPS_OF_10),
    "a wobble of 4 points, 3 base reports": (BETA._replace(reports=3), WOBBLE),
}
BROKEN: Rows = {
    "beta(.6, .1): one of 40 dies": (REAL, Story(change=breaks(1 / 40))),
    "beta(.6, .1): 10 % of the cases die": (REAL, Story(change=breaks(0.1))),
    "beta(.6, .1): 10 % fall to a fifth": (REAL, Story(change=breaks(0.1, times=0.2))),
    "beta(.6, .1): all fall by 5 points": (REAL, Story(change=falls(0.05))),
    "beta(.6, .1): all fall by 8 points": (REAL, Story(change=falls(0.08))),
    "10 % of the cases die": (BETA, Story(change=breaks(0.1))),
    "10 % of the cases die, ICC 0.5": (ICC, Story(change=breaks(0.1))),
    "10 % fall to a fifth": (BETA, Story(change=breaks(0.1, times=0.2))),
    "10 % fall to a fifth, ICC 0.5": (ICC, Story(change=breaks(0.1, times=0.2))),
    "one of 40 dies": (BETA, Story(change=breaks(1 / 40))),
    "one of 40 dies, 1 base report": (BETA._replace(reports=1), Story(change=breaks(1 / 40))),
    "30 % die": (BETA, Story(change=breaks(0.3))),
    "60 % die": (BETA, Story(change=breaks(0.6))),
    "all fall by 5 points": (BETA, Story(change=falls(0.05))),
    "all fall by 8 points": (BETA, Story(change=falls(0.08))),
    "all fall by 10 points": (BETA, Story(change=falls(0.1))),
    "all fall by 5 points, ICC 0.5": (ICC, Story(change=falls(0.05))),
    "all fall by 8 points, ICC 0.5": (ICC, Story(change=falls(0.08))),
    "all fall by 10 points, ICC 0.5": (ICC, Story(change=falls(0.1))),
}
OUTAGES: Rows = {
    "one round": (BETA, Story(head_out=(0, 1, 0))),
    "one round, ICC 0.5": (ICC, Story(head_out=(0, 1, 0))),
    "all three rounds": (BETA, Story(head_out=(1, 1, 1))),
    "one round, and 10 % of the cases die": (BETA, Story(change=breaks(0.1), head_out=(0, 1, 0))),
    "one round, and 10 % of the cases die, ICC 0.5": (
        ICC,
        Story(change=breaks(0.1), head_out=(0, 1, 0)),
    ),
    "a quarter of a round": (BETA, Story(head_out=(0, 0.25, 0))),
}
BASE_BRANCH: Rows = {
    "the newest report was out": (BETA, Story(base_out={0: 1})),
    "the newest report was out, and 10 % of the cases die": (
        BETA,
        Story(change=breaks(0.1), base_out={0: 1}),
    ),
    "the two newest were out by 60 %, and 10 % die": (
        BETA,
        Story(change=breaks(0.1), base_out={0: 0.6, 1: 0.6}),
    ),
    "the two newest were out, and 10 % die: not compared": (
        BETA,
        Story(change=breaks(0.1), base_out={0: 1, 1: 1}),
    ),
    "1 of 5 runs of a stored report failed": (BETA, Story(base_out={3: 0.2})),
    "1 of 5 runs of a stored report failed, and all fall by 10 points": (
        BETA,
        Story(change=falls(0.1), base_out={3: 0.2}),
    ),
    "2 of 5 runs of a stored report failed": (BETA, Story(base_out={3: 0.4})),
    "2 of 5 runs of a stored report failed, and all fall by 10 points": (
        BETA,
        Story(change=falls(0.1), base_out={3: 0.4}),
    ),
    "fell by 10 points in its newest report": (BETA, Story(past=fell(0.1, 1))),
    "fell by 10 points 3 reports ago": (BETA, Story(past=fell(0.1, 3))),
    "fell by 30 points in its newest report": (BETA, Story(past=fell(0.3, 1))),
    "fell by 5 points in its newest report": (BETA, Story(past=fell(0.05, 1))),
    "slides by a point with every report": (BETA, Story(past=slides(0.01))),
}


MIXED = Beta(0.5, 0.25)
"""Most cases always pass or never do, with a mean of 67 %: there is something to be gained."""


def changes_that_help() -> Rows:
    """Return pull requests that gain more or less than they lose, by both values of the rule."""
    mixed = Suite(MIXED)
    main = Story(main_runs=True)
    gains = redraws(0.4, MIXED, least=0.04, most=1)
    losses = redraws(0.4, MIXED, least=-1, most=-0.04)
    level = redraws(0.4, MIXED, least=-0.01, most=0.01)
    dies = breaks(1 / 40)
    stories = {
        "upgrades of 4 points or more": (mixed, main._replace(change=gains)),
        "the same backwards": (mixed, main._replace(change=losses)),
        "upgrades, main's code doesn't run": (mixed, Story(change=gains)),
        "backwards, main's code doesn't run": (mixed, Story(change=losses)),
        "gains and losses are equal to a point": (mixed, main._replace(change=level)),
        "all rise by 5 points, and one of 40 dies": (
            REAL,
            main._replace(change=rises(0.05, dies)),
        ),
        "the vendor made all rise by 5 points, and one of 40 dies": (
            REAL,
            main._replace(vendor=rises(0.05), change=dies),
        ),
        "one of 40 dies": (REAL, main._replace(change=dies)),
    }
    rows = {}
    for name, (suite, story) in stories.items():
        rows[name] = (suite, story)
        rows[f"{name}: net"] = (suite, story._replace(rules=Gate(on_regression="net")))
    return rows


def main_runs() -> Rows:
    """Return suites of which main's code runs, too."""
    once = REAL._replace(reports=1)
    quiet = Story(main_runs=True)
    return {
        "main runs: beta(.6, .1)": (REAL, quiet),
        "main runs: beta(8, 1)": (BETA, quiet),
        "main runs: 1 base report": (once, quiet),
        "main runs: the vendor changed all by 10 points": (
            REAL,
            quiet._replace(vendor=falls(0.1)),
        ),
        "main runs: main fell by 10 points": (REAL, quiet._replace(past=fell(0.1, 1))),
        "main runs: one of 40 dies": (REAL, quiet._replace(change=breaks(1 / 40))),
        "main runs: 10 % of the cases die": (REAL, quiet._replace(change=breaks(0.1))),
        "main runs: 10 % fall to a fifth": (REAL, quiet._replace(change=breaks(0.1, times=0.2))),
        "main runs: 1 base report, one of 40 dies": (once, quiet._replace(change=breaks(1 / 40))),
        "main runs: all fall by 5 points": (REAL, quiet._replace(change=falls(0.05))),
        "main runs: all fall by 8 points": (REAL, quiet._replace(change=falls(0.08))),
        "main runs: 2 of 5 runs of a stored report failed, all fall by 10 points": (
            REAL,
            quiet._replace(change=falls(0.1), base_out={3: 0.4}),
        ),
    }


def scored() -> Rows:
    """Return suites whose graders give scores, in tenths, and of which main's code runs, too."""
    usual = Suite(UpperHalf(Beta(4, 2)), scores=Scores())
    suites = {
        "scores": usual,
        "scores of half of the cases": usual._replace(scores=Scores(share=0.5)),
        "scores, 1 base report": usual._replace(reports=1),
        "scores, 3 variants": usual._replace(variants=3),
    }
    stories = {
        "nothing changed": Story(main_runs=True),
        "all fall by 0.04": Story(main_runs=True, change=falls(0.04)),
        "the vendor changed all by 0.04": Story(main_runs=True, vendor=falls(0.04)),
    }
    return {
        f"{suite}: {story}": (suites[suite], stories[story])
        for suite in suites
        for story in stories
    }


def main_runs_variants() -> Rows:
    """Return suites of several variants of which main's code runs, too."""
    rows = {}
    for variants, reports in ((6, 1), (6, 10), (3, 10), (2, 10)):
        suite = BETA._replace(variants=variants, reports=reports)
        quiet = Story(main_runs=True)
        stories = {
            "nothing changed": quiet,
            "the vendor changed all by 10 points": quiet._replace(vendor=falls(0.1)),
            "10 % of main's cases fell to half": quiet._replace(
                vendor=breaks(0.1, times=0.5, variants=variants, on=variants)
            ),
            "10 % of the cases die on all": quiet._replace(
                change=breaks(0.1, variants=variants, on=variants)
            ),
            "10 % die on one": quiet._replace(change=breaks(0.1, variants=variants, on=1)),
            "10 % fall to half on all": quiet._replace(
                change=breaks(0.1, times=0.5, variants=variants, on=variants)
            ),
        }
        for name, story in stories.items():
            title = f"main runs, {variants} variants, {number_of(reports, 'base report')}: {name}"
            rows[title] = (suite, story)
    return rows


def several_variants() -> Rows:
    """Return suites of several variants, of which cases break on all, or on one."""
    rows = {}
    for variants, reports in ((6, 1), (6, 3), (3, 1), (2, 10)):
        suite = BETA._replace(variants=variants, reports=reports)
        changes: Mapping[str, Change | None] = {
            "nothing changed": None,
            "10 % of the cases die on all": breaks(0.1, variants=variants, on=variants),
            "10 % die on one": breaks(0.1, variants=variants, on=1),
            "10 % fall to half on all": breaks(0.1, times=0.5, variants=variants, on=variants),
        }
        for name, change in changes.items():
            title = f"{variants} variants, {number_of(reports, 'base report')}: {name}"
            rows[title] = (suite, Story(change=change))
    return rows


TABLES: Mapping[str, Rows] = {
    "main's code runs, too": main_runs(),
    "main's code runs, too; several variants": main_runs_variants(),
    "main's code runs, too; graders give scores": scored(),
    "a change that helps, or not": changes_that_help(),
    "nothing changed": NOTHING_CHANGED,
    "nothing changed, common luck": COMMON_LUCK,
    "the pull request broke something": BROKEN,
    "an outage on the pull request": OUTAGES,
    "the base branch": BASE_BRANCH,
    "several variants": several_variants(),
}

RULES: Mapping[str, Rule] = {"ci-evals": lambda seen: seen.red, **RIVALS}
FOR_RULES: Mapping[str, Change | None] = {
    "nothing changed": None,
    "one of 40 dies": breaks(1 / 40, alive=True),
    "10 % fall to a fifth": breaks(0.1, times=0.2, alive=True),
    "all fall by 10 points": falls(0.1),
}
"""The pull requests that all rules judge, with rates from beta(.6, .1); main's code runs, too."""


SEEN_OFTEN = 4
"""Rows whose figures are a few per cent take this many times the pull requests of others."""


def number_for(title: str, name: str, number: int) -> int:
    """Return how many pull requests to simulate for a row."""
    suite, story = TABLES[title][name]
    if story.change is None:
        number *= SEEN_OFTEN
    if suite.cases > 100:  # these take long
        number = max(1, number // 4)
    return number


def simulate_row(title: str, name: str, number: int) -> Frequencies:
    """Simulate a row by its name, as stories can't be sent to another process."""
    suite, story = TABLES[title][name]
    return frequencies(pull_requests(suite, story, number=number))


def with_error(per_cent: float, number: int) -> str:
    """`3.1 ± 0.4 %`: a share of pull requests with its standard error."""
    error = sqrt(per_cent * (100 - per_cent) / number)
    return f"{per_cent:.1f} ± {error:.1f} %"


def table(title: str, number: int, processes: Executor) -> Iterator[str]:
    yield from (
        "",
        f"| {title} | red | broken cases named | a false name | no verdict | calls |",
        "|---" * 6 + "|",
    )
    rows = TABLES[title]
    simulated = {
        name: processes.submit(simulate_row, title, name, number_for(title, name, number))
        for name in rows
    }
    for name, (_, story) in rows.items():
        made = number_for(title, name, number)
        seen = simulated[name].result()
        named = false_name = ""
        if seen.named is not None:
            named = f"{seen.named:.1f} %"
        # Where all cases fell, no name is false.
        if story.change is None or seen.named is not None:
            false_name = with_error(seen.false_name, made)
        figures = (
            with_error(seen.red, made),
            named,
            false_name,
            f"{seen.withdrawn:.1f} %",
            f"{seen.calls:.0f}",
        )
        yield f"| {name} | {' | '.join(figures)} |"


class Column(NamedTuple):
    """What pull requests came to by each rule: shares in [0, 1], and the mean number of calls."""

    red: Mapping[str, float]
    named: float
    calls: float


def column(change: str, number: int) -> Column:
    """Judge so many pull requests of `FOR_RULES` by all rules."""
    story = Story(main_runs=True, change=FOR_RULES[change])
    seen = list(pull_requests(REAL, story, number=number))
    return Column(
        red={name: fmean(map(is_red, seen)) for name, is_red in RULES.items()},
        named=fmean(bool(each.named) for each in seen),
        calls=fmean(each.calls for each in seen),
    )


def columns(number: int, processes: Executor) -> Mapping[str, Column]:
    """Judge so many pull requests of each change of `FOR_RULES`."""
    judged = {name: processes.submit(column, name, number) for name in FOR_RULES}
    return {name: each.result() for name, each in judged.items()}


def rules(columns: Mapping[str, Column]) -> Iterator[str]:
    """Yield the table of docs/statistics.md that compares the gate with simpler rules."""
    quiet, *broken = columns.items()
    titles = ["rule", f"red, {quiet[0]}"] + [f"missed, {name}" for name, _ in broken]
    yield f"| {' | '.join(titles)} |"
    yield "|---" * len(titles) + "|"
    for name in RULES:
        shares = [quiet[1].red[name]] + [1 - each.red[name] for _, each in broken]
        figures = [f"{100 * share:.1f} %" for share in shares]
        yield f"| {name} | {' | '.join(figures)} |"


def running_again(number: int) -> Iterator[str]:
    yield from (
        "",
        "| two of 40 cases fall to 40 %, a fifth of the runs errored | share of pull requests |",
        "|---|---|",
    )
    attempts = list(run_again(BETA, breaks(0.05, times=0.4), 0.2, number=number))
    missed = sum(not first.red for first, _ in attempts) / number
    turned = sum(first.red and not second.red for first, second in attempts) / number
    yield f"| green at the first attempt | {100 * missed:.1f} % |"
    yield f"| red at first, green when run again | {100 * turned:.1f} % |"


LOOKS, BAR = (3, 6, 10), 0.85
"""The looks of `runs: 3` and `max_runs: 10`, and a bar at which many of these suites are open."""


def adaptive_rounds(rates: Rates, rng: random.Random) -> list[dict[int, Run]]:
    """Draw the planned runs of a report that goes on while its verdict on `BAR` is open."""
    rounds: list[dict[int, Run]] = [{} for _ in rates]
    for look in LOOKS:
        for runs, rate in zip(rounds, rates, strict=True):
            for number in range(len(runs) + 1, look + 1):
                runs[number] = Run(rng.random() < rate)
        estimate = pass_rate([tally_of(runs.values()) for runs in rounds])
        assert estimate is not None
        bounds = estimate.bounds(1 - ALPHA / len(LOOKS))
        if bounds.upper < BAR or bounds.lower >= BAR:
            break
    return rounds


def adaptive(number: int, *, main_runs: bool) -> float:
    """Return the share of pull requests that are red although nothing changed, where all reports
    have as many runs as their verdicts took.
    """
    red = 0
    for seed in range(number):
        rng = random.Random(f"adaptive {seed}")
        rates = [REAL.rates.draw(rng) for _ in range(REAL.cases)]
        reports = []
        for _ in range(REAL.reports):
            rounds = adaptive_rounds(rates, rng)
            reports.append([tally_of(runs.values()) for runs in rounds])
        base = stored_reports(keys(REAL), reports)
        head = adaptive_rounds(rates, rng)
        here = further_runs(rates, rng)
        of_main = None
        if main_runs:
            of_main = further_runs(rates, rng)
        red += outcome(REAL, base, head, here, of_main).red
    return red / number


def further_runs(rates: Rates, rng: random.Random) -> list[list[Run]]:
    """Draw as many runs of each cell as there may be beyond the plan."""
    return [[Run(rng.random() < rate) for _ in range(MOST_REPEATS)] for rate in rates]


def adaptive_table(number: int) -> Iterator[str]:
    yield from (
        "",
        "| nothing changed, `max_runs: 10` on both sides, a bar of 85 % | red |",
        "|---|---|",
    )
    for name, main_runs in (("main's code runs, too", True), ("its reports decide", False)):
        share = adaptive(number, main_runs=main_runs)
        yield f"| {name} | {with_error(100 * share, number)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--number",
        type=int,
        default=500,
        help="pull requests a row, four times as many where nothing changed (default: 500)",
    )
    parser.add_argument("--table", choices=TABLES, help="print this table only (default: all)")
    arguments = parser.parse_args()
    number = arguments.number
    with ProcessPoolExecutor() as processes:
        for title in [arguments.table] if arguments.table else TABLES:
            for line in table(title, number, processes):
                print(line, flush=True)
        if arguments.table:
            return
        judged = columns(number, processes)
    for line in ("", *rules(judged), *running_again(number), *adaptive_table(4 * number)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
