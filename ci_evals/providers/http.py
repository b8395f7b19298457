"""Calls any service over HTTP with a templated request, and reads text or JSON."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from jinja2 import TemplateError, nodes
from jinja2.meta import find_undeclared_variables
from pydantic import TypeAdapter
from yarl import URL

from ci_evals.errors import ProviderError
from ci_evals.format import number_of, one_line
from ci_evals.jsonpath import find_all, is_singular, missing_field, path_problems
from ci_evals.model.fields import Options
from ci_evals.model.request import Request
from ci_evals.model.response import Detail, Passage, Response, ToolCall, Usage
from ci_evals.providers.answer import as_response, encode_json, plain_json
from ci_evals.providers.base import (
    Provider,
    ProviderOptions,
    Resources,
    TokenCommand,
    header_problems,
)
from ci_evals.providers.http_messages import (
    END_OF_STREAM,
    Call,
    Event,
    HttpCredentials,
    Reply,
    decode,
    place_of,
    readable,
    token_problems,
    url_problems,
)
from ci_evals.providers.parts import asks_messages, message_fields
from ci_evals.providers.request_fields import override_fields
from ci_evals.templating import Render, is_template, json_renderer, template_sandbox, text_renderer

_DEFAULT_BODY = {"input": "{{ input }}"}
_DEFAULT_CHAT_BODY = {"messages": "{{ messages }}"}
_NAMES = ("input", "messages", "vars", "case", "run")
_PATHS = (
    "output",
    "tool_calls",
    "steps",
    "context",
    "usage",
    "cost_usd",
    "finish_reason",
    "metadata",
)
_MOST_FIELDS = 10  # of an answer that a message lists
_USAGE_KEYS = (
    *(each.name for each in fields(Usage)),
    "prompt_tokens",
    "completion_tokens",
    "prompt_tokens_details",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream(Options):
    """The format of an answer that is streamed as server-sent events.

    Args:
        text: JSONPath of the next piece of text in an event's data; the data itself when left out.
        event: the name of the events that have text; all events when left out.
        end: the name or the data of the last event: a stream that ends without it broke off.
    """

    example: ClassVar[str] = "{text: $.delta}"

    text: str | None = None
    event: str | None = None
    end: str | None = None


TokenCount = Literal[
    "input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "hour_write_tokens"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Http(ProviderOptions):
    """A service of any kind.

    Strings in `url`, `headers` and `body` are Jinja2 templates over `input`, `messages`, `vars`,
    `case` (`id`, `tags`, `metadata`) and `run`. A body string that is exactly one `{{ expression
    }}` becomes its value: a number stays a number.

    Args:
        url: the address; `{{ vars.q | urlencode }}` quotes a value.
        method: the HTTP method.
        headers: HTTP headers.
        token: a command that prints a bearer token.
        body: any JSON; when left out `{"input": "{{ input }}"}`, in a conversation
            `{"messages": "{{ messages }}"}`, and nothing for GET.
        output: JSONPath of the output in the answer; the whole answer as text when left out.
        tool_calls: JSONPath of the tool calls, each with `name` and `arguments`.
        steps: JSONPath of the steps that were taken, each with `kind` and `name`.
        context: JSONPath of the retrieved texts, or of mappings with `text` and optionally `id` and
            `score`.
        usage: JSONPath of the token counts, or a mapping with one path for each count; unknown
            unless all of them are there.
        cost_usd: JSONPath of the cost; when left out, the header `x-litellm-response-cost` counts.
        finish_reason: JSONPath of the reason why the answer ended.
        metadata: JSONPath of a mapping to keep with the answer, or a mapping of names to JSONPaths.
        stream: the format of a streamed answer; JSONPaths then apply to the data of each event.
    """

    kind: ClassVar[str] = "http"
    own_code: ClassVar[bool] = True

    url: str
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    token: TokenCommand | None = None
    body: Any = None
    output: str | None = None
    tool_calls: str | None = None
    steps: str | None = None
    context: str | None = None
    usage: str | Mapping[TokenCount, str] | None = None
    cost_usd: str | None = None
    finish_reason: str | None = None
    metadata: str | Mapping[str, str] | None = None
    stream: Stream | None = None

    @property
    def details(self) -> Sequence[Detail]:
        details: list[Detail] = ["cost"]  # a header may state it
        if self.steps is not None:
            details.append("steps")
        if self.context is not None:
            details.append("context")
        if self.stream is not None:
            details.append("first_token")
        return details

    @property
    def default_name(self) -> str:
        place = self.url.partition("://")[2].partition("?")[0]
        return f"http:{place or self.url}"

    @property
    def paths(self) -> Iterator[tuple[str, str]]:
        """Every JSONPath with its place: `metadata.trace`."""
        for key in _PATHS:
            yield from _strings(getattr(self, key), key)
        if self.stream is not None:
            yield from _strings(self.stream.text, "stream.text")

    def problems(self, folder: Path) -> list[str]:
        problems = []
        if not is_template(self.url):
            problems += url_problems("url", self.url)
        headers = {}
        for name, value in self.headers.items():
            headers[name] = value
            if is_template(value):  # the rendered value is checked before each call
                headers[name] = ""
        problems += header_problems(headers)
        problems += token_problems(self.token, self.headers)
        templates = {
            "url": self.url,
            "headers": self.headers,
            "body": self.body,
        }
        problems += _template_problems(templates)
        for place, path in self.paths:
            problems += [f"{place}: {problem}" for problem in path_problems(path)]
        return problems

    def misfits(self, requests: Iterable[Request], folder: Path) -> Iterator[tuple[Request, str]]:
        if self.problems(folder):
            return
        template = _RequestTemplate(self)
        for request in requests:
            try:
                template.render(request)
            except ProviderError as error:
                yield request, error.message

    def credentials(self, resources: Resources) -> HttpCredentials | None:
        if self.token is None:
            return None
        from ci_evals.providers.tokens import shared_token

        return shared_token(self.token, resources)

    def open(self, resources: Resources) -> Provider:
        return HttpService(self, resources)


class HttpService:
    """The live service."""

    def __init__(self, options: Http, resources: Resources) -> None:
        from ci_evals.providers.http_client import HttpClient

        self._options = options
        self._http = HttpClient(resources, options.credentials(resources))
        self._template = _RequestTemplate(options)
        self._reads_json = any(True for _ in options.paths)

    async def answer(self, request: Request) -> Response:
        call = self._template.render(request)
        reply = await self._http.send(call, request.timeout_s)
        stream = self._options.stream
        if stream is not None:
            streamed = _read_stream(self._options, stream, reply, place_of(call.url))
            return _read_answer(self._options, streamed, reply)
        text = reply.body.decode("utf-8", "replace")
        if not self._reads_json:
            return Response(text, cost_usd=reply.cost_usd)
        document = decode(_any_json(), reply.body, call.url.host)
        return _read_answer(self._options, _Content(text, [document]), reply)


@cache
def _any_json() -> TypeAdapter[Any]:
    return TypeAdapter(Any)


# Requests.


class _RequestTemplate:
    """The request of a provider with templates to fill in for each case."""

    def __init__(self, options: Http) -> None:
        self._method = options.method
        self._url = text_renderer(options.url)
        self._headers = {name: text_renderer(value) for name, value in options.headers.items()}
        self._body: Render | None = None
        self._chat_body: Render | None = None
        if options.body is not None:
            self._body = self._chat_body = json_renderer(options.body)
        elif options.method != "GET":
            self._body = json_renderer(_DEFAULT_BODY)
            self._chat_body = json_renderer(_DEFAULT_CHAT_BODY)

    def render(self, request: Request) -> Call:
        """Return the call for one run.

        Raises:
            ProviderError: a template cannot be rendered, or HTTP cannot carry the result.
        """
        names = _variables(request)
        data = None
        try:
            url = self._url(names)
            headers = {name: render(names) for name, render in self._headers.items()}
            render_body = self._body
            if asks_messages(request):
                render_body = self._chat_body
            if render_body is not None:
                data = encode_json(render_body(names))
        except Exception as error:  # a user's template can raise anything
            why = str(error)
            if not isinstance(error, TemplateError):
                why = f"{type(error).__name__}: {error}"
            text = f"the request cannot be rendered: {readable(why)}"
            raise ProviderError("rejected", text) from error
        if problems := [*url_problems("url", url), *header_problems(headers)]:
            raise ProviderError("rejected", "; ".join(problems))
        has_type = any(name.lower() == "content-type" for name in headers)
        if data is not None and not has_type:
            headers["Content-Type"] = "application/json"
        return Call(self._method, URL(url), headers, data)


def _variables(request: Request) -> dict[str, Any]:
    """Return the values of `_NAMES`, which templates may use."""
    case = request.case
    return {
        "input": request.input,
        "messages": message_fields(request.messages),
        "vars": case.vars,
        "case": {
            "id": case.id,
            "tags": list(case.tags),
            "metadata": case.metadata,
            "overrides": override_fields(case),
        },
        "run": request.run,
    }


def _template_problems(value: Any) -> list[str]:
    """Return the problems of the templates in a JSON value, each with its place."""
    problems = []
    for place, source in _strings(value, ""):
        try:
            json_renderer(source)
            unknown = _unknown_names(source)
        except TemplateError as error:
            problems.append(f"{place}: bad template: {error}")
            continue
        for name in unknown:
            advice = f"a case's var is `vars.{name}`; known: {', '.join(_NAMES)}"
            problems.append(f"{place}: {name!r} is undefined: {advice}")
    return problems


def _unknown_names(source: str) -> list[str]:
    """Return the unknown names in a template, unless `default` or `is defined` guards them."""
    environment = template_sandbox(keep_last_newline=True)
    tree = environment.parse(source)
    known = {*_NAMES, *environment.globals}
    for guard in tree.find_all((nodes.Filter, nodes.Test)):
        if guard.name in ("default", "d", "defined") and isinstance(guard.node, nodes.Name):
            known.add(guard.node.name)
    return sorted(find_undeclared_variables(tree) - known)


def _strings(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield every string in a JSON value, with its place: `body.messages[0].content`."""
    match value:
        case str():
            yield place, value
        case Mapping():
            for name, item in value.items():
                yield from _strings(item, f"{place}.{name}".removeprefix("."))
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _strings(item, f"{place}[{index}]")


# Streams.


@dataclass(slots=True)
class _Content:
    """The text of an answer, and its JSON: one document, or one for each event of a stream."""

    text: str
    documents: list[Any]
    first_token_s: float | None = None


def _read_stream(options: Http, stream: Stream, reply: Reply, place: str) -> _Content:
    """Read the events of a stream.

    Raises:
        ProviderError: the answer is not a stream, the stream broke off, or none of its events has
            text at the JSONPath.
    """
    if reply.events is None:
        kind = reply.headers.get("Content-Type", "no type").partition(";")[0]
        text = f"{place} answered with {readable(kind)}, not with text/event-stream"
        raise ProviderError("bad_answer", text)
    content = _Content("", [])
    has_text = False
    for event in _until_end(stream, reply.events, place):
        document = None
        with suppress(ValueError, RecursionError):
            document = plain_json(json.loads(event.data))
            content.documents.append(document)
        if stream.event not in (None, event.name):
            continue
        pieces = [event.data]
        if stream.text is not None:
            pieces = _find(stream.text, document)
        has_text = has_text or bool(pieces)
        piece = "".join(each for each in pieces if isinstance(each, str))
        content.text += piece
        if piece and content.first_token_s is None:
            content.first_token_s = event.after_s
    needs_text = options.output is None and options.tool_calls is None
    if needs_text and stream.text is not None and not has_text:
        events = number_of(len(reply.events), "event")
        text = f"{place} streamed nothing at {stream.text} in {events}"
        if reply.events:
            text = f"{text}, of which the first is {readable(reply.events[0].data)}"
        raise ProviderError("bad_answer", text)
    return content


def _until_end(stream: Stream, events: Iterable[Event], place: str) -> Iterator[Event]:
    """Yield the events up to the one that ends a stream.

    Raises:
        ProviderError: the last event is missing, or the service sent an error.
    """
    for event in events:
        if event.name == "error":
            raise ProviderError("server", f"{place} broke off its stream: {readable(event.data)}")
        if event.data in (stream.end, END_OF_STREAM):
            return
        yield event
        if event.name == stream.end:
            return
    if stream.end is not None:
        text = f"{place} broke off its stream: it ended without {stream.end!r}"
        raise ProviderError("network", text)


# Answers. Lists are gathered from all documents. Other values are repeated in several events of a
# stream, and the last one counts.


def _read_answer(options: Http, content: _Content, reply: Reply) -> Response:
    """Read the values at the JSONPaths of the options.

    Raises:
        ProviderError: the output is missing, or a value has the wrong type.
    """
    documents = content.documents
    answer = {
        "output": content.text,
        "tool_calls": _gather(options.tool_calls, documents, ToolCall) or [],
        "steps": _gather(options.steps, documents),
        "context": _gather(options.context, documents, Passage),
        "usage": _read_usage(options.usage, documents),
        "cost_usd": _read_value(options.cost_usd, documents),
        "finish_reason": _read_value(options.finish_reason, documents),
        "metadata": _read_metadata(options.metadata, documents),
        "first_token_s": content.first_token_s,
    }
    if options.output is not None:
        answer["output"] = _read_output(options.output, documents)
    if options.context is not None and answer["context"] is None:
        lack = _missing_field(options.context, documents)
        if lack is not None:
            raise ProviderError("bad_answer", f"context: {lack}")
        if not is_singular(options.context):
            # A wildcard matches nothing in an empty list: nothing was retrieved.
            answer["context"] = []
    if answer["cost_usd"] is None:
        answer["cost_usd"] = reply.cost_usd
    try:
        return as_response(answer)
    except ValueError as error:
        raise ProviderError("bad_answer", f"the answer cannot be read: {error}") from error


def _find(path: str, document: Any) -> list[Any]:
    try:
        return find_all(path, document)
    except Exception as error:  # the library raises more than it declares
        text = f"{path} cannot be looked up: {readable(str(error))}"
        raise ProviderError("bad_answer", text) from error


def _find_last(path: str | None, documents: Sequence[Any]) -> list[Any]:
    """Return the values at a path in the last document that has any."""
    if path is None:
        return []
    for document in reversed(documents):
        if values := _find(path, document):
            return values
    return []


def _gather(
    path: str | None, documents: Sequence[Any], kind: type[Any] | None = None
) -> list[Any] | None:
    """Return the items of the lists at a path in all documents; None if there is nothing.

    Mappings are reduced to the fields of `kind`: a service may send more.
    """
    if path is None:
        return None
    items: list[Any] | None = None
    for document in documents:
        values = _find(path, document)
        if not values:
            continue
        if len(values) == 1 and isinstance(values[0], list):
            values = values[0]
        items = items or []
        items += [item for item in values if item is not None]
    if items and kind is not None:
        return [_only(item, _names(kind)) for item in items]
    return items


def _read_value(path: str | None, documents: Sequence[Any]) -> Any:
    values = _find_last(path, documents)
    if not values:
        return None
    return values[0]


def _read_output(path: str, documents: Sequence[Any]) -> Any:
    """Return the value at a path, or a list of several; null is an empty text."""
    values = _find_last(path, documents)
    if not values:
        start = "nothing"
        if documents:
            start = _start(documents[-1])
        text = f"nothing at {path} in the answer, which starts {start}"
        lack = _missing_field(path, documents)
        if lack is not None:
            text = f"{lack}; it starts {start}"
        raise ProviderError("bad_answer", f"output: {text}")
    if len(values) > 1:
        return values
    if values[0] is None:
        return ""
    return values[0]


def _missing_field(path: str, documents: Sequence[Any]) -> str | None:
    """Return which field of a path no document has; None if one document has them all."""
    known: list[str] = []
    missing = None
    for document in documents:
        missing = missing_field(path, document)
        if missing is None:
            return None
        known += missing.known
    if missing is None:
        return None
    names = [one_line(name, 40) for name in dict.fromkeys(known)]
    shown = ", ".join(names[:_MOST_FIELDS])
    if len(names) > _MOST_FIELDS:
        shown += ", …"
    return f"no field {missing.name!r} in the answer, which has: {shown or 'none'}"


def _read_usage(paths: str | Mapping[Any, str] | None, documents: Sequence[Any]) -> Any:
    """Return the token counts at paths; None if one of them is missing."""
    if paths is None:
        return None
    if not isinstance(paths, str):
        counts = {name: _read_value(path, documents) for name, path in paths.items()}
        for name, count in counts.items():
            if count is None and name in ("input_tokens", "output_tokens"):  # others may be none
                return None
        return counts
    value = _read_value(paths, documents)
    counts = _only(value, _USAGE_KEYS)
    if value and not counts:
        names = ", ".join(_names(Usage))
        text = f"{paths} has no token counts with known names ({names}), only {_start(value)}"
        advice = f"set their paths, as in `usage: {{input_tokens: {paths}.in}}`"
        raise ProviderError("bad_answer", f"{text}: {advice}")
    return counts


def _read_metadata(paths: str | Mapping[str, str] | None, documents: Sequence[Any]) -> Any:
    if paths is None or isinstance(paths, str):
        return _read_value(paths, documents)
    metadata: dict[str, Any] = {}
    for name, path in paths.items():
        values = _find_last(path, documents)
        if len(values) == 1:
            metadata[name] = values[0]
        elif values:
            metadata[name] = values
    return metadata


def _names(kind: type[Any]) -> list[str]:
    return [each.name for each in fields(kind)]


def _only(item: Any, keys: Collection[str]) -> Any:
    """Return a mapping reduced to `keys`: a service may send more."""
    if isinstance(item, Mapping):
        return {key: value for key, value in item.items() if key in keys}
    return item


def _start(value: Any) -> str:
    return readable(encode_json(value)[:1000].decode("utf-8", "replace"), 200)
