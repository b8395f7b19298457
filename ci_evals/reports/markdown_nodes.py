"""CommonMark with tables, as elements that have no attributes."""

from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

Node = str | tuple[Any, ...]
"""A text, or the name of an HTML element and its children."""


def parse(text: str) -> tuple[Node, ...]:
    """Return the elements of a text. Links, pictures and HTML stay text."""
    return _children(SyntaxTreeNode(_parser().parse(text)))


@cache
def _parser() -> MarkdownIt:
    acting = ("link", "image", "autolink", "reference", "html_block", "html_inline")
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable(acting)


def _children(parent: SyntaxTreeNode) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for child in parent.children:
        match child.type:
            case "text":
                nodes.append(child.content)
            case "softbreak":
                nodes.append("\n")
            case "hardbreak":
                nodes.append(("br",))
            case "inline":
                nodes += _children(child)
            case "paragraph" if child.hidden:  # in a list without blank lines
                nodes += _children(child)
            case "code_inline":
                nodes.append(("code", child.content))
            case "fence" | "code_block":
                nodes.append(("pre", ("code", child.content)))
            case "heading":  # the page has headings of its own
                nodes.append(("p", ("strong", *_children(child))))
            case _:
                nodes.append((child.tag, *_children(child)))
    return tuple(nodes)
