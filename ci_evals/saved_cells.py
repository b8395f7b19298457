"""The cells of reports that are read back."""

from msgspec import Struct

from ci_evals.matrix import CellKey
from ci_evals.stats.scores import ScoreSums
from ci_evals.verdict.history import UNMEASURED, PerRun, Tally

_ROUNDING = 1e-6


_Sums = tuple[int, float, float]
"""How many runs there are, what they took together, and the sum of the squares of that."""


class SavedCell(Struct, frozen=True, gc=False):
    """What is needed of a cell; version 1 has only its name and its counts, and early files of version 2 `figures`."""

    case: str
    provider: str
    prompt: str | None
    passed: int
    failed: int
    fingerprint: str | None = None
    evidence: Tally | None = None
    confirming: Tally = Tally(0, 0)
    confirmed: bool = False
    critical: bool = False
    per_run: PerRun = UNMEASURED
    figures: tuple[ScoreSums, _Sums, _Sums, float | None] | None = None
    history: tuple[tuple[int, int, int], ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no run leaves behind: a decision is made of it."""
        (passed, graded), (more_passed, more) = self.fresh, self.confirming
        if not (0 <= passed <= graded and 0 <= more_passed <= more):
            raise ValueError(f"the counts of the case {self.case!r} are impossible")
        scores, *amounts = self.measured
        if not _possible(*scores) or any(amount is not None and amount < 0 for amount in amounts):
            raise ValueError(f"what a run of the case {self.case!r} came to is impossible")

    @property
    def key(self) -> CellKey:
        return self.case, self.provider, self.prompt

    @property
    def measured(self) -> PerRun:
        """What a run of it came to."""
        if self.figures is None:
            return self.per_run
        scores, cost, tokens, latency_median_s = self.figures
        return PerRun(scores, _mean(cost), _mean(tokens), latency_median_s)

    @property
    def fresh(self) -> Tally:
        """The planned runs that are no repetition of a record."""
        return self.evidence or Tally(self.passed, self.passed + self.failed)


def _mean(sums: _Sums) -> float | None:
    runs, total, _ = sums
    return total / runs if runs else None


def _possible(runs: int, total: float, squares: float) -> bool:
    """Whether so many scores have this sum, and this sum of squares."""
    if runs <= 0:
        return runs == total == squares == 0
    return 0 <= total <= runs * (1 + _ROUNDING) and squares >= total * total / runs * (1 - _ROUNDING)
