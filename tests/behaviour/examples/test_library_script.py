"""The script says what it found."""

from pathlib import Path

from example_runs import run_script


def test_the_script_names_what_failed_and_ends_with_the_verdict(tmp_path: Path) -> None:
    said, _ = run_script("library_script/compare_agents.py", tmp_path)
    live, _, rest = said.partition("22 of 24 runs passed (91.7 %), 2 failed\n")
    assert len(live.splitlines()) == 2
    assert all("capital of Japan? on hasty: failed" in line for line in live.splitlines())
    assert "What is the capital of Japan? on hasty: 2 of 4 runs" in rest
    assert "verdict: pass:" in rest
    assert "europe alone: 100%" in rest
    assert list(tmp_path.iterdir()) == []
