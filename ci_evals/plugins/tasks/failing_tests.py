"""Finds the failing test in what a task's verifier printed."""

import re
from typing import Final

from ci_evals.format import join_first, one_line
from ci_evals.model.response import TestFailure

MAX_LINES: Final = 30
"""The last lines of a verifier's output that are kept: a test framework ends with what failed."""

_LINE_CHARACTERS = 200
_NAME_CHARACTERS = 60
_READ_CHARACTERS = 200_000  # of the end of an output
_MOST_NAMED = 1

_COMMANDS = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours, movements of the cursor
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    r"|[@-Z\\^_]"
    r")"
)

# A line on a failed test in the output of pytest, unittest, go test, cargo test, TAP and Jest.
_FAILED_TEST = re.compile(
    r"""^(?:
    FAILED\ \S*?::(?P<pytest>\S+)
    | (?:FAIL|ERROR):\ (?P<unittest>[A-Za-z_]\w*)\ \(
    | \s*---\ FAIL:\ (?P<go>\S+)
    | test\ (?P<cargo>\S+)\ \.\.\.\ FAILED
    | not\ ok\ \d+\ (?:-\ )?(?P<tap>\S.*)
    | \s*●\ (?P<jest>\S.*)
    )""",
    re.VERBOSE | re.MULTILINE,
)


def find_test_failure(stdout: str, stderr: str) -> TestFailure:
    """Return the failing test that a verifier's output names, and the output's last lines without
    the commands of a terminal.

    The stream that names a test is shown, else stdout, unless it is empty.
    """
    chosen = None
    for printed in (stdout, stderr):
        text = _COMMANDS.sub("", printed[-_READ_CHARACTERS:])
        failure = TestFailure(_find_name(text), _last_lines(text))
        if failure.test is not None:
            return failure
        if chosen is None or not chosen.output:
            chosen = failure
    return chosen or TestFailure()


def _find_name(text: str) -> str | None:
    names: dict[str, None] = {}
    for match in _FAILED_TEST.finditer(text):
        name = match[str(match.lastgroup)]
        # The last part of `TestCart::test_total` names it best.
        names[one_line(name.rpartition("::")[2], _NAME_CHARACTERS)] = None
    if not names:
        return None
    return join_first(list(names), _MOST_NAMED)


def _last_lines(text: str) -> str:
    lines = [line.rstrip()[:_LINE_CHARACTERS] for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-MAX_LINES:])
