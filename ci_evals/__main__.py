"""The console script, and `python -m ci_evals`."""

import sys

from ci_evals import __version__


def main() -> None:
    """Start the command line; the version is told without it, as scripts ask for it often."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"ci-evals {__version__}\n")
        return
    from ci_evals.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
