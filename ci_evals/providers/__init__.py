"""The providers as Python classes, and what few suites need; each loads when it is first used."""

from typing import TYPE_CHECKING

from ci_evals.registry import PROVIDERS, lazy_attributes

if TYPE_CHECKING:
    from ci_evals.providers.anthropic import Anthropic as Anthropic
    from ci_evals.providers.aws import AmazonEventReader as AmazonEventReader
    from ci_evals.providers.aws import aws_credentials as aws_credentials
    from ci_evals.providers.aws import aws_region as aws_region
    from ci_evals.providers.base import McpServer as McpServer
    from ci_evals.providers.base import ProviderOptions as ProviderOptions
    from ci_evals.providers.base import Serve as Serve
    from ci_evals.providers.base import TokenCommand as TokenCommand
    from ci_evals.providers.bedrock import Bedrock as Bedrock
    from ci_evals.providers.command import Command as Command
    from ci_evals.providers.command_line import command_problems as command_problems
    from ci_evals.providers.command_line import program_problems as program_problems
    from ci_evals.providers.gemini import Gemini as Gemini
    from ci_evals.providers.google import google_credentials as google_credentials
    from ci_evals.providers.http import Http as Http
    from ci_evals.providers.http import Stream as Stream
    from ci_evals.providers.http_client import HttpClient as HttpClient
    from ci_evals.providers.http_messages import header_problems as header_problems
    from ci_evals.providers.javascript import JavaScript as JavaScript
    from ci_evals.providers.mcp_client import McpTools as McpTools
    from ci_evals.providers.mock import Mock as Mock
    from ci_evals.providers.openai import Embeddings as Embeddings
    from ci_evals.providers.openai import OpenAI as OpenAI
    from ci_evals.providers.openai_responses import ResponsesEndpoint as ResponsesEndpoint
    from ci_evals.providers.price_list import is_listed as is_listed
    from ci_evals.providers.price_list import list_price_usd as list_price_usd
    from ci_evals.providers.price_list import listed_models as listed_models
    from ci_evals.providers.python import Function as Function
    from ci_evals.providers.python import Python as Python
    from ci_evals.providers.python import provider as provider
    from ci_evals.providers.serve import shared_service as shared_service
    from ci_evals.providers.telemetry import attach_recorder as attach_recorder
    from ci_evals.providers.tokens import shared_token as shared_token
    from ci_evals.providers.tools import shared_toolbox as shared_toolbox
    from ci_evals.providers.vertex import Vertex as Vertex
    from ci_evals.tasks.agent import TaskAgent as TaskAgent

_MODULES = {
    "McpServer": "ci_evals.providers.base",
    "ProviderOptions": "ci_evals.providers.base",
    "Serve": "ci_evals.providers.base",
    "Stream": "ci_evals.providers.http",
    "TokenCommand": "ci_evals.providers.base",
    "provider": "ci_evals.providers.python",
    **PROVIDERS.own_modules(),
}

_PARTS = {
    "AmazonEventReader": "ci_evals.providers.aws",
    "Function": "ci_evals.providers.python",
    "HttpClient": "ci_evals.providers.http_client",
    "McpTools": "ci_evals.providers.mcp_client",
    "ResponsesEndpoint": "ci_evals.providers.openai_responses",
    "aws_credentials": "ci_evals.providers.aws",
    "aws_region": "ci_evals.providers.aws",
    "attach_recorder": "ci_evals.providers.telemetry",
    "command_problems": "ci_evals.providers.command_line",
    "google_credentials": "ci_evals.providers.google",
    "header_problems": "ci_evals.providers.http_messages",
    "is_listed": "ci_evals.providers.price_list",
    "list_price_usd": "ci_evals.providers.price_list",
    "listed_models": "ci_evals.providers.price_list",
    "program_problems": "ci_evals.providers.command_line",
    "shared_service": "ci_evals.providers.serve",
    "shared_token": "ci_evals.providers.tokens",
    "shared_toolbox": "ci_evals.providers.tools",
}
"""Parts of ours, with libraries that a suite that is only checked does without."""

__all__ = ["PROVIDERS", *_MODULES]  # noqa: PLE0604  they are names
__getattr__ = lazy_attributes(__name__, {**_MODULES, **_PARTS})
