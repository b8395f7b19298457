"""Paths from the root of the repository, which is how a CI system names files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ci_evals.errors import Problem
from ci_evals.suite.types import CheckedSuite


def path_in(root: Path, path: Path) -> str:
    """Return a path relative to a folder; an absolute path if it is outside of it."""
    path, root = path.resolve(), root.resolve()
    if path.is_relative_to(root):
        path = path.relative_to(root)
    return path.as_posix()


def locate_cases(suite: CheckedSuite, folder: Path, root: Path) -> CheckedSuite:
    """Return the suite with the files of its cases as paths from the root of the repository.

    Reports then name the same path in every job. Files outside of the repository have absolute
    paths.

    Args:
        suite: the suite.
        folder: where relative files start.
        root: the root of the repository.
    """
    files = {case.file for case in suite.cases}
    paths = {file: path_in(root, folder / file) for file in files}
    return replace(suite, cases=[replace(case, file=paths[case.file]) for case in suite.cases])


def locate_problems(problems: Sequence[Problem], folder: Path, root: Path) -> list[Problem]:
    """Return problems with files as paths from the root of the repository.

    Args:
        problems: the problems.
        folder: where relative files start.
        root: the root of the repository.
    """
    located = []
    for problem in problems:
        if problem.file:
            problem = problem._replace(file=path_in(root, folder / problem.file))  # noqa: PLW2901
        located.append(problem)
    return located


def checkout_of(path: Path, default: Path) -> Path:
    """Return the root of the repository that a file is in; `default` if it is in none."""
    for folder in path.absolute().parents:
        if (folder / ".git").exists():
            return folder
    return default
