"""The limit on calls under way, shared fairly by providers."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Claim:
    """One provider's part in the slots.

    `awake` is how many of its workers are calling or about to; workers that wait for a pause or a retry are not.
    """

    __slots__ = ("awake", "in_use", "waiting")

    def __init__(self) -> None:
        self.in_use = 0
        self.awake = 0
        self.waiting: deque[asyncio.Future[None]] = deque()

    @contextmanager
    def asleep(self, slots: "Slots") -> Iterator[None]:
        """While one of its workers wants no slot, its part of the share is lent to others."""
        self.awake -= 1
        slots.wake()
        try:
            yield
        finally:
            self.awake += 1


class Slots:
    """A semaphore over several claims.

    While others compete, a claim gets at most its equal share: a provider that hangs keeps its own slots and never
    those of the others. What nobody else could use is lent.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.free = limit
        self.claims: list[Claim] = []

    def claim(self) -> Claim:
        claim = Claim()
        self.claims.append(claim)
        return claim

    def acquire_now(self, claim: Claim) -> bool:
        """Take a slot if one is to be had without waiting."""
        if claim.waiting or not self._available(claim):
            return False
        self._grant(claim)
        return True

    async def acquire(self, claim: Claim) -> None:
        """Take a slot, waiting for one if need be."""
        if self.acquire_now(claim):
            return
        ticket = asyncio.get_running_loop().create_future()
        claim.waiting.append(ticket)
        try:
            await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled():
                self.release(claim)
            raise

    def release(self, claim: Claim) -> None:
        """Give a slot back."""
        claim.in_use -= 1
        self.free += 1
        self.wake()

    def wake(self) -> None:
        """Hand free slots to whoever may have them; called when a slot or a reservation becomes free."""
        if self.free:
            for claim in sorted(self.claims, key=lambda claim: claim.in_use) if len(self.claims) > 1 else self.claims:
                while claim.waiting and self._available(claim):
                    ticket = claim.waiting.popleft()
                    if not ticket.done():
                        ticket.set_result(None)
                        self._grant(claim)

    def _grant(self, claim: Claim) -> None:
        claim.in_use += 1
        self.free -= 1

    def _available(self, claim: Claim) -> bool:
        if self.free <= 0:
            return False
        if len(self.claims) == 1:
            return True
        share = max(1, self.limit // sum(1 for other in self.claims if other.awake))
        if claim.in_use < share:
            return True
        reserved = sum(max(0, min(share, other.awake) - other.in_use) for other in self.claims if other is not claim)
        return self.free > reserved
