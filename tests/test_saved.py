"""Reports read back from disk: whole, old, new, damaged, of somebody else, several of them."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from factories import report_of

from ci_evals.errors import StorageError
from ci_evals.redaction import Redactor
from ci_evals.report import Report
from ci_evals.reports import json_report
from ci_evals.reports.summary import summarize
from ci_evals.saved import read_baseline, read_report
from ci_evals.verdict.comparison import NoComparison, compare
from ci_evals.verdict.head import head_cells
from ci_evals.verdict.history import Baseline

VERSION_1 = Path(__file__).parent / "data" / "report-version-1.json"


def saved(path: Path, report: Report, baseline: Baseline | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(json_report.render(summarize(report, None, baseline, confirm_runs=7))))
    return path


def report_at(started_at: float, cells: dict[str, str] | None = None, **settings: Any) -> Report:
    report = report_of(cells or {"capital": "PPP", "river": "PPF"}, **settings)
    report.started_at = started_at
    return report


def baseline_at(*paths: Path, suite: str = "capitals") -> Baseline:
    found = read_baseline(paths, suite)
    assert isinstance(found, Baseline), found
    return found


def evidence(baseline: Baseline, case: str = "river") -> list[tuple[int, int]]:
    return [(each.passed, each.graded) for each in baseline.cells[case, "agent", None].history.evidence]


def test_a_report_is_read_back_as_the_side_that_it_was(tmp_path: Path) -> None:
    report = report_at(5.0)
    found = read_report(saved(tmp_path / "report.json", report))
    assert found.head == head_cells(report, None)
    assert [ref.id for ref in found.baseline.reports] == [report.id]
    assert evidence(found.baseline) == [(2, 3)]
    assert found.baseline.trend[0].variants[0].pass_rate == pytest.approx(5 / 6)
    assert compare(found.head, found.baseline, confirm_runs=7).counts == {"unchanged": 1, "flaky": 1}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"  \n", "it is empty"),
        (b'{"schema_version": 2, "suite": {"name": "cap', "damaged or cut off"),
        (b"\xff\xfe", "damaged or cut off"),
        (b"[]", "damaged or cut off"),
        (b'{"schema_version": 2}', "damaged or cut off"),
        (b"[" * 100_000, "damaged or cut off"),
        (b'{"results": ' + b"[" * 100_000, "damaged or cut off"),
    ],
    ids=["empty", "blank", "cut-off", "binary", "other-json", "without-cells", "deep", "deep-within"],
)
def test_what_is_no_whole_report_is_refused_with_what_to_do(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    with pytest.raises(StorageError) as refused:
        read_report(path)
    assert str(refused.value).startswith(f"{path}: is no whole report of ci-evals ({words}")
    assert str(refused.value).endswith(": fetch it again, or name another")


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9, 0.999])
def test_a_truncated_report_is_refused(tmp_path: Path, part: float) -> None:
    path = saved(tmp_path / "report.json", report_at(1.0))
    path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
    with pytest.raises(StorageError, match="damaged or cut off"):
        read_baseline([path], "capitals")


@pytest.mark.parametrize(
    "change",
    [
        {"evidence": [4, 3]},
        {"evidence": [-1, 3]},
        {"confirming": [2, 1]},
        {"history": [[0, 3, 3]]},
        {"per_run": [[2, 2.5, 3.25], None, None, None]},
        {"per_run": [[2, 1.0, 0.4], None, None, None]},
        {"per_run": [[0, 0.0, 0.0], -0.1, None, None]},
        {"per_run": [[0, 0.0, 0.0], None, None, -0.1]},
    ],
)
def test_what_no_runs_leave_behind_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = saved(tmp_path / "report.json", report_at(1.0))
    document = json.loads(path.read_bytes())
    document["cells"][0] |= change
    path.write_text(json.dumps(document))
    with pytest.raises(StorageError, match="damaged or cut off"):
        read_report(path)


def test_the_sums_that_reports_told_at_first_are_read_as_what_a_run_came_to(tmp_path: Path) -> None:
    path = saved(tmp_path / "report.json", report_at(1.0))
    document = json.loads(path.read_bytes())
    del document["cells"][0]["per_run"]
    document["cells"][0]["figures"] = [[2, 1.5, 1.25], [2, 0.5, 0.2], [0, 0.0, 0.0], 0.25]
    path.write_text(json.dumps(document))
    assert read_report(path).head[0].per_run == ((2, 1.5, 1.25), 0.25, None, 0.25)
    assert next(iter(baseline_at(path).cells.values())).per_run == read_report(path).head[0].per_run


@pytest.mark.parametrize("changes", [{"cells": "otherwise"}, {}], ids=["unreadable", "readable"])
def test_a_newer_report_is_refused_with_what_to_upgrade(changes: dict[str, Any], tmp_path: Path) -> None:
    path = saved(tmp_path / "report.json", report_at(1.0))
    document = json.loads(path.read_bytes())
    document["suite"]["version"] = "7.1.0"
    path.write_text(json.dumps(document | {"schema_version": 3} | changes))
    with pytest.raises(StorageError) as refused:
        read_baseline([path], "capitals")
    assert str(refused.value) == (
        f"{path}: is of schema version 3, written by ci-evals 7.1.0; this one reads up to 2: upgrade ci-evals here"
    )


def test_a_report_of_version_1_is_read() -> None:
    document = json.loads(VERSION_1.read_bytes())
    assert document["schema_version"] == 1
    baseline = baseline_at(VERSION_1, suite=document["suite"]["name"])
    assert [(cell["passed"], cell["passed"] + cell["failed"]) for cell in document["cells"]] == [
        (newest.passed, newest.graded) for cell in baseline.cells.values() for newest in cell.history.evidence[:1]
    ]
    assert {cell.fingerprint for cell in baseline.cells.values()} == {None}
    head = read_report(VERSION_1).head
    assert set(compare(head, baseline, confirm_runs=7).counts) <= {"unchanged", "flaky", "not compared"}


def test_there_is_a_sentence_for_every_lack(tmp_path: Path) -> None:
    path = saved(tmp_path / "base" / "report.json", report_at(1.0))
    absent, empty = tmp_path / "absent", tmp_path / "empty"
    empty.mkdir()
    assert read_baseline([absent, empty], "capitals") == NoComparison(
        f"no baseline: there is no report at {absent.as_posix()} or {empty.as_posix()}"
    )
    assert read_baseline([path], "rivers") == NoComparison(
        f"no baseline: {path.as_posix()} is of another suite, 'capitals'"
    )
    document = json.loads(path.read_bytes()) | {"cells": []}
    path.write_text(json.dumps(document))
    assert read_baseline([path], "capitals") == NoComparison(f"no baseline: {path.as_posix()} has no cells")


def test_files_and_folders_of_them_are_one_baseline_the_newest_first(tmp_path: Path) -> None:
    old = saved(tmp_path / "runs" / "41" / "report.json", report_at(1.0, {"river": "PPP"}))
    new = saved(tmp_path / "runs" / "42" / "report.json", report_at(2.0, {"river": "PPF"}))
    saved(tmp_path / "runs" / "43" / "report.json", report_at(3.0, suite={"name": "another"}))
    for paths in ((tmp_path / "runs",), (old, new), (new.parent, old.parent), (new, old, tmp_path / "runs")):
        baseline = baseline_at(*paths)
        assert evidence(baseline) == [(2, 3), (3, 3)]
        assert [ref.started_at for ref in baseline.reports] == [2.0, 1.0]


def test_counts_are_carried_from_report_to_report_and_each_once(tmp_path: Path) -> None:
    baseline = None
    for number in range(1, 15):
        report = report_at(float(number), {"river": "PPP"})
        report.fingerprint_of = lambda _row: "of the same case"
        path = saved(tmp_path / str(number) / "report.json", report, baseline)
        baseline = baseline_at(path)
    assert baseline is not None
    assert baseline.cells["river", "agent", None].history.pool == (30, 30, 10)
    assert len(evidence(baseline)) == 11, "its own and those of ten before"
    assert [point.report.started_at for point in baseline.trend] == [float(n) for n in range(14, 0, -1)]
    whole = baseline_at(tmp_path)
    assert len(evidence(whole)) == 14
    assert whole.cells["river", "agent", None].history.pool == (30, 30, 10)


def test_names_with_secrets_match_those_that_are_shown(tmp_path: Path) -> None:
    path = saved(tmp_path / "report.json", report_at(1.0, {"of hunter2-and-more": "PPP", "river": "PPP"}))
    found = read_baseline([path], "capitals", redactor=Redactor(["hunter2-and-more"]))
    assert isinstance(found, Baseline)
    assert [case for case, *_ in found.cells] == ["of ***", "river"]


def test_no_number_of_a_report_is_not_a_number(tmp_path: Path) -> None:
    report = report_at(1.0, {"a": "EEE", "b": "...", "c": "P.."})
    path = saved(tmp_path / "report.json", report)
    baseline = baseline_at(path)
    for text in (path.read_bytes(), b"".join(json_report.render(summarize(report, None, baseline)))):
        msgspec.json.decode(text, strict=True)
        assert b"NaN" not in text
        assert b"Infinity" not in text
    assert [cell.per_run.latency_median_s for cell in baseline.cells.values()] == [None, None, 0.5]
