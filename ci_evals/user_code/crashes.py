"""Exceptions of the team's own code: whose fault they are, and their description."""

import os
import re
import socket
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType

from ci_evals.errors import CiEvalsError, describe_exception, exception_text
from ci_evals.faults import (
    ErrorKind,
    Reported,
    kind_behind_own_code,
    kind_of_codes,
    kind_of_status,
    read_error,
)

PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
"""The start of the file names of ci-evals itself."""

CODE_IN_SUITE = "<python>"
"""The file name of code that is written in a suite."""


# The packages through which code calls models; `google` alone has other packages, too.
_SDKS = frozenset(
    {
        "ai21",
        "aiobotocore",
        "anthropic",
        "azure",
        "botocore",
        "cerebras",
        "cohere",
        "dashscope",
        "fireworks",
        "google.api_core",
        "google.auth",
        "google.genai",
        "google.generativeai",
        "groq",
        "huggingface_hub",
        "ibm_watsonx_ai",
        "litellm",
        "mistralai",
        "ollama",
        "openai",
        "portkey_ai",
        "replicate",
        "together",
        "vertexai",
        "voyageai",
        "xai_sdk",
        "zai",
        "zhipuai",
    }
)
_HTTP_CLIENTS = frozenset(
    {"aiohttp", "httpcore", "httpcore2", "httpx", "httpx2", "requests", "urllib3"}
)
# Classes without a status: `APIConnectionError`, `ReadTimeoutError`, `ServiceRequestError`.
_LOST = r"Connect|Timeout|Transport|Service(?:Request|Response)Error|RetryError"
_NO_CREDENTIALS = r"Credentials|RefreshError|AuthenticationError|NotAuthenticated"


def is_their_own(file: str) -> bool:
    """Return True for a file of the team's own code: neither ci-evals nor anything installed."""
    if "site-packages" in file:
        return False
    return not file.startswith(("<", PACKAGE, *_installed_folders()))


def seen_from_here(file: str) -> str:
    """Return a path as it is written from the working folder; unchanged if it is not in it, or if
    that folder has been removed.
    """
    try:
        folder = f"{Path.cwd()}{os.sep}"
    except FileNotFoundError:
        return file
    return file.removeprefix(folder)


@cache
def _installed_folders() -> tuple[str, ...]:
    """Return the folders of the standard library and of installed packages."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(sysconfig.get_path(name) + os.sep for name in names)


def failure_of_model_api(error: BaseException) -> tuple[ErrorKind, int | None] | None:
    """Return the kind and the HTTP status of a model API's failure that code lets through.

    None unless the error, or one that it was raised from, comes from the SDK of a vendor and blames
    the vendor. An exception group does if all of its exceptions do.
    """
    if isinstance(error, BaseExceptionGroup):
        failures = [failure_of_model_api(each) for each in error.exceptions]
        return failures[0] if all(failures) else None
    for raised in _causes(error):
        if _is_of_sdk(type(raised)):
            status = _status_of(raised)
            kind = _kind_in_sdk(raised, status)
            if kind is not None:
                return None if kind == "crash" else (kind, status)
        elif _is_lost_connection(raised) and _was_raised_in_sdk(raised.__traceback__):
            return "upstream", None
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it was raised from, which may form a circle."""
    cause: BaseException | None = error
    seen: set[int] = set()  # their ids, because an exception may compare itself in its own way
    while cause is not None and id(cause) not in seen:
        yield cause
        seen.add(id(cause))
        cause = cause.__cause__


def _is_of_sdk(kind: type) -> bool:
    """Return True if a class, or one that it inherits from, is a vendor's."""
    return any(_package(each.__module__) in _SDKS and _is_installed(each) for each in kind.__mro__)


def _is_installed(kind: type) -> bool:
    """Return True unless the class is of a module of the team's own, which may have any name."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return file is None or not is_their_own(file)


def _package(module: str) -> str:
    first, *rest = module.split(".")
    if first == "google" and rest:
        return f"google.{rest[0]}"
    return first


def _kind_in_sdk(error: BaseException, status: int | None) -> ErrorKind | None:
    """Return the kind of an SDK's error; None if it says too little."""
    reported = _reported_by(error)
    if status is not None:
        return kind_behind_own_code(kind_of_status(status, reported))
    kind = kind_of_codes(reported)  # of an error in a stream, which began with 200
    if kind is not None:
        return kind_behind_own_code(kind)
    names = [each.__name__ for each in type(error).__mro__ if _package(each.__module__) in _SDKS]
    if any(re.search(_NO_CREDENTIALS, name) for name in names):
        return "auth"
    if any(re.search(_LOST, name) for name in names):
        return "upstream"
    if kind_of_status(400, reported) == "auth":  # no request was made, for want of a key
        return "auth"
    return None


def _reported_by(error: BaseException) -> Reported:
    """Return what the API said, which each SDK keeps in a place of its own."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):  # botocore
        response = response.get("Error", {})
        return Reported(str(response.get("Message")), (response.get("Code"),))
    reported = read_error(getattr(error, "body", None))
    codes = (getattr(error, "code", None), getattr(error, "type", None), *reported.codes)
    return Reported(reported.message or exception_text(error), codes)


def _status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an SDK's error, which each SDK keeps in a place of its own."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):  # botocore
        response = response.get("ResponseMetadata", {})
        candidates = [response.get("HTTPStatusCode")]
    else:
        candidates = [getattr(error, name, None) for name in ("status_code", "code", "status")]
        candidates.append(getattr(response, "status_code", None))
    for status in candidates:
        if isinstance(status, int) and 400 <= status < 600:
            return int(status)
    return None


def _is_lost_connection(error: BaseException) -> bool:
    """Return True if no answer came, according to Python or to a client of HTTP."""
    if isinstance(error, ConnectionError | TimeoutError | socket.gaierror):
        return True
    kind = type(error)
    return _package(kind.__module__) in _HTTP_CLIENTS and getattr(error, "response", None) is None


def _was_raised_in_sdk(frames: TracebackType | None) -> bool:
    """Return True if an SDK called what raised the error, with none of the team's code between."""
    found = False
    while frames is not None:
        if _package(str(frames.tb_frame.f_globals.get("__name__"))) in _SDKS:
            found = True
        elif is_their_own(frames.tb_frame.f_code.co_filename):
            found = False
        frames = frames.tb_next
    return found


def is_setup_error(error: BaseException) -> bool:
    """Return True if the environment caused the error, not the data that the code was given: a
    module is missing or cannot be parsed, a service or a model API does not answer, or it is a
    `CiEvalsError`.
    """
    if failure_of_model_api(error) is not None:
        return True
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
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == CODE_IN_SUITE:
            place = f" (line {frame.lineno})"
        elif is_their_own(frame.filename):
            file = seen_from_here(frame.filename)
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
