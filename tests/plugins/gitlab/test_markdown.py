"""Notes in which GitLab finds nothing to do, and nothing to refer to."""

import re
from html import unescape

import cmarkgfm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_evals.plugins.ci.comment_body import Section, SectionId, Stamp, compose, parse
from ci_evals.plugins.gitlab.markdown import inert
from ci_evals.reports.markdown import code, fence, fill, plain

REFERENCES = (
    "@mentor",
    "#1",
    "!1",
    "$1",
    "&1",
    "%1",
    '%"next week"',
    "%{project_name}",
    "~bug",
    '~"needs work"',
    "^alert#1",
    "[vulnerability:1]",
    "[feature_flag:1]",
    "acme/app!1",
    "acme/app#1",
    "acme/app@0123456789abcdef",
)
_REFERENCE = re.compile(
    r"@\w|#\d|!\d|\$\w|&\d|%[\w\"{]|~[\w\"]|\^alert|\[\w+:\d|\b[0-9a-f]{7,40}\b"
)
"""As GitLab finds references in the text of a rendered note."""


def shown(markdown: str) -> str:
    """The text of a note outside of code, where GitLab looks for references."""
    html = cmarkgfm.github_flavored_markdown_to_html(markdown)
    html = re.sub(r"<(pre|code)\b.*?</\1>", "", html, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]*>", "", html))


@pytest.mark.parametrize("text", REFERENCES)
def test_plain_text_refers_to_nothing(text: str) -> None:
    note = inert(fill("A case says {} today.", plain(text)))
    assert not _REFERENCE.search(shown(note)), note
    assert text in shown(note).replace("\u200b", "")


@pytest.mark.parametrize("text", REFERENCES)
def test_code_stays_as_it_is(text: str) -> None:
    for note in (code(text), fence(text), f"`{text}`"):
        assert inert(note) == note


@pytest.mark.parametrize("answer", ["/merge", "```\n/close\n```", "  /approve", "a\r\n/merge"])
def test_no_line_is_a_quick_action(answer: str) -> None:
    note = inert(fence(answer))
    assert not re.search(r"^\s*/[a-z]", note, re.MULTILINE)


@given(st.text(alphabet="a1/!%&;#<>`~[]$^@ \n-", max_size=60))
def test_a_note_is_read_again_as_it_was_written(text: str) -> None:
    section = Section(
        SectionId("50%-off !1", "", "evals 1/2"), Stamp(1, 2, "ab"), text, "pass", "ab"
    )
    note = inert(compose("", "ab", [section]))
    assert inert(note) == note
    body = parse(note)
    assert body is not None
    assert [each.id for each in body.sections] == [section.id]
