"""What is measured: one function for each group of rows in the table."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.figures import TIMES, Figure, alternately
from benchmarks.processes import HERE, PYTHON, Server, serving, spend
from benchmarks.workload import Load, new_out, openai, run_command, run_raw, run_suite, write_suite

LATENCY_S = 0.05


class Sizes(NamedTuple):
    """How much is measured. Of a pair of loads, the difference counts."""

    rounds: int
    starts: int
    load: Load
    waiting: Load
    same_cells: tuple[Load, Load]
    further_cells: tuple[Load, Load]
    calls: Load
    refused: Load
    compared_cells: int


class Bench(NamedTuple):
    """What every measurement is given. `plain` is an environment without the optional packages."""

    sizes: Sizes
    folder: Path
    plain: Mapping[str, str]


def cpu(bench: Bench) -> Iterator[Figure]:
    total = f"{bench.sizes.load.total:,}"
    yield _cpu_figure(
        bench, f"CPU per run, `openai` provider, {total} runs, whole process", bench.plain
    )


def _cpu_figure(bench: Bench, what: str, env: Mapping[str, str]) -> Figure:
    load = bench.sizes.load
    with serving(f"--answer-bytes={load.answer_bytes}") as server:
        suite = write_suite(bench.folder, load, openai(server))
        pair = alternately(
            bench.sizes.rounds,
            lambda: run_suite(suite, load, server, env).spent.cpu_s / load.total,
            lambda: run_raw(suite, load, server).cpu_s / load.total,
        )
    return Figure(what, 1.5, 1.3, pair.ratio, TIMES, pair.told("raw loop", 1e6, "µs"))


def wall(bench: Bench) -> Iterator[Figure]:
    load = bench.sizes.waiting
    with serving(f"--answer-bytes={load.answer_bytes}", f"--latency-s={LATENCY_S}") as server:
        suite = write_suite(bench.folder, load, openai(server))
        pair = alternately(
            bench.sizes.rounds,
            lambda: run_suite(suite, load, server, bench.plain).run_phase_s,
            lambda: float(json.loads(run_raw(suite, load, server).stdout)["wall_s"]),
        )
    work = f"{load.total:,} runs of {LATENCY_S * 1000:.0f} ms, {load.concurrency} at a time"
    detail = pair.told("raw loop", 1e3, "ms")
    yield Figure(
        f"{work}: wall of the run phase over the raw loop's", 1.15, 1.08, pair.ratio, TIMES, detail
    )


CHANCE = {
    "10 % 429 (Retry-After 1) + 5 % 500": (1.3, ("--too-many-share=0.1", "--broken-share=0.05")),
    "1 % 429 (Retry-After 10)": (1.3, ("--too-many-share=0.01", "--retry-after-s=10")),
    "20 % 429 (Retry-After 1)": (1.3, ("--too-many-share=0.2",)),
    "50 % 429 (Retry-After 1)": (2.0, ("--too-many-share=0.5",)),
}
RETRIES = 8


def chance(bench: Bench) -> Iterator[Figure]:
    """Refusals at random, beside a plain retry loop that waits for each by itself."""
    load = bench.sizes.refused
    for name, (bound, faults) in CHANCE.items():
        with serving(f"--answer-bytes={load.answer_bytes}", "--latency-s=0.02", *faults) as server:
            suite = write_suite(bench.folder, load, {**openai(server), "retries": RETRIES})

            def run(suite: Path = suite) -> float:
                out = new_out(suite)
                spend(run_command(suite, out), bench.plain)
                return float(json.loads((out / "report.json").read_bytes())["duration_s"])

            def retry(suite: Path = suite, url: Server = server) -> float:
                return float(
                    json.loads(run_raw(suite, load, url, f"--retries={RETRIES}").stdout)["wall_s"]
                )

            pair = alternately(min(3, bench.sizes.rounds), run, retry)
        what = (
            f"{load.total:,} runs of 20 ms, {load.concurrency} at a time, {name}: "
            "wall over a plain retry loop"
        )
        yield Figure(what, bound, bound, pair.ratio, TIMES, pair.told("retry loop", 1e3, "ms"))


def memory(bench: Bench) -> Iterator[Figure]:
    small, large = bench.sizes.same_cells
    answers = f"{small.answer_bytes:,} byte answers"
    what = (
        f"memory growth per run of the same cells, {answers}, "
        f"from {small.total:,} to {large.total:,} runs"
    )
    yield _memory_figure(bench, what, (1000, 300), small, large)
    small, large = bench.sizes.further_cells
    what = f"memory per further cell, from {small.total:,} to {large.total:,} distinct cases"
    yield _memory_figure(bench, what, (4000, 2000), small, large)


def _memory_figure(
    bench: Bench, what: str, bounds: tuple[float, float], small: Load, large: Load
) -> Figure:
    before, after = (_peak_bytes(bench, load) for load in (small, large))
    growth = (after - before) / (large.total - small.total)
    return Figure(
        what, *bounds, growth, "bytes", f"peak {before / 1e6:.1f} MB, then {after / 1e6:.1f} MB"
    )


def _peak_bytes(bench: Bench, load: Load) -> int:
    with (
        serving(f"--answer-bytes={load.answer_bytes}") as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        suite = write_suite(Path(folder), load, openai(server))
        return run_suite(suite, load, server, bench.plain).spent.peak_rss_bytes


def calls(bench: Bench) -> Iterator[Figure]:
    load = bench.sizes.calls
    suite = write_suite(bench.folder, load, {"type": "python", "target": "call_loop:answer"})
    shutil.copy(HERE / "call_loop.py", suite.parent)
    pair = alternately(
        bench.sizes.rounds,
        lambda: spend(run_command(suite, new_out(suite)), bench.plain).cpu_s / load.total,
        lambda: spend([PYTHON, str(HERE / "call_loop.py"), str(load.total)]).cpu_s / load.total,
    )
    what = (
        f"`python` provider, async function, {load.total:,} runs, whole process: "
        "CPU per run over the bare call loop"
    )
    yield Figure(
        what,
        100,
        60,
        pair.over * 1e6,
        "µs",
        f"{pair.told('bare loop', 1e6, 'µs')}; {_raw_loop_now(bench)}",
    )


def _raw_loop_now(bench: Bench) -> str:
    """How fast this machine is just now: what a bound that is no ratio can be read beside."""
    load = bench.sizes.load
    with serving(f"--answer-bytes={load.answer_bytes}") as server:
        suite = write_suite(bench.folder, load, openai(server))
        spent_s = [
            run_raw(suite, load, server).cpu_s / load.total for _ in range(bench.sizes.rounds)
        ]
    return f"a run of the raw loop {median(spent_s) * 1e6:.0f} µs"


def single(bench: Bench) -> Iterator[Figure]:
    load = Load(1)
    with serving(f"--answer-bytes={load.answer_bytes}") as server:
        suite = write_suite(bench.folder, load, openai(server))
        pair = alternately(
            bench.sizes.starts,
            lambda: run_suite(suite, load, server, bench.plain).spent.wall_s,
            lambda: run_raw(suite, load, server).wall_s,
        )
    detail = pair.told("raw client", 1e3, "ms")
    yield Figure(
        "whole command, 1 case over HTTP: wall over the raw client",
        2.5,
        2.0,
        pair.ratio,
        TIMES,
        detail,
    )


def comparison(bench: Bench) -> Iterator[Figure]:
    command = [PYTHON, "-m", "benchmarks.comparison", str(bench.sizes.compared_cells)]
    measured = [float(spend(command, bench.plain).stdout) for _ in range(bench.sizes.rounds)]
    cells = f"{bench.sizes.compared_cells:,} cells"
    what = f"comparison of {cells} with their pooled history, caches cold: CPU"
    spread = f"{min(measured) * 1e3:.0f} to {max(measured) * 1e3:.0f} ms"
    yield Figure(what, 1000, 500, median(measured) * 1e3, "ms", f"{spread}; {_raw_loop_now(bench)}")


ROWS: Mapping[str, Callable[[Bench], Iterator[Figure]]] = {
    function.__name__: function
    for function in (cpu, wall, chance, memory, calls, single, comparison)
}
