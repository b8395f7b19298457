"""The cells of a plan, each rendered and fingerprinted once for all its runs."""

from dataclasses import dataclass

from ci_evals.graders.scoring import may_grade_slowly
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import RunPlan
from ci_evals.model.request import Request
from ci_evals.model.response import Message
from ci_evals.providers.parts import without_bytes
from ci_evals.suite.fingerprint import provider_identity, question_fingerprint
from ci_evals.suite.rendering import Templates
from ci_evals.suite.types import CheckedSuite

MAX_KEPT = 10_000
"""Cells beyond these are rendered again for each run, so that memory stays bounded."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCell:
    """A cell of the plan, with what all its runs share.

    Args:
        case: its case.
        variant: its provider and prompt.
        input: the rendered prompt, or the input of the case.
        messages: the messages to send.
        kept_messages: the same for the journal, without the content of files.
        question: the fingerprint of the question.
        fingerprint: the fingerprint of the question and of how its answer is judged.
        first_index: the index that run 1 has, or would have, in the plan.
        timeout_s: seconds that a call may take.
        grades_slowly: True if grading may take long.
    """

    case: Case
    variant: Variant
    input: str
    messages: tuple[Message, ...]
    kept_messages: tuple[Message, ...]
    question: str
    fingerprint: str
    first_index: int
    timeout_s: float
    grades_slowly: bool

    def run_of(self, index: int) -> int:
        """Return the number, from 1, of the run at an index of the plan."""
        return index - self.first_index + 1

    def request(self, run: int) -> Request:
        """Return what a provider is sent for a run by its number."""
        return Request(self.input, self.messages, self.case, run, self.timeout_s)


class Cells:
    """Prepares cells of a suite and keeps the first ones."""

    def __init__(self, suite: CheckedSuite, plan: RunPlan) -> None:
        self._suite = suite
        self.plan = plan
        self._templates = Templates(suite.folder)
        self._prompts = {prompt.name: prompt for prompt in suite.prompts}
        self._identities = {
            str(options.name): provider_identity(options) for options in suite.providers
        }
        self._timeouts_s = {
            str(options.name): options.timeout_s or suite.timeout_s for options in suite.providers
        }
        self._kept: dict[int, PreparedCell] = {}

    def of_index(self, index: int) -> PreparedCell:
        """Return the cell of the run at an index of the plan."""
        return self.cell(self.plan.cell_of(index))

    def cell(self, number: int) -> PreparedCell:
        """Return a cell by its number in the plan."""
        cell = self._kept.get(number)
        if cell is None:
            cell = self._prepare(number)
            if self.plan.runs(number) > 1 and len(self._kept) < MAX_KEPT:
                self._kept[number] = cell
        return cell

    def _prepare(self, number: int) -> PreparedCell:
        case = self.plan.case(number)
        variant = self.plan.variant(number)
        prompt = self._prompts[variant.prompt] if variant.prompt else None
        rendered = self._templates.render(prompt, case)
        question = question_fingerprint(case, rendered, self._identities[variant.provider])
        judgement = self._suite.judgement_fingerprint(self.plan.row(number))
        return PreparedCell(
            case=case,
            variant=variant,
            input=rendered.input,
            messages=tuple(rendered.messages),
            kept_messages=without_bytes(rendered.messages),
            question=question,
            fingerprint=f"{question}.{judgement}",
            first_index=self.plan.index(number, 1),
            timeout_s=case.timeout_s or self._timeouts_s[variant.provider],
            grades_slowly=may_grade_slowly(case.expect),
        )
