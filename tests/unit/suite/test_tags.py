"""`--tags`: only some of the cases."""

import pytest
from projects import CASE, Project

from ci_evals.errors import UsageError
from ci_evals.suite.load import Overrides, apply_overrides

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
    "selected", [Overrides(tags=("slow",), providers=("b",)), Overrides(cases=("two",), providers=("b",))]
)
def test_bars_of_what_is_not_selected_of_a_loaded_suite_are_left_out(project: Project, selected: Overrides) -> None:
    gate = {"tags": {"smoke": 1.0, "slow": 0.5}, "providers": {"a": 0.9, "b": 0.8}}
    project.suite(cases=CASES, gate=gate, providers=[{"type": "mock", "name": name} for name in ("a", "b")])
    suite = apply_overrides(project.load(), selected)
    assert suite.gate is not None
    assert (ids(suite), suite.gate.tags, suite.gate.providers) == (["two"], {"slow": 0.5}, {"b": 0.8})


def test_a_tag_that_no_case_has_is_an_error_with_a_suggestion(project: Project) -> None:
    project.suite(cases=CASES)
    (problem,) = project.problems(tags=("smok",))
    assert "--tags: unknown tag 'smok', did you mean 'smoke'?" in problem
    with pytest.raises(UsageError, match="did you mean 'smoke'"):
        apply_overrides(project.load(), Overrides(tags=("smok",)))
