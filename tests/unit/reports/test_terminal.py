"""What stands on stdout in the end."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from factories import STARTED_AT, baseline_of, grade_of, report_of, with_own_reason
from rich.cells import cell_len

from ci_evals.gate.baseline import reported_cells
from ci_evals.gate.compare import compare
from ci_evals.model.case import Quarantine, Variant
from ci_evals.model.response import Message, Response, Usage
from ci_evals.model.result import Result, RunError
from ci_evals.model.rules import Gate
from ci_evals.reports import terminal
from ci_evals.reports.summary import Summary, summarize
from ci_evals.reports.view import SOME

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
COMMAND = re.compile(r"^\s*::|##\[", re.MULTILINE)


def text_of(summary: Summary, width: int = 80, *, color: bool = False) -> str:
    return terminal.render(summary, width=width, color=color)


def summary_of(cells: dict[str, Any], gate: Gate | None = None, **report: Any) -> Summary:
    made = report_of(cells, **report)
    return summarize(made, gate)


def test_the_summary_reads_well(flights: Summary, golden: Callable[[str, str], None]) -> None:
    golden("terminal.txt", text_of(flights))


def test_every_variant_has_a_row_and_columns_go_where_the_terminal_is_narrow() -> None:
    variants = [
        Variant(provider, prompt)
        for prompt in ("short", "polite")
        for provider in ("gpt", "haiku", "flash")
    ]
    outcomes = ["PPF", "PPP", "FFF", "PPP", "PEP", "PPP"]
    columns = []
    for width in (60, 80, 120, 200):
        lines = text_of(
            summary_of({"capital": outcomes, "river": outcomes}, variants=variants), width
        ).splitlines()
        assert all(any(line.startswith(str(variant)) for line in lines) for variant in variants)
        columns.append(
            re.split(r"\s{2,}", next(line for line in lines if "pass rate  " in line).strip())
        )
    narrow, *_, wide = columns
    assert narrow[0] == "pass rate"
    assert wide == [
        "pass rate",
        "runs",
        "pass^2",
        "errored",
        "score",
        "cost",
        "tokens",
        "p50",
        "p95",
    ]
    assert [len(each) for each in columns] == sorted(len(each) for each in columns)
    assert len(narrow) < len(wide)


def test_on_60_columns_the_change_of_each_variant_is_shown() -> None:
    variants = (Variant("claude-haiku-4-5"), Variant("gpt-5-mini"))
    base = report_of({"capital": "P" * 12}, variants=variants, started_at=STARTED_AT - 60)
    made = report_of({"capital": "F" * 12}, variants=variants)
    gate = Gate(min_pass_rate=0.9)
    summary = summarize(made, gate, baseline_of(base))
    rows = {}
    for width in (60, 120):
        lines = text_of(summary, width).splitlines()
        rows[width] = next(line for line in lines if line.startswith("gpt-5-mini"))
    assert re.fullmatch(r"gpt-5-mini +0 % +-100\.0 points, 1 case worse", rows[60])
    assert re.match(r"gpt-5-mini +0 % \(0 to [\d.]+ %\) +0/12 +-100\.0 points", rows[120])


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(flights: Summary, hostile: Summary, width: int) -> None:
    for summary in (flights, hostile):
        assert max(map(cell_len, text_of(summary, width).split("\n"))) <= width


def test_color_changes_nothing_but_color(flights: Summary, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.setenv(name, "1")
    colored = text_of(flights, color=True)
    assert "\x1b[1;31m✗ FAIL" in colored
    plain = [line.rstrip() for line in ESCAPE.sub("", colored).split("\n")]
    assert "\n".join(plain) == text_of(flights)


def test_hostile_text_moves_nothing_and_commands_nobody(hostile: Summary) -> None:
    for width in (40, 80, 120):
        for color in (False, True):
            text = ESCAPE.sub("", text_of(hostile, width, color=color))
            assert all(character.isprintable() or character == "\n" for character in text)
            assert not COMMAND.search(text)
            assert "[red]x[/red]" in text.replace("\n", "").replace("  ", "") or width == 40
            assert len(text) < 50_000


def test_a_name_from_right_to_left_reorders_nothing_beside_it() -> None:
    case, one, other, tag = (
        "\u05e9\u05dc\u05d5\u05dd 1",
        "\u05d0\u05d1",
        "\u05d2\u05d3",
        "\u05e7\u05d5\u05d3",
    )
    summary = summary_of(
        {case: ["PF", "EE"], "another": ["PP", "PP"]},
        Gate(min_pass_rate=0.5, tags={tag: 1.0}, max_error_rate=0.5),
        variants=(Variant(one), Variant(other)),
        cases={case: {"tags": (tag,), "file": f"{tag}.yaml"}},
        edit=lambda result: replace(result, budget_violations=("latency",)),
    )
    text = text_of(summary, 200)
    for name in (case, one, other, tag):
        kept = re.findall(rf"\u200e(?:tag )?{name}(?:\.yaml:10)?\u200e", text)
        assert len(kept) == text.count(name) > 1, name


def rates_of(text: str) -> dict[str, str]:
    """The pass rate of each variant, as its row has it."""
    return {
        row[1]: row[2]
        for row in re.finditer(r"^(\w+) +([\d.]+ % \(.*?\)(?: [▲▼])?)", text, re.MULTILINE)
    }


def test_best_and_worst_are_marked_without_color() -> None:
    text = text_of(
        summary_of({"capital": ["PPP", "PFF"]}, variants=(Variant("good"), Variant("bad")))
    )
    assert {name: rate[-1] for name, rate in rates_of(text).items()} == {"good": "▲", "bad": "▼"}


def test_tokens_that_no_answer_tells_are_unknown_and_not_the_fewest() -> None:
    def edit(result: Result) -> Result:
        usage = {"none": None, "few": Usage(3, 2), "many": Usage(30, 20)}[result.provider]
        return replace(result, response=replace(result.response or Response(), usage=usage))

    variants = [Variant(each) for each in ("none", "few", "many")]
    text = text_of(summary_of({"capital": ["P", "P", "P"]}, variants=variants, edit=edit), 200)
    assert re.search(r"^none .* \$0\.0010 +— ", text, re.MULTILINE)
    assert re.search(r"^few .* \$0\.0010 +5 ▲", text, re.MULTILINE)
    assert re.search(r"^many .* \$0\.0010 +50 ▼", text, re.MULTILINE)


def test_variants_that_tie_are_marked_alike_however_many_they_are() -> None:
    outcomes = ["PPP", "PPF", "FFF", "FFE", "FFF"]
    text = text_of(
        summary_of({"capital": outcomes}, variants=[Variant(name) for name in "abcde"]), 200
    )
    assert [rate[-1] for rate in rates_of(text).values()][:4] == ["▲", ")", "▼", "▼"]


def test_graders_are_listed_worst_first_and_the_many_that_took_nothing_off_are_counted() -> None:
    def edit(result: Result) -> Result:
        names = ("regex", "latency", "equals", "cost", "contains", "similar")
        wrong = ("contains", "similar") if result.run == 1 else ("similar",)
        grades = tuple(grade_of(grader=name, passed=name not in wrong) for name in names)
        return replace(result, grades=grades)

    text = text_of(summary_of({"capital": "FF"}, edit=edit))
    assert "graders  similar 0.00, contains 0.50, 4 others 1.00\n" in text


def test_a_grader_has_the_span_of_its_means_over_the_variants() -> None:
    text = text_of(summary_of({"capital": ["PF", "PP"]}, variants=(Variant("a"), Variant("b"))))
    assert "graders  contains 0.50 to 1.00\n" in text


@pytest.mark.parametrize("name", ["x" * 95, "\u822a\u7a7a\u5238" * 20, "many words " * 8])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_long_name_is_folded_and_what_follows_it_is_not_lost(name: str, width: int) -> None:
    text = text_of(summary_of({name: "FFF"}), width)
    assert f"{name.strip()}:0of3runspassed".replace(" ", "") in "".join(text.split())
    assert max(map(cell_len, text.splitlines())) <= width


def test_further_lines_stand_below_the_first_one() -> None:
    text = text_of(summary_of({"capital": "E"}, edit=_refused), 60)
    assert re.search(r"^! 1 run: 503: upstream .*\n  \S", text, re.MULTILINE)


def _refused(result: Result) -> Result:
    return replace(
        result, error=RunError("server", "503: upstream connect error, reset before headers")
    )


def test_a_suite_that_leaves_out_cases_with_their_own_bar_says_so() -> None:
    text = text_of(
        summary_of({"solid": "PF", "shaky": "PPF"}, cases={"shaky": {"min_pass_rate": 0.5}})
    )
    assert re.search(r"^FAIL  suite, other cases  50 % .*bar 100 %$", text, re.MULTILINE)
    assert "other cases: 1 of 2 runs failed, and every run must pass" in text


def test_variants_that_do_not_differ_are_not_marked() -> None:
    text = text_of(summary_of({"capital": "PPF"}, variants=(Variant("a"), Variant("b"))))
    assert "▲" not in text
    assert "best" not in text


def test_costs_are_unknown_partly_known_or_known() -> None:
    def priced(result: Result) -> Result:
        known = result.provider == "known" or (result.provider == "partly" and result.run == 1)
        return replace(result, cost_usd=0.006 if known else None)

    variants = tuple(map(Variant, ("known", "partly", "none")))
    text = text_of(summary_of({"capital": "PPF"}, variants=variants, edit=priced), 160)
    rows = {
        name: re.search(rf"^{name} .*$", text, re.MULTILINE) for name in ("known", "partly", "none")
    }
    assert [row and re.split(r"\s{2,}", row[0])[5] for row in rows.values()] == [
        "$0.018",
        "$0.0060 for 1 of 3 runs",
        "unknown",
    ]


def test_what_broke_stands_above_the_figures_of_the_variants() -> None:
    variants = [Variant(name) for name in ("gpt", "haiku", "flash")]
    text = text_of(summary_of({"capital": ["F", "P", "P"]}, variants=variants))
    assert text.index("Failing (1)") < text.index("pass rate  ")


def test_tied_variants_share_a_line_instead_of_a_leaderboard() -> None:
    variants = [Variant(name) for name in ("gpt", "haiku", "flash")]
    tied = text_of(summary_of({"capital": ["PF", "PP", "PP"]}, variants=variants), 120)
    assert "all 3 variants are tied: the intervals overlap" in tied
    assert "Leaderboard" not in tied
    cases = {f"case {number}": ["F", "P", "P"] for number in range(20)}
    ranked = text_of(summary_of(cases, variants=variants), 120)
    assert "Leaderboard (3)\n1=  haiku" in ranked


def test_long_lists_end_with_what_was_left_out() -> None:
    text = text_of(
        summary_of({f"case {number}": "F" for number in range(32)}, edit=with_own_reason)
    )
    assert text.count("✗ case") == SOME
    assert "… and 22 more failing cases in summary.md" in text


def test_the_verdict_comes_first_and_last() -> None:
    first, *_, hint, _, last = text_of(summary_of({"capital": "PF"}), 120).rstrip().split("\n")
    assert first == "✗ FAIL  1 case failed: capital"
    assert hint.startswith("To let some runs fail")
    assert last == "✗ FAIL  1 case failed · 1 of 2 runs passed (50 %), 1 failed · $0.0020 · 12.5 s"


def test_what_decided_nothing_is_one_line_for_each_kind(flights: Summary) -> None:
    text = text_of(flights, 120)
    assert "Failed some runs (1): refund\n" in text
    assert "Flaky, but within the bar (1): status\n" in text


@pytest.mark.parametrize("name", ["refund", "\u6771\u4eac", "\u05e9\u05dc\u05d5\u05dd 1"])
def test_columns_stand_below_each_other_in_every_script(name: str) -> None:
    base = report_of({name: "PP", "a longer name": "PP"}, started_at=STARTED_AT - 60)
    table = terminal.render_comparison(
        compare(reported_cells(report_of({name: "PP"}), None), baseline_of(base), confirm_runs=0)
    )
    heading, *_, same, gone = table.split("\n")
    lines = ((heading, "main"), (same, "2 of 2"), (gone, "2 of 2"))
    assert len({cell_len(line[: line.index(text)]) for line, text in lines}) == 1


def test_beside_an_answer_stands_what_the_user_said_last() -> None:
    sent = (
        Message("system", "You sell flights."),
        Message("user", "Paris?"),
        Message("user", "Any\nday."),
    )

    def asked(result: Result) -> Result:
        return replace(result, messages=sent)

    cells = {"trip": "F"}
    text = text_of(
        summary_of(cells, cases={"trip": {"input": None, "vars": {"from": "Paris"}}}, edit=asked)
    )
    assert "    Any day. → Lyon\n" in text
    assert "from: Paris" not in text


def test_a_part_without_a_bar_has_no_row_in_the_gate() -> None:
    of_each = {name: {"min_pass_rate": 0.5} for name in ("a", "b")}
    text = text_of(summary_of({"a": "PPF", "b": "FFF"}, cases=of_each))
    assert re.findall(r"^(?:FAIL|PASS|BORDERLINE|NO VERDICT) +(\S+ \S*)", text, re.MULTILINE) == [
        "case b",
        "case a",
    ]


def test_cases_in_quarantine_are_counted_once_for_all_variants() -> None:
    until = Quarantine(until=date(2099, 1, 1), reason="waits for the index")
    text = text_of(
        summary_of(
            {"a": "P", "b": ["F", "F"]},
            variants=(Variant("x"), Variant("y")),
            cases={"b": {"quarantine": until}},
        )
    )
    assert "Quarantined (1): b\n" in text
