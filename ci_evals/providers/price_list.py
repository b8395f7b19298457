"""The public price list of genai-prices."""

from functools import lru_cache

from genai_prices import Usage as ListUsage
from genai_prices.data_snapshot import get_snapshot

from ci_evals.model.response import Usage


@lru_cache(maxsize=4096)
def list_price_usd(api_url: str | None, model: str, usage: Usage) -> float | None:
    """Return the cost of tokens of a model in USD; None if the model is not on the list.

    Args:
        api_url: the endpoint; None to infer the vendor from the model's name.
        model: the model's name, as the vendor writes it.
        usage: the tokens.
    """
    price = _price_usd(model, usage, api_url=api_url)
    if price is not None or api_url is not None:
        return price
    # The vendor cannot be inferred from some names, such as those of Bedrock. The price is still
    # known if all vendors that list the model charge the same.
    prices = set()
    for vendor in get_snapshot().providers:
        if any(listed.id == model for listed in vendor.models):
            prices.add(_price_usd(model, usage, vendor=vendor.id))
    if len(prices) != 1:
        return None
    return prices.pop()


def _price_usd(
    model: str, usage: Usage, *, vendor: str | None = None, api_url: str | None = None
) -> float | None:
    counts = ListUsage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_tokens or None,
        cache_write_tokens=usage.cache_write_tokens or None,
        output_tokens=usage.output_tokens,
    )
    try:
        return float(get_snapshot().calc(counts, model, vendor, api_url, None).total_price)
    except (LookupError, ValueError):
        return None


def is_listed(api_url: str) -> bool:
    """Return True if an endpoint belongs to a vendor on the list, and thus is not a gateway."""
    try:
        get_snapshot().find_provider(None, None, api_url)
    except LookupError:
        return False
    return True


def listed_models() -> set[str]:
    """Return the names of all models of the list."""
    return {model.id for provider in get_snapshot().providers for model in provider.models}
