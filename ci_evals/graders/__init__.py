"""What judges an answer: every grader by its name in the YAML. Each is imported when it is first asked for."""

from typing import TYPE_CHECKING

from ci_evals.graders.base import GraderOptions
from ci_evals.late import Late

if TYPE_CHECKING:
    from ci_evals.graders.affixes import EndsWith, StartsWith
    from ci_evals.graders.classify import Classify
    from ci_evals.graders.contains import Contains, ContainsAll, ContainsAny, IContains
    from ci_evals.graders.cost import Cost
    from ci_evals.graders.embedding_similar import EmbeddingSimilar
    from ci_evals.graders.equals import Equals
    from ci_evals.graders.function import Not, grader
    from ci_evals.graders.goal_reached import GoalReached
    from ci_evals.graders.is_json import IsJson
    from ci_evals.graders.json_path import JsonPath
    from ci_evals.graders.json_schema import JsonSchema
    from ci_evals.graders.latency import Latency
    from ci_evals.graders.llm_judge import LlmJudge
    from ci_evals.graders.max_length import MaxLength
    from ci_evals.graders.not_empty import NotEmpty
    from ci_evals.graders.python import Python
    from ci_evals.graders.regex import Regex
    from ci_evals.graders.reward import Reward
    from ci_evals.graders.similar import Similar
    from ci_evals.graders.steps import MaxModelRequests, MaxSteps, MaxToolCalls, NoToolErrors
    from ci_evals.graders.tool_arguments import ToolArguments
    from ci_evals.graders.tool_call import ToolCallMatch
    from ci_evals.graders.trajectory import Trajectory

__all__ = [
    "GRADERS",
    "Classify",
    "Contains",
    "ContainsAll",
    "ContainsAny",
    "Cost",
    "EmbeddingSimilar",
    "EndsWith",
    "Equals",
    "GoalReached",
    "GraderOptions",
    "IContains",
    "IsJson",
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
    "Python",
    "Regex",
    "Reward",
    "Similar",
    "StartsWith",
    "ToolArguments",
    "ToolCallMatch",
    "Trajectory",
    "grader",
]

GRADERS: Late[type[GraderOptions]] = Late(
    __name__,
    {
        "equals": "equals:Equals",
        "contains": "contains:Contains",
        "icontains": "contains:IContains",
        "contains_all": "contains:ContainsAll",
        "contains_any": "contains:ContainsAny",
        "starts_with": "affixes:StartsWith",
        "ends_with": "affixes:EndsWith",
        "regex": "regex:Regex",
        "is_json": "is_json:IsJson",
        "json_schema": "json_schema:JsonSchema",
        "json_path": "json_path:JsonPath",
        "similar": "similar:Similar",
        "max_length": "max_length:MaxLength",
        "not_empty": "not_empty:NotEmpty",
        "latency": "latency:Latency",
        "cost": "cost:Cost",
        "tool_call": "tool_call:ToolCallMatch",
        "tool_arguments": "tool_arguments:ToolArguments",
        "trajectory": "trajectory:Trajectory",
        "no_tool_errors": "steps:NoToolErrors",
        "max_tool_calls": "steps:MaxToolCalls",
        "max_steps": "steps:MaxSteps",
        "max_model_requests": "steps:MaxModelRequests",
        "classify": "classify:Classify",
        "judge": "llm_judge:LlmJudge",
        "embedding_similar": "embedding_similar:EmbeddingSimilar",
        "python": "python:Python",
        "reward": "reward:Reward",
        "goal_reached": "goal_reached:GoalReached",
    },
)

if not TYPE_CHECKING:  # which knows what is imported above, and that there is nothing else
    __getattr__, __dir__ = GRADERS.exported("function:Not", "function:grader")
