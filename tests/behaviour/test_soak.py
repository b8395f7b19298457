"""Memory holds a small record of each run, whatever is written about them."""

import sys
from pathlib import Path

import pytest
from processes import ci_evals
from suites import write_suite

CASES = 100
FEW, MANY = 10_000, 200_000
MAX_BYTES_PER_RUN = 1000
MAX_BYTES = 400_000_000

MEASURED = """
import atexit, pathlib, re, resource
from ci_evals.cli.main import main

def note():
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # Linux counts what started a process into its ru_maxrss
        peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1])
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
    pathlib.Path("peak").write_text(str(peak))

atexit.register(note)
main()
"""


async def peak_bytes(folder: Path, runs: int) -> int:
    """The peak memory of a process that makes so many runs of the same cells and all reports."""
    out = f"out-{runs}"
    arguments = ("run", "--quiet", "--runs", str(runs // CASES), "--out", out)
    ended = await ci_evals(folder, *arguments, command=(sys.executable, "-c", MEASURED))
    assert ended.code == 0, ended.err
    assert f"of {runs:,} runs passed" in ended.out
    with (folder / out / "report.json").open("rb") as file:
        assert sum(line.startswith(b'{"fingerprint":') for line in file) == runs
    return int((folder / "peak").read_text())


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no getrusage")
async def test_memory_per_run_is_a_few_numbers(tmp_path: Path) -> None:
    text = "An answer of some length. " * 12
    answers = {f"case-{n}": f"{n}: {text}" for n in range(CASES)}
    cases = [{"id": name, "input": name, "expect": [{"contains": text}]} for name in answers]
    provider = {
        "name": "mock",
        "type": "mock",
        "answers": answers,
        "flakiness": 0.05,
        "error_rate": 0.001,
    }
    write_suite(tmp_path, cases, providers=[provider], gate={"min_pass_rate": 0.5})
    few = await peak_bytes(tmp_path, FEW)
    many = await peak_bytes(tmp_path, MANY)
    growth = (many - few) / (MANY - FEW)
    assert growth <= MAX_BYTES_PER_RUN, f"{growth:.0f} bytes for each further run"
    assert many <= MAX_BYTES, f"{many:,} bytes for {MANY:,} runs"
