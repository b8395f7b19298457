"""The script says what it found."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "examples" / "library_script" / "compare_agents.py"


def test_the_script_names_what_failed_and_ends_with_the_verdict(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT)]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=True).stdout
    live, _, rest = said.partition("22 of 24 runs passed (91.7 %), 2 failed\n")
    assert len(live.splitlines()) == 2
    assert all("capital of Japan? on hasty: failed" in line for line in live.splitlines())
    assert "What is the capital of Japan? on hasty: 2 of 4 runs" in rest
    assert "verdict: pass:" in rest
    assert "europe alone: 100%" in rest
    assert list(tmp_path.iterdir()) == []
