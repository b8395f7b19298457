"""Several suites in one job, in one summary and in one comment."""

from pathlib import Path

from jobs import outputs_in
from processes import ci_evals
from suites import ONE_CASE, write_suite_file

WRONG = {**ONE_CASE, "expect": [{"equals": "goodbye"}]}


async def test_a_saved_folder_of_several_suites_makes_a_section_of_each(tmp_path: Path) -> None:
    write_suite_file(tmp_path / "a.yaml", name="a")
    write_suite_file(tmp_path / "b.yaml", name="b", cases=[WRONG])
    await ci_evals(tmp_path, "run", "a.yaml", "b.yaml")
    shown = await ci_evals(tmp_path, "comment", "--dry-run")
    assert (shown.code, shown.out.count("<!-- ci-evals:section suite=")) == (0, 2)


async def test_a_job_hands_on_one_verdict_and_lists_all_in_its_summary(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "raise RuntimeError('no')\ndef answer(question): return question\n"
    )
    write_suite_file(
        tmp_path / "a.yaml",
        name="a",
        cases=[ONE_CASE],
        providers=[{"type": "python", "target": "loud:answer"}],
    )
    write_suite_file(tmp_path / "b.yaml", name="b", cases=[WRONG])
    write_suite_file(tmp_path / "c.yaml", name="c", cases=[ONE_CASE])
    (tmp_path / "event.json").write_text("{}")
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_EVENT_PATH": "event.json",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    ended = await ci_evals(
        tmp_path, "run", "a.yaml", "b.yaml", "c.yaml", "--baseline", "none", environ=environ
    )
    assert ended.code == 2
    assert ended.out.count("::group::") + ended.err.count("::group::") == 3
    assert ended.out.count("::endgroup::") + ended.err.count("::endgroup::") == 3
    assert (tmp_path / "summary").read_text("utf-8").split("\n## ")[-1].splitlines()[:4] == [
        "2 of 3 suites run",
        "",
        "- ❌ <code>b</code>: 1 of 1 run failed, and every run must pass",
        "- ✅ <code>c</code>: 1 of 1 run passed",
    ]
    outputs = outputs_in(tmp_path / "output")
    assert (outputs["verdict"], outputs["report-path"]) == (
        "error",
        str(tmp_path / "ci-evals-results"),
    )
