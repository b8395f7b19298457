"""The providers by their `type` in the YAML. Each is imported when it is first asked for."""

from typing import TYPE_CHECKING

from ci_evals.late import Late
from ci_evals.providers.base import ProviderOptions

if TYPE_CHECKING:
    from ci_evals.providers.anthropic import Anthropic
    from ci_evals.providers.command import Command
    from ci_evals.providers.function import provider
    from ci_evals.providers.gemini import Gemini
    from ci_evals.providers.http import Http
    from ci_evals.providers.mock import Mock
    from ci_evals.providers.openai import OpenAI
    from ci_evals.providers.python import Python

__all__ = [
    "PROVIDERS",
    "Anthropic",
    "Command",
    "Gemini",
    "Http",
    "Mock",
    "OpenAI",
    "ProviderOptions",
    "Python",
    "provider",
]

PROVIDERS: Late[type[ProviderOptions]] = Late(
    __name__,
    {
        "openai": "openai:OpenAI",
        "anthropic": "anthropic:Anthropic",
        "gemini": "gemini:Gemini",
        "embeddings": "embeddings:Embeddings",
        "http": "http:Http",
        "command": "command:Command",
        "python": "python:Python",
        "task": "task:TaskAgent",
        "mock": "mock:Mock",
    },
)

if not TYPE_CHECKING:  # which knows what is imported above, and that there is nothing else
    __getattr__, __dir__ = PROVIDERS.exported("function:provider")
