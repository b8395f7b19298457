"""The merge gate for the behaviour of LLM apps and agents."""

from typing import TYPE_CHECKING

from ci_evals.registry import FUNCTIONS, is_installed, lazy_attributes

if TYPE_CHECKING:  # for editors and type checkers; at run time, names load when they are used
    from ci_evals.api import EvalCompleted as EvalCompleted
    from ci_evals.api import EvalStarted as EvalStarted
    from ci_evals.api import RunFinished as RunFinished
    from ci_evals.api import check_suite as check_suite
    from ci_evals.api import evaluate as evaluate
    from ci_evals.api import evaluate_events as evaluate_events
    from ci_evals.api import evaluate_sync as evaluate_sync
    from ci_evals.api import load_suite as load_suite
    from ci_evals.errors import CiEvalsError as CiEvalsError
    from ci_evals.errors import ConfigError as ConfigError
    from ci_evals.errors import ProviderError as ProviderError
    from ci_evals.graders.functions import Not as Not
    from ci_evals.graders.functions import grader as grader
    from ci_evals.library import Report as Report
    from ci_evals.model.case import Case as Case
    from ci_evals.model.case import CaseOverrides as CaseOverrides
    from ci_evals.model.case import Fixture as Fixture
    from ci_evals.model.case import SimulatedUser as SimulatedUser
    from ci_evals.model.case import UserTurn as UserTurn
    from ci_evals.model.grading import Finding as Finding
    from ci_evals.model.request import Answer as Answer
    from ci_evals.model.request import FixtureRequest as FixtureRequest
    from ci_evals.model.request import Request as Request
    from ci_evals.model.response import Content as Content
    from ci_evals.model.response import Message as Message
    from ci_evals.model.response import Part as Part
    from ci_evals.model.response import Passage as Passage
    from ci_evals.model.response import Response as Response
    from ci_evals.model.response import ToolCall as ToolCall
    from ci_evals.model.response import Usage as Usage
    from ci_evals.model.result import Result as Result
    from ci_evals.model.rules import Budget as Budget
    from ci_evals.model.rules import Gate as Gate
    from ci_evals.providers.python import provider as provider
    from ci_evals.release import __version__ as __version__
    from ci_evals.suite.types import CheckedSuite as CheckedSuite
    from ci_evals.suite.types import Suite as Suite

_MODULES = {
    "__version__": "ci_evals.release",
    "Answer": "ci_evals.model.request",
    "Budget": "ci_evals.model.rules",
    "Case": "ci_evals.model.case",
    "CaseOverrides": "ci_evals.model.case",
    "CheckedSuite": "ci_evals.suite.types",
    "CiEvalsError": "ci_evals.errors",
    "ConfigError": "ci_evals.errors",
    "Content": "ci_evals.model.response",
    "EvalCompleted": "ci_evals.api",
    "EvalStarted": "ci_evals.api",
    "Finding": "ci_evals.model.grading",
    "Fixture": "ci_evals.model.case",
    "FixtureRequest": "ci_evals.model.request",
    "Gate": "ci_evals.model.rules",
    "Message": "ci_evals.model.response",
    "Not": "ci_evals.graders.functions",
    "Part": "ci_evals.model.response",
    "Passage": "ci_evals.model.response",
    "ProviderError": "ci_evals.errors",
    "Report": "ci_evals.library",
    "Request": "ci_evals.model.request",
    "Response": "ci_evals.model.response",
    "Result": "ci_evals.model.result",
    "RunFinished": "ci_evals.api",
    "SimulatedUser": "ci_evals.model.case",
    "Suite": "ci_evals.suite.types",
    "ToolCall": "ci_evals.model.response",
    "Usage": "ci_evals.model.response",
    "UserTurn": "ci_evals.model.case",
    "check_suite": "ci_evals.api",
    "evaluate": "ci_evals.api",
    "evaluate_events": "ci_evals.api",
    "evaluate_sync": "ci_evals.api",
    "grader": "ci_evals.graders.functions",
    "load_suite": "ci_evals.api",
    "provider": "ci_evals.providers.python",
}

_PLUGINS = {name: module for name, module in FUNCTIONS.items() if is_installed(module)}

__all__ = [*_MODULES, *_PLUGINS]  # noqa: PLE0604  they are names
__getattr__ = lazy_attributes(__name__, {**_MODULES, **_PLUGINS})
