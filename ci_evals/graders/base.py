"""The base of all graders: a grader *is* its options, and its fields are the keys in the YAML."""

import re
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import Field

from ci_evals import registry
from ci_evals.errors import GradingError
from ci_evals.format import abridge, one_line, quote
from ci_evals.javascript import JavaScriptError
from ci_evals.model.fields import Bool, Name, NonEmpty, NonNegative, OneOrMore, Options, Share
from ci_evals.model.grading import Finding, Models
from ci_evals.model.request import Answer
from ci_evals.model.response import Detail
from ci_evals.model.result import Grade
from ci_evals.registry import Registry
from ci_evals.workers import WorkerEndedError

LONGEST_JUDGING_S: Final = 10.0
"""Seconds that a grader of ours may take, where it might never end."""

MOST_OF_A_STACK: Final = 20_000
"""Characters of the stack of an exception that a grade keeps: its message may quote the answer."""

REASON_CHARACTERS: Final = 300
"""Characters of a text by other code that a reason has."""

_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class GraderOptions(Options):
    """A grader with its options.

    `- contains: Paris` sets the field named by `short`; `- contains: {value: Paris, ignore_case:
    true}` sets fields by name. `weight`, `name`, `metric` and `transform` are among them.
    """

    short: ClassVar[str] = "value"
    has_dependency: ClassVar[bool] = False
    """True if it needs something besides the answer: a function, a model."""
    portable: ClassVar[bool] = False
    """True if it is the team's own code, which an executor may run on another machine."""
    reads_text: ClassVar[bool] = True
    """False if it does not look at the text of an answer, so that there is nothing to transform."""
    own_templates: ClassVar[tuple[str, ...]] = ()
    """The fields that are templates of its own, which are not filled with the vars of a case."""
    from_file: ClassVar[tuple[str, ...]] = ()
    """The fields whose value may be in a file: `{file: schema.json}`."""

    weight: NonNegative = field(default=1.0, kw_only=True)
    name: Annotated[
        Name | None, Field(description="What reports call it, instead of its type.")
    ] = field(default=None, kw_only=True)
    metric: Annotated[Name | None, Field(description="The metric that its scores count for.")] = (
        field(default=None, kw_only=True)
    )

    transform: Annotated[
        NonEmpty | None,
        Field(description="What it sees of an answer: JSONPath, module:function or an expression."),
    ] = field(default=None, kw_only=True)

    @property
    def may_take_long(self) -> bool:
        """True if it may compute for long even with a short answer."""
        return False

    def worker_limit_s(self, answer: Answer) -> float | None:
        """Return the seconds after which the worker process that judges an answer is ended; None
        judges in this process.
        """
        del answer
        if self.may_take_long:
            return LONGEST_JUDGING_S
        return None

    @property
    def needs(self) -> Detail | None:
        """The detail of an answer that it needs and that not every provider tells, if any."""
        return None

    def grade(self, answer: Answer) -> Finding | Awaitable[Finding]:
        """Judge an answer. An exception is a failed check, `GradingError` apart: no verdict."""
        raise NotImplementedError

    def find_in(self, output: str) -> Iterable[str]:
        """Return the passages of an answer that the grader looks for, for a page to mark them."""
        del output
        return ()

    def problems(self) -> list[str]:
        """List what can be seen to be wrong with the options before any call, such as a regular
        expression that does not compile.
        """
        return []

    def missing(self, folder: Path) -> str | None:
        """Say what it needs and cannot be found from the suite's folder, such as a module; None if
        nothing.
        """
        return None

    def prepare(self) -> None:
        """Get ready once, before any call is paid for, while the suite's folder is importable.

        Raises:
            ConfigError: the grader can't work: its function can't be imported.
        """

    def for_negation(self) -> Self:
        """Return the grader that `not_` negates.

        That is the grader itself, unless options must change so that a forbidden thing does not
        look absent.
        """
        return self

    def for_fingerprint(self) -> Self:
        """Return the grader without options that don't decide what it finds, such as time-outs."""
        return self


GRADERS: Registry[type[GraderOptions]] = registry.GRADERS
"""The graders by name; each loads when it is first used."""


@dataclass(frozen=True, slots=True)
class AlwaysTrue(GraderOptions):
    """A grader without options of its own: `value` is always true."""

    instead: ClassVar[str]
    """The text to write for `false`."""

    value: Bool = True

    def problems(self) -> list[str]:
        if not self.value:
            return [f"`false` says nothing: {self.instead}"]
        return []


@dataclass(frozen=True, slots=True)
class ModelGrader(GraderOptions):
    """A grader that asks a model.

    Args:
        provider: which one, by its name among `judges` or `providers`; may be left out if there is
            only one.
    """

    has_dependency: ClassVar[bool] = True
    embeds: ClassVar[bool] = False
    """True if it asks for embeddings instead of text."""

    provider: str | None = field(default=None, kw_only=True)

    def grade(self, answer: Answer) -> Finding:
        raise GradingError("it asks a model, and no model may be called here", "judge")

    async def grade_with(self, answer: Answer, models: Models) -> Finding:
        """Judge an answer.

        Raises:
            GradingError: no verdict could be had.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Composite(GraderOptions):
    """Graders that judge as one. Once checked, `of` has `Expectation`s, whose grades `combine`
    gets.
    """

    short: ClassVar[str] = "of"

    of: Annotated[OneOrMore[Any], Field(description="Graders in any spelling, these two included.")]
    threshold: Annotated[Share | None, Field(description="The lowest score that passes.")] = None

    def for_negation(self) -> Self:
        of = []
        for each in self.of:
            if isinstance(each.grader, GraderOptions):
                of.append(replace(each, grader=each.grader.for_negation()))
            else:
                of.append(each)
        return replace(self, of=tuple(of))

    def grade(self, answer: Answer) -> Finding:
        raise TypeError(f"`graders.scoring.grade` grades the parts of {type(self).__name__}")

    def combine(self, grades: Sequence[Grade]) -> Finding:
        """Judge by the grades of `of`, in its order."""
        raise NotImplementedError


class NothingThereError(Exception):
    """The answer has nothing of the kind that a transform looks for; `got` is what it has."""

    def __init__(self, reason: str, looked_at: Any) -> None:
        super().__init__(reason)
        self.got = quote(looked_at)


def passed(reason: str, score: float = 1.0, *, got: str | None = None) -> Finding:
    """Return the finding of an expectation that is met."""
    return Finding(passed=True, score=score, reason=reason, got=got)


def failed(reason: str, score: float = 0.0, *, got: str | None = None) -> Finding:
    """Return the finding of an expectation that is not met.

    Args:
        reason: what is missing, without anything of the answer, so that equal failures compare
            equal.
        score: from 0 to 1.
        got: what the answer has instead, quoted.
    """
    return Finding(passed=False, score=score, reason=reason, got=got)


def find_texts(texts: Iterable[str], output: str, *, ignore_case: bool) -> list[str]:
    """Return those of some texts that an output has, as they are written there."""
    if not ignore_case:
        return [text for text in texts if text in output]
    expression = "|".join(re.escape(text) for text in texts)
    return re.findall(expression, output, re.IGNORECASE)


def inconclusive(reason: str, *, got: str | None = None, detail: str | None = None) -> Finding:
    """Return the finding of an expectation that could not be checked: it fails, under `not_` too.

    Args:
        reason: what is missing or was raised.
        got: what the answer has instead, quoted.
        detail: the stack of what was raised.
    """
    return Finding(passed=False, score=0.0, reason=reason, got=got, detail=detail, conclusive=False)


def too_slow(timeout_s: float) -> GradingError:
    """Return the error of a function that took longer than it may."""
    return GradingError(f"no judgement within {timeout_s:g} s; its own `timeout_s` may allow more")


def ended_by(error: WorkerEndedError, answer: Answer) -> Finding:
    """Return the finding of code that ended its process while it judged an answer."""
    detail = None
    if error.stderr:
        detail = abridge(error.stderr, MOST_OF_A_STACK)
    return inconclusive(error.ending, got=quote(answer.output), detail=detail)


def thrown_by(error: JavaScriptError, answer: Answer) -> Finding:
    """Return the finding of JavaScript that threw something while it looked at an answer.

    Raises:
        GradingError: what it threw says nothing about the answer.
    """
    stack = abridge(str(error), MOST_OF_A_STACK)
    text = one_line(stack.partition("\n")[0], REASON_CHARACTERS)
    if error.place:
        text = f"{text} ({error.place})"
    if error.setup or error.denied:
        raise GradingError(f"it threw {text}", detail=stack) from error
    return inconclusive(f"threw {text}", got=quote(answer.output), detail=stack)


def reaches(score: float, threshold: float) -> bool:
    """Return True if a score is at least the threshold, within the rounding errors of floats."""
    return score >= threshold - _TOLERANCE


def judge_similarity(subject: str, similarity: float, threshold: float, output: str) -> Finding:
    """Hold the similarity of an output to a threshold; the score is the similarity from 0 to 1."""
    score = min(1.0, max(0.0, similarity))
    got = f"{similarity:.3f}"
    if reaches(similarity, threshold):
        return passed(f"{subject} is at least {threshold:g}", score, got=got)
    reason = f"{subject} is less than {threshold:g}"
    return failed(reason, score, got=f"{got}: {quote(output)}")
