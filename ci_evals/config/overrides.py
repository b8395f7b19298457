"""What the command line or the environment puts in place of what a suite says, and which of its parts it selects."""

from collections.abc import Iterable, Sequence
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


def overridden(suite: Suite, overrides: Overrides) -> Suite:
    """A loaded suite with some values replaced.

    Raises:
        UsageError: a provider or a tag is named that the suite does not have.
    """
    changes = {
        name: value
        for name in (
            "runs",
            "max_runs",
            "confirm_runs",
            "max_concurrency",
            "timeout_s",
            "retries",
            "seed",
            "out",
            "label",
        )
        if (value := getattr(overrides, name)) is not None
    }
    if overrides.providers is not None:
        names = [str(provider.name) for provider in suite.providers]
        for name in overrides.providers:
            if name not in names:
                raise UsageError(unknown("provider", name, names))
        changes["providers"] = tuple(each for each in suite.providers if each.name in overrides.providers)
    if overrides.tags is not None:
        known = sorted({tag for case in suite.cases for tag in case.tags})
        for tag in overrides.tags:
            if tag not in known:
                raise UsageError(unknown("tag", tag, known))
        changes["cases"] = cases = with_tags(suite.cases, overrides.tags)
        changes["gate"] = without_bars_of_absent_tags(suite.gate, cases)
    return msgspec.structs.replace(suite, **changes)


def without_bars_of_others(gate: Gate | None, providers: Sequence[ProviderOptions]) -> Gate | None:
    """The gate without bars for providers that were not selected."""
    if gate is None:
        return None
    names = {provider.name for provider in providers}
    return msgspec.structs.replace(gate, providers={k: v for k, v in gate.providers.items() if k in names})


def with_tags(cases: Sequence[Case], tags: Iterable[str]) -> tuple[Case, ...]:
    """The cases with at least one of the tags."""
    chosen = frozenset(tags)
    return tuple(case for case in cases if not chosen.isdisjoint(case.tags))


def without_bars_of_absent_tags(gate: Gate | None, cases: Sequence[Case]) -> Gate | None:
    """The gate without bars for tags of cases that were not selected."""
    if gate is None:
        return None
    tags = {tag for case in cases for tag in case.tags}
    return msgspec.structs.replace(gate, tags={tag: rule for tag, rule in gate.tags.items() if tag in tags})
