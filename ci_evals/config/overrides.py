"""What the command line or the environment puts in place of what a suite says, and which of its parts it selects."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_evals.config.decode import unknown
from ci_evals.errors import UsageError
from ci_evals.model import Case
from ci_evals.providers.base import ProviderOptions
from ci_evals.rules import Gate
from ci_evals.suite import Suite


class Overrides(Struct, frozen=True, kw_only=True):
    """What the command line or the environment puts in place of the file's values; None leaves them."""

    runs: int | None = None
    max_runs: int | None = None
    confirm_runs: int | None = None
    max_concurrency: int | None = None
    timeout_s: float | None = None
    retries: int | None = None
    seed: int | None = None
    out: Path | None = None
    providers: tuple[str, ...] | None = None
    label: str | None = None
    tags: tuple[str, ...] | None = None
    cases: tuple[str, ...] | None = None


_SELECTING = ("providers", "tags", "cases")


def overridden(suite: Suite, overrides: Overrides) -> Suite:
    """A suite with some values replaced, and with what is selected of it: bars for anything else are left out too.

    Raises:
        UsageError: a provider, a tag or the id of a case is named that the suite does not have.
    """
    values = {
        name: value
        for name, value in msgspec.structs.asdict(overrides).items()
        if value is not None and name not in _SELECTING
    }
    providers, cases = _providers(suite.providers, overrides), _cases(suite.cases, overrides)
    gate = suite.gate and _without_bars_of_absent(suite.gate, providers, cases)
    return msgspec.structs.replace(suite, **values, providers=providers, cases=cases, gate=gate)


def _providers(known: tuple[ProviderOptions, ...], overrides: Overrides) -> tuple[ProviderOptions, ...]:
    if overrides.providers is None:
        return known
    _check("provider", overrides.providers, [str(each.name) for each in known])
    return tuple(each for each in known if each.name in overrides.providers)


def _cases(known: Sequence[Case], overrides: Overrides) -> Sequence[Case]:
    if overrides.tags is not None:
        _check("tag", overrides.tags, sorted({tag for case in known for tag in case.tags}))
        tags = frozenset(overrides.tags)
        known = tuple(case for case in known if not tags.isdisjoint(case.tags))
    if overrides.cases is not None:
        _check("case", overrides.cases, {case.id: case for case in known})
        ids = frozenset(overrides.cases)
        known = tuple(case for case in known if case.id in ids)
    return known


def _check(noun: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(unknown(noun, name, known))


def _without_bars_of_absent(gate: Gate, providers: Sequence[ProviderOptions], cases: Sequence[Case]) -> Gate:
    if not gate.providers and not gate.tags:
        return gate
    names, tags = {each.name for each in providers}, {tag for case in cases for tag in case.tags}
    return msgspec.structs.replace(
        gate,
        providers={name: bar for name, bar in gate.providers.items() if name in names},
        tags={tag: rule for tag, rule in gate.tags.items() if tag in tags},
    )
