"""A function judges: how it is called, and what its answer says. `@grader` makes a grader of one."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

from msgspec import Struct

from ci_evals.callables import identity
from ci_evals.errors import GradingError
from ci_evals.graders.findings import reaches
from ci_evals.graders.quoting import clip, show
from ci_evals.model import Answer, Finding

if TYPE_CHECKING:
    from ci_evals.threads import DaemonThreads

_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0

Judging = Callable[..., Any]
"""`fn(output)` or `fn(output, answer)`, sync or async: a bool, a score from 0 to 1, a `Finding`, or a mapping."""


class Judge(Struct, frozen=True):
    """A function that judges, under the name that its findings have.

    Args:
        name: how reasons and errors call it.
        function: takes the output, and the `Answer` too if it asks for one.
        threshold: the lowest score that passes; 1 when None.
        retries: how often it is called again after it raised or took too long.
        timeout_s: seconds that one call may take; those of the run when None.
    """

    name: str
    function: Judging
    threshold: float | None = None
    retries: int = 0
    timeout_s: float | None = None

    async def grade(self, answer: Answer) -> Finding:
        """Call the function, a sync one in a thread, and again while it raises and may be called again.

        Raises:
            GradingError: it took too long. A thread cannot be ended: it goes on, unheard.
            TypeError: it returned something else than a judgement.
            ValueError: its score is not in [0, 1].
        """
        import asyncio

        for attempt in range(self.retries):
            try:
                return await self._asked(answer)
            except Exception:  # noqa: BLE001  the user's own: the last one is told
                await asyncio.sleep(min(_LONGEST_PAUSE_S, _PAUSE_S * 2**attempt))
        return await self._asked(answer)

    async def _asked(self, answer: Answer) -> Finding:
        import asyncio

        timeout_s = self.timeout_s or answer.request.timeout_s
        try:
            async with asyncio.timeout(timeout_s) as scope:
                returned = await self._returned(answer)
        except TimeoutError:
            if not scope.expired():
                raise
            raise GradingError(f"no judgement within {timeout_s:g} s; its own `timeout_s` may allow more") from None
        return self.finding(returned)

    async def _returned(self, answer: Answer) -> Any:
        function = self.function
        arguments = (answer.response.output, answer) if wants_answer(function) else (answer.response.output,)
        if inspect.iscoroutinefunction(function):
            return await function(*arguments)
        return await _threads().run(functools.partial(function, *arguments))

    def finding(self, returned: Any) -> Finding:
        """What a returned value says."""
        match returned:
            case Finding():
                return returned
            case bool():
                return Finding(returned, float(returned), f"{self.name} returned {returned}")
            case int() | float():
                return self._scored(returned)
            case Mapping():
                return self._detailed(returned)
        raise TypeError(
            f"{self.name} must return a bool, a score from 0 to 1, or a mapping with passed, score and reason; "
            f"it returned {_typed(returned)}"
        )

    def _scored(self, score: float) -> Finding:
        if not 0 <= score <= 1:
            raise ValueError(f"{self.name} must return a score from 0 to 1; it returned {score}")
        lowest = 1.0 if self.threshold is None else self.threshold
        passed = reaches(score, lowest)
        hint = "" if passed or self.threshold is not None else "; set `threshold` to let lower scores pass"
        relation = "at least" if passed else "less than"
        return Finding(passed, float(score), f"{self.name} gave a score of {score:.3g}, {relation} {lowest:g}{hint}")

    def _detailed(self, returned: Mapping[Any, Any]) -> Finding:
        known = {"passed": bool, "score": int | float, "reason": str}
        for key, value in returned.items():
            if key not in known:
                raise TypeError(f"{self.name} returned an unknown key {show(key)}; known: passed, score, reason")
            if value is not None and (
                not isinstance(value, known[key]) or (key == "score" and isinstance(value, bool))
            ):
                raise TypeError(f"{self.name} returned {_typed(value)} as its {key}")
        passed, score, reason = (returned.get(key) for key in known)
        if score is not None:
            found = self._scored(score)
        elif passed is not None:
            found = self.finding(passed)
        else:
            raise TypeError(f"{self.name} returned a mapping with neither passed nor score: {_typed(returned)}")
        return Finding(found.passed if passed is None else passed, found.score, reason or found.reason)


class FunctionGrader:
    """A function as a grader: it stands in `expect`, and is called as before. Made by `@grader`.

    Args:
        function: see `Judging`.
        name: the grader's name in reports; the function's own unless given.
        threshold: the lowest score that passes; 1 when None.
        weight: what it counts for in a score.
        retries: how often it is called again after it raised or took too long.
        timeout_s: seconds that one call may take; those of the run when None.
    """

    def __init__(
        self,
        function: Judging,
        *,
        name: str | None = None,
        threshold: float | None = None,
        weight: float = 1.0,
        retries: int = 0,
        timeout_s: float | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name or getattr(function, "__name__", None) or type(function).__name__
        self.threshold = threshold
        self.weight = weight
        self.retries = retries
        self.timeout_s = timeout_s

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __str__(self) -> str:
        """What tells it from others, in every process alike."""
        return f"{identity(self.function)} from {self.threshold}"

    def prepare(self) -> None:
        """Nothing needs to be made ready."""

    async def grade(self, answer: Answer) -> Finding:
        return await Judge(self.name, self.function, self.threshold, self.retries, self.timeout_s).grade(answer)


class ObjectGrader:
    """Any object with a method `grade(answer)`, sync (in a thread) or async, that returns what a function may."""

    def __init__(self, judge: Any) -> None:
        self.judge = judge
        self.name = str(getattr(judge, "name", None) or type(judge).__name__)
        self.weight = float(getattr(judge, "weight", 1.0))

    def __str__(self) -> str:
        return identity(self.judge)

    def prepare(self) -> None:
        if callable(prepare := getattr(self.judge, "prepare", None)):
            prepare()

    async def grade(self, answer: Answer) -> Finding:
        method = self.judge.grade
        if inspect.iscoroutinefunction(method):

            async def judged(_output: str, answer: Answer) -> Any:
                return await method(answer)

            return await Judge(self.name, judged).grade(answer)
        return await Judge(self.name, lambda _output, answer: method(answer)).grade(answer)


class Not:
    """The opposite of a grader, as `not_` makes it in the YAML: `Not(Contains("sorry"))`."""

    def __init__(self, grader: Any) -> None:
        self.grader = grader

    def __repr__(self) -> str:
        return f"Not({self.grader!r})"


@overload
def grader(function: Judging) -> FunctionGrader: ...
@overload
def grader(
    *,
    name: str | None = None,
    threshold: float | None = None,
    weight: float = 1.0,
    retries: int = 0,
    timeout_s: float | None = None,
) -> Callable[[Judging], FunctionGrader]: ...
def grader(function: Judging | None = None, **options: Any) -> FunctionGrader | Callable[[Judging], FunctionGrader]:
    """Make a grader of a function: `fn(output)` or `fn(output, answer)`, sync (in a thread) or async.

    It returns a bool, a score from 0 to 1, a `Finding`, or a mapping with `passed`, `score` and `reason`; what it
    raises makes the run `errored`.

    Args:
        function: the function, where `@grader` stands without parentheses.
        options: `name` in reports, `threshold` for scores, `weight`, `retries` after it raised, `timeout_s` of a call.

    >>> @grader(threshold=0.5)
    ... def is_brief(output: str) -> float:
    ...     return 10 / max(10, len(output))
    >>> is_brief("Paris")
    1.0
    """
    return FunctionGrader(function, **options) if function else functools.partial(FunctionGrader, **options)


@functools.cache
def _threads() -> "DaemonThreads":
    """The threads of all graders: one that hangs keeps nobody from exiting."""
    from ci_evals.threads import DaemonThreads

    return DaemonThreads()


def wants_answer(function: Judging) -> bool:
    """Whether there is a second positional parameter that has no default or is called `answer`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) > 1 and (positional[1].default is inspect.Parameter.empty or positional[1].name == "answer")


def _typed(value: Any) -> str:
    return f"{clip(type(value).__name__)} {show(value)}"
