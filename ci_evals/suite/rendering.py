"""Renders the input of a provider: a prompt filled in with a case's vars, or the case as it is."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Template

from ci_evals.model.case import Case, Prompt, PromptTurns
from ci_evals.model.response import Message, Part, Role
from ci_evals.providers.parts import content_fields, identify, message_fields
from ci_evals.templating import Render, json_renderer, json_text, names_used, template_sandbox

_ONLY_INPUT = re.compile(r"\{\{-?\s*input\s*-?\}\}")


class Rendered(NamedTuple):
    """The rendered input of a case, as one value and as a conversation."""

    input: Any
    messages: Sequence[Message]


class Templates:
    """Renders prompts; each template is compiled once.

    Args:
        folder: the suite's folder, where the paths of images and files start.
    """

    def __init__(self, folder: Path = Path()) -> None:
        self.folder = folder
        self._compiled: dict[str, Template] = {}
        self._renderers: dict[str, Render] = {}

    def render(self, prompt: Prompt | None, case: Case) -> Rendered:
        """Fill in a prompt with a case's vars and `input`; without a prompt, use the case as it is.

        Raises:
            jinja2.TemplateError: the template is invalid, or uses a name without a value.
            ValueError: an image or a file that it names does not exist.
        """
        if prompt is None:
            return _render_case(case)
        values = variables(case)
        turns = []
        for role, content in _turns_of(prompt, case):
            # Only a whole message can carry images and files; a template makes text.
            if isinstance(case.input, Message) and _is_only_input(content):
                turns.append(replace(case.input, role=role))
            else:
                turns.append(self._turn(role, content, values))
        return _as_rendered(turns, case)

    def _turn(
        self, role: Role, content: str | Sequence[Part], values: Mapping[str, Any]
    ) -> Message:
        if isinstance(content, str):
            return Message(role, self.text(content, values))
        parts = []
        for part in content:
            texts = {key: self.text(source, values) for key, source in template_texts(part)}
            parts.append(replace(part, **texts))
        return identify(Message(role, parts), self.folder)

    def text(self, source: str, values: Mapping[str, Any]) -> str:
        """Render one template text."""
        return self.compile(source).render(values)

    def value(self, source: str, values: Mapping[str, Any]) -> Any:
        """Render a template text; an expression for a list or a mapping keeps its type."""
        # Any other value is the text that a prompt would have.
        text = self.text(source, values)
        if source not in self._renderers:
            self._renderers[source] = json_renderer(source)
        value = self._renderers[source](values)
        if isinstance(value, list | tuple | Mapping):
            return value
        return text

    def compile(self, source: str) -> Template:
        """Return the template of a source text.

        Raises:
            jinja2.TemplateSyntaxError: the template is invalid.
        """
        template = self._compiled.get(source)
        if template is None:
            template = template_sandbox(lists_may_grow=True).from_string(source)
            self._compiled[source] = template
        return template


def _turns_of(prompt: Prompt, case: Case) -> PromptTurns:
    """Return the templates of a prompt, which a function may have made for the case."""
    if prompt.function is not None:
        return prompt.made[case.id]
    return prompt.turns


def _as_rendered(turns: Sequence[Message], case: Case) -> Rendered:
    messages = (*turns, *case.messages)
    if len(messages) == 1 and turns and turns[0].role == "user":
        return Rendered(content_fields(turns[0]), messages)
    return Rendered(message_fields(messages), messages)


def names_without_value(prompt: Prompt | None, case: Case) -> frozenset[str]:
    """Return the names in a prompt that have no value in a case."""
    if prompt is None:
        return frozenset()
    used: set[str] = set()
    for _, content in _turns_of(prompt, case):
        for source in template_sources(content):
            used |= names_used(source)
    return frozenset(used - variables(case).keys())


def unfilled(prompt: Prompt, case: Case) -> Rendered:
    """Return a prompt as it is written, for a case whose vars are not all known before a run."""
    turns = [Message(role, content) for role, content in _turns_of(prompt, case)]
    return _as_rendered(turns, case)


def _is_only_input(content: str | Sequence[Part]) -> bool:
    return isinstance(content, str) and _ONLY_INPUT.fullmatch(content.strip()) is not None


def variables(case: Case) -> dict[str, Any]:
    """Return the names for templates of a suite: a case's vars, and its input if it has one."""
    if case.input is None:
        return dict(case.vars)
    value = case.input
    if isinstance(value, Message):
        value = _NotText()
    return {"input": value, **case.vars}


class _NotText:
    """An input with an image or a file, in a template that makes text of it."""

    def __str__(self) -> str:
        raise ValueError(
            "the case's input has an image or a file, which `{{ input }}` cannot put into text:"
            " give it a message of its own, {role: user, content: '{{ input }}'}"
        )


def template_texts(part: Part) -> Iterator[tuple[str, str]]:
    """Yield the texts of a part that are templates, with their keys."""
    for key in ("text", "image", "file"):
        source = getattr(part, key)
        if isinstance(source, str):
            yield key, source


def template_sources(content: str | Sequence[Part]) -> Iterator[str]:
    """Yield every template in a turn of a prompt."""
    if isinstance(content, str):
        yield content
        return
    for part in content:
        for _, source in template_texts(part):
            yield source


def _render_case(case: Case) -> Rendered:
    """Return a case as it is: its messages, then its input or vars."""
    if case.is_conversation and case.input is None:
        return Rendered(None, case.messages)
    if case.messages and case.input is None:
        return Rendered(message_fields(case.messages), case.messages)
    value = case.input
    if value is None:
        value = dict(case.vars)
    if isinstance(value, Message):
        question = value
        value = content_fields(question)
    elif isinstance(value, str):
        question = Message("user", value)
    else:
        question = Message("user", json_text(value))
    if not case.messages:
        return Rendered(value, (question,))
    messages = (*case.messages, question)
    return Rendered(message_fields(messages), messages)
