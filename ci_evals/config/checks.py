"""Checks of settings against each other: each of them may be right, and together they are not."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ci_evals.config.cases import CaseReader
from ci_evals.config.decode import Decoder, unknown
from ci_evals.config.file_types import SuiteEntry
from ci_evals.config.providers import ProviderReader
from ci_evals.config.source import Map, line_of
from ci_evals.errors import Problem
from ci_evals.graders.turn import judging
from ci_evals.model import Case
from ci_evals.prices import has_price
from ci_evals.providers.base import ProviderOptions
from ci_evals.rules import Budget
from ci_evals.suite import overridden_options


def check_gate(
    gate: Any, providers: ProviderReader, cases: CaseReader, found: Sequence[Case], decoder: Decoder
) -> None:
    """A bar for a tag or provider that does not exist would never be missed."""
    if not isinstance(gate, Map):
        return
    if decoder.quietly(gate.get("per_variant"), bool) and gate.get("min_pass_rate") is None:
        text = "needs `min_pass_rate`, the bar to hold them to"
        decoder.problem(line_of(gate, "per_variant"), "gate.per_variant", text)
    if isinstance(metrics := gate.get("metrics"), Map):
        _check_metrics(metrics, _labels(found) if cases.knows_tags else {}, decoder)
    if providers.knows_names:
        _check_bars("provider", gate.get("providers"), providers.names, decoder)
    if cases.knows_tags:
        _check_bars("tag", gate.get("tags"), sorted(cases.tags), decoder)


def _labels(cases: Sequence[Case]) -> Mapping[str, Sequence[str]]:
    """All labels of each classification whose graders list them."""
    from ci_evals.graders.classify import Classify

    expected = (judging(each.grader) for case in cases for each in case.expect)
    graders = [grader for grader in expected if isinstance(grader, Classify)]
    open_ended = {grader.task for grader in graders if not grader.labels}
    found: dict[str, dict[str, None]] = {}
    for grader in graders:
        if grader.task not in open_ended:
            found.setdefault(grader.task, {}).update(dict.fromkeys(grader.labels))
    return {task: tuple(labels) for task, labels in found.items()}


def _check_metrics(bars: Map, labels: Mapping[str, Sequence[str]], decoder: Decoder) -> None:
    from ci_evals.verdict.metric_names import BY_LABEL, WHOLE, read_metric

    for name in bars:
        metric = read_metric(name)
        if metric is None:
            text = f"{name!r} is no metric: {', '.join(WHOLE)}, or {', '.join(BY_LABEL)} of a label: `recall.refund`"
            decoder.problem(line_of(bars, name), "gate.metrics", text)
        elif metric.label is not None and metric.label not in labels.get(metric.task, (metric.label,)):
            text = unknown("label", metric.label, labels[metric.task])
            decoder.problem(line_of(bars, name), f"gate.metrics.{name}", text)


def _check_bars(noun: str, bars: Any, known: Sequence[str], decoder: Decoder) -> None:
    for name in bars if isinstance(bars, Map) else ():
        if name not in known:
            decoder.problem(line_of(bars, name), f"gate.{noun}s", unknown(noun, name, known))


def check_tags(selected: Sequence[str] | None, cases: CaseReader, line: int | None, decoder: Decoder) -> None:
    """A tag that no case has would select nothing."""
    if selected is not None and not selected:
        decoder.problem(line, "--tags", f"none is named; known: {', '.join(sorted(cases.tags)) or 'none'}")
    for tag in selected or ():
        if cases.knows_tags and tag not in cases.tags:
            decoder.problem(line, "--tags", unknown("tag", tag, sorted(cases.tags)))


def check_prices(
    budget: Any,
    line: int | None,
    cases: Sequence[Case],
    providers: Sequence[ProviderOptions],
    others: Iterable[ProviderOptions],
    decoder: Decoder,
) -> None:
    """A budget in USD is worth nothing if what answers cost is not known: those of `providers` and of whoever else."""
    limits = decoder.quietly(budget, Budget)
    counts = limits is not None and limits.counts_cost
    if not counts and not any(case.allowance and case.allowance.max_cost_usd for case in cases):
        return
    unknown_prices = {
        f"{provider.name or provider.default_name}{f' with {model}' if model else ''}": None
        for provider, model in (*((provider, None) for provider in (*providers, *others)), *_asked_by(cases, providers))
        if not provider.own_code and not has_price(provider)
    }
    for name in unknown_prices:
        text = f"counts USD, and the price of {name} is not known: give the provider a `price`"
        decoder.problem(line, "budget", text)


def _asked_by(
    cases: Sequence[Case], providers: Sequence[ProviderOptions]
) -> Iterator[tuple[ProviderOptions, str | None]]:
    """What single cases ask: their users, and providers with a model of their own, which is given beside."""
    for case in cases:
        if case.user is not None:
            yield case.user.provider, None
        if case.overrides.model is not None:
            for provider in providers:
                if "model" in provider.__struct_fields__:
                    yield overridden_options(provider, case.overrides), case.overrides.model


def check_runs(entry: SuiteEntry | None, line: int | None, decoder: Decoder) -> None:
    """A suite never runs a cell less often than it says."""
    if entry is not None and entry.max_runs is not None and entry.max_runs < entry.runs:
        text = f"{entry.max_runs} is less than `runs: {entry.runs}`: it says how far to go on after these"
        decoder.problem(line, "max_runs", text)


def task_misfits(cases: Sequence[Case], providers: Sequence[ProviderOptions]) -> Iterator[Problem]:
    """Tasks whose provider cannot work on them, and cases that are none for a provider that needs one."""
    for case in cases:
        for options in providers:
            if case.task and not case.cassette and not options.works_on_tasks:
                text = f"is a task, which {options.name} cannot work on: use a provider of `type: task`"
            elif case.task is None and not case.cassette and options.works_on_tasks:
                text = (
                    f"is no task folder, and {options.name} works on nothing else: name it under `cases: {{tasks: …}}`"
                )
            else:
                continue
            yield Problem(case.file, case.line, f"case {case.id!r}", text)
