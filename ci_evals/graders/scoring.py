"""From expectations and an answer to grades, and from these to what a run comes to."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from ci_evals.errors import GradingError, StorageError
from ci_evals.format import abridge, exact_mean, one_line, quote
from ci_evals.graders.base import (
    MOST_OF_A_STACK,
    REASON_CHARACTERS,
    Composite,
    GraderOptions,
    ModelGrader,
    NothingThereError,
    ended_by,
    inconclusive,
    reaches,
    thrown_by,
    too_slow,
)
from ci_evals.javascript import JavaScriptError, split_file
from ci_evals.model.grading import Expectation, Finding, Grader, Models
from ci_evals.model.request import Answer, sendable
from ci_evals.model.result import Grade
from ci_evals.python_worker import PythonWorkers, UnsendableError, current_workers
from ci_evals.user_code.crashes import describe_crash, describe_stack, is_setup_error
from ci_evals.user_code.targets import target_parts
from ci_evals.user_code.threads import call, ends_work
from ci_evals.workers import WorkerEndedError, WorkerStartError, WorkerTimeoutError

LONG_ANSWER: Final = 100_000
"""Characters; any grader judges a longer answer in a thread, so that calls go on meanwhile."""

JudgeBy = Callable[[Grader, Answer], Awaitable[Finding]]


async def judge(grader: Grader, answer: Answer) -> Finding:
    """Judge an answer by a grader that asks no model, on this machine.

    An exception is a failed check.

    Raises:
        GradingError: no verdict could be had, through no fault of the answer.
    """
    try:
        workers = current_workers()
        if workers is not None and isinstance(grader, GraderOptions):
            limit_s = grader.worker_limit_s(answer)
            if limit_s is not None:
                return await _judge_elsewhere(workers, grader, answer, limit_s)
        if getattr(grader, "may_take_long", False) or len(answer.response.output) > LONG_ANSWER:
            return await judge_here(grader, answer)
        found = grader.grade(answer)
        if isinstance(found, Finding):
            return found
        return await found
    except BaseException as raised:  # noqa: BLE001  it may be the team's own code, and raise SystemExit too
        return _failed_check(raised, answer)


def _failed_check(raised: BaseException, answer: Answer) -> Finding:
    """Return the finding of a check that raised an exception.

    Raises:
        GradingError: the exception says nothing about the answer.
        BaseException: it is not the check's: a cancellation, an interrupt, a disk that is full.
    """
    if isinstance(raised, StorageError | GradingError) or ends_work(raised):
        raise raised
    text = one_line(describe_crash(raised), REASON_CHARACTERS)
    output = answer.output
    if isinstance(raised, AttributeError) and raised.obj is output and not isinstance(output, str):
        text = f"{text}: the transform makes `output` a {type(output).__name__}, not text"
    detail = abridge(describe_stack(raised), MOST_OF_A_STACK)
    if is_setup_error(raised):
        raise GradingError(f"it raised {text}", detail=detail) from raised
    return inconclusive(f"raised {text}", got=quote(output), detail=detail)


async def _judge_elsewhere(
    workers: PythonWorkers, grader: GraderOptions, answer: Answer, limit_s: float
) -> Finding:
    """Judge an answer in a worker process, which is ended if it takes too long.

    Raises:
        GradingError: it took too long, or there is no process.
    """
    sent = sendable(answer)
    finding: Finding
    try:
        if grader.portable:  # the team's own code, whose calls may wait for something together
            finding = await workers.call(judge_here, grader, sent, timeout_s=limit_s)
        else:
            finding = await workers.call_alone(judge_here, grader, sent, timeout_s=limit_s)
    except UnsendableError:  # it has what only this process knows
        return await judge_here(grader, answer)
    except WorkerTimeoutError:
        if grader.portable:
            raise too_slow(limit_s) from None
        raise GradingError(f"gave up after {limit_s:g} s") from None
    except WorkerStartError as error:
        raise GradingError(str(error)) from error
    except WorkerEndedError as error:
        if grader.portable:
            return ended_by(error, answer)
        raise GradingError(str(error)) from error
    return finding


async def judge_here(grader: Grader, answer: Answer) -> Finding:
    """Judge an answer in this process, in a thread unless the grader is async.

    Raises:
        GradingError: no verdict could be had, through no fault of the answer.
    """
    try:
        finding: Finding = await call(grader.grade, answer)
    except BaseException as raised:  # noqa: BLE001  see `judge`; a stack is not sent to other processes
        return _failed_check(raised, answer)
    return finding


async def grade(
    expectation: Expectation,
    answer: Answer,
    models: Models | None = None,
    known: Grade | None = None,
    judge_by: JudgeBy = judge,
) -> Grade:
    """Judge an answer by one expectation, and by those that it is made of.

    A negated expectation turns verdict and score round and keeps the reason, which says what was
    found: a failed `not_contains` has the reason of a passed `contains`. It fails if the grader, or
    one of those that it is made of, could not look at the answer.

    Args:
        expectation: what is expected.
        answer: the answer.
        models: the models that graders may ask.
        known: an earlier grade of the same answer by the same expectation; grades of models are
            taken from it.
        judge_by: applies a grader that asks no model.

    Raises:
        GradingError: no verdict could be had, through no fault of the answer.
    """
    judged, _ = await _grade(expectation, answer, models, known, judge_by)
    return judged


async def _grade(
    expectation: Expectation,
    answer: Answer,
    models: Models | None,
    known: Grade | None,
    judge_by: JudgeBy,
) -> tuple[Grade, bool]:
    """Return the grade of an expectation, and True if it is conclusive."""
    grader = expectation.grader
    shown_name = expectation.title or expectation.name
    if known is not None and isinstance(grader, ModelGrader):
        return replace(known, grader=shown_name, metric=expectation.metric), True
    parts: tuple[Grade, ...] = ()
    judge_passed = None
    conclusive = True
    seen: Answer | Finding = answer
    if expectation.turn is not None or expectation.transform is not None:
        seen = await _look(expectation, answer)
    if isinstance(seen, Finding):
        finding = seen
    else:
        if isinstance(grader, Composite):
            parts, conclusive = await _grade_parts(grader, seen, models, known, judge_by)
        try:
            if isinstance(grader, Composite):
                finding = grader.combine(parts)
            elif isinstance(grader, ModelGrader) and models is not None:
                finding = await grader.grade_with(seen, models)
                if not grader.embeds:
                    judge_passed = finding.passed
            else:
                finding = await judge_by(grader, seen)
        except BaseException as raised:  # noqa: BLE001  it may be of another package
            finding = _failed_check(raised, seen)
    passed, score, reason, got = finding.passed, finding.score, finding.reason, finding.got
    conclusive = conclusive and finding.conclusive
    if expectation.negated and conclusive:
        passed, score = not passed, 1 - score
        if passed:
            got = None  # "does not contain 'x', got 'y'" reads as a failure
    elif expectation.negated:
        passed, score = False, 0.0
    if expectation.turn is not None:
        reason = f"turn {expectation.turn}: {reason}"
    judged = Grade(
        grader=shown_name,
        passed=passed,
        score=score,
        reason=reason,
        got=got,
        weight=expectation.weight,
        classified=finding.classified,
        orders_judge=finding.orders_judge,
        judge_passed=judge_passed,
        metric=expectation.metric,
        parts=parts,
        statements=finding.statements,
        transform=expectation.transform,
        detail=finding.detail,
    )
    return judged, conclusive


async def _grade_parts(
    grader: Composite,
    answer: Answer,
    models: Models | None,
    known: Grade | None,
    judge_by: JudgeBy,
) -> tuple[tuple[Grade, ...], bool]:
    """Return the grades of the parts, and True if all that have a weight are conclusive."""
    parts: list[Grade] = []
    conclusive = True
    for number, expectation in enumerate(grader.of):
        earlier = None
        if known is not None and len(known.parts) == len(grader.of):
            earlier = known.parts[number]
        part, is_conclusive = await _grade(expectation, answer, models, earlier, judge_by)
        parts.append(part)
        if part.weight and not is_conclusive:
            conclusive = False
    return tuple(parts), conclusive


async def _look(expectation: Expectation, answer: Answer) -> Answer | Finding:
    """Return what a grader sees of an answer: the answer to its turn, transformed. If there is
    nothing to see, return the finding that says so.
    """
    if (number := expectation.turn) is not None:
        if len(answer.response.turns) < number:
            return inconclusive("it never took place")
        turn = answer.response.turns[number - 1]
        request = replace(answer.request, input=turn.user)
        answer = Answer(request, turn.response, turn.latency_s, turn.cost_usd)
    transform = expectation.transform
    if transform is None:
        return answer
    workers = current_workers()
    is_python = split_file(transform) is None and target_parts(transform) is not None
    if workers is None or not is_python:
        return await transform_here(transform, answer)
    return await _transform_elsewhere(workers, transform, answer)


async def _transform_elsewhere(
    workers: PythonWorkers, transform: str, answer: Answer
) -> Answer | Finding:
    """Transform an answer by a function in the worker process of the team's own code.

    Raises:
        GradingError: it took too long, or there is no process.
    """
    timeout_s = answer.request.timeout_s
    seen: Answer | Finding
    try:
        seen = await workers.call(transform_here, transform, sendable(answer), timeout_s=timeout_s)
    except UnsendableError:  # it takes or makes what only this process knows
        return await transform_here(transform, answer)
    except WorkerTimeoutError:
        text = f"the transform {transform} took more than {timeout_s:g} s"
        raise GradingError(text) from None
    except WorkerStartError as error:
        raise GradingError(f"transform {transform}: {error}") from error
    except WorkerEndedError as error:
        finding = ended_by(error, answer)
        return replace(finding, reason=f"transform {transform}: {finding.reason}")
    if isinstance(seen, Finding):
        return seen
    return replace(seen, request=answer.request)


async def transform_here(source: str, answer: Answer) -> Answer | Finding:
    """Return an answer as a transform makes it, in this process; or the finding that says why there
    is nothing to see.
    """
    from ci_evals.graders.transform import transform_answer

    transform = one_line(source, 80)
    try:
        return await transform_answer(source, answer)
    except NothingThereError as error:
        finding = inconclusive(str(error), got=error.got)
    except JavaScriptError as error:
        finding = thrown_by(error, answer)
    except WorkerEndedError as error:
        finding = ended_by(error, answer)
    except BaseException as raised:  # noqa: BLE001  it may be the team's own code, and raise SystemExit too
        finding = _failed_check(raised, answer)
    return replace(finding, reason=f"transform {transform}: {finding.reason}")


def score_of(grades: Sequence[Grade]) -> float:
    """Return the mean score by weight: 1 without grades, the plain mean if nothing has a weight."""
    if not grades:
        return 1.0
    if len(grades) == 1:
        return grades[0].score
    scores = [grade.score for grade in grades]
    weights = [grade.weight for grade in grades]
    if not any(weights):
        return exact_mean(scores)
    return exact_mean(scores, weights)


def passes(grades: Sequence[Grade], threshold: float | None) -> bool:
    """Return True if the score reaches the threshold; without one, if all graders that have a
    weight passed.
    """
    if threshold is not None:
        return reaches(score_of(grades), threshold)
    failures = [grade for grade in grades if not grade.passed and grade.weight]
    return not failures


def may_grade_slowly(expectations: Iterable[Expectation]) -> bool:
    """Return True if grading by some expectations may take long: a model is asked, or the team's
    own code runs.
    """
    for expectation in nested(expectations):
        grader = expectation.grader
        transform = expectation.transform
        if transform is not None and (split_file(transform) or target_parts(transform)):
            return True
        if not isinstance(grader, GraderOptions) or grader.has_dependency or grader.may_take_long:
            return True
    return False


def leaves(expectations: Iterable[Expectation]) -> Iterator[Expectation]:
    """Yield the expectations that judge an answer themselves, at whatever depth."""
    for each in nested(expectations):
        if not isinstance(each.grader, Composite):
            yield each


def nested(expectations: Iterable[Expectation]) -> Iterator[Expectation]:
    """Yield expectations, each before those that it is made of."""
    for each in expectations:
        yield each
        if isinstance(each.grader, Composite):
            yield from nested(each.grader.of)


def with_transform(expectation: Expectation, transform: str) -> Expectation:
    """Return the expectation with a transform for all of it that reads text and has none yet."""
    grader = expectation.grader
    if expectation.transform is not None:
        return expectation
    if isinstance(grader, Composite):
        of = tuple(with_transform(each, transform) for each in grader.of)
        return replace(expectation, grader=replace(grader, of=of))
    if not getattr(grader, "reads_text", True):
        return expectation
    return replace(expectation, transform=transform)


def model_graders(expectations: Iterable[Expectation]) -> Iterator[ModelGrader]:
    """Yield the graders that ask a model, at whatever depth."""
    for each in nested(expectations):
        if isinstance(each.grader, ModelGrader):
            yield each.grader


def identity(expectation: Expectation) -> list[Any]:
    """Return what decides what an expectation finds: not its name, nor options such as
    time-outs.
    """
    decides = [expectation.name, expectation.weight, _identity_of(expectation.grader)]
    view: dict[str, Any] = {}
    if expectation.turn is not None:
        view["turn"] = expectation.turn
    if expectation.transform is not None:
        view["transform"] = expectation.transform
    if view:
        decides.append(view)
    return decides


def _identity_of(grader: Grader) -> Any:
    if not isinstance(grader, GraderOptions):
        return grader
    if isinstance(grader, Composite):
        grader = replace(grader, of=tuple(map(identity, grader.of)))
    return replace(grader.for_fingerprint(), name=None, metric=None, transform=None)


def grader_name(expectation: Expectation) -> str:
    """Name the grader as the suite has it, with the function that it calls: `python
    graders:is_polite`.
    """
    if expectation.title:
        return expectation.title
    if target := getattr(expectation.grader, "function_name", None):
        return f"{expectation.name} {target}"
    return expectation.name
