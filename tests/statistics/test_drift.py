"""The detector of slow losses: known histories, scipy, and how seldom it is wrong."""

import json
from collections.abc import Mapping, Sequence
from math import exp, fsum, log
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ci_evals.stats.drift import (
    DriftEvidence,
    log_e_values,
    loss,
    total_evidence,
)
from ci_evals.stats.exact_tests import Table
from ci_evals.stats.thresholds import DRIFT_ALARM, DRIFT_BETS, DRIFT_QUIET

KNOWN = json.loads((Path(__file__).parents[1] / "data" / "drift_histories.json").read_text("utf-8"))
HISTORIES = {entry["id"]: entry for entry in KNOWN["entries"]}
Counts = Sequence[tuple[int, int]]


def evidence_of(reports: Sequence[Counts]) -> list[float]:
    """The evidence after each report of a history, oldest first."""
    sums = [(0, 0)] * len(reports[0])
    bets = [DriftEvidence()] * len(DRIFT_BETS)
    found = []
    for report in reports:
        pairs = list(zip(report, sums, strict=True))
        logs = log_e_values((*mine, *earlier) for mine, earlier in pairs)
        if logs is not None:
            bets = [bet.update(e) for bet, e in zip(bets, logs, strict=True)]
        sums = [(p + q, n + m) for (p, n), (q, m) in pairs]
        found.append(total_evidence(bets))
    return found


def test_the_levels_are_those_of_the_known_histories() -> None:
    assert list(DRIFT_BETS) == KNOWN["bets"]
    assert (KNOWN["alarm"], KNOWN["quiet"]) == (DRIFT_ALARM, DRIFT_QUIET)


@pytest.mark.parametrize("name", HISTORIES)
def test_known_histories_have_their_evidence(name: str) -> None:
    history: Mapping[str, Any] = HISTORIES[name]
    assert evidence_of(history["reports"]) == pytest.approx(history["s"], rel=1e-12)


def test_the_loss_is_that_of_the_known_step() -> None:
    history = HISTORIES["step"]
    since = history["since"]
    tables = []
    for cell in range(len(history["reports"][0])):
        sides = []
        for part in (history["reports"][since:], history["reports"][:since]):
            sides += [
                sum(report[cell][0] for report in part),
                sum(report[cell][1] for report in part),
            ]
        tables.append(tuple(sides))
    found = loss(tables)
    assert found is not None
    assert found.value == pytest.approx(history["loss"], rel=1e-12)
    assert found.at_least == pytest.approx(history["at_least"], rel=1e-12)


def test_no_cell_with_runs_on_both_sides_has_no_loss() -> None:
    assert loss([(0, 0, 3, 3), (2, 3, 0, 0)]) is None


def side(most: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.integers(0, most).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(
    st.lists(st.tuples(side(10), side(900)).map(lambda sides: (*sides[0], *sides[1])), max_size=4)
)
def test_the_e_values_are_those_of_scipys_hypergeometric_distribution(tables: list[Table]) -> None:
    expected = [0.0] * len(DRIFT_BETS)
    for passed, runs, earlier_passed, earlier in tables:
        failed = runs - passed + earlier - earlier_passed
        if runs and earlier:
            chances = stats.hypergeom(runs + earlier, failed, runs)
            ks = range(max(0, failed - earlier), min(runs, failed) + 1)
            for number, bet in enumerate(DRIFT_BETS):
                mean = fsum(float(chances.pmf(k)) * exp(bet * k) for k in ks)
                expected[number] += bet * (runs - passed) - log(mean)
    found = log_e_values(tables) or (0.0,) * len(DRIFT_BETS)
    assert found == pytest.approx(expected, abs=1e-8)


def test_the_mean_of_the_e_values_is_one_if_nothing_changed() -> None:
    runs, earlier, failed = 3, 30, 4
    chances = stats.hypergeom(runs + earlier, failed, runs)
    for number in range(len(DRIFT_BETS)):
        mean = 0.0
        for k in range(runs + 1):
            logs = log_e_values([(runs - k, runs, earlier - failed + k, earlier)])
            assert logs is not None
            mean += float(chances.pmf(k)) * exp(logs[number])
        assert mean == pytest.approx(1)


def test_evidence_stays_a_number_however_long_a_loss_lasts() -> None:
    bet = DriftEvidence()
    for _ in range(50):
        bet = bet.update(30.0)
    assert bet.s == 1e300
    assert bet.update(-600.0).s < 1e300
