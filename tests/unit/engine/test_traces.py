"""Exported traces: what is read of them, and which case each is of."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from factories import case_of

from ci_evals.engine.traces import match_traces, read_traces
from ci_evals.errors import StorageError
from ci_evals.model.response import Passage, Step, Usage

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "exported_traces" / "traces.jsonl"
EXPORTS = sorted((ROOT / "tests" / "data" / "traces").iterdir())


def span(
    number: int, parent: int | None = None, status: Any = None, **attributes: Any
) -> dict[str, Any]:
    return {
        "traceId": "t",
        "spanId": str(number),
        "name": f"span {number}",
        "startTimeUnixNano": str(number * 10**9),
        "endTimeUnixNano": str(number * 10**9 + 5 * 10**8),
        "attributes": [
            {"key": key.replace("__", "."), "value": {"stringValue": value}}
            for key, value in attributes.items()
        ],
        **({"parentSpanId": str(parent)} if parent else {}),
        **({"status": status} if status else {}),
    }


def write(path: Path, *spans: dict[str, Any]) -> Path:
    path.write_text(
        json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}), "utf-8"
    )
    return path


def test_genai_and_openinference_spans_become_steps() -> None:
    genai, openinference = read_traces(EXAMPLE)
    assert genai.case_id == "book"
    assert genai.response is not None
    assert genai.response.output == "You are booked to Paris on LH400."
    assert genai.response.usage == Usage(530, 42)
    assert genai.latency_s == 2.4
    assert [step.kind for step in genai.response.steps or ()] == [
        "agent",
        "model_request",
        "tool_call",
        "tool_call",
        "model_request",
    ]
    assert genai.response.list_calls()[1].arguments == {"flight": "LH400", "to": "Paris"}
    assert openinference.question == "How is the weather in Rome?"
    assert openinference.response is not None
    assert openinference.response.output == "It is sunny in Rome."
    weather = (openinference.response.steps or ())[2]
    assert weather == Step(
        "tool_call", "get_weather", {"city": "Rome"}, result="sunny", duration_s=0.29
    )


@pytest.mark.parametrize("path", EXPORTS, ids=lambda path: path.name)
def test_exports_of_other_tools_become_steps(path: Path) -> None:
    helmet, stock = read_traces(path)
    assert helmet.question == "How do I return a helmet?"
    assert helmet.response is not None
    assert helmet.response.output == "Bring it back within 30 days, with the receipt."
    assert helmet.response.model == "gpt-4o-mini"
    assert helmet.response.usage == Usage(50, 12)
    passages = helmet.response.context or ()
    assert [passage.text for passage in passages] == [
        "Helmets can be returned within 30 days. Bring the receipt."
    ]
    assert stock.question == "Is it in stock in Hamburg?"
    assert stock.response is not None
    assert stock.response.output == "Yes, two of them."
    (call,) = stock.response.list_calls()
    assert (call.name, call.arguments) == ("look_up_stock", {"shop": "Hamburg"})
    (step,) = [step for step in stock.response.steps or () if step.kind == "tool_call"]
    assert step.result == "2"
    assert (stock.started_at - helmet.started_at) == 60


def test_what_retrievers_found_is_the_context(tmp_path: Path) -> None:
    found = {
        "retrieval.documents.1.document.content": "Second.",
        "retrieval.documents.0.document.content": "First.",
        "retrieval.documents.0.document.id": "a",
        "retrieval.documents.0.document.metadata": "{}",
    }
    retriever = span(1, openinference__span__kind="RETRIEVER")
    retriever["attributes"] += [
        {"key": key, "value": {"stringValue": value}} for key, value in found.items()
    ]
    retriever["attributes"] += [
        {"key": "retrieval.documents.0.document.score", "value": {"doubleValue": 0.5}}
    ]
    (trace,) = read_traces(
        write(tmp_path / "traces.json", retriever, span(2, openinference__span__kind="LLM"))
    )
    assert trace.response is not None
    assert trace.response.context == (Passage("First.", "a", 0.5), Passage("Second."))


def test_sub_agents_and_failed_tools_are_told(tmp_path: Path) -> None:
    agent: dict[str, Any] = {"gen_ai__operation__name": "invoke_agent"}
    tool: dict[str, Any] = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "book"}
    failed = {"code": 2, "message": "no seats"}
    path = write(
        tmp_path / "t.json",
        span(1, **agent),
        span(2, 1, gen_ai__agent__name="researcher", **agent),
        span(3, 2, failed, **tool),
    )
    (trace,) = read_traces(path)
    assert trace.response is not None
    assert (trace.response.steps or ())[-1] == Step(
        "tool_call", "book", error="no seats", duration_s=0.5, agent="researcher"
    )


def test_a_trace_that_failed_without_an_output_is_a_failure(tmp_path: Path) -> None:
    (trace,) = read_traces(
        write(tmp_path / "t.json", span(1, status={"code": "STATUS_CODE_ERROR", "message": "boom"}))
    )
    assert (trace.response, trace.error) == (None, "boom")


def test_the_runs_of_ag2_are_read(tmp_path: Path) -> None:
    tasks = [
        {
            "task_id": "capital",
            "inputs": {"input": "Capital of France?"},
            "duration_ms": 1500,
            "tokens": {"input": 7, "output": 3},
            "exception": None,
            "events": [
                {"type": "ToolCallEvent", "name": "look_up", "arguments": '{"of": "France"}'},
                {"type": "ModelResponse", "content": "Paris"},
            ],
        },
        {
            "task_id": "capital#1",
            "inputs": {},
            "duration_ms": 10,
            "exception": {"type": "ValueError"},
            "events": [],
        },
    ]
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"schema_version": "0.2", "tasks": tasks}), "utf-8")
    done, crashed = read_traces(path)
    assert done.response is not None
    assert (done.response.output, done.response.usage, done.latency_s) == (
        "Paris",
        Usage(7, 3),
        1.5,
    )
    assert done.response.list_calls()[0].arguments == {"of": "France"}
    assert crashed.error == '{"type": "ValueError"}'
    found = match_traces([done, crashed], [case_of("capital")])
    assert [trace.latency_s for trace in found.by_case["capital"]] == [1.5, 0.01]


def test_traces_are_matched_by_id_then_by_what_was_asked(tmp_path: Path) -> None:
    by_id = read_traces(
        write(tmp_path / "a.json", span(1, ci_evals__case__id="b", input__value="hello"))
    )
    by_input = read_traces(write(tmp_path / "b.json", span(1, input__value="hello")))
    stranger = read_traces(write(tmp_path / "c.json", span(1, case_id="zzz", input__value="hello")))
    found = match_traces(
        [*by_id, *by_input, *stranger], [case_of("a", input="hello"), case_of("b", input="bye")]
    )
    assert (list(found.by_case), len(found.unmatched)) == (["b", "a"], 1)


def test_another_attribute_may_hold_the_id(tmp_path: Path) -> None:
    (trace,) = read_traces(
        write(tmp_path / "a.json", span(1, ticket="b", case_id="c")), match="ticket"
    )
    assert trace.case_id == "b"


@pytest.mark.parametrize("text", ['{"a": 1}', "[]", "no json", '{"resourceSpans": []}\n{'])
def test_what_is_no_trace_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, "utf-8")
    with pytest.raises(StorageError, match=r"t\.json"):
        read_traces(path)


@pytest.mark.parametrize(
    "value", [None, 1, "x", [], {}, [1], [{"spans": 1}], [{"spans": [{"attributes": [{}]}]}]]
)
def test_odd_shapes_crash_nothing(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(
        json.dumps({"resourceSpans": [{"resource": value, "scopeSpans": value}]}), "utf-8"
    )
    read_traces(path)


ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    [],
    {},
    [1],
    "x",
    "\ud800",
    -1,
    10**400,
    "9" * 5000,
    1e400,
    float("nan"),
)
AG2 = {
    "tasks": [
        {
            "task_id": "a",
            "inputs": {"input": "hi"},
            "tokens": {"input": 1, "output": 2},
            "duration_ms": 5,
            "events": [{"type": "tool_call", "name": "search", "arguments": {"q": "a"}}],
            "output": "x",
        }
    ]
}


def places_in(value: Any, *place: Any) -> Iterator[tuple[Any, ...]]:
    """Where something is inside of a JSON value, by keys and numbers."""
    if place:
        yield place
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places_in(item, *place, key)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from places_in(item, *place, number)


def with_value(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at one place."""
    changed = json.loads(json.dumps(document))
    holder = changed
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    return changed


def documents() -> Iterator[Any]:
    """A document of each format."""
    yield AG2
    for file in (EXAMPLE, *EXPORTS):
        text = file.read_text("utf-8")
        try:
            yield json.loads(text)
        except ValueError:
            yield json.loads(text.splitlines()[0])


@pytest.mark.parametrize("document", list(documents()))
def test_an_odd_value_anywhere_crashes_nothing(document: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for number, place in enumerate(places_in(document)):
        if number % 3 and len(place) > 4:
            continue  # a third of the many places that are deep inside
        for value in ODD_VALUES:
            path.write_text(json.dumps(with_value(document, place, value)))
            with suppress(StorageError):
                read_traces(path)
