"""Redaction of secrets: the values that a suite names, and everything shaped like a key."""

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
_PLAIN_NAMES = frozenset(
    ("ENV", "HOME", "HOST", "LANG", "MODEL", "NODE", "PORT", "PYTHON", "REGION", "SHELL", "VERSION")
)
"""The last words of the names of variables, such as `APP_PORT`, whose values are no secrets."""
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

_KEYS = {  # their beginning, and the pattern of the rest
    "sk-": "[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic and those who copied them
    "AIza": "[A-Za-z0-9_-]{16,}",  # Google
    **dict.fromkeys(("gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_"), "[A-Za-z0-9_]{16,}"),
    **dict.fromkeys(("AKIA", "ASIA"), "[A-Z0-9]{16,}"),  # AWS
    "xox": "[a-z]-[A-Za-z0-9-]{16,}",  # Slack
    "hf_": "[A-Za-z0-9]{16,}",  # Hugging Face
    **dict.fromkeys(("glcbt-", "glpat-"), "[A-Za-z0-9_-]{16,}"),  # GitLab
    "eC1hY2Nlc3MtdG9rZW46": "[A-Za-z0-9+/]{16,}=*",  # base64 of `x-access-token:`, in git's config
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
"""Every text with one of the shapes has one of these, as JSON and without."""
_NOT_PROSE = r"[0-9A-Z]|[a-z]{16}"  # tells sk-proj-Ab3… from sk-learn-like-estimators

_learned: list[str] = []
_listeners: list[Callable[[str], None]] = []


def secret_values(
    named: Mapping[str, str], dotenv: Mapping[str, str], visible: Iterable[str]
) -> tuple[str, ...]:
    """Return the values of variables that are secrets, the longest first.

    Values whose redaction would make a report unreadable are left out: values shorter than 6
    characters, numbers of fewer than 8 digits, plain words of configuration (`production`), values
    of variables whose names say that they are plain (`PYTHON`), and values that equal one of
    `visible`.

    Args:
        named: the variables that the config refers to, or whose names say that they are secret.
        dotenv: everything in the `.env` file.
        visible: texts that reports show anyway: names of providers, models, base URLs. A URL with a
            password stays secret.
    """
    shown = {text.strip() for text in visible if not _SHAPES.search(text)}
    secrets = set()
    for name, value in (*named.items(), *dotenv.items()):
        if _sounds_plain(name):
            continue
        stripped = value.strip()
        if stripped not in shown and _is_worth_hiding(stripped):
            secrets.add(stripped)
    return tuple(_longest_first(secrets))


def sensitive_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables whose names say that they are secret, the longest first."""
    return secret_values(sensitive_variables(environ), {}, ())


def sensitive_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose names say that they are secret."""
    return {name: value for name, value in environ.items() if sounds_secret(name)}


def sounds_secret(name: str) -> bool:
    """Return True if the name of a variable says that its value is secret."""
    return any(word in name.upper() for word in _SENSITIVE_NAMES)


def _sounds_plain(name: str) -> bool:
    """Return True if the name of a variable says that its value is no secret."""
    last_word = name.upper().rpartition("_")[2]
    return last_word in _PLAIN_NAMES and not sounds_secret(name)


def learn_named(value: Any) -> None:
    """Add all texts of a value that are under a name that says that they are secret, at any depth.

    Names are the keys of mappings and the fields of dataclasses.
    """
    _learn_named(value, is_secret=False, depth=0)


def _learn_named(value: Any, *, is_secret: bool, depth: int) -> None:
    if isinstance(value, str):
        if is_secret:
            learn(value)
        return
    if depth == _DEEPEST:
        return
    if isinstance(value, Mapping):
        for name, item in value.items():
            _learn_named(item, is_secret=is_secret or sounds_secret(str(name)), depth=depth + 1)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            item = getattr(value, field.name, None)
            _learn_named(item, is_secret=is_secret or sounds_secret(field.name), depth=depth + 1)
    elif isinstance(value, _CONTAINERS):
        for item in value:
            _learn_named(item, is_secret=is_secret, depth=depth + 1)


def mask_named(value: Any) -> Any:
    """Return a copy of a JSON value with `***` for everything under a name that says that it is
    secret, at any depth.

    Raises:
        RecursionError: the value is nested too deeply, or contains itself.
    """
    if isinstance(value, dict):
        masked = {}
        for name, item in value.items():
            if sounds_secret(str(name)):
                masked[name] = MASK
            else:
                masked[name] = mask_named(item)
        return masked
    if isinstance(value, list | tuple):
        return [mask_named(item) for item in value]
    return value


def learn(value: str) -> None:
    """Add a secret that turns up while this process runs; all redactors take it out from now on."""
    value = value.strip()
    if _is_worth_hiding(value) and value not in _learned:
        _learned.append(value)
        for listener in _listeners:
            listener(value)


@contextmanager
def listen(listener: Callable[[str], None]) -> Iterator[None]:
    """Call `listener` with each secret that is learned within the context."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def mask_commands(values: Iterable[str]) -> str:
    """Return workflow commands that make GitHub Actions mask the values in its log.

    They must be printed before anything else, and a line at a time: a mask applies to later lines,
    and within one line only.
    """
    lines: dict[str, None] = {}
    for value in values:
        lines |= dict.fromkeys(_lines(value))
    commands = ""
    for line in lines:
        escaped = line.replace("%", "%25")
        commands += f"::add-mask::{escaped}\n"
    return commands


class Redactor:
    """Replaces secrets with `***`: the given values, and everything with the shape of a private
    key, a token or a login.

    Values that `learn` adds later are replaced, too. A value is also found JSON-escaped,
    URL-encoded, HTML-escaped and inside base64; a value of several lines is also found line by
    line. Only strings change, never a number. Values shorter than 6 characters are ignored.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._values = tuple(values)
        self._load()

    def _load(self) -> None:
        self._learned = len(_learned)
        forms: set[str] = set()
        for value in (*self._values, *_learned):
            for part in _parts(value):
                forms.update(_forms(part))
        self._forms = _longest_first(form for form in forms if len(form) >= SHORTEST)
        json_forms = [_escape(form, ensure_ascii=False) for form in self._forms]
        self._signs = (*_SIGNS, *json_forms)

    def clean(self, value: T) -> T:
        """Return a copy without secrets, or the value itself if it has none.

        Dataclasses, mappings (their keys, too), sequences and sets keep their types. Fields whose
        type is a `Literal` (`status`) are left alone. Keys that become equal merge into one, with
        the last one's value. Values nested more than 40 levels deep become text.
        """
        if isinstance(value, _CONTAINERS) or is_dataclass(value):
            try:
                encoded = to_json(value, fallback=repr)
            except (PydanticSerializationError, RecursionError):
                pass  # JSON cannot express it
            else:
                if not self.suspects(encoded):
                    return value
        return cast("T", self._clean(value, 0))

    def clean_text(self, text: str) -> str:
        """Return the text without secrets."""
        if self._learned != len(_learned):
            self._load()
        before = None
        # Repeated, because a replacement may join the halves of another secret.
        while text != before:
            before = text
            for form in self._forms:
                text = text.replace(form, MASK)
            if any(map(text.__contains__, _SIGNS)):  # the pattern takes ten times as long
                text = _SHAPES.sub(_mask, text)
        return text

    def suspects(self, encoded: bytes) -> bool:
        """Return True if a value, given as JSON in UTF-8 without needless escapes, may have a
        secret.

        This takes a fraction of the time of `clean`, and hardly any value has a secret.
        """
        if self._learned != len(_learned):
            self._load()
        text = encoded.decode()
        return any(map(text.__contains__, self._signs))

    def finds(self, line: bytes) -> bool:
        """Return True if a line of JSON, or the text of a damaged line, has a secret."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = line.decode(errors="replace")
        return self.clean(value) is not value

    def _clean(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.clean_text(value)
        names = _free_fields(value.__class__)
        if not names and not isinstance(value, _CONTAINERS):
            return value
        if depth == _DEEPEST:
            return self._clean_as_text(value)

        if names:
            old = [getattr(value, name) for name in names]
        elif isinstance(value, dict):
            old = [*value.keys(), *value.values()]
        else:
            old = list(value)
        new = [self._clean(item, depth + 1) for item in old]
        if all(map(operator.is_, new, old)):
            return value

        if names:
            changes = dict(zip(names, new, strict=True))
            return replace(value, **changes)
        if isinstance(value, dict):
            keys = new[: len(value)]
            values = new[len(value) :]
            return dict(zip(keys, values, strict=True))
        if hasattr(value, "_fields"):  # a named tuple
            return type(value)(*new)
        return type(value)(new)

    def _clean_as_text(self, value: Any) -> Any:
        text = json.dumps(value, ensure_ascii=False, default=repr)
        cleaned = self.clean_text(text)
        if cleaned == text:
            return value
        return cleaned


@cache
def _free_fields(kind: type) -> tuple[str, ...]:
    """Return the names of a dataclass's fields, without `Literal` ones: a secret `passed` must not
    break `status`.
    """
    if not is_dataclass(kind):
        return ()
    types = get_type_hints(kind)
    names = []
    for field in fields(kind):
        is_literal = get_origin(types[field.name]) is Literal
        if field.init and not is_literal:  # `replace` refuses fields without `init`
            names.append(field.name)
    return tuple(names)


def _mask(match: re.Match[str]) -> str:
    bearer = match["bearer"]
    if bearer:
        scheme, _, token = bearer.partition(" ")
        if re.search(_NOT_PROSE, token):
            return f"{scheme} {MASK}"
        return bearer
    key = match["key"]
    if key and not re.search(_NOT_PROSE, key):
        return key
    return MASK


def _is_worth_hiding(value: str) -> bool:
    if len(value) < SHORTEST or value.casefold() in _PLAIN_WORDS:
        return False
    if not re.fullmatch(_NUMBER, value):
        return True
    digits = sum(map(str.isdigit, value))
    return digits >= _FEWEST_DIGITS


def _longest_first(values: Iterable[str]) -> list[str]:
    """Sort values so that one that contains another is replaced first, and none is left in part."""
    return sorted(sorted(values), key=len, reverse=True)


def _lines(value: str) -> Iterator[str]:
    """Yield the stripped lines of a value that are worth hiding."""
    for line in re.split(_LINE_ENDS, value):
        stripped = line.strip()
        if _is_worth_hiding(stripped):
            yield stripped


def _parts(value: str) -> Iterator[str]:
    """Yield the whole value and, if it has several lines, each of them."""
    yield value
    if re.search(_LINE_ENDS, value):
        yield from _lines(value)


def _forms(value: str) -> Iterator[str]:
    """Yield the encodings in which a value may appear in a text."""
    yield value
    text = value.encode("utf-8", "replace").decode()  # the journal replaces lone surrogates
    yield text
    yield repr(text)[1:-1]
    for ensure_ascii in (True, False):
        escaped = _escape(text, ensure_ascii=ensure_ascii)
        yield escaped
        yield escaped.replace("/", r"\/")
        yield _escape(escaped)  # JSON inside JSON
    for encoded in (
        quote(text),
        quote(text, safe=""),
        quote(text, safe="!'()*"),
        quote_plus(text),
    ):
        yield encoded
        yield re.sub("%..", _to_lower, encoded)
    markup = html.escape(text, quote=False)
    yield markup
    for double, single in _HTML_QUOTES:
        yield markup.replace('"', double).replace("'", single)
    for inside in _base64(text.encode()):
        yield inside
        yield inside.replace("+", "-").replace("/", "_")


_HTML_QUOTES = (
    ("&quot;", "&#x27;"),
    ("&quot;", "&#39;"),
    ("&quot;", "&apos;"),
    ("&#34;", "&#39;"),
)
"""The escapes that programs use for double and single quotes."""


def _escape(text: str, *, ensure_ascii: bool = True) -> str:
    """Return a text as it appears inside a JSON string."""
    return json.dumps(text, ensure_ascii=ensure_ascii)[1:-1]


def _to_lower(match: re.Match[str]) -> str:
    return match[0].lower()


def _base64(value: bytes) -> Iterator[str]:
    """Yield the base64 that every encoded text with the value contains, for each of the three
    offsets.
    """
    for offset in range(3):
        encoded = b64encode(bytes(offset) + value).decode()
        # A character has 6 bits; the first and the last may share theirs with neighbouring bytes.
        start = (8 * offset + 5) // 6
        end = 8 * (offset + len(value)) // 6
        yield encoded[start:end]
