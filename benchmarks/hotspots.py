"""Shows the 30 functions with the most time of their own on the `openai` workload."""

import argparse
import pstats
import tempfile
from pathlib import Path

from benchmarks.processes import leave_the_servers_core, serving, spend
from benchmarks.workload import Load, new_out, openai, run_command, write_suite


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument(
        "--sort", default="tottime", help="as pstats names it: tottime, cumulative, ncalls"
    )
    options = parser.parse_args()

    load = Load(options.cases, options.runs)
    leave_the_servers_core()
    with (
        serving(f"--answer-bytes={load.answer_bytes}") as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        suite = write_suite(Path(folder), load, openai(server))
        profile = suite.with_name("profile")
        python, _, _, *arguments = run_command(suite, new_out(suite))
        in_this_process = ["-m", "ci_evals.cli", *arguments]
        spend([python, "-m", "cProfile", "-o", str(profile), *in_this_process])
        pstats.Stats(str(profile)).strip_dirs().sort_stats(options.sort).print_stats(30)


if __name__ == "__main__":
    main()
