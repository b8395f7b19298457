"""The providers by their `type` in the YAML."""

from collections.abc import Mapping

from ci_evals.providers.anthropic import Anthropic
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.command import Command
from ci_evals.providers.embeddings import Embeddings
from ci_evals.providers.function import provider
from ci_evals.providers.gemini import Gemini
from ci_evals.providers.http import Http
from ci_evals.providers.mock import Mock
from ci_evals.providers.openai import OpenAI
from ci_evals.providers.python import Python
from ci_evals.providers.task import TaskAgent

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

PROVIDERS: Mapping[str, type[ProviderOptions]] = {
    "openai": OpenAI,
    "anthropic": Anthropic,
    "gemini": Gemini,
    "embeddings": Embeddings,
    "http": Http,
    "command": Command,
    "python": Python,
    "task": TaskAgent,
    "mock": Mock,
}
