"""Why runs failed: what was missed, what the answers have instead, and which failures are alike."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from leftovers import report_in
from processes import ci_evals
from suites import write_suite


def answering(answers: dict[str, str], expect: dict[str, Any]) -> list[dict[str, Any]]:
    """Cases that the echo answers with these texts, by their ids."""
    return [{"id": id_, "input": text, "expect": [expect]} for id_, text in answers.items()]


async def test_an_expected_text_is_shown_whole_whatever_it_says(tmp_path: Path) -> None:
    write_suite(tmp_path, answering({"sum": "4"}, {"contains": "error: got 5"}))
    ran = await ci_evals(
        tmp_path,
        "run",
        "--out",
        "out",
    )
    assert "    contains: does not contain 'error: got 5'\n" in ran.stdout.decode()
    assert "does not contain &#39;error: got 5&#39;" in (tmp_path / "out/summary.md").read_text(
        "utf-8"
    )
    (grade,) = report_in(tmp_path / "out")["results"][0]["grades"]
    assert (grade["reason"], grade["got"]) == ("does not contain 'error: got 5'", "'4'")


@pytest.mark.parametrize(
    ("expect", "missed"),
    [
        ({"equals": "Paris"}, "equals: expected 'Paris'"),
        ({"ends_with": "Paris"}, "ends_with: does not end with 'Paris'"),
        ({"starts_with": "Paris"}, "starts_with: does not start with 'Paris'"),
        ({"contains": "Paris"}, "contains: does not contain 'Paris'"),
        ({"not_regex": "[LRO]"}, "not_regex: has a match of '[LRO]'"),
    ],
)
async def test_cases_that_fail_alike_are_one_entry(
    tmp_path: Path, expect: dict[str, Any], missed: str
) -> None:
    cities = {"a": "Lyon", "b": "Rome", "c": "Oslo"}
    write_suite(tmp_path, answering(cities, expect))
    ran = await ci_evals(tmp_path, "run", "--out", "out")
    assert (
        f"3 cases: {missed}, in a (evals.yaml:1), b (evals.yaml:1), c (evals.yaml:1)"
        in " ".join(ran.stdout.decode().split())
    )


@pytest.mark.parametrize(
    ("expect", "missed"),
    [
        ({"word_count": 1}, "word_count: has more than 1 word"),
        ({"word_count": {"min": 9}}, "word_count: has fewer than 9 words"),
        ({"not_word_count": 9}, "not_word_count: has at most 9 words"),
        ({"max_length": 5}, "max_length: is longer than 5 characters"),
        ({"similar": "0 1"}, "similar: similarity to '0 1' is less than 0.8"),
        (
            {"all_of": {"of": [{"similar": "0 1"}], "threshold": 0.9}},
            (
                "all_of: score below the threshold of 0.9:"
                " similar: similarity to '0 1' is less than 0.8"
            ),
        ),
        (
            {"python": {"target": "1 / len(output)", "threshold": 0.9}},
            "python: 1 / len(output) gave a score below 0.9",
        ),
    ],
)
async def test_measured_figures_do_not_keep_failures_apart(
    tmp_path: Path, expect: dict[str, Any], missed: str
) -> None:
    answers = {"a": "Lyon it is", "b": "it must be Rome", "c": "Oslo, as all of us know"}
    write_suite(tmp_path, answering(answers, expect))
    ran = await ci_evals(tmp_path, "run", "--out", "out")
    assert f"3 cases: {missed}, in a (evals.yaml:1)" in " ".join(ran.stdout.decode().split())


@pytest.mark.parametrize(
    ("expect", "missed"),
    [
        ({"max_tool_calls": 1}, "max_tool_calls: more than 1 tool call"),
        ({"max_tool_calls": {"value": 0, "tool": "pay"}}, "max_tool_calls: more than 0 pay calls"),
        ({"max_steps": 1}, "max_steps: more than 1 step"),
        ({"max_model_requests": 0}, "max_model_requests: more than 0 model requests"),
        (
            {"tool_call": "search"},
            ("tool_call: expected no other call, which `ignore_extra_calls: true` accepts"),
        ),
        (
            {"trajectory": {"calls": ["search"], "match": "subset"}},
            "trajectory: made an unexpected call; expected search",
        ),
        (
            {"tool_arguments": {"tool": "pay", "arguments": {"eur": 1}}},
            "tool_arguments: pay: argument eur: expected 1",
        ),
        ({"no_tool_errors": True}, "no_tool_errors: pay failed"),
    ],
)
async def test_calls_made_do_not_keep_failures_apart(
    tmp_path: Path, expect: dict[str, Any], missed: str
) -> None:
    write_suite(
        tmp_path,
        answering({"a": "2", "b": "3", "c": "4"}, expect),
        providers=[{"type": "python", "target": "agent:answer"}],
    )
    (tmp_path / "agent.py").write_text(
        "def answer(text):\n"
        "    steps = [{'kind': 'model_request', 'name': 'm'}] * int(text)\n"
        "    steps += [{'kind': 'tool_call', 'name': 'search', 'arguments': {}}]\n"
        "    for number in range(2, int(text) + 1):\n"
        "        steps += [{'kind': 'tool_call', 'name': 'pay', 'arguments': {'eur': number},\n"
        "                   'error': f'refused after {text}'}]\n"
        "    return {'output': 'done', 'steps': steps}\n",
        "utf-8",
    )
    ran = await ci_evals(tmp_path, "run", "--out", "out")
    assert f"3 cases: {missed}, in a (evals.yaml:1)" in " ".join(ran.stdout.decode().split())


@pytest.mark.parametrize(
    "expect", [{"is_json": True}, {"json_path": "$.a"}, {"python": "json.loads(output)['a']"}]
)
async def test_answers_that_stop_being_json_at_different_places_fail_alike(
    tmp_path: Path, expect: dict[str, Any]
) -> None:
    (name,) = expect
    write_suite(tmp_path, answering({"a": "[1", "b": '{"a": 1', "c": "[1, 2, 3"}, expect))
    ran = await ci_evals(tmp_path, "run", "--out", "out")
    shown = " ".join(ran.stdout.decode().split())
    assert re.search(rf"3 cases: {name}[^:]*: is not JSON, in a \(evals.yaml:1\)", shown)


async def test_runs_that_fail_alike_have_one_reason(tmp_path: Path) -> None:
    write_suite(
        tmp_path,
        [{"id": "capital", "input": "?", "expect": [{"equals": "Paris"}]}],
        providers=[{"type": "python", "target": "cities:guess"}],
        runs=3,
    )
    (tmp_path / "cities.py").write_text(
        "def guess(_, request):\n    return ['Lyon', 'Rome', 'Oslo'][request.run - 1]\n", "utf-8"
    )
    ran = await ci_evals(tmp_path, "run", "--out", "out")
    assert "    equals: expected 'Paris'\n" in ran.stdout.decode()


async def test_a_journal_with_all_of_it_in_the_reason_still_reads(tmp_path: Path) -> None:
    write_suite(tmp_path, answering({"a": "Lyon"}, {"equals": "Paris"}))
    await ci_evals(tmp_path, "run", "--out", "old")
    journal = tmp_path / "old/results.jsonl"
    header, line = journal.read_text("utf-8").splitlines()
    result = json.loads(line)
    (grade,) = result["grades"]
    grade["reason"] += f", got {grade.pop('got')}"
    journal.write_text(f"{header}\n{json.dumps(result)}\n", "utf-8")
    ran = await ci_evals(tmp_path, "run", "--out", "new", "--resume-from", "old")
    assert "equals: expected 'Paris', got 'Lyon'\n" in ran.stdout.decode()


async def test_a_negated_check_that_passes_shows_no_answer(tmp_path: Path) -> None:
    write_suite(tmp_path, answering({"a": "all fine"}, {"not_contains": "Traceback"}))
    await ci_evals(tmp_path, "run", "--out", "out")
    shown = await ci_evals(tmp_path, "explain", "a", "--report", "out")
    lines = [line.strip() for line in shown.out.splitlines()]
    assert "✓ not_contains: does not contain 'Traceback'" in lines
