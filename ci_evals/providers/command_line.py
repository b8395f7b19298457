"""Splits and checks the command lines of a suite, and finds their programs on the PATH."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

_ONLY_IN_A_SHELL = r"cd|export|source|\.|[A-Za-z_]\w*=.*"
_SHELL_WORDS = frozenset(
    {"&&", "||", "|", ";", "&", "<", ">", ">>", "2>", "2>&1", "2>/dev/null", ">/dev/null"}
)


def split_command(command: str | Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command, as a POSIX shell would split it.

    Raises:
        ValueError: a quotation mark is not closed.
    """
    if isinstance(command, str):
        return tuple(shlex.split(command))
    return tuple(command)


def command_problems(command: str | Sequence[str], key: str = "command") -> list[str]:
    """Return the problems of a command, which the suite has under `key`."""
    try:
        argv = split_command(command)
    except ValueError as error:
        advice = "write it as a list: [program, argument, ...]"
        return [f"{key} cannot be split into words: {error}; {advice}"]
    if not argv or not argv[0]:
        return [f"{key} is empty: name a program, as in [python, agent.py]"]
    for_shell = [word for word in argv if word in _SHELL_WORDS]
    if re.fullmatch(_ONLY_IN_A_SHELL, argv[0], re.DOTALL):
        for_shell.insert(0, argv[0])
    if for_shell:
        advice = "use `cwd` and `env`, or [sh, -c, …]"
        return [f"{key}: {for_shell[0]!r} needs a shell, and none is used: {advice}"]
    return []


def program_problems(
    command: str | Sequence[str], folder: Path, path: str | None = None, key: str = "command"
) -> list[str]:
    """Return why the program of a command is not found, and what to try.

    Args:
        command: a command without `command_problems`.
        folder: where to look for a program with a folder in its name.
        path: where to look for other programs; the PATH of this process when None.
        key: the command's place in the suite.
    """
    program = split_command(command)[0]
    if _find_program(program, folder, path) is not None:
        return []
    file = folder / program
    if _has_folder(program) and file.is_file():
        advice = f"chmod +x {program}, or start it with its interpreter, as in [sh, {program}]"
        problem = f"{file} is not executable: {advice}"
    elif _has_folder(program):
        problem = f"there is no program {file}"
    elif file.is_file():
        problem = f"{program!r} is not on the PATH; for the file in {folder} write ./{program}"
    else:
        advice = "install it, or give the path of its file"
        problem = f"there is no program {program!r} on the PATH: {advice}"
    return [f"{key}: {problem}"]


def resolve_command(
    command: str | Sequence[str], folder: Path, path: str | None = None
) -> tuple[str, ...]:
    """Return the words of a command, the first one replaced by the program's file if it exists.

    Args:
        command: a command without `command_problems`.
        folder: where to look for a program with a folder in its name.
        path: where to look for other programs; the PATH of this process when None.
    """
    program, *arguments = split_command(command)
    return (_find_program(program, folder, path) or program, *arguments)


def search_path(path: str | None = None) -> str:
    """Return the PATH of programs that a suite starts, which includes this Python environment.

    Args:
        path: the PATH to extend; the one of this process when None.
    """
    if path is None:
        path = os.environ.get("PATH", os.defpath)
    # Without an activated environment, `.venv/bin/ci-evals` must still find the `uvicorn` next to
    # it. The folder comes last, so a program that PATH has stays the one that a shell would start:
    # ci-evals may be installed apart from the app, by pipx or uv, with a `python` of its own.
    folder = os.path.dirname(sys.executable)  # noqa: PTH120  empty where Python is embedded
    if not folder or folder in path.split(os.pathsep):
        return path
    return f"{path}{os.pathsep}{folder}"


def _find_program(program: str, folder: Path, path: str | None) -> str | None:
    if _has_folder(program):
        return shutil.which(folder / program)
    return shutil.which(program, path=search_path(path))


def _has_folder(program: str) -> bool:
    return bool(os.path.dirname(program))  # noqa: PTH120  Path drops a leading ./
