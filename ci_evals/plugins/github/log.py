"""The log of a job: workflow commands, and everything that must not be taken for one."""

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
        if self._token:
            before, self._token = self._token, uuid4().hex
            commands = f"::{before}::\n{commands}::stop-commands::{self._token}\n"
        say(self._stream, commands)

    def warn(self, text: str) -> None:
        """Show a warning on the page of the workflow run."""
        self.write_commands(command("warning", text, title="ci-evals"))

    def say(self, lines: Iterable[str]) -> None:
        """Print lines that the runner takes for nothing but text."""
        text = "".join(f"{line}\n" for line in lines)
        say(self._stream, without_commands(text))

    @contextmanager
    def stop_commands(self) -> Iterator[None]:
        """Keep what a model or the code under test prints from being taken for a command."""
        self._token = uuid4().hex
        say(self._stream, f"::stop-commands::{self._token}\n")
        try:
            yield
        finally:
            token, self._token = self._token, None
            say(self._stream, f"::{token}::\n")

    @contextmanager
    def fold(self, title: str) -> Iterator[None]:
        """Fold what is printed meanwhile."""
        self.write_commands(command("group", " ".join(title.split())))
        try:
            yield
        finally:
            self.write_commands(command("endgroup", ""))


def command(name: str, message: str, **properties: str | int | None) -> str:
    """Return one line that the runner obeys; properties that are None or empty are left out."""
    parts = []
    for key, value in properties.items():
        if value not in (None, ""):
            escaped = _escape(str(value)).replace(":", "%3A").replace(",", "%2C")
            parts.append(f"{key}={escaped}")
    separator = " " if parts else ""
    return f"::{name}{separator}{','.join(parts)}::{_escape(message)}\n"


def _escape(text: str) -> str:
    # `##[` is the old form of a command, obeyed anywhere in a line.
    unarmed = text.replace("##[", "# #[")
    return unarmed.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def annotation_commands(
    annotations: Iterable[Annotation], rest: str = "the results have all of them"
) -> str:
    """Return the workflow commands for annotations: errors, warnings, then notices.

    Those of a level keep their order. GitHub shows ten of a level for each step. Where there are
    more, the tenth says how many are not shown, so give first what matters most.

    Args:
        annotations: what to show.
        rest: where the others are.
    """
    annotations = list(annotations)
    commands: list[str] = []
    for level in get_args(Level):
        chosen = [each for each in annotations if each.level == level]
        shown = chosen
        if len(chosen) > MAX_PER_LEVEL:
            shown = chosen[: MAX_PER_LEVEL - 1]
        for each in shown:
            line = each.line if each.file else None
            title = one_line(each.title, _MAX_TITLE)
            message = each.message[:MAX_MESSAGE]
            commands.append(command(level, message, file=each.file, line=line, title=title))
        left_out = len(chosen) - len(shown)
        if left_out:
            commands.append(command(level, f"{left_out} more are not shown here; {rest}"))
    return "".join(commands)
