"""Simulates pull requests whose truth is known, and prints how often their verdict is right: the tables of the docs.

Every figure follows from a seed: the same code prints the same tables.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence

from benchmarks.pull_requests import (
    Frequencies,
    Past,
    Rates,
    Suite,
    at_once,
    broken,
    frequencies,
    moved,
    one_case,
    pull_requests,
    re_run,
    slowly,
    to_and_fro,
)

STEADY = Suite(rate=1.0, alike=True)
Change = Callable[[Rates], Rates]


def nothing_changed(number: int) -> Iterator[str]:
    yield from head("nothing changed", "red", "a case named")
    suites = {
        "40 cases × 3 runs": Suite(),
        "40 × 3, rate 80 %": Suite(rate=0.8),
        "40 × 3, rate 60 %": Suite(rate=0.6),
        "40 × 3, every case at 90 %": Suite(alike=True),
        "40 × 3, a single earlier report": Suite(reports=1),
        "40 × 1": Suite(runs=1, reports=30),
        "40 × 5": Suite(runs=5, reports=6),
        "10 × 3 on 4 variants": Suite(cases=10, variants=4),
        "one case at 80 %": Suite(cases=1, rate=0.8, alike=True),
        "100 × 3": Suite(cases=100),
    }
    for name, suite in suites.items():
        seen = frequencies(pull_requests(suite, number=number))
        yield f"| {name} | {seen.red:.1f} % | {seen.false_name:.1f} % |"


def base_branch_changed(number: int) -> Iterator[str]:
    yield from head("the base branch changed, the pull request did not", "red", "a case named")
    pasts: Mapping[str, Past] = {
        "half a point worse with every report": slowly(-0.005),
        "a point worse with every report": slowly(-0.01),
        "a point better with every report": slowly(0.01),
        "5 points worse, five reports ago": at_once(-0.05, 5),
        "5 points worse, two reports ago": at_once(-0.05, 2),
        "5 points worse, in the newest report": at_once(-0.05, 1),
        "10 points worse, three reports ago": at_once(-0.1, 3),
        "10 points worse, in the newest report": at_once(-0.1, 1),
        "2 points to and fro": to_and_fro(0.02),
    }
    for name, past in pasts.items():
        seen = frequencies(pull_requests(Suite(), number=number, past=past))
        yield f"| {name} | {seen.red:.1f} % | {seen.false_name:.1f} % |"
    for age, when in ((5, "five reports ago"), (2, "two reports ago"), (1, "in the newest report")):
        seen = frequencies(
            pull_requests(STEADY, number=number, past=one_case(age, 1.0, 0.5), now=(*STEADY.rates[:-1], 0.5))
        )
        yield f"| one case from 100 to 50 %, {when} | {seen.red:.1f} % | {seen.false_name:.1f} % |"


def something_broke(number: int) -> Iterator[str]:
    yield from head("the pull request broke something", "red", "broken cases named", "others named", "calls")

    def row(name: str, suite: Suite, change: Change, cases: int = 0) -> str:
        broke = frozenset(range(suite.cases - cases, suite.cases))
        seen: Frequencies = frequencies(pull_requests(suite, number=number, change=change), broke)
        named = "" if seen.named is None else f"{seen.named:.0f} %"
        others = f"{seen.false_name:.1f} %" if cases else ""
        return f"| {name} | {seen.red:.0f} % | {named} | {others} | {seen.calls:.0f} |"

    yield row("two of 40 steady cases fall to 40 %", STEADY, lambda rates: broken(rates, 2, 0.4), 2)
    yield row("two of 40 cases fall to 40 %, others vary", Suite(), lambda rates: broken(rates, 2, 0.4), 2)
    once = Suite(rate=1.0, alike=True, runs=1, reports=30)
    yield row("two of 40 steady cases fall to 40 %, 1 run each", once, lambda rates: broken(rates, 2, 0.4), 2)
    yield row("four of 40 cases fail always", Suite(), lambda rates: broken(rates, 4, 0), 4)
    yield row("four of 40 cases fall to a fifth", Suite(), lambda rates: broken(rates, 4, 0.2), 4)
    yield row("one of 40 cases fails always", Suite(), lambda rates: broken(rates, 1, 0), 1)
    yield row("the same, a single earlier report", Suite(reports=1), lambda rates: broken(rates, 1, 0), 1)
    yield row("12 of 40 cases fail always", Suite(), lambda rates: broken(rates, 12, 0), 12)
    for points in (3, 5, 8, 10):
        yield row(f"all cases fall, {points} points", Suite(), lambda rates, by=points / 100: moved(rates, -by))  # type: ignore[misc]
    yield row("100 cases fall, 5 points", Suite(cases=100), lambda rates: moved(rates, -0.05))


def providers_went_out(number: int) -> Iterator[str]:
    yield from head("the provider was out on the pull request", "red", "no verdict", "a sound case named")
    changes: Mapping[str, tuple[int, Change | None, int]] = {
        "for one of three rounds": (1, None, 0),
        "for all three, not for the confirm runs": (3, None, 0),
        "for one round, and four of 40 cases fail always": (1, lambda rates: broken(rates, 4, 0), 4),
    }
    for name, (rounds, change, cases) in changes.items():
        outcomes = pull_requests(Suite(), number=number, change=change, lost_rounds=rounds)
        seen = frequencies(outcomes, frozenset(range(40 - cases, 40)))
        yield f"| {name} | {seen.red:.1f} % | {seen.outage:.1f} % | {seen.false_name:.1f} % |"


def running_again(number: int) -> Iterator[str]:
    yield from head("two of 40 fell to 40 %, a fifth of the runs errored", "share of pull requests")
    attempts = list(re_run(STEADY, number=number, change=lambda rates: broken(rates, 2, 0.4)))
    missed = sum(not first.red for first, _ in attempts) / number
    turned = sum(first.red and not second.red for first, second in attempts) / number
    yield f"| green at the first attempt | {100 * missed:.1f} % |"
    yield f"| red at first, green when run again | {100 * turned:.1f} % |"


def head(*names: str) -> Sequence[str]:
    return "", f"| {' | '.join(names)} |", "|---" * len(names) + "|"


TABLES = (nothing_changed, base_branch_changed, something_broke, providers_went_out, running_again)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=500, help="pull requests a row (default: 500)")
    number = parser.parse_args().number
    for table in TABLES:
        for line in table(number):
            print(line, flush=True)


if __name__ == "__main__":
    main()
