from pathlib import Path

import pytest
from projects import CASE, Project

from ci_evals.errors import UsageError
from ci_evals.suite.overrides import Overrides, apply_overrides

TWO = [{"name": "a", "type": "mock"}, {"name": "b", "type": "mock"}]

CASES = [
    {**CASE, "id": "one", "tags": ["smoke", "fast"]},
    {**CASE, "id": "two", "tags": ["slow"]},
    {**CASE, "id": "three"},
]


def ids(suite: object) -> list[str]:
    return [case.id for case in suite.cases]  # type: ignore[attr-defined]


def test_only_cases_with_one_of_the_tags_are_run(project: Project) -> None:
    project.suite(cases=CASES)
    assert ids(project.load(tags=("fast", "slow"))) == ["one", "two"]
    assert ids(apply_overrides(project.load(), Overrides(tags=("slow",)))) == ["two"]


def test_bars_of_tags_that_are_not_run_are_left_out(project: Project) -> None:
    project.suite(cases=CASES, gate={"min_pass_rate": 0.9, "tags": {"smoke": 1.0, "slow": 0.5}})
    gate = project.load(tags=("slow",)).gate
    assert gate is not None
    assert set(gate.tags) == {"slow"}


@pytest.mark.parametrize(
    "selected",
    [Overrides(tags=("slow",), providers=("b",)), Overrides(cases=("two",), providers=("b",))],
)
def test_bars_of_what_is_not_selected_of_a_loaded_suite_are_left_out(
    project: Project, selected: Overrides
) -> None:
    gate = {"tags": {"smoke": 1.0, "slow": 0.5}, "providers": {"a": 0.9, "b": 0.8}}
    project.suite(
        cases=CASES, gate=gate, providers=[{"type": "mock", "name": name} for name in ("a", "b")]
    )
    suite = apply_overrides(project.load(), selected)
    assert suite.gate is not None
    assert (ids(suite), suite.gate.tags, suite.gate.providers) == (
        ["two"],
        {"slow": 0.5},
        {"b": 0.8},
    )


def test_a_tag_that_no_case_has_is_an_error_with_a_suggestion(project: Project) -> None:
    project.suite(cases=CASES)
    (problem,) = project.problems(tags=("smok",))
    assert "--tags: unknown tag 'smok', did you mean 'smoke'?" in problem
    with pytest.raises(UsageError, match="did you mean 'smoke'"):
        apply_overrides(project.load(), Overrides(tags=("smok",)))


def test_overrides_win_over_the_file_and_none_leaves_it(project: Project) -> None:
    project.suite(runs=2, retries=3, timeout_s=4, providers=TWO, report={"out": "file"})
    suite = project.load(runs=5, retries=0, out=Path("line"), providers=("b",))
    assert (suite.runs, suite.retries, suite.timeout_s, suite.out) == (5, 0, 4.0, Path("line"))
    assert [provider.name for provider in suite.providers] == ["b"]
    assert (project.load().runs, project.load().out) == (2, Path("file"))


def test_a_cases_own_runs_are_kept_beside_an_override(project: Project) -> None:
    project.suite(cases=[{"id": "a", "input": "q", "runs": 7, "expect": [{"contains": "x"}]}])
    suite = project.load(runs=2)
    assert (suite.runs, suite.cases[0].runs) == (2, 7)


def test_a_loaded_suite_can_be_overridden(project: Project) -> None:
    project.suite(runs=2, providers=TWO)
    suite = apply_overrides(project.load(), Overrides(runs=3, providers=("a",)))
    assert (suite.runs, [str(variant) for variant in suite.columns]) == (3, ["a"])
    with pytest.raises(UsageError, match=r"^unknown provider 'zz', known: a, b$"):
        apply_overrides(project.load(), Overrides(providers=("zz",)))
