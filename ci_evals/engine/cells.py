"""The cells of a plan, each rendered and fingerprinted once for all its runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ci_evals.graders.scoring import may_grade_slowly
from ci_evals.model.case import Case, Fixture, Prompt, Variant
from ci_evals.model.fingerprint import encode
from ci_evals.model.plan import RunPlan
from ci_evals.model.request import Request
from ci_evals.model.response import Message
from ci_evals.model.result import Result
from ci_evals.providers.parts import without_bytes
from ci_evals.suite.cases import fill_expectation
from ci_evals.suite.fingerprint import (
    provider_identity,
    question_fingerprint,
    setup_identity,
)
from ci_evals.suite.rendering import Templates, names_without_value, unfilled
from ci_evals.suite.types import CheckedSuite

MAX_KEPT = 10_000
"""Further cells are rendered again for each run, so that memory stays bounded."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCell:
    """A cell of the plan: everything that its runs share.

    Args:
        case: its case.
        variant: its provider and prompt.
        input: the rendered prompt, or the input of the case.
        messages: the messages to send.
        kept_messages: the messages for the journal, without the content of files.
        question: the fingerprint of the question.
        fingerprint: the fingerprint of the question and of how its answer is judged.
        first_index: the index that run 1 has, or would have, in the plan.
        timeout_s: seconds that a call may take.
        grades_slowly: True if grading may take long.
        keeps_thoughts: True if the thoughts of a model are part of its answer.
        setup: the fixtures of its runs, in the order of the suite, the provider and the case.
        setup_vars: the vars that the fixtures of one run returned; None for a cell of all runs.
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
    keeps_thoughts: bool = False
    setup: tuple[Fixture, ...] = ()
    setup_vars: Mapping[str, Any] | None = None

    def run_of(self, index: int) -> int:
        """Return the number, from 1, of the run at an index of the plan."""
        return index - self.first_index + 1

    def request(self, run: int) -> Request:
        """Return the request to the provider for the run with this number."""
        return Request(self.input, self.messages, self.case, run, self.timeout_s)


class Cells:
    """Prepares the cells of a suite, and keeps up to `MAX_KEPT` of them."""

    def __init__(self, suite: CheckedSuite, plan: RunPlan) -> None:
        self._suite = suite
        self.plan = plan
        self._templates = Templates(suite.folder)
        self._prompts = {prompt.name: prompt for prompt in suite.prompts}
        self._setups = {str(options.name): options.setup for options in suite.providers}
        self._identities = {
            str(options.name): provider_identity(options) for options in suite.providers
        }
        if suite.setup:  # mixed in only here, so that a suite without one keeps its fingerprints
            shared = setup_identity(suite.setup)
            for name, identity in self._identities.items():
                self._identities[name] = encode([identity, shared])
        self._timeouts_s = {
            str(options.name): options.timeout_s or suite.timeout_s for options in suite.providers
        }
        self._keeping_thoughts = {
            options.name for options in suite.providers if options.thoughts == "keep"
        }
        self._kept: dict[int, PreparedCell] = {}

    @cached_property
    def sharing_setup(self) -> frozenset[int]:
        """The cells whose runs share a fixture that no other cell has."""
        numbers = []
        for number in range(len(self.plan)):
            setup = self._setup_of(number)
            if any(fixture.scope == "case" for fixture in setup):
                numbers.append(number)
        return frozenset(numbers)

    def _setup_of(self, number: int) -> tuple[Fixture, ...]:
        provider = self.plan.variant(number).provider
        case = self.plan.case(number)
        return (*self._suite.setup, *self._setups[provider], *case.setup)

    def of_index(self, index: int) -> PreparedCell:
        """Return the cell of the run at an index of the plan."""
        return self.cell(self.plan.cell_of(index))

    def cell(self, number: int) -> PreparedCell:
        """Return a cell by its number in the plan."""
        cell = self._kept.get(number)
        if cell is None:
            cell = self._prepare(number)
            # A cell with a single run is asked for once.
            if self.plan.runs(number) > 1 and len(self._kept) < MAX_KEPT:
                self._kept[number] = cell
        return cell

    def _prepare(self, number: int) -> PreparedCell:
        case = self.plan.case(number)
        variant = self.plan.variant(number)
        prompt = None
        if variant.prompt:
            prompt = self._prompts[variant.prompt]
        setup = self._setup_of(number)
        # Vars of a setup are known only during a run. The fingerprint is of the template then: a
        # database in another folder does not make another question.
        if setup and prompt is not None and names_without_value(prompt, case):
            rendered = unfilled(prompt, case)
        else:
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
            keeps_thoughts=variant.provider in self._keeping_thoughts,
            setup=setup,
        )

    def fill(
        self, cell: PreparedCell, values: Mapping[str, Any], kept: Mapping[str, Any]
    ) -> PreparedCell:
        """Return the cell of one run, its prompt and graders filled in with the vars of its setup.

        Args:
            cell: the cell.
            values: the vars.
            kept: the vars that are kept with the result.

        Raises:
            Exception: a template does not fit the vars: `ValueError`, or anything that Jinja2
                raises.
        """
        case = self._fill_case(cell.case, values)
        rendered = self._templates.render(self._prompt_of(cell.variant), case)
        return replace(
            cell,
            case=case,
            input=rendered.input,
            messages=tuple(rendered.messages),
            kept_messages=without_bytes(rendered.messages),
            setup_vars=kept,
        )

    def fill_recorded(
        self, cell: PreparedCell, recorded: Result, values: Mapping[str, Any]
    ) -> PreparedCell:
        """Return the cell of a recorded run. Its question is filled in if the kept vars suffice;
        the messages that were sent stay.

        Args:
            cell: the cell.
            recorded: the result of the run.
            values: the vars of its setup that were kept.

        Raises:
            Exception: a grader needs a var that was not kept; see `fill`.
        """
        case = self._fill_case(cell.case, values)
        prompt = self._prompt_of(cell.variant)
        if not names_without_value(prompt, case):
            rendered = self._templates.render(prompt, case)
            cell = replace(cell, input=rendered.input, messages=tuple(rendered.messages))
        return replace(
            cell,
            case=case,
            kept_messages=recorded.messages or cell.kept_messages,
            setup_vars=values,
        )

    def _prompt_of(self, variant: Variant) -> Prompt | None:
        if variant.prompt:
            return self._prompts[variant.prompt]
        return None

    def _fill_case(self, case: Case, values: Mapping[str, Any]) -> Case:
        filled = replace(case, vars={**case.vars, **values})
        transform = self._suite.transform
        expect = [
            fill_expectation(expectation, filled, self._templates, transform)
            for expectation in case.expect
        ]
        return replace(filled, expect=tuple(expect))
