"""What a program started and left behind: processes that its group does not hold, because they have one of their own.

On Linux they are known by a variable in their environment, on Windows by the job object that they cannot leave.
Elsewhere nothing tells them from others.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from itertools import count

VARIABLE = "CI_EVALS_CALL"

if sys.platform == "win32":
    from ci_evals.providers.windows_jobs import Job

    _open: set[Job] = set()

    class Descendants:
        """All processes that come of those that are adopted. They end with this process, whatever ends that."""

        def __init__(self) -> None:
            self._job = Job()
            _open.add(self._job)

        def environment(self, given: Mapping[str, str] | None) -> Mapping[str, str] | None:
            """The environment of a program whose descendants these are."""
            return given

        def adopt(self, process: subprocess.Popen[bytes] | None) -> None:
            """Count a process that was just started among them."""
            if process is not None:
                self._job.add(process)

        def kill(self) -> bool:
            """End all that are left; whether there was anybody."""
            self._job.end()
            _open.discard(self._job)
            return False

    def kill_every_one() -> None:
        """End the descendants of every program that was started here."""
        for job in tuple(_open):
            job.end()

else:
    _HERE = os.urandom(16).hex()
    _numbers = count()

    class Descendants:
        """All processes that come of programs with this `environment`, but for those that emptied theirs."""

        def __init__(self) -> None:
            self._mark = f"{_HERE}.{next(_numbers)};"
            self._before = _pids()  # none of them can be one: reading every environment would take long

        def environment(self, given: Mapping[str, str] | None) -> Mapping[str, str] | None:
            """The environment of a program whose descendants these are."""
            inherited = os.environ if given is None else given
            return {
                **inherited,
                VARIABLE: inherited.get(VARIABLE, "") + self._mark,
            }  # a ci-evals may run within another

        def adopt(self, process: subprocess.Popen[bytes] | None) -> None:
            """Count a process that was just started among them."""

        def kill(self) -> bool:
            """End all that are left; whether there was anybody."""
            return _kill(self._mark, _pids() - self._before)

    def kill_every_one() -> None:
        """End the descendants of every program that was started here."""
        _kill(_HERE, _pids())

    def _pids() -> frozenset[int]:
        """The processes of this machine, where /proc tells of their environments."""
        if sys.platform != "linux":
            return frozenset()
        try:
            return frozenset(int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208  many
        except OSError:
            return frozenset()

    def _kill(mark: str, pids: frozenset[int]) -> bool:
        found = False
        for pid in pids:
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123  for every process: the quick way
                    if mark.encode() in file.read():
                        os.kill(pid, signal.SIGKILL)
                        found = True
            except OSError:  # gone by now, or somebody else's
                continue
        return found
