"""Templates of what an HTTP service is sent: texts, and JSON whose strings are templates."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ci_evals.templates import sandboxed

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

Render = Callable[[Mapping[str, Any]], Any]

TEMPLATE = re.compile(r"\{\{|\{%|\{#")


def text_renderer(source: str) -> Render:
    """A renderer of text."""
    if not TEMPLATE.search(source):
        return lambda _: source
    return _environment().from_string(source).render


def json_renderer(value: Any) -> Render:
    """A renderer of a JSON value whose strings are templates."""
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
    if not _is_one_expression(source):
        return text_renderer(source)
    from jinja2 import Undefined, UndefinedError

    inside = source.removeprefix("{{").removesuffix("}}").removesuffix("-")
    expression = inside[1:] if inside[0] in "-+" else inside  # what asks to trim stands next to the braces
    evaluate = _environment().compile_expression(expression, undefined_to_none=False)

    def render(names: Mapping[str, Any]) -> Any:
        value = evaluate(names)
        if isinstance(value, Undefined):
            raise UndefinedError(value._undefined_message)  # noqa: SLF001  what StrictUndefined raises itself
        return value

    return render


def _is_one_expression(source: str) -> bool:
    """Whether a template is nothing but one `{{ expression }}`."""
    if not (source.startswith("{{") and source.endswith("}}")):
        return False
    from jinja2 import nodes

    body = _environment().parse(source).body
    return (
        len(body) == 1
        and isinstance(body[0], nodes.Output)
        and len(body[0].nodes) == 1
        and not isinstance(body[0].nodes[0], nodes.TemplateData)
    )


def _environment() -> "SandboxedEnvironment":
    return sandboxed(keep_last_newline=True)


def template_problems(value: Any) -> list[str]:
    """What is wrong with the templates in a JSON value, each with its place."""
    sources = [(where, source) for where, source in _strings(value, "") if TEMPLATE.search(source)]
    if not sources:
        return []
    from jinja2 import TemplateError

    problems = []
    for where, source in sources:
        try:
            _string_renderer(source)
        except TemplateError as error:
            problems.append(f"{where}: bad template: {error}")
    return problems


def _strings(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """Every string in a JSON value, with its place: `body.messages[0].content`."""
    match value:
        case str():
            yield where, value
        case Mapping():
            for name, item in value.items():
                yield from _strings(item, f"{where}.{name}" if where else str(name))
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _strings(item, f"{where}[{index}]")
