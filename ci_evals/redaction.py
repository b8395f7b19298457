"""Redaction of secrets: the values that the suite names, and everything shaped like a key."""

import html
import json
import operator
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Final, Literal, TypeVar, cast, get_origin, get_type_hints
from urllib.parse import quote, quote_plus

from pydantic_core import PydanticSerializationError, to_json

T = TypeVar("T")

MASK: Final = "***"
_SENSITIVE_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
SHORTEST: Final = 6  # characters; shorter values occur in ordinary text
_FEWEST_DIGITS = 8
_DEEPEST = 40  # levels of nesting; each takes three Python frames
_CONTAINERS = (dict, list, tuple, set, frozenset)

_PLAIN_WORDS = frozenset(
    (
        "default",
        "development",
        "disabled",
        "enabled",
        "localhost",
        "production",
        "staging",
        "verbose",
        "warning",
    )
)
_NUMBER = r"[+-]?[0-9][0-9.,_]*%?"
_LINE_ENDS = r"[\r\n]+"

_KEYS = {  # how they begin, and the pattern of what follows
    "sk-": "[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic and those who copied them
    "AIza": "[A-Za-z0-9_-]{16,}",  # Google
    **dict.fromkeys(("gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_"), "[A-Za-z0-9_]{16,}"),
    **dict.fromkeys(("AKIA", "ASIA"), "[A-Z0-9]{16,}"),  # AWS
    "xox": "[a-z]-[A-Za-z0-9-]{16,}",  # Slack
    "hf_": "[A-Za-z0-9]{16,}",  # Hugging Face
}
_KEY = "|".join(f"{re.escape(start)}{rest}" for start, rest in _KEYS.items())
_BEARER = (
    r"[Bb]earer {1,3}(?:[A-Za-z0-9_+%-]{0,15}[./~]){0,3}[A-Za-z0-9_+%-]{16}[A-Za-z0-9_+%./~-]*=*"
)
_LOGIN = r'(?<=://)[^\s/:@"<>]*:[^\s/"<>]+(?=@)'  # user:password@
_PRIVATE_KEY = (
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[A-Za-z0-9+/=\s\\:,.()]++|-(?!----))*+"
    r"(?:-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----)?"
)
_SHAPES = re.compile(
    rf"{_PRIVATE_KEY}|{_LOGIN}|(?<![A-Za-z0-9])(?:(?P<key>{_KEY})|(?P<bearer>{_BEARER}))", re.ASCII
)
_SIGNS = (*_KEYS, "earer ", "://", "PRIVATE KEY")
"""One of them is in every text that has one of the shapes, JSON or not."""
_NOT_PROSE = r"[0-9A-Z]|[a-z]{16}"  # tells sk-proj-Ab3… from sk-learn-like-estimators

_learned: list[str] = []
_listeners: list[Callable[[str], None]] = []


def secret_values(
    named: Mapping[str, str], dotenv: Mapping[str, str], visible: Iterable[str]
) -> tuple[str, ...]:
    """Return the values of variables that are secrets, the longest first.

    Values that would make a report unreadable are left out: those shorter than 6 characters,
    numbers of fewer than 8 digits, plain words of configuration (`production`), and values that
    equal one of `visible`.

    Args:
        named: the variables that the config refers to.
        dotenv: everything in the `.env` file.
        visible: texts that reports show anyway: names of providers, models, base URLs. A URL with a
            password stays secret.
    """
    shown = {text.strip() for text in visible if not _SHAPES.search(text)}
    values = {value.strip() for value in (*named.values(), *dotenv.values())} - shown
    return tuple(sorted(filter(_is_worth_hiding, values), key=lambda value: (-len(value), value)))


def sensitive_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables whose names say that they are secret, the longest first."""
    sensitive = {
        name: value
        for name, value in environ.items()
        if any(word in name.upper() for word in _SENSITIVE_NAMES)
    }
    return secret_values(sensitive, {}, ())


def learn(value: str) -> None:
    """Add a secret that comes up while this process runs: every redactor takes it out from now
    on.
    """
    value = value.strip()
    if _is_worth_hiding(value) and value not in _learned:
        _learned.append(value)
        for listener in _listeners:
            listener(value)


@contextmanager
def listen(listener: Callable[[str], None]) -> Iterator[None]:
    """Call `listener` with each secret that is learned while the context lasts."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def mask_commands(values: Iterable[str]) -> str:
    """Return workflow commands that make GitHub Actions hide the values in its log; print them
    before anything else.
    """
    lines = dict.fromkeys(line for value in values for line in _lines(value))
    return "".join(f"::add-mask::{line.replace('%', '%25')}\n" for line in lines)


class Redactor:
    """Replaces secrets by `***`: the given values, and whatever has the shape of a private key, a
    token or a login.

    So are values that `learn` adds later. A value is also found JSON-escaped, URL-encoded,
    HTML-escaped and inside base64; a value of several lines is also found line by line. Only
    strings change, never a number. Values shorter than 6 characters are ignored.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._values = tuple(values)
        self._load()

    def _load(self) -> None:
        self._learned = len(_learned)
        parts = (part for value in (*self._values, *_learned) for part in _parts(value))
        forms = {form for part in parts for form in _forms(part) if len(form) >= SHORTEST}
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        json_forms = [json.dumps(form, ensure_ascii=False)[1:-1] for form in self._forms]
        self._signs = (*_SIGNS, *json_forms)

    def clean(self, value: T) -> T:
        """Return a copy without secrets, or the value itself if it holds none.

        Dataclasses, mappings (their keys, too), sequences and sets keep their types. Fields whose
        type is a `Literal` (`status`) are left alone. Keys that become equal merge into one, with
        the last one's value. Values nested more than 40 levels deep become text.
        """
        if isinstance(value, _CONTAINERS) or is_dataclass(value):
            try:
                encoded = to_json(value, fallback=repr)
            except (PydanticSerializationError, RecursionError):
                pass  # JSON cannot say it
            else:
                if not self.suspects(encoded):
                    return value
        return cast("T", self._clean(value, 0))

    def clean_text(self, text: str) -> str:
        """Return the text without secrets."""
        if self._learned != len(_learned):
            self._load()
        before = None
        while (
            text != before
        ):  # again, as a replacement may bring the halves of another secret together
            before = text
            for form in self._forms:
                text = text.replace(form, MASK)
            text = _SHAPES.sub(_mask, text)
        return text

    def suspects(self, encoded: bytes) -> bool:
        """Return True if a value, given as JSON in UTF-8 without needless escapes, may hold a
        secret.

        This takes a fraction of the time of `clean`, and hardly any value holds a secret.
        """
        if self._learned != len(_learned):
            self._load()
        text = encoded.decode()
        return any(map(text.__contains__, self._signs))

    def finds(self, line: bytes) -> bool:
        """Return True if a line of JSON, or the text of a damaged one, holds a secret."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = line.decode(errors="replace")
        return self.clean(value) is not value

    def _clean(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.clean_text(value)
        names, is_container = _free_fields(value.__class__), isinstance(value, _CONTAINERS)
        if not names and not is_container:
            return value
        if depth == _DEEPEST:
            text = json.dumps(value, ensure_ascii=False, default=repr)
            return value if (cleaned := self.clean_text(text)) == text else cleaned
        old = _items(value) if is_container else [getattr(value, name) for name in names]
        new = [self._clean(item, depth + 1) for item in old]
        if all(map(operator.is_, new, old)):
            return value
        return (
            _rebuild(value, new)
            if is_container
            else replace(value, **dict(zip(names, new, strict=True)))
        )


def _items(container: Any) -> list[Any]:
    return [*container, *container.values()] if isinstance(container, dict) else list(container)


def _rebuild(container: Any, items: list[Any]) -> Any:
    if isinstance(container, dict):
        return dict(zip(items[: len(container)], items[len(container) :], strict=True))
    return type(container)(*items) if hasattr(container, "_fields") else type(container)(items)


@cache
def _free_fields(kind: type) -> tuple[str, ...]:
    """Return the names of a dataclass's fields but for `Literal` ones: a secret `passed` must not
    break `status`.
    """
    if not is_dataclass(kind):
        return ()
    types = get_type_hints(kind)
    return tuple(
        field.name
        for field in fields(kind)
        if field.init and get_origin(types[field.name]) is not Literal
    )


def _mask(match: re.Match[str]) -> str:
    if bearer := match["bearer"]:
        scheme, _, token = bearer.partition(" ")
        return f"{scheme} {MASK}" if re.search(_NOT_PROSE, token) else bearer
    key = match["key"]
    return key if key and not re.search(_NOT_PROSE, key) else MASK


def _is_worth_hiding(value: str) -> bool:
    if len(value) < SHORTEST or value.casefold() in _PLAIN_WORDS:
        return False
    return not re.fullmatch(_NUMBER, value) or sum(map(str.isdigit, value)) >= _FEWEST_DIGITS


def _lines(value: str) -> Iterator[str]:
    """Yield the stripped lines of a value that are worth hiding."""
    return filter(_is_worth_hiding, map(str.strip, re.split(_LINE_ENDS, value)))


def _parts(value: str) -> Iterator[str]:
    """Yield the whole value and, if it has several lines, each of them."""
    yield value
    if re.search(_LINE_ENDS, value):
        yield from _lines(value)


def _forms(value: str) -> Iterator[str]:
    """Yield every encoding in which a value may appear in a text."""
    yield value
    text = value.encode("utf-8", "replace").decode()  # the journal replaces lone surrogates
    yield text
    yield repr(text)[1:-1]
    for escaped in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        yield from (
            escaped,
            escaped.replace("/", r"\/"),
            json.dumps(escaped)[1:-1],
        )  # the last is JSON inside JSON
    for encoded in (quote(text), quote(text, safe=""), quote(text, safe="!'()*"), quote_plus(text)):
        yield from (encoded, re.sub("%..", lambda code: code[0].lower(), encoded))
    markup = html.escape(text, quote=False)
    yield markup
    for double, single in (
        ("&quot;", "&#x27;"),
        ("&quot;", "&#39;"),
        ("&quot;", "&apos;"),
        ("&#34;", "&#39;"),
    ):
        yield markup.replace('"', double).replace("'", single)
    for inside in _base64(text.encode()):
        yield from (inside, inside.replace("+", "-").replace("/", "_"))


def _base64(value: bytes) -> Iterator[str]:
    """Yield the base64 that every text around the value contains, for each of the three offsets."""
    for offset in range(3):
        encoded = b64encode(bytes(offset) + value).decode()
        yield encoded[(8 * offset + 5) // 6 : 8 * (offset + len(value)) // 6]
