"""From expectations and an answer to grades."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from ci_evals.format import one_line
from ci_evals.graders.base import GraderOptions, ModelGrader, failed
from ci_evals.graders.composite import Composite
from ci_evals.graders.transform import NothingThereError, transform_answer
from ci_evals.model.case import Answer, Expectation, Finding, Grader, Models
from ci_evals.model.result import Grade
from ci_evals.user_code import call_in_thread

LONG_ANSWER: Final = 100_000
"""Characters of an answer from which on any grader judges it in a thread, so that calls go on
meanwhile.
"""

JudgeBy = Callable[[Grader, Answer], Awaitable[Finding]]


async def judge(grader: Grader, answer: Answer) -> Finding:
    """Judge an answer by a grader that asks no model, here and now.

    Raises:
        BaseException: whatever the grader raises; it may be the team's own code.
    """
    if getattr(grader, "may_take_long", False) or len(answer.response.output) > LONG_ANSWER:
        return cast("Finding", await call_in_thread(partial(grader.grade, answer)))
    found = grader.grade(answer)
    return found if isinstance(found, Finding) else await found


async def grade(
    expectation: Expectation,
    answer: Answer,
    models: Models | None = None,
    known: Grade | None = None,
    judge_by: JudgeBy = judge,
) -> Grade:
    """Judge an answer by one expectation, and by those that it is made of.

    A negated expectation turns verdict and score round and keeps the reason, which says what was
    found: a failed `not_contains` has the reason of a passed `contains`.

    Args:
        expectation: what is expected.
        answer: the answer.
        models: the models that graders may ask.
        known: an earlier grade of the same answer by the same expectation: what it has of models is
            taken over.
        judge_by: applies a grader that asks no model.

    Raises:
        BaseException: whatever the grader raises; it may be the team's own code.
    """
    if known is not None and asks_itself(expectation):
        return replace(known, grader=expectation.shown_name, metric=expectation.metric)
    parts: tuple[Grade, ...] = ()
    seen = await _look(expectation, answer)
    if isinstance(seen, Finding):
        finding = seen
    elif isinstance(expectation.grader, Composite):
        of = expectation.grader.of
        earlier = (
            known.parts if known is not None and len(known.parts) == len(of) else [None] * len(of)
        )
        parts = tuple(
            [
                await grade(each, seen, models, part, judge_by)
                for each, part in zip(of, earlier, strict=True)
            ]
        )
        finding = expectation.grader.combine(parts)
    elif models is not None and isinstance(expectation.grader, ModelGrader):
        finding = await expectation.grader.grade_with(seen, models)
    else:
        finding = await judge_by(expectation.grader, seen)
    passed, score, reason = finding.passed, finding.score, finding.reason
    if expectation.negated and seen is not finding:
        passed, score = not passed, 1 - score
    if expectation.turn is not None:
        reason = f"turn {expectation.turn}: {reason}"
    return Grade(
        expectation.shown_name,
        passed,
        score,
        reason,
        finding.got,
        expectation.weight,
        finding.classified,
        finding.orders_judge,
        expectation.metric,
        parts,
        finding.statements,
        expectation.transform,
    )


async def _look(expectation: Expectation, answer: Answer) -> Answer | Finding:
    """Return what a grader sees of an answer: that to a turn, transformed. If there is nothing to
    see, return the finding that says so.
    """
    if (number := expectation.turn) is not None:
        if len(answer.response.turns) < number:
            return failed("it never took place")
        turn = answer.response.turns[number - 1]
        request = replace(answer.request, input=turn.user)
        answer = Answer(request, turn.response, turn.latency_s, turn.cost_usd)
    if expectation.transform is None:
        return answer
    try:
        return await transform_answer(expectation.transform, answer)
    except NothingThereError as error:
        transform = one_line(expectation.transform, 80)
        return failed(f"transform {transform}: {error}", got=error.got)


def leaves(expectations: Iterable[Expectation]) -> Iterator[Expectation]:
    """Yield the expectations that judge an answer themselves, in place of those that are made of
    others.
    """
    return (each for each in nested(expectations) if not isinstance(each.grader, Composite))


def nested(expectations: Iterable[Expectation]) -> Iterator[Expectation]:
    """Yield expectations, each before those that it is made of."""
    for each in expectations:
        yield each
        if isinstance(each.grader, Composite):
            yield from nested(each.grader.of)


def with_transform(expectation: Expectation, transform: str) -> Expectation:
    """Return the expectation with a transform for whatever in it reads text and has none of its
    own.
    """
    grader = expectation.grader
    if expectation.transform is not None:
        return expectation
    if isinstance(grader, Composite):
        of = tuple(with_transform(each, transform) for each in grader.of)
        return replace(expectation, grader=replace(grader, of=of))
    return (
        replace(expectation, transform=transform)
        if getattr(grader, "reads_text", True)
        else expectation
    )


def model_graders(expectations: Iterable[Expectation]) -> Iterator[ModelGrader]:
    """Yield the graders that ask a model, at whatever depth."""
    return (each.grader for each in leaves(expectations) if isinstance(each.grader, ModelGrader))


def asks_itself(expectation: Expectation) -> bool:
    """Return True if judging costs a call of its own."""
    return isinstance(expectation.grader, ModelGrader)


def identity(expectation: Expectation) -> list[Any]:
    """Return what decides what an expectation finds: not its name, nor options such as
    time-outs.
    """
    seen = {"turn": expectation.turn, "transform": expectation.transform}
    more = {key: value for key, value in seen.items() if value is not None}
    return [
        expectation.name,
        expectation.weight,
        _identity_of(expectation.grader),
        *([more] if more else []),
    ]


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
    target = getattr(expectation.grader, "function_name", None)
    return f"{expectation.name} {target}" if target else expectation.name
