"""Budgets of an invocation and of its runs."""

from typing import Any

import pytest
from factories import result_of

from ci_evals.engine.grading import RunOutcome
from ci_evals.engine.runner import Spending, violations
from ci_evals.model.response import Response, Usage
from ci_evals.model.rules import Budget, RunBudget


def reasons(budget: Budget, *results: Any) -> list[str | None]:
    spending = Spending(budget)
    return [spending.add(result) for result in results]


def outcome_of(cost_usd: float | None = None, tokens: int | None = None) -> RunOutcome:
    usage = None if tokens is None else Usage(output_tokens=tokens)
    return RunOutcome("passed", cost_usd=cost_usd, response=Response("x", usage=usage))


def test_a_budget_is_used_up_by_the_run_that_reaches_it() -> None:
    assert reasons(Budget(max_cost_usd=0.002), *[result_of()] * 3) == [
        None,
        "the budget of $0.002 is used up ($0.002)",
        "the budget of $0.002 is used up ($0.003)",
    ]
    assert reasons(Budget(max_tokens=26), *[result_of()] * 2) == [
        None,
        "the budget of 26 tokens is used up (50)",
    ]


def test_runs_without_an_answer_cost_nothing_and_stop_nothing() -> None:
    refused = result_of(status="errored")
    crashed = result_of(status="failed", response=None, cost_usd=None, error=refused.error)
    assert reasons(Budget(max_cost_usd=1, max_tokens=100), refused, crashed) == [None, None]


def test_recorded_runs_cost_nothing() -> None:
    assert reasons(Budget(max_cost_usd=0.0001, max_tokens=1), result_of(recorded=True)) == [None]


@pytest.mark.parametrize(
    "budget", [Budget(max_cost_usd=1), Budget(per_run=RunBudget(max_cost_usd=1))]
)
def test_an_answer_without_a_price_cannot_be_held_to_a_budget_in_usd(budget: Budget) -> None:
    (reason,) = reasons(budget, result_of(cost_usd=None))
    assert reason is not None
    assert reason.startswith(
        "the budget is in USD, but agent does not report what its answers cost"
    )


@pytest.mark.parametrize("budget", [Budget(max_tokens=1), Budget(per_run=RunBudget(max_tokens=1))])
def test_an_answer_without_usage_cannot_be_held_to_a_budget_of_tokens(budget: Budget) -> None:
    (reason,) = reasons(budget, result_of(response=Response("x")))
    assert reason is not None
    assert reason.startswith("the budget is in tokens, but agent does not report how many it used")


def test_a_budget_of_time_needs_neither_prices_nor_usage() -> None:
    assert reasons(Budget(max_duration_s=1), result_of(cost_usd=None, response=Response("x"))) == [
        None
    ]


@pytest.mark.parametrize(
    ("allowed", "outcome", "duration_s", "expected"),
    [
        (RunBudget(max_cost_usd=0.01), outcome_of(cost_usd=0.01), 1, ()),
        (RunBudget(max_cost_usd=0.01), outcome_of(cost_usd=0.0125), 1, ("cost $0.0125 of $0.01",)),
        (RunBudget(max_tokens=1000), outcome_of(tokens=1000), 1, ()),
        (RunBudget(max_tokens=1000), outcome_of(tokens=1234), 1, ("1,234 tokens of 1,000",)),
        (RunBudget(max_duration_s=2), outcome_of(), 2, ()),
        (RunBudget(max_duration_s=2), outcome_of(), 2.3456, ("2.35 s of 2 s",)),
        (
            RunBudget(max_cost_usd=1, max_tokens=1, max_duration_s=1),
            outcome_of(2, 2),
            2,
            ("cost $2 of $1", "2 tokens of 1", "2 s of 1 s"),
        ),
        (RunBudget(max_cost_usd=1, max_tokens=1), RunOutcome("errored"), 1, ()),
    ],
)
def test_an_allowance_is_exceeded_by_more_than_itself(
    allowed: RunBudget, outcome: RunOutcome, duration_s: float, expected: tuple[str, ...]
) -> None:
    assert violations(allowed, outcome, duration_s) == expected
