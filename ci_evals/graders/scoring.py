"""From expectations and an answer to grades, and from grades to a score."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

from ci_evals.format import exact_mean
from ci_evals.graders.base import GraderOptions, ModelGrader, reaches
from ci_evals.model.case import Answer, Expectation, Finding, Grader, Models
from ci_evals.model.result import Grade
from ci_evals.user_code import call_in_thread

LONG_ANSWER: Final = 100_000
"""Characters of an answer from which on any grader judges it in a thread, so that calls go on meanwhile."""


async def grade(expectation: Expectation, answer: Answer, models: Models | None = None) -> Grade:
    """Judge an answer by one expectation, asking one of `models` if its grader asks any.

    A negated expectation turns verdict and score round and keeps the reason, which says what was found: a failed
    `not_contains` has the reason of a passed `contains`.

    Raises:
        BaseException: whatever the grader raises; it may be the team's own code.
    """
    finding = await _find(expectation.grader, answer, models)
    passed, score = finding.passed, finding.score
    if expectation.negated:
        passed, score = not passed, 1 - score
    return Grade(
        expectation.shown_name,
        passed,
        score,
        finding.reason,
        expectation.weight,
        finding.classified,
        finding.orders_judge,
        expectation.metric,
    )


async def _find(grader: Grader, answer: Answer, models: Models | None) -> Finding:
    if models is not None and isinstance(grader, ModelGrader | TurnGrader):
        return await grader.grade_with(answer, models)
    if getattr(grader, "may_take_long", False) or len(answer.response.output) > LONG_ANSWER:
        return cast("Finding", await call_in_thread(partial(grader.grade, answer)))
    found = grader.grade(answer)
    return found if isinstance(found, Finding) else await found


def score_of(grades: Sequence[Grade]) -> float:
    """Return the mean score by weight: 1 without grades, the plain mean if nothing has a weight."""
    if not grades:
        return 1.0
    weights = [grade.weight for grade in grades]
    return exact_mean([grade.score for grade in grades], weights if any(weights) else None)


def passes(grades: Sequence[Grade], threshold: float | None) -> bool:
    """Return True if all graders that have a weight passed, or the score reaches the threshold if there is one."""
    if threshold is None:
        return all(grade.passed or grade.weight == 0 for grade in grades)
    return reaches(score_of(grades), threshold)


@dataclass(frozen=True, slots=True)
class TurnGrader:
    """Lets `grader` judge the answer of turn `number`, from 1."""

    number: int
    grader: Grader

    @property
    def target(self) -> str | None:
        """The function of the team's own that the grader calls, if it calls one."""
        return getattr(self.grader, "target", None)

    def prepare(self) -> None:
        self.grader.prepare()

    async def grade(self, answer: Answer) -> Finding:
        return await self.grade_with(answer, None)

    async def grade_with(self, answer: Answer, models: Models | None) -> Finding:
        """Judge the turn, asking one of the models if the grader asks any and there are some."""
        if len(answer.response.turns) < self.number:
            return Finding(passed=False, score=0.0, reason=f"turn {self.number}: it never took place")
        turn = answer.response.turns[self.number - 1]
        request = replace(answer.request, input=turn.user)
        seen = Answer(request, turn.response, turn.latency_s, turn.cost_usd)
        finding = await _find(self.grader, seen, models)
        return replace(finding, reason=f"turn {self.number}: {finding.reason}")


def unwrap(grader: Grader) -> Grader:
    """Return the grader itself, or the one that it lets judge a turn."""
    return grader.grader if isinstance(grader, TurnGrader) else grader


def model_grader(grader: Grader) -> ModelGrader | None:
    """Return the grader that judges if it asks a model, else None."""
    inner = unwrap(grader)
    return inner if isinstance(inner, ModelGrader) else None


def asks_a_model(expectation: Expectation) -> bool:
    """Return True if judging costs a call."""
    return model_grader(expectation.grader) is not None


def for_fingerprint(grader: Grader) -> Grader:
    """Return the grader without the options that don't decide what it finds, such as time-outs and its name."""
    if isinstance(grader, TurnGrader):
        return TurnGrader(grader.number, for_fingerprint(grader.grader))
    return replace(grader.for_fingerprint(), name=None, metric=None) if isinstance(grader, GraderOptions) else grader


def grader_name(expectation: Expectation) -> str:
    """Name the grader as the suite has it, with the function that it calls: `python graders:is_polite`."""
    if expectation.title:
        return expectation.title
    target = getattr(expectation.grader, "target", None)
    return f"{expectation.name} {target}" if target else expectation.name
