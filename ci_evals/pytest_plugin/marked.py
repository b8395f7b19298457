"""Tests with the `evals` marker: what it says becomes a suite, the suite a report."""

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
from ci_evals.format import one_line, without_commands
from ci_evals.gate.bars import VERDICTS
from ci_evals.gate.compare import CellKind, Comparison, NoComparison
from ci_evals.gate.verdict import exit_code
from ci_evals.gate.wording import cell_sentence, variant_sentence
from ci_evals.library import Report
from ci_evals.model.case import Case
from ci_evals.pytest_plugin import baseline_path
from ci_evals.reports import terminal
from ci_evals.reports.files import write_reports
from ci_evals.suite.problems import unknown
from ci_evals.suite.types import Suite

T = TypeVar("T")

_WIDTH = 100
_LINE_CHARACTERS = 1000
_SETTINGS = ("expect", "judges", "gate", "threshold", "timeout_s", "retries", "budget")
_ASKED = ("prompt", "prompts", "cases", "config")
_KNOWN = (*_ASKED, "target", "runs", "max_concurrency", *_SETTINGS)


def run_in_thread(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in another thread and return or raise what it does; Ctrl-C ends it."""
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

    `line` is the verdict for the summary, `figures` the same without a verdict, `changes` what
    differs from the baseline, `text` the verdict and what the command line prints: pytest's short
    summary shows its first line.
    """

    report: Report
    line: str
    figures: str
    changes: tuple[str, ...]
    text: str
    is_good: bool


def evaluate_test(item: pytest.Item, target: Any, fixture: Callable[[str], Any]) -> Evaluation:
    """Evaluate what a test's markers ask for; a mistake in them fails the test.

    Args:
        item: the test.
        target: what answers unless a marker says so.
        fixture: returns a fixture, or a parameter of the test, by its name.
    """
    markers = list(item.iter_markers("evals"))
    if not markers:
        pytest.fail(
            "evals_result needs a marker that says what to ask: @pytest.mark.evals(prompt=…)",
            pytrace=False,
        )
    try:
        settings = _merge(markers)
        for name in {"prompt", "prompts", "cases"} & settings.keys():
            if inspect.isfunction(make := settings[name]):
                settings[name] = make(
                    *(fixture(parameter) for parameter in inspect.signature(make).parameters)
                )
        runs, max_concurrency = settings.pop("runs", None), settings.pop("max_concurrency", None)
        suite = _suite(item, settings, target)
        report = evaluate_in_thread(item, suite, runs=runs, max_concurrency=max_concurrency)
    except CiEvalsError as error:
        problem = str(error)
    else:
        verdict = report.verdict
        figures, _, _ = report.summary().partition("\n")
        line = f"{VERDICTS[verdict.status].upper()}  {verdict.reason}"
        shown = terminal.render(report.judged, width=_WIDTH, color=False)
        text = f"{without_commands(one_line(line, _LINE_CHARACTERS))}\n\n{shown}"
        return Evaluation(
            report, line, figures, changes_of(report), text, exit_code(verdict, report.gate) == 0
        )
    pytest.fail(
        problem, pytrace=False
    )  # outside of the handler, so that no traceback comes with it


def evaluate_in_thread(
    item: pytest.Item | pytest.Collector,
    suite: Suite,
    *,
    runs: int | None = None,
    max_concurrency: int | None = None,
    cases: Sequence[str] | None = None,
) -> Report:
    """Evaluate a suite, with the options of pytest's command line for what is None, and leave its
    reports in a folder.

    Args:
        item: whose reports these are.
        suite: what to run.
        runs: the runs of every case.
        max_concurrency: the calls under way at once.
        cases: the ids of the cases to run; None runs all.
    """
    option, out = item.config.getoption, _folder_of(item)
    report = run_in_thread(
        partial(
            evaluate,
            suite,
            cases=cases,
            runs=option("--evals-runs") if runs is None else runs,
            max_concurrency=option("--evals-max-concurrency")
            if max_concurrency is None
            else max_concurrency,
            out=out,
            baseline=baseline_path(item.config),
        )
    )
    if out is not None:
        write_reports(report.judged, out, ("html",))
    return report


def _folder_of(item: pytest.Item | pytest.Collector) -> Path | None:
    """Return the folder for the reports of a test, which has the same name in every session."""
    folder: Path | None = item.config.getoption("--evals-report")
    if folder is None:
        return None
    readable = re.sub(r"[^\w.-]+", "-", item.nodeid).strip("-.")[-80:]
    digest = blake2b(item.nodeid.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return item.config.invocation_params.dir / folder / f"{readable}-{digest}"


def changes_of(report: Report, case: str | None = None) -> tuple[str, ...]:
    """Return the changes against the baseline, of all cases or of one; else why nothing was
    compared.
    """
    comparison = report.comparison
    if isinstance(comparison, NoComparison):
        return (comparison.reason,)
    if not isinstance(comparison, Comparison):
        return ()
    whole = (
        []
        if case
        else [
            f"regressed: {variant_sentence(comparison, each)}"
            for each in comparison.worse_variants()
        ]
    )
    kinds: tuple[CellKind, ...] = ("regressed", "suspect", "fixed")
    cells = (
        (kind, cell)
        for kind in kinds
        for cell in comparison.select(kind)
        if case in (None, cell.case)
    )
    return (*whole, *(f"{kind}: {cell_sentence(comparison, cell)}" for kind, cell in cells))


def _merge(markers: Iterable[pytest.Mark]) -> dict[str, Any]:
    """Return the arguments of markers, the closest of which comes first and wins.

    Raises:
        UsageError: one does not exist, they ask for nothing, or for two things.
    """
    settings: dict[str, Any] = {}
    for marker in markers:
        if marker.args:
            raise UsageError("@pytest.mark.evals: name its arguments, as in evals(prompt=…)")
        asks = not settings.keys().isdisjoint(
            _ASKED
        )  # then what a marker further out asks is replaced
        beyond = {
            name: value for name, value in marker.kwargs.items() if not (asks and name in _ASKED)
        }
        settings = beyond | settings
    for name in settings:
        if name not in _KNOWN:
            raise UsageError(f"@pytest.mark.evals: {unknown('argument', name, _KNOWN)}")
    asked = [name for name in _ASKED if name in settings]
    if len(asked) != 1:
        what = " and ".join(asked) if asked else "nothing"
        raise UsageError(
            f"@pytest.mark.evals: give one of prompt, prompts, cases and config; there is {what}"
        )
    if "config" in settings and (beside := settings.keys() - {"config", "runs", "max_concurrency"}):
        raise UsageError(
            f"@pytest.mark.evals: {', '.join(sorted(beside))}: belongs into the suite that config names"
        )
    return settings


def _suite(item: pytest.Item, settings: Mapping[str, Any], target: Any) -> Suite:
    if "config" in settings:
        return load_suite(item.path.parent / settings["config"])
    target = settings.get("target", target)
    if target is None:
        text = "say what answers: evals(target=…), or a fixture `evals_target` that returns it"
        raise UsageError(f"@pytest.mark.evals: {text}")
    file, line, _ = item.location
    place: dict[str, Any] = {"file": Path(file).as_posix(), "line": (line or 0) + 1}
    cases = settings.get("cases") or [
        Case(input=text, **place)
        for text in ([settings["prompt"]] if "prompt" in settings else settings.get("prompts", ()))
    ]
    given = {name: settings[name] for name in _SETTINGS if name in settings}
    return Suite(
        name=item.nodeid, cases=cases, providers=target, folder=item.path.parent, **place, **given
    )
