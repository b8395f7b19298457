"""Jinja2: a sandbox for the templates that a suite writes, and the environment of the reports'
own.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cache, wraps
from itertools import islice
from pathlib import Path
from typing import Any

from jinja2 import (
    Environment,
    FileSystemBytecodeCache,
    FileSystemLoader,
    StrictUndefined,
    TemplateRuntimeError,
    TemplateSyntaxError,
    Undefined,
    nodes,
    pass_context,
)
from jinja2.bccache import Bucket, BytecodeCache
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment, SandboxedFormatter
from jinja2.utils import _PassArg
from jinja2.visitor import NodeTransformer

from ci_evals.format import closest, one_line
from ci_evals.release import __version__

PACKAGE = Path(__file__).parent
MAX_CHARACTERS = 10_000_000
"""The most that a template of a suite may make, as a whole and in each value; an item of a list
counts as ten.
"""
MAX_BITS = 14_000
"""The most of a number: Python writes no more than 4,300 digits."""
MAX_SECONDS = 1.0
"""The processor's time that it may take."""

_MAX_NAMES = 20  # that an error lists
_PERCENT_WIDTH = re.compile(r"%(?:\([^)]*\))?[-+ #0]*(\d*)(?:\.(\d*))?")


class TooSlowError(TemplateRuntimeError):
    """A template takes more than `MAX_SECONDS`."""


def _limit(characters: int) -> None:
    if characters > MAX_CHARACTERS:
        raise TemplateRuntimeError(f"the template makes more than {MAX_CHARACTERS:,} characters")


def _limit_number(bits: int) -> None:
    if bits > MAX_BITS:
        raise TemplateRuntimeError("the template makes a number of more than 4,000 digits")


def _size(*values: Any) -> int:
    """Return about how many characters values have as text, or some number above `MAX_CHARACTERS`.

    A list that stands in others several times counts each time, as it does in the text.
    """
    characters = 0
    inside = list(values)
    while inside and characters <= MAX_CHARACTERS:
        match inside.pop():
            case str() | bytes() as text:
                characters += len(text)
            case int() as number:
                _limit_number(number.bit_length())
            case Mapping() as fields:
                characters += 10 * len(fields)
                if characters <= MAX_CHARACTERS:
                    inside += (*fields.keys(), *fields.values())
            case list() | tuple() | AbstractSet() as items:
                characters += 10 * len(items)
                if characters <= MAX_CHARACTERS:
                    inside += items
    return characters


def _length(items: Sequence[Any]) -> int:
    """Return the size of a text or list, whatever stands in the list."""
    return len(items) if isinstance(items, str | bytes) else 10 * len(items)


def _join(parts: Iterable[str]) -> str:
    """Join what a template makes piece by piece, and stop it when that is too much."""
    joined: list[str] = []
    characters = 0
    for part in parts:
        characters += len(part)
        _limit(characters)
        joined.append(part)
    return "".join(joined)


def _percent_size(text: str, values: Any) -> int:
    """Return about how many characters `text % values` has at most."""
    widths = sum(int(digits[:9] or 0) for each in _PERCENT_WIDTH.findall(text) for digits in each)
    stars = _integers(values) if "*" in text else 0
    return (
        len(text)
        + widths
        + stars
        + _size(values) * (text.count("%") if isinstance(values, Mapping) else 1)
    )


def _integers(values: Any) -> int:
    """Return the sum of the integers among values."""
    return sum(
        each
        for each in (values if isinstance(values, tuple) else (values,))
        if isinstance(each, int)
    )


def _found(text: Any, old: Any = "", *_: Any, **__: Any) -> int:
    return str(text).count(str(old))


def _repeat_once(*_: Any, **__: Any) -> int:
    return 1


# Filters and methods that put what they are given, or as many spaces as they are told, into a
# value: how often.
_REPEATS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(
        ("batch", "center", "ljust", "rjust", "slice", "to_bytes", "zfill"), _repeat_once
    ),
    "expandtabs": lambda text, *_, **__: text.count("\t"),
    "indent": lambda text, *_, **__: str(text).count("\n") + 1,
    "join": lambda items, *_, **__: len(items),
    "replace": lambda text, old="", *_, **__: str(text).count(str(old)),
    "round": lambda *_, **__: 1000,  # a power of ten, which is slow long before it is long
    "tojson": lambda value, *_, **__: _size(value) // 10,
    "translate": lambda text, *_, **__: len(text),
    "urlize": lambda text, *_, **__: str(text).count(".") + str(text).count("@"),
    "wordwrap": lambda text, width=79, *_, **__: (
        len(str(text)) // max(width, 1) + str(text).count("\n")
    ),
}


def _limit_call(name: str, value: Any, args: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Refuse a filter, or a method of a text or number, that would make too much of its value."""
    given = (*args, *options.values())
    _limit(_size(value, *given))
    if name == "format":
        _limit(_percent_size(str(value), options or tuple(args)))
    elif name in _REPEATS:
        _limit(
            _size(value)
            + _REPEATS[name](value, *args, **options) * (_size(given) + _integers(given))
        )


class _TimedContext(Context):
    """The names of one rendering, which knows when that has to end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ends_at = time.thread_time() + MAX_SECONDS

    def take_turn(self) -> bool:
        """Return True as long as there is time."""
        if time.thread_time() > self._ends_at:
            raise TooSlowError(
                f"the template takes more than {MAX_SECONDS:g} s: do its loops and macros end?"
            )
        return True


def _limited_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that looks at the time, at what it gets and at what it makes."""
    passed = _PassArg.from_obj(function)

    @pass_context
    @wraps(function)
    def limited(context: _TimedContext, value: Any = "", *args: Any, **options: Any) -> Any:
        context.take_turn()
        if name in _REPEATS and isinstance(value, Iterator):
            value = list(value)
        _limit_call(name, value, args, options)
        first = {
            _PassArg.context: (context,),
            _PassArg.eval_context: (context.eval_ctx,),
            _PassArg.environment: (context.environment,),
            None: (),
        }[passed]
        made = function(*first, value, *args, **options)
        if isinstance(made, Iterator):
            return _limited_items(context, made)
        _limit(_size(made))
        return made

    return limited


def _limited_items(context: _TimedContext, items: Iterator[Any]) -> Iterator[Any]:
    characters = 0
    for item in items:
        context.take_turn()
        characters += _size([item])
        _limit(characters)
        yield item


def _limited_value(value: Any) -> Any:
    """Return what stands in braces, if its text is not too long."""
    if not isinstance(value, str):
        _limit(_size(value))
    return value


class _Formatter(SandboxedFormatter):
    """`str.format`, which makes no more than a template may."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._made = 0

    def format_field(self, value: Any, format_spec: str) -> str:
        _limit(
            sum(int(digits[:9]) for digits in re.findall(r"[1-9]\d*", format_spec)) + _size(value)
        )
        made: str = super().format_field(value, format_spec)
        self._made += len(made)
        _limit(self._made)
        return made


class _JoinedConcat(NodeTransformer):
    """Makes the filter `join` of every `~`."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802  as Jinja calls it
        self.generic_visit(node)
        return nodes.Filter(
            nodes.Tuple(node.nodes, "load"), "join", [], [], None, None, lineno=node.lineno
        )


class _Undefined(StrictUndefined):
    """A name without a value, which is an error that says what a mapping has instead."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        if isinstance(self._undefined_obj, Mapping):
            return f"there is no {self._undefined_name!r}{_hint(str(self._undefined_name), self._undefined_obj)}"
        return super()._undefined_message


def describe_error(error: Exception, names: Iterable[str] = ()) -> str:
    """Say what went wrong in a template, and which of the names that have a value is meant."""
    text = str(error) or type(error).__name__
    undefined = re.fullmatch(r"'(.+)' is undefined", text)
    return f"{text}{_hint(undefined[1], names)}" if undefined else text


def _hint(name: str, known: Iterable[Any]) -> str:
    names = [one_line(str(each), 60) for each in islice(known, 1000)]
    if close := closest(name, names):
        return f", did you mean {close!r}?"
    more = ", …" if len(names) > _MAX_NAMES else ""
    return f"; known: {', '.join(names[:_MAX_NAMES])}{more}" if names else ""


class _Sandbox(SandboxedEnvironment):
    """A sandbox whose templates make no more than `MAX_CHARACTERS`, in no more than about
    `MAX_SECONDS`.
    """

    concat = staticmethod(_join)  # which Jinja gives all pieces of a text
    context_class = _TimedContext
    intercepted_binops = frozenset(
        {"+", "*", "**", "%"}
    )  # which make much of little, where no loop is

    def __init__(self, **options: Any) -> None:
        super().__init__(finalize=_limited_value, **options)
        self.filters = {
            name: _limited_filter(name, function) for name, function in self.filters.items()
        }
        del self.globals["lipsum"]  # text by chance, as much as one asks for

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        """Make Python code of a template, whose loops look at the time at each turn."""
        take_turn = nodes.Call(
            nodes.Getattr(nodes.ContextReference(), "take_turn", "load"), [], [], None, None
        )
        for loop in source.find_all(nodes.For):
            loop.test = nodes.And(take_turn, loop.test) if loop.test else take_turn
        _JoinedConcat().visit(source)
        source.set_environment(self)
        return super()._generate(source, *args, **kwargs)

    def call(self, context: _TimedContext, function: Any, /, *args: Any, **options: Any) -> Any:  # type: ignore[override]
        context.take_turn()
        owner = getattr(function, "__self__", None)
        if isinstance(owner, str | bytes | int):
            if function.__name__ == "join" and len(args) == 1:
                items = list(args[0]) if isinstance(args[0], Iterator) else args[0]
                _limit_call("join", items, (owner,), {})
                args = (items,)
            else:
                _limit_call(function.__name__, owner, args, options)
        return super().call(context, function, *args, **options)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        if super().wrap_str_format(value) is None:
            return None
        text, formatter = value.__self__, _Formatter(self)
        if value.__name__ == "format":
            return lambda *args, **fields: formatter.vformat(text, args, fields)
        return lambda fields: formatter.vformat(text, (), fields)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        match operator, left, right:
            case "**", int(), int():
                _limit_number(left.bit_length() * right)
            case "*", int(), int():
                _limit_number(left.bit_length() + right.bit_length())
            case ("*", Sequence(), int()) | ("*", int(), Sequence()):
                _limit(
                    _length(left) * right if isinstance(left, Sequence) else left * _length(right)
                )
            case "+", Sequence(), Sequence():
                _limit(_length(left) + _length(right))
            case "%", str(), _:
                _limit(_percent_size(left, right))
        return super().call_binop(context, operator, left, right)


class _ImmutableSandbox(ImmutableSandboxedEnvironment, _Sandbox):
    """The same, which changes no list."""


@cache
def template_sandbox(
    *, lists_may_grow: bool = False, keep_last_newline: bool = False
) -> SandboxedEnvironment:
    """Return an environment that reaches nothing but its values, in which a name without a value is
    an error.

    A text of more than `MAX_CHARACTERS` is one, too. Nothing is escaped: what is made is no HTML.

    Args:
        lists_may_grow: a template may change lists and mappings, as prompts do that build one of
            their own.
        keep_last_newline: a line feed at the very end stays, as in the body of a request.
    """
    kind = _Sandbox if lists_may_grow else _ImmutableSandbox
    return kind(undefined=_Undefined, autoescape=False, keep_trailing_newline=keep_last_newline)


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
    expression = (
        inside[1:] if inside.startswith(("-", "+")) else inside
    )  # what asks to trim stands next to the braces
    try:
        evaluate = template_sandbox(keep_last_newline=True).compile_expression(
            expression, undefined_to_none=False
        )
    except TemplateSyntaxError:  # several expressions, or text between them
        return text_renderer(source)

    def render(names: Mapping[str, Any]) -> Any:
        value = evaluate(names)
        if isinstance(value, Undefined):
            str(value)  # raises an UndefinedError that names what is undefined
        return value

    return render


def environment(finalize: Callable[[Any], Any], *, autoescape: bool = False) -> Environment:
    """Return an environment in which a name without a value is an error, and `finalize` gets every
    `{{ value }}`.

    `finalize` is to formats other than HTML what `autoescape` is to HTML: the one door through
    which text gets in.
    """
    return Environment(
        loader=FileSystemLoader(folder()),
        bytecode_cache=_bytecode_cache(),
        undefined=StrictUndefined,
        finalize=finalize,
        autoescape=autoescape,  # noqa: S701  without it `finalize` escapes
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
    """Return `_templates` inside the package as a wheel has it, else `templates/` beside it as a
    checkout does.
    """
    shipped = package / "_templates"
    return shipped if shipped.is_dir() else package.parent / "templates"
