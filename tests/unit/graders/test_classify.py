"""`classify`: which label an answer names, and what all of them make of a suite."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from factories import checked
from projects import Project
from suites import write_suite

from ci_evals.api import evaluate
from ci_evals.gate.verdict import decide
from ci_evals.graders.classify import Classify
from ci_evals.model.grading import Classified
from ci_evals.model.request import Answer

AnswerOf = Callable[..., Answer]
LABELS = ["refund", "cancel", "cancel order"]


@pytest.mark.parametrize(
    ("options", "output", "predicted"),
    [
        ({}, "refund", "refund"),
        ({}, ' "Refund". ', "refund"),
        ({}, "spam", "spam"),
        ({}, "", "(none)"),
        ({"labels": LABELS}, "The customer wants a REFUND.", "refund"),
        ({"labels": LABELS}, "cancel order, please", "cancel order"),
        ({"labels": LABELS}, "refund or cancel", "(none)"),
        ({"labels": LABELS}, "refunds", "(none)"),
        ({"path": "$.intent"}, '{"intent": "refund"}', "refund"),
        ({"path": "$.intent"}, "refund", "(none)"),
        ({"pattern": r"intent=(\w+)"}, "so: intent=Refund!", "refund"),
        ({"pattern": r"refund|cancel"}, "to cancel", "cancel"),
        ({"pattern": r"intent=(\w+)"}, "none", "(none)"),
    ],
)
def test_the_label_is_found_where_the_suite_says(
    options: dict[str, Any], output: str, predicted: str, answer_of: AnswerOf
) -> None:
    finding = checked({"label": "refund", **options}, Classify).grade(answer_of(output))
    assert finding.classified == Classified("classify", "refund", predicted)
    assert finding.passed is (predicted == "refund")


@pytest.mark.parametrize(
    ("output", "scores"),
    [
        ('{"p": {"Refund": 0.75, "cancel": 0.25}}', {"refund": 0.75, "cancel": 0.25}),
        ('{"p": 0.75, "intent": "refund"}', {"refund": 0.75, "cancel": 0.25}),
        ('{"p": "high"}', None),
        ("[]", None),
    ],
)
def test_scores_are_read_per_label(
    output: str, scores: dict[str, float] | None, answer_of: AnswerOf
) -> None:
    grader = Classify(label="refund", labels=("refund", "cancel"), path="$.intent", scores="$.p")
    found = grader.grade(answer_of(output)).classified
    assert found is not None
    assert found.scores == scores


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"labels": ["b", "c"]}, "is not one of `labels`"),
        ({"path": "$[", "pattern": None}, "bad JSONPath"),
        ({"path": "$", "pattern": "a"}, "either"),
        ({"pattern": "("}, "bad regular expression"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any], problem: str) -> None:
    (told,) = checked({"label": "a", **options}, Classify).problems()
    assert problem in told


def suite(tmp_path: Path, wrong: int, **gate: Any) -> Path:
    """Forty cases, half of them spam; the first `wrong` spam cases are taken for ham."""
    cases = []
    answers = {}
    for number in range(40):
        truth = "spam" if number % 2 else "ham"
        said = "ham" if truth == "spam" and number < 2 * wrong else truth
        score = (0.4 if said != truth else 0.9) if truth == "spam" else 0.2
        answers[f"c{number}"] = json.dumps({"label": said, "spam": score})
        grader = {"label": truth, "labels": ["spam", "ham"], "path": "$.label", "scores": "$"}
        cases.append({"id": f"c{number}", "input": "?", "expect": [{"classify": grader}]})
    return write_suite(
        tmp_path, cases, providers=[{"name": "m", "type": "mock", "answers": answers}], gate=gate
    )


async def test_metrics_of_all_runs_are_in_every_report(tmp_path: Path) -> None:
    await evaluate(suite(tmp_path, wrong=5, metrics={"accuracy": 0.5}), out=tmp_path / "out")
    report = json.loads((tmp_path / "out" / "report.json").read_bytes())
    (entry,) = report["variants"][0]["classifications"]
    assert entry["accuracy"] == 35 / 40
    ham, spam = entry["labels"]
    assert (ham["label"], ham["precision"], ham["recall"]) == ("ham", 0.8, 1)
    assert (spam["label"], spam["precision"], spam["recall"], spam["roc_auc"]) == (
        "spam",
        1,
        0.75,
        1,
    )
    assert entry["confusion"] == [[20, 0], [5, 15]]
    summary = (tmp_path / "out" / "summary.md").read_text("utf-8")
    assert "### Labels: accuracy 87.5 %, macro F1 87.3 %" in summary
    figures = "100\xa0% | 75\xa0% | 85.7\xa0% | 100\xa0%"
    assert f"spam</code> | {figures} | 15 × <code>spam</code>, 5 × <code>ham</code> |" in summary


@pytest.mark.parametrize(
    ("wrong", "metrics", "status"),
    [
        (0, {"macro_f1": 0.9, "accuracy": 1.0}, "pass"),
        (5, {"accuracy": 0.8}, "pass"),
        (5, {"accuracy": 0.9}, "borderline"),
        (15, {"recall.spam": 0.8}, "fail"),
        (15, {"recall.ham": 0.9}, "pass"),
        (1, {"accuracy": 1.0}, "fail"),
    ],
)
async def test_a_gate_on_metrics_is_red_only_beyond_the_noise(
    wrong: int, metrics: dict[str, float], status: str, tmp_path: Path
) -> None:
    path = suite(tmp_path, wrong, metrics=metrics)
    report = await evaluate(path)
    gate = msgspec.convert({"metrics": metrics}, type=type(Project(tmp_path).load().gate))
    verdict = decide(report.judged.report, gate)
    assert verdict.status == status, verdict.reason
    if status == "fail" and "recall.spam" in metrics:
        assert verdict.reason.startswith("metric recall.spam: 25 % is below the bar of 80 %")


def test_an_unknown_metric_is_told(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.suite(gate={"metrics": {"f2": 0.5, "recall": 0.5, "macro_f1": 0.5, "f1.a.b": 0.1}})
    assert [problem.split(": ", 2)[2].partition(" is ")[0] for problem in project.problems()] == [
        "'f2'",
        "'recall'",
        "'macro_f1'",
        "'f1.a.b'",
    ]
