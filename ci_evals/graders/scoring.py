"""Grades answers; derives a run's score and status."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from ci_evals.errors import GradingError, StorageError
from ci_evals.format import abridge, exact_mean, one_line
from ci_evals.graders.base import (
    MAX_STACK_CHARACTERS,
    REASON_CHARACTERS,
    Composite,
    EmptyTransformError,
    GraderOptions,
    ModelGrader,
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
from ci_evals.user_code.targets import CodeSource, target_parts
from ci_evals.user_code.threads import call, ends_work
from ci_evals.workers import WorkerEndedError, WorkerStartError, WorkerTimeoutError

LONG_ANSWER: Final = 100_000
"""Characters. Longer answers are graded in a thread, so that other calls are not held up."""

JudgeBy = Callable[[Grader, Answer], Awaitable[Finding]]


async def judge(grader: Grader, answer: Answer) -> Finding:
    """Judge an answer with a grader that uses no model, on this machine.

    An exception is a failed check.

    Raises:
        GradingError: there is no verdict, for a reason other than the answer.
    """
    try:
        workers = current_workers()
        if workers is not None and isinstance(grader, GraderOptions):
            limit_s = grader.worker_limit_s(answer)
            if limit_s is not None:
                return await _judge_elsewhere(workers, grader, answer, limit_s)
        if getattr(grader, "may_take_long", False) or len(answer.response.output) > LONG_ANSWER:
            return await judge_here(grader, answer)
        finding = grader.grade(answer)
        if isinstance(finding, Finding):
            return finding
        return await finding
    except BaseException as raised:  # noqa: BLE001  the team's own code may even raise SystemExit
        return _failed_check(raised, answer)


def _failed_check(raised: BaseException, answer: Answer) -> Finding:
    """Return the finding of a check that raised an exception.

    Raises:
        GradingError: the exception is not about the answer.
        BaseException: the exception is not the check's, such as a cancellation, an interrupt or a
            full disk.
    """
    if isinstance(raised, StorageError | GradingError) or ends_work(raised):
        raise raised
    text = one_line(describe_crash(raised), REASON_CHARACTERS)
    output = answer.output
    if isinstance(raised, AttributeError) and raised.obj is output and not isinstance(output, str):
        text = f"{text}: the transform makes `output` a {type(output).__name__}, not text"
    detail = abridge(describe_stack(raised), MAX_STACK_CHARACTERS)
    if is_setup_error(raised):
        raise GradingError(f"it raised {text}", detail=detail) from raised
    return inconclusive(f"raised {text}", detail=detail)


async def _judge_elsewhere(
    workers: PythonWorkers, grader: GraderOptions, answer: Answer, limit_s: float
) -> Finding:
    """Judge an answer in a worker process, which is ended if it takes too long.

    Raises:
        GradingError: the grader took too long, or no process could be started.
    """
    sent = sendable(answer)
    finding: Finding
    try:
        if grader.portable:  # the team's own code, which may mostly wait: calls share a process
            finding = await workers.call(judge_here, grader, sent, timeout_s=limit_s)
        else:
            finding = await workers.call_alone(judge_here, grader, sent, timeout_s=limit_s)
    except UnsendableError:  # an object that exists only in this process
        return await judge_here(grader, answer)
    except WorkerTimeoutError:
        if grader.portable:
            raise too_slow(limit_s) from None
        raise GradingError(f"gave up after {limit_s:g} s") from None
    except WorkerStartError as error:
        raise GradingError(str(error)) from error
    except WorkerEndedError as error:
        if grader.portable:
            return ended_by(error)
        raise GradingError(str(error)) from error
    return finding


async def judge_here(grader: Grader, answer: Answer) -> Finding:
    """Judge an answer in this process, in a thread unless the grader is async.

    Raises:
        GradingError: there is no verdict, for a reason other than the answer.
    """
    try:
        finding: Finding = await call(grader.grade, answer)
    except BaseException as raised:  # noqa: BLE001  see `judge`; here, because a stack cannot be sent to another process
        return _failed_check(raised, answer)
    return finding


async def grade(
    expectation: Expectation,
    answer: Answer,
    models: Models | None = None,
    known: Grade | None = None,
    judge_by: JudgeBy = judge,
) -> Grade:
    """Grade an answer by one expectation and its parts.

    A negated expectation inverts verdict and score and keeps the reason: a failed `not_contains`
    has the reason of a passed `contains`. It fails if the grader, or one of its parts, could not
    check the answer.

    Args:
        expectation: the expectation.
        answer: the answer.
        models: the models that graders may use.
        known: an earlier grade of the same answer by the same expectation; grades by models are
            reused.
        judge_by: applies a grader that uses no model.

    Raises:
        GradingError: there is no verdict, for a reason other than the answer.
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
        except BaseException as raised:  # noqa: BLE001  the grader may be another package's
            finding = _failed_check(raised, seen)
    if expectation.turn is not None:
        finding = _introduce(finding, f"turn {expectation.turn}")
    passed, score, sentence = finding.passed, finding.score, finding.sentence
    conclusive = conclusive and finding.conclusive
    # A check that could not be made fails under `not_`, too: otherwise a crash would pass.
    if expectation.negated and conclusive:
        passed, score = not passed, 1 - score
        if passed:
            sentence = None  # `people is "two", expected 2` reads as a failure
    elif expectation.negated:
        passed, score = False, 0.0
    judged = Grade(
        grader=shown_name,
        passed=passed,
        score=score,
        reason=finding.reason,
        sentence=sentence,
        weight=expectation.weight,
        classified=finding.classified,
        orders_judge=finding.orders_judge,
        judge_passed=judge_passed,
        metric=expectation.metric,
        parts=parts,
        statements=finding.statements,
        transform=expectation.transform,
        detail=finding.detail,
        turn=expectation.turn,
    )
    return judged, conclusive


async def _grade_parts(
    grader: Composite,
    answer: Answer,
    models: Models | None,
    known: Grade | None,
    judge_by: JudgeBy,
) -> tuple[tuple[Grade, ...], bool]:
    """Return the grades of the parts, and True if all parts with a weight are conclusive."""
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
    """Return the answer that a grader sees: the answer to its turn, transformed. If there is none,
    return a finding with the reason.
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
    """Transform an answer with a function in the worker process of the team's own code.

    Raises:
        GradingError: the function took too long, or no process could be started.
    """
    timeout_s = answer.request.timeout_s
    seen: Answer | Finding
    try:
        seen = await workers.call(transform_here, transform, sendable(answer), timeout_s=timeout_s)
    except UnsendableError:  # an argument or result exists only in one process
        return await transform_here(transform, answer)
    except WorkerTimeoutError:
        text = f"the transform {transform} took more than {timeout_s:g} s"
        raise GradingError(text) from None
    except WorkerStartError as error:
        raise GradingError(f"transform {transform}: {error}") from error
    except WorkerEndedError as error:
        finding = ended_by(error)
        return _introduce(finding, f"transform {transform}")
    if isinstance(seen, Finding):
        return seen
    return replace(seen, request=answer.request)


async def transform_here(source: str, answer: Answer) -> Answer | Finding:
    """Transform an answer in this process; without a result, return a finding with the reason."""
    from ci_evals.graders.transform import transform_answer

    transform = one_line(source, 80)
    try:
        return await transform_answer(source, answer)
    except EmptyTransformError as error:
        finding = inconclusive(str(error))
    except JavaScriptError as error:
        finding = thrown_by(error)
    except WorkerEndedError as error:
        finding = ended_by(error)
    except BaseException as raised:  # noqa: BLE001  the team's own code may even raise SystemExit
        finding = _failed_check(raised, answer)
    return _introduce(finding, f"transform {transform}")


def _introduce(finding: Finding, what: str) -> Finding:
    """Say what a finding is about: `turn 2: no "refund" in the answer`."""
    sentence = finding.sentence
    if sentence is not None:
        sentence = f"{what}: {sentence}"
    return replace(finding, reason=f"{what}: {finding.reason}", sentence=sentence)


def score_of(grades: Sequence[Grade]) -> float:
    """Return the weighted mean score: 1 without grades, the plain mean if all weights are 0."""
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
    """Return True if the score reaches the threshold; without one, if all graders with a weight
    passed.
    """
    if threshold is not None:
        return reaches(score_of(grades), threshold)
    failures = [grade for grade in grades if not grade.passed and grade.weight]
    return not failures


def may_grade_slowly(expectations: Iterable[Expectation]) -> bool:
    """Return True if grading may take long: a model is called, or the team's own code runs."""
    for expectation in nested(expectations):
        grader = expectation.grader
        transform = expectation.transform
        if transform is not None and (split_file(transform) or target_parts(transform)):
            return True
        if not isinstance(grader, GraderOptions) or grader.has_dependency or grader.may_take_long:
            return True
    return False


def leaves(expectations: Iterable[Expectation]) -> Iterator[Expectation]:
    """Yield the expectations at any depth that have no parts themselves."""
    for each in nested(expectations):
        if not isinstance(each.grader, Composite):
            yield each


def nested(expectations: Iterable[Expectation]) -> Iterator[Expectation]:
    """Yield expectations at any depth, each before its parts."""
    for each in expectations:
        yield each
        if isinstance(each.grader, Composite):
            yield from nested(each.grader.of)


def with_transform(expectation: Expectation, transform: str) -> Expectation:
    """Set the transform of an expectation and its parts, if they read text and have none."""
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
    """Yield the graders at any depth that use a model."""
    for each in nested(expectations):
        if isinstance(each.grader, ModelGrader):
            yield each.grader


def own_sources(expectations: Iterable[Expectation]) -> Iterator[CodeSource]:
    """Yield the team's own code that judges: that of graders and transforms at any depth."""
    for expectation in nested(expectations):
        source = getattr(expectation.grader, "own_source", None)
        if source is not None:
            yield source
        transform = expectation.transform
        if transform is None or transform.startswith("$"):
            continue
        script = split_file(transform)
        target = target_parts(transform)
        if script is not None:
            yield CodeSource("script", script["file"])
        elif target is not None:
            yield CodeSource("module", target[0])


def identity(expectation: Expectation) -> list[Any]:
    """Return what a suite says about an expectation and affects its findings: not its title, nor
    options such as time-outs.
    """
    parts = [expectation.name, expectation.weight, _identity_of(expectation.grader)]
    view: dict[str, Any] = {}
    if expectation.turn is not None:
        view["turn"] = expectation.turn
    if expectation.transform is not None:
        view["transform"] = expectation.transform
    if view:
        parts.append(view)
    return parts


def _identity_of(grader: Grader) -> Any:
    if not isinstance(grader, GraderOptions):
        return grader
    if isinstance(grader, Composite):
        grader = replace(grader, of=tuple(map(identity, grader.of)))
    return replace(grader.for_fingerprint(), name=None, metric=None, transform=None)


def grader_name(expectation: Expectation) -> str:
    """Return the name of a grader as the suite has it, with its function: `python
    graders:is_polite`.
    """
    if expectation.title:
        return expectation.title
    if target := getattr(expectation.grader, "function_name", None):
        return f"{expectation.name} {target}"
    return expectation.name
