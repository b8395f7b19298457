"""What a command is given from outside, and how it is to look."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TextIO


class World(NamedTuple):
    """Every handle on what is outside, made once in `cli`."""

    environ: Mapping[str, str]
    folder: Path
    stdout: TextIO
    stderr: TextIO


class Appearance(NamedTuple):
    """What is printed: `output` is `table` or `json`; `quiet` shows no progress."""

    output: str = "table"
    quiet: bool = False
