"""A journal that grows, as `view --serve` reads it."""

import re
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from factories import result_of
from rendered import html_of

from ci_evals.cli.live import summarize_journal
from ci_evals.engine.journal import Header, Journal
from ci_evals.model.report import SuiteInfo
from ci_evals.model.result import Result
from ci_evals.redaction import Redactor


def write(
    path: Path, results: Iterable[Result], *, started_at: float = 1.0, resume: bool = False
) -> None:
    suite = SuiteInfo(name="test", file="evals.yaml", fingerprint="f", runs=2, version="0")
    with closing(Journal(path, Redactor(()), resume=resume)) as journal:
        journal.start(Header(suite=suite, started_at=started_at, planned=4))
        for result in results:
            journal.append(result)


def test_each_look_tells_what_there_is_by_then(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    write(path, [])
    assert summarize_journal(path) is None
    write(path, [result_of("a"), result_of("b", "errored")], resume=True)
    summary = summarize_journal(path)
    assert summary is not None
    assert summary.verdict.reason == "2 of 4 runs so far: 1 errored"
    assert not summary.is_going_on, "nobody writes any more"
    write(path, [result_of("b", "failed"), result_of("a", run=2)], resume=True)
    summary = summarize_journal(path)
    assert summary is not None
    assert summary.verdict.reason == "3 of 4 runs so far: 1 failed", (
        "the run that had errored was made again"
    )
    assert [result.status for result in summary.report.runs] == ["passed", "passed", "failed"]


def test_another_run_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    write(path, [result_of("a", "failed"), result_of("b", "failed")])
    summarize_journal(path)
    write(path, [result_of("a")], started_at=2.0)
    summary = summarize_journal(path)
    assert summary is not None
    assert summary.verdict.reason == "1 of 4 runs so far: all passed"


def test_what_has_not_run_yet_leaves_its_column_empty(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    write(
        path,
        [
            result_of("a", provider="gpt"),
            result_of("a", provider="haiku"),
            result_of("b", provider="haiku"),
        ],
    )
    summary = summarize_journal(path)
    assert summary is not None
    rows = re.findall(r'</details>\n<div class="chips">.*?</div>', html_of(summary), re.DOTALL)
    assert [re.findall(r'class="(gap|chip)[ "]', row) for row in rows] == [
        ["chip", "chip"],
        ["gap", "chip"],
    ]
