"""What the team's own code raised: whose fault it is, and how it is shown."""

import os
import socket
import sysconfig
import traceback
from functools import cache
from pathlib import Path

from ci_evals.errors import CiEvalsError, describe_exception

PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
"""The start of the file names of ci-evals itself."""

CODE_IN_SUITE = "<python>"
"""The file name of code that is written in a suite."""


def is_their_own(file: str) -> bool:
    """Return True for a file of the team's own code: neither ci-evals nor anything installed."""
    if "site-packages" in file:
        return False
    return not file.startswith(("<", PACKAGE, *_installed_folders()))


@cache
def _installed_folders() -> tuple[str, ...]:
    """Return the folders of the standard library and of installed packages."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(sysconfig.get_path(name) + os.sep for name in names)


def is_setup_error(error: BaseException) -> bool:
    """Return True if an error is not about the data that code was given: a module is missing or
    cannot be parsed, a service does not answer, or it is one of ours that the user can fix.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_setup_error, error.exceptions))
    if isinstance(error, ImportError):
        return _lacks_module(error)
    unrelated = (ConnectionError, TimeoutError, socket.gaierror, CiEvalsError)
    if isinstance(error, unrelated):
        return True
    if isinstance(error, SyntaxError) and error.filename:
        return Path(error.filename).is_file()  # else it is of a text, such as the answer
    cause = error.__cause__
    if cause is None and isinstance(error, OSError):
        cause = error.__context__  # urllib and requests raise errors of their own
    return cause is not None and is_setup_error(cause)


def _lacks_module(error: ImportError) -> bool:
    """Return True if a file or the code of the suite imports what is not there.

    An answer that is executed may import anything, and code may raise the error by hand.
    """
    if error.name is None:
        return False
    frames = traceback.extract_tb(error.__traceback__)
    importing = [each.filename for each in frames if not each.filename.startswith("<frozen ")]
    if not importing:
        return True
    return importing[-1] == CODE_IN_SUITE or not importing[-1].startswith("<")


def describe_crash(error: BaseException, place: str = "") -> str:
    """Return what was raised and where: `KeyError: 'seat' (agent.py:12 in book)`, or of code in the
    suite `(line 2)`.

    Each exception of a group is described.

    Args:
        error: what was raised.
        place: where, if its traceback has no code of the team's own.
    """
    here = f"{Path.cwd()}{os.sep}"
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == CODE_IN_SUITE:
            place = f" (line {frame.lineno})"
        elif is_their_own(frame.filename):
            file = frame.filename.removeprefix(here)
            place = f" ({file}:{frame.lineno} in {frame.name})"
    if isinstance(error, BaseExceptionGroup):
        causes = [describe_crash(each, place) for each in error.exceptions]
        return "; ".join(dict.fromkeys(causes))
    return f"{describe_exception(error)}{place}"


def describe_stack(error: BaseException) -> str:
    """Return a traceback from the team's own code on; all of it if there is none of theirs."""
    stack = error.__traceback__
    while stack is not None:
        file = stack.tb_frame.f_code.co_filename
        if file == CODE_IN_SUITE or is_their_own(file):
            break
        stack = stack.tb_next
    shown = traceback.TracebackException(type(error), error, stack or error.__traceback__)
    return "".join(shown.format())
