"""Identifies what is asked and how it is judged, and renders what a provider is sent."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jinja2 import Template

from ci_evals.graders.scoring import asker, deciding
from ci_evals.model.case import NO_OVERRIDES, Case, CaseOverrides, Prompt
from ci_evals.model.fields import Secret
from ci_evals.model.fingerprint import digest, encode
from ci_evals.model.response import Message
from ci_evals.providers.base import ProviderOptions
from ci_evals.templating import sandboxed

_PACE = frozenset(field.name for field in dataclasses.fields(ProviderOptions))
_MAY_HOLD_SECRETS = frozenset({"headers", "env"})  # of these only the names take part: values differ without meaning


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """What identifies a suite, how the answers to each case are judged, and each case; rows are the cases' numbers."""

    suite: str
    judgements: Sequence[str]
    cases: Sequence[str]


def identify(
    settings: Sequence[Any],
    providers: Iterable[ProviderOptions],
    judges: Sequence[ProviderOptions],
    asked_models: Iterable[ProviderOptions],
    cases: Iterable[Case],
) -> Fingerprints:
    """Fingerprint a suite and its cases.

    Args:
        settings: what else decides what is asked: prompts, and how often.
        providers: whom the suite asks.
        judges: models that only graders ask.
        asked_models: all models that graders ask, providers that they name included.
        cases: the cases.
    """
    identities: dict[str | None, Any] = {None: [provider_identity(each) for each in judges]}
    identities |= {str(each.name): provider_identity(each) for each in asked_models}
    judgements, prints, whole = [], [], []
    for case in cases:
        question, judgement = _question(case), digest(_judgement(case, identities))
        judgements.append(judgement[:16])
        prints.append(digest([question[1:], judgement])[:16])
        whole.append(digest([question, judgement, case.runs]))
    suite = digest([settings, [provider_identity(each) for each in providers], whole])
    return Fingerprints(suite, judgements, prints)


def provider_identity(options: ProviderOptions) -> str:
    """Return what decides a provider's answers, as JSON: its settings but for keys, pace, price and patience."""
    settings = {
        field.name: sorted(value) if field.name in _MAY_HOLD_SECRETS else value
        for field in dataclasses.fields(options)
        if field.name not in _PACE and not isinstance(value := getattr(options, field.name), Secret)
    }
    stages = [[options.before, options.after]] if options.before or options.after else []
    return encode([options.name, options.kind, settings, *stages])


def overridden_options(options: ProviderOptions, overrides: CaseOverrides) -> ProviderOptions:
    """Return a provider's settings for a case: those that the case overrides and the provider has are the case's."""
    names = {field.name for field in dataclasses.fields(options)}
    changes: dict[str, Any] = {}
    if overrides.model is not None and "model" in names:
        changes["model"] = overrides.model
    if overrides.params and "params" in names:
        changes["params"] = {**getattr(options, "params"), **overrides.params}  # noqa: B009  not every provider has them
    return dataclasses.replace(options, **changes) if changes else options


def asked_fingerprint(case: Case, rendered: "Rendered", identity: str) -> str:
    """Return what identifies what is asked of whom: rendered input and provider settings."""
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
        recorded = case.cassette.digest if case.cassette else None
        asked.append({"model": case.overrides.model, "params": case.overrides.params, "recorded": recorded})
    return asked


def _judgement(case: Case, judges: Mapping[str | None, Any]) -> list[Any]:
    by = [judges.get(grader.provider) for each in case.expect if (grader := asker(each.grader)) is not None]
    return [
        case.threshold,
        [(each.name, each.weight, deciding(each.grader)) for each in case.expect],
        *([by] if by else []),
    ]


class Rendered(NamedTuple):
    """What a provider is sent for one case: as one value, and as a conversation."""

    input: Any
    messages: Sequence[Message]


class Templates:
    """Renders prompts; each template is compiled once."""

    def __init__(self) -> None:
        self._compiled: dict[str, Template] = {}

    def render(self, prompt: Prompt | None, case: Case) -> Rendered:
        """Fill a prompt with a case's vars and `input`; without a prompt the case speaks for itself.

        Raises:
            jinja2.TemplateError: the template is wrong or asks for what the case does not have.
        """
        if prompt is None:
            return _unprompted(case)
        values = {"input": case.input, **case.vars}
        turns = tuple(Message(role, self.text(source, values)) for role, source in prompt.turns)
        if len(turns) == 1 and turns[0].role == "user" and not case.messages:
            return Rendered(turns[0].content, turns)
        messages = (*turns, *case.messages)
        return Rendered(_as_data(messages), messages)

    def text(self, source: str, values: Mapping[str, Any]) -> str:
        """Render one template text."""
        return self.compile(source).render(values)

    def compile(self, source: str) -> Template:
        """Return the template of a source text.

        Raises:
            jinja2.TemplateSyntaxError: it is not valid.
        """
        if (template := self._compiled.get(source)) is None:
            template = self._compiled[source] = sandboxed(lists_may_grow=True).from_string(source)
        return template


def _unprompted(case: Case) -> Rendered:
    if case.is_conversation and case.input is None:
        return Rendered(None, case.messages)
    if case.messages:
        return Rendered(_as_data(case.messages) if case.input is None else case.input, case.messages)
    value = dict(case.vars) if case.input is None else case.input
    text = value if isinstance(value, str) else _json(value)
    return Rendered(value, (Message("user", text),))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _as_data(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Messages as an API takes them, without what they leave out."""
    return [
        {key: value for key, value in dataclasses.asdict(message).items() if value or key in ("role", "content")}
        for message in messages
    ]
