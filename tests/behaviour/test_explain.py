"""`ci-evals explain`: a cell's runs, here and on the base, and why the comparison decides so."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from factories import STARTED_AT, baseline_of, grade_of, report_of
from processes import ci_evals
from suites import ONE_CASE, write_suite

from ci_evals.cli.reports import explain_cells
from ci_evals.errors import StorageError, UsageError
from ci_evals.gate.baseline import Evidence, History
from ci_evals.gate.history_only import recent_pool
from ci_evals.gate.wording.comparisons import pooled_sentence
from ci_evals.model.case import Variant
from ci_evals.model.report import SuiteReport, Tally
from ci_evals.model.response import Response, Usage
from ci_evals.model.result import Result, RunError
from ci_evals.reports import report_json as json_report
from ci_evals.reports.explain import render_json, render_markdown, render_text
from ci_evals.reports.summary import summarize

TWO = (Variant("gpt", "short"), Variant("haiku", "short"))
DAY_S = 86_400


def saved(path: Path, report: SuiteReport, *bases: SuiteReport) -> Path:
    summary = summarize(report, None, baseline_of(*bases) if bases else None, confirm_runs=3)
    path.write_bytes(b"".join(json_report.render(summary)))
    return path


@pytest.fixture
def history() -> list[SuiteReport]:
    """Two reports that agree, newest first, one that differs before them, and one before that."""
    outcomes = ("PPP", "PPP", "FFF", "PPP")
    return [
        report_of({"refund": each}, started_at=STARTED_AT - days * DAY_S)
        for days, each in enumerate(outcomes, 1)
    ]


@pytest.fixture
def head(tmp_path: Path, history: list[SuiteReport]) -> Path:
    report = report_of({"refund": "PFF", "other": "P"}, confirming={"refund": "FFFFPFF"})
    return saved(tmp_path / "report.json", report, *history)


@pytest.fixture
def bases(tmp_path: Path, history: list[SuiteReport]) -> list[Path]:
    return [
        saved(tmp_path / f"base-{number}.json", report) for number, report in enumerate(history)
    ]


def test_it_reads_well(head: Path, bases: list[Path], golden: object) -> None:
    found = explain_cells(head, "refund", base=bases)
    assert callable(golden)
    golden("explain.txt", render_text(found))
    golden("explain.md", render_markdown(found))


def test_the_report_alone_tells_what_its_own_comparison_found(
    head: Path, bases: list[Path]
) -> None:
    (alone,) = explain_cells(head, "refund")
    (anew,) = explain_cells(head, "refund", base=bases)
    assert alone.sentence == anew.sentence.replace("the baseline", "main")
    assert (alone.p, alone.adjusted_p, alone.head, alone.base) == (
        anew.p,
        anew.adjusted_p,
        anew.head,
        anew.base,
    )
    assert [entry.pooled for entry in alone.base_reports] == [True, True, True, True]
    assert alone.base_runs == ()
    assert len(anew.base_runs) == 3


def test_what_was_said_in_favour_of_one_run_alone_keeps_no_run_apart(tmp_path: Path) -> None:
    def edit(result: Result) -> Result:
        quick = grade_of(grader="latency", reason=f"took {result.run} s")
        return replace(result, score=0.5, grades=(quick, grade_of(passed=False, reason="is wrong")))

    head = saved(tmp_path / "report.json", report_of({"refund": "FF"}, edit=edit))
    text = render_text(explain_cells(head, "refund"))
    assert "runs 1 and 2 failed alike" in text
    assert re.findall(r" +[✓✗] (.*)", text) == ["is wrong", "latency"]


def test_confirm_runs_come_last_and_are_marked(head: Path) -> None:
    (found,) = explain_cells(head, "refund")
    assert [run.first.run for run in found.runs] == list(range(1, 11))
    assert [run.confirming for run in found.runs] == [False] * 3 + [True] * 7


def test_it_says_what_is_pooled_and_where_behaviour_changed(head: Path, bases: list[Path]) -> None:
    (found,) = explain_cells(head, "refund", base=bases)
    assert [entry.pooled for entry in found.base_reports] == [True, True, True, True]
    sentences = [entry.sentence for entry in found.base_reports]
    assert sentences[:2] == ["3 of 3, pooled"] * 2
    unlike = "0 of 3 (3 of 6 with all older ones), pooled, but unlike the newer ones (p = 0."
    assert sentences[2].startswith(unlike)
    assert sentences[3] == "3 of 3, pooled"


def test_one_report_alone_is_said_to_be_unlike_the_newer_ones() -> None:
    recent = recent_pool(History((Evidence("new", 10, 10), Evidence("old", 0, 10))), None)
    assert pooled_sentence(Tally(0, 10), recent, age=1).startswith(
        "0 of 10, pooled, but unlike the newer ones (p = 1.1e-05): "
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b'{"schema_version": 1, "su', "damaged or cut off"),
        (b'{"schema_version": 1}', "damaged or cut off"),
        (b'{"schema_version": 99}', "upgrade ci-evals"),
    ],
)
def test_what_is_no_report_is_said(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(StorageError, match=words):
        explain_cells(tmp_path, "a")


def test_every_variant_is_explained_unless_one_is_chosen(tmp_path: Path) -> None:
    path = saved(tmp_path / "report.json", report_of({"a": ["PP", "PF"]}, variants=TWO))
    assert [each.provider for each in explain_cells(path, "a")] == ["gpt", "haiku"]
    (chosen,) = explain_cells(path, "a", "haiku", "short")
    assert chosen.sentence == "1 of 2 runs passed here"
    assert chosen.compared_with == "not compared with a baseline: name one with --baseline"


def test_a_run_tells_its_model_and_tokens_and_a_grade_its_metric_and_transform(
    tmp_path: Path,
) -> None:
    def edit(result: Result) -> Result:
        response = replace(
            result.response or Response(), model="m-1", finish_reason="length", usage=Usage(3, 4)
        )
        graded = replace(grade_of(), metric="tone", transform="$.answer")
        return replace(result, response=response, grades=(graded,))

    found = explain_cells(saved(tmp_path / "report.json", report_of({"a": "P"}, edit=edit)), "a")
    text = render_text(found)
    assert ", 7 tokens, m-1, finish reason length" in text
    assert '✓ "Paris" is in the answer (metric tone, transform $.answer)\n' in text


def test_a_crash_elsewhere_than_in_python_shows_what_it_left_behind(tmp_path: Path) -> None:
    def edit(result: Result) -> Result:
        error = RunError("crash", "exit status 1", detail="panic: no seat\n\tat flight.go:12\n")
        return replace(result, response=None, grades=(), score=0.0, error=error)

    found = explain_cells(saved(tmp_path / "report.json", report_of({"a": "F"}, edit=edit)), "a")
    assert "flight.go:12" in render_text(found)
    assert "panic: no seat" in render_markdown(found)


def test_names_from_right_to_left_stand_between_marks(tmp_path: Path) -> None:
    case, provider = "\u05e9\u05dc\u05d5\u05dd 1", "\u05d0\u05d1"
    path = saved(tmp_path / "report.json", report_of({case: "P"}, variants=[Variant(provider)]))
    heading = render_text(explain_cells(path, case)).split("\n")[0]
    assert heading == f"\u200e{case}\u200e on \u200e{provider}\u200e  evals.yaml:10"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (("refnd",), "case 'refnd' was not in the last run, did you mean 'refund'?"),
        (("xyz",), "case 'xyz' was not in the last run, known: refund"),
        (("refund", "gtp"), "unknown provider 'gtp', did you mean 'gpt'?"),
        (("refund", "gpt", "long"), "unknown prompt 'long', known: short"),
    ],
)
def test_what_is_misspelt_is_told_with_a_suggestion(
    cells: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    path = saved(tmp_path / "report.json", report_of({"refund": "PP"}, variants=TWO))
    with pytest.raises(UsageError, match=re.escape(words)):
        explain_cells(path, *cells)


def test_a_case_that_was_not_selected_gets_no_suggestion(tmp_path: Path) -> None:
    report = report_of({"q023": "PP"}, suite={"selection": "1 of 40 cases"})
    path = saved(tmp_path / "report.json", report)
    with pytest.raises(UsageError) as raised:
        explain_cells(path, "q123")
    assert str(raised.value) == "case 'q123' was not in the last run, which had 1 of 40 cases"


def test_a_renamed_case_is_shown_with_its_base_under_the_old_name(tmp_path: Path) -> None:
    base = report_of({"old": "PPPPPPPPPP"}, started_at=STARTED_AT - 60)
    path = saved(tmp_path / "head.json", report_of({"new": "PPP"}, asks={"new": "old"}), base)
    (found,) = explain_cells(path, "new", base=[saved(tmp_path / "base.json", base)])
    assert len(found.base_runs) == 10
    assert "new (was old)" in found.sentence


def test_json_has_all_of_it(head: Path, bases: list[Path]) -> None:
    (cell,) = json.loads(render_json(explain_cells(head, "refund", base=bases)))["cells"]
    assert cell["kind"] == "regressed"
    failed = cell["runs"][1]["grades"][0]
    assert failed["reason"] == 'no "Paris" in the answer'
    assert [entry["pooled"] for entry in cell["base_reports"]] == [True, True, True, True]
    assert "Fisher's exact test for a drop, 2 of 10 against 9 of 12" in cell["test"]


async def test_explain_finds_the_results_of_the_suite(tmp_path: Path) -> None:
    write_suite(tmp_path, [ONE_CASE], report={"out": "elsewhere"})
    assert (await ci_evals(tmp_path, "run")).code == 0
    assert "run 1 passed" in (await ci_evals(tmp_path, "explain", "greeting")).out
