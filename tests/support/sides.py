"""Cells of a report and of a baseline, as little as a comparison needs."""

from collections.abc import Mapping
from typing import Any

from ci_evals.gate.baseline import BaseCell, Baseline, Evidence, History, ReportedCell, ReportRef
from ci_evals.gate.compare import Comparison, compare
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Counts as CountsByStatus
from ci_evals.model.report import Outcome, Tally

Counts = tuple[int, int]
PASSED, FAILED = Outcome(True), Outcome(False)


def key_of(case: str, provider: str = "agent") -> CellKey:
    return case, provider, None


def head_of(
    cells: Mapping[str, Counts], more: Mapping[str, Counts] = {}, **changes: Any
) -> list[ReportedCell]:
    """Cells of a report by case: passed and graded runs; `more` has those of the repeats, failed
    ones first.

    A case's fingerprint is its name, up to a `/` if it has one.
    """
    provider = changes.pop("provider", "agent")
    return [
        ReportedCell(
            number,
            Case(id=case),
            Variant(provider),
            CountsByStatus(counts[0], counts[1] - counts[0], 0, counts[1]),
            case.partition("/")[0],
            Tally(*counts),
            repeats=repeats_of(*more.get(case, (0, 0))),
            **changes,
        )
        for number, (case, counts) in enumerate(cells.items())
    ]


def repeats_of(passed: int, runs: int) -> tuple[Outcome, ...]:
    """What became of so many repeats, of which so many passed: failed ones first."""
    return (FAILED,) * (runs - passed) + (PASSED,) * passed


def base_of(
    cells: Mapping[str, Counts | list[Counts]], provider: str = "agent", **changes: Any
) -> Baseline:
    """A baseline by case: passed and graded runs of one report, or of several, newest first."""
    evidence = {
        case: counts if isinstance(counts, list) else [counts] for case, counts in cells.items()
    }
    most = max(map(len, evidence.values()), default=1)
    refs = tuple(ReportRef(f"report {n}", 1000.0 - n, "0123456789abcdef") for n in range(most))
    found = {
        key_of(case, provider): BaseCell(
            case.partition("/")[0],
            History(tuple(Evidence(refs[n].id, *counts) for n, counts in enumerate(each))),
        )
        for case, each in evidence.items()
    }
    return Baseline(
        **({"suite": "test", "name": "main", "reports": refs, "cells": found} | changes)
    )


def compared(head: list[ReportedCell], base: Baseline, confirm_runs: int = 3) -> Comparison:
    """Compare, where a name takes seven repeats: four of a suspect, and three of a candidate."""
    return compare(head, base, confirm_runs=confirm_runs)
