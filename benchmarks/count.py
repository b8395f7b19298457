"""Runs ci-evals with the arguments given, and writes how often each Python function was called.

The first argument is the file to write: JSON, a list of `[file, function, calls]`.
"""

import json
import runpy
import sys
from collections import Counter
from cProfile import Profile
from pathlib import Path
from types import CodeType


def run(counts: Path) -> None:
    """Run the command line that is left in `sys.argv`."""
    profile = Profile(builtins=False)
    profile.enable()
    try:
        runpy.run_module("ci_evals.cli", run_name="__main__")
    finally:
        profile.disable()
        calls: Counter[tuple[str, str]] = Counter()
        for entry in profile.getstats():
            if isinstance(entry.code, CodeType):  # else a function of C
                calls[entry.code.co_filename, entry.code.co_name] += entry.callcount
        rows = [[file, name, times] for (file, name), times in calls.items()]
        counts.write_text(json.dumps(rows))


if __name__ == "__main__":
    run(Path(sys.argv.pop(1)))
