import math
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from ci_evals.model.response import Passage, Response, Step, ToolCall, Usage
from ci_evals.providers.answer import (
    MAX_METADATA_BYTES,
    MAX_PASSAGE_CHARACTERS,
    MAX_PASSAGES,
    MAX_STEP_CHARACTERS,
    MAX_STEPS,
    as_response,
    clean_text,
    encode_json,
)


def test_text_is_the_output() -> None:
    assert as_response("Paris") == Response("Paris")


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ({"answer": 1}, '{"answer":1}'),
        (MappingProxyType({"answer": MappingProxyType({"x": 1})}), '{"answer":{"x":1}}'),
        ([1, "é"], '[1,"é"]'),
        ((), "[]"),
        (3, "3"),
        (True, "true"),
        (0.5, "0.5"),
        (math.nan, "null"),
        ({"a": "\ud800"}, '{"a":"\ufffd"}'),
        ({"output": {"city": "Paris"}}, '{"city":"Paris"}'),
    ],
)
def test_other_json_becomes_its_text(value: object, output: str) -> None:
    assert as_response(value) == Response(output)


def test_a_mapping_with_known_keys_is_taken_by_its_keys() -> None:
    response = as_response(
        {
            "output": "done",
            "tool_calls": [
                {"name": "book", "arguments": {"to": "Paris"}, "id": "1"},
                {"name": "pay", "arguments": '{"usd": 5}'},
            ],
            "usage": {"input_tokens": 7},
            "model": "m",
            "finish_reason": "stop",
            "cost_usd": 1,
            "first_token_s": 0.25,
        }
    )
    calls = (ToolCall("book", {"to": "Paris"}, "1"), ToolCall("pay", {"usd": 5}))
    assert response == Response("done", calls, Usage(7), "m", "stop", 1.0, first_token_s=0.25)


def test_no_tool_call_at_all_is_an_answer() -> None:
    assert as_response({"tool_calls": []}) == Response("")


def test_arguments_that_are_no_json_object_stay_text() -> None:
    calls = as_response(
        {
            "tool_calls": [
                {"name": "f", "arguments": text} for text in ("{to:", "[1]", "", "[" * 10**5)
            ]
        }
    )
    assert [call.arguments for call in calls.tool_calls] == ["{to:", "[1]", {}, "[" * 10**5]


def test_arguments_come_out_as_the_journal_will_give_them_back() -> None:
    call = ToolCall("f", {"at": (1, 2), "text": "\udc80", "inner": MappingProxyType({"x": None})})
    response = as_response(Response(tool_calls=(call,)))
    assert response.tool_calls[0].arguments == {
        "at": [1, 2],
        "text": "\ufffd",
        "inner": {"x": None},
    }
    assert msgspec.json.decode(msgspec.json.encode(response), type=Response) == response


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "is None"),
        (object(), "is an object"),
        (b"Paris", "is a bytes"),
        ({"output": None}, "neither 'output' nor 'tool_calls'"),
        ({"output": object()}, "output: is an object"),
        ({"output": "x", "tool_call": []}, "unknown key 'tool_call'; known: output, tool_calls"),
        ({"output": "x", 5: 1}, "unknown key 5"),
        ({"tool_calls": "book"}, "tool_calls: expected a list"),
        ({"tool_calls": ["book"]}, r"tool_calls\[0\]: expected a mapping"),
        ({"tool_calls": [{"arguments": {}}]}, r"tool_calls\[0\].name: Field required"),
        ({"tool_calls": [{"name": "f", "args": {}}]}, r"tool_calls\[0\]: unknown key 'args'"),
        ({"tool_calls": [{"name": "f", "arguments": 5}]}, "expected a mapping or its JSON text"),
        (
            {"tool_calls": [{"name": "f", "arguments": {"x": object()}}]},
            "cannot be written as JSON",
        ),
        ({"output": "x", "usage": {"input": 5}}, "usage: unknown key 'input'"),
        (
            {"output": "x", "usage": {"prompt_tokens": -5}},
            "usage.input_tokens: expected a number of at least 0, got -5",
        ),
        (
            {"output": "x", "usage": {"input_tokens": 0.5}},
            "usage.input_tokens: expected a whole number",
        ),
        (
            {"output": "x", "usage": {"input_tokens": 2**60}},
            "usage.input_tokens: expected a number below",
        ),
        ({"output": "x", "usage": 5}, "usage: expected a mapping"),
        ({"output": "x", "cost_usd": math.inf}, "cost_usd: expected a finite number"),
        ({"output": "x", "cost_usd": "1"}, "cost_usd: expected a number"),
        ({"output": "x", "first_token_s": -1}, "first_token_s: expected a number of at least 0"),
        ({"output": "x", "first_token_s": math.nan}, "first_token_s: expected a finite number"),
        ({"output": "x", "model": 5}, "model: expected text"),
        ({"answer": object()}, "cannot be written as JSON"),
        ({"output": "x", "context": {"text": "a"}}, "context: expected a list"),
        ({"output": "x", "context": [5]}, r"context\[0\]: expected a mapping, got 5"),
        ({"output": "x", "context": [{"id": "a"}]}, r"context\[0\].text: Field required"),
        (
            {"output": "x", "context": [{"content": "a"}]},
            r"context\[0\]: unknown key 'content'; known: text, id",
        ),
        (
            {"output": "x", "context": [{"text": "a", "score": math.nan}]},
            r"context\[0\].score: expected a finite number",
        ),
        (
            {"output": "x", "context": ["a"] * (MAX_PASSAGES + 1)},
            "expected at most 1,000 items, got 1,001",
        ),
        ({"output": "x", "metadata": ["a"]}, "metadata: expected a mapping"),
        ({"output": "x", "metadata": {"a": object()}}, "metadata: cannot be written as JSON"),
        ({"output": "x", "metadata": {"a": "x" * MAX_METADATA_BYTES}}, "metadata: has"),
    ],
)
def test_what_is_no_answer_is_refused_with_what_to_mend(value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        as_response(value)
    assert len(str(refused.value)) < 1000


def test_a_response_with_wrong_parts_is_refused_too() -> None:
    wrong: Any = 5
    with pytest.raises(ValueError, match="model: expected text"):
        as_response(Response("x", model=wrong))


def test_an_answer_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(ValueError, match="contains itself"):
        as_response(loop)


def test_every_text_of_an_answer_can_be_encoded() -> None:
    response = as_response(
        {
            "output": "a\ud800b",
            "model": "\udfff",
            "finish_reason": "\ud800",
            "tool_calls": [{"name": "f\ud800", "arguments": "{\ud800", "id": "\ud800"}],
        }
    )
    assert response.output == "a\ufffdb"
    assert msgspec.json.decode(msgspec.json.encode(response), type=Response) == response


def test_a_surrogate_pair_is_the_character_that_it_stands_for() -> None:
    assert clean_text("\ud83d\ude00 \ud83d") == "😀 \ufffd"


def test_a_subclass_of_text_becomes_plain_text() -> None:
    class Loud(str):
        __slots__ = ()

        def __str__(self) -> str:
            return self.upper()

    output = as_response(Loud("Paris")).output
    assert (output, type(output)) == ("Paris", str)


def test_values_with_lone_surrogates_encode() -> None:
    assert encode_json([{"name": "\ud800"}]) == '[{"name":"\ufffd"}]'.encode()


def test_an_answer_may_tell_what_was_retrieved_for_it_and_anything_else() -> None:
    long = "x" * (MAX_PASSAGE_CHARACTERS + 1)
    response = as_response(
        {
            "output": "x",
            "context": ["a\ud800", {"text": "b", "id": 7, "score": 1}, Passage("c", "d"), long],
            "metadata": {"at": (1, 2), "inner": MappingProxyType({"text": "\ud800"})},
        }
    )
    assert response.context == (
        Passage("a\ufffd"),
        Passage("b", "7", 1.0),
        Passage("c", "d"),
        Passage(long[: MAX_PASSAGE_CHARACTERS - 1] + "…"),
    )
    assert response.metadata == {"at": [1, 2], "inner": {"text": "\ufffd"}}
    assert as_response({"output": "x", "context": "all of it"}).context == (Passage("all of it"),)


def test_nothing_retrieved_is_not_nothing_told() -> None:
    assert as_response({"output": "x", "context": []}).context == ()
    assert as_response({"output": "x"}).context is None


def test_token_counts_of_chat_completions_are_understood() -> None:
    told = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    assert as_response({"output": "x", "usage": told}).usage == Usage(9, 3)
    details = {"prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0}}
    assert as_response({"output": "x", "usage": told | details}).usage == Usage(9, 3, 4)


@pytest.mark.parametrize(
    "told", [{}, {"prompt_tokens": None, "completion_tokens": None, "total_tokens": 12}]
)
def test_usage_that_counts_nothing_is_not_known_rather_than_zero(told: dict[str, Any]) -> None:
    assert as_response({"output": "x", "usage": told}).usage is None


# Steps.


def test_steps_are_kept_in_their_order_with_what_they_tell() -> None:
    response = as_response(
        {
            "output": "Booked.",
            "steps": [
                {
                    "kind": "model_request",
                    "name": "m",
                    "usage": {"input_tokens": 7},
                    "duration_s": 1,
                },
                {
                    "kind": "tool_call",
                    "name": "book",
                    "arguments": '{"to": "Paris"}',
                    "result": {"id": 1},
                },
                Step("tool_call", "pay", error="declined", agent="cashier"),
            ],
        }
    )
    assert response.steps == (
        Step("model_request", "m", usage=Usage(7), duration_s=1.0),
        Step("tool_call", "book", {"to": "Paris"}, result='{"id":1}'),
        Step("tool_call", "pay", error="declined", agent="cashier"),
    )


def test_an_answer_without_steps_has_none() -> None:
    response = as_response({"output": "x"})
    assert response.steps is None
    assert as_response({"output": "x", "steps": []}).steps == ()


def test_long_texts_in_steps_are_cut() -> None:
    long = "x" * (MAX_STEP_CHARACTERS + 1)
    (step,) = (
        as_response(
            {
                "output": "x",
                "steps": [
                    {"kind": "tool_call", "name": "f", "result": long, "arguments": {"a": long}}
                ],
            }
        ).steps
        or ()
    )
    assert step.result == long[: MAX_STEP_CHARACTERS - 1] + "…"
    assert isinstance(step.arguments, str)
    assert len(step.arguments) == MAX_STEP_CHARACTERS


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("no list", "steps: expected a list"),
        ([1], r"steps\[0\]: expected a mapping"),
        ([{"kind": "thought"}], r"steps\[0\].kind: expected 'message', 'model_request'"),
        ([{"kind": ["message"]}], r"steps\[0\].kind: expected 'message', 'model_request'"),
        ([{"kind": "tool_call"}], "without a 'name'"),
        ([{"kind": "message", "text": "x"}], "unknown key 'text'"),
        ([{"kind": "message", "duration_s": -1}], "duration_s: expected a number of at least 0"),
        ([{"kind": "message"}] * (MAX_STEPS + 1), "expected at most 5,000 items, got 5,001"),
    ],
)
def test_steps_of_another_shape_are_refused(steps: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_response({"output": "x", "steps": steps})
