"""Work counted in calls, which are the same on every machine."""

import sys
from collections.abc import Callable


def count_calls(work: Callable[[], object]) -> int:
    """Run something and return the number of calls of Python functions that it takes."""
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        if event == "call":
            calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls
