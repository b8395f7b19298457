"""OpenCode: `opencode run --format json`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from ci_evals.faults import ErrorKind
from ci_evals.model.response import Step, Usage
from ci_evals.plugins.tasks.transcripts.reader import (
    TranscriptReader,
    count_at,
    error_of_status,
    mapping_of,
    number_at,
    status_at,
    text_at,
    text_of,
)

_EVENTS_WITH_PART = frozenset({"reasoning", "step_finish", "step_start", "text", "tool_use"})


class OpenCode(TranscriptReader):
    """Each step of OpenCode is a request to the model. The events do not name the model."""

    options = "run --format json"
    skills = ".opencode/skills"
    credentials = "set the API key of its model"
    tools: ClassVar[Mapping[str, str]] = {
        "apply_patch": "edit",
        "write": "edit",
        "webfetch": "web",
        "websearch": "web",
    }

    def __init__(self) -> None:
        super().__init__()
        self._request: int | None = None
        self._went_on = False

    def read(self, event: Mapping[str, Any]) -> bool:
        part = mapping_of(event, "part")
        kind = text_at(event, "type")
        if kind in _EVENTS_WITH_PART and "part" not in event:
            return False  # other agents have some of these types, too
        match kind:
            case "step_start":
                self.has_ended = False
                self._went_on = True
                self._request = len(self.steps)
                self.add_step(Step("model_request"))
            case "text":
                # Some releases end without the event of the last step.
                self.has_ended = True
                text = text_at(part, "text") or ""
                self.add_to_output(text, text_at(part, "messageID"))
                self.add_step(Step("message", "assistant", result=text))
                if self._went_on:  # else it is the rest of the answer that the error cut off
                    self._recover()
            case "tool_use":
                self.has_ended = False
                self._read_call(part)
            case "step_finish":
                self._read_finish(part)
            case "error" if "error" in event:
                self._read_error(mapping_of(event, "error"))
            case "reasoning" | "done":
                pass
            case _:
                return False
        return True

    def _read_call(self, part: Mapping[str, Any]) -> None:
        state = mapping_of(part, "state")
        time = mapping_of(state, "time")
        started_ms = number_at(time, "start")
        ended_ms = number_at(time, "end")
        duration_s = None
        if started_ms is not None and ended_ms is not None:
            duration_s = max(0.0, ended_ms - started_ms) / 1000
        error = error_of_status(mapping_of(state, "metadata").get("exit"))
        if state.get("status") == "error":
            error = text_at(state, "error") or "failed"
        call = Step(
            "tool_call",
            text_at(part, "tool") or "(unnamed)",
            arguments=mapping_of(state, "input"),
            result=text_of(state.get("output")),
            error=error,
            duration_s=duration_s,
        )
        self.add_step(call)

    def _read_finish(self, part: Mapping[str, Any]) -> None:
        reason = text_at(part, "reason")
        self.finish_reason = reason
        self.has_ended = reason != "tool-calls"
        if reason == "stop":
            self._recover()
        tokens = mapping_of(part, "tokens")
        cache = mapping_of(tokens, "cache")
        cached, written = count_at(cache, "read"), count_at(cache, "write")
        usage = Usage(
            count_at(tokens, "input") + cached + written,
            count_at(tokens, "output") + count_at(tokens, "reasoning"),
            cached,
            written,
        )
        self.usage = usage + (self.usage or Usage())
        cost_usd = number_at(part, "cost")
        if cost_usd:  # 0 may also mean an unknown price
            self.cost_usd = cost_usd + (self.cost_usd or 0.0)
        if self._request is not None and self._request < len(self.steps):
            self.steps[self._request] = replace(self.steps[self._request], usage=usage)
            self._request = None

    def _read_error(self, error: Mapping[str, Any]) -> None:
        self.has_ended = True
        self._went_on = False
        name = text_at(error, "name") or ""
        data = mapping_of(error, "data")
        message = text_at(data, "message") or name
        status = status_at(data, "statusCode")
        kind: ErrorKind | None = None
        if name == "ProviderAuthError":
            kind = "auth"
        elif name == "ContextOverflowError":
            kind = "rejected"
        elif status is None and data.get("isRetryable") is True:  # no connection
            kind = "upstream"
        self.fail(message, kind=kind, status=status)

    def _recover(self) -> None:
        """Forget an error after which the session went on and answered.

        OpenCode ends with exit status 1 after any error.
        """
        if self.error is not None:
            self.error = None
            self.answers_with_error = True
