"""What a suite can see: against reference values, and against the tests on simulated suites."""

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known import known, suite

from ci_evals.stats.exact_tests import stratified_lower
from ci_evals.stats.power import (
    Plan,
    comparison_power,
    detectable_drop,
    planned_drop,
    planned_gate_drop,
)

plans = st.builds(
    Plan,
    st.integers(5, 300),
    st.integers(1, 12),
    st.floats(0.05, 1),
    st.sampled_from((0.0, 0.3, 0.5, 0.9)),
    st.sampled_from((0, 3)),
)


def test_what_a_gate_can_see() -> None:
    cells = suite("S40")
    rate = fmean(k / n for k, n in cells)
    noise = fmean(k * (n - k) / (n * (n - 1)) for k, n in cells)
    plan = Plan(40, 3, rate, 1 - noise / (rate * (1 - rate)))
    assert planned_gate_drop(plan) == pytest.approx(known("mde_40x3"), rel=1e-12)


def test_what_a_comparison_sees_allows_for_noise_of_both_sides_and_of_new_failures() -> None:
    twice = [(passed, runs, passed, runs) for passed, runs in suite("S40")]
    seen = detectable_drop(twice, further_rounds=0)
    assert seen is not None
    assert 1.1 * 2**0.5 * known("mde_40x3") < seen < 2 * 2**0.5 * known("mde_40x3")
    more = [*twice, (0, 0, 3, 3), (3, 3, 0, 0)]
    assert detectable_drop(more, further_rounds=0) == seen
    assert detectable_drop([(0, 0, 3, 3)]) is None


def test_single_runs_cannot_show_that_their_noise_is_small() -> None:
    once, twice = (planned_gate_drop(Plan(40, runs, 0.85, 0.9)) for runs in (1, 2))
    assert once == pytest.approx(2.4864749 * (0.85 * 0.15 / 40 + 1 / 1600) ** 0.5)
    assert once > 2 * twice


def draw(chance: random.Random, rate: float, runs: int) -> int:
    return sum(chance.random() < rate for _ in range(runs))


def suite_rates(chance: random.Random, plan: Plan) -> list[float]:
    """Of cases as the plan assumes them."""
    spread = (1 - plan.correlation) / plan.correlation
    return [
        chance.betavariate(plan.rate * spread, (1 - plan.rate) * spread) for _ in range(plan.cases)
    ]


@pytest.mark.parametrize(
    ("plan", "base_runs", "drop"),
    [
        (Plan(40, 3, 0.9, further_rounds=0), 3, 0.08),
        (Plan(40, 3, 0.9, further_rounds=0), 30, 0.06),
    ],
)
def test_the_comparison_sees_as_often_as_said(plan: Plan, base_runs: int, drop: float) -> None:
    chance, rounds = random.Random(5), 300
    spread_out = broken = 0
    for _ in range(rounds):
        rates = suite_rates(chance, plan)
        base = [draw(chance, rate, base_runs) for rate in rates]
        worse = [rate * (1 - drop / plan.rate) for rate in rates]
        gone = chance.sample(range(plan.cases), round(plan.cases * drop / plan.rate))
        without = [0 if i in gone else rate for i, rate in enumerate(rates)]
        for heads, all_cases in ((worse, True), (without, False)):
            passed = [draw(chance, rate, plan.runs) for rate in heads]
            sides = zip(passed, base, strict=True)
            p = stratified_lower((head, plan.runs, before, base_runs) for head, before in sides)
            seen = p <= 0.05
            spread_out, broken = (
                spread_out + (seen and all_cases),
                broken + (seen and not all_cases),
            )
    power = comparison_power(plan, drop, base_runs)
    assert 0 <= spread_out / rounds - power < 0.22, "never more than is said"
    assert power <= broken / rounds


@given(plans, st.integers(1, 40))
def test_the_planned_drop_is_seen_with_the_power_asked(plan: Plan, base_runs: int) -> None:
    drop = planned_drop(plan, base_runs)
    if drop is None:
        assert comparison_power(plan, plan.rate, base_runs) < 0.8
    else:
        assert (
            comparison_power(plan, drop, base_runs) == pytest.approx(0.8, abs=0.01) or drop < 2e-6
        )


@given(plans, st.floats(0.01, 0.5), st.integers(1, 40))
def test_more_of_anything_sees_more(plan: Plan, drop: float, base_runs: int) -> None:
    power = comparison_power(plan, drop, base_runs)
    assert comparison_power(plan._replace(cases=plan.cases + 50), drop, base_runs) >= power
    assert comparison_power(plan._replace(runs=plan.runs + 1), drop, base_runs) >= power
    assert comparison_power(plan, drop, base_runs + 1) >= power
    further = plan._replace(further_rounds=plan.further_rounds + 1)
    assert comparison_power(further, drop, base_runs) >= power
    assert planned_gate_drop(plan._replace(runs=plan.runs + 1)) < planned_gate_drop(plan)


def test_what_even_a_fall_to_nothing_does_not_show() -> None:
    assert planned_drop(Plan(1, 1, 0.9, further_rounds=0), 1) is None
