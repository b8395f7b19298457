"""A missed bar that the base branch misses as well is not put down to the change."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from factories import STARTED_AT, Outcome, baseline_of, many, report_of

from ci_evals.gate.baseline import reported_cells
from ci_evals.gate.compare import compare
from ci_evals.gate.verdict import decide
from ci_evals.model import report as reports
from ci_evals.model.report import MainNow
from ci_evals.model.rules import Gate

Cells = Mapping[str, Outcome | list[Outcome]]

FINE = many((15, "PPP"), prefix="fine")
DEAD = many((5, "FFF"), prefix="dead")
BAR = Gate(min_pass_rate=0.9)
CLAUSE = "main has 75 %, so this change did not cause it"


def reasons(
    here: Cells, main: Cells, gate: Gate = BAR, cases: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """The clauses of the verdict."""
    base = baseline_of(report_of(main, started_at=STARTED_AT - 60, cases=cases))
    report = report_of(here, cases=cases)
    comparison = compare(reported_cells(report, gate), base, confirm_runs=10, rules=gate)
    verdict = decide(report, gate, comparison)
    assert verdict.status == "fail"
    assert (verdict.missed_on_main is not None) == any("cause" in each for each in verdict.further)
    return verdict.further


def test_it_is_said_with_mains_rate() -> None:
    assert reasons(FINE | DEAD, FINE | DEAD)[0] == CLAUSE


def test_a_change_that_helps_did_not_cause_it_either() -> None:
    assert reasons(FINE | DEAD | {"dead 1": "PPP"}, FINE | DEAD)[0] == CLAUSE


@pytest.mark.parametrize(
    ("here", "main"),
    [
        (FINE | DEAD, FINE | dict.fromkeys(DEAD, "PPP")),  # main meets it
        (FINE | DEAD, FINE | DEAD | dict.fromkeys(list(DEAD)[:4], "PPP")),  # main may meet it
        (FINE | DEAD | {"fine 1": "FFF", "fine 2": "FFF"}, FINE | DEAD),  # lower than on main
        (FINE | DEAD | many((5, "FFF"), prefix="new"), FINE),  # only what is new fails
    ],
)
def test_nothing_is_said_where_the_change_may_have_a_part_in_it(here: Cells, main: Cells) -> None:
    assert not any("cause" in clause for clause in reasons(here, main))


def test_what_is_new_takes_nothing_away_if_mains_cases_miss_the_bar_alone() -> None:
    new = many((2, "PPP"), (2, "FFF"), prefix="new")
    assert reasons(FINE | DEAD | new, FINE | DEAD)[0] == CLAUSE


def test_where_every_run_must_pass_each_failure_must_be_known_from_main() -> None:
    gate = Gate()
    main = FINE | {"varies": "PPF"}
    assert "so this change did not cause it" in reasons(main, main, gate)[0]
    assert not any("cause" in each for each in reasons(main | {"fine 1": "PPF"}, main, gate))
    assert not any("cause" in each for each in reasons(main | {"new": "FFF"}, main, gate))


def test_it_is_true_of_every_missed_bar_or_not_said() -> None:
    tagged = {name: {"tags": ("eu",)} for name in FINE}
    gate = replace(BAR, tags={"eu": 1.0})
    here = FINE | DEAD | {"fine 1": "PPF"}
    assert not any("cause" in each for each in reasons(here, FINE | DEAD, gate, tagged))
    main = here
    assert reasons(here, main, gate, tagged)[0].startswith("main has 73.3 %, so this change")


def test_main_that_was_run_now_is_said_to_have_its_rate_now() -> None:
    base = baseline_of(report_of(FINE | DEAD, started_at=STARTED_AT - 60))
    report = report_of(FINE | DEAD)
    cells = []
    for cell in reported_cells(report, BAR):
        passes = reports.Outcome(cell.planned.passed > 0)
        cells.append(
            replace(cell, repeats=(passes,) * 6, main_now=dict.fromkeys(range(3, 6), passes))
        )
    main = MainNow(name="main (0123456)")
    comparison = compare(cells, base, confirm_runs=10, rules=BAR, main_now=main)
    assert decide(report, BAR, comparison).further[0] == (
        "main (0123456) has 75 % now, so this change did not cause it"
    )
