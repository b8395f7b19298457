"""The console script, and `python -m ci_evals`."""

import gc
import io
import sys

from ci_evals import __version__


def main() -> None:
    """Start the command line; version and help are told without it, as they are asked for often."""
    text = _known(sys.argv[1:])
    if text is None:
        _run_command()
    elif isinstance(sys.stdout, io.TextIOWrapper):  # else it is closed
        sys.stdout.reconfigure(errors="replace")  # an ASCII terminal shows a question mark for what it lacks
        _print(text)


def _run_command() -> None:
    gc.disable()  # what is imported stays to the end; a command with work of its own turns it on again (`world.loaded`)
    try:
        from ci_evals.cli import main as command_line

        command_line()
    except KeyboardInterrupt:  # while the command line is loaded
        sys.exit(130)
    finally:
        gc.freeze()  # else the interpreter looks through all that is loaded for garbage, twice, before it ends


def _known(arguments: list[str]) -> str | None:
    if arguments == ["--version"]:
        return f"ci-evals {__version__}\n"
    if arguments in (["--help"], ["-h"]):
        from ci_evals.help_text import HELP

        return HELP
    return None


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        from ci_evals.streams import let_go

        let_go()


if __name__ == "__main__":
    main()
