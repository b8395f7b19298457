"""The interface of providers: options, as written in the YAML, and the live providers they open."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeVar

from pydantic import BeforeValidator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from ci_evals import registry
from ci_evals.model.case import Setup
from ci_evals.model.fields import (
    Above0,
    Bool,
    Concurrency,
    Many,
    NonEmpty,
    NonNegative,
    Options,
    Retries,
    Seconds,
    is_complete_url,
)
from ci_evals.model.request import Request
from ci_evals.model.response import Detail, Message, Response
from ci_evals.registry import Registry
from ci_evals.user_code.targets import CodeSource

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price(Options):
    """The price of a provider's tokens, in USD per million tokens."""

    input_per_mtok: NonNegative
    output_per_mtok: NonNegative
    cached_per_mtok: NonNegative | None = None
    cache_write_per_mtok: NonNegative | None = None


def header_problems(headers: Mapping[str, str]) -> list[str]:
    """Return the problems of headers that HTTP cannot carry.

    The values are not shown, because they may be secret.
    """
    problems = []
    for name, value in headers.items():
        if not re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", name, re.ASCII) or not value.isprintable():
            rule = "use letters, digits and '-' in the name, and no control characters in the value"
            problems.append(f"headers.{name}: {rule}")
    return problems


@dataclass(frozen=True, slots=True)
class TokenCommand(Options):
    """The source of a bearer token.

    Args:
        command: prints the token, as `gcloud auth print-access-token` does: a list, or one line
            that is split as a POSIX shell would.
    """

    example: ClassVar[str] = "{command: gcloud auth print-access-token}"

    command: str | Many[str]

    def problems(self, folder: Path) -> list[str]:
        """Return the problems of the command, without running it."""
        from ci_evals.providers.command_line import command_problems, program_problems

        wrong = command_problems(self.command)
        return wrong or program_problems(self.command, folder)


@dataclass(frozen=True, slots=True)
class Serve(Options):
    """The service that a provider calls: started before the run, and ended after it with all its
    child processes.

    Args:
        command: starts the service and stays in the foreground: a list, or one line that is split
            as a POSIX shell would.
        url: answers with a status below 500 once the service is ready; nothing may answer there
            earlier.
        timeout_s: the maximum number of seconds until then.
        cwd: the folder it runs in, relative to the config's folder, which is the default.
        env: added to the environment.
    """

    example: ClassVar[str] = "{command: [python, service.py], url: http://127.0.0.1:8000/health}"

    command: str | Many[str]
    url: str
    timeout_s: Seconds = 60.0
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    def problems(self, folder: Path) -> list[str]:
        """Return the problems, without starting anything."""
        from ci_evals.providers.command_line import command_problems, program_problems

        problems = []
        if not is_complete_url(self.url):
            problems.append("url: is not a complete address; write it as http://host:port/path")
        if wrong := command_problems(self.command):
            return [*problems, *wrong]
        cwd = folder / (self.cwd or "")
        if not cwd.is_dir():
            problems.append(f"cwd: there is no folder {cwd}")
        else:
            problems += program_problems(self.command, cwd, self.env.get("PATH"))
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer(Options):
    """An MCP server whose tools a model may call. It is started or reached before the first call,
    and ended after the run.

    Args:
        mcp: the command of a server that uses stdin and stdout, as a list or as one line that is
            split as a POSIX shell would; or the URL of a server that uses HTTP.
        env: environment variables of the command. Besides these, it gets only the few that every
            program needs, such as `PATH` and `HOME`.
        cwd: the folder that the command runs in, relative to the config's folder, which is the
            default.
        headers: HTTP headers that are sent to the URL.
        only: the names of the tools to offer to the model; all tools of the server when left out.
        timeout_s: the maximum number of seconds until it is ready.
    """

    example: ClassVar[str] = "{mcp: [python, server.py]}"

    mcp: NonEmpty | Many[NonEmpty]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    only: Many[NonEmpty] = ()
    timeout_s: Seconds = 30.0

    @property
    def url(self) -> str | None:
        """The address of a server that speaks HTTP; None for a command."""
        if isinstance(self.mcp, str) and is_complete_url(self.mcp):
            return self.mcp
        return None

    def problems(self, folder: Path) -> list[str]:
        """Return the problems, without starting anything."""
        problems = []
        if find_spec("mcp") is None:
            problems.append("mcp: needs the MCP SDK: `pip install 'ci-evals[mcp]'`")
        if self.url is not None:
            for key, value in (("env", self.env), ("cwd", self.cwd)):
                if value:
                    problems.append(f"{key}: belongs to a command, and this server is at a URL")
            return [*problems, *header_problems(self.headers)]
        if self.headers:
            problems.append("headers: belong to a server at a URL, and this is a command")
        from ci_evals.providers.command_line import command_problems, program_problems

        if wrong := command_problems(self.mcp, key="mcp"):
            return [*problems, *wrong]
        cwd = folder / (self.cwd or "")
        if not cwd.is_dir():
            problems.append(f"cwd: there is no folder {cwd}")
        else:
            problems += program_problems(self.mcp, cwd, self.env.get("PATH"), key="mcp")
        return problems


def _check_tool(value: Any) -> Any:
    if isinstance(value, str | McpServer) or callable(value):
        return value
    if isinstance(value, Mapping) and "mcp" in value:
        return value
    raise PydanticCustomError(
        "problem",
        "expected a function as module:function, or an MCP server with `mcp`; put definitions of"
        " tools that ci-evals should not call into `params.tools`",
    )


Function = SkipJsonSchema[Callable[..., Any]]  # in Python
Tool = Annotated[NonEmpty | McpServer | Function, BeforeValidator(_check_tool)]
"""A tool that a model may call."""


class Credentials(Protocol):
    """Authorizes the calls of providers."""

    noun: str
    """The start of a problem with them: `token`, `credentials`."""

    async def fetch(self) -> None:
        """Get the credentials, before the first call.

        Raises:
            ProviderError: there are no credentials.
        """
        ...


class Service(Protocol):
    """A service that is started once, for all providers that have the same `serve`."""

    async def start(self, resources: "Resources") -> None:
        """Start the service and wait until it answers; `resources.stack` ends it.

        Raises:
            ProviderError: it does not answer, or something else already does.
        """
        ...

    async def check(self, within_s: float = 0.0) -> None:
        """Raise a ProviderError if the service has ended, or ends within some seconds."""
        ...


# A model that calls tools gets `Request.tools`, answers with `Response.tool_calls`, and is called
# again with its answer and the results as further messages.


@dataclass(frozen=True, slots=True)
class ToolResult(Message):
    """The result of a tool call, as a message of the role `tool`; `name` is the tool's name."""

    name: str = ""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolRequest(Response):
    """A response with parts that only its API understands, such as signatures of thoughts.

    `native` is the turn in the form that the API expects back.
    """

    native: Any = None

    @classmethod
    def of(cls, response: Response, native: Any) -> "ToolRequest":
        values = {field.name: getattr(response, field.name) for field in fields(response)}
        return cls(**values, native=native)


@dataclass(frozen=True, slots=True)
class NativeMessage(Message):
    """The message of a model that called tools, as its `ToolRequest` has it."""

    native: Any = None


class Provider(Protocol):
    """Answers requests.

    Raises `ProviderError` when it can't; any other exception is a crash.
    """

    async def answer(self, request: Request) -> Response: ...


class Resources(Protocol):
    """Resources of the engine for providers, while it runs."""

    @property
    def folder(self) -> Path:
        """The config's folder: relative paths start here."""
        ...

    @property
    def max_concurrency(self) -> int:
        """The maximum number of concurrent calls of one provider."""
        ...

    @property
    def stack(self) -> AsyncExitStack:
        """Closed when the run ends."""
        ...

    @property
    def observe(self) -> Callable[[Mapping[str, str]], None]:
        """Receives the headers of each HTTP answer, which may state rate limits."""
        ...

    @property
    def files(self) -> Path | None:
        """The folder next to the reports for files that a run leaves behind; None to keep none."""
        ...

    def shared(self, make: Callable[["Resources"], T]) -> T:
        """Return the result of `make`, which is called once for all providers of the run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderOptions(Options):
    """Settings that every provider has.

    Args:
        name: its name in reports and `--providers`; derived from its settings when left out.
        max_concurrency: concurrent calls, within the suite's own limit; or `unlimited`.
        timeout_s: seconds that a call may take; the suite's value when left out.
        retries: further attempts after a refused or lost call; the suite's value when left out.
        on_error: whether a run without an answer counts as failed (`fail`) or is left out of the
            rate (`exclude`).
        thoughts: whether the thoughts of a model, such as `<think>…</think>`, come off its answers
            before these are graded (`remove`) or are part of them (`keep`).
        price: USD per million tokens, for models that are not publicly listed; or the name of a
            listed model.
        rpm: requests per minute that the provider allows.
        tpm: tokens per minute that it allows, input and output together.
        before: stages that convert the input, in order: names of providers, or `module:function`.
        after: stages that convert the answer, likewise.
        cache: keep the results of stages in the results folder and reuse them.
        serve: the service that it calls, started before the run and ended after it.
        setup: functions or commands that set up its runs and give them vars.
        limit_group: providers of the same group share their `rpm` and `tpm`, as models behind one
            key do.
        prompts: the names of its prompts; all of the suite's when left out.
    """

    kind: ClassVar[str]
    """The `type` in the YAML."""
    own_code: ClassVar[bool] = False
    """True if it calls the team's own code, so that a crash counts against the change."""
    retried: ClassVar[bool] = True
    """True if the suite's `retries` apply."""
    asks_again_if_empty: ClassVar[bool] = False
    """True if an empty answer is rather an accident than what the model has to say."""
    embeds: ClassVar[bool] = False
    """True if it answers with embeddings instead of text."""
    works_on_tasks: ClassVar[bool] = False
    """True if it works on task folders."""
    portable: ClassVar[bool] = False
    """True if it needs only the suite's folder, so that an executor may run it elsewhere."""

    @property
    def works_alone(self) -> bool:
        """True if a case may also have only an input, where the provider works on task folders."""
        return False

    @property
    def with_skills(self) -> "ProviderOptions | None":
        """The same provider with the skills that it leaves out; None if it leaves out none."""
        return None

    name: str | None = None
    max_concurrency: Concurrency | None = None
    timeout_s: Seconds | None = None
    retries: Retries | None = None
    on_error: Literal["fail", "exclude"] | None = None
    thoughts: Literal["remove", "keep"] = "remove"
    price: Price | NonEmpty | None = None
    rpm: Above0 | None = None
    tpm: Above0 | None = None
    limit_group: str | None = None
    prompts: Many[NonEmpty] = ()
    before: Many[str] = ()
    after: Many[str] = ()
    cache: Bool = True
    serve: Serve | None = None
    setup: Setup = ()

    @property
    def default_name(self) -> str:
        """The name if the suite gives none: `openai:gpt-4o-mini`."""
        return self.kind

    @property
    def details(self) -> Sequence[Detail]:
        """The details that its answers may have in addition to the output."""
        return ("cost", "steps", "context", "first_token")

    @property
    def may_report_cost(self) -> bool:
        """Return True if its answers may contain their cost, as answers of gateways do."""
        return self.own_code

    @property
    def api_url(self) -> str | None:
        """The endpoint whose public price list applies; None for anything without one."""
        return None

    @property
    def key_variable(self) -> str | None:
        """The environment variable to take the key from.

        None when the config names one or none is needed.
        """
        return None

    @property
    def own_source(self) -> CodeSource | None:
        """The team's own code that answers, if any; by default, the class of a provider of theirs.

        Programs and services that it only calls are not known.
        """
        if type(self).__module__.startswith("ci_evals."):
            return None
        return CodeSource("object", type(self))

    def problems(self, folder: Path) -> list[str]:
        """Return problems that are visible before any call, such as a missing file or module."""
        return []

    def misfits(self, requests: Iterable[Request], folder: Path) -> Iterator[tuple[Request, str]]:
        """Yield the requests that could not be sent, each with the reason, without sending any."""
        return iter(())

    def credentials(self, resources: Resources) -> Credentials | None:
        """Return the credentials to fetch before the first call; None for a key, or for none.

        Providers of a run with the same source share them.
        """
        return None

    def open(self, resources: Resources) -> Provider:
        """Make the live provider; `resources.stack` closes what it opens."""
        raise NotImplementedError


PROVIDERS: Registry[type[ProviderOptions]] = registry.PROVIDERS
"""The kinds of providers by `type`; each loads when it is first used."""
