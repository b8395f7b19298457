"""A measured figure with its bounds, and how to compare two things on a machine of uneven speed."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

TIMES = "\N{MULTIPLICATION SIGN}"


class Figure(NamedTuple):
    """One row of the table. Less is better; `reach` and `aim` are upper bounds on `measured`."""

    what: str
    reach: float
    aim: float
    measured: float
    unit: str
    detail: str

    @property
    def verdict(self) -> str:
        if self.measured <= self.aim:
            return "aim reached"
        return "reached" if self.measured <= self.reach else "**missed**"

    def __str__(self) -> str:
        digits = {TIMES: 2, "%": 1}.get(self.unit, 0)
        reach, aim, measured = (
            f"{value:.{digits}f} {self.unit}" for value in (self.reach, self.aim, self.measured)
        )
        return (
            f"| {self.what} | ≤ {reach} | ≤ {aim} | {measured} ({self.detail}) | {self.verdict} |"
        )


HEAD = "| what | reach | aim | measured | |\n|---|---|---|---|---|"


class Pair(NamedTuple):
    """The same measure of ci-evals and of what it is held against, round by round."""

    ours: Sequence[float]
    limit: Sequence[float]

    @property
    def ratio(self) -> float:
        """The median ratio of the rounds: both sides of a round ran at the same machine speed."""
        return median(ours / limit for ours, limit in zip(self.ours, self.limit, strict=True))

    @property
    def over(self) -> float:
        """The median of the rounds' differences."""
        return median(ours - limit for ours, limit in zip(self.ours, self.limit, strict=True))

    def told(self, name: str, per_second: float, unit: str) -> str:
        """Both medians in words; `name` is the other side, a second has `per_second` units."""
        ours, limit = (f"{median(side) * per_second:,.0f} {unit}" for side in self)
        return f"{ours}; {name} {limit}"


def alternately(rounds: int, ours: Callable[[], float], limit: Callable[[], float]) -> Pair:
    """Measure both sides in every round, and let each go first in every other one."""
    pair: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            pair[side].append((ours, limit)[side]())
    return Pair(*pair)
