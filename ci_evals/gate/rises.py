"""Is a variant better as a whole? It then waives what is worse on it: `on_regression: net`."""

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from ci_evals.gate.baseline import History
from ci_evals.gate.falls import Fall, fall
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Tally
from ci_evals.stats.differences import rise_p
from ci_evals.stats.exact_tests import widen


class Rise(NamedTuple):
    """The test of a rise.

    Args:
        against_history: the test of the same runs for a drop, against the pooled reports.
        p: the p-value for "these are above".
    """

    against_history: Fall
    p: float


def rise(
    cells: Sequence[tuple[Tally, History]],
    overdispersion: float,
    *,
    further_rounds: bool = False,
) -> Rise:
    """Test cells of a variant for a rise, each from runs of the head and its history.

    The base side is that of `fall`, so what main gained itself is not the change's.

    Args:
        cells: the cells.
        overdispersion: how much more reports of the base vary than independent runs would.
        further_rounds: the further rounds are among the runs, besides the planned ones.
    """
    found = fall(cells, overdispersion)._replace(further_rounds=further_rounds)
    return Rise(found, widen(rise_p(found.tables), overdispersion))


def waived_cells(named: Iterable[CellKey], better: Container[Variant]) -> frozenset[CellKey]:
    """Return the named cells that block nothing.

    A case is waived if every variant that it is worse on is better as a whole.

    Args:
        named: the cells that got worse.
        better: the variants that are better as a whole.
    """
    cells = list(named)
    blocking = set()
    for case, provider, prompt in cells:
        if Variant(provider, prompt) not in better:
            blocking.add(case)
    return frozenset(cell for cell in cells if cell[0] not in blocking)
