"""The graders, by their names in the YAML."""

from ci_evals.graders.base import GraderOptions
from ci_evals.graders.classify import Classify
from ci_evals.graders.code import Not, PythonGrader, grader
from ci_evals.graders.composite import AllOf, AnyOf
from ci_evals.graders.embeddings import EmbeddingSimilar
from ci_evals.graders.javascript import JavaScriptGrader
from ci_evals.graders.json import ContainsJson, IsJson, JsonPath, JsonSchema
from ci_evals.graders.judge import LlmJudge
from ci_evals.graders.limits import Cost, FinishReason, GoalReached, Latency, Reward
from ci_evals.graders.text import (
    Contains,
    ContainsAll,
    ContainsAny,
    EndsWith,
    Equals,
    IContains,
    MaxLength,
    NotEmpty,
    Regex,
    Similar,
    StartsWith,
    WordCount,
)
from ci_evals.graders.tools import ToolArguments, ToolCallMatch
from ci_evals.graders.trajectory import (
    MaxModelRequests,
    MaxSteps,
    MaxToolCalls,
    NoToolErrors,
    Trajectory,
)

__all__ = [
    "GRADERS",
    "AllOf",
    "AnyOf",
    "Classify",
    "Contains",
    "ContainsAll",
    "ContainsAny",
    "ContainsJson",
    "Cost",
    "EmbeddingSimilar",
    "EndsWith",
    "Equals",
    "FinishReason",
    "GoalReached",
    "GraderOptions",
    "IContains",
    "IsJson",
    "JavaScriptGrader",
    "JsonPath",
    "JsonSchema",
    "Latency",
    "LlmJudge",
    "MaxLength",
    "MaxModelRequests",
    "MaxSteps",
    "MaxToolCalls",
    "NoToolErrors",
    "Not",
    "NotEmpty",
    "PythonGrader",
    "Regex",
    "Reward",
    "Similar",
    "StartsWith",
    "ToolArguments",
    "ToolCallMatch",
    "Trajectory",
    "WordCount",
    "grader",
]

GRADERS: dict[str, type[GraderOptions]] = {
    "equals": Equals,
    "contains": Contains,
    "icontains": IContains,
    "contains_all": ContainsAll,
    "contains_any": ContainsAny,
    "starts_with": StartsWith,
    "ends_with": EndsWith,
    "regex": Regex,
    "is_json": IsJson,
    "contains_json": ContainsJson,
    "json_schema": JsonSchema,
    "json_path": JsonPath,
    "similar": Similar,
    "max_length": MaxLength,
    "word_count": WordCount,
    "not_empty": NotEmpty,
    "latency": Latency,
    "cost": Cost,
    "finish_reason": FinishReason,
    "tool_call": ToolCallMatch,
    "tool_arguments": ToolArguments,
    "trajectory": Trajectory,
    "no_tool_errors": NoToolErrors,
    "max_tool_calls": MaxToolCalls,
    "max_steps": MaxSteps,
    "max_model_requests": MaxModelRequests,
    "classify": Classify,
    "judge": LlmJudge,
    "embedding_similar": EmbeddingSimilar,
    "python": PythonGrader,
    "javascript": JavaScriptGrader,
    "any_of": AnyOf,
    "all_of": AllOf,
    "reward": Reward,
    "goal_reached": GoalReached,
}
