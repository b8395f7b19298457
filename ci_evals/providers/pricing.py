"""The cost of an answer: as the provider says, by the config's `price`, or by the public list of
genai-prices.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from math import fsum

from genai_prices import Usage as ListUsage
from genai_prices import calc_price
from genai_prices.data_snapshot import get_snapshot

from ci_evals.format import closest
from ci_evals.model.response import Response, Usage
from ci_evals.providers.base import ProviderOptions


def pricer(options: ProviderOptions) -> Callable[[Response], float | None]:
    """Return a function from an answer to its cost in USD, or to None where the price is not known.

    The provider's own word comes first, then the config's `price`, which may name a model of the
    public list, then that list for the endpoint's host.
    """

    def cost_usd(response: Response) -> float | None:
        usage = response.usage
        if response.cost_usd is not None or usage is None:
            return response.cost_usd
        if isinstance(price := options.price, str):
            return _list_price_usd(None, price, usage)
        if price is not None:
            cached = (
                price.input_per_mtok if price.cached_per_mtok is None else price.cached_per_mtok
            )
            fresh_tokens = usage.input_tokens - usage.cached_tokens
            per_million = fresh_tokens * price.input_per_mtok + usage.cached_tokens * cached
            return (per_million + usage.output_tokens * price.output_per_mtok) / 1e6
        for model in (response.model, getattr(options, "model", None)):
            if (
                model
                and options.api_url
                and (cost := _list_price_usd(options.api_url, model, usage)) is not None
            ):
                return cost
        return None

    return cost_usd


def total_usd(costs: Iterable[float | None]) -> float | None:
    """Return what several calls cost together; None if the cost of one of them is not known."""
    known = list(costs)
    return None if None in known else fsum(cost or 0.0 for cost in known)


def has_price(options: ProviderOptions) -> bool:
    """Return True if the costs of a provider's answers will be known, by the config's `price` or
    the public list.
    """
    return pricer(options)(Response(usage=Usage(1, 1))) is not None


def price_problem(options: ProviderOptions) -> str | None:
    """Return what is wrong with the name of a model whose price is to be taken; None if its price
    is known.
    """
    name = options.price
    if not isinstance(name, str) or has_price(options):
        return None
    listed = {model.id for provider in get_snapshot().providers for model in provider.models}
    close = closest(name, sorted(listed), 0.75)
    hint = f"did you mean {close!r}? Else" if close else "name it as its vendor does, or"
    return f"the price of a model {name!r} is not known: {hint} give `input_per_mtok` and `output_per_mtok`"


@lru_cache(maxsize=4096)
def _list_price_usd(api_url: str | None, model: str, usage: Usage) -> float | None:
    counted = ListUsage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_tokens or None,
        output_tokens=usage.output_tokens,
    )
    try:
        return float(calc_price(counted, model_ref=model, provider_api_url=api_url).total_price)
    except (LookupError, ValueError):
        return None
