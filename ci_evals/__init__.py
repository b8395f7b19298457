"""The merge gate for the behaviour of LLM apps and agents."""

TYPE_CHECKING = False  # `typing` is a third of what `ci-evals --version` would load
if TYPE_CHECKING:
    from ci_evals.api import evaluate, evaluate_sync, load_suite
    from ci_evals.config.tasks import discover_tasks
    from ci_evals.errors import CiEvalsError, ConfigError
    from ci_evals.model import Answer, Content, Request, Response, Result, ToolCall, Usage
    from ci_evals.report import Report

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "CiEvalsError",
    "ConfigError",
    "Content",
    "Report",
    "Request",
    "Response",
    "Result",
    "ToolCall",
    "Usage",
    "__version__",
    "discover_tasks",
    "evaluate",
    "evaluate_sync",
    "load_suite",
]

_HOMES = {
    "discover_tasks": "ci_evals.config.tasks",
    "evaluate": "ci_evals.api",
    "evaluate_sync": "ci_evals.api",
    "load_suite": "ci_evals.api",
    "CiEvalsError": "ci_evals.errors",
    "ConfigError": "ci_evals.errors",
    "Report": "ci_evals.report",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for, so that `ci-evals --version` loads none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "ci_evals.model")), name)
