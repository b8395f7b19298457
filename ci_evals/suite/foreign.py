"""Configs of other tools. Their importers are loaded only for a config that is not ours."""

from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol

from ci_evals.errors import Problem
from ci_evals.registry import IMPORTING
from ci_evals.suite.nodes import Node


class Importer(Protocol):
    """A module that reads a format; its types are defined by the importers' package."""

    def recognize(self, source: Any) -> bool:
        """Return True for a file of the format."""
        ...

    def convert(self, source: Any) -> Any:
        """Make a draft of a suite.

        Raises:
            ConfigError: a file that the config names cannot be read.
        """
        ...


def translate(path: Path, config: Node) -> tuple[Node, str, list[Problem]]:
    """Return a config as a suite of ours, the name of its tool, and the problems.

    A config that no importer recognizes is returned unchanged, with an empty name. A part that was
    lost is a problem if a bad answer could pass without it.

    Raises:
        ConfigError: a file that the config names cannot be read.
    """
    draft = resolve_name(IMPORTING["translate"])(path, config)
    if draft is None:
        return config, "", []
    file = config.file
    weakening = [part for part in draft.lost if part.weakens]
    problems = [Problem(part.file, part.line, part.what, part.reason) for part in weakening]
    for name in draft.files:
        problems += [Problem(file, None, "", f"needs {name}, which only an import writes")]
    if problems:
        remedy = (
            f"`ci-evals import {file} --to evals.yaml` makes a suite of the rest,"
            " with these parts as comments"
        )
        last = problems[-1]
        problems[-1] = last._replace(message=f"{last.message}\n{remedy}")
    value, lines = draft.plain()
    return Node(value, lines, file), draft.origin, problems
