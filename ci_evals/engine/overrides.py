"""A provider that answers some cases with other settings than the rest."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from ci_evals.model import Case, Request
from ci_evals.prices import pricer
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.response import Response
from ci_evals.suite import digest, overridden_options


def opened_provider(options: ProviderOptions, cases: Iterable[Case], resources: Resources) -> Provider:
    """Open a provider, once for each of the settings that cases want of it.

    Raises:
        ConfigError: it cannot be opened.
    """
    usual = options.open(resources)
    others: dict[str, _Other] = {}
    by_settings: dict[str, _Other] = {}
    for case in cases:
        changed = overridden_options(options, case.overrides)
        if changed is options:
            continue
        key = digest([case.overrides.model, case.overrides.params])
        if key not in by_settings:
            by_settings[key] = _Other(changed.open(resources), pricer(changed))
        others[case.id] = by_settings[key]
    return _PerCase(usual, others) if others else usual


class _Other(NamedTuple):
    """A provider with other settings, and what its answers cost: another model has another price."""

    provider: Provider
    price: Callable[[Response], float | None]


class _PerCase:
    def __init__(self, usual: Provider, others: Mapping[str, _Other]) -> None:
        self._usual = usual
        self._others = others

    async def answer(self, request: Request) -> Response:
        if (other := self._others.get(request.case.id)) is None:
            return await self._usual.answer(request)
        response = await other.provider.answer(request)
        return msgspec.structs.replace(response, cost_usd=other.price(response))
