"""The limit on calls under way, and how providers share it."""

import asyncio
from collections import deque
from collections.abc import Callable
from operator import attrgetter

BACKLOG = 16
"""The most workers for each slot: those whose call waits for another attempt hold none."""


class StoppedError(Exception):
    """The run was stopped before a call, or before another attempt."""


class Slots:
    """The limit on calls under way, shared by providers.

    An equal share is kept for each provider with runs left, so that one that hangs holds only its
    own slots. Slots that a provider has too few runs to use are lent. A share is also kept while
    calls wait for a pace or a retry: docs/decisions/0002.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.free = limit
        self.shares: list[SlotShare] = []

    def share(self, limit: int) -> "SlotShare":
        """Make the share of one more provider, which may use up to `limit` slots."""
        share = SlotShare(self, limit)
        self.shares.append(share)
        return share

    def hand_out(self) -> None:
        """Give free slots to providers that want one, first to the provider with the fewest."""
        if not self.free:
            return
        for share in sorted(self.shares, key=attrgetter("in_use")):
            while share.wants_slot and self.may_take(share):
                self.free -= 1
                share.in_use += 1
                share.hand_on()

    def may_take(self, share: "SlotShare") -> bool:
        """Return True if a free slot belongs to this share, or to no share."""
        if self.free <= 0 or share.in_use >= share.limit:
            return False
        if len(self.shares) == 1 or share.in_use < self.equal_share:
            return True
        return self.free > self.kept_for_others(share)

    def kept_for_others(self, share: "SlotShare") -> int:
        """Return the number of slots that the other providers lack of their equal shares."""
        equal = self.equal_share
        kept = 0
        for other in self.shares:
            if other is not share:
                kept += max(0, min(equal, other.demand) - other.in_use)
        return kept

    @property
    def equal_share(self) -> int:
        """The slots of each provider that can use some."""
        sharing = sum(1 for share in self.shares if share.demand)
        return max(1, self.limit // max(1, sharing))


class SlotShare:
    """One provider's share of the slots: a semaphore that respects the other shares.

    While it is open, each free slot that nobody waits for starts a worker.
    """

    def __init__(self, slots: Slots, limit: int) -> None:
        self.limit = limit
        self.in_use = 0
        self.workers = 0  # each holds a slot, or waits to get it back
        self._has_runs = False
        self._start_worker: Callable[[], None] | None = None
        self._most_workers = 0
        self._slots = slots
        self._is_closed = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def demand(self) -> int:
        """The number of slots that it can use."""
        if self._has_runs:
            return self.limit
        return min(self.limit, self.workers)

    @property
    def wants_slot(self) -> bool:
        """True if somebody waits for a slot, or another worker may start."""
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()  # it was cancelled
        if self._waiting:
            return True
        return self._start_worker is not None and self.workers < self._most_workers

    @property
    def must_yield(self) -> bool:
        """True if a worker must give its slot to somebody else after its run."""
        return bool(self._waiting) or self._is_closed

    async def acquire(self) -> None:
        """Take a slot, waiting for one if need be.

        Raises:
            StoppedError: no more are handed out.
        """
        if self._is_closed:
            raise StoppedError
        if not self._waiting and self._slots.may_take(self):
            self.in_use += 1
            self._slots.free -= 1
            return
        ticket = asyncio.get_running_loop().create_future()
        self._waiting.append(ticket)
        try:
            await ticket
        except asyncio.CancelledError:
            # Cancelled after the slot was handed over, but before this task resumed.
            if ticket.done() and not ticket.cancelled() and ticket.exception() is None:
                self.release()
            raise

    def hand_on(self) -> None:
        """Give a slot of this share to the first in line, or to a new worker."""
        if self._waiting:
            self._waiting.popleft().set_result(None)
        elif self._start_worker is not None:
            self.workers += 1
            self._start_worker()

    def release(self) -> None:
        """Give a slot back."""
        self.in_use -= 1
        self._slots.free += 1
        self._slots.hand_out()

    def reserve(self) -> None:
        """Keep an equal share of the slots for runs, until `exhaust`."""
        self._has_runs = not self._is_closed

    def open(self, start_worker: Callable[[], None], most: int) -> None:
        """Start a worker for each free slot, now and later, at most `most` at once."""
        self._start_worker = start_worker
        self._most_workers = min(BACKLOG * self.limit, most)
        self._slots.hand_out()

    def exhaust(self) -> None:
        """Start no further worker, so that the slots kept for them can be lent."""
        self._has_runs = False
        self._start_worker = None
        self._slots.hand_out()

    def close(self) -> None:
        """Hand out no more slots; whoever waits for one gets a `StoppedError`."""
        self._is_closed = True
        self._has_runs = False
        self._start_worker = None
        for ticket in self._waiting:
            if not ticket.done():
                ticket.set_exception(StoppedError())
        self._waiting.clear()

    def leave(self) -> None:
        """Record that a worker has ended."""
        self.workers -= 1
        self._slots.hand_out()


class Slot:
    """A slot: held during calls, given back while a call waits for another attempt."""

    def __init__(self, share: SlotShare, *, held: bool = False) -> None:
        self.held = held
        self._share = share

    async def take(self) -> None:
        """Wait for the slot.

        Raises:
            StoppedError: no more are handed out.
        """
        await self._share.acquire()
        self.held = True

    def give_back(self) -> None:
        """Give the slot to others; does nothing if it isn't held."""
        if self.held:
            self.held = False
            self._share.release()
