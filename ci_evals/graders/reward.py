"""`reward`: what the verifier of a task gave."""

from typing import Annotated

from msgspec import Meta

from ci_evals.graders.base import GraderOptions
from ci_evals.model import Answer, Finding


class Reward(GraderOptions, frozen=True):
    """The task's verifier gave at least `value`; the score is its reward."""

    value: Annotated[float, Meta(ge=0, le=1)] = 1.0

    def grade(self, answer: Answer) -> Finding:
        reward = answer.response.reward
        if reward is None:
            return Finding(passed=False, score=0.0, reason="there is no reward: the answer is not that of a task")
        relation = "at least" if reward >= self.value else "less than"
        return Finding(reward >= self.value, reward, f"reward {reward:g}, {relation} the {self.value:g} wanted")
