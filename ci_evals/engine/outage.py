"""For how long nothing has come from a provider but refusals."""

from ci_evals.errors import ErrorKind

LONGEST_DOWN_S = 60.0  # of nothing but 5xx and when to ask again, before a provider is probed
LONGEST_REFUSED_S = 300.0  # of 429, too: windows are a minute mostly, and others may use up some of them
LONGEST_IDLE_S = 5.0  # after a call was to be made; a busy process is late itself


class Outage:
    """An outage that calls may survive. Calls are so far apart then that hardly any run ends, to be counted."""

    def __init__(self) -> None:
        self.since: float | None = None  # nothing but refusals
        self._down_since: float | None = None  # nothing but 5xx
        self._next_call_at = 0.0

    def over(self) -> None:
        """A call was let through."""
        self.since = self._down_since = None

    def asked(self, now: float) -> None:
        """A call is wanted, and no other one was waiting: what was seen before a time without calls is outdated."""
        if now - self._next_call_at > LONGEST_IDLE_S:
            self.over()

    def expect_call(self, at: float) -> None:
        """The next call will be wanted then."""
        self._next_call_at = max(self._next_call_at, at)

    def outlasts(self, now: float, refused_for: ErrorKind) -> bool:
        """Whether it lasts longer than is worth waiting for, with another call refused."""
        if self.since is None:
            self.since = now
        if refused_for == "rate_limit":
            self._down_since = None
        elif self._down_since is None:
            self._down_since = now
        is_down_for_long = self._down_since is not None and now - self._down_since >= LONGEST_DOWN_S
        return is_down_for_long or now - self.since >= LONGEST_REFUSED_S
