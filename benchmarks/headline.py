"""Measures the figures that readers see first: the chart of three rules, and two rates.

With 5,000 pull requests each, a figure of 5 % is accurate to ±0.6 points.
"""

import argparse
from collections.abc import Iterator, Sequence
from math import sqrt

from benchmarks.pull_requests import Outcome, pull_requests
from benchmarks.simulate import BROKEN, BROKEN_FOR_RULES, NOTHING_CHANGED, RULES

PULL_REQUESTS = 5000


def table(quiet: Sequence[Outcome], broken: Sequence[Sequence[Outcome]]) -> Iterator[str]:
    """Yield the table of rules of docs/statistics.md, which the chart shows.

    Args:
        quiet: pull requests that change nothing.
        broken: those of each of `BROKEN_FOR_RULES`.
    """
    titles = ["rule", "red, nothing changed"]
    titles += [f"missed, {name}" for name in BROKEN_FOR_RULES]
    yield f"| {' | '.join(titles)} |"
    yield "|---" * len(titles) + "|"
    for name, is_red in RULES.items():
        shares = [sum(map(is_red, quiet)) / len(quiet)]
        shares += [1 - sum(map(is_red, each)) / len(each) for each in broken]
        figures = [f"{100 * share:.1f} %" for share in shares]
        yield f"| {name} | {' | '.join(figures)} |"


def rate_with_error(count: int, number: int) -> str:
    """`5.1 % (standard error 0.3)`."""
    share = count / number
    error = sqrt(share * (1 - share) / number)
    return f"{100 * share:.1f} % (standard error {100 * error:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=PULL_REQUESTS, help="pull requests a column")
    number = parser.parse_args().number
    quiet = list(pull_requests(*NOTHING_CHANGED["beta(8, 1)"], number=number))
    broken = [list(pull_requests(*BROKEN[name], number=number)) for name in BROKEN_FOR_RULES]
    for line in table(quiet, broken):
        print(line)
    red = sum(each.red for each in quiet)
    named = sum(bool(each.named) for each in quiet)
    print()
    print(f"{number} pull requests a column")
    print(f"nothing changed: red {rate_with_error(red, number)}")
    print(f"nothing changed: a case is named {rate_with_error(named, number)}")


if __name__ == "__main__":
    main()
