"""Imports traces of an app: OTLP JSON, and spans exported from Phoenix, Langfuse and LangSmith.

Each question becomes a case with the recorded details. Nothing is invented, and no recorded answer
is assumed to be right.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from rapidfuzz.distance import OSA

from ci_evals.errors import StorageError, UsageError
from ci_evals.format import number_of, one_line, shorten
from ci_evals.graders.thoughts import split_thoughts
from ci_evals.model.response import Message, Response
from ci_evals.plugins.importers.draft import SuiteDraft
from ci_evals.plugins.importers.parts import JUDGE, NO_PROVIDERS, unconfirmed, written_message
from ci_evals.plugins.importers.source import Source
from ci_evals.plugins.importers.writing import YamlComment
from ci_evals.providers.answer import clean_text, encode_json
from ci_evals.providers.chats import question_in
from ci_evals.providers.emitters import advise
from ci_evals.providers.span_files import EXPECTED, emitter_of, read_documents, spans_in
from ci_evals.providers.spans import Span, input_messages, response_of, system_prompt
from ci_evals.redaction import Redactor

_CONFIRM = """\
Each reference is a recorded answer, right or wrong. Read it and correct it;
then remove the quarantine of its case."""
_MAX_LEVELS = 30
"""The maximum depth of an input that is not text; a deeper one becomes its JSON text."""
_SHORTEST_TYPO = 5
_LONGEST_TYPO = 40
"""The length of words that may have a typo; shorter or longer ones that differ are distinct."""
_MAX_WORDINGS = 5
_PROMPT_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class _Trace:
    """One trace.

    Args:
        question: the text or JSON value of the app's input.
        history: the conversation before the question.
        answer: the recorded answer; None without one.
        error: why the trace failed; None if it did not.
        context: the retrieved texts.
        tools: the tools that were called, in order.
        system: the system prompt of the first model request.
        trace_id: its id.
        start_ns: its start.
    """

    question: Any
    history: Sequence[Message]
    answer: str | None
    error: str | None
    context: Sequence[str]
    tools: Sequence[str]
    system: str | None
    trace_id: str
    start_ns: int


@dataclass(slots=True)
class _Question:
    """Traces with the same question; `wordings` has its different texts with their counts."""

    traces: list[_Trace] = field(default_factory=list)
    wordings: dict[str, int] = field(default_factory=dict)

    @property
    def best(self) -> _Trace:
        """The newest trace with an answer, or the newest one."""
        return max(self.traces, key=lambda trace: (trace.answer is not None, trace.start_ns))


def recognize(source: Source) -> bool:
    """Return True for traces."""
    return is_trace(source.path)


def convert(source: Source) -> SuiteDraft:
    """Make a draft of the traces of one file."""
    return import_traces([source.path], Redactor(()), datetime.now(UTC).date())


def is_trace(path: Path) -> bool:
    """Return True if the first document of a file has spans; False if it cannot be read."""
    try:
        for _, document in read_documents(path):
            return spans_in(document) is not None
    except StorageError:
        return False
    return False


def import_traces(paths: Sequence[Path], redactor: Redactor, today: date) -> SuiteDraft:
    """Make a draft with a case for each question in traces, the most frequent first.

    Args:
        paths: the files; a trace may be spread over several.
        redactor: removes secrets.
        today: the first day of the quarantine.

    Raises:
        StorageError: a file cannot be read, or is cut off.
        UsageError: a file has something else, or no trace has a question.
    """
    recorded: list[_Trace] = []
    silent: list[str] = []  # the emitters of traces without a question
    for spans in _read_spans(paths).values():
        trace = _read_trace(spans)
        if trace is None:
            silent.append(emitter_of(spans))
        else:
            recorded.append(_clean(trace, redactor))
    names = ", ".join(path.as_posix() for path in paths)
    if not recorded:
        traces = number_of(len(silent), "trace")
        advice = "; ".join(advise(silent, "question"))
        raise UsageError(f"{names}: no question in {traces}: {advice}")
    draft = SuiteDraft(number_of(len(recorded) + len(silent), "trace"))
    questions = _merge(recorded)
    suite = draft.suite
    suite[YamlComment(NO_PROVIDERS)] = None
    suite |= dict.fromkeys(_system_prompts(recorded))
    if any(question.best.answer is not None for question in questions):
        suite["judges"] = [dict(JUDGE)]
    suite[YamlComment(_CONFIRM)] = None
    suite["cases"] = [_case(question, today) for question in questions]
    if silent:
        text = f"Without a case: {number_of(len(silent), 'trace')} whose spans have no question."
        advice = "\n".join(f"- {sentence}." for sentence in advise(silent, "question"))
        suite[YamlComment(f"{text}\n{advice}")] = None
    return draft


def _read_spans(paths: Iterable[Path]) -> dict[str, list[Span]]:
    """Return the spans of files by trace, without embeddings, which no case needs."""
    by_trace: dict[str, list[Span]] = {}
    for path in paths:
        for place, document in read_documents(path):
            spans = spans_in(document)
            if spans is None:
                raise UsageError(f"{place}: is not a trace: expected {EXPECTED}")
            for span in spans:
                slim = replace(span, attributes=_without_vectors(span.attributes))
                by_trace.setdefault(span.trace_id, []).append(slim)
    return by_trace


def _without_vectors(attributes: Mapping[str, Any]) -> dict[str, Any]:
    names = [name for name in attributes if not name.startswith("embedding.")]
    return {name: attributes[name] for name in names}


def _read_trace(spans: Sequence[Span]) -> _Trace | None:
    """Return the recorded details of a trace; None if it has no question."""
    ordered = sorted(spans, key=lambda span: (span.start_ns, span.parent_id is not None))
    chats = [input_messages(span) for span in ordered if span.kind == "model_request"]
    question, history = _question_and_history(ordered, chats)
    if question is None:
        return None
    error = None
    response = Response("")
    try:
        response = response_of(ordered)
    except ValueError as wrong:
        error = str(wrong)
    for span in reversed(ordered):
        if span.parent_id is None and span.error is not None:
            error = span.error
    return _Trace(
        question=question,
        history=history,
        answer=split_thoughts(response.output)[1].strip() or None,
        error=error,
        context=[passage.text for passage in response.context or ()],
        tools=[call.name for call in response.list_calls()],
        system=_system_prompt(ordered, chats),
        trace_id=ordered[0].trace_id,
        start_ns=ordered[0].start_ns,
    )


def _question_and_history(
    ordered: Sequence[Span], chats: Sequence[Sequence[Message]]
) -> tuple[Any, Sequence[Message]]:
    """Return the question to the app, and the conversation before it.

    The question is in the outermost span with an input. If that has no chat itself, the
    conversation is in the first model request that repeats the question.
    """
    for span in ordered:
        if span.is_detail:
            continue
        chat = input_messages(span)
        if chat:
            question, history = _last_question(chat)
            if question:
                return question, history
        question = question_in(span.attributes.get("input.value"))
        if question is None:
            continue
        for other in chats:
            text, history = _last_question(other)
            if isinstance(question, str) and question.strip() in text:
                return question, history
        return question, ()
    return None, ()


def _last_question(chat: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """Return the last text of the user in a chat, and the messages before it."""
    for index in range(len(chat) - 1, -1, -1):
        message = chat[index]
        if message.role == "user" and message.text.strip():
            before = [earlier for earlier in chat[:index] if earlier.role != "system"]
            return message.text, before
    return "", ()


def _system_prompt(ordered: Sequence[Span], chats: Sequence[Sequence[Message]]) -> str | None:
    for span in ordered:
        prompt = system_prompt(span)
        if prompt:
            return prompt
    for chat in chats:
        for message in chat:
            if message.role == "system" and message.text:
                return message.text
    return None


def _clean(trace: _Trace, redactor: Redactor) -> _Trace:
    """Return a trace without secrets, and with text that can be encoded."""
    trace = redactor.clean(trace)
    question = trace.question
    if _is_deep(question, _MAX_LEVELS):
        question = json.dumps(question)
    if isinstance(question, str):
        question = clean_text(question).strip()
    answer = trace.answer
    if answer is not None:
        answer = clean_text(answer)
    return replace(
        trace,
        question=question,
        answer=answer,
        context=[clean_text(text) for text in trace.context],
        history=[replace(message, content=clean_text(message.text)) for message in trace.history],
    )


def _is_deep(value: Any, levels: int) -> bool:
    """Return True if a value is nested more than this many levels deep."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    return levels == 0 or any(_is_deep(item, levels - 1) for item in value)


# Questions that differ only in their spelling.


def _merge(traces: Iterable[_Trace]) -> list[_Question]:
    """Return the questions of traces, the most frequent first, then in order of time.

    Questions are the same if their conversations are the same, and their texts differ only in case,
    punctuation and a typo in long words.
    """
    ordered = sorted(traces, key=lambda each: each.start_ns)
    words_of_traces = [_words(trace.question) for trace in ordered]
    usual = _usual_spellings(chain.from_iterable(words_of_traces))
    questions: dict[tuple[Any, ...], _Question] = {}
    for trace, written in zip(ordered, words_of_traces, strict=True):
        conversation = tuple((message.role, message.text) for message in trace.history)
        words = tuple(usual.get(word, word) for word in written)
        question = questions.setdefault((conversation, words), _Question())
        question.traces.append(trace)
        wording = str(trace.question)
        question.wordings[wording] = question.wordings.get(wording, 0) + 1
    return sorted(questions.values(), key=lambda question: -len(question.traces))


def _words(question: Any) -> list[str]:
    """Return the lower-case words of a question; its JSON as one word if it is not text."""
    if not isinstance(question, str):
        return [encode_json(question).decode()]
    return re.findall(r"\w+(?:[^\w\s]\w+)*", question.casefold()) or [question]


def _usual_spellings(words: Iterable[str]) -> dict[str, str]:
    """Return the usual spelling of long words: the most frequent one that is at most one typo away.

    Words that are one typo apart become equal when one letter is deleted in each or either of them.
    An index of these shortened words avoids comparing every word with all others.
    """
    usual: dict[str, str] = {}
    by_rest: dict[str, str] = {}
    for word, _ in Counter(words).most_common():
        if not _SHORTEST_TYPO <= len(word) <= _LONGEST_TYPO or not word.isalpha():
            continue
        rests = [word, *(word[:index] + word[index + 1 :] for index in range(len(word)))]
        usual[word] = word
        for rest in rests:
            other = by_rest.get(rest)
            if other is not None and OSA.distance(word, other) <= 1:
                usual[word] = other
                break
        else:
            for rest in rests:
                by_rest.setdefault(rest, word)
    return usual


# Cases.


def _system_prompts(recorded: Iterable[_Trace]) -> list[YamlComment]:
    """Return a comment with the system prompt of the app, if it has one."""
    counts: dict[str, int] = {}
    for trace in recorded:
        if trace.system:
            counts[trace.system] = counts.get(trace.system, 0) + 1
    if not counts:
        return []
    prompt = max(counts, key=lambda each: counts[each])
    heading = "\nThe system prompt of the app. A provider that calls the model directly needs it."
    if len(counts) > 1:
        others = number_of(len(counts) - 1, "other")
        heading = f"{heading} There are {others}."
    return [YamlComment(f"{heading}\n{shorten(prompt, _PROMPT_CHARACTERS)}")]


def _case(question: _Question, today: date) -> dict[str, Any]:
    trace = question.best
    case: dict[str, Any] = {}
    if trace.history:
        messages = [written_message(message) for message in trace.history]
        case["messages"] = [*messages, {"role": "user", "content": trace.question}]
    else:
        case["input"] = trace.question
    if trace.context:
        case["vars"] = {"context": list(trace.context)}
    case |= unconfirmed(trace.answer, today)
    case["metadata"] = _metadata(question)
    return case


def _metadata(question: _Question) -> dict[str, Any]:
    trace = question.best
    metadata: dict[str, Any] = {"traces": len(question.traces), "trace": trace.trace_id}
    others = [text for text in question.wordings if text != str(trace.question)]
    if others:
        metadata["also asked as"] = others[:_MAX_WORDINGS]
    if trace.tools:
        metadata["tools"] = list(trace.tools)
    if trace.error is not None:
        metadata["error"] = one_line(trace.error)
    return metadata
