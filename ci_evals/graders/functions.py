"""The team's own graders in Python: functions, objects with `grade`, and `Not`."""

import asyncio
import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, overload

from ci_evals.errors import ConfigError, Problem
from ci_evals.format import cite, one_line, quote
from ci_evals.graders.base import REASON_CHARACTERS, failed, inconclusive, passed, reaches, too_slow
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer
from ci_evals.python_worker import current_workers
from ci_evals.user_code.targets import (
    CodeSource,
    has_second_parameter,
    identity,
    load_target,
    target_problems,
)
from ci_evals.user_code.threads import call, time_limit
from ci_evals.workers import WorkerEndedError, WorkerTimeoutError

Judge = Callable[..., Any]
"""`fn(output)` or `fn(output, answer)`, sync or async. It returns a bool, a score from 0 to 1, a
`Finding`, a mapping, or the reason of a failure as text.
"""

_FIRST_PAUSE_S = 0.1  # before the first retry; it doubles each time
_LONGEST_PAUSE_S = 10.0

_JUDGEMENT = "a bool, a score from 0 to 1, or a mapping with passed, score and reason"
_KEYS = ("passed", "pass", "pass_", "score", "reason")
_KEYS_OF_OTHER_TOOLS = (
    "componentResults",
    "component_results",
    "namedScores",
    "named_scores",
    "tokensUsed",
    "tokens_used",
)
"""Keys in their judgements that are ignored, because they do not affect the verdict."""


def prepare_target(target: str) -> None:
    """Import a `module:function` in the process in which it will run.

    Raises:
        ConfigError: the function cannot be imported.
    """
    workers = current_workers()
    if workers is None:
        load_target(target)
        return
    try:
        problems = workers.check(target_problems, target)
    except (WorkerEndedError, WorkerTimeoutError) as error:
        why = str(error) or "importing it takes too long"
        raise ConfigError([Problem("", None, "", f"target {target!r}: {why}")]) from error
    if problems:
        raise ConfigError(problems)


def longest_s(timeout_s: float, retries: int) -> float:
    """Return the maximum number of seconds for the calls of a function, including retries."""
    pauses_s = 0.0
    pause_s = _FIRST_PAUSE_S
    for _ in range(retries):
        pauses_s += pause_s
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return timeout_s * (retries + 1) + pauses_s


class TooSlowError(Exception):
    """A function exceeded its time limit."""


class FunctionGrader:
    """A function with `@grader`: an entry of `expect` that can still be called.

    Args:
        function: see `Judge`.
        name: the grader's name in reports; the function's own when None.
        threshold: the lowest score that passes. When None, the verdict decides, or else 1.
        weight: weight in the run's score.
        retries: further calls after the function raised or took too long.
        timeout_s: seconds that one call may take; the run's when None.
        metric: the metric that its scores count towards.
    """

    portable: ClassVar[bool] = True

    def __init__(  # noqa: PLR0913  all options are keyword-only
        self,
        function: Judge,
        *,
        name: str | None = None,
        threshold: float | None = None,
        weight: float = 1.0,
        retries: int = 0,
        timeout_s: float | None = None,
        metric: str | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name or getattr(function, "__name__", None) or type(function).__name__
        self.threshold = threshold
        self.weight = weight
        self.retries = retries
        self.timeout_s = timeout_s
        self.metric = metric
        self._takes_answer = has_second_parameter(function, "answer", variadic=True)

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __str__(self) -> str:
        """Return a text that identifies the grader, the same in every process."""
        return f"{identity(self.function)} from {self.threshold}"

    @property
    def own_source(self) -> CodeSource:
        """The code of the function."""
        return CodeSource("object", self.function)

    def prepare(self) -> None:
        """Do nothing: the function is already imported."""

    async def grade(self, answer: Answer) -> Finding:
        """Call the function, in a thread unless it is async. If it raises, retry up to `retries`
        times.

        Raises:
            GradingError: the call took too long. Its thread cannot be ended, but its result is
                ignored.
            BaseException: the function raised it.
        """
        pause_s = _FIRST_PAUSE_S
        for _ in range(self.retries):
            try:
                return await self._call(answer)
            except Exception:  # noqa: BLE001  the team's code; the error of the last call is raised
                await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return await self._call(answer)

    async def _call(self, answer: Answer) -> Finding:
        timeout_s = self.timeout_s or answer.request.timeout_s
        try:
            return await self._judge_within(timeout_s, answer)
        except (TooSlowError, WorkerTimeoutError):
            raise too_slow(timeout_s) from None

    async def _judge_within(self, timeout_s: float, answer: Answer) -> Finding:
        """Judge an answer.

        Raises:
            TooSlowError, WorkerTimeoutError: the function took too long.
        """
        async with time_limit(timeout_s, TooSlowError()):
            returned = await call(self.function, *self._arguments(answer))
        return self._finding_of(returned)

    def _arguments(self, answer: Answer) -> tuple[Any, ...]:
        if self._takes_answer:
            return answer.output, answer
        return (answer.output,)

    def _finding_of(self, returned: Any) -> Finding:
        """Convert the function's return value into a finding, even if it is not a judgement."""
        try:
            return self._read(returned)
        except _NoJudgementError as error:
            return inconclusive(f"{self.name} {error}", sentence=f"{self.name} {error.sentence}")

    def _read(self, returned: Any) -> Finding:
        """Convert a judgement into a finding."""
        match returned:
            case Finding():
                _check_verdict(returned.passed)
                _check_score(returned.score)
                _check_reason(returned.reason)
                return self._hold_to_threshold(returned)
            case bool():
                return Finding(returned, float(returned), f"{self.name} returned {returned}")
            case int() | float():
                return self._read_score(returned)
            case str():
                return self._read_text(returned)
            case Mapping():
                return self._read_mapping(returned)
        raise _NoJudgementError(f"must return {_JUDGEMENT}", returned)

    def _read_text(self, text: str) -> Finding:
        """Read the reason of a failure."""
        if text.strip().lower() in ("true", "false"):
            raise _NoJudgementError("returned a text: return the boolean without quotes", text)
        if not text.strip():
            return failed(f"{self.name} returned an empty text")
        return failed(one_line(text, REASON_CHARACTERS))

    def _read_score(self, score: float) -> Finding:
        _check_score(score)
        lowest = 1.0
        hint = " (set `threshold` to let lower scores pass)"
        if self.threshold is not None:
            lowest = self.threshold
            hint = ""
        actual = f"{self.name} gave {score:.3g}"
        if reaches(score, lowest):
            reason = f"{self.name} gave at least {lowest:g}"
            return passed(reason, float(score), sentence=f"{actual}, no less than {lowest:g}")
        reason = f"{self.name} gave less than {lowest:g}{hint}"
        sentence = f"{actual}, at least {lowest:g} needed{hint}"
        return failed(reason, float(score), sentence=sentence)

    def _read_mapping(self, returned: Mapping[Any, Any]) -> Finding:
        """Read `passed`, `score` and `reason`; a misspelt key must not go unnoticed."""
        for key in returned:
            if key not in _KEYS and key not in _KEYS_OF_OTHER_TOOLS:
                text = f"returned an unknown key {quote(key)}; known: passed, score, reason"
                raise _NoJudgementError(text, returned)
        verdict = returned.get("passed", returned.get("pass", returned.get("pass_")))
        score = returned.get("score")
        reason = returned.get("reason")
        if verdict is not None:
            _check_verdict(verdict)
        if reason is not None:
            _check_reason(reason)
        if verdict is not None:
            finding = Finding(verdict, float(verdict), f"{self.name} returned {verdict}")
            if score is not None:
                _check_score(score)
                finding = replace(finding, score=float(score))
        elif score is not None:
            finding = self._read_score(score)
        else:
            text = f"returned a mapping with neither passed nor score: it must return {_JUDGEMENT}"
            raise _NoJudgementError(text, returned)
        if reason:
            finding = replace(finding, reason=reason, sentence=None)
        return self._hold_to_threshold(finding)

    def _hold_to_threshold(self, finding: Finding) -> Finding:
        """Fail a passed verdict whose score is below the declared threshold."""
        if self.threshold is None or not finding.passed or reaches(finding.score, self.threshold):
            return finding
        reason = f"{self.name} gave less than {self.threshold:g}: {finding.reason}"
        actual = f"{self.name} gave {finding.score:.3g}, at least {self.threshold:g} needed"
        sentence = f"{actual}: {finding.text}"
        return replace(finding, passed=False, reason=reason, sentence=sentence)


class _NoJudgementError(Exception):
    """A function returned something other than a judgement; `sentence` says what."""

    def __init__(self, message: str, returned: Any) -> None:
        super().__init__(message)
        self.sentence = f"{message}: it returned {cite(returned)}"
        if not isinstance(returned, str | int | float):
            kind = one_line(type(returned).__name__)
            self.sentence = f"{message}: it returned a {kind}, {cite(returned)}"


def _check_verdict(verdict: Any) -> None:
    if not isinstance(verdict, bool):
        raise _NoJudgementError("must return a bool as `passed`", verdict)


def _check_score(score: Any) -> None:
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise _NoJudgementError("must return a number as its score", score)
    if not 0 <= score <= 1:
        raise _NoJudgementError("must return a score from 0 to 1", score)


def _check_reason(reason: Any) -> None:
    if not isinstance(reason, str):
        raise _NoJudgementError("must return text as its reason", reason)


class ObjectGrader(FunctionGrader):
    """An object with a method `grade(answer)`, sync (in a thread) or async, that returns the same
    as a function.
    """

    def __init__(self, judge: Any) -> None:
        super().__init__(
            judge.grade,
            name=str(getattr(judge, "name", None) or type(judge).__name__),
            weight=float(getattr(judge, "weight", 1.0)),
            metric=getattr(judge, "metric", None),
        )
        self.judge = judge

    def __str__(self) -> str:
        return identity(self.judge)

    @property
    def own_source(self) -> CodeSource:
        """The code of the object's class."""
        return CodeSource("object", self.judge)

    def prepare(self) -> None:
        if callable(prepare := getattr(self.judge, "prepare", None)):
            prepare()

    def _arguments(self, answer: Answer) -> tuple[Any, ...]:
        return (answer,)


class Not:
    """The opposite of a grader, like `not_` in the YAML: `Not(Contains("sorry"))`."""

    def __init__(self, grader: Any) -> None:
        self.grader = grader

    def __repr__(self) -> str:
        return f"Not({self.grader!r})"


@overload
def grader(function: Judge) -> FunctionGrader: ...
@overload
def grader(
    *,
    name: str | None = None,
    threshold: float | None = None,
    weight: float = 1.0,
    retries: int = 0,
    timeout_s: float | None = None,
    metric: str | None = None,
) -> Callable[[Judge], FunctionGrader]: ...
def grader(
    function: Judge | None = None, **options: Any
) -> FunctionGrader | Callable[[Judge], FunctionGrader]:
    """Make a grader of a function: `fn(output)` or `fn(output, answer)`, sync (in a thread) or
    async.

    It returns a bool, a score from 0 to 1, a `Finding`, a mapping with `passed`, `score` and
    `reason`, or the reason of a failure as text. If it raises, the check has failed.

    Args:
        function: the function, if `@grader` is used without parentheses.
        options: `name` in reports, `threshold` for scores, `weight`, `retries` after it raised,
            `timeout_s` of a call, `metric` that its scores count towards.

    >>> @grader(threshold=0.5)
    ... def is_brief(output: str) -> float:
    ...     return 10 / max(10, len(output))
    >>> is_brief("Paris")
    1.0
    """
    if function is None:
        return functools.partial(FunctionGrader, **options)
    return FunctionGrader(function, **options)
