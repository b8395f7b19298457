"""The providers that play users: called within their own pace, while a run waits for them."""

from collections.abc import Mapping

from ci_evals.engine.asked import Asked
from ci_evals.errors import ProviderError
from ci_evals.model import Request, SimulatedUser
from ci_evals.providers.answer import one_line
from ci_evals.providers.base import ProviderOptions
from ci_evals.response import Response
from ci_evals.suite import digest, provider_identity


class PlayError(Exception):
    """A simulated user could not say anything: nothing can be said of the provider either."""

    def __init__(self, cause: ProviderError) -> None:
        super().__init__(cause.message)
        self.cause = cause


class Players:
    """All of them, by what they are."""

    def __init__(self, players: Mapping[str, Asked]) -> None:
        self._players = players

    async def play(self, user: SimulatedUser, request: Request) -> tuple[Response, float | None]:
        """Have a user say something.

        Raises:
            PlayError: it cannot.
        """
        player = self._players[player_key(user.provider)]
        try:
            response = await player.answer(request)
        except ProviderError as error:
            raise PlayError(error) from error
        if not response.output.strip():
            text = f"the provider that plays {one_line(user.persona, 80)!r} answered with nothing"
            raise PlayError(ProviderError("bad_answer", text))
        return response, player.price(response)


def player_key(options: ProviderOptions) -> str:
    """Identifies the provider of a simulated user among all that play one."""
    return digest([provider_identity(options), options.limit_group, options.rpm, options.tpm])
