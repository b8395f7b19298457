"""report.html: one file that needs nothing and runs nothing, whatever a model wrote."""

import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from factories import many, report_of

from ci_evals.model import Variant
from ci_evals.reports import html
from ci_evals.reports.summary import Summary
from ci_evals.rules import Gate
from ci_evals.verdict.gate import decide

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "h1", "h2", "h3", "p", "pre"),
    *("span", "bdi", "b", "code", "div", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "details", "summary"),
    *("fieldset", "legend", "label", "input"),
}
ATTRIBUTES = {"class", "id", "lang", "charset", "name", "content", "http-equiv", "dir", "type", "checked", "open"}
WITHOUT_END = {"meta", "input"}


def text_of(summary: Summary) -> str:
    return b"".join(html.render(summary)).decode()


class Page(HTMLParser):
    """What a browser makes of a page: elements, attributes, and whether everything that opens is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in WITHOUT_END:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def test_the_page_reads_well(flights: Summary, golden: Callable[[str, str], None]) -> None:
    style = re.compile(r"<style>.*?</style>|'sha256-[^']*'", re.DOTALL)
    golden("report.html", style.sub("…", text_of(flights)))


@pytest.mark.parametrize("which", ["flights", "passing", "hostile"])
def test_nothing_runs_and_nothing_is_loaded(which: str, request: pytest.FixtureRequest) -> None:
    text = text_of(request.getfixturevalue(which))
    page = Page(text)
    assert page.tags <= TAGS
    assert page.attributes <= ATTRIBUTES
    assert page.open == []
    assert "url(" not in text.partition("</style>")[0]


def test_hostile_text_is_shown_as_it_is(hostile: Summary) -> None:
    text = text_of(hostile)
    assert "<script>alert(1)</script>" in "".join(Page(text).words)
    assert "<script" not in text
    assert all(character.isprintable() or character in "\n\t" for character in text)
    assert len(text) < 200_000


def test_the_policy_allows_this_style_and_nothing_else(flights: Summary) -> None:
    text = text_of(flights)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert f'http-equiv="Content-Security-Policy" content="{policy}"' in text


def test_every_filter_has_its_rule(flights: Summary) -> None:
    text = text_of(flights)
    filters = re.findall(r'id="(only-[\w-]+)"', text)
    assert {"only-failed", "only-flaky", "only-errored", "only-passed", "only-v0", "only-v1"} <= set(filters)
    assert all(f"#{each}:checked" in text for each in filters)


def test_failing_cells_come_first_and_unfolded(flights: Summary) -> None:
    classes = re.findall(r'<details class="cell ([\w-]+) v\d"( open)?', text_of(flights))
    order = ["failed", "errored", "flaky", "passed"]
    assert [outcome for outcome, _ in classes] == sorted((outcome for outcome, _ in classes), key=order.index)
    assert all(bool(unfolded) == (outcome in ("failed", "errored")) for outcome, unfolded in classes)


def test_a_page_stays_small_and_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "_CELLS_BYTES", 20_000)
    report = report_of(many((100, "PPF"), (100, "PPP")), variants=[Variant("a"), Variant("b")])
    text = text_of(Summary(report, decide(report, Gate(min_pass_rate=0.5)), None))
    shown = text.count('<details class="cell')
    assert 0 < shown < 400
    assert f"… and {400 - shown} more cases, left out to keep this file small" in text
    assert len(text) < 40_000


def test_the_page_is_made_piece_by_piece() -> None:
    report = report_of(many((300, "PPF")))
    pieces = [len(piece) for piece in html.render(Summary(report, decide(report, None), None))]
    assert max(pieces) < sum(pieces) / 10
