"""The cost of an answer: reported by the provider, or computed from the config's `price` or the
price list of genai-prices.
"""

from collections.abc import Callable, Iterable
from math import fsum

from ci_evals.format import closest
from ci_evals.model.response import Response, Usage
from ci_evals.providers.base import Price, ProviderOptions

_WRITE, _HOUR_WRITE = 1.25, 2.0
"""What writing to Anthropic's cache costs, for minutes and for an hour, in prices of input."""

Pricer = Callable[[Response], float | None]
"""Returns the cost of an answer in USD; None if it is not known."""


def pricer(options: ProviderOptions) -> Pricer:
    """Return a function that prices the answers of a provider.

    A cost that the provider reports comes first, then the config's `price`, which may name a model
    of the public list, then the list's price for the endpoint's host.
    """
    price = options.price
    api_url = options.api_url
    configured_model = getattr(options, "model", None)
    look_up: Callable[[str | None, str, Usage], float | None] | None = None
    if isinstance(price, str) or (price is None and api_url is not None):
        # Imported before the run: the import takes long, and calls are timed.
        from ci_evals.providers.price_list import list_price_usd

        look_up = list_price_usd

    def cost_usd(response: Response) -> float | None:
        usage = response.usage
        if response.cost_usd is not None or usage is None:
            return response.cost_usd
        if isinstance(price, Price):
            return _cost_at(price, usage)
        if look_up is None:
            return None
        if price is not None:
            return look_up(None, price, usage)
        cost = None
        if response.model:
            cost = look_up(api_url, response.model, usage)
        if cost is None and configured_model:
            cost = look_up(api_url, configured_model, usage)
        return cost

    return cost_usd


def total_usd(costs: Iterable[float | None]) -> float | None:
    """Return the total cost of several calls; None if one of them is unknown."""
    known = []
    for cost in costs:
        if cost is None:
            return None
        known.append(cost)
    return fsum(known)


def has_price(options: ProviderOptions) -> bool:
    """Return True if the costs of a provider's answers will be known."""
    return pricer(options)(Response(usage=Usage(1, 1))) is not None


def price_problem(options: ProviderOptions) -> str | None:
    """Return why the price of the model in `price` is unknown; None if it is known."""
    name = options.price
    if not isinstance(name, str) or has_price(options):
        return None
    advice = "use the vendor's name for it, or"
    from ci_evals.providers.price_list import listed_models

    others = listed_models() - {name}
    if close := closest(name, sorted(others), 0.75):
        advice = f"did you mean {close!r}? Otherwise"
    advice = f"{advice} give `input_per_mtok` and `output_per_mtok`"
    return f"the price of the model {name!r} is not known: {advice}"


def _cost_at(price: Price, usage: Usage) -> float:
    cached_per_mtok = price.cached_per_mtok
    if cached_per_mtok is None:
        cached_per_mtok = price.input_per_mtok
    write_per_mtok = price.cache_write_per_mtok
    if write_per_mtok is None:
        write_per_mtok = _WRITE * price.input_per_mtok
    hour_per_mtok = write_per_mtok * _HOUR_WRITE / _WRITE
    written_for_minutes = usage.cache_write_tokens - usage.hour_write_tokens
    fresh_tokens = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
    cost = (
        fresh_tokens * price.input_per_mtok
        + usage.cached_tokens * cached_per_mtok
        + written_for_minutes * write_per_mtok
        + usage.hour_write_tokens * hour_per_mtok
        + usage.output_tokens * price.output_per_mtok
    )
    return cost / 1e6
