"""Graders of what an answer took and came to: `latency`, `cost`, `finish_reason`, `reward`,
`goal_reached`.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Literal

from ci_evals.format import quote
from ci_evals.graders.base import AlwaysTrue, GraderOptions, failed, passed
from ci_evals.model.case import Answer, Finding
from ci_evals.model.fields import NonEmpty, NonNegative, OneOrMore, Seconds, Share
from ci_evals.model.response import GOAL_REACHED


@dataclass(frozen=True, slots=True)
class Latency(GraderOptions):
    """The answer came within `value` seconds, waiting and refused attempts not counted.

    Args:
        value: seconds for the whole answer.
        first_token: seconds until a streamed answer begins. A time that was not measured does not
            pass.
    """

    reads_text: ClassVar[bool] = False

    value: Seconds | None = None
    first_token: Seconds | None = None

    @property
    def needs(self) -> Literal["first_token"] | None:
        return None if self.first_token is None else "first_token"

    def problems(self) -> list[str]:
        given = self.value is not None or self.first_token is not None
        return (
            []
            if given
            else ["sets no limit: give it seconds, as in `latency: 5`, or a `first_token`"]
        )

    def grade(self, answer: Answer) -> Finding:
        first_token_s = answer.response.slowest_first_token_s
        if self.first_token is not None and first_token_s is None:
            return failed(
                "the time to the first token is not known: the provider did not stream its answer"
            )
        limits = [
            (took_s, limit_s, what)
            for took_s, limit_s, what in (
                (first_token_s, self.first_token, "took {} s to the first token"),
                (answer.latency_s, self.value, "took {} s"),
            )
            if limit_s is not None and took_s is not None
        ]
        kept = all(took_s <= limit_s for took_s, limit_s, _ in limits)
        said = [
            f"{what.format(f'{round(took_s, 3):g}')}, {'within' if took_s <= limit_s else 'more than'} the"
            f" {limit_s:g} s allowed"
            for took_s, limit_s, what in limits
            if kept or took_s > limit_s
        ]
        return passed("; ".join(said)) if kept else failed("; ".join(said))


@dataclass(frozen=True, slots=True)
class Cost(GraderOptions):
    """The answer cost at most `value` US dollars. A cost that is not known does not pass."""

    reads_text: ClassVar[bool] = False
    needs = "cost"

    value: NonNegative

    def grade(self, answer: Answer) -> Finding:
        cost_usd, response = answer.cost_usd, answer.response
        if cost_usd is None and response.usage is None:
            return failed(
                "the cost is not known: the provider reported no `usage`, so there are no tokens to price"
            )
        if cost_usd is None:
            model = f" of model {quote(response.model, 80)}" if response.model else ""
            return failed(
                f"the cost is not known: no price{model} is listed; "
                "set the provider's `price: {input_per_mtok: …, output_per_mtok: …}`, in USD per million tokens"
            )
        if cost_usd <= self.value:
            return passed(f"cost {_dollars(cost_usd)}, within the {_dollars(self.value)} allowed")
        return failed(f"cost {_dollars(cost_usd)}, more than the {_dollars(self.value)} allowed")


def _dollars(amount: float) -> str:
    """`$0.000001`, never `$1e-06`; with more digits than tables have, so that a cost just above its
    limit shows.
    """
    return f"${Decimal(f'{amount:.4g}'):f}"


_REASONS = {  # as providers call them, in the words of the OpenAI API
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "safety": "content_filter",
    "refusal": "content_filter",
}


@dataclass(frozen=True, slots=True)
class FinishReason(GraderOptions):
    """The model ended for this reason, or for one of several: `stop`, `length`, `tool_calls`,
    `content_filter`.

    The names that other APIs have for these are understood, and any other reason is compared as it
    is told.
    """

    reads_text: ClassVar[bool] = False
    value: NonEmpty | OneOrMore[NonEmpty]

    def grade(self, answer: Answer) -> Finding:
        wanted = (self.value,) if isinstance(self.value, str) else self.value
        reason = answer.response.finish_reason
        if reason is None:
            return failed("the provider did not tell why the answer ended")
        ended, among = (
            f"ended with {quote(reason, 80)}",
            " or ".join(quote(each, 80) for each in wanted),
        )
        if _usual(reason) in map(_usual, wanted):
            return passed(ended)
        return failed(f"{ended}, expected {among}")


def _usual(reason: str) -> str:
    name = reason.strip().casefold()
    return _REASONS.get(name, name)


@dataclass(frozen=True, slots=True)
class Reward(GraderOptions):
    """The task's verifier gave at least `value`; the score is its reward."""

    reads_text: ClassVar[bool] = False
    value: Share = 1.0

    def grade(self, answer: Answer) -> Finding:
        reward = answer.response.reward
        if reward is None:
            return failed("there is no reward: the answer is not that of a task")
        if reward >= self.value:
            return passed(f"reward {reward:g}, at least the {self.value:g} wanted", reward)
        return failed(f"reward {reward:g}, less than the {self.value:g} wanted", reward)


@dataclass(frozen=True, slots=True)
class GoalReached(AlwaysTrue):
    """The simulated user said that its goal is reached. `value` is always true."""

    reads_text: ClassVar[bool] = False
    instead = "write `not_goal_reached: true`, or leave it out"

    def grade(self, answer: Answer) -> Finding:
        turns = len(answer.response.turns)
        within = f"within {turns} turn{'s' * (turns != 1)}"
        if answer.response.finish_reason == GOAL_REACHED:
            return passed(f"the user reached its goal {within}")
        return failed(f"the user did not reach its goal {within}")
