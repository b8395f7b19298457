"""Fills in the vars of a test that are templates over other vars, as promptfoo does."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from ci_evals.format import one_line
from ci_evals.plugins.importers.draft import UntranslatableError
from ci_evals.plugins.importers.promptfoo.templates import TemplateTranslator
from ci_evals.templating import describe_error, is_template, names_used, template_sandbox

_NAME = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_UNCLOSED = re.compile(r"(?m)\{%[^%]*$|\{\{[^}]*$|\{#[^#]*$")
_OF_ENVIRONMENT = re.compile(r"\{\{-?\s*env\.(\w+)\s*-?\}\}")
_MOST_ROUNDS = 5  # after these, promptfoo leaves names of vars that refer to each other


def fill_vars(vars_: Mapping[str, Any], several: Collection[str] = ()) -> dict[str, Any]:
    """Return vars in which templates are filled in; those over unknown names stay as they are.

    References to the environment, `{{ env.NAME }}`, stay, too.

    Args:
        vars_: all vars of a test.
        several: the names of its vars with several values.

    Raises:
        UntranslatableError: a template can only be filled in during a run, or not at all.
    """
    resolved = _insert_texts(vars_)
    return {name: _fill(name, value, resolved, several) for name, value in resolved.items()}


def refers_to_environment(value: Any) -> bool:
    """Return True for a filled text with `{{ env.NAME }}`."""
    return isinstance(value, str) and _OF_ENVIRONMENT.search(value) is not None


def with_references(text: str) -> str:
    """Return a text with `${NAME:-}` for `{{ env.NAME }}`, where it is literal otherwise."""
    return _OF_ENVIRONMENT.sub(r"${\1:-}", as_literal(text))


def as_literal(value: Any) -> Any:
    """Return a value in which no text refers to the environment, for a place where it could."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, dict):
        return {key: as_literal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_literal(item) for item in value]
    return value


def _insert_texts(vars_: Mapping[str, Any]) -> dict[str, Any]:
    """Replace names of vars by their values before any template is rendered.

    So a var may refer to another one that is a template itself. Texts lose a line feed at the end.
    """
    texts = dict(vars_)
    for name, value in vars_.items():
        if isinstance(value, str):
            texts[name] = value.removesuffix("\n")
    for _ in range(_MOST_ROUNDS):
        for name, value in texts.items():
            match = None
            if isinstance(value, str):
                match = _NAME.search(value)
            if match is not None and isinstance(texts.get(match[1]), str | int | float):
                texts[name] = value.replace(match[0], _text(texts[match[1]]), 1)
    return texts


def _text(value: Any) -> str:
    """Return a scalar as JavaScript writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _fill(name: str, value: Any, vars_: Mapping[str, Any], several: Collection[str]) -> Any:
    if not isinstance(value, str) or not is_template(value) or _UNCLOSED.search(value):
        return value
    template = TemplateTranslator().text(value)
    used = names_used(template)
    for other in sorted(used & set(several)):
        reason = f"the var {name!r} refers to {other!r}, which has several values"
        raise UntranslatableError(f"{reason}: write a test for each")
    if used - {*vars_, "env"}:
        return value
    outside = _OF_ENVIRONMENT.sub("", template)
    if "env" in names_used(outside):
        reason = f"the var {name!r} depends on the environment: make it when the tests are made"
        raise UntranslatableError(reason)
    try:
        return template_sandbox().from_string(template).render({"env": _Names(), **vars_})
    except Exception as error:  # a template of the file can raise anything
        cause = one_line(describe_error(error, vars_))
        reason = f"the var {name!r}, a template, cannot be rendered: {cause}"
        raise UntranslatableError(reason) from error


class _Names(dict[str, str]):
    """An environment in which each variable is the template that names it."""

    def __missing__(self, name: str) -> str:
        return f"{{{{ env.{name} }}}}"
