"""The seam of tools: what a model may call, and a server that has such tools."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ci_evals.errors import ConfigError, Problem
from ci_evals.model.request import Request, ToolDefinition
from ci_evals.providers.answer import clean_text
from ci_evals.providers.base import Resources


class ToolError(Exception):
    """A tool could not do what it was asked.

    Args:
        reason: what the model is told.
        place: where the team's own code failed, which only reports tell.
    """

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(reason)
        self.reason = clean_text(reason)
        self.place = clean_text(place)


class Tool(Protocol):
    """One tool."""

    @property
    def definition(self) -> ToolDefinition: ...

    async def call(self, arguments: Mapping[str, Any], request: Request) -> str:
        """Carry out a call and return its result as text.

        Raises:
            ToolError: it failed.
            ProviderError: there is nobody to carry it out, so the run cannot go on.
        """
        ...


class Server(Protocol):
    """A server that has tools."""

    async def start(self, resources: Resources) -> Sequence[Tool]:
        """Start or reach it, and return its tools.

        Raises:
            ConfigError: it does not answer, or its tools are not fit for a model.
        """
        ...


def tools_problem(text: str) -> ConfigError:
    """Return the error of the setting `tools`; the engine knows its place."""
    return ConfigError([Problem("", None, "", f"tools: {text}")])


def first_failure(raised: BaseException) -> BaseException:
    """Return the failure that ended a group of tasks; the others were cancelled by it."""
    first = raised
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
