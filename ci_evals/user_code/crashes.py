"""Exceptions of the team's own code: whose fault they are, and their description."""

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
    """Return True if the environment caused the error, not the data that the code was given: a
    module is missing or cannot be parsed, a service does not answer, or it is a `CiEvalsError`.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_setup_error, error.exceptions))
    if isinstance(error, ImportError):
        return _lacks_module(error)
    unrelated = (ConnectionError, TimeoutError, socket.gaierror, CiEvalsError)
    if isinstance(error, unrelated):
        return True
    if isinstance(error, SyntaxError) and error.filename:
        return Path(error.filename).is_file()  # else the code parsed a text, such as the answer
    cause = error.__cause__
    if cause is None and isinstance(error, OSError):
        cause = error.__context__  # urllib and requests raise their own errors instead
    return cause is not None and is_setup_error(cause)


def _lacks_module(error: ImportError) -> bool:
    """Return True if a file or the code of the suite imports a missing module.

    An answer that is executed may import anything, and code may raise the error itself.
    """
    if error.name is None:
        return False
    frames = traceback.extract_tb(error.__traceback__)
    importing = [frame.filename for frame in frames if not frame.filename.startswith("<frozen ")]
    if not importing:
        return True
    return importing[-1] == CODE_IN_SUITE or not importing[-1].startswith("<")


def describe_crash(error: BaseException, place: str = "") -> str:
    """Describe an exception with its place: `KeyError: 'seat' (agent.py:12 in book)`, or `(line 2)`
    for code in the suite.

    Each exception of a group is described.

    Args:
        error: the exception.
        place: the place to show if its traceback has no code of the team's own.
    """
    working_folder = f"{Path.cwd()}{os.sep}"
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == CODE_IN_SUITE:
            place = f" (line {frame.lineno})"
        elif is_their_own(frame.filename):
            file = frame.filename.removeprefix(working_folder)
            place = f" ({file}:{frame.lineno} in {frame.name})"
    if isinstance(error, BaseExceptionGroup):
        causes = [describe_crash(cause, place) for cause in error.exceptions]
        return "; ".join(dict.fromkeys(causes))
    return f"{describe_exception(error)}{place}"


def describe_stack(error: BaseException) -> str:
    """Return the traceback from the team's own code on; all of it if it has none of that code."""
    stack = error.__traceback__
    while stack is not None:
        file = stack.tb_frame.f_code.co_filename
        if file == CODE_IN_SUITE or is_their_own(file):
            break
        stack = stack.tb_next
    shown = traceback.TracebackException(type(error), error, stack or error.__traceback__)
    return "".join(shown.format())
