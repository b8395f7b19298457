from pathlib import Path

from factories import result_of
from pydantic_core import to_json

from ci_evals.plugins.pairwise.judge import read_answers


def test_answers_come_by_variant_and_run(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    results = [
        result_of(run=1),
        result_of(run=2, status="errored"),
        result_of(run=1, prompt="polite"),
    ]
    path.write_bytes(to_json({"results": results}))
    assert {name: list(answers) for name, answers in read_answers(path).items()} == {
        "agent": [("capital", 1)],
        "agent · polite": [("capital", 1)],
    }
