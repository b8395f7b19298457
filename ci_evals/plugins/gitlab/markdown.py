"""Markdown for GitLab, in which text of others cannot act, link or notify."""

import re

_KEPT = re.compile(
    r"(?P<kept>"
    r"<!--.*?-->"  # markers have percent signs
    r"|^(?P<fence>`{3,}).*?^(?P=fence)$"
    r"|(?P<ticks>`+)(?!`)[^\n]*?(?<!`)(?P=ticks)(?!`)"
    r"|<code>.*?</code>"
    r"|\]\(<[^>\n]*>\)"  # the target of a link
    r")"
    # A merge request, a milestone or a placeholder, an alert, and as entities: a snippet, an epic,
    # an iteration, anything in brackets, a label.
    r"|(?P<sigil>!(?=\d)|%(?=[\w\"{]|&\#34;)|\^(?=alert)|&\#(?:36|38|42|91|126);(?=[\w\"&]))",
    re.MULTILINE | re.DOTALL,
)
_QUICK_ACTION = re.compile(r"^([ \t]*)/(?=[a-z])", re.MULTILINE | re.IGNORECASE)


def inert(text: str) -> str:
    """Return a note without quick actions or references of GitLab.

    `reports/markdown.py` escapes the syntax of GitHub. GitLab has more: `/merge` at the start of a
    line, which some versions execute even inside a fence, and references such as `!12`, even if
    their sign is an entity. Markers, code and the addresses of links stay as they are.
    """
    text = _KEPT.sub(_defuse, text)
    return _QUICK_ACTION.sub("\\1\u200b/", text)


def _defuse(match: re.Match[str]) -> str:
    if match["sigil"] is None:
        return match[0]
    return f"{match[0]}\u200b"
