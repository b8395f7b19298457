"""What is measured: one function for each group of rows in the table."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.figures import TIMES, Figure, Pair, alternately
from benchmarks.processes import HERE, PYTHON, serving, spend
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
    compared_cells: int


class Bench(NamedTuple):
    """What every measurement is given. `plain` is an environment in which ci-evals finds no uvloop."""

    sizes: Sizes
    folder: Path
    plain: Mapping[str, str]


def cpu(bench: Bench) -> Iterator[Figure]:
    total = f"{bench.sizes.load.total:,}"
    yield _cpu_figure(bench, f"CPU per run, `openai` provider, {total} runs, whole process", bench.plain)
    if find_spec("uvloop"):
        yield _cpu_figure(bench, "the same with uvloop on both sides", {}, "--uvloop")


def _cpu_figure(bench: Bench, what: str, env: Mapping[str, str], *raw_options: str) -> Figure:
    load = bench.sizes.load
    with serving(f"--answer-bytes={load.answer_bytes}") as server:
        suite = write_suite(bench.folder, load, openai(server))
        pair = alternately(
            bench.sizes.rounds,
            lambda: run_suite(suite, load, server, env).spent.cpu_s / load.total,
            lambda: run_raw(suite, load, server, *raw_options).cpu_s / load.total,
        )
    return Figure(what, 1.3, 1.15, pair.ratio, TIMES, pair.told("raw loop", 1e6, "µs"))


def wall(bench: Bench) -> Iterator[Figure]:
    load = bench.sizes.waiting
    with serving(f"--answer-bytes={load.answer_bytes}", f"--latency-s={LATENCY_S}") as server:
        suite = write_suite(bench.folder, load, openai(server))
        pair = alternately(
            bench.sizes.rounds,
            lambda: run_suite(suite, load, server, bench.plain).run_phase_s,
            lambda: float(json.loads(run_raw(suite, load, server).stdout)["wall_s"]),
        )
    floor_s = load.total / load.concurrency * LATENCY_S
    work = f"{load.total:,} runs of {LATENCY_S * 1000:.0f} ms, {load.concurrency} at a time"
    what = f"{work}: wall of the run phase over its floor of {floor_s:.2f} s"
    yield Figure(what, 1.15, 1.08, median(pair.ours) / floor_s, TIMES, pair.told("raw loop", 1e3, "ms"))


def memory(bench: Bench) -> Iterator[Figure]:
    small, large = bench.sizes.same_cells
    answers = f"{small.answer_bytes:,} byte answers"
    what = f"memory growth per run of the same cells, {answers}, from {small.total:,} to {large.total:,} runs"
    yield _memory_figure(bench, what, (150, 60), small, large)
    small, large = bench.sizes.further_cells
    what = f"memory per further cell, from {small.total:,} to {large.total:,} distinct cases"
    yield _memory_figure(bench, what, (1500, 800), small, large)


def _memory_figure(bench: Bench, what: str, bounds: tuple[float, float], small: Load, large: Load) -> Figure:
    before, after = (_peak_bytes(bench, load) for load in (small, large))
    growth = (after - before) / (large.total - small.total)
    return Figure(what, *bounds, growth, "bytes", f"peak {before / 1e6:.1f} MB, then {after / 1e6:.1f} MB")


def _peak_bytes(bench: Bench, load: Load) -> int:
    with serving(f"--answer-bytes={load.answer_bytes}") as server, tempfile.TemporaryDirectory() as folder:
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
    what = f"`python` provider, async function, {load.total:,} runs, whole process: CPU per run over the bare call loop"
    yield Figure(what, 60, 40, pair.over * 1e6, "µs", f"{pair.told('bare loop', 1e6, 'µs')}; {_raw_loop_now(bench)}")


def _raw_loop_now(bench: Bench) -> str:
    """How fast this machine is just now: what a bound that is no ratio can be read beside."""
    load = bench.sizes.load
    with serving(f"--answer-bytes={load.answer_bytes}") as server:
        suite = write_suite(bench.folder, load, openai(server))
        spent_s = [run_raw(suite, load, server).cpu_s / load.total for _ in range(bench.sizes.rounds)]
    return f"a run of the raw loop {median(spent_s) * 1e6:.0f} µs"


def start(bench: Bench) -> Iterator[Figure]:
    suite = write_suite(bench.folder, Load(1), {"type": "no such provider"})
    yield _start_figure(bench, "`--version`", ["--version"])
    yield _start_figure(bench, "`--help`", ["--help"])
    yield _start_figure(bench, "`run` with a config error", ["run", "-c", str(suite)], exit_code=2)


def _start_figure(bench: Bench, what: str, arguments: Sequence[str], exit_code: int = 0) -> Figure:
    pair = alternately(
        bench.sizes.starts,
        lambda: spend([PYTHON, "-m", "ci_evals", *arguments], exit_code=exit_code).wall_s,
        lambda: spend([PYTHON, "-c", "pass"]).wall_s,
    )
    return Figure(f"{what}: wall over `python -c pass`", 3, 2, pair.ratio, TIMES, pair.told("bare Python", 1e3, "ms"))


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
    yield Figure("whole command, 1 case over HTTP: wall over the raw client", 1.5, 1.25, pair.ratio, TIMES, detail)


def reports(bench: Bench) -> Iterator[Figure]:
    load = bench.sizes.load
    with serving(f"--answer-bytes={load.answer_bytes}") as server:
        suite = write_suite(bench.folder, load, openai(server))
        command = [PYTHON, "-m", "benchmarks.report_share", str(suite)]
        measured = [json.loads(spend(command, bench.plain).stdout) for _ in range(bench.sizes.rounds)]
    pair = Pair([each["reports_s"] for each in measured], [each["run_s"] for each in measured])
    what = f"writing the reports of {load.total:,} runs: share of the run's CPU"
    yield Figure(what, 10, 5, pair.ratio * 100, "%", pair.told("run", 1e3, "ms"))


def comparison(bench: Bench) -> Iterator[Figure]:
    command = [PYTHON, "-m", "benchmarks.comparison", str(bench.sizes.compared_cells)]
    measured = [float(spend(command, bench.plain).stdout) for _ in range(bench.sizes.rounds)]
    what = f"comparison of {bench.sizes.compared_cells:,} cells with their pooled history, caches cold: CPU"
    spread = f"{min(measured) * 1e3:.0f} to {max(measured) * 1e3:.0f} ms"
    yield Figure(what, 50, 20, median(measured) * 1e3, "ms", f"{spread}; {_raw_loop_now(bench)}")


ROWS: Mapping[str, Callable[[Bench], Iterator[Figure]]] = {
    function.__name__: function for function in (cpu, wall, memory, calls, start, single, reports, comparison)
}
