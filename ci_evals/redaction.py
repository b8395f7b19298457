"""Takes secrets out of what is written: values that the suite names, and everything shaped like a key."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, Literal, TypeVar, cast, get_origin

import msgspec
from msgspec import Struct

T = TypeVar("T")

MASK: Final = "***"
SHORTEST: Final = 6  # characters; less than that stands in every other text
_FEWEST_DIGITS = 8
_DEEPEST = 40  # levels of nesting that are walked; each takes three Python frames

_PLAIN_WORDS = frozenset(
    ("default", "development", "disabled", "enabled", "localhost", "production", "staging", "verbose", "warning")
)
_NUMBER = r"[+-]?[0-9][0-9.,_]*%?"
_LINE_ENDS = r"[\r\n]+"

_KEY = (
    r"sk-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic and those who copied them
    r"|AIza[A-Za-z0-9_-]{16,}"  # Google
    r"|gh[oprsu]_[A-Za-z0-9_]{16,}|github_pat_[A-Za-z0-9_]{16,}"
    r"|A[KS]IA[A-Z0-9]{16,}"  # AWS
    r"|xox[a-z]-[A-Za-z0-9-]{16,}"  # Slack
    r"|hf_[A-Za-z0-9]{16,}"  # Hugging Face
)
_BEARER = r"[Bb]earer {1,3}(?:[A-Za-z0-9_+%-]{0,15}[./~]){0,3}[A-Za-z0-9_+%-]{16}[A-Za-z0-9_+%./~-]*=*"
_LOGIN = r'(?<=://)[^\s/:@"<>]*:[^\s/"<>]+(?=@)'  # user:password@
_PRIVATE_KEY = (
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[A-Za-z0-9+/=\s\\:,.()]++|-(?!----))*+"
    r"(?:-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----)?"
)
_SHAPES = re.compile(rf"{_PRIVATE_KEY}|{_LOGIN}|(?<![A-Za-z0-9])(?:(?P<key>{_KEY})|(?P<bearer>{_BEARER}))", re.ASCII)
_NOT_PROSE = r"[0-9A-Z]|[a-z]{16}"  # tells sk-proj-Ab3… from sk-learn-like-estimators

_RUN = 16  # every key, and most secrets in any encoding, have this many word characters in a row
_BLOCK = _RUN // 2
_BEARER_REACH = 64  # bytes from the scheme to the token's first long word, at most
_WORDS = re.compile(rb"[A-Za-z0-9_+%-]+")
_AT = ord("@")
_ALPHANUMERIC = rb"[A-Za-z0-9]+"
_IN_WORDS = b"".join(_WORDS.findall(bytes(range(256))))
_OUTLINE = bytes(ord("w") if byte in _IN_WORDS else ord(" ") for byte in range(256))
_LONG_WORD = b"w" * _RUN


def secret_values(named: Mapping[str, str], dotenv: Mapping[str, str], visible: Iterable[str]) -> tuple[str, ...]:
    """Which values of variables are secrets, the longest first.

    All are, but for those without which a report could not be read: shorter than 6 characters, numbers of fewer than
    8 digits, plain words of configuration (`production`), and what is exactly one of `visible`.

    Args:
        named: the variables that the config refers to.
        dotenv: everything in the `.env` file.
        visible: what reports show anyway: names of providers, models, base URLs. A URL with a password stays secret.
    """
    shown = {text.strip() for text in visible if not _SHAPES.search(text)}
    values = {value.strip() for value in (*named.values(), *dotenv.values())} - shown
    return tuple(sorted(filter(_tells, values), key=lambda value: (-len(value), value)))


def mask_commands(values: Iterable[str]) -> str:
    """Workflow commands that make GitHub Actions hide the values in its log; print them before anything else."""
    lines = dict.fromkeys(line for value in values for line in _lines(value))
    return "".join(f"::add-mask::{line.replace('%', '%25')}\n" for line in lines)


class Redactor:
    """Replaces secrets by `***`: the given values, and private keys, tokens, passwords in URLs, known by their shape.

    A value is also found JSON-escaped, URL-encoded, HTML-escaped, inside base64, and by each line of a multi-line
    one. Only strings change, never a number. Values shorter than 6 characters are ignored.
    """

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values for part in _parts(value) for form in _forms(part) if len(form) >= SHORTEST}
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._blocks, self._needles = _index(forms)

    def finds(self, line: bytes, start: int = 0) -> bool:
        """Whether `clean` may change what this line of JSON, encoded by msgspec, was made from; `start` is where what
        may hold a secret begins.

        Never False when it would, seldom True when it would not. Keys, and values with 16 word characters in a row,
        are looked for in the line's long words only, whatever their number; other values cost one search each.
        """
        # `find`, since `in` first tries whether bytes are a number, which costs an exception each.
        for needle in self._needles:
            if line.find(needle, start) >= 0:
                return True
        if line.find(b"-----BEGIN", start) >= 0 or (_AT in line and _in_lines(_LOGIN).search(line, start)):
            return True
        outline = line.translate(_OUTLINE)
        start = outline.find(_LONG_WORD, start)
        while start >= 0:
            end = outline.find(b" ", start)
            if end < 0:
                end = len(line)
            if self._is_secret(line[start:end]) or _follows_bearer(line, start):
                return True
            start = outline.find(_LONG_WORD, end)
        return False

    def _is_secret(self, word: bytes) -> bool:
        if self._blocks:
            for at in range(0, len(word), _BLOCK):
                if word[at : at + _BLOCK] in self._blocks:
                    return True
        if word.isalnum() and word.islower():  # a hash; every key has a hyphen, an underscore or a capital
            return False
        return _in_lines(_KEY).search(word) is not None

    def clean(self, value: T) -> T:
        """The same without secrets: structs, mappings (keys, too), sequences and sets keep their types.

        What holds no secret comes back as it is. Fields that allow fixed words only (`status`) are left alone.
        Keys that become equal are one key, with the last one's value. What is nested very deeply becomes text if it
        may hold a secret.
        """
        return cast("T", self._clean(value, 0))

    def clean_text(self, text: str) -> str:
        """The text without secrets."""
        if len(text) < SHORTEST:
            return text
        while (cleaned := self._clean_once(text)) != text:  # a replacement may put together what was apart
            text = cleaned
        return text

    def _clean_once(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, MASK)
        return _SHAPES.sub(_masked, text)

    def _clean(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.clean_text(value)
        if not isinstance(value, Struct | dict | list | tuple | set | frozenset):
            return value
        if depth == _DEEPEST:
            return self._clean_deep(value)
        if isinstance(value, Struct):
            return self._clean_struct(value, depth + 1)
        return self._clean_container(value, depth + 1)

    def _clean_container(self, value: Any, depth: int) -> Any:
        old = [*value, *value.values()] if isinstance(value, dict) else list(value)
        new = [self._clean(item, depth) for item in old]
        if all(after is before for after, before in zip(new, old, strict=True)):
            return value
        if isinstance(value, dict):
            return dict(zip(new[: len(value)], new[len(value) :], strict=True))
        return type(value)(*new) if hasattr(value, "_fields") else type(value)(new)

    def _clean_struct(self, value: Struct, depth: int) -> Struct:
        changes = {}
        for name in _free_fields(type(value)):
            old = getattr(value, name)
            if (new := self._clean(old, depth)) is not old:
                changes[name] = new
        return msgspec.structs.replace(value, **changes) if changes else value

    def _clean_deep(self, value: Any) -> Any:
        try:
            line = msgspec.json.encode(value, enc_hook=repr)
        except RecursionError:
            return MASK
        return self.clean_text(line.decode()) if self.finds(line) else value


@cache
def _in_lines(shape: str) -> re.Pattern[bytes]:
    """A shape without the boundary before it, which encoded lines hide: their `\\n` ends in a letter.

    Compiled when a line needs it: an error in a suite is told before there is one.
    """
    return re.compile(shape.encode())


@cache
def _free_fields(kind: type[Struct]) -> tuple[str, ...]:
    """The fields that may hold any text: a secret that reads `passed` must not make a result unreadable."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if get_origin(field.type) is not Literal)


def _masked(match: re.Match[str]) -> str:
    if bearer := match["bearer"]:
        scheme, _, token = bearer.partition(" ")
        return f"{scheme} {MASK}" if re.search(_NOT_PROSE, token) else bearer
    key = match["key"]
    return key if key and not re.search(_NOT_PROSE, key) else MASK


def _follows_bearer(line: bytes, start: int) -> bool:
    return line[start - 1] in b" ./~" and line.find(b"earer ", max(0, start - _BEARER_REACH), start) >= 0


def _tells(value: str) -> bool:
    """Whether hiding the value protects anything."""
    if len(value) < SHORTEST or value.casefold() in _PLAIN_WORDS:
        return False
    return not re.fullmatch(_NUMBER, value) or sum(map(str.isdigit, value)) >= _FEWEST_DIGITS


def _lines(value: str) -> Iterator[str]:
    """The lines that tell something, without the blanks around them."""
    return filter(_tells, map(str.strip, re.split(_LINE_ENDS, value)))


def _parts(value: str) -> Iterator[str]:
    """What to look for: the whole value, and every line of a multi-line one."""
    yield value
    if re.search(_LINE_ENDS, value):
        yield from _lines(value)


def _forms(value: str) -> Iterator[str]:
    """The ways in which a value may stand in a text."""
    import html
    import json
    from urllib.parse import quote, quote_plus

    yield value
    text = value.encode("utf-8", "replace").decode()  # lone surrogates, as the journal writes them
    yield text
    yield repr(text)[1:-1]
    for escaped in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        yield from (escaped, escaped.replace("/", r"\/"))
    for encoded in (quote(text), quote(text, safe=""), quote(text, safe="!'()*"), quote_plus(text)):
        yield from (encoded, re.sub("%..", lambda code: code[0].lower(), encoded))
    markup = html.escape(text, quote=False)
    yield markup
    for double, single in (("&quot;", "&#x27;"), ("&quot;", "&#39;"), ("&quot;", "&apos;"), ("&#34;", "&#39;")):
        yield markup.replace('"', double).replace("'", single)
    for inside in _base64(text.encode()):
        yield from (inside, inside.replace("+", "-").replace("/", "_"))


def _base64(value: bytes) -> Iterator[str]:
    """What base64 of any text with the value in it must contain: one form for each offset modulo 3."""
    from base64 import b64encode

    for offset in range(3):
        encoded = b64encode(bytes(offset) + value).decode()
        yield encoded[(8 * offset + 5) // 6 : 8 * (offset + len(value)) // 6]


def _index(forms: Iterable[str]) -> tuple[frozenset[bytes], tuple[bytes, ...]]:
    """What gives forms away in encoded lines: blocks of long words, and a piece of each form without a long word.

    A word that contains another of 16 bytes, cut into blocks of 8 from its start, has at least one whole block within
    the other's first 15 bytes; so the 8 blocks in there are all that need to be known.
    """
    blocks: set[bytes] = set()
    pieces: set[bytes] = set()
    for form in forms:
        encoded = msgspec.json.encode(form.encode("utf-8", "replace").decode())[1:-1]
        word = max(_WORDS.findall(encoded), key=len, default=b"")
        if len(word) >= _RUN:
            blocks.update(word[at : at + _BLOCK] for at in range(_BLOCK))
            continue
        piece = max(re.findall(_ALPHANUMERIC, encoded), key=len, default=b"")  # the same in most forms of a value
        pieces.add(piece if len(piece) >= SHORTEST else encoded)
    needles = (piece for piece in pieces if not any(other in piece for other in pieces if other != piece))
    return frozenset(blocks), tuple(needles)
