"""The console script, and `python -m ci_evals`."""

import sys

from ci_evals.cli import main as command_line
from ci_evals.cli.watchdog import watch
from ci_evals.registry import COMMANDS


def main() -> None:
    """Run the command line; commands run in a child process, as they may run code of a suite."""
    if sys.argv[1:2] and sys.argv[1] in COMMANDS:
        watch(command_line.main, command_line.open_service)
    command_line.main()


if __name__ == "__main__":
    main()
