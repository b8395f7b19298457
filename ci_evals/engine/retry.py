"""When a refused or lost call is tried again."""

from collections.abc import Callable

BASE_S = 0.5
CAP_S = 30.0
LONGEST_RETRY_AFTER_S = 300.0


def delay_s(attempt: int, retry_after_s: float | None, draw: Callable[[], float]) -> float:
    """Seconds to wait before the next attempt.

    Exponential backoff with full jitter (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
    A provider's `Retry-After` is kept, with a little jitter on top so that not everybody returns at the same moment.
    Where keeping it was no help, the backoff is the least: some ask for no time at all, and would use up all attempts.

    Args:
        attempt: how many attempts have failed, from 1.
        retry_after_s: what the provider asked for, in seconds.
        draw: returns a uniform number in [0, 1).
    """
    ceiling: float = min(CAP_S, BASE_S * 2 ** min(attempt - 1, 16))
    if retry_after_s is None:
        return ceiling * draw()
    asked_for_s = min(retry_after_s, LONGEST_RETRY_AFTER_S) + 0.1 * draw()
    return asked_for_s if attempt == 1 else max(asked_for_s, ceiling * draw())
