"""Graders of properties other than the text: `latency`, `cost`, `finish_reason` and others."""

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Literal

from ci_evals.format import cite, number_of, one_line
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
                return _unknown(
                    "the time to the first token is unknown: the provider did not stream its answer"
                )
            measured.append((first_token_s, self.first_token, " to the first token"))
        if self.value is not None:
            measured.append((answer.latency_s, self.value, ""))
        missed = [(took, limit, to) for took, limit, to in measured if took > limit]
        bound = "no more than {:g} s"
        if missed:
            bound = "at most {:g} s allowed"
        reasons, sentences = [], []
        for took, limit, to in missed or measured:
            reasons.append(f"{limit:g} s{to}")
            sentences.append(f"{round(took, 3):g} s{to}, {bound.format(limit)}")
        limits, sentence = " and ".join(reasons), f"took {' and '.join(sentences)}"
        if missed:
            return failed(f"took more than {limits}", sentence=sentence)
        return passed(f"took no more than {limits}", sentence=sentence)


@dataclass(frozen=True, slots=True)
class Cost(GraderOptions):
    """The answer cost at most `value` US dollars. An unknown cost does not pass."""

    reads_text: ClassVar[bool] = False
    needs = "cost"

    value: NonNegative

    def grade(self, answer: Answer) -> Finding:
        cost_usd, response = answer.cost_usd, answer.response
        if cost_usd is None and response.usage is None:
            return _unknown("the cost is unknown: the provider reported neither a cost nor `usage`")
        if cost_usd is None:
            price = "price"
            if response.model:
                price = f"price of model {cite(response.model)}"
            return _unknown(
                f"the cost is unknown: no {price} is listed; set the provider's"
                " `price: {input_per_mtok: …, output_per_mtok: …}`, in USD per million tokens"
            )
        if cost_usd <= self.value:
            bound = f"no more than {_dollars(self.value)}"
            return passed(f"cost {bound}", sentence=f"cost {_dollars(cost_usd)}, {bound}")
        limit = _dollars(self.value)
        sentence = f"cost {_dollars(cost_usd)}, at most {limit} allowed"
        return failed(f"cost more than {limit}", sentence=sentence)


def _unknown(reason: str) -> Finding:
    """Return the finding on a figure that the provider does not report; the answer doesn't tell
    it, either.
    """
    return failed(reason, sentence=reason)


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
            return _unknown("the provider did not report why the answer ended")
        among = " or ".join(map(cite, wanted))
        actual = f"ended with {cite(reason)}"
        if _usual(reason) in map(_usual, wanted):
            return passed(f"ended with {among}", sentence=actual)
        return failed(f"did not end with {among}", sentence=f"{actual}, expected {among}")


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
            return _unknown("there is no reward: the case is not a task")
        if reward >= self.value:
            sentence = f"reward {reward:g}, no less than {self.value:g}"
            return passed(f"reward of at least {self.value:g}", reward, sentence=sentence)
        sentence = f"reward {reward:g}, at least {self.value:g} needed"
        if self.value == 1:
            sentence = f"reward {reward:g} of 1"
        # Nothing is not a value of this answer: it is the usual failure, with a name of its own.
        reason = sentence
        if reward:
            reason = f"reward below {self.value:g}"
        failure = answer.response.test_failure
        if failure is not None and failure.test:
            which = f"{one_line(failure.test, 80)} failed"
            reason, sentence = f"{reason}: {which}", f"{sentence}: {which}"
        return failed(reason, reward, sentence=sentence)


@dataclass(frozen=True, slots=True)
class GoalReached(AlwaysTrue):
    """The simulated user reported that it reached its goal. `value` is always true."""

    reads_text: ClassVar[bool] = False
    instead = "write `not_goal_reached: true`, or leave it out"

    def grade(self, answer: Answer) -> Finding:
        turns = number_of(len(answer.response.turns), "turn")
        if answer.response.finish_reason == GOAL_REACHED:
            reason = "the user reached its goal"
            return passed(reason, sentence=f"{reason} in {turns}")
        reason = "the user did not reach its goal"
        return failed(reason, sentence=f"{reason} in {turns}")
