"""The suites that `run` names: loaded, each with a folder of its own where they are several, and selected from."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ci_evals.cli import options
from ci_evals.cli.console import environment
from ci_evals.errors import ConfigError, Problem, UsageError
from ci_evals.files import file_name
from ci_evals.github.context import RESULTS, in_actions, read_context
from ci_evals.reports.read import failed_cases
from ci_evals.suite.load import find_configs
from ci_evals.suite.overrides import Overrides, apply_overrides, check_selection, select_cases
from ci_evals.suite.types import CheckedSuite


def load_suite_of_job(config: Path | None, overrides: Overrides, *, offline: bool) -> tuple[CheckedSuite, bool]:
    """Return the suite, and True if it can only be replayed: where GitHub gives no secrets, keys may be missing."""
    try:
        return options.load_named_suite(config, overrides, offline=offline), False
    except ConfigError:
        if not (in_actions(environment()) and read_context(environment()).read_only):
            raise
        return options.load_named_suite(config, overrides, offline=True), True


def load_suites_of_job(
    named: Sequence[Path], overrides: Overrides, *, offline: bool
) -> tuple[list[CheckedSuite], frozenset[str]]:
    """Return the suites that are named, and the names of those that can only be replayed: see `load_suite_of_job`.

    Several have each a folder of its own for results, and keep each other's secrets.

    Raises:
        ConfigError: with the problems of all of them.
        UsageError: two of them have the same name, by which results and sections of a comment are found.
    """
    loaded: list[tuple[CheckedSuite, bool]] = []
    problems: list[Problem] = []
    for path in find_configs(named):
        try:
            loaded.append(load_suite_of_job(path, overrides, offline=offline))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    suites = [suite for suite, _ in loaded]
    without_secrets = frozenset(suite.name for suite, is_without in loaded if is_without)
    if len(suites) == 1:
        return suites, without_secrets
    files: dict[str, str] = {}
    for suite in suites:
        if (other := files.setdefault(suite.name, suite.file)) != suite.file:
            raise UsageError(f"{other} and {suite.file} are both called {suite.name!r}: give one another `name`")
    secrets = tuple(dict.fromkeys(secret for suite in suites for secret in suite.secrets))
    out = overrides.out or Path(RESULTS)
    folders = [replace(suite.report, out=(out / file_name(suite.name)).as_posix()) for suite in suites]
    suites = [replace(suite, secrets=secrets, report=each) for suite, each in zip(suites, folders, strict=True)]
    return suites, without_secrets


def select(suites: Sequence[CheckedSuite], overrides: Overrides, failed: str | None) -> list[CheckedSuite]:
    """Return the suites with the cases that are selected, without those of which none is.

    Args:
        suites: all that were named.
        overrides: selects by tag, id and number.
        failed: the report by which only cases run that did not pass; empty for that in the suite's results folder.

    Raises:
        StorageError: the report cannot be read.
        UsageError: nothing is selected.
    """
    check_selection(suites, overrides)
    selected = []
    for suite in suites:
        left = suite
        if failed is not None:
            ids = failed_cases(Path(failed) if failed else suite.out, suite.name)
            left = replace(suite, cases=[case for case in suite.cases if case.id in ids])
        cases = select_cases(left, overrides)
        if len(cases) == len(suite.cases):
            selected.append(suite)
        elif cases:
            selected.append(apply_overrides(suite, Overrides(cases=tuple(case.id for case in cases))))
    if not selected:
        raise UsageError(f"nothing is selected: every case passed in {failed or suites[0].out.as_posix()}")
    return selected
