"""Everything that a person is shown, in whatever format."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import unescape
from typing import Any
from xml.etree import ElementTree as ET

import comments
import pytest
from factories import AGENT, STARTED_AT, Outcome, baseline_of, grade_of, many, report_of
from rendered import comment_of, html_of, junit_of, markdown_of, terminal_of

from ci_evals.gate.compare import Comparison, RatesNow
from ci_evals.model.case import Variant
from ci_evals.model.report import MainNow, Tally
from ci_evals.model.response import Response
from ci_evals.model.result import Result
from ci_evals.model.rules import Gate
from ci_evals.reports.findings import Findings, findings
from ci_evals.reports.groups import join_sentence, matrix_changes
from ci_evals.reports.notes import outcome
from ci_evals.reports.summary import Note, Summary, summarize

TITLE = re.compile(r"^(?:### |<summary>)(?:\W )?(\w[^<>]*?) \(\d+\)", re.MULTILINE)


def compared(
    head: Mapping[str, str], base: Mapping[str, str], gate: Gate | None = None, **changes: Any
) -> Summary:
    older = report_of(base, started_at=STARTED_AT - 3600)
    report = report_of(head, **changes)
    return summarize(report, gate, baseline_of(older), confirm_runs=3)


def test_a_base_branch_from_right_to_left_reorders_nothing_beside_it() -> None:
    branch = "\u05e9\u05dc\u05d5\u05dd"
    older = [
        report_of(
            {"worse": "P" * 10, "same": "PPP", "gone": "P"}, started_at=STARTED_AT - days * 86_400
        )
        for days in range(1, 6)
    ]
    report = report_of({"worse": "FFF", "same": "PPP"}, confirming={"worse": "F" * 7})
    summary = summarize(report, None, baseline_of(*older, name=branch), confirm_runs=3)
    for text in map(
        unescape,
        (markdown_of(summary), terminal_of(summary), comment_of(summary), html_of(summary)),
    ):
        kept = len(re.findall(f"\u200e{branch}\u200e", text))
        assert text.count(branch) == kept > 1


def test_sections_come_with_the_most_important_first(changed: Summary) -> None:
    assert [group.title for group in findings(changed).groups] == [
        "Failing",
        "Can't tell",
        "Still failing",
        "Fixed",
        "New, edited, renamed, removed, not compared",
        "Flaky, but within the bar",
    ]


def test_a_regressed_case_is_not_listed_as_failing_too() -> None:
    summary = compared({"a": "FFF"}, {"a": "P" * 30}, confirming={"a": "F" * 7})
    assert [group.kind for group in findings(summary).groups] == ["regressed"]


def test_a_limit_that_was_not_checked_is_a_warning_and_no_objection() -> None:
    summary = compared(
        {"a": "FFF"}, {"a": "P" * 30}, Gate(max_cost_increase=1.2), confirming={"a": "F" * 7}
    )
    [warnings] = [group for group in findings(summary).groups if group.kind == "warnings"]
    assert (warnings.tone, warnings.entries[0].line()) == (
        "unsure",
        "cost of a single case cannot show an increase, so max_cost_increase: 1.2 was not checked",
    )
    text = terminal_of(summary)
    assert "cost of a single case" in text
    assert "✗ cost" not in text


def test_a_case_that_failed_on_the_base_too_is_still_failing_and_a_new_one_is_failing() -> None:
    summary = compared({"old": "FFF", "new": "FFF"}, {"old": "FFF"})
    found = {group.kind: group.entries[0].line() for group in findings(summary).groups}
    assert found["still failing"] == "old: 0 of 3 runs passed; 0 of 3 on main"
    assert found["failing"] == "new: 0 of 3 runs passed"


ALL_FORMATS = [markdown_of, terminal_of, comment_of, html_of, junit_of]
STEADY = {f"case {number}": "PPPPP" for number in range(39)}


def assert_calm(summary: Summary, case: str) -> None:
    """Assert that a passed suite shows its case with a failed run, but nowhere as a failed case."""
    assert summary.verdict.status == "pass"
    group = findings(summary).group("failed some")
    assert group is not None
    assert [entry.cell and entry.cell.case.id for entry in group.entries] == [case]
    for text in map(unescape, (render(summary) for render in ALL_FORMATS)):
        assert case in text
        assert not re.search(r"\bFailing\b|❌|✗ wobbly|<failure|class=\"cell failed", text)
    assert "Failed some runs (1)" in comment_of(summary)


def test_a_case_that_failed_within_noise_of_the_base_is_not_called_failing() -> None:
    base = {"wobbly": "P" * 29 + "F"} | STEADY
    summary = compared(
        {"wobbly": "PPPPF"} | STEADY,
        base,
        Gate(min_pass_rate=0.9),
        confirming={"wobbly": "PPPPPPP"},
    )
    assert_calm(summary, "wobbly")
    (entry,) = next(
        group for group in findings(summary).groups if group.kind == "failed some"
    ).entries
    assert entry.line() == (
        "wobbly: 4 of 5 runs passed, flip rate 40 %, 11 of 12 with confirm runs; 29 of 30 on main"
    )


def test_without_a_baseline_a_case_of_a_passed_suite_fails_only_where_all_its_runs_failed() -> None:
    gate = Gate(min_pass_rate=0.9)
    assert_calm(summarize(report_of({"wobbly": "PFFFF"} | STEADY), gate), "wobbly")
    summary = summarize(report_of({"dead": "FFFFF"} | STEADY), gate)
    assert summary.verdict.status == "pass"
    assert "| ❌ <code>" in comment_of(summary)
    assert "<failure" in junit_of(summary)


@pytest.mark.parametrize(
    "gate", [None, Gate(min_pass_rate=0.9, tags={"core": 1.0}), Gate(tags={"core": 0.99})]
)
def test_a_case_below_a_bar_that_is_missed_is_failing(gate: Gate | None) -> None:
    gate = gate and replace(gate, confidence=0.6)
    summary = summarize(
        report_of({"wobbly": "PPPFF"} | STEADY, cases={"wobbly": {"tags": ("core",)}}), gate
    )
    assert summary.verdict.status == "fail"
    assert "| ❌ <code>" in comment_of(summary)


def test_an_edited_case_that_fails_is_said_to_be_not_compared() -> None:
    summary = compared({"a": "FFF"}, {"a": "P" * 10}, asks={"a": "another question"})
    assert "0 of 3 runs passed; edited, so not compared: 10 of 10 on main" in terminal_of(summary)


def test_possible_regressions_are_folded_unless_one_of_them_misses_its_bar() -> None:
    base, head = {"a": "P" * 28 + "FF"}, {"a": "PPF"}
    for bar, folded in ((0.5, True), (0.9, False)):
        summary = compared(head, base, cases={"a": {"min_pass_rate": bar}})
        (group,) = findings(summary).groups
        assert (group.title, group.folded) == ("Can't tell", folded)


def test_every_case_of_a_new_variant_is_not_a_new_case(several: Summary) -> None:
    assert "1 variant new: flash · polite\n" in terminal_of(several)
    assert "case new" not in terminal_of(several)


def test_a_variant_compared_under_a_new_name_is_not_removed_and_a_removed_case_of_it_is_told() -> (
    None
):
    base = report_of(
        {"a": "PPP", "gone": "PPP"}, variants=(Variant("m"),), started_at=STARTED_AT - 3600
    )
    report = report_of({"a": "PPP"}, variants=(Variant("m2"),))
    summary = summarize(report, None, baseline_of(base), confirm_runs=3)
    assert isinstance(summary.comparison, Comparison)
    assert [(each.heading, each.names) for each in matrix_changes(summary.comparison)] == [
        ("1 case removed", (("gone",),))
    ]


def test_a_variant_that_errored_throughout_is_named_as_such_and_its_cases_are_not() -> None:
    variants = (Variant("well"), Variant("down"))
    base = report_of({"a": "PPP", "b": "PPP"}, variants=variants, started_at=STARTED_AT - 3600)
    for b, lists in (
        ("EEE", ["1 variant not compared: down"]),
        ("PEE", ["1 case not compared: a on down"]),
    ):
        report = report_of({"a": ["PPP", "EEE"], "b": ["PPP", b]}, variants=variants)
        summary = summarize(report, None, baseline_of(base), confirm_runs=3)
        group = findings(summary).group("changed")
        assert group is not None
        assert [entry.line() for entry in group.entries] == lists


def test_where_nothing_was_compared_the_cases_are_not_listed_once_more() -> None:
    text = terminal_of(compared({"a": "EEE", "b": "EEE", "c": "EEE"}, {"a": "PPP", "b": "PPP"}))
    assert "nothing to compare" in text
    assert "not compared" not in text
    assert "1 case new: c" in text


@pytest.mark.parametrize("text", [markdown_of, terminal_of, comment_of, html_of])
def test_what_is_critical_is_said_beside_the_case(text: Callable[[Summary], str]) -> None:
    cases = {"a": {"critical": True}}
    shown = text(compared({"a": "FFF"}, {"a": "P" * 30}, confirming={"a": "F" * 7}, cases=cases))
    between = r"(?:</?\w+[^>]*>|[\s*])+"
    assert re.search(rf"^.*(critical{between}a\b|>a{between}critical\b)", shown, re.MULTILINE)


def test_suspects_that_could_not_be_confirmed_are_said() -> None:
    text = terminal_of(compared({"a": "FFF"}, {"a": "P" * 30}))
    assert "Not confirmed: 1 suspect did not run again" in text
    assert "Probably worse (1)" in text
    assert "but not confirmed by further runs" in " ".join(text.split())


def test_a_case_that_main_fails_now_too_is_no_fault_of_the_change_in_the_table() -> None:
    summary = compared({"a": "FFF"}, {"a": "PPP"})
    assert summary.compared
    (cell,) = summary.compared.cells
    cell = replace(cell, main_now=Tally(0, 10), cleared=True)
    summary = replace(summary, comparison=replace(summary.compared, cells=(cell,)))
    (row,) = findings(summary).rows
    assert (row.base, row.base_now, row.note) == ("3/3", "0/10", "not this change")


@pytest.mark.parametrize("text", [terminal_of, comment_of])
def test_a_variant_that_main_has_lost_too_is_said_to_be_no_fault_of_the_change(
    text: Callable[[Summary], str],
) -> None:
    summary = compared({"a": "PPF"}, {"a": "PPP"})
    assert summary.compared
    (variant,) = summary.compared.variants
    now = RatesNow(rounds=3, here=0.79, main=0.8, p=0.4, main_fell=True)
    comparison = replace(
        summary.compared,
        variants=(replace(variant, now=now),),
        main_now=MainNow(name="main (0123456)"),
    )
    shown = " ".join(text(replace(summary, comparison=comparison)).split())
    assert "below the reports of main, but so is main (0123456) now" in shown.replace("\u200b", "")
    assert "79 % here, 80 % there: not this change" in shown


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (markdown_of, "28 of 30 on main, 8 of 10 here: can't tell"),
        (comment_of, "28 of 30 on main, 8 of 10 here: can't tell"),
        (html_of, "28/30 → 8/10"),
    ],
)
def test_a_case_that_may_be_worse_has_a_reason_even_within_its_bar(
    text: Callable[[Summary], str], found: str
) -> None:
    cases = {"a": {"min_pass_rate": 0.5}}
    summary = compared(
        {"a": "PPF"}, {"a": "P" * 28 + "FF"}, confirming={"a": "PPPPPPF"}, cases=cases
    )
    shown = " ".join(unescape(text(summary)).split())
    reason = 'no "Paris" in the answer'
    after = shown.partition(found)[2]
    assert 0 <= after.find(reason) < 70, "beside what was found, not only where it unfolds"


def test_hostile_text_is_only_text_in_every_format(hostile_comparison: Summary) -> None:
    for width in (40, 100):
        shown = terminal_of(hostile_comparison, width)
        assert all(character.isprintable() or character == "\n" for character in shown)
        assert not re.search(r"^\s*::|##\[", shown, re.MULTILINE)
    page = markdown_of(hostile_comparison)
    fences = re.compile(r"^(`{3,})text\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
    rest = re.sub(r"<code>[^<]*</code>", "CODE", fences.sub("FENCE", page))
    inert = re.sub(r"&#\d+;", "", rest)
    for active in (
        "@octocat",
        "#12",
        "GH-12",
        "https://",
        "www.evil",
        "<script",
        "<!--",
        "[a](b)",
        "**b**",
        "0123456",
    ):
        assert active not in inert
    assert (
        rest.count("<details")
        == rest.count("</details>")
        == rest.count("<summary>")
        == rest.count("</summary>")
    )
    for table in re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE):
        assert len({row.count("|") for row in table.splitlines()}) == 1
    root = ET.fromstring(junit_of(hostile_comparison))
    assert int(root.attrib["tests"]) == 18


# Cases over variants, and tags.

SIX = [Variant(f"model-{number}") for number in range(6)]


def over_variants(
    head: Mapping[str, Any], base: Mapping[str, Any], gate: Gate | None = None, **changes: Any
) -> Summary:
    """Compare six variants without confirm runs, so that no suspect is named."""
    older = report_of(base, variants=SIX, started_at=STARTED_AT - 3600)
    report = report_of(head, variants=SIX, **changes)
    return summarize(report, gate, baseline_of(older), confirm_runs=10)


def test_a_case_that_broke_on_every_variant_comes_before_one_that_fails_now_and_then() -> None:
    steady = many((30, "PPP"), prefix="steady")
    base = {"flaky": ["PPF", *["PPP"] * 5], "dead": "PPP", "new": "FFF"} | steady
    head = {"flaky": ["PPF", *["PPP"] * 5], "dead": "FFF", "new": "FFF"} | steady
    groups = findings(over_variants(head, base)).groups
    assert [(group.kind, group.folded) for group in groups] == [
        ("probably worse", False),
        ("still failing", True),
    ]
    lines = [entry.line() for group in groups for entry in group.entries]
    assert lines[0] == ("dead on 6 of 6 variants: 18 of 18 on main, 0 of 18 here: probably worse")
    assert lines[1].startswith(("new", "flaky"))


def test_failing_cases_have_the_one_that_fell_furthest_over_all_variants_first() -> None:
    wobbly = ["PPF", *["PPP"] * 5]
    half = ["PFF", "PFF", "PFF", *["PPP"] * 3]
    summary = over_variants({"a": wobbly, "b": half}, {"a": "PPP", "b": "PPP"})
    names = [
        entry.line().partition(" ")[0]
        for group in findings(summary).groups
        for entry in group.entries
    ]
    assert names.index("b") < names.index("a")


# The run by itself.


def test_a_run_that_was_stopped_before_any_result_says_only_that() -> None:
    summary = summarize(report_of({"a": "...", "b": "..."}, interrupted="SIGINT"), None)
    assert headline_of(summary) == "interrupted before any of the 6 runs finished"
    assert "none of" not in terminal_of(summary)
    assert "stopped after" not in terminal_of(summary)


def shown(cells: Mapping[str, Any], gate: Gate | None = None, **changes: Any) -> Findings:
    return findings(summarize(report_of(cells, **changes), gate))


@pytest.mark.parametrize(
    ("cases", "names"),
    [
        ("abc", "a (evals.yaml:10), b (evals.yaml:20), c (evals.yaml:30)"),
        ("abcde", "a, b, c, d, e"),
        (
            "abcdefghijkl",
            "a (evals.yaml:10), b (evals.yaml:20), c (evals.yaml:30) and 9 more cases",
        ),
    ],
)
def test_errors_name_cases_and_where_they_are_if_these_are_few_or_many(
    cases: str, names: str
) -> None:
    (group,) = shown(dict.fromkeys(cases, "EE")).groups
    assert group.entries[0].line() == f"{2 * len(cases)} runs: 429: slow down, in {names}"


def test_new_cases_are_spoken_of_where_there_are_five() -> None:
    few, enough = ({f"case {number}": "PPF" for number in range(count)} for count in (4, 5))
    assert shown(few).expected is None
    assert (
        shown(enough).expected == "Expected on similar new cases: 42–86 % (not part of the verdict)"
    )


def test_answers_that_give_orders_to_their_judge_are_counted() -> None:
    def flag(result: Result) -> Result:
        return replace(result, grades=(grade_of(orders_judge=result.case == "capital"),))

    note = Note("Suspicious", "2 answers seem to give orders to their judge: capital")
    assert note in shown({"capital": "PP", "river": "P"}, edit=flag).notes


def test_an_interruption_is_said_with_what_it_left_undone() -> None:
    found = shown({"capital": "PP.."}, interrupted="SIGTERM")
    where = "in GitHub Actions and GitLab CI, a re-run of the job"
    way_on = f"what ran is kept, and --resume goes on from it ({where})"
    assert Note("Interrupted", f"SIGTERM; {way_on}", brief=True) in found.notes
    assert "2 not run" in found.outcome


# One line for a person.

TWO = (Variant("a"), Variant("b"))


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        pytest.param(
            many((20, "PPPPP"), (2, "PFFFF")),
            "102 of 110 runs passed (92.7 %), 8 failed",
            id="all graded",
        ),
        pytest.param(
            {"a": "PPEEEEE", "b": "FFEEEEE"},
            "2 of 14 runs passed, 2 failed, 10 errored; pass rate 50 % (mean over cases)",
            id="errored runs are not among those that passed",
        ),
        pytest.param(
            {"a": "PP..", "b": "FF"},
            "2 of 6 runs passed, 2 failed, 2 not run; pass rate 50 % (mean over cases)",
            id="nor are those that never ran",
        ),
        pytest.param(
            {"a": "P", "b": "PFFF"},
            "2 of 5 runs passed, 3 failed; pass rate 62.5 % (mean over cases)",
            id="cases with more runs count no more",
        ),
        pytest.param({"a": "P"}, "1 of 1 run passed (100 %)", id="one run"),
        pytest.param({"a": "F"}, "0 of 1 run passed (0 %), 1 failed", id="one failed run"),
        pytest.param(
            {"a": "PE"},
            "1 of 2 runs passed, 1 errored",
            id="one",
        ),
        pytest.param(
            {"a": "EE."}, "0 of 3 runs passed, 2 errored, 1 not run", id="nothing was graded"
        ),
        pytest.param(
            {"a": (9_999, 10_000)},
            "9,999 of 10,000 runs passed (99.99 %), 1 failed",
            id="not quite 100 %",
        ),
        pytest.param(
            {"a": (1, 10_000)}, "1 of 10,000 runs passed (0.01 %), 9,999 failed", id="not quite 0 %"
        ),
    ],
)
def test_the_headline_says_what_its_rate_is_of(cells: dict[str, Any], line: str) -> None:
    assert outcome(report_of(cells)) == line


def test_with_several_variants_the_mean_is_over_these_too() -> None:
    report = report_of({"a": ["PP", "PE"], "b": ["PF", "FF"]}, variants=TWO)
    assert outcome(report) == (
        "4 of 8 runs passed, 3 failed, 1 errored; pass rate 62.5 % (mean over cases and variants)"
    )


def headline_of(summary: Summary) -> str:
    return join_sentence(findings(summary).headline)


def test_the_headline_names_the_cases_that_decided() -> None:
    assert headline_of(comments.regression()) == "1 case better, 1 worse: refund (critical)"
    names = {f"case {number}": "FFF" for number in range(1, 6)}
    fallen = compared(
        names, dict.fromkeys(names, "P" * 30), confirming=dict.fromkeys(names, "F" * 7)
    )
    assert headline_of(fallen) == "5 cases regressed: case 1, case 2, case 3 and 2 more"
    several = report_of({"a": ["PPP", "FFF"]}, variants=(Variant("gpt"), Variant("agent")))
    assert headline_of(summarize(several, None)) == "1 case failed: a on agent"
    both = report_of({"a": ["PFP", "FFF"]}, variants=(Variant("gpt"), Variant("agent")))
    assert headline_of(summarize(both, None)) == "1 case failed: a on 2 variants"


def test_the_headline_of_a_missed_bar_names_the_cases_that_failed() -> None:
    cells = {"fine": "PPPPP", "shaky": "PPPFF", "lost": "FFFFF"}
    first = summarize(report_of(cells), Gate(min_pass_rate=0.95))
    assert headline_of(first) == "2 cases failed: lost, shaky"
    assert (
        findings(first).evidence
        == "pass rate 53.3 % is below the bar of 95 % (at most 75.6 %, 95 % confidence)"
    )
    again = compared(cells, cells, Gate(min_pass_rate=0.95))
    assert headline_of(again) == (
        "53.3 % passed, 95 % needed; main has 53.3 %, so this change did not cause it"
    )


def test_a_headline_names_no_more_cases_than_two_lines_of_a_phone_hold() -> None:
    long = {f"a rather long name of case {number}": "F" for number in range(4)}
    first, second = list(long)[:2]
    assert (
        headline_of(summarize(report_of(long), None))
        == f"4 cases failed: {first}, {second} and 2 more"
    )
    many = {f"case {number}": "F" for number in range(21)}
    assert headline_of(summarize(report_of({**many, "fine": "P"}), None)) == (
        '21 of 22 cases failed: they answer "Lyon"'
    )


def test_the_headline_says_what_happened_and_the_evidence_stands_below() -> None:
    assert headline_of(comments.passing()) == "105 of 105 runs passed"
    assert findings(comments.passing()).evidence == ""
    some_errored = summarize(report_of({"a": "P" * 20, "b": "PPPPE"}), None)
    assert headline_of(some_errored) == "24 of 25 runs passed, 1 errored"
    assert findings(some_errored).evidence == ""
    assert headline_of(comments.borderline()) == ("92.9 % passed, 94 % needed: could be luck")
    assert findings(comments.borderline()).evidence == comments.borderline().verdict.reason
    assert headline_of(comments.errored_provider()) == (
        "not checked: gpt-4o-mini refused 102 of 204 runs (429)"
    )
    assert findings(comments.errored_provider()).evidence == (
        "102 of 204 runs errored (50 %, all on gpt-4o-mini), more than the 5 % that the gate"
        " allows: 429: You exceeded your current quota (request req_8c1f)"
    )


def test_a_fall_of_the_whole_without_a_named_case_is_the_headline() -> None:
    base = {f"case {number}": "P" * 30 for number in range(40)}
    head = {f"case {number}": "PPF" if number < 20 else "PPP" for number in range(40)}
    summary = compared(head, base, Gate(min_pass_rate=0.5))
    assert headline_of(summary) == "pass rate fell from 100 % on main to 83.3 %"


def test_a_pass_says_which_regressions_the_gate_allows() -> None:
    base = dict.fromkeys(["a", *STEADY], "P" * 10)
    summary = compared(
        {"a": "FFF", **dict.fromkeys(STEADY, "PPP")},
        base,
        Gate(min_pass_rate=0.5, max_regressions=1),
        confirming={"a": "F" * 20},
    )
    assert summary.verdict.status == "pass"
    assert headline_of(summary) == "117 of 120 runs passed; 1 case regressed (allowed): a"


TWELVE = [f"gain {number}" for number in range(12)]


def upgrade(
    gate: Gate, *, several: bool = False, lost: Sequence[str] = (), **cases: Mapping[str, Any]
) -> Summary:
    """Twelve cases got better, and `a` and `b` worse; of `several` variants on the first, while
    those of `lost` got worse on the other.
    """
    ids = ["a", "b", *TWELVE, *STEADY]
    here = {case: ["F" if case in "ab" else "P"] for case in ids}
    there = {case: ["F" if case in TWELVE else "P"] for case in ids}
    variants = [AGENT]
    if several:
        variants.append(Variant("other"))
        for case in ids:
            here[case].append("F" if case in lost else "P")
            there[case].append("P")

    def runs(sides: Mapping[str, Sequence[str]], count: int) -> dict[str, Outcome | list[Outcome]]:
        return {case: [letter * count for letter in letters] for case, letters in sides.items()}

    report = report_of(runs(here, 3), confirming=runs(here, 14), variants=variants, cases=cases)
    older = report_of(runs(there, 10), variants=variants, cases=cases, started_at=STARTED_AT - 3600)
    return summarize(report, gate, baseline_of(older))


LOW = Gate(min_pass_rate=0.5)
NET = replace(LOW, on_regression="net")


def test_the_headline_counts_both_sides() -> None:
    assert headline_of(upgrade(LOW)) == "12 cases better, 2 worse: a, b"
    assert findings(upgrade(LOW)).short_headline == "12 cases better, 2 worse"
    allowed = upgrade(replace(LOW, max_regressions=2))
    assert headline_of(allowed).endswith("; 12 cases better, 2 worse (allowed): a, b")
    warned = upgrade(replace(LOW, on_regression="warn"))
    assert headline_of(warned) == "12 cases better, 2 worse: a, b"
    assert headline_of(upgrade(LOW, a={"critical": True})) == (
        "12 cases better, 2 worse: a (critical), b"
    )


def test_the_table_has_what_got_better_below_what_got_worse() -> None:
    for text in (comment_of(upgrade(LOW)), markdown_of(upgrade(LOW))):
        marks = re.findall(r"^\| (\W+?) <code>", text, re.MULTILINE)
        assert marks == ["🔴"] * 2 + ["🟢"] * 10
        assert "12 fixed cases" in text, "all of them are in a fold, as the table has the first"
        assert "#### 🟢" not in text.partition("12 fixed cases")[0]


def test_what_is_waived_is_told_with_what_the_whole_has_gained() -> None:
    summary = upgrade(NET)
    assert summary.verdict.status == "borderline"
    assert headline_of(summary) == (
        "12 cases better, 2 worse (waived): a, b; +18.9 points on the whole"
    )
    assert findings(summary).evidence.startswith("2 cases are waived (on_regression: net): ")
    assert "better as a whole, p < 1e-09" in findings(summary).evidence
    critical = upgrade(NET, a={"critical": True})
    assert (critical.verdict.status, findings(critical).evidence) == ("fail", "")
    assert headline_of(critical) == "12 cases better, 2 worse: a (critical), b"


def test_of_several_variants_the_headline_says_which_one_waives() -> None:
    assert headline_of(upgrade(NET, several=True)) == (
        "12 cases better, 2 worse (waived) on agent: a, b; +18.9 points on agent"
    )
    allowed = upgrade(replace(NET, max_regressions=1), several=True, lost=["case 3"])
    assert headline_of(allowed).startswith("12 cases better, 3 worse (waived or allowed): ")
    red = upgrade(NET, several=True, lost=["a"])
    assert headline_of(red) == "12 cases better, 2 worse: a on 2 variants, b on agent"
    assert red.verdict.status == "fail"


def test_cases_that_failed_for_the_same_reason_are_told_in_one_entry() -> None:
    def answer(result: Result) -> Result:
        if result.status == "passed":
            return result
        reason = "not polite" if result.case == "rude" else 'no "refund" in the answer'
        wrong = grade_of(passed=False, reason=reason)
        return replace(result, grades=(wrong,), response=Response(result.case))

    cases = {**{f"case {number}": "F" for number in range(20)}, "rude": "F"}
    (group,) = findings(summarize(report_of(cases, edit=answer), None)).groups
    alike, rude = (entry.line() for entry in group.entries)
    assert alike.startswith(
        '20 cases: no "refund" in the answer, in case 0 (evals.yaml:10), case 1 '
    )
    assert alike.endswith(" and 17 more cases")
    assert rude == "rude: 0 of 1 run passed"
    assert (group.count, group.total) == (21, 2)
