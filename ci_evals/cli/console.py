"""The environment and the streams of a command, and how it prints."""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import click

from ci_evals.engine.progress import ERASE_VIEW
from ci_evals.errors import CiEvalsError
from ci_evals.format import without_commands
from ci_evals.github.context import in_actions
from ci_evals.redaction import Redactor, secret_values
from ci_evals.reports import report_json, terminal
from ci_evals.reports.summary import Summary
from ci_evals.streams import columns_of, say
from ci_evals.suite.environment import read_dotenv

_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")


def environment() -> Mapping[str, str]:
    """Return the environment that the command was given; that of the process has lost what code may
    not see.
    """
    given: Mapping[str, str] | None = click.get_current_context().find_root().obj
    return os.environ if given is None else given


def error_redactor(environ: Mapping[str, str]) -> Redactor:
    """Return what takes secrets out of an error: it may quote variables and files that no suite has
    named.

    Secret is each variable of the environment whose name sounds so, and everything in a `.env` that
    is beside a file, or in a folder, that the command line names.
    """
    words = (*sys.argv[1:], *environ.get("CI_EVALS_CONFIG", "").splitlines())
    named = [Path(word.removeprefix("-c").rpartition("=")[2]) for word in words]
    beside = [
        folder for path in named for folder in (path.parent, path)
    ]  # a folder may stand for its suites
    dotenv: dict[str, str] = {}
    for folder in dict.fromkeys([Path(), Path(".github"), *beside]):
        with suppress(CiEvalsError, OSError, ValueError):
            dotenv |= read_dotenv(folder)
    sounding = {
        name: value
        for name, value in environ.items()
        if any(word in name.upper() for word in _SECRET_NAMES)
    }
    return Redactor(secret_values(sounding, dotenv, ()))


def git(*arguments: str, folder: Path | None = None) -> str:
    """Return what git says in a folder (default: here); nothing if it fails, or is not there."""
    command = ["git", *(("-C", str(folder)) if folder else ()), *arguments]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  the user's own git
    except OSError:
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


@dataclass(frozen=True, slots=True)
class Console:
    """The environment and the streams of this process, and how a command prints.

    Args:
        environ: the environment.
        stdout: for the outcome and nothing else.
        stderr: for progress and remarks.
        output: the format of the outcome: `json`, or a text for people.
        quiet: print no progress.
        redactor: takes secrets out of everything that is printed, those of the suites that were
            loaded included.
    """

    environ: Mapping[str, str]
    stdout: TextIO
    stderr: TextIO
    output: str = "table"
    quiet: bool = False
    redactor: Redactor = field(default_factory=lambda: Redactor(()))

    @classmethod
    def of_process(cls, output: str = "table", *, quiet: bool = False) -> "Console":
        """Return the console of this process as it is now."""
        return cls(environment(), sys.stdout, sys.stderr, output, quiet)

    @property
    def in_actions(self) -> bool:
        return in_actions(self.environ)

    @property
    def log(self) -> TextIO:
        """The stream that a log of GitHub Actions shows; with JSON, stdout is a file or another
        program's input.
        """
        return self.stderr if self.output == "json" else self.stdout

    @property
    def is_live(self) -> bool:
        """Return True if a line on stderr can be drawn anew."""
        return self.stderr.isatty() and self.environ.get("TERM") != "dumb"

    @property
    def line_start(self) -> str:
        """The beginning of a line on stderr, which takes the place of the view of a run."""
        return ERASE_VIEW if self.is_live else ""

    @property
    def width(self) -> int:
        """The width of the terminal, at least 40; 120 columns in a log and where it is unknown."""
        if given := self.environ.get("COLUMNS", ""):
            columns = int(given) if given.isdecimal() else 0
        else:
            columns = columns_of(self.stdout)
        return max(40, columns) if columns else 120

    @property
    def color(self) -> bool:
        return self.stdout.isatty() and "NO_COLOR" not in self.environ

    def clean(self, text: str) -> str:
        """Return a text without secrets, and in a job of GitHub Actions without workflow
        commands.
        """
        text = self.redactor.clean_text(text)
        return without_commands(text) if self.in_actions else text

    def print(self, text: str) -> None:
        """Print the outcome on stdout. JSON is printed as it is: no log takes it for a workflow
        command.
        """
        text = self.redactor.clean_text(text) if self.output == "json" else self.clean(text)
        say(self.stdout, text.rstrip("\n") + "\n")

    def show(self, summary: Summary) -> None:
        """Print the outcome of a run."""
        if self.output == "json":
            self.print(report_json.render_brief(summary))
        else:
            self.print(terminal.render(summary, width=self.width, color=self.color))

    def remark(self, *lines: str) -> None:
        """Print lines on stderr, unless nothing but the outcome is wanted."""
        if lines and not self.quiet:
            say(self.stderr, self.line_start + self.clean("".join(f"{line}\n" for line in lines)))

    def say(self, lines: Iterable[str]) -> None:
        """Print lines on stderr, even where only the outcome is wanted."""
        say(self.stderr, self.clean("".join(f"{line}\n" for line in lines)))

    def warn(self, text: str) -> None:
        """Print a warning on stderr."""
        say(self.stderr, self.clean(f"warning: {' '.join(text.split())}\n"))
