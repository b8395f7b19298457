"""The merge gate for the behaviour of LLM apps and agents."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ci_evals.api import evaluate, evaluate_sync
    from ci_evals.errors import CiEvalsError, ConfigError
    from ci_evals.model import Answer, Request, Response, Result, ToolCall, Usage
    from ci_evals.report import Report

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "CiEvalsError",
    "ConfigError",
    "Report",
    "Request",
    "Response",
    "Result",
    "ToolCall",
    "Usage",
    "__version__",
    "evaluate",
    "evaluate_sync",
]

_HOMES = {
    "evaluate": "ci_evals.api",
    "evaluate_sync": "ci_evals.api",
    "CiEvalsError": "ci_evals.errors",
    "ConfigError": "ci_evals.errors",
    "Report": "ci_evals.report",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that `ci-evals --version` loads none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "ci_evals.model")), name)
