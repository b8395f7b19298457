"""The example grades traces from elsewhere, without a provider."""

import json
from pathlib import Path

from example_runs import EXAMPLES, run_command

FOLDER = EXAMPLES / "exported_traces"


def test_exported_traces_are_graded_and_gated_without_running_anything(tmp_path: Path) -> None:
    ran = run_command(
        tmp_path, "grade", str(FOLDER / "traces.jsonl"), "--suite", str(FOLDER / "evals.yaml")
    )
    assert ran.code == 0, ran.printed
    assert ran.report["totals"]["passed"] == 2
    assert ran.report["variants"][0]["provider"] == "traces"


def test_cases_without_a_trace_are_no_verdict_and_strangers_are_told(tmp_path: Path) -> None:
    lines = (FOLDER / "traces.jsonl").read_text("utf-8").splitlines()
    traces = tmp_path / "some.jsonl"
    traces.write_text(f"{lines[0]}\n{lines[1].replace('Rome', 'Oslo')}\n", "utf-8")
    ran = run_command(tmp_path, "grade", str(traces), "--suite", str(FOLDER / "evals.yaml"))
    assert ran.code == 3
    assert "1 trace matches no case" in ran.printed
    assert ran.report["totals"]["errored"] == 1
    assert "no trace matches this case: set its attribute ci_evals.case.id" in " ".join(
        ran.printed.split()
    )


def test_traces_that_lack_the_named_attribute_are_told_by_what_is_known_of_them(
    tmp_path: Path,
) -> None:
    spans = [{"traceId": "4bf92f35", "spanId": "1", "name": "invoke_agent"}]
    traces = tmp_path / "some.json"
    traces.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}), "utf-8")
    ran = run_command(
        tmp_path,
        "grade",
        str(traces),
        "--suite",
        str(FOLDER / "evals.yaml"),
        "--match",
        "nope.attribute",
    )
    assert "'trace 4bf92f35 (invoke_agent)'" in ran.printed
    assert "None" not in ran.printed
