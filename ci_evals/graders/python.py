"""`python`: the team's own function judges."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import Meta

from ci_evals.callables import member, module_problem, target_parts
from ci_evals.errors import ConfigError, Problem
from ci_evals.folder_modules import NamesakeError, named_module
from ci_evals.graders.base import GraderOptions
from ci_evals.graders.function import Judge
from ci_evals.graders.quoting import clip, quote, show
from ci_evals.model import Answer, Finding


class Python(GraderOptions, frozen=True):
    """A Python function judges the answer.

    It is called as `fn(output, answer)` or `fn(output)`, whichever it takes, may be async, and returns a bool, a score
    from 0 to 1, or a mapping with `passed`, `score` and `reason`. A sync function runs in a thread.

    Args:
        target: `module:function`, looked for in the config's folder first.
        threshold: the lowest score that passes; 1 when left out.
        retries: how often it is called again after it raised or took too long.
        timeout_s: seconds that one call may take; those of the run's own call when left out.
    """

    short: ClassVar[str] = "target"
    needs_more: ClassVar[bool] = True

    target: str
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    retries: Annotated[int, Meta(ge=0, le=20)] = 0
    timeout_s: Annotated[float, Meta(gt=0)] | None = None

    def problems(self) -> list[str]:
        if target_parts(self.target) is not None:
            return []
        return [f"expected `module:function`, such as `graders:is_polite`, got {quote(self.target)}"]

    def lacks(self, folder: Path) -> str | None:
        return module_problem(self.target.partition(":")[0], folder)

    def prepare(self) -> None:
        try:
            named_module(self.target.partition(":")[0])
        except NamesakeError as error:
            raise ConfigError([Problem(str(error.path), None, "", f"{self.target!r}: {error}")]) from None
        except (Exception, SystemExit) as error:  # importing runs the user's module, which can raise anything
            text = f"importing it raised {type(error).__name__}: {' '.join(str(error).split())}"
            raise ConfigError([Problem(self.target, None, "", text)]) from error
        try:
            _load(self.target)
        except Exception as error:  # so can a `__getattr__` of it
            raise ConfigError([Problem(self.target, None, "", str(error))]) from error

    def deciding(self) -> Self:
        return msgspec.structs.replace(self, retries=0, timeout_s=None)

    async def grade(self, answer: Answer) -> Finding:
        judge = Judge(self.target, _load(self.target), self.threshold, self.retries, self.timeout_s)
        return await judge.grade(answer)


@lru_cache(maxsize=256)
def _load(target: str) -> Callable[..., Any]:
    function = member(named_module(target.partition(":")[0]), target)
    if not callable(function):
        raise TypeError(f"{target} is not a function but {clip(type(function).__name__)} {show(function)}")
    return function  # type: ignore[no-any-return]  # it is whatever the module has
