"""Rounds, and all planned runs of a variant, that failed as one."""

import random
from collections.abc import Sequence

import pytest
from sides import base_of, head_of

from ci_evals.gate.outages import FailedRound, Outage, outages, worst_round
from ci_evals.model.case import Variant
from ci_evals.model.report import Tally

FORTY = [str(number) for number in range(40)]
STEADY_BASE = dict.fromkeys(FORTY, (30, 30))


def rounds(*cells: str) -> Sequence[dict[int, bool]]:
    """What became of the runs of each cell: `+` passed, `-` failed, `?` was not graded."""
    return [{run: mark == "+" for run, mark in enumerate(marks, 1) if mark != "?"} for marks in cells]


# One round.


def test_a_round_in_which_all_cells_fail_that_else_pass_failed_as_one() -> None:
    assert worst_round(rounds(*["+-+"] * 10)) == FailedRound(2, Tally(0, 10), Tally(20, 20))


def test_cells_that_always_fail_do_not_hide_it() -> None:
    found = worst_round(rounds(*["-++"] * 10, *["---"] * 5))
    assert found == FailedRound(1, Tally(0, 15), Tally(20, 30))


def test_of_two_lost_rounds_one_is_found() -> None:
    found = worst_round(rounds(*["--+"] * 40))
    assert found is not None
    assert found.run in (1, 2)


def test_runs_that_were_not_graded_take_no_part() -> None:
    assert worst_round(rounds(*["+-+"] * 10, *["?++"] * 9)) == FailedRound(2, Tally(9, 19), Tally(29, 29))


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param(["+-+"] * 7, id="too few cells to be sure"),
        pytest.param(["---"] * 40, id="every round fails"),
        pytest.param(["-+-", "+--", "--+"] * 14, id="failures in all rounds alike"),
        pytest.param(["-"] * 40, id="one round alone"),
        pytest.param(["+++"] * 40, id="nothing failed"),
        pytest.param([], id="no cells"),
    ],
)
def test_anything_else_is_no_failed_round(cells: list[str]) -> None:
    assert worst_round(rounds(*cells)) is None


def test_without_an_outage_hardly_any_round_is_lost() -> None:
    rng = random.Random(0)
    lost = 0
    for _ in range(1000):
        rates = [rng.betavariate(8, 1) for _ in range(40)]
        lost += worst_round([{run: rng.random() < rate for run in (1, 2, 3)} for rate in rates]) is not None
    assert lost <= 5


# All planned runs.


def test_planned_runs_that_fail_as_one_and_whose_repeats_pass_are_an_outage() -> None:
    head = head_of(dict.fromkeys(FORTY, (0, 3)), dict.fromkeys(FORTY[:20], (7, 7)))
    assert outages(head, base_of(STEADY_BASE), 0.05) == {Variant("agent"): Outage(20, Tally(0, 60), Tally(140, 140))}


@pytest.mark.parametrize(
    ("planned", "repeated"),
    [
        pytest.param(dict.fromkeys(FORTY, (0, 3)), dict.fromkeys(FORTY[:20], (0, 7)), id="repeats show it, too"),
        pytest.param(dict.fromkeys(FORTY, (3, 3)) | {"0": (0, 3)}, {"0": (7, 7)}, id="only a few cases"),
        pytest.param(dict.fromkeys(FORTY, (0, 3)), {}, id="nothing was repeated"),
        pytest.param(dict.fromkeys(FORTY, (3, 3)), {}, id="nothing is worse"),
    ],
)
def test_anything_else_is_no_outage(planned: dict[str, tuple[int, int]], repeated: dict[str, tuple[int, int]]) -> None:
    assert not outages(head_of(planned, repeated), base_of(STEADY_BASE), 0.05)


def test_what_the_gate_would_not_call_red_needs_no_outage_as_a_reason() -> None:
    few = FORTY[:2]
    head = head_of(dict.fromkeys(few, (1, 3)), dict.fromkeys(few, (7, 7)))
    base = base_of(dict.fromkeys(few, (3, 3)))
    assert outages(head, base, 0.05)
    assert not outages(head, base, 0.01)
