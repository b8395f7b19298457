"""`python`: the team's own function, or Python code in the suite, judges the answer."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

from ci_evals.format import one_line, quote
from ci_evals.graders.base import GraderOptions
from ci_evals.graders.functions import FunctionGrader, longest_s, prepare_target
from ci_evals.graders.inline import compile_code
from ci_evals.model.fields import Retries, Seconds, Share
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer
from ci_evals.user_code.targets import (
    CodeSource,
    load,
    missing_target,
    target_of_file,
    target_parts,
)

_NAME_CHARACTERS = 80


@dataclass(frozen=True)  # without `slots`, for the cached property
class PythonGrader(GraderOptions):
    """A Python function judges the answer, or Python code: an expression, or lines that return
    something.

    Code sees the answer as `output`, and `answer`, `vars`, `input`, `context`, `json`, `math` and
    `re`. A function is called as `fn(output, answer)` if it has a second positional parameter that
    is required or called `answer`, otherwise as `fn(output)`. It may be async; a sync function runs
    in a thread, as code does. Both run in a worker process, which is ended if it hangs. Either
    returns a bool, a score from 0 to 1, a mapping with `passed`, `score` and `reason`, or the
    reason of a failure as text.

    Args:
        target: `module:function`, looked for in the config's folder first, or code.
        threshold: the lowest score that passes; 1 when left out.
        retries: further calls after the function raised or took too long.
        timeout_s: seconds that one call may take; the run's own time-out when left out.
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
            message = error.msg
            if error.lineno and "\n" in self.target.strip():
                message = f"line {error.lineno}: {message}"
            usual = "expected `module:function`, such as `graders:is_polite`, or Python code"
            return [f"{usual}, got {quote(self.target)}: {message}"]
        return []

    @property
    def function_name(self) -> str | None:
        """The target if it is `module:function`, None if it is code."""
        if target_parts(self.target) is None:
            return None
        return self.target

    @property
    def own_source(self) -> CodeSource | None:
        parts = target_parts(self.target)
        if parts is not None:
            return CodeSource("module", parts[0])
        if "import" in self.target:
            return CodeSource("python", self.target)
        return None

    def missing(self, folder: Path) -> str | None:
        if self.function_name is None:
            return None
        return missing_target(self.target, folder)

    def prepare(self) -> None:
        if self.function_name is not None:
            prepare_target(self.function_name)

    def worker_limit_s(self, answer: Answer) -> float | None:
        return longest_s(self.timeout_s or answer.request.timeout_s, self.retries)

    def for_fingerprint(self) -> Self:
        return replace(self, retries=0, timeout_s=None)

    async def grade(self, answer: Answer) -> Finding:
        return await self._judge.grade(answer)

    @cached_property
    def _judge(self) -> FunctionGrader:
        if self.function_name is not None:
            function = load(self.function_name)
        else:
            function = compile_code(self.target)
        return FunctionGrader(
            function,
            name=one_line(self.target, _NAME_CHARACTERS),
            threshold=self.threshold,
            retries=self.retries,
            timeout_s=self.timeout_s,
        )
