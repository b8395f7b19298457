"""How often a pull request's verdict is wrong, by simulation of all that follows the runs.

The rows are those of `make simulate` at a size that takes less than a minute; the bounds leave
room for sampling errors.
"""

from itertools import chain

import pytest

from benchmarks.pull_requests import (
    QUIET,
    SPLIT,
    Alike,
    Frequencies,
    Story,
    Suite,
    breaks,
    frequencies,
    pull_requests,
    run_again,
    slides,
)
from benchmarks.simulate import BASE_BRANCH, BETA, BROKEN, COMMON_LUCK, NOTHING_CHANGED, OUTAGES

pytestmark = pytest.mark.slow

SMALL = {
    name: row
    for name, row in NOTHING_CHANGED.items()
    if row[0].cases <= 40 and row[0].variants == 1
}


def simulate(row: tuple[Suite, Story], number: int = 100) -> Frequencies:
    return frequencies(pull_requests(*row, number=number))


def test_where_nothing_changed_hardly_any_pull_request_is_red() -> None:
    outcomes = (list(pull_requests(*row, number=80)) for row in SMALL.values())
    seen = frequencies(chain.from_iterable(outcomes))
    assert seen.red <= 6
    assert seen.false_name <= 2
    assert seen.withdrawn <= 0.5


def test_luck_that_cases_share_makes_few_more_pull_requests_red() -> None:
    rows = [row for row in COMMON_LUCK.values() if row[0].reports == 10]
    outcomes = (list(pull_requests(*row, number=60)) for row in rows)
    assert frequencies(chain.from_iterable(outcomes)).red <= 11


def test_several_variants_are_no_more_chances_to_be_red() -> None:
    assert simulate(NOTHING_CHANGED["3 variants"], 60).red <= 9


def test_where_every_answer_is_steady_nothing_is_ever_red() -> None:
    assert simulate((Suite(Alike(1.0)), QUIET), 20).red == 0


@pytest.mark.parametrize(
    ("row", "least"),
    [
        ("10 % of the cases die", 92),
        ("10 % of the cases die, ICC 0.5", 85),
        ("10 % fall to a fifth", 73),
        ("10 % fall to a fifth, ICC 0.5", 77),
        ("one of 40 dies", 88),
        ("one of 40 dies, 1 base report", 65),
        ("60 % die", 75),
    ],
)
def test_broken_cases_are_named(row: str, least: float) -> None:
    seen = simulate(BROKEN[row])
    assert seen.named is not None
    assert seen.named >= least
    assert seen.red >= least
    assert seen.false_name <= 6


@pytest.mark.parametrize(
    ("row", "least"),
    [("all fall by 8 points", 45), ("all fall by 10 points, ICC 0.5", 78)],
)
def test_a_drop_that_no_single_case_shows_is_seen_in_the_whole(row: str, least: float) -> None:
    assert simulate(BROKEN[row]).red >= least


@pytest.mark.parametrize("row", ["one round", "one round, ICC 0.5"])
def test_an_outage_of_one_round_is_no_verdict_and_hardly_ever_red(row: str) -> None:
    seen = simulate(OUTAGES[row])
    assert seen.red <= 9
    assert seen.false_name <= 3
    assert seen.withdrawn == 100


def test_an_outage_of_all_rounds_is_hardly_ever_red() -> None:
    seen = simulate(OUTAGES["all three rounds"])
    assert seen.red <= 10
    assert seen.withdrawn >= 90


def test_what_breaks_is_named_in_spite_of_an_outage_of_one_round() -> None:
    seen = simulate(OUTAGES["one round, and 10 % of the cases die, ICC 0.5"])
    assert seen.red == 100
    assert seen.named is not None
    assert seen.named >= 85


def test_an_outage_on_the_base_branch_hides_nothing() -> None:
    seen = simulate(BASE_BRANCH["the newest report was out, and 10 % of the cases die"])
    assert seen.red == 100
    assert seen.named is not None
    assert seen.named >= 90


@pytest.mark.parametrize(
    ("row", "most_red", "most_false_names"),
    [
        ("the newest report was out", 9, 3),
        ("fell by 10 points in its newest report", 9, 3),
        ("fell by 10 points 3 reports ago", 9, 3),
        # Main's code does not run here, and one report by itself is no history: see the table.
        ("fell by 30 points in its newest report", 12, 12),
    ],
)
def test_what_happened_on_the_base_branch_is_not_held_against_a_pull_request(
    row: str, most_red: float, most_false_names: float
) -> None:
    seen = simulate(BASE_BRANCH[row])
    assert seen.red <= most_red
    assert seen.false_name <= most_false_names


def test_a_base_branch_that_slides_is_red_less_than_twice_as_often() -> None:
    assert simulate((Suite(SPLIT), Story(past=slides(0.01)))).red <= 10


def test_running_again_makes_a_red_verdict_green_no_more_often_than_one_attempt_misses() -> None:
    attempts = list(run_again(BETA, breaks(0.05, times=0.2), 0.2, number=100))
    turned_green = sum(first.red and not second.red for first, second in attempts)
    missed_at_once = sum(not first.red for first, _ in attempts)
    assert turned_green <= missed_at_once
    assert turned_green <= 0.03 * len(attempts)


def test_nothing_is_compared_with_a_base_branch_whose_two_newest_reports_were_out() -> None:
    seen = simulate(BASE_BRANCH["the two newest were out, and 10 % die: not compared"], 20)
    assert (seen.red, seen.named) == (0, 0)
