"""`ci-evals mock-server`: the endpoints of model APIs without a model."""

import asyncio
from pathlib import Path

from ci_evals.cli import options
from ci_evals.cli.console import Console, environment
from ci_evals.providers.mock import Mock
from ci_evals.providers.mock_server import serve
from ci_evals.suite.load import load_mock


@options.command("mock-server")
@options.setting(
    "-c",
    "--config",
    type=options.PATH,
    help="The suite whose `mock` provider answers; default: echo.",
)
@options.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@options.option(
    "--port",
    type=options.WholeNumber(0, 65535),
    metavar="N",
    default=8080,
    show_default=True,
    help="The port to listen on; 0 takes a free one.",
)
def mock_server(config: Path | None, host: str, port: int) -> None:
    """Serve the endpoints of model APIs on loopback.

    To try a suite or an app without a key, point its providers, or the SDKs of OpenAI, Anthropic
    and Google, at it with `base_url: http://127.0.0.1:8080/v1`. It also serves OpenAI's responses.
    It answers as the first `mock` provider of the config; without a config, it echoes the question.
    """
    mock = load_mock(config, environment()) if config else Mock()
    asyncio.run(serve(mock, host, port, log=Console.of_process().print))
