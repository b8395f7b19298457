"""Compares cells with their pooled history, as a pull request does, and prints the CPU seconds."""

import random
import sys
import time
from functools import cache

from ci_evals.gate.baseline import (
    BaseCell,
    Baseline,
    Evidence,
    History,
    PerRun,
    ReportedCell,
    ReportRef,
)
from ci_evals.gate.compare import compare
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Counts, Tally
from ci_evals.stats.differences import ScoreSums

REPORTS, RUNS = 10, 3
FLAKY, BROKEN = 8, 2
"""Of a hundred cells; all others pass always."""


def main(cells: int) -> None:
    rng = random.Random(1)
    refs = tuple(ReportRef(f"{number:032x}", -float(number)) for number in range(REPORTS))
    head: list[ReportedCell] = []
    base: dict[CellKey, BaseCell] = {}
    history = cache(History)  # cells of the same runs share one, as where a report is read back
    for number in range(cells):
        kind = number % 100
        rate = rng.random() if kind < FLAKY else 1.0
        key = (f"case {number}", "agent", None)
        evidence = tuple(Evidence(ref.id, drawn(rng, rate), RUNS) for ref in refs)
        base[key] = BaseCell(
            f"{number:016x}", history(evidence), {refs[0].id: per_run(rng, evidence[0].passed)}
        )
        passed = 0 if FLAKY <= kind < FLAKY + BROKEN else drawn(rng, rate)
        head.append(
            ReportedCell(
                number,
                Case(id=key[0]),
                Variant("agent"),
                Counts(passed, RUNS - passed, 0, RUNS),
                f"{number:016x}",
                Tally(passed, RUNS),
                per_run=per_run(rng, passed),
            )
        )
    baseline = Baseline(suite="benchmark", reports=refs, cells=base)
    started = time.process_time()
    compare(head, baseline, confirm_runs=3)
    print(time.process_time() - started)


def drawn(rng: random.Random, rate: float) -> int:
    """How many of a cell's runs pass."""
    return sum(rng.random() < rate for _ in range(RUNS))


def per_run(rng: random.Random, passed: int) -> PerRun:
    mean_tokens = sum(rng.randrange(200, 900) for _ in range(RUNS)) / RUNS
    return PerRun(
        scores=ScoreSums(RUNS, float(passed), float(passed)),
        cost_usd=mean_tokens * 2e-6,
        tokens=mean_tokens,
        latency_median_s=rng.uniform(0.5, 3),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
