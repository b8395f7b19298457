"""summary.md: the verdict in the first line, and nothing of what others wrote acts as Markdown."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import comments
import pytest
from browser import browser, excess_px
from factories import report_of, with_own_reason
from github_markdown import page
from rendered import markdown_of as text_of

from ci_evals import templating
from ci_evals.model.case import Variant
from ci_evals.model.result import Result, RunError
from ci_evals.model.rules import Gate
from ci_evals.reports import markdown
from ci_evals.reports.groups import Group
from ci_evals.reports.markdown import (
    Block,
    Document,
    Markdown,
    code,
    difference,
    fence,
    fill,
    plain,
    with_code,
)
from ci_evals.reports.summary import Summary, summarize

FENCED = re.compile(r"^(`{3,})text\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"<code>[^<]*</code>")
ACTIVE = (
    "@octocat",
    "#12",
    "GH-12",
    "https://",
    "www.evil",
    "<script",
    "<!--",
    "[a](b)",
    "**b**",
    "$x$",
    "0123456",
)


def summary_of(cells: dict[str, Any], gate: Gate | None = None, **report: Any) -> Summary:
    made = report_of(cells, **report)
    return summarize(made, gate)


def outside_of_code(text: str) -> str:
    """What GitHub reads as Markdown: fences and code are taken out."""
    return CODE.sub("CODE", FENCED.sub("FENCE", text))


def test_every_value_goes_through_the_escaping() -> None:
    assert (
        fill("**{}** {} {}", "*a* <b>", 3, Markdown("*b*")) == "**&#42;a&#42; &#60;b&#62;** 3 *b*"
    )
    assert fill("{}", "{0} {") == "{0} {"


def test_the_summary_reads_well(flights: Summary, golden: Callable[[str, str], None]) -> None:
    golden("summary.md", text_of(flights))


def test_errors_come_first_where_they_leave_no_verdict() -> None:
    cells = {"down": "EEE", "wrong": "FFF"}
    for most in (0.1, 0.9):
        text = text_of(summary_of(cells, Gate(min_pass_rate=0.9, max_error_rate=most)))
        assert text.index("### ⚠️ Errored (1)") < text.index("<summary><b><code>wrong</code></b>")


def test_no_figure_says_of_every_variant_that_nothing_failed_or_errored() -> None:
    for cells, shown in (
        ("PPP", []),
        ("PPF", ["1 failed", "pass@3 100\xa0%", "pass^3 0\xa0%"]),
        ("PEE", ["2 errored"]),
    ):
        _, figures = text_of(summary_of({"capital": cells})).split("### Figures")
        assert re.findall(r"<sub>(\d failed|\d errored|pass[@^].*?)</sub>", figures) == shown


@pytest.mark.skipif(browser() is None, reason="there is no Chromium here")
@pytest.mark.parametrize("name", comments.SITUATIONS)
def test_no_table_of_a_comment_is_wider_than_a_phone(name: str) -> None:
    unfolded = page(comments.text_of(comments.SITUATIONS[name]())).replace(
        "<details>", "<details open>"
    )
    without_answers = re.sub("<pre.*?</pre>", "", unfolded, flags=re.DOTALL)
    assert "<table>" in without_answers
    assert max(excess_px(without_answers, (390, 1280))) <= 0


@pytest.mark.parametrize(
    ("outcome", "gate", "first"),
    [
        ("PPPP", None, "## ✅ 4 of 4 runs passed\n"),
        (
            "PPPF",
            None,
            (
                "## ❌ 1 case failed: <code>capital</code>\n\n"
                "1 of 4 runs failed, and every run must pass\n"
            ),
        ),
        (
            "PPPF",
            Gate(min_pass_rate=0.9),
            ("## 🟡 75\xa0% passed, 90\xa0% needed: could be luck\n\nPass rate 75\xa0% is"),
        ),
        ("EEEE", None, "## ⚠️ Not checked: agent refused all 4 runs (429)\n"),
    ],
)
def test_the_first_line_says_what_happened_and_the_second_why(
    outcome: str, gate: Gate | None, first: str
) -> None:
    assert text_of(summary_of({"capital": outcome}, gate)).startswith(first)


def test_hostile_text_is_only_text(hostile: Summary) -> None:
    text = text_of(hostile)
    rest = outside_of_code(text)
    assert not [active for active in ACTIVE if active in re.sub(r"&#\d+;", "", rest)]
    assert (
        rest.count("<details")
        == rest.count("</details>")
        == rest.count("<summary>")
        == rest.count("</summary>")
    )
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
    assert re.findall(r"</summary>\n(.*)\n", text) == [""] * text.count("<details")
    assert re.findall(r"(.*)\n</details>", text) == [""] * text.count("<details")


def test_cases_that_fail_always_come_before_flaky_ones() -> None:
    text = text_of(
        summary_of({"flaky": "PPPF", "often": "PFFF", "always": "FFFF"}, Gate(min_pass_rate=0.7))
    )
    assert re.findall(r"<summary>(?:<b>)?<code>(\w+)", text) == ["always", "often", "flaky"]


def test_a_summary_stays_below_the_limit_and_counts_what_it_leaves_out() -> None:
    longest = "\U0001ffff`" * 200
    cells = {f"{number} {longest}": "F" for number in range(300)}
    report = report_of(
        cells,
        variants=tuple(Variant(f"{n} {longest}") for n in range(8)),
        cases={name: {"input": longest} for name in cells},
        edit=with_own_reason,
    )
    tags = {f"{number} {longest}": 1.0 for number in range(300)}
    gate = Gate(min_pass_rate=0.5, tags=tags)
    text = text_of(summarize(report, gate))
    shown = text.count("<details")
    assert len(text.encode()) < markdown.MAX_BYTES
    assert shown > 20
    assert "… and 100 more failing cases in report.json" in text
    assert "… and 251 more bars in report.json, none worse than these." in text


def test_a_crash_shows_what_it_left_behind() -> None:
    def crash(result: Result) -> Result:
        error = RunError("crash", "ValueError: no such flight", detail="Traceback\n```\nValueError")
        return replace(result, response=None, grades=(), score=0.0, error=error)

    text = text_of(summary_of({"capital": "F"}, edit=crash))
    assert "</b>: ValueError: no such flight</summary>" in text
    assert "Error output:\n````text\nTraceback\n```\nValueError\n````\n\n</details>\n" in text


def test_the_hint_can_be_copied_from_the_raw_text() -> None:
    text = text_of(summary_of({"capital": "PF"}))
    assert "\n\nTo let some runs fail, set a bar: `gate: {min_pass_rate: 0.9}`\n\n" in text


def test_code_in_our_own_sentences_is_all_that_is_not_escaped() -> None:
    assert with_code("set `a_b`, *not* a_b`") == "set `a_b`, &#42;not&#42; a&#95;b&#96;"


def test_a_suite_that_leaves_out_cases_with_their_own_bar_says_so() -> None:
    text = text_of(
        summary_of({"solid": "PF", "shaky": "PPF"}, cases={"shaky": {"min_pass_rate": 0.5}})
    )
    assert "\n| suite, other cases | 50 % " in text
    assert "every run must pass · " in text
    assert "at least 50 % must pass · " in text


def test_a_fence_is_longer_than_any_run_of_backticks_inside() -> None:
    assert fence("a ```` b") == "`````text\na ```` b\n`````"


def test_code_holds_in_a_table_and_in_html() -> None:
    assert (
        code("a|b `c` </code> *d*")
        == "<code>a&#124;b &#96;c&#96; &#60;/code&#62; &#42;d&#42;</code>"
    )


def test_plain_text_notifies_nobody_and_links_to_nothing() -> None:
    assert plain("by @octocat in #12, GH-7") == "by @\u200boctocat in #\u200b12, GH-\u200b7"
    assert plain("https://x.y at deadbeef1") == "https:\u200b//x.y at d\u200beadbee\u200bf1"


# Answers side by side.


def test_what_changed_is_marked_and_the_rest_stays() -> None:
    assert difference("one\ntwo\nthree", "one\n2\nthree") == "```diff\n one\n-two\n+2\n three\n```"


def test_without_an_earlier_answer_or_a_difference_there_is_only_the_answer() -> None:
    assert difference(None, "one\n") == difference("one", "one") == "```text\none\n```"


def test_fences_in_an_answer_do_not_end_it() -> None:
    assert (
        difference("```\n@@ -1 +1 @@\n--- a", "````")
        == "`````diff\n-```\n-@@ -1 +1 @@\n---- a\n+````\n`````"
    )


def test_long_answers_are_cut_by_lines_and_say_so() -> None:
    shown = difference(None, "\n".join(["x" * 1_000, *"y" * 99])).splitlines()
    assert shown[1:12] == ["x" * 96] * 10 + ["x" * 40], "a fence does not wrap"
    assert shown[-2] == "… (50 more lines)"


# Documents in little room.

TEMPLATE = """head
{% for shown in groups %}

# {{ shown.group.noun }}

{{ shown.first }}
{% if shown.left_out %}
- … and {{ shown.left_out }} more
{% endif %}
{% endfor %}
{% if left_out %}

No room for {{ left_out }}
{% endif %}

foot"""

SHORT = templating.environment(markdown.finalize).from_string(TEMPLATE)


def group(
    name: str, entries: int = 3, total: int | None = None, full: str = ""
) -> tuple[Group, list[Block]]:
    blocks = [
        Block(Markdown(f"- {name} {number}"), Markdown(full and f"- {name} {number}: {full}"))
        for number in range(entries)
    ]
    return Group("failing", name, f"{name} case", entries, total or entries, ()), blocks


def document(*groups: tuple[Group, list[Block]]) -> Document:
    return Document(SHORT, {}, groups, ("the shortest but one", "shortest"))


def test_with_room_for_all_everything_unfolds() -> None:
    text = document(group("red", 1, full="why"), group("green", 1)).render(1_000)
    assert text == "head\n\n# red case\n\n- red 0: why\n\n# green case\n\n- green 0\n\nfoot"


def test_details_fold_before_entries_go_and_the_first_keep_theirs() -> None:
    text = document(group("red", 3, full="w" * 50)).render(120)
    assert text == f"head\n\n# red case\n\n- red 0: {'w' * 50}\n\n- red 1\n\n- red 2\n\nfoot"


def test_an_entry_that_is_too_long_to_unfold_leaves_its_room_to_the_next() -> None:
    blocks = [
        Block(Markdown("- a"), Markdown("- a" + "x" * 500)),
        Block(Markdown("- b"), Markdown("- b: why")),
    ]
    made = document((Group("failing", "red", "case", 2, 2, ()), blocks))
    assert made.render(100) == "head\n\n# case\n\n- a\n\n- b: why\n\nfoot"


def test_the_least_important_goes_first() -> None:
    made = document(group("red"), group("green", 20))
    assert made.render(80) == (
        "head\n\n# red case\n\n- red 0\n- … and 2 more\n\nNo room for 20 green cases\n\nfoot"
    )


def test_entries_that_are_not_there_are_counted() -> None:
    assert (
        document(group("red", total=1_200))
        .render(1_000)
        .endswith("- red 2\n- … and 1197 more\n\nfoot")
    )


def test_without_room_for_anything_else_the_longest_short_text_is_left() -> None:
    made = document(group("red"))
    assert made.render(20) == "the shortest but one"
    assert made.render(10) == made.render(1) == "shortest"
