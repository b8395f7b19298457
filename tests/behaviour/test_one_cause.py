"""One cause is one line: cases that now give one answer are told together, with that answer."""

import re
from pathlib import Path

import pytest
from comments import text_of
from leftovers import report_in
from processes import Finished, ci_evals
from suites import AGENT, write_suite

from ci_evals.plugins.ci.annotations import annotations
from ci_evals.reports.read import read_report
from ci_evals.reports.summary import Summary

OPENINGS = ("Good question!", "Of course.", "Sure!")
REFUSAL = "I am an AI model and cannot look into that."
CODE = f"""
import os

OPENINGS = {OPENINGS!r}
calls = {{}}

def answer(question):
    # The runs of a case begin with each of the openings in turn.
    calls[question] = calls.get(question, 0) + 1
    opening = OPENINGS[(calls[question] + int(os.environ["SHIFT"])) % len(OPENINGS)]
    if question in os.environ["BROKEN"].split():
        if os.environ["ANSWER"] == "refusal":
            return "{REFUSAL}"
        return f"{{opening}} We issue store credit of ${{question}}.00. It arrives within 5 days."
    return f"{{opening}} We refund ${{question}}.00 to your card within 5 days."
"""


async def run(
    folder: Path, out: str, *arguments: str, broken: range = range(0), answer: str = "credit"
) -> Finished:
    environ = {
        "ANSWER": answer,
        "BROKEN": " ".join(map(str, broken)),
        "SHIFT": str(len(out) % len(OPENINGS)),
    }
    return await ci_evals(folder, "run", "--out", out, *arguments, environ=environ)


async def change(folder: Path, broken: range, answer: str = "credit", cases: int = 40) -> Finished:
    """Run a suite on main, then with some of its cases broken."""
    (folder / "agent.py").write_text(CODE)
    asked = [
        {"id": f"case-{number}", "input": str(number), "expect": [{"contains": "refund"}]}
        for number in range(cases)
    ]
    write_suite(folder, asked, providers=[AGENT], runs=3)
    known: list[str] = []
    for name in ("a", "aa", "aaa"):
        assert (await run(folder, name, *known)).code == 0
        known = ["--baseline", name]
    return await run(folder, "here", *known, broken=broken, answer=answer)


def summary_in(folder: Path) -> Summary:
    return read_report(folder / "here").summary


def diff_of(comment: str) -> list[str]:
    _, _, rest = comment.partition("```diff\n")
    shown, _, _ = rest.partition("```")
    return shown.splitlines()


async def test_a_broken_system_prompt_is_one_line_with_its_answer(tmp_path: Path) -> None:
    ended = await change(tmp_path, range(36), "refusal")
    assert ended.code == 1
    headline = f'36 of 40 cases broke (100 → 10 %): they now answer "{REFUSAL}"'
    assert headline in re.sub(r"\s+", " ", ended.out)

    comment = text_of(summary_in(tmp_path))
    assert comment.startswith("### ❌ 36 of 40 cases broke (100 → 10\xa0%): they now answer ")
    rows = [line for line in comment.splitlines() if line.startswith("| 🔴 ")]
    assert rows == [f"| 🔴 36 cases: &#34;{REFUSAL}&#34; | 324/324 | **0/388** |"]
    assert "20 named, the others give the same answer" in ended.out

    errors = [shown for shown in annotations(summary_in(tmp_path)) if shown.level == "error"]
    assert [shown.title.split(",")[0] for shown in errors] == ["Regressed: 36 cases"]


async def test_the_first_reason_is_open_and_compares_the_nearest_answers(tmp_path: Path) -> None:
    assert (await change(tmp_path, range(7, 8))).code == 1
    comment = text_of(summary_in(tmp_path))
    assert comment.count("<details open>") == 1
    assert comment.index("<details open>") == comment.index("<details")
    removed, added = diff_of(comment)
    opening = removed.removeprefix("-").split(" We ")[0]
    assert opening in OPENINGS
    assert removed == f"-{opening} We refund $7.00 to your card within 5 days."
    assert added == f"+{opening} We issue store credit of $7.00. It arrives within 5 days."
    assert "all 17 failed runs alike" in comment

    explained = await ci_evals(tmp_path, "explain", "case-7", "--report", "here")
    assert f"  {removed}\n  {added}\n" in explained.out
    assert "✗ runs 1 to 17 failed with similar answers" in explained.out
    assert explained.out.count("We issue store credit") == 1


@pytest.mark.parametrize("broken", [range(3), range(10)])
async def test_a_few_cases_are_named_and_share_their_evidence(
    tmp_path: Path, broken: range
) -> None:
    ended = await change(tmp_path, broken)
    assert f"{len(broken)} cases regressed: case-0, case-1, case-2" in ended.out
    comment = text_of(summary_in(tmp_path))
    rows = [line for line in comment.splitlines() if line.startswith("| 🔴 ")]
    assert len(rows) == len(broken)
    (summary,) = re.findall(r"<details open>\n<summary>(.*)</summary>", comment)
    assert "they now answer &#34;" in summary
    assert " We issue store credit of &#36;….00. It arrives within 5 days.&#34;" in summary

    named = [shown.title for shown in annotations(summary_in(tmp_path))]
    assert named == [f"Regressed: case-{number}" for number in broken]


async def test_the_summary_begins_with_what_broke(tmp_path: Path) -> None:
    await change(tmp_path, range(7, 8))
    text = (tmp_path / "here" / "summary.md").read_text()
    places = ["| 🔴 ", "<details open>", "### Figures", "**Ranges**", "Expected on similar"]
    assert sorted(places, key=text.index) == places
    assert report_in(tmp_path / "here")["verdict"]["status"] == "fail"
