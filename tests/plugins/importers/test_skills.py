"""Evals of agent skills become suites: those of skill-creator, lists of triggers, bare skills."""

import json
from pathlib import Path
from typing import Any

from processes import ci_evals

from ci_evals.suite.yaml import parse

EVALS = {
    "skill_name": "stamps",
    "evals": [
        {
            "id": 1,
            "prompt": "Which stamp does a letter to Rome need?",
            "expected_output": "The price of a letter abroad.",
            "files": [],
            "expectations": ["The price is in euros.", "The country is named."],
        },
        {"id": 2, "prompt": "Sort these.", "expected_output": "A list", "files": ["a.txt"]},
    ],
}
TRIGGERS = [
    {"query": "I need stamps for Rome.", "should_trigger": True},
    {"query": "What is a postmark?", "should_trigger": False},
]


def write_skill(folder: Path, name: str, **files: Any) -> Path:
    skill = folder / name
    (skill / "evals").mkdir(parents=True)
    front_matter = f"---\nname: {name}\ndescription: Sells {name}.\n---\n"
    (skill / "SKILL.md").write_text(front_matter)
    for file, content in files.items():
        (skill / "evals" / f"{file}.json").write_text(json.dumps(content))
    return skill


def suite_in(folder: Path) -> Any:
    value, _, problems = parse((folder / "evals.yaml").read_text("utf-8"), "evals.yaml")
    assert not problems
    return value


async def test_evals_of_skill_creator_run_with_and_without_the_skill(tmp_path: Path) -> None:
    write_skill(tmp_path, "stamps", evals=EVALS)
    done = await ci_evals(tmp_path, "import", "stamps/evals/evals.json", "--to", "evals.yaml")
    assert done.code == 0, done.err
    suite = suite_in(tmp_path)
    skills = [(each["skills"], each.get("without_skills")) for each in suite["providers"]]
    assert skills == [(["stamps"], None), (["stamps"], True)]
    rome, _ = suite["cases"]
    assert rome["input"] == "Which stamp does a letter to Rome need?"
    assert [expectation["judge"] for expectation in rome["expect"]] == [
        "The result is as described: The price of a letter abroad.",
        "The price is in euros.",
        "The country is named.",
    ]
    assert "files of stamps 2" in done.err


async def test_queries_become_labels_with_bars_for_precision_and_recall(tmp_path: Path) -> None:
    write_skill(tmp_path, "stamps", triggers=TRIGGERS)
    done = await ci_evals(tmp_path, "import", "stamps/evals/triggers.json", "--to", "evals.yaml")
    assert done.code == 0, done.err
    suite = suite_in(tmp_path)
    labels = [case["expect"][0]["classify"] for case in suite["cases"]]
    assert [(each["label"], each["skill"]) for each in labels] == [
        ("true", "stamps"),
        ("false", "stamps"),
    ]
    assert {tuple(case["providers"]) for case in suite["cases"]} == {("with skill",)}
    assert set(suite["gate"]["metrics"]) == {"stamps/recall.true", "stamps/precision.true"}


async def test_init_in_a_folder_of_skills_writes_a_suite_of_all(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "stamps", evals=EVALS, triggers=TRIGGERS)
    write_skill(tmp_path / "skills", "parcels")
    done = await ci_evals(tmp_path, "init")
    suite = suite_in(tmp_path)
    assert suite["providers"][0]["skills"] == ["skills/parcels", "skills/stamps"]
    assert [case["id"] for case in suite["cases"]] == [
        "parcels should trigger",
        "parcels should not trigger",
        "stamps 1",
        "stamps 2",
        "stamps query 1",
        "stamps query 2",
    ]
    assert "# No evals were found next to parcels." in (tmp_path / "evals.yaml").read_text()
    assert "files of stamps 2" in done.out + done.err


async def test_init_calls_an_agent_whose_folder_also_has_skills(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "stamps")
    (tmp_path / "agent.py").write_text("def answer(question):\n    return question\n")
    await ci_evals(tmp_path, "init")
    assert "agent:answer" in (tmp_path / "evals.yaml").read_text()


async def test_promptfoos_skill_used_is_ours(tmp_path: Path) -> None:
    asserts = [
        {"type": "skill-used", "value": "stamps"},
        {"type": "not-skill-used", "value": "parcels"},
    ]
    config = {
        "prompts": ["{{q}}"],
        "providers": ["openai:gpt-4.1"],
        "tests": [{"vars": {"q": "Hi"}, "assert": asserts}],
    }
    (tmp_path / "promptfooconfig.yaml").write_text(json.dumps(config))
    done = await ci_evals(tmp_path, "import", "promptfooconfig.yaml", "--to", "evals.yaml")
    assert done.code == 0, done.err
    assert suite_in(tmp_path)["cases"][0]["expect"] == [
        {"skill_used": "stamps"},
        {"not_skill_used": "parcels"},
    ]
