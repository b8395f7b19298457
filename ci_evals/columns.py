"""What became of the planned runs, in numbers."""

from array import array
from math import nan

from ci_evals.labelled import Labelled
from ci_evals.matrix import Matrix
from ci_evals.model import Judging, Result, Status

STATUSES: tuple[Status | None, ...] = (None, "passed", "failed", "errored")
_PER_SLOT = (
    "status", "score", "latency_s", "cost_usd", "input_tokens", "output_tokens", "offset", "repeated",
)  # fmt: skip
_MOST_TOKENS = 2**53  # whatever a provider claims
_CODES = {status: code for code, status in enumerate(STATUSES)}


class Columns:
    """What the totals are computed from: one number per planned run and fact, about 46 bytes a run."""

    def __init__(self, total: int) -> None:
        self.status = bytearray(total)
        self.score = array("f", [nan]) * total
        self.latency_s = array("d", [nan]) * total
        self.cost_usd = array("d", [nan]) * total
        self.input_tokens = array("Q", [0]) * total
        self.output_tokens = array("Q", [0]) * total
        self.offset = array("q", [-1]) * total
        self.repeated = bytearray(total)  # 1: the answer is a record's, and says nothing new
        self.budget_violations = 0
        self.judging = Judging()
        self.labelled: dict[tuple[str, str | None, str], Labelled] = {}  # by variant and task
        self.orders_to_judges: dict[str, int] = {}  # runs by case
        self.grader_scores: dict[tuple[str, str | None, str], list[float]] = {}  # by variant and grader: count, total

    def record(self, slot: int, result: Result, offset: int) -> None:
        """Note the result of one slot; `offset` is where its line starts in the journal, in bytes."""
        self.status[slot] = _CODES[result.status]
        self.latency_s[slot] = result.latency_s
        self.offset[slot] = offset
        if result.score is not None:
            self.score[slot] = result.score
        if result.recorded:
            self.repeated[slot] = 1
        elif result.cost_usd is not None:
            self.cost_usd[slot] = result.cost_usd
        if result.budget_violations:
            self.budget_violations += 1
        if result.response is not None and (usage := result.response.usage) is not None:
            self.input_tokens[slot] = min(max(usage.input_tokens, 0), _MOST_TOKENS)
            self.output_tokens[slot] = min(max(usage.output_tokens, 0), _MOST_TOKENS)
        if result.judging is not None:
            self.judging += result.judging
        orders_judge = False
        for grade in result.grades:
            orders_judge |= grade.orders_judge
            sums = self.grader_scores.setdefault((result.provider, result.prompt, grade.grader), [0.0, 0.0])
            sums[0] += 1
            sums[1] += grade.score
            if (found := grade.classified) is not None:
                key = (result.provider, result.prompt, found.task)
                self.labelled.setdefault(key, Labelled()).add(result.case, found)
        if orders_judge:
            self.orders_to_judges[result.case] = self.orders_to_judges.get(result.case, 0) + 1

    def extended(self, old: Matrix, new: Matrix) -> "Columns":
        """The same results in a plan of the same cells with as many runs or more."""
        columns = Columns(new.total)
        columns.budget_violations, columns.grader_scores = self.budget_violations, self.grader_scores
        columns.judging, columns.labelled = self.judging, self.labelled
        columns.orders_to_judges = self.orders_to_judges
        for cell in range(len(old)):
            start, end, target = old.first_slots[cell], old.first_slots[cell + 1], new.first_slots[cell]
            for name in _PER_SLOT:
                getattr(columns, name)[target : target + end - start] = getattr(self, name)[start:end]
        return columns

    @property
    def recorded(self) -> int:
        """How many runs were answered by a journal instead of the provider."""
        return self.repeated.count(1)
