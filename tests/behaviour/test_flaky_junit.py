"""`junit_flaky`: junit.xml in which cases that pass with some failed runs are flaky."""

from pathlib import Path
from xml.etree.ElementTree import Element, parse

import pytest
import yaml
from processes import ci_evals

AGENT = """
calls = {}

def answer(question):
    calls[question] = calls.get(question, 0) + 1
    passes = {"steady": True, "shaky": calls[question] > 1, "broken": False}[question]
    return "right" if passes else "<wrong & 'odd'>"
"""


async def cases_of(folder: Path, format_: str) -> dict[str, Element]:
    cases = [
        {"id": question, "input": question, "min_pass_rate": 0.5, "expect": [{"equals": "right"}]}
        for question in ("steady", "shaky", "broken")
    ]
    suite = {
        "providers": [{"type": "python", "target": "agent:answer"}],
        "cases": cases,
        "runs": 12,
        "report": {"formats": [format_]},
    }
    (folder / "agent.py").write_text(AGENT)
    (folder / "evals.yaml").write_text(yaml.safe_dump(suite))
    ended = await ci_evals(folder, "run")
    assert ended.code == 1, ended.err
    root = parse(folder / "ci-evals-results" / "junit.xml").getroot()
    return {element.attrib["name"]: element for element in root.iter("testcase")}


@pytest.mark.parametrize(("format_", "marks"), [("junit", 0), ("junit_flaky", 1)])
async def test_a_case_that_passes_with_failed_runs_is_marked(
    tmp_path: Path, format_: str, marks: int
) -> None:
    cases = await cases_of(tmp_path, format_)
    assert list(cases["steady"]) == []
    assert cases["broken"].find("failure") is not None
    assert cases["broken"].findall("flakyFailure") == []
    shaky = cases["shaky"]
    assert shaky.find("failure") is None
    assert "11 of 12 runs passed" in (shaky.findtext("system-out") or "")
    flaky = shaky.findall("flakyFailure")
    assert len(flaky) == marks
    for mark in flaky:
        assert "expected" in mark.attrib["message"]
        assert mark.attrib["type"] == "failure"
        assert "<wrong & 'odd'>" in (mark.findtext("stackTrace") or "")
