"""The most runs beyond the plan: no course of a comparison takes more than was announced."""

import random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sides import base_of, head_of

from ci_evals.gate.baseline import Baseline, ReportedCell
from ci_evals.gate.rehearsal import run_to_the_end
from ci_evals.gate.repeats import Matrix, most_repeats
from ci_evals.model.report import Outcome
from ci_evals.model.rules import Gate

ANY_NAMES = Gate(max_regressions=1000)
NET = Gate(on_regression="net")
RATES = (0.0, 0.3, 0.6, 0.8, 0.9, 1.0)


class World(NamedTuple):
    """A suite whose cases have passed at one rate, and the rates of all later runs.

    Without a rate of main, its reports decide.
    """

    cases: int = 40
    variants: int = 1
    past: float = 1.0
    planned: float = 0.0
    here: float = 0.0
    main: float | None = None
    reports: int = 3
    confirm_runs: int = 10
    rules: Gate = Gate()
    seed: int = 0

    def announced(self) -> int:
        cells = self.cases * self.variants
        matrix = Matrix(cells, self.cases, self.variants, cells)
        return most_repeats(matrix, self.confirm_runs, runs_main=self.main is not None)

    def made(self) -> int:
        """Make all further runs, and return how many they are, on both sides."""
        rng = random.Random(self.seed)

        def run_here(_: int) -> Outcome:
            return Outcome(rng.random() < self.here)

        def run_main(_: int) -> Outcome:
            return Outcome(rng.random() < (self.main or 0))

        judged, _ = run_to_the_end(
            self.head(rng),
            self.base(rng),
            run_here,
            run_main if self.main is not None else None,
            confirm_runs=self.confirm_runs,
            rules=self.rules,
        )
        return sum(len(cell.repeats) + len(cell.main_now) for cell in judged)

    def head(self, rng: random.Random) -> list[ReportedCell]:
        cells: list[ReportedCell] = []
        for variant in range(self.variants):
            counts = {str(case): runs_of(self.planned, rng) for case in range(self.cases)}
            cells += head_of(counts, provider=f"agent {variant}")
        return cells

    def base(self, rng: random.Random) -> Baseline:
        parts = []
        for variant in range(self.variants):
            reports = {
                str(case): [runs_of(self.past, rng) for _ in range(self.reports)]
                for case in range(self.cases)
            }
            parts.append(base_of(reports, f"agent {variant}"))
        cells = {key: cell for part in parts for key, cell in part.cells.items()}
        return Baseline(suite="test", name="main", reports=parts[0].reports, cells=cells)


def runs_of(rate: float, rng: random.Random) -> tuple[int, int]:
    """The passed ones of three runs, and three."""
    return sum(rng.random() < rate for _ in range(3)), 3


@settings(max_examples=60, deadline=None)
@given(
    st.builds(
        World,
        cases=st.sampled_from([1, 4, 12, 30]),
        variants=st.integers(1, 4),
        past=st.sampled_from(RATES[2:]),
        planned=st.sampled_from(RATES),
        here=st.sampled_from(RATES),
        main=st.none() | st.sampled_from(RATES),
        reports=st.sampled_from([1, 3, 10]),
        confirm_runs=st.sampled_from([0, 1, 3, 10, 20]),
        rules=st.sampled_from([Gate(), ANY_NAMES, NET]),
        seed=st.integers(0, 1000),
    )
)
def test_no_pull_request_takes_more_runs_than_announced(world: World) -> None:
    assert world.made() <= world.announced()


@pytest.mark.parametrize(
    ("world", "most"),
    [
        pytest.param(World(confirm_runs=0), 0, id="nothing runs again"),
        pytest.param(World(), 20 * 14 + 20 * 3, id="reports decide"),
        pytest.param(World(main=0.0), 20 * 24 + 20 * 15, id="main runs"),
        pytest.param(World(cases=5, main=0.0), 5 * 24, id="all may be suspects"),
        pytest.param(World(cases=200, main=0.0), 40 * 24 + 160 * 15, id="a fifth may be suspects"),
        pytest.param(World(variants=6), 48 * 14 + 120 * 5 + 72 * 3, id="cases, too"),
        pytest.param(World(variants=6, main=0.0), 48 * 24 + 192 * 15, id="cases, and main"),
    ],
)
def test_the_most_runs_follow_from_the_rules(world: World, most: int) -> None:
    assert world.announced() == most


def test_where_main_is_worse_as_well_almost_all_of_them_are_made() -> None:
    """Nothing can be named, and every look leaves open whether the variant is worse."""
    worlds = [World(planned=0.5, here=0.8, main=0.83, seed=seed) for seed in range(20)]
    assert max(world.made() for world in worlds) > 0.8 * worlds[0].announced()


def test_a_shard_only_repeats_its_suspects() -> None:
    matrix = Matrix(cells=20, cases=20, variants=1, cells_of_suite=200)
    assert most_repeats(matrix, 10, runs_main=False, is_whole=False) == 20 * 14


def test_what_is_named_everywhere_takes_far_fewer() -> None:
    """All cases die: twenty of them are named, which explains the fall."""
    world = World(main=1.0)
    assert world.made() == 20 * 24 < world.announced()
