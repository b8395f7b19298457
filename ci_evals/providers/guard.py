"""A program that kills marked processes once the process that started it has gone.

It notices that by the end of its stdin. It is started by its path and imports nothing of ci-evals,
so that it is ready within milliseconds.
"""

import sys
from contextlib import suppress

import psutil


def kill_marked(variable: str, mark: str) -> bool:
    """Kill every process with `mark` in an environment variable; return True if there was one."""
    found = False
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # gone by now, or somebody else's
            is_marked = mark in process.environ().get(variable, "")
            if is_marked and process.status() != psutil.STATUS_ZOMBIE:
                process.kill()
                found = True
    return found


if __name__ == "__main__":
    sys.stdin.buffer.read()
    while kill_marked(*sys.argv[1:]):
        pass
