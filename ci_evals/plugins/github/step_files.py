"""The files of a step: its outputs, and its part of the job's summary."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import fsum
from pathlib import Path
from typing import Final
from uuid import uuid4

from ci_evals.errors import StorageError
from ci_evals.gate.bars import SEVERITY
from ci_evals.reports.report_json import REPORT
from ci_evals.reports.summary import Summary

MAX_SUMMARY_BYTES: Final = 1_048_576
"""GitHub drops the whole summary of a step if it has one byte more."""


def outputs(summary: Summary, out: Path) -> dict[str, str]:
    """Return the outputs for one suite; unknown ones are empty.

    Args:
        summary: the report and its verdict.
        out: the results folder.
    """
    report, compared = summary.report, summary.compared
    pass_rate, regressions, cost_usd = "", "", ""
    if report.pass_rate is not None:
        pass_rate = f"{report.pass_rate:.4f}"
    if compared:
        regressed = {cell.case for cell in compared.cells if cell.kind == "regressed"}
        regressions = str(len(regressed))
    if report.spent.total_usd is not None:
        cost_usd = f"{report.spent.total_usd:.6f}"
    path = out / REPORT
    if not path.is_file():
        path = out
    return {
        "verdict": summary.verdict.status,
        "pass-rate": pass_rate,
        "regressions": regressions,
        "cost-usd": cost_usd,
        "report-path": str(path),
    }


def outputs_of_all(summaries: Sequence[Summary], out: Path) -> dict[str, str]:
    """Return the outputs for several suites: the worst verdict, and sums."""
    of_each = [outputs(summary, out) for summary in summaries]
    worst = max(summaries, key=lambda summary: SEVERITY[summary.verdict.status])
    regressions = [int(values["regressions"]) for values in of_each if values["regressions"]]
    costs_usd = [float(values["cost-usd"]) for values in of_each if values["cost-usd"]]
    return {
        "verdict": worst.verdict.status,
        "pass-rate": "",
        "regressions": str(sum(regressions)) if regressions else "",
        "cost-usd": f"{fsum(costs_usd):.6f}" if costs_usd else "",
        "report-path": str(out),
    }


def write_outputs(path: Path, values: Mapping[str, str]) -> None:
    """Append outputs, by name, to the file that `GITHUB_OUTPUT` names. Values may have several
    lines.

    Raises:
        StorageError: the file cannot be written.
    """
    delimiter = f"ci_evals_{uuid4().hex}"  # cannot be guessed, so no value can contain it
    text = "".join(f"{name}<<{delimiter}\n{value}\n{delimiter}\n" for name, value in values.items())
    with _writing(path), path.open("ab") as file:
        file.write(text.encode("utf-8", "replace"))


def append_summary(path: Path, render: Callable[[int], str]) -> None:
    """Append Markdown to the file that `GITHUB_STEP_SUMMARY` names.

    Args:
        path: the file. Earlier text of the same step counts against GitHub's limit as well.
        render: returns the text in at most this number of bytes of UTF-8.

    Raises:
        StorageError: the file cannot be written.
    """
    with _writing(path), path.open("ab") as file:
        room = MAX_SUMMARY_BYTES - file.tell()
        content = render(room - 1).encode("utf-8", "replace") + b"\n"
        if len(content) <= room:
            file.write(content)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
