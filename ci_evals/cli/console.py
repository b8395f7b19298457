"""The environment and the output streams of a command."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TextIO

import click

from ci_evals.redaction import Redactor
from ci_evals.registry import find_host
from ci_evals.streams import ERASE_VIEW, columns_of, say

_NARROWEST = 40
_WIDTH_OF_LOG = 120


def environment() -> Mapping[str, str]:
    """Return the environment that the command was started with.

    `os.environ` no longer has the credentials that code under test must not see.
    """
    original: Mapping[str, str] | None = click.get_current_context().find_root().obj
    if original is None:
        return os.environ
    return original


@dataclass(frozen=True, slots=True)
class Console:
    """The environment and output streams of a command.

    Args:
        environ: the environment of the command.
        stdout: for the outcome and nothing else.
        stderr: for progress and remarks.
        output: the format of the outcome: `json`, or a text for people.
        quiet: print no progress.
        redactor: takes secrets out of everything that is printed, including those of loaded suites.
        clean_for_log: disarms text that the log of a CI system would execute as a command.
    """

    environ: Mapping[str, str]
    stdout: TextIO
    stderr: TextIO
    output: str = "table"
    quiet: bool = False
    redactor: Redactor = field(default_factory=lambda: Redactor(()))
    clean_for_log: Callable[[str], str] = str

    @classmethod
    def of_process(cls, output: str = "table", *, quiet: bool = False) -> "Console":
        """Return the console of this process."""
        environ = environment()
        console = cls(environ, sys.stdout, sys.stderr, output, quiet)
        host = find_host(environ)
        if host:
            console = replace(console, clean_for_log=host.clean)
        return console

    @property
    def log(self) -> TextIO:
        """The stream for a CI system's log: stderr with JSON, as a program reads stdout then."""
        if self.output == "json":
            return self.stderr
        return self.stdout

    @property
    def is_live(self) -> bool:
        """True if a line on stderr can be drawn again."""
        return self.stderr.isatty() and self.environ.get("TERM") != "dumb"

    @property
    def line_start(self) -> str:
        """The characters that start a line on stderr, and erase the view of a run there."""
        if self.is_live:
            return ERASE_VIEW
        return ""

    @property
    def width(self) -> int:
        """The width of the terminal in columns, at least 40; 120 in a log."""
        columns = 0
        given = self.environ.get("COLUMNS", "")
        if not given:
            columns = columns_of(self.stdout)
        elif given.isdecimal():
            columns = int(given)
        return max(_NARROWEST, columns or _WIDTH_OF_LOG)

    @property
    def color(self) -> bool:
        return self.stdout.isatty() and "NO_COLOR" not in self.environ

    def clean(self, text: str) -> str:
        """Return a text without secrets, and without commands for the log of a CI system."""
        cleaned = self.redactor.clean_text(text)
        return self.clean_for_log(cleaned)

    def print(self, text: str) -> None:
        """Print the outcome on stdout."""
        if self.output == "json":  # no log takes a line of JSON for a command
            text = self.redactor.clean_text(text)
        else:
            text = self.clean(text)
        say(self.stdout, text.rstrip("\n") + "\n")

    def remark(self, *lines: str) -> None:
        """Print lines on stderr, unless only the outcome is wanted."""
        if lines and not self.quiet:
            text = "".join(f"{line}\n" for line in lines)
            say(self.stderr, self.line_start + self.clean(text))

    def say(self, lines: Iterable[str]) -> None:
        """Print lines on stderr, even if only the outcome is wanted."""
        text = "".join(f"{line}\n" for line in lines)
        say(self.stderr, self.clean(text))

    def warn(self, text: str) -> None:
        """Print a warning on stderr."""
        words = " ".join(text.split())
        self.say([f"warning: {words}"])
