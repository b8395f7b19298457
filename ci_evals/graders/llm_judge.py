"""`judge`: a model grades the answer by a rubric."""

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from ci_evals.bounds import Fraction
from ci_evals.errors import GradingError
from ci_evals.graders.asking import AskingOptions
from ci_evals.graders.findings import reaches
from ci_evals.graders.injection import talks_to_a_judge
from ci_evals.graders.judge_request import Brief, judge_request, material_of
from ci_evals.graders.judge_verdict import Opinion, read_opinion
from ci_evals.graders.quoting import clip, quote
from ci_evals.graders.rubrics import RUBRICS
from ci_evals.model import Answer, Finding, Models
from ci_evals.response import Response

PASS_OR_FAIL: Mapping[str, float] = {"pass": 1.0, "fail": 0.0}

_TRIES = 2
"""How often a judge is asked for a verdict that can be read."""

_REASON_CHARACTERS = 600


class LlmJudge(AskingOptions, frozen=True):
    """A model judges the answer.

    Args:
        rubric: the name of a ready one, or your own: what passes and what fails.
        provider: the model, by its name among `judges` or `providers`.
        threshold: the lowest score that passes.
        choices: verdicts with their scores; `pass` and `fail` when left out.
        scale: the best of the whole numbers that the judge chooses from instead, 1 being the worst.
        samples: how often it is asked; the majority decides.
        reference: what a good answer is or says.
        context: what the answer must be based on.
    """

    short: ClassVar[str] = "rubric"

    rubric: Annotated[str, Meta(min_length=1)]
    threshold: Fraction = 0.5
    choices: Annotated[Mapping[str, Fraction], Meta(min_length=2)] | None = None
    scale: Annotated[int, Meta(ge=2, le=100)] | None = None
    samples: Annotated[int, Meta(ge=1, le=25)] = 1
    reference: Any = None
    context: Any = None

    def problems(self) -> list[str]:
        found = []
        if self.choices is not None and self.scale is not None:
            found.append("give either `choices` or a `scale`")
        if close := _ready_name(self.rubric):
            found.append(f"unknown rubric {quote(self.rubric)}, did you mean {quote(close)}? Else say it in a sentence")
        needs = RUBRICS[self.rubric].needs if self.rubric in RUBRICS else ()
        lacks = (option for option in needs if getattr(self, option) is None)
        found.extend(f"the rubric `{self.rubric}` needs `{option}`" for option in lacks)
        scores = set(self.scores.values())
        if len({reaches(score, self.threshold) for score in scores}) == 1:
            found.append(
                f"no verdict would change anything: all scores are on one side of the threshold {self.threshold:g}"
            )
        return found

    @property
    def scores(self) -> Mapping[str | int, float]:
        """The score of each verdict."""
        if self.scale is not None:
            return {number: (number - 1) / (self.scale - 1) for number in range(1, self.scale + 1)}
        scores: dict[str | int, float] = {}
        scores.update(self.choices or PASS_OR_FAIL)
        return scores

    async def grade_with(self, answer: Answer, models: Models) -> Finding:
        brief = Brief(RUBRICS[self.rubric].text if self.rubric in RUBRICS else self.rubric, list(self.scores))  # type: ignore[arg-type]  # all words or all numbers
        material = material_of(answer, self.reference, self.context)
        first = (answer.request.run - 1) * self.samples * _TRIES + 1
        opinions = [
            await self._opinion(brief, material, answer, models, first + sample * _TRIES)
            for sample in range(self.samples)
        ]
        return self._finding(opinions, _order_in(answer.response))

    async def _opinion(
        self, brief: Brief, material: Mapping[str, Any], answer: Answer, models: Models, run: int
    ) -> Opinion:
        replied = ""
        for attempt in range(_TRIES):
            response = await models.ask(self, judge_request(brief, material, answer, run + attempt))
            replied = response.output
            if (opinion := read_opinion(replied, brief.verdicts)) is not None:
                return opinion
        expected = ", ".join(str(verdict) for verdict in brief.verdicts[:10])
        text = f"the judge gave no verdict that can be read (one of {clip(expected)}): got {quote(replied)}"
        raise GradingError(text, "judge")

    def _finding(self, opinions: Sequence[Opinion], order: str | None) -> Finding:
        verdict = self._majority(opinions)
        score = self.scores[verdict]
        why = next(opinion.reason for opinion in opinions if opinion.verdict == verdict)
        told = f"{self._tally(opinions, verdict)}: {clip(why, _REASON_CHARACTERS) or 'no reason given'}"
        if order is not None:
            told += f" [the answer seems to give orders to its judge: {quote(order, 100)}]"
        return Finding(reaches(score, self.threshold), score, told, orders_judge=order is not None)

    def _majority(self, opinions: Sequence[Opinion]) -> str | int:
        """The verdict of most, the lower score where as many say otherwise; on a scale the (lower) median."""
        if self.scale is not None:
            return sorted(opinion.verdict for opinion in opinions if isinstance(opinion.verdict, int))[
                (len(opinions) - 1) // 2
            ]
        counted = Counter(opinion.verdict for opinion in opinions)
        most = max(counted.values())
        return min((verdict for verdict, count in counted.items() if count == most), key=lambda each: self.scores[each])

    def _tally(self, opinions: Sequence[Opinion], verdict: str | int) -> str:
        """`judged fail`, or `2 of 3 judged fail (1 × pass)`."""
        shown = clip(str(verdict), 60) + (f" of {self.scale}" if self.scale else "")
        counted = Counter(opinion.verdict for opinion in opinions)
        if len(opinions) == 1:
            return f"judged {shown}"
        others = ", ".join(
            f"{count} × {clip(str(each), 60)}" for each, count in counted.most_common() if each != verdict
        )
        return f"{counted[verdict]} of {len(opinions)} judged {shown}" + (f" ({others})" if others else "")


def _ready_name(rubric: str) -> str | None:
    """The ready rubric that a single word was probably meant to name; None for what is one, or says something."""
    if rubric in RUBRICS or len(rubric.split()) != 1:
        return None
    return next(iter(difflib.get_close_matches(rubric.strip().lower(), RUBRICS, n=1, cutoff=0.7)), None)


def _order_in(response: Response) -> str | None:
    """What is said to a judge in any of the answers that it is shown."""
    outputs = [turn.response.output for turn in response.turns] or [response.output]
    return next((order for order in map(talks_to_a_judge, outputs) if order is not None), None)
