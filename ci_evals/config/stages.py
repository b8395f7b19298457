"""`before` and `after` of providers: each a provider of the suite, or a function."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ci_evals.config.decode import unknown
from ci_evals.errors import Place, Problem
from ci_evals.providers.base import ProviderOptions


def stage_options(
    providers: Sequence[ProviderOptions], known: Mapping[str, ProviderOptions]
) -> Mapping[str, ProviderOptions]:
    """What answers for each stage that the providers name; `known` are the suite's providers, selected or not."""
    names = dict.fromkeys(name for each in providers for name in (*each.before, *each.after))
    if not names:
        return {}
    from ci_evals.providers.python import Python

    plain = {name: msgspec.structs.replace(options, before=(), after=()) for name, options in known.items()}
    return {name: plain.get(name) or Python(name=name, target=name) for name in names}


def stage_problems(
    stages: Mapping[str, ProviderOptions], providers: Sequence[str], places: Mapping[str, Place], folder: Path
) -> Iterator[Problem]:
    """Stages that are neither a provider nor a function that can be there; `providers` are the names of all."""
    for name, stage in stages.items():
        if getattr(stage, "target", None) != name:
            continue
        if ":" in name:
            yield from (Problem(*places[name], message) for message in stage.problems(folder))
        else:
            text = unknown("provider", name, providers)
            yield Problem(*places[name], f"{text}; or name a function, as in speech:synthesize")
