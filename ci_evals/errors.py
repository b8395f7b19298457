"""What can go wrong, and who can do something about it.

CiEvalsError              the user can act; printed without a traceback
├── ConfigError           the suite is wrong: every problem at once, nothing was run   (exit 2)
├── UsageError            the command line is wrong                                    (exit 2)
├── StorageError          a result or report cannot be written                         (exit 3)
└── GitHubError           GitHub could not be asked or refused; `ci-evals run` only warns of it
ProviderError             one call got no answer; becomes the run's error, never the program's
GradingError              an answer could not be judged; likewise
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

ErrorKind = Literal[
    "rate_limit",  # 429
    "server",  # 408, 409, 5xx
    "network",  # refused, reset, cut off
    "timeout",
    "auth",  # 401, 403
    "rejected",  # any other 4xx
    "bad_answer",  # an answer that is not in the documented shape
    "crash",  # the system under test raised or exited with an error
    "given_up",  # never called: the provider refused or lost too many before
    "not_recorded",  # never called: only recorded answers were allowed
    "environment",  # what a task runs in could not be had, or its verifier gave no reward
    "grader",  # a grader crashed: the answer could not be judged
    "judge",  # a model that judges could not be asked, or gave no verdict
]

GitHubErrorKind = Literal[
    "forbidden",  # 401, 403: the token is missing, invalid, or may not do this
    "missing",  # 404, 410
    "too_large",  # more than GitHub stores, or than is downloaded
    "rate_limited",  # and waiting would take too long
    "rejected",  # any other 4xx
    "unreachable",  # network errors, time-outs and 5xx, again and again
    "unexpected",  # an answer that is not in the documented shape
]

RETRYABLE: frozenset[ErrorKind] = frozenset({"rate_limit", "server", "network", "timeout"})


class Place(NamedTuple):
    """Where in a suite something is written."""

    file: str
    line: int | None
    path: str


class Problem(NamedTuple):
    """One thing to mend: where it is, what it is, what to try."""

    file: str
    line: int | None
    path: str
    message: str

    def seen_from(self, place: Place) -> "Problem":
        """The same problem of the entry that leads to it, which is where to look first."""
        where = f"{self.file}:{self.line}" if self.line else self.file
        return Problem(*place, f"{self.message} ({where})")

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.path}: {self.message}" if self.path else f"{where}: {self.message}"


class CiEvalsError(Exception):
    """Something that the user can act on."""


class ConfigError(CiEvalsError):
    """The suite cannot be run as it is written; `problems` has all of it, in file order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class UsageError(CiEvalsError):
    """A command line or an argument that makes no sense."""


class StorageError(CiEvalsError):
    """A file could not be read or written: disk full, read-only folder, no permission."""


class GitHubError(CiEvalsError):
    """GitHub did not do what it was asked to; `kind` says in which way. The text never holds the token."""

    def __init__(self, kind: GitHubErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def described(raised: BaseException) -> str:
    """An exception on one line or as few as its message has: `ZeroDivisionError: division by zero`."""
    return f"{type(raised).__name__}: {raised}" if str(raised) else type(raised).__name__


class ProviderError(Exception):
    """A call that brought no answer.

    Args:
        kind: what sort of failure; `RETRYABLE` kinds are tried again.
        message: one line for a person, in the provider's own words where it gave any.
        status: HTTP status or exit status.
        retry_after_s: how long the provider asked to be left alone, in seconds.
        detail: more for the journal: a traceback, the end of stderr.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.retry_after_s = retry_after_s
        self.detail = detail

    @classmethod
    def of(cls, raised: Exception) -> "ProviderError":
        """What a provider raised: anything but a `ProviderError` is a crash, with the traceback as its detail."""
        if isinstance(raised, cls):
            return raised
        from traceback import format_exception

        return cls("crash", described(raised), detail="".join(format_exception(raised)))

    @property
    def retryable(self) -> bool:
        return self.kind in RETRYABLE


class GradingError(Exception):
    """An answer that could not be judged, through no fault of its own.

    Args:
        message: one line for a person: what is missing, and what to try.
        kind: `judge` if a model that judges let it down.
    """

    def __init__(self, message: str, kind: Literal["grader", "judge"] = "grader") -> None:
        super().__init__(message)
        self.message = message
        self.kind: Literal["grader", "judge"] = kind
