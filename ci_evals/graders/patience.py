"""A bound on the computing of one grade: a regular expression can go on for ever, and lets no thread or timer in."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import isclose
from types import FrameType
from typing import Final

from ci_evals.errors import GradingError
from ci_evals.graders.base import at_once

LONGEST_S: Final = 10.0
TICK_S: Final = 0.5
_INSTEAD: Final = "let it look at less, or give a regular expression one way to match (`a+` in place of `(a+)+`)"


class Patience:
    """Looks in every so often whether the main thread is still computing the same grade, and ends it after a while.

    A signal does so, as it alone reaches the main thread within `re`: CPython asks for signals while it matches.

    Args:
        longest_s: seconds of the processor's time that one grade may take.
        tick_s: how often to look, in seconds of the processor's time.
    """

    def __init__(self, longest_s: float = LONGEST_S, tick_s: float = TICK_S) -> None:
        self._longest_s = longest_s
        self._tick_s = tick_s
        self._grade: FrameType | None = None
        self._taken_s = 0.0
        self._hurried = False
        self._holders = 0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Hold graders to the bound, where that can be done and takes nothing from others.

        It can in the main thread, and not on Windows, which has no such timer. Who uses the signal or the timer
        already keeps them. Several may hold graders to it at a time.
        """
        if not (_in_main_thread() and (self._holders or self._is_free())):
            yield
            return
        if self._holders == 0:
            self._arm()
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0:
                self._disarm()

    def _is_free(self) -> bool:
        return (
            sys.platform != "win32"
            and signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL
            and signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
        )

    def _arm(self) -> None:
        if sys.platform != "win32":
            signal.signal(signal.SIGVTALRM, self._look)
            signal.siginterrupt(signal.SIGVTALRM, False)  # noqa: FBT003  system calls of libraries go on
            signal.setitimer(signal.ITIMER_VIRTUAL, self._tick_s, self._tick_s)

    def _disarm(self) -> None:
        """Stop the timer and drop the handler, if they are not somebody else's by now."""
        if sys.platform == "win32":
            return
        if isclose(signal.getitimer(signal.ITIMER_VIRTUAL)[1], self._tick_s, rel_tol=0.01):
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if signal.getsignal(signal.SIGVTALRM) == self._look:
            signal.signal(signal.SIGVTALRM, signal.SIG_IGN)  # drops one on its way: by default it ends a process
            signal.signal(signal.SIGVTALRM, signal.SIG_DFL)

    def hurry(self) -> None:
        """Wait no longer: the program is to end."""
        self._hurried = True

    def _look(self, _number: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code is not at_once.__code__:
            frame = frame.f_back
        if frame is None or frame is not self._grade:
            self._grade, self._taken_s = frame, 0.0
            return
        self._taken_s += self._tick_s
        if self._hurried or self._taken_s >= self._longest_s:
            self._grade = None
            if self._hurried:
                raise GradingError("it was still computing when the run was ended: let the run end by itself")
            raise GradingError(f"it was still computing after {self._longest_s:g} s, and was stopped: {_INSTEAD}")


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
