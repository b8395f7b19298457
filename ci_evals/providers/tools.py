"""The tools that a model may call: the team's own functions, and tools of MCP servers."""

import asyncio
import inspect
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, NotRequired, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from ci_evals.errors import ConfigError, ProviderError, describe_exception
from ci_evals.format import one_line
from ci_evals.model.fields import first_problem
from ci_evals.model.request import Request, ToolDefinition
from ci_evals.model.response import Step, ToolCall
from ci_evals.providers.answer import clean_text, encode_json
from ci_evals.providers.base import McpServer, Resources, ToolResult
from ci_evals.providers.tool_seam import Server, Tool, ToolError, first_failure, tools_problem
from ci_evals.user_code.crashes import describe_crash
from ci_evals.user_code.targets import identity, load_target, target_problem
from ci_evals.user_code.threads import call_in_thread, ends_work, is_async

MAX_RESULT_CHARACTERS = 100_000
"""The model gets only the beginning of a longer result."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_REASON = 300


class ToolUse(NamedTuple):
    """A finished tool call; `lost` is the error of a server that was not available."""

    step: Step
    result: ToolResult
    lost: ProviderError | None


class Toolbox:
    """The tools of a provider.

    Args:
        tools: functions, also as `module:function`, and MCP servers.
        resources: the engine's.

    Raises:
        ConfigError: a function cannot be imported, or cannot be described to a model.
    """

    def __init__(self, tools: Sequence[Any], resources: Resources) -> None:
        self._tools: dict[str, Tool] = {}
        self._servers: list[Server] = []
        self._is_started = False
        for tool in tools:
            if isinstance(tool, McpServer):
                from ci_evals.providers.mcp_client import McpTools

                self._servers.append(McpTools(tool, resources.folder))
            elif isinstance(tool, str):
                self._add(FunctionTool(load_target(tool), tool))
            else:
                self._add(FunctionTool(tool, identity(tool)))

    async def start(self, resources: Resources) -> None:
        """Start the servers.

        Raises:
            ConfigError: a server does not answer, or a tool cannot be described to a model.
        """
        if self._is_started:
            return
        self._is_started = True
        for server in self._servers:
            for tool in await server.start(resources):
                self._add(tool)

    def _add(self, tool: Tool) -> None:
        name = tool.definition.name
        shown = one_line(name, 80)
        if not _NAME.fullmatch(name):
            rule = "at most 64 letters, digits, '_' and '-'"
            raise tools_problem(f"models do not accept the tool name {shown!r}: use {rule}")
        if name in self._tools:
            advice = "remove one, from a server with `only`"
            raise tools_problem(f"there are two tools called {shown!r}: {advice}")
        self._tools[name] = tool

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The descriptions of the tools for the model."""
        return tuple(tool.definition for tool in self._tools.values())

    def has_any(self, calls: Iterable[ToolCall]) -> bool:
        """Return True if one of the calls is for one of these tools."""
        return any(call.name in self._tools for call in calls)

    async def use(self, calls: Iterable[ToolCall], request: Request) -> list[ToolUse]:
        """Run the calls of one answer concurrently."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._use(call, request)) for call in calls]
        except BaseExceptionGroup as failures:
            raise first_failure(failures) from None
        return [task.result() for task in tasks]

    async def _use(self, call: ToolCall, request: Request) -> ToolUse:
        step = Step("tool_call", call.name or "?", call.arguments)
        lost = None
        started = time.perf_counter()
        try:
            text = _cut(clean_text(await self._call(call, request)))
            step = replace(step, result=text)
            is_error = False
        except ToolError as raised:
            text = f"Error: {raised.reason}"
            step = replace(step, error=f"{raised.reason}{raised.place}")
            is_error = True
        except ProviderError as error:
            text = f"Error: {error.message}"
            step = replace(step, error=clean_text(error.message))
            is_error = True
            lost = error
        step = replace(step, duration_s=round(time.perf_counter() - started, 6))
        result = ToolResult("tool", text, tool_call_id=call.id, name=call.name, is_error=is_error)
        return ToolUse(step, result, lost)

    async def _call(self, call: ToolCall, request: Request) -> str:
        tool = self._tools.get(call.name)
        if tool is None:
            name = one_line(call.name, 80)
            raise ToolError(f"there is no tool {name!r}; known: {', '.join(self._tools)}")
        if isinstance(call.arguments, str):
            raise ToolError("the arguments are not a JSON object")
        return await tool.call(call.arguments, request)


def shared_toolbox(tools: Sequence[Any], resources: Resources) -> Toolbox:
    """Return the toolbox of these tools, which providers with equal tools share.

    Raises:
        ConfigError: a function cannot be imported, or cannot be described to a model.
    """
    toolboxes = resources.shared(_toolboxes)
    for known, toolbox in toolboxes:
        if known == tools:
            return toolbox
    toolbox = Toolbox(tools, resources)
    toolboxes.append((tools, toolbox))
    return toolbox


def _toolboxes(_: Resources) -> list[tuple[Sequence[Any], Toolbox]]:
    return []


def _cut(text: str) -> str:
    left = len(text) - MAX_RESULT_CHARACTERS
    if left <= 0:
        return text
    return f"{text[:MAX_RESULT_CHARACTERS]}… ({left:,} more characters are left out)"


# Functions of the team's own.


class FunctionTool:
    """A function, described to the model by its signature and docstring.

    A parameter annotated as `Request` gets the request and is hidden from the model.

    Args:
        function: the function.
        target: its name in errors, `module:function`.

    Raises:
        ConfigError: its parameters cannot be described.
    """

    def __init__(self, function: Callable[..., Any], target: str) -> None:
        self._function = function
        self._request_parameter: str | None = None
        self._arguments = self._read_parameters(target)
        self.definition = ToolDefinition(
            name=target.rpartition(":")[2].rpartition(".")[2],
            description=inspect.getdoc(self._function) or "",
            parameters=self._schema(target),
        )

    def _read_parameters(self, target: str) -> TypeAdapter[dict[str, Any]]:
        """Return the type of the arguments, without the parameter for the request."""
        function = self._function
        try:
            parameters = inspect.signature(function).parameters.values()
            annotations = get_type_hints(function, include_extras=True)
        except (TypeError, ValueError, NameError) as error:
            raise target_problem(target, function, f"its parameters are unknown: {error}") from None
        fields: dict[str, Any] = {}
        for parameter in parameters:
            annotation = annotations.get(parameter.name, Any)
            if annotation is Request:
                self._request_parameter = parameter.name
                continue
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                text = f"a model passes arguments by name, which `{parameter}` does not allow"
                raise target_problem(target, function, text)
            if parameter.default is not parameter.empty:
                annotation = NotRequired[annotation]
            fields[parameter.name] = annotation
        make: Any = TypedDict  # mypy accepts only literal fields
        arguments = with_config(ConfigDict(extra="forbid"))(make("Arguments", fields))
        try:
            return TypeAdapter(arguments)
        except PydanticUserError as error:
            raise self._unfit(target, error) from None

    def _schema(self, target: str) -> Mapping[str, Any]:
        try:
            schema = self._arguments.json_schema()
        except PydanticUserError as error:
            raise self._unfit(target, error) from None
        del schema["title"]
        schema.setdefault("properties", {})
        return schema

    def _unfit(self, target: str, error: PydanticUserError) -> ConfigError:
        text = f"its parameters cannot be described to a model: {one_line(error.message, 200)}"
        return target_problem(target, self._function, text)

    async def call(self, arguments: Mapping[str, Any], request: Request) -> str:
        try:
            given = dict(self._arguments.validate_python(arguments))
        except ValidationError as error:
            raise ToolError(f"wrong arguments: {first_problem(error)}") from None
        if self._request_parameter is not None:
            given[self._request_parameter] = request
        scope = asyncio.timeout(request.timeout_s)
        try:
            async with scope:
                value = await self._run(given)
        except BaseException as error:
            if ends_work(error):
                raise
            if scope.expired():
                raise ToolError(f"no result within {request.timeout_s:g} s") from None
            reason = describe_exception(error)
            place = describe_crash(error).removeprefix(reason)
            raise ToolError(one_line(reason, _MAX_REASON), place) from error
        if isinstance(value, str):
            return value
        try:
            return encode_json(value).decode()
        except ValueError as error:
            text = f"its result cannot be written as JSON: {error}"
            raise ToolError(one_line(text, _MAX_REASON)) from None

    async def _run(self, arguments: Mapping[str, Any]) -> Any:
        work = partial(self._function, **arguments)
        if is_async(self._function):
            return await work()
        return await call_in_thread(work)
