"""Answers from a table or a template, with seeded faults, for demos, docs and dry runs."""

import struct
from asyncio import sleep
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

from jinja2 import Template, TemplateError
from pydantic import ConfigDict

from ci_evals.errors import ProviderError
from ci_evals.format import one_line
from ci_evals.model.fields import Int, Many, NonNegative, Options, Share
from ci_evals.model.request import Request
from ci_evals.model.response import Passage, Response, Step, ToolCall, Usage
from ci_evals.providers.answer import as_response, clean_text, encode_json
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.providers.parts import asks_messages
from ci_evals.templating import describe_error, is_template, template_sandbox

MODEL = "mock"


@dataclass(frozen=True, slots=True)
class MockStep(Step):
    """A step in the table of answers."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class MockPassage(Passage):
    """A retrieved text in the table of answers."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class MockAnswer(Options):
    """An answer in the table: text, tool calls, or both, and other details.

    `then` is the answer after its tool calls have results: a text is a Jinja2 template over
    `results`, the texts of all results since the question.
    """

    output: str = ""
    tool_calls: Many[ToolCall] = ()
    then: "str | MockAnswer | None" = None
    steps: Many[MockStep] | None = None
    context: Many[str | MockPassage] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mock(ProviderOptions):
    """Answers without a model. The same suite and seed give the same answers and faults.

    Args:
        answers: answers by case id or by the exact text of the input (the last user message).
        default: the answer to everything else: text, or a Jinja2 template over `input` (the last
            user message) and the case's vars. Without it, the answer is the input.
        wrong: the text of a flaky answer.
        flakiness: the share of runs that answer `wrong`.
        error_rate: the share of calls that fail with a mock status 500.
        rate_limit_rate: the share of calls that are refused with a mock status 429.
        retry_after_s: the `Retry-After` of a refusal, in seconds.
        latency_s: the duration of an answer, in seconds.
        latency_jitter_s: random additional seconds, up to this many.
        seed: the seed of faults, flaky answers and latencies.
    """

    kind: ClassVar[str] = "mock"

    answers: Mapping[str, str | MockAnswer] = field(default_factory=dict)
    default: str | None = None
    wrong: str = "I don't know."
    flakiness: Share = 0.0
    error_rate: Share = 0.0
    rate_limit_rate: Share = 0.0
    retry_after_s: NonNegative = 1.0
    latency_s: NonNegative = 0.0
    latency_jitter_s: NonNegative = 0.0
    seed: Int = 0

    def problems(self, folder: Path) -> list[str]:
        problems = []
        for name, answer in self.answers.items():
            try:
                for each in _with_later_answers(answer):
                    _response_of(each)
            except ValueError as error:
                problems.append(f"answers[{one_line(name, 80)!r}]: {error}")
        try:
            template_sandbox().from_string(self.default or "")
        except TemplateError as error:
            problems.append(f"default is not a valid template: {one_line(str(error))}")
        if self.error_rate + self.rate_limit_rate > 1:
            problems.append(
                "error_rate and rate_limit_rate are shares of all calls: their sum is at most 1"
            )
        return problems

    def misfits(self, requests: Iterable[Request], folder: Path) -> Iterator[tuple[Request, str]]:
        if self.default is None or not is_template(self.default) or self.problems(folder):
            return
        live = MockProvider(self)
        for request in requests:
            if request.case.user is not None:  # the words of a simulated user are not known yet
                continue
            try:
                live.look_up(request, _question(request))
            except ProviderError as error:
                yield request, error.message

    def open(self, resources: Resources) -> Provider:
        return MockProvider(self)


class MockProvider:
    """The live mock; needs nothing of the engine."""

    def __init__(self, options: Mock) -> None:
        self._options = options
        self._answers = {name: _response_of(answer) for name, answer in options.answers.items()}
        self._continued: dict[str, MockAnswer] = {}
        for name, answer in options.answers.items():
            if isinstance(answer, MockAnswer) and answer.then is not None:
                self._continued[name] = answer
        self._default = None
        if options.default is not None:
            sandbox = template_sandbox(keep_last_newline=True)
            self._default = sandbox.from_string(options.default)
        self._faults: Counter[bytes] = Counter()

    async def answer(self, request: Request) -> Response:
        """Answer according to the options.

        Raises:
            ProviderError: a fault was drawn, or the answer takes longer than `request.timeout_s`.
        """
        options = self._options
        question = _question(request)
        checksum = crc32(question.encode())
        run = f"{options.seed}\0{request.case.id}\0{request.run}\0{checksum}"
        key = run.encode(errors="replace")
        fault, flaky, latency = _draw(key, self._faults[key])
        delay_s = options.latency_s + options.latency_jitter_s * latency
        if delay_s > 0:
            await sleep(min(delay_s, request.timeout_s))
        if delay_s > request.timeout_s:
            raise ProviderError("timeout", f"no answer within {request.timeout_s:g} s")
        if fault < options.error_rate + options.rate_limit_rate:
            self._faults[key] += 1  # a retry draws other numbers, or it would always fail again
            if fault < options.error_rate:
                raise ProviderError("server", "mock error 500", status=500)
            wait_s = options.retry_after_s
            raise ProviderError("rate_limit", "mock error 429", status=429, retry_after_s=wait_s)
        del self._faults[key]
        if flaky < options.flakiness:
            response = _text_response(options.wrong)
        else:
            response = self.look_up(request, question)
        usage = _count_tokens(request, question, response)
        return replace(response, usage=usage, model=MODEL)

    def look_up(self, request: Request, question: str) -> Response:
        """Return the answer in the table, or else the default.

        Raises:
            ProviderError: a template uses a name without a value.
        """
        for key in (request.case.id, question):
            if key in self._continued:
                return self._continue(self._continued[key], request)
            if key in self._answers:
                return self._answers[key]
        return _text_response(self._render_default(request, question))

    def _continue(self, answer: MockAnswer, request: Request) -> Response:
        """Return the answer after the tool calls since the question."""
        rounds, results = _tools_used(request)
        current: str | MockAnswer = answer
        for _ in range(rounds):
            if isinstance(current, str) or current.then is None:
                break
            current = current.then
        if isinstance(current, str):
            template = template_sandbox(keep_last_newline=True).from_string(current)
            return _text_response(_render(template, {"results": results}, "then"))
        return _response_of(current)

    def _render_default(self, request: Request, question: str) -> str:
        if self._default is None:
            return question
        given = request.input
        if given is None or asks_messages(request):
            given = question
        return _render(self._default, {**request.case.vars, "input": given}, "default")


def _render(template: Template, names: Mapping[str, Any], key: str) -> str:
    try:
        return template.render(names)
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        why = one_line(describe_error(error, names))
        raise ProviderError("rejected", f"mock: {key} cannot be rendered: {why}") from error


def _tools_used(request: Request) -> tuple[int, list[str]]:
    """Return the number of rounds of tool calls since the question, and their results."""
    rounds = 0
    results: list[str] = []
    role_before = ""
    for message in request.messages:
        if message.role == "user":
            rounds = 0
            results = []
        elif message.role == "tool":
            results.append(message.text)
            if role_before != "tool":
                rounds += 1
        role_before = message.role
    return rounds, results


def _draw(run: bytes, attempt: int) -> tuple[float, float, float]:
    """Return three independent, uniform numbers in [0, 1), fixed by the run and the attempt."""
    # A hash, not a random generator: the draws of a run do not depend on the order of calls.
    salt = attempt.to_bytes(8, "big")
    digest = blake2b(run, digest_size=24, salt=salt).digest()
    fault, flaky, latency = struct.unpack(">QQQ", digest)
    return fault / 2**64, flaky / 2**64, latency / 2**64


def _question(request: Request) -> str:
    """Return the input's text, or the last user message of a conversation."""
    if isinstance(request.input, str):
        return clean_text(request.input)
    if request.input is not None and not asks_messages(request):
        return encode_json(request.input).decode()
    for message in reversed(request.messages):
        if message.role == "user":
            return clean_text(message.text)
    return ""


def _with_later_answers(answer: str | MockAnswer) -> Iterator[str | MockAnswer]:
    """Yield an answer and every `then` below it.

    Raises:
        ValueError: a `then` is not a valid template.
    """
    yield answer
    while isinstance(answer, MockAnswer) and answer.then is not None:
        answer = answer.then
        if isinstance(answer, str):
            try:
                template_sandbox().from_string(answer)
            except TemplateError as error:
                raise ValueError(f"then is not a valid template: {one_line(str(error))}") from None
        yield answer


def _response_of(answer: str | MockAnswer) -> Response:
    if isinstance(answer, str):
        return _text_response(answer)
    given = {each.name: getattr(answer, each.name) for each in fields(answer)}
    del given["then"]
    response = as_response(given)
    finish_reason = "stop"
    if answer.tool_calls:
        finish_reason = "tool_calls"
    return replace(response, finish_reason=finish_reason)


def _text_response(text: str) -> Response:
    return Response(clean_text(text), finish_reason="stop")


def _count_tokens(request: Request, question: str, response: Response) -> Usage:
    """Return the tokens of a run, at four characters each."""
    input_characters = 0
    for message in request.messages:
        input_characters += len(message.text)
    if input_characters == 0:
        input_characters = len(question)
    output_characters = len(response.output)
    for call in response.tool_calls:
        output_characters += len(call.name) + len(str(call.arguments))
    return Usage(input_tokens=input_characters // 4, output_tokens=output_characters // 4)
