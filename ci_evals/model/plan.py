"""The plan of an invocation: its runs, their order, and their distribution over shards."""

import random
import re
from bisect import bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heapreplace
from itertools import accumulate
from operator import add
from statistics import median

from ci_evals.model.case import Case, Variant
from ci_evals.model.fingerprint import digest

CellKey = tuple[str, str, str | None]
"""Case id, provider and prompt: the name of a cell, the same in every report."""

_SHARE = re.compile(r"([1-9][0-9]*)/([1-9][0-9]*)")


@dataclass(frozen=True)
class RunPlan:
    """Cases × variants × runs.

    Everything is numbered in plan order: case by case, variant by variant, run by run. A cell is a
    number from 0 to `len(plan) - 1`, a run an index from 0 to `plan.total - 1`. A row is the number
    of a case.

    Args:
        cases: the rows.
        variants: the columns.
        counts: the number of runs of each cell.
        first_runs: the number of each cell's first run: 1, unless the plan extends another one.
    """

    cases: Sequence[Case]
    variants: Sequence[Variant]
    counts: Sequence[int]
    first_runs: Sequence[int]

    @cached_property
    def _first_indices(self) -> Sequence[int]:
        return list(accumulate(self.counts, initial=0))

    def __len__(self) -> int:
        """Return the number of cells, including those without runs."""
        return len(self.counts)

    @property
    def total(self) -> int:
        """The number of planned runs."""
        return self._first_indices[-1]

    @property
    def rounds(self) -> int:
        """The largest number of runs of a cell."""
        return max(self.counts, default=0)

    def row(self, cell: int) -> int:
        return cell // len(self.variants)

    def cells_of_row(self, row: int) -> range:
        first = row * len(self.variants)
        return range(first, first + len(self.variants))

    def case(self, cell: int) -> Case:
        return self.cases[cell // len(self.variants)]

    def variant(self, cell: int) -> Variant:
        return self.variants[cell % len(self.variants)]

    @cached_property
    def keys(self) -> Sequence[CellKey]:
        """The name of every cell."""
        return [
            (case.id, variant.provider, variant.prompt)
            for case in self.cases
            for variant in self.variants
        ]

    def key(self, cell: int) -> CellKey:
        return self.keys[cell]

    def runs(self, cell: int) -> int:
        """Return the number of planned runs of a cell."""
        return self.counts[cell]

    def index(self, cell: int, run: int) -> int:
        """Return the index of a cell's run, whose number counts from 1."""
        return self._first_indices[cell] + run - self.first_runs[cell]

    def indices(self, cell: int) -> range:
        """Return the indices of all runs of a cell."""
        start = self._first_indices[cell]
        return range(start, start + self.counts[cell])

    def numbered(self, cell: int) -> Iterator[tuple[int, int]]:
        """Yield the number and the index of each run of a cell."""
        return enumerate(self.indices(cell), self.first_runs[cell])

    def cell_of(self, index: int) -> int:
        return bisect_right(self._first_indices, index) - 1

    def first_rounds(self, rounds: int) -> "RunPlan":
        """Return the plan of the first `rounds` runs of every cell."""
        counts = [min(rounds, count) for count in self.counts]
        return replace(self, counts=counts)


def plan_runs(
    cases: Sequence[Case],
    variants: Sequence[Variant],
    runs: int,
    only: Container[int] | None = None,
) -> RunPlan:
    """Plan the runs of a suite.

    Args:
        cases: the cases.
        variants: the variants.
        runs: the number of runs of each cell; a case's own `runs` wins. A cell has no runs if its
            case leaves out its variant.
        only: the cells that run; None means all.
    """
    counts: list[int] = []
    for case in cases:
        runs_of_case = case.runs or runs
        if not case.providers and not case.prompts:
            counts += [runs_of_case] * len(variants)
            continue
        for variant in variants:
            if case.runs_on(variant):
                counts.append(runs_of_case)
            else:
                counts.append(0)
    if only is not None:
        for cell in range(len(counts)):
            if cell not in only:
                counts[cell] = 0
    first_runs = [1] * len(counts)
    return RunPlan(cases, variants, counts, first_runs)


def plan_further_runs(plan: RunPlan, runs: Mapping[int, int]) -> RunPlan:
    """Plan more runs of some cells; their numbers continue those of `plan`.

    Args:
        plan: the runs so far.
        runs: the number of further runs by cell; other cells get none.
    """
    counts = [runs.get(cell, 0) for cell in range(len(plan))]
    first_runs = list(map(add, plan.first_runs, plan.counts))
    return RunPlan(plan.cases, plan.variants, counts, first_runs)


def execution_order(  # noqa: PLR0913  everything that the order depends on
    plan: RunPlan,
    provider: str,
    seed: int,
    done: Container[int],
    rounds: int | None = None,
    *,
    first: Container[str] = (),
    at_a_stretch: Container[int] = (),
) -> Iterator[int]:
    """Yield the index of each run of a provider without a result.

    Run 1 of every cell comes first, then run 2, each round shuffled, so that a run phase that is
    stopped early has run every case equally often. The exception are cells whose runs share a
    setup: one set up for the first round would live until the last round.

    Args:
        plan: the plan.
        provider: the provider whose cells run.
        seed: makes the shuffles repeatable.
        done: the indices to skip, looked up when their turn comes.
        rounds: the number of rounds; None means all.
        first: the cases that come first in each round.
        at_a_stretch: the cells whose runs follow one another, in the first round.
    """
    cells = [cell for cell in range(len(plan)) if plan.variant(cell).provider == provider]
    last = plan.rounds
    if rounds is not None:
        last = min(rounds, last)
    for number in range(last):
        shuffled = cells.copy()
        # One generator per round: its order is the same whether earlier rounds ran or not.
        generator = random.Random(f"{seed}:{number}")  # noqa: S311  an order, not a secret
        generator.shuffle(shuffled)
        if first:
            shuffled.sort(key=lambda cell: plan.case(cell).id not in first)
        for cell in shuffled:
            indices = plan.indices(cell)[number : number + 1]
            if cell in at_a_stretch:
                indices = range(0)
                if number == 0:
                    indices = plan.indices(cell)[:last]
            for index in indices:
                if index not in done:
                    yield index


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `number`, counted from 1, of `of` shards."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read `2/5`.

        Raises:
            ValueError: the text is not a share.
        """
        share = _SHARE.fullmatch(text)
        if share is None or int(share[1]) > int(share[2]):
            raise ValueError(f"{text!r} is not a share such as 2/5")
        return cls(int(share[1]), int(share[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def cells_of_shard(
    plan: RunPlan, shard: Shard, durations_s: Mapping[CellKey, float]
) -> frozenset[int]:
    """Return the cells of one shard.

    Every cell is in exactly one shard, whatever the order of cases in the file. Longest processing
    time first: each cell, in order of falling duration, goes to the shard with the least load.
    Source: R. Graham, "Bounds on Multiprocessing Timing Anomalies", SIAM J. Appl. Math. 17 (1969).

    Args:
        plan: the whole suite.
        shard: the shard.
        durations_s: the last known duration of a run of each cell, in seconds; other cells count as
            the median; if it is empty, all runs count equally.
    """
    usual_s = 1.0
    if durations_s:
        usual_s = median(durations_s.values())
    longest_first = []
    for cell, key in enumerate(plan.keys):
        load_s = durations_s.get(key, usual_s) * plan.counts[cell]
        # The digest breaks ties independently of the order in the file.
        longest_first.append((-load_s, digest(key), cell))
    longest_first.sort()

    shards = [(0.0, number) for number in range(1, shard.of + 1)]
    heapify(shards)
    mine = set()
    for negative_load_s, _, cell in longest_first:
        total_s, number = shards[0]
        heapreplace(shards, (total_s - negative_load_s, number))
        if number == shard.number:
            mine.add(cell)
    return frozenset(mine)
