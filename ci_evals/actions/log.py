"""The log of a job: what the runner is to obey in it, and what it must not."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO
from uuid import uuid4

from ci_evals.github.commands import ENDGROUP, group, mask_commands
from ci_evals.reports.text import without_commands
from ci_evals.streams import say


class Log:
    """A stream that the runner reads line by line.

    Args:
        stream: where all of it goes.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._token: str | None = None
        self._folded = False

    def mask(self, secrets: Iterable[str]) -> None:
        """Have the runner hide these values; call it before anything else is printed."""
        self.obey(mask_commands(secrets))

    def obey(self, commands: str) -> None:
        """Write workflow commands of our own; where all others are stopped, they go in between with one write."""
        if commands and self._token:
            before, self._token = self._token, uuid4().hex
            commands = f"::{before}::\n{commands}::stop-commands::{self._token}\n"
        if commands:
            say(self._stream, commands)

    def say(self, lines: Iterable[str]) -> None:
        """Print lines that the runner takes for nothing but text."""
        text = "".join(f"{line}\n" for line in lines)
        say(self._stream, without_commands(text))

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let nothing that a model or the code under test wrote be taken for a workflow command."""
        self._token = uuid4().hex
        say(self._stream, f"::stop-commands::{self._token}\n")
        try:
            yield
        finally:
            token, self._token = self._token, None
            say(self._stream, f"::{token}::\n")

    def open_group(self, title: str) -> None:
        """Fold what follows."""
        self._folded = True
        self.obey(group(title))

    def close_group(self) -> None:
        """Fold no more, if anything is folded."""
        if self._folded:
            self._folded = False
            self.obey(ENDGROUP)
