"""How often the gate is wrong, by simulation.

Cases differ as published for tool-agent benchmarks: their own rates follow a beta distribution with
an intra-class correlation of 0.5. The same cases are run again and again; only the runs are random.
"""

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache

import pytest
from factories import report_of, result_of

from ci_evals.gate.verdict import decide
from ci_evals.model.report import RunRecord, SuiteReport
from ci_evals.model.rules import Gate
from ci_evals.stats.distributions import beta_quantile

REPEATS = 400
GATE = Gate(min_pass_rate=0.9)
PASSED, FAILED = (
    RunRecord.of(result_of(status=status), offset=0) for status in ("passed", "failed")
)

SIZES = [(40, 1), (40, 3), (40, 5), (100, 3)]
EXPECTED = {  # true rate -> percentages of pass, borderline and fail for each size
    0.94: [(97, 3, 0), (100, 0, 0), (100, 0, 0), (100, 0, 0)],
    0.92: [(86, 14, 0), (92, 8, 0), (95, 5, 0), (97, 3, 0)],
    0.90: [(66, 34, 1), (60, 38, 2), (59, 39, 3), (57, 40, 4)],
    0.88: [(43, 54, 3), (23, 60, 17), (14, 59, 27), (8, 52, 40)],
    0.85: [(18, 65, 17), (2, 35, 62), (0, 13, 86), (0, 3, 96)],
}


@cache
def verdicts(true_rate: float, cases: int, runs: int) -> tuple[float, float, float]:
    """Percentages of pass, borderline and fail among repeated evaluations of one suite."""
    blank = report_of({f"case {number}": "." * runs for number in range(cases)})
    rates = [
        beta_quantile((number + 0.5) / cases, true_rate, 1 - true_rate) for number in range(cases)
    ]
    rng = random.Random(f"{true_rate} {cases} {runs}")
    seen = Counter(decide(evaluated(blank, rates, rng), GATE).status for _ in range(REPEATS))
    return (
        100 * seen["pass"] / REPEATS,
        100 * seen["borderline"] / REPEATS,
        100 * seen["fail"] / REPEATS,
    )


def evaluated(blank: SuiteReport, rates: Sequence[float], rng: random.Random) -> SuiteReport:
    records = {
        index: PASSED if rng.random() < rate else FAILED
        for cell, rate in enumerate(rates)
        for index in blank.plan.indices(cell)
    }
    return SuiteReport(
        blank.suite,
        blank.plan,
        records,
        lines=lambda _: iter(()),
        fingerprints=(),
        started_at=0,
        duration_s=0,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("cases", "runs"), SIZES)
@pytest.mark.parametrize("true_rate", EXPECTED)
def test_the_gate_is_as_often_right_as_documented(true_rate: float, cases: int, runs: int) -> None:
    documented = EXPECTED[true_rate][SIZES.index((cases, runs))]
    assert verdicts(true_rate, cases, runs) == pytest.approx(documented, abs=7)


@pytest.mark.parametrize(("cases", "runs"), SIZES)
def test_a_suite_that_is_at_its_bar_fails_by_bad_luck_at_most_six_times_in_a_hundred(
    cases: int, runs: int
) -> None:
    _, _, fail = verdicts(0.90, cases, runs)
    assert fail <= 6


def test_a_drop_of_five_points_is_seen_with_three_runs_of_forty_cases() -> None:
    _, _, fail = verdicts(0.85, 40, 3)
    assert fail >= 60


def test_a_suite_that_is_well_above_its_bar_is_never_red() -> None:
    assert all(verdicts(0.94, cases, runs)[2] == 0 for cases, runs in SIZES)
