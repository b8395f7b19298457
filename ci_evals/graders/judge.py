"""`judge`: a model grades the answer by a rubric."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from annotated_types import Ge, Le, MinLen
from jinja2 import TemplateError
from jinja2.meta import find_undeclared_variables
from pydantic import Strict, TypeAdapter, ValidationError

from ci_evals.errors import GradingError
from ci_evals.format import closest, join_first, number_of, one_line, quote
from ci_evals.graders.base import ModelGrader, failed, reaches
from ci_evals.graders.json_text import json_values, mend_json, strip_fence
from ci_evals.graders.orders import find_orders
from ci_evals.graders.rubrics import (
    MATERIAL,
    PROMPT,
    REPLY_STATEMENTS,
    REPLY_VERDICT,
    RUBRICS,
    STATEMENTS_SCHEMA,
    VARIABLES,
    Listing,
)
from ci_evals.graders.thoughts import split_thoughts
from ci_evals.model.fields import NonEmpty, OneOrMore, Share
from ci_evals.model.grading import Finding, Models, Statement
from ci_evals.model.request import Answer, Request
from ci_evals.model.response import Message
from ci_evals.templating import template_sandbox, text_renderer

PASS_OR_FAIL: Mapping[str, float] = {"pass": 1.0, "fail": 0.0}

MAX_SAMPLES = 25
_TRIES = 2  # attempts to get a readable verdict from a judge
_REASON_CHARACTERS = 600
_STATEMENT_CHARACTERS = 300
_MAX_NAMED = 3  # statements that a reason quotes
_MAX_REPLY_CHARACTERS = 100_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LlmJudge(ModelGrader):
    """A model judges the answer.

    Args:
        rubric: the name of a built-in rubric, or your own text: what passes and what fails.
        provider: the model's name among `judges` or `providers`.
        threshold: the lowest score that passes; the built-in rubric's, or else 0.5, when left out.
        choices: verdicts with their scores; `pass` and `fail` when left out.
        scale: the upper end of a scale of whole numbers from 1 (worst), instead of `choices`.
        samples: the number of verdicts to ask for; the majority decides.
        reference: a good answer, or its content.
        context: the texts that the answer must be based on; the retrieved ones when left out.
        prompt: a template instead of the built-in one: the system message, or all messages.
    """

    short: ClassVar[str] = "rubric"
    from_file: ClassVar[tuple[str, ...]] = ("prompt",)
    own_templates: ClassVar[tuple[str, ...]] = ("prompt",)

    rubric: NonEmpty
    threshold: Share | None = None
    choices: Annotated[Mapping[str, Share], MinLen(2)] | None = None
    scale: Annotated[int, Strict(), Ge(2), Le(100)] | None = None
    samples: Annotated[int, Strict(), Ge(1), Le(MAX_SAMPLES)] = 1
    reference: Any = None
    context: Any = None
    prompt: NonEmpty | OneOrMore[Message] | None = None

    def problems(self) -> list[str]:
        problems = self._prompt_problems()
        if self.choices is not None and self.scale is not None:
            problems.append("give either `choices` or a `scale`")
        if self.rubric in RUBRICS:
            for option in RUBRICS[self.rubric].needs:
                if getattr(self, option) is None:
                    problems.append(f"the rubric `{self.rubric}` needs `{option}`")
        elif len(self.rubric.split()) == 1:
            close = closest(self.rubric.strip().lower(), RUBRICS, 0.7)
            if close is not None:  # otherwise the rubric is a single word
                hint = f"did you mean {quote(close)}? If not, describe it in a sentence"
                problems.append(f"unknown rubric {quote(self.rubric)}, {hint}")
        if self._listing is not None:
            if self.choices is not None or self.scale is not None:
                problems.append(
                    f"the rubric `{self.rubric}` is scored statement by statement:"
                    " it accepts neither `choices` nor a `scale`"
                )
            return problems
        outcomes = {reaches(score, self._threshold) for score in self.scores.values()}
        if len(outcomes) == 1:
            problems.append(
                "every verdict has the same outcome:"
                f" all scores are on one side of the threshold {self._threshold:g}"
            )
        return problems

    def _prompt_problems(self) -> list[str]:
        if self.prompt is None:
            return []
        used: set[str] = set()
        for text in self._templates:
            try:
                used |= find_undeclared_variables(template_sandbox().parse(text))
            except TemplateError as error:
                return [f"prompt: bad template: {one_line(str(error))}"]
        known = VARIABLES + MATERIAL
        if strangers := sorted(used.difference(known)):
            listed = ", ".join(known)
            return [f"prompt: {name!r} is undefined; known: {listed}" for name in strangers]
        problems = []
        if "reply" not in used:
            problems.append("prompt: has no `{{ reply }}`, which tells the judge how to answer")
        if not self._prompt_is_system_message and not used & {"answer", "data"}:
            problems.append(
                "prompt: none of its messages has `{{ answer }}` or `{{ data }}`,"
                " so the judge sees no answer"
            )
        return problems

    @property
    def needs(self) -> Literal["context"] | None:
        if self._listing is not None and self.context is None:
            return "context"
        return None

    @property
    def scores(self) -> Mapping[str | int, float]:
        """The score of each verdict."""
        if self.scale is None:
            return dict((self.choices or PASS_OR_FAIL).items())
        steps = self.scale - 1
        return {step + 1: step / steps for step in range(self.scale)}

    @property
    def _listing(self) -> Listing | None:
        """The list that a built-in rubric asks for instead of a verdict, if any."""
        if self.rubric in RUBRICS:
            return RUBRICS[self.rubric].listing
        return None

    @property
    def _threshold(self) -> float:
        if self.threshold is not None:
            return self.threshold
        if self._listing is not None:
            return self._listing.threshold
        return 0.5

    @property
    def _prompt_is_system_message(self) -> bool:
        """True if the messages are a system message and the data."""
        return self.prompt is None or isinstance(self.prompt, str)

    @property
    def _templates(self) -> list[str]:
        """The templates of the messages, except the message with the data."""
        if self.prompt is None:
            return [PROMPT]
        if isinstance(self.prompt, str):
            return [self.prompt]
        return [message.text for message in self.prompt]

    async def grade_with(self, answer: Answer, models: Models) -> Finding:
        """Judge an answer.

        Raises:
            GradingError: the judge gave no readable verdict, or the answer has no context.
        """
        if self._listing is None:
            finding = await self._vote(answer, models)
        else:
            finding = await self._list(self._listing, answer, models)
        outputs = [turn.response.output for turn in answer.response.turns]
        for output in outputs or [answer.response.output]:
            order = find_orders(output)
            if order is not None:
                warning = f"[the answer seems to give orders to its judge: {quote(order, 100)}]"
                return replace(finding, reason=f"{finding.reason} {warning}", orders_judge=True)
        return finding

    async def _vote(self, answer: Answer, models: Models) -> Finding:
        """Ask for a verdict, `samples` times."""
        verdicts = list(self.scores)
        listed = one_line(", ".join(map(str, verdicts[:10])))
        example = json.dumps({"verdict": verdicts[0], "reason": "…"}, ensure_ascii=False)
        expected = f"{example} with one of {listed} as verdict"
        opinions = await self._ask(
            answer, models, lambda text: read_opinion(text, verdicts), expected
        )
        verdict = self._decide(opinions)
        score = self.scores[verdict]
        why = next(opinion.reason for opinion in opinions if opinion.verdict == verdict)
        why = one_line(why, _REASON_CHARACTERS) or "no reason given"
        reason = f"{self._tally(opinions, verdict)}: {why}"
        return Finding(reaches(score, self._threshold), score, reason)

    async def _list(self, listing: Listing, answer: Answer, models: Models) -> Finding:
        """Ask for a list of statements, `samples` times; the lower median of the scores decides."""
        texts = len(self._texts(answer))
        if not texts and not listing.without_context:
            return failed("nothing was retrieved")
        expected = '{"statements": [{"text": "…", "texts": [1], "holds": true}]}'
        if listing.by_text:
            expected += f", one for each of {texts} texts"
        lists = await self._ask(
            answer,
            models,
            lambda text: read_statements(text, texts, by_text=listing.by_text),
            expected,
        )
        lists = sorted(lists, key=listing.score)
        statements = lists[(len(lists) - 1) // 2]
        score = listing.score(statements)
        reason = _describe_statements(listing, statements)
        return Finding(reaches(score, self._threshold), score, reason, statements=statements)

    async def _ask(
        self, answer: Answer, models: Models, read: Callable[[str], T | None], expected: str
    ) -> Sequence[T]:
        """Ask `samples` times, each time once more if the reply cannot be read."""
        opinions: list[T] = []
        # Every sample and attempt of every run is a request of its own, not a recording of another.
        number = (answer.request.run - 1) * self.samples * _TRIES + 1
        for first in range(number, number + self.samples * _TRIES, _TRIES):
            for attempt in range(_TRIES):
                response = await models.ask(self, self._request(answer, first + attempt))
                opinion = read(response.output)
                if opinion is not None:
                    opinions.append(opinion)
                    break
            else:
                text = f"the judge must reply {expected}, got {quote(response.output)}"
                raise GradingError(text, "judge")
        return opinions

    def _request(self, answer: Answer, run: int) -> Request:
        """Make the request to a judge, in the same shape whatever the answer contains.

        `run` distinguishes requests about the same answer.
        """
        rubric = self.rubric
        if rubric in RUBRICS:
            rubric = RUBRICS[rubric].text
        rubric = rubric.strip()
        material = self._material(answer)
        data = json.dumps(material, ensure_ascii=False, indent=1, default=str)
        # No answer can contain this line to end the data: it is a digest of all the data. It is
        # not random, so that the same question is the same request.
        content = f"{rubric}\0{data}".encode(errors="replace")
        mark = f"data-{blake2b(content, digest_size=12).hexdigest()}"
        values = {"rubric": rubric, "reply": self._reply, "mark": mark, "data": data}
        messages = self._messages({**dict.fromkeys(MATERIAL), **material, **values})
        if self._prompt_is_system_message:
            messages += (Message("user", f"{mark}\n{data}\n{mark}"),)
        return Request(
            _plain(messages), messages, answer.request.case, run, timeout_s=0.0, schema=self._schema
        )

    def _messages(self, values: Mapping[str, Any]) -> tuple[Message, ...]:
        """Fill in the prompt.

        Raises:
            GradingError: a template fails.
        """
        own: Sequence[Message] = [Message("system")]
        if self.prompt is not None and not isinstance(self.prompt, str):
            own = self.prompt
        try:
            texts = [text_renderer(template)(values) for template in self._templates]
        except Exception as error:  # a user's template can raise anything
            raise GradingError(
                f"the judge's prompt cannot be rendered: {one_line(str(error))}"
            ) from error
        return tuple(
            replace(message, content=text) for message, text in zip(own, texts, strict=True)
        )

    @property
    def _reply(self) -> str:
        """The instructions for the reply."""
        if self._listing is not None:
            return REPLY_STATEMENTS
        verdicts = [json.dumps(verdict, ensure_ascii=False) for verdict in self.scores]
        listed = f"one of {', '.join(verdicts)}"
        if self.scale is not None:
            listed = f"a whole number from 1 (worst) to {self.scale} (best)"
        return REPLY_VERDICT.format(verdicts=listed, example=verdicts[0])

    @property
    def _schema(self) -> Mapping[str, Any]:
        if self._listing is not None:
            return STATEMENTS_SCHEMA
        return {
            "type": "object",
            "properties": {"reason": {"type": "string"}, "verdict": {"enum": list(self.scores)}},
            "required": ["reason", "verdict"],
            "additionalProperties": False,
        }

    def _texts(self, answer: Answer) -> list[dict[str, Any]]:
        """Return the texts of the context, numbered from 1: the grader's own or the retrieved ones.

        Raises:
            GradingError: the answer does not have its retrieved context.
        """
        texts: list[Mapping[str, Any]] = []
        if self.context is not None:
            items = self.context
            if not isinstance(items, list | tuple):
                items = [items]
            for item in items:
                if isinstance(item, Mapping) and "text" in item:
                    texts.append(item)
                else:
                    texts.append({"text": item})
        elif answer.response.passages is not None:
            for passage in answer.response.passages:
                text = {"text": passage.text}
                if passage.id:
                    text = {"id": passage.id, **text}
                texts.append(text)
        else:
            raise GradingError(
                "the answer has no retrieved context: return `context`,"
                " or give the judge a `context`"
            )
        return [{"number": number, **each} for number, each in enumerate(texts, 1)]

    def _material(self, answer: Answer) -> dict[str, Any]:
        """Collect the data about an answer that the judge sees."""
        request, response = answer.request, answer.response
        material: dict[str, Any] = {}
        parts = [part for message in request.messages for part in message.parts]
        if request.input is not None and all(part.source is None for part in parts):
            material["question"] = request.input
        elif request.input is not None or request.messages:
            material["question"] = _plain(request.messages)
        if response.turns:
            material["conversation"] = [
                {"user": turn.user, "assistant": turn.response.output} for turn in response.turns
            ]
        material["answer"] = response.output
        calls = response.list_calls()
        if calls:
            material["tool_calls"] = [
                {"name": call.name, "arguments": call.arguments} for call in calls
            ]
        if self.reference is not None:
            material["reference"] = self.reference
        if self._listing is not None:
            material["context"] = self._texts(answer)
        elif self.context is not None:
            material["context"] = self.context
        return material

    def _decide(self, opinions: Sequence["Opinion"]) -> str | int:
        """Return the most frequent verdict; if several are, the one with the lowest score. On a
        scale, return the lower median.
        """
        verdicts = [opinion.verdict for opinion in opinions]
        if self.scale is not None:
            verdicts.sort(key=int)
            return verdicts[(len(verdicts) - 1) // 2]
        counts = Counter(verdicts)
        most = max(counts.values())
        tied = [verdict for verdict, count in counts.items() if count == most]
        # The lowest one, because nothing may pass by luck.
        return min(tied, key=lambda verdict: self.scores[verdict])

    def _tally(self, opinions: Sequence["Opinion"], verdict: str | int) -> str:
        """Return `judged fail`, or `2 of 3 judged fail (1 × pass)`."""
        shown = one_line(str(verdict), 60)
        if self.scale is not None:
            shown = f"{shown} of {self.scale}"
        if len(opinions) == 1:
            return f"judged {shown}"
        counts = Counter(opinion.verdict for opinion in opinions)
        agreeing = counts.pop(verdict)
        text = f"{agreeing} of {len(opinions)} judged {shown}"
        if not counts:
            return text
        others = [f"{count} × {one_line(str(each), 60)}" for each, count in counts.most_common()]
        return f"{text} ({', '.join(others)})"


def _describe_statements(listing: Listing, statements: Sequence[Statement]) -> str:
    """Return `the context supports 1 of 2 statements; not 'Refunds take 30 days.'`."""
    wrong = [each for each in statements if not each.holds]
    noun = "statement"
    if listing.by_text:
        noun = "text"
    share = f"{len(statements) - len(wrong):,} of {number_of(len(statements), noun)}"
    reason = listing.finding.format(share)
    if not wrong:
        return reason
    named = join_first([quote(each.text, 100) for each in wrong], _MAX_NAMED)
    return f"{reason}; not {named}"


def _plain(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.text} for message in messages]


@dataclass(frozen=True, slots=True)
class Opinion:
    """One verdict with its reason."""

    verdict: str | int
    reason: str


def read_opinion(text: str, verdicts: Sequence[str | int]) -> Opinion | None:
    """Read the verdict in a judge's reply; None if there is not exactly one.

    With two, the judge may have quoted the answer, which could contain a verdict of its own. The
    same object twice is one verdict.
    """
    reply = _only_object(text, "verdict")
    if reply is None:
        return None
    value = reply["verdict"]
    if isinstance(value, bool):  # `pass` or `fail`, if these are the verdicts
        value = "pass" if value else "fail"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    name = str(value).strip().strip(".").casefold()  # `Pass.` and `"4"` are understood
    for verdict in verdicts:
        if str(verdict).casefold() == name:
            return Opinion(verdict, str(reply.get("reason") or ""))
    return None


@dataclass(frozen=True, slots=True)
class _ListEntry:
    """An entry of a judge's list."""

    text: str
    holds: bool
    texts: list[int] = field(default_factory=list)


@cache
def _list_adapter() -> TypeAdapter[list[_ListEntry]]:
    return TypeAdapter(list[_ListEntry])


def read_statements(text: str, texts: int, *, by_text: bool) -> tuple[Statement, ...] | None:
    """Read the statements in a judge's reply; None if there is not exactly one list of them.

    Args:
        text: the reply.
        texts: the number of texts in the context; other numbers are dropped.
        by_text: every text must be listed exactly once.
    """
    reply = _only_object(text, "statements")
    if reply is None:
        return None
    try:
        listed = _list_adapter().validate_python(reply["statements"])
    except ValidationError:
        return None
    statements: list[Statement] = []
    for each in listed:
        numbers = {number for number in each.texts if 1 <= number <= texts}
        text = one_line(each.text, _STATEMENT_CHARACTERS)
        statements.append(Statement(text, each.holds, tuple(sorted(numbers))))
    if by_text:
        statements.sort(key=lambda each: each.texts)
        listed_texts = [each.texts for each in statements]
        if listed_texts != [(number,) for number in range(1, texts + 1)]:
            return None
    return tuple(statements)


def _only_object(text: str, key: str) -> Mapping[str, Any] | None:
    """Return the outermost JSON object with a key in a judge's reply; None if there is none, or if
    there are several that differ.
    """
    _, reply = split_thoughts(text[:_MAX_REPLY_CHARACTERS])
    values = json_values(strip_fence(mend_json(reply)), "{")
    found: list[Mapping[str, Any]] = [item for item in values if key in item]
    if not found or any(item != found[0] for item in found):
        return None
    return found[0]
