"""Importing traces costs as much for each further trace, however many questions there are."""

import json
from datetime import date
from pathlib import Path
from typing import Any

from counting import count_calls

from ci_evals.plugins.importers.traces import import_traces
from ci_evals.redaction import Redactor

FEW_CALLS = 250


def trace(number: int) -> str:
    """A trace with a question of its own, all of whose words are long."""
    letters = "".join(chr(ord("a") + int(digit)) for digit in f"{number:06}")
    spans: list[dict[str, Any]] = []
    for index, kind in enumerate(("CHAIN", "LLM")):
        texts = {
            "openinference.span.kind": kind,
            "input.value": f"Please describe {letters} thoroughly",
            "output.value": "Gladly.",
        }
        attributes = [{"key": key, "value": {"stringValue": text}} for key, text in texts.items()]
        spans.append(
            {
                "traceId": str(number),
                "spanId": f"{number}-{index}",
                "startTimeUnixNano": str(number + index),
                "attributes": attributes,
            }
        )
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


def test_a_further_trace_takes_few_calls(tmp_path: Path) -> None:
    calls = {}
    for size in (100, 200, 400):
        path = tmp_path / f"{size}.jsonl"
        path.write_text("".join(f"{trace(17 * number)}\n" for number in range(size)), "utf-8")

        def convert(path: Path = path) -> None:
            import_traces([path], Redactor(()), date(2026, 1, 1))

        convert()  # what is loaded once does not count
        calls[size] = count_calls(convert)
    assert (calls[400] - calls[200]) / 200 < FEW_CALLS
    assert (calls[400] - calls[200]) / 200 < 1.2 * (calls[200] - calls[100]) / 100
