"""Measures ci-evals beside the bare loops, in turns on one server, and prints a table of ratios."""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import HEAD
from benchmarks.processes import PYTHON, leave_the_servers_core, serving, spend
from benchmarks.rows import ROWS, Bench, Sizes
from benchmarks.workload import Load, openai, run_raw, run_suite, write_suite

FULL = Sizes(
    rounds=7,
    starts=15,
    load=Load(1000, runs=10),
    waiting=Load(1000, concurrency=100),
    same_cells=(Load(1000, runs=10, answer_bytes=2000), Load(1000, runs=200, answer_bytes=2000)),
    further_cells=(Load(2000), Load(20_000)),
    calls=Load(1000, runs=20),
    refused=Load(1000),
    compared_cells=10_000,
)
QUICK = FULL._replace(
    rounds=3,
    starts=5,
    same_cells=(Load(1000, runs=10, answer_bytes=2000), Load(1000, runs=30, answer_bytes=2000)),
    further_cells=(Load(1000), Load(5000)),
)
SMOKE = Sizes(
    rounds=1,
    starts=1,
    load=Load(5, runs=2),
    waiting=Load(20, concurrency=10),
    same_cells=(Load(5, runs=1, answer_bytes=2000), Load(5, runs=2, answer_bytes=2000)),
    further_cells=(Load(5), Load(10)),
    calls=Load(5, runs=2),
    refused=Load(5),
    compared_cells=100,
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick",
        dest="sizes",
        action="store_const",
        const=QUICK,
        help="fewer rounds, smaller loads",
    )
    size.add_argument(
        "--smoke", dest="sizes", action="store_const", const=SMOKE, help="only shows that it works"
    )
    parser.add_argument(
        "rows", nargs="*", help=f"what to measure, of {', '.join(ROWS)}; default: everything"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"unknown rows: {', '.join(sorted(unknown))}")

    leave_the_servers_core()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.sizes or FULL, Path(folder), without_extras(Path(folder)))
        warm_up(bench)
        print(f"{machine()}\n\n{HEAD}", flush=True)
        for name in options.rows or ROWS:
            for figure in ROWS[name](bench):
                print(figure, flush=True)


def warm_up(bench: Bench) -> None:
    """Have bytecode written and files cached, so that the first row is measured like the last."""
    load = Load(1)
    with serving(f"--answer-bytes={load.answer_bytes}") as server:
        suite = write_suite(bench.folder, load, openai(server))
        run_suite(suite, load, server, bench.plain)
        run_raw(suite, load, server)


def machine() -> str:
    version = spend([PYTHON, "-m", "ci_evals", "--version"]).stdout.strip()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return (
        f"{version} on {python}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    )


EXTRAS = ("opentelemetry",)


def without_extras(folder: Path) -> dict[str, str]:
    """An environment in which the extras cannot be imported, as if they were not installed."""
    hidden = folder / "without_extras"
    hidden.mkdir()
    for name in EXTRAS:
        (hidden / f"{name}.py").write_text(f"raise ModuleNotFoundError(name={name!r})\n")
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(hidden), os.environ.get("PYTHONPATH"))))
    }


if __name__ == "__main__":
    main(sys.argv[1:])
