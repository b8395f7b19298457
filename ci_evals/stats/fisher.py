"""Fisher's exact test: one cell of the head against the same cell of the base.

Source: R. A. Fisher, Statistical Methods for Research Workers (1934), section 21.02.
"""

from functools import lru_cache
from math import fsum

from ci_evals.stats.hypergeometric import Hypergeometric, hypergeometric

_SAME = 1 + 1e-7
"""Tables this near to the observed one count as equally likely: their probabilities differ by rounding."""

# A comparison has many cells and few distinct tables.


@lru_cache(maxsize=65536)
def fisher_lower(k_head: int, n_head: int, k_base: int, n_base: int) -> float:
    """The p-value for "the head is worse": the chance of `k_head` passes or fewer, given all margins.

    Raises:
        ValueError: where passes are not between 0 and the runs.
    """
    return _margins(k_head, n_head, k_base, n_base).at_most(k_head)


@lru_cache(maxsize=65536)
def fisher_upper(k_head: int, n_head: int, k_base: int, n_base: int) -> float:
    """The p-value for "the head is better": the chance of `k_head` passes or more, given all margins.

    Raises:
        ValueError: where passes are not between 0 and the runs.
    """
    return _margins(k_head, n_head, k_base, n_base).at_least(k_head)


@lru_cache(maxsize=65536)
def fisher_two_sided(k_head: int, n_head: int, k_base: int, n_base: int) -> float:
    """The p-value for "they differ": the chance of a table no likelier than the observed one, given all margins.

    Raises:
        ValueError: where passes are not between 0 and the runs.
    """
    margins = _margins(k_head, n_head, k_base, n_base)
    observed = margins.exactly(k_head) * _SAME
    return min(1.0, fsum([p for p in margins.probabilities if p <= observed]))


def _margins(k_head: int, n_head: int, k_base: int, n_base: int) -> Hypergeometric:
    if not (0 <= k_head <= n_head and 0 <= k_base <= n_base):
        raise ValueError(f"no such table: {k_head} of {n_head} against {k_base} of {n_base}")
    return hypergeometric(n_head, n_base, k_head + k_base)
