"""`ci-evals judge check`: how well a judge agrees with people, and whether that is enough."""

import json
from pathlib import Path
from typing import Any

import pytest
from processes import python
from suites import write_suite

CHECK = ("-m", "ci_evals", "judge", "check")
PASSES, FAILS = (json.dumps({"reason": "r", "verdict": word}) for word in ("pass", "fail"))


def check(tmp_path: Path, wrong: int, count: int = 60, *words: str) -> tuple[int, str]:
    """Have a judge check `count` answers, half of them good; it lets `wrong` bad ones pass."""
    rows, answers = [], {}
    for number in range(count):
        good = number % 2 == 0
        rows.append({"output": "x", "label": "pass" if good else "fail", "case": f"c{number}"})
        answers[f"c{number}"] = PASSES if good or number < 2 * wrong else FAILS
    labels = tmp_path / "labels.jsonl"
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    judge: dict[str, Any] = {"name": "strict", "type": "mock", "answers": answers}
    case = {"id": "a", "input": "?", "expect": [{"judge": "polite"}]}
    suite = write_suite(tmp_path, [case], judges=[judge])
    done = python(tmp_path, *CHECK, str(labels), "--suite", str(suite), *words)
    return done.code, done.out + done.err


@pytest.mark.parametrize(
    ("wrong", "count", "code", "told"),
    [
        (1, 60, 0, "fit to gate"),
        (28, 60, 1, "not fit to gate"),
        (20, 40, 1, "not fit to gate: it gave one verdict to everything"),
        (10, 20, 3, "too little to tell"),
        (8, 60, 3, "too little to tell"),
        (0, 20, 3, "too little to tell"),
    ],
)
def test_a_judge_is_fit_when_it_agrees_beyond_doubt(
    wrong: int, count: int, code: int, told: str, tmp_path: Path
) -> None:
    found, printed = check(tmp_path, wrong, count)
    assert found == code, printed
    assert told in printed


def test_where_people_gave_one_label_the_other_is_asked_for(tmp_path: Path) -> None:
    check(tmp_path, 0, 2)
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"output": "x", "label": "pass", "case": "c0"}\n' * 40, "utf-8")
    done = python(tmp_path, *CHECK, str(labels), "--suite", str(tmp_path / "evals.yaml"))
    assert done.code == 3
    assert done.out.splitlines()[-1].startswith(
        "too little to tell: people labelled no answer `fail`"
    )


def test_the_figures_are_there_for_scripts(tmp_path: Path) -> None:
    code, printed = check(tmp_path, 3, 60, "--format", "json")
    found = json.loads(printed)
    assert (code, found["fit"]) == (0, True)
    assert found["confusion"] == [[30, 0], [3, 27]]
    assert found["agreement"] == 0.95
    assert found["kappa"] == pytest.approx(0.9)
    assert found["kappa_lower"] < 0.9 < found["kappa_upper"]
    assert found["calls"] == 60


@pytest.mark.parametrize("line", ["{", '{"output": "x"}', '{"output": "x", "label": "maybe"}'])
def test_a_line_that_is_no_label_is_told_with_its_number(line: str, tmp_path: Path) -> None:
    check(tmp_path, 0, 2)
    labels = tmp_path / "labels.jsonl"
    labels.write_text(f'{{"output": "x", "label": true}}\n{line}\n', "utf-8")
    done = python(tmp_path, *CHECK, str(labels), "--suite", str(tmp_path / "evals.yaml"))
    assert done.code == 2
    assert "labels.jsonl:2" in done.err


def test_the_judge_of_a_turn_is_checked_and_is_shown_no_question_where_a_row_has_none(
    tmp_path: Path,
) -> None:
    (tmp_path / "strict.py").write_text(
        "from pathlib import Path\n"
        "def reply(messages):\n"
        "    Path('asked.txt').write_text(messages[1]['content'], 'utf-8')\n"
        f"    return {PASSES!r}\n",
        "utf-8",
    )
    (tmp_path / "labels.jsonl").write_text('{"output": "x", "label": "pass"}\n', "utf-8")
    judge = {"name": "strict", "type": "python", "target": "strict:reply"}
    case = {"id": "a", "turns": [{"user": "hi", "expect": [{"judge": "polite"}]}]}
    suite = write_suite(tmp_path, [case], judges=[judge])
    done = python(tmp_path, *CHECK, "labels.jsonl", "--suite", str(suite))
    assert done.code == 3, done.err
    _, *data, _ = (tmp_path / "asked.txt").read_text("utf-8").splitlines()
    assert json.loads("".join(data)) == {"answer": "x"}


def test_labels_may_say_where_they_come_from_and_why(tmp_path: Path) -> None:
    row = {
        "suite": "shop",
        "case": "refund",
        "provider": "gpt",
        "prompt": None,
        "run": 2,
        "run_id": "dc2f1dfc4801483089f92758b3a8bd04",
        "input": [{"role": "user", "content": "Can I return it?"}],
        "output": "No.\u2028Never.",
        "label": "fail",
        "note": 'Rude: "Never." \u2014 and wrong\nby the policy',
    }
    labels = tmp_path / "labels.jsonl"
    line = json.dumps(row, ensure_ascii=False)
    labels.write_text(f"{line}\n\n{line}\n", "utf-8")
    judge: dict[str, Any] = {"name": "strict", "type": "mock", "default": FAILS}
    case = {"id": "a", "input": "?", "expect": [{"judge": "polite"}]}
    suite = write_suite(tmp_path, [case], judges=[judge])
    words = (*CHECK, str(labels), "--suite", str(suite), "--format", "json")
    done = python(tmp_path, *words)
    assert done.code == 3, done.out + done.err
    assert json.loads(done.out)["calls"] == 2


def test_a_judge_of_what_was_retrieved_reads_it_in_the_label(tmp_path: Path) -> None:
    holds = [{"text": "It takes 5 days.", "texts": [2], "holds": True}]
    rows = [
        {"output": "It takes 5 days.", "label": "pass", "retrieved": ["Hello.", "Five days."]},
        {"output": "It takes 5 days.", "label": "pass"},
    ]
    labels = tmp_path / "labels.jsonl"
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    judge = {"name": "strict", "type": "mock", "default": json.dumps({"statements": holds})}
    case = {"id": "a", "input": "?", "expect": [{"judge": "faithful"}]}
    suite = write_suite(tmp_path, [case], judges=[judge])
    done = python(tmp_path, *CHECK, str(labels), "--suite", str(suite), "--format", "json")
    assert done.code == 3, done.err
    found = json.loads(done.out)
    assert (found["confusion"], found["unanswered"]) == ([[1, 0], [0, 0]], 1)
    assert "has no retrieved context" in done.err
