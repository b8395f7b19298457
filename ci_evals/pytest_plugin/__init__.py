"""The pytest plug-in: evaluations as tests.

Every pytest session of a project with ci-evals installed imports this file, so it imports only
pytest. A test with the `evals` marker, or a suite file, loads the rest.
"""

import argparse
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

OUTCOME = "evals"
"""The user property with a test's outcome for the summary. pytest-xdist hands user properties on
from its workers.
"""

MARKER = (
    "evals(prompt|prompts|cases|config, expect, judges, target, runs, gate, …): evaluate and judge"
)
_EVALUATION = pytest.StashKey[Any]()
_MOST_LINES = 50


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("evals", "evaluations (ci-evals)")
    group.addoption(
        "--evals-runs",
        type=_count,
        metavar="N",
        help="Runs of every case; a marker's or a case's own value still wins.",
    )
    group.addoption(
        "--evals-max-concurrency",
        type=_count,
        metavar="N",
        help="Calls under way at once in one test; a marker's own value still wins.",
    )
    group.addoption(
        "--evals-report",
        type=Path,
        metavar="DIR",
        help="Write the reports of each evaluating test here.",
    )
    group.addoption(
        "--evals-baseline",
        type=Path,
        metavar="PATH",
        help="Compare with an earlier report, or with a folder that --evals-report filled:"
        " regressions fail.",
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
        path = config.getoption("--evals-baseline")
        text = f"--evals-baseline: there is no report at {path}: nothing is compared"
        config.issue_config_time_warning(pytest.PytestWarning(text), stacklevel=2)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a suite file that the command line or `evals_files` names.

    Other files must not start paid calls.
    """
    if file_path.suffix not in (".yaml", ".yml", ".json"):
        return None
    patterns = parent.config.getini("evals_files")
    if not parent.session.isinitpath(file_path) and not any(
        file_path.match(pattern) for pattern in patterns
    ):
        return None
    collector: pytest.Collector = _load("suites").SuiteFile.from_parent(parent, path=file_path)
    return collector


def _load(module: str) -> Any:
    """Import a module of the plug-in once a session needs it."""
    return import_module(f"ci_evals.pytest_plugin.{module}")


def baseline_path(config: pytest.Config) -> Path | None:
    """Return the path of earlier reports: one report, or a folder that `--evals-report` filled.

    None if the option is not set, or if the path does not exist: the first run has no baseline.
    """
    named: Path | None = config.getoption("--evals-baseline")
    if named is None:
        return None
    path = config.invocation_params.dir / named
    if not path.exists():
        return None
    return path


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> None:
    """Give every marked test the fixture, so that it is evaluated even if it takes no result."""
    if not isinstance(collector, pytest.Class | pytest.Module) or not collector.istestfunction(
        obj, name
    ):
        return
    own = {mark.name for mark in getattr(obj, "pytestmark", ())}
    if "evals" in own or collector.get_closest_marker("evals"):
        pytest.mark.usefixtures("evals_result")(obj)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Add the fixture to a test that is marked by one of its parameters only."""
    if isinstance(item, pytest.Function) and item.get_closest_marker("evals"):
        # A new list: the tests of all parameters share one.
        item.fixturenames = list(dict.fromkeys((*item.fixturenames, "evals_result")))


@pytest.fixture
def evals_target() -> Any:
    """The provider if the marker names none: override this fixture in a conftest or module."""
    return None


@pytest.fixture
def evals_result(request: pytest.FixtureRequest, evals_target: Any) -> Any:
    """The report of the evaluation that the test's `evals` marker describes."""
    evaluation = _load("marked").evaluate_test(request.node, evals_target, request.getfixturevalue)
    request.node.stash[_EVALUATION] = evaluation
    headline = evaluation.line
    if _takes_the_result(request.node):  # it decides by itself: a verdict could contradict it
        headline = evaluation.figures
    lines = [headline, *(f"  {change}" for change in evaluation.changes)]
    request.node.user_properties += [(OUTCOME, line) for line in lines]
    return evaluation.report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test if the gate fails, unless it takes `evals_result` and decides by itself."""
    evaluation = item.stash.get(_EVALUATION, None)
    if evaluation is None:
        if item.get_closest_marker("evals"):  # it must not pass without an evaluation
            pytest.fail(
                "the `evals` marker was added too late: let the test take `evals_result`",
                pytrace=False,
            )
        return (yield)
    try:
        yield
    except BaseException:
        item.add_report_section("call", "evals", evaluation.text)
        raise
    if not evaluation.is_good and not _takes_the_result(item):
        pytest.fail(evaluation.text, pytrace=False)


def _takes_the_result(item: pytest.Item) -> bool:
    """Return True if a test has the argument `evals_result`."""
    if not isinstance(item, pytest.Function):
        return False
    return "evals_result" in inspect.signature(item.function).parameters


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the outcome of every evaluation."""
    lines = []
    for reports in terminalreporter.stats.values():
        for report in reports:
            when = getattr(report, "when", None)
            if when == "call" or (when == "setup" and report.outcome != "passed"):
                outcome = [line for name, line in report.user_properties if name == OUTCOME]
                lines += [f"{report.nodeid}: {line}" for line in outcome]
    if not lines:
        return
    terminalreporter.section("evals")
    for line in lines[:_MOST_LINES]:
        terminalreporter.line(line)
    if len(lines) > _MOST_LINES:
        terminalreporter.line(f"… and {len(lines) - _MOST_LINES} more")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
