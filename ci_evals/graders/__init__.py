"""The graders as Python classes; each loads when it is first used."""

from typing import TYPE_CHECKING

from ci_evals.registry import GRADERS, lazy_attributes

if TYPE_CHECKING:
    from ci_evals.graders.base import GraderOptions as GraderOptions
    from ci_evals.graders.classify import Classify as Classify
    from ci_evals.graders.composite import AllOf as AllOf
    from ci_evals.graders.composite import AnyOf as AnyOf
    from ci_evals.graders.embeddings import EmbeddingSimilar as EmbeddingSimilar
    from ci_evals.graders.equals import Equals as Equals
    from ci_evals.graders.functions import Not as Not
    from ci_evals.graders.functions import grader as grader
    from ci_evals.graders.javascript import JavaScriptGrader as JavaScriptGrader
    from ci_evals.graders.json import ContainsJson as ContainsJson
    from ci_evals.graders.json import IsJson as IsJson
    from ci_evals.graders.json import JsonPath as JsonPath
    from ci_evals.graders.json_schema import JsonSchema as JsonSchema
    from ci_evals.graders.judge import LlmJudge as LlmJudge
    from ci_evals.graders.limits import Cost as Cost
    from ci_evals.graders.limits import FinishReason as FinishReason
    from ci_evals.graders.limits import GoalReached as GoalReached
    from ci_evals.graders.limits import Latency as Latency
    from ci_evals.graders.limits import Reward as Reward
    from ci_evals.graders.python import PythonGrader as PythonGrader
    from ci_evals.graders.regex import Regex as Regex
    from ci_evals.graders.similar import Similar as Similar
    from ci_evals.graders.skills import SkillUsed as SkillUsed
    from ci_evals.graders.text import Contains as Contains
    from ci_evals.graders.text import ContainsAll as ContainsAll
    from ci_evals.graders.text import ContainsAny as ContainsAny
    from ci_evals.graders.text import EndsWith as EndsWith
    from ci_evals.graders.text import MaxLength as MaxLength
    from ci_evals.graders.text import NotEmpty as NotEmpty
    from ci_evals.graders.text import StartsWith as StartsWith
    from ci_evals.graders.text import WordCount as WordCount
    from ci_evals.graders.tool_arguments import ToolArguments as ToolArguments
    from ci_evals.graders.tools import ToolCallMatch as ToolCallMatch
    from ci_evals.graders.trajectory import MaxModelRequests as MaxModelRequests
    from ci_evals.graders.trajectory import MaxSteps as MaxSteps
    from ci_evals.graders.trajectory import MaxToolCalls as MaxToolCalls
    from ci_evals.graders.trajectory import NoToolErrors as NoToolErrors
    from ci_evals.graders.trajectory import Trajectory as Trajectory

_MODULES = {
    "GraderOptions": "ci_evals.graders.base",
    "Not": "ci_evals.graders.functions",
    "grader": "ci_evals.graders.functions",
    **GRADERS.own_modules(),
}

__all__ = ["GRADERS", *_MODULES]  # noqa: PLE0604  they are names
__getattr__ = lazy_attributes(__name__, _MODULES)
