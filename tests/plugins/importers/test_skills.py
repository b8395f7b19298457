"""Evals of agent skills become suites: those of skill-creator, lists of triggers, bare skills."""

import json
from pathlib import Path
from typing import Any

import pytest
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
        {
            "id": 2,
            "prompt": "Sort these.",
            "expected_output": "A list",
            "files": ["evals/files/letters.txt", "evals/files/letters.stamps"],
        },
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
    (skill / "evals" / "files").mkdir()
    for file in ("letters.txt", "letters.stamps"):
        (skill / "evals" / "files" / file).write_text("Rome\nOslo\n")
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
    rome, letters = suite["cases"]
    assert rome["input"] == "Which stamp does a letter to Rome need?"
    assert [expectation["judge"] for expectation in rome["expect"]] == [
        "The result is as described: The price of a letter abroad.",
        "The price is in euros.",
        "The country is named.",
    ]
    unknown = {"media_type": "application/octet-stream"}
    assert letters["input"] == [
        {"text": "Sort these."},
        {"file": "stamps/evals/files/letters.txt"},
        {"file": "stamps/evals/files/letters.stamps", **unknown},
    ]


async def test_evals_may_have_assertions_no_id_and_keys_of_their_own(tmp_path: Path) -> None:
    statements = ["It is short.", {"text": "It is kind.", "type": "llm"}]
    row = {"prompt": "Write.", "assertions": statements, "setup": "make"}
    write_skill(tmp_path, "stamps", evals={"skill_name": "stamps", "evals": [row]})
    done = await ci_evals(tmp_path, "import", "stamps/evals/evals.json", "--to", "evals.yaml")
    assert done.code == 0, done.err
    assert "not imported: stamps/evals/evals.json:1: setup: " in done.err
    (case,) = suite_in(tmp_path)["cases"]
    assert case["id"] == "stamps 1"
    assert case["expect"] == [{"judge": "It is short."}, {"judge": "It is kind."}]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (["evals/files/none.txt"], "files[0]: there is no evals/files/none.txt in the skill's"),
        (["evals/files/letters.txt", "evals"], "files[1]: evals is a folder: list its files"),
        (["../secret.txt"], "files[0]: ../secret.txt is outside the skill's folder"),
        (["link.txt"], "files[0]: link.txt is outside the skill's folder"),
        (["/etc/hostname"], "files[0]: /etc/hostname is outside the skill's folder"),
        ([1], "files[0]: expected a path in the skill's folder"),
        (["a\0b"], "files[0]: expected a path in the skill's folder"),
        ("letters.txt", "files: expected a list of paths in the skill's folder"),
    ],
)
async def test_a_file_that_is_not_in_the_skill_is_told_before_anything_is_written(
    tmp_path: Path, files: Any, told: str
) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    evals = {"skill_name": "stamps", "evals": [{"id": 1, "prompt": "Sort.", "files": files}]}
    skill = write_skill(tmp_path, "stamps", evals=evals)
    (skill / "link.txt").symlink_to(tmp_path / "secret.txt")
    done = await ci_evals(tmp_path, "import", "stamps/evals/evals.json", "--to", "evals.yaml")
    assert done.code == 2
    assert f"stamps/evals/evals.json:1: evals[0].{told}" in done.err
    assert not (tmp_path / "evals.yaml").exists()


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
    assert suite["cases"][3]["input"][1] == {"file": "skills/stamps/evals/files/letters.txt"}
    assert "not imported" not in done.out + done.err


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


async def test_an_eval_without_a_prompt_is_told_with_its_line(tmp_path: Path) -> None:
    skill = write_skill(tmp_path, "stamps")
    evals = '{"skill_name": "stamps", "evals": [\n{"id": 1, "prompt": "Hi"},\n{"id": 2}]}'
    (skill / "evals" / "evals.json").write_text(evals)
    done = await ci_evals(tmp_path, "import", "stamps/evals/evals.json")
    assert done.code == 2
    assert "stamps/evals/evals.json:3: evals[1]: expected an eval with a `prompt`" in done.err
