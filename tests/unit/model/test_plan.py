"""The order in which runs are started, and the cells of a shard."""

import random
from collections import Counter
from collections.abc import Collection

import pytest
from factories import case_of
from hypothesis import given
from hypothesis import strategies as st

from ci_evals.model.case import Variant
from ci_evals.model.plan import (
    RunPlan,
    Shard,
    cells_of_shard,
    execution_order,
    plan_further_runs,
    plan_runs,
)

VARIANTS = (Variant("a", "p"), Variant("b", "p"), Variant("a", "q"))


def matrix_of(cases: int, runs: int = 3) -> RunPlan:
    return plan_runs([case_of(f"c{n}") for n in range(cases)], VARIANTS, runs)


def order(
    plan: RunPlan,
    provider: str,
    seed: int = 0,
    done: Collection[int] = (),
    rounds: int | None = None,
) -> list[int]:
    return list(execution_order(plan, provider, seed, done, rounds))


def test_every_run_of_the_provider_comes_once() -> None:
    plan = matrix_of(20)
    both = order(plan, "a") + order(plan, "b")
    assert sorted(both) == list(range(plan.total))
    assert {plan.variant(plan.cell_of(index)).provider for index in order(plan, "b")} == {"b"}


@pytest.mark.parametrize("case_runs", [None, 5])
@pytest.mark.parametrize("only", [None, {0, 3, 4}, set()])
def test_an_index_is_of_the_cell_whose_indices_it_is_among(
    case_runs: int | None, only: set[int] | None
) -> None:
    plan = plan_runs(
        [case_of("a"), case_of("b", runs=case_runs), case_of("c")], VARIANTS, 3, only=only
    )
    further = plan_further_runs(
        plan, {cell: cell + 1 for cell in (range(len(plan)) if only is None else only)}
    )
    for each in (plan, further):
        of_indices = [cell for cell in range(len(each)) for _ in each.indices(cell)]
        assert [each.cell_of(index) for index in range(each.total)] == of_indices


def test_every_cell_has_run_once_before_any_runs_twice() -> None:
    plan = matrix_of(20)
    indices = order(plan, "a")
    rounds = [[plan.cell_of(index) for index in indices[at : at + 40]] for at in (0, 40, 80)]
    assert all(set(each) == set(rounds[0]) for each in rounds)
    assert all(max(Counter(each).values()) == 1 for each in rounds)


def test_cells_that_share_a_setup_run_at_a_stretch_in_the_first_round() -> None:
    plan = matrix_of(20)
    shared = {0, 2, 3}
    indices = list(execution_order(plan, "a", 0, (), at_a_stretch=shared))
    assert sorted(indices) == sorted(order(plan, "a"))
    first_round = indices[:46]
    for cell in shared:
        start = first_round.index(plan.indices(cell)[0])
        assert first_round[start : start + 3] == list(plan.indices(cell))


def test_the_order_is_shuffled_and_the_same_seed_gives_the_same() -> None:
    plan = matrix_of(20)
    assert order(plan, "a") != sorted(order(plan, "a"))
    assert order(plan, "a", seed=1) == order(plan, "a", seed=1)
    assert order(plan, "a", seed=1) != order(plan, "a", seed=2)


def test_a_case_with_more_runs_goes_on_alone() -> None:
    plan = plan_runs([case_of("few"), case_of("many", runs=5)], (Variant("a"),), 2)
    assert order(plan, "a")[-3:] == [4, 5, 6]


def test_what_has_a_result_is_passed_over() -> None:
    plan = matrix_of(2, runs=1)
    assert set(order(plan, "a", done={0})) == {2, 3, 5}


# Shards.


SHARD_VARIANTS = (Variant("a"), Variant("b", "p"))


def plan_of(names: list[str]) -> RunPlan:
    return plan_runs([case_of(name) for name in names], SHARD_VARIANTS, 2)


def shares(
    plan: RunPlan, of: int, durations_s: dict[str, float] | None = None
) -> list[frozenset[int]]:
    known = {
        (case, variant.provider, variant.prompt): s
        for case, s in (durations_s or {}).items()
        for variant in SHARD_VARIANTS
    }
    return [cells_of_shard(plan, Shard(number, of), known) for number in range(1, of + 1)]


@given(
    st.integers(1, 40), st.integers(1, 50), st.dictionaries(st.integers(0, 39), st.floats(0, 100))
)
def test_every_cell_is_in_exactly_one_shard(
    cases: int, of: int, durations: dict[int, float]
) -> None:
    plan = plan_of([f"c{n}" for n in range(cases)])
    found = [
        cell
        for share in shares(plan, of, {f"c{n}": s for n, s in durations.items()})
        for cell in share
    ]
    assert sorted(found) == list(range(len(plan)))


@given(st.integers(1, 8), st.randoms(use_true_random=False))
def test_the_order_of_cases_in_the_file_does_not_matter(of: int, source: random.Random) -> None:
    names = [f"c{n}" for n in range(20)]
    shuffled = names.copy()
    source.shuffle(shuffled)
    first, second = plan_of(names), plan_of(shuffled)
    for one, other in zip(shares(first, of), shares(second, of), strict=True):
        assert {first.case(cell).id for cell in one} == {second.case(cell).id for cell in other}


def test_without_durations_shares_differ_by_at_most_one_cell() -> None:
    sizes = [len(share) for share in shares(plan_of([f"c{n}" for n in range(23)]), 5)]
    assert max(sizes) - min(sizes) <= 1


def test_known_durations_balance_the_load() -> None:
    names = [f"c{n}" for n in range(40)]
    durations = {name: 100.0 if n < 4 else 1.0 for n, name in enumerate(names)}
    plan = plan_of(names)
    loads = [
        sum(durations[plan.case(cell).id] for cell in share) for share in shares(plan, 4, durations)
    ]
    assert max(loads) <= 1.05 * min(loads)
