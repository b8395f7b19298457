"""Graders of the team's own: Python functions, objects and code, `python` in the YAML and `@grader`
in Python.
"""

import asyncio
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, overload

from tenacity import AsyncRetrying, stop_after_attempt, wait_exponential

from ci_evals.errors import GradingError
from ci_evals.format import one_line, quote
from ci_evals.graders.base import GraderOptions, reaches
from ci_evals.graders.inline import compile_code
from ci_evals.model.case import Answer, Finding
from ci_evals.model.fields import Retries, Seconds, Share
from ci_evals.user_code import (
    call,
    has_second_parameter,
    identity,
    load,
    load_target,
    missing_target,
    target_of_file,
    target_parts,
)

Judge = Callable[..., Any]
"""`fn(output)` or `fn(output, answer)`, sync or async: a bool, a score from 0 to 1, a `Finding`, or
a mapping.
"""

_NAME_CHARACTERS = 80
_ALIASES = {"pass": "passed", "pass_": "passed"}  # which other tools ask for
_UNREAD = frozenset(
    {
        "componentResults",
        "component_results",
        "namedScores",
        "named_scores",
        "tokensUsed",
        "tokens_used",
    }
)
"""Keys of other tools' judgements that say nothing more of the answer."""
_BACKOFF = wait_exponential(multiplier=0.1, max=10)  # seconds: 0.1, 0.2, 0.4, …


@dataclass(frozen=True, slots=True)
class PythonGrader(GraderOptions):
    """A Python function judges the answer, or Python code: an expression, or lines that return
    something.

    Code sees the answer as `output`, and `answer`, `vars`, `input`, `context`, `json`, `math` and
    `re`. A function is called as `fn(output, answer)` if it has a second positional parameter that
    is required or called `answer`, otherwise as `fn(output)`. It may be async; a sync function runs
    in a thread, as code does. Either returns a bool, a score from 0 to 1, or a mapping with
    `passed`, `score` and `reason`.

    Args:
        target: `module:function`, looked for in the config's folder first, or code.
        threshold: the lowest score that passes; 1 when left out.
        retries: further calls after the function raised or took too long.
        timeout_s: seconds that one call may take; those of the run's own call when left out.
    """

    short: ClassVar[str] = "target"
    has_dependency: ClassVar[bool] = True
    portable: ClassVar[bool] = True

    target: str
    threshold: Share | None = None
    retries: Retries = 0
    timeout_s: Seconds | None = None

    def problems(self) -> list[str]:
        if self.function_name is not None:
            return []
        if target := target_of_file(self.target):
            return [f"to call a function of a file, write `module:function`: `python: {target}`"]
        try:
            compile_code(self.target)
        except SyntaxError as error:
            line = f"line {error.lineno}: " if error.lineno and "\n" in self.target.strip() else ""
            usual = "expected `module:function`, such as `graders:is_polite`, or Python code"
            return [f"{usual}, got {quote(self.target)}: {line}{error.msg}"]
        return []

    @property
    def function_name(self) -> str | None:
        """`module:function`, if that is what is called, and not code."""
        return self.target if target_parts(self.target) is not None else None

    def missing(self, folder: Path) -> str | None:
        return missing_target(self.target, folder) if self.function_name else None

    def prepare(self) -> None:
        if self.function_name:
            load_target(self.function_name)

    def for_fingerprint(self) -> Self:
        return replace(self, retries=0, timeout_s=None)

    async def grade(self, answer: Answer) -> Finding:
        called = FunctionGrader(
            load(self.function_name) if self.function_name else compile_code(self.target),
            name=one_line(self.target, _NAME_CHARACTERS),
            threshold=self.threshold,
            retries=self.retries,
            timeout_s=self.timeout_s,
        )
        return await called.grade(answer)


class FunctionGrader:
    """A function as a grader, made by `@grader`: an entry of `expect` that can still be called as a
    function.

    Args:
        function: see `Judge`.
        name: the grader's name in reports; the function's own when None.
        threshold: the lowest score that passes; 1 when None.
        weight: weight in the run's score.
        retries: further calls after the function raised or took too long.
        timeout_s: seconds that one call may take; those of the run when None.
        metric: the metric that its scores count for.
    """

    portable: ClassVar[bool] = True

    def __init__(  # noqa: PLR0913  what can be set is set by name
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

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __str__(self) -> str:
        """Return a text that identifies the grader, the same in every process."""
        return f"{identity(self.function)} from {self.threshold}"

    def prepare(self) -> None:
        """Do nothing: the function is there."""

    async def grade(self, answer: Answer) -> Finding:
        """Call the function, in a thread unless it is async, and again after it raised as long as
        `retries` allow.

        Raises:
            GradingError: the call took too long. Its thread can't be ended, but its result is
                ignored.
            TypeError: the function returned something other than a judgement.
            ValueError: the score is not between 0 and 1.
        """
        retry = AsyncRetrying(
            stop=stop_after_attempt(self.retries + 1), wait=_BACKOFF, reraise=True
        )
        return await retry(self._call, answer)

    def _arguments(self, answer: Answer) -> tuple[Any, ...]:
        output = answer.output
        return (
            (output, answer)
            if has_second_parameter(self.function, "answer", variadic=True)
            else (output,)
        )

    async def _call(self, answer: Answer) -> Finding:
        timeout_s = self.timeout_s or answer.request.timeout_s
        try:
            async with asyncio.timeout(timeout_s) as scope:
                returned = await call(self.function, *self._arguments(answer))
        except TimeoutError:
            if not scope.expired():
                raise
            raise GradingError(
                f"no judgement within {timeout_s:g} s; its own `timeout_s` may allow more"
            ) from None
        return self._finding(returned)

    def _finding(self, returned: Any) -> Finding:
        match returned:
            case Finding():
                return returned
            case bool():
                return Finding(returned, float(returned), f"{self.name} returned {returned}")
            case int() | float():
                return self._from_score(returned)
            case Mapping():
                return self._from_mapping(returned)
        raise TypeError(
            f"{self.name} must return a bool, a score from 0 to 1, or a mapping with passed, score and reason; "
            f"it returned {_describe(returned)}"
        )

    def _from_score(self, score: float) -> Finding:
        if not 0 <= score <= 1:
            raise ValueError(f"{self.name} must return a score from 0 to 1; it returned {score}")
        lowest = 1.0 if self.threshold is None else self.threshold
        passed = reaches(score, lowest)
        hint = (
            ""
            if passed or self.threshold is not None
            else "; set `threshold` to let lower scores pass"
        )
        relation = "at least" if passed else "less than"
        return Finding(
            passed,
            float(score),
            f"{self.name} gave a score of {score:.3g}, {relation} {lowest:g}{hint}",
        )

    def _from_mapping(self, returned: Mapping[Any, Any]) -> Finding:
        known = {"passed": bool, "score": int | float, "reason": str}
        returned = {
            _ALIASES.get(key, key): value for key, value in returned.items() if key not in _UNREAD
        }
        for key, value in returned.items():
            if key not in known:
                raise TypeError(
                    f"{self.name} returned an unknown key {quote(key)}; known: passed, score, reason"
                )
            wrong = not isinstance(value, known[key]) or (
                key == "score" and isinstance(value, bool)
            )
            if value is not None and wrong:
                raise TypeError(f"{self.name} returned {_describe(value)} as its {key}")
        passed, score, reason = (returned.get(key) for key in known)
        if score is None and passed is None:
            raise TypeError(
                f"{self.name} returned a mapping with neither passed nor score: {_describe(returned)}"
            )
        found = self._finding(passed) if score is None else self._from_score(score)
        return Finding(
            found.passed if passed is None else passed, found.score, reason or found.reason
        )


def _describe(value: Any) -> str:
    return f"{one_line(type(value).__name__)} {quote(value)}"


class ObjectGrader(FunctionGrader):
    """Any object with a method `grade(answer)`, sync (in a thread) or async, that returns what a
    function may.
    """

    def __init__(self, judge: Any) -> None:
        name = str(getattr(judge, "name", None) or type(judge).__name__)
        metric = getattr(judge, "metric", None)
        super().__init__(
            judge.grade, name=name, weight=float(getattr(judge, "weight", 1.0)), metric=metric
        )
        self.judge = judge

    def __str__(self) -> str:
        return identity(self.judge)

    def prepare(self) -> None:
        if callable(prepare := getattr(self.judge, "prepare", None)):
            prepare()

    def _arguments(self, answer: Answer) -> tuple[Any, ...]:
        return (answer,)


class Not:
    """The opposite of a grader, as `not_` makes it in the YAML: `Not(Contains("sorry"))`."""

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

    It returns a bool, a score from 0 to 1, a `Finding`, or a mapping with `passed`, `score` and
    `reason`; what it raises makes the run `errored`.

    Args:
        function: the function, where `@grader` stands without parentheses.
        options: `name` in reports, `threshold` for scores, `weight`, `retries` after it raised,
            `timeout_s` of a call, `metric` that its scores count for.

    >>> @grader(threshold=0.5)
    ... def is_brief(output: str) -> float:
    ...     return 10 / max(10, len(output))
    >>> is_brief("Paris")
    1.0
    """
    return (
        FunctionGrader(function, **options)
        if function
        else functools.partial(FunctionGrader, **options)
    )
