"""A program: waits until its stdin ends, which it does with the process that started it, then kills
what is marked.

It is started by its path, so that it is there in milliseconds: it imports nothing of ci-evals.
"""

import sys
from contextlib import suppress

import psutil


def kill_marked(variable: str, mark: str) -> bool:
    """Kill every process that has `mark` in a variable of its environment; return True if there was
    one.
    """
    found = False
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # gone by now, or somebody else's
            if (
                mark in process.environ().get(variable, "")
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                process.kill()
                found = True
    return found


if __name__ == "__main__":
    sys.stdin.buffer.read()
    while kill_marked(*sys.argv[1:]):
        pass
