"""What an answer cost."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from math import fsum

from ci_evals.providers.base import Price, ProviderOptions
from ci_evals.response import Response, Usage


def pricer(options: ProviderOptions) -> Callable[[Response], float | None]:
    """A function from an answer to its cost in USD, or to None where the price is not known.

    The provider's own word comes first, then the config's `price`, then the public list of genai-prices for the
    endpoint's host.
    """
    own, api_url, named_model = options.price, options.api_url, getattr(options, "model", None)

    if own is None and api_url is not None and named_model is not None:
        _by_list(api_url, named_model, Usage(1, 1))  # load the list now, not while calls are under way

    def cost_usd(response: Response) -> float | None:
        if response.cost_usd is not None or response.usage is None:
            return response.cost_usd
        if own is not None:
            return _by_price(own, response.usage)
        if api_url is None:
            return None
        for model in (response.model, named_model):
            if model and (cost := _by_list(api_url, model, response.usage)) is not None:
                return cost
        return None

    return cost_usd


def total_usd(costs: Iterable[float | None]) -> float | None:
    """What several calls cost together; None if that of one of them is not known."""
    known = list(costs)
    return None if None in known else fsum(cost or 0.0 for cost in known)


def has_price(options: ProviderOptions) -> bool:
    """Whether the costs of a provider's answers will be known: by the config's `price` or the public list."""
    if options.price is not None:
        return True
    api_url, model = options.api_url, getattr(options, "model", None)
    return api_url is not None and model is not None and _by_list(api_url, model, Usage(1, 1)) is not None


def _by_price(price: Price, usage: Usage) -> float:
    cached = price.input_per_mtok if price.cached_per_mtok is None else price.cached_per_mtok
    fresh_tokens = usage.input_tokens - usage.cached_tokens
    return (
        fresh_tokens * price.input_per_mtok + usage.cached_tokens * cached + usage.output_tokens * price.output_per_mtok
    ) / 1e6


@lru_cache(maxsize=4096)
def _by_list(api_url: str, model: str, usage: Usage) -> float | None:
    from genai_prices import Usage as ListUsage
    from genai_prices import calc_price

    counted = ListUsage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_tokens or None,
        output_tokens=usage.output_tokens,
    )
    try:
        return float(calc_price(counted, model_ref=model, provider_api_url=api_url).total_price)
    except (LookupError, ValueError):
        return None
