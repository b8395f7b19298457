"""Tests with the `evals` marker: what it says becomes a suite, the suite a report."""

import re
from collections.abc import Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from ci_evals.api import evaluate, load_suite
from ci_evals.conclusion import write_reports
from ci_evals.config.code import Case
from ci_evals.config.decode import unknown
from ci_evals.errors import CiEvalsError, UsageError
from ci_evals.library.report import Report
from ci_evals.library.suite import Suite
from ci_evals.pytest_plugin import baseline_path
from ci_evals.pytest_plugin.loop import in_a_loop_of_its_own
from ci_evals.reports import terminal
from ci_evals.reports.text import one_line, without_commands
from ci_evals.verdict.comparison import Comparison, NoComparison
from ci_evals.verdict.gate import exit_code
from ci_evals.verdict.pairing import CellKind
from ci_evals.verdict.scopes import STATUS_WORDS
from ci_evals.verdict.sentences import cell_sentence, variant_sentence

_WIDTH = 100
_LINE_CHARACTERS = 1000
_SETTINGS = ("expect", "gate", "threshold", "timeout_s", "retries", "budget")
_KNOWN = ("prompt", "prompts", "cases", "target", "config", "runs", "max_concurrency", *_SETTINGS)


class Checked(Struct, frozen=True):
    """What became of a test's evaluation.

    `line` is the verdict for the summary, `figures` the same without a verdict, `changes` what differs from the
    baseline, `text` the verdict and what the command line prints: pytest's short summary shows its first line.
    """

    report: Report
    line: str
    figures: str
    changes: tuple[str, ...]
    text: str
    is_good: bool


def evaluated(item: pytest.Item, target: Any) -> Checked:
    """Evaluate what a test's marker asks for; what is wrong with it ends the test."""
    marker = item.get_closest_marker("evals")
    if marker is None:
        pytest.fail("evals_result needs a marker that says what to ask: @pytest.mark.evals(prompt=…)", pytrace=False)
    try:
        report = _evaluated(item, marker, target)
    except CiEvalsError as error:
        told = str(error)
    else:
        return checked(report, item)
    pytest.fail(told, pytrace=False)  # outside of the handler, so that no traceback comes with it


def _evaluated(item: pytest.Item, marker: pytest.Mark, target: Any) -> Report:
    settings = dict(marker.kwargs)
    _check(marker.args, settings)
    option = item.config.getoption
    runs = settings.pop("runs", None)
    most = settings.pop("max_concurrency", None)
    return in_a_loop_of_its_own(
        partial(
            evaluate,
            _suite(item, settings, target),
            runs=option("--evals-runs") if runs is None else runs,
            max_concurrency=option("--evals-max-concurrency") if most is None else most,
            out=folder_of(item),
            baseline=baseline_path(item.config),
        )
    )


def checked(report: Report, item: pytest.Item) -> Checked:
    """What a report says, in the words of the command line."""
    summary = report.judged
    write_page(report, folder_of(item))
    verdict = report.verdict
    text = terminal.render(summary, width=_WIDTH, color=False)
    figures, _, _ = report.summary().partition("\n")
    line = f"{STATUS_WORDS[verdict.status]}  {verdict.reason}"
    text = f"{without_commands(one_line(line, _LINE_CHARACTERS))}\n\n{text}"
    return Checked(report, line, figures, changes_of(report), text, exit_code(verdict, report.gate) == 0)


def write_page(report: Report, out: Path | None) -> None:
    """Add `report.html` to what an evaluation left in its folder."""
    if out is not None:
        write_reports(report.judged, out, ("html",))


def folder_of(item: pytest.Item | pytest.Collector) -> Path | None:
    """Where the reports of a test are: a folder of its own, of the same name in every session."""
    folder: Path | None = item.config.getoption("--evals-report")
    if folder is None:
        return None
    readable = re.sub(r"[^\w.-]+", "-", item.nodeid).strip("-.")[-80:]
    digest = blake2b(item.nodeid.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return item.config.invocation_params.dir / folder / f"{readable}-{digest}"


def changes_of(report: Report, case: str | None = None) -> tuple[str, ...]:
    """What differs from the baseline, of the whole report or of one case; why it could not be compared, if so."""
    comparison = report.comparison
    if isinstance(comparison, NoComparison):
        return (comparison.reason,)
    if not isinstance(comparison, Comparison):
        return ()
    whole = [] if case else [f"regressed: {variant_sentence(comparison, each)}" for each in comparison.fallen()]
    kinds: tuple[CellKind, ...] = ("regressed", "suspect", "fixed")
    cells = ((kind, cell) for kind in kinds for cell in comparison.of(kind) if case in (None, cell.case))
    return (*whole, *(f"{kind}: {cell_sentence(comparison, cell)}" for kind, cell in cells))


def _check(arguments: tuple[Any, ...], settings: Mapping[str, Any]) -> None:
    if arguments:
        raise UsageError("@pytest.mark.evals: name its arguments, as in evals(prompt=…)")
    for name in settings:
        if name not in _KNOWN:
            raise UsageError(f"@pytest.mark.evals: {unknown('argument', name, _KNOWN)}")
    asked = [name for name in ("prompt", "prompts", "cases", "config") if name in settings]
    if len(asked) != 1:
        what = " and ".join(asked) if asked else "nothing"
        raise UsageError(f"@pytest.mark.evals: give one of prompt, prompts, cases and config; there is {what}")
    if "config" in settings and (beside := settings.keys() - {"config", "runs", "max_concurrency"}):
        raise UsageError(f"@pytest.mark.evals: {', '.join(sorted(beside))}: belongs into the suite that config names")


def _suite(item: pytest.Item, settings: Mapping[str, Any], target: Any) -> Suite:
    if "config" in settings:
        return load_suite(item.path.parent / settings["config"])
    target = settings.get("target", target)
    if target is None:
        text = "say what answers: evals(target=…), or a fixture `evals_target` that returns it"
        raise UsageError(f"@pytest.mark.evals: {text}")
    file, line, _ = item.location
    place = (Path(file).as_posix(), (line or 0) + 1)
    cases = settings.get("cases") or [
        Case(input=text, file=place[0], line=place[1])
        for text in ([settings["prompt"]] if "prompt" in settings else settings.get("prompts", ()))
    ]
    given = {name: settings[name] for name in _SETTINGS if name in settings}
    return Suite(name=item.nodeid, cases=cases, providers=target, folder=item.path.parent, place=place, **given)
