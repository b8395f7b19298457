"""Counts the Python calls of `ci-evals run --quiet`: what a further run and a further case cost.

Unlike times, calls are the same on every machine and under any load. A figure is the slope between
suites of different sizes, so that starting up drops out. Every call of a function and every
resumption of a coroutine counts, as for `sys.setprofile`.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.processes import HERE, ROOT, serving, spend
from benchmarks.workload import Load, new_out, openai, run_command, write_suite

FEW_CASES, MANY_CASES = 200, 400
RUNS = 5
FORMATS = ("json", "junit", "markdown", "html")
PREPARE = ("engine/cells.py", "_prepare")
DECODE = ("model/result.py", "decode_result")
ROOM = 1.1  # what a figure may take of its bound before `--check` fails

Calls = Counter[tuple[str, str]]
"""How often each function was called, by its file and name."""


class Figure(NamedTuple):
    """One line of the table, with the most that it should be."""

    what: str
    value: float
    bound: float


class Slopes(NamedTuple):
    """The calls of one more run of a case, and of one more case with one run."""

    run: Calls
    case: Calls


def count(provider: Mapping[str, Any], load: Load, folder: Path) -> Calls:
    """Count the calls of one `ci-evals run` in a process of its own."""
    suite = write_suite(folder, load, provider)
    shutil.copy(HERE / "call_loop.py", suite.parent)
    counts = suite.with_name("calls.json")
    python, _, _, *arguments = run_command(suite, new_out(suite))
    spend([python, "-m", "benchmarks.count", str(counts), *arguments])
    calls: Calls = Counter()
    for file, name, times in json.loads(counts.read_bytes()):
        if file.startswith(str(suite.parent)):
            calls["call_loop.py", name] += times
        else:
            calls[file, name] += times
    return calls


def measure(provider: Mapping[str, Any], folder: Path) -> Slopes:
    """Return the slopes between suites of two numbers of cases and of runs.

    What is made once and kept on disk, such as compiled templates, is made before.
    """

    def calls_of(cases: int, runs: int) -> Calls:
        return count(provider, Load(cases, runs, formats=FORMATS), folder)

    calls_of(1, 1)
    few, many = calls_of(FEW_CASES, 1), calls_of(MANY_CASES, 1)
    further_cases = difference(many, few)
    with_runs = difference(calls_of(MANY_CASES, RUNS), calls_of(FEW_CASES, RUNS))
    return Slopes(run=difference(with_runs, further_cases), case=further_cases)


def difference(more: Calls, fewer: Calls) -> Calls:
    """Return how many more calls there were of each function; some are negative."""
    result = Counter(more)
    result.subtract(fewer)
    return result


def per_run(calls: Calls) -> float:
    return calls.total() / (MANY_CASES - FEW_CASES) / (RUNS - 1)


def per_case(calls: Calls) -> float:
    return calls.total() / (MANY_CASES - FEW_CASES)


def only(calls: Calls, file: str, name: str) -> Calls:
    """Return the calls of one function of ours.

    Raises:
        LookupError: it was not called, so it has probably been renamed.
    """
    path = str(ROOT / "ci_evals" / file)
    if (path, name) not in calls:
        raise LookupError(f"{name} of {file} was not called: name it in benchmarks/calls.py")
    return Counter({(path, name): calls[path, name]})


def figures(http: Slopes, function: Slopes) -> list[Figure]:
    """Return the table."""
    return [
        Figure("a further run over HTTP", per_run(http.run), 350),
        Figure("a further run of a Python function", per_run(function.run), 150),
        Figure("a further case with one run over HTTP", per_case(http.case), 1000),
        Figure("cells prepared per cell", per_case(only(http.case, *PREPARE)), 1),
        Figure("journal lines decoded per run", per_run(only(http.run, *DECODE)), 1),
    ]


def show_functions(title: str, calls: Calls, scale: Callable[[Calls], float], most: int) -> None:
    """Print which packages and functions the calls of a slope are of."""
    packages: Calls = Counter()
    for (file, _), times in calls.items():
        packages[package_of(file), ""] += times
    print(f"\n{title}")
    for rows in (packages, calls):
        for (file, name), times in rows.most_common(most):
            value = scale(Counter({(file, name): times}))
            if value >= 0.05:
                print(f"{value:10.1f}  {file.removeprefix(f'{ROOT}/')} {name}")


def package_of(file: str) -> str:
    """Return the folder of a file of ours, or the library or package that it belongs to."""
    path = Path(file)
    if path.is_relative_to(ROOT / "ci_evals"):
        return path.relative_to(ROOT).parent.as_posix()
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1]
    return "(generated)" if file.startswith("<") else f"python {path.parent.name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--functions",
        type=int,
        metavar="N",
        help="also print the packages and the N functions with the most calls",
    )
    parser.add_argument("--check", action="store_true", help="fail above a bound, with 10 %% room")
    options = parser.parse_args()

    with (
        serving(f"--answer-bytes={Load(1).answer_bytes}") as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        http = measure(openai(server), Path(folder))
        function = measure({"type": "python", "target": "call_loop:answer"}, Path(folder))
    table = figures(http, function)
    print(f"{'Python calls':40} {'now':>8} {'bound':>8}")
    for what, value, bound in table:
        print(f"{what:40} {value:8.1f} {bound:8g}")
    if options.functions:
        show_functions("A further run over HTTP", http.run, per_run, options.functions)
        show_functions("A further run of a function", function.run, per_run, options.functions)
        show_functions("A further case over HTTP", http.case, per_case, options.functions)
    if options.check and any(value > bound * ROOM for _, value, bound in table):
        sys.exit("too many calls: `python -m benchmarks.calls --functions 40` shows whose")


if __name__ == "__main__":
    main()
