"""The merge gate for the behaviour of LLM apps and agents."""

from ci_evals.api import (
    EvalCompleted,
    EvalStarted,
    RunFinished,
    check_suite,
    evaluate,
    evaluate_events,
    evaluate_sync,
    load_suite,
)
from ci_evals.errors import CiEvalsError, ConfigError, ProviderError
from ci_evals.graders.code import Not, grader
from ci_evals.library import Report
from ci_evals.model.case import (
    Answer,
    Case,
    CaseOverrides,
    Finding,
    Request,
    SimulatedUser,
    UserTurn,
)
from ci_evals.model.response import Content, Message, Part, Passage, Response, ToolCall, Usage
from ci_evals.model.result import Result
from ci_evals.model.rules import Budget, Gate
from ci_evals.providers.python import provider
from ci_evals.release import __version__
from ci_evals.suite.tasks import discover_tasks
from ci_evals.suite.types import CheckedSuite, Suite

__all__ = [
    "Answer",
    "Budget",
    "Case",
    "CaseOverrides",
    "CheckedSuite",
    "CiEvalsError",
    "ConfigError",
    "Content",
    "EvalCompleted",
    "EvalStarted",
    "Finding",
    "Gate",
    "Message",
    "Not",
    "Part",
    "Passage",
    "ProviderError",
    "Report",
    "Request",
    "Response",
    "Result",
    "RunFinished",
    "SimulatedUser",
    "Suite",
    "ToolCall",
    "Usage",
    "UserTurn",
    "__version__",
    "check_suite",
    "discover_tasks",
    "evaluate",
    "evaluate_events",
    "evaluate_sync",
    "grader",
    "load_suite",
    "provider",
]
