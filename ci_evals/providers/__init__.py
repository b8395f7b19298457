"""The providers, by their `type` in the YAML."""

from ci_evals.providers.anthropic import Anthropic
from ci_evals.providers.base import ProviderOptions, Serve, TokenCommand
from ci_evals.providers.command import Command
from ci_evals.providers.gemini import Gemini
from ci_evals.providers.http import Http, Stream
from ci_evals.providers.javascript import JavaScript
from ci_evals.providers.mock import Mock
from ci_evals.providers.openai import Embeddings, OpenAI
from ci_evals.providers.python import Python, provider
from ci_evals.providers.tasks import TaskAgent

__all__ = [
    "PROVIDERS",
    "Anthropic",
    "Command",
    "Embeddings",
    "Gemini",
    "Http",
    "JavaScript",
    "Mock",
    "OpenAI",
    "ProviderOptions",
    "Python",
    "Serve",
    "Stream",
    "TaskAgent",
    "TokenCommand",
    "provider",
]

PROVIDERS: dict[str, type[ProviderOptions]] = {
    "openai": OpenAI,
    "anthropic": Anthropic,
    "gemini": Gemini,
    "embeddings": Embeddings,
    "http": Http,
    "command": Command,
    "python": Python,
    "javascript": JavaScript,
    "task": TaskAgent,
    "mock": Mock,
}
