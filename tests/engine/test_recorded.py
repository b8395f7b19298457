"""The results of an earlier run, from whichever of its files."""

from pathlib import Path

import msgspec
import pytest
from factories import report_of, result_of

from ci_evals.engine.pairwise import read_results
from ci_evals.engine.recorded import scan_results
from ci_evals.errors import StorageError
from ci_evals.model import Result
from ci_evals.reports import json_report
from ci_evals.reports.summary import summarize


def test_a_report_has_the_results_of_its_journal(tmp_path: Path) -> None:
    report = report_of({"a": "PF"})
    path = tmp_path / "report.json"
    path.write_bytes(b"".join(json_report.render(summarize(report, None))))
    found: list[Result] = []
    scan_results(path, found.append)
    assert found == list(report.results())


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"{}", "is no report of ci-evals"),
        (b'{"results": [{"case": "\xff"}]}', "is no report of ci-evals"),
        (b'{"results": [{"metadata": ' + b"[" * 100_000, "is no report of ci-evals"),
    ],
    ids=["missing", "other-json", "binary", "deep"],
)
def test_what_is_no_report_is_said_with_what_to_name_instead(content: bytes | None, what: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StorageError, match=rf"notes\.json: {what}.*: name a report\.json, a results\.jsonl"):
        scan_results(path, lambda _: None)


def test_answers_come_by_variant_and_run(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    results = [result_of(run=1), result_of(run=2, status="errored"), result_of(run=1, prompt="polite")]
    path.write_bytes(msgspec.json.encode({"results": results}))
    assert {name: list(answers) for name, answers in read_results(path).items()} == {
        "agent": [("capital", 1)],
        "agent · polite": [("capital", 1)],
    }
