"""Each provider's queue of runs, and how providers share the limit on calls under way."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from ci_evals.engine.calls import Calls, EndedError, Slot
from ci_evals.model.case import Case, Request, Variant
from ci_evals.model.plan import RunPlan
from ci_evals.model.response import Response
from ci_evals.providers.base import ProviderOptions
from ci_evals.suite.fingerprint import provider_identity, question_fingerprint
from ci_evals.suite.rendering import Rendered, Templates
from ci_evals.suite.types import CheckedSuite

BACKLOG = 16  # workers for each slot: those whose call waits for another attempt give theirs back


class Queue:
    """The runs of one provider that are left to do.

    Args:
        options: the provider's settings.
        calls: makes its calls.
        share: its share of the slots.
        price: what an answer cost, in USD, or None where that is not known.
    """

    def __init__(
        self,
        options: ProviderOptions,
        calls: Calls,
        share: "SlotShare",
        price: Callable[[Response], float | None],
    ) -> None:
        self.options = options
        self.calls = calls
        self.price = price
        self._share = share
        self._indexes: Iterator[int] = iter(())

    def fill(self, indexes: Iterator[int]) -> None:
        """Queue runs, by their index in the plan; what the provider was found to do stays known."""
        self._indexes = indexes
        self._share.is_exhausted = False

    async def work(self, do: Callable[[int, Slot], Awaitable[None]], most: int) -> None:
        """Do the queued runs, at most `most` at once, until none is left or the queue is stopped.

        Each is done by `do`, which is given its index in the plan and the slot that it holds.
        """
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(BACKLOG * self._share.limit, most)):
                workers.create_task(self._work(do))

    async def _work(self, do: Callable[[int, Slot], Awaitable[None]]) -> None:
        slot = Slot(self._share)
        while not self._share.is_closed and (index := next(self._indexes, None)) is not None:
            self._share.begun += 1
            try:
                await slot.take()
                await do(index, slot)
            except EndedError:
                pass
            finally:
                slot.give_back()
                self._share.leave()
        self._share.exhaust()

    def stop(self) -> None:
        """Begin no further run and no further attempt; calls that are under way end."""
        self._share.close()
        self.calls.stop()


class Slots:
    """The limit on calls under way, shared by providers.

    As long as a provider has runs left, an equal share is kept for it: one that hangs holds its own
    slots and never those of the others. What a provider has too few runs to use is lent.
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
        """Give free slots to those who wait for one, first to the provider that has the fewest."""
        for share in sorted(self.shares, key=lambda share: share.in_use) if self.free else ():
            while share.waiting and self.may_take(share):
                ticket = share.waiting.popleft()
                if not ticket.done():
                    ticket.set_result(None)
                    share.in_use += 1
                    self.free -= 1

    def may_take(self, share: "SlotShare") -> bool:
        """Return True if one of the free slots is this share's, or nobody's."""
        if self.free <= 0 or share.in_use >= share.limit:
            return False
        if len(self.shares) == 1:
            return True
        equal = max(1, self.limit // sum(1 for other in self.shares if other.demand))
        kept = sum(
            max(0, min(equal, other.demand) - other.in_use)
            for other in self.shares
            if other is not share
        )
        return share.in_use < equal or self.free > kept


class SlotShare:
    """One provider's share of the slots: a semaphore that leaves the other providers theirs."""

    def __init__(self, slots: Slots, limit: int) -> None:
        self.limit = limit
        self.in_use = 0
        self.begun = 0  # runs that may want a slot
        self.is_exhausted = True  # no further run will begin
        self.is_closed = False
        self.waiting: deque[asyncio.Future[None]] = deque()
        self._slots = slots

    @property
    def demand(self) -> int:
        """The number of slots that it can use."""
        return min(self.limit, self.begun) if self.is_exhausted else self.limit

    async def acquire(self) -> None:
        """Take a slot, waiting for one if need be; raises `EndedError` where no more are handed
        out.
        """
        if self.is_closed:
            raise EndedError
        if not self.waiting and self._slots.may_take(self):
            self.in_use += 1
            self._slots.free -= 1
            return
        ticket = asyncio.get_running_loop().create_future()
        self.waiting.append(ticket)
        try:
            await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled() and not ticket.exception():
                self.release()
            raise

    def release(self) -> None:
        """Give a slot back."""
        self.in_use -= 1
        self._slots.free += 1
        self._slots.hand_out()

    def close(self) -> None:
        """Hand out no more slots; whoever waits for one is told."""
        self.is_closed = True
        while self.waiting:
            if not (ticket := self.waiting.popleft()).done():
                ticket.set_exception(EndedError())

    def exhaust(self) -> None:
        """Begin no further run, so that what is kept for them can be lent."""
        self.is_exhausted = True
        self._slots.hand_out()

    def leave(self) -> None:
        """One run fewer may want a slot."""
        self.begun -= 1
        self._slots.hand_out()


MAX_KEPT = 10_000  # cells beyond these are rendered anew for each run: memory stays bounded whatever the plan


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCell:
    """A cell of the plan, with what all its runs share.

    `question` is the fingerprint of what is asked; `first_index` is the index that run 1 has, or
    would have, in the plan; a call may take `timeout_s` seconds.
    """

    case: Case
    variant: Variant
    rendered: Rendered
    question: str
    fingerprint: str
    first_index: int
    timeout_s: float

    def run_of(self, index: int) -> int:
        """The number, from 1, of the run at an index of the plan."""
        return index - self.first_index + 1

    def request(self, run: int) -> Request:
        """Return what a provider is sent for a run by its number."""
        return Request(
            self.rendered.input, tuple(self.rendered.messages), self.case, run, self.timeout_s
        )


class Cells:
    """Prepares cells of a suite and keeps the first ones."""

    def __init__(self, suite: CheckedSuite, plan: RunPlan) -> None:
        self._suite = suite
        self._plan = plan
        self._templates = Templates(suite.folder)
        self._prompts = {prompt.name: prompt for prompt in suite.prompts}
        self._identities = {
            str(options.name): provider_identity(options) for options in suite.providers
        }
        self._timeouts_s = {
            str(options.name): options.timeout_s or suite.timeout_s for options in suite.providers
        }
        self._kept: dict[int, PreparedCell] = {}

    def of_index(self, index: int) -> PreparedCell:
        """The cell of the run at an index of the plan."""
        return self.cell(self._plan.cell_of(index))

    def cell(self, number: int) -> PreparedCell:
        """A cell by its number in the plan."""
        cell = self._kept.get(number)
        if cell is None:
            cell = self._prepare(number)
            if self._plan.runs(number) > 1 and len(self._kept) < MAX_KEPT:
                self._kept[number] = cell
        return cell

    def _prepare(self, number: int) -> PreparedCell:
        case, variant = self._plan.case(number), self._plan.variant(number)
        rendered = self._templates.render(
            self._prompts[variant.prompt] if variant.prompt else None, case
        )
        question = question_fingerprint(case, rendered, self._identities[variant.provider])
        fingerprint = f"{question}.{self._suite.judgement_fingerprint(self._plan.row(number))}"
        first_index = self._plan.index(number, 1)
        timeout_s = case.timeout_s or self._timeouts_s[variant.provider]
        return PreparedCell(case, variant, rendered, question, fingerprint, first_index, timeout_s)
