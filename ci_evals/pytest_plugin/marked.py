"""Tests with the `evals` marker, whose arguments become a suite."""

import asyncio
import contextvars
import inspect
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ci_evals.api import evaluate, load_suite
from ci_evals.errors import CiEvalsError, UsageError
from ci_evals.format import name_of, one_line
from ci_evals.gate.bars import VERDICTS
from ci_evals.gate.cells import CellKind
from ci_evals.gate.compare import Comparison, NoComparison
from ci_evals.gate.verdict import exit_code
from ci_evals.gate.wording.comparisons import cell_sentence, variant_sentence
from ci_evals.library import Report
from ci_evals.model.case import Case
from ci_evals.pytest_plugin import baseline_path
from ci_evals.reports import terminal
from ci_evals.reports.files import write_reports
from ci_evals.reports.findings import findings
from ci_evals.reports.notes import outcome
from ci_evals.suite.problems import unknown
from ci_evals.suite.types import Suite

T = TypeVar("T")

_WIDTH = 100
_SUITE_SETTINGS = (
    *("expect", "judges", "setup"),
    *("gate", "threshold", "timeout_s", "retries", "budget"),
)
_INPUTS = ("prompt", "prompts", "cases", "config")
_ARGUMENTS = (*_INPUTS, "target", "runs", "max_concurrency", *_SUITE_SETTINGS)


def run_in_thread(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in another thread and return its value. Ctrl-C cancels it.

    An event loop may already run in this thread: that of an async test.
    """
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = []

    async def main() -> T:
        task = asyncio.ensure_future(make())
        started.append((asyncio.get_running_loop(), task))
        return await task

    context = contextvars.copy_context()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="ci-evals") as pool:
        running = pool.submit(context.run, asyncio.run, main())
        try:
            return running.result()
        except BaseException:
            if not running.done():
                for loop, task in started:
                    loop.call_soon_threadsafe(task.cancel)
            raise


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The outcome of a test's evaluation.

    Attributes:
        report: the report.
        line: the verdict and its reason, for the summary.
        figures: the numbers of runs, without a verdict.
        changes: the differences from the baseline.
        text: the output of the command line, after the reason of the first failed case, which
            pytest's short summary shows.
        is_good: True if the gate lets it pass.
    """

    report: Report
    line: str
    figures: str
    changes: tuple[str, ...]
    text: str
    is_good: bool


def evaluate_test(item: pytest.Item, target: Any, fixture: Callable[[str], Any]) -> Evaluation:
    """Evaluate the suite that a test's markers describe; a mistake in them fails the test.

    Args:
        item: the test.
        target: the provider if no marker names one.
        fixture: returns a fixture or a parameter of the test by its name.
    """
    markers = list(item.iter_markers("evals"))
    if not markers:
        pytest.fail(
            "evals_result needs a marker with the input: @pytest.mark.evals(prompt=…)",
            pytrace=False,
        )
    try:
        settings = _merge(markers)
        for name in ("prompt", "prompts", "cases"):
            make = settings.get(name)
            if inspect.isfunction(make):
                parameters = inspect.signature(make).parameters
                settings[name] = make(*map(fixture, parameters))
        runs = settings.pop("runs", None)
        max_concurrency = settings.pop("max_concurrency", None)
        suite = _suite(item, settings, target)
        report = evaluate_in_thread(item, suite, runs=runs, max_concurrency=max_concurrency)
    except CiEvalsError as error:
        problem = str(error)
    else:
        return _describe(report)
    # Outside of the handler: pytest would show the traceback of the error as well.
    pytest.fail(problem, pytrace=False)


def _describe(report: Report) -> Evaluation:
    verdict = report.verdict
    line = f"{VERDICTS[verdict.status].upper()}  {verdict.reason}"
    text = terminal.render(report.judged, width=_WIDTH, color=False)
    cell = findings(report.judged).first_cell
    if cell is not None and cell.failures.most_frequent:
        reason = one_line(cell.failures.most_frequent)
        text = f"{name_of(cell.case.id)}: {reason}\n\n{text}"
    return Evaluation(
        report=report,
        line=line,
        figures=outcome(report.judged.report),
        changes=changes_of(report),
        text=text,
        is_good=exit_code(verdict, report.gate) == 0,
    )


def evaluate_in_thread(
    item: pytest.Item | pytest.Collector,
    suite: Suite,
    *,
    runs: int | None = None,
    max_concurrency: int | None = None,
    cases: Sequence[str] | None = None,
) -> Report:
    """Evaluate a suite, and write its reports if --evals-report is set.

    Args:
        item: the test or file that the reports belong to.
        suite: the suite.
        runs: executions of every cell; default: --evals-runs.
        max_concurrency: calls under way at once; default: --evals-max-concurrency.
        cases: the ids of the cases to run; None runs all.
    """
    if runs is None:
        runs = item.config.getoption("--evals-runs")
    if max_concurrency is None:
        max_concurrency = item.config.getoption("--evals-max-concurrency")
    out = _folder_of(item)
    make = partial(
        evaluate,
        suite,
        cases=cases,
        runs=runs,
        max_concurrency=max_concurrency,
        out=out,
        baseline=baseline_path(item.config),
    )
    report = run_in_thread(make)
    if out is not None:
        write_reports(report.judged, out, ("html",))
    return report


def _folder_of(item: pytest.Item | pytest.Collector) -> Path | None:
    """Return the folder for the reports of a test. Its name is the same in every session."""
    folder: Path | None = item.config.getoption("--evals-report")
    if folder is None:
        return None
    readable = re.sub(r"[^\w.-]+", "-", item.nodeid)
    readable = readable.strip("-.")[-80:]  # the end names the test; the digest keeps it unique
    digest = blake2b(item.nodeid.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return item.config.invocation_params.dir / folder / f"{readable}-{digest}"


def changes_of(report: Report, case: str | None = None) -> tuple[str, ...]:
    """Return the changes against the baseline, of all cases or of one.

    If a comparison was not possible, return the reason.
    """
    comparison = report.comparison
    if isinstance(comparison, NoComparison):
        return (comparison.sentence,)
    if not isinstance(comparison, Comparison):
        return ()
    changes: list[str] = []
    if case is None:
        variants = comparison.worse_variants()
        changes += [f"regressed: {variant_sentence(comparison, variant)}" for variant in variants]
    kinds: tuple[CellKind, ...] = ("regressed", "suspect", "fixed")
    for kind in kinds:
        for cell in comparison.select(kind):
            if case in (None, cell.case):
                sentence = cell_sentence(comparison, cell)
                changes.append(f"{kind}: {sentence}")
    return tuple(changes)


def _merge(markers: Iterable[pytest.Mark]) -> dict[str, Any]:
    """Merge the arguments of markers. The marker closest to the test comes first and wins.

    Raises:
        UsageError: an argument does not exist, or there is not exactly one kind of input.
    """
    settings: dict[str, Any] = {}
    for marker in markers:
        if marker.args:
            raise UsageError("@pytest.mark.evals: name its arguments, as in evals(prompt=…)")
        # An input of a closer marker replaces every kind of input, not just its own.
        has_input = not settings.keys().isdisjoint(_INPUTS)
        for name, value in marker.kwargs.items():
            if name in settings or (has_input and name in _INPUTS):
                continue
            settings[name] = value
    for name in settings:
        if name not in _ARGUMENTS:
            raise UsageError(f"@pytest.mark.evals: {unknown('argument', name, _ARGUMENTS)}")
    inputs = [name for name in _INPUTS if name in settings]
    if len(inputs) != 1:
        what = " and ".join(inputs) or "nothing"
        raise UsageError(
            f"@pytest.mark.evals: pass one of prompt, prompts, cases and config, got {what}"
        )
    if "config" in settings:
        others = sorted(settings.keys() - {"config", "runs", "max_concurrency"})
        if others:
            raise UsageError(
                f"@pytest.mark.evals: {', '.join(others)}: belongs in the suite that config names"
            )
    return settings


def _suite(item: pytest.Item, settings: Mapping[str, Any], target: Any) -> Suite:
    if "config" in settings:
        return load_suite(item.path.parent / settings["config"])
    target = settings.get("target", target)
    if target is None:
        raise UsageError(
            "@pytest.mark.evals: there is no provider: pass evals(target=…),"
            " or define a fixture `evals_target` that returns it"
        )
    file, line, _ = item.location
    place: dict[str, Any] = {"file": Path(file).as_posix(), "line": (line or 0) + 1}
    cases = settings.get("cases")
    if not cases:
        prompts = settings.get("prompts", ())
        if "prompt" in settings:
            prompts = [settings["prompt"]]
        cases = [Case(input=prompt, **place) for prompt in prompts]
    values = {name: settings[name] for name in _SUITE_SETTINGS if name in settings}
    return Suite(
        name=item.nodeid, cases=cases, providers=target, folder=item.path.parent, **place, **values
    )
