"""The provider for any service over HTTP."""

from pathlib import Path
from typing import Any

import pytest
from fakes.http_server import FakeResources, FakeServer, Scripted, request_of

from ci_evals.errors import ProviderError
from ci_evals.model.case import Case
from ci_evals.model.request import Request
from ci_evals.model.response import Message, Passage, Response, Step, ToolCall, Usage
from ci_evals.providers.http import Http
from ci_evals.providers.openai import OpenAI
from ci_evals.providers.pricing import pricer

CASE = Case(
    id="capital", vars={"q": "a b&c", "count": 3}, tags=("critical",), metadata={"team": "geo"}
)


def request() -> Request:
    return request_of(Message("user", "Hello!"), case=CASE, run=2)


async def answer(
    server: FakeServer,
    resources: FakeResources,
    body: Any = b"fine",
    path: str = "/ask",
    **options: Any,
) -> Response:
    server.answers(Scripted(body))
    return await Http(url=server.url + path, **options).open(resources).answer(request())


async def refused(
    server: FakeServer, resources: FakeResources, body: Any = b"fine", **options: Any
) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await answer(server, resources, body, **options)
    return caught.value


async def test_the_input_is_posted_and_the_whole_answer_is_the_output(
    server: FakeServer, resources: FakeResources
) -> None:
    assert await answer(server, resources, b"caf\xc3\xa9 \xff") == Response("café \ufffd")
    (seen,) = server.seen
    assert (seen.method, seen.path, seen.json) == ("POST", "/ask", {"input": "Hello!"})
    assert seen.headers["Content-Type"] == "application/json"


async def test_a_lone_expression_keeps_its_type_and_a_text_is_text(
    server: FakeServer, resources: FakeResources
) -> None:
    body = {
        "count": "{{ vars.count }}",
        "trimmed": "{{- vars.count + 1 -}}",
        "negative": "{{ -vars.count }}",
        "both": "{{- -vars.count }}",
        "text": "{{ vars.count }} {{ run }}",
        "padded": " {{ vars.count }}",
        "tags": "{{ case.tags }}",
        "case": "{{ case }}",
        "messages": "{{ messages }}",
        "nested": [{"plain": "no template", "run": "{{ run }}", "none": None, "true": True}],
    }
    server.answers(Scripted(b""))
    await Http(url=server.url, body=body).open(resources).answer(request())
    assert server.seen[0].json == {
        "count": 3,
        "trimmed": 4,
        "negative": -3,
        "both": -3,
        "text": "3 2",
        "padded": " 3",
        "tags": ["critical"],
        "case": {
            "id": "capital",
            "tags": ["critical"],
            "metadata": {"team": "geo"},
            "overrides": {"model": None, "params": {}},
        },
        "messages": [{"role": "user", "content": "Hello!"}],
        "nested": [{"plain": "no template", "run": 2, "none": None, "true": True}],
    }


async def test_an_input_that_is_no_text_is_sent_as_it_is(
    server: FakeServer, resources: FakeResources
) -> None:
    server.answers(Scripted(b""))
    await (
        Http(url=server.url)
        .open(resources)
        .answer(request_of(input={"from": "NYC", "stops": [1, 2]}))
    )
    assert server.seen[0].json == {"input": {"from": "NYC", "stops": [1, 2]}}


async def test_url_and_headers_are_templates_and_get_has_no_body(
    server: FakeServer, resources: FakeResources
) -> None:
    headers = {"X-Case": "{{ case.id }}", "Accept": "text/plain"}
    await answer(
        server, resources, path="/ask?q={{ vars.q | urlencode }}", method="GET", headers=headers
    )
    (seen,) = server.seen
    assert (seen.method, seen.path, seen.body) == ("GET", "/ask?q=a%20b%26c", b"")
    assert (seen.headers["X-Case"], seen.headers["Accept"]) == ("capital", "text/plain")


async def test_a_content_type_of_ones_own_is_kept(
    server: FakeServer, resources: FakeResources
) -> None:
    await answer(server, resources, headers={"content-type": "application/vnd.api+json"})
    assert server.seen[0].headers.getall("Content-Type") == ["application/vnd.api+json"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("path", "output"),
    [
        ("$.answer", "Paris"),
        ("$.score", "0.5"),
        ("$.nested", '{"a":[1,2]}'),
        ("$.nested.a[0]", "1"),
        ("$.nested.a[*]", "[1,2]"),
        ("$.nothing", ""),
        ("$.wrong", "false"),
    ],
)
async def test_the_output_is_what_stands_at_the_path(
    server: FakeServer, resources: FakeResources, path: str, output: str
) -> None:
    body = {
        "answer": "Paris",
        "score": 0.5,
        "nested": {"a": [1, 2]},
        "nothing": None,
        "wrong": False,
    }
    assert (await answer(server, resources, body, output=path)).output == output


async def test_a_bare_json_value_is_the_root(server: FakeServer, resources: FakeResources) -> None:
    assert (await answer(server, resources, b'"Paris"', output="$")).output == "Paris"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"error": "busy", "id": 7},
            "output: no field 'answer' in the answer, which has: error, id; it starts {\"error\":",
        ),
        (b"7", "nothing at $.answer in the answer, which starts 7"),
        ("<html><p>Sign in</html>", "127.0.0.1 answered with HTML, not JSON: Sign in"),
        (b"", "an empty body"),
    ],
)
async def test_a_path_that_finds_nothing_says_what_was_there(
    server: FakeServer, resources: FakeResources, body: Any, message: str
) -> None:
    error = await refused(server, resources, body, output="$.answer")
    assert error.kind == "bad_answer"
    assert message in error.message


async def test_tool_calls_are_read_from_their_path(
    server: FakeServer, resources: FakeResources
) -> None:
    calls = [
        {"name": "book", "arguments": {"to": "Paris"}, "id": "c1", "took_ms": 3},
        {"name": "pay", "arguments": '{"usd": 5}'},
        {"name": "log", "arguments": "{oops"},
        {"name": "end"},
    ]
    response = await answer(
        server, resources, {"text": "Done", "calls": calls}, output="$.text", tool_calls="$.calls"
    )
    assert response.output == "Done"
    assert response.tool_calls == (
        ToolCall("book", {"to": "Paris"}, "c1"),
        ToolCall("pay", {"usd": 5}),
        ToolCall("log", "{oops"),
        ToolCall("end"),
    )


@pytest.mark.parametrize("path", ["$.calls", "$.calls[*]", "$.steps[*].call"])
async def test_tool_calls_may_be_missing(
    server: FakeServer, resources: FakeResources, path: str
) -> None:
    assert (await answer(server, resources, {"calls": None}, tool_calls=path)).tool_calls == ()
    assert (await answer(server, resources, {"calls": []}, tool_calls=path)).tool_calls == ()


async def test_tool_calls_of_another_shape_are_a_bad_answer(
    server: FakeServer, resources: FakeResources
) -> None:
    error = await refused(server, resources, {"calls": [{"tool": "book"}]}, tool_calls="$.calls")
    assert error.kind == "bad_answer"
    assert "name: Field required" in error.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"body": {"q": "{{ vars.nope }}"}}, "there is no 'nope'; known: q, count"),
        ({"body": {"q": "asks {{ nope }}"}}, "'nope' is undefined"),
        ({"body": {"q": "{{ 1 / 0 }}"}}, "ZeroDivisionError"),
        ({"body": {"q": "{{ ''.__class__ }}"}}, "unsafe"),
        ({"body": {"q": "{{ range }}"}}, "Unable to serialize unknown type"),
        ({"headers": {"X-Q": "{{ 'a\\nb' }}"}}, "headers.X-Q: "),
        ({"url": "{{ case.id }}"}, "url: is not a complete address"),
    ],
)
async def test_a_request_that_cannot_be_made_is_rejected_unsent(
    server: FakeServer, resources: FakeResources, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ProviderError) as caught:
        await Http(**({"url": server.url} | options)).open(resources).answer(request())
    assert caught.value.kind == "rejected"
    assert message in caught.value.message
    assert server.seen == []


async def test_a_failing_service_is_told_in_its_own_words(
    server: FakeServer, resources: FakeResources
) -> None:
    server.answers(Scripted({"detail": "index not built"}, 503))
    with pytest.raises(ProviderError, match="answered 503: index not built") as caught:
        await Http(url=server.url).open(resources).answer(request())
    assert caught.value.kind == "server"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"url": "localhost:8000/ask"}, "url: is not a complete address"),
        ({"url": "http://h/{{ q"}, "url: bad template: "),
        (
            {"body": {"messages": [{"content": "{% if %}"}]}},
            "body.messages[0].content: bad template: ",
        ),
        ({"body": {"q": "{{ vars.q | nope }}"}}, "body.q: bad template: No filter named 'nope'"),
        ({"headers": {"X-Q": "{{ }}"}}, "headers.X-Q: bad template: "),
        ({"headers": {"X-Q": "a\nb"}}, "headers.X-Q: "),
        ({"headers": {"X Q": "{{ run }}"}}, "headers.X Q: "),
        ({"output": "$.["}, "output: bad JSONPath '$.['"),
        ({"tool_calls": "$[?"}, "tool_calls: bad JSONPath '$[?'"),
        ({"metadata": {"trace": "$["}}, "metadata.trace: bad JSONPath '$['"),
        ({"usage": {"input_tokens": "$["}}, "usage.input_tokens: bad JSONPath '$['"),
    ],
)
def test_mistakes_are_found_before_any_call(options: dict[str, Any], problem: str) -> None:
    (found,) = Http(**({"url": "http://localhost:8000/ask"} | options)).problems(Path())
    assert found.startswith(problem)


def test_good_options_have_no_problems_and_a_name() -> None:
    options = Http(
        url="http://{{ vars.host }}/ask?key=x",
        body=["{{ input }}", 1],
        output="$.a",
        tool_calls="$.b[*]",
    )
    assert options.problems(Path()) == []
    assert Http(url="https://bot.example/ask?key=x").default_name == "http:bot.example/ask"
    assert options.own_code


async def test_steps_are_read_from_their_path(server: FakeServer, resources: FakeResources) -> None:
    body = {
        "text": "Booked.",
        "trace": [{"kind": "tool_call", "name": "book", "arguments": '{"to": "Paris"}'}],
    }
    response = await answer(server, resources, body, output="$.text", steps="$.trace")
    assert response == Response("Booked.", steps=(Step("tool_call", "book", {"to": "Paris"}),))
    assert (
        await answer(server, resources, {"text": "x"}, output="$.text", steps="$.trace")
    ).steps is None


async def test_steps_of_another_shape_are_a_bad_answer(
    server: FakeServer, resources: FakeResources
) -> None:
    error = await refused(server, resources, {"trace": [{"kind": "thought"}]}, steps="$.trace")
    assert error.kind == "bad_answer"
    assert "steps[0].kind: expected 'message'" in error.message


# What else an answer tells.

TOLD: dict[str, Any] = {
    "answer": "30 days",
    "sources": [
        {"text": "Refunds take 30 days.", "id": 4, "score": 0.83, "url": "https://x"},
        {"text": "Hello."},
        None,
    ],
    "usage": {"prompt_tokens": 40, "completion_tokens": 5, "total_tokens": 45, "cost": 1},
    "tokens": {"in": 40, "out": 5},
    "cost": 0.25,
    "trace": {"id": "7f3a", "spans": [1, 2]},
    "empty": {"list": [], "nothing": None},
}
TOKEN_PATHS = {"input_tokens": "$.tokens.in", "output_tokens": "$.tokens.out"}
PASSAGES = (Passage("Refunds take 30 days.", "4", 0.83), Passage("Hello."))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"context": "$.sources"}, {"context": PASSAGES}),
        (
            {"context": "$.sources[*].text"},
            {"context": (Passage("Refunds take 30 days."), Passage("Hello."))},
        ),
        ({"context": "$.empty.list"}, {"context": ()}),
        ({"context": "$.empty.list[*].text"}, {"context": ()}),
        ({"context": "$.empty.nothing[*].text"}, {"context": ()}),
        ({"context": "$.empty.nothing"}, {"context": ()}),
        ({"context": "$.empty.nothing.list"}, {"context": None}),
        ({"context": "$..documents"}, {"context": ()}),
        ({"context": "$.sources[?@.id > 7]"}, {"context": ()}),
        ({"usage": "$.usage"}, {"usage": Usage(40, 5)}),
        ({"usage": TOKEN_PATHS}, {"usage": Usage(40, 5)}),
        ({"usage": {"input_tokens": "$.elsewhere"}}, {"usage": None}),
        ({"usage": TOKEN_PATHS | {"input_tokens": "$.elsewhere"}}, {"usage": None}),
        ({"usage": TOKEN_PATHS | {"cached_tokens": "$.elsewhere"}}, {"usage": Usage(40, 5)}),
        ({"usage": "$.empty.nothing"}, {"usage": None}),
        ({"cost_usd": "$.cost"}, {"cost_usd": 0.25}),
        ({"cost_usd": "$.elsewhere"}, {"cost_usd": None}),
        ({"finish_reason": "$.trace.id"}, {"finish_reason": "7f3a"}),
        ({"finish_reason": "$.elsewhere"}, {"finish_reason": None}),
        ({"metadata": "$.trace"}, {"metadata": {"id": "7f3a", "spans": [1, 2]}}),
        (
            {"metadata": {"a": "$.trace.id", "b": "$..spans[*]", "c": "$.x"}},
            {"metadata": {"a": "7f3a", "b": [1, 2]}},
        ),
    ],
)
async def test_what_else_an_answer_tells_is_read_from_its_path(
    server: FakeServer, resources: FakeResources, options: dict[str, Any], told: dict[str, Any]
) -> None:
    assert await answer(server, resources, TOLD, output="$.answer", **options) == Response(
        "30 days", **told
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"context": "$.source[*].text"},
            "context: no field 'source' in the answer, which has: answer, sources, usage,",
        ),
        ({"context": "$.source"}, "context: no field 'source' in the answer, which has: answer,"),
        (
            {"context": "$.sources[*].body"},
            "context: no field 'body' in the answer, which has: text, id, score, url",
        ),
        (
            {"context": "$.empty.lists[*]"},
            "context: no field 'lists' in the answer, which has: list, nothing",
        ),
        (
            {"context": "$.sources[*].id"},
            "context[0]: expected a mapping, got 4",
        ),
        ({"context": "$.trace"}, "context[0].text: Field required"),
        (
            {"usage": "$.trace"},
            (
                "$.trace has no token counts "
                "with known names (input_tokens, output_tokens, cached_tokens, "
                "cache_write_tokens, hour_write_tokens)"
            ),
        ),
        ({"usage": "$.trace"}, 'only {"id":"7f3a",'),
        ({"usage": "$.cost"}, "usage: expected a mapping, got 0.25"),
        (
            {"usage": {"input_tokens": "$.cost"}},
            "usage.input_tokens: expected a whole number, got 0.25",
        ),
        ({"cost_usd": "$.answer"}, "cost_usd: expected a number, got '30 days'"),
        ({"finish_reason": "$.cost"}, "finish_reason: expected text, got 0.25"),
        ({"metadata": "$.cost"}, "metadata: expected a mapping, got 0.25"),
    ],
)
async def test_what_is_of_another_shape_is_a_bad_answer(
    server: FakeServer, resources: FakeResources, options: dict[str, Any], message: str
) -> None:
    error = await refused(server, resources, TOLD, **options)
    assert error.kind == "bad_answer"
    assert message in error.message


@pytest.mark.parametrize(
    ("header", "cost"), [("0.0021", 0.0021), ("None", None), ("-1", None), ("nan", None)]
)
async def test_a_gateway_tells_the_cost_in_a_header(
    server: FakeServer, resources: FakeResources, header: str, cost: float | None
) -> None:
    server.answers(Scripted(TOLD, headers={"x-litellm-response-cost": header}))
    assert (await Http(url=server.url).open(resources).answer(request())).cost_usd == cost
    options = Http(url=server.url, output="$.answer", cost_usd="$.elsewhere")
    assert (await options.open(resources).answer(request())).cost_usd == cost
    assert (
        await Http(url=server.url, cost_usd="$.cost").open(resources).answer(request())
    ).cost_usd == 0.25


async def test_a_model_by_name_prices_the_tokens_of_a_service(
    server: FakeServer, resources: FakeResources
) -> None:
    options = Http(url=server.url, usage="$.usage", price="gpt-4o-mini")
    server.answers(Scripted(TOLD))
    listed = pricer(OpenAI(model="gpt-4o-mini"))(Response(usage=Usage(40, 5)))
    assert pricer(options)(await options.open(resources).answer(request())) == listed
    assert listed is not None
