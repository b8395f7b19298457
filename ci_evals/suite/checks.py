"""Checks that the parts of a suite, each valid by itself, fit together."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from ci_evals.errors import Place, Problem
from ci_evals.executors import ExecutorOptions
from ci_evals.format import closest
from ci_evals.graders.base import ModelGrader
from ci_evals.model.case import NO_OVERRIDES, Case, Fixture
from ci_evals.model.fields import Bool
from ci_evals.model.request import Request
from ci_evals.model.response import Detail, Message
from ci_evals.model.rules import BY_LABEL, USUAL_TASK, WHOLE, read_metric
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.parts import message_fields
from ci_evals.providers.pricing import has_price
from ci_evals.suite.draft import Draft
from ci_evals.suite.fingerprint import apply_case_overrides
from ci_evals.suite.keys import keys_of
from ci_evals.suite.nodes import Node
from ci_evals.suite.overrides import Overrides
from ci_evals.suite.problems import and_more, problems_of_cases, try_check, unknown
from ci_evals.suite.rendering import Templates, names_without_value, variables
from ci_evals.suite.types import Against, CheckedSuite, Settings, variants_of
from ci_evals.templating import describe_error

MAX_PLANNED_RUNS = 10_000_000
"""More would take weeks, and more memory than a CI job has."""
_ANY_LINE = "…"  # stands in for the words of a simulated user


def check_names(draft: Draft) -> Iterator[Problem]:
    """Find judges with the name of a provider."""
    for name in sorted({*draft.judges.names} & {*draft.providers.names}):
        text = f"{name!r} is also the name of a provider: rename the judge"
        yield draft.node["judges"].problem(text)


def check_choices(draft: Draft) -> Iterator[Problem]:
    """Find choices of a case or a provider that name an unknown provider or prompt."""
    written = draft.node["prompts"].value
    if written and (not isinstance(written, list) or len(draft.prompts) < len(written)):
        return  # an invalid prompt may be the one that is named
    prompts = [prompt.name for prompt in draft.prompts]
    lacks = []
    for options in draft.providers.selected:
        place = draft.places[str(options.name)]
        unknown_names = [name for name in options.prompts if name not in prompts]
        texts = [unknown("prompt", name, prompts) for name in unknown_names]
        lacks += [Problem(*place, f"prompts: {text}") for text in texts]
    lacks += problems_of_cases(_unknown_choices(draft, prompts))
    yield from lacks or problems_of_cases(_idle_cases(draft))


def _unknown_choices(draft: Draft, prompts: Sequence[str]) -> Iterator[tuple[Case, str, str]]:
    for case in draft.cases.cases:
        for name in case.providers:
            if name not in draft.providers.names:
                yield case, "providers", unknown("provider", name, draft.providers.names)
        for name in case.prompts:
            if name not in prompts:
                yield case, "prompts", unknown("prompt", name, prompts)


def _idle_cases(draft: Draft) -> Iterator[tuple[Case, str, str]]:
    """Yield the cases that run on no variant."""
    variants = variants_of(draft.providers.by_name.values(), draft.prompts)
    for case in draft.cases.cases:
        chooses = bool(case.providers or case.prompts)
        if chooses and not any(case.runs_on(variant) for variant in variants):
            yield case, "", "runs on nothing: none of its `providers` has one of its `prompts`"


def check_idle_providers(draft: Draft) -> Iterator[Problem]:
    """Check unselected providers that are used as users, judges or stages."""
    graders = [str(grader.provider) for grader, _ in draft.model_graders]
    needed = {*draft.stages, *draft.cases.users, *graders}
    for name in needed.intersection(draft.providers.names):
        if not draft.providers.is_selected(name):
            yield from draft.providers.find(name).problems


def check_stages(draft: Draft) -> Iterator[Problem]:
    """Find stages that are neither a provider nor a function that exists."""
    names = draft.providers.names
    for name, stage in draft.stages.items():
        if name in names or getattr(stage, "target", None) != name:
            continue
        place = draft.providers.places[name]
        if ":" in name:
            for message in stage.problems(draft.folder):
                yield Problem(*place, message)
        else:
            text = unknown("provider", name, names)
            yield Problem(*place, f"{text}; or name a function, as in speech:synthesize")


def check_services(draft: Draft) -> Iterator[Problem]:
    """Find different services with the same address."""
    first: dict[str, ProviderOptions] = {}
    for options in draft.called:
        if options.serve is None:
            continue
        other = first.setdefault(options.serve.url, options)
        place = draft.places.get(str(options.name))
        if options.serve != other.serve and place is not None:
            yield Problem(
                place.file,
                place.line,
                f"{place.path}.serve",
                f"{other.name} has another service at {options.serve.url}:"
                " give one of them another port, or both the same `serve`",
            )


def check_against(draft: Draft) -> Iterator[Problem]:
    """Find a command of `against.prepare` that cannot be run."""
    settings = draft.settings
    if settings is None or not isinstance(settings.against, Against):
        return
    if settings.against.prepare is not None:
        from ci_evals.providers.command_line import command_problems

        for text in command_problems(settings.against.prepare, "prepare"):
            yield draft.node["against"].problem(text)


def check_judges(draft: Draft) -> Iterator[Problem]:
    """Find graders without a model."""
    wrong_judges = {*draft.judges.names} - draft.judges.by_name.keys()
    wrong = wrong_judges | ({*draft.providers.names} - draft.providers.by_name.keys())
    for grader, place in draft.model_graders:
        if grader.provider in wrong or (grader.provider is None and wrong_judges):
            continue  # the model's own problem is reported already
        lack = _lack_of_model(grader, draft)
        if lack is not None:
            yield Problem(*place, lack)


def _lack_of_model(grader: ModelGrader, draft: Draft) -> str | None:
    """Return why a grader has no model; None if it has one."""
    kind = "a model that answers with text"
    if grader.embeds:
        kind = "an `embeddings` model"
    if grader.provider is None:
        fitting = [str(each.name) for each in draft.grader_models if each.embeds == grader.embeds]
        if len(fitting) == 1:
            return None
        if fitting:
            return f"name one of the judges with `provider`: {', '.join(fitting)}"
        return f"needs {kind}: add one to `judges`, or name one of the providers with `provider`"
    models = (*draft.grader_models, *draft.providers.selected)
    for model in models:
        if model.name == grader.provider:
            if model.embeds == grader.embeds:
                return None
            return f"needs {kind}, and {grader.provider} is not one"
    return unknown("judge", grader.provider, [str(model.name) for model in models])


def check_prompts(draft: Draft) -> Iterator[Problem]:
    """Render every case with every prompt, to find bad templates before paying for calls.

    Without prompts, providers are sent a case as it is.
    """
    yield from problems_of_cases(_prompt_misfits(draft))


def _prompt_misfits(draft: Draft) -> Iterator[tuple[Case, str, str]]:
    templates = Templates(draft.folder)
    unprompted: Sequence[ProviderOptions] = ()
    if not draft.node["prompts"].value:
        unprompted = draft.providers.selected
    # The team's own code can make a question of vars itself; a model API needs text.
    chat = None
    for options in unprompted:
        if not options.own_code:
            chat = options.name
            break
    for case in draft.cases.cases:
        if case.is_conversation:
            if unprompted and case.input is not None:
                text = "has an `input` that is not part of its conversation"
                yield case, "", f"{text}: make it one of its `turns` or `messages`"
        elif chat is not None and case.input is None and not case.messages:
            remedy = f"add `prompts` that turn them into a question for {chat}, or an `input`"
            yield case, "", f"has only `vars`: {remedy}"
        for prompt in draft.columns_of(case).prompts:
            has_setup = case.setup or draft.shares_setup or draft.has_setup_of_provider
            if has_setup and names_without_value(prompt, case):
                continue  # the setup of a run gives the other values; see `check_setups`
            try:
                templates.render(prompt, case)
            except Exception as error:  # noqa: BLE001  a user's template can raise anything
                lack = describe_error(error, variables(case))
                yield case, "", f"the prompt {prompt.name!r} does not fit this case: {lack}"


def check_requests(draft: Draft) -> Iterator[Problem]:
    """Find cases that lack a value which a provider's own templates need."""
    if draft.offline:
        return  # answers come from elsewhere, so nothing is called
    yield from _problems_of_providers(draft, _request_misfits(draft))


def _request_misfits(draft: Draft) -> Iterator[tuple[Case, str, str]]:
    for options in draft.providers.selected:
        if options.before:
            continue  # the input that a stage makes is not known yet
        for request, text in options.misfits(_first_requests(draft, options), draft.folder):
            yield request.case, str(options.name), text
    for case in draft.cases.cases:
        if case.user is not None:
            player: ProviderOptions = case.user.provider
            for _, text in player.misfits([_request_to_player(case)], draft.folder):
                yield case, str(player.name), text


def _problems_of_providers(
    draft: Draft, misfits: Iterable[tuple[Case, str, str]]
) -> Iterator[Problem]:
    """Yield one problem for each mistake, at its provider, with the first case that shows it.

    Args:
        draft: the draft.
        misfits: a case, the provider, and what is wrong.
    """
    sharing: dict[tuple[str, str], list[Case]] = {}
    for case, provider, text in misfits:
        sharing.setdefault((provider, text), []).append(case)
    for (provider, text), (first, *others) in sharing.items():
        place = draft.places[provider]
        yield Problem(*place, f"{text} (case {first.id!r}{and_more(len(others))})")


def _first_requests(draft: Draft, options: ProviderOptions) -> Iterator[Request]:
    """Yield the first request of a provider's cells, with a placeholder for a simulated user's
    words.
    """
    templates = Templates(draft.folder)
    for case in draft.cases.cases:
        columns = draft.columns_of(case)
        if case.recording is not None or options not in columns.providers:
            continue
        if draft.shares_setup or case.setup or options.setup:
            continue  # its vars are not known yet
        line = None
        if case.turns:
            line = case.turns[0].user
        elif case.user is not None:
            line = _ANY_LINE
        for prompt in columns.prompts or (None,):
            if prompt is not None and options.prompts and prompt.name not in options.prompts:
                continue
            try:
                input_, messages = templates.render(prompt, case)
            except Exception:  # noqa: BLE001, S112  a problem of the prompt
                continue
            if line is not None:
                messages = (*messages, Message("user", line))
                input_ = message_fields(messages)
            yield Request(input_, tuple(messages), case, 1, case.timeout_s or 0.0)


def _request_to_player(case: Case) -> Request:
    """Return the first request to the provider of a simulated user, with placeholder words."""
    messages = (Message("system", _ANY_LINE), Message("user", _ANY_LINE))
    return Request(message_fields(messages), messages, case, 1, case.timeout_s or 0.0)


def check_tasks(draft: Draft) -> Iterator[Problem]:
    """Find tasks on providers that cannot work on them, and other cases on task providers."""
    yield from problems_of_cases(_task_misfits(draft))


def _task_misfits(draft: Draft) -> Iterator[tuple[Case, str, str]]:
    for case in draft.cases.cases:
        if case.recording is not None:
            continue
        for options in draft.columns_of(case).providers:
            if case.task is not None and not options.works_on_tasks:
                remedy = "use a provider of `type: task`"
                yield case, "", f"is a task, which {options.name} cannot work on: {remedy}"
            elif case.task is None and options.works_on_tasks and not options.works_alone:
                text = f"is not a task folder, and {options.name} works on nothing else"
                yield case, "", f"{text}: name it under `cases: {{tasks: …}}`"


def check_case_overrides(draft: Draft) -> Iterator[Problem]:
    """Find settings of cases that no provider takes, or that one refuses."""
    yield from problems_of_cases(_override_misfits(draft))


def _override_misfits(draft: Draft) -> Iterator[tuple[Case, str, str]]:
    for case in draft.cases.cases:
        if case.overrides == NO_OVERRIDES or case.recording is not None:
            continue
        providers = draft.columns_of(case).providers
        for key in ("model", "params"):
            if not getattr(case.overrides, key) or not providers:
                continue
            if not any(each.own_code or key in keys_of(type(each)) for each in providers):
                kinds = ", ".join(sorted({each.kind for each in providers}))
                text = f"no provider of the suite has a setting {key!r} (they are of type {kinds})"
                yield case, f"overrides.{key}", text
        for options in providers:
            changed = apply_case_overrides(options, case.overrides)
            if changed is options:
                continue
            for message in changed.problems(draft.folder):
                yield case, "overrides", f"{message} (with provider {options.name})"


def check_setups(draft: Draft) -> Iterator[Problem]:
    """Find invalid fixtures, and templates over vars that no fixture gives."""
    fixtures: dict[Fixture, Place] = {}
    if draft.settings is not None:
        for index, fixture in enumerate(draft.settings.setup):
            place = draft.node["setup"]
            if isinstance(place.value, list | tuple):
                place = place[index]
            fixtures.setdefault(fixture, place.place)
    for options in draft.providers.selected:
        place_of_provider = draft.places[str(options.name)]
        for fixture in options.setup:
            fixtures.setdefault(fixture, place_of_provider._replace(path="setup"))
    for case in draft.cases.cases:
        for fixture in case.setup:
            path = f"case {case.id!r}: setup"
            fixtures.setdefault(fixture, Place(case.file, case.line, path))
    if fixtures:
        from ci_evals.suite.fixtures import fixture_problems

        for fixture, first_place in fixtures.items():
            for text in fixture_problems(fixture, draft.folder):
                yield Problem(*first_place, text)
    for options in (*draft.judges.by_name.values(), *_players(draft)):
        if options.setup:
            text = f"{options.name} is a judge or a user: only what answers cases has a setup"
            yield Problem(*draft.places[str(options.name)], text)
    yield from problems_of_cases(_vars_of_no_setup(draft))


def _players(draft: Draft) -> Iterator[ProviderOptions]:
    """Yield the providers that are defined for a user alone."""
    for case in draft.cases.cases:
        if case.user is not None and case.user.provider.name not in draft.providers.names:
            yield case.user.provider


def _vars_of_no_setup(draft: Draft) -> Iterator[tuple[Case, str, str]]:
    """Yield the cases with templates that wait for a setup, on providers without one."""
    if draft.shares_setup or not draft.has_setup_of_provider:
        return  # the setup of a suite or a case applies on every provider
    for case in draft.cases.cases:
        columns = draft.columns_of(case)
        for options in columns.providers:
            if case.setup or options.setup:
                continue
            names: set[str] = set()
            for prompt in columns.prompts:
                if not options.prompts or prompt.name in options.prompts:
                    names |= names_without_value(prompt, case)
            if names or any(expectation.template for expectation in case.expect):
                what = "`expect`"
                if names:
                    what = ", ".join(sorted(names))
                text = f"{what} waits for a `setup`, and the provider {options.name} has none"
                yield case, "", text


def check_gate(draft: Draft) -> Iterator[Problem]:
    """Find bars for an unknown tag, provider, label or metric, which no run could miss.

    Names are checked only if some case or provider is valid.
    """
    gate, cases = draft.node["gate"], draft.cases
    per_variant = gate["per_variant"]
    if per_variant.value and gate["min_pass_rate"].value is None and try_check(Bool, per_variant):
        yield per_variant.problem("needs `min_pass_rate`, the bar for each variant")
    if draft.providers.by_name:
        yield from _check_bars("provider", gate["providers"], draft.providers.names)
        yield from _check_bars_of_idle_providers(gate["providers"], draft)
    if cases.cases:
        yield from _check_bars("tag", gate["tags"], sorted(cases.tags))
        if isinstance(gate["metrics"].value, Mapping):
            yield from _check_metrics(gate["metrics"], draft)


def _check_bars(noun: str, bars: Node, known: Sequence[str]) -> Iterator[Problem]:
    if not isinstance(bars.value, Mapping):
        return
    for name in bars.value:
        if name not in known:
            yield bars[name].problem(unknown(noun, name, known))._replace(path=bars.path)


def _check_bars_of_idle_providers(bars: Node, draft: Draft) -> Iterator[Problem]:
    if not isinstance(bars.value, Mapping) or not draft.cases.cases:
        return
    used: set[str] = set()
    for case in draft.cases.cases:
        used.update(str(options.name) for options in draft.columns_of(case).providers)
    for options in draft.providers.selected:
        name = str(options.name)
        if name in bars and name not in used:
            yield bars[name].problem("no case runs on it")


def _check_metrics(bars: Node, draft: Draft) -> Iterator[Problem]:
    metrics = {
        each.metric for _, expected in draft.expectations for each in expected if each.metric
    }
    labels = _labels(draft)
    for name in bars.value:
        place = bars[name].problem("")._replace(path=bars.path)
        metric = read_metric(name)
        if metric is None:
            if name not in metrics:
                yield place._replace(message=_unknown_metric(name, metrics))
        elif name in metrics:
            if metric.task in labels:
                text = f"{name!r} is a metric of `classify` and the `metric` of another grader"
                yield place._replace(message=f"{text}: give that another name")
        elif metric.task not in labels:
            text = f"{name!r} is a metric of `classify`, and no case expects one"
            if metric.task != USUAL_TASK:
                text += f" with the task {metric.task!r}"
            yield place._replace(message=text)
        elif metric.label is not None:
            known = labels[metric.task]
            if known is not None and metric.label not in known:
                yield bars[name].problem(unknown("label", metric.label, known))


def _labels(draft: Draft) -> Mapping[str, Collection[str] | None]:
    """Return the labels of each classification; None if one of its graders does not list them."""
    from ci_evals.graders.classify import Classify

    labels: dict[str, set[str] | None] = {}
    for _, expectations in draft.expectations:
        for expectation in expectations:
            grader = expectation.grader
            if not isinstance(grader, Classify):
                continue
            known = labels.setdefault(grader.task, set())
            if not grader.labels:
                labels[grader.task] = None
            elif known is not None:
                known.update(grader.labels)
    return labels


def _unknown_metric(name: str, metrics: Collection[str]) -> str:
    close = closest(name, (*metrics, *WHOLE))
    if close:
        return f"{name!r} is not a `metric`, did you mean {close!r}?"
    known = ", ".join(sorted(metrics)) or "none"
    classify = f"{', '.join(WHOLE)}, or {', '.join(BY_LABEL)} of a label: `recall.refund`"
    return f"{name!r} is not a `metric` of a grader ({known}) or of `classify`: {classify}"


def check_needs(draft: Draft) -> Iterator[Problem]:
    """Find graders that need details which a provider never returns.

    Details are the cost, the steps, the context and the time to the first token.
    """
    if draft.offline:
        return  # answers come from elsewhere, so nothing is called
    yield from _problems_of_providers(draft, _lacks_of_details(draft))


def _lacks_of_details(draft: Draft) -> Iterator[tuple[Case, str, str]]:
    priced = _counts_usd(draft)  # an unknown price is then reported by `check_prices`
    for case, expectations in draft.expectations:
        needs: dict[Detail, str] = {}
        for expectation in expectations:
            need = getattr(expectation.grader, "needs", None)
            if need is not None and case.recording is None:
                needs[need] = expectation.name
        if not needs:
            continue
        for options in draft.columns_of(case).providers:
            changed = apply_case_overrides(options, case.overrides)
            for need, name in needs.items():
                lack = _lack_of_detail(need, changed, priced=priced)
                if lack is not None:
                    yield case, str(options.name), f"`{name}` {lack}"


def _lack_of_detail(detail: Detail, options: ProviderOptions, *, priced: bool) -> str | None:
    """Return why answers of a provider will lack a detail.

    None if they may have it, or if another check reports the lack.
    """
    name, keys = options.name, keys_of(type(options))
    if detail in options.details:
        if detail != "cost" or priced or options.may_report_cost or has_price(options):
            return None
        text = f"needs the cost of an answer, and the price of {name} is not known"
        return f"{text}: give the provider a `price`"
    match detail:
        case "cost":
            return f"needs the cost of an answer, and {name} reports neither cost nor tokens"
        case "context":
            where = ""
            if "context" in keys:
                where = "set its `context` to where answers have it, or "
            text = f"needs the context that was retrieved, which {name} does not report"
            return f"{text}: {where}give the grader a `context`"
        case "steps":
            return f"needs the steps of an answer, which {name} does not report"
        case "first_token":
            text = f"needs the time to the first token, and {name} does not stream"
            return f"{text}: give it `stream`"


def _counts_usd(draft: Draft) -> bool:
    """Return True if a budget counts the cost of answers."""
    if draft.budget.counts_cost:
        return True
    return any(case.budget and case.budget.max_cost_usd for case in draft.cases.cases)


def check_prices(draft: Draft) -> Iterator[Problem]:
    """Find models with an unknown price, if a budget counts USD."""
    if not _counts_usd(draft):
        return
    names: dict[str, None] = {}
    for options, model in _models_to_call(draft):
        if not options.may_report_cost and not has_price(options):
            name = options.name or options.default_name
            if model is not None:
                name = f"{name} with {model}"
            names[name] = None
    for name in names:
        text = f"counts USD, and the price of {name} is not known: give the provider a `price`"
        yield draft.node["budget"].problem(text)


def _models_to_call(draft: Draft) -> Iterator[tuple[ProviderOptions, str | None]]:
    """Yield every provider and judge to call, and the model of a case that overrides it."""
    for options in (*draft.providers.selected, *draft.grader_models, *draft.stages.values()):
        yield options, None
    for case in draft.cases.cases:
        if case.user is not None:
            yield case.user.provider, None
        if case.overrides.model is not None:
            for options in draft.columns_of(case).providers:
                if "model" in keys_of(type(options)):
                    changed = apply_case_overrides(options, case.overrides)
                    yield changed, case.overrides.model


def check_runs(draft: Draft) -> Iterator[Problem]:
    """Find a `max_runs` below `runs`."""
    settings = draft.settings
    if settings is None or settings.max_runs is None or settings.max_runs >= settings.runs:
        return
    text = f"{settings.max_runs} is less than `runs: {settings.runs}`"
    yield draft.node["max_runs"].problem(f"{text}, which are included in it")


def check_executor(draft: Draft) -> Iterator[Problem]:
    """Find an executor that cannot be used."""
    if draft.settings is None or not isinstance(draft.settings.settings, Settings):
        return
    options = draft.settings.settings.executor
    if not isinstance(options, ExecutorOptions):
        return
    is_called = not draft.offline and draft.overrides.executor is None
    cases = draft.cases.cases
    for keys, text in options.problems(draft.folder, cases, is_called=is_called):
        place = draft.node["settings"]["executor"]
        for key in keys:
            place = place[key]
        yield place.problem(text)


def check_pythonpath(draft: Draft) -> Iterator[Problem]:
    """Find folders of code that do not exist."""
    if draft.settings is None:
        return
    node = draft.node["settings"]["pythonpath"]
    places = [node]
    if isinstance(node.value, list | tuple):
        places = list(node.items())
    for place in places:
        if place.value and not (draft.folder / place.value).is_dir():
            yield place.problem(f"there is no folder {place.value!r} (looked in {draft.folder})")


def check_paths(draft: Draft) -> Iterator[Problem]:
    """Find suites that `skip_unchanged` could skip after a change to code they do not name."""
    settings, node = draft.settings, draft.node
    if settings is None:
        return
    if settings.skip_unchanged is False:
        return
    if settings.skip_unchanged is True:
        owner = next(_owners_of_code(draft), None)
        if owner is not None:
            text = f"{owner} is your own code: name its files here"
            yield node["skip_unchanged"].problem(f"{text}, or changes to them are skipped")
        return
    from ci_evals.dependencies import fits_any_file

    for index, pattern in enumerate(settings.skip_unchanged):
        if not fits_any_file(pattern, draft.folder):
            start = str(draft.folder)
            if pattern.startswith("/"):
                start = "the root of the repository"
            yield node["skip_unchanged"][index].problem(
                f"{pattern!r} matches no file (looked in {start})"
            )


def _owners_of_code(draft: Draft) -> Iterator[str]:
    """Yield the parts of a suite that run the team's own code."""
    for options in (*draft.providers.selected, *draft.stages.values()):
        if options.own_code:
            yield str(options.name)
        elif options.serve:
            yield f"the service of {options.name}"
        elif options.setup:
            yield f"the setup of {options.name}"
        elif getattr(options, "tools", ()):
            yield f"what the tools of {options.name} run"
    if draft.shares_setup:
        yield "the setup of the suite"
    for case in draft.cases.cases:
        if case.setup:
            yield f"the setup of the case {case.id!r}"


def check_selected_tags(draft: Draft) -> Iterator[Problem]:
    """Find selected tags that no case has."""
    selected, cases = draft.overrides.tags, draft.cases
    if selected is None:
        return
    option = draft.node["cases"]
    if not selected:
        text = f"none is named; known: {', '.join(sorted(cases.tags)) or 'none'}"
        yield option.problem(text)._replace(path="--tags")
    for tag in selected:
        if tag not in cases.tags:
            text = unknown("tag", tag, sorted(cases.tags))
            yield option.problem(text)._replace(path="--tags")


CHECKS: Sequence[Callable[[Draft], Iterable[Problem]]] = (
    check_choices,
    check_prompts,
    check_tasks,
    check_case_overrides,
    check_idle_providers,
    check_stages,
    check_names,
    check_judges,
    check_gate,
    check_needs,
    check_requests,
    check_services,
    check_against,
    check_prices,
    check_runs,
    check_executor,
    check_setups,
    check_pythonpath,
    check_paths,
    check_selected_tags,
)
"""Every check of a draft. Each finds all problems of its kind, independently of the others."""


def check_size(suite: CheckedSuite, node: Node, overrides: Overrides) -> Iterator[Problem]:
    """Find a plan that is too large for any job, most likely a typo.

    Args:
        suite: the suite with the overrides applied.
        node: the suite as it is written.
        overrides: values set by the command line or the environment.
    """
    text = describe_size(suite)
    if text is None:
        return
    most = max(suite.runs, suite.max_runs or 0)
    place = node["runs"]
    if overrides.max_runs == most:
        place = Node(None, node.lines, node.file, "--max-runs or CI_EVALS_MAX_RUNS")
    elif overrides.runs == most:
        place = Node(None, node.lines, node.file, "--runs or CI_EVALS_RUNS")
    elif suite.max_runs == most:
        place = node["max_runs"]
    yield place.problem(text)


def describe_size(suite: CheckedSuite) -> str | None:
    """Return why the plan of a suite is too large for any job; None if it is not."""
    most = max(suite.runs, suite.max_runs or 0)
    planned = 0
    for case in suite.cases:
        cells = len(suite.columns)
        if case.providers or case.prompts:
            cells = [case.runs_on(variant) for variant in suite.columns].count(True)
        planned += (case.runs or most) * cells
    if planned <= MAX_PLANNED_RUNS:
        return None
    text = f"{planned:,} runs are planned: at most {MAX_PLANNED_RUNS:,} are allowed"
    cells = len(suite.cases) * len(suite.columns)
    if cells > 1:
        text += f", {MAX_PLANNED_RUNS // cells:,} per cell"
    return text
