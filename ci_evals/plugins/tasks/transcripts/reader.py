"""The base of all formats: reads what a coding agent prints as steps, usage, cost and answer."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

from ci_evals import registry
from ci_evals.errors import ErrorKind, ProviderError
from ci_evals.format import number_of, one_line
from ci_evals.model.response import MAX_TOKENS, Response, Step, Usage
from ci_evals.providers.answer import MAX_STEP_CHARACTERS, MAX_STEPS, as_response, encode_json
from ci_evals.registry import Registry

MAX_EVENT_BYTES = 10 * 1024**2
"""Longer lines are left out: they are files or images, and take many times as much to decode."""

MAX_CHARACTERS = 2_000_000
"""Of all steps together, so that a run's line of the journal stays readable."""

_SHORT_CHARACTERS = 200
"""Of a step, once the others have taken `MAX_CHARACTERS`."""


class TranscriptReader:
    """Reads the events of one agent's run, in their order. Each format has a subclass.

    Attributes:
        output: the final answer.
        usage: the tokens; None if the agent does not tell.
        cost_usd: the price, if the agent names it.
        model: the model that answered.
        finish_reason: why the agent stopped, in its own words.
        error: why it could not go on, as `model_error` makes it.
        has_ended: True once the agent has said that it is done.
        tells_steps: False if what has been read is a summary, which leaves the steps unknown.
    """

    options: ClassVar[str] = ""
    """The options of the agent's command that make it print this format, for messages."""

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
        self.tells_steps = True
        self._open_calls: dict[str, tuple[int, float | None]] = {}
        self._characters = 0

    def read(self, event: Mapping[str, Any]) -> bool:
        """Read one event. Return False if it is not of this format.

        Foreign text: any field may be missing, or of another type.
        """
        raise NotImplementedError

    def add_step(self, step: Step) -> None:
        """Add a step. Long texts are cut, and steps beyond `MAX_STEPS` are only counted."""
        if len(self.steps) >= MAX_STEPS:
            self.left_out += 1
            return
        arguments = self._cut_arguments(step.arguments)
        result = self._cut(step.result)
        error = self._cut(step.error)
        self.steps.append(replace(step, arguments=arguments, result=result, error=error))

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
            call_id: what identifies the call.
            name: the tool.
            arguments: a mapping; anything else is left out.
            at_s: when it began, in seconds on any clock.
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
        """Add the result of a tool call; one that was never started is ignored."""
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

    def add_text(self, index: int, text: str) -> None:
        """Add a line of text to the result of a step."""
        step = self.steps[index]
        joined = "\n".join(filter(None, (step.result, self._cut(text))))
        self.steps[index] = replace(step, result=joined[:MAX_STEP_CHARACTERS])

    def is_open(self, call_id: object) -> bool:
        """Return True if a tool call has been started and not ended."""
        return str(call_id) in self._open_calls

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
        """Return what has been read as a response."""
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
        """Read a transcript as far as it goes. Lines that are not events are skipped.

        Raises:
            ProviderError: there is no event of this format.
        """
        reader = cls()
        events = 0
        for event in _events(data):
            if reader.read(event):
                events += 1
        if not events:
            start = one_line(data[:400].decode(errors="replace"), 80)
            said = "it is empty"
            if start:
                said = f"it starts with {start!r}"
            advice = ""
            if cls.options:
                advice = f"; run the agent with `{cls.options}`"
            name = TRANSCRIPTS.name_of(cls)
            text = f"the output is not a transcript of {name}: {said}{advice}"
            raise ProviderError("bad_answer", text)
        return reader

    @classmethod
    def answer(cls, data: bytes, failure: ProviderError | None = None) -> Response:
        """Return the answer that a transcript tells.

        Args:
            data: what the agent wrote.
            failure: why its program did not end well; None if it did.

        Raises:
            ProviderError: the agent failed, by its program's end or by its own words; or the
                transcript is cut off. `partial` is the response as far as it came.
        """
        try:
            reader = cls.of(data)
        except ProviderError as unreadable:
            if failure is None:
                raise
            raise failure from unreadable
        response = reader.response()
        cause = _failure_of(reader, failure, response)
        if cause is None:
            return response
        cause.partial = response
        raise cause


TRANSCRIPTS: Registry[type[TranscriptReader]] = registry.TRANSCRIPTS
"""The formats by name; each loads when it is first used."""


def _failure_of(
    reader: TranscriptReader, failure: ProviderError | None, response: Response
) -> ProviderError | None:
    """Return why an agent failed; None if it did not.

    A refusal of the model's API explains the end of a program, and not the other way round.
    """
    told = reader.error
    how_far = f"its transcript has {number_of(len(response.steps or ()), 'step')}"
    if failure is None:
        if told is None and not reader.has_ended:
            return ProviderError("bad_answer", f"the agent's transcript is cut off; {how_far}")
        return told
    if told is not None and told.kind != "crash":
        told.detail = failure.detail
        return told
    if told is not None:
        failure.message = f"{failure.message}: {told.message}"
    elif not reader.has_ended:
        failure.message = f"{failure.message}; {how_far}"
    return failure


def model_error(message: str, status: int | None = None) -> ProviderError:
    """Return the error of an agent that could not go on.

    Limits, refused keys, used-up accounts and failures of the model's API say nothing about the
    agent; everything else is the agent's own failure.

    Args:
        message: the agent's words.
        status: the HTTP status that the API answered; None if there is none.
    """
    kind: ErrorKind = "crash"
    if status == 429:
        kind = "rate_limit"
    elif status in (401, 403):
        kind = "auth"
    elif status == 402:
        kind = "rejected"
    elif status is not None and status >= 500:
        kind = "environment"
    said = one_line(message, 300) or "no reason given"
    return ProviderError(kind, f"the agent stopped: {said}", status=status)


def status_in(message: str) -> int | None:
    """Return the HTTP status that an agent's message names: `status 429`, `"code": 429`."""
    found = re.search(r"\b(?:status|code|API Error)\b\W{1,8}(?:code\W{1,3})?([45]\d\d)\b", message)
    if found is None:
        return None
    return int(found[1])


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
    """Yield the JSON objects of a document that is written over several lines."""
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


# Fields of events, which may be missing or of another type.


def mapping_of(value: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return the mapping at a path of keys; an empty one if there is none."""
    for name in names:
        inner = value.get(name)
        if not isinstance(inner, Mapping):
            return {}
        value = inner
    return value


def mappings_in(value: object) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; nothing of anything else."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, Mapping)]


def text_at(value: Mapping[str, Any], name: str) -> str | None:
    """Return a text that is not empty; None if there is none."""
    found = value.get(name)
    if isinstance(found, str) and found:
        return found
    return None


def text_of(value: object) -> str:
    """Return a value as text: texts as they are, the texts of content parts, else JSON."""
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
    """Return a number of at least 0; None if there is none."""
    found = value.get(name)
    if isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < MAX_TOKENS:
        return found
    return None


def count_at(value: Mapping[str, Any], name: str) -> int:
    """Return a whole number of at least 0; 0 if there is none."""
    return int(number_at(value, name) or 0)


def status_at(value: Mapping[str, Any], name: str) -> int | None:
    """Return an HTTP status; None if there is none."""
    found = value.get(name)
    if isinstance(found, int) and 100 <= found <= 599:
        return found
    return None
