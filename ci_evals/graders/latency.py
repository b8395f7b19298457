"""`latency`: the answer came in time."""

from typing import Annotated

from msgspec import Meta

from ci_evals.graders.base import GraderOptions, all_or_nothing
from ci_evals.model import Answer, Finding


class Latency(GraderOptions, frozen=True):
    """The answer came within `value` seconds, waiting and refused attempts not counted."""

    value: Annotated[float, Meta(gt=0)]

    def grade(self, answer: Answer) -> Finding:
        passed = answer.latency_s <= self.value
        relation = "within" if passed else "more than"
        took = f"{round(answer.latency_s, 3):g} s"
        return all_or_nothing(passed, f"took {took}, {relation} the {self.value:g} s allowed")
