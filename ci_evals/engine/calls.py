"""The calls that one run consists of: a single one, or those of a conversation; and the judgement of what came."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_evals.engine.asked import admitted
from ci_evals.engine.cells import PreparedCell
from ci_evals.engine.conversation import Conversation
from ci_evals.engine.files import keep_files, without_data
from ci_evals.engine.judges import Judges
from ci_evals.engine.lane import Attempt, Lane
from ci_evals.engine.outcome import Outcome, judged, unanswered
from ci_evals.engine.players import PlayError, Players
from ci_evals.errors import ProviderError, StorageError
from ci_evals.model import Answer, Request, RunError, SimulatedUser
from ci_evals.response import Response


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
        draw: returns a uniform number in [0, 1).
        files: the results folder, for files in answers; None keeps none.
    """

    def __init__(
        self,
        players: Players | None,
        judges: Judges | None,
        draw: Callable[[], float],
        files: Path | None,
    ) -> None:
        self._players = players
        self._judges = judges
        self._draw = draw
        self._files = files
        self._conversations: dict[int, Conversation] = {}

    def forget(self, attempt: Attempt) -> None:
        """A run is given up: nothing of it is gone on with."""
        self._conversations.pop(attempt.slot, None)

    async def make(self, lane: Lane, attempt: Attempt, cell: PreparedCell, tokens: int) -> Ended | None:
        """Make the calls of a run whose first one was admitted with `tokens`; None if it is to be tried again.

        Raises:
            StorageError: a file in an answer cannot be kept.
        """
        if cell.case.is_conversation:
            return await self._converse(lane, attempt, cell, tokens)
        request = cell.request(cell.run_of(attempt.slot))
        started_at, start = time.time(), time.perf_counter()
        try:
            response = await lane.provider.answer(request)
        except StorageError:
            raise
        except Exception as raised:  # noqa: BLE001  a provider is not our code: its crash is this run's error
            latency_s = time.perf_counter() - start
            error = ProviderError.of(raised)
            if lane.lost(attempt, error, latency_s, self._draw):
                return None
            return Ended(unanswered(error, lane.options), started_at, latency_s)
        latency_s = time.perf_counter() - start
        lane.answered(response.usage, tokens)
        cost_usd = lane.price(response)
        if response.files:
            response = await asyncio.to_thread(keep_files, response, self._files)
        outcome = await judged(Answer(request, response, latency_s, cost_usd), self._judges)
        if response.files:
            outcome = msgspec.structs.replace(outcome, response=without_data(response))
        return Ended(outcome, started_at, latency_s)

    async def _converse(self, lane: Lane, attempt: Attempt, cell: PreparedCell, tokens: int) -> Ended | None:
        """Make a conversation's calls, each at the provider's pace; one that was cut short goes on where it was."""
        run, timeout_s = cell.run_of(attempt.slot), cell.timeout_s
        conversation = self._conversations.setdefault(attempt.slot, Conversation(cell, run))
        started_at, start = time.time(), time.perf_counter()
        is_admitted = True  # the first call is
        try:
            while (line := await conversation.next_line(self._play_user, timeout_s)) is not None:
                request = conversation.request(line, timeout_s)
                if not is_admitted:
                    tokens = await admitted(lane.pace, lane.turn, request)
                start, is_admitted = time.perf_counter(), False
                response = await lane.provider.answer(request)
                lane.answered(response.usage, tokens)
                response = await self._with_files_kept(response)
                conversation.answered(response, time.perf_counter() - start, lane.price(response))
        except StorageError:
            raise
        except PlayError as silent:
            if is_admitted:
                lane.not_called(attempt)
            told = RunError(silent.cause.kind, f"the simulated user could not go on: {silent.cause.message}")
            outcome = Outcome("errored", error=told)
        except Exception as raised:  # noqa: BLE001  a provider is not our code: its crash is this run's error
            error = ProviderError.of(raised)
            if lane.lost(attempt, error, time.perf_counter() - start, self._draw):
                return None
            outcome = unanswered(error, lane.options)
        else:
            if is_admitted:  # the simulated user had nothing to ask
                lane.not_called(attempt)
            answer = Answer(cell.request(run), conversation.response, conversation.latency_s, conversation.cost_usd)
            outcome = await judged(answer, self._judges)
        del self._conversations[attempt.slot]
        return Ended(outcome, started_at, conversation.latency_s)

    async def _with_files_kept(self, response: Response) -> Response:
        """The response, with its files in the results folder instead."""
        if not response.files:
            return response
        return without_data(await asyncio.to_thread(keep_files, response, self._files))

    async def _play_user(self, user: SimulatedUser, request: Request) -> tuple[Response, float | None]:
        if self._players is None:
            raise PlayError(ProviderError("not_recorded", "only recorded answers are allowed"))
        return await self._players.play(user, request)
