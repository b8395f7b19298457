"""What is said at the end of a run."""

import os
import sys
from pathlib import Path

import pytest

from ci_evals.conclusion import terminal_width
from ci_evals.world import World


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
@pytest.mark.parametrize(("columns", "width"), [(0, 120), (20, 40), (97, 97)])
def test_the_outcome_is_as_wide_as_the_terminal_and_never_too_narrow_to_be_seen(columns: int, width: int) -> None:
    """Many a terminal in CI says that it has 0 columns."""
    import fcntl
    import pty
    import struct
    import termios

    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    with os.fdopen(controller, "rb"), os.fdopen(terminal, "w") as stdout:
        assert terminal_width(World({}, Path(), stdout, stdout)) == width


@pytest.mark.parametrize(("said", "width"), [("80", 80), ("0", 120), ("7", 40), ("wide", 120)])
def test_the_environment_may_say_how_wide(said: str, width: int) -> None:
    assert terminal_width(World({"COLUMNS": said}, Path(), sys.stdout, sys.stderr)) == width
