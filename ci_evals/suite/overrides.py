"""Values of the command line or the environment that replace those of the file."""

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ci_evals.errors import UsageError
from ci_evals.executors import ExecutorOptions
from ci_evals.format import number_of
from ci_evals.graders.scoring import nested
from ci_evals.model.case import Case, Variant
from ci_evals.model.rules import ConfirmRuns, Gate, read_metric
from ci_evals.suite.problems import unknown
from ci_evals.suite.types import CheckedSuite, Reuse


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Values of the command line or the environment that replace the file's, unless None.

    Some select what is run: `providers` by name; cases with one of `tags` and with an id or a
    pattern of ids in `cases`; of these the `first` n, and a random `sample` of n.
    """

    runs: int | None = None
    max_runs: int | None = None
    confirm_runs: ConfirmRuns | None = None
    max_concurrency: int | None = None
    timeout_s: float | None = None
    retries: int | None = None
    seed: int | None = None
    out: Path | None = None
    executor: ExecutorOptions | None = None
    reuse: bool | None = None
    label: str | None = None
    providers: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    cases: tuple[str, ...] | None = None
    first: int | None = None
    sample: int | None = None


ALL_CASES: dict[str, None] = {"tags": None, "cases": None, "first": None, "sample": None}
"""The overrides that select no cases."""
_ELSEWHERE = {"out", "executor", "label", "seed", "reuse", "providers", *ALL_CASES}
"""The overrides that are no top-level keys of a suite."""


def apply_overrides(suite: CheckedSuite, overrides: Overrides) -> CheckedSuite:
    """Return a suite with values replaced, restricted to the selected providers and cases.

    Bars of the gate for anything else are removed.

    Raises:
        UsageError: the suite does not have a provider, tag or case that is named.
    """
    changes: dict[str, Any] = {}
    for field in fields(overrides):
        value = getattr(overrides, field.name)
        if value is not None and field.name not in _ELSEWHERE:
            changes[field.name] = value
    if overrides.out is not None:
        changes["report"] = replace(suite.report, out=overrides.out.as_posix())
    settings: dict[str, Any] = {}
    for name in ("label", "seed"):
        value = getattr(overrides, name)
        if value is not None:
            settings[name] = value
    if overrides.executor is not None:  # options that only the file has still apply
        settings["executor"] = overrides.executor.filled_from(suite.executor)
    if settings:
        changes["settings"] = replace(suite.settings, **settings)
    if overrides.reuse is False:
        changes["reuse"] = None
    elif overrides.reuse and suite.reuse is None:
        changes["reuse"] = Reuse()
    suite = replace(suite, **changes)
    check_selection((suite,), overrides)
    providers = suite.providers
    if overrides.providers is not None:
        names = [str(provider.name) for provider in providers]
        _check("provider", overrides.providers, names)
        providers = tuple(each for each in providers if each.name in overrides.providers)
    suite = replace(suite, providers=providers)
    cases = select_cases(suite, overrides)
    is_part = len(cases) < len(suite.cases)
    gate = suite.gate
    if gate is not None:
        variants = replace(suite, cases=cases).columns
        gate = _restrict_gate(gate, variants, cases, all_cases=not is_part)
    selection = suite.selection
    if is_part:
        total = number_of(len(suite.cases), "case")
        selection = f"{len(cases):,} of {total}"
    return replace(suite, cases=cases, gate=gate, selection=selection)


def _restrict_gate(
    gate: Gate, variants: Sequence[Variant], cases: Sequence[Case], *, all_cases: bool
) -> Gate:
    """Return the gate without the bars for anything that is not selected."""
    names = {variant.provider for variant in variants}
    bars = {name: bar for name, bar in gate.providers.items() if name in names}
    known_tags = _tags_of(cases)
    tags = {tag: rule for tag, rule in gate.tags.items() if tag in known_tags}
    metrics = gate.metrics
    if not all_cases:
        metrics = {name: bar for name, bar in metrics.items() if _is_measured(name, cases)}
    return replace(gate, providers=bars, tags=tags, metrics=metrics)


def _tags_of(cases: Iterable[Case]) -> set[str]:
    tags: set[str] = set()
    for case in cases:
        tags.update(case.tags)
    return tags


def _is_measured(name: str, cases: Iterable[Case]) -> bool:
    """Return True if a grader of these cases counts for a metric, or expects its label."""
    from ci_evals.graders.classify import Classify

    metric = read_metric(name)
    for case in cases:
        for expectation in nested(case.expect):
            if expectation.metric == name:
                return True
            grader = expectation.grader
            if metric is None or not isinstance(grader, Classify):
                continue
            if grader.task == metric.task and metric.label in (None, grader.label):
                return True
    return False


def check_selection(suites: Sequence[CheckedSuite], overrides: Overrides) -> None:
    """Refuse a selection with a tag or a case that none of the suites has.

    Raises:
        UsageError: a name is unknown, or nothing is selected.
    """
    cases: list[Case] = []
    for suite in suites:
        cases += suite.cases
    _check("tag", overrides.tags or (), sorted(_tags_of(cases)))
    ids = dict.fromkeys(case.id for case in cases)
    for name in overrides.cases or ():
        fits_pattern = _is_pattern(name) and any(fnmatchcase(each, name) for each in ids)
        if name not in ids and not fits_pattern:
            text = unknown("case", name, ids)
            if overrides.providers is not None and any(suite.selection for suite in suites):
                text += "; cases that run on none of the providers of --providers are left out"
            raise UsageError(text)
    if not any(select_cases(suite, overrides) for suite in suites):
        if overrides.tags is None and overrides.cases is None:
            raise UsageError("nothing is selected: no case runs on the providers of --providers")
        raise UsageError("nothing is selected: no case fits all that --tags and --case ask for")


def select_cases(suite: CheckedSuite, overrides: Overrides) -> Sequence[Case]:
    """Return the selected cases of a suite that run on at least one of its providers."""
    cases: list[Case] = []
    for case in suite.cases:
        chooses = bool(case.providers or case.prompts)
        if not chooses or any(case.runs_on(variant) for variant in suite.columns):
            cases.append(case)
    if overrides.tags is not None:
        tags = set(overrides.tags)
        cases = [case for case in cases if not tags.isdisjoint(case.tags)]
    if overrides.cases is not None:
        ids = {case.id for case in suite.cases}
        chosen = ids.intersection(overrides.cases)
        for name in overrides.cases:
            if name not in ids and _is_pattern(name):
                chosen.update(each for each in ids if fnmatchcase(each, name))
        cases = [case for case in cases if case.id in chosen]
    cases = cases[: overrides.first]
    if overrides.sample is not None and overrides.sample < len(cases):
        # The same sample in every run, in the order of the file: a baseline of it can be compared.
        generator = random.Random(suite.settings.seed)  # noqa: S311  no secret
        numbers = generator.sample(range(len(cases)), overrides.sample)
        cases = [cases[number] for number in sorted(numbers)]
    return tuple(cases)


def _is_pattern(name: str) -> bool:
    return any(character in name for character in "*?[")


def _check(noun: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(unknown(noun, name, known))
