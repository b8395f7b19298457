"""The pytest plug-in: evaluations as tests. What it needs beside pytest is imported when a test evaluates something."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ci_evals.library.report import Report

MARKER = "evals(prompt|prompts|cases|config, expect, target, runs, max_concurrency, gate, …): evaluate and judge"
OUTCOME = "evals"
"""The user property that carries a test's outcome from the process that ran it to the summary."""

_CHECKED = pytest.StashKey[Any]()
_MOST_LINES = 50


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("evals", "evaluations (ci-evals)")
    group.addoption(
        "--evals-runs", type=_count, metavar="N", help="Runs of every case; what a marker or a case says still wins."
    )
    group.addoption(
        "--evals-max-concurrency",
        type=_count,
        metavar="N",
        help="Calls under way at once in one test; what a marker says still wins.",
    )
    group.addoption("--evals-report", type=Path, metavar="DIR", help="Write the reports of each evaluating test here.")
    group.addoption(
        "--evals-baseline",
        type=Path,
        metavar="PATH",
        help="Compare with an earlier report, or with those of an earlier --evals-report: regressions fail.",
    )
    parser.addini(
        "evals_files",
        type="args",
        default=[],
        help="Suite files (globs) that are collected, one test for each case.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    if config.getoption("--evals-baseline") and baseline_path(config) is None:
        text = f"--evals-baseline: there is no report at {config.getoption('--evals-baseline')}: nothing is compared"
        config.issue_config_time_warning(pytest.PytestWarning(text), stacklevel=2)


def baseline_path(config: pytest.Config) -> Path | None:
    """Where earlier reports are: one of them, or the folder that `--evals-report` filled; None where nothing is."""
    given: Path | None = config.getoption("--evals-baseline")
    path = given and config.invocation_params.dir / given
    return path if path and path.exists() else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A suite file that is named on the command line or by `evals_files`: a stray one must not start paid calls."""
    if file_path.suffix not in (".yaml", ".yml", ".json"):
        return None
    patterns = parent.config.getini("evals_files")
    if not parent.session.isinitpath(file_path) and not any(file_path.match(pattern) for pattern in patterns):
        return None
    from ci_evals.pytest_plugin.files import SuiteFile

    return SuiteFile.from_parent(parent, path=file_path)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> None:
    """A marked test that does not look at the result itself is evaluated all the same."""
    if not isinstance(collector, pytest.Class | pytest.Module) or not collector.istestfunction(obj, name):
        return
    own = {mark.name for mark in getattr(obj, "pytestmark", ())}
    if "evals" in own or collector.get_closest_marker("evals"):
        pytest.mark.usefixtures("evals_result")(obj)


@pytest.fixture
def evals_target() -> Any:
    """What answers, unless the marker says so: override it in a conftest or beside the tests."""
    return None


@pytest.fixture
def evals_result(request: pytest.FixtureRequest, evals_target: Any) -> "Report":
    """The report of the evaluation that the test's `evals` marker asks for."""
    from ci_evals.pytest_plugin.marked import evaluated

    checked = evaluated(request.node, evals_target)
    request.node.stash[_CHECKED] = checked
    decides_itself = isinstance(request.node, pytest.Function) and _takes_the_result(request.node)
    lines = (checked.figures if decides_itself else checked.line, *(f"  {each}" for each in checked.changes))
    request.node.user_properties += [(OUTCOME, line) for line in lines]
    return checked.report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test that does not take `evals_result` fails by the gate; one that does decides by itself."""
    checked = item.stash.get(_CHECKED, None)
    if checked is None:
        if item.get_closest_marker("evals"):  # as that of one parameter: a test must not pass unevaluated
            pytest.fail("the `evals` marker came too late to be seen: let the test take `evals_result`", pytrace=False)
        return (yield)
    try:
        yield
    except BaseException:
        item.add_report_section("call", "evals", checked.text)
        raise
    if not checked.is_good and not (isinstance(item, pytest.Function) and _takes_the_result(item)):
        pytest.fail(checked.text, pytrace=False)


def _takes_the_result(item: pytest.Function) -> bool:
    import inspect

    return "evals_result" in inspect.signature(item.function).parameters


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What every evaluation found, one line each."""
    lines = [
        f"{report.nodeid}: {line}"
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, line in getattr(report, "user_properties", ())
        if name == OUTCOME and (report.when == "call" or (report.when == "setup" and report.outcome != "passed"))
    ]
    if not lines:
        return
    terminalreporter.section("evals")
    for line in lines[:_MOST_LINES]:
        terminalreporter.line(line)
    if len(lines) > _MOST_LINES:
        terminalreporter.line(f"… and {len(lines) - _MOST_LINES} more")


def _count(text: str) -> int:
    import argparse

    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
