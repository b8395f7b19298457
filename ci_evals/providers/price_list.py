"""The public price list of genai-prices."""

from functools import lru_cache

from genai_prices import Usage as ListUsage
from genai_prices import calc_price
from genai_prices.data_snapshot import get_snapshot

from ci_evals.model.response import Usage


@lru_cache(maxsize=4096)
def list_price_usd(api_url: str | None, model: str, usage: Usage) -> float | None:
    """Return what tokens of a model cost in USD; None if the list does not have the model.

    Args:
        api_url: the endpoint; None to find the vendor by the model's name.
        model: the model's name, as the vendor writes it.
        usage: the tokens.
    """
    counts = ListUsage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_tokens or None,
        output_tokens=usage.output_tokens,
    )
    try:
        return float(calc_price(counts, model_ref=model, provider_api_url=api_url).total_price)
    except (LookupError, ValueError):
        return None


def is_listed(api_url: str) -> bool:
    """Return True if an endpoint is that of a vendor on the list, and so not a gateway."""
    try:
        get_snapshot().find_provider(None, None, api_url)
    except LookupError:
        return False
    return True


def listed_models() -> set[str]:
    """Return the names of all models of the list."""
    return {model.id for provider in get_snapshot().providers for model in provider.models}
