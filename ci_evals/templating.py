"""Jinja2: a sandbox for the templates of a suite, and the environment of the reports' own."""

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

from ci_evals.format import closest, one_line
from ci_evals.release import __version__

PACKAGE = Path(__file__).parent
MAX_CHARACTERS = 10_000_000
"""The longest text that a template of a suite may make."""

_MAX_NAMES = 20  # that an error lists


def _join(parts: Iterable[str]) -> str:
    """Join the pieces of a text that a template makes, as long as it is not too long."""
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
    """A name without a value, which is an error that says what a mapping has instead."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        if isinstance(self._undefined_obj, Mapping):
            hint = _hint(str(self._undefined_name), self._undefined_obj)
            return f"there is no {self._undefined_name!r}{hint}"
        return super()._undefined_message


class Absent(Undefined):
    """A value that nobody has set. A template may test it, as with `default` or `if`, but not use
    it.

    Args:
        message: the error of a template that uses it.
    """

    __slots__ = ()

    def __init__(self, message: str) -> None:
        super().__init__(hint=message)

    __str__ = __iter__ = __len__ = Undefined._fail_with_undefined_error  # noqa: SLF001  as in StrictUndefined


def describe_error(error: Exception, names: Iterable[str] = ()) -> str:
    """Return what went wrong in a template, with the name that an undefined one may stand for.

    Args:
        error: what Jinja2 raised.
        names: the names that have a value.
    """
    undefined = undefined_name(error)
    if undefined is None:
        return str(error) or type(error).__name__
    return describe_undefined(undefined, names)


def undefined_name(error: Exception) -> str | None:
    """Return the name that has no value, if that is what went wrong in a template."""
    found = re.fullmatch(r"'(.+)' is undefined", str(error))  # as Jinja2 puts it
    if found is None:
        return None
    return found[1]


def describe_undefined(name: str, names: Iterable[str]) -> str:
    """Return that a name has no value, and which of those that have one may be meant."""
    return f"{name!r} is undefined{_hint(name, names)}"


def _hint(name: str, known: Iterable[Any]) -> str:
    names = [one_line(str(each), 60) for each in islice(known, 1000)]
    if close := closest(name, names):
        return f", did you mean {close!r}?"
    if not names:
        return ""
    more = ", …" if len(names) > _MAX_NAMES else ""
    return f"; known: {', '.join(names[:_MAX_NAMES])}{more}"


def json_text(value: Any) -> str:
    """Return a value as JSON on one line; what JSON does not know is its `str`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def _as_written(value: Any) -> Any:
    """Return a value as a template writes it: as JSON does, and None as nothing."""
    if value is None:
        return ""
    if isinstance(value, bool | Mapping | list | tuple):
        return json_text(value)
    return value


@pass_environment
def _join_filter(
    sandbox: Environment, value: Iterable[Any], d: str = "", attribute: str | int | None = None
) -> str:
    """Jinja2's `join`, whose items are written as a template writes them."""
    items = value
    if attribute is not None:
        items = map(make_attrgetter(sandbox, attribute), value)
    return str(d).join(str(_as_written(item)) for item in items)


class _Sandbox(SandboxedEnvironment):
    """A sandbox whose templates make at most `MAX_CHARACTERS`."""

    concat = staticmethod(_join)


class _ImmutableSandbox(ImmutableSandboxedEnvironment):
    """The same, whose templates change no list or mapping."""

    concat = staticmethod(_join)


@cache
def template_sandbox(
    *, lists_may_grow: bool = False, keep_last_newline: bool = False
) -> SandboxedEnvironment:
    """Return an environment for templates of a suite, which reach nothing but their values.

    A name without a value is an error, and so is a text of more than `MAX_CHARACTERS`. Lists and
    mappings are written as JSON, booleans as `true` and `false`, None as nothing, also by the
    filter `join`; `~` writes them as Python does. Nothing is escaped: what is made is not HTML.

    Args:
        lists_may_grow: a template may change lists and mappings, as prompts do that build one of
            their own.
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
    return sandbox


Render = Callable[[Mapping[str, Any]], Any]
"""Fills values, by name, into a template."""


def is_template(text: str) -> bool:
    """Return True if a text has marks of Jinja2."""
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
    expression = source.removeprefix("{{").removesuffix("}}").removesuffix("-")
    if expression.startswith(("-", "+")):  # these ask to trim, and are no part of the expression
        expression = expression[1:]
    sandbox = template_sandbox(keep_last_newline=True)
    try:
        evaluate = sandbox.compile_expression(expression, undefined_to_none=False)
    except TemplateSyntaxError:  # several expressions, or text between them
        return text_renderer(source)

    def render(names: Mapping[str, Any]) -> Any:
        value = evaluate(names)
        if isinstance(value, Undefined):
            str(value)  # raises an UndefinedError that names what is undefined
        return value

    return render


class AttributeEnvironment(Environment):
    """An environment in which `value.name` is an attribute, and never the key of a mapping."""

    # The built-in function names its arguments otherwise, and templates pass them by position.
    getattr = staticmethod(getattr)  # type: ignore[assignment]


def environment(
    finalize: Callable[[Any], Any] | None,
    *,
    autoescape: bool = False,
    kind: type[Environment] = Environment,
) -> Environment:
    """Return an environment for templates of ours, in which a name without a value is an error.

    Args:
        finalize: called with every `{{ value }}`; escapes it for formats other than HTML. None
            where all values are clean.
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
    """Jinja2's cache of compiled templates, which a full disk does not stop."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


def _bytecode_cache() -> BytecodeCache | None:
    """Return a cache in the user's own temporary folder, or None where there is no safe one.

    Compiled templates depend on the options of their environment, which only this version of the
    package is known to share.
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
