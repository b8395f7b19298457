"""What happens during an evaluation, as values."""

from typing import TypeAlias

from msgspec import Struct

from ci_evals.library.report import Report
from ci_evals.model import Result


class EvalStarted(Struct, frozen=True):
    """The suite is checked and its runs begin. `total` is the number of planned runs."""

    suite: str
    cases: int
    variants: int
    total: int


class RunFinished(Struct, frozen=True):
    """One run has its result; `done` of `total` have by now."""

    result: Result
    done: int
    total: int


class EvalCompleted(Struct, frozen=True):
    """Everything that was to run did. Always the last event."""

    report: Report


Event: TypeAlias = EvalStarted | RunFinished | EvalCompleted
