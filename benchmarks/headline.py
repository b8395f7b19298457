"""Measures the figures that readers see first: the chart of rules, two rates, and what they cost.

With 5,000 pull requests each, a figure of 5 % is accurate to ±0.6 points.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from math import sqrt

from benchmarks.simulate import columns, rules

PULL_REQUESTS = 5000
PLANNED = 40 * 3


def rate_with_error(share: float, number: int) -> str:
    """`5.1 % (standard error 0.3)`."""
    error = sqrt(share * (1 - share) / number)
    return f"{100 * share:.1f} % (standard error {100 * error:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=PULL_REQUESTS, help="pull requests a column")
    number = parser.parse_args().number
    with ProcessPoolExecutor() as processes:
        judged = columns(number, processes)
    for line in rules(judged):
        print(line)
    quiet = judged["nothing changed"]
    print()
    print(f"{number} pull requests a column")
    print(f"nothing changed: red {rate_with_error(quiet.red['ci-evals'], number)}")
    print(f"nothing changed: a case is named {rate_with_error(quiet.named, number)}")
    for name, column in judged.items():
        times = column.calls / PLANNED
        print(f"{name}: {column.calls:.0f} calls, {times:.1f} times the plan")


if __name__ == "__main__":
    main()
