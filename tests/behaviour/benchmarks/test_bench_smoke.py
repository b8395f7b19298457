"""The benchmark runs and prints its table. What it measures is nobody's business here."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def serving(*options: str) -> Iterator[str]:
    command = [sys.executable, "benchmarks/server.py", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


def ask(url: str, text: str) -> str:
    """The answer, or the status of the refusal, or `reset`."""
    body = json.dumps({"model": "mock", "messages": [{"role": "user", "content": text}]}).encode()
    try:
        with urllib.request.urlopen(f"{url}/v1/chat/completions", body) as response:
            return str(json.load(response)["choices"][0]["message"]["content"])
    except urllib.error.HTTPError as refusal:
        with refusal:
            return str(refusal.code)
    except ConnectionResetError:
        return "reset"


def stats(url: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{url}/stats") as response:
        return dict(json.load(response))


def raw_loop(url: str, cases: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        "benchmarks/raw_loop.py",
        f"{url}/v1/chat/completions",
        str(cases),
        *options,
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def write_cases(folder: Path, *expected: str) -> Path:
    cases = folder / "cases.jsonl"
    lines: list[dict[str, Any]] = [
        {"id": str(number), "input": "hello", "expect": [{"equals": text}]}
        for number, text in enumerate(expected)
    ]
    cases.write_text("\n".join(map(json.dumps, lines)))
    return cases


def test_the_server_echoes_or_answers_as_many_bytes_as_told() -> None:
    with serving() as url:
        assert ask(url, "Größe\n") == "Größe\n"
    with serving("--answer-bytes=7") as url:
        assert ask(url, "anything") == "xxxxxxx"


def test_the_server_injects_faults_by_their_shares_and_by_seed() -> None:
    def answers() -> list[str]:
        shares = ("--too-many-share=0.2", "--broken-share=0.2", "--reset-share=0.2", "--seed=3")
        with serving("--answer-bytes=1", *shares) as url:
            seen = [ask(url, "") for _ in range(200)]
            counts = Counter(seen)
            assert stats(url) | {"peak_concurrency": 1} == {
                "requests": 200,
                "peak_concurrency": 1,
                "429": counts["429"],
                "500": counts["500"],
                "reset": counts["reset"],
            }
            return seen

    first = answers()
    assert all(20 <= Counter(first)[kind] <= 60 for kind in ("429", "500", "reset"))
    assert answers() == first


def test_the_raw_loop_runs_every_case_within_its_concurrency(tmp_path: Path) -> None:
    with serving("--latency-s=0.02") as url:
        cases, journal = write_cases(tmp_path, *["hello"] * 10), tmp_path / "journal"
        done = raw_loop(url, cases, "--runs=3", "--concurrency=5", f"--journal={journal}")
        seen = stats(url)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["runs"], figures["wrong"]) == (30, 0)
    assert (seen["requests"], seen["peak_concurrency"]) == (30, 5)
    assert len(journal.read_text().splitlines()) == 30


def test_the_raw_loop_counts_wrong_answers(tmp_path: Path) -> None:
    with serving() as url:
        done = raw_loop(url, write_cases(tmp_path, "hello", "something else"))
    assert done.returncode == 1
    assert json.loads(done.stdout)["wrong"] == 1


@pytest.mark.slow  # two dozen processes
def test_the_benchmark_prints_a_row_for_every_figure() -> None:
    command = [sys.executable, "-m", "benchmarks.bench", "--smoke"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    machine, _, head, _, *rows = done.stdout.splitlines()
    assert "cores" in machine
    assert head.startswith("| what | reach | aim | measured |")
    measured = " ".join(rows)
    for what in (
        "CPU per run",
        "wall of the run phase",
        "wall over a plain retry loop",
        "memory growth",
        "further cell",
        "`python` provider",
        "whole command",
        "comparison of 100 cells",
    ):
        assert what in measured
    assert all(row.count("|") == 6 for row in rows)


@pytest.mark.slow  # three clusters
@pytest.mark.timeout(600)
def test_the_benchmark_of_scale_prints_its_tables() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: `make test-ray` installs it")
    command = [sys.executable, "-m", "benchmarks.scale", "--smoke"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for row in ("| one machine |", "| Ray, one node |", "| Ray, 2 nodes |", "| 2 shards |"):
        assert row in done.stdout
