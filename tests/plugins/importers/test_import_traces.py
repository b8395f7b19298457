"""`ci-evals import` makes cases of traces: what was asked, with what was recorded."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from processes import Finished, ci_evals
from suites import write_lines

from ci_evals.suite.yaml import parse

DATA = Path(__file__).parents[2] / "data" / "traces"
KIND = "openinference.span.kind"
CHAIN = {KIND: "CHAIN"}
CHAT = {"gen_ai.operation.name": "chat"}
FORMATS = sorted(path.name for path in DATA.iterdir())


async def import_traces(folder: Path, *paths: Path) -> tuple[dict[str, Any], Finished]:
    """Import traces into a suite; return its value and how the command ended."""
    done = await ci_evals(folder, "import", *map(str, paths), "--to", "evals.yaml", "--force")
    assert done.code == 0, done.err
    value, _, problems = parse((folder / "evals.yaml").read_text("utf-8"), "evals.yaml")
    assert not problems
    return value, done


def span(
    trace: str, number: int, attributes: Mapping[str, str], parent: int | None = None
) -> dict[str, Any]:
    """A span of OTLP JSON."""
    start = number * 10**9
    made: dict[str, Any] = {
        "traceId": trace,
        "spanId": f"{trace}-{number}",
        "name": f"span {number}",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 10**8),
        "attributes": [
            {"key": name, "value": {"stringValue": value}} for name, value in attributes.items()
        ],
    }
    if parent is not None:
        made["parentSpanId"] = f"{trace}-{parent}"
    return made


def otlp(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def asked(trace: str, question: str, answer: str = "Yes.", number: int = 1) -> dict[str, Any]:
    attributes = {"input.value": question, "output.value": answer}
    return otlp(span(trace, number, CHAIN | attributes))


@pytest.mark.parametrize("name", FORMATS)
async def test_every_format_gives_the_same_cases(tmp_path: Path, name: str) -> None:
    suite, done = await import_traces(tmp_path, DATA / name)
    helmet, stock = suite["cases"]
    assert helmet["input"] == "How do I return a helmet?"
    assert helmet["vars"] == {
        "context": ["Helmets can be returned within 30 days. Bring the receipt."]
    }
    reference = "Bring it back within 30 days, with the receipt."
    assert helmet["expect"] == [{"judge": {"rubric": "factual", "reference": reference}}]
    assert stock["messages"] == [
        {"role": "user", "content": "Do you have the Tern in blue?"},
        {"role": "assistant", "content": "Yes, in blue and in black."},
        {"role": "user", "content": "Is it in stock in Hamburg?"},
    ]
    assert stock["expect"] == [{"judge": {"rubric": "factual", "reference": "Yes, two of them."}}]
    assert stock["metadata"]["tools"] == ["look_up_stock"]
    assert "# You are the assistant of Harbour Bikes." in (tmp_path / "evals.yaml").read_text()
    assert "still to do before it runs" in done.err


async def test_unconfirmed_cases_are_in_quarantine_for_a_month(tmp_path: Path) -> None:
    before = datetime.now(UTC).date()
    suite, _ = await import_traces(tmp_path, write_lines(tmp_path / "t.jsonl", asked("a", "Open?")))
    after = datetime.now(UTC).date()
    (case,) = suite["cases"]
    assert case["quarantine"]["reason"] == "the recorded answer is not confirmed"
    month = timedelta(days=30)
    assert before + month <= date.fromisoformat(case["quarantine"]["until"]) <= after + month


async def test_near_twins_are_one_case_with_their_count(tmp_path: Path) -> None:
    questions = (
        "Can I return a helmet?",
        "can i return a helmet",
        "Can I retrun a helmet?",
        "Can I return a saddle?",
        "Is order 4711 late?",
        "Is order 4712 late?",
    )
    documents = [asked(f"t{n}", text, f"{n}.", n) for n, text in enumerate(questions, 1)]
    suite, _ = await import_traces(tmp_path, write_lines(tmp_path / "t.jsonl", *documents))
    counts = {case["input"]: case["metadata"]["traces"] for case in suite["cases"]}
    assert counts == {
        "Can I retrun a helmet?": 3,
        "Can I return a saddle?": 1,
        "Is order 4711 late?": 1,
        "Is order 4712 late?": 1,
    }
    first = suite["cases"][0]
    assert first["metadata"]["also asked as"] == ["Can I return a helmet?", "can i return a helmet"]
    assert first["expect"][0]["judge"]["reference"] == "3."


async def test_the_same_words_after_another_conversation_are_another_case(tmp_path: Path) -> None:
    def chat(trace: str, bike: str) -> dict[str, Any]:
        messages = [
            {"role": "user", "parts": [{"type": "text", "content": f"Do you have the {bike}?"}]},
            {"role": "assistant", "parts": [{"type": "text", "content": "Yes."}]},
            {"role": "user", "parts": [{"type": "text", "content": "What does it cost?"}]},
        ]
        attributes = {"gen_ai.input.messages": json.dumps(messages)}
        return otlp(span(trace, 1, CHAT | attributes))

    path = write_lines(tmp_path / "t.jsonl", chat("a", "Tern"), chat("b", "Heron"))
    suite, _ = await import_traces(tmp_path, path)
    firsts = [case["messages"][0]["content"] for case in suite["cases"]]
    assert firsts == ["Do you have the Tern?", "Do you have the Heron?"]


async def test_calls_of_tools_before_the_question_stay_in_the_conversation(tmp_path: Path) -> None:
    call = {"type": "tool_call", "id": "c1", "name": "look_up", "arguments": {"bike": "Tern"}}
    messages = [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Is the Tern there?"}]},
        {"role": "assistant", "parts": [call]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "2"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "Yes, two."}]},
        {"role": "user", "parts": [{"type": "text", "content": "In blue?"}]},
    ]
    attributes = {"gen_ai.input.messages": json.dumps(messages)}
    path = write_lines(tmp_path / "t.jsonl", otlp(span("a", 1, CHAT | attributes)))
    suite, _ = await import_traces(tmp_path, path)
    assert suite["cases"][0]["messages"] == [
        {"role": "user", "content": "Is the Tern there?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"name": "look_up", "arguments": {"bike": "Tern"}, "id": "c1"}],
        },
        {"role": "tool", "content": "2", "tool_call_id": "c1"},
        {"role": "assistant", "content": "Yes, two."},
        {"role": "user", "content": "In blue?"},
    ]


async def test_calls_of_openais_older_api_stay_in_the_conversation(tmp_path: Path) -> None:
    call = {"name": "look_up", "arguments": '{"bike": "Tern"}'}
    messages = [
        {"role": "user", "content": "Is the Tern there?"},
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", "name": "look_up", "content": "2"},
        {"role": "user", "content": "In blue?"},
    ]
    attributes = {"gen_ai.input.messages": json.dumps(messages)}
    path = write_lines(tmp_path / "t.jsonl", otlp(span("a", 1, CHAT | attributes)))
    suite, _ = await import_traces(tmp_path, path)
    (made,) = suite["cases"][0]["messages"][1]["tool_calls"]
    assert made == {"name": "look_up", "arguments": {"bike": "Tern"}}


async def test_a_trace_without_an_answer_is_a_case_that_expects_one(tmp_path: Path) -> None:
    failed = span("a", 1, CHAIN | {"input.value": "Where is my order?"})
    failed["status"] = {"code": 2, "message": "the look-up\ntimed out"}
    suite, _ = await import_traces(tmp_path, write_lines(tmp_path / "t.jsonl", otlp(failed)))
    (case,) = suite["cases"]
    assert case["expect"] == [{"not_empty": True}]
    assert case["quarantine"]["reason"] == "no answer was recorded: say what is expected"
    assert case["metadata"]["error"] == "the look-up timed out"
    assert "judges" not in suite


async def test_secrets_are_masked(tmp_path: Path) -> None:
    key = "sk-" + "proj-A1b2C3d4E5f6G7h8I9j0"
    document = asked("a", f"Does {key} work?", "Your password is hunter2-hunter2.")
    write_lines(tmp_path / "t.jsonl", document)
    environ = {"SHOP_PASSWORD": "hunter2-hunter2"}
    done = await ci_evals(tmp_path, "import", "t.jsonl", "--to", "evals.yaml", environ=environ)
    assert done.code == 0, done.err
    text = (tmp_path / "evals.yaml").read_text("utf-8")
    assert key not in text
    assert "hunter2" not in text
    assert "Does *** work?" in text


async def test_a_trace_may_be_spread_over_files_and_lines(tmp_path: Path) -> None:
    root = span("a", 1, CHAIN | {"input.value": "Open?"})
    tool = span("a", 2, {KIND: "TOOL", "tool.name": "opening_hours"}, 1)
    answer = span("a", 3, {KIND: "LLM", "output.value": "From 9 to 17."}, 1)
    first = write_lines(tmp_path / "1.jsonl", otlp(answer), otlp(root))
    second = write_lines(tmp_path / "2.jsonl", otlp(tool))
    suite, _ = await import_traces(tmp_path, first, second)
    (case,) = suite["cases"]
    assert case["input"] == "Open?"
    assert case["expect"][0]["judge"]["reference"] == "From 9 to 17."
    assert case["metadata"]["tools"] == ["opening_hours"]


async def test_many_cases_are_written_as_json_lines_that_the_loader_reads(tmp_path: Path) -> None:
    answer = "A long answer. " * 70_000
    topics = [chr(ord("a") + number) * 12 for number in range(3)]
    documents = [asked(topic, f"What is {topic}?", answer) for topic in topics]
    traces = write_lines(tmp_path / "traces.jsonl", *documents)
    suite, done = await import_traces(tmp_path, traces)
    assert suite["cases"] == [{"file": "cases.jsonl"}]
    assert "written: cases.jsonl" in done.err
    lines = (tmp_path / "cases.jsonl").read_text("utf-8").splitlines()
    inputs = [json.loads(line)["input"] for line in lines]
    assert inputs == [f"What is {topic}?" for topic in topics]
    config = tmp_path / "evals.yaml"
    config.write_text(config.read_text("utf-8") + "providers: [{type: mock}]\n", "utf-8")
    validated = await ci_evals(tmp_path, "validate", environ={"OPENAI_API_KEY": "sk-none"})
    assert validated.code == 0, validated.out + validated.err
    assert "3 cases" in validated.out


async def test_nested_agents_have_one_question(tmp_path: Path) -> None:
    agent = {"gen_ai.operation.name": "invoke_agent"}
    trip = {"input.value": "Plan a trip.", "output.value": "Take the train."}
    trains = {"input.value": "Find trains.", "output.value": "IC 2."}
    outer = span("a", 1, agent | trip)
    inner = span("a", 2, agent | trains, 1)
    suite, _ = await import_traces(tmp_path, write_lines(tmp_path / "t.jsonl", otlp(inner, outer)))
    (case,) = suite["cases"]
    assert case["input"] == "Plan a trip."
    assert case["expect"][0]["judge"]["reference"] == "Take the train."


async def test_spans_whose_root_is_missing_still_make_a_case(tmp_path: Path) -> None:
    chat = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Open?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "From 9 to 17.",
    }
    path = write_lines(tmp_path / "t.jsonl", otlp(span("a", 2, chat, 1)))
    suite, _ = await import_traces(tmp_path, path)
    (case,) = suite["cases"]
    assert (case["input"], case["expect"][0]["judge"]["reference"]) == ("Open?", "From 9 to 17.")


async def test_an_input_that_is_data_stays_data(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.jsonl", asked("a", '{"city": "Rome", "nights": 2}'))
    suite, _ = await import_traces(tmp_path, path)
    assert suite["cases"][0]["input"] == {"city": "Rome", "nights": 2}


async def test_traces_that_ask_nothing_are_counted(tmp_path: Path) -> None:
    embedding = {KIND: "EMBEDDING", "input.value": "a document"}
    path = write_lines(tmp_path / "t.jsonl", asked("a", "Open?"), otlp(span("b", 1, embedding)))
    suite, _ = await import_traces(tmp_path, path)
    assert len(suite["cases"]) == 1
    comment = "# Without a case: 1 trace whose spans have no question."
    assert comment in (tmp_path / "evals.yaml").read_text("utf-8")
    alone = write_lines(tmp_path / "b.jsonl", otlp(span("b", 1, embedding)))
    done = await ci_evals(tmp_path, "import", str(alone))
    assert done.code == 2
    assert "no question in 1 trace" in done.err


@pytest.mark.parametrize(
    ("lines", "code", "message"),
    [
        (['{"resourceSpans": []}', '{"resourceSp'], 3, "t.jsonl:2: is not valid JSON"),
        (['{"resourceSpans": []}', '{"level": "info"}'], 2, "t.jsonl:2: is not a trace"),
        (['{"resourceSpans": []}', ""], 2, "t.jsonl: no question in 0 traces"),
        (['{"resourceSpans": []}', "[" * 100_000], 3, "t.jsonl:2: is not valid JSON"),
    ],
    ids=["cut", "mixed", "empty", "deep"],
)
async def test_bad_files_are_refused_with_their_line(
    tmp_path: Path, lines: list[str], code: int, message: str
) -> None:
    (tmp_path / "t.jsonl").write_text("\n".join(lines), "utf-8")
    done = await ci_evals(tmp_path, "import", "t.jsonl", "--to", "evals.yaml")
    assert (done.code, message in done.err) == (code, True), done.err
    assert not (tmp_path / "evals.yaml").exists()


@pytest.mark.parametrize(
    "value", [None, 1, "x", [], {}, [1], [[]], [{"role": 1}], {"messages": [{"content": 1}]}]
)
async def test_odd_shapes_crash_nothing(tmp_path: Path, value: Any) -> None:
    odd = {"id": "2", "traceId": "b", "type": "GENERATION", "input": value, "output": value}
    run = {"id": "3", "run_type": "llm", "inputs": value, "outputs": value, "extra": value}
    row = {"context": {"trace_id": "c"}, "attributes": value, "start_time": value}
    await import_traces(
        tmp_path, write_lines(tmp_path / "t.jsonl", asked("a", "Open?"), odd, run, row)
    )


async def test_logs_and_metrics_of_the_same_collector_are_left_out(tmp_path: Path) -> None:
    others: list[Any] = [{"resourceLogs": [{}]}, {"resourceMetrics": []}]
    path = write_lines(tmp_path / "t.jsonl", others[0], asked("a", "Open?"), others[1])
    path.write_text("\n\n" + path.read_text("utf-8"), "utf-8")
    suite, _ = await import_traces(tmp_path, path)
    assert [case["input"] for case in suite["cases"]] == ["Open?"]


async def test_messages_may_be_in_an_event(tmp_path: Path) -> None:
    def chat(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    made = span("a", 1, CHAT)
    details = {"gen_ai.input.messages": chat("user", "Open?")}
    details["gen_ai.output.messages"] = chat("assistant", "Yes.")
    event = span("a", 1, details)
    event["name"] = "gen_ai.client.inference.operation.details"
    made["events"] = [event]
    suite, _ = await import_traces(tmp_path, write_lines(tmp_path / "t.jsonl", otlp(made)))
    (case,) = suite["cases"]
    assert (case["input"], case["expect"][0]["judge"]["reference"]) == ("Open?", "Yes.")


async def test_deep_values_crash_nothing(tmp_path: Path) -> None:
    deep: Any = "bottom"
    for _ in range(300):
        deep = {"output": deep}
    text = json.dumps(deep)
    dotted = {"llm.input_messages." + "0." * 5000 + "x": "y"}
    path = write_lines(
        tmp_path / "t.jsonl",
        asked("a", "Open?"),
        asked("b", text, text),
        otlp(span("c", 1, CHAT | dotted)),
        {"id": "d", "run_type": "chain", "inputs": deep, "outputs": deep},
        {"context": {"trace_id": "e"}, "attributes": deep},
    )
    done = await ci_evals(tmp_path, "import", str(path), "--to", "evals.yaml")
    assert done.code in (0, 2), done.err
    assert "Traceback" not in done.err


async def test_hostile_text_is_written_as_text(tmp_path: Path) -> None:
    question = "a: b\n- *x {{ y }} \u2028 \x07 \ud800 'z' \"w\" #"
    answer = "\n\n  !!python/object:os.system\t"
    suite, _ = await import_traces(
        tmp_path, write_lines(tmp_path / "t.jsonl", asked("a", question, answer))
    )
    assert suite["cases"][0]["input"] == question.replace("\ud800", "\ufffd")
    assert suite["cases"][0]["expect"][0]["judge"]["reference"] == answer.strip()
