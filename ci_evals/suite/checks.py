"""Checks settings against each other: each may be right by itself and wrong beside another."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ci_evals.errors import Place, Problem
from ci_evals.format import closest
from ci_evals.graders.base import ModelGrader
from ci_evals.graders.classify import Classify
from ci_evals.graders.scoring import leaves, nested
from ci_evals.model.case import NO_OVERRIDES, Case
from ci_evals.model.fields import Bool
from ci_evals.model.response import Detail
from ci_evals.model.rules import BY_LABEL, USUAL_TASK, WHOLE, Budget, read_metric
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.pricing import has_price
from ci_evals.suite.cases import CaseReader
from ci_evals.suite.dependencies import fits_any_file
from ci_evals.suite.executor import ExecutorOptions
from ci_evals.suite.fingerprint import apply_case_overrides
from ci_evals.suite.keys import keys_of
from ci_evals.suite.problems import Written, and_more, problems_of_cases, try_check, unknown
from ci_evals.suite.providers import ProviderReader
from ci_evals.suite.types import CheckedSuite, Suite


def gate_problems(
    gate: Written, providers: ProviderReader, reader: CaseReader, cases: Sequence[Case]
) -> Iterator[Problem]:
    """Find bars that could never be missed: for a tag, provider, label or metric that does not
    exist.
    """
    if try_check(Bool, gate["per_variant"]) and gate["min_pass_rate"].value is None:
        yield gate["per_variant"].problem("needs `min_pass_rate`, the bar to hold them to")
    if reader.knows_tags and reader.knows_graders:  # else not all graders are known
        yield from _metric_problems(gate["metrics"], cases)
    if providers.knows_names:
        yield from _bar_problems("provider", gate["providers"], providers.names)
    if reader.knows_tags:
        yield from _bar_problems("tag", gate["tags"], sorted(reader.tags))


def _labels(cases: Sequence[Case]) -> Mapping[str, Sequence[str]]:
    """Return all labels of each classification whose graders list them."""
    expected = (each.grader for case in cases for each in leaves(case.expect))
    graders = [grader for grader in expected if isinstance(grader, Classify)]
    open_ended = {grader.task for grader in graders if not grader.labels}
    found: dict[str, dict[str, None]] = {}
    for grader in graders:
        if grader.task not in open_ended:
            found.setdefault(grader.task, {}).update(dict.fromkeys(grader.labels))
    return {task: tuple(labels) for task, labels in found.items()}


def _metric_problems(bars: Written, cases: Sequence[Case]) -> Iterator[Problem]:
    labels = _labels(cases)
    named = {each.metric for case in cases for each in nested(case.expect) if each.metric}
    graders = (each.grader for case in cases for each in leaves(case.expect))
    tasks = {grader.task for grader in graders if isinstance(grader, Classify)}
    for name in bars.value if isinstance(bars.value, Mapping) else ():
        metric = read_metric(name)
        if name in named:
            if metric is not None and metric.task in tasks:
                text = f"{name!r} is a metric of `classify` and the `metric` of another grader: give that another name"
                yield bars[name].problem(text)._replace(path=bars.path)
        elif metric is None:
            close = closest(name, (*named, *WHOLE))
            hint = (
                f", did you mean {close!r}?"
                if close
                else f" of a grader ({', '.join(sorted(named)) or 'none'})"
            )
            known = f"{', '.join(WHOLE)}, or {', '.join(BY_LABEL)} of a label: `recall.refund`"
            text = f"{name!r} is no `metric`{hint}" + (
                "" if close else f" or of `classify`: {known}"
            )
            yield bars[name].problem(text)._replace(path=bars.path)
        elif metric.task not in tasks:
            task = "" if metric.task == USUAL_TASK else f" with the task {metric.task!r}"
            text = f"{name!r} is a metric of `classify`, and no case expects one{task}"
            yield bars[name].problem(text)._replace(path=bars.path)
        elif metric.label is not None and metric.label not in labels.get(
            metric.task, (metric.label,)
        ):
            yield bars[name].problem(unknown("label", metric.label, labels[metric.task]))


def _bar_problems(noun: str, bars: Written, known: Sequence[str]) -> Iterator[Problem]:
    for name in bars.value if isinstance(bars.value, Mapping) else ():
        if name not in known:
            yield bars[name].problem(unknown(noun, name, known))._replace(path=bars.path)


def tag_problems(
    selected: Sequence[str] | None, reader: CaseReader, cases: Written
) -> Iterator[Problem]:
    """Find selected tags that no case has."""
    if selected is not None and not selected:
        text = f"none is named; known: {', '.join(sorted(reader.tags)) or 'none'}"
        yield cases.problem(text)._replace(path="--tags")
    for tag in selected or ():
        if reader.knows_tags and tag not in reader.tags:
            yield cases.problem(unknown("tag", tag, sorted(reader.tags)))._replace(path="--tags")


def price_problems(
    budget: Written,
    cases: Sequence[Case],
    providers: Sequence[ProviderOptions],
    others: Iterable[ProviderOptions],
) -> Iterator[Problem]:
    """Find what answers at an unknown price, where a budget counts USD: of `providers`, or of
    whoever else is asked.
    """
    if not _counts_usd(budget, cases):
        return
    asked = (
        *((provider, None) for provider in (*providers, *others)),
        *_asked_by(cases, providers),
    )
    names = {
        f"{provider.name or provider.default_name}{f' with {model}' if model else ''}": None
        for provider, model in asked
        if not provider.own_code and not has_price(provider)
    }
    for name in names:
        yield budget.problem(
            f"counts USD, and the price of {name} is not known: give the provider a `price`"
        )


def _counts_usd(budget: Written, cases: Iterable[Case]) -> bool:
    limits = try_check(Budget, budget)
    counts = limits is not None and limits.counts_cost
    return counts or any(case.budget and case.budget.max_cost_usd for case in cases)


def needs_problems(
    budget: Written,
    cases: Sequence[Case],
    providers: Sequence[ProviderOptions],
    places: Mapping[str, Place],
) -> Iterator[Problem]:
    """Find graders that need what a provider never tells of its answers: cost, steps, context or
    first token.
    """
    priced = _counts_usd(budget, cases)  # a price that is not known is a problem already
    found: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        needing = {
            need: each.name
            for each in leaves(case.expect)
            if (need := getattr(each.grader, "needs", None))
        }
        for options in providers if needing and not case.cassette else ():
            asked = apply_case_overrides(options, case.overrides)
            for need, name in needing.items():
                if lack := _lack_of(need, asked, priced=priced):
                    found.setdefault((str(options.name), f"`{name}` {lack}"), []).append(case)
    for (provider, text), (first, *others) in found.items():
        yield Problem(*places[provider], f"{text} (case {first.id!r}{and_more(len(others))})")


def _lack_of(detail: Detail, options: ProviderOptions, *, priced: bool) -> str | None:
    """Say why a detail of a provider's answers will not be known; None if it may be, or if that is
    told elsewhere.
    """
    name, keys = options.name, keys_of(type(options))
    if detail in options.details:
        if detail != "cost" or priced or options.own_code or has_price(options):
            return None
        return f"needs the cost of an answer, and the price of {name} is not known: give the provider a `price`"
    match detail:
        case "cost":
            where = ": say with `cost_usd` or `usage` where they are" if "cost_usd" in keys else ""
            return f"needs the cost of an answer, and {name} tells neither that nor tokens{where}"
        case "context":
            where = "say with `context` where its answers have it, or " if "context" in keys else ""
            text = f"needs what was retrieved for an answer, which {name} does not tell"
            return f"{text}: {where}give the grader a `context`"
        case "steps":
            return f"needs the steps towards an answer, which {name} does not tell"
        case "first_token":
            return (
                f"needs the time to the first token, and {name} does not stream: give it `stream`"
            )


def _asked_by(
    cases: Sequence[Case], providers: Sequence[ProviderOptions]
) -> Iterator[tuple[ProviderOptions, str | None]]:
    """Yield what single cases ask: their users, and providers with the case's own model, which is
    given beside.
    """
    for case in cases:
        if case.user is not None:
            yield case.user.provider, None
        if case.overrides.model is not None:
            for provider in providers:
                if "model" in keys_of(type(provider)):
                    yield apply_case_overrides(provider, case.overrides), case.overrides.model


MAX_PLANNED_RUNS = 10_000_000
"""More would take weeks, and more memory than a CI job has."""


def size_problem(suite: CheckedSuite, runs: Written) -> Problem | None:
    """Find a plan that no job can carry out: a slip of the keyboard."""
    most = max(suite.runs, suite.max_runs or 0)
    planned = sum(case.runs or most for case in suite.cases) * len(suite.columns)
    if planned <= MAX_PLANNED_RUNS:
        return None
    cells = len(suite.cases) * len(suite.columns)
    text = f"{planned:,} runs are planned, and {MAX_PLANNED_RUNS:,} fit: at most {MAX_PLANNED_RUNS // cells:,} per cell"
    return runs.problem(text)


def runs_problems(settings: Suite | None, max_runs: Written) -> Iterator[Problem]:
    """Find a `max_runs` below `runs`."""
    if settings is not None and settings.max_runs is not None and settings.max_runs < settings.runs:
        text = f"{settings.max_runs} is less than `runs: {settings.runs}`: it says how far to go on after these"
        yield max_runs.problem(text)


def executor_problems(
    options: ExecutorOptions,
    written: Written,
    cases: Sequence[Case],
    folder: Path,
    *,
    is_called: bool,
) -> Iterator[Problem]:
    """Find an executor that cannot be used.

    Args:
        options: the executor.
        written: its place.
        cases: the suite's cases.
        folder: the suite's folder.
        is_called: False where nothing will run there.
    """
    for keys, text in options.problems(folder, cases, is_called=is_called):
        place = written
        for key in keys:
            place = place[key]
        yield place.problem(text)


def paths_problems(
    settings: Suite | None, written: Written, called: Iterable[ProviderOptions], folder: Path
) -> Iterator[Problem]:
    """Find a suite that could be skipped although code that it does not name, or misspells, has
    changed.
    """
    if settings is None:
        return
    own = next((options for options in called if options.own_code or options.serve), None)
    if settings.skip_unchanged and not settings.paths and own is not None:
        subject = own.name if own.own_code else f"the service of {own.name}"
        text = (
            f"{subject} is your own code: name its files in `paths`, or changes to them are skipped"
        )
        yield written["skip_unchanged"].problem(text)
    elif settings.paths and not settings.skip_unchanged:
        yield written["paths"].problem("these are for `skip_unchanged: true`, which is not set")
    elif settings.skip_unchanged:
        for index, pattern in enumerate(settings.paths):
            if not fits_any_file(pattern, folder):
                start = "the root of the repository" if pattern.startswith("/") else str(folder)
                yield written["paths"][index].problem(
                    f"{pattern!r} fits no file (looked in {start})"
                )


def task_problems(cases: Sequence[Case], providers: Sequence[ProviderOptions]) -> Iterator[Problem]:
    """Find tasks whose provider cannot work on them, and cases that are none for one that works on
    nothing else.
    """
    return problems_of_cases(_task_misfits(cases, providers))


def _task_misfits(
    cases: Sequence[Case], providers: Sequence[ProviderOptions]
) -> Iterator[tuple[Case, str, str]]:
    for case in cases:
        for options in providers:
            if case.task and not case.cassette and not options.works_on_tasks:
                text = f"is a task, which {options.name} cannot work on: use a provider of `type: task`"
            elif case.task is None and not case.cassette and options.works_on_tasks:
                remedy = "name it under `cases: {tasks: …}`"
                text = f"is not a task folder, and {options.name} works on nothing else: {remedy}"
            else:
                continue
            yield case, "", text


def service_problems(
    called: Iterable[ProviderOptions], places: Mapping[str, Place]
) -> Iterator[Problem]:
    """Find services that are to answer at the same address."""
    seen: dict[str, ProviderOptions] = {}
    for options in called:
        if options.serve is None:
            continue
        other = seen.setdefault(options.serve.url, options)
        if options.serve != other.serve and (place := places.get(str(options.name))):
            text = f"{other.name} has another service at {options.serve.url}: give one of them another port, or both"
            yield Problem(place.file, place.line, f"{place.path}.serve", f"{text} the same `serve`")


def override_problems(
    cases: Sequence[Case], providers: Sequence[ProviderOptions], folder: Path
) -> Iterator[Problem]:
    """Find settings of cases that no provider takes, or that one refuses."""
    return problems_of_cases(_override_misfits(cases, providers, folder))


def _override_misfits(
    cases: Sequence[Case], providers: Sequence[ProviderOptions], folder: Path
) -> Iterator[tuple[Case, str, str]]:
    changing = [case for case in cases if case.overrides != NO_OVERRIDES and not case.cassette]
    unchanged = [(options, options.problems(folder)) for options in providers] if changing else []
    for case in changing:
        overrides = case.overrides
        for name in ("model", "params"):
            taken = any(each.own_code or name in keys_of(type(each)) for each in providers)
            if getattr(overrides, name) and providers and not taken:
                kinds = ", ".join(sorted({each.kind for each in providers}))
                text = f"no provider of the suite has a setting {name!r} (they are of type {kinds})"
                yield case, f"overrides.{name}", text
        for options, known_problems in unchanged:
            changed = apply_case_overrides(options, overrides)
            for message in changed.problems(folder) if changed is not options else ():
                if message not in known_problems:
                    text = f"{message} (with provider {options.name})"
                    yield case, "overrides", text


def stage_problems(
    stages: Mapping[str, ProviderOptions],
    providers: Sequence[str],
    places: Mapping[str, Place],
    folder: Path,
) -> Iterator[Problem]:
    """Find stages that are neither a provider, by one of the names `providers`, nor a function that
    is there.
    """
    for name, stage in stages.items():
        if name in providers or getattr(stage, "target", None) != name:
            continue
        if ":" in name:
            yield from (Problem(*places[name], message) for message in stage.problems(folder))
        else:
            text = unknown("provider", name, providers)
            yield Problem(*places[name], f"{text}; or name a function, as in speech:synthesize")


def model_graders(cases: Iterable[Case]) -> list[tuple[ModelGrader, Place]]:
    """Return a grader for each way of naming a model, with the place of the first one."""
    found: dict[tuple[str | None, bool], tuple[ModelGrader, Place]] = {}
    for case in cases:
        for expectation in leaves(case.expect):
            if isinstance(grader := expectation.grader, ModelGrader):
                place = expectation.place or Place(case.file, case.line, "expect")
                found.setdefault((grader.provider, grader.embeds), (grader, place))
    return list(found.values())


def judge_problem(
    grader: ModelGrader, judges: Sequence[ProviderOptions], models: Sequence[ProviderOptions]
) -> str | None:
    """Say why a grader has no model to ask; None if it has one.

    Args:
        grader: what asks.
        judges: the models among which the only one need not be named.
        models: all that may be named.
    """
    kind = "an `embeddings` model" if grader.embeds else "a model that answers with text"
    if grader.provider is None:
        fitting = [str(judge.name) for judge in judges if judge.embeds == grader.embeds]
        if len(fitting) == 1:
            return None
        if fitting:
            return f"name one of the judges with `provider`: {', '.join(fitting)}"
        return f"needs {kind}: add one to `judges`, or name one of the providers with `provider`"
    named = next((model for model in models if model.name == grader.provider), None)
    if named is None:
        return unknown("judge", grader.provider, [str(model.name) for model in models])
    return None if named.embeds == grader.embeds else f"needs {kind}, and {grader.provider} is none"
