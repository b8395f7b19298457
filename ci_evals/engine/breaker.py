"""Stops paying for a provider that refuses or is gone."""

from typing import Literal

from ci_evals.errors import ProviderError

REFUSALS = 5  # so many in a row say that the next will be refused as well
_FOR_GOOD = frozenset({401, 402, 403, 404})  # wrong key, no credit, no such model: waiting does not help

State = Literal["closed", "probing", "open"]


class Breaker:
    """Watches how runs of one provider end.

    - *closed*: all is well.
    - *probing*: as many runs in a row as there are calls under way were lost to an outage, or it is `outlasting` what
      is worth waiting for. One call at a time tries whether it is over, with growing pauses; each costs one attempt.
    - *open*: the rest is given up for `cause`. Refusals for good come here at once, an outage after as many probes
      as a run has attempts.
    """

    def __init__(self, *, limit: int, attempts: int) -> None:
        self.state: State = "closed"
        self.cause: ProviderError | None = None
        self.probes = 0
        self._patience = max(REFUSALS, limit)
        self._attempts = attempts
        self._refused = 0
        self._lost = 0

    def answered(self) -> None:
        """A call brought an answer."""
        if self.state != "open":
            self.state = "closed"
            self.probes = self._refused = self._lost = 0

    def gave_up(self, error: ProviderError) -> None:
        """A run ended without an answer, or a probe did."""
        if self.state == "open":
            return
        if error.status in _FOR_GOOD:
            self._refused += 1
            if self._refused >= REFUSALS:
                self._open(error)
            return
        if error.kind not in ("server", "network", "timeout", "rate_limit"):
            if self.state == "probing":
                self.answered()  # not well, but it is there
            return
        if self.state == "probing":
            self.probes += 1
            if self.probes >= self._attempts:
                self._open(error)
            return
        self._lost += 1
        if self._lost >= self._patience:
            self.state = "probing"

    def outlasting(self) -> None:
        """An outage that its calls may survive goes on for long."""
        if self.state == "closed":
            self.state = "probing"

    def _open(self, error: ProviderError) -> None:
        self.state = "open"
        self.cause = error

    @property
    def reason(self) -> str:
        """Why the rest is given up."""
        count = self._refused or self._lost + self.probes
        return f"given up after {count} failures in a row: {self.cause.message if self.cause else 'no answer'}"
