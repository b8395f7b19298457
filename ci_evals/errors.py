"""The exceptions, and the exit code of each.

CiEvalsError              the user can fix it; printed without a traceback
├── ConfigError           the suite is wrong: every problem at once, nothing was run   (exit 2)
├── UsageError            the command line is wrong                                    (exit 2)
├── PluginError           an installed package that is used cannot be loaded             (exit 2)
├── StorageError          a result or report cannot be read or written                 (exit 3)
└── HostError             the CI system could not be asked or refused; `ci-evals run` only warns
ProviderError             a call got no answer: the run's error, not the program's
GradingError              an answer could not be judged: likewise
"""

import signal
import sys
from collections.abc import Iterable
from traceback import format_exception
from typing import Any, Literal, NamedTuple, cast

from ci_evals.faults import FAULTS, RETRYABLE, ErrorKind

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
"""The exit code of a command that a signal has ended."""
if sys.platform != "win32":
    EXIT_CODES[signal.SIGHUP] = 129  # the terminal is gone

HostErrorKind = Literal[
    "forbidden",  # 401, 403: the token is missing, invalid, or may not do this
    "expired",  # GitLab's 401: the token is not valid, or not any more
    "missing",  # 404, 410
    "too_large",  # more than is stored, or than is downloaded
    "rate_limited",  # and waiting would take too long
    "rejected",  # any other 4xx
    "unreachable",  # network errors, time-outs and 5xx, also when repeated
    "unexpected",  # an answer that is not in the documented shape
]


class Place(NamedTuple):
    """A place in a suite: file, line, and path of keys."""

    file: str
    line: int | None
    path: str


class Problem(NamedTuple):
    """One thing to fix: its place, and a message that says what is wrong and what to try.

    `cause` is shared by problems in several places: an environment variable that is missing or
    wrong, or a plug-in that cannot be used. They are reported once.
    """

    file: str
    line: int | None
    path: str
    message: str
    cause: str = ""

    def seen_from(self, place: Place) -> "Problem":
        """Return the problem at `place`, an entry that refers to it; its own place, if any, moves
        into the message.
        """
        if not self.file:
            return Problem(*place, self.message, self.cause)
        where = f"{self.file}:{self.line}" if self.line else self.file
        return Problem(*place, f"{self.message} ({where})", self.cause)

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (where, self.path, self.message) if part)


class CiEvalsError(Exception):
    """An error that the user can fix."""


class ConfigError(CiEvalsError):
    """The suite cannot be run as it is; `problems` lists everything wrong, in file order.

    `others_ran` is True if other suites of the same command were run nevertheless.
    """

    def __init__(self, problems: Iterable[Problem], *, others_ran: bool = False) -> None:
        self.problems = tuple(problems)
        self.others_ran = others_ran
        super().__init__("\n".join(map(str, self.problems)))


def problems_of(error: CiEvalsError) -> tuple[Problem, ...]:
    """Return what is wrong: one problem without a place, unless the error lists several."""
    if isinstance(error, ConfigError):
        return error.problems
    return (Problem("", None, "", str(error)),)


class UsageError(CiEvalsError):
    """The command line or an argument makes no sense."""


class PluginError(CiEvalsError):
    """A plug-in of another package cannot be used."""


class StorageError(CiEvalsError):
    """A file could not be read or written: disk full, read-only folder, no permission."""


class HostError(CiEvalsError):
    """A request to the CI system failed. The text never contains the token.

    Args:
        kind: the kind of failure.
        message: one line for people.
        wait_s: the seconds that the CI system asks to wait.
    """

    def __init__(self, kind: HostErrorKind, message: str, *, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.wait_s = wait_s


def exception_text(raised: BaseException) -> str:
    """Return the message of an exception; an empty text if its own `__str__` raises."""
    try:
        return str(raised)
    except Exception:  # noqa: BLE001  an exception of anybody's may have any `__str__`
        return ""


def describe_exception(raised: BaseException) -> str:
    """Return the type and the message of an exception: `ZeroDivisionError: division by zero`.

    For an exception group, such as one of a `TaskGroup`, return them for each exception in it.
    """
    if isinstance(raised, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(map(describe_exception, raised.exceptions)))
    text = exception_text(raised)
    if not text:
        return type(raised).__name__
    return f"{type(raised).__name__}: {text}"


class ProviderError(Exception):
    """A call got no answer.

    With a message only, as in `ProviderError("no seat left")`, or with a kind that is not in
    the table of faults, it is a crash of the provider.

    Args:
        kind: the kind of failure; `RETRYABLE` kinds are tried again.
        message: one line for people, in the provider's own words if it gave any.
        status: HTTP status or exit status.
        retry_after_s: seconds that the provider asked to wait.
        detail: more for the journal: a traceback, or the end of stderr.
        cause: the message of the error behind this one, if there is another.

    Attributes:
        partial: the `Response` as far as it came, such as the steps of an agent that was killed.
    """

    def __init__(
        self,
        kind: ErrorKind | str,
        message: str | None = None,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        detail: str | None = None,
        cause: str | None = None,
    ) -> None:
        if message is None:
            kind, message = "crash", kind
        elif kind not in FAULTS:
            kind, message = "crash", f"{kind}: {message}"
        super().__init__(message)
        self.kind = cast("ErrorKind", kind)
        self.message = str(message)
        self.status = status if isinstance(status, int) else None
        self.retry_after_s = retry_after_s
        self.detail = detail
        self.cause = cause
        self.partial: Any = None

    @classmethod
    def of(cls, raised: BaseException) -> "ProviderError":
        """Return a `ProviderError` as it is, and any other exception as a crash, with its traceback
        as detail.
        """
        if isinstance(raised, cls):
            return raised

        return cls("crash", describe_exception(raised), detail="".join(format_exception(raised)))

    @property
    def retryable(self) -> bool:
        return self.kind in RETRYABLE

    @property
    def short(self) -> str:
        """The kind of error in words of ours: `rate-limited (429)`."""
        reason = FAULTS[self.kind].short
        if self.status is None:
            return reason
        return f"{reason} ({self.status})"

    @property
    def root(self) -> str:
        """The message of the error behind this one, or its own."""
        return self.cause or self.message


class GradingError(Exception):
    """An answer could not be judged, through no fault of its own.

    Args:
        message: one line for people: what is missing, and what to try.
        kind: `judge` if the cause is a model that judges.
        detail: the stack of the exception.
        cause: the message of the model's error.
    """

    def __init__(
        self,
        message: str,
        kind: Literal["grader", "judge"] = "grader",
        *,
        detail: str | None = None,
        cause: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.cause = cause
        self.kind: Literal["grader", "judge"] = kind
