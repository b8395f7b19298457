"""report.html: one file that needs nothing and runs nothing, whatever a model wrote."""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from hashlib import sha256
from html import unescape as html_unescaped
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote

import comments
import pages
import pytest
from browser import browser, excess_px
from factories import STARTED_AT, baseline_of, grade_of, many, report_of, with_own_reason
from github_markdown import shown
from rendered import html_of as text_of

import ci_evals.reports.page
from ci_evals.gate.baseline import reported_cells
from ci_evals.gate.verdict import decide
from ci_evals.gate.wording.comparisons import cell_finding
from ci_evals.model.case import Quarantine, Variant
from ci_evals.model.response import Passage, Response, Step, Turn, Usage
from ci_evals.model.result import Result, RunError
from ci_evals.model.rules import Gate
from ci_evals.reports import html
from ci_evals.reports.findings import findings
from ci_evals.reports.groups import matrix_changes
from ci_evals.reports.summary import Summary, summarize
from ci_evals.reports.view import address_of

TAGS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "script",
        "body",
        "header",
        "main",
        "section",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
    ),
    *(
        "p",
        "pre",
        "span",
        "bdi",
        "b",
        "i",
        "code",
        "kbd",
        "div",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "ul",
        "ol",
        "li",
    ),
    *(
        "dl",
        "dt",
        "dd",
        "details",
        "summary",
        "form",
        "label",
        "input",
        "select",
        "option",
        "output",
        "button",
        "del",
        "ins",
    ),
    *(
        "figure",
        "figcaption",
        "svg",
        "path",
        "circle",
        "text",
        "g",
        "strong",
        "em",
        "hr",
        "blockquote",
        "br",
        "noscript",
        "a",
        "dialog",
    ),
}
ATTRIBUTES = {
    "class",
    "id",
    "lang",
    "charset",
    "name",
    "content",
    "http-equiv",
    "dir",
    "type",
    "open",
    "hidden",
    "title",
    "href",
    "method",
}
ATTRIBUTES |= {
    "role",
    "aria-label",
    "aria-labelledby",
    "aria-hidden",
    "aria-live",
    "scope",
    "tabindex",
    "value",
}
ATTRIBUTES |= {
    "placeholder",
    "autocomplete",
    "spellcheck",
    "d",
    "cx",
    "cy",
    "r",
    "x",
    "y",
    "viewbox",
    "text-anchor",
}
ATTRIBUTES |= {"preserveaspectratio", "form", "selected"}
WITHOUT_END = {"meta", "input", "br", "hr"}


class Page(HTMLParser):
    """A page as a browser parses it: elements, attributes, and whether every tag is closed."""

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
        self.attributes.update(name for name, _ in attrs if not name.startswith("data-"))
        if tag not in WITHOUT_END:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def test_the_page_reads_well(golden: Callable[[str, str], None]) -> None:
    ours = re.compile(
        r"(?<=<style>).*?(?=</style>)|(?<=<script>).*?(?=</script>)|'sha256-[^']*'", re.DOTALL
    )
    golden("report.html", ours.sub("…", text_of(comments.regression())))


def test_no_line_ends_between_a_figure_and_its_unit() -> None:
    text = text_of(summarize(report_of({"capital": "PPPF"}), Gate(min_pass_rate=0.9)))
    assert "pass rate 75\xa0% is below the bar of 90\xa0%, but" in text
    assert "3 of 4 runs passed (75\xa0%), 1 failed" in text
    assert "· 12.5\xa0s" in text
    assert "flip rate 50\xa0%" in text_of(
        summarize(report_of({"capital": "PPPF"}), Gate(min_pass_rate=0.1))
    )


def test_what_to_try_shows_code_as_code() -> None:
    hint = (
        '<p class="hint">to let some runs fail, set a bar: '
        "<code>gate: {min_pass_rate: 0.9}</code></p>"
    )
    assert hint in text_of(summarize(report_of({"capital": "PF"}), None))


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


@pytest.mark.skipif(browser() is None, reason="there is no Chromium here")
@pytest.mark.parametrize("which", ["flights", "several", "hostile_comparison", "regressed"])
def test_nothing_has_to_be_scrolled_sideways(which: str, request: pytest.FixtureRequest) -> None:
    assert max(excess_px(text_of(request.getfixturevalue(which)), (400, 700, 1000, 1600))) <= 0


def test_runs_over_budget_are_named_with_their_variant_and_counted_where_they_are_too_many() -> (
    None
):
    report = report_of(
        many((60, "P")),
        variants=[Variant("a"), Variant("b")],
        edit=lambda result: replace(result, budget_violations=("cost $0.02 of $0.01",)),
    )
    page = "".join(Page(text_of(summarize(report, None))).words)
    assert "Over budget 120" in page
    assert "case 1 on a, run 1: cost $0.02 of $0.01\ncase 1 on b, run 1" in page
    assert "… and 20 more over-budget runs in report.json." in page


def test_what_got_worse_is_said_beside_the_case_and_above_what_was_answered() -> None:
    summary = comments.regression()
    text = text_of(summary)
    (main,) = re.findall("<main.*</main>", text, re.DOTALL)
    page = "".join(Page(main).words)
    assert "1 case better, 1 worse: refund (critical)" in "".join(Page(text).words)
    assert summary.compared is not None
    for cell in summary.compared.select("regressed", "suspect", "fixed"):
        finding = cell_finding(summary.compared, cell)
        assert page.count(finding) == 1
    changes = re.findall(
        r'<bdi class="id">(\w+)</bdi>.*?<span class="change">(.*?)</span>', text_of(summary)
    )
    assert changes[:3] == [
        ("refund", "30/30 → 4/10"),
        ("cancel", "30/30 → 9/10"),
        ("upgrade", "0/30 → 3/3"),
    ]


def folded(text: str) -> str:
    """The rows that are text until somebody looks at them."""
    return "".join(re.findall(r'<script type="text/html">(.*?)</script>', text, re.DOTALL))


def rows(text: str) -> list[tuple[str, bool]]:
    """The cases in order, and whether they are unfolded."""
    found = re.findall(r'<details class="case" id="case=([^"]*)"[^>]*?( open)?>', text)
    return [(unquote(case), bool(unfolded)) for case, unfolded in found]


def groups(text: str) -> list[tuple[str, bool]]:
    """The groups in order, and whether they are unfolded."""
    found = re.findall(r'<details class="group \w+"( open)?>\n<summary><h3>([^<]*) <', text)
    return [(html_unescaped(title), bool(unfolded)) for unfolded, title in found]


def test_much_of_what_may_be_noise_is_folded_unless_nothing_else_is_to_be_seen() -> None:
    noisy = many((9, "PPF"))
    base = report_of(dict.fromkeys(noisy, (28, 30)), started_at=STARTED_AT - 60)
    cases = {name: {"min_pass_rate": 0.5} for name in noisy}

    def shown(names: Mapping[str, Any]) -> list[tuple[str, bool]]:
        report = report_of(
            names,
            cases={name: cases[name] for name in names if name in cases},
            edit=with_own_reason,
        )
        return groups(text_of(summarize(report, None, baseline_of(base), confirm_runs=0)))

    assert shown({**noisy, "broken": "FFF"})[:2] == [
        ("Failing", True),
        ("Can't tell", False),
    ]
    assert ("Can't tell", True) in shown({"case 1": "PPF", "broken": "FFF"})
    assert shown(noisy) == [("Can't tell", True)]


def test_a_regression_comes_first_and_unfolded_even_within_its_bar(regressed: Summary) -> None:
    text = text_of(regressed)
    assert groups(text)[-2:] == [("Regressed", True), ("Passed", False)]
    assert rows(text) == [("refund", True), ("greet", False)]
    assert titles(text)[0] == "Runs 2, 3, 4, 6, 7, 9 and 10 failed alike"
    assert re.search(r'<span class="chip"[^>]*data-o="failed"[^>]*>3/10<', text), (
        "confirm runs are counted"
    )


def test_cases_that_failed_for_the_same_reason_stand_under_it() -> None:
    def edit(result: Result) -> Result:
        message = (
            f"no such model (request {result.case})"
            if result.case == "odd"
            else f"down for {result.run} s"
        )
        return (
            replace(result, error=RunError("crash", message))
            if result.status == "failed"
            else result
        )

    names = [f"case-{number}" for number in range(497)]
    text = text_of(summarize(report_of(dict.fromkeys(names, "F") | {"odd": "F"}, edit=edit), None))
    assert re.findall(r'<details class="alike"( open)?><summary>(.*?)</summary>', text) == [
        ("", "497 cases: <bdi>down for 1 s</bdi>")
    ]
    assert rows(text) == [("odd", True), *((name, False) for name in names)]


@pytest.mark.parametrize(("failed", "unfolded"), [(3, 3), (4, 1), (40, 1)])
def test_up_to_three_failing_cases_are_unfolded_and_the_first_of_more(
    failed: int, unfolded: int
) -> None:
    names = many((failed, "F"), (5, "P"))
    text = text_of(summarize(report_of(names, edit=with_own_reason), None))
    assert [opened for _, opened in rows(text)] == [True] * unfolded + [False] * (
        len(names) - unfolded
    )


def test_a_change_over_several_variants_says_so() -> None:
    changes = re.findall(r'<span class="change">(.*?)</span>', text_of(pages.support_bot()))
    assert changes[0] == "60/60 → 3/15 on 2 variants"
    worse = re.findall(r'<span class="change">(.*?)</span>', text_of(pages.policy_change()))
    assert worse[0] == "17/18 → 0/48 on 6 variants, p &lt; 0.001"


def test_errored_cases_are_counted_as_other_cases_are() -> None:
    report = report_of({"down": "EEE", "out": "EEE", "wrong": "FFF"})
    text = text_of(summarize(report, Gate(max_error_rate=0.9)))
    groups = re.findall(r'<h3>(.*?) <span class="count">(.*?)</span>', text)
    assert groups == [("Errored", "2"), ("Failing", "1")]


def test_filters_count_cases_and_not_their_cells() -> None:
    report = report_of(
        {"broken": ["FF", "FF"], "fine": ["PP", "PP"]},
        variants=[Variant("a"), Variant("b")],
        cases={"broken": {"tags": ("refund",)}},
    )
    text = text_of(summarize(report, None))
    outcomes = re.findall(r'<a href="#outcome=\w*">(\w+) <span class="count">(\d+)<', text)
    assert outcomes == [("All", "2"), ("Failed", "1"), ("Passed", "1")]
    assert '<option value="refund">' in text


@pytest.mark.parametrize(
    ("variants", "columns"),
    [
        (
            [Variant("gpt-mini", "prompt 1"), Variant("gpt-mini", "prompt 2")],
            ["1", "2"],
        ),
        (
            [Variant("acme-large-1", "kind"), Variant("acme-large-2", "plain")],
            ["1 kind", "2 plain"],
        ),
        ([Variant("gpt-mini"), Variant("haiku")], ["gpt-mini", "haiku"]),
        ([Variant("gpt"), Variant("gpt-mini")], ["gpt", "gpt-mini"]),
        ([Variant("gpt"), Variant("gpt", "polite")], ["gpt", "polite"]),
        ([Variant("gpt", "a b"), Variant("gpt", "a b c")], ["b", "b c"]),
    ],
)
def test_a_column_is_named_by_what_tells_its_variant_from_the_others(
    variants: list[Variant], columns: list[str]
) -> None:
    text = text_of(
        summarize(report_of({"capital": ["F"] * len(variants)}, variants=variants), None)
    )
    heads = re.findall(r'<bdi title="(.*?)">(.*?)</bdi>', text)
    assert [title for title, _ in heads] == [str(variant) for variant in variants]
    assert [" ".join(re.findall("<span>(.*?)</span>", head)) for _, head in heads] == columns
    links = re.findall(r'<a href="([^"]*)" class="chip', text)
    assert [html_unescaped(link) for link in links] == [
        f"#{address_of('capital', variant)}" for variant in variants
    ]


def titles(text: str) -> list[str]:
    return re.findall(r'<span class="title">(.*?)</span>', text)


def test_runs_that_ended_alike_are_shown_once_and_others_each() -> None:
    def edit(result: Result) -> Result:
        answer = {1: "Lyon", 2: "Nice", 3: "Lyon"}[result.run]
        cost_usd = None if result.run == 1 else 0.002
        return replace(
            result, response=Response(output=answer), latency_s=result.run / 10, cost_usd=cost_usd
        )

    text = text_of(summarize(report_of({"capital": "FFF"}, edit=edit), None))
    assert titles(text) == ["Runs 1 and 3 failed alike", "Run 2 failed"]
    assert "100 ms to 300 ms · $0.0020" in text.replace("\xa0", " ")
    assert re.findall(r'class="answer text">(.*?)</div>', text) == ["Lyon", "Nice"]
    assert re.findall(r'id="([^"]*run=[^"]*)"', text) == [
        f"case=capital&amp;run={run}" for run in (1, 3, 2)
    ]


def test_answers_that_differ_in_few_words_are_shown_as_one() -> None:
    answers = {
        1: "We sent you store credit of 40 dollars for the broken lamp today.",
        2: "We sent you store credit of 42 dollars for the broken lamp today.",
        3: "Nobody knows.",
        4: "We sent you store credit of 40 dollars for the broken lamp.",
    }

    def edit(result: Result) -> Result:
        missed = grade_of(passed=False, reason='no "refund" in the answer')
        return replace(result, response=Response(answers[result.run]), grades=(missed,))

    text = text_of(summarize(report_of({"lamp": "FFFF"}, edit=edit), None))
    assert titles(text) == ["Runs 1, 2 and 4 failed with similar answers", "Run 3 failed"]
    assert "<summary>2 other answers differ in few words</summary>" in text
    assert "store credit of <del>40</del><ins>42</ins> dollars" in text
    assert "lamp<del> today</del>." in text
    runs = re.findall(r'id="case=lamp&amp;run=(\d)"', text)
    assert runs == ["1", "2", "4", "3"], "a link leads to each run"


def test_similar_answers_that_failed_for_different_reasons_are_shown_each() -> None:
    def edit(result: Result) -> Result:
        missed = grade_of(passed=False, reason=f"is not {result.run}")
        return replace(result, response=Response(f"It is surely {result.run}."), grades=(missed,))

    text = text_of(summarize(report_of({"sum": "FF"}, edit=edit), None))
    assert titles(text) == ["Run 1 failed", "Run 2 failed"]


@pytest.mark.parametrize(
    ("numbers", "told"), [((1, 1), ""), ((1, 5), " · 1 to 5 attempts"), ((3, 3), " · 3 attempts")]
)
def test_attempts_are_told_of_all_runs_that_ended_alike(
    numbers: tuple[int, int], told: str
) -> None:
    def edit(result: Result) -> Result:
        return replace(result, attempts=numbers[result.run - 1], response=Response("Lyon"))

    text = text_of(summarize(report_of({"capital": "FF"}, edit=edit), None))
    assert f'failed alike</span> <span class="facts">500\xa0ms · $0.0010{told}</span>' in text


def test_runs_that_differ_in_a_reason_only_are_shown_each() -> None:
    def edit(result: Result) -> Result:
        return replace(result, grades=(grade_of(passed=False, reason=f"for reason {result.run}"),))

    assert titles(text_of(summarize(report_of({"capital": "FF"}, edit=edit), None))) == [
        "Run 1 failed",
        "Run 2 failed",
    ]


def test_what_was_said_in_favour_of_one_run_alone_keeps_no_run_apart() -> None:
    def edit(result: Result) -> Result:
        quick = grade_of(grader="latency", reason=f"took {result.run} s")
        kind = grade_of(grader="contains", reason="contains 'please'")
        return replace(result, grades=(quick, kind, grade_of(passed=False, reason="is wrong")))

    text = text_of(summarize(report_of({"capital": "FF"}, edit=edit), None))
    assert titles(text) == ["Runs 1 and 2 failed alike"]
    assert "took 1 s" not in text
    assert "contains &#39;please&#39;" in text
    assert "is wrong" in text


def test_the_words_that_changed_since_the_base_are_marked() -> None:
    (sides,) = re.findall(
        r'<div class="sides">(.*?)</section>', text_of(comments.regression()), re.DOTALL
    )
    assert "I have refunded 100 <del>EUR</del> to your card." in sides
    assert "I have refunded 100 <ins>USD</ins> to your card." in sides


def test_steps_turns_and_what_was_retrieved_are_shown() -> None:
    steps = (
        Step("model_request", "gpt", usage=Usage(100, 20), duration_s=1.0),
        Step("tool_call", "search", {"query": "<b>"}, result="nothing", duration_s=3.0),
        Step("tool_call", "book", "{broken", error="no seat", agent="clerk"),
    )
    turn = Turn("Book it!", Response("Done.", steps=steps), latency_s=4.0)
    answers = {
        "agent": Response("Done.", steps=steps),
        "talk": Response("Done.", turns=(turn,)),
        "rag": Response(
            "Done.",
            context=(Passage("Refunds take 5 days.", "policy.md", 0.83),),
            metadata={"trace": "7f3a"},
        ),
    }
    report = report_of(
        dict.fromkeys(answers, "F"),
        edit=lambda result: replace(result, response=answers[result.case]),
    )
    text = text_of(summarize(report, None))
    page = Page(text)
    words = "".join(page.words)
    assert page.open == []
    assert text.count('<ol class="steps">') == 2
    assert '{"query": "<b>"}' in words
    assert "no seat" in words
    assert '<path d="M25.0 1h75.0"/>' in text, "the second step took three of four seconds"
    assert "Book it!" in words
    assert "1. policy.md (0.83): Refunds take 5 days." in words
    assert "trace: 7f3a" in words


def test_an_answer_in_json_is_laid_out() -> None:
    def edit(result: Result) -> Result:
        output = '{"city": "Lyon", "</pre>": [1, 2]}' if result.run == 1 else "{not json"
        return replace(result, response=Response(output))

    text = text_of(summarize(report_of({"capital": "FF"}, edit=edit), None))
    (pretty,) = re.findall(
        r'class="answer"><pre>(.*?)</pre></div>',
        text,
        re.DOTALL,
    )
    assert json.loads(html_unescaped(pretty)) == {"city": "Lyon", "</pre>": [1, 2]}


@pytest.mark.parametrize(
    ("answer", "rows"),
    [
        ('a,b\n1,<i>\n2,"x, y"', [["a", "b"], ["1", "&lt;i&gt;"], ["2", "x, y"]]),
        ("a\tb\n1\t2\n3\t4", [["a", "b"], ["1", "2"], ["3", "4"]]),
        (
            '[{"a": 1, "b": [2]}, {"c": null}]',
            [["a", "b", "c"], ["1", "[2]", ""], ["", "", "null"]],
        ),
        ("Dear Ada, thank you.\nWe refund it, as you wished to have it.\nYours, the shop", []),
        ("Hello, Ada\nThanks, noted\nBye, then", []),
        ("city, size, age\nRome, 4, 30", []),
        (
            "city, size, age\nRome, 4, 30\nNice, 1, 24",
            [["city", " size", " age"], ["Rome", " 4", " 30"], ["Nice", " 1", " 24"]],
        ),
        ("[1, 2]", []),
        ("a,b\n1,2\n1,2,3", []),
    ],
)
def test_an_answer_that_is_a_table_is_laid_out(answer: str, rows: list[list[str]]) -> None:
    report = report_of(
        {"fares": "F"}, edit=lambda result: replace(result, response=Response(answer))
    )
    text = text_of(summarize(report, None))
    shown = re.findall(r'aria-label="a table of the answer">(.*?)</div>', text, re.DOTALL)
    lines = re.findall(r"<tr>(.*?)</tr>", "".join(shown), re.DOTALL)
    assert [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in lines] == rows


def test_what_was_expected_is_said_and_which_statement_was_found_where() -> None:
    words = " ".join(" ".join(Page(text_of(pages.agent())).words).split())
    assert (
        "Expected contains Paris judge faithful · threshold 0.8 · weight 2 · metric groundedness"
        in words
    )
    assert (
        "1. policy.md (0.91): Refunds are paid to the card within 5 days. "
        "✓ faithful: Refunds take 5 days." in words
    )
    assert (
        "2. credit.md (0.64): Store credit is only offered on request. "
        "✗ faithful: You get store credit." in words
    )


@pytest.mark.parametrize(
    ("file", "commands"),
    [
        ("evals.yaml", ["ci-evals explain 'a b'", "ci-evals run --case 'a b'"]),
        (
            "sub/x y.yml",
            [
                "ci-evals explain 'a b' --config 'sub/x y.yml'",
                "ci-evals run 'sub/x y.yml' --case 'a b'",
            ],
        ),
        ("test_bot.py", ["ci-evals explain 'a b'"]),
    ],
)
def test_commands_name_the_suite_as_a_shell_takes_it(file: str, commands: list[str]) -> None:
    text = text_of(summarize(report_of({"a b": "F"}, suite={"file": file}), None))
    assert [
        html_unescaped(each)
        for each in re.findall(r"(?:Explain|Run this case): <code>(.*?)</code>", text)
    ] == commands


def test_an_answer_in_markdown_is_laid_out_and_links_to_nothing() -> None:
    answer = """## Fares
| fare | price |
|---|--:|
| flex | **189** |

[x](javascript:alert(1)) ![y](https://evil.example/y.png) <b onclick=alert(2)>z</b> <https://evil.example>
[r]: https://evil.example
```html"><script>alert(3)</script>
<script>alert(4)</script>
```"""
    report = report_of(
        {"fares": "F"}, edit=lambda result: replace(result, response=Response(answer))
    )
    text = text_of(summarize(report, None))
    (shown,) = re.findall(r'class="answer">(.*?)</div>\n', text, re.DOTALL)
    page = Page(shown)
    assert "<td>flex</td>" in shown
    assert "<strong>189</strong>" in shown
    in_tables = {"div", "table", "thead", "tbody", "tr", "th", "td"}
    assert page.tags <= {"p", "br", "strong", "pre", "code"} | in_tables
    assert page.attributes <= {"class", "tabindex", "role", "aria-label", "scope"}
    assert page.open == []


def test_pass_rates_are_told_by_tag_variant_prompt_and_provider() -> None:
    variants = [
        Variant(provider, prompt) for provider in ("gpt", "haiku") for prompt in ("short", "long")
    ]
    report = report_of(
        {"a": ["PP", "FF", "PP", "FF"], "b": ["PP", "FF", "PP", "PP"]},
        variants=variants,
        cases={"a": {"tags": ("billing",)}},
    )
    gate = Gate(min_pass_rate=0.5, providers={"gpt": 1.0})
    text = text_of(summarize(report, gate))
    found = re.findall(r'<h2 id="by-(\w+)">(.*?)</section>', text, re.DOTALL)
    row = r'<a href="#(\S+)"><bdi>([^<]+)</bdi></a></th><td class="number">([\d.]+)'
    assert {by: re.findall(row, part) for by, part in found} == {
        "tag": [("tag=billing", "billing", "50")],
        "variant": [
            ("variant=gpt%20%C2%B7%20long", "gpt · long", "0"),
            ("variant=haiku%20%C2%B7%20long", "haiku · long", "50"),
            ("variant=gpt%20%C2%B7%20short", "gpt · short", "100"),
            ("variant=haiku%20%C2%B7%20short", "haiku · short", "100"),
        ],
        "prompt": [("prompt=long", "long", "25"), ("prompt=short", "short", "100")],
        "provider": [("provider=gpt", "gpt", "50"), ("provider=haiku", "haiku", "75")],
    }
    assert '<tr class="bad"><th scope="row" title="gpt">' in text, "it misses its bar"
    (bars,) = re.findall(r'<h2 id="gate">(.*?)</section>', text, re.DOTALL)
    assert 'provider <a href="#provider=gpt">' in bars


def test_of_many_variants_the_chart_names_those_that_no_other_beats() -> None:
    variants = [Variant(f"v{number}") for number in range(8)]
    costs_usd = dict(zip(variants, (1, 2, 3, 3, 4, 5, 6, 7), strict=True))
    passed = dict(zip(variants, (2, 4, 3, 8, 1, 8, 9, 0), strict=True))
    report = report_of(
        {"a": [(passed[each], 9) for each in variants]},
        variants=variants,
        edit=lambda result: replace(result, cost_usd=costs_usd[Variant(result.provider)]),
    )
    text = text_of(summarize(report, None))
    (chart,) = re.findall(
        r"against cost per run; the best trade-offs are named.*?</figure>", text, re.DOTALL
    )
    assert re.findall(r'class="label".*?>(\w+)</text>', chart) == ["v0", "v1", "v3", "v6"]
    assert "<title>v7: 0 %, $7.00</title>" in chart, "the others have a name, too"


def test_a_case_that_is_alone_is_seen_at_once() -> None:
    assert groups(text_of(summarize(report_of({"only": "P"}), None))) == [("Passed", True)]


def test_bars_that_are_missed_come_first() -> None:
    report = report_of({"easy": "P", "hard": "FF"}, cases={"hard": {"tags": ("critical",)}})
    text = text_of(summarize(report, Gate(min_pass_rate=0.1, tags={"critical": 1.0})))
    assert re.findall(r'<td class="word (\w+)"><span class="mark"', text) == ["fail", "pass"]


def test_why_there_is_no_comparison_is_said(uncompared: Summary) -> None:
    text = text_of(uncompared)
    assert "<dt>Not compared</dt><dd>there is no report at main/report.json" in text
    assert "Regressed" not in text


@pytest.mark.parametrize(
    "which", ["flights", "passing", "hostile", "hostile_comparison", "several"]
)
def test_nothing_but_our_script_runs_and_nothing_is_loaded(
    which: str, request: pytest.FixtureRequest
) -> None:
    text = text_of(request.getfixturevalue(which))
    page = Page(text)
    assert page.tags <= TAGS
    assert page.attributes <= ATTRIBUTES
    assert page.open == []
    assert {address[0] for address in re.findall('href="([^"]*)', text)} <= {"#"}
    scripts = re.findall("<script[^>]*>", text)
    assert scripts.pop() == "<script>"
    assert set(scripts) <= {'<script type="text/html">'}
    for markup in re.findall("<noscript>(.*?)</noscript>", text, re.DOTALL):
        assert "<noscript" not in markup
    for markup in re.findall('<script type="text/html">(.*?)</script>', text, re.DOTALL):
        inside = Page(markup)
        assert inside.tags <= TAGS - {"script", "style"}
        assert inside.attributes <= ATTRIBUTES
        assert inside.open == []
    assert "url(" not in text.partition("</style>")[0]


@pytest.mark.parametrize("which", ["hostile", "hostile_comparison"])
def test_hostile_text_is_shown_as_it_is(which: str, request: pytest.FixtureRequest) -> None:
    text = text_of(request.getfixturevalue(which))
    assert "<script>alert(1)</script>" in "".join(Page(text).words)
    assert "<script>alert" not in text
    assert all(character.isprintable() or character in "\n\t\xa0" for character in text)
    ours = re.findall("<(?:style|script)>.*?</(?:style|script)>", text, re.DOTALL)
    assert len(text) - sum(map(len, ours)) < 360_000


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(flights: Summary) -> None:
    text = text_of(flights)
    hashes = []
    for tag in ("style", "script"):
        (ours,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        hashes.append(f"{tag}-src 'sha256-{b64encode(sha256(ours.encode()).digest()).decode()}'")
    sources = "; ".join((*hashes, "img-src data:"))
    policy = f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"
    assert f'http-equiv="Content-Security-Policy" content="{policy}"' in text


def test_marks_and_tables_have_names_for_those_who_do_not_see_them(flights: Summary) -> None:
    text = text_of(flights)
    marks = re.findall(r'<span class="mark[\w -]*" role="img" aria-label="(.*?)">(.)</span>', text)
    names = {"✓": "passed", "✗": "failed", "!": "errored", "~": "flaky"}
    assert set(marks) - {("Fail", "✗")} == {(name, mark) for mark, name in names.items()}
    for title in re.findall(r'role="region" aria-labelledby="(.*?)"', text):
        assert f'<h2 id="{title}">' in text


def test_a_folded_case_has_the_reason_beside_it(flights: Summary) -> None:
    whys = dict(
        re.findall(
            r'<bdi class="id">([^<]*)</bdi>(?:(?!</summary>).)*?<span class="why">(.*?)</span>',
            text_of(flights),
        )
    )
    assert whys["greet"] == "429: slow down"
    assert len(rows(text_of(flights))) == 5


def test_a_page_stays_small_and_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(many((100, "PPF"), (100, "PPP")), variants=[Variant("a"), Variant("b")])
    verdict = decide(report, Gate(min_pass_rate=0.5))
    summary = Summary(report, reported_cells(report, None), verdict, None)
    text = text_of(summary)
    assert len(rows(text)) == 200
    assert text.count('<section class="cell"') == 400
    assert folded(text).count('<section class="cell"') == 200
    monkeypatch.setattr(html, "_DETAILS_BYTES", 100_000)
    text = text_of(summary)
    assert len(rows(text)) == 200
    shown = text.count('<section class="cell"') // 2
    assert 0 < shown < 100
    assert '<section class="cell"' not in folded(text)
    assert text.count("The answers had no room on this page.") == 200 - shown
    assert f"the last {200 - shown} cases of the list have no answers here" in text
    assert "<code>ci-evals explain &#39;case 200&#39; --provider a</code> shows them" in text
    monkeypatch.setattr(ci_evals.reports.page, "_MAX_CELLS", 300)
    text = text_of(summary)
    assert len(rows(text)) == 150
    assert "… and 50 more cases, left out to keep this file small" in text


def test_rows_beyond_the_first_200_that_failed_are_text_until_they_are_seen() -> None:
    text = text_of(summarize(report_of(many((300, "F"), (50, "P")), edit=with_own_reason), None))
    assert len(rows(text)) == 350
    marks = re.findall(
        r'<summary><span class="mark \w+" role="img" aria-label="(\w+)">', folded(text)
    )
    assert marks == ["failed"] * 100 + ["passed"] * 50


def test_a_name_is_an_address() -> None:
    case, variant = "a b/c&d=ü'\ud800", Variant("gpt", "polite")
    assert address_of(case) == "case=a%20b%2Fc%26d%3D%C3%BC'%3F"
    assert address_of(case, variant, 3) == f"{address_of(case)}&on=gpt%20%C2%B7%20polite&run=3"


def test_every_case_is_on_the_page_once_whatever_became_of_it(
    flights: Summary, changed: Summary
) -> None:
    quarantine = Quarantine(reason="flaky upstream", until=date(2099, 1, 1))
    report = report_of({"tamed": "FFF", "good": "PPP"}, cases={"tamed": {"quarantine": quarantine}})
    for summary in (flights, changed, summarize(report, None)):
        text = text_of(summary)
        assert sorted(name for name, _ in rows(text)) == sorted(
            case.id for case in summary.report.plan.cases
        )
    assert "In quarantine until 2099-01-01: flaky upstream" in text


def test_the_failed_turn_of_a_conversation_is_marked() -> None:
    text = text_of(pages.agent())
    turns = re.findall(r'<li( class="bad")?><p class="who">(\w+)', text)
    assert turns[:4] == [
        ("", "user"),
        ("", "assistant"),
        ("", "user"),
        (' class="bad"', "assistant"),
    ]
