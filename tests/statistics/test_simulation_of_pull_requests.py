"""How often the verdict on a whole pull request is wrong, by simulation of everything after the runs themselves."""

import pytest

from benchmarks.pull_requests import (
    Past,
    Suite,
    at_once,
    broken,
    frequencies,
    moved,
    one_case,
    pull_requests,
    re_run,
    slowly,
    to_and_fro,
)

NUMBER = 300
STEADY = Suite(rate=1.0, alike=True)
FALLEN = frozenset({38, 39})


@pytest.mark.parametrize(
    "suite",
    [
        Suite(),
        Suite(rate=0.6),
        Suite(alike=True),
        Suite(reports=1),
        Suite(runs=5, reports=6),
        Suite(cases=1, rate=0.8),
        Suite(cases=10, variants=3),
    ],
)
def test_where_nothing_changed_hardly_any_pull_request_is_red(suite: Suite) -> None:
    seen = frequencies(pull_requests(suite, number=NUMBER))
    assert seen.red <= 6
    assert seen.false_name <= 2


def test_where_every_answer_is_steady_nothing_is_ever_red() -> None:
    assert frequencies(pull_requests(STEADY, number=20)).red == 0


@pytest.mark.parametrize(
    "past", [slowly(-0.005), slowly(-0.01), slowly(0.01), at_once(-0.05, 2), at_once(-0.1, 5), to_and_fro(0.02)]
)
def test_a_base_branch_that_changed_in_its_past_turns_no_pull_request_red(past: Past) -> None:
    assert frequencies(pull_requests(Suite(), number=NUMBER, past=past)).red <= 6


@pytest.mark.parametrize("age", [2, 5])
@pytest.mark.parametrize("cases", [1, 10])
def test_a_case_that_broke_on_the_base_branch_is_not_held_against_a_pull_request(cases: int, age: int) -> None:
    suite = Suite(cases=cases, rate=1.0, alike=True)
    now = (*suite.rates[:-1], 0.5)
    assert frequencies(pull_requests(suite, number=NUMBER, past=one_case(age, 1.0, 0.5), now=now)).red <= 6


def test_two_broken_cases_of_forty_are_named_and_no_others() -> None:
    seen = frequencies(pull_requests(STEADY, number=200, change=lambda rates: broken(rates, 2, 0.4)), FALLEN)
    assert seen.named is not None
    assert seen.named >= 80
    assert seen.red >= 90
    assert seen.false_name <= 2
    assert seen.calls <= 150


def test_broken_cases_are_named_among_flaky_ones() -> None:
    seen = frequencies(pull_requests(Suite(), number=150, change=lambda rates: broken(rates, 2, 0.4)), FALLEN)
    assert seen.named is not None
    assert seen.named >= 80
    assert seen.false_name <= 2


@pytest.mark.parametrize(("by", "least"), [(0.10, 75), (0.12, 85)])
def test_a_drop_that_no_single_case_shows_is_seen_in_the_whole(by: float, least: int) -> None:
    assert frequencies(pull_requests(Suite(), number=150, change=lambda rates: moved(rates, -by))).red >= least


def test_running_again_makes_a_red_verdict_green_no_more_often_than_one_attempt_misses() -> None:
    attempts = list(re_run(STEADY, number=300, change=lambda rates: broken(rates, 2, 0.4)))
    turned_green = sum(first.red and not second.red for first, second in attempts)
    missed_at_once = sum(not first.red for first, _ in attempts)
    assert turned_green <= missed_at_once
    assert turned_green <= 0.02 * len(attempts)
