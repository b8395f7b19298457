"""The lanes of a run: one for each provider, with the pace that its limit group shares."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from ci_evals.engine.judges import Judge, Judges
from ci_evals.engine.lane import Lane
from ci_evals.engine.pace import Pace
from ci_evals.engine.plan import execution_order
from ci_evals.engine.resources import EngineResources, Observe, lent
from ci_evals.engine.slots import Slots
from ci_evals.prices import pricer
from ci_evals.providers.base import ProviderOptions
from ci_evals.report import Columns, Matrix
from ci_evals.suite import Suite

Lend = Callable[[Observe], EngineResources]


class Ready(NamedTuple):
    """Everything that a run calls, opened: the lanes of its providers and the slots that they share."""

    lanes: Sequence[Lane] = ()
    slots: Slots = Slots(0)
    judges: Judges | None = None


@asynccontextmanager
async def opened(
    suite: Suite, matrix: Matrix, columns: Columns, *, calls: bool, judges: bool = True
) -> AsyncIterator[Ready]:
    """Open the graders of a suite and, if it `calls` them, its providers, and the models that judge; all are closed
    again in the end.

    Raises:
        ConfigError: one of them cannot be opened.
    """
    slots = Slots(suite.max_concurrency)
    async with lent(suite.folder, suite.max_concurrency) as lend:
        for grader in {id(each.grader): each.grader for case in suite.cases for each in case.expect}.values():
            grader.prepare()
        limits = _limits(suite, matrix)
        yield Ready(
            open_lanes(suite, matrix, columns, slots, lend, limits) if calls else (),
            slots,
            open_judges(suite, matrix, lend, limits) if judges and suite.asked_models else None,
        )


class _Limits(NamedTuple):
    """What the providers of one group share: its pace, and the queue of those who wait for it."""

    pace: Pace
    turn: asyncio.Lock


def open_judges(suite: Suite, matrix: Matrix, lend: Lend, limits: Mapping[str, _Limits]) -> Judges:
    """Open every model that graders ask.

    Raises:
        ConfigError: one of them cannot be opened.
    """
    draw = random.Random(suite.seed).random  # noqa: S311  jitter, not a secret
    judges = {}
    for options in suite.asked_models:
        pace, turn = limits[_group(options)]
        judges[str(options.name)] = Judge(
            options,
            options.open(lend(pace.observe)),
            pace=pace,
            turn=turn,
            limit=_workers(options, suite, matrix),
            retries=_retries(options, suite),
            timeout_s=options.timeout_s or suite.timeout_s,
            price=pricer(options),
            draw=draw,
        )
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
    clock = asyncio.get_running_loop().time
    lanes = []
    for options in suite.providers:
        pace, turn = limits[_group(options)]
        lanes.append(
            Lane(
                options,
                options.open(lend(pace.observe)),
                execution_order(matrix, str(options.name), suite.seed, columns.status),
                limit=_workers(options, suite, matrix),
                retries=_retries(options, suite),
                pace=pace,
                turn=turn,
                claim=slots.claim(),
                price=pricer(options),
                clock=clock,
            )
        )
    return lanes


def _workers(options: ProviderOptions, suite: Suite, matrix: Matrix) -> int:
    """How many calls of a provider may be under way."""
    return max(1, min(options.max_concurrency or suite.max_concurrency, suite.max_concurrency, matrix.total))


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
