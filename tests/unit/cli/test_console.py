"""The console: how wide an outcome is printed."""

import sys

import pytest
from terminals import posix, pseudo_terminal

from ci_evals.cli.console import Console


@posix
@pytest.mark.parametrize(("columns", "width"), [(0, 120), (20, 40), (97, 97)])
def test_the_outcome_is_as_wide_as_the_terminal_and_never_too_narrow_to_be_seen(
    columns: int, width: int
) -> None:
    """Many a terminal in CI says that it has 0 columns."""
    with pseudo_terminal(columns) as (_, stdout):
        assert Console({}, stdout, stdout).width == width


@pytest.mark.parametrize(("said", "width"), [("80", 80), ("0", 120), ("7", 40), ("wide", 120)])
def test_the_environment_may_say_how_wide(said: str, width: int) -> None:
    assert Console({"COLUMNS": said}, sys.stdout, sys.stderr).width == width
