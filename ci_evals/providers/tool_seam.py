"""The interface of tools that a model may call, and of servers that offer them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ci_evals.errors import ConfigError, Problem
from ci_evals.model.request import Request, ToolDefinition
from ci_evals.providers.answer import clean_text
from ci_evals.providers.base import Resources


class ToolError(Exception):
    """A tool call failed.

    Args:
        reason: the text for the model.
        place: where the team's own code failed, which only reports show.
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
        """Run the tool and return its result as text.

        Raises:
            ToolError: the call failed.
            ProviderError: the server is not available, so the run cannot continue.
        """
        ...


class Server(Protocol):
    """A server that offers tools."""

    async def start(self, resources: Resources) -> Sequence[Tool]:
        """Start or reach the server, and return its tools.

        Raises:
            ConfigError: it does not answer, or a tool cannot be described to a model.
        """
        ...


def tools_problem(text: str) -> ConfigError:
    """Return the error of the setting `tools`; the engine knows its place."""
    return ConfigError([Problem("", None, "", f"tools: {text}")])


def first_failure(raised: BaseException) -> BaseException:
    """Return the failure that ended a group of tasks; it cancelled the others."""
    first = raised
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
