"""`goal_reached`: a simulated user got what it wanted."""

from ci_evals.graders.base import AlwaysTrue, all_or_nothing
from ci_evals.model import Answer, Finding
from ci_evals.response import GOAL_REACHED


class GoalReached(AlwaysTrue, frozen=True):
    """The simulated user said that its goal is reached. `value` is always true."""

    instead = "write `not_goal_reached: true`, or leave it out"

    def grade(self, answer: Answer) -> Finding:
        turns = len(answer.response.turns)
        reached = answer.response.finish_reason == GOAL_REACHED
        what = "reached its goal" if reached else "did not reach its goal"
        return all_or_nothing(reached, f"the user {what} within {turns} turn{'s' * (turns != 1)}")
