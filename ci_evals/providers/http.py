"""Any service over HTTP: a templated request out, text or JSON back."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from jinja2 import TemplateError, nodes
from jinja2.meta import find_undeclared_variables
from jsonpath import JSONPathError
from pydantic import TypeAdapter, ValidationError
from yarl import URL

from ci_evals.errors import ProviderError
from ci_evals.format import number_of
from ci_evals.jsonpath import find_all, is_singular, path_problems
from ci_evals.model.case import Request
from ci_evals.model.fields import Options, first_problem
from ci_evals.model.response import Detail, Passage, Response, Step, ToolCall, Usage
from ci_evals.providers.answer import (
    as_context,
    as_cost,
    as_metadata,
    as_name,
    as_steps,
    as_usage,
    encode_json,
    plain_json,
    read_arguments,
)
from ci_evals.providers.base import Provider, ProviderOptions, Resources, TokenCommand
from ci_evals.providers.http_messages import (
    END_OF_STREAM,
    Call,
    Event,
    Reply,
    decode,
    header_problems,
    open_http_client,
    place_of,
    readable,
    token_problems,
    url_problems,
)
from ci_evals.providers.request_fields import message_fields, override_fields
from ci_evals.templating import (
    is_template,
    json_renderer,
    template_sandbox,
    text_renderer,
)

_DEFAULT_BODY = {"input": "{{ input }}"}

_NAMES = ("input", "messages", "vars", "case", "run")

_any: TypeAdapter[Any] = TypeAdapter(Any)
_tool_call = TypeAdapter(ToolCall)
_TOOL_CALL_KEYS = {each.name for each in fields(ToolCall)}
_PASSAGE_KEYS = {each.name for each in fields(Passage)}
_USAGE_KEYS = {
    *(each.name for each in fields(Usage)),
    "prompt_tokens",
    "completion_tokens",
    "prompt_tokens_details",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream(Options):
    """The shape of an answer that comes as server-sent events.

    Args:
        text: JSONPath of the next piece of text in an event's data; left out, the data itself is
            text.
        event: the name of the events that have text; all of them when left out.
        end: the name or the data of the last event: a stream that ends without it was broken off.
    """

    example: ClassVar[str] = "{text: $.delta}"

    text: str | None = None
    event: str | None = None
    end: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Http(ProviderOptions):
    """A service of any kind.

    Strings in `url`, `headers` and `body` are Jinja2 templates over `input`, `messages`, `vars`,
    `case` (`id`, `tags`, `metadata`) and `run`. A body string that is exactly one `{{ expression
    }}` becomes its value: a number stays a number.

    Args:
        url: where to send to; `{{ vars.q | urlencode }}` quotes a value.
        method: the HTTP method.
        headers: HTTP headers.
        token: a command that prints a bearer token.
        body: any JSON; `{"input": "{{ input }}"}` when left out, and nothing for GET.
        output: JSONPath of the output in the answer; the whole answer as text when left out.
        tool_calls: JSONPath of the tool calls, each with `name` and `arguments`.
        steps: JSONPath of the steps that were taken, each with `kind` and `name`.
        context: JSONPath of the texts that were retrieved, or of mappings with `text` and perhaps
            `id` and `score`.
        usage: JSONPath of the token counts, or a mapping with one for each count; known if all of
            them are there.
        cost_usd: JSONPath of the cost; else the header `x-litellm-response-cost` tells it.
        finish_reason: JSONPath of the reason why the answer ended.
        metadata: JSONPath of a mapping to keep with the answer, or a mapping of names to JSONPaths.
        stream: how the answer is streamed, if it is; JSONPaths are then looked up in the data of
            each event.
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
    usage: str | Mapping[Literal["input_tokens", "output_tokens", "cached_tokens"], str] | None = (
        None
    )
    cost_usd: str | None = None
    finish_reason: str | None = None
    metadata: str | Mapping[str, str] | None = None
    stream: Stream | None = None

    @property
    def tells(self) -> Sequence[Detail]:
        sources: Mapping[Detail, object] = {
            "cost": self.usage if self.cost_usd is None else self.cost_usd,
            "steps": self.steps,
            "context": self.context,
            "first_token": self.stream,
        }
        return [detail for detail, source in sources.items() if source is not None]

    @property
    def default_name(self) -> str:
        return f"http:{self.url.partition('://')[2].partition('?')[0] or self.url}"

    def problems(self, folder: Path) -> list[str]:
        fixed = {name: value for name, value in self.headers.items() if not is_template(value)}
        templated = {name: "" for name in self.headers if name not in fixed}
        return [
            *(url_problems("url", self.url) if not is_template(self.url) else []),
            *header_problems(fixed | templated),
            *token_problems(self.token, self.headers),
            *_template_problems({"url": self.url, "headers": self.headers, "body": self.body}),
            *(
                f"{where}: {problem}"
                for where, path in _paths(self)
                for problem in path_problems(path)
            ),
        ]

    def misfits(self, requests: Iterable[Request]) -> Iterator[tuple[Request, str]]:
        if self.problems(Path()):
            return
        template = _RequestTemplate(self)
        for request in requests:
            try:
                template.render(request)
            except ProviderError as error:
                yield request, error.message

    def open(self, resources: Resources) -> Provider:
        return Service(self, resources)


def _paths(options: Http) -> Iterator[tuple[str, str]]:
    """Yield every JSONPath with its place: `metadata.trace`."""
    for key in (
        "output",
        "tool_calls",
        "steps",
        "context",
        "usage",
        "cost_usd",
        "finish_reason",
        "metadata",
    ):
        yield from _strings(getattr(options, key), key)
    if options.stream is not None:
        yield from _strings(options.stream.text, "stream.text")


class Service:
    """The live service."""

    def __init__(self, options: Http, resources: Resources) -> None:
        self._options = options
        self._http = open_http_client(resources, options.token)
        self._template = _RequestTemplate(options)
        self._reads_json = any(True for _ in _paths(options))

    async def answer(self, request: Request) -> Response:
        call = self._template.render(request)
        reply = await self._http.send(call, request.timeout_s)
        if self._options.stream is not None:
            return self._response(
                *_read_stream(self._options, self._options.stream, reply, place_of(call.url)),
                reply.cost_usd,
            )
        text = reply.body.decode("utf-8", "replace")
        if not self._reads_json:
            return Response(text, cost_usd=reply.cost_usd)
        return self._response(text, [decode(_any, reply.body, call.url.host)], None, reply.cost_usd)

    def _response(
        self,
        text: str,
        documents: Sequence[Any],
        first_token_s: float | None,
        cost_usd: float | None,
    ) -> Response:
        """Read an answer: its text, the JSON of it or of its events, and the cost that a gateway
        told.

        Lists are gathered from all events. Of all else, which services repeat as they go, the last
        one counts.
        """

        def last(path: str) -> Any:
            """Return the last document in which a path leads somewhere."""
            having = (each for each in reversed(documents) if _find(path, each))
            return next(having, documents[-1] if documents else None)

        def gather(
            read: Callable[[str, Any], tuple[T, ...] | None], path: str | None
        ) -> tuple[T, ...] | None:
            """Return the items of all lists; None if there is no list."""
            lists = [
                found
                for each in documents
                if path is not None and (found := read(path, each)) is not None
            ]
            return tuple(chain.from_iterable(lists)) if lists else None

        options = self._options
        told = None if options.cost_usd is None else _cost(options.cost_usd, last(options.cost_usd))
        return Response(
            output=text
            if options.output is None
            else _output(options.output, last(options.output)),
            tool_calls=gather(_tool_calls, options.tool_calls) or (),
            steps=gather(_steps, options.steps),
            context=gather(_context, options.context),
            usage=None if options.usage is None else _usage(options.usage, last),
            cost_usd=cost_usd if told is None else told,
            finish_reason=None
            if options.finish_reason is None
            else _name(options.finish_reason, last(options.finish_reason)),
            metadata={} if options.metadata is None else _metadata(options.metadata, last),
            first_token_s=first_token_s,
        )


def _read_stream(
    options: Http, stream: Stream, reply: Reply, place: str
) -> tuple[str, list[Any], float | None]:
    """Return the text of a stream, what its events hold as JSON, and when its first piece of text
    came.

    Raises:
        ProviderError: it is no stream, it was broken off, or none of its events has text where it
            should be.
    """
    if reply.events is None:
        kind = readable(reply.headers.get("Content-Type", "no type").partition(";")[0])
        raise ProviderError(
            "bad_answer", f"{place} answered with {kind}, not with text/event-stream"
        )
    pieces: list[str] = []
    documents: list[Any] = []
    first_token_s = None
    for event in _until_end(stream, reply.events, place):
        document = None
        with suppress(ValueError, RecursionError):
            documents.append(document := plain_json(json.loads(event.data)))
        if stream.event in (None, event.name):
            found = [event.data] if stream.text is None else _find(stream.text, document)
            if piece := "".join(each for each in found if isinstance(each, str)):
                first_token_s = event.after_s if first_token_s is None else first_token_s
                pieces.append(piece)
    path, may_lack_text = stream.text, options.output is not None or options.tool_calls is not None
    if path is not None and not may_lack_text and not any(_find(path, each) for each in documents):
        first = f", of which the first is {readable(reply.events[0].data)}" if reply.events else ""
        text = (
            f"{place} streamed nothing at {path} in {number_of(len(reply.events), 'event')}{first}"
        )
        raise ProviderError("bad_answer", text)
    return "".join(pieces), documents, first_token_s


def _until_end(stream: Stream, events: Iterable[Event], place: str) -> Iterator[Event]:
    """Yield the events up to the one that ends a stream.

    Raises:
        ProviderError: there is none although there should be, or the service told of an error.
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
        raise ProviderError(
            "network", f"{place} broke off its stream: it ended without {stream.end!r}"
        )


class _RequestTemplate:
    """The request of a provider, before it is filled in for a case."""

    def __init__(self, options: Http) -> None:
        body = _DEFAULT_BODY if options.body is None and options.method != "GET" else options.body
        self._method = options.method
        self._url = text_renderer(options.url)
        self._headers = {name: text_renderer(value) for name, value in options.headers.items()}
        self._body = None if body is None else json_renderer(body)

    def render(self, request: Request) -> Call:
        """Return what is sent for one run.

        Raises:
            ProviderError: it cannot be rendered, or is nothing that HTTP can carry.
        """
        names = _variables(request)
        try:
            url = self._url(names)
            headers = {name: render(names) for name, render in self._headers.items()}
            data = None if self._body is None else encode_json(self._body(names))
        except Exception as error:  # a user's template can raise anything
            why = readable(
                str(error)
                if isinstance(error, TemplateError)
                else f"{type(error).__name__}: {error}"
            )
            raise ProviderError("rejected", f"the request cannot be rendered: {why}") from error
        if wrong := [*url_problems("url", url), *header_problems(headers)]:
            raise ProviderError("rejected", "; ".join(wrong))
        if data is not None and not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"
        return Call(self._method, URL(url), headers, data)


def _variables(request: Request) -> dict[str, Any]:
    """Return the names that templates may use."""
    case = request.case
    messages = message_fields(request)
    about = {
        "id": case.id,
        "tags": list(case.tags),
        "metadata": case.metadata,
        "overrides": override_fields(case),
    }
    return dict(zip(_NAMES, (request.input, messages, case.vars, about, request.run), strict=True))


def _find(path: str, value: Any) -> list[Any]:
    try:
        return find_all(path, value)
    except (JSONPathError, RecursionError) as error:
        raise ProviderError(
            "bad_answer", f"{path} cannot be looked up: {readable(str(error))}"
        ) from error


def _find_items(path: str, value: Any) -> list[Any]:
    """Return the items of the one list at a path, or all that is there."""
    found = _find(path, value)
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found


def _output(path: str, value: Any) -> str:
    """Return the text at a path: a string as it is, null as no text, all else as JSON, several
    matches as a list.
    """
    found = _find(path, value)
    if not found:
        raise ProviderError(
            "bad_answer", f"nothing at {path} in the answer, which starts {_start(value)}"
        )
    match found[0] if len(found) == 1 else found:
        case None:
            return ""
        case str(text):
            return text
        case other:
            return encode_json(other).decode()


def _tool_calls(path: str, value: Any) -> tuple[ToolCall, ...]:
    calls = []
    for item in _find_items(path, value):
        try:
            call = (
                _tool_call.validate_python(_known(item, _TOOL_CALL_KEYS))
                if item is not None
                else None
            )
        except ValidationError as error:
            text = f"{path} must hold tool calls with `name` and `arguments`: {first_problem(error)}: {_start(item)}"
            raise ProviderError("bad_answer", text) from error
        if call is not None:
            arguments = (
                read_arguments(call.arguments)
                if isinstance(call.arguments, str)
                else call.arguments
            )
            calls.append(replace(call, arguments=arguments))
    return tuple(calls)


def _steps(path: str, value: Any) -> tuple[Step, ...] | None:
    found = _find_items(path, value) if _find(path, value) else None
    return _convert(as_steps, path, found)


def _context(path: str, value: Any) -> tuple[Passage, ...] | None:
    """Return the texts at a path. Nothing there says that nothing was retrieved only if the path
    has a wildcard.
    """
    if not _find(path, value):
        return None if is_singular(path) else ()
    told = [item for item in _find_items(path, value) if item is not None]
    return _convert(as_context, path, [_known(item, _PASSAGE_KEYS) for item in told])


def _usage(paths: str | Mapping[Any, str], document: Callable[[str], Any]) -> Usage | None:
    """Return the token counts at paths, each in the document where it leads; None unless all of
    them are there.
    """
    if isinstance(paths, str):
        found = _first(paths, document(paths))
        counted = _known(found, _USAGE_KEYS)
        if found and not counted:
            names = ", ".join(each.name for each in fields(Usage))
            text = f"{paths} has no token counts by a known name ({names}), only {_start(found)}: name their places"
            raise ProviderError(
                "bad_answer", f"{text}, as in `usage: {{input_tokens: {paths}.in}}`"
            )
        return _convert(as_usage, paths, counted)
    counts = {name: _first(path, document(path)) for name, path in paths.items()}
    told = {name: count for name, count in counts.items() if count is not None}
    known = told.keys() >= counts.keys() - {
        "cached_tokens"
    }  # which services leave out when there are none
    return _convert(as_usage, ", ".join(paths.values()), told if known else None)


def _cost(path: str, value: Any) -> float | None:
    return _convert(as_cost, path, _first(path, value))


def _name(path: str, value: Any) -> str | None:
    return _convert(as_name, path, _first(path, value))


def _metadata(paths: str | Mapping[str, str], document: Callable[[str], Any]) -> Mapping[str, Any]:
    if isinstance(paths, str):
        return _convert(as_metadata, paths, _first(paths, document(paths)))
    found = {name: _find(path, document(path)) for name, path in paths.items()}
    return as_metadata(
        {name: each[0] if len(each) == 1 else each for name, each in found.items() if each}
    )


def _convert(convert: Callable[[Any], T], path: str, value: Any) -> T:
    """Convert what stands at a path.

    Raises:
        ProviderError: it is not what belongs there.
    """
    try:
        return convert(value)
    except (TypeError, ValueError) as error:
        raise ProviderError("bad_answer", f"{path}: {error}") from error


def _first(path: str, value: Any) -> Any:
    """Return what stands first at a path; None if there is nothing."""
    return next(iter(_find(path, value)), None)


def _known(item: Any, keys: Collection[str]) -> Any:
    """Return a mapping with some keys only: a service may tell more."""
    return (
        {key: value for key, value in item.items() if key in keys}
        if isinstance(item, Mapping)
        else item
    )


def _start(value: Any) -> str:
    return readable(encode_json(value)[:1000].decode("utf-8", "replace"), 200)


# Templates.


def _template_problems(value: Any) -> list[str]:
    """List what is wrong with the templates in a JSON value, each with its place."""
    problems = []
    for where, source in _strings(value, ""):
        try:
            json_renderer(source)
            unknown = _unknown_names(source)
        except TemplateError as error:
            problems.append(f"{where}: bad template: {error}")
        else:
            known = ", ".join(_NAMES)
            problems += [
                f"{where}: {name!r} is undefined: a case's var is `vars.{name}`; known: {known}"
                for name in unknown
            ]
    return problems


def _unknown_names(source: str) -> list[str]:
    """List the names of a template that have no value, unless it minds that by `default` or `is
    defined`.
    """
    environment = template_sandbox(keep_last_newline=True)
    tree = environment.parse(source)
    guards = (
        each
        for each in tree.find_all((nodes.Filter, nodes.Test))
        if each.name in ("default", "d", "defined")
    )
    guarded = {guard.node.name for guard in guards if isinstance(guard.node, nodes.Name)}
    return sorted(find_undeclared_variables(tree) - {*_NAMES, *environment.globals} - guarded)


def _strings(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """Yield every string in a JSON value, with its place: `body.messages[0].content`."""
    match value:
        case str():
            yield where, value
        case Mapping():
            for name, item in value.items():
                yield from _strings(item, f"{where}.{name}" if where else str(name))
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _strings(item, f"{where}[{index}]")
