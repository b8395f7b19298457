"""The pages for users of other systems show the files of the examples, and these work."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from example_runs import EXAMPLES, run_example, run_script
from processes import python

PAGES = sorted((EXAMPLES.parent / "docs" / "coming-from").glob("*.md"))
SHOWN = re.compile(r"^\[`[^`]+`\]\(([^)]+)\):\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OTHERS_CODE = re.compile(r"^## Before\n\n```python\n.*?^```$", re.MULTILINE | re.DOTALL)
posix = pytest.mark.skipif(sys.platform == "win32", reason="the verifiers are shell scripts")


def test_there_is_a_page_for_each_system() -> None:
    assert [page.stem for page in PAGES] == [
        "deepeval",
        "inspect",
        "langsmith",
        "others",
        "promptfoo",
        "pydantic-evals",
    ]


def test_one_page_leads_to_the_examples_for_the_other_systems() -> None:
    (others,) = (page for page in PAGES if page.stem == "others")
    linked = set(re.findall(r"examples/coming_from_(\w+)/", others.read_text(encoding="utf-8")))
    assert linked == {"ag2", "helios", "promptopus", "russo"}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem != "others"], ids=lambda page: page.stem
)
def test_the_page_shows_the_files_as_they_are(page: Path) -> None:
    text = OTHERS_CODE.sub("", page.read_text(encoding="utf-8"))
    shown = SHOWN.findall(text)
    assert len(shown) == len(re.findall(r"^```(?:yaml|python)$", text, re.MULTILINE)) > 0
    for link, block in shown:
        path = (page.parent / link).resolve()
        assert path.is_relative_to(EXAMPLES / f"coming_from_{page.stem.replace('-', '_')}")
        assert block == path.read_text(encoding="utf-8"), link


# russo


def test_what_is_spoken_is_cached_and_every_prompt_is_run_thrice(tmp_path: Path) -> None:
    report = run_example("coming_from_russo", tmp_path)
    assert (
        report["totals"]["passed"],
        report["totals"]["planned"],
        report["totals"]["match_rate"],
    ) == (6, 6, 1)
    assert len(list((tmp_path / "results" / "files").glob("*.wav"))) == 2
    assert (tmp_path / "results" / "report.html").exists()
    cached = sorted((tmp_path / "results" / "cache").rglob("*"))
    assert cached
    run_example("coming_from_russo", tmp_path)
    assert sorted((tmp_path / "results" / "cache").rglob("*")) == cached


def test_the_tests_pass_whatever_the_counts_on_the_command_line(tmp_path: Path) -> None:
    project = EXAMPLES / "coming_from_russo"
    options = [
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        str(project),
        f"--evals-report={tmp_path}",
    ]
    done = python(
        project,
        *("-m", "pytest", *options, "--evals-runs=7", "--evals-max-concurrency=2"),
        environ={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p ci_evals"},
    )
    assert done.code == 0, done.out + done.err
    assert "test_prompts_times_runs: 4 of 6 runs passed" in done.out
    assert "test_a_suite_file: 14 of 14 runs passed" in done.out
    assert len(list(tmp_path.glob("*/report.html"))) == 3


# ag2


def test_each_run_of_the_script_is_kept_under_its_id(tmp_path: Path) -> None:
    for _ in range(2):
        said, _ = run_script("coming_from_ag2/evaluate_agent.py", tmp_path, "store")
        assert said.splitlines() == [
            "1= terse 100%",
            "1= friendly 100%",
            "over budget: 3",
            "kept: True",
        ]
    assert len(list((tmp_path / "store").glob("*.json"))) == 2


# pydantic-evals


def test_the_dataset_is_compared_with_its_baseline(tmp_path: Path) -> None:
    said, _ = run_script("coming_from_pydantic_evals/capitals.py", tmp_path)
    rows = {line.split("  ")[0].strip(): line for line in said.splitlines()}
    assert re.search(r"100 % +66.7 % +-33.3 points", rows["pass rate"])
    assert re.search(r"8 of 8 +0 of (8|22) +regressed", rows["japan"])
    assert re.search(r"8 of 8 +8 of 8 +unchanged", rows["italy"])


def test_the_dataset_file_passes(tmp_path: Path) -> None:
    assert run_example("coming_from_pydantic_evals", tmp_path)["totals"]["passed"] == 6


# helios


@posix
def test_the_batch_has_its_numbers_and_tells_of_each_task(tmp_path: Path) -> None:
    said, told = run_script("coming_from_helios/batch.py", tmp_path, "results")
    assert said.startswith("total 8, passed 6, failed 2, mean reward 0.88\n")
    assert (
        len(
            re.findall(
                r"^  sorting by quick: failed, 0.5, [\d.]+ s, error None$", said, re.MULTILINE
            )
        )
        == 2
    )
    assert "careful: pass@2 100%, mean reward 1.00\nquick: pass@2 50%, mean reward 0.75\n" in said
    assert len(told.splitlines()) == 8
    assert (tmp_path / "results" / "batch.json").exists()
    assert (tmp_path / "results" / "tasks" / "sorting" / "quick" / "run-2").is_dir()


@posix
def test_the_task_suite_holds_only_one_agent_to_a_bar(tmp_path: Path) -> None:
    report = run_example("coming_from_helios", tmp_path)
    assert {each["provider"]: each["pass_at_k"] for each in report["variants"]} == {
        "careful": 1,
        "quick": 0.5,
    }


# promptopus


def test_providers_are_compared_by_quality_cost_and_latency(tmp_path: Path) -> None:
    report = run_example("coming_from_promptopus", tmp_path)
    by_name = {each["provider"]: each for each in report["variants"]}
    assert {name: each["pass_rate"] for name, each in by_name.items()} == {
        "careful": 1,
        "hasty": 0,
        "busy": 1,
    }
    assert by_name["hasty"]["grader_means"]["judge"] == 0
    assert all(
        each["figures"]["priced_runs"] == 4 and each["figures"]["latency_p95_s"]
        for each in by_name.values()
    )
    assert by_name["careful"]["figures"]["cost_usd"] > by_name["hasty"]["figures"]["cost_usd"] > 0
    assert by_name["busy"]["counts"]["errored"] == 0
    assert (
        max(
            result.get("attempts", 1)
            for result in report["results"]
            if result["provider"] == "busy"
        )
        > 1
    )
    assert (tmp_path / "results" / "report.html").exists()


def test_some_providers_can_be_asked_alone(tmp_path: Path) -> None:
    report = run_example("coming_from_promptopus", tmp_path, "--providers", "careful,busy")
    assert {each["provider"] for each in report["variants"]} == {"careful", "busy"}


# promptfoo


def test_the_config_runs_as_it_is_and_an_import_makes_the_suite_that_is_shown(
    tmp_path: Path,
) -> None:
    source, copy = EXAMPLES / "coming_from_promptfoo", tmp_path / "project"
    copy.mkdir()
    for name in ("promptfooconfig.yaml", "bot.py"):
        shutil.copy(source / name, copy)
    done = python(copy, "-m", "ci_evals", "import", "promptfooconfig.yaml", "--to", "evals.yaml")
    assert done.code == 0, done.out + done.err
    for name in ("evals.yaml", "promptfoo_agents.py"):
        assert (copy / name).read_text("utf-8") == (source / name).read_text("utf-8")
    assert run_example("coming_from_promptfoo", tmp_path)["totals"]["passed"] == 6


# deepeval


def test_the_goldens_have_become_the_cases_that_are_shown(tmp_path: Path) -> None:
    source = EXAMPLES / "coming_from_deepeval"
    done = python(tmp_path, "-m", "ci_evals", "import", str(source / "goldens.json"))
    imported = yaml.safe_load(done.out)["cases"]
    assert imported == yaml.safe_load((source / "evals.yaml").read_text("utf-8"))["cases"]


def test_the_metrics_are_graders(tmp_path: Path) -> None:
    report = run_example("coming_from_deepeval", tmp_path)
    assert report["totals"]["passed"] == 6
    graders = {grade["grader"] for result in report["results"] for grade in result["grades"]}
    assert graders == {"judge", "all_of"}


# Inspect


def test_the_samples_are_run_in_epochs(tmp_path: Path) -> None:
    report = run_example("coming_from_inspect", tmp_path)
    assert (report["totals"]["passed"], report["totals"]["planned"]) == (10, 10)


# LangSmith


def test_the_target_and_the_evaluator_are_called_as_they_were(tmp_path: Path) -> None:
    report = run_example("coming_from_langsmith", tmp_path)
    assert {result["case"] for result in report["results"]} == {"8f1c", "2b7d"}
    assert {grade["reason"] for result in report["results"] for grade in result["grades"]} >= {
        "3 words"
    }
