"""Graders of properties other than the text: `latency`, `cost`, `finish_reason` and others."""

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Literal

from ci_evals.format import number_of, quote
from ci_evals.graders.base import AlwaysTrue, GraderOptions, failed, passed
from ci_evals.model.fields import NonEmpty, NonNegative, OneOrMore, Seconds, Share
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer
from ci_evals.model.response import GOAL_REACHED


@dataclass(frozen=True, slots=True)
class Latency(GraderOptions):
    """The answer came within `value` seconds, not counting waiting and refused attempts.

    Args:
        value: seconds for the whole answer.
        first_token: seconds until a streamed answer begins. An unknown time does not pass.
    """

    reads_text: ClassVar[bool] = False

    value: Seconds | None = None
    first_token: Seconds | None = None

    @property
    def needs(self) -> Literal["first_token"] | None:
        if self.first_token is None:
            return None
        return "first_token"

    def problems(self) -> list[str]:
        if self.value is None and self.first_token is None:
            return ["sets no limit: give it seconds, as in `latency: 5`, or a `first_token`"]
        return []

    def grade(self, answer: Answer) -> Finding:
        measured: list[tuple[float, float, str]] = []
        if self.first_token is not None:
            first_token_s = answer.response.slowest_first_token_s
            if first_token_s is None:
                return failed(
                    "the time to the first token is not known:"
                    " the provider did not stream its answer"
                )
            measured.append((first_token_s, self.first_token, " to the first token"))
        if self.value is not None:
            measured.append((answer.latency_s, self.value, ""))
        missed = [(took, limit, to) for took, limit, to in measured if took > limit]
        shown = missed or measured
        limits = " and ".join(f"the {limit:g} s allowed{to}" for _, limit, to in shown)
        got = " and ".join(f"{round(took, 3):g} s" for took, _, _ in shown)
        if missed:
            return failed(f"took more than {limits}", got=got)
        return passed(f"took no more than {limits}", got=got)


@dataclass(frozen=True, slots=True)
class Cost(GraderOptions):
    """The answer cost at most `value` US dollars. An unknown cost does not pass."""

    reads_text: ClassVar[bool] = False
    needs = "cost"

    value: NonNegative

    def grade(self, answer: Answer) -> Finding:
        cost_usd, response = answer.cost_usd, answer.response
        if cost_usd is None and response.usage is None:
            return failed("the cost is unknown: the provider reported neither a cost nor `usage`")
        if cost_usd is None:
            price = "price"
            if response.model:
                price = f"price of model {quote(response.model, 80)}"
            return failed(
                f"the cost is not known: no {price} is listed; set the provider's"
                " `price: {input_per_mtok: …, output_per_mtok: …}`, in USD per million tokens"
            )
        if cost_usd <= self.value:
            reason = f"cost no more than the {_dollars(self.value)} allowed"
            return passed(reason, got=_dollars(cost_usd))
        reason = f"cost more than the {_dollars(self.value)} allowed"
        return failed(reason, got=_dollars(cost_usd))


def _dollars(amount: float) -> str:
    """Return `$0.000001`, never `$1e-06`, with more digits than in tables, so that a cost just
    above its limit is visible.
    """
    return f"${Decimal(f'{amount:.4g}'):f}"


_USUAL_REASONS = {  # other APIs' names, and OpenAI's for the same reasons
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

    Other APIs' names for these are understood; any other reason is compared literally.
    """

    reads_text: ClassVar[bool] = False
    value: NonEmpty | OneOrMore[NonEmpty]

    def grade(self, answer: Answer) -> Finding:
        wanted = self.value
        if isinstance(wanted, str):
            wanted = [wanted]
        reason = answer.response.finish_reason
        if reason is None:
            return failed("the provider did not report why the answer ended")
        if _usual(reason) in map(_usual, wanted):
            return passed(f"ended with {quote(reason, 80)}")
        among = " or ".join(quote(each, 80) for each in wanted)
        return failed(f"expected to end with {among}", got=quote(reason, 80))


def _usual(reason: str) -> str:
    name = reason.strip().casefold()
    return _USUAL_REASONS.get(name, name)


@dataclass(frozen=True, slots=True)
class Reward(GraderOptions):
    """The task's verifier gave a reward of at least `value`; the score is the reward."""

    reads_text: ClassVar[bool] = False
    value: Share = 1.0

    def grade(self, answer: Answer) -> Finding:
        reward = answer.response.reward
        if reward is None:
            return failed("there is no reward: the case is not a task")
        if reward >= self.value:
            reason = f"reward at least the {self.value:g} wanted"
            return passed(reason, reward, got=f"{reward:g}")
        reason = f"reward less than the {self.value:g} wanted"
        return failed(reason, reward, got=f"{reward:g}")


@dataclass(frozen=True, slots=True)
class GoalReached(AlwaysTrue):
    """The simulated user reported that it reached its goal. `value` is always true."""

    reads_text: ClassVar[bool] = False
    instead = "write `not_goal_reached: true`, or leave it out"

    def grade(self, answer: Answer) -> Finding:
        turns = number_of(len(answer.response.turns), "turn")
        if answer.response.finish_reason == GOAL_REACHED:
            return passed("the user reached its goal", got=turns)
        return failed("the user did not reach its goal", got=turns)
