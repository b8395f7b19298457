"""The limit on calls under way, shared fairly by providers."""

import asyncio
from collections import deque


class Claim:
    """One provider's part in the slots. `workers` is how many it has that may yet want one."""

    __slots__ = ("in_use", "waiting", "workers")

    def __init__(self) -> None:
        self.in_use = 0
        self.workers = 0
        self.waiting: deque[asyncio.Future[None]] = deque()


class Slots:
    """A semaphore over several claims.

    As long as a provider has work left, an equal share is kept for it: one that hangs holds its own slots and never
    those of the others. What a provider has too few workers to use is lent.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.free = limit
        self.claims: list[Claim] = []
        self._waiting = 0  # how many tickets are out

    def claim(self) -> Claim:
        claim = Claim()
        self.claims.append(claim)
        return claim

    def acquire_now(self, claim: Claim) -> bool:
        """Take a slot if one is to be had without waiting."""
        if claim.waiting or self.free <= 0 or (len(self.claims) > 1 and not self._has_share(claim)):
            return False
        claim.in_use += 1
        self.free -= 1
        return True

    async def acquire(self, claim: Claim) -> None:
        """Take a slot, waiting for one if need be."""
        if self.acquire_now(claim):
            return
        ticket = asyncio.get_running_loop().create_future()
        claim.waiting.append(ticket)
        self._waiting += 1
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
        if self._waiting:
            self._hand_out()

    def leave(self, claim: Claim) -> None:
        """One of a provider's workers has no more to do."""
        claim.workers -= 1
        self._hand_out()

    def _hand_out(self) -> None:
        """Give free slots to whoever may have them, first to those that have the fewest."""
        if not self.free:
            return
        for claim in sorted(self.claims, key=lambda claim: claim.in_use) if len(self.claims) > 1 else self.claims:
            while claim.waiting and self.free > 0 and (len(self.claims) == 1 or self._has_share(claim)):
                ticket = claim.waiting.popleft()
                self._waiting -= 1
                if not ticket.done():
                    ticket.set_result(None)
                    claim.in_use += 1
                    self.free -= 1

    def _has_share(self, claim: Claim) -> bool:
        """Whether one of the free slots is this claim's, or nobody's."""
        share = max(1, self.limit // sum(1 for other in self.claims if other.workers))
        if claim.in_use < share:
            return True
        kept = sum(max(0, min(share, other.workers) - other.in_use) for other in self.claims if other is not claim)
        return self.free > kept
