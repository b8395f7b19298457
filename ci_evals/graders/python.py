"""`python`: the team's own function judges."""

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from ci_evals.callables import member, module_problem
from ci_evals.errors import ConfigError, Problem
from ci_evals.graders.base import GraderOptions
from ci_evals.graders.quoting import clip, quote, show
from ci_evals.model import Answer, Finding

_TOLERANCE = 1e-9
_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0


class Python(GraderOptions, frozen=True, kw_only=True):
    """A Python function judges the answer.

    It is called as `fn(output, answer)` or `fn(output)`, whichever it takes, may be async, and returns a bool, a score
    from 0 to 1, or a mapping with `passed`, `score` and `reason`. A sync function runs in a thread.

    Args:
        target: `module:function`, looked for in the config's folder first.
        threshold: the lowest score that passes; 1 when left out.
        retries: how often it is called again after it raised.
    """

    short: ClassVar[str] = "target"

    target: str
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    retries: Annotated[int, Meta(ge=0, le=20)] = 0

    def problems(self) -> list[str]:
        module, colon, function = self.target.partition(":")
        if colon and _is_dotted(module) and _is_dotted(function):
            return []
        return [f"expected `module:function`, such as `graders:is_polite`, got {quote(self.target)}"]

    def lacks(self, folder: Path) -> str | None:
        return module_problem(self.target.partition(":")[0], folder)

    def prepare(self) -> None:
        try:
            _load(self.target)
        except (Exception, SystemExit) as error:  # importing runs the user's module, which can raise anything
            text = f"cannot be used: {type(error).__name__}: {error}"
            raise ConfigError([Problem("expect", None, f"python: {self.target}", text)]) from error

    async def grade(self, answer: Answer) -> Finding:
        import asyncio

        for attempt in range(self.retries):
            try:
                return await self._grade(answer)
            except Exception:  # noqa: BLE001  the user's own: the last one is told
                await asyncio.sleep(min(_LONGEST_PAUSE_S, _PAUSE_S * 2**attempt))
        return await self._grade(answer)

    async def _grade(self, answer: Answer) -> Finding:
        import asyncio

        function, wants_answer = _load(self.target)
        arguments = (answer.response.output, answer) if wants_answer else (answer.response.output,)
        if inspect.iscoroutinefunction(function):
            returned = await function(*arguments)
        else:
            returned = await asyncio.to_thread(function, *arguments)
            if inspect.isawaitable(returned):
                returned = await returned
        return self._finding(returned)

    def _finding(self, returned: Any) -> Finding:
        """Reads what the function returned; a wrong type is a TypeError, a score out of range a ValueError."""
        match returned:
            case bool():
                return Finding(returned, float(returned), f"{self.target} returned {returned}")
            case int() | float():
                return self._scored(returned)
            case Mapping():
                return self._detailed(returned)
        raise TypeError(
            f"{self.target} must return a bool, a score from 0 to 1, or a mapping with passed, score and reason; "
            f"it returned {_typed(returned)}"
        )

    def _scored(self, score: float) -> Finding:
        if not 0 <= score <= 1:
            raise ValueError(f"{self.target} must return a score from 0 to 1; it returned {score}")
        lowest = 1.0 if self.threshold is None else self.threshold
        passed = score >= lowest - _TOLERANCE
        hint = "" if passed or self.threshold is not None else "; set `threshold` to let lower scores pass"
        relation = "at least" if passed else "less than"
        return Finding(passed, float(score), f"{self.target} gave a score of {score:.3g}, {relation} {lowest:g}{hint}")

    def _detailed(self, returned: Mapping[Any, Any]) -> Finding:
        known = {"passed": bool, "score": int | float, "reason": str}
        for key, value in returned.items():
            if key not in known:
                raise TypeError(f"{self.target} returned an unknown key {show(key)}; known: passed, score, reason")
            if value is not None and (
                not isinstance(value, known[key]) or (key == "score" and isinstance(value, bool))
            ):
                raise TypeError(f"{self.target} returned {_typed(value)} as its {key}")
        passed, score, reason = (returned.get(key) for key in known)
        if score is not None:
            found = self._scored(score)
        elif passed is not None:
            found = self._finding(passed)
        else:
            raise TypeError(f"{self.target} returned a mapping with neither passed nor score: {_typed(returned)}")
        return Finding(found.passed if passed is None else passed, found.score, reason or found.reason)


@lru_cache(maxsize=256)
def _load(target: str) -> tuple[Callable[..., Any], bool]:
    """The function, and whether it takes the answer beside the output."""
    from importlib import import_module

    module, _, path = target.partition(":")
    function = member(import_module(module), path)
    if not callable(function):
        raise TypeError(f"{target} is not a function but {_typed(function)}")
    return function, _wants_answer(function)


def _wants_answer(function: Callable[..., Any]) -> bool:
    """Whether there is a second positional parameter that has no default or is called `answer`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some functions written in C have no signature
        return False
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) > 1 and (positional[1].default is inspect.Parameter.empty or positional[1].name == "answer")


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _typed(value: Any) -> str:
    return f"{clip(type(value).__name__)} {show(value)}"
