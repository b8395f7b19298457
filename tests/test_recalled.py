"""What saved reports recall: summaries as a whole, and what a baseline answered."""

from pathlib import Path

import msgspec
import pytest
from factories import STARTED_AT, report_of
from processes import ci_evals
from suites import write_suite

from ci_evals.errors import StorageError
from ci_evals.model import Result, Variant
from ci_evals.recalled import ANSWER_CHARACTERS, read_summary, with_answers
from ci_evals.report import Report
from ci_evals.reports import json_report
from ci_evals.reports.summary import Summary, summarize
from ci_evals.response import Response
from ci_evals.saved import read_baseline

DAY_S = 86_400.0


def write(folder: Path, report: Report) -> Path:
    path = folder / "report.json"
    path.write_bytes(b"".join(json_report.render(summarize(report, None))))
    return path


def regressed(base: Path, **report: object) -> Summary:
    """Beside what is at `base`, the cases `a` and `b` have regressed."""
    worse = report_of({"a": "FFF", "b": "FFF", "c": "PPP"}, confirming={"a": "FFFFFFF", "b": "FFFFFFF"}, **report)  # type: ignore[arg-type]
    return summarize(worse, None, read_baseline([base], "capitals"), confirm_runs=7)


def base_of(text: str = "Paris", **report: object) -> Report:
    def answer(result: Result) -> Result:
        return msgspec.structs.replace(result, response=Response(output=f"{text} {result.run}"))

    cells = {"a": "FPPPPPPPPP", "b": "PPPPPPPPPP", "c": "PPPPPPPPPP"}
    return report_of(cells, edit=answer, started_at=STARTED_AT - DAY_S, **report)  # type: ignore[arg-type]


def test_regressed_cells_have_what_the_baseline_answered_when_it_passed(tmp_path: Path) -> None:
    summary = with_answers(regressed(write(tmp_path, base_of())))
    assert summary.before == {("a", "agent", None): "Paris 2", ("b", "agent", None): "Paris 1"}


def test_so_have_those_of_a_renamed_variant(tmp_path: Path) -> None:
    base = write(tmp_path, base_of(variants=(Variant("old"),)))
    summary = with_answers(regressed(base, variants=(Variant("new", "polite"),)))
    assert set(summary.before) == {("a", "new", "polite"), ("b", "new", "polite")}


def test_long_answers_are_shortened(tmp_path: Path) -> None:
    before = with_answers(regressed(write(tmp_path, base_of("x" * 10_000)))).before
    assert all(ANSWER_CHARACTERS < len(text) < ANSWER_CHARACTERS + 50 for text in before.values())


def test_a_baseline_that_is_gone_by_then_is_done_without(tmp_path: Path) -> None:
    base = write(tmp_path, base_of())
    summary = regressed(base)
    base.unlink()
    assert with_answers(summary).before == {}


@pytest.mark.parametrize("damage", [b'{"case": "\xff"}', b'{"metadata": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"])
def test_a_baseline_whose_answers_are_damaged_costs_the_answers_and_not_the_verdict(
    tmp_path: Path, damage: bytes
) -> None:
    base = write(tmp_path, base_of())
    summary = regressed(base)
    start, results = base.read_bytes().split(b'"results": [\n')
    base.write_bytes(start + b'"results": [\n' + damage + b",\n" + results)
    assert with_answers(summary).before == {}


def test_without_a_comparison_there_is_nothing_before() -> None:
    summary = summarize(report_of({"a": "FFF"}), None)
    assert with_answers(summary) == summary


def test_a_report_that_was_written_by_another_version_is_no_summary(tmp_path: Path) -> None:
    path = write(tmp_path, base_of())
    path.write_bytes(path.read_bytes().replace(b'"schema_version": 2', b'"schema_version": 1'))
    with pytest.raises(StorageError, match=r"is no report that this version of ci-evals wrote"):
        read_summary(tmp_path)


def test_a_report_of_a_newer_version_asks_for_an_upgrade(tmp_path: Path) -> None:
    path = write(tmp_path, base_of())
    path.write_bytes(path.read_bytes().replace(b'"schema_version": 2', b'"schema_version": 3'))
    with pytest.raises(StorageError, match=r"this one reads up to 2: upgrade ci-evals here"):
        read_summary(tmp_path)


async def test_a_run_keeps_what_was_answered_before(tmp_path: Path) -> None:
    """From the first run on the base branch to the comment's data, through the command line."""
    case = {"id": "greeting", "input": "hello", "expect": [{"equals": "hello"}]}
    steady = [{"id": f"steady {number}", "input": "x", "expect": [{"equals": "x"}]} for number in range(3)]
    write_suite(tmp_path, [case, *steady], runs=10)
    base = await ci_evals(tmp_path, "run", "--out", "base")
    assert base.code == 0, base.err
    write_suite(tmp_path, [case, *steady], runs=10, providers=[{"name": "echo", "type": "mock", "default": "bye"}])
    head = await ci_evals(tmp_path, "run", "--baseline", "base", "--out", "head")
    assert head.code == 1, head.err
    summary = read_summary(tmp_path / "head")
    assert summary.before["greeting", "echo", None] == "hello"
