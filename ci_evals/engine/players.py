"""The providers that play users: called within their own pace, while a run waits for them."""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ci_evals.engine import retry
from ci_evals.engine.conversation import said_nothing
from ci_evals.engine.pace import Pace
from ci_evals.errors import ProviderError
from ci_evals.model import Request, Response, SimulatedUser
from ci_evals.providers.base import Provider, ProviderOptions
from ci_evals.suite import digest, provider_identity


async def admitted(pace: Pace, turn: asyncio.Lock, tokens: int) -> None:
    """Wait until a call of so many tokens may be made."""
    async with turn:
        while (wait_s := pace.admit(tokens)) > 0:  # noqa: ASYNC110  a pace says when, and nobody tells it earlier
            await asyncio.sleep(wait_s)


class PlayError(Exception):
    """A simulated user could not say anything: nothing can be said of the provider either."""

    def __init__(self, cause: ProviderError) -> None:
        super().__init__(cause.message)
        self.cause = cause


class Player(NamedTuple):
    """One provider that plays users; `calls` holds as many as it may have under way."""

    options: ProviderOptions
    provider: Provider
    pace: Pace
    turn: asyncio.Lock
    calls: asyncio.Semaphore
    retries: int
    price: Callable[[Response], float | None]

    async def answer(self, request: Request, draw: Callable[[], float]) -> Response:
        """Its answer to a request.

        Args:
            request: what is asked.
            draw: returns a uniform number in [0, 1), for the jitter of retries.

        Raises:
            ProviderError: there is none, after all retries.
        """
        attempt = 1
        while True:
            try:
                async with self.calls:
                    return await self._once(request)
            except ProviderError as error:
                if not error.retryable or attempt > self.retries:
                    raise
                await asyncio.sleep(retry.delay_s(attempt, error.retry_after_s, draw))
                attempt += 1

    async def _once(self, request: Request) -> Response:
        tokens = self.pace.estimate(sum(len(message.content) for message in request.messages), None)
        tokens = tokens if self.pace.counts_tokens else 0
        await admitted(self.pace, self.turn, tokens)
        try:
            response = await self.provider.answer(request)
        except ProviderError as error:
            if error.kind == "rate_limit" or error.retry_after_s is not None:
                self.pace.refused(error.retry_after_s, 0.0, 0.0)
            else:
                self.pace.failed()
            raise
        except BaseException:
            self.pace.failed()
            raise
        self.pace.answered(response.usage, tokens)
        return response


class Players:
    """All of them, by what they are."""

    def __init__(self, players: Mapping[str, Player], draw: Callable[[], float]) -> None:
        self._players = players
        self._draw = draw

    async def play(self, user: SimulatedUser, request: Request) -> tuple[Response, float | None]:
        """Have a user say something.

        Raises:
            PlayError: it cannot.
        """
        player = self._players[player_key(user.provider)]
        try:
            response = await player.answer(request, self._draw)
        except ProviderError as error:
            raise PlayError(error) from error
        except Exception as raised:
            name = f"{type(raised).__name__}: {raised}" if str(raised) else type(raised).__name__
            raise PlayError(ProviderError("crash", name)) from raised
        if not response.output.strip():
            raise PlayError(ProviderError("bad_answer", said_nothing(user)))
        return response, player.price(response)


def player_key(options: ProviderOptions) -> str:
    """Identifies the provider of a simulated user among all that play one."""
    return digest([provider_identity(options), options.limit_group, options.rpm, options.tpm])
