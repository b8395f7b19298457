"""Jinja2: a sandbox for the templates that a suite writes, and the environment of the reports' own."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import (
    Environment,
    FileSystemLoader,
    StrictUndefined,
    TemplateRuntimeError,
    TemplateSyntaxError,
    Undefined,
    nodes,
)
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment

PACKAGE = Path(__file__).parent
MAX_CHARACTERS = 10_000_000
"""The most that a template of a suite may make."""
MAX_SECONDS = 1.0
"""The processor's time that it may take."""


def _join(parts: Iterable[str]) -> str:
    """Join what a template makes piece by piece, and stop it when that is too much."""
    joined: list[str] = []
    characters = 0
    for part in parts:
        characters += len(part)
        if characters > MAX_CHARACTERS:
            raise TemplateRuntimeError(f"the template makes more than {MAX_CHARACTERS:,} characters")
        joined.append(part)
    return "".join(joined)


class TooSlowError(TemplateRuntimeError):
    """A template takes more than `MAX_SECONDS`."""


class _TimedContext(Context):
    """The names of one rendering, which knows when that has to end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ends_at = time.thread_time() + MAX_SECONDS

    def take_turn(self) -> bool:
        """Return True as long as there is time."""
        if time.thread_time() > self._ends_at:
            raise TooSlowError(f"the template takes more than {MAX_SECONDS:g} s: do its loops end?")
        return True


class _Sandbox(SandboxedEnvironment):
    """A sandbox whose templates make no more than `MAX_CHARACTERS`, in no more than about `MAX_SECONDS`."""

    concat = staticmethod(_join)  # which Jinja gives all pieces of a text
    context_class = _TimedContext
    intercepted_binops = frozenset({"*", "**"})  # which make much of little, where no loop is

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        """Make Python code of a template, whose loops look at the time at each turn."""
        take_turn = nodes.Call(nodes.Getattr(nodes.ContextReference(), "take_turn", "load"), [], [], None, None)
        for loop in source.find_all(nodes.For):
            loop.test = nodes.And(take_turn, loop.test) if loop.test else take_turn
        source.set_environment(self)
        return super()._generate(source, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        match operator, left, right:
            case "**", int(), int():
                size = left.bit_length() * right
            case ("*", Sequence(), int()) | ("*", int(), Sequence()):
                size = len(left) * right if isinstance(left, Sequence) else left * len(right)
            case _:
                size = 0
        if size > MAX_CHARACTERS:
            raise TemplateRuntimeError(f"the template makes more than {MAX_CHARACTERS:,} characters")
        return super().call_binop(context, operator, left, right)


class _ImmutableSandbox(ImmutableSandboxedEnvironment, _Sandbox):
    """The same, which changes no list."""


@cache
def template_sandbox(*, lists_may_grow: bool = False, keep_last_newline: bool = False) -> SandboxedEnvironment:
    """Return an environment that reaches nothing but its values, in which a name without a value is an error.

    A text of more than `MAX_CHARACTERS` is one, too. Nothing is escaped: what is made is no HTML.

    Args:
        lists_may_grow: a template may change lists and mappings, as prompts do that build one of their own.
        keep_last_newline: a line feed at the very end stays, as in the body of a request.
    """
    kind = _Sandbox if lists_may_grow else _ImmutableSandbox
    return kind(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=keep_last_newline)


Render = Callable[[Mapping[str, Any]], Any]
"""Fills values, by name, into a template."""


def is_template(text: str) -> bool:
    """Return True if a text has marks of Jinja2."""
    return bool(re.search(r"\{\{|\{%|\{#", text))


def text_renderer(source: str) -> Render:
    """Return a renderer of text.

    Raises:
        jinja2.TemplateSyntaxError: it is not a valid template.
    """
    if not is_template(source):
        return lambda _: source
    return template_sandbox(keep_last_newline=True).from_string(source).render


def json_renderer(value: Any) -> Render:
    """Return a renderer of a JSON value whose strings are templates.

    A string that is nothing but one `{{ expression }}` becomes its value: a number stays a number.

    Raises:
        jinja2.TemplateSyntaxError: one of them is not valid.
    """
    match value:
        case str():
            return _string_renderer(value)
        case Mapping():
            fields = {name: json_renderer(item) for name, item in value.items()}
            return lambda names: {name: render(names) for name, render in fields.items()}
        case list() | tuple():
            items = [json_renderer(item) for item in value]
            return lambda names: [render(names) for render in items]
        case _:
            return lambda _: value


def _string_renderer(source: str) -> Render:
    if not (source.startswith("{{") and source.endswith("}}")):
        return text_renderer(source)
    inside = source.removeprefix("{{").removesuffix("}}").removesuffix("-")
    expression = inside[1:] if inside.startswith(("-", "+")) else inside  # what asks to trim stands next to the braces
    try:
        evaluate = template_sandbox(keep_last_newline=True).compile_expression(expression, undefined_to_none=False)
    except TemplateSyntaxError:  # several expressions, or text between them
        return text_renderer(source)

    def render(names: Mapping[str, Any]) -> Any:
        value = evaluate(names)
        if isinstance(value, Undefined):
            str(value)  # raises an UndefinedError that names what is undefined
        return value

    return render


def environment(finalize: Callable[[Any], Any], *, autoescape: bool = False) -> Environment:
    """Return an environment in which a name without a value is an error, and `finalize` gets every `{{ value }}`.

    `finalize` is to formats other than HTML what `autoescape` is to HTML: the one door through which text gets in.
    """
    return Environment(
        loader=FileSystemLoader(folder()),
        undefined=StrictUndefined,
        finalize=finalize,
        autoescape=autoescape,  # noqa: S701  without it `finalize` escapes
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def folder(package: Path = PACKAGE) -> Path:
    """Return `_templates` inside the package as a wheel has it, else `templates/` beside it as a checkout does."""
    shipped = package / "_templates"
    return shipped if shipped.is_dir() else package.parent / "templates"
