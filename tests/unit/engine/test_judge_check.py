"""Which judge of a suite is checked, and which answers are labelled."""

from pathlib import Path
from typing import Any

import pytest
from suites import write_suite

from ci_evals.engine.judge_check import find_judge, read_labelled_answers
from ci_evals.errors import UsageError
from ci_evals.suite.load import load_suite

POLITE, BRIEF = {"judge": "polite"}, {"judge": "It is brief."}


def judge_in(folder: Path, rubric: str | None, *expect: dict[str, Any]) -> str:
    case = {"id": "a", "input": "?", "expect": [{"not_empty": True}, *expect]}
    judges = [{"name": "strict", "type": "mock"}]
    return find_judge(load_suite(write_suite(folder, [case], judges=judges), {}), rubric).rubric


def test_the_only_judge_need_not_be_named(tmp_path: Path) -> None:
    assert judge_in(tmp_path, None, POLITE) == "polite"
    assert judge_in(tmp_path, "It is brief.", POLITE, BRIEF) == "It is brief."


@pytest.mark.parametrize(
    ("rubric", "expect", "told"),
    [
        (None, (), "evals.yaml has no judge to check: add one to `expect`"),
        ("polite", (), "evals.yaml has no judge to check: add one to `expect`"),
        (
            None,
            (POLITE, BRIEF),
            "evals.yaml has several judges: name one with --rubric: 'polite', 'It is brief.'",
        ),
        ("rude", (POLITE,), "evals.yaml: unknown rubric 'rude', known: polite"),
    ],
)
def test_without_one_judge_to_check_it_is_said_which_there_are(
    tmp_path: Path, rubric: str | None, expect: tuple[dict[str, Any], ...], told: str
) -> None:
    with pytest.raises(UsageError) as caught:
        judge_in(tmp_path, rubric, *expect)
    assert told in str(caught.value)


def test_an_empty_file_has_no_labelled_answers(tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text("\n")
    with pytest.raises(
        UsageError, match=r'labels.jsonl: has no labelled answers: expected {"output"'
    ):
        read_labelled_answers(tmp_path / "labels.jsonl")
