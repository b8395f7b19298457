"""docs/contributing.md: its examples, added to a copy of the package as they stand there, work."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from extended_copies import additions, extended_copy, run

SUITE = {
    "providers": [{"type": "shout", "times": 2}],
    "cases": [
        {"id": "greeting", "input": "hi", "expect": [{"line_count": 1}, {"equals": "HI HI"}]}
    ],
    "report": {"formats": ["json", "csv"]},
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = extended_copy(tmp_path_factory.mktemp("checkout"))
    (copy / "evals.yaml").write_text(json.dumps(SUITE), "utf-8")
    return copy


def test_a_grader_a_provider_and_a_format_are_added_as_the_page_says(checkout: Path) -> None:
    ended = run(checkout, "run", "--out", "out")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (checkout / "out" / "results.csv").read_text("utf-8").splitlines() == [
        "case,provider,passed,graded",
        "greeting,shout,3,3",
    ]
    assert "at most 1 lines" in (checkout / "out" / "results.jsonl").read_text("utf-8")


def test_a_command_is_added_as_the_page_says(checkout: Path) -> None:
    assert run(checkout, "cases").stdout == "greeting\n"


def write_suite_of_tags(checkout: Path, **limits_s: float) -> None:
    """Write a suite of two tags, one of which takes 20 ms to answer and the other no time."""
    suite = {
        "runs": 5,
        "providers": [
            {"type": "mock", "name": "slow", "latency_s": 0.02},
            {"type": "mock", "name": "fast"},
        ],
        "cases": [
            {"id": "greeting", "input": "hi", "tags": ["chat"], "providers": ["slow"]},
            {"id": "shoes", "input": "shoes", "tags": ["search"], "providers": ["fast"]},
        ],
        "expect": [{"not_empty": True}],
        "gate": {"max_latency_p95_s": limits_s},
    }
    (checkout / "tags.yaml").write_text(json.dumps(suite), "utf-8")


def rules_of(checkout: Path, out: str) -> list[dict[str, str]]:
    report = json.loads((checkout / out / "report.json").read_text("utf-8"))
    rules: list[dict[str, str]] = report["verdict"]["rules"]
    return rules


def test_a_rule_is_added_as_the_page_says(checkout: Path) -> None:
    write_suite_of_tags(checkout, chat=0.01, search=30)
    ended = run(checkout, "run", "tags.yaml", "--out", "tags")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    sentence = "tag chat: 5 of 5 runs took more than 0.01 s, and the gate allows 5 %"
    assert rules_of(checkout, "tags") == [
        {"rule": "slow tag", "status": "fail", "sentence": sentence}
    ]


def test_the_rule_leaves_out_what_was_not_selected_and_passes_only_what_was_measured(
    checkout: Path,
) -> None:
    write_suite_of_tags(checkout, chat=0.01, search=30)
    part = ("run", "tags.yaml", "--case", "shoes")
    ended = run(checkout, *part, "--out", "part")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert rules_of(checkout, "part") == []
    run(checkout, *part, "--out", "again", "--replay", "part/results.jsonl")
    sentence = "tag search: no run was measured, so max_latency_p95_s: 30 was not checked"
    assert rules_of(checkout, "again") == [
        {"rule": "slow tag", "status": "borderline", "sentence": sentence}
    ]


def test_the_rule_refuses_a_tag_that_no_case_has(checkout: Path) -> None:
    write_suite_of_tags(checkout, chatt=1)
    ended = run(checkout, "validate", "tags.yaml")
    assert ended.returncode == 2
    assert "unknown tag 'chatt', did you mean 'chat'?" in ended.stdout + ended.stderr


def test_what_is_added_is_in_the_schema(checkout: Path) -> None:
    schema = run(checkout, "schema").stdout
    assert all(
        f'"{name}"' in schema for name in ("word_count", "shout", "csv", "max_latency_p95_s")
    )


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff_has_nothing_to_say_about_what_the_page_adds(checkout: Path, check: list[str]) -> None:
    changed = {name for _, name, _ in additions()}
    command = [sys.executable, "-m", "ruff", *check, "--no-cache", *sorted(changed)]
    ended = subprocess.run(
        command, cwd=checkout, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
