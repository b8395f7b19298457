"""The models that graders ask, with what they took counted by itself."""

from collections.abc import Collection, Mapping

from ci_evals.engine.asked import Asked
from ci_evals.errors import GradingError, ProviderError
from ci_evals.model import Asking, Judging, Request
from ci_evals.response import Response


class Judges:
    """All models that graders may ask, by name."""

    def __init__(self, judges: Mapping[str, Asked], unnamed: Collection[str]) -> None:
        """Take the models by name, and which of those a grader without a `provider` may mean."""
        self._judges = judges
        self._unnamed = unnamed

    def meter(self) -> "Meter":
        """Access for one run, which counts what it takes."""
        return Meter(self)

    def find(self, grader: Asking) -> Asked:
        """The model that a grader names, or the only one of its kind.

        Raises:
            GradingError: there is none.
        """
        fitting = {name: judge for name, judge in self._judges.items() if judge.options.embeds == grader.embeds}
        if grader.provider is not None and grader.provider in fitting:
            return fitting[grader.provider]
        meant = [name for name in fitting if name in self._unnamed]
        if grader.provider is None and len(meant) == 1:
            return fitting[meant[0]]
        named = "no `provider` is named" if grader.provider is None else f"there is no judge {grader.provider!r}"
        raise GradingError(f"{named}; known: {', '.join(fitting) or 'none'}", "judge")


class Meter:
    """The models as one run asks them; `judging` is what that took so far."""

    def __init__(self, judges: Judges) -> None:
        self.judging = Judging()
        self._judges = judges

    async def ask(self, grader: Asking, request: Request) -> Response:
        """See `model.Models`."""
        judge = self._judges.find(grader)
        try:
            response = await judge.answer(request)
        except ProviderError as error:
            raise GradingError(f"{judge.options.name} did not answer: {error.message}", "judge") from error
        self._count(response, judge.price(response))
        return response

    def _count(self, response: Response, cost_usd: float | None) -> None:
        so_far, usage = self.judging, response.usage
        self.judging = Judging(
            calls=so_far.calls + 1,
            input_tokens=so_far.input_tokens + (usage.input_tokens if usage else 0),
            output_tokens=so_far.output_tokens + (usage.output_tokens if usage else 0),
            cost_usd=so_far.cost_usd + (cost_usd or 0.0),
            unpriced=so_far.unpriced + (cost_usd is None),
        )
