"""report.html: one file that needs nothing and runs nothing, whatever a model wrote."""

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from html import unescape as html_unescaped
from html.parser import HTMLParser

import comments
import pytest
from browser import browser, excess_px
from factories import STARTED_AT, baseline_of, grade_of, many, report_of, with_own_reason
from github_markdown import shown
from rendered import html_of as text_of

from ci_evals.gate.compare import Comparison
from ci_evals.gate.verdict import decide
from ci_evals.gate.wording import cell_finding
from ci_evals.model.case import Variant
from ci_evals.model.response import Response
from ci_evals.model.result import Result, RunError
from ci_evals.model.rules import Gate
from ci_evals.reports import html
from ci_evals.reports.cells import matrix_changes
from ci_evals.reports.findings import findings
from ci_evals.reports.summary import Summary, summarize

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "h1", "h2", "h3", "p", "pre"),
    *("span", "bdi", "b", "code", "div", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "details", "summary"),
    *("fieldset", "legend", "label", "input"),
}
ATTRIBUTES = {"class", "id", "lang", "charset", "name", "content", "http-equiv", "dir", "type", "checked", "open"}
ATTRIBUTES |= {"role", "aria-label", "aria-labelledby"}
WITHOUT_END = {"meta", "input"}


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


def test_the_page_reads_well(golden: Callable[[str, str], None]) -> None:
    style = re.compile(r"<style>.*?</style>|'sha256-[^']*'", re.DOTALL)
    golden("report.html", style.sub("…", text_of(comments.regression())))


def test_no_line_ends_between_a_figure_and_its_unit() -> None:
    text = text_of(summarize(report_of({"capital": "PPPF"}), Gate(min_pass_rate=0.9)))
    assert "pass rate 75\xa0% is below the bar of 90\xa0%, but" in text
    assert "3 of 4 runs passed (75\xa0%), 1 failed in 12.5\xa0s" in text
    assert "flip rate 50\xa0%" in text_of(summarize(report_of({"capital": "PPPF"}), Gate(min_pass_rate=0.1)))


def test_what_to_try_shows_code_as_code() -> None:
    hint = '<p class="hint">to let some runs fail, set a bar: <code>gate: {min_pass_rate: 0.9}</code></p>'
    assert hint in text_of(summarize(report_of({"capital": "PF"}), None))


def test_what_got_worse_is_said_in_its_list_and_above_what_was_answered() -> None:
    summary = comments.regression()
    page = "".join(Page(text_of(summary)).words)
    assert isinstance(summary.comparison, Comparison)
    assert summary.verdict.reason in page
    for cell in summary.comparison.of("regressed", "suspect", "fixed"):
        finding = cell_finding(summary.comparison, cell)
        assert page.count(finding) >= 2


def test_what_came_and_went_is_said_in_the_words_of_the_comment(changed: Summary) -> None:
    page = "".join(Page(text_of(changed)).words)
    assert changed.compared is not None
    comment = html_unescaped(re.sub(r"<[^>]*>", "", shown(comments.text_of(changed)).html))
    assert [change.word for change in matrix_changes(changed.compared)] == [
        "new",
        "edited",
        "renamed",
        "removed",
        "not compared",
    ]
    group = findings(changed).group("changed")
    assert group is not None
    for entry in group.entries:
        sentence = entry.line()
        assert sentence in page
        assert sentence in comment
    assert "New, edited, renamed, removed, not compared" in page


def test_what_may_be_noise_is_folded_unless_it_is_below_its_bar_and_a_few() -> None:
    for cells, bar, unfolded in ((1, 0.9, True), (1, 0.5, False), (11, 0.9, False)):
        names = many((cells, "PPF"))
        base = report_of(dict.fromkeys(names, (28, 30)), started_at=STARTED_AT - 60)
        report = report_of(names, cases={name: {"min_pass_rate": bar} for name in names}, edit=with_own_reason)
        (group,) = re.findall(
            r'<details class="group"( open)?>', text_of(summarize(report, None, baseline_of(base), confirm_runs=0))
        )
        assert bool(group) == unfolded


def test_a_regression_comes_first_and_unfolded_even_within_its_bar(regressed: Summary) -> None:
    text = text_of(regressed)
    cells = re.findall(r'<details class="cell (\w+) v0"( open)?>\n.*?<bdi class="id">(\w+)', text)
    assert cells == [("flaky", " open", "refund"), ("passed", "", "greet")]
    assert "<h3>Runs 2, 3 and 4 failed alike <" in text
    assert "… and 4 more failed runs" in text, "confirm runs are counted"


def test_runs_that_ended_alike_are_shown_once_and_others_each() -> None:
    def edit(result: Result) -> Result:
        answer = {1: "Lyon", 2: "Nice", 3: "Lyon"}[result.run]
        cost_usd = None if result.run == 1 else 0.002
        return replace(result, response=Response(output=answer), latency_s=result.run / 10, cost_usd=cost_usd)

    text = text_of(summarize(report_of({"capital": "FFF"}, edit=edit), None))
    assert re.findall(r"<h3>(Run.*?)</h3>", text) == [
        'Runs 1 and 3 failed alike <span class="facts">100 ms to 300 ms · $0.0020</span>',
        'Run 2 failed <span class="facts">200 ms · $0.0020</span>',
    ]
    assert re.findall(r'class="answer">(.*?)</pre>', text) == ["Lyon", "Nice"]


def test_of_cases_that_got_no_answer_for_the_same_reason_one_is_unfolded() -> None:
    def edit(result: Result) -> Result:
        message = f"no such model (request {result.case})" if result.case == "odd" else f"down for {result.run} s"
        return replace(result, error=RunError("server", message)) if result.error else result

    names = [f"case-{number}" for number in range(9)]
    report = report_of(dict.fromkeys(names, "EEE") | {"odd": "E", "wrong": "F", "off": "F"}, edit=edit)
    text = text_of(summarize(report, None))
    cells = re.findall(r'<details class="cell \w+ v0"( open)?>\n.*?<bdi class="id">([\w-]+)', text)
    assert [name for _, name in cells] == ["wrong", "off", *names, "odd"]
    assert [name for unfolded, name in cells if unfolded] == ["wrong", "off", "case-0", "odd"]


def test_a_cell_of_which_only_some_runs_got_no_answer_is_unfolded() -> None:
    def edit(result: Result) -> Result:
        if result.run == 1:
            return replace(result, response=None, grades=(), error=RunError("crash", "KeyError: 'x'"))
        return replace(result, response=Response(output=f"WRONG-{result.case}"))

    text = text_of(summarize(report_of(dict.fromkeys("abc", "FFF"), edit=edit), None))
    assert re.findall(r'<details class="cell \w+ v0"( open)?>', text) == [" open"] * 3


def test_runs_that_were_given_up_unfold_no_cell_of_their_own() -> None:
    def edit(result: Result) -> Result:
        told = "given up after 5 failures in a row: " if result.case == "a" else ""
        error = RunError("given_up" if told else "auth", f"{told}api.example answered 401: bad key")
        return replace(result, error=error)

    text = text_of(summarize(report_of(dict.fromkeys("abc", "E"), edit=edit), None))
    assert re.findall(r'<details class="cell \w+ v0"( open)?>', text) == [" open", "", ""]


@pytest.mark.parametrize(("numbers", "told"), [((1, 1), ""), ((1, 5), " · 1 to 5 attempts"), ((3, 3), " · 3 attempts")])
def test_attempts_are_told_of_all_runs_that_ended_alike(numbers: tuple[int, int], told: str) -> None:
    def edit(result: Result) -> Result:
        return replace(result, attempts=numbers[result.run - 1])

    text = text_of(summarize(report_of({"capital": "FF"}, edit=edit), None))
    assert re.findall(r"<h3>Run.*?</h3>", text) == [
        f'<h3>Runs 1 and 2 failed alike <span class="facts">500 ms · $0.0010{told}</span></h3>'
    ]


def test_runs_that_differ_in_a_reason_only_are_shown_each() -> None:
    def edit(result: Result) -> Result:
        return replace(result, grades=(grade_of(passed=False, reason=f"for reason {result.run}"),))

    text = text_of(summarize(report_of({"capital": "FF"}, edit=edit), None))
    assert re.findall(r"<h3>(Run.*?) <", text) == ["Run 1 failed", "Run 2 failed"]


def test_what_was_said_in_favour_of_one_run_alone_keeps_no_run_apart() -> None:
    def edit(result: Result) -> Result:
        quick = grade_of(grader="latency", reason=f"took {result.run} s")
        kind = grade_of(grader="contains", reason="contains 'please'")
        return replace(result, grades=(quick, kind, grade_of(passed=False, reason="is wrong")))

    text = text_of(summarize(report_of({"capital": "FF"}, edit=edit), None))
    assert re.findall(r"<h3>(Run.*?) <", text) == ["Runs 1 and 2 failed alike"]
    assert "took 1 s" not in text
    assert "contains &#39;please&#39;" in text
    assert "is wrong" in text


def test_bars_that_are_missed_come_first() -> None:
    report = report_of({"easy": "P", "hard": "FF"}, cases={"hard": {"tags": ("critical",)}})
    text = text_of(summarize(report, Gate(min_pass_rate=0.1, tags={"critical": 1.0})))
    badges = re.findall(r'<td><span class="badge (\w+)">', text)
    assert badges[0] == "fail"
    assert len(badges) == 2


def test_a_long_list_of_regressions_is_cut_and_counted() -> None:
    text = text_of(comments.many_regressions())
    assert len(re.findall('<li class="fail"><bdi>a rather', text)) == 100
    assert "… and 500 more regressed cases in report.json" in text


def test_why_there_is_no_comparison_is_said(uncompared: Summary) -> None:
    text = text_of(uncompared)
    assert "<b>Not compared:</b> no baseline: there is no report at main/report.json" in text
    assert "Regressed" not in text


@pytest.mark.parametrize("which", ["flights", "passing", "hostile", "hostile_comparison", "several"])
def test_nothing_runs_and_nothing_is_loaded(which: str, request: pytest.FixtureRequest) -> None:
    text = text_of(request.getfixturevalue(which))
    page = Page(text)
    assert page.tags <= TAGS
    assert page.attributes <= ATTRIBUTES
    assert page.open == []
    assert "url(" not in text.partition("</style>")[0]


@pytest.mark.parametrize("which", ["hostile", "hostile_comparison"])
def test_hostile_text_is_shown_as_it_is(which: str, request: pytest.FixtureRequest) -> None:
    text = text_of(request.getfixturevalue(which))
    assert "<script>alert(1)</script>" in "".join(Page(text).words)
    assert "<script" not in text
    assert all(character.isprintable() or character in "\n\t\xa0" for character in text)
    assert len(text) < 200_000


@pytest.mark.skipif(browser() is None, reason="there is no Chromium here")
@pytest.mark.parametrize("which", ["flights", "several", "hostile_comparison", "regressed"])
def test_nothing_has_to_be_scrolled_sideways(which: str, request: pytest.FixtureRequest) -> None:
    assert max(excess_px(text_of(request.getfixturevalue(which)), (400, 700, 1000, 1600))) <= 0


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


def test_marks_and_tables_have_names_for_those_who_do_not_see_them(flights: Summary) -> None:
    text = text_of(flights)
    marks = re.findall(r'<span class="mark"(?: role="img" aria-label="(.*?)")?>(.)</span>', text)
    names = {"✓": "passed", "✗": "failed", "!": "errored", "~": "flaky"}
    assert set(marks) == {(name, mark) for mark, name in names.items()}
    tables = re.findall(r"<table.*?>", text)
    assert len(tables) == 2
    for table in tables:
        (title,) = re.findall(r'aria-labelledby="(.*?)"', table)
        assert f'<h2 id="{title}">' in text


def test_errors_come_before_figures_that_lack_their_runs() -> None:
    text = text_of(comments.errored_provider())
    assert text.index('<h2>Errored <span class="count">102') < text.index("<h2>Not compared") < text.index(">Variants<")


def test_a_folded_cell_has_the_reason_beside_what_became_of_it(flights: Summary) -> None:
    summaries = re.findall(r'<summary><span class="mark"[^>]*>(.)</span>(.*?)</summary>', text_of(flights), re.DOTALL)
    reasons = [(mark, re.findall(r'<span class="why">(.*?)</span>', rest)) for mark, rest in summaries]
    assert ("✗", ["contains: does not contain &#39;Paris&#39;: got &#39;Lyon&#39;"]) in reasons
    assert ("!", ["429: slow down"]) in reasons
    assert ("✓", []) in reasons
    assert all(bool(reason) == (mark != "✓") for mark, reason in reasons), "nothing is said of what passed"


def test_runs_over_budget_are_named_with_their_variant_and_counted_where_they_are_too_many() -> None:
    report = report_of(
        many((60, "P")),
        variants=[Variant("a"), Variant("b")],
        edit=lambda result: replace(result, budget_violations=("cost $0.02 of $0.01",)),
    )
    page = "".join(Page(text_of(Summary(report, decide(report, None), None))).words)
    assert "Over budget 120" in page
    assert "case 1 on a, run 1: cost $0.02 of $0.01\ncase 1 on b, run 1" in page
    assert "… and 20 more over-budget runs in report.json." in page


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
