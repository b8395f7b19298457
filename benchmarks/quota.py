"""Measures how close ci-evals comes to a quota: wall time over the minimum, and refusals."""

import argparse
import json
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures import HEAD, TIMES, Figure
from benchmarks.processes import PYTHON, ROOT, SERVER_CORE, Server, leave_the_servers_core, spend
from benchmarks.workload import Load, SuiteRun, new_out, openai, run_command, write_suite

RUNS = 600
ANSWER_BYTES = 320
ANSWER_TOKENS = 20 + ANSWER_BYTES // 4  # as the server counts them


class Quota(NamedTuple):
    """What the server lets through, in requests or in tokens."""

    name: str
    key: str
    cost: int
    burst_calls: int = 10
    calls_per_minute: int = 600

    @property
    def options(self) -> tuple[str, ...]:
        per_minute, burst = self.calls_per_minute * self.cost, self.burst_calls * self.cost
        return (f"--per-minute={per_minute}", f"--burst={burst}", f"--cost={self.cost}")

    def minimum_s(self, runs: int) -> float:
        return (runs - self.burst_calls) / self.calls_per_minute * 60


QUOTAS = (Quota("requests", "rpm", 1), Quota("tokens", "tpm", ANSWER_TOKENS))


class Scenario(NamedTuple):
    """One row: a quota that the suite declares, or does not."""

    quota: Quota
    declared: bool
    workers: int

    @property
    def what(self) -> str:
        limit = f"{self.quota.calls_per_minute * self.quota.cost:,} {self.quota.name} a minute"
        return (
            f"{limit}, {'declared' if self.declared else 'not declared'}, {self.workers} at a time"
        )


SCENARIOS = (
    *(Scenario(quota, declared, 16) for quota in QUOTAS for declared in (True, False)),
    Scenario(QUOTAS[0], declared=False, workers=64),
)


def figures(folder: Path, runs: int = RUNS) -> Iterator[Figure]:
    """Two rows a scenario; they all run at the same time, since each does nothing but wait."""
    with ThreadPoolExecutor(len(SCENARIOS)) as pool:
        for rows in pool.map(lambda scenario: _measure(scenario, folder, runs), SCENARIOS):
            yield from rows


def _measure(scenario: Scenario, folder: Path, runs: int) -> tuple[Figure, Figure]:
    quota, load = (
        scenario.quota,
        Load(runs, concurrency=scenario.workers, answer_bytes=ANSWER_BYTES),
    )
    with _serving(*quota.options) as server:
        declared = {quota.key: quota.calls_per_minute * quota.cost} if scenario.declared else {}
        suite = write_suite(folder, load, {**openai(server), "retries": 20, **declared})
        out = new_out(suite)
        wall_s = SuiteRun(spend(run_command(suite, out)), out).run_phase_s
        stats = _stats(server)
    minimum_s = quota.minimum_s(runs)
    detail = f"{wall_s:.1f} s; quota {minimum_s:.1f} s"
    wall = Figure(
        f"{scenario.what}: wall over the quota's minimum",
        1.05 if scenario.declared else 1.1,
        1.02 if scenario.declared else 1.05,
        wall_s / minimum_s,
        TIMES,
        detail,
    )
    refused = Figure(
        f"{scenario.what}: requests refused",
        0 if scenario.declared else 13,
        0 if scenario.declared else 8,
        100 * stats["429"] / stats["requests"],
        "%",
        f"{stats['429']} of {stats['requests']}",
    )
    return wall, refused


@contextmanager
def _serving(*options: str) -> Iterator[Server]:
    pinned = () if SERVER_CORE is None else ("--cpu", str(SERVER_CORE))
    command = [
        PYTHON,
        "-m",
        "benchmarks.quota_server",
        *pinned,
        f"--answer-bytes={ANSWER_BYTES}",
        *options,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout
        try:
            yield Server(f"http://127.0.0.1:{int(process.stdout.readline())}/v1")
        finally:
            process.terminate()


def _stats(server: Server) -> Mapping[str, int]:
    with urllib.request.urlopen(server.base_url.removesuffix("/v1") + "/stats") as answer:
        stats: Mapping[str, int] = json.load(answer)
        return stats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    leave_the_servers_core()
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        for row in figures(Path(folder), options.runs):
            print(row, flush=True)


if __name__ == "__main__":
    main()
