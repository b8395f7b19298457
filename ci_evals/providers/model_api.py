"""The base of the model APIs: their settings, addresses, keys and streams."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from multidict import CIMultiDict
from pydantic import ConfigDict, TypeAdapter
from pydantic.alias_generators import to_camel
from yarl import URL

from ci_evals.errors import ProviderError
from ci_evals.faults import kind_of_codes, read_error
from ci_evals.model.fields import Bool, Many, Positive, Secret
from ci_evals.model.response import Detail, Message
from ci_evals.providers.answer import encode_json
from ci_evals.providers.base import (
    McpServer,
    ProviderOptions,
    Resources,
    TokenCommand,
    Tool,
    header_problems,
)
from ci_evals.providers.http_messages import (
    END_OF_STREAM,
    Call,
    Event,
    EventReader,
    HttpCredentials,
    HttpSender,
    Reply,
    decode,
    readable,
    token_problems,
    url_problems,
)
from ci_evals.user_code.targets import missing_target, target_of_file, target_parts

_PARAMS = (  # that are often written as keys of the provider
    "frequency_penalty",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "seed",
    "stop",
    "stop_sequences",
    "temperature",
    "thinking",
    "tool_choice",
    "top_k",
    "top_logprobs",
    "top_p",
)

_LENGTHS = (  # vendors' names for the maximum number of output tokens
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxOutputTokens",
    "maxTokens",
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions(ProviderOptions):
    """Settings that every model API has.

    Args:
        model: the model's name, as the vendor writes it.
        base_url: the address of the API; the vendor's own when left out.
        api_key: the key, if the endpoint needs one.
        token: a command that prints a bearer token, instead of a key.
        params: further fields of the request body, in the vendor's own words.
        headers: further HTTP headers; they replace those that ci-evals sets.
        stream: stream the answer, so that the time to its first token is measured.
        tools: the tools of the model: functions of the team's own, as `module:function` or Python
            objects, and MCP servers. ci-evals calls them and sends the results to the model.
        max_steps: the maximum number of calls of the model for one answer.
    """

    default_key_variable: ClassVar[str | None]
    vendor_host: ClassVar[str]
    key_header: ClassVar[str]
    key_prefix: ClassVar[str] = ""
    asks_again_if_empty: ClassVar[bool] = True
    reserved: ClassVar[tuple[str, ...]] = ("model", "messages", "stream")
    """The fields of the body that ci-evals sets."""
    inner_keys: ClassVar[Mapping[str, str]] = {name: f"params.{name}" for name in _PARAMS}
    """The place of each vendor's setting that is often written next to `model`."""

    model: str
    base_url: str
    api_key: Secret | None = None
    token: TokenCommand | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: Bool = False
    tools: Many[Tool] = ()
    max_steps: Positive = 10

    @property
    def default_name(self) -> str:
        return f"{self.kind}:{self.model}"

    @property
    def details(self) -> Sequence[Detail]:
        details: list[Detail] = ["cost"]
        if self.tools:
            details.append("steps")
        if self.stream:
            details.append("first_token")
        return details

    @property
    def may_report_cost(self) -> bool:
        from ci_evals.providers.price_list import is_listed

        return self.api_url is None or not is_listed(self.api_url)

    @property
    def max_output_tokens(self) -> int | None:
        """The maximum number of output tokens; None if the config does not set it."""
        nested = [self.params.get("generationConfig"), self.params.get("inferenceConfig")]
        for settings in (self.params, *nested):
            if not isinstance(settings, Mapping):
                continue
            for name in _LENGTHS:
                if isinstance(settings.get(name), int):
                    return int(settings[name])
        return None

    @property
    def address(self) -> str:
        """The address of the API."""
        return self.base_url

    @property
    def api_url(self) -> str | None:
        on_this_machine = r"https?://(localhost|127\.|\[::1\])"
        if re.match(on_this_machine, self.address, re.IGNORECASE):
            return None
        return self.address

    @property
    def wants_credentials(self) -> bool:
        """True for the vendor's own address, if the config has neither a key nor a token."""
        if self.api_key is not None or self.token is not None:
            return False
        at_vendor = rf"https?://([\w.-]+\.)?{re.escape(self.vendor_host)}(?![\w.-])"
        return re.match(at_vendor, self.address) is not None

    @property
    def key_variable(self) -> str | None:
        if self.wants_credentials:
            return self.default_key_variable
        return None

    def problems(self, folder: Path) -> list[str]:
        problems = []
        if not self.model.strip():
            problems.append("model: is empty")
        problems += url_problems("base_url", self.address)
        for name in self.reserved:
            if name in self.params:
                advice = "remove it"
                if name == "stream":
                    advice = "write `stream: true` next to `model`"
                problems.append(f"params.{name}: is set by ci-evals itself; {advice}")
        problems += header_problems(self.headers)
        problems += token_problems(self.token, self.headers)
        if self.token and self.api_key:
            problems.append("token: there is also an `api_key`: remove one of them")
        return problems + self._problems_of_tools(folder)

    def _problems_of_tools(self, folder: Path) -> list[str]:
        problems = []
        for index, tool in enumerate(self.tools):
            if isinstance(tool, McpServer):
                problems += [f"tools[{index}]: {problem}" for problem in tool.problems(folder)]
            elif not isinstance(tool, str):
                continue  # a function, in Python
            elif target_parts(tool) is None:
                example = target_of_file(tool) or "shop:find_order"
                text = f"{tool!r} is not of the form module:function, as in {example}"
                problems.append(f"tools[{index}]: {text}")
            elif problem := missing_target(tool, folder):
                problems.append(f"tools[{index}]: {problem}")
        if self.tools and (self.before or self.after):
            problems.append(
                "tools: a provider with tools cannot have stages: remove `before` and `after`"
            )
        return problems

    def credentials(self, resources: Resources) -> HttpCredentials | None:
        if self.token is None:
            return None
        from ci_evals.providers.tokens import shared_token

        return shared_token(self.token, resources)

    def event_readers(self) -> Mapping[str, Callable[[float], EventReader]]:
        """Return readers of streams in a format of the API's own; see `HttpClient`."""
        return {}

    def endpoint(
        self,
        resources: Resources,
        path: str,
        fields: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        *,
        is_quoted: bool = False,
    ) -> "Endpoint":
        """Return the API at a path below the base URL, whose own query is kept.

        Args:
            resources: the engine's.
            path: the path below the base URL.
            fields: fields in the body of every call.
            headers: headers of every call, besides the key; the config's replace them.
            query: added to the query of the base URL.
            is_quoted: True if the path is percent-encoded already.
        """
        base = URL(self.address)
        url = base.joinpath(*path.split("/"), encoded=is_quoted).with_query(base.query)
        if query:
            url = url.update_query(query)
        merged = CIMultiDict({"Content-Type": "application/json", **(headers or {})})
        if self.api_key:
            merged[self.key_header] = f"{self.key_prefix}{self.api_key.reveal().strip()}"
        merged.update(self.headers)
        from ci_evals.providers.http_client import HttpClient

        client = HttpClient(
            resources, self.credentials(resources), event_readers=self.event_readers()
        )
        return Endpoint(client, resources.folder, url, merged, fields)


@dataclass(slots=True)
class CamelCase:
    """A JSON object whose keys are in camelCase."""

    __pydantic_config__ = ConfigDict(alias_generator=to_camel)


class Endpoint:
    """A model API at one address, with the headers and body fields of every call."""

    def __init__(
        self,
        client: HttpSender,
        folder: Path,
        url: URL,
        headers: Mapping[str, str],
        fields: Mapping[str, Any],
    ) -> None:
        self.folder = folder
        self.host = url.host
        self.fields = fields
        self._url = url
        self._headers = headers
        self._takes_schema = True
        self._http = client

    def post(self, fields: Mapping[str, Any], timeout_s: float) -> Awaitable[Reply]:
        """Post `fields`, in addition to those of every call.

        Raises:
            ProviderError: there was no answer.
        """
        body = encode_json({**self.fields, **fields})
        return self._http.send(Call("POST", self._url, self._headers, body), timeout_s)

    async def post_with_schema(
        self, fields: Mapping[str, Any], constraint: Mapping[str, Any], timeout_s: float
    ) -> Reply:
        """Post `fields` with a `constraint` of the answer to a JSON schema, or without it if the
        endpoint turns out not to support that.

        Raises:
            ProviderError: there was no answer.
        """
        if self._takes_schema:
            try:
                return await self.post({**fields, **constraint}, timeout_s)
            except ProviderError as error:
                if error.status not in (400, 422):
                    raise
            self._takes_schema = False  # remembered, not to pay for a refusal with every call
        return await self.post(fields, timeout_s)

    def read(self, adapter: TypeAdapter[T], reply: Reply) -> T:
        """Decode an answer; raise ProviderError if it has another shape."""
        return decode(adapter, reply.body, self.host)

    def read_events(
        self, adapter: TypeAdapter[T], events: Iterable[Event]
    ) -> Iterator[tuple[T, float]]:
        """Decode the events of a stream, each with its arrival in seconds after the request.

        Raises:
            ProviderError: an event has another shape.
        """
        for event in events:
            if event.data.strip() in ("", END_OF_STREAM):  # some only keep a connection alive
                continue
            yield decode(adapter, event.data.encode(), self.host), event.after_s

    def broken_off(self) -> ProviderError:
        """Return the error of a stream that ended before the answer."""
        text = f"{self.host} broke off its stream before the answer was complete"
        return ProviderError("network", text)

    def reported(self, error: object, finish_reason: str | None = None) -> ProviderError:
        """Return the error that an answer with status 200 reports.

        Args:
            error: the error in the answer: a mapping, a text, or None.
            finish_reason: the reason for which the answer ended, if that is an error.
        """
        reported = read_error(error)
        reported = reported._replace(codes=(*reported.codes, finish_reason))
        # Without a known code, the provider failed: nothing blames the change.
        kind = kind_of_codes(reported) or "server"
        for code in reported.codes:
            if isinstance(code, int) and 400 <= code < 600:
                why = readable(reported.message) or "no message"
                return ProviderError(kind, f"{self.host} answered {code}: {why}", status=code)
        names = [code for code in reported.codes if code and isinstance(code, str)]
        why = ": ".join(filter(None, [*names[:1], reported.message])) or "no reason given"
        return ProviderError(kind, f"{self.host} reported an error: {readable(why)}")


def system_texts_of(messages: Iterable[Message]) -> list[str]:
    """Return the texts of the system messages, which some APIs take separately."""
    return [message.text for message in messages if message.role == "system"]


def turns_of(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield a conversation turn by turn, without system messages.

    The results of one round of tools are one turn.
    """
    spoken = (message for message in messages if message.role != "system")
    for is_tool, group in groupby(spoken, key=lambda message: message.role == "tool"):
        if is_tool:
            yield list(group)
        else:
            for message in group:
                yield [message]
