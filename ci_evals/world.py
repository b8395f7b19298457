"""What a command is given from outside, and how it is to look."""

import gc
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TextIO


class World(NamedTuple):
    """Every handle on what is outside, made once by a command."""

    environ: Mapping[str, str]
    folder: Path
    stdout: TextIO
    stderr: TextIO

    @property
    def redraws(self) -> bool:
        """Whether stderr is a terminal on which a line can be drawn anew."""
        return self.stderr.isatty() and self.environ.get("TERM") != "dumb"

    @property
    def over_the_bar(self) -> str:
        """What goes before a line on stderr, where a progress bar may stand."""
        return "\r\x1b[2K" if self.redraws else ""


class Appearance(NamedTuple):
    """What is printed: `output` is `table` or `json`; `quiet` shows no progress."""

    output: str = "table"
    quiet: bool = False


def in_actions(environ: Mapping[str, str]) -> bool:
    """Whether this is a job of GitHub Actions."""
    return environ.get("GITHUB_ACTIONS") == "true"


def loaded() -> None:
    """All is imported, and work begins that makes garbage: look for it, but not in what stays to the end."""
    gc.freeze()
    gc.enable()


def here() -> World:
    """This process, with what its streams and its environment are now."""
    return World(os.environ, Path(), sys.stdout, sys.stderr)
