"""Jinja2: a sandbox for the templates of suites, and an environment for those of reports."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from jinja2 import (
    Environment,
    FileSystemBytecodeCache,
    FileSystemLoader,
    StrictUndefined,
    TemplateError,
    TemplateRuntimeError,
    TemplateSyntaxError,
    Undefined,
    pass_environment,
)
from jinja2.bccache import Bucket, BytecodeCache
from jinja2.filters import make_attrgetter
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment

from ci_evals.errors import exception_text
from ci_evals.format import closest, one_line
from ci_evals.release import __version__

PACKAGE = Path(__file__).parent
MAX_CHARACTERS = 10_000_000
"""The longest text that a template of a suite may render."""

_MAX_NAMES = 20  # that an error lists


def _join(parts: Iterable[str]) -> str:
    """Join the pieces of a rendered text; raise an error as soon as it is too long."""
    joined: list[str] = []
    characters = 0
    for part in parts:
        characters += len(part)
        if characters > MAX_CHARACTERS:
            raise TemplateRuntimeError(
                f"the template makes more than {MAX_CHARACTERS:,} characters"
            )
        joined.append(part)
    return "".join(joined)


class _Undefined(StrictUndefined):
    """A name without a value; using it is an error that lists the names of the mapping."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        if isinstance(self._undefined_obj, Mapping):
            hint = _hint(str(self._undefined_name), self._undefined_obj)
            return f"there is no {self._undefined_name!r}{hint}"
        return super()._undefined_message


class Absent(Undefined):
    """A value that is not set. A template may test it with `default` or `if`, but not print it.

    Args:
        message: the error of a template that prints it.
    """

    __slots__ = ()

    def __init__(self, message: str) -> None:
        super().__init__(hint=message)

    __str__ = __iter__ = __len__ = Undefined._fail_with_undefined_error  # noqa: SLF001  as in StrictUndefined


def describe_error(error: Exception, names: Iterable[str] = ()) -> str:
    """Describe an error in a template; suggest a name for an undefined one.

    Args:
        error: what Jinja2 raised.
        names: the names that have a value.
    """
    undefined = undefined_name(error)
    if undefined is None:
        return exception_text(error) or type(error).__name__
    return describe_undefined(undefined, names)


def undefined_name(error: Exception) -> str | None:
    """Return the undefined name that an error in a template is about; None for another error."""
    match = re.fullmatch(r"'(.+)' is undefined", exception_text(error))  # Jinja2's wording
    if match is None:
        return None
    return match[1]


def describe_undefined(name: str, names: Iterable[str]) -> str:
    """Return a sentence on an undefined name, with the closest of the known ones."""
    return f"{name!r} is undefined{_hint(name, names)}"


def _hint(name: str, known: Iterable[Any]) -> str:
    names = [one_line(str(known_name), 60) for known_name in islice(known, 1000)]
    if close := closest(name, names):
        return f", did you mean {close!r}?"
    if not names:
        return ""
    more = ", …" if len(names) > _MAX_NAMES else ""
    return f"; known: {', '.join(names[:_MAX_NAMES])}{more}"


def json_text(value: Any) -> str:
    """Return a value as JSON on one line, with `str` for types that JSON doesn't have."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def _as_written(value: Any) -> Any:
    """Return a value in the form that templates print: JSON, and nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool | Mapping | list | tuple):
        return json_text(value)
    return value


@pass_environment
def _join_filter(
    sandbox: Environment, value: Iterable[Any], d: str = "", attribute: str | int | None = None
) -> str:
    """Jinja2's `join`, with items in the form that templates print."""
    items = value
    if attribute is not None:
        items = map(make_attrgetter(sandbox, attribute), value)
    return str(d).join(str(_as_written(item)) for item in items)


def _json_filter(value: Any, indent: int | None = None) -> str:
    """Jinja2's `tojson`, without its escapes for HTML."""
    if indent is None:
        return json_text(value)
    return json.dumps(value, ensure_ascii=False, indent=indent, default=_plain)


class _Sandbox(SandboxedEnvironment):
    """A sandbox whose templates render at most `MAX_CHARACTERS`."""

    concat = staticmethod(_join)


class _ImmutableSandbox(ImmutableSandboxedEnvironment):
    """The same sandbox, whose templates cannot change lists or mappings."""

    concat = staticmethod(_join)


@cache
def template_sandbox(
    *, lists_may_grow: bool = False, keep_last_newline: bool = False
) -> SandboxedEnvironment:
    """Return an environment for templates of a suite, which can access only their values.

    An undefined name is an error, and so is a text of more than `MAX_CHARACTERS`. Lists and
    mappings are printed as JSON, booleans as `true` and `false`, None as nothing, also by the
    filter `join`; `~` prints them as Python does. Nothing is escaped: the result is not HTML.

    Args:
        lists_may_grow: templates may change lists and mappings, because some prompts build lists.
        keep_last_newline: keep a line feed at the very end, as in the body of a request.
    """
    kind = _Sandbox if lists_may_grow else _ImmutableSandbox
    sandbox = kind(
        undefined=_Undefined,
        finalize=_as_written,
        autoescape=False,
        keep_trailing_newline=keep_last_newline,
    )
    sandbox.filters["join"] = _join_filter
    sandbox.filters["tojson"] = _json_filter
    return sandbox


Render = Callable[[Mapping[str, Any]], Any]
"""Fills values, by name, into a template."""


def is_template(text: str) -> bool:
    """Return True if a text has delimiters of Jinja2."""
    return bool(re.search(r"\{\{|\{%|\{#", text))


def names_used(text: str) -> frozenset[str]:
    """Return the names that a text uses as a template; none if it is not one."""
    if not is_template(text):
        return frozenset()
    try:
        return frozenset(find_undeclared_variables(template_sandbox().parse(text)))
    except TemplateError:
        return frozenset()


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

    A string that consists of one `{{ expression }}` becomes its value: a number stays a number.

    Raises:
        jinja2.TemplateSyntaxError: a string is not a valid template.
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
    expression = source.removeprefix("{{").removesuffix("}}").removesuffix("-")
    if expression.startswith(("-", "+")):  # marks for white space, not part of the expression
        expression = expression[1:]
    sandbox = template_sandbox(keep_last_newline=True)
    try:
        evaluate = sandbox.compile_expression(expression, undefined_to_none=False)
    except TemplateSyntaxError:  # several expressions, or text between them
        return text_renderer(source)

    def render(names: Mapping[str, Any]) -> Any:
        value = evaluate(names)
        if isinstance(value, Undefined):
            str(value)  # raises an UndefinedError with the name
        return value

    return render


class AttributeEnvironment(Environment):
    """An environment in which `value.name` is an attribute, never the key of a mapping."""

    # The built-in function has other parameter names, but templates pass arguments by position.
    getattr = staticmethod(getattr)  # type: ignore[assignment]


def environment(
    finalize: Callable[[Any], Any] | None,
    *,
    autoescape: bool = False,
    kind: type[Environment] = Environment,
) -> Environment:
    """Return an environment for templates of ours, in which an undefined name is an error.

    Args:
        finalize: called with every `{{ value }}`; escapes it for formats other than HTML. None if
            all values are clean.
        autoescape: escape for HTML.
        kind: the class of the environment.
    """
    return kind(
        loader=FileSystemLoader(folder()),
        bytecode_cache=_bytecode_cache(),
        undefined=StrictUndefined,
        finalize=finalize,
        autoescape=autoescape,  # without it `finalize` escapes
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


class _BytecodeCache(FileSystemBytecodeCache):
    """Jinja2's cache of compiled templates. A full disk is not an error."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


def _bytecode_cache() -> BytecodeCache | None:
    """Return a cache in the user's own temporary folder; None if there is no safe one.

    Compiled templates depend on the options of their environment, which may differ in another
    version of the package.
    """
    try:
        return _BytecodeCache(pattern=f"ci-evals-{__version__}-%s.cache")
    except (OSError, RuntimeError):
        return None


def folder(package: Path = PACKAGE) -> Path:
    """Return the folder of our templates: in the package of a wheel, at the top of a checkout."""
    shipped = package / "_templates"
    if shipped.is_dir():
        return shipped
    return package.parent / "templates"
