"""What a call's end means for its run: passed, failed, or errored."""

import asyncio
import traceback
from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import Struct

from ci_evals.callables import asked_to_stop
from ci_evals.engine.breaker import Breaker
from ci_evals.engine.judges import Judges
from ci_evals.errors import ErrorKind, GradingError, ProviderError, StorageError, described
from ci_evals.graders.judge import graded, name_of, passes, score_of
from ci_evals.graders.turn import found_by
from ci_evals.model import Answer, Finding, Grade, Judging, RunError, Status
from ci_evals.providers.base import ProviderOptions
from ci_evals.response import Response

# In the team's own code these are the change's fault; 401 and 429 say nothing about it.
_OWN_FAULTS: frozenset[ErrorKind] = frozenset({"server", "network", "timeout", "rejected", "bad_answer", "crash"})


NOTHING_KNOWN: Mapping[int, Grade] = MappingProxyType({})


class Outcome(Struct, frozen=True, gc=False):
    """The part of a result that depends on how the call ended."""

    status: Status
    score: float | None = None
    cost_usd: float | None = None
    response: Response | None = None
    grades: tuple[Grade, ...] = ()
    error: RunError | None = None
    judging: Judging | None = None


async def judged(answer: Answer, judges: Judges | None = None, known: Mapping[int, Grade] = NOTHING_KNOWN) -> Outcome:
    """Grade an answer; a grader that crashes leaves the run without a verdict.

    Args:
        answer: what is judged.
        judges: the models that graders may ask.
        known: grades by the number of their expectation that are taken over instead.
    """
    case = answer.request.case
    meter = judges.meter() if judges is not None else None
    grades: list[Grade] = []
    ungraded: RunError | None = None
    try:
        for number, expectation in enumerate(case.expect):
            if (grade := known.get(number)) is None:
                found = found_by(expectation.grader, answer, meter)
                grade = graded(expectation, found if isinstance(found, Finding) else await found)
            grades.append(grade)
    except (KeyboardInterrupt, GeneratorExit, StorageError):
        raise
    except BaseException as raised:  # a grader may be a user's code, and raise SystemExit too
        if isinstance(raised, asyncio.CancelledError) and asked_to_stop():
            raise
        ungraded = _ungraded(name_of(case.expect[len(grades)]), raised)
    judging = meter.judging if meter is not None and meter.judging.calls else None
    if ungraded is not None:
        return Outcome("errored", None, answer.cost_usd, answer.response, (), ungraded, judging)
    status: Status = "passed" if passes(grades, case.threshold) else "failed"
    return Outcome(status, score_of(grades), answer.cost_usd, answer.response, tuple(grades), None, judging)


def _ungraded(grader: str, raised: BaseException) -> RunError:
    if isinstance(raised, GradingError):
        return RunError(raised.kind, f"grader {grader} could not judge: {raised.message}")
    return RunError("grader", f"grader {grader} crashed: {described(raised)}", detail=traceback.format_exc())


def unanswered(error: ProviderError, options: ProviderOptions) -> Outcome:
    """Failed if the system under test broke, errored if nothing can be said of it."""
    told = RunError(error.kind, error.message, error.status, error.detail)
    own_fault = options.own_code and error.kind in _OWN_FAULTS
    fails = own_fault if options.on_error is None else options.on_error == "fail"
    return Outcome("failed", 0.0, error=told) if fails else Outcome("errored", error=told)


def given_up(breaker: Breaker, options: ProviderOptions) -> Outcome:
    """What becomes of a run that was never called: what the last lost call would have become."""
    told = RunError("given_up", breaker.reason)
    outcome = unanswered(breaker.cause or ProviderError("given_up", breaker.reason), options)
    return msgspec.structs.replace(outcome, error=told)
