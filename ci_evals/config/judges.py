"""Which models graders ask: whether those that they name are there."""

from collections.abc import Iterable, Sequence

from ci_evals.config.decode import unknown
from ci_evals.errors import Place
from ci_evals.graders.asking import AskingOptions
from ci_evals.graders.turn import asker
from ci_evals.model import Case
from ci_evals.providers.base import ProviderOptions


def askers(cases: Iterable[Case]) -> list[tuple[AskingOptions, Place]]:
    """A grader for each way of naming a model, with the place of the first one."""
    found: dict[tuple[str | None, bool], tuple[AskingOptions, Place]] = {}
    for case in cases:
        for expectation in case.expect:
            if (grader := asker(expectation.grader)) is not None:
                place = expectation.place or Place(case.file, case.line, "expect")
                found.setdefault((grader.provider, grader.embeds), (grader, place))
    return list(found.values())


def unanswerable(
    grader: AskingOptions, judges: Sequence[ProviderOptions], models: Sequence[ProviderOptions]
) -> str | None:
    """Why a grader has no model to ask, or None.

    Args:
        grader: what asks.
        judges: the models among which the only one need not be named.
        models: all that may be named.
    """
    kind = "an `embeddings` model" if grader.embeds else "a model that answers with text"
    if grader.provider is None:
        fitting = [str(judge.name) for judge in judges if judge.embeds == grader.embeds]
        if len(fitting) == 1:
            return None
        if fitting:
            return f"name one of the judges with `provider`: {', '.join(fitting)}"
        return f"needs {kind}: add one to `judges`, or name one of the providers with `provider`"
    named = next((model for model in models if model.name == grader.provider), None)
    if named is None:
        return unknown("judge", grader.provider, [str(model.name) for model in models])
    return None if named.embeds == grader.embeds else f"needs {kind}, and {grader.provider} is none"
