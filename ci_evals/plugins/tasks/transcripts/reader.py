"""The base of all formats: reads steps, usage, cost and answer from a coding agent's output."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

from ci_evals import registry
from ci_evals.errors import ProviderError
from ci_evals.faults import ErrorKind, Reported, kind_behind_own_code, kind_of_status
from ci_evals.format import number_of, one_line
from ci_evals.model.response import MAX_TOKENS, Response, Step, Usage
from ci_evals.providers.answer import MAX_STEP_CHARACTERS, MAX_STEPS, as_response, encode_json
from ci_evals.registry import Registry

MAX_EVENT_BYTES = 10 * 1024**2
"""Longer lines are skipped: they hold files or images, and decoding takes many times as much."""

MAX_CHARACTERS = 2_000_000
"""The maximum for all steps together, so that a run's line in the journal stays readable."""

_SHORT_CHARACTERS = 200
"""The maximum for each further step after `MAX_CHARACTERS` are used up."""


class TranscriptReader:
    """Reads the events of one agent's run in order. Each format has a subclass.

    Attributes:
        output: the final answer.
        usage: the tokens; None if the agent does not report them.
        cost_usd: the cost, if the agent reports it.
        model: the model that answered.
        finish_reason: why the agent stopped, in its own words; `max_turns` and the like if it used
            up a limit.
        error: why it could not continue; see `fail`.
        has_ended: True after the agent's last event.
        answers_with_error: True if the agent's work counts although its program exits with an
            error: it used up a limit, or it went on after an error.
        tells_steps: False if the transcript is a summary without steps.
    """

    options: ClassVar[str] = ""
    """The options of the agent's command for this format, for messages."""

    skills: ClassVar[str] = ".agents/skills"
    """The folder of a working copy where the agent looks for skills."""

    credentials: ClassVar[str] = ""
    """What to do if the agent has no access to its model, for messages."""

    tools: ClassVar[Mapping[str, str]] = {}
    """The names of the agent's tools, each with the alias that it shares with those of other
    agents: `bash` runs commands, `edit` changes files, `read` reads them, `web` gets or finds
    pages."""

    sentences: ClassVar[Mapping[str, ErrorKind]] = {}
    """Errors that the agent's program reports in words only: the beginning of its sentence, and
    what it means. The rest may quote a tool or the model."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.left_out = 0
        self.output = ""
        self.usage: Usage | None = None
        self.cost_usd: float | None = None
        self.model: str | None = None
        self.finish_reason: str | None = None
        self.error: ProviderError | None = None
        self.has_ended = False
        self.answers_with_error = False
        self.tells_steps = True
        self._answering: str | None = None  # the id of the message that `output` is of
        self._open_calls: dict[str, tuple[int, float | None]] = {}
        self._characters = 0

    def read(self, event: Mapping[str, Any]) -> bool:
        """Read one event. Return False if it is not of this format.

        Events are untrusted: any field may be missing, or have another type.
        """
        raise NotImplementedError

    def read_exit(self, failure: ProviderError) -> None:
        """Read how the agent's program failed, after all events: with an exit status, or because
        it was out of time. Formats override it if that, or stderr, says more than their events.
        """

    def fail(
        self,
        message: str,
        *,
        kind: ErrorKind | None = None,
        status: int | None = None,
        advice: str = "",
    ) -> None:
        """Record that the agent could not continue.

        Args:
            message: the words of the agent's program. Give a `kind` with words of the model, which
                must decide nothing.
            kind: what happened, if a field of the event says so. Otherwise it follows from
                `sentences`, else from the status, else it is a crash.
            status: the HTTP status of the model's API, if a field has it. Otherwise it is looked
                for in the message.
            advice: what to do; `credentials` without access to the model.
        """
        if kind is None:
            if status is None:
                status = status_in(message)
            kind = self._kind_of(message, status)
        reason = one_line(message, 300) or "no reason given"
        if kind == "auth":
            advice = advice or self.credentials
        text = f"the agent stopped: {reason}"
        if advice:  # first, as summaries cut long messages
            text = f"the agent stopped; {advice}: {reason}"
        self.error = ProviderError(kind, text, status=status)

    def _kind_of(self, message: str, status: int | None) -> ErrorKind:
        words = message.replace("\u2019", "'")  # Codex writes either apostrophe
        for sentence, kind in self.sentences.items():
            if words.removeprefix("API Error: ").startswith(sentence):
                return kind
        if status is None:
            return "crash"
        return kind_behind_own_code(kind_of_status(status, Reported(message)))

    def add_step(self, step: Step) -> None:
        """Add a step. Long texts are cut, and steps beyond `MAX_STEPS` are only counted."""
        if len(self.steps) >= MAX_STEPS:
            self.left_out += 1
            return
        alias = self.tools.get(step.name)
        arguments = self._cut_arguments(step.arguments)
        result = self._cut(step.result)
        error = self._cut(step.error)
        self.steps.append(
            replace(step, arguments=arguments, result=result, error=error, alias=alias)
        )

    def start_call(
        self,
        call_id: object,
        name: object,
        arguments: object,
        *,
        at_s: float | None = None,
        agent: str | None = None,
    ) -> None:
        """Add a tool call whose result comes with `end_call`.

        Args:
            call_id: the id of the call.
            name: the tool.
            arguments: a mapping; anything else is dropped.
            at_s: its start, in seconds on any clock.
            agent: the sub-agent that calls.
        """
        if len(self.steps) < MAX_STEPS:
            self._open_calls[str(call_id)] = (len(self.steps), at_s)
        if not isinstance(arguments, Mapping):
            arguments = {}
        name = str(name or "(unnamed)")
        self.add_step(Step("tool_call", name, arguments=arguments, agent=agent))

    def end_call(
        self,
        call_id: object,
        result: str | None,
        error: str | None = None,
        *,
        at_s: float | None = None,
    ) -> None:
        """Add the result of a tool call; ignore a call that was never started."""
        if str(call_id) not in self._open_calls:
            return
        index, started_s = self._open_calls.pop(str(call_id))
        duration_s = None
        if at_s is not None and started_s is not None:
            duration_s = max(0.0, at_s - started_s)
        self.steps[index] = replace(
            self.steps[index],
            result=self._cut(result),
            error=self._cut(error),
            duration_s=duration_s,
        )

    def add_to_output(self, text: str, message_id: str | None) -> None:
        """Take the text of a message as the answer, after its earlier parts."""
        if message_id is None or message_id != self._answering:
            self.output = ""
        self.output += text
        self._answering = message_id

    def add_text(self, index: int, text: str) -> None:
        """Add a line of text to the result of a step."""
        step = self.steps[index]
        joined = "\n".join(filter(None, (step.result, self._cut(text))))
        self.steps[index] = replace(step, result=joined[:MAX_STEP_CHARACTERS])

    def forget_open_calls(self) -> None:
        """Start a session, whose calls may have the ids of those before it."""
        self._open_calls.clear()

    def is_open(self, call_id: object) -> bool:
        """Return True if a tool call has started and not ended."""
        return str(call_id) in self._open_calls

    @property
    def has_nothing(self) -> bool:
        """True if there are neither steps, but for notices of errors, nor a reason to stop."""
        if not self.tells_steps or self.error is not None:
            return False
        return all(step.kind == "message" and step.error is not None for step in self.steps)

    def _cut(self, text: str | None) -> str | None:
        if text is None:
            return None
        most = MAX_STEP_CHARACTERS
        if self._characters >= MAX_CHARACTERS:
            most = _SHORT_CHARACTERS
        if len(text) > most:
            text = text[: most - 1] + "…"
        self._characters += len(text)
        return text

    def _cut_arguments(self, arguments: Mapping[str, Any] | str) -> Mapping[str, Any] | str:
        if not arguments:
            return {}
        written = _json_text(arguments)
        cut = self._cut(written)
        if cut == written and written.startswith("{"):
            return arguments
        return cut or {}

    def response(self) -> Response:
        """Return the events so far as a response."""
        fields: dict[str, Any] = {
            "output": self.output,
            "usage": self.usage,
            "cost_usd": self.cost_usd,
            "model": self.model,
            "finish_reason": self.finish_reason,
        }
        if self.tells_steps:
            fields["steps"] = self.steps
        if self.left_out:
            fields["metadata"] = {"steps_left_out": self.left_out}
        response = as_response(fields)
        return replace(response, usage=response.tokens)

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Read a transcript, which may be cut off. Lines that are not events are skipped.

        Raises:
            ProviderError: there is no event of this format, or next to none and no step in them.
        """
        reader = cls()
        events = 0
        others = 0
        for event in _events(data):
            if reader.read(event):
                events += 1
            else:
                others += 1
        # A few types of events are the same in several formats.
        if not events or (others > events and reader.has_nothing):
            start = one_line(data[:400].decode(errors="replace"), 80)
            found = "it is empty"
            if start:
                found = f"it starts with {start!r}"
            advice = ""
            if cls.options:
                advice = f"; run the agent with `{cls.options}`"
            name = TRANSCRIPTS.name_of(cls)
            text = f"the output is not a transcript of {name}: {found}{advice}"
            raise ProviderError("bad_answer", text)
        return reader

    @classmethod
    def answer(cls, data: bytes, failure: ProviderError | None = None) -> Response:
        """Return the answer in a transcript.

        Args:
            data: the agent's output.
            failure: why its program failed; None if it did not.

        Raises:
            ProviderError: the agent failed, according to its program or its transcript; or the
                transcript is cut off. `partial` is the response so far.
        """
        reader = cls()
        unreadable = None
        try:
            reader = cls.of(data)
        except ProviderError as error:
            unreadable = error
        if failure is not None and failure.kind in ("crash", "timeout"):
            reader.read_exit(failure)
        exit_says_nothing = reader.error is None and not reader.answers_with_error
        if unreadable is not None and exit_says_nothing:
            raise failure or unreadable
        response = reader.response()
        cause = _failure_of(reader, failure, response)
        if cause is None:
            return response
        if unreadable is None:
            cause.partial = response
        raise cause


TRANSCRIPTS: Registry[type[TranscriptReader]] = registry.TRANSCRIPTS
"""The formats by name; each loads when it is first used."""


def _failure_of(
    reader: TranscriptReader, failure: ProviderError | None, response: Response
) -> ProviderError | None:
    """Return why an agent failed; None if it did not.

    An error of the model's API is the cause of a program's failure, not its consequence.
    """
    reported = reader.error
    progress = f"its transcript has {number_of(len(response.steps or ()), 'step')}"
    if failure is None:
        if reported is None and not reader.has_ended:
            return ProviderError("bad_answer", f"the agent's transcript is cut off; {progress}")
        return reported
    if reported is not None and reported.kind != "crash":
        reported.detail = failure.detail
        return reported
    if reported is None and reader.answers_with_error and failure.kind == "crash":
        return None
    if reported is not None:
        failure.message = f"{failure.message}: {reported.message}"
    elif not reader.has_ended:
        failure.message = f"{failure.message}; {progress}"
    return failure


def error_of_status(exit_status: object) -> str | None:
    """Return the error of a command; None if it ended well, or if its exit status is unknown."""
    if isinstance(exit_status, int) and exit_status:
        return f"exit status {exit_status}"
    return None


def status_in(message: str) -> int | None:
    """Return the HTTP status in a message of an agent's program.

    Only its own forms count, such as `unexpected status 429` or `"code": 429`: a message may quote
    a tool or the model.
    """
    forms = r'(?:(?:unexpected|last) status:?|API Error:|rejected \(|"(?:code|status)":)'
    status = re.search(forms + r"\s*([45]\d\d)\b", message)
    if status is None:
        return None
    return int(status[1])


def _events(data: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a transcript: one per line, or all in one document."""
    has_any = False
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        if end < 0:
            end = len(data)
        if end - start <= MAX_EVENT_BYTES:
            for event in _objects(data[start:end]):
                has_any = True
                yield event
        start = end + 1
    if not has_any:
        yield from _events_of_document(data)


def _events_of_document(data: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a document that spans several lines."""
    starts = [place for place in (data.find(b"\n{"), data.find(b"\n[")) if place >= 0]
    if data[:1] in (b"{", b"["):
        starts = [0]
    if starts and len(data) <= MAX_EVENT_BYTES:
        yield from _objects(data[min(starts) :])


def _objects(line: bytes) -> Iterator[Mapping[str, Any]]:
    line = line.strip().removeprefix(b"\xef\xbb\xbf")
    if line[:1] not in (b"{", b"["):
        return
    try:
        value = json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return
    if not isinstance(value, list):
        value = [value]
    for each in value:
        if isinstance(each, dict):
            yield each


# Fields of events, which may be missing or have another type.


def mapping_of(value: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return the mapping at a path of keys; an empty one if it is missing."""
    for name in names:
        inner = value.get(name)
        if not isinstance(inner, Mapping):
            return {}
        value = inner
    return value


def mappings_in(value: object) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; an empty list for anything else."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, Mapping)]


def text_at(value: Mapping[str, Any], name: str) -> str | None:
    """Return a text that is not empty; None if it is missing."""
    text = value.get(name)
    if isinstance(text, str) and text:
        return text
    return None


def text_of(value: object) -> str:
    """Return a value as text: a text itself, the texts of content parts, else JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    parts = mappings_in(value)
    if parts:
        texts = [text_at(part, "text") or f"[{part.get('type')}]" for part in parts]
        return "\n".join(texts)
    return _json_text(value)


def _json_text(value: object) -> str:
    try:
        return encode_json(value).decode()
    except ValueError as error:
        return f"({error})"


def number_at(value: Mapping[str, Any], name: str) -> float | None:
    """Return a number of at least 0; None if it is missing."""
    number = value.get(name)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    if 0 <= number < MAX_TOKENS:
        return number
    return None


def count_at(value: Mapping[str, Any], name: str) -> int:
    """Return a whole number of at least 0; 0 if it is missing."""
    return int(number_at(value, name) or 0)


def status_at(value: Mapping[str, Any], name: str) -> int | None:
    """Return an HTTP status; None if it is missing."""
    status = value.get(name)
    if isinstance(status, int) and 100 <= status <= 599:
        return status
    return None
