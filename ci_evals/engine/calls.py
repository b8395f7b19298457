"""The calls that one run consists of: a single one, or those of a conversation; and the judgement of what came."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_evals.engine.cells import PreparedCell
from ci_evals.engine.contact import Attempt, LostError
from ci_evals.engine.conversation import Conversation
from ci_evals.engine.files import keep_files, without_data
from ci_evals.engine.judges import Judges
from ci_evals.engine.lane import Lane
from ci_evals.engine.outcome import Outcome, judged, unanswered
from ci_evals.engine.players import PlayError, Players
from ci_evals.errors import ProviderError
from ci_evals.model import Answer, Request, RunError, SimulatedUser
from ci_evals.response import Response

Admitted = Callable[[Callable[[], int]], Awaitable[int | None]]
"""Waits until a call may go out that will probably take so many tokens; see `Contact.admitted`."""


class Ended(Struct, frozen=True, gc=False):
    """How a run ended: when its last attempt began (seconds since 1970), and how long the calls of that took."""

    outcome: Outcome
    started_at: float
    latency_s: float


class Calls:
    """Makes runs' calls.

    Args:
        players: who plays users; None when only recorded answers are allowed.
        judges: the models that graders may ask.
        files: the results folder, for files in answers; None keeps none.
    """

    def __init__(self, players: Players | None, judges: Judges | None, files: Path | None) -> None:
        self._players = players
        self._judges = judges
        self._files = files
        self._conversations: dict[int, Conversation] = {}

    def forget(self, attempt: Attempt) -> None:
        """A run is given up: nothing of it is gone on with."""
        self._conversations.pop(attempt.slot, None)

    async def make(self, lane: Lane, attempt: Attempt, cell: PreparedCell, tokens: int) -> Ended | None:
        """Make the call of a run, which was admitted with `tokens`; None if it is to be tried again.

        Raises:
            StorageError: a file in the answer cannot be kept.
        """
        request = cell.request(cell.run_of(attempt.slot))
        started_at = time.time()
        try:
            response, latency_s = await lane.contact.call(attempt, request, tokens)
        except LostError as lost:
            outcome = _end_of(attempt, lane, lost)
            return None if outcome is None else Ended(outcome, started_at, lost.latency_s)
        cost_usd = lane.price(response)
        if response.files:
            response = await asyncio.to_thread(keep_files, response, self._files)
        outcome = await judged(Answer(request, response, latency_s, cost_usd), self._judges)
        if response.files:
            outcome = msgspec.structs.replace(outcome, response=without_data(response))
        return Ended(outcome, started_at, latency_s)

    async def converse(self, lane: Lane, attempt: Attempt, cell: PreparedCell, admitted: Admitted) -> Ended | None:
        """Make a conversation's calls, each at the provider's pace; None if it is to go on another time, where it was.

        Args:
            lane: the queue that it is from.
            attempt: which one this is.
            cell: what is run.
            admitted: waits for the first of the calls.

        Raises:
            StorageError: a file in an answer cannot be kept.
        """
        run = cell.run_of(attempt.slot)
        conversation = self._conversations.setdefault(attempt.slot, Conversation(cell, run))
        started_at = time.time()
        outcome: Outcome | None
        try:
            if not await self._say_all(conversation, lane, attempt, admitted, cell.timeout_s):
                lane.put_back(attempt)
                return None
        except PlayError as silent:
            told = RunError(silent.cause.kind, f"the simulated user could not go on: {silent.cause.message}")
            outcome = Outcome("errored", error=told)
        except LostError as lost:
            if (outcome := _end_of(attempt, lane, lost)) is None:
                return None
        else:
            answer = Answer(cell.request(run), conversation.response, conversation.latency_s, conversation.cost_usd)
            outcome = await judged(answer, self._judges)
        del self._conversations[attempt.slot]
        return Ended(outcome, started_at, conversation.latency_s)

    async def _say_all(
        self, conversation: Conversation, lane: Lane, attempt: Attempt, admitted: Admitted, timeout_s: float
    ) -> bool:
        """Go on to the end of a conversation; False if others found the provider gone, or it is not wanted any more.

        No call is admitted before its line is known: who plays the user may have to wait for it at the same pace.
        """
        contact = lane.contact
        try:
            while (line := await conversation.next_line(self._play_user, timeout_s)) is not None:
                request = conversation.request(line, timeout_s)
                if (tokens := await admitted(partial(lane.expected_tokens, request.messages))) is None:
                    return False
                admitted = partial(contact.admitted, attempt)  # once begun, it goes on to its end
                response, latency_s = await contact.call(attempt, request, tokens)
                response = await self._with_files_kept(response)
                conversation.answered(response, latency_s, lane.price(response))
            return True
        finally:
            contact.forgo(attempt)  # the simulated user may have had nothing to ask

    async def _with_files_kept(self, response: Response) -> Response:
        """The response, with its files in the results folder instead."""
        if not response.files:
            return response
        return without_data(await asyncio.to_thread(keep_files, response, self._files))

    async def _play_user(self, user: SimulatedUser, request: Request) -> tuple[Response, float | None]:
        if self._players is None:
            raise PlayError(ProviderError("not_recorded", "only recorded answers are allowed"))
        return await self._players.play(user, request)


def _end_of(attempt: Attempt, lane: Lane, lost: LostError) -> Outcome | None:
    """What becomes of a run whose call was lost; None if it is tried again."""
    if lost.delay_s is None:
        return unanswered(lost.error, lane.options)
    lane.try_again(attempt, lost.delay_s)
    return None
