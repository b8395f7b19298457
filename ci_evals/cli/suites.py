"""The suites that `run` names: loaded, each with a folder of its own where they are several, and
selected from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ci_evals.cli import options
from ci_evals.cli.console import environment
from ci_evals.errors import ConfigError, Problem, UsageError
from ci_evals.files import file_name
from ci_evals.format import name_of, number_of
from ci_evals.github.context import RESULTS, in_actions, read_context
from ci_evals.reports.read import SavedReport, read_reports
from ci_evals.suite.configs import find_configs
from ci_evals.suite.overrides import Overrides, apply_overrides, check_selection, select_cases
from ci_evals.suite.types import CheckedSuite


def load_suite_of_job(
    config: Path | None, overrides: Overrides, *, offline: bool
) -> tuple[CheckedSuite, bool]:
    """Return the suite, and True if it can only be replayed: where GitHub gives no secrets, keys
    may be missing.
    """
    try:
        return options.load_named_suite(config, overrides, offline=offline), False
    except ConfigError:
        if not (in_actions(environment()) and read_context(environment()).read_only):
            raise
        return options.load_named_suite(config, overrides, offline=True), True


def load_suites_of_job(
    named: Sequence[Path], overrides: Overrides, *, offline: bool
) -> tuple[list[CheckedSuite], frozenset[str]]:
    """Return the suites that are named, and the names of those that can only be replayed: see
    `load_suite_of_job`.

    Several have each a folder of its own for results, and keep each other's secrets.

    Raises:
        ConfigError: with the problems of all of them.
        UsageError: two of them have the same name, by which results and sections of a comment are
            found.
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
            raise UsageError(
                f"{other} and {suite.file} are both called {suite.name!r}: give one another `name`"
            )
    secrets = tuple(dict.fromkeys(secret for suite in suites for secret in suite.secrets))
    out = overrides.out or Path(RESULTS)
    folders = [
        replace(suite.report, out=(out / file_name(suite.name)).as_posix()) for suite in suites
    ]
    suites = [
        replace(suite, secrets=secrets, report=each)
        for suite, each in zip(suites, folders, strict=True)
    ]
    return suites, without_secrets


class Selection(NamedTuple):
    """The suites with the cases that are selected.

    `left_out` has the others by name, with why; `remarks` are what else is to be said. There are no
    suites if nothing of what `--failed` looked at had failed.
    """

    suites: Sequence[CheckedSuite]
    left_out: Mapping[str, str]
    remarks: Sequence[str]


def select(suites: Sequence[CheckedSuite], overrides: Overrides, failed: str | None) -> Selection:
    """Return what is selected of all suites that were named.

    Args:
        suites: these.
        overrides: selects by tag, id and number.
        failed: the report by which only cases run that did not pass, but for those in quarantine;
            empty for that in the results folder.

    Raises:
        StorageError: the report cannot be read.
        UsageError: nothing is selected, or the report is of another suite.
    """
    check_selection(suites, overrides)
    if failed is None:
        reports, where = {}, Path()
    else:
        where = Path(failed or (suites[0].out if len(suites) == 1 else suites[0].out.parent))
        reports = {report.suite.name: report for report in read_reports(where)}
        if reports.keys().isdisjoint(suite.name for suite in suites):
            name, report = next(iter(reports.items()))
            raise UsageError(f"{report.name} is of another suite, {name!r}")
    selected: list[CheckedSuite] = []
    left_out, remarks = {}, list[str]()
    for suite in suites:
        left, why = suite, "none of its cases is selected"
        if failed is not None:
            if suite.name not in reports:
                left_out[suite.name] = f"it has no report in {where.as_posix()}"
                continue
            ids = reports[suite.name].failed_cases
            left = replace(
                suite,
                cases=[case for case in suite.cases if case.id in ids and case.quarantine is None],
            )
            narrowed = overrides.tags is not None or overrides.cases is not None
            why = _nothing_failed(
                suite,
                reports[suite.name],
                where,
                "none of the selected cases" if narrowed else "nothing",
            )
            if gone := sorted(ids - {case.id for case in suite.cases}):
                names = ", ".join([*map(name_of, gone[:5]), *(["…"] if gone[5:] else [])])
                remarks.append(
                    f"not run, as {suite.file} has no such case now, although it failed: {names}"
                )
        cases = select_cases(left, overrides)
        if len(cases) == len(suite.cases):
            selected.append(suite)
        elif cases:
            selected.append(
                apply_overrides(suite, Overrides(cases=tuple(case.id for case in cases)))
            )
        else:
            left_out[suite.name] = why
    return Selection(selected, left_out, remarks)


def _nothing_failed(suite: CheckedSuite, report: SavedReport, where: Path, subject: str) -> str:
    """`nothing failed in ci-evals-results, which has 2 of 40 cases, but for 1 case in
    quarantine`.
    """
    text = f"{subject} failed in {where.as_posix()}"
    if report.suite.selection:
        text += f", which has {report.suite.selection}"
    if quarantined := [
        case for case in suite.cases if case.quarantine and case.id in report.failed_cases
    ]:
        text += f", but for {number_of(len(quarantined), 'case')} in quarantine"
    return text
