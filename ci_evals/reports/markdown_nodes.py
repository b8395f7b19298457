"""Parses CommonMark with tables into elements without attributes."""

import re
from functools import cache
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

Node = str | tuple[Any, ...]
"""A text, or a tuple of an HTML element's name and its children. An `img` has its URL and its text
instead of children; a list that doesn't begin at 1 is named `ol start=3`.
"""

IMAGE: Final = r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}"
"""The URLs of images that are shown: the image is in the URL, so nothing is loaded, and none of
these formats can run scripts (as SVG can).
"""


def parse(text: str) -> tuple[Node, ...]:
    """Return the elements of a text. Links, HTML and images with other URLs stay text."""
    return _children(SyntaxTreeNode(_parser().parse(text)))


@cache
def _parser() -> MarkdownIt:
    acting = ("link", "autolink", "reference", "html_block", "html_inline")
    return _Parser("commonmark", {"html": False}).enable("table").disable(acting)


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802  the name that it overrides
        """Return True for an image that is shown; any other image stays text."""
        return re.fullmatch(IMAGE, url) is not None


def _children(parent: SyntaxTreeNode) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for child in parent.children:
        match child.type:
            case "text":
                nodes.append(child.content)
            case (
                "softbreak" | "hardbreak"
            ):  # CommonMark joins lines, but chats keep a model's breaks
                nodes.append(("br",))
            case "inline":
                nodes += _children(child)
            case "paragraph" if child.hidden:  # in a list without blank lines
                nodes += _children(child)
            case "image":
                nodes.append(("img", str(child.attrs["src"]), child.content))
            case "code_inline":
                nodes.append(("code", child.content))
            case "fence" | "code_block":
                nodes.append(("pre", ("code", child.content)))
            case "ordered_list" if "start" in child.attrs:
                nodes.append((f"ol start={child.attrs['start']}", *_children(child)))
            case "heading":  # the page has headings of its own
                nodes.append(("p", ("strong", *_children(child))))
            case _:
                nodes.append((child.tag, *_children(child)))
    return tuple(nodes)
