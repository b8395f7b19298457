"""Reports read back from disk: as baselines, as summaries, damaged, hostile, of somebody else."""

import json
import os
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import comments
import pytest
from comments import SITUATIONS
from factories import STARTED_AT, baseline_of, report_of
from forgeries import PRETENCES
from processes import ci_evals, python
from suites import write_suite

from ci_evals.engine.journal import read_results
from ci_evals.errors import StorageError
from ci_evals.gate.baseline import Baseline, reported_cells
from ci_evals.gate.compare import NoComparison, compare
from ci_evals.model.case import Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Looks, MainNow, Outcome, SuiteReport
from ci_evals.model.response import Response
from ci_evals.model.result import Result
from ci_evals.redaction import Redactor
from ci_evals.reports import junit, markdown
from ci_evals.reports import report_json as json_report
from ci_evals.reports.markdown import comment_document
from ci_evals.reports.read import (
    MAX_REPORT_BYTES,
    decode_report,
    read_baseline,
    read_report,
    read_summary,
    with_answers,
)
from ci_evals.reports.report_json import render_brief
from ci_evals.reports.summary import BaseAnswer, Summary, summarize
from ci_evals.reports.view import TEXT_CHARACTERS


def saved(path: Path, report: SuiteReport, baseline: Baseline | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"".join(json_report.render(summarize(report, None, baseline, confirm_runs=3)))
    )
    return path


def report_at(
    started_at: float, cells: dict[str, str] | None = None, **settings: Any
) -> SuiteReport:
    report = report_of(cells or {"capital": "PPP", "river": "PPF"}, **settings)
    report.started_at = started_at
    return report


def baseline_at(*paths: Path, suite: str = "capitals") -> Baseline:
    found = read_baseline(paths, suite)
    assert isinstance(found, Baseline), found
    return found


def evidence(baseline: Baseline, case: str = "river") -> list[tuple[int, int]]:
    return [
        (each.passed, each.graded) for each in baseline.cells[case, "agent", None].history.evidence
    ]


def test_the_failed_cases_of_a_report_are_found_once(tmp_path: Path) -> None:
    found = read_report(saved(tmp_path / "report.json", report_at(5.0)))
    assert found.failed_cases == {"river"}
    assert found.failed_cases is found.failed_cases


def test_a_report_is_read_back_as_the_side_that_it_was(tmp_path: Path) -> None:
    report = report_at(5.0)
    found = read_report(saved(tmp_path / "report.json", report))
    asked = [replace(cell, case=report.plan.case(cell.cell)) for cell in found.head]
    assert [cell.key for cell in found.head] == [cell.key for cell in asked]
    assert asked == reported_cells(report, None)
    assert [ref.id for ref in found.baseline.reports] == [report.id]
    assert evidence(found.baseline) == [(2, 3)]
    assert found.baseline.trend[0].variants[0].pass_rate == pytest.approx(5 / 6)
    assert compare(found.head, found.baseline, confirm_runs=3).counts == {
        "unchanged": 1,
        "flaky": 1,
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"  \n", "it is empty"),
        (b'{"schema_version": 1, "suite": {"name": "cap', "damaged or cut off"),
        (b"\xff\xfe", "damaged or cut off"),
        (b"[]", "damaged or cut off"),
        (b'{"schema_version": 1}', "damaged or cut off"),
        (b"[" * 100_000, "damaged or cut off"),
        (b'{"results": ' + b"[" * 100_000, "damaged or cut off"),
    ],
    ids=[
        "empty",
        "blank",
        "cut-off",
        "binary",
        "other-json",
        "without-cells",
        "deep",
        "deep-within",
    ],
)
def test_what_is_no_whole_report_is_refused_with_what_to_do(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    with pytest.raises(StorageError) as refused:
        read_report(path)
    assert str(refused.value).startswith(f"{path}: is not a complete report of ci-evals ({words}")
    assert str(refused.value).endswith(": download it again, or name another")


def test_a_file_that_is_too_large_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.touch()
    os.truncate(path, MAX_REPORT_BYTES + 1)
    with pytest.raises(StorageError, match="is larger than 1,024 MiB"):
        read_report(path)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9, 0.999])
def test_a_truncated_report_is_refused(tmp_path: Path, part: float) -> None:
    path = saved(tmp_path / "report.json", report_at(1.0))
    path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
    with pytest.raises(StorageError, match="damaged or cut off"):
        read_baseline([path], "capitals")


@pytest.mark.parametrize(
    "change",
    [
        {"history": [["nobody's", 3, 3]]},
        {"history": [["c26189c36ef81e81", 4, 3]]},
        {"history": [["c26189c36ef81e81", -1, 3]]},
        {"per_run": [[2, 2.5, 3.25], None, None, None]},
        {"per_run": [[2, 1.0, 0.4], None, None, None]},
        {"per_run": [[0, 0.0, 0.0], -0.1, None, None]},
        {"per_run": [[0, 0.0, 0.0], None, None, -0.1]},
    ],
)
def test_what_no_runs_leave_behind_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = saved(tmp_path / "report.json", report_at(2.0), baseline_of(report_of({"river": "P"})))
    document = json.loads(path.read_bytes())
    document["base"]["cells"][0] |= change
    path.write_text(json.dumps(document))
    with pytest.raises(StorageError, match=r"damaged or cut off|contradicts itself"):
        read_report(path)


def test_a_run_with_two_results_is_refused_and_named(tmp_path: Path) -> None:
    path = saved(tmp_path / "report.json", report_at(1.0))
    document = json.loads(path.read_bytes())
    error = {"kind": "crash", "message": "down", "status": None, "detail": None}
    lost = [
        {**each, "status": "failed", "score": None, "grades": [], "error": error}
        for each in document["results"]
    ]
    path.write_text(json.dumps(document | {"results": lost + document["results"]}))
    with pytest.raises(StorageError) as refused:
        read_report(path)
    run = f"run {lost[0]['run']} of {lost[0]['case']!r}"
    assert (
        str(refused.value)
        == f"{path}: contradicts itself, so it is not used: it has two results of {run}"
    )


@pytest.mark.parametrize("changes", [{"cells": "otherwise"}, {}], ids=["unreadable", "readable"])
def test_a_newer_report_is_refused_with_what_to_upgrade(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    path = saved(tmp_path / "report.json", report_at(1.0))
    document = json.loads(path.read_bytes())
    document["suite"]["version"] = "7.1.0"
    path.write_text(json.dumps(document | {"schema_version": 7} | changes))
    with pytest.raises(StorageError) as refused:
        read_baseline([path], "capitals")
    assert str(refused.value) == (
        f"{path}: is of schema version 7, written by ci-evals 7.1.0; this one reads up to 2: "
        "upgrade ci-evals here"
    )


def test_there_is_a_sentence_for_every_lack(tmp_path: Path) -> None:
    path = saved(tmp_path / "base" / "report.json", report_at(1.0))
    absent, empty = tmp_path / "absent", tmp_path / "empty"
    empty.mkdir()
    assert read_baseline([absent, empty], "capitals") == NoComparison(
        f"there is no report at {absent.as_posix()} or {empty.as_posix()}"
    )
    assert read_baseline([path], "rivers") == NoComparison(
        f"{path.as_posix()} is of another suite, 'capitals'"
    )
    document = json.loads(path.read_bytes()) | {"cells": [], "results": []}
    document["totals"] |= {"passed": 0, "failed": 0}
    path.write_text(json.dumps(document))
    assert read_baseline([path], "capitals") == NoComparison(f"{path.as_posix()} has no cells")


def test_files_and_folders_of_them_are_one_baseline_the_newest_first(tmp_path: Path) -> None:
    old = saved(tmp_path / "runs" / "41" / "report.json", report_at(1.0, {"river": "PPP"}))
    new = saved(tmp_path / "runs" / "42" / "report.json", report_at(2.0, {"river": "PPF"}))
    saved(tmp_path / "runs" / "43" / "report.json", report_at(3.0, suite={"name": "another"}))
    for paths in (
        (tmp_path / "runs",),
        (old, new),
        (new.parent, old.parent),
        (new, old, tmp_path / "runs"),
    ):
        baseline = baseline_at(*paths)
        assert evidence(baseline) == [(2, 3), (3, 3)]
        assert [ref.started_at for ref in baseline.reports] == [2.0, 1.0]


def test_counts_are_carried_from_report_to_report_and_each_once(tmp_path: Path) -> None:
    baseline = None
    for number in range(1, 15):
        report = report_at(float(number), {"river": "PPP"})
        report.fingerprints = ["of the same case"]
        path = saved(tmp_path / str(number) / "report.json", report, baseline)
        baseline = baseline_at(path)
    assert baseline is not None
    assert baseline.cells["river", "agent", None].history.tally == (30, 30)
    assert len(evidence(baseline)) == 11, "its own and those of ten before"
    assert [point.report.started_at for point in baseline.trend] == [
        float(n) for n in range(14, 0, -1)
    ]
    whole = baseline_at(tmp_path)
    assert len(evidence(whole)) == 14
    assert whole.cells["river", "agent", None].history.tally == (30, 30)


def test_names_with_secrets_match_those_that_are_shown(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "report.json", report_at(1.0, {"of hunter2-and-more": "PPP", "river": "PPP"})
    )
    found = read_baseline([path], "capitals", redactor=Redactor(["hunter2-and-more"]))
    assert isinstance(found, Baseline)
    assert [case for case, *_ in found.cells] == ["of ***", "river"]


def test_no_number_of_a_report_is_not_a_number(tmp_path: Path) -> None:
    report = report_at(1.0, {"a": "EEE", "b": "...", "c": "P.."})
    path = saved(tmp_path / "report.json", report)
    baseline = baseline_at(path)
    for text in (
        path.read_bytes(),
        b"".join(json_report.render(summarize(report, None, baseline))),
    ):
        json.loads(text)
        assert b"NaN" not in text
        assert b"Infinity" not in text
    assert [cell.per_run.latency_median_s for cell in baseline.cells.values()] == [None, None, 0.5]


# Answers of a baseline.

DAY_S = 86_400.0


def write(folder: Path, report: SuiteReport) -> Path:
    path = folder / "report.json"
    path.write_bytes(b"".join(json_report.render(summarize(report, None))))
    return path


def regressed(base: Path, **report: object) -> Summary:
    """Beside what is at `base`, the cases `a` and `b` have regressed."""
    worse = report_of(
        {"a": "FFF", "b": "FFF", "c": "PPP"},
        confirming={"a": "FFFFFFF", "b": "FFFFFFF"},
        **report,  # type: ignore[arg-type]
    )
    return summarize(worse, None, read_baseline([base], "capitals"), confirm_runs=3)


def base_of(text: str = "Paris", **report: object) -> SuiteReport:
    def answer(result: Result) -> Result:
        return replace(result, response=Response(output=f"{text} {result.run}"))

    cells = {"a": "FPPPPPPPPP", "b": "PPPPPPPPPP", "c": "PPPPPPPPPP"}
    return report_of(cells, edit=answer, started_at=STARTED_AT - DAY_S, **report)  # type: ignore[arg-type]


def test_regressed_cells_have_what_the_baseline_answered_when_it_passed(tmp_path: Path) -> None:
    summary = with_answers(regressed(write(tmp_path, base_of())))
    assert summary.before == {
        ("a", "agent", None): BaseAnswer(text="Paris 2"),
        ("b", "agent", None): BaseAnswer(text="Paris 1"),
    }


def test_fixed_and_failing_cells_have_what_the_baseline_answered(tmp_path: Path) -> None:
    def answer(result: Result) -> Result:
        return replace(result, response=Response(output=f"{result.status} {result.run}"))

    base = report_of(
        {"fixed": "FFFFF", "failing": "FFFFF", "flaky": "FPPPP", "passed": "PPPPP"},
        edit=answer,
        started_at=STARTED_AT - DAY_S,
    )
    head = report_of({"fixed": "PPPPP", "failing": "FFFFF", "flaky": "PPPFP", "passed": "PPPPP"})
    baseline = read_baseline([write(tmp_path, base)], "capitals")
    before = with_answers(summarize(head, None, baseline)).before
    assert before == {
        ("fixed", "agent", None): BaseAnswer(text="failed 1"),
        ("failing", "agent", None): BaseAnswer(text="failed 1"),
        ("flaky", "agent", None): BaseAnswer(text="passed 2"),
    }


def test_so_have_those_of_a_renamed_variant(tmp_path: Path) -> None:
    base = write(tmp_path, base_of(variants=(Variant("old"),)))
    summary = with_answers(regressed(base, variants=(Variant("new", "polite"),)))
    assert set(summary.before) == {("a", "new", "polite"), ("b", "new", "polite")}


def test_long_answers_are_shortened(tmp_path: Path) -> None:
    before = with_answers(regressed(write(tmp_path, base_of("x" * 10_000)))).before
    lengths = [len(answer.text) for answer in before.values()]
    assert all(TEXT_CHARACTERS < length < TEXT_CHARACTERS + 50 for length in lengths)


def test_a_baseline_that_is_gone_by_then_is_done_without(tmp_path: Path) -> None:
    base = write(tmp_path, base_of())
    summary = regressed(base)
    base.unlink()
    assert with_answers(summary).before == {}


@pytest.mark.parametrize(
    "damage", [b'{"case": "\xff"}', b'{"metadata": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"]
)
def test_a_baseline_whose_answers_are_damaged_costs_the_answers_and_not_the_verdict(
    tmp_path: Path, damage: bytes
) -> None:
    base = write(tmp_path, base_of())
    summary = regressed(base)
    start, results = base.read_bytes().split(b'"results": [\n')
    base.write_bytes(start + b'"results": [\n' + damage + b",\n" + results)
    assert with_answers(summary).before == {}


def test_a_journal_of_main_that_is_gone_leaves_the_answer_of_its_report(tmp_path: Path) -> None:
    def read(cells: Collection[CellKey]) -> Iterator[Result]:
        for _, result in read_results(tmp_path / "main.jsonl"):
            assert cells
            yield result

    cells = {"a": "FFF", "b": "PPP", "c": "PPP"}
    head = report_of(cells, confirming={"a": "F" * 14})
    outcomes = {0: dict.fromkeys(range(8, 18), Outcome(True))}
    head.main_now = MainNow(name="main (0123456)", runs=outcomes, results=read)
    baseline = read_baseline([write(tmp_path, base_of())], "capitals")
    summary = with_answers(summarize(head, None, baseline, confirm_runs=10))
    assert summary.compared is not None
    assert summary.compared.by_key["a", "agent", None].main_now == (10, 10)
    assert summary.before == {("a", "agent", None): BaseAnswer(text="Paris 2")}


def test_without_a_comparison_there_is_nothing_before() -> None:
    summary = summarize(report_of({"a": "FFF"}), None)
    assert with_answers(summary) == summary


async def test_a_run_keeps_what_was_answered_before(tmp_path: Path) -> None:
    """From the first run on the base branch to the comment's data, through the command line."""
    case = {"id": "greeting", "input": "hello", "expect": [{"equals": "hello"}]}
    steady = [
        {"id": f"steady {number}", "input": "x", "expect": [{"equals": "x"}]} for number in range(3)
    ]
    write_suite(tmp_path, [case, *steady], runs=10)
    base = await ci_evals(tmp_path, "run", "--out", "base")
    assert base.code == 0, base.err
    write_suite(
        tmp_path,
        [case, *steady],
        runs=10,
        providers=[{"name": "echo", "type": "mock", "default": "bye"}],
    )
    head = await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "head")
    assert head.code == 1, head.err
    summary = read_summary(tmp_path / "head")
    assert summary.before["greeting", "echo", None].text == "hello"


# Summaries.


def written(summary: Summary) -> bytes:
    return b"".join(json_report.render(summary))


def summary_in(content: bytes) -> Summary:
    return decode_report(content).summary


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_comment_is_the_same_from_the_saved_report(name: str) -> None:
    summary = SITUATIONS[name]()
    again = summary_in(written(summary))
    assert comments.text_of(again) == comments.text_of(summary)


@pytest.mark.parametrize("render", [json_report.render, junit.render])
def test_so_is_every_other_format_that_does_not_show_what_was_asked(
    render: Callable[[Summary], Any],
) -> None:
    summary = comments.regression()
    again = summary_in(written(summary))
    assert b"".join(render(again)) == b"".join(render(summary))


def test_a_verdict_is_decided_anew_and_never_taken_over() -> None:
    document = json.loads(written(comments.small_regression()))
    before = summary_in(json.dumps(document).encode()).verdict
    document["verdict"] |= {"status": "pass", "reason": "all is well", "rules": [], "scopes": []}
    again = summary_in(json.dumps(document).encode())
    assert again.verdict == before
    assert again.verdict.status == "fail"
    for render in (json_report.render, junit.render, markdown.render):
        assert b"all is well" not in b"".join(render(again))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Mapping[str, Any]], list[str]]:
    """What the comment, `explain` and `compare` say of a report, each of which is read once."""
    folder = tmp_path_factory.mktemp("forged")
    base = saved(folder / "base" / "report.json", report_at(1.0, suite={"name": "flight agent"}))
    path = folder / "report.json"
    commands = (
        ("explain", "refund", "--report", str(path)),
        ("compare", str(base), str(path), "--format", "json"),
    )

    @cache
    def printed(content: str) -> list[str]:
        path.write_text(content)
        ended = [python(folder, "-m", "ci_evals", *command) for command in commands]
        assert ended[0].code == 0, ended
        return [comments.text_of(read_summary(path)), *(each.out for each in ended)]

    return lambda document: printed(json.dumps(document))


@pytest.mark.parametrize("pretend", PRETENCES)
def test_what_follows_from_its_results_is_derived_and_never_taken_over(
    pretend: Callable[[dict[str, Any]], None], told: Callable[[Mapping[str, Any]], list[str]]
) -> None:
    document = json.loads(written(comments.small_regression()))
    honest = told(document)
    assert "### ❌ " in honest[0]
    pretend(document)
    assert told(document) == honest


async def test_a_status_that_does_not_follow_from_the_grades_is_refused(tmp_path: Path) -> None:
    words = "said to have passed, unlike its grades"
    document = json.loads(written(comments.small_regression()))
    for result in document["results"]:
        result["status"] = "passed"
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    with pytest.raises(StorageError, match=words):
        read_report(path)
    for command in (
        ["compare", str(path), str(path)],
        ["explain", "refund", "--report", str(path)],
    ):
        done = await ci_evals(tmp_path, *command)
        assert done.code == 3
        assert re.search(words, done.err)


def test_what_ended_a_run_early_is_known() -> None:
    report = report_of(
        {"a": "PPP...", "b": "PF...."},
        interrupted="SIGTERM",
        looks=Looks((3, 6), 1),
        settled="fail",
    )
    again = summary_in(written(summarize(report, None))).report
    assert (again.interrupted, again.looks, again.settled) == ("SIGTERM", Looks((3, 6), 1), "fail")
    assert again.totals == report.totals
    assert again.id == report.id


def test_hostile_reports_are_shown_or_refused(hostile: Summary) -> None:
    again = summary_in(written(hostile))
    assert b"".join(markdown.render(again))
    assert render_brief(again)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), 3),
        (("started_at",), 1e15),
        (("started_at",), -1.0),
        (("cells", 0, "planned"), 10**12),
        (("cells", 0, "planned"), -1),
        (("cells", 0, "confirm_runs"), 10**12),
        (("cells", 0, "min_pass_rate"), 7.0),
        (("cells", 0, "provider"), "nobody"),
        (("results", 0, "run"), 0),
        (("results", 0, "run"), 10**9),
        (("results", 0, "run"), 10**30),
        (("results", 0, "latency_s"), 1e308),
        (("results", 0, "cost_usd"), -1e308),
        (("results", 0, "score"), 1e308),
        (("results", 0, "judging"), {"calls": 1, "cost_usd": 1e308}),
        (("results", 0, "grades", 0, "score"), 1e308),
        (("results", 0, "case"), "nobody's"),
        (("results", 0, "status"), "superb"),
        (("base", "reports"), []),
        (("base", "confirm_runs"), -1),
        (("base", "cells", 0, "history", 0), ["nobody's", 5, 5]),
        (("base", "cells", 0, "history", 0, 1), 10**9),
        (("base", "cells", 0, "bar"), 7.0),
        (("base", "trend", 0, "variants", 0, "pass_rate"), -3.0),
        (("looks",), {"rounds": [], "taken": 0}),
        (("looks",), {"rounds": [3, 6], "taken": 3}),
        (("looks",), {"rounds": [3, 6], "taken": -1}),
        (("variants",), []),
        (("cells",), None),
    ],
)
def test_what_contradicts_itself_is_refused(path: tuple[str | int, ...], value: Any) -> None:
    document = json.loads(written(comments.small_regression()))
    _put(document, path, value)
    with pytest.raises(ValueError, match=r"."):
        summary_in(json.dumps(document).encode())


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"results": [1e999]}']
)
def test_what_is_no_report_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        summary_in(content)


def test_any_change_is_refused_or_rendered() -> None:
    """Whatever a report holds, reading raises only `ValueError`, and what was read can be shown."""
    original = written(comments.small_regression())
    seeded, refused, shown = random.Random(7), 0, 0
    for _ in range(150):
        document = json.loads(original)
        path = _somewhere(document, seeded)
        _put(
            document,
            path,
            seeded.choice(
                [None, -1, 0, 10**25, 1e300, -0.5, "", "x" * 300, [], {}, True, "\ud800"]
            ),
        )
        try:
            summary = summary_in(json.dumps(document).encode())
        except ValueError:
            refused += 1
            continue
        assert len(comment_document(summary).render(2_000).encode()) <= 2_000, path
        shown += 1
    assert refused > 20
    assert shown > 20


def _put(document: Any, path: tuple[str | int, ...], value: Any) -> None:
    *parents, last = path
    for key in parents:
        document = document[key]
    document[last] = value


def _somewhere(document: Any, seeded: random.Random) -> tuple[str | int, ...]:
    path: tuple[str | int, ...] = ()
    while isinstance(document, dict | list) and document and (not path or seeded.random() < 0.9):
        keys: list[Any] = (
            list(document) if isinstance(document, dict) else list(range(len(document)))
        )
        key = seeded.choice(keys)
        path, document = (*path, key), document[key]
    return path
