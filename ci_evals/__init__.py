"""The merge gate for the behaviour of LLM apps and agents."""

TYPE_CHECKING = False  # `typing` is a third of what `ci-evals --version` would load
if TYPE_CHECKING:
    from ci_evals.api import evaluate, evaluate_events, evaluate_sync, load_suite
    from ci_evals.config.code import Case
    from ci_evals.config.tasks import discover_tasks
    from ci_evals.errors import CiEvalsError, ConfigError, ProviderError
    from ci_evals.graders.function import Not, grader
    from ci_evals.library.events import EvalCompleted, EvalStarted, RunFinished
    from ci_evals.library.report import Report
    from ci_evals.library.suite import Suite
    from ci_evals.model import Answer, Finding, Request, Result
    from ci_evals.providers.function import provider
    from ci_evals.response import Content, Response, ToolCall, Usage
    from ci_evals.rules import Budget, Gate

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Budget",
    "Case",
    "CiEvalsError",
    "ConfigError",
    "Content",
    "EvalCompleted",
    "EvalStarted",
    "Finding",
    "Gate",
    "Not",
    "ProviderError",
    "Report",
    "Request",
    "Response",
    "Result",
    "RunFinished",
    "Suite",
    "ToolCall",
    "Usage",
    "__version__",
    "discover_tasks",
    "evaluate",
    "evaluate_events",
    "evaluate_sync",
    "grader",
    "load_suite",
    "provider",
]

_HOMES = {
    "Budget": "ci_evals.rules",
    "Case": "ci_evals.config.code",
    "discover_tasks": "ci_evals.config.tasks",
    "CiEvalsError": "ci_evals.errors",
    "ConfigError": "ci_evals.errors",
    "Content": "ci_evals.response",
    "EvalCompleted": "ci_evals.library.events",
    "EvalStarted": "ci_evals.library.events",
    "Gate": "ci_evals.rules",
    "Not": "ci_evals.graders.function",
    "ProviderError": "ci_evals.errors",
    "Report": "ci_evals.library.report",
    "Response": "ci_evals.response",
    "RunFinished": "ci_evals.library.events",
    "Suite": "ci_evals.library.suite",
    "ToolCall": "ci_evals.response",
    "Usage": "ci_evals.response",
    "evaluate": "ci_evals.api",
    "evaluate_events": "ci_evals.api",
    "evaluate_sync": "ci_evals.api",
    "grader": "ci_evals.graders.function",
    "load_suite": "ci_evals.api",
    "provider": "ci_evals.providers.function",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for, so that `ci-evals --version` loads none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "ci_evals.model")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
