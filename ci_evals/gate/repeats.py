"""The most runs beyond its plan that a report may take, known before anything has run."""

from math import ceil
from typing import NamedTuple

from ci_evals.gate.confirmation import most_suspects, runs_of_suspect_case
from ci_evals.stats.thresholds import BOTH_SIDES_LOOKS, FURTHER_ROUNDS, SUSPECT_RUNS


class Matrix(NamedTuple):
    """The size of a suite.

    Args:
        cells: those that run.
        cases: the cases that they are of.
        variants: the variants that they are on.
        cells_of_suite: with those that other shards run.
    """

    cells: int
    cases: int
    variants: int
    cells_of_suite: int


def most_repeats(
    matrix: Matrix, confirm_runs: int, *, runs_main: bool, is_whole: bool = True
) -> int:
    """Return how many further runs the rules can ask for at most, here and on main together.

    They ask for most if as many cells and cases as possible are suspects, the runs that should name
    them name nothing, and every variant would be red as a whole up to the last look.

    Args:
        matrix: what is run.
        confirm_runs: how many runs name a candidate.
        runs_main: main's code runs, too.
        is_whole: the cells are those of the whole suite, so that cases and variants are judged.
    """
    if not confirm_runs:
        return 0
    again, looks = 0, 0
    if is_whole:
        again, looks = FURTHER_ROUNDS, BOTH_SIDES_LOOKS[-1][0]

    def runs_of_cell(repeats: int, deciding: int) -> int:
        """Count the runs of a cell: those of a whole variant hold those that name the cell."""
        if runs_main:
            return max(repeats, again) + 2 * max(deciding, looks)
        return max(repeats + deciding, again)

    of_suspect = runs_of_cell(SUSPECT_RUNS, confirm_runs)
    suspects = min(matrix.cells, most_suspects(matrix.cells_of_suite))
    in_cases = of_cell_in_case = 0
    if is_whole and matrix.variants > 1:
        in_cases = min(matrix.cases, most_suspects(matrix.cases)) * matrix.variants
        # A case may be compared on some of the variants only.
        most_of_case = 0
        for width in range(2, matrix.variants + 1):
            repeats, deciding = runs_of_suspect_case(width), ceil(2 * confirm_runs / width)
            most_of_case = max(most_of_case, width * runs_of_cell(repeats, deciding))
        of_cell_in_case = ceil(most_of_case / matrix.variants)
    in_cases = min(in_cases, matrix.cells - suspects)
    others = matrix.cells - suspects - in_cases
    return suspects * of_suspect + in_cases * of_cell_in_case + others * runs_of_cell(0, 0)
