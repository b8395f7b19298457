"""Gemini CLI: `gemini --skip-trust --output-format stream-json`, or `json`."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from ci_evals.errors import ProviderError
from ci_evals.faults import (
    ErrorKind,
    Reported,
    kind_behind_own_code,
    kind_of_status,
    read_error,
)
from ci_evals.model.response import Response, Step, Usage
from ci_evals.plugins.tasks.transcripts.reader import (
    TranscriptReader,
    count_at,
    mapping_of,
    status_at,
    status_in,
    text_at,
    text_of,
)

# packages/core/src/utils/errors.ts: fatal errors, and the exit statuses of Gemini CLI for them.
_EXITS = {
    "FatalAuthenticationError": 41,
    "FatalSandboxError": 44,
    "FatalTurnLimitedError": 53,
    "FatalToolExecutionError": 54,
    "FatalUntrustedWorkspaceError": 55,
}
_TURN_LIMIT = 53
_UNTRUSTED_FOLDER = 55
_KINDS: Mapping[int, ErrorKind] = {
    41: "auth",
    44: "environment",  # its sandbox
    54: "environment",  # no space left
    _UNTRUSTED_FOLDER: "setup",
}
# After a refusal, it ends with the HTTP status of the API, of which a program can return 8 bits.
_HTTP_EXITS = {status % 256: status for status in (400, 401, 403, 429, 500, 502, 503, 504)}
# The fields that tell events from those of other agents with the same type.
_FIELDS = {
    "error": "message",
    "message": "role",
    "result": "status",
    "tool_result": "tool_id",
    "tool_use": "tool_name",
}
_RATE_LIMITED = "]\nPlease wait and try again later."  # after the message of the API
_RETRY = re.compile(r"^Attempt \d+ failed with status (\d{3})\. Retrying", re.MULTILINE)
_TURNS_USED_UP = "Maximum session turns exceeded"  # an event, after which it ends well


class GeminiCli(TranscriptReader):
    """The duration of a tool call is the difference of its events' time stamps. Tokens of several
    sessions add up.
    """

    options = "--skip-trust --output-format stream-json"
    skills = ".gemini/skills"
    credentials = "set GEMINI_API_KEY to a valid key"
    tools: ClassVar[Mapping[str, str]] = {
        "run_shell_command": "bash",
        "replace": "edit",
        "write_file": "edit",
        "read_file": "read",
        "read_many_files": "read",
        "google_web_search": "web",
        "web_fetch": "web",
    }

    def __init__(self) -> None:
        super().__init__()
        self.tells_steps = False
        self._pieces: list[str] = []
        self._last_error = ""
        self._earlier: Usage | None = None  # of the sessions before this one

    def read(self, event: Mapping[str, Any]) -> bool:
        at_s = _seconds(event.get("timestamp"))
        kind = event.get("type")
        if _FIELDS.get(str(kind), "type") not in event and kind is not None:
            return False
        if kind is not None:
            self.tells_steps = True
        match kind:
            case "init":
                self._start_session()
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
                self._last_error = text_at(event, "message") or ""
                self.add_step(Step("message", "error", error=self._last_error))
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

    def _start_session(self) -> None:
        self._end_message()
        self.has_ended = False
        self.error = None
        self._last_error = ""
        self._earlier = self.usage
        self.forget_open_calls()

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
            input_tokens = count_at(stats, "input_tokens")
            output_tokens = count_at(stats, "output_tokens")
            # The rest of the total are thoughts, which are paid as output.
            thoughts = count_at(stats, "total_tokens") - input_tokens - output_tokens
            output_tokens += max(0, thoughts)
            usage = Usage(input_tokens, output_tokens, count_at(stats, "cached"))
            self.usage = usage + (self._earlier or Usage())
            models = mapping_of(stats, "models")
            totals = {name: count_at(mapping_of(models, name), "total_tokens") for name in models}
            self._take_model(totals)
        if self._last_error == _TURNS_USED_UP:
            self._reach_turn_limit()
        elif event.get("status") == "error":
            self._read_error(mapping_of(event, "error"))

    def _read_document(self, document: Mapping[str, Any]) -> None:
        """Read the object of `--output-format json`, which has no steps."""
        self.has_ended = True
        self.output = text_of(document.get("response"))
        models = mapping_of(document, "stats", "models")
        totals: dict[str, int] = {}
        for name in models:
            tokens = mapping_of(models, name, "tokens")
            output_tokens = count_at(tokens, "candidates") + count_at(tokens, "thoughts")
            usage = Usage(count_at(tokens, "prompt"), output_tokens, count_at(tokens, "cached"))
            self.usage = usage + (self.usage or Usage())
            totals[name] = usage.total_tokens
        self._take_model(totals)
        if mapping_of(document, "error"):
            self._read_error(mapping_of(document, "error"))

    def _take_model(self, tokens: Mapping[str, int]) -> None:
        """Take the model with the most tokens: the start names `auto`, and small models only choose
        the one that works.
        """
        if any(tokens.values()):
            self.model = max(tokens, key=lambda name: tokens[name])

    def _read_error(self, error: Mapping[str, Any]) -> None:
        message = text_at(error, "message") or self._last_error
        code = error.get("code")
        exit_status = _EXITS.get(text_at(error, "type") or "", 0)
        if not exit_status and isinstance(code, int):
            exit_status = code
        if exit_status == _TURN_LIMIT:
            self._reach_turn_limit()
        elif exit_status in _KINDS:
            self._fail_by_exit(exit_status, message)
        else:
            status = status_at(error, "code") or status_in(message)
            if status is None and _RATE_LIMITED in message:
                status = 429
            message = _message_of_api(message)
            self.fail(message, status=status)
        self._last_error = message

    def _reach_turn_limit(self) -> None:
        self.error = None
        self.finish_reason = "max_turns"
        self.answers_with_error = True

    def read_exit(self, failure: ProviderError) -> None:
        """See `TranscriptReader`. Without a key or trust, and with `json`, errors are on stderr, as
        are those after which it waits for the API.
        """
        if failure.kind == "timeout":
            refused = _RETRY.findall(failure.detail or "")
            if refused and not self.steps and not self._pieces:
                self.fail("it waited for the model's API", status=int(refused[-1]))
            return
        exit_status = failure.status
        if exit_status is None or (self.error is not None and self.error.kind != "crash"):
            return
        if exit_status == _TURN_LIMIT:
            self._reach_turn_limit()
            return
        message = failure.message
        if self.error is not None:
            message = self._last_error
        if exit_status in _KINDS:
            self._fail_by_exit(exit_status, message)
        elif exit_status in _HTTP_EXITS:
            status = _HTTP_EXITS[exit_status]
            said = _message_of_api(f"{message} {failure.detail}")
            kind = kind_behind_own_code(kind_of_status(status, Reported(said)))
            if kind != "crash":
                self.fail(message, kind=kind, status=status)

    def _fail_by_exit(self, exit_status: int, message: str) -> None:
        advice = ""
        if exit_status == _UNTRUSTED_FOLDER:
            advice = "add `--skip-trust` to the command"
        self.fail(message, kind=_KINDS[exit_status], advice=advice)


def _message_of_api(message: str) -> str:
    """Return the API's own message in `[API Error: …]`, which may be in JSON; else `message`."""
    plain = message.partition(_RATE_LIMITED)[0].removeprefix("[API Error: ").removesuffix("]")
    try:
        answer = json.loads(message[message.find("{") : message.rfind("}") + 1])
    except (ValueError, RecursionError):
        return plain
    return read_error(answer).message or plain


def _seconds(timestamp: object) -> float | None:
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
