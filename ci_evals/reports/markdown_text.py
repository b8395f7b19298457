"""Text that others wrote inside GitHub's Markdown: as code, in a fence, or plain but without meaning."""

import re
from typing import Any

from ci_evals.reports.text import one_line, visible

NAME_CHARACTERS = 200
PLAIN_CHARACTERS = 1000

_SYNTAX = re.compile(r"[&<>\"'|*_\[\]`~\\$]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_REFERENCE = re.compile(
    r"@(?=\w)"  # a person, who would be notified
    r"|(?:#|\bGH-)(?=\d)"  # an issue
    r"|:(?=//)|\bwww(?=\.)"  # a link
    r"|\b[0-9a-f](?=[0-9a-f]{6,39}\b)",  # a commit
    re.IGNORECASE,
)
_BACKTICKS = re.compile("`+")
_CODE_SPAN = re.compile("(`[^`]+`)")


class Markdown(str):
    """Text that is Markdown already and goes into a document as it is."""

    __slots__ = ()


def finalize(value: Any) -> str:
    """What a template writes for a value: Markdown as it is, anything else as plain text."""
    return value if isinstance(value, Markdown) else plain(str(value))


def plain(text: str) -> Markdown:
    """Running text in one line that formats nothing, links to nothing and notifies nobody."""
    return Markdown(_inert(one_line(text, PLAIN_CHARACTERS)))


def code(text: str) -> Markdown:
    """A name in one line as `<code>`: unlike backticks it holds in table cells and in `<summary>` too."""
    return Markdown(f"<code>{_SYNTAX.sub(_entity, one_line(text, NAME_CHARACTERS))}</code>")


def with_code(text: str) -> Markdown:
    """A sentence of ours, in which backticks mark code; only what stands outside of them is escaped."""
    parts = _CODE_SPAN.split(one_line(text, PLAIN_CHARACTERS))
    return Markdown("".join(part if _CODE_SPAN.fullmatch(part) else _inert(part) for part in parts))


def fence(text: str) -> Markdown:
    """A block of text behind more backticks than it has in a row."""
    shown = visible(text)
    ticks = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(shown)), default=0))
    return Markdown(f"{ticks}text\n{shown}\n{ticks}")


def _inert(text: str) -> str:
    return _SYNTAX.sub(_entity, _REFERENCE.sub("\\g<0>\u200b", text))


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found.group())};"
