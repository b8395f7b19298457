"""What stands on stdout in the end."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from factories import STARTED_AT, baseline_of, grade_of, report_of, with_own_reason
from rich.cells import cell_len

from ci_evals.gate.baseline import head_cells
from ci_evals.gate.compare import compare
from ci_evals.gate.verdict import decide
from ci_evals.model.case import Variant
from ci_evals.model.result import Result, RunError
from ci_evals.model.rules import Gate
from ci_evals.reports import terminal
from ci_evals.reports.summary import Summary

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
COMMAND = re.compile(r"^\s*::|##\[", re.MULTILINE)


def text_of(summary: Summary, width: int = 80, *, color: bool = False) -> str:
    return terminal.render(summary, width=width, color=color)


def summary_of(cells: dict[str, Any], gate: Gate | None = None, **report: Any) -> Summary:
    made = report_of(cells, **report)
    return Summary(made, decide(made, gate), gate)


def test_the_summary_reads_well(flights: Summary, golden: Callable[[str, str], None]) -> None:
    golden("terminal.txt", text_of(flights))


def test_variants_that_do_not_fit_are_stacked() -> None:
    providers = ("gpt", "haiku", "flash", "local model")
    variants = [Variant(provider, prompt) for prompt in ("short", "polite") for provider in providers]
    outcomes = ["PPF", "PPP", "FFF", "PPP", "PEP", "PPP", "PFF", "FFP"]
    text = text_of(summary_of({"capital": outcomes, "river": outcomes}, variants=variants))
    assert all(str(variant) in text for variant in variants)
    assert len(re.findall(r"^pass rate", text, re.MULTILINE)) == 4


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(flights: Summary, hostile: Summary, width: int) -> None:
    for summary in (flights, hostile):
        assert max(map(cell_len, text_of(summary, width).split("\n"))) <= width


def test_color_changes_nothing_but_color(flights: Summary, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.setenv(name, "1")
    colored = text_of(flights, color=True)
    assert "\x1b[1;31mFAIL" in colored
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
    case, one, other, tag = "\u05e9\u05dc\u05d5\u05dd 1", "\u05d0\u05d1", "\u05d2\u05d3", "\u05e7\u05d5\u05d3"
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


def test_best_and_worst_are_marked_without_color() -> None:
    text = text_of(summary_of({"capital": ["PPP", "PFF"]}, variants=(Variant("good"), Variant("bad"))))
    (row,) = (line for line in text.split("\n") if line.startswith("pass rate"))
    assert row.index("▲") < row.index("▼")


def test_variants_that_tie_are_marked_alike_however_many_they_are() -> None:
    outcomes = ["PPP", "PPF", "FFF", "FFE", "FFF"]
    text = text_of(summary_of({"capital": outcomes}, variants=[Variant(name) for name in "abcde"]), 200)
    (row,) = (line for line in text.split("\n") if line.startswith("pass rate"))
    assert re.findall("[▲▼]", row) == ["▲", "▼", "▼", "▼"]


@pytest.mark.parametrize("width", [60, 65, 70, 75, 80, 85, 90, 100, 120])
def test_labels_of_rows_are_not_folded(width: int) -> None:
    for outcome in ("PPP", "P"):
        variants = [Variant(f"m{number}") for number in range(10)]
        text = text_of(summary_of({"capital": outcome}, variants=variants), width)
        assert re.findall(r"^pass rate .*%", text, re.MULTILINE)
        assert not re.search(r"^(pass|rate|passed|runs|errored|per run|p50)\s*$", text, re.MULTILINE)
        assert len(re.findall(r"^cost per run +\$", text, re.MULTILINE)) == len(
            re.findall(r"^pass rate", text, re.MULTILINE)
        )


def test_graders_are_listed_worst_first_and_the_many_that_took_nothing_off_are_counted() -> None:
    def edit(result: Result) -> Result:
        names = ("regex", "latency", "equals", "cost", "contains", "similar")
        wrong = ("contains", "similar") if result.run == 1 else ("similar",)
        grades = tuple(grade_of(grader=name, passed=name not in wrong) for name in names)
        return replace(result, grades=grades)

    text = text_of(summary_of({"capital": "FF"}, edit=edit))
    assert re.findall(r"^  (\w.*?) +([\d.]+)$", text, re.MULTILINE) == [
        ("similar", "0.00"),
        ("contains", "0.50"),
        ("4 others", "1.00"),
    ]


def test_graders_that_are_counted_say_nothing_of_a_variant_that_none_of_them_saw() -> None:
    def edit(result: Result) -> Result:
        names = ("similar",) if result.provider == "b" else ("regex", "latency", "equals", "cost")
        grades = tuple(grade_of(grader=name, passed=name != "similar") for name in names)
        return replace(result, grades=grades)

    text = text_of(summary_of({"capital": "P"}, variants=(Variant("a"), Variant("b")), edit=edit))
    assert re.search(r"^  similar +— +0\.00$", text, re.MULTILINE)
    assert re.search(r"^  4 others +1\.00 +—$", text, re.MULTILINE)


def test_a_price_that_nobody_knows_is_said_once() -> None:
    def unpriced(result: Result) -> Result:
        return replace(result, cost_usd=None)

    text = text_of(summary_of({"capital": "PPP"}, edit=unpriced))
    assert len(re.findall(r"^cost .*$", text, re.MULTILINE)) == 1
    assert re.search("^cost +unknown$", text, re.MULTILINE)


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
    return replace(result, error=RunError("server", "503: upstream connect error, reset before headers"))


def test_a_suite_that_leaves_out_cases_with_their_own_bar_says_so() -> None:
    text = text_of(summary_of({"solid": "PF", "shaky": "PPF"}, cases={"shaky": {"min_pass_rate": 0.5}}))
    assert re.search(r"^FAIL  suite, other cases  50 % .*bar 100 %$", text, re.MULTILINE)
    assert "FAIL  other cases: 1 of 2 runs failed, and every run must pass" in text


def test_variants_that_do_not_differ_are_not_marked() -> None:
    text = text_of(summary_of({"capital": "PPF"}, variants=(Variant("a"), Variant("b"))))
    assert "▲" not in text
    assert "best" not in text


def test_costs_are_unknown_partly_known_or_known() -> None:
    def priced(result: Result) -> Result:
        known = result.provider == "known" or (result.provider == "partly" and result.run == 1)
        return replace(result, cost_usd=0.006 if known else None)

    variants = tuple(map(Variant, ("known", "partly", "unknown")))
    text = text_of(summary_of({"capital": "PPF"}, variants=variants, edit=priced), 120)
    (row,) = (line for line in text.split("\n") if line.startswith("cost  "))
    assert re.split(r"\s{2,}", row.strip()) == ["cost", "$0.018", "$0.0060 for 1 of 3 runs", "unknown"]


def test_long_lists_end_with_what_was_left_out() -> None:
    text = text_of(summary_of({f"case {number}": "F" for number in range(32)}, edit=with_own_reason))
    assert text.count("✗ ") == terminal.MAX_FAILED
    assert "… and 12 more failing cases in summary.md" in text


def test_the_verdict_comes_last_with_what_to_do(flights: Summary) -> None:
    *_, verdict, hint = text_of(summary_of({"capital": "PF"}), 120).rstrip().split("\n")
    assert verdict.startswith("FAIL  1 of 2 runs failed")
    assert hint.strip().startswith("to let some runs fail")


@pytest.mark.parametrize("name", ["refund", "\u6771\u4eac", "\u05e9\u05dc\u05d5\u05dd 1"])
def test_columns_stand_below_each_other_in_every_script(name: str) -> None:
    base = report_of({name: "PP", "a longer name": "PP"}, started_at=STARTED_AT - 60)
    table = terminal.render_comparison(
        compare(head_cells(report_of({name: "PP"}), None), baseline_of(base), confirm_runs=0)
    )
    heading, *_, same, gone = table.split("\n")
    lines = ((heading, "baseline"), (same, "2 of 2"), (gone, "2 of 2"))
    assert len({cell_len(line[: line.index(text)]) for line, text in lines}) == 1
