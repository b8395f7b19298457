"""Why runs failed: what was missed, what the answers have instead, and which failures are alike."""

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
    assert '    no "error: got 5" in the answer\n' in ran.stdout.decode()
    assert "no &#34;error: got 5&#34; in the answer" in (tmp_path / "out/summary.md").read_text(
        "utf-8"
    )
    (grade,) = report_in(tmp_path / "out")["results"][0]["grades"]
    assert grade["reason"] == 'no "error: got 5" in the answer'
    assert grade.get("sentence") is None


@pytest.mark.parametrize(
    ("expect", "missed"),
    [
        ({"equals": "Paris"}, 'the answer is not "Paris"'),
        ({"ends_with": "Paris"}, 'the answer does not end with "Paris"'),
        ({"starts_with": "Paris"}, 'the answer does not start with "Paris"'),
        ({"contains": "Paris"}, 'no "Paris" in the answer'),
        ({"not_regex": "[LRO]"}, "`[LRO]` matches in the answer"),
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
        ({"word_count": 1}, "more than 1 word"),
        ({"word_count": {"min": 9}}, "fewer than 9 words"),
        ({"not_word_count": 9}, "no more than 9 words"),
        ({"max_length": 5}, "more than 5 characters"),
        ({"similar": "0 1"}, 'similarity to "0 1" is less than 0.8'),
        (
            {"all_of": {"of": [{"similar": "0 1"}], "threshold": 0.9}},
            'score below 0.9: similarity to "0 1" is less than 0.8',
        ),
        (
            {"python": {"target": "1 / len(output)", "threshold": 0.9}},
            "python: 1 / len(output) gave less than 0.9",
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
        ({"max_tool_calls": 1}, "more than 1 tool call"),
        ({"max_tool_calls": {"value": 0, "tool": "pay"}}, "more than 0 pay calls"),
        ({"max_steps": 1}, "more than 1 step"),
        ({"max_model_requests": 0}, "more than 0 model requests"),
        (
            {"tool_call": "search"},
            "a further tool call, which `ignore_extra_calls: true` accepts",
        ),
        (
            {"trajectory": {"calls": ["search"], "match": "subset"}},
            "an unexpected call",
        ),
        (
            {"tool_arguments": {"tool": "pay", "arguments": {"eur": 1}}},
            "pay: eur is not 1",
        ),
        ({"no_tool_errors": True}, 'a call of "pay" failed'),
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
    write_suite(tmp_path, answering({"a": "[1", "b": '{"a": 1', "c": "[1, 2, 3"}, expect))
    ran = await ci_evals(tmp_path, "run", "--out", "out")
    shown = " ".join(ran.stdout.decode().split())
    assert re.search(r"3 cases: (python: )?the answer is not JSON, in a \(evals.yaml:1\)", shown)


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
    assert '    the answer is not "Paris"\n' in ran.stdout.decode()


async def test_a_negated_check_that_passes_shows_no_answer(tmp_path: Path) -> None:
    write_suite(tmp_path, answering({"a": "all fine"}, {"not_contains": "Traceback"}))
    await ci_evals(tmp_path, "run", "--out", "out")
    shown = await ci_evals(tmp_path, "explain", "a", "--report", "out")
    lines = [line.strip() for line in shown.out.splitlines()]
    assert '✓ no "Traceback" in the answer' in lines
