"""Jinja2: a sandbox for the templates that a suite writes, and the environment of the reports' own."""

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateRuntimeError
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment

PACKAGE = Path(__file__).parent
MAX_CHARACTERS = 10_000_000
"""The most that a template of a suite may make."""


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


class _Sandbox(SandboxedEnvironment):
    concat = staticmethod(_join)  # which Jinja gives all pieces of a text


class _ImmutableSandbox(ImmutableSandboxedEnvironment):
    concat = staticmethod(_join)


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
