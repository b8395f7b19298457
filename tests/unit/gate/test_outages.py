"""Outages: failed rounds, failed planned runs, and collapsed reports of the base branch."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sides import base_of, compared, head_of

from ci_evals.gate.baseline import Baseline, BrokenVariant, ReportRef
from ci_evals.gate.history_only import Outage, find_outages
from ci_evals.gate.outages import (
    FailedRound,
    find_lost_reports,
    unanswered_runs,
    worst_round,
)
from ci_evals.model.case import Variant
from ci_evals.model.report import Tally

DATA = Path(__file__).parents[2] / "data"
FORTY = [str(number) for number in range(40)]
STEADY_BASE = dict.fromkeys(FORTY, (30, 30))


def rounds(*cells: str) -> Sequence[dict[int, bool]]:
    """What became of the runs of each cell: `+` passed, `-` failed, `?` was not graded."""
    return [
        {run: mark == "+" for run, mark in enumerate(marks, 1) if mark != "?"} for marks in cells
    ]


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
    assert worst_round(rounds(*["+-+"] * 10, *["?++"] * 9)) == FailedRound(
        2, Tally(9, 19), Tally(29, 29)
    )


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
        lost += (
            worst_round([{run: rng.random() < rate for run in (1, 2, 3)} for rate in rates])
            is not None
        )
    assert lost <= 5


# All planned runs.


def test_planned_runs_that_fail_as_one_and_whose_repeats_pass_are_an_outage() -> None:
    head = head_of(dict.fromkeys(FORTY, (0, 3)), dict.fromkeys(FORTY[:20], (7, 7)))
    assert find_outages(head, base_of(STEADY_BASE), 0.05) == {
        Variant("agent"): Outage(20, Tally(0, 60), Tally(140, 140))
    }


@pytest.mark.parametrize(
    ("planned", "repeated"),
    [
        pytest.param(
            dict.fromkeys(FORTY, (0, 3)),
            dict.fromkeys(FORTY[:20], (0, 7)),
            id="repeats show it, too",
        ),
        pytest.param(
            dict.fromkeys(FORTY, (3, 3)) | {"0": (0, 3)}, {"0": (7, 7)}, id="only a few cases"
        ),
        pytest.param(dict.fromkeys(FORTY, (0, 3)), {}, id="nothing was repeated"),
        pytest.param(dict.fromkeys(FORTY, (3, 3)), {}, id="nothing is worse"),
    ],
)
def test_anything_else_is_no_outage(
    planned: dict[str, tuple[int, int]], repeated: dict[str, tuple[int, int]]
) -> None:
    assert not find_outages(head_of(planned, repeated), base_of(STEADY_BASE), 0.05)


def test_what_the_gate_would_not_call_red_needs_no_outage_as_a_reason() -> None:
    few = FORTY[:2]
    head = head_of(dict.fromkeys(few, (1, 3)), dict.fromkeys(few, (7, 7)))
    base = base_of(dict.fromkeys(few, (3, 3)))
    assert find_outages(head, base, 0.05)
    assert not find_outages(head, base, 0.01)


# Reports of the base branch.


def lost(base: Baseline) -> list[str]:
    """The ids of the newest reports that do not count."""
    return [each.report.id for each in base.lost]


def pooled(base: Baseline) -> set[Tally]:
    return {cell.history.tally for cell in base.cells.values()}


def past(*reports: tuple[int, int]) -> Baseline:
    """Newest first: how many of forty cases pass all three runs, and what the others pass."""
    return base_of(
        {str(n): [(3 if n < steady else rest, 3) for steady, rest in reports] for n in range(40)}
    )


def test_a_report_of_the_base_without_a_passed_run_does_not_count() -> None:
    found = find_lost_reports(past((0, 0), (40, 3), (40, 3)))
    assert lost(found) == ["report 0"]
    assert found.lost[0].runs == Tally(0, 120)
    assert pooled(found) == {Tally(6, 6)}
    assert [ref.id for ref in found.reports] == ["report 1", "report 2"]


def test_nor_does_one_with_far_fewer_passes_than_before() -> None:
    found = find_lost_reports(past((10, 0), (40, 3), (40, 3)))
    assert (lost(found), pooled(found)) == (["report 0"], {Tally(6, 6)})


def test_one_that_lies_further_back_is_not_pooled_and_nothing_is_said_of_it() -> None:
    found = find_lost_reports(past((40, 3), (10, 0), (40, 3)))
    assert (lost(found), pooled(found)) == ([], {Tally(6, 6)})
    assert len(found.reports) == 3


@pytest.mark.parametrize("two", [[(10, 0), (5, 0)], [(0, 0), (5, 0)], [(0, 0), (0, 0)]])
def test_two_in_a_row_mean_that_the_base_branch_is_broken(two: list[tuple[int, int]]) -> None:
    base = past(*two, (40, 3), (40, 3))
    found = find_lost_reports(base)
    passed = sum(3 * steady for steady, _ in two)
    assert found.broken == (
        BrokenVariant(
            provider="agent", prompt=None, since=base.reports[1], runs=Tally(passed, 240)
        ),
    )
    assert found.is_broken
    assert lost(found) == ["report 0", "report 1"]


def test_it_stays_so_however_many_there_are() -> None:
    base = past((3, 0), (5, 0), (4, 0), (40, 3))
    (broken,) = find_lost_reports(base).broken
    assert (broken.since, broken.runs) == (base.reports[2], Tally(36, 360))


def test_two_that_lie_further_back_are_left_out() -> None:
    found = find_lost_reports(past((40, 3), (10, 0), (5, 0), (40, 3)))
    assert (lost(found), found.broken, pooled(found)) == ([], (), {Tally(6, 6)})


def test_nothing_is_compared_with_a_branch_that_is_broken() -> None:
    base = find_lost_reports(past((10, 0), (5, 0), (40, 3), (40, 3)))
    found = compared(head_of(dict.fromkeys(FORTY, (3, 3))), base)
    assert (found.compared, found.counts) == (0, {"not compared": 40})
    assert found.broken == list(base.broken)


def test_a_case_that_was_edited_since_is_edited() -> None:
    base = find_lost_reports(past((10, 0), (5, 0), (40, 3), (40, 3)))
    edited = [replace(cell, fingerprint="new") for cell in head_of(dict.fromkeys(FORTY, (3, 3)))]
    found = compared(edited, base)
    assert (found.counts, found.broken) == ({"edited": 40}, [])


@pytest.mark.parametrize(
    "reports",
    [
        pytest.param([(40, 3), (40, 3), (40, 3)], id="as before"),
        pytest.param([(37, 2), (40, 3), (40, 3)], id="a little worse"),
        pytest.param([(25, 0), (40, 3), (40, 3)], id="a third worse in its newest report"),
        pytest.param([(25, 0), (24, 0), (40, 3), (40, 3)], id="two of them a third worse"),
        pytest.param([(0, 2), (1, 2), (2, 2), *[(40, 3)] * 5], id="three of them a third worse"),
    ],
)
def test_a_base_branch_that_got_worse_is_no_outage(reports: list[tuple[int, int]]) -> None:
    base = past(*reports)
    assert find_lost_reports(base) is base


def test_a_fall_of_the_base_branch_does_not_hide_an_outage_before_it() -> None:
    found = find_lost_reports(past((25, 0), (24, 0), (40, 3), (10, 0), (40, 3), (40, 3)))
    (lost_reports,) = {cell.history.lost for cell in found.cells.values()}
    assert lost_reports == {"report 3"}


def test_once_a_better_report_follows_a_low_one_was_an_outage() -> None:
    found = find_lost_reports(past((40, 3), (25, 0), (40, 3)))
    assert (lost(found), pooled(found)) == ([], {Tally(6, 6)})


def known_history() -> tuple[dict[str, Any], Baseline]:
    """A history of ten reports, one of which had an outage, with the answers of the reference."""
    [known] = json.loads((DATA / "several_known.json").read_text("utf-8"))["history"]
    cells = {
        str(cell): [(passed, 3) for passed in by_age]
        for cell, by_age in enumerate(zip(*known["reports"], strict=True))
    }
    return known, base_of(cells)


def test_the_report_that_had_an_outage_is_the_known_one() -> None:
    known, base = known_history()
    found = find_lost_reports(base)
    (lost_reports,) = {cell.history.lost for cell in found.cells.values()}
    assert lost_reports == {f"report {age}" for age in known["left_out"]}


def test_the_common_luck_of_known_reports_is_that_of_the_reference() -> None:
    known, base = known_history()
    agent = Variant("agent")
    assert base.overdispersion[agent] == pytest.approx(known["luck"], rel=1e-9)
    kept = find_lost_reports(base)
    assert kept.overdispersion[agent] == pytest.approx(known["luck_of_kept"], rel=1e-9)


def test_a_single_case_that_fails_now_and_then_is_no_outage() -> None:
    base = base_of({"a": [(0, 1), (1, 1), (0, 1), (1, 1), (1, 1)]})
    assert find_lost_reports(base) is base


def test_without_a_pass_and_without_a_history_there_is_nothing_to_compare_with() -> None:
    assert pooled(find_lost_reports(past((0, 0)))) == {Tally(0, 0)}


def test_each_variant_has_outages_of_its_own() -> None:
    gone = past((0, 0), (40, 3))
    fine = base_of({str(n): [(3, 3), (3, 3)] for n in range(40)}, provider="other")
    found = find_lost_reports(replace(gone, cells={**gone.cells, **fine.cells}))
    assert [(each.report.id, each.provider) for each in found.lost] == [("report 0", "agent")]
    assert len(found.reports) == 2, "it still counts for the other variant"


def test_a_variant_that_never_passed_is_compared_as_before() -> None:
    never = base_of({str(n): [(0, 3), (0, 3)] for n in range(40)})
    fine = base_of({"a": [(3, 3), (3, 3)]}, provider="other")
    base = replace(never, cells={**never.cells, **fine.cells})
    assert find_lost_reports(base) is base


@pytest.mark.parametrize(("unanswered", "left_out"), [(29, False), (30, True)])
def test_a_quarter_of_runs_without_an_answer_does_not_count_as_a_baseline(
    unanswered: int, left_out: bool
) -> None:
    cells = [
        replace(cell, unanswered=1) if number < unanswered else cell
        for number, cell in enumerate(head_of(dict.fromkeys(FORTY, (2, 3))))
    ]
    found = unanswered_runs(ReportRef("r", 0.0), cells)
    assert bool(found) == left_out
