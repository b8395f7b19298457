"""One provider's queue: its fresh runs and its retries."""

import heapq
from collections.abc import Callable, Iterable, Iterator

from ci_evals.engine.contact import Attempt, Contact
from ci_evals.engine.slots import Claim
from ci_evals.providers.base import ProviderOptions
from ci_evals.response import Message, Response


class Lane:
    """What is left to do at one provider.

    Args:
        options: the provider's settings.
        contact: makes its calls.
        fresh: slots that have not been tried, in order.
        limit: how many calls of this provider may be under way.
        claim: its part in the global slots.
        price: what an answer cost, in USD, or None where that is not known.
    """

    def __init__(
        self,
        options: ProviderOptions,
        contact: Contact,
        fresh: Iterator[int],
        *,
        limit: int,
        claim: Claim,
        price: Callable[[Response], float | None],
    ) -> None:
        self.options = options
        self.contact = contact
        self.limit = limit
        self.claim = claim
        self.price = price
        self._fresh = fresh
        self._retries: list[tuple[float, Attempt]] = []

    def queue(self, fresh: Iterator[int]) -> None:
        """Go on with further slots; how the provider has fared stays known."""
        self._fresh = fresh

    @property
    def retrying(self) -> int:
        """How many runs wait for another attempt."""
        return len(self._retries)

    @property
    def given_up(self) -> bool:
        return self.contact.breaker.state == "open"

    def take(self) -> Attempt | float | None:
        """The next attempt, or the seconds until there may be one, or None when nothing is left."""
        state = self.contact.breaker.state
        if state == "probing" and (wait_s := self.contact.until_probe_s) > 0:
            return wait_s
        if self._retries and (state != "closed" or self._retries[0][0] <= self.contact.clock()):
            attempt = heapq.heappop(self._retries)[1]
        elif len(self._retries) < 4 * self.limit and (slot := next(self._fresh, None)) is not None:
            attempt = Attempt(slot, 1)  # with more waiting than that, fresh runs would only join the queue
        else:
            return self._retries[0][0] - self.contact.clock() if self._retries else None
        if state == "probing":
            self.contact.probe(attempt)
        return attempt

    def expected_tokens(self, messages: Iterable[Message]) -> int:
        """What a call with these messages will probably take; 0 where nobody wants to know."""
        if not self.contact.pace.counts_tokens:
            return 0
        params = getattr(self.options, "params", {})
        most = params.get("max_tokens") or params.get("max_completion_tokens")
        return self.contact.pace.expected_tokens(messages, most)

    def put_back(self, attempt: Attempt) -> None:
        """Return an attempt that was not made."""
        heapq.heappush(self._retries, (0.0, attempt))

    def try_again(self, attempt: Attempt, delay_s: float) -> None:
        """Queue what comes after an attempt that was lost."""
        heapq.heappush(self._retries, (self.contact.clock() + delay_s, Attempt(attempt.slot, attempt.number + 1)))
