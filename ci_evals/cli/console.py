"""The environment and the output streams of a command."""

import os
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

import click

from ci_evals.cli.watchdog import ask_parent, is_watched, withheld_names
from ci_evals.redaction import Redactor
from ci_evals.registry import find_host
from ci_evals.streams import ERASE_VIEW, columns_of, say

if TYPE_CHECKING:
    from ci_evals.hosts import Host

_NARROWEST = 40
_WIDTH_OF_LOG = 120


def environment() -> MutableMapping[str, str]:
    """Return the environment that the command was started with, without the job's credentials."""
    original: MutableMapping[str, str] | None = click.get_current_context().find_root().obj
    if original is None:
        return os.environ
    return original


def reveal_credentials(environ: MutableMapping[str, str], files: Iterable[Path]) -> None:
    """Add the credentials of the job that files name to an environment, then ask for no more.

    To be called before code of a suite is imported: from then on, the parent tells none.

    Args:
        environ: the environment of the command.
        files: suite files, which may not exist.
    """
    if not withheld_names():
        return
    text = ""
    for file in files:
        with suppress(OSError, UnicodeError):
            text += file.read_text("utf-8")
    named = [name for name in withheld_names() if f"${{{name}" in text]
    environ.update(_reveal(named))
    ask_parent({"do": "seal"})


def ask_for_credentials() -> Mapping[str, str]:
    """Return the credentials of the job, for a command that runs no code of a suite."""
    return _reveal(withheld_names())


def _reveal(names: Iterable[str]) -> Mapping[str, str]:
    found = {}
    for name in names:
        value = ask_parent({"do": "reveal", "arguments": [name]})["value"]
        if value is not None:
            found[name] = value
    return found


def host_of(environ: Mapping[str, str]) -> "Host | None":
    """Return the CI system that this command runs on; None on any other machine.

    Args:
        environ: the environment of the command.
    """
    local: Host | None = find_host(environ)
    if local is None or not is_watched():
        return local
    from ci_evals.cli.job_host import DistantHost

    return DistantHost(local, environ)


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
        host: the CI system; None on any other machine.
    """

    environ: MutableMapping[str, str]
    stdout: TextIO
    stderr: TextIO
    output: str = "table"
    quiet: bool = False
    redactor: Redactor = field(default_factory=lambda: Redactor(()))
    host: "Host | None" = None

    @classmethod
    def of_process(cls, output: str = "table", *, quiet: bool = False) -> "Console":
        """Return the console of this process."""
        environ = environment()
        host = host_of(environ)
        return cls(environ, sys.stdout, sys.stderr, output, quiet, host=host)

    @property
    def log_name(self) -> Literal["stdout", "stderr"]:
        """The stream for a CI system's log: stderr with JSON, as a program reads stdout then."""
        if self.output == "json":
            return "stderr"
        return "stdout"

    @property
    def log(self) -> TextIO:
        """The stream of that name."""
        if self.log_name == "stderr":
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
        if self.host is None:
            return cleaned
        return self.host.clean(cleaned)  # the log would execute it as a command

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
