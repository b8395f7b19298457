"""A grader of one turn of a conversation: it sees that turn's answer and nothing of the others."""

from collections.abc import Awaitable

import msgspec
from msgspec import Struct

from ci_evals.model import Answer, Finding, Grader


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
        turns = answer.response.turns
        if len(turns) < self.number:
            return Finding(passed=False, score=0.0, reason=f"turn {self.number}: it never took place")
        turn = turns[self.number - 1]
        request = msgspec.structs.replace(answer.request, input=turn.user)
        finding = self.grader.grade(Answer(request, turn.response, turn.latency_s, turn.cost_usd))
        if isinstance(finding, Awaitable):
            finding = await finding
        return Finding(finding.passed, finding.score, f"turn {self.number}: {finding.reason}")
