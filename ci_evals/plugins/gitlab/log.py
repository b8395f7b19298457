"""The log of a job: sections, and everything that must not be taken for one."""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO
from uuid import uuid4

from ci_evals.format import one_line
from ci_evals.streams import say

_SECTION = re.compile(r"section_(?=(?:start|end):)")
_ERASE = "\x1b[0K"


class GitLabLog:
    """A stream that GitLab shows."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, lines: Iterable[str]) -> None:
        """Print lines that begin or end no section."""
        say(self._stream, without_sections("".join(f"{line}\n" for line in lines)))

    def warn(self, text: str) -> None:
        """Print a warning."""
        self.say([f"warning: {one_line(text, 4000)}"])

    @contextmanager
    def fold(self, title: str) -> Iterator[None]:
        """Fold what is printed meanwhile. The name of the section can't be guessed."""
        name = f"ci_evals_{uuid4().hex}"
        start = f"section_start:{int(time.time())}:{name}[collapsed=true]"
        shown = without_sections(one_line(title, 200))
        say(self._stream, f"{_ERASE}{start}\r{_ERASE}{shown}\n")
        try:
            yield
        finally:
            say(self._stream, f"{_ERASE}section_end:{int(time.time())}:{name}\r{_ERASE}\n")


def without_sections(text: str) -> str:
    """Break what begins or ends a section of the log. The text stays as wide as it was."""
    return _SECTION.sub("section-", text)
