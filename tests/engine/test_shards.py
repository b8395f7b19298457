"""Which cells a shard runs."""

import random

from factories import case_of
from hypothesis import given
from hypothesis import strategies as st

from ci_evals.engine.shards import Shard, cells_of_shard
from ci_evals.matrix import Matrix
from ci_evals.model import Variant

VARIANTS = (Variant("a"), Variant("b", "p"))


def matrix_of(names: list[str]) -> Matrix:
    return Matrix([case_of(name) for name in names], VARIANTS, 2)


def shares(matrix: Matrix, of: int, durations_s: dict[str, float] | None = None) -> list[frozenset[int]]:
    known = {
        (case, variant.provider, variant.prompt): s for case, s in (durations_s or {}).items() for variant in VARIANTS
    }
    return [cells_of_shard(matrix, Shard(number, of), known) for number in range(1, of + 1)]


@given(st.integers(1, 40), st.integers(1, 50), st.dictionaries(st.integers(0, 39), st.floats(0, 100)))
def test_every_cell_is_in_exactly_one_shard(cases: int, of: int, durations: dict[int, float]) -> None:
    matrix = matrix_of([f"c{n}" for n in range(cases)])
    found = [cell for share in shares(matrix, of, {f"c{n}": s for n, s in durations.items()}) for cell in share]
    assert sorted(found) == list(range(len(matrix)))


@given(st.integers(1, 8), st.randoms(use_true_random=False))
def test_the_order_of_cases_in_the_file_does_not_matter(of: int, source: random.Random) -> None:
    names = [f"c{n}" for n in range(20)]
    shuffled = names.copy()
    source.shuffle(shuffled)
    first, second = matrix_of(names), matrix_of(shuffled)
    for one, other in zip(shares(first, of), shares(second, of), strict=True):
        assert {first.case(cell).id for cell in one} == {second.case(cell).id for cell in other}


def test_without_durations_shares_differ_by_at_most_one_cell() -> None:
    sizes = [len(share) for share in shares(matrix_of([f"c{n}" for n in range(23)]), 5)]
    assert max(sizes) - min(sizes) <= 1


def test_known_durations_balance_the_load() -> None:
    names = [f"c{n}" for n in range(40)]
    durations = {name: 100.0 if n < 4 else 1.0 for n, name in enumerate(names)}
    matrix = matrix_of(names)
    loads = [sum(durations[matrix.case(cell).id] for cell in share) for share in shares(matrix, 4, durations)]
    assert max(loads) <= 1.05 * min(loads)
