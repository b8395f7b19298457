"""What happens during an evaluation, as values."""

from typing import NamedTuple, TypeAlias

from ci_evals.library.report import Report
from ci_evals.model import Result


class EvalStarted(NamedTuple):
    """The suite is checked and its runs begin. `total` is the number of planned runs."""

    suite: str
    cases: int
    variants: int
    total: int


class RunFinished(NamedTuple):
    """One run has its result; `done` of `total` have by now."""

    result: Result
    done: int
    total: int


class EvalCompleted(NamedTuple):
    """Everything that was to run did. Always the last event."""

    report: Report


Event: TypeAlias = EvalStarted | RunFinished | EvalCompleted
