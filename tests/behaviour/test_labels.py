"""What reports are told apart and grouped by."""

from pathlib import Path
from typing import Any

from leftovers import report_in
from processes import ci_evals
from suites import ONE_CASE, write_suite


async def identity(folder: Path, *arguments: str, **environ: str) -> dict[str, Any]:
    ended = await ci_evals(folder, "run", "--out", "out", *arguments, environ=environ)
    assert ended.code == 0, ended.err
    suite = report_in(folder / "out")["suite"]
    assert isinstance(suite, dict)
    return suite


async def test_a_label_is_kept_and_the_nearest_one_wins(tmp_path: Path) -> None:
    write_suite(tmp_path, settings={"label": "nightly"})
    assert (await identity(tmp_path))["label"] == "nightly"
    assert (await identity(tmp_path, CI_EVALS_LABEL="branch"))["label"] == "branch"
    assert (await identity(tmp_path, "--label", "mine", CI_EVALS_LABEL="branch"))["label"] == "mine"


async def test_a_run_id_stays_while_its_journal_is_gone_on_with(tmp_path: Path) -> None:
    write_suite(tmp_path)
    first = (await identity(tmp_path))["run_id"]
    assert (await identity(tmp_path, "--resume"))["run_id"] == first
    assert (await identity(tmp_path))["run_id"] != first


async def test_a_case_may_take_what_its_own_budget_says(tmp_path: Path) -> None:
    cases: list[dict[str, Any]] = [
        ONE_CASE,
        {**ONE_CASE, "id": "wide", "budget": {"max_tokens": 1000}},
    ]
    write_suite(tmp_path, cases, budget={"per_run": {"max_tokens": 1}})
    await identity(tmp_path)
    results = report_in(tmp_path / "out")["results"]
    assert {result["case"]: result.get("budget_violations") for result in results} == {
        "greeting": ["2 tokens of 1"],
        "wide": None,
    }


async def test_a_run_is_named_by_the_id_that_a_ci_system_gave_it(tmp_path: Path) -> None:
    write_suite(tmp_path)
    assert (await identity(tmp_path, CI_EVALS_RUN_ID="build-7"))["run_id"] == "build-7"
    for name in ("summary.md", "report.html", "junit.xml"):
        assert "build-7" in (tmp_path / "out" / name).read_text("utf-8")
    assert (await identity(tmp_path, "--run-id", "mine", CI_EVALS_RUN_ID="build-7"))[
        "run_id"
    ] == "mine"
    assert (await identity(tmp_path, "--resume"))["run_id"] == "mine", (
        "what is gone on with keeps its own"
    )
    for wrong in ("", "a\nb", " a", "x" * 201):
        ended = await ci_evals(tmp_path, "run", "--run-id", wrong)
        assert (ended.code, "Invalid value for '--run-id'" in ended.err) == (2, True)
