"""The engine. What few runs need, such as judges and conversations, loads on first use."""

from typing import TYPE_CHECKING

from ci_evals.registry import lazy_attributes

if TYPE_CHECKING:
    from ci_evals.engine.conversation import Conversation as Conversation
    from ci_evals.engine.conversation import SimulatedUsers as SimulatedUsers
    from ci_evals.engine.conversation import user_key as user_key
    from ci_evals.engine.fixtures import Fixtures as Fixtures
    from ci_evals.engine.fixtures import SetupError as SetupError
    from ci_evals.engine.fixtures import fill as fill
    from ci_evals.engine.fixtures import fill_recorded as fill_recorded
    from ci_evals.engine.judges import AuxiliaryProvider as AuxiliaryProvider
    from ci_evals.engine.judges import Judges as Judges
    from ci_evals.engine.progress import show_progress as show_progress
    from ci_evals.engine.stages import Stage as Stage
    from ci_evals.engine.stages import StagedProvider as StagedProvider
    from ci_evals.engine.stages import function_identity as function_identity
    from ci_evals.engine.tool_calls import CallsWithTools as CallsWithTools

__getattr__ = lazy_attributes(
    __name__,
    {
        "AuxiliaryProvider": "ci_evals.engine.judges",
        "CallsWithTools": "ci_evals.engine.tool_calls",
        "Conversation": "ci_evals.engine.conversation",
        "Fixtures": "ci_evals.engine.fixtures",
        "Judges": "ci_evals.engine.judges",
        "SetupError": "ci_evals.engine.fixtures",
        "SimulatedUsers": "ci_evals.engine.conversation",
        "Stage": "ci_evals.engine.stages",
        "StagedProvider": "ci_evals.engine.stages",
        "fill": "ci_evals.engine.fixtures",
        "fill_recorded": "ci_evals.engine.fixtures",
        "function_identity": "ci_evals.engine.stages",
        "show_progress": "ci_evals.engine.progress",
        "user_key": "ci_evals.engine.conversation",
    },
)
