"""Decides the outcome of a run from its answer or error: passed, failed or errored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_evals.engine.cells import PreparedCell
from ci_evals.engine.resources import LOCAL
from ci_evals.errors import GradingError, ProviderError
from ci_evals.executors import Executor
from ci_evals.faults import party_at_fault
from ci_evals.graders.scoring import grade, grader_name, passes, score_of
from ci_evals.model.request import Answer
from ci_evals.model.response import Response
from ci_evals.model.result import Grade, Judging, Result, RunError, Status
from ci_evals.providers.base import ProviderOptions

if TYPE_CHECKING:
    from ci_evals.engine.judges import Judges


@dataclass(slots=True)
class RunOutcome:
    """The part of a result that depends on the answer."""

    status: Status
    score: float | None = None
    cost_usd: float | None = None
    response: Response | None = None
    grades: tuple[Grade, ...] = ()
    error: RunError | None = None
    judging: Judging | None = None


async def grade_answer(
    answer: Answer,
    judges: "Judges | None" = None,
    known: Sequence[Grade | None] | None = None,
    executor: Executor = LOCAL,
) -> RunOutcome:
    """Grade an answer. The run is errored if a grader can't judge, through no fault of the answer,
    and failed if it has nothing but thoughts.

    Args:
        answer: the answer to judge.
        judges: the models that graders may ask.
        known: earlier grades of the same answer by the same expectations, None where there is none;
            the grades of models are taken over.
        executor: where graders of the team's own run.
    """
    case = answer.request.case
    response = answer.response
    if response.thoughts:
        from ci_evals.graders.thoughts import ONLY_THOUGHTS, has_only_thoughts

        if has_only_thoughts(response):
            only_thoughts = RunError("empty", ONLY_THOUGHTS)
            return RunOutcome("failed", 0.0, answer.cost_usd, response, error=only_thoughts)
    meter = judges.meter() if judges is not None else None
    grades: list[Grade] = []
    error: RunError | None = None
    try:
        for number, expectation in enumerate(case.expect):
            earlier = known[number] if known else None
            grades.append(await grade(expectation, answer, meter, earlier, executor.grade))
    except GradingError as raised:
        name = grader_name(case.expect[len(grades)])
        text = f"grader {name} could not judge: {raised.message}"
        error = RunError(raised.kind, text, detail=raised.detail, cause=raised.cause)
    judging = None
    if meter is not None and meter.judging.calls:
        judging = meter.judging
    outcome = RunOutcome(
        "errored", cost_usd=answer.cost_usd, response=response, error=error, judging=judging
    )
    if error is None:  # a part of the grades decides nothing: the missing one may have failed
        outcome.status = "passed" if passes(grades, case.threshold) else "failed"
        outcome.score = score_of(grades)
        outcome.grades = tuple(grades)
    return outcome


async def grade_again(
    recorded: Result, cell: PreparedCell, judges: "Judges | None", executor: Executor
) -> RunOutcome:
    """Grade a recorded answer with the suite's graders. A recorded failure stays a failure.

    Grades of a model are kept if both the answer and the grader are the same.
    """
    if recorded.response is None or recorded.is_broken_off:
        return RunOutcome(
            recorded.status,
            recorded.score,
            recorded.cost_usd,
            recorded.response,
            error=recorded.error,
        )
    from ci_evals.graders.thoughts import settle_thoughts

    response = settle_thoughts(recorded.response, keep=cell.keeps_thoughts)
    known = None
    is_same = recorded.fingerprint == cell.fingerprint and response == recorded.response
    if is_same and len(recorded.grades) == len(cell.case.expect):
        known = recorded.grades
    request = cell.request(recorded.run)
    answer = Answer(request, response, recorded.latency_s, recorded.cost_usd)
    return await grade_answer(answer, judges, known, executor)


def fail_or_exclude(
    error: ProviderError, cause: ProviderError, options: ProviderOptions
) -> RunOutcome:
    """Return the outcome of a run without an answer: failed if that is the change's fault, else
    errored.

    Args:
        error: the error to report.
        cause: the error that decides: the same one, or the one for which the provider was given up.
        options: the provider's settings; `on_error` overrides the decision.
    """
    reason = RunError(error.kind, error.message, error.status, error.detail, error.cause)
    if options.on_error is None:
        fails = party_at_fault(cause.kind, own_code=options.own_code) == "change"
    else:
        fails = options.on_error == "fail"
    if fails:
        return RunOutcome("failed", 0.0, response=error.partial, error=reason)
    return RunOutcome("errored", response=error.partial, error=reason)
