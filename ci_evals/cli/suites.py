"""Loads the suites that `run` names, gives each a results folder, and selects their cases."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_evals.cli import options
from ci_evals.errors import ConfigError, Problem, StorageError, UsageError
from ci_evals.files import file_name
from ci_evals.format import name_of, number_of
from ci_evals.hosts import Host
from ci_evals.model.case import Case
from ci_evals.suite.configs import find_configs
from ci_evals.suite.overrides import Overrides, apply_overrides, check_selection, select_cases
from ci_evals.suite.types import RESULTS, CheckedSuite

if TYPE_CHECKING:
    from ci_evals.reports.saved import SavedReport

_MAX_NAMED = 5


def load_suite_of_job(
    config: Path | None, overrides: Overrides, host: Host, *, offline: bool
) -> tuple[CheckedSuite, bool]:
    """Return the suite, and True if its keys are missing because the host gives no secrets."""
    try:
        return options.load_named_suite(config, overrides, offline=offline), False
    except ConfigError:
        if not host.lacks_secrets:
            raise
        # Keys may be all that is missing; without them, any other problem is raised again.
        return options.load_named_suite(config, overrides, offline=True), True


def load_suites_of_job(
    named: Sequence[Path], overrides: Overrides, host: Host, *, offline: bool
) -> tuple[list[CheckedSuite], frozenset[str]]:
    """Return the suites that are named, and the names of those whose keys are missing.

    Each of several suites has a results folder of its own, and redacts the secrets of all: they run
    in one process, so that the code of one may see another's.

    Raises:
        ConfigError: with the problems of all suites.
        UsageError: two suites have the same name, which identifies their results and sections of
            the comment.
    """
    suites: list[CheckedSuite] = []
    without_secrets: set[str] = set()
    problems: list[Problem] = []
    for path in find_configs(named):
        try:
            suite, lacks_secrets = load_suite_of_job(path, overrides, host, offline=offline)
        except ConfigError as error:
            problems += error.problems
            continue
        suites.append(suite)
        if lacks_secrets:
            without_secrets.add(suite.name)
    if problems:
        raise ConfigError(problems)
    if len(suites) == 1:
        return suites, frozenset(without_secrets)
    files: dict[str, str] = {}
    for suite in suites:
        other = files.setdefault(suite.name, suite.file)
        if other != suite.file:
            problem = f"{other} and {suite.file} are both called {suite.name!r}"
            raise UsageError(f"{problem}: change the `name` of one")
    secrets: dict[str, None] = {}
    for suite in suites:
        secrets |= dict.fromkeys(suite.secrets)
    out = overrides.out or Path(RESULTS)
    with_folders = []
    for suite in suites:
        folder = out / file_name(suite.name)
        report = replace(suite.report, out=folder.as_posix())
        with_folders.append(replace(suite, secrets=tuple(secrets), report=report))
    return with_folders, frozenset(without_secrets)


class Selection(NamedTuple):
    """The suites with their selected cases.

    `left_out` says why other suites do not run, by name; `remarks` are for the user. There are no
    suites if nothing failed in the report that `--failed` names.
    """

    suites: Sequence[CheckedSuite]
    left_out: Mapping[str, str]
    remarks: Sequence[str]


def select(suites: Sequence[CheckedSuite], overrides: Overrides, failed: str | None) -> Selection:
    """Select the cases to run.

    Args:
        suites: all suites that are named.
        overrides: selects cases by tag, id and number.
        failed: the report whose failed cases are to run, except those in quarantine; empty for the
            report in the results folder, None to run all cases.

    Raises:
        StorageError: the report cannot be read.
        UsageError: nothing is selected, or the report is of another suite.
    """
    check_selection(suites, overrides)
    if failed is None:
        return _select_by_overrides(suites, overrides)
    where = Path(failed)
    if not failed:
        where = suites[0].out
        if len(suites) > 1:
            where = where.parent
    from ci_evals.reports.read import read_reports

    saved = {report.suite.name: report for report in read_reports(where)}
    if not any(suite.name in saved for suite in suites):
        name, report = next(iter(saved.items()))
        raise UsageError(f"{report.name} is of another suite, {name!r}")
    selected: list[CheckedSuite] = []
    left_out: dict[str, str] = {}
    remarks: list[str] = []
    for suite in suites:
        report_of_suite = saved.get(suite.name)
        if report_of_suite is None:
            left_out[suite.name] = f"it has no report in {where.as_posix()}"
            continue
        failed_ids = report_of_suite.failed_cases
        to_run = [case for case in suite.cases if case.id in failed_ids and case.quarantine is None]
        chosen = select_cases(replace(suite, cases=to_run), overrides)
        if chosen:
            selected.append(_restrict(suite, chosen))
        else:
            subject = "nothing"
            if overrides.tags is not None or overrides.cases is not None:
                subject = "none of the selected cases"
            left_out[suite.name] = _nothing_failed(suite, report_of_suite, where, subject)
        known_ids = {case.id for case in suite.cases}
        gone = sorted(failed_ids - known_ids)
        if gone:
            names = [name_of(case_id) for case_id in gone[:_MAX_NAMED]]
            if len(gone) > _MAX_NAMED:
                names.append("…")
            named = ", ".join(names)
            remarks.append(f"not run: {suite.file} no longer has cases that failed: {named}")
    return Selection(selected, left_out, remarks)


def failed_before(suite: CheckedSuite) -> tuple[str, ...]:
    """Return the cases outside a selection that did not pass when they last ran."""
    if suite.selection is None:
        return ()
    failed = failed_last(suite)
    return tuple(sorted(failed - {case.id for case in suite.cases}))


def failed_last(suite: CheckedSuite) -> frozenset[str]:
    """Return the cases that did not pass when they last ran.

    They are in the report in the results folder, so this must be called before the run replaces it.
    """
    from ci_evals.reports.read import read_reports

    try:
        saved = read_reports(suite.out)
    except StorageError:  # `--failed` will say what is wrong with it
        return frozenset()
    failed: set[str] = set()
    for report in saved:
        if report.suite.name == suite.name:
            failed |= report.failed_cases
    return frozenset(failed)


def _select_by_overrides(suites: Sequence[CheckedSuite], overrides: Overrides) -> Selection:
    selected: list[CheckedSuite] = []
    left_out: dict[str, str] = {}
    for suite in suites:
        chosen = select_cases(suite, overrides)
        if chosen:
            selected.append(_restrict(suite, chosen))
        else:
            left_out[suite.name] = "none of its cases is selected"
    return Selection(selected, left_out, ())


def _restrict(suite: CheckedSuite, cases: Sequence[Case]) -> CheckedSuite:
    """Return a suite with some of its cases, which its reports then call a selection."""
    if len(cases) == len(suite.cases):
        return suite
    ids = tuple(case.id for case in cases)
    return apply_overrides(suite, Overrides(cases=ids))


def _nothing_failed(suite: CheckedSuite, report: "SavedReport", where: Path, subject: str) -> str:
    """Return why `--failed` selects nothing of a suite.

    `nothing failed in ci-evals-results, which has 2 of 40 cases, except 1 case in quarantine`
    """
    text = f"{subject} failed in {where.as_posix()}"
    if report.suite.selection:
        text += f", which has {report.suite.selection}"
    failed = [case for case in suite.cases if case.id in report.failed_cases]
    quarantined = [case for case in failed if case.quarantine]
    if quarantined:
        number = number_of(len(quarantined), "case")
        text += f", except {number} in quarantine"
    return text
