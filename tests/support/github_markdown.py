"""GitHub's view of a comment: its Markdown parser, the HTML it allows, and what becomes a link."""

import re
from html.parser import HTMLParser
from typing import Final, NamedTuple

import cmarkgfm
import nh3
from cmarkgfm.cmark import Options

_EXTENSIONS: Final = ("table", "strikethrough", "autolink", "tagfilter", "tasklist")
_TAGS: Final = """
h1 h2 h3 h4 h5 h6 br b i strong em a pre code img tt div ins del sup sub p picture ol ul
table thead tbody tfoot blockquote dl dt dd kbd q samp var hr ruby rt rp li tr td th
s strike summary details caption figure figcaption abbr bdo cite dfn mark small source span time wbr
"""
_ATTRIBUTES: Final = {
    "a": {"href"},
    "img": {"src", "alt", "width", "height"},
    "td": {"align"},
    "th": {"align"},
    "pre": {"lang"},
    "details": {"open"},
}
_REFERENCE: Final = re.compile(
    r"(?<![\w/])@[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})"  # a person
    r"|(?<![\w&])#[0-9]+\b|\bGH-[0-9]+\b"  # an issue
    r"|\b[0-9a-f]{7,40}\b",  # a commit
    re.IGNORECASE,
)
_NOT_SEARCHED: Final = frozenset(("pre", "code", "tt", "a"))


class Shown(NamedTuple):
    """A comment as GitHub shows it.

    Args:
        html: what is left of it.
        links: where its links lead to.
        references: the people, issues and commits that GitHub would find in its text.
        tags: every element in its order, without the text.
    """

    html: str
    links: tuple[str, ...]
    references: tuple[str, ...]
    tags: tuple[str, ...]


def shown(markdown: str) -> Shown:
    """Render a comment."""
    options = (
        Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_GITHUB_PRE_LANG | Options.CMARK_OPT_HARDBREAKS
    )
    raw = cmarkgfm.markdown_to_html_with_extensions(
        markdown, options=options, extensions=_EXTENSIONS
    )
    html = nh3.clean(
        raw,
        tags=set(_TAGS.split()),
        attributes=_ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        link_rel=None,
    )
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return Shown(html, tuple(reader.links), tuple(reader.references), tuple(reader.tags))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.references: list[str] = []
        self.tags: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("br", "hr", "img", "wbr", "source"):
            self._open.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not _NOT_SEARCHED & set(self._open):
            self.references += _REFERENCE.findall(data)


STYLE: Final = """
body { margin: 0; background: #fff; color: #1f2328;
  font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif,
  "Noto Color Emoji"; }
.comment { max-width: 780px; margin: 12px; border: 1px solid #d1d9e0; border-radius: 6px;
  overflow-wrap: break-word; }
.author { background: #f6f8fa; border-bottom: 1px solid #d1d9e0; padding: 8px 16px;
  border-radius: 6px 6px 0 0; color: #59636e; }
.author b { color: #1f2328; }
.body { padding: 16px; }
.body > :first-child { margin-top: 0; } .body > :last-child { margin-bottom: 0; }
p, ul, table, pre, details { margin: 0 0 16px; }
ul { padding-left: 2em; } li > p { margin: 16px 0; }
h3, h4 { margin: 24px 0 16px; line-height: 1.25; font-weight: 600; }
h3 { font-size: 1.25em; } h4 { font-size: 1em; }
table { border-collapse: collapse; display: block; width: max-content; max-width: 100%;
  overflow: auto; }
th, td { border: 1px solid #d1d9e0; padding: 6px 13px; } tr:nth-child(2n) { background: #f6f8fa; }
code { background: #818b981f; border-radius: 6px; padding: .2em .4em; font: 85% monospace; }
pre { background: #f6f8fa; border-radius: 6px; padding: 16px; overflow: auto; line-height: 1.45; }
pre code { background: none; padding: 0; } summary { cursor: pointer; }
a { color: #0969da; } sub { line-height: 1.6; }
.added { background: #dafbe1; color: #116329; } .removed { background: #ffebe9; color: #82071e; }
@media (prefers-color-scheme: dark) {
  body { background: #0d1117; color: #f0f6fc; }
  .comment, .author, th, td { border-color: #3d444d; }
  .author, pre, tr:nth-child(2n) { background: #151b23; }
  .author { color: #9198a1; } .author b { color: #f0f6fc; }
  code { background: #656c7633; } pre code { background: none; }
  a { color: #4493f8; }
  .added { background: #2ea04326; color: #aff5b4; }
  .removed { background: #f8514926; color: #ffdcd7; }
}
"""


def page(markdown: str) -> str:
    """A page that shows a comment as GitHub does."""
    html = _colored(shown(markdown).html)
    author = "<b>github-actions</b> bot commented"
    return (
        "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<style>{STYLE}</style>"
        f"<div class=comment><div class=author>{author}</div><div class=body>{html}</div></div>"
    )


def _colored(html: str) -> str:
    def color(found: re.Match[str]) -> str:
        kinds = {"+": "added", "-": "removed"}
        lines = [
            f'<span class="{kinds[line[0]]}">{line}</span>' if line[:1] in kinds else line
            for line in found[2].split("\n")
        ]
        return found[1] + "\n".join(lines)

    return re.sub(r'(<pre lang="diff"><code>)(.*?)(?=</code>)', color, html, flags=re.DOTALL)
