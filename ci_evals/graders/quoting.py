"""Model output and config values, shortened and made printable for a reason."""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from json import JSONEncoder


def quote(text: str, limit: int = 200) -> str:
    """`text` in quotes and on one line: at most `limit` characters of it, with what cannot be printed escaped."""
    if len(text) <= limit:
        return repr(text)
    start = repr(text[:limit])
    return f"{start[:-1]}…{start[-1]} ({len(text):,} characters)"


def clip(text: str, limit: int = 200) -> str:
    """The same without quotes, for names and for texts that quote by themselves."""
    start = text if len(text) <= limit else f"{text[:limit]}…"
    return start if start.isprintable() else "".join(map(_printable, start))


def show(value: Any, limit: int = 200) -> str:
    """Any value: text as `quote` does, everything else as JSON."""
    if isinstance(value, str):
        return quote(value, limit)
    shown = ""
    # Piece by piece, so that neither a million items nor ten thousand levels are walked to the end.
    for piece in _encoder().iterencode(value):
        shown += piece
        if len(shown) > limit:
            break
    return clip(shown, limit)


@cache
def _encoder() -> "JSONEncoder":
    from json import JSONEncoder

    return JSONEncoder(ensure_ascii=False, skipkeys=True, check_circular=False, default=str)


def _printable(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]
