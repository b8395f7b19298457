"""`javascript`: the suite's own code judges the answer, in the machine's Node.js."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from ci_evals.errors import GradingError
from ci_evals.format import abridge, one_line, quote
from ci_evals.graders.base import (
    MAX_STACK_CHARACTERS,
    REASON_CHARACTERS,
    GraderOptions,
    ended_by,
    inconclusive,
    thrown_by,
)
from ci_evals.graders.functions import FunctionGrader
from ci_evals.graders.inline import context_of
from ci_evals.javascript import (
    JavaScriptError,
    current_node,
    file_problem,
    sandboxed_file_problem,
    split_file,
    syntax_problem,
)
from ci_evals.model.fields import Bool, NonEmpty, Seconds, Share
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer
from ci_evals.user_code.targets import CodeSource
from ci_evals.workers import WorkerEndedError, WorkerStartError

_NAME_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class JavaScriptGrader(GraderOptions):
    """JavaScript judges the answer: an expression over `output` and `context`, lines that return
    something, or a file.

    It returns a boolean, a score from 0 to 1, `{pass, score, reason}`, or the reason of a failure
    as text. A file exports a function of the output and the context, with `module.exports` or
    `export default`.

    Args:
        code: the expression, or the lines.
        file: a JavaScript or TypeScript file instead; `file.mjs:name` is one of its functions.
        config: `context.config` of the code.
        threshold: the lowest score that passes; 1 when left out.
        timeout_s: seconds that one call may take; the run's own time-out when left out.
        sandbox: let the code only read the suite's folder and its packages, not write files, start
            programs or read environment variables. False gives it all rights of the job.
    """

    short: ClassVar[str] = "code"
    has_dependency: ClassVar[bool] = True

    code: NonEmpty | None = None
    file: NonEmpty | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    threshold: Share | None = None
    timeout_s: Seconds | None = None
    sandbox: Bool = True

    def problems(self) -> list[str]:
        if (self.code is None) == (self.file is None):
            return ["give either code, as in `javascript: output.length < 200`, or a `file`"]
        if self.code is None:
            return []
        path = self.code.removeprefix("file://").strip()
        if path != self.code.strip() or split_file(path):
            return [f"to run a file, write `javascript: {{file: {one_line(path)}}}`"]
        return []

    @property
    def own_source(self) -> CodeSource | None:
        if self.file is not None:
            return CodeSource("script", self._source["file"])
        return CodeSource("javascript", self.code)

    def missing(self, folder: Path) -> str | None:
        if self.file is not None:
            if self.sandbox:
                return sandboxed_file_problem(self.file, folder)
            return file_problem(self.file, folder)
        code = self.code or ""
        problem = syntax_problem(code)
        if problem is None:
            return None
        return f"expected JavaScript, got {quote(code)}: {problem}"

    def prepare(self) -> None:
        current_node().check_grader(sandbox=self.sandbox, **self._source)

    def for_fingerprint(self) -> Self:
        # Neither changes the verdict of code that runs to its end.
        return replace(self, timeout_s=None, sandbox=True)

    @property
    def _source(self) -> Mapping[str, str]:
        if self.file is not None:
            return split_file(self.file) or {}
        return {"code": self.code or ""}

    @property
    def label(self) -> str:
        return one_line(self.code or self.file or "", _NAME_CHARACTERS)

    async def grade(self, answer: Answer) -> Finding:
        judge = _JavaScriptFunction(self)
        try:
            return await judge.grade(answer)
        except JavaScriptError as error:
            if error.denied:
                hint = "`sandbox: false` gives the code all rights of the job"
                stack = abridge(str(error), MAX_STACK_CHARACTERS)
                text = one_line(stack.partition("\n")[0], REASON_CHARACTERS)
                raise GradingError(
                    f"the sandbox forbids it; {hint}: {text}", detail=stack
                ) from error
            return thrown_by(error)
        except WorkerStartError as error:
            raise GradingError(str(error)) from error
        except WorkerEndedError as error:
            return ended_by(error)

    async def run(self, answer: Answer, timeout_s: float) -> Any:
        """Run the code, and return its judgement in the form of a Python function's."""
        context = {**context_of(answer), "config": dict(self.config)}
        judged = await current_node().grade(
            sandbox=self.sandbox,
            timeout_s=timeout_s,
            output=answer.output,
            context=context,
            **self._source,
        )
        if judged is None:
            expected = "`return` a boolean, a score from 0 to 1, or {pass, score, reason}"
            return inconclusive(f"{self.label} returned nothing: {expected}")
        if isinstance(judged, bool):
            return Finding(judged, float(judged), f"{self.label} returned {str(judged).lower()}")
        if isinstance(judged, dict):  # assertions of other tools return more
            known = ("pass", "passed", "score", "reason")
            return {key: judged[key] for key in known if key in judged}
        return judged


class _JavaScriptFunction(FunctionGrader):
    """The code as a function whose time limit is enforced by its process."""

    def __init__(self, options: JavaScriptGrader) -> None:
        super().__init__(
            options.run,
            name=options.label,
            threshold=options.threshold,
            timeout_s=options.timeout_s,
        )

    async def _judge_within(self, timeout_s: float, answer: Answer) -> Finding:
        return self._finding_of(await self.function(answer, timeout_s))
