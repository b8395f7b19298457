"""Claude Code: `claude -p --output-format stream-json --verbose`, or `json`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ci_evals.faults import ErrorKind, kind_behind_own_code, kind_of_status
from ci_evals.model.response import Step, Usage
from ci_evals.plugins.tasks.transcripts.reader import (
    TranscriptReader,
    count_at,
    mapping_of,
    mappings_in,
    number_at,
    status_at,
    status_in,
    text_at,
    text_of,
)

_EVENTS = frozenset({"system", "assistant", "user", "result", "stream_event", "rate_limit_event"})
_LIMITS = frozenset({"error_max_turns", "error_max_budget_usd"})
# Names of errors in the assistant's messages. They count before the HTTP status of the API, which
# is 400 for an empty account. The others, such as `invalid_request`, say less than the status.
_KINDS: Mapping[str, ErrorKind] = {
    "account_on_hold": "auth",
    "authentication_failed": "auth",
    "cloud_credential_error": "auth",
    "oauth_org_not_allowed": "auth",
    "billing_error": "no_credit",
    "rate_limit": "rate_limit",
    "overloaded": "upstream",
    "server_error": "upstream",
}
_SYNTHETIC = "<synthetic>"  # the model of messages that the command itself made


@dataclass(frozen=True, slots=True)
class _Totals:
    usage: Usage | None = None
    cost_usd: float | None = None

    def __add__(self, other: "_Totals") -> "_Totals":
        usage = self.usage
        if other.usage is not None:
            usage = other.usage + (usage or Usage())
        cost_usd = self.cost_usd
        if other.cost_usd is not None:
            cost_usd = other.cost_usd + (cost_usd or 0.0)
        return _Totals(usage, cost_usd)


class ClaudeCode(TranscriptReader):
    """Each message of the model is a request; sub-agents are named after their type.

    An output may have several sessions, whose tokens and costs add up.
    """

    options = "--output-format stream-json --verbose"
    skills = ".claude/skills"
    credentials = "set ANTHROPIC_API_KEY to a valid key"
    tools: ClassVar[Mapping[str, str]] = {
        "Bash": "bash",
        "Edit": "edit",
        "MultiEdit": "edit",
        "NotebookEdit": "edit",
        "Write": "edit",
        "Read": "read",
        "WebFetch": "web",
        "WebSearch": "web",
    }

    sentences: ClassVar[Mapping[str, ErrorKind]] = {
        "Prompt is too long": "rejected",
        "Credit balance is too low": "no_credit",
        "You've hit your": "no_credit",  # session, weekly or usage limit
        "Claude AI usage limit reached": "no_credit",
        "Claude usage limit reached": "no_credit",
        "Not logged in": "auth",
        "Please run /login": "auth",
        "Please login again": "auth",
        "Invalid API key": "auth",
        "This organization has been disabled": "auth",
        "Your organization has been disabled": "auth",
        "Authentication error": "auth",
        "Repeated 529 Overloaded": "upstream",
        "Opus is experiencing high load": "upstream",
        "We are experiencing high load": "upstream",
        "Request timed out": "upstream",
        "Connection error": "upstream",
        "Unable to connect to API": "upstream",
    }

    def __init__(self) -> None:
        super().__init__()
        self.tells_steps = False
        self._requests: dict[str, int] = {}
        self._agents: dict[str, str] = {}
        self._api_error: str | None = None  # of the last message
        self._own_words: str | None = None  # the last message, if the command itself made it
        self._model_spoke = False  # in the last message
        self._session: str | None = None
        self._earlier = _Totals()  # of what the next totals do not include
        self._at_start = _Totals()  # of everything before the session's last beginning
        self._totals = _Totals()  # so far
        self._all_input_tokens = 0  # of all requests
        self._input_tokens = 0  # of the requests since the session's last beginning

    def read(self, event: Mapping[str, Any]) -> bool:
        kind = text_at(event, "type")
        if kind not in _EVENTS or (kind == "result" and "subtype" not in event):
            return False
        if kind != "result":
            self.tells_steps = True
        agent = self._agents.get(str(event.get("parent_tool_use_id")))
        message = mapping_of(event, "message")
        if kind == "assistant":
            self._api_error = text_at(event, "error")
            self._read_message(message, agent)
        elif kind == "user":
            self._read_results(message)
        elif kind == "result":
            self._read_end(event)
        elif kind == "system" and event.get("subtype") == "init":
            self._start_session(event)
        elif kind == "system" and event.get("subtype") == "api_retry":
            self._read_retry(event)
        return True

    def _start_session(self, event: Mapping[str, Any]) -> None:
        self.has_ended = False
        self.forget_open_calls()
        self._requests.clear()
        self._input_tokens = 0
        self._at_start = self._totals
        self.model = text_at(event, "model")
        if text_at(event, "session_id") != self._session:
            self._session = text_at(event, "session_id")
            self._earlier = self._totals
        # Until its end is known, the steps tell the tokens better than the sessions before it.
        self.usage = None
        self.cost_usd = None

    def _read_retry(self, event: Mapping[str, Any]) -> None:
        """Read why the API failed, which is forgotten once it answers."""
        name = text_at(event, "error") or ""
        status = status_at(event, "error_status")
        kind = _KINDS.get(name)
        if kind is None and status is None:  # no connection
            kind = "upstream"
        self.fail(f"it waited for the model's API: {name}", kind=kind, status=status)

    def _read_message(self, message: Mapping[str, Any], agent: str | None) -> None:
        """Read a part of a message: one or several content blocks with the message's id."""
        self.error = None
        blocks = mappings_in(message.get("content"))
        texts = [text_at(block, "text") for block in blocks if block.get("type") == "text"]
        text = "\n".join(filter(None, texts))
        model = text_at(message, "model")
        is_own = model == _SYNTHETIC or self._api_error is not None
        self._model_spoke = not is_own
        self._own_words = None
        if is_own and text:
            self._own_words = text
        if model == _SYNTHETIC:
            self.output = text
            return
        self._add_request(message, model or "", text, agent)
        if agent is None:
            self.model = model or self.model  # the one that answered, not the one that was asked
            if text:
                self.add_to_output(text, text_at(message, "id"))
        for block in blocks:
            if block.get("type") in ("tool_use", "server_tool_use"):
                arguments = mapping_of(block, "input")
                self.start_call(block.get("id"), block.get("name"), arguments, agent=agent)
                kind_of_agent = text_at(arguments, "subagent_type")
                if kind_of_agent is not None:
                    self._agents[str(block.get("id"))] = kind_of_agent

    def _add_request(
        self, message: Mapping[str, Any], model: str, text: str, agent: str | None
    ) -> None:
        """Add the request of a message; further parts of the message extend its text."""
        message_id = text_at(message, "id")
        if message_id in self._requests:
            index = self._requests[message_id]
            if text and index < len(self.steps):
                self.add_text(index, text)
            return
        if message_id is not None:
            self._requests[message_id] = len(self.steps)
        usage = _usage(mapping_of(message, "usage"))
        if usage is not None:
            self._all_input_tokens += usage.input_tokens
            self._input_tokens += usage.input_tokens
        request = Step("model_request", model, result=text or None, usage=usage, agent=agent)
        self.add_step(request)

    def _read_results(self, message: Mapping[str, Any]) -> None:
        for block in mappings_in(message.get("content")):
            if block.get("type") != "tool_result":
                continue
            result = text_of(block.get("content"))
            if block.get("is_error") is True:
                self.end_call(block.get("tool_use_id"), None, result or "failed")
            else:
                self.end_call(block.get("tool_use_id"), result)

    def _read_end(self, event: Mapping[str, Any]) -> None:
        self.has_ended = True
        self.error = None
        self._read_totals(event)
        subtype = text_at(event, "subtype") or ""
        self.finish_reason = text_at(event, "stop_reason") or subtype
        result = text_at(event, "result")
        if result is not None:
            # It has only the last part of a message in several parts.
            last_message = (self.output or "").rstrip()
            if not last_message.endswith(result.rstrip()):
                self.output = result
        if subtype in _LIMITS:
            self.finish_reason = subtype.removeprefix("error_")
            self.answers_with_error = True
        elif event.get("is_error") is True or subtype.startswith("error"):
            self._read_error(event, result, subtype)

    def _read_totals(self, event: Mapping[str, Any]) -> None:
        """Read the tokens and the cost of a session, and add those of the sessions before it.

        A session that goes on begins again with the same id. In the same process, its totals
        include what came before; in a new one, they begin at 0. What its requests add up to tells
        which of the two it is.
        """
        usage = _usage_of_models(mapping_of(event, "modelUsage"))
        if usage is None:
            usage = _usage(mapping_of(event, "usage"))
        totals = _Totals(usage, number_at(event, "total_cost_usd"))
        if not self.tells_steps:  # one of several summaries
            self._earlier = self._totals
        elif usage is not None:
            to_all = abs(usage.input_tokens - self._all_input_tokens)
            to_last = abs(usage.input_tokens - self._input_tokens)
            if to_last < to_all:
                self._earlier = self._at_start
        self._totals = self._earlier + totals
        self.usage = self._totals.usage
        self.cost_usd = self._totals.cost_usd

    def _read_error(self, event: Mapping[str, Any], result: str | None, subtype: str) -> None:
        """Read why the agent could not continue, from fields and the command's own words."""
        kind = _KINDS.get(self._api_error or "")
        status = status_at(event, "api_error_status")
        own_words = self._own_words
        errors = event.get("errors")
        if isinstance(errors, list) and errors:
            own_words = text_of(errors[0])
        elif not self._model_spoke and result is not None and _are_own(result):
            own_words = result
        if own_words is not None:
            self.fail(own_words, kind=kind, status=status or status_in(own_words))
            return
        if kind is None and status is not None:
            kind = kind_behind_own_code(kind_of_status(status))
        self.fail(result or self.output or subtype, kind=kind or "crash", status=status)


def _are_own(words: str) -> bool:
    """Return True for words of the command itself, where no message says whose they are."""
    return re.match(r"API Error: \d{3}\b", words) is not None or words.startswith(
        tuple(ClaudeCode.sentences)
    )


def _usage(counts: Mapping[str, Any]) -> Usage | None:
    """Return the tokens of Anthropic's `usage`, whose input excludes tokens of the cache."""
    if not counts:
        return None
    cached = count_at(counts, "cache_read_input_tokens")
    written = count_at(counts, "cache_creation_input_tokens")
    input_tokens = count_at(counts, "input_tokens") + cached + written
    hour = count_at(mapping_of(counts, "cache_creation"), "ephemeral_1h_input_tokens")
    output_tokens = count_at(counts, "output_tokens")
    return Usage(input_tokens, output_tokens, cached, written, min(hour, written))


def _usage_of_models(models: Mapping[str, Any]) -> Usage | None:
    """Return the tokens of all models, including those of sub-agents."""
    total = None
    for name in models:
        counts = mapping_of(models, name)
        cached = count_at(counts, "cacheReadInputTokens")
        written = count_at(counts, "cacheCreationInputTokens")
        input_tokens = count_at(counts, "inputTokens") + cached + written
        hour = min(count_at(counts, "cacheCreationEphemeral1hInputTokens"), written)
        usage = Usage(input_tokens, count_at(counts, "outputTokens"), cached, written, hour)
        total = usage + (total or Usage())
    return total
