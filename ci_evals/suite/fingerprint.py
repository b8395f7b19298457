"""Fingerprints of a question, the provider that is asked, and the way the answer is judged."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_evals.graders.scoring import identity, model_graders, own_sources
from ci_evals.model.case import NO_OVERRIDES, Case, CaseOverrides, Fixture
from ci_evals.model.fields import Secret
from ci_evals.model.fingerprint import digest, encode
from ci_evals.model.grading import Expectation
from ci_evals.providers.base import McpServer, ProviderOptions
from ci_evals.suite.rendering import Rendered
from ci_evals.user_code.folders import CodeFolders
from ci_evals.user_code.targets import CodeSource
from ci_evals.user_code.targets import identity as identity_of_target

if TYPE_CHECKING:
    from ci_evals.user_code.sources import SourceDigests

# Settings that change no answer, or that `provider_identity` adds itself.
_CREDENTIALS = ("profile", "project", "token")
_TOOLS = ("tools", "max_steps")
_OF_ALL = [field.name for field in dataclasses.fields(ProviderOptions)]
_UNSEEN = frozenset({*_CREDENTIALS, *_TOOLS, *_OF_ALL})
# Only the names of these take part: their values may be secrets, which change without effect on
# answers, and a fingerprint is public.
_MAY_HOLD_SECRETS = frozenset({"headers", "env"})


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """The fingerprints of a suite and of its cases.

    Args:
        suite: the suite's own.
        judgements: by row, of the way that answers to a case are judged.
        cases: by row, `question.judgement` of a case, independent of its id.
    """

    suite: str
    judgements: Sequence[str]
    cases: Sequence[str]


class OwnCode:
    """The team's own code as a part of fingerprints; without any, none is read.

    Args:
        folder: the suite's folder.
        folders: the other folders of its code.
    """

    def __init__(self, folder: Path, folders: CodeFolders) -> None:
        self._folder = folder
        self._folders = folders
        self._digests: SourceDigests | None = None

    def identity(self, sources: Iterable[CodeSource]) -> list[str]:
        """Return a digest of each source, and of what it imports from the repository."""
        identities = []
        for source in sources:
            if self._digests is None:
                from ci_evals.user_code.sources import SourceDigests

                self._digests = SourceDigests(self._folder, self._folders)
            digest = self._digests.digest(source)
            if digest is not None:
                identities.append(digest)
        return identities

    @property
    def files(self) -> Mapping[str, str]:
        """The digests of the files of the code that was identified, by their paths."""
        return {} if self._digests is None else self._digests.files


def identify(
    settings: Sequence[Any],
    providers: Iterable[ProviderOptions],
    judges: Sequence[ProviderOptions],
    grader_models: Iterable[ProviderOptions],
    cases: Iterable[Case],
    own_code: OwnCode,
) -> Fingerprints:
    """Fingerprint a suite and its cases.

    Args:
        settings: further settings that decide what is asked: prompts, and how often.
        providers: the providers.
        judges: models that only graders use.
        grader_models: all models that graders use, including providers that they name.
        cases: the cases.
        own_code: the code of graders, transforms and judges.
    """
    identities = _model_identities(judges, grader_models, own_code)
    judgements = []
    prints = []
    identified_cases = []
    for case in cases:
        question = _question(case)
        judgement = digest(_judgement(case.threshold, case.expect, identities, own_code))
        short_judgement = judgement[:16]
        # Without the id, so that a renamed case is recognized.
        short_question = digest(question[1:])[:16]
        judgements.append(short_judgement)
        prints.append(f"{short_question}.{short_judgement}")
        identified_cases.append(digest([question, judgement, case.runs]))
    identified_providers = [provider_identity(options) for options in providers]
    suite = digest([settings, identified_providers, identified_cases])
    return Fingerprints(suite, judgements, prints)


def check_fingerprints(
    expectations: Iterable[Expectation],
    judges: Sequence[ProviderOptions],
    grader_models: Iterable[ProviderOptions],
    own_code: OwnCode,
) -> tuple[str, ...]:
    """Return the fingerprint of each expectation by itself; see `identify`."""
    identities = _model_identities(judges, grader_models, own_code)
    prints = [digest(_judgement(None, [each], identities, own_code)) for each in expectations]
    return tuple(prints)


def _model_identities(
    judges: Sequence[ProviderOptions], grader_models: Iterable[ProviderOptions], own_code: OwnCode
) -> Mapping[str | None, Any]:
    """Return what identifies each model that graders use, by its name; the judges have none."""
    identities: dict[str | None, Any] = {
        None: [_model_identity(judge, own_code) for judge in judges]
    }
    for model in grader_models:
        identities[str(model.name)] = _model_identity(model, own_code)
    return identities


def provider_identity(options: ProviderOptions) -> str:
    """Return the settings that decide a provider's answers, as JSON.

    Keys, rate limits, prices and time-outs take no part.
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
    # Each part joins only if it is set: fingerprints of suites without it stay as they are.
    if options.before or options.after:
        identity.append([options.before, options.after])
    if tools := getattr(options, "tools", ()):
        identity.append([[_tool_identity(tool) for tool in tools], getattr(options, "max_steps")])  # noqa: B009  whoever has tools has it
    if options.setup:
        identity.append({"setup": setup_identity(options.setup)})
    if options.thoughts == "keep":
        identity.append({"thoughts": "keep"})
    return encode(identity)


def _tool_identity(tool: Any) -> Any:
    if isinstance(tool, str):
        return tool
    if not isinstance(tool, McpServer):
        return identity_of_target(tool)
    return [tool.mcp, tool.cwd, tool.only, sorted(tool.env), sorted(tool.headers)]


def setup_identity(setup: Iterable[Fixture]) -> list[Any]:
    """Return the settings that decide what fixtures set up."""
    identities = []
    for fixture in setup:
        target = fixture.python
        if target is not None and not isinstance(target, str):
            target = identity_of_target(target)
        identities.append([target, fixture.command, fixture.teardown, fixture.scope])
    return identities


def apply_case_overrides(options: ProviderOptions, overrides: CaseOverrides) -> ProviderOptions:
    """Return a provider's settings with a case's overrides, if the provider has such settings."""
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
    """Return the fingerprint of a question to a provider with the given identity."""
    return digest([_question(case), rendered.input, rendered.messages, identity])


def _question(case: Case) -> list[Any]:
    question = [case.id, case.input, case.vars, case.messages, case.metadata]
    if case.task:
        question.append(case.task.digest)
    if case.turns:
        question.append([turn.user for turn in case.turns])
    user = case.user
    if user is not None:
        question.append([provider_identity(user.provider), user.persona, user.goal, user.max_turns])
    overrides = case.overrides
    if overrides != NO_OVERRIDES:
        recorded = None
        if case.recording is not None:
            recorded = case.recording.digest
        # The time-out takes no part: it changes no answer.
        question.append(
            {"model": overrides.model, "params": overrides.params, "recorded": recorded}
        )
    if case.setup:
        question.append({"setup": setup_identity(case.setup)})
    return question


def _model_identity(options: ProviderOptions, own_code: OwnCode) -> Any:
    """Return what decides the verdicts of a model that judges: its settings, and code of theirs."""
    identity = provider_identity(options)
    if options.own_source is None:
        return identity
    return [identity, own_code.identity([options.own_source])]


def _judgement(
    threshold: float | None,
    expectations: Sequence[Expectation],
    judges: Mapping[str | None, Any],
    own_code: OwnCode,
) -> list[Any]:
    judgement: list[Any] = [threshold, [identity(expectation) for expectation in expectations]]
    models = [judges.get(grader.provider) for grader in model_graders(expectations)]
    if models:
        judgement.append(models)
    if code := own_code.identity(own_sources(expectations)):
        judgement.append({"code": code})
    return judgement
