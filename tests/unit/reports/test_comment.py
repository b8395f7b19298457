"""The comment on a pull request: its text, how GitHub shows it, and what is left in little room."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import comments
import pages
import pytest
from comments import SITUATIONS, text_of
from factories import STARTED_AT, Outcome, baseline_of, grade_of, many, report_of, with_own_reason
from github_markdown import Shown, shown
from hypothesis import given
from hypothesis import strategies as st

from ci_evals.format import visible
from ci_evals.gate.compare import NoComparison
from ci_evals.model.case import Variant
from ci_evals.model.report import MainNow, Resumption
from ci_evals.model.response import Response, ToolCall
from ci_evals.model.result import Result, RunError
from ci_evals.model.rules import Gate
from ci_evals.reports.markdown import Document, Links, comment_document
from ci_evals.reports.summary import BaseAnswer, Summary, summarize

FENCED = re.compile(r"^(`{3,})(?:text|diff)\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
PAGE = "https://github.com/acme/app/actions/runs/100/artifacts/8"
URLS = {
    "https://github.com/acme/app/actions/runs/100",
    "https://github.com/acme/app/actions/runs/100/artifacts/7",
    PAGE,
}
ATTACKS = (
    "@octocat @acme/owners",
    "#12 GH-12 acme/app#12",
    "0123456789abcdef0123456789abcdef01234567 deadbeef",
    "</summary></details></td></table><details open>",
    "</sub></code></b> <b><i><code>",
    "```\n````\n~~~\n```diff",
    "| a | b |\n|---|---|\n| c | d |",
    "<script>alert(1)</script><img src=https://evil.example/x.png><a href=https://evil.example>x</a>",
    "<!-- ci-evals:end --> <!-- ci-evals:section suite=x -->",
    (
        "[a](https://evil.example) ![b](https://evil.example/y.png) https://evil.example"
        " www.evil.example me@evil.example"
    ),
    "\u202edne\u202c \u2066x\u2069 \u200f\u2028\x00\x1b[31m\r\n\x85",
    "$x^2$ :tada: **b** _i_ ~~s~~ `c` * * *\n# heading\n- item\n> quote\n---",
    "x" * 100_000,
    "\n" * 10_000,
    "::error::owned\n##[error]owned",
    "&lt;b&gt; &#64;octocat &amp;",
    "\\` \\| \\< \\[",
    "ftp://evil.example mailto:me@evil.example xmpp:me@evil.example",
)


def test_the_comment_reads_well(golden: Callable[[str, str], None]) -> None:
    golden("comment.md", text_of(comments.regression()) + "\n")


@pytest.mark.parametrize("name", SITUATIONS)
def test_github_shows_all_of_it_and_links_to_nothing_else(name: str) -> None:
    page = shown(text_of(SITUATIONS[name]()))
    assert places_linked(page) == URLS
    assert page.references == ()
    assert "|" not in page.html
    assert "`" not in page.html
    assert "<table>" in page.html


def test_a_passing_comment_without_changes_is_a_few_lines() -> None:
    lines = [line for line in text_of(comments.passing()).splitlines() if line]
    assert len(lines) == 12


def test_what_an_earlier_attempt_left_is_told() -> None:
    report = report_of({"capital": "PPPP"})
    report.resumption = Resumption(kept=3, retried=1)
    text = text_of(summarize(report, Gate()))
    assert "**Resumed**: 3 of 4 runs kept, 1 errored one tried again" in text


def test_confirm_runs_are_no_part_of_the_size_that_a_comparison_is_said_to_have() -> None:
    worse = {f"worse {number}": "FFF" for number in range(8)}
    same = {f"same {number}": "PPP" for number in range(4)}
    base = report_of(dict.fromkeys((*worse, *same), "P" * 10), started_at=1e9)
    report = report_of(worse | same, confirming=dict.fromkeys(worse, "FFFFFFF"))
    text = text_of(summarize(report, None, baseline_of(base), confirm_runs=3))
    assert "12 cases × 3 runs: this comparison detects drops of" in text


def test_a_row_tells_what_a_renamed_variant_was_compared_with() -> None:
    cells = {"a": "PPP"}
    base = report_of(cells, variants=(Variant("m"),), started_at=1e9)
    for name, told in (("m2", True), ("m", False)):
        text = text_of(
            summarize(report_of(cells, variants=(Variant(name),)), None, baseline_of(base))
        )
        assert ("no change<br><sub>compared with <code>m</code></sub> |" in text) == told


def test_a_regression_shows_what_was_answered_before_and_now() -> None:
    text = text_of(comments.regression())
    assert (
        '-→ refund {"amount":100,"currency":"EUR"}\n+→ refund {"amount":100,"currency":"USD"}\n'
        in text
    )
    assert (
        text.index("| 🔴 <code>refund")
        < text.index("| 🟢 <code>upgrade")
        < text.index("Still failing (1)")
    )


def test_without_the_baselines_answer_there_is_only_that_of_this_run() -> None:
    text = text_of(replace(comments.regression(), before={}))
    assert "Answer of run 1:\n```text\nI have refunded 100 USD" in text


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_text_is_only_text(attack: str) -> None:
    """Whoever writes the cases, the answers and the reasons, GitHub finds the same structure."""
    as_long = re.sub(r"\S", "w", visible(attack))
    harmless, hostile = shown(text_of(_written_by(as_long))), shown(text_of(_written_by(attack)))
    assert places_linked(hostile) == URLS
    assert hostile.references == ()
    assert _structure(hostile) == _structure(harmless)
    # GitHub looks for formulas before it reads entities.
    assert "$" not in FENCED.sub("", text_of(_written_by(attack)))


def places_linked(page: Shown) -> set[str]:
    """The links without the addresses of cases in the page, which have the ids of the cases."""
    return {re.sub(rf"(?<={re.escape(PAGE)})#case=[\w%=&.~-]+$", "", link) for link in page.links}


def _structure(page: Shown) -> list[str]:
    return [tag for tag in page.tags if tag != "br"]


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "https://x.example/a b", "https://x.example/)<b>"]
)
def test_a_link_that_is_none_is_text(url: str) -> None:
    links = Links(run=url, artifact=url, page=url)
    assert shown(comment_document(comments.regression(), links).render(64_000)).links == ()


@given(
    st.integers(300, 65_000),
    st.sampled_from(["many-regressions", "regression", "errored-provider", "hostile"]),
)
def test_in_any_room_nothing_is_broken(max_bytes: int, name: str) -> None:
    text = document_of(name).render(max_bytes)
    assert len(text.encode()) <= max_bytes
    outside = FENCED.sub("FENCE", text)
    assert "```" not in outside
    assert outside.count("<details") == outside.count("</details>") == outside.count("</summary>")
    for table in re.findall(r"(?:^\|.*\|\n)+", outside, re.MULTILINE):
        assert len({row.count("|") for row in table.splitlines()}) == 1
    assert text.startswith("### ")
    assert not outside.rstrip().endswith("</details>"), "an HTML block would swallow what follows"


def test_what_has_no_room_is_counted() -> None:
    summary = comments.many_regressions()
    assert summary.compared is not None
    named = len({cell.case for cell in summary.compared.select("regressed")})
    made = comment_document(summary)
    text = made.render(9_000)
    shown_cases = text.count("</b>: no &#34;")
    assert 20 < shown_cases < named
    assert f"\n… and {named - shown_cases} more regressed cases in report.json\n" in text
    assert _least_rooms(made, "*No room here for", step=200)
    assert f"{named} of 300 cases regressed" in made.render(1_500)


def test_of_many_regressions_the_first_are_in_the_open_and_the_others_behind_their_number() -> None:
    for count, in_the_open in ((12, 12), (13, 10)):
        names = [f"case {number}" for number in range(count)]
        base = report_of(dict.fromkeys(names, "P" * 30), started_at=1.0)
        report = report_of(
            dict.fromkeys(names, "FFF"),
            confirming=dict.fromkeys(names, "F" * 7),
            edit=with_own_reason,
        )
        text = text_of(
            summarize(report, Gate(min_pass_rate=0.5), baseline_of(base), confirm_runs=3)
        )
        first, _, rest = text.partition("<summary>3 more regressed cases</summary>")
        assert f"{count} cases regressed" in first
        assert shown(text).html.count("<details open") == 1
        assert (first.count("<summary><b><code>case "), rest.count("<summary><b><code>case ")) == (
            in_the_open,
            count - in_the_open,
        )
        assert shown(text).html.count("<details") == count + (in_the_open < count) + 1


def test_what_matters_most_stays_longest() -> None:
    """Details fold away before names do, and the least important names go first."""
    made = comment_document(comments.regression())
    sizes = _least_rooms(made, "refunded 100 EUR", "refund: currency is", "Still failing", "Flaky")
    assert (
        sizes["refund: currency is"]
        < sizes["Still failing"]
        < sizes["Flaky"]
        <= sizes["refunded 100 EUR"]
    )


def test_a_change_of_latency_is_shown_beside_it() -> None:
    slow = report_of(
        {"capital": "PPP"}, started_at=1.0, edit=lambda run: replace(run, latency_s=1.2)
    )
    text = text_of(summarize(report_of({"capital": "PPP"}), None, baseline_of(slow)))
    assert "p50 500\xa0ms<br><sub>-58\xa0%, too few cases to tell</sub><br>" in text


def test_every_missed_bar_is_told_where_there_are_several() -> None:
    gate = Gate(min_pass_rate=0.9, tags={"critical": 1.0})
    report = report_of({"a": "FFFF", "b": "FFFF"}, cases={"a": {"tags": ("critical",)}})
    text = text_of(summarize(report, gate))
    assert "#### Gate" in text
    assert re.search(r"\| tag <code>critical</code> \| 0 % .* \| 100 % \| ❌ Fail \|", text)


def _least_rooms(made: Document, *parts: str, step: int = 20) -> Mapping[str, int]:
    """The least room, in steps, in which each part is shown."""
    found: dict[str, int] = {}
    for size in range(300, 10_000, step):
        text = made.render(size)
        for part in parts:
            if part in text:
                found.setdefault(part, size)
        if len(found) == len(parts):
            return found
    raise AssertionError(f"no room is enough for {set(parts) - set(found)}")


@cache
def document_of(name: str) -> Document:
    if name == "hostile":
        return comment_document(_written_by("".join(ATTACKS[:12])), comments.LINKS)
    return comment_document(SITUATIONS[name]())


def _written_by(text: str) -> Summary:
    """A report with `text` everywhere: names, answers, reasons, the baseline's name, errors."""

    def spoken(result: Result) -> Result:
        if result.error is not None:
            error = replace(result.error, message=text)
            return replace(result, error=error)
        grades = tuple(replace(grade, reason=text, grader=text) for grade in result.grades)
        response = Response(output=text, tool_calls=(ToolCall(text, {text: text}),))
        return replace(result, grades=grades, response=response)

    variants = (Variant("agent", text), Variant("model", text))
    base = {f"{text} {kind}": "PPP" for kind in ("worse", "maybe", "same", "gone")}
    head = {
        f"{text} worse": "FFF",
        f"{text} maybe": "PPF",
        f"{text} same": "PPE",
        f"{text} new": "PPP",
    }
    older = [report_of(base, variants=variants, started_at=1e9 + number) for number in range(5)]
    report = report_of(
        head,
        variants=variants,
        confirming={f"{text} worse": "FFFFFFF", f"{text} maybe": "PPPPPPP"},
        edit=spoken,
        suite={"name": f"suite {text}"},
        interrupted=text,
    )
    gate = Gate(min_pass_rate=0.1, max_error_rate=0.9)
    summary = summarize(report, gate, baseline_of(*older, name=f"main {text}"), confirm_runs=3)
    worse = [(f"{text} worse", each.provider, text) for each in variants]
    return replace(
        summary,
        report=replace(report, main_now=MainNow(name=text)),
        before=dict.fromkeys(worse, BaseAnswer(text=text, is_now=True, missed=text)),
    )


def test_the_reason_why_there_is_no_baseline_is_only_text() -> None:
    summary = summarize(
        report_of({"capital": "PPP"}), None, NoComparison("@octocat has it, see #12")
    )
    page = shown(text_of(summary))
    assert "No baseline: @\u200boctocat has it" in page.html
    assert page.references == ()


def test_a_case_is_linked_to_its_line_at_the_commit_unless_its_file_lies_elsewhere() -> None:
    source = "https://github.com/acme/app/blob/0123456"
    for file, links in (
        ("my evals.yaml", (f"{source}/my%20evals.yaml#L10",)),
        ("../evals.yaml", ()),
        ("/evals.yaml", ()),
    ):
        summary = summarize(report_of({"capital": "F"}, cases={"capital": {"file": file}}), None)
        assert shown(comment_document(summary, Links(source=source)).render(64_000)).links == links


def test_the_commit_of_the_base_can_be_copied() -> None:
    assert "Compared with main at <code>0123456</code>, 3 hours older" in text_of(
        comments.passing()
    )


def test_a_red_comment_says_how_to_run_its_cases_again_and_how_to_accept_the_change() -> None:
    red, green = comments.text_of(pages.policy_change()), comments.text_of(comments.passing())
    assert "Run these again: <code>ci-evals run --tags parcel,refund</code>" in red
    assert "Intended? Change what the cases expect, or lower the bar that is missed (docs/" in red
    within_bars = comments.text_of(pages.support_bot())
    assert "Intended? Change what the cases expect, or merge" in within_bars
    assert "Run these again" not in green
    assert "Intended?" not in green


def test_how_to_accept_a_change_is_a_link_if_the_docs_have_an_address() -> None:
    docs = "https://github.com/ci-evals/ci-evals/blob/v1/docs"
    document = comment_document(pages.support_bot(), Links(docs=docs))
    recipe = f"{docs}/recipes/accept-a-regression.md"
    assert recipe in shown(document.render(64_000)).links


def test_of_many_regressions_those_for_the_same_reason_are_one_row() -> None:
    steady = many((30, "PPP"), prefix="steady")
    broken = many((20, "PPP"), prefix="broken")

    def edit(result: Result) -> Result:
        if result.status != "failed":
            return result
        own = replace(result, response=Response(result.case))
        if result.case in ("broken 1", "broken 2", "broken 3"):
            return own
        return replace(own, grades=(grade_of(passed=False, reason="the answer is not JSON"),))

    older = report_of({**broken, **steady}, started_at=STARTED_AT - 3600)
    report = report_of(
        {**dict.fromkeys(broken, "FFF"), **steady},
        confirming=dict.fromkeys(broken, "F" * 7),
        edit=edit,
    )
    text = comments.text_of(summarize(report, None, baseline_of(older), confirm_runs=3))
    rows = [line for line in text.splitlines() if line.startswith("| 🔴 ")]
    missing = "no &#34;Paris&#34; in the answer"
    assert rows == [
        f"| 🔴 3 cases: <code>{missing}</code> | 9/9 | **0/30** |",
        "| 🔴 17 cases: <code>the answer is not JSON</code> | 51/51 | **0/170** |",
    ]


def test_of_many_regressions_for_reasons_of_their_own_the_failed_graders_are_one_row() -> None:
    broken = many((20, "PPP"), prefix="broken")
    older = report_of(broken, started_at=STARTED_AT - 3600)
    report = report_of(
        dict.fromkeys(broken, "FFF"),
        confirming=dict.fromkeys(broken, "F" * 7),
        edit=with_own_reason,
    )
    text = comments.text_of(summarize(report, None, baseline_of(older), confirm_runs=3))
    rows = [line for line in text.splitlines() if line.startswith("| 🔴 ")]
    assert rows == ["| 🔴 20 cases: <code>contains</code> | 60/60 | **0/200** |"]


def test_examples_of_one_reason_differ_in_what_was_answered() -> None:
    answers = {"case 4": "Rome", "case 7": "Oslo"}

    def edit(result: Result) -> Result:
        if result.case not in answers:
            return result
        return replace(result, response=Response(answers[result.case]))

    summary = summarize(report_of(many((9, "FFF")), edit=edit), None)
    text = comments.text_of(summary)
    assert text.count("\nLyon\n") == 1
    assert re.findall(r"case%20(\d+)", text) == ["1", "4", "7"]


def test_a_refusal_is_told_in_the_headline_and_in_one_entry() -> None:
    cause = "api.example.com answered 429: slow down"

    def edit(result: Result) -> Result:
        if result.status != "errored":
            return result
        if result.run == 1:
            return replace(result, error=RunError("rate_limit", cause, 429))
        message = f"still rate-limited (429) after 2 min, 220 attempts; last: {cause}"
        return replace(result, error=RunError("given_up", message, cause=cause))

    variants = [Variant("gpt"), Variant("haiku")]
    cells: dict[str, Outcome | list[Outcome]] = {key: ["PPP", "EEE"] for key in many((20, ""))}
    report = report_of(cells, variants=variants, edit=edit)
    text = comments.text_of(summarize(report, Gate()))
    assert text.count(cause) == 2
    assert "- 60 runs on <code>haiku</code>: <code>still rate-limited (429) after 2 min" in text


def test_an_entry_says_no_more_than_its_line_and_the_answer_need() -> None:
    """A one-line question gets no block, and a reason already in its line is not repeated."""
    text, _, _ = text_of(comments.first_run()).partition("<summary>1 partly failed case")
    assert "<b><code>cancel</code></b>: no &#34;cancelled&#34; in the answer</summary>" in text
    assert "\nAsked: <code>Please cancel my booking QX7R2.</code>\n" in text
    assert "Why it failed" not in text
    regression = text_of(comments.regression())
    assert "refund: currency is &#34;USD&#34;, expected &#34;EUR&#34;</summary>" in regression
    assert "Why it failed" not in regression


def test_beside_a_case_stands_its_address_in_the_page() -> None:
    assert f"· [open in the report](<{PAGE}#case=refund>)\n" in text_of(comments.regression())
    assert "&on=gpt-4o-mini%20%C2%B7%20polite>)\n" in text_of(comments.many_regressions())
    without_page = comment_document(comments.regression()).render(64_000)
    assert "· <code>report.html#case=refund</code>\n" in without_page


def test_what_similar_new_cases_would_come_to_is_told_with_the_figures() -> None:
    _, _, figures = text_of(comments.passing()).partition("<summary>Pass rate, cost and latency")
    assert "\nExpected on similar new cases: 91–100 % (not part of the verdict)\n" in figures
