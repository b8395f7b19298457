"""Fingerprints: they identify what is asked, of whom, and how the answer is judged."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci_evals.graders.scoring import identity, model_graders
from ci_evals.model.case import NO_OVERRIDES, Case, CaseOverrides
from ci_evals.model.fields import Secret
from ci_evals.model.fingerprint import digest, encode
from ci_evals.providers.base import ProviderOptions
from ci_evals.suite.rendering import Rendered

_UNSEEN = frozenset(
    {"token", *(field.name for field in dataclasses.fields(ProviderOptions))}
)  # change no answer
_MAY_HOLD_SECRETS = frozenset(
    {"headers", "env"}
)  # of these only the names take part: values differ without meaning


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """The fingerprints of a suite and of its cases.

    Args:
        suite: that of the suite.
        judgements: how the answers to each case are judged, by row.
        cases: `asked.judged` of each case, by row, whatever the case is called.
    """

    suite: str
    judgements: Sequence[str]
    cases: Sequence[str]


def identify(
    settings: Sequence[Any],
    providers: Iterable[ProviderOptions],
    judges: Sequence[ProviderOptions],
    grader_models: Iterable[ProviderOptions],
    cases: Iterable[Case],
) -> Fingerprints:
    """Fingerprint a suite and its cases.

    Args:
        settings: what else decides what is asked: prompts, and how often.
        providers: whom the suite asks.
        judges: models that only graders ask.
        grader_models: all models that graders ask, providers that they name included.
        cases: the cases.
    """
    identities: dict[str | None, Any] = {None: [provider_identity(each) for each in judges]}
    identities |= {str(each.name): provider_identity(each) for each in grader_models}
    judgements, prints, whole = [], [], []
    for case in cases:
        question, judgement = _question(case), digest(_judgement(case, identities))
        judgements.append(judgement[:16])
        prints.append(f"{digest(question[1:])[:16]}.{judgement[:16]}")
        whole.append(digest([question, judgement, case.runs]))
    suite = digest([settings, [provider_identity(each) for each in providers], whole])
    return Fingerprints(suite, judgements, prints)


def provider_identity(options: ProviderOptions) -> str:
    """Return what decides a provider's answers, as JSON: its settings but for keys, pace, price and
    patience.
    """
    settings = {
        field.name: sorted(value) if field.name in _MAY_HOLD_SECRETS else value
        for field in dataclasses.fields(options)
        if field.name not in _UNSEEN
        and not isinstance(value := getattr(options, field.name), Secret)
    }
    stages = [[options.before, options.after]] if options.before or options.after else []
    return encode([options.name, options.kind, settings, *stages])


def apply_case_overrides(options: ProviderOptions, overrides: CaseOverrides) -> ProviderOptions:
    """Return a provider's settings for a case: those that the case overrides and the provider has
    are the case's.
    """
    names = {field.name for field in dataclasses.fields(options)}
    changes: dict[str, Any] = {}
    if overrides.model is not None and "model" in names:
        changes["model"] = overrides.model
    if overrides.params and "params" in names:
        changes["params"] = {**getattr(options, "params"), **overrides.params}  # noqa: B009  not every provider has them
    return dataclasses.replace(options, **changes) if changes else options


def question_fingerprint(case: Case, rendered: Rendered, identity: str) -> str:
    """Return what identifies a question to a provider: the rendered input and the provider's
    settings.
    """
    return digest([_question(case), rendered.input, rendered.messages, identity])


def _question(case: Case) -> list[Any]:
    asked = [case.id, case.input, case.vars, case.messages, case.metadata]
    if case.task:
        asked.append(case.task.digest)
    if case.turns:
        asked.append([turn.user for turn in case.turns])
    if user := case.user:
        asked.append([provider_identity(user.provider), user.persona, user.goal, user.max_turns])
    if case.overrides != NO_OVERRIDES:  # of which the time that a call may take changes no answer
        recorded = case.recording.digest if case.recording else None
        asked.append(
            {"model": case.overrides.model, "params": case.overrides.params, "recorded": recorded}
        )
    return asked


def _judgement(case: Case, judges: Mapping[str | None, Any]) -> list[Any]:
    by = [judges.get(grader.provider) for grader in model_graders(case.expect)]
    return [
        case.threshold,
        [identity(each) for each in case.expect],
        *([by] if by else []),
    ]
