"""The log of a job: workflow commands, and text that must not be taken for one."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO, get_args
from uuid import uuid4

from ci_evals.format import one_line, without_commands
from ci_evals.plugins.ci.annotations import Annotation, Level
from ci_evals.streams import say

MAX_PER_LEVEL: Final = 10  # per step; GitHub drops the others without a word
MAX_MESSAGE: Final = 4_096  # characters
_MAX_TITLE = 250


class JobLog:
    """A stream that the runner reads line by line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._token: str | None = None

    def write_commands(self, commands: str) -> None:
        """Write workflow commands, lifting `stop-commands` around them in one write."""
        if not commands:
            return
        # A new token each time, because the old one has been printed.
        if self._token:
            before, self._token = self._token, uuid4().hex
            commands = f"::{before}::\n{commands}::stop-commands::{self._token}\n"
        say(self._stream, commands)

    def warn(self, text: str) -> None:
        """Show a warning on the page of the workflow run."""
        self.write_commands(command("warning", text, title="ci-evals"))

    def say(self, lines: Iterable[str]) -> None:
        """Print lines that the runner takes for text only."""
        text = "".join(f"{line}\n" for line in lines)
        say(self._stream, without_commands(text))

    @contextmanager
    def stop_commands(self) -> Iterator[None]:
        """Keep output of a model or of code under test from being taken for a command."""
        self._token = uuid4().hex
        say(self._stream, f"::stop-commands::{self._token}\n")
        try:
            yield
        finally:
            token, self._token = self._token, None
            say(self._stream, f"::{token}::\n")

    @contextmanager
    def resume_commands(self) -> Iterator[None]:
        """Let commands through that another process prints within the context."""
        if self._token is None:
            yield
            return
        before, self._token = self._token, uuid4().hex
        say(self._stream, f"::{before}::\n")
        try:
            yield
        finally:
            say(self._stream, f"::stop-commands::{self._token}\n")

    @contextmanager
    def fold(self, title: str) -> Iterator[None]:
        """Fold the output within the context, under a title."""
        self.write_commands(command("group", " ".join(title.split())))
        try:
            yield
        finally:
            self.write_commands(command("endgroup", ""))


def command(name: str, message: str, **properties: str | int | None) -> str:
    """Return a workflow command as a line; properties that are None or empty are left out."""
    parts = []
    for key, value in properties.items():
        if value not in (None, ""):
            escaped = _escape(str(value)).replace(":", "%3A").replace(",", "%2C")
            parts.append(f"{key}={escaped}")
    separator = " " if parts else ""
    return f"::{name}{separator}{','.join(parts)}::{_escape(message)}\n"


def _escape(text: str) -> str:
    # `##[` is the old form of a command, which works anywhere in a line.
    disarmed = text.replace("##[", "# #[")
    return disarmed.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def annotation_commands(
    annotations: Iterable[Annotation], rest: str = "the results have all of them"
) -> str:
    """Return the workflow commands for annotations: errors, warnings, then notices.

    GitHub shows ten annotations of a level for each step. If there are more, the tenth says how
    many are not shown.

    Args:
        annotations: the annotations, the most important first.
        rest: says where the others are.
    """
    annotations = list(annotations)
    commands: list[str] = []
    for level in get_args(Level):
        of_level = [annotation for annotation in annotations if annotation.level == level]
        shown = of_level
        if len(of_level) > MAX_PER_LEVEL:
            shown = of_level[: MAX_PER_LEVEL - 1]
        for annotation in shown:
            file = annotation.file
            line = annotation.line if file else None
            title = one_line(annotation.title, _MAX_TITLE)
            message = annotation.message[:MAX_MESSAGE]
            commands.append(command(level, message, file=file, line=line, title=title))
        left_out = len(of_level) - len(shown)
        if left_out:
            commands.append(command(level, f"{left_out} more are not shown here; {rest}"))
    return "".join(commands)
