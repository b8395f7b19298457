"""`ci-evals validate`: finds the problems of suites without calling anything."""

from pathlib import Path

from ci_evals.cli import options
from ci_evals.cli.console import Console
from ci_evals.errors import ConfigError, Problem
from ci_evals.format import number_of
from ci_evals.model.plan import plan_runs
from ci_evals.suite.configs import find_configs
from ci_evals.suite.overrides import Overrides
from ci_evals.suite.remarks import remarks


@options.command()
@options.suites
@options.providers
@options.tags
@options.runs
def validate(
    named: tuple[Path, ...],
    providers: tuple[str, ...] | None,
    tags: tuple[str, ...] | None,
    runs: int | None,
) -> None:
    """Check suites without calling anything.

    SUITE is a suite file, or a folder to check all suites in it and below; default: evals.yaml here
    or in .github/.

    Lists every problem with its file, line and a suggestion: unknown keys, wrong types, duplicate
    ids, missing files, variables that are not set, templates that do not fit their cases, functions
    that their modules do not define. Notes about likely mistakes, such as a latency limit that no
    answer exceeds, don't make a suite invalid.
    """
    overrides = Overrides(providers=providers, tags=tags, runs=runs)
    console = Console.of_process()
    problems: list[Problem] = []
    for path in find_configs(named):
        try:
            suite = options.load_named_suite(path, overrides)
        except ConfigError as error:
            problems += error.problems
            continue
        cases = number_of(len(suite.cases), "case")
        variants = number_of(len(suite.columns), "variant")
        total = plan_runs(suite.cases, suite.columns, suite.runs).total
        console.print(f"{suite.file} is valid: {cases} × {variants}, {number_of(total, 'run')}")
        for remark in remarks(suite):
            console.print(f"note: {remark}")
    if problems:
        raise ConfigError(problems)
