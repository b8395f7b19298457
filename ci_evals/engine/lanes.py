"""The lanes of a run: one for each provider, with the pace that its limit group shares."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

from ci_evals.columns import Columns
from ci_evals.engine.asked import Asked
from ci_evals.engine.contact import Contact
from ci_evals.engine.judges import Judges
from ci_evals.engine.lane import Lane
from ci_evals.engine.overrides import opened_provider
from ci_evals.engine.pace import Pace
from ci_evals.engine.plan import execution_order
from ci_evals.engine.players import Players, player_key
from ci_evals.engine.resources import EngineResources, Observe, lent
from ci_evals.engine.slots import Slots
from ci_evals.engine.stages import Price, Stage, Staged, function_identity
from ci_evals.errors import ConfigError, Place, Problem
from ci_evals.matrix import Matrix
from ci_evals.prices import pricer
from ci_evals.providers.base import Provider, ProviderOptions
from ci_evals.providers.python import Python
from ci_evals.suite import Suite, provider_identity

Lend = Callable[[Observe], EngineResources]


class Ready(NamedTuple):
    """Everything that a run calls, opened: the lanes of its providers and the slots that they share."""

    lanes: Sequence[Lane] = ()
    slots: Slots = Slots(0)
    players: Players | None = None
    judges: Judges | None = None


@asynccontextmanager
async def opened(
    suite: Suite,
    matrix: Matrix,
    columns: Columns,
    *,
    calls: bool,
    judges: bool = True,
    files: Path | None = None,
) -> AsyncIterator[Ready]:
    """Open the graders of a suite and, if it `calls` them, its providers, and the models that judge; all are closed
    again in the end.

    Raises:
        ConfigError: one of them cannot be opened; it tells of all that cannot.
    """
    slots = Slots(suite.max_concurrency)
    async with lent(suite.folder, suite.max_concurrency, files) as lend:
        problems: list[Problem] = []
        for each in {id(each.grader): each for case in suite.cases for each in case.expect}.values():
            with collecting(problems, each.place):
                each.grader.prepare()
        limits = _limits(suite, matrix)
        ready = Ready(slots=slots)
        with collecting(problems):
            ready = ready._replace(lanes=open_lanes(suite, matrix, columns, slots, lend, limits) if calls else ())
        with collecting(problems):
            ready = ready._replace(players=open_players(suite, limits, lend) if calls else None)
        if judges and suite.asked_models:
            with collecting(problems):
                ready = ready._replace(judges=open_judges(suite, lend, limits))
        if problems:
            raise ConfigError(dict.fromkeys(problems))
        yield ready


@contextmanager
def collecting(problems: list[Problem], place: Place | None = None) -> Iterator[None]:
    """Go on after what cannot be opened, adding to `problems` why; `place` is where the suite asks for it."""
    try:
        yield
    except ConfigError as error:
        problems += [problem.seen_from(place) if place else problem for problem in error.problems]


class _Limits(NamedTuple):
    """What the providers of one group share: its pace, and the queue of those who wait for it."""

    pace: Pace
    turn: asyncio.Lock


def open_judges(suite: Suite, lend: Lend, limits: Mapping[str, _Limits]) -> Judges:
    """Open every model that graders ask.

    Raises:
        ConfigError: one of them cannot be opened.
    """
    judges = {
        str(options.name): opened_asked(
            suite, options, lend, limits[_group(options)], timeout_s=options.timeout_s or suite.timeout_s
        )
        for options in suite.asked_models
    }
    return Judges(judges, {str(options.name) for options in suite.judges})


def _retries(options: ProviderOptions, suite: Suite) -> int:
    if options.retries is not None:
        return options.retries
    return suite.retries if options.retried else 0


def open_lanes(
    suite: Suite, matrix: Matrix, columns: Columns, slots: Slots, lend: Lend, limits: Mapping[str, _Limits]
) -> list[Lane]:
    """Open every provider of a suite and give it a lane.

    Args:
        suite: what is run.
        matrix: its cells.
        columns: what has a result already.
        slots: the limit on calls under way.
        lend: makes what a provider may use.
        limits: the pace of each group.

    Raises:
        ConfigError: a provider cannot be opened.
    """
    lanes: list[Lane] = []
    problems: list[Problem] = []
    stages: Mapping[str, Stage] = {}
    with collecting(problems):
        stages = open_stages(suite, lend)
    for options in suite.providers:
        shared, workers = limits[_group(options)], _workers(options, suite, matrix)
        with collecting(problems, suite.places.get(str(options.name))):
            provider, price = opened_provider(options, suite.cases, lend(shared.pace.observe))
        if problems:
            continue
        provider = staged(options, provider, price, stages, lend)
        lanes.append(
            Lane(
                options,
                _contact(options, provider, suite, shared, limit=workers, own_code=options.own_code),
                execution_order(matrix, str(options.name), suite.seed, columns.status),
                limit=workers,
                claim=slots.claim(),
                price=price,
            )
        )
    if problems:
        raise ConfigError(problems)
    return lanes


def open_stages(suite: Suite, lend: Lend) -> Mapping[str, Stage]:
    """Open what answers for the stages of providers.

    Raises:
        ConfigError: a function cannot be imported, or a provider not be opened.
    """
    stages = {}
    problems: list[Problem] = []
    for name, options in suite.stages.items():
        with collecting(problems, suite.places.get(name)):
            if isinstance(options, Python) and options.target == name:
                provider = options.open(lend(lambda _: None))
                stages[name] = Stage(name, provider.answer, function_identity(name))
            else:
                asked = opened_asked(suite, options, lend)
                stages[name] = Stage(name, asked.answer, provider_identity(options), asked.price)
    if problems:
        raise ConfigError(problems)
    return stages


def staged(
    options: ProviderOptions, provider: Provider, price: Price, stages: Mapping[str, Stage], lend: Lend
) -> Provider:
    """A provider with its stages round it, if it has any."""
    if not options.before and not options.after:
        return provider
    before, after = ([stages[name] for name in names] for names in (options.before, options.after))
    return Staged(options, provider, price, before, after, lend(lambda _: None).files)


def opened_asked(
    suite: Suite,
    options: ProviderOptions,
    lend: Lend,
    limits: _Limits | None = None,
    *,
    timeout_s: float | None = None,
) -> Asked:
    """Open a provider that has no lane of its own.

    Args:
        suite: what it is asked for.
        options: its settings.
        lend: makes what it may use.
        limits: what it shares with others; None if it has a pace of its own.
        timeout_s: seconds that a call may take; None for those of each request.

    Raises:
        ConfigError: it cannot be opened.
    """
    calls, shared = _calls(options, suite), limits or _own_limits(options, suite)
    provider = options.open(lend(shared.pace.observe))
    contact = _contact(options, provider, suite, shared, limit=calls, own_code=False)
    return Asked(options, contact, limit=calls, timeout_s=timeout_s, price=pricer(options))


def _contact(
    options: ProviderOptions, provider: Provider, suite: Suite, shared: _Limits, *, limit: int, own_code: bool
) -> Contact:
    return Contact(
        provider,
        limit=limit,
        retries=_retries(options, suite),
        pace=shared.pace,
        turn=shared.turn,
        own_code=own_code,
        clock=asyncio.get_running_loop().time,
        draw=random.Random(f"{suite.seed} {options.name}").random,  # noqa: S311  jitter, not a secret
    )


def open_players(suite: Suite, known: Mapping[str, _Limits], lend: Lend) -> Players | None:
    """Open every provider that plays a user; one that a suite runs too, or its limit group, shares that one's pace.

    Raises:
        ConfigError: one of them cannot be opened.
    """
    options_by_key = {player_key(case.user.provider): case.user.provider for case in suite.cases if case.user}
    if not options_by_key:
        return None
    limits = dict(known)
    players = {
        key: opened_asked(suite, options, lend, limits.setdefault(_group(options), _own_limits(options, suite)))
        for key, options in options_by_key.items()
    }
    return Players(players)


def _own_limits(options: ProviderOptions, suite: Suite) -> _Limits:
    clock = asyncio.get_running_loop().time
    return _Limits(Pace(rpm=options.rpm, tpm=options.tpm, limit=_calls(options, suite), clock=clock), asyncio.Lock())


def _calls(options: ProviderOptions, suite: Suite) -> int:
    return min(options.max_concurrency or suite.max_concurrency, suite.max_concurrency)


def _workers(options: ProviderOptions, suite: Suite, matrix: Matrix) -> int:
    """How many calls of a provider may be under way."""
    return max(1, min(_calls(options, suite), matrix.total))


def _limits(suite: Suite, matrix: Matrix) -> Mapping[str, _Limits]:
    """Of several limits that members of a group state, the lowest holds."""
    members: dict[str, list[ProviderOptions]] = {}
    for options in {str(options.name): options for options in (*suite.providers, *suite.asked_models)}.values():
        members.setdefault(_group(options), []).append(options)
    return {
        group: _Limits(
            Pace(
                rpm=_lowest(each.rpm for each in providers),
                tpm=_lowest(each.tpm for each in providers),
                limit=min(suite.max_concurrency, sum(_workers(each, suite, matrix) for each in providers)),
                clock=asyncio.get_running_loop().time,
            ),
            asyncio.Lock(),
        )
        for group, providers in members.items()
    }


def _lowest(stated: Iterable[float | None]) -> float | None:
    return min((limit for limit in stated if limit is not None), default=None)


def _group(options: ProviderOptions) -> str:
    return f"group {options.limit_group}" if options.limit_group else f"provider {options.name}"
