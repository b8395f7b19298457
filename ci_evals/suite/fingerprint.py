"""Fingerprints: they identify what is asked, of whom, and how the answer is judged."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci_evals.graders.scoring import identity, model_graders
from ci_evals.model.case import NO_OVERRIDES, Case, CaseOverrides, Fixture
from ci_evals.model.fields import Secret
from ci_evals.model.fingerprint import digest, encode
from ci_evals.providers.base import McpServer, ProviderOptions
from ci_evals.suite.rendering import Rendered
from ci_evals.user_code.targets import identity as identity_of
from ci_evals.user_code.targets import identity as identity_of_target

# Settings that change no answer, or that take part below.
_CREDENTIALS = ("profile", "project", "token")
_TOOLS = ("tools", "max_steps")
_OF_ALL = [field.name for field in dataclasses.fields(ProviderOptions)]
_UNSEEN = frozenset({*_CREDENTIALS, *_TOOLS, *_OF_ALL})
# Only the names of these take part: their values may be secrets, which differ without meaning.
_MAY_HOLD_SECRETS = frozenset({"headers", "env"})


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """The fingerprints of a suite and of its cases.

    Args:
        suite: the suite's own.
        judgements: how the answers to each case are judged, by row.
        cases: `asked.judged` of each case, by row, independent of its name.
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
    identities: dict[str | None, Any] = {None: [provider_identity(judge) for judge in judges]}
    for model in grader_models:
        identities[str(model.name)] = provider_identity(model)
    judgements = []
    prints = []
    whole = []
    for case in cases:
        question = _question(case)
        judgement = digest(_judgement(case, identities))
        short_judgement = judgement[:16]
        short_question = digest(question[1:])[:16]  # without the id
        judgements.append(short_judgement)
        prints.append(f"{short_question}.{short_judgement}")
        whole.append(digest([question, judgement, case.runs]))
    suite = digest([settings, [provider_identity(each) for each in providers], whole])
    return Fingerprints(suite, judgements, prints)


def provider_identity(options: ProviderOptions) -> str:
    """Return what decides a provider's answers, as JSON.

    Its keys, rate limits, prices and time-outs take no part.
    """
    settings: dict[str, Any] = {}
    for field in dataclasses.fields(options):
        if field.name in _UNSEEN:
            continue
        value = getattr(options, field.name)
        if isinstance(value, Secret):
            continue
        if field.name in _MAY_HOLD_SECRETS:
            value = sorted(value)
        settings[field.name] = value
    identity: list[Any] = [options.name, options.kind, settings]
    if options.before or options.after:
        identity.append([options.before, options.after])
    if tools := getattr(options, "tools", ()):
        identity.append([[_tool_identity(tool) for tool in tools], getattr(options, "max_steps")])  # noqa: B009  whoever has tools has it
    if options.setup:
        identity.append({"setup": setup_identity(options.setup)})
    return encode(identity)


def _tool_identity(tool: Any) -> Any:
    if isinstance(tool, str):
        return tool
    if not isinstance(tool, McpServer):
        return identity_of(tool)
    return [tool.mcp, tool.cwd, tool.only, sorted(tool.env), sorted(tool.headers)]


def setup_identity(setup: Iterable[Fixture]) -> list[Any]:
    """Return what decides what fixtures set up: how each is made and shared, and not its values."""
    identities = []
    for fixture in setup:
        target = fixture.python
        if target is not None and not isinstance(target, str):
            target = identity_of_target(target)
        identities.append([target, fixture.command, fixture.teardown, fixture.scope])
    return identities


def apply_case_overrides(options: ProviderOptions, overrides: CaseOverrides) -> ProviderOptions:
    """Return a provider's settings with those that a case overrides, if the provider has them."""
    if overrides == NO_OVERRIDES:
        return options
    names = {field.name for field in dataclasses.fields(options)}
    changes: dict[str, Any] = {}
    if overrides.model is not None and "model" in names:
        changes["model"] = overrides.model
    if overrides.params and "params" in names:
        changes["params"] = {**getattr(options, "params"), **overrides.params}  # noqa: B009  not every provider has them
    if not changes:
        return options
    return dataclasses.replace(options, **changes)


def question_fingerprint(case: Case, rendered: Rendered, identity: str) -> str:
    """Return what identifies a question to a provider with the given identity."""
    return digest([_question(case), rendered.input, rendered.messages, identity])


def _question(case: Case) -> list[Any]:
    asked = [case.id, case.input, case.vars, case.messages, case.metadata]
    if case.task:
        asked.append(case.task.digest)
    if case.turns:
        asked.append([turn.user for turn in case.turns])
    user = case.user
    if user is not None:
        asked.append([provider_identity(user.provider), user.persona, user.goal, user.max_turns])
    overrides = case.overrides
    if overrides != NO_OVERRIDES:
        recorded = None
        if case.recording is not None:
            recorded = case.recording.digest
        # The time-out takes no part: it changes no answer.
        asked.append({"model": overrides.model, "params": overrides.params, "recorded": recorded})
    if case.setup:
        asked.append({"setup": setup_identity(case.setup)})
    return asked


def _judgement(case: Case, judges: Mapping[str | None, Any]) -> list[Any]:
    judgement: list[Any] = [case.threshold, [identity(expectation) for expectation in case.expect]]
    models = [judges.get(grader.provider) for grader in model_graders(case.expect)]
    if models:
        judgement.append(models)
    return judgement
