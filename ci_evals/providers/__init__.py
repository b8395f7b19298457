"""The providers as Python classes; each loads when it is first used."""

from typing import TYPE_CHECKING

from ci_evals.registry import PROVIDERS, lazy_attributes

if TYPE_CHECKING:
    from ci_evals.providers.anthropic import Anthropic as Anthropic
    from ci_evals.providers.base import McpServer as McpServer
    from ci_evals.providers.base import ProviderOptions as ProviderOptions
    from ci_evals.providers.base import Serve as Serve
    from ci_evals.providers.base import TokenCommand as TokenCommand
    from ci_evals.providers.command import Command as Command
    from ci_evals.providers.gemini import Gemini as Gemini
    from ci_evals.providers.http import Http as Http
    from ci_evals.providers.http import Stream as Stream
    from ci_evals.providers.javascript import JavaScript as JavaScript
    from ci_evals.providers.mock import Mock as Mock
    from ci_evals.providers.openai import Embeddings as Embeddings
    from ci_evals.providers.openai import OpenAI as OpenAI
    from ci_evals.providers.python import Python as Python
    from ci_evals.providers.python import provider as provider

_MODULES = {
    "McpServer": "ci_evals.providers.base",
    "ProviderOptions": "ci_evals.providers.base",
    "Serve": "ci_evals.providers.base",
    "Stream": "ci_evals.providers.http",
    "TokenCommand": "ci_evals.providers.base",
    "provider": "ci_evals.providers.python",
    **PROVIDERS.own_modules(),
}

__all__ = ["PROVIDERS", *_MODULES]  # noqa: PLE0604  they are names
__getattr__ = lazy_attributes(__name__, _MODULES)
