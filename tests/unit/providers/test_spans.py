"""Spans of an instrumented agent become the steps of its own run, however many run at once."""

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fakes.http_server import request_of
from processes import python

from ci_evals.engine.resources import open_resources
from ci_evals.errors import ProviderError
from ci_evals.model.response import Passage, Response
from ci_evals.providers import telemetry
from ci_evals.providers.python import Python

LONG_S = 60.0
AT_ONCE = 8
INSTRUMENTED = """
import asyncio, contextvars, threading
from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

tracer = trace.get_tracer("agent")
everybody = threading.Barrier({at_once})
arrived = []

def model():
    return tracer.start_as_current_span("chat", attributes={{
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 2}})

def tool(name):
    return tracer.start_as_current_span(name, attributes={{
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}})

def root():
    return tracer.start_as_current_span("invoke", attributes={{
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "guide"}})
"""
_numbers = count()


@pytest.fixture
def module(tmp_path: Path) -> Iterator[str]:
    name = f"traced_{next(_numbers)}"
    yield name
    sys.modules.pop(name, None)


async def answers(
    folder: Path, module: str, source: str, *inputs: str, factory: bool = False
) -> list[Response]:
    """What the agent says to each input, all of them asked at once."""
    text = INSTRUMENTED.format(at_once=AT_ONCE) + textwrap.dedent(source)
    (folder / f"{module}.py").write_text(text)
    async with open_resources(folder, 4) as resources:
        provider = Python(target=f"{module}:answer", factory=factory).open(resources)
        asked = [provider.answer(request_of(input=given, timeout_s=LONG_S)) for given in inputs]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in asked]
    return [task.result() for task in tasks]


def told(response: Response) -> list[tuple[str, str]] | None:
    return None if response.steps is None else [(step.kind, step.name) for step in response.steps]


SYNC = """
def answer(text):
    with root(), model():
        everybody.wait(30)
        with tool(text):
            everybody.wait(30)
        everybody.wait(30)
    return text
"""
ASYNC = """
async def meet():
    arrived.append(1)
    while len(arrived) % 8:
        await asyncio.sleep(0)

async def answer(text):
    with root(), model():
        await meet()
        with tool(text):
            await asyncio.sleep(0)
    return text
"""
FACTORY = (
    SYNC.replace("def answer(text):", "def call(text):") + "\ndef answer():\n    return call\n"
)


@pytest.mark.parametrize(("source", "factory"), [(SYNC, False), (ASYNC, False), (FACTORY, True)])
async def test_runs_at_the_same_time_do_not_mix(
    tmp_path: Path, module: str, source: str, *, factory: bool
) -> None:
    inputs = [f"tool-{number}" for number in range(AT_ONCE)]
    found = await answers(tmp_path, module, source, *inputs, factory=factory)
    for given, response in zip(inputs, found, strict=True):
        assert told(response) == [("agent", "guide"), ("model_request", "m"), ("tool_call", given)]


async def test_what_its_retrievers_found_is_the_context_unless_the_answer_has_its_own(
    tmp_path: Path, module: str
) -> None:
    source = """
    def answer(text):
        found = {
            "openinference.span.kind": "RETRIEVER",
            "retrieval.documents.0.document.content": "Fares.",
        }
        with tracer.start_as_current_span("search", attributes=found):
            pass
        return {"output": text, "steps": [], "context": ["Hours."]} if text == "own" else text
    """
    found = await answers(tmp_path, module, source, "own", "spans")
    assert [response.context for response in found] == [(Passage("Hours."),), (Passage("Fares."),)]


async def test_spans_of_threads_that_the_agent_starts_belong_to_their_parents_run(
    tmp_path: Path, module: str
) -> None:
    source = """
    from opentelemetry import context

    def answer(text):
        with root():
            here = context.get_current()
            def work():
                token = context.attach(here)
                with tool(text):
                    pass
                context.detach(token)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        return text
    """
    found = await answers(tmp_path, module, source, "one", "two")
    assert [told(response) for response in found] == [
        [("agent", "guide"), ("tool_call", "one")],
        [("agent", "guide"), ("tool_call", "two")],
    ]


async def test_a_step_has_tokens_error_and_what_it_returned(tmp_path: Path, module: str) -> None:
    source = """
    def answer(text):
        with model():
            pass
        with tool("book") as span:
            span.set_attribute("gen_ai.tool.call.arguments", '{"to": "Rome"}')
            span.set_status(Status(StatusCode.ERROR, "sold out"))
        return text
    """
    (response,) = await answers(tmp_path, module, source, "go")
    assert response.steps is not None
    asked, booked = response.steps
    assert asked.usage is not None
    assert (asked.usage.input_tokens, asked.usage.output_tokens) == (3, 2)
    assert (booked.arguments, booked.error) == ({"to": "Rome"}, "sold out")


async def test_events_and_names_of_emitters_are_read_in_the_process_too(
    tmp_path: Path, module: str
) -> None:
    source = """
    def answer(text):
        with tool("track") as span:  # as Strands writes it
            span.add_event("gen_ai.tool.message", {"content": '{"parcel": 7}'})
            span.add_event("gen_ai.choice", {"message": '[{"text": "late"}]'})
        with tracer.start_as_current_span("ai.toolCall") as span:
            span.set_attributes({"ai.operationId": "ai.toolCall", "ai.toolCall.name": "weigh"})
        return text
    """
    (response,) = await answers(tmp_path, module, source, "go")
    assert response.steps is not None
    tracked, weighed = response.steps
    assert (tracked.arguments, tracked.result) == ({"parcel": 7}, "late")
    assert weighed.name == "weigh"


TOLD = """
def answer(text):
    with tool("spanned"):
        return {"output": text, "steps": [{"kind": "tool_call", "name": "told"}]}
"""


@pytest.mark.parametrize(
    ("source", "steps"),
    [
        ("def answer(text): return text", None),
        ("def answer(text):\n  with tracer.start_as_current_span('http get'): return text", None),
        (TOLD, [("tool_call", "told")]),
    ],
)
async def test_spans_fill_in_only_what_the_answer_does_not_tell(
    tmp_path: Path, module: str, source: str, steps: Any
) -> None:
    (response,) = await answers(tmp_path, module, source, "go")
    assert told(response) == steps


async def test_nothing_of_a_run_that_is_over_is_kept(tmp_path: Path, module: str) -> None:
    source = "def answer(text):\n  tracer.start_span('never ended'); raise ValueError(text)"
    with pytest.raises(ExceptionGroup) as caught:
        await answers(tmp_path, module, source, "go")
    assert isinstance(caught.value.exceptions[0], ProviderError)
    assert telemetry.attach_recorder().recordings == {}


async def test_an_agent_in_a_circle_gives_no_answer(
    tmp_path: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "def answer(text):\n  for _ in range(5001):\n    with tool('again'): pass\n  return text"
    )
    with pytest.raises(ExceptionGroup) as caught:
        await answers(tmp_path, module, source, "go")
    (error,) = caught.value.exceptions
    assert isinstance(error, ProviderError)
    assert error.kind == "bad_answer"
    assert "at most 5,000 items, got 5,001" in error.message


@pytest.mark.parametrize("sets_one", [True, False])
def test_the_agents_own_tracer_provider_is_listened_to(tmp_path: Path, *, sets_one: bool) -> None:
    own = (
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "trace.set_tracer_provider(TracerProvider())\n"
    )
    source = "from opentelemetry import trace\n" + (own if sets_one else "")
    source += (
        "def answer(text):\n"
        "  with trace.get_tracer('a').start_as_current_span('t', "
        "attributes={'openinference.span.kind': 'TOOL'}):\n"
        "    return text\n"
    )
    (tmp_path / "agent.py").write_text(source)
    program = f"""
import asyncio
from pathlib import Path
from ci_evals.engine.resources import open_resources
from ci_evals.model.case import Case
from ci_evals.model.request import Request
from ci_evals.providers.python import Python

async def main():
    async with open_resources(Path({str(tmp_path)!r}), 2) as resources:
        provider = Python(target="agent:answer").open(resources)
        print((await provider.answer(Request("", (), Case(id="a"), 1, 30))).steps[0].name)

asyncio.run(main())
"""
    ended = python(tmp_path, "-c", program)
    assert ended == (0, b"t\n", b"")


def test_without_the_extra_agents_are_called_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def answer(text): return 'fine'")
    program = f"""
import asyncio, sys
sys.modules["opentelemetry"] = None
from pathlib import Path
from ci_evals.engine.resources import open_resources
from ci_evals.model.case import Case
from ci_evals.model.request import Request
from ci_evals.providers.python import Python

async def main():
    async with open_resources(Path({str(tmp_path)!r}), 2) as resources:
        provider = Python(target="agent:answer").open(resources)
        print((await provider.answer(Request("", (), Case(id="a"), 1, 30))).output)

asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("fine\n", "", 0)
