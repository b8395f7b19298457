from pathlib import Path

from example_runs import run_example


def test_what_is_spoken_arrives_and_every_file_is_kept_once(tmp_path: Path) -> None:
    report = run_example("stages", tmp_path)
    outputs = {result["case"]: result["response"]["output"] for result in report["results"]}
    assert outputs == {"paris": "it is paris", "oslo": "it is oslo"}
    kept = sorted(f"files/{path.name}" for path in (tmp_path / "results" / "files").iterdir())
    named = {file["path"] for result in report["results"] for file in result["response"]["files"]}
    assert kept == sorted(named)
    assert len(kept) == 4
    assert all(path.endswith(".wav") for path in kept)
