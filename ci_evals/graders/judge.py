"""`judge`: a model grades the answer by a rubric. Its request, its reply, and orders that an answer
gives to it.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from annotated_types import Ge, Le, MaxLen, MinLen
from jinja2 import TemplateError
from jinja2.meta import find_undeclared_variables
from pydantic import Strict, TypeAdapter, ValidationError

from ci_evals.errors import GradingError
from ci_evals.format import closest, number_of, one_line, quote
from ci_evals.graders.base import ModelGrader, reaches
from ci_evals.graders.json import json_values, strip_fence
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
from ci_evals.model.case import Answer, Finding, Models, Request, Statement
from ci_evals.model.fields import NonEmpty, OneOrMore, Share
from ci_evals.model.response import Message
from ci_evals.templating import template_sandbox, text_renderer

PASS_OR_FAIL: Mapping[str, float] = {"pass": 1.0, "fail": 0.0}

_TRIES = 2  # how often a judge is asked for a verdict that can be read
_REASON_CHARACTERS = 600
_STATEMENT_CHARACTERS = 300
_MAX_STATEMENTS = 500
_MAX_REPLY_CHARACTERS = 100_000
_MAX_SEARCHED_CHARACTERS = 200_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LlmJudge(ModelGrader):
    """A model judges the answer.

    Args:
        rubric: the name of a ready one, or your own: what passes and what fails.
        provider: the model, by its name among `judges` or `providers`.
        threshold: the lowest score that passes; 0.5, or that of the ready rubric, when left out.
        choices: verdicts with their scores; `pass` and `fail` when left out.
        scale: the best of the whole numbers that the judge chooses from instead, 1 being the worst.
        samples: how often it is asked; the majority decides.
        reference: what a good answer is or says.
        context: what the answer must be based on; what was retrieved for it when left out.
        prompt: a template instead of our own: the system message, or a list of messages that is
            sent as it is.
    """

    short: ClassVar[str] = "rubric"
    from_file: ClassVar[tuple[str, ...]] = ("prompt",)
    own_templates: ClassVar[tuple[str, ...]] = ("prompt",)

    rubric: NonEmpty
    threshold: Share | None = None
    choices: Annotated[Mapping[str, Share], MinLen(2)] | None = None
    scale: Annotated[int, Strict(), Ge(2), Le(100)] | None = None
    samples: Annotated[int, Strict(), Ge(1), Le(25)] = 1
    reference: Any = None
    context: Any = None
    prompt: NonEmpty | OneOrMore[Message] | None = None

    def problems(self) -> list[str]:
        found = self._prompt_problems()
        if self.choices is not None and self.scale is not None:
            found.append("give either `choices` or a `scale`")
        if self.rubric in RUBRICS:
            lacking = (
                option for option in RUBRICS[self.rubric].needs if getattr(self, option) is None
            )
            found.extend(f"the rubric `{self.rubric}` needs `{option}`" for option in lacking)
        elif len(self.rubric.split()) == 1 and (
            close := closest(self.rubric.strip().lower(), RUBRICS, 0.7)
        ):
            hint = f"did you mean {quote(close)}? Else say it in a sentence"  # as own rubrics are
            found.append(f"unknown rubric {quote(self.rubric)}, {hint}")
        if self._listing:
            if self.choices is not None or self.scale is not None:
                text = "is scored by what holds, statement by statement: it takes neither `choices` nor a `scale`"
                found.append(f"the rubric `{self.rubric}` {text}")
        elif len({reaches(score, self._threshold) for score in self.scores.values()}) == 1:
            found.append(
                f"no verdict would change anything: all scores are on one side of the threshold {self._threshold:g}"
            )
        return found

    def _prompt_problems(self) -> list[str]:
        known = {*VARIABLES, *MATERIAL}
        used: set[str] = set()
        for text in self._templates:
            try:
                used |= find_undeclared_variables(template_sandbox().parse(text))
            except TemplateError as error:
                return [f"prompt: bad template: {one_line(str(error))}"]
        if self.prompt is None:
            return []
        if strangers := sorted(used - known):
            return [
                f"prompt: {name!r} is undefined; known: {', '.join(VARIABLES + MATERIAL)}"
                for name in strangers
            ]
        found = []
        if "reply" not in used:
            found.append("prompt: has no `{{ reply }}`, which tells the judge how to answer")
        if not isinstance(self.prompt, str) and not used & {"answer", "data"}:
            found.append(
                "prompt: none of its messages has `{{ answer }}` or `{{ data }}`, so the judge sees no answer"
            )
        return found

    @property
    def needs(self) -> Literal["context"] | None:
        return "context" if self._listing and self.context is None else None

    @property
    def scores(self) -> Mapping[str | int, float]:
        """The score of each verdict."""
        if self.scale is not None:
            return {number: (number - 1) / (self.scale - 1) for number in range(1, self.scale + 1)}
        return dict((self.choices or PASS_OR_FAIL).items())

    @property
    def _listing(self) -> Listing | None:
        return RUBRICS[self.rubric].listing if self.rubric in RUBRICS else None

    @property
    def _threshold(self) -> float:
        usual = self._listing.threshold if self._listing else 0.5
        return usual if self.threshold is None else self.threshold

    @property
    def _templates(self) -> list[str]:
        """The templates of the messages; a system message is followed by the data."""
        if self.prompt is None or isinstance(self.prompt, str):
            return [self.prompt or PROMPT]
        return [message.text for message in self.prompt]

    async def grade_with(self, answer: Answer, models: Models) -> Finding:
        """Judge an answer.

        Raises:
            GradingError: the judge gave no verdict that can be read, or the answer does not tell
                its context.
        """
        finding = await (
            self._vote(answer, models) if self._listing is None else self._list(answer, models)
        )
        outputs = [turn.response.output for turn in answer.response.turns] or [
            answer.response.output
        ]
        order = next(filter(None, map(find_orders, outputs)), None)
        if order is None:
            return finding
        reason = (
            f"{finding.reason} [the answer seems to give orders to its judge: {quote(order, 100)}]"
        )
        return replace(finding, reason=reason, orders_judge=True)

    async def _vote(self, answer: Answer, models: Models) -> Finding:
        """Ask for a verdict, `samples` times."""
        verdicts = list(self.scores)
        expected = (
            f"verdict that can be read (one of {one_line(', '.join(map(str, verdicts[:10])))})"
        )
        opinions = await self._ask(
            answer, models, lambda text: read_opinion(text, verdicts), expected
        )
        verdict = self._decide(opinions)
        score = self.scores[verdict]
        why = next(opinion.reason for opinion in opinions if opinion.verdict == verdict)
        reason = f"{self._tally(opinions, verdict)}: {one_line(why, _REASON_CHARACTERS) or 'no reason given'}"
        return Finding(reaches(score, self._threshold), score, reason)

    async def _list(self, answer: Answer, models: Models) -> Finding:
        """Ask for what holds and what does not, `samples` times; the lower median of the scores
        decides.
        """
        listing, texts = self._listing, len(self._texts(answer))
        assert listing is not None
        if not texts and not listing.without_context:
            return Finding(passed=False, score=0.0, reason="nothing was retrieved")
        expected = "list of statements that can be read" + (
            f", one for each of {texts} texts" if listing.by_text else ""
        )
        lists = await self._ask(
            answer,
            models,
            lambda text: read_statements(text, texts, by_text=listing.by_text),
            expected,
        )
        statements = sorted(lists, key=listing.score)[(len(lists) - 1) // 2]
        score = listing.score(statements)
        wrong = [each for each in statements if not each.holds]
        noun = number_of(len(statements), "text" if listing.by_text else "statement")
        reason = listing.finding.format(f"{len(statements) - len(wrong):,} of {noun}")
        if wrong:
            reason += f"; not {', '.join(quote(each.text, 100) for each in wrong[:3])}"
            reason += f" and {len(wrong) - 3:,} more" if len(wrong) > 3 else ""
        return Finding(reaches(score, self._threshold), score, reason, statements=statements)

    async def _ask(
        self, answer: Answer, models: Models, read: Callable[[str], T | None], expected: str
    ) -> Sequence[T]:
        """Ask `samples` times, each of them once more if the reply cannot be read."""
        found = []
        first = (answer.request.run - 1) * self.samples * _TRIES + 1
        for sample in range(self.samples):
            replied = ""
            for attempt in range(_TRIES):
                response = await models.ask(
                    self, self._request(answer, first + sample * _TRIES + attempt)
                )
                replied = response.output
                if (opinion := read(replied)) is not None:
                    found.append(opinion)
                    break
            else:
                raise GradingError(
                    f"the judge's reply has no {expected}: got {quote(replied)}", "judge"
                )
        return found

    def _request(self, answer: Answer, run: int) -> Request:
        """Make the request to a judge: whatever the answer says, it has the same shape.

        `run` tells requests about the same answer apart.
        """
        rubric = (RUBRICS[self.rubric].text if self.rubric in RUBRICS else self.rubric).strip()
        material = self._material(answer)
        data = json.dumps(material, ensure_ascii=False, indent=1, default=str)
        # A line that no text in the data can have been written to contain, as it is made from all
        # of the data. It is made and not drawn, so that the same question is the same request.
        mark = f"data-{blake2b(f'{rubric}{chr(0)}{data}'.encode(errors='replace'), digest_size=12).hexdigest()}"
        given = {"rubric": rubric, "reply": self._reply, "mark": mark, "data": data}
        messages = self._messages({**dict.fromkeys(MATERIAL), **material, **given})
        if self.prompt is None or isinstance(self.prompt, str):
            messages += (Message("user", f"{mark}\n{data}\n{mark}"),)
        return Request(
            _plain(messages), messages, answer.request.case, run, timeout_s=0.0, schema=self._schema
        )

    def _messages(self, values: Mapping[str, Any]) -> tuple[Message, ...]:
        """Fill in the prompt. Raises GradingError if that fails."""
        own = (
            [Message("system")]
            if self.prompt is None or isinstance(self.prompt, str)
            else self.prompt
        )
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
        """The instruction how to reply."""
        if self._listing:
            return REPLY_STATEMENTS
        verdicts = list(self.scores)
        if self.scale is not None:
            listed = f"a whole number from 1 (worst) to {self.scale} (best)"
        else:
            listed = "one of " + ", ".join(
                json.dumps(verdict, ensure_ascii=False) for verdict in verdicts
            )
        return REPLY_VERDICT.format(
            verdicts=listed, example=json.dumps(verdicts[0], ensure_ascii=False)
        )

    @property
    def _schema(self) -> Mapping[str, Any]:
        if self._listing:
            return STATEMENTS_SCHEMA
        return {
            "type": "object",
            "properties": {"reason": {"type": "string"}, "verdict": {"enum": list(self.scores)}},
            "required": ["reason", "verdict"],
            "additionalProperties": False,
        }

    def _texts(self, answer: Answer) -> list[dict[str, Any]]:
        """Return the context, its texts numbered from 1: the grader's own, else what was retrieved
        for the answer.

        Raises:
            GradingError: the answer does not tell what was.
        """
        if self.context is not None:
            given = self.context if isinstance(self.context, list | tuple) else [self.context]
            texts = [
                each if isinstance(each, Mapping) and "text" in each else {"text": each}
                for each in given
            ]
        elif (passages := answer.response.passages) is not None:
            texts = [
                {"id": each.id, "text": each.text} if each.id else {"text": each.text}
                for each in passages
            ]
        else:
            text = "the answer does not tell what was retrieved for it: return `context`, or give the judge a `context`"
            raise GradingError(text)
        return [{"number": number, **each} for number, each in enumerate(texts, 1)]

    def _material(self, answer: Answer) -> dict[str, Any]:
        """Collect what the judge is shown of an answer, as data."""
        request, response = answer.request, answer.response
        material: dict[str, Any] = {}
        if request.input is not None or request.messages:
            has_files = any(
                part.source is not None for message in request.messages for part in message.parts
            )
            material["question"] = (
                request.input
                if request.input is not None and not has_files
                else _plain(request.messages)
            )
        if response.turns:
            material["conversation"] = [
                {"user": turn.user, "assistant": turn.response.output} for turn in response.turns
            ]
        material["answer"] = response.output
        if response.calls_made:
            calls = response.calls_made
            material["tool_calls"] = [
                {"name": call.name, "arguments": call.arguments} for call in calls
            ]
        if self.reference is not None:
            material["reference"] = self.reference
        if self._listing:
            material["context"] = self._texts(answer)
        elif self.context is not None:
            material["context"] = self.context
        return material

    def _decide(self, opinions: Sequence["Opinion"]) -> str | int:
        """Return the verdict of most, the lower score where as many say otherwise; on a scale the
        (lower) median.
        """
        if self.scale is not None:
            numbers = sorted(
                opinion.verdict for opinion in opinions if isinstance(opinion.verdict, int)
            )
            return numbers[(len(opinions) - 1) // 2]
        counts = Counter(opinion.verdict for opinion in opinions)
        most = max(counts.values())
        return min(
            (verdict for verdict, count in counts.items() if count == most),
            key=lambda each: self.scores[each],
        )

    def _tally(self, opinions: Sequence["Opinion"], verdict: str | int) -> str:
        """Return `judged fail`, or `2 of 3 judged fail (1 × pass)`."""
        shown = one_line(str(verdict), 60) + (f" of {self.scale}" if self.scale else "")
        if len(opinions) == 1:
            return f"judged {shown}"
        counts = Counter(opinion.verdict for opinion in opinions)
        others = ", ".join(
            f"{count} × {one_line(str(each), 60)}"
            for each, count in counts.most_common()
            if each != verdict
        )
        return f"{counts[verdict]} of {len(opinions)} judged {shown}" + (
            f" ({others})" if others else ""
        )


def _plain(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.text} for message in messages]


@dataclass(frozen=True, slots=True)
class Opinion:
    """One verdict with its reason."""

    verdict: str | int
    reason: str


def read_opinion(text: str, verdicts: Sequence[str | int]) -> Opinion | None:
    """Read the verdict in a judge's reply; None if there is not exactly one.

    A reply that quotes an object of the judged answer beside its own would have two: it says
    nothing.
    """
    found = [each for each in _objects(text) if "verdict" in each]
    if len(found) != 1:
        return None
    given = found[0]["verdict"]
    if isinstance(given, bool):
        return None
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    named = str(given).strip().strip(".").casefold()  # `Pass.` and `"4"` are understood
    verdict = next((verdict for verdict in verdicts if str(verdict).casefold() == named), None)
    return None if verdict is None else Opinion(verdict, str(found[0].get("reason") or ""))


@dataclass(frozen=True, slots=True)
class _Listed:
    """A statement as a judge lists it."""

    text: str
    holds: bool
    texts: list[int] = field(default_factory=list)


_LISTED = TypeAdapter(Annotated[list[_Listed], MaxLen(_MAX_STATEMENTS)])


def read_statements(text: str, texts: int, *, by_text: bool) -> tuple[Statement, ...] | None:
    """Read the statements in a judge's reply; None if there is not exactly one list of them.

    Args:
        text: the reply.
        texts: how many texts the context has; numbers of others are left out.
        by_text: each of them must be listed once.
    """
    found = [each for each in _objects(text) if "statements" in each]
    if len(found) != 1:
        return None
    try:
        listed = _LISTED.validate_python(found[0]["statements"])
    except ValidationError:
        return None
    statements = [
        Statement(
            one_line(each.text, _STATEMENT_CHARACTERS),
            each.holds,
            tuple(sorted({number for number in each.texts if 1 <= number <= texts})),
        )
        for each in listed
    ]
    if by_text:
        statements.sort(key=lambda each: each.texts)
        if [each.texts for each in statements] != [(number,) for number in range(1, texts + 1)]:
            return None
    return tuple(statements)


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """Find the JSON objects in a text that are inside no other one."""
    return json_values(strip_fence(text[:_MAX_REPLY_CHARACTERS]), "{")


_JUDGE = r"(?:judge|grader|evaluator|examiner|assessor|rater)s?\b"
_VERDICT = r"\b(?:verdict|score|grade|rating|result|mark)s?\b"
_GOOD = r"\b(?:pass(?:ed|ing)?|correct|full|perfect|top|highest|maximum|best|10/10|5/5|100 ?%|a\+)"
_GIVE = r"\b(?:give|assign|award|return|output|respond with|reply with|answer with|set)\b.{0,40}"
_MARK = r"\b(?:mark|grade|rate|score|judge|label|classify|consider|accept)\s+(?:this|the|my)\s+"
_DISMISS = r"\b(?:ignore|disregard|forget|override|overrule)\b.{0,40}"
_RULES = r"\b(?:instructions?|rubrics?|rules|criteria|prompts?|guidelines|above|previous|prior)"
_ADDRESS = r"\b(?:dear|attention|hey|hello|hi|note (?:to|for)|message (?:to|for)|as|to|you are)\s+"

_PATTERNS = (
    _DISMISS + _RULES,
    _ADDRESS + r"(?:an?\s+|the\s+|all\s+)?(?:\w+\s+)?" + _JUDGE,
    _JUDGE
    + r"\s*[,:]\s*(?:please|you|mark|give|assign|return|output|respond|pass|score|grade|rate)\b",
    _MARK + r"(?:answer|response|output|submission|reply|text)\b.{0,40}" + _GOOD,
    _GIVE + _GOOD + r"\b.{0,20}" + _VERDICT,
    _GIVE + _VERDICT + r".{0,20}" + _GOOD,
    _VERDICT + r"[\"']?\s*[:=]\s*[\"']?(?:" + _GOOD + r"|(?:1|1\.0|5|10|100|yes|true)\b)",
    r"</?\s*(?:data|answer|reference|rubric|instructions?|system|user|assistant)[\w-]*\s*>",
    r"<\|(?:im_start|im_end|system|endoftext|eot_id)\|?>|\[/?inst\]|<<sys>>",
    r"(?:^|\n)\s*#{0,6}\s*(?:new |updated |real )?(?:system|developer)(?: prompt| message| instructions?)?\s*:",
    r"\b(?:new|updated|real|actual)\s+(?:system\s+)?(?:instructions?|rubric|criteria|task)\s*(?::|are|is)",
    r"\bend of (?:the )?(?:data|answer|response|submission|text to (?:be )?(?:graded|judged|evaluated))",
)
_ORDERS = re.compile("|".join(_PATTERNS))


def find_orders(text: str) -> str | None:
    """Return the words with which a text seems to give orders to whoever judges it; None if there
    are none.

    It looks through capitals, look-alikes of ASCII (NFKC), invisible characters and white space.
    """
    plain = unicodedata.normalize("NFKC", text[:_MAX_SEARCHED_CHARACTERS])
    visible = "".join(char for char in plain if unicodedata.category(char) not in ("Cf", "Mn"))
    folded = re.sub(r"[^\S\n]+", " ", visible.casefold())
    found = _ORDERS.search(folded) or _ORDERS.search(" ".join(folded.split()))
    return found[0].strip() if found else None
