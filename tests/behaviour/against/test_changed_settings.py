"""Settings of a change that differ from main's: weaker ones are borderline, others are said."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from repositories import RESULTS, Repository, against_main, results_in
from suites import AGENT, ONE_CASE, write_suite

from ci_evals.reports.notes import comparison_notes
from ci_evals.reports.read import read_summary

CASES: list[dict[str, Any]] = [
    {"id": "refund", "input": "refund", "expect": [{"contains": "refund"}], "critical": True},
    {"id": "cancel", "input": "cancel", "expect": [{"contains": "cancel"}]},
    {"id": "faq", "input": "faq", "expect": [{"contains": "faq"}]},
]
REFUND, CANCEL, FAQ = CASES
ECHOES = "def answer(question):\n    return f'{question}!'\n"
MOCK = {"name": "agent", "type": "mock"}


def shop_of(folder: Path, **settings: Any) -> Repository:
    """A repository whose main has a suite, and an agent that repeats the question."""
    shop = Repository.new(folder)
    change(folder, **settings)
    shop.commit({"agent.py": ECHOES, ".gitignore": "__pycache__/\nci-evals-results/\n"})
    return shop


def change(folder: Path, **settings: Any) -> None:
    """Write the suite of the working tree."""
    write_suite(
        folder,
        **{"name": "shop", "providers": [AGENT], "runs": 2, "cases": CASES, **settings},
    )


def document(folder: Path) -> Any:
    return json.loads((folder / RESULTS / "report.json").read_text())


def rules(folder: Path) -> list[str]:
    """The rules that speak against merging."""
    return [rule["rule"] for rule in document(folder)["verdict"]["rules"]]


def runs_here(folder: Path) -> int:
    return len(results_in(folder / RESULTS / "results.jsonl"))


@pytest.mark.parametrize(
    ("main", "here", "told"),
    [
        ({}, {"providers": [MOCK]}, "agent is a mock (python)"),
        ({"confirm_runs": 7}, {"confirm_runs": 0}, "confirm_runs 0 (7)"),
        ({}, {"confirm_runs": 3}, "confirm_runs 3 (10)"),
        ({}, {"cases": [CANCEL, FAQ]}, "without the critical case refund"),
        ({}, {"cases": [{**REFUND, "critical": False}, CANCEL, FAQ]}, "refund is not critical"),
        (
            {"gate": {"min_pass_rate": 0.9}},
            {"gate": {"min_pass_rate": 0.5}},
            "min_pass_rate 0.5 (0.9)",
        ),
        ({}, {"gate": {"min_pass_rate": 0.5}}, "min_pass_rate 0.5 (not set)"),
        ({"gate": {"ratchet": True}}, {}, "ratchet false (true)"),
        ({}, {"gate": {"max_regressions": 3}}, "max_regressions 3 (0)"),
        (
            {},
            {"cases": [REFUND, {**CANCEL, "min_pass_rate": 0.2}, FAQ]},
            "bar of cancel 0.2 (not set)",
        ),
        ({}, {"budget": {"max_duration_s": 600}}, "budget.max_duration_s 600 (none)"),
        (
            {"budget": {"max_duration_s": 900}},
            {"budget": {"max_duration_s": 599.5}},
            "budget.max_duration_s 599.5 (900)",
        ),
    ],
    ids=[
        "a mock",
        "no confirm runs",
        "few confirm runs",
        "a critical case removed",
        "a case no longer critical",
        "a lower bar",
        "a bar where every run had to pass",
        "no ratchet",
        "allowed regressions",
        "a lower bar of a case",
        "a new limit of the budget",
        "a lower limit of the budget",
    ],
)
async def test_what_is_weaker_than_on_main_is_borderline(
    tmp_path: Path, main: Mapping[str, Any], here: Mapping[str, Any], told: str
) -> None:
    shop = shop_of(tmp_path, **main)
    sha = shop.git("rev-parse", "HEAD")[:7]
    change(tmp_path, **{**dict.fromkeys(main, ...), **here})
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "BORDERLINE" in ended.headline
    assert f"weaker than on main ({sha}): {told}" in ended.unwrapped
    assert f"Changed here: unlike on main ({sha}): {told}" in ended.unwrapped
    assert "Gate changed" not in ended.out, "it is said once"
    assert rules(tmp_path)[0] == "settings"
    summary = (tmp_path / RESULTS / "summary.md").read_text()
    assert "Changed here" in summary


@pytest.mark.parametrize(
    ("main", "here", "told"),
    [
        ({}, {"runs": 4}, "runs 4 (2)"),
        ({}, {"cases": [*CASES, {**FAQ, "id": "more", "input": "faq?"}]}, "1 new case"),
        ({}, {"gate": {"ratchet": True}}, "ratchet true (false)"),
        (
            {"gate": {"min_pass_rate": 0.5}},
            {"gate": {"min_pass_rate": 0.9}},
            "min_pass_rate 0.9 (0.5)",
        ),
        ({"gate": {"min_pass_rate": 0.5}}, {}, "min_pass_rate not set (0.5)"),
        ({"confirm_runs": 3}, {"confirm_runs": 7}, "confirm_runs 7 (3)"),
        ({"providers": [MOCK]}, {}, "agent is of type python (mock)"),
        (
            {"providers": [{**MOCK, "seed": 1}]},
            {"providers": [{**MOCK, "seed": 2}]},
            "other settings of agent",
        ),
        ({}, {"cases": [REFUND, {**CANCEL, "critical": True}, FAQ], "runs": 3}, "runs 3 (2)"),
        ({}, {"setup": [{"python": "agent:ready"}]}, "another setup"),
        (
            {"budget": {"max_duration_s": 600}},
            {"budget": {"max_duration_s": 900}},
            "budget.max_duration_s 900 (600)",
        ),
        ({"budget": {"max_duration_s": 600}}, {}, "budget.max_duration_s none (600)"),
        ({}, {"against": {"env": {"LEVEL": "debug"}}}, "against (from the next change on)"),
        ({}, {"against": {"prepare": "no-such-program"}}, "against (from the next change on)"),
        ({}, {"against": "off"}, "against (from the next change on)"),
    ],
    ids=[
        "more runs",
        "a new case",
        "a ratchet",
        "a higher bar",
        "no bar, so that all must pass",
        "more confirm runs",
        "no mock any more",
        "other settings of the same kind",
        "another critical case",
        "another setup",
        "a higher limit of the budget",
        "no limit of the budget",
        "other variables of main",
        "a command that prepares main",
        "main is switched off",
    ],
)
async def test_an_upgrade_is_said_and_passes(
    tmp_path: Path, main: Mapping[str, Any], here: Mapping[str, Any], told: str
) -> None:
    shop = shop_of(tmp_path, **main)
    shop.write({"agent.py": f"{ECHOES}\n\ndef ready():\n    return {{}}\n"})
    change(tmp_path, **{**{key: ... for key in main if key != "providers"}, **here})
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "PASS" in ended.headline
    assert f": {told}" in ended.unwrapped
    assert "weaker" not in ended.out
    assert rules(tmp_path) == []


async def test_a_provider_under_another_name_is_the_same(tmp_path: Path) -> None:
    shop_of(tmp_path)
    change(tmp_path, providers=[{**AGENT, "name": "bot"}])
    ended = await against_main(tmp_path)
    assert "PASS" in ended.headline, ended.out + ended.err
    assert "Changed here" not in ended.out


async def test_the_same_key_against_is_not_listed(tmp_path: Path) -> None:
    """Though its variables have another value in main's process than in the job."""
    against = {"env": {"LEVEL": "${LEVEL}, again"}}
    shop = shop_of(tmp_path, against=against)
    shop.write({"agent.py": f"{ECHOES}# new\n"})
    ended = await against_main(tmp_path, environ={"LEVEL": "debug"})
    assert "PASS" in ended.headline, ended.out + ended.err
    assert "Changed here" not in ended.out


async def test_a_mock_under_another_name_is_weaker(tmp_path: Path) -> None:
    shop_of(tmp_path)
    change(tmp_path, providers=[{**MOCK, "name": "bot"}])
    ended = await against_main(tmp_path)
    assert "weaker than on main" in ended.headline
    assert "bot is a mock (python)" in ended.headline


async def test_a_renamed_critical_case_is_not_removed(tmp_path: Path) -> None:
    shop_of(tmp_path)
    change(tmp_path, cases=[{**REFUND, "id": "money back"}, CANCEL, FAQ])
    ended = await against_main(tmp_path)
    assert "PASS" in ended.headline, ended.out + ended.err
    assert "Changed here" not in ended.out


async def test_cases_that_recordings_answer_are_weaker(tmp_path: Path) -> None:
    shop_of(tmp_path)
    (tmp_path / "answer.json").write_text(json.dumps({"output": "refund, cancel, faq"}))
    recorded = {"overrides": {"recorded": "answer.json"}}
    change(tmp_path, cases=[{**case, **recorded} for case in CASES])
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "BORDERLINE" in ended.headline
    assert "recordings answer refund, cancel, faq" in ended.unwrapped


@pytest.mark.parametrize("level", ["the suite", "a case"])
async def test_fewer_runs_than_on_main_are_made_up_for(tmp_path: Path, level: str) -> None:
    on_main: dict[str, Any] = {"runs": 5}
    here: dict[str, Any] = {"runs": 1}
    told = "runs 1 (5)"
    if level == "a case":
        on_main = {"cases": [{**REFUND, "runs": 5}, CANCEL, FAQ]}
        here = {"cases": [{**REFUND, "runs": 1}, CANCEL, FAQ]}
        told = "runs of refund 1 (5)"
    shop_of(tmp_path, **on_main)
    change(tmp_path, **here)
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert told in ended.headline
    assert runs_here(tmp_path) == (15 if level == "the suite" else 9)
    cells = {cell["case"]: cell["planned"] for cell in document(tmp_path)["cells"]}
    assert cells["refund"] == 5
    resumed = await against_main(tmp_path, "--resume")
    assert resumed.headline == ended.headline
    assert runs_here(tmp_path) == (15 if level == "the suite" else 9), "nothing is run again"


async def test_runs_of_the_command_line_hold_for_both_sides(tmp_path: Path) -> None:
    shop_of(tmp_path, runs=5)
    ended = await against_main(tmp_path, "--runs", "1", "--confirm-runs", "0")
    assert ended.code == 2 or "PASS" in ended.headline, ended.out + ended.err
    shop = Repository(tmp_path)
    shop.write({"agent.py": f"{ECHOES}# new\n"})
    ended = await against_main(tmp_path, "--runs", "1", "--confirm-runs", "0")
    assert "PASS" in ended.headline, ended.out + ended.err
    assert "Changed here" not in ended.out
    assert runs_here(tmp_path) == 3


async def test_a_selection_misses_no_case(tmp_path: Path) -> None:
    shop = shop_of(tmp_path)
    shop.write({"agent.py": f"{ECHOES}# new\n"})
    ended = await against_main(tmp_path, "--case", "cancel")
    assert "PASS" in ended.headline, ended.out + ended.err
    assert "Changed here" not in ended.out


async def test_a_report_with_weaker_settings_is_judged_again_as_it_was(tmp_path: Path) -> None:
    shop_of(tmp_path)
    change(tmp_path, providers=[MOCK])
    ended = await against_main(tmp_path)
    read = read_summary(tmp_path / RESULTS)
    assert read.verdict.status == "borderline"
    assert read.verdict.sentence in ended.unwrapped
    (note,) = [each for each in comparison_notes(read) if each.label == "Changed here"]
    assert f"Changed here: {note.text}" in ended.unwrapped


async def test_hostile_names_stay_on_their_line(tmp_path: Path) -> None:
    evil = {
        **ONE_CASE,
        "input": "hello!",
        "expect": [{"contains": "hello"}],
        "id": "a\n::error::b\u202e",
        "critical": True,
    }
    shop_of(tmp_path, cases=[*CASES, evil])
    change(tmp_path)
    ended = await against_main(tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert "without the critical case" in ended.unwrapped
    assert not any(line.startswith("::error::") for line in ended.out.splitlines())
