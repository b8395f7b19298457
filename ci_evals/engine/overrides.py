"""A provider that answers some cases with other settings than the rest."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from ci_evals.engine.stages import Price
from ci_evals.model import Case, Request
from ci_evals.prices import pricer
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.response import Response
from ci_evals.suite import digest, overridden_options


def opened_provider(options: ProviderOptions, cases: Iterable[Case], resources: Resources) -> tuple[Provider, Price]:
    """Open a provider, once for each of the settings that cases want of it.

    Raises:
        ConfigError: it cannot be opened.
    """
    usual = _Priced(options.open(resources), pricer(options))
    others: dict[str, _Priced] = {}
    by_settings: dict[str, _Priced] = {}
    for case in cases:
        changed = overridden_options(options, case.overrides)
        if changed is options:
            continue
        key = digest([case.overrides.model, case.overrides.params])
        if key not in by_settings:
            by_settings[key] = _Priced(changed.open(resources), pricer(changed))
        others[case.id] = by_settings[key]
    return (_PerCase(usual, others), _told_usd) if others else usual


class _Priced(NamedTuple):
    """A provider and what its answers cost: another model has another price, or one that is not known."""

    provider: Provider
    price: Price


def _told_usd(response: Response) -> float | None:
    return response.cost_usd


class _PerCase:
    def __init__(self, usual: _Priced, others: Mapping[str, _Priced]) -> None:
        self._usual = usual
        self._others = others

    async def answer(self, request: Request) -> Response:
        provider, price = self._others.get(request.case.id, self._usual)
        response = await provider.answer(request)
        return msgspec.structs.replace(response, cost_usd=price(response))
