"""Time that passes only when everybody waits for it."""

import asyncio
import heapq
from itertools import count

START = 1_750_000_000.0


class VirtualTime:
    """A clock and a sleep for `participants` tasks: time jumps to the next waking when all of them sleep.

    Who waits for an answer of a fake server is asleep when the server sleeps in its stead.
    """

    def __init__(self, participants: int = 1) -> None:
        self.now = START
        self.slept: list[float] = []
        self._participants = participants
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._order), woken))
        self._advance()
        await woken

    def leave(self) -> None:
        """One participant fewer."""
        self._participants -= 1
        self._advance()

    def _advance(self) -> None:
        if self._sleepers and len(self._sleepers) >= self._participants:
            self.now, _, woken = heapq.heappop(self._sleepers)
            woken.set_result(None)
