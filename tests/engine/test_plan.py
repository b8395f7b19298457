"""In which order runs are started."""

from collections import Counter

import pytest
from factories import case_of

from ci_evals.engine.plan import execution_order
from ci_evals.matrix import Matrix
from ci_evals.model import Variant

VARIANTS = (Variant("a", "p"), Variant("b", "p"), Variant("a", "q"))


def matrix_of(cases: int, runs: int = 3) -> Matrix:
    return Matrix([case_of(f"c{n}") for n in range(cases)], VARIANTS, runs)


def order(matrix: Matrix, provider: str, seed: int = 0, done: bytes = b"") -> list[int]:
    return list(execution_order(matrix, provider, seed, bytearray(done or bytes(matrix.total))))


def test_every_run_of_the_provider_comes_once() -> None:
    matrix = matrix_of(20)
    both = order(matrix, "a") + order(matrix, "b")
    assert sorted(both) == list(range(matrix.total))
    assert {matrix.variant(matrix.cell_of(slot)).provider for slot in order(matrix, "b")} == {"b"}


@pytest.mark.parametrize("case_runs", [None, 5])
@pytest.mark.parametrize("only", [None, {0, 3, 4}, set()])
def test_a_slot_is_of_the_cell_whose_slots_it_is_among(case_runs: int | None, only: set[int] | None) -> None:
    plan = Matrix([case_of("a"), case_of("b", runs=case_runs), case_of("c")], VARIANTS, 3, only=only)
    further = Matrix(plan.cases, plan.variants, 2, only=only, after=plan)
    for matrix in (plan, further):
        of_slots = [cell for cell in range(len(matrix)) for _ in matrix.slots(cell)]
        assert [matrix.cell_of(slot) for slot in range(matrix.total)] == of_slots


def test_every_cell_has_run_once_before_any_runs_twice() -> None:
    matrix = matrix_of(20)
    slots = order(matrix, "a")
    rounds = [[matrix.cell_of(slot) for slot in slots[at : at + 40]] for at in (0, 40, 80)]
    assert all(set(each) == set(rounds[0]) for each in rounds)
    assert all(max(Counter(each).values()) == 1 for each in rounds)


def test_the_order_is_shuffled_and_the_same_seed_gives_the_same() -> None:
    matrix = matrix_of(20)
    assert order(matrix, "a") != sorted(order(matrix, "a"))
    assert order(matrix, "a", seed=1) == order(matrix, "a", seed=1)
    assert order(matrix, "a", seed=1) != order(matrix, "a", seed=2)


def test_a_case_with_more_runs_goes_on_alone() -> None:
    matrix = Matrix([case_of("few"), case_of("many", runs=5)], (Variant("a"),), 2)
    assert order(matrix, "a")[-3:] == [4, 5, 6]


def test_what_has_a_result_is_passed_over() -> None:
    matrix = matrix_of(2, runs=1)
    assert set(order(matrix, "a", done=b"\1\0\0\0\0\0")) == {2, 3, 5}
