"""A suite as everything after the config sees it, and the text that its prompts make of a case."""

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from ci_evals.errors import Place
from ci_evals.graders.turn import asker, deciding
from ci_evals.model import NO_OVERRIDES, Case, CaseOverrides, Prompt, Variant
from ci_evals.providers.base import ProviderOptions, Secret
from ci_evals.response import Message
from ci_evals.rules import Budget, Gate
from ci_evals.templates import sandboxed

if TYPE_CHECKING:
    from hashlib import blake2b

    from jinja2 import Template


class Suite(Struct, frozen=True, kw_only=True, dict=True):
    """One config file: its cases and settings, with every default filled in.

    `file` is the config as the user named it, `folder` where its relative paths start, `out` where results go,
    `secrets` values that must not be written anywhere, `stages` what answers for each stage that a provider names,
    `judges` models that only graders ask, `places` where the file names what each provider and stage opens.
    """

    name: str
    description: str | None = None
    label: str | None = None
    file: str
    folder: Path
    runs: int
    max_runs: int | None = None
    stop_early: bool = False
    confirm_runs: int = 7
    max_concurrency: int
    timeout_s: float
    retries: int
    seed: int = 0
    providers: tuple[ProviderOptions, ...]
    prompts: tuple[Prompt, ...] = ()
    cases: Sequence[Case]
    gate: Gate | None = None
    budget: Budget = Budget()
    out: Path
    formats: tuple[str, ...]
    secrets: tuple[str, ...] = ()
    stages: Mapping[str, ProviderOptions] = {}
    judges: tuple[ProviderOptions, ...] = ()
    places: Mapping[str, Place] = {}

    @cached_property
    def asked_models(self) -> tuple[ProviderOptions, ...]:
        """What graders ask: the judges, and the providers that graders name."""
        askers = (asker(each.grader) for case in self.cases for each in case.expect)
        named = {grader.provider for grader in askers if grader is not None}
        return (*self.judges, *(options for options in self.providers if options.name in named)) if named else ()

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """The columns of the matrix: every provider with the first prompt, then with the second."""
        prompts: tuple[str | None, ...] = tuple(prompt.name for prompt in self.prompts) or (None,)
        return tuple(Variant(str(provider.name), prompt) for prompt in prompts for provider in self.providers)

    @property
    def fingerprint(self) -> str:
        """Identifies what is asked, of whom, how often and how it is judged; secrets take no part in it."""
        return self._identified.suite

    def judged_fingerprint(self, row: int) -> str:
        """Identifies how answers to a case, by its number, are judged, and by which models."""
        return self._identified.judgements[8 * row : 8 * row + 8].hex()

    def case_fingerprint(self, row: int) -> str:
        """Identifies what a case, by its number, asks, and how and by which models it is judged.

        Whatever it is called, and whoever is asked.
        """
        return self._identified.cases[8 * row : 8 * row + 8].hex()

    @cached_property
    def _identified(self) -> "_Identified":
        providers, judges = list(map(provider_identity, self.providers)), self._judge_identities()
        suite = _hash(_ENCODER.encode([self.runs, self.max_runs, self.prompts, providers]))
        judgements, cases = bytearray(), bytearray()
        for case in self.cases:
            question = _question(case)
            judgement = msgspec.Raw(_ENCODER.encode(_judgement(case, judges)))
            suite.update(_ENCODER.encode([question, judgement, case.runs]))
            judgements += _hash(judgement).digest()[:8]
            cases += _hash(_ENCODER.encode([question[1:], judgement])).digest()[:8]
        return _Identified(suite.hexdigest(), bytes(judgements), bytes(cases))

    def _judge_identities(self) -> Mapping[str | None, msgspec.Raw]:
        """What decides the verdicts of each model that graders ask, by its name; under None, of all judges."""
        judges = msgspec.Raw(_ENCODER.encode(list(map(provider_identity, self.judges))))
        return {None: judges, **{str(options.name): provider_identity(options) for options in self.asked_models}}


class _Identified(Struct, frozen=True):
    """What identifies a suite, and with 8 bytes each the judgements of its cases, and its cases."""

    suite: str
    judgements: bytes
    cases: bytes


def provider_identity(options: ProviderOptions) -> msgspec.Raw:
    """What decides a provider's answers, as JSON: its settings but for keys and those of pace, price and patience."""
    pace = set(ProviderOptions.__struct_fields__)
    settings = {
        name: sorted(value) if name in _MAY_HOLD_SECRETS else value
        for name in options.__struct_fields__
        if name not in pace and not isinstance(value := getattr(options, name), Secret)
    }
    stages = [[options.before, options.after]] if options.before or options.after else []
    return msgspec.Raw(_ENCODER.encode([options.name, options.__struct_config__.tag, settings, *stages]))


def overridden_options(options: ProviderOptions, overrides: CaseOverrides) -> ProviderOptions:
    """A provider's settings for a case: those that the case overrides and the provider has are the case's."""
    changes: dict[str, Any] = {}
    if overrides.model is not None and "model" in options.__struct_fields__:
        changes["model"] = overrides.model
    if overrides.params and "params" in options.__struct_fields__:
        changes["params"] = {**getattr(options, "params"), **overrides.params}  # noqa: B009  not every provider has them
    return msgspec.structs.replace(options, **changes) if changes else options


def asked_fingerprint(case: Case, rendered: "Rendered", identity: msgspec.Raw) -> str:
    """Identifies what is asked of whom: rendered input and provider settings."""
    return digest([_question(case), rendered.input, rendered.messages, identity])


def digest(value: Any) -> str:
    """32 hexadecimal digits for any value that JSON can say."""
    return _hash(_ENCODER.encode(value)).hexdigest()


def _hash(data: bytes | msgspec.Raw) -> "blake2b":
    return _algorithm()(data, digest_size=16)


@cache
def _algorithm() -> "type[blake2b]":
    from hashlib import blake2b  # which a suite with an error never needs

    return blake2b


def _question(case: Case) -> list[Any]:
    asked = [case.id, case.input, case.vars, case.messages, case.metadata]
    if case.task:
        asked.append(case.task.digest)
    if case.turns:
        asked.append(case.turns)
    if user := case.user:
        asked.append([provider_identity(user.provider), user.persona, user.goal, user.max_turns])
    return asked if case.overrides == NO_OVERRIDES else [*asked, _overriding(case)]


def _overriding(case: Case) -> dict[str, Any]:
    """What the settings of a case change about its answers: the time that they may take does not."""
    digest = case.cassette.digest if case.cassette else None
    return {"model": case.overrides.model, "params": case.overrides.params, "recorded": digest}


def _judgement(case: Case, judges: Mapping[str | None, msgspec.Raw]) -> list[Any]:
    by = [judges.get(grader.provider) for each in case.expect if (grader := asker(each.grader)) is not None]
    return [
        case.threshold,
        [(each.name, each.weight, deciding(each.grader)) for each in case.expect],
        *([by] if by else []),
    ]


_MAY_HOLD_SECRETS = frozenset({"headers", "env"})  # of these only the names take part: values differ without meaning
_ENCODER = msgspec.json.Encoder(enc_hook=str, order="deterministic")


class Rendered(NamedTuple):
    """What a provider is sent for one case: as one value, and as a conversation."""

    input: Any
    messages: tuple[Message, ...]


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
        messages = turns + case.messages
        return Rendered(msgspec.to_builtins(list(messages)), messages)

    def text(self, source: str, values: Mapping[str, Any]) -> str:
        """Render one template text."""
        return self.compile(source).render(values)

    def compile(self, source: str) -> "Template":
        """The template of a source text.

        Raises:
            jinja2.TemplateSyntaxError: it is not valid.
        """
        if (template := self._compiled.get(source)) is not None:
            return template
        template = self._compiled[source] = sandboxed(lists_may_grow=True).from_string(source)
        return template


def _unprompted(case: Case) -> Rendered:
    if case.is_conversation and case.input is None:
        return Rendered(None, case.messages)
    if case.messages:
        return Rendered(msgspec.to_builtins(list(case.messages)) if case.input is None else case.input, case.messages)
    value = dict(case.vars) if case.input is None else case.input
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    return Rendered(value, (Message("user", text),))
