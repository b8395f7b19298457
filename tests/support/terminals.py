"""Terminals that nobody sits at."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

import pytest

posix = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX terminal")


@contextmanager
def pseudo_terminal(columns: int = 0, encoding: str = "utf-8") -> Iterator[tuple[BinaryIO, TextIO]]:
    """A terminal of so many columns: what is seen on it, and the file that programs write to."""
    import fcntl
    import pty
    import struct
    import termios

    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    with (
        os.fdopen(controller, "rb", 0) as seen,
        os.fdopen(terminal, "w", encoding=encoding) as stream,
    ):
        yield seen, stream
