"""Text that others wrote inside GitHub's Markdown: as code, in a fence, or plain but without meaning."""

import re
from typing import Any

from ci_evals.reports.text import bound, code_spans, one_line, visible
from ci_evals.verdict.words import in_place

HEADLINES = {"pass": "✅ Pass", "borderline": "🟡 Borderline", "fail": "❌ Fail", "error": "⚠️ No verdict"}
"""How a verdict is called on GitHub."""

NAME_CHARACTERS = 200
PLAIN_CHARACTERS = 1000

_SYNTAX = re.compile(r"[&<>\"'|*_\[\]`~\\$]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_REFERENCE = re.compile(
    r"@(?=\w)"  # a person, who would be notified
    r"|(?:#|\bGH-)(?=\d)"  # an issue
    r"|:(?=//)|\bwww(?=\.)",  # a link
    re.IGNORECASE,
)
_COMMIT = re.compile(r"\b[0-9a-f]{7,40}\b", re.IGNORECASE)
_E_MAIL = re.compile(r"(?<=[\w.+-])@(?=\w)")
_URL = re.compile(r"https?://[\w.:/?#@!$&%=+,;~-]+", re.ASCII)
_BACKTICKS = re.compile("`+")


class Markdown(str):
    """Text that is Markdown already and goes into a document as it is."""

    __slots__ = ()


def finalize(value: Any) -> str:
    """What stands in a document for a value: Markdown as it is, anything else as plain text."""
    return value if isinstance(value, Markdown) else plain(str(value))


def fill(template: str, *values: object) -> Markdown:
    """A text of ours with a value for each `{}`, by `finalize`: the one door through which others' text gets in."""
    return Markdown(template.format(*map(finalize, values)))


def plain(text: str) -> Markdown:
    """Running text in one line that formats nothing, links to nothing and notifies nobody."""
    return Markdown(_inert(one_line(text, PLAIN_CHARACTERS)))


def kept(text: str) -> Markdown:
    """A figure with its unit in one line; a new one may begin after a comma and before a bracket."""
    return Markdown(re.sub(r"(?<!,) (?!\()", "&nbsp;", plain(text)))


def heading(text: str) -> Markdown:
    """A sentence as a heading, whose lines are short: none of them ends between a figure and its unit."""
    return Markdown(bound(plain(text)))


def code(text: str) -> Markdown:
    """A name in one line as `<code>`: unlike backticks it holds in table cells and in `<summary>` too.

    People, issues and commits are no links in there; e-mail addresses are.
    """
    shown = _E_MAIL.sub("@\u200b", one_line(text, NAME_CHARACTERS))
    return Markdown(in_place(f"<code>{_SYNTAX.sub(_entity, shown)}</code>"))


def with_code(text: str) -> Markdown:
    """A sentence of ours, in which backticks mark code; only what stands outside of them is escaped."""
    spans = code_spans(one_line(text, PLAIN_CHARACTERS))
    return Markdown("".join(f"`{span}`" if is_code else _inert(span) for span, is_code in spans))


def link(text: str, url: str) -> Markdown:
    """A link to a URL of the CI system's. What is no URL of the web is only text."""
    if not _URL.fullmatch(url):
        return plain(text)
    return Markdown(f"[{plain(text)}](<{url}>)")


def fence(text: str, language: str = "text") -> Markdown:
    """A block of text behind more backticks than it has in a row."""
    shown = visible(text)
    ticks = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(shown)), default=0))
    return Markdown(f"{ticks}{language}\n{shown}\n{ticks}")


def _inert(text: str) -> str:
    return _SYNTAX.sub(_entity, _COMMIT.sub(_in_parts, _REFERENCE.sub("\\g<0>\u200b", text)))


def _in_parts(found: re.Match[str]) -> str:
    """A commit in parts that are too short to be taken for one."""
    first, rest = found[0][0], found[0][1:]
    return "\u200b".join([first, *(rest[start : start + 6] for start in range(0, len(rest), 6))])


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found.group())};"
