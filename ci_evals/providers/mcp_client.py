"""Calls the tools of MCP servers with the official SDK, which the extra `mcp` installs."""

import asyncio
import logging
import shlex
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

import httpx2
from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft202012Validator
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import get_default_environment, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST
from yarl import URL

from ci_evals.errors import ConfigError, ProviderError, describe_exception
from ci_evals.faults import kind_behind_own_code, kind_of_status
from ci_evals.format import one_line
from ci_evals.model.request import Request, ToolDefinition
from ci_evals.providers.answer import clean_text, encode_json
from ci_evals.providers.base import McpServer, Resources
from ci_evals.providers.command_line import resolve_command, split_command
from ci_evals.providers.http_messages import place_of
from ci_evals.providers.subprocess import marked_environment
from ci_evals.providers.tool_seam import Tool, ToolError, first_failure, tools_problem

_MAX_PAGES = 100  # a broken server could return cursors for ever
_TAIL_BYTES = 4096
_LAST_LINES = 5
_MAX_REASON = 300
_PING_S = 1.0
_CLOSE_S = 10.0  # the SDK itself gives a server 4 s before it kills it

# The HTTP statuses of the refusals of the call at hand. The SDK's exceptions do not have them, but
# it sends each request in the context of its caller.
_refusals: ContextVar[list[int] | None] = ContextVar("refusals", default=None)


class McpTools:
    """An MCP server. It is started once, and again by the next call if it has ended."""

    def __init__(self, options: McpServer, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()

    async def start(self, resources: Resources) -> Sequence[Tool]:
        """See `tool_seam.Server`."""
        logging.getLogger("mcp").addHandler(logging.NullHandler())  # it would write to stderr
        resources.stack.push_async_callback(self._close)
        try:
            connection = await self._connect()
            listed = await self._list_tools(connection.client)
        except ProviderError as error:
            raise tools_problem(error.message) from error
        offered = {str(tool.name): tool for tool in listed}
        for name in self._options.only:
            if name not in offered:
                known = one_line(", ".join(offered), _MAX_REASON) or "none"
                raise tools_problem(f"{self.shown} has no tool {name!r}; known: {known}")
        names = self._options.only or offered
        return [McpTool(self, self._definition(offered[name])) for name in names]

    async def _list_tools(self, client: Any) -> Sequence[Any]:
        tools: list[Any] = []
        cursor = None
        try:
            async with asyncio.timeout(self._options.timeout_s):
                for _ in range(_MAX_PAGES):
                    page = await client.list_tools(cursor=cursor)
                    tools += page.tools
                    cursor = page.next_cursor
                    if cursor is None:
                        break
        except Exception as error:  # the SDK raises anything for what a server may send
            raise self._broken("did not list its tools", error) from error
        return tools

    def _definition(self, tool: Any) -> ToolDefinition:
        schema = tool.input_schema
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            reason = one_line(str(error.message), _MAX_REASON)
            raise self._wrong_schema(tool, reason) from None
        if schema.get("type") != "object":
            raise self._wrong_schema(tool, "its type is not 'object'")
        return ToolDefinition(str(tool.name), clean_text(tool.description or ""), schema)

    def _wrong_schema(self, tool: Any, reason: str) -> ConfigError:
        name = one_line(str(tool.name), 80)
        text = f"{self.shown} describes the arguments of {name!r} with an invalid schema: {reason}"
        return tools_problem(text)

    async def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        """Call a tool and return the server's result.

        Raises:
            ToolError: the tool refused the call.
            ProviderError: the server has ended, does not answer, refuses the client, or its answer
                does not match the tool's schema.
        """
        connection = await self._connect()
        statuses: list[int] = []
        _refusals.set(statuses)
        try:
            async with asyncio.timeout(timeout_s):
                return await connection.client.call_tool(name, dict(arguments))
        except TimeoutError:
            await connection.end_unless_alive()
            text = f"{self.shown} did not answer a call of `{name}` within {timeout_s:g} s"
            raise ProviderError("timeout", text) from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                await connection.close()
                raise self._broken(f"ended before it answered a call of `{name}`") from error
            if statuses == [404] and error.code == INVALID_REQUEST:
                await connection.close()  # it was restarted, and does not know the session
                raise self._broken(f"lost the session of a call of `{name}`") from error
            if statuses and (refusal := self._refusal(name, statuses[-1])):
                raise refusal from error
            raise ToolError(one_line(error.message, _MAX_REASON)) from error
        except Exception as error:  # the SDK raises anything for what a server may send
            why = f"returned a result for `{name}` that does not match the tool's output schema"
            raise self._broken(why, error) from error

    async def _connect(self) -> "_Connection":
        """Return the connection to the server, starting it if needed.

        Raises:
            ProviderError: the server cannot be started, or does not answer.
        """
        async with self._connecting:  # concurrent calls share one start
            if self._connection is None or self._connection.has_ended:
                self._connection = _Connection(self._options, self._folder)
            connection = self._connection
            try:
                async with asyncio.timeout(self._options.timeout_s):
                    await connection.wait()
            except TimeoutError:
                await connection.close()
                within = f"within {self._options.timeout_s:g} s"
                raise self._broken(f"was not ready {within}") from None
            except Exception as error:  # the SDK raises anything if a server cannot be reached
                what = "could not be started"
                if self._options.url is not None:
                    what = "could not be reached"
                elif isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
                    raise self._broken("ended before it was ready") from error
                raise self._broken(what, error) from error
            return connection

    def _refusal(self, name: str, status: int) -> ProviderError | None:
        """Return the error of a server that refuses the client or is overloaded; None if a status
        comes with an error of the tool, as 400 and 404 may.
        """
        kind = kind_behind_own_code(kind_of_status(status))
        if kind == "crash":
            return None
        text = f"{self.shown} answered a call of `{name}` with status {status}"
        if kind == "auth":
            text = f"{text}; check its `headers`"
        return ProviderError(kind, text, status=status)

    def _broken(self, what: str, error: BaseException | None = None) -> ProviderError:
        """Return the error of a server, with the messages of the SDK and of the server itself."""
        text = f"{self.shown} {what}"
        if error is not None:
            text = f"{text}: {one_line(describe_exception(error), _MAX_REASON)}"
        if self._connection is not None and self._options.url is None:
            text = f"{text}; {self._connection.last_lines}"
        return ProviderError("environment", text)

    async def _close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    @property
    def shown(self) -> str:
        """The server in messages."""
        if self._options.url is not None:
            place = place_of(URL(self._options.url))
        else:
            place = one_line(shlex.join(split_command(self._options.mcp)), 100)
        return f"the MCP server `{place}`"


class McpTool:
    """A tool of a server."""

    def __init__(self, server: McpTools, definition: ToolDefinition) -> None:
        self.definition = definition
        self._server = server

    async def call(self, arguments: Mapping[str, Any], request: Request) -> str:
        """See `tool_seam.Tool`."""
        result = await self._server.call(self.definition.name, arguments, request.timeout_s)
        text = "\n".join(_text_of(block) for block in result.content)
        if not result.content and result.structured_content is not None:
            text = encode_json(result.structured_content).decode()
        if result.is_error:
            raise ToolError(one_line(text, _MAX_REASON) or "the tool failed without a reason")
        return text


def _text_of(block: Any) -> str:
    """Return a block of a result as text; images and other files as their type."""
    match block.type:
        case "text":
            return str(block.text)
        case "resource" if getattr(block.resource, "text", None) is not None:
            return str(block.resource.text)
        case "resource" | "resource_link":
            return f"[{block.type}]"
        case _:
            return f"[{block.type} {one_line(str(getattr(block, 'mime_type', '')), 80)}]"


class _Connection:
    """A connection to a server, in a task of its own, so that its failure cancels nothing else."""

    def __init__(self, options: McpServer, folder: Path) -> None:
        self._options = options
        self._folder = (folder / (options.cwd or "")).absolute()
        self._stderr: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with the task
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.last_lines = "it printed nothing on stderr"
        self._task = asyncio.create_task(self._hold())

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    @property
    def client(self) -> Any:
        """The SDK's client, once the server is ready."""
        return self._ready.result()

    async def wait(self) -> None:
        """Wait until the server is ready; raise the SDK's exception if it fails to start."""
        # Shielded: a waiting call that is cancelled must not cancel the start for the others.
        await asyncio.shield(self._ready)

    async def end_unless_alive(self) -> None:
        """End a server that does not answer at all, so that the next call starts it again."""
        try:
            async with asyncio.timeout(_PING_S):
                await self.client.list_tools(
                    cache_mode="refresh"
                )  # a cached list would prove nothing
        except TimeoutError:
            await self.close()
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                await self.close()

    async def close(self) -> None:
        """End the connection, and the server if the connection started it."""
        self._closing.set()
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait([self._task], timeout=_CLOSE_S)
        self._task.cancel()

    async def _hold(self) -> None:
        try:
            async with self._transport() as transport, Client(transport) as client:
                self._ready.set_result(client)
                await self._closing.wait()
        except Exception as error:  # noqa: BLE001  the SDK raises anything if a server breaks
            if not self._ready.done():
                self._ready.set_exception(first_failure(error))
        finally:
            if not self._ready.done():
                self._ready.cancel()
            with suppress(OSError):
                self.last_lines = _last_lines(self._stderr)
            self._stderr.close()

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        options = self._options
        if options.url is not None:
            timeout = httpx2.Timeout(options.timeout_s, read=None)
            async with httpx2.AsyncClient(
                headers=dict(options.headers),
                timeout=timeout,
                event_hooks={"response": [_record_refusal]},
            ) as http:
                yield streamable_http_client(options.url, http_client=http)
            return
        program, *arguments = resolve_command(options.mcp, self._folder, options.env.get("PATH"))
        async with marked_environment({**get_default_environment(), **options.env}) as env:
            parameters = StdioServerParameters(
                command=str(program),  # which may be a path
                args=arguments,
                env=dict(env),
                cwd=self._folder,
                encoding_error_handler="replace",
            )
            yield stdio_client(parameters, errlog=self._stderr)


async def _record_refusal(response: httpx2.Response) -> None:
    statuses = _refusals.get()
    if statuses is not None and response.status_code >= 400:
        statuses.append(response.status_code)


def _last_lines(stderr: IO[str]) -> str:
    """Return the last lines of a server's stderr, on one line."""
    with open(stderr.fileno(), "rb", closefd=False) as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
    lines = [one_line(line, 150) for line in text.splitlines() if line.strip()]
    if not lines:
        return "it printed nothing on stderr"
    last = " | ".join(lines[-_LAST_LINES:])
    return f"its last output: {last}"
