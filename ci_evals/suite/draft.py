"""A suite whose parts are read but not yet checked against each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ci_evals.errors import Place
from ci_evals.graders.base import ModelGrader
from ci_evals.graders.scoring import nested
from ci_evals.model.case import Case, Prompt
from ci_evals.model.grading import Expectation
from ci_evals.model.rules import Budget
from ci_evals.providers.base import ProviderOptions
from ci_evals.suite.cases import CaseList
from ci_evals.suite.nodes import Node
from ci_evals.suite.overrides import Overrides
from ci_evals.suite.problems import try_check
from ci_evals.suite.providers import ProviderList, stage_options
from ci_evals.suite.types import Suite, variants_of


class Columns(NamedTuple):
    """The providers and the prompts that a case runs on; none if the suite has no prompts."""

    providers: Sequence[ProviderOptions]
    prompts: Sequence[Prompt]


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A suite whose parts are each valid or invalid by themselves.

    Args:
        node: the suite as it is written; variables are filled in, except in entries of lists.
        settings: its settings; None if one of them is invalid.
        folder: the suite's folder.
        overrides: values of the command line that replace the file's.
        offline: True if nothing will be called.
        providers: the entries of `providers`.
        judges: the entries of `judges`.
        prompts: the valid prompts.
        cases: the cases.
    """

    node: Node
    settings: Suite | None
    folder: Path
    overrides: Overrides
    offline: bool
    providers: ProviderList
    judges: ProviderList
    prompts: tuple[Prompt, ...]
    cases: CaseList

    @cached_property
    def _columns(self) -> dict[tuple[Sequence[str], Sequence[str]], Columns]:
        """The columns of cases, by their `providers` and `prompts`."""
        return {}

    def columns_of(self, case: Case) -> Columns:
        """Return the selected providers and the prompts that a case runs on."""
        choice = (case.providers, case.prompts)
        if choice not in self._columns:
            variants = variants_of(self.providers.selected, self.prompts)
            variants = [variant for variant in variants if case.runs_on(variant)]
            providers = {variant.provider for variant in variants}
            prompts = {variant.prompt for variant in variants}
            self._columns[choice] = Columns(
                [options for options in self.providers.selected if options.name in providers],
                [prompt for prompt in self.prompts if prompt.name in prompts],
            )
        return self._columns[choice]

    @cached_property
    def shares_setup(self) -> bool:
        """True if the suite itself has a setup, which gives vars to all runs."""
        return bool(self.node["setup"].value)

    @cached_property
    def has_setup_of_provider(self) -> bool:
        """True if a selected provider gives vars to its runs."""
        return any(options.setup for options in self.providers.selected)

    @cached_property
    def budget(self) -> Budget:
        """The budget; an empty one if it is invalid."""
        if self.settings is not None and isinstance(self.settings.budget, Budget):
            return self.settings.budget
        return try_check(Budget, self.node["budget"]) or Budget()

    @cached_property
    def stages(self) -> Mapping[str, ProviderOptions]:
        """The provider of each stage that a selected provider names."""
        return stage_options(self.providers.selected, self.providers.by_name)

    @cached_property
    def expectations(self) -> Sequence[tuple[Case, Sequence[Expectation]]]:
        """Every case with its expectations, including the parts of composite ones."""
        return [(case, list(nested(case.expect))) for case in self.cases.cases]

    @cached_property
    def model_graders(self) -> Sequence[tuple[ModelGrader, Place]]:
        """A grader for each way of naming a model, with the place of the first one."""
        by_model: dict[tuple[str | None, bool], tuple[ModelGrader, Place]] = {}
        for case, expectations in self.expectations:
            for expectation in expectations:
                grader = expectation.grader
                if isinstance(grader, ModelGrader):
                    place = expectation.place or Place(case.file, case.line, "expect")
                    by_model.setdefault((grader.provider, grader.embeds), (grader, place))
        return list(by_model.values())

    @cached_property
    def grader_models(self) -> tuple[ProviderOptions, ...]:
        """The judges, and the providers that graders use although they are not selected to run."""
        names = {grader.provider for grader, _ in self.model_graders}
        idle = []
        for name, options in self.providers.by_name.items():
            is_judge = name in self.judges.by_name
            if name in names and not is_judge and not self.providers.is_selected(name):
                idle.append(options)
        return (*self.judges.selected, *idle)

    @cached_property
    def called(self) -> tuple[ProviderOptions, ...]:
        """Everything that a run may call."""
        return (*self.providers.selected, *self.stages.values(), *self.grader_models)

    @cached_property
    def places(self) -> Mapping[str, Place]:
        """The places of providers and stages, by name."""
        return {**self.judges.places, **self.cases.places, **self.providers.places}
