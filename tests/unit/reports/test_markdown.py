"""summary.md: the verdict in the first line, and nothing of what others wrote acts as Markdown."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from browser import browser, excess_px
from factories import grade_of, report_of
from github_markdown import page
from rendered import markdown_of as text_of

from ci_evals.gate.verdict import decide
from ci_evals.model.case import Variant
from ci_evals.model.result import Result, RunError
from ci_evals.model.rules import Gate
from ci_evals.reports import markdown
from ci_evals.reports.markdown import Markdown, code, difference, fence, fill, plain, with_code
from ci_evals.reports.summary import Summary

FENCED = re.compile(r"^(`{3,})text\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"<code>[^<]*</code>")
ACTIVE = ("@octocat", "#12", "GH-12", "https://", "www.evil", "<script", "<!--", "[a](b)", "**b**", "$x$", "0123456")


def summary_of(cells: dict[str, Any], gate: Gate | None = None, **report: Any) -> Summary:
    made = report_of(cells, **report)
    return Summary(made, decide(made, gate), gate)


def outside_of_code(text: str) -> str:
    """What GitHub reads as Markdown: fences and code are taken out."""
    return CODE.sub("CODE", FENCED.sub("FENCE", text))


def test_every_value_goes_through_the_escaping() -> None:
    assert fill("**{}** {} {}", "*a* <b>", 3, Markdown("*b*")) == "**&#42;a&#42; &#60;b&#62;** 3 *b*"
    assert fill("{}", "{0} {") == "{0} {"


def test_the_summary_reads_well(flights: Summary, golden: Callable[[str, str], None]) -> None:
    golden("summary.md", text_of(flights))


def test_a_suite_that_passes_is_brief(passing: Summary, golden: Callable[[str, str], None]) -> None:
    golden("summary-passing.md", text_of(passing))


def test_errors_come_first_where_they_leave_no_verdict() -> None:
    cells = {"down": "EEE", "wrong": "FFF"}
    for most, titles in ((0.1, ["Errored (3)", "Failing (1)"]), (0.9, ["Errored (3)", "Failing (1)"])):
        text = text_of(summary_of(cells, Gate(min_pass_rate=0.9, max_error_rate=most)))
        assert re.findall("^### \\W*(.*)$", text, re.MULTILINE) == titles


def test_no_column_says_of_every_variant_that_nothing_failed_or_errored() -> None:
    for cells, columns in (("PPP", []), ("PPF", ["pass@3<br>pass^3", "failed"]), ("PEE", ["errored"])):
        head = next(line for line in text_of(summary_of({"capital": cells})).splitlines() if line.startswith("|"))
        expected = ["variant", "pass rate", *columns, "cost", "latency p50", "latency p95"]
        assert head == f"| {' | '.join(expected)} |"


@pytest.mark.skipif(browser() is None, reason="there is no Chromium here")
@pytest.mark.parametrize("which", ["flights", "changed", "regressed"])
def test_the_table_of_variants_fits_into_a_comment(which: str, request: pytest.FixtureRequest) -> None:
    before_cases = re.split("\n(?:###|<details>)", text_of(request.getfixturevalue(which)))[0]
    assert "| variant |" in before_cases
    assert max(excess_px(page(before_cases), (810,))) <= 0


@pytest.mark.parametrize(
    ("outcome", "gate", "first"),
    [
        ("PPPP", None, "## ✅ Pass: 4 of 4 runs passed"),
        ("PPPF", None, "## ❌ Fail: 1 of 4 runs failed, and every run must pass"),
        ("PPPF", Gate(min_pass_rate=0.9), "## 🟡 Borderline: pass rate 75\xa0% is below the bar of 90\xa0%, but"),
        ("EEEE", None, "## ⚠️ No verdict: all 4 runs errored: 429: slow down"),
    ],
)
def test_the_first_line_is_the_verdict_and_its_reason(outcome: str, gate: Gate | None, first: str) -> None:
    assert text_of(summary_of({"capital": outcome}, gate)).startswith(first)


def test_hostile_text_is_only_text(hostile: Summary) -> None:
    text = text_of(hostile)
    rest = outside_of_code(text)
    assert not [active for active in ACTIVE if active in re.sub(r"&#\d+;", "", rest)]
    assert rest.count("<details>") == rest.count("</details>") == rest.count("<summary>") == rest.count("</summary>")
    assert "`" not in rest
    assert not re.search(r"^\s*::|##\[", rest, re.MULTILINE)
    assert all(character.isprintable() or character in "\n\t\u200b\xa0" for character in text)
    assert len(text) < 100_000


def test_every_row_of_a_table_has_its_columns(hostile: Summary) -> None:
    tables = re.findall(r"(?:^\|.*\|\n)+", text_of(hostile), re.MULTILINE)
    assert tables
    for table in tables:
        assert len({row.count("|") for row in table.splitlines()}) == 1


def test_a_details_block_is_left_open_for_markdown(flights: Summary) -> None:
    text = text_of(flights)
    assert re.findall(r"</summary>\n(.*)\n", text) == [""] * text.count("<details>")
    assert re.findall(r"(.*)\n</details>", text) == [""] * text.count("<details>")


def test_cases_that_fail_always_come_before_flaky_ones() -> None:
    text = text_of(summary_of({"flaky": "PPPF", "often": "PFFF", "always": "FFFF"}, Gate(min_pass_rate=0.7)))
    assert re.findall(r"<summary><code>(\w+)", text) == ["always", "often", "flaky"]
    assert text.index("### ❌ Failing (2)") < text.index("### Flaky, but within the bar (1)")


def test_a_summary_stays_below_the_limit_and_counts_what_it_leaves_out() -> None:
    longest = "\U0001ffff`" * 1000
    cells = {f"{number} {longest}": "F" for number in range(300)}
    report = report_of(
        cells,
        variants=tuple(Variant(f"{n} {longest}") for n in range(8)),
        cases={name: {"input": longest} for name in cells},
    )
    tags = {f"{number} {longest}": 1.0 for number in range(300)}
    gate = Gate(min_pass_rate=0.5, tags=tags)
    text = text_of(Summary(report, decide(report, gate), gate))
    shown = text.count("<details>")
    assert len(text.encode()) < markdown.MAX_BYTES
    assert shown > 20
    assert "… and 2,200 more failing cases in report.json" in text
    assert "… and 251 more bars in report.json, none worse than these." in text


def test_a_crash_shows_what_it_left_behind() -> None:
    def crash(result: Result) -> Result:
        error = RunError("crash", "ValueError: no such flight", detail="Traceback\n```\nValueError")
        return replace(result, response=None, grades=(), score=0.0, error=error)

    text = text_of(summary_of({"capital": "F"}, edit=crash))
    assert "<br>ValueError: no such flight</summary>" in text
    assert "It left behind:\n````text\nTraceback\n```\nValueError\n````\n\n</details>\n" in text


def test_the_hint_can_be_copied_from_the_raw_text() -> None:
    text = text_of(summary_of({"capital": "PF"}))
    assert "\n\nto let some runs fail, set a bar: `gate: {min_pass_rate: 0.9}`\n\n" in text


def test_code_in_our_own_sentences_is_all_that_is_not_escaped() -> None:
    assert with_code("set `a_b`, *not* a_b`") == "set `a_b`, &#42;not&#42; a&#95;b&#96;"


def test_errors_name_the_first_cases_and_where_they_are() -> None:
    line = text_of(summary_of(dict.fromkeys("abcd", "EE"))).splitlines()[-1]
    assert re.sub("</?code>", "", line) == (
        "- 8 runs: 429: slow down, in a (evals.yaml:10), b (evals.yaml:20), c (evals.yaml:30) and 1 more case"
    )


def test_new_cases_are_spoken_of_where_there_are_five() -> None:
    few, enough = ({f"case {number}": "PPF" for number in range(count)} for count in (4, 5))
    assert "new cases" not in text_of(summary_of(few))
    assert "\n\nExpected on similar new cases: 42.3 to 85.8 %.\n" in text_of(summary_of(enough))


def test_a_suite_that_leaves_out_cases_with_their_own_bar_says_so() -> None:
    text = text_of(summary_of({"solid": "PF", "shaky": "PPF"}, cases={"shaky": {"min_pass_rate": 0.5}}))
    assert "\n| suite, other cases | 50 % " in text
    assert "every run must pass\n" in text
    assert "at least 50 % must pass\n" in text


def test_an_interruption_is_said_with_what_it_left_undone() -> None:
    text = text_of(summary_of({"capital": "PP.."}, interrupted="SIGTERM"))
    then = "what ran is kept, and --resume goes on from it (in GitHub Actions, a re-run of the job)"
    assert f"**Interrupted**: SIGTERM; {then}\n" in text
    assert "2 not run" in text


def test_a_fence_is_longer_than_any_run_of_backticks_inside() -> None:
    assert fence("a ```` b") == "`````text\na ```` b\n`````"


def test_code_holds_in_a_table_and_in_html() -> None:
    assert code("a|b `c` </code> *d*") == "<code>a&#124;b &#96;c&#96; &#60;/code&#62; &#42;d&#42;</code>"


def test_plain_text_notifies_nobody_and_links_to_nothing() -> None:
    assert plain("by @octocat in #12, GH-7") == "by @\u200boctocat in #\u200b12, GH-\u200b7"
    assert plain("https://x.y at deadbeef1") == "https:\u200b//x.y at d\u200beadbee\u200bf1"


def test_answers_that_give_orders_to_their_judge_are_counted() -> None:
    def flagged(result: Result) -> Result:
        return replace(result, grades=(grade_of(orders_judge=result.case == "capital"),))

    shown = text_of(summary_of({"capital": "PP", "river": "P"}, edit=flagged))
    assert "2 answers seem to give orders to their judge: capital" in shown
    assert "give orders" not in text_of(summary_of({"capital": "PP"}))


# Answers side by side.


def test_what_changed_is_marked_and_the_rest_stays() -> None:
    assert difference("one\ntwo\nthree", "one\n2\nthree") == "```diff\n one\n-two\n+2\n three\n```"


def test_without_an_earlier_answer_or_a_difference_there_is_only_the_answer() -> None:
    assert difference(None, "one\n") == difference("one", "one") == "```text\none\n```"


def test_fences_in_an_answer_do_not_end_it() -> None:
    assert difference("```\n@@ -1 +1 @@\n--- a", "````") == "`````diff\n-```\n-@@ -1 +1 @@\n---- a\n+````\n`````"


def test_long_answers_are_cut_by_lines_and_say_so() -> None:
    shown = difference(None, "\n".join(["x" * 1_000, *"y" * 99])).splitlines()
    assert shown[1] == "x" * 300 + "…"
    assert shown[-2] == "… (40 more lines)"
