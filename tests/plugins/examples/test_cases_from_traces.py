"""The example makes a suite of traces, which runs once a person has named what answers."""

from pathlib import Path

from example_runs import EXAMPLES, run_example
from leftovers import report_in
from processes import python

from ci_evals.suite.yaml import parse

FOLDER = EXAMPLES / "cases_from_traces"
PROVIDERS = """\
providers:
  - {name: assistant, type: mock, default: I do not know.}
judges:
  - {name: judge, type: mock, default: '{"reason": "it says something else", "verdict": "fail"}'}
"""


def test_imported_cases_run_and_block_nothing_until_they_are_confirmed(tmp_path: Path) -> None:
    traces = str(FOLDER / "traces.jsonl")
    done = python(tmp_path, "-m", "ci_evals", "import", traces, "--to", "imported.yaml")
    assert done.code == 0, done.err
    text = (tmp_path / "imported.yaml").read_text("utf-8")
    start, _, cases = text.partition("cases:\n")
    (tmp_path / "evals.yaml").write_text(f"{PROVIDERS}cases:\n{cases}", "utf-8")
    assert "judges:" in start
    validated = python(tmp_path, "-m", "ci_evals", "validate")
    assert validated.code == 0, validated.out + validated.err
    ran = python(tmp_path, "-m", "ci_evals", "run")
    assert ran.code == 3, "a suite without a confirmed case has no verdict"
    unconfirmed = "    quarantine: {reason: the recorded answer is not confirmed"
    assert cases.count(unconfirmed) == 3
    lines = [line for line in cases.splitlines() if "no answer was recorded" not in line]
    confirmed = "\n".join(lines)
    (tmp_path / "evals.yaml").write_text(f"{PROVIDERS}cases:\n{confirmed}", "utf-8")
    ran = python(tmp_path, "-m", "ci_evals", "run")
    assert ran.code == 0, ran.out + ran.err
    report = report_in(tmp_path / "ci-evals-results")
    statuses = [result["status"] for result in report["results"]]
    assert statuses.count("failed") == 9
    assert "3 of 4 cases are in quarantine" in ran.out


def test_the_confirmed_suite_has_the_imported_questions(tmp_path: Path) -> None:
    report = run_example("cases_from_traces", tmp_path)
    assert report["totals"]["passed"] == 12
    traces = str(FOLDER / "traces.jsonl")
    done = python(tmp_path, "-m", "ci_evals", "import", traces)
    imported, _, _ = parse(done.out, "imported.yaml")
    confirmed, _, _ = parse((FOLDER / "evals.yaml").read_text("utf-8"), "evals.yaml")
    for key in ("input", "messages", "vars", "metadata"):
        ours = [case.get(key) for case in imported["cases"]]
        assert ours == [case.get(key) for case in confirmed["cases"]]
