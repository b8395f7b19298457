"""Codex: `codex exec --json --skip-git-repo-check`."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ci_evals.errors import ProviderError
from ci_evals.faults import ErrorKind
from ci_evals.model.response import Step, Usage
from ci_evals.plugins.tasks.transcripts.reader import (
    TranscriptReader,
    count_at,
    error_of_status,
    mapping_of,
    text_at,
    text_of,
)

_STARTS = ("thread.", "turn.", "item.")
_UNTRUSTED_FOLDER = "Not inside a trusted directory"  # on stderr, before any event


class Codex(TranscriptReader):
    """Commands, changes of files, searches and calls of MCP servers are tool calls. The events have
    neither the model nor its requests nor times. Tokens of several threads add up.
    """

    options = "exec --json --skip-git-repo-check"
    credentials = "set CODEX_API_KEY to a valid key, or run `codex login`"
    tools: ClassVar[Mapping[str, str]] = {
        "command_execution": "bash",
        "file_change": "edit",
        "web_search": "web",
    }

    # The messages of codex-rs/protocol/src/error.rs that have no HTTP status.
    sentences: ClassVar[Mapping[str, ErrorKind]] = {
        "Codex ran out of room in the model's context window": "rejected",
        "This content was flagged for possible cybersecurity risk": "rejected",
        "You've hit your usage limit": "no_credit",
        "You hit your spend cap": "no_credit",
        "You've hit your spend cap": "no_credit",
        "Your workspace is out of credits": "no_credit",
        "Quota exceeded": "no_credit",
        "You exceeded your current quota": "no_credit",
        "To use Codex with your ChatGPT plan": "no_credit",
        "Your access token could not be refreshed": "auth",
        "Missing environment variable": "auth",  # that of the key, which the settings name
        "Rate limit": "rate_limit",
        "rate limit exceeded": "rate_limit",
        "We're currently experiencing high demand": "upstream",
        "Selected model is at capacity": "upstream",
        "Flex capacity unavailable": "upstream",
        "stream disconnected before completion: Rate limit reached": "rate_limit",
        "stream disconnected before completion: You exceeded your current quota": "no_credit",
        "stream disconnected before completion": "upstream",
        "Reconnecting...": "upstream",
        "Error while reading the server response": "upstream",
        "Connection failed": "upstream",
        "request timed out": "upstream",
    }

    def __init__(self) -> None:
        super().__init__()
        self._thread: str | None = None
        self._of_thread: Usage | None = None
        self._earlier: Usage | None = None  # of what the thread's total does not include
        self._at_start: Usage | None = None  # of everything before the thread's last beginning

    def read(self, event: Mapping[str, Any]) -> bool:
        kind = text_at(event, "type") or ""
        match kind:
            case "item.started" | "item.updated" | "item.completed":
                self.error = None  # a lost connection was restored
                self._read_item(mapping_of(event, "item"), is_done=kind == "item.completed")
            case "thread.started":
                self._start_thread(text_at(event, "thread_id"))
            case "turn.started":
                self.has_ended = False
            case "turn.completed":
                self.has_ended = True
                self.error = None
                counts = mapping_of(event, "usage")
                if counts:
                    self._read_usage(counts)
            case "turn.failed":
                self.has_ended = True
                self.fail(text_at(mapping_of(event, "error"), "message") or "")
            case "error":
                self.fail(text_at(event, "message") or "")
            case _:
                return kind.startswith(_STARTS)
        return True

    def read_exit(self, failure: ProviderError) -> None:
        """See `TranscriptReader`. Outside of a git repository, the error is on stderr."""
        if not self.steps and _UNTRUSTED_FOLDER in (failure.detail or ""):
            advice = "add `--skip-git-repo-check` to the command"
            self.fail(_UNTRUSTED_FOLDER, kind="setup", advice=advice)

    def _start_thread(self, thread: str | None) -> None:
        self.has_ended = False
        self.forget_open_calls()
        self._at_start = self.usage
        if thread != self._thread:
            self._thread = thread
            self._of_thread = None
            self._earlier = self.usage

    def _read_usage(self, counts: Mapping[str, Any]) -> None:
        """Read the total of the thread, which includes its earlier turns."""
        usage = Usage(
            count_at(counts, "input_tokens"),
            count_at(counts, "output_tokens"),
            count_at(counts, "cached_input_tokens"),
            count_at(counts, "cache_write_input_tokens"),
        )
        if self._of_thread is not None and usage.total_tokens <= self._of_thread.total_tokens:
            self._earlier = self._at_start  # a total only grows, so this one began at 0
        self._of_thread = usage
        self.usage = usage + (self._earlier or Usage())

    def _read_item(self, item: Mapping[str, Any], *, is_done: bool) -> None:
        item_id = item.get("id")
        match item.get("type"):
            case "agent_message" if is_done:
                self.output = text_at(item, "text") or ""
                self.add_step(Step("message", "assistant", result=self.output))
            case "error" if is_done:
                self.add_step(Step("message", "error", error=text_at(item, "message")))
            case "command_execution":
                self._read_call(item, "command_execution", {"command": item.get("command")})
                if is_done:
                    output = text_at(item, "aggregated_output") or ""
                    error = error_of_status(item.get("exit_code")) or _error_of(item)
                    self.end_call(item_id, output, error)
            case "file_change":
                self._read_call(item, "file_change", {"changes": item.get("changes")})
                if is_done:
                    self.end_call(item_id, None, _error_of(item))
            case "mcp_tool_call":
                name = f"{item.get('server')}.{item.get('tool')}"
                self._read_call(item, name, item.get("arguments"))
                if is_done:
                    result = text_of(mapping_of(item, "result").get("content"))
                    self.end_call(item_id, result, _error_of(item))
            case "web_search":
                self._read_call(item, "web_search", {"query": item.get("query")})
                if is_done:
                    self.end_call(item_id, None)
            case "collab_tool_call":
                arguments = {"prompt": item.get("prompt")}
                self._read_call(item, text_at(item, "tool") or "collab_tool_call", arguments)
                if is_done:
                    self.end_call(item_id, None, _error_of(item))

    def _read_call(self, item: Mapping[str, Any], name: str, arguments: object) -> None:
        """Start a call unless it is open: some items have no event for their start."""
        if not self.is_open(item.get("id")):
            self.start_call(item.get("id"), name, arguments)


def _error_of(item: Mapping[str, Any]) -> str | None:
    message = text_at(mapping_of(item, "error"), "message")
    status = item.get("status")
    if message is None and status in ("failed", "declined"):
        return str(status)
    return message
