"""The base of all graders: a grader *is* its options, and its fields are the keys in the YAML."""

import re
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import Field

from ci_evals import registry
from ci_evals.errors import GradingError
from ci_evals.format import abridge, one_line
from ci_evals.javascript import JavaScriptError
from ci_evals.model.fields import Bool, Name, NonEmpty, NonNegative, OneOrMore, Options, Share
from ci_evals.model.grading import Finding, Models
from ci_evals.model.request import Answer
from ci_evals.model.response import Detail
from ci_evals.model.result import Grade
from ci_evals.registry import Registry
from ci_evals.user_code.targets import CodeSource
from ci_evals.workers import WorkerEndedError

MAX_JUDGING_S: Final = 10.0
"""The maximum number of seconds for a built-in grader that might never end."""

MAX_STACK_CHARACTERS: Final = 20_000
"""The maximum length of a stack in a grade; the exception's message may quote a long answer."""

REASON_CHARACTERS: Final = 300
"""The maximum length of a text from other code in a reason."""

_TOLERANCE = 1e-9  # for rounding errors: 1 - 0.9 is less than 0.1


@dataclass(frozen=True, slots=True)
class GraderOptions(Options):
    """A grader with its options.

    `- contains: Paris` sets the field named by `short`; `- contains: {value: Paris, ignore_case:
    true}` sets fields by name. `weight`, `name`, `metric` and `transform` are among them.
    """

    short: ClassVar[str] = "value"
    has_dependency: ClassVar[bool] = False
    """True if it needs something other than the answer: a function, a model."""
    portable: ClassVar[bool] = False
    """True if it is the team's own code, which an executor may run on another machine."""
    reads_text: ClassVar[bool] = True
    """False if it does not read the text of an answer, so that there is nothing to transform."""
    own_templates: ClassVar[tuple[str, ...]] = ()
    """The fields that hold its own templates, which are not filled in with the vars of a case."""
    from_file: ClassVar[tuple[str, ...]] = ()
    """The fields that may be read from a file: `{file: schema.json}`."""

    weight: NonNegative = field(default=1.0, kw_only=True)
    name: Annotated[Name | None, Field(description="Its name in reports, instead of its type.")] = (
        field(default=None, kw_only=True)
    )
    metric: Annotated[
        Name | None, Field(description="The metric that its scores count towards.")
    ] = field(default=None, kw_only=True)

    transform: Annotated[
        NonEmpty | None,
        Field(description="What it sees of an answer: JSONPath, module:function or expression."),
    ] = field(default=None, kw_only=True)

    @property
    def may_take_long(self) -> bool:
        """True if it may take long even with a short answer."""
        return False

    def worker_limit_s(self, answer: Answer) -> float | None:
        """Return the time limit of the worker process that judges an answer; None to judge in this
        process.
        """
        del answer
        if self.may_take_long:
            return MAX_JUDGING_S
        return None

    @property
    def needs(self) -> Detail | None:
        """The detail of an answer that it needs and that not every provider reports, if any."""
        return None

    def grade(self, answer: Answer) -> Finding | Awaitable[Finding]:
        """Judge an answer. An exception is a failed check, except `GradingError`: no verdict."""
        raise NotImplementedError

    def find_in(self, output: str) -> Iterable[str]:
        """Return the passages that the grader looks for in an answer, for the report to mark."""
        del output
        return ()

    def problems(self) -> list[str]:
        """Return problems of the options that are visible before any call, such as a regular
        expression that does not compile.
        """
        return []

    def missing(self, folder: Path) -> str | None:
        """Return what is missing in the suite's folder, such as a module; None if nothing is."""
        return None

    def prepare(self) -> None:
        """Prepare once, before any call is paid for, while the suite's folder is importable.

        Raises:
            ConfigError: the grader cannot work, as when its function cannot be imported.
        """

    @property
    def own_source(self) -> CodeSource | None:
        """The team's own code that judges, if any; by default, the class of a grader of theirs."""
        if type(self).__module__.startswith("ci_evals."):
            return None
        return CodeSource("object", type(self))

    def for_negation(self) -> Self:
        """Return the grader that `not_` negates.

        This is the grader itself, unless an option has to change so that something forbidden does
        not look absent.
        """
        return self

    def for_fingerprint(self) -> Self:
        """Return the grader without options that do not affect its findings, such as time-outs."""
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
            return [f"`false` is not a check: {self.instead}"]
        return []


@dataclass(frozen=True, slots=True)
class ModelGrader(GraderOptions):
    """A grader that asks a model.

    Args:
        provider: the model's name among `judges` or `providers`; may be left out if there is only
            one.
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
    """Graders that judge as one. In a checked suite, `of` has `Expectation`s, and `combine` gets
    their grades.
    """

    short: ClassVar[str] = "of"

    of: Annotated[
        OneOrMore[Any], Field(description="Graders in any spelling, including these two.")
    ]
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


class EmptyTransformError(Exception):
    """The answer has nothing for a transform to return."""


def passed(reason: str, score: float = 1.0, *, sentence: str | None = None) -> Finding:
    """Return the finding of an expectation that is met.

    Under `not_`, `reason` and `sentence` tell of a failure, so they say what is the case.
    """
    return Finding(passed=True, score=score, reason=reason, sentence=sentence)


def failed(reason: str, score: float = 0.0, *, sentence: str | None = None) -> Finding:
    """Return the finding of an expectation that is not met.

    Args:
        reason: what is missing, without any part of the answer, so that equal failures have equal
            reasons: `people is not 2`.
        score: from 0 to 1.
        sentence: the same with what the answer has: `people is "two", expected 2`. None if that
            is the whole answer; lines without the answer then quote its beginning.
    """
    return Finding(passed=False, score=score, reason=reason, sentence=sentence)


def find_texts(texts: Iterable[str], output: str, *, ignore_case: bool) -> list[str]:
    """Return the texts that occur in an output, in the output's own case."""
    if not ignore_case:
        return [text for text in texts if text in output]
    expression = "|".join(re.escape(text) for text in texts)
    return re.findall(expression, output, re.IGNORECASE)


def inconclusive(reason: str, *, sentence: str | None = None, detail: str | None = None) -> Finding:
    """Return the finding of an expectation that could not be checked: it fails, even under `not_`.

    Args:
        reason: what is missing or was raised.
        sentence: the same with what the answer has, as in `failed`.
        detail: the stack of the exception.
    """
    return Finding(
        passed=False,
        score=0.0,
        reason=reason,
        sentence=sentence,
        detail=detail,
        conclusive=False,
    )


def too_slow(timeout_s: float) -> GradingError:
    """Return the error of a function that exceeded its time limit."""
    return GradingError(f"no verdict within {timeout_s:g} s; raise the grader's `timeout_s`")


def ended_by(error: WorkerEndedError) -> Finding:
    """Return the finding of code that ended its own process instead of judging."""
    detail = None
    if error.stderr:
        detail = abridge(error.stderr, MAX_STACK_CHARACTERS)
    return inconclusive(error.ending, detail=detail)


def thrown_by(error: JavaScriptError) -> Finding:
    """Return the finding of JavaScript that threw something while it judged an answer.

    Raises:
        GradingError: the error is not about the answer.
    """
    stack = abridge(str(error), MAX_STACK_CHARACTERS)
    text = one_line(stack.partition("\n")[0], REASON_CHARACTERS)
    if error.place:
        text = f"{text} ({error.place})"
    if error.setup or error.denied:
        raise GradingError(f"it threw {text}", detail=stack) from error
    return inconclusive(f"threw {text}", detail=stack)


def reaches(score: float, threshold: float) -> bool:
    """Return True if a score is at least the threshold, within the rounding errors of floats."""
    return score >= threshold - _TOLERANCE


def judge_similarity(subject: str, similarity: float, threshold: float) -> Finding:
    """Compare a similarity with a threshold; the score is the similarity from 0 to 1."""
    score = min(1.0, max(0.0, similarity))
    actual = f"{subject} is {similarity:.3f}"
    if reaches(similarity, threshold):
        reason = f"{subject} is at least {threshold:g}"
        return passed(reason, score, sentence=f"{actual}, no less than {threshold:g}")
    reason = f"{subject} is less than {threshold:g}"
    return failed(reason, score, sentence=f"{actual}, at least {threshold:g} needed")
