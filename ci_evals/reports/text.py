"""Text that others wrote, made fit to be shown: shortened, and without characters that act instead of being seen."""

import re
from collections.abc import Iterator

from ci_evals.verdict.words import in_place

_NONCHARACTERS = "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
# Patterns for what stands in few texts: compiled when they are first used, which takes milliseconds.
_ACTING = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but for tab and line feed
    "\u2028\u2029"  # line breaks of their own kind
    "\u202a-\u202e\u2066-\u2069"  # overrides of the writing direction
    "\ud800-\udfff"  # surrogates: not text in any encoding
    f"\ufdd0-\ufdef{_NONCHARACTERS}]"
)
# A runner's search for its commands may skip what Unicode calls default-ignorable.
_IGNORED = "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\ufe00-\ufe0f\ufeff"
_COMMAND = rf"(?m)^((?:[\s{_IGNORED}]|\x1b\[[0-9;]*m)*):(?=[{_IGNORED}]*:)"
_BEFORE_UNIT = r"(?<=\d) (?=(?:%|ms|s|min|h|points)(?!\w))"
_OLD_COMMAND = rf"#(?=[{_IGNORED}]*\[)"


def visible(text: str) -> str:
    r"""Write every character that acts instead of being seen as its escape: `\x1b`, `\u202e`, `\ud800`.

    What is left is valid UTF-8 and valid XML 1.0; line feeds and tabs stay.
    """
    if text.isprintable():  # as nothing is that acts
        return text
    return re.sub(_ACTING, _escape, text.replace("\r\n", "\n"))


def shortened(text: str, limit: int) -> str:
    """The first `limit` characters, made visible, with a note of how many more there were."""
    if len(text) <= limit:
        return visible(text)
    return f"{visible(text[:limit])}… ({len(text) - limit:,} more characters)"


def one_line(text: str, limit: int) -> str:
    """At most `limit` characters and an ellipsis, made visible, every run of blanks and line breaks as one space."""
    looked_at = text[: 4 * limit]
    shown = visible(" ".join(looked_at.split()))
    return shown if len(shown) <= limit and len(looked_at) == len(text) else shown[:limit] + "…"


def bound(sentence: str) -> str:
    """A sentence as wide as before, in which no line ends between a figure and its unit."""
    return re.sub(_BEFORE_UNIT, "\xa0", sentence)


def named(name: object, limit: int) -> str:
    """What others call something, for the middle of a line: in one line, and nothing beside it is reordered."""
    return in_place(one_line(str(name), limit))


def code_spans(sentence: str) -> Iterator[tuple[str, bool]]:
    """The pieces of a sentence of ours, in which backticks mark code: each text, and whether it is code."""
    for number, piece in enumerate(re.split("`([^`]+)`", sentence)):
        yield piece, number % 2 == 1


def without_commands(text: str) -> str:
    """Break what a CI runner would obey in a log, `::error::` at the start of a line and `##[error]` anywhere.

    The text stays as wide as it was. A carriage return, which may start a line too, becomes a line feed.
    """
    text = text.replace("\r", "\n")
    bare = text.encode("ascii", "ignore")  # all that is skipped is beyond ASCII
    if b"::" in bare:
        text = re.sub(_COMMAND, r"\1.", text)
    return re.sub(_OLD_COMMAND, " ", text) if b"#[" in bare else text


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
