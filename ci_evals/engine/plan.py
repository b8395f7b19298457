"""In which order runs are started."""

import random
from array import array
from collections.abc import Iterator, Sequence

from ci_evals.matrix import Matrix


def execution_order(matrix: Matrix, provider: str, seed: int, done: bytearray) -> Iterator[int]:
    """The slots of one provider that still have to run: run 1 of every cell, then run 2, shuffled inside each round.

    So a run that is stopped early has seen every case equally often. Nothing but one number per cell is held.

    Args:
        matrix: what is planned.
        provider: whose cells.
        seed: makes the shuffles repeatable.
        done: one byte per slot; slots with a non-zero byte are passed over.
    """
    columns = {index for index, variant in enumerate(matrix.variants) if variant.provider == provider}
    width = len(matrix.variants)
    cells = array("L", (cell for cell in range(len(matrix)) if cell % width in columns))
    rounds = max((matrix.runs(cell) for cell in cells), default=0)
    starts = matrix.first_slots
    for number in range(rounds):
        for cell in _shuffled(cells, f"{seed}:{number}"):
            slot = starts[cell] + number
            if slot < starts[cell + 1] and not done[slot]:
                yield slot


def _shuffled(cells: Sequence[int], seed: str) -> Sequence[int]:
    """The same in another order; `random.shuffle`, which works in Python, takes ten times as long."""
    drawn = array("Q", random.Random(seed).randbytes(8 * len(cells)))  # noqa: S311  an order, not a secret
    places = sorted(range(len(cells)), key=drawn.__getitem__)
    return array("L", map(cells.__getitem__, places))
