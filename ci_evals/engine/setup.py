"""Opens everything that a suite calls: providers with their queues and stages, models that judge,
simulated users.
"""

import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_evals.engine.calls import Calls
from ci_evals.engine.limits import RateLimiter
from ci_evals.engine.queues import Queue
from ci_evals.engine.resources import LOCAL, EngineResources, open_executor, open_resources
from ci_evals.engine.slots import Slots
from ci_evals.errors import ConfigError, Place, Problem, ProviderError
from ci_evals.executors import Executor
from ci_evals.graders.base import Composite
from ci_evals.graders.scoring import nested
from ci_evals.model.case import Case
from ci_evals.model.fingerprint import digest
from ci_evals.model.grading import Expectation
from ci_evals.model.request import Request
from ci_evals.model.response import Response
from ci_evals.providers.base import Credentials, Provider, ProviderOptions, Service
from ci_evals.providers.pricing import Pricer, pricer
from ci_evals.suite.fingerprint import apply_case_overrides, provider_identity
from ci_evals.suite.problems import once_per_cause
from ci_evals.suite.types import CheckedSuite

if TYPE_CHECKING:
    from ci_evals.engine.conversation import SimulatedUsers
    from ci_evals.engine.fixtures import Fixtures
    from ci_evals.engine.judges import AuxiliaryProvider, Judges
    from ci_evals.engine.stages import Stage

_MOMENT_S = 0.1  # a service that ended breaks its connections first, and is gone a little later


@dataclass(frozen=True, slots=True)
class OpenSuite:
    """Everything that a run calls, opened."""

    queues: Sequence[Queue] = ()
    users: "SimulatedUsers | None" = None
    judges: "Judges | None" = None
    executor: Executor = LOCAL
    fixtures: "Fixtures | None" = None


@asynccontextmanager
async def open_suite(
    suite: CheckedSuite,
    *,
    calls: bool,
    judges: bool = True,
    files: Path | None = None,
) -> AsyncIterator[OpenSuite]:
    """Open everything that a suite calls, until the block ends.

    Args:
        suite: the suite.
        calls: whether providers and simulated users are called.
        judges: whether graders may ask models.
        files: the results folder, for files in answers; None keeps none.

    Raises:
        ConfigError: something cannot be opened; it lists everything that cannot.
    """
    called = _providers_called(suite, calls=calls, judges=judges)
    expectations, transforms = _graders_and_transforms(suite)
    async with (
        open_resources(suite.folder, suite.max_concurrency, files, suite.code_folders) as shared,
        open_executor(suite, called, expectations if calls or judges else (), files) as executor,
    ):
        resources = replace(shared, executor=executor)
        problems = _prepare_graders(expectations, executor)
        if transforms:
            from ci_evals.graders.transform import prepare_transform

            for transform in transforms:
                with collect_problems(problems):
                    prepare_transform(transform)
        limiters = _limiters(suite)
        queues: Sequence[Queue] = ()
        users: SimulatedUsers | None = None
        models: Judges | None = None
        fixtures: Fixtures | None = None
        if calls:
            with collect_problems(problems):
                queues = _open_queues(suite, resources, limiters)
            with collect_problems(problems):
                users = _open_users(suite, resources, limiters)
            if _has_setup(suite):
                with collect_problems(problems):
                    fixtures = _open_fixtures(suite, resources)
        if judges and suite.grader_models:
            with collect_problems(problems):
                models = _open_judges(suite, resources, limiters)
        if not problems:  # services and servers are not started in vain
            with collect_problems(problems):
                await prepare(called, suite.places, resources)
        if problems:
            raise ConfigError(once_per_cause(list(dict.fromkeys(problems))))
        yield OpenSuite(queues, users, models, executor, fixtures)


def _open_fixtures(suite: CheckedSuite, resources: EngineResources) -> "Fixtures":
    """Open the fixtures of runs. Those that are still set up at the end are torn down."""
    from ci_evals.engine.fixtures import Fixtures

    fixtures = Fixtures(suite)
    resources.stack.push_async_callback(fixtures.close)
    return fixtures


def _has_setup(suite: CheckedSuite) -> bool:
    """Return True if any run has a fixture."""
    of_providers = [options.setup for options in suite.providers]
    of_cases = [case.setup for case in suite.cases]
    return any([suite.setup, *of_providers, *of_cases])


def _providers_called(
    suite: CheckedSuite, *, calls: bool, judges: bool
) -> Sequence[ProviderOptions]:
    """Return all providers that a suite calls."""
    called: list[ProviderOptions] = []
    if calls:
        called += suite.providers
        called += suite.stages.values()
        called += [case.user.provider for case in suite.cases if case.user]
    if judges:
        called += suite.grader_models
    return called


def _graders_and_transforms(suite: CheckedSuite) -> tuple[Sequence[Expectation], Iterable[str]]:
    """Return one expectation for each grader object of all cases, and all transforms."""
    by_grader: dict[int, Expectation] = {}
    transforms: dict[str, None] = {}
    for case in suite.cases:
        for expectation in nested(case.expect):
            if expectation.transform is not None:
                transforms[expectation.transform] = None
            if not isinstance(expectation.grader, Composite):
                by_grader[id(expectation.grader)] = expectation
    return list(by_grader.values()), transforms


def _prepare_graders(expectations: Iterable[Expectation], executor: Executor) -> list[Problem]:
    """Prepare graders; return each problem once, at its first place."""
    problems: list[Problem] = []
    for expectation in expectations:
        with collect_problems(problems, expectation.place):
            executor.prepare(expectation.grader)
    by_message: dict[str, Problem] = {}
    for problem in problems:
        by_message.setdefault(problem.message, problem)
    return list(by_message.values())


async def prepare(
    called: Iterable[ProviderOptions], places: Mapping[str, Place], resources: EngineResources
) -> None:
    """Fetch the credentials of providers, start their services and the servers of their tools, each
    once, before the first call.

    Args:
        called: all providers that will be called.
        places: where the suite names each of them.
        resources: the resources of the invocation.

    Raises:
        ConfigError: something is missing; it lists everything that is missing.
    """
    problems: list[Problem] = []
    credentials: dict[Credentials, str] = {}
    services: dict[Service, str] = {}
    toolboxes: dict[Any, str] = {}
    for options in called:
        source = options.credentials(resources)
        if source is not None:
            credentials.setdefault(source, str(options.name))
        if options.serve is not None:
            from ci_evals.providers.serve import shared_service

            service: Service = shared_service(options.serve, resources)
            services.setdefault(service, str(options.name))
        if tools := getattr(options, "tools", ()):
            from ci_evals.providers.tools import shared_toolbox

            toolbox = shared_toolbox(tools, resources)
            toolboxes.setdefault(toolbox, str(options.name))
    for source, name in credentials.items():
        try:
            await source.fetch()
        except ProviderError as error:
            problems.append(Problem(*places[name], f"{source.noun}: {error.message}"))
    if problems:  # credentials come first: they are quick to check, services may take minutes
        raise ConfigError(problems)
    for service, name in services.items():
        try:
            await service.start(resources)
        except ProviderError as error:
            problems.append(Problem(*places[name], f"serve: {error.message}"))
    for toolbox, name in toolboxes.items():
        with collect_problems(problems, places[name]):
            await toolbox.start(resources)
    if problems:
        raise ConfigError(problems)


@contextmanager
def collect_problems(problems: list[Problem], place: Place | None = None) -> Iterator[None]:
    """Add the problems of a ConfigError to `problems` instead of raising it.

    `place` is where the suite names the part that has the problems.
    """
    try:
        yield
    except ConfigError as error:
        if place is None:
            problems += error.problems
        else:
            problems += [problem.seen_from(place) for problem in error.problems]


def open_auxiliary(
    suite: CheckedSuite,
    options: ProviderOptions,
    resources: EngineResources,
    limiter: RateLimiter | None = None,
    *,
    timeout_s: float | None = None,
) -> "AuxiliaryProvider":
    """Open a provider that has no queue of runs: a judge, a simulated user, a stage.

    Args:
        suite: the suite that needs it.
        options: its settings.
        resources: the resources that it may use.
        limiter: a rate limiter that it shares with others; None if it has its own.
        timeout_s: seconds that a call may take; None for the time-out of each request.

    Raises:
        ConfigError: it cannot be opened.
    """
    from ci_evals.engine.judges import AuxiliaryProvider

    limiter = limiter or _limiter([options])
    provider = _open(options, resources.reporting_to(limiter))
    price = pricer(options)
    calls = _calls(options, provider, suite, limiter, resources, price, is_under_test=False)
    limit = _max_concurrency(options, suite)
    return AuxiliaryProvider(options, calls, limit=limit, timeout_s=timeout_s, price=price)


def open_provider(
    options: ProviderOptions, cases: Iterable[Case], resources: EngineResources
) -> tuple[Provider, Pricer]:
    """Open a provider, once for each set of settings that cases override.

    Raises:
        ConfigError: it cannot be opened.
    """
    usual = _PricedProvider(_open(options, resources), pricer(options))
    others: dict[str, _PricedProvider] = {}
    by_settings: dict[str, _PricedProvider] = {}
    for case in cases:
        changed = apply_case_overrides(options, case.overrides)
        if changed is options:
            continue
        key = digest([case.overrides.model, case.overrides.params])
        if key not in by_settings:
            by_settings[key] = _PricedProvider(_open(changed, resources), pricer(changed))
        others[case.id] = by_settings[key]
    if not others:
        return usual
    return _ProviderPerCase(usual, others), lambda response: response.cost_usd


def _open(options: ProviderOptions, resources: EngineResources) -> Provider:
    if options.serve is not None:  # its service runs on this machine
        from ci_evals.providers.serve import shared_service

        return _ServedProvider(options.open(resources), shared_service(options.serve, resources))
    return resources.executor.open(options, resources)


class _ServedProvider:
    """A provider with a service that is started for it. If the service has ended, its error is
    reported instead of a lost connection.
    """

    def __init__(self, provider: Provider, service: Service) -> None:
        self._provider = provider
        self._service = service

    async def answer(self, request: Request) -> Response:
        await self._service.check()
        try:
            return await self._provider.answer(request)
        except Exception:  # the team's own code raises anything when its service is gone
            await self._service.check(within_s=_MOMENT_S)
            raise


class _PricedProvider(NamedTuple):
    """A provider with its pricer: another model has another price, or none that is known."""

    provider: Provider
    price: Pricer


class _ProviderPerCase:
    """A provider with other settings for some cases; it prices its answers itself."""

    def __init__(self, usual: _PricedProvider, others: Mapping[str, _PricedProvider]) -> None:
        self._usual = usual
        self._others = others

    async def answer(self, request: Request) -> Response:
        provider, price = self._others.get(request.case.id, self._usual)
        response = await provider.answer(request)
        return replace(response, cost_usd=price(response))


def _open_queues(
    suite: CheckedSuite, resources: EngineResources, limiters: Mapping[str, RateLimiter]
) -> list[Queue]:
    """Open every provider of a suite, with its stages, and an empty queue for it."""
    slots = Slots(suite.max_concurrency)
    queues: list[Queue] = []
    problems: list[Problem] = []
    stages: Mapping[str, Stage] = {}
    with collect_problems(problems):
        stages = _open_stages(suite, resources)
    for options in suite.providers:
        limiter = limiters[_group(options)]
        with collect_problems(problems, suite.places.get(str(options.name))):
            provider, price = open_provider(options, suite.cases, resources.reporting_to(limiter))
            if problems:  # the others are only opened to find their problems
                continue
            if options.before or options.after:
                from ci_evals.engine.stages import StagedProvider

                before = [stages[name] for name in options.before]
                after = [stages[name] for name in options.after]
                provider = StagedProvider(options, provider, price, before, after, resources.files)
            calls = _calls(options, provider, suite, limiter, resources, price, is_under_test=True)
            share = slots.share(_max_concurrency(options, suite))
            queues.append(Queue(options, calls, share, price))
    if problems:
        raise ConfigError(problems)
    return queues


def _open_stages(suite: CheckedSuite, resources: EngineResources) -> Mapping[str, "Stage"]:
    """Open the functions and providers that are stages, by name."""
    if not suite.stages:
        return {}
    from ci_evals.engine.stages import Stage, function_identity
    from ci_evals.providers.python import Python

    stages = {}
    problems: list[Problem] = []
    for name, options in suite.stages.items():
        with collect_problems(problems, suite.places.get(name)):
            if isinstance(options, Python) and options.target == name:
                function = options.open(resources)
                identity = function_identity(name)
                stages[name] = Stage(name, function.answer, identity)
            else:
                provider = open_auxiliary(suite, options, resources)
                stages[name] = Stage(
                    name, provider.answer, provider_identity(options), provider.price
                )
    if problems:
        raise ConfigError(problems)
    return stages


def _open_judges(
    suite: CheckedSuite, resources: EngineResources, limiters: Mapping[str, RateLimiter]
) -> "Judges":
    """Open every model that graders ask."""
    from ci_evals.engine.judges import Judges

    judges = {}
    for options in suite.grader_models:
        timeout_s = options.timeout_s or suite.timeout_s
        judges[str(options.name)] = open_auxiliary(
            suite, options, resources, limiters[_group(options)], timeout_s=timeout_s
        )
    return Judges(judges, {str(options.name) for options in suite.judges})


def _open_users(
    suite: CheckedSuite, resources: EngineResources, limiters: Mapping[str, RateLimiter]
) -> "SimulatedUsers | None":
    """Open every provider that plays a user. One that is also a provider of the suite, or in one of
    its limit groups, shares that rate limiter.
    """
    user_providers = [case.user.provider for case in suite.cases if case.user is not None]
    if not user_providers:
        return None
    from ci_evals.engine.conversation import SimulatedUsers, user_key

    limiters = dict(limiters)
    users: dict[str, AuxiliaryProvider] = {}
    for options in user_providers:
        key = user_key(options)
        if key not in users:
            limiter = limiters.setdefault(_group(options), _limiter([options]))
            users[key] = open_auxiliary(suite, options, resources, limiter)
    return SimulatedUsers(users)


def _calls(  # noqa: PLR0913  everything that calls of a provider depend on
    options: ProviderOptions,
    provider: Provider,
    suite: CheckedSuite,
    limiter: RateLimiter,
    resources: EngineResources,
    price: Pricer,
    *,
    is_under_test: bool,
) -> Calls:
    retries = options.retries
    if retries is None:
        retries = suite.retries if options.retried else 0
    params = getattr(options, "params", {})
    # Seeded by name, so that another provider in the suite doesn't change this one's jitter.
    draw = random.Random(f"{suite.settings.seed} {options.name}").random  # noqa: S311  jitter, not a secret
    make: Callable[..., Calls] = Calls
    if tools := getattr(options, "tools", ()):
        from ci_evals.engine.tool_calls import CallsWithTools
        from ci_evals.providers.tools import shared_toolbox

        make = partial(
            CallsWithTools,
            toolbox=shared_toolbox(tools, resources),
            max_steps=getattr(options, "max_steps"),  # noqa: B009  whoever has tools has it
            declares_others=bool(params.get("tools")),
            price=price,
        )
    return make(
        provider,
        limiter,
        limit=_max_concurrency(options, suite),
        retries=retries,
        # Code under test is not retried unless the suite asks for it: a retry hides its crashes.
        retries_crashes=options.retries is not None and not options.retried,
        retries_empty=is_under_test and options.asks_again_if_empty,  # judges see to it themselves
        own_code=is_under_test and options.own_code,
        keeps_thoughts=options.thoughts == "keep",
        max_tokens=getattr(options, "max_output_tokens", None),
        clock=time.monotonic,
        draw=draw,
    )


def _max_concurrency(options: ProviderOptions, suite: CheckedSuite) -> int:
    limit = options.max_concurrency
    if limit is None or limit == "unlimited":
        return suite.max_concurrency
    return int(min(limit, suite.max_concurrency))


def _limiters(suite: CheckedSuite) -> Mapping[str, RateLimiter]:
    """Make the rate limiter of each limit group."""
    by_name = {str(options.name): options for options in (*suite.providers, *suite.grader_models)}
    members: dict[str, list[ProviderOptions]] = {}
    for options in by_name.values():
        members.setdefault(_group(options), []).append(options)
    return {group: _limiter(options) for group, options in members.items()}


def _limiter(members: Sequence[ProviderOptions]) -> RateLimiter:
    """Make the rate limiter of a limit group. If its members declare different limits, the lowest
    holds.
    """
    return RateLimiter(
        rpm=min((options.rpm for options in members if options.rpm is not None), default=None),
        tpm=min((options.tpm for options in members if options.tpm is not None), default=None),
        clock=time.monotonic,
    )


def _group(options: ProviderOptions) -> str:
    return f"group {options.limit_group}" if options.limit_group else f"provider {options.name}"
