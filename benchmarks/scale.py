"""Measures what Ray costs and brings, and shards: the tables of docs/scale.md."""

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.bench import machine
from benchmarks.processes import PYTHON, spend

AGENT = """
import hashlib, time

def nothing(question):
    return "done"

def wait(question):
    time.sleep({wait_s})
    return "done"

def compute(question):
    digest = b""
    for _ in range({hashes}):
        digest = hashlib.sha256(digest).digest()
    return "done"
"""
HASHES_PER_S = 1_500_000  # about: what counts is that every run does the same
ON_RAY = ("--executor", "ray")
STORE_BYTES = 80 * 1024**2


class Sizes(NamedTuple):
    """How much to measure. A run that waits or computes takes about `run_s` seconds."""

    rounds: int
    few: int
    many: int
    runs: int
    run_s: float
    nodes: Sequence[int]
    sharded_runs: int
    shards: Sequence[int]


FULL = Sizes(
    3, few=20, many=320, runs=40, run_s=0.5, nodes=(1, 2, 4), sharded_runs=96, shards=(1, 4, 16)
)
SMOKE = Sizes(1, few=2, many=4, runs=2, run_s=0.01, nodes=(1, 2), sharded_runs=4, shards=(1, 2))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--smoke", dest="sizes", action="store_const", const=SMOKE, help="only shows that it works"
    )
    sizes = parser.parse_args(arguments).sizes or FULL
    with tempfile.TemporaryDirectory() as name:
        bench = _Bench(Path(name), sizes)
        print(f"{machine()}, load {os.getloadavg()[0]:.1f} at the start\n", flush=True)
        bench.print_overhead()
        bench.print_speed()
        bench.print_shards()


class _Bench:
    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self._folder = folder
        self._sizes = sizes
        hashes = int(HASHES_PER_S * sizes.run_s)
        (folder / "agent.py").write_text(AGENT.format(wait_s=sizes.run_s, hashes=hashes))

    def print_overhead(self) -> None:
        """Print the cost of a run that does nothing, and the time until the first one starts."""
        few, many = self._sizes.few, self._sizes.many
        print(
            "| `python` provider that does nothing | ms per run | s until the first run |\n"
            "|---|--:|--:|"
        )
        with cluster(1):
            for where, options in (("one machine", ()), ("Ray, one node", ON_RAY)):
                costs, starts = [], []
                for _ in range(self._sizes.rounds):
                    short, starting = self._time("nothing", few, *options)
                    costs.append(
                        (self._time("nothing", many, *options)[0] - short) / (many - few) * 1000
                    )
                    starts.append(starting)
                print(f"| {where} | {median(costs):.2f} | {median(starts):.1f} |", flush=True)

    def print_speed(self) -> None:
        """Print the time of runs that wait and of runs that compute, one run per node."""
        runs, sizes = self._sizes.runs, self._sizes
        print(
            f"\n| {runs} runs | waiting, s | speed-up | computing, s | speed-up |\n"
            "|---|--:|--:|--:|--:|"
        )
        agents = ("wait", "compute")
        alone = [self._median(agent, runs, "--max-concurrency", "1") for agent in agents]
        print(_row("one machine, `max_concurrency: 1`", alone, alone), flush=True)
        for nodes in sizes.nodes:
            with cluster(nodes):
                found = [self._median(agent, runs, *ON_RAY) for agent in agents]
            print(_row(f"Ray, {nodes} node{'s' * (nodes > 1)}", found, alone), flush=True)

    def print_shards(self) -> None:
        """Print how long the slowest shard takes, with the merge, and all of them together."""
        runs = self._sizes.sharded_runs
        suite = self._write("wait", runs)
        print(
            f"\n| {runs} runs that wait, two at once | slowest job and merge, s | all jobs, s |\n"
            "|---|--:|--:|"
        )
        for shards in self._sizes.shards:
            folders = [str(self._folder / f"shard-{number}") for number in range(1, shards + 1)]
            command = [
                PYTHON,
                "-m",
                "ci_evals",
                "run",
                str(suite),
                "--max-concurrency",
                "2",
                "--quiet",
            ]
            took = [
                spend([*command, "--shard", f"{number}/{shards}", "--out", folder]).wall_s
                for number, folder in enumerate(folders, 1)
            ]
            merge = [
                "merge",
                *folders,
                "--config",
                str(suite),
                "--out",
                str(self._folder / "merged"),
                "--quiet",
            ]
            merging = spend([PYTHON, "-m", "ci_evals", *merge]).wall_s
            what = f"{shards} shard{'s' * (shards > 1)}"
            print(f"| {what} | {max(took) + merging:.1f} | {sum(took) + merging:.1f} |", flush=True)

    def _median(self, agent: str, runs: int, *options: str) -> float:
        return median(self._time(agent, runs, *options)[0] for _ in range(self._sizes.rounds))

    def _time(self, agent: str, runs: int, *options: str) -> tuple[float, float]:
        """Return the seconds from the first run to the last, and those around them."""
        suite, out = self._write(agent, runs), self._folder / "out"
        done = spend(
            [PYTHON, "-m", "ci_evals", "run", str(suite), "--out", str(out), "--quiet", *options]
        )
        duration_s = json.loads((out / "report.json").read_text())["duration_s"]
        return duration_s, done.wall_s - duration_s

    def _write(self, agent: str, runs: int) -> Path:
        path = self._folder / "evals.json"
        suite = {
            "providers": [{"type": "python", "target": f"agent:{agent}"}],
            "cases": [{"id": f"case-{number}", "input": "x"} for number in range(runs)],
            "expect": [{"equals": "done"}],
            "report": {"formats": ["json"]},
        }
        path.write_text(json.dumps(suite))
        return path


def _row(what: str, found_s: Sequence[float], alone_s: Sequence[float]) -> str:
    figures = (
        f"{found:.1f} | {alone / found:.1f}" for found, alone in zip(found_s, alone_s, strict=True)
    )
    return f"| {what} | {' | '.join(figures)} |"


@contextmanager
def cluster(nodes: int) -> Iterator[None]:
    """Run a cluster on this machine, one run per node, as the one that `ray` connects to."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster  # noqa: PLC0415  Ray is optional

    head = {"num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    started = Cluster(initialize_head=True, head_node_args=head)
    try:
        for number in range(nodes):
            # Nodes of one machine would unpack the suite over one another.
            own = f"runtime_resources_{number}"
            started.add_node(num_cpus=1, object_store_memory=STORE_BYTES, runtime_env_dir_name=own)
        os.environ["RAY_ADDRESS"] = started.address
        yield
    finally:
        os.environ.pop("RAY_ADDRESS", None)
        started.shutdown()


if __name__ == "__main__":
    main()
