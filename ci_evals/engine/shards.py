"""Which cells a shard runs."""

from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace
from statistics import median

from msgspec import Struct

from ci_evals.matrix import CellKey, Matrix
from ci_evals.suite import digest


class Shard(Struct, frozen=True):
    """Share `number` (from 1) of `of`."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def cells_of_shard(matrix: Matrix, shard: Shard, durations_s: Mapping[CellKey, float]) -> frozenset[int]:
    """The cells of one shard. Every cell is in exactly one, whatever the order of cases in the file.

    Longest processing time first (R. Graham, "Bounds on Multiprocessing Timing Anomalies", 1969): cells, longest first,
    each to the shard with the least to do.

    Args:
        matrix: the whole suite.
        shard: which one.
        durations_s: the last known duration of a run of each cell, in seconds; cells without one count as the median,
            and without any all runs count alike.
    """
    usual = median(durations_s.values()) if durations_s else 1.0
    loads = _loads(matrix, durations_s, usual)
    shards = [(0.0, number) for number in range(1, shard.of + 1)]
    heapify(shards)
    mine = []
    for load, _, cell in sorted(loads, key=lambda entry: (-entry[0], entry[1])):
        total, number = shards[0]
        heapreplace(shards, (total + load, number))
        if number == shard.number:
            mine.append(cell)
    return frozenset(mine)


def _loads(matrix: Matrix, durations_s: Mapping[CellKey, float], usual: float) -> Sequence[tuple[float, str, int]]:
    """Of each cell its load, a text that orders it independently of the file, and its number."""
    loads = []
    for cell in range(len(matrix)):
        key = matrix.key(cell)
        loads.append((durations_s.get(key, usual) * matrix.runs(cell), digest(key), cell))
    return loads
