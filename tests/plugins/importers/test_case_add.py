"""`ci-evals case add`: a run of a report becomes a case of the suite file."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from leftovers import journaled
from processes import Finished, ci_evals

from ci_evals.suite.yaml import parse

SUITE = """\
# The suite of the shop.
providers:
  - name: shop
    type: mock
    answers:  # of the stand-in
      refund: Within 30 days.
      hours: From 9 to 17.

judges:
  - {name: strict, type: mock, default: '{"reason": "it does", "verdict": "pass"}'}

cases:
  # Asked most often.
  - id: refund
    input: Can I return a helmet?
    expect: [{contains: "30"}]  # days

  - id: hours
    input: |-
      When are you open?
      # and where?
    expect:
      - contains: "9"

# How sure we must be.
runs: 2
"""


def read(path: Path) -> Any:
    value, _, problems = parse(path.read_text("utf-8"), path.name)
    assert not problems
    return value


async def run_suite(folder: Path, text: str = SUITE) -> Path:
    """Run a suite in a folder; return its file."""
    path = folder / "evals.yaml"
    path.write_text(text, "utf-8", newline="")
    done = await ci_evals(folder, "run")
    assert done.code in (0, 1), done.err
    return path


async def add(folder: Path, *words: str) -> Finished:
    return await ci_evals(folder, "case", "add", *words)


async def test_a_run_becomes_a_case_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    path = await run_suite(tmp_path)
    done = await add(tmp_path, "refund")
    assert done.code == 0, done.err
    text = path.read_text("utf-8")
    start, end = SUITE.split("\n# How sure")
    assert text.startswith(f"{start}\n  - id: refund-2\n")
    assert text.endswith(f"\n\n# How sure{end}")
    added = read(path)["cases"][-1]
    assert added["input"] == "Can I return a helmet?"
    assert added["expect"] == [{"judge": {"rubric": "factual", "reference": "Within 30 days."}}]
    assert added["quarantine"]["reason"] == "the recorded answer is not confirmed"
    assert added["metadata"]["run"] == "refund#1"
    assert "added to evals.yaml: refund-2" in done.err
    again = await ci_evals(tmp_path, "run")
    assert again.code == 0, again.err
    assert "1 of 3 cases is in quarantine" in again.out


async def test_a_run_is_named_by_its_number(tmp_path: Path) -> None:
    path = await run_suite(tmp_path)
    done = await add(tmp_path, "hours#2", "--id", "opening hours")
    assert done.code == 0, done.err
    added = read(path)["cases"][-1]
    assert added["id"] == "opening hours"
    assert added["input"] == "When are you open?\n# and where?"
    assert added["metadata"]["run"] == "hours#2"


async def test_the_report_may_be_of_another_suite(tmp_path: Path) -> None:
    nightly = tmp_path / "nightly"
    nightly.mkdir()
    await run_suite(nightly)
    other = SUITE.replace("id: refund", "id: return").replace("runs: 2\n", "")
    (tmp_path / "evals.yaml").write_text(other, "utf-8")
    report = "nightly/ci-evals-results/report.json"
    done = await add(tmp_path, "refund", "--report", report, "--suite", "evals.yaml")
    assert done.code == 0, done.err
    assert read(tmp_path / "evals.yaml")["cases"][-1]["id"] == "refund"


async def test_a_conversation_is_kept_up_to_its_last_question(tmp_path: Path) -> None:
    talk = """\
  - id: talk
    turns:
      - {user: Do you have the Tern?}
      - {user: In blue?}
    expect: [{not_empty: true}]
"""
    path = await run_suite(tmp_path, SUITE.replace("\n# How sure", f"{talk}\n# How sure"))
    done = await add(tmp_path, "talk")
    assert done.code == 0, done.err
    added = read(path)["cases"][-1]
    (result, _) = [
        each for each in journaled(tmp_path / "ci-evals-results") if each["case"] == "talk"
    ]
    first, last = result["response"]["turns"]
    assert added["messages"] == [
        {"role": "user", "content": "Do you have the Tern?"},
        {"role": "assistant", "content": first["response"]["output"]},
        {"role": "user", "content": "In blue?"},
    ]
    assert added["expect"][0]["judge"]["reference"] == last["response"]["output"]


async def test_with_prompts_the_vars_are_kept_and_not_the_rendered_prompt(tmp_path: Path) -> None:
    suite = SUITE.replace("judges:", "prompts: ['Where is {{ city }}?']\njudges:", 1)
    matrix = "  - {id: city, matrix: {city: [Rome, Oslo]}, expect: [{not_empty: true}]}\n"
    start, _, rest = suite.partition("  # Asked most often.\n")
    end = rest.partition("\n# How sure")[2]
    path = await run_suite(tmp_path, f"{start}{matrix}\n# How sure{end}")
    ids = sorted({result["case"] for result in journaled(tmp_path / "ci-evals-results")})
    assert len(ids) == 2
    done = await add(tmp_path, ids[0])
    assert done.code == 0, done.err
    added = read(path)["cases"][-1]
    assert added["vars"]["city"] in ids[0]
    assert "messages" not in added
    assert "input" not in added


async def test_a_suite_without_a_judge_gets_the_answer_as_metadata(tmp_path: Path) -> None:
    start, _, rest = SUITE.partition("judges:")
    path = await run_suite(tmp_path, start + rest.partition("\n\n")[2])
    done = await add(tmp_path, "refund")
    assert done.code == 0, done.err
    added = read(path)["cases"][-1]
    assert added["expect"] == [{"not_empty": True}]
    assert added["metadata"]["reference"] == "Within 30 days."
    assert added["quarantine"]["reason"] == "say what is expected: the suite has no judge"


@pytest.mark.parametrize("indent", ["", "    "])
async def test_the_list_keeps_its_indentation_and_line_ends(tmp_path: Path, indent: str) -> None:
    start, _, cases = SUITE.partition("cases:\n")
    cases, _, end = cases.partition("\n# How sure")
    moved = "".join(
        f"{indent}{line[2:]}\n" if line else "\n" for line in cases.rstrip("\n").split("\n")
    )
    text = f"{start}cases:\n{moved}\n# How sure{end}".replace("\n", "\r\n")
    path = await run_suite(tmp_path, text)
    done = await add(tmp_path, "refund")
    assert done.code == 0, done.err
    changed = path.read_bytes().decode()
    assert f"\r\n{indent}- id: refund-2\r\n" in changed
    assert "\n" not in changed.replace("\r\n", "")


@pytest.mark.parametrize("form", ["json", "flow", "file"])
async def test_a_file_that_cannot_be_continued_is_left_alone(tmp_path: Path, form: str) -> None:
    value = read(await run_suite(tmp_path))
    name = "suite.yaml"
    match form:
        case "json":
            name = "suite.json"
            text = json.dumps(value)
        case "flow":
            text = SUITE.partition("cases:\n")[0] + f"cases: {json.dumps(value['cases'])}\n"
        case _:
            (tmp_path / "cases.json").write_text(json.dumps(value["cases"]), "utf-8")
            text = SUITE.partition("cases:\n")[0] + "cases: {file: cases.json}\n"
    (tmp_path / name).write_text(text, "utf-8")
    done = await add(tmp_path, "refund", "--suite", name)
    assert done.code == 2
    assert f"{name} has no list of cases that can be extended: add this to yours" in done.err
    assert "  - id: refund-2" in done.err
    assert (tmp_path / name).read_text("utf-8") == text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["refunds"], "did you mean 'refund'?"),
        (["refund#7"], "no run 7 of 'refund' in the report; it has refund#1, refund#2"),
        (["refund", "--id", "hours"], "the suite has a case 'hours' already"),
        (["refund", "--provider", "bank"], "bank"),
    ],
)
async def test_a_run_that_is_not_there_is_told(
    tmp_path: Path, words: list[str], message: str
) -> None:
    path = await run_suite(tmp_path)
    done = await add(tmp_path, *words)
    assert (done.code, message in done.err) == (2, True), done.err
    assert path.read_text("utf-8") == SUITE


async def test_several_variants_are_told_apart(tmp_path: Path) -> None:
    second = "providers:\n  - {name: shop 2, type: mock, default: Within 30 days.}\n"
    path = await run_suite(tmp_path, SUITE.replace("providers:\n", second))
    done = await add(tmp_path, "refund")
    assert done.code == 2
    assert "several variants have 'refund': shop 2, shop; choose with --provider" in done.err
    done = await add(tmp_path, "refund", "--provider", "shop 2")
    assert done.code == 0, done.err
    assert read(path)["cases"][-1]["metadata"]["variant"] == "shop 2"


async def test_without_a_report_nothing_is_added(tmp_path: Path) -> None:
    path = await run_suite(tmp_path)
    shutil.rmtree(tmp_path / "ci-evals-results")
    done = await add(tmp_path, "refund")
    assert done.code != 0
    assert path.read_text("utf-8") == SUITE
