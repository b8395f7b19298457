"""The log of a job: sections, and text that must not be taken for one."""

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
        """Print lines that cannot begin or end a section."""
        say(self._stream, without_sections("".join(f"{line}\n" for line in lines)))

    def warn(self, text: str) -> None:
        """Print a warning."""
        self.say([f"warning: {one_line(text, 4000)}"])

    @contextmanager
    def fold(self, title: str) -> Iterator[None]:
        """Fold the output within the context, under a title.

        The name of the section is random, so that output of code under test cannot end it.
        """
        name = f"ci_evals_{uuid4().hex}"
        start = f"section_start:{int(time.time())}:{name}[collapsed=true]"
        shown = without_sections(one_line(title, 200))
        say(self._stream, f"{_ERASE}{start}\r{_ERASE}{shown}\n")
        try:
            yield
        finally:
            say(self._stream, f"{_ERASE}section_end:{int(time.time())}:{name}\r{_ERASE}\n")


def without_sections(text: str) -> str:
    """Disarm markers that begin or end a section of the log. The text keeps its width."""
    return _SECTION.sub("section-", text)
