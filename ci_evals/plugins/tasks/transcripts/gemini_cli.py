"""Gemini CLI: `gemini --output-format stream-json`, or `json`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ci_evals.model.response import Response, Step, Usage
from ci_evals.plugins.tasks.transcripts.reader import (
    TranscriptReader,
    count_at,
    mapping_of,
    model_error,
    status_at,
    status_in,
    text_at,
    text_of,
)

_STATUS = {"FatalAuthenticationError": 401}


class GeminiCli(TranscriptReader):
    """The duration of a tool call is the difference of its events' time stamps."""

    options = "--output-format stream-json"

    def __init__(self) -> None:
        super().__init__()
        self.tells_steps = False
        self._pieces: list[str] = []

    def read(self, event: Mapping[str, Any]) -> bool:
        at_s = _seconds(event.get("timestamp"))
        kind = event.get("type")
        if kind is not None:
            self.tells_steps = True
        match kind:
            case "init":
                self.model = text_at(event, "model")
            case "message":
                if event.get("role") == "assistant":
                    self._pieces.append(text_of(event.get("content")))
            case "tool_use":
                self._end_message()
                arguments = mapping_of(event, "parameters")
                self.start_call(event.get("tool_id"), event.get("tool_name"), arguments, at_s=at_s)
            case "tool_result":
                self._read_result(event, at_s)
            case "error":
                self.add_step(Step("message", "error", error=text_at(event, "message")))
            case "result":
                self._end_message()
                self._read_end(event)
            case None if "response" in event or "error" in event:
                self._read_document(event)
            case _:
                return False
        return True

    def response(self) -> Response:
        self._end_message()
        return super().response()

    def _end_message(self) -> None:
        """Join the streamed pieces into one message."""
        text = "".join(self._pieces).strip()
        self._pieces.clear()
        if text:
            self.output = text
            self.add_step(Step("message", "assistant", result=text))

    def _read_result(self, event: Mapping[str, Any], at_s: float | None) -> None:
        result = text_of(event.get("output"))
        error = None
        if event.get("status") == "error":
            error = text_at(mapping_of(event, "error"), "message") or result or "failed"
        self.end_call(event.get("tool_id"), result, error, at_s=at_s)

    def _read_end(self, event: Mapping[str, Any]) -> None:
        self.has_ended = True
        self.finish_reason = text_at(event, "status")
        stats = mapping_of(event, "stats")
        if stats:
            self.usage = Usage(
                count_at(stats, "input_tokens"),
                count_at(stats, "output_tokens"),
                count_at(stats, "cached"),
            )
        if event.get("status") == "error":
            self._read_error(mapping_of(event, "error"))

    def _read_document(self, document: Mapping[str, Any]) -> None:
        """Read the object of `--output-format json`, which has no steps."""
        self.has_ended = True
        self.output = text_of(document.get("response"))
        models = mapping_of(document, "stats", "models")
        for name in models:
            tokens = mapping_of(models, name, "tokens")
            output_tokens = count_at(tokens, "candidates") + count_at(tokens, "thoughts")
            usage = Usage(count_at(tokens, "prompt"), output_tokens, count_at(tokens, "cached"))
            self.usage = usage + (self.usage or Usage())
            self.model = str(name)
        if mapping_of(document, "error"):
            self._read_error(mapping_of(document, "error"))

    def _read_error(self, error: Mapping[str, Any]) -> None:
        message = text_at(error, "message") or ""
        status = _STATUS.get(text_at(error, "type") or "") or status_at(error, "code")
        self.error = model_error(message, status or status_in(message))


def _seconds(timestamp: object) -> float | None:
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
