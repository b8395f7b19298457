"""A grader of one turn of a conversation: it sees that turn's answer and nothing of the others."""

from collections.abc import Awaitable

import msgspec
from msgspec import Struct

from ci_evals.graders.asking import AskingOptions
from ci_evals.graders.base import GraderOptions, at_once
from ci_evals.model import Answer, Finding, Grader, Models


class OfTurn(Struct, frozen=True):
    """Lets `grader` judge the answer of turn `number`, from 1."""

    number: int
    grader: Grader

    @property
    def target(self) -> str | None:
        """What the grader calls, if it calls a function of the user's."""
        return getattr(self.grader, "target", None)

    def prepare(self) -> None:
        self.grader.prepare()

    async def grade(self, answer: Answer) -> Finding:
        return await self.grade_with(answer, None)

    async def grade_with(self, answer: Answer, models: Models | None) -> Finding:
        """Judge the turn, asking one of the models if the grader asks any and there are some."""
        if len(answer.response.turns) < self.number:
            return Finding(passed=False, score=0.0, reason=f"turn {self.number}: it never took place")
        found = found_by(self.grader, self._seen(answer), models)
        finding = found if isinstance(found, Finding) else await found
        return msgspec.structs.replace(finding, reason=f"turn {self.number}: {finding.reason}")

    def _seen(self, answer: Answer) -> Answer:
        turn = answer.response.turns[self.number - 1]
        request = msgspec.structs.replace(answer.request, input=turn.user)
        return Answer(request, turn.response, turn.latency_s, turn.cost_usd)


def found_by(grader: Grader, answer: Answer, models: Models | None) -> Finding | Awaitable[Finding]:
    """What a grader finds; one that asks a model is given those that there are."""
    if models is not None and isinstance(grader, AskingOptions | OfTurn):
        return grader.grade_with(answer, models)
    return at_once(grader, answer)


def judging(grader: Grader) -> Grader:
    """This grader, or the one that it lets judge a turn."""
    return grader.grader if isinstance(grader, OfTurn) else grader


def asker(grader: Grader) -> AskingOptions | None:
    """The grader that judges if it asks a model, else None."""
    inner = judging(grader)
    return inner if isinstance(inner, AskingOptions) else None


def deciding(grader: Grader) -> Grader:
    """The grader as far as its options decide what it finds; how long it is waited for does not."""
    if isinstance(grader, OfTurn):
        return OfTurn(grader.number, deciding(grader.grader))
    return grader.deciding() if isinstance(grader, GraderOptions) else grader
