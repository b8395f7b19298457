from typing import Any

from projects import Project

OPENAI = {
    "type": "openai",
    "name": "gpt",
    "model": "m",
    "base_url": "http://localhost",
    "params": {"top_p": 1},
}
MOCK = {"type": "mock", "name": "mock"}


def names(project: Project, **overrides: Any) -> list[str]:
    return [str(provider.name) for provider in project.load(**overrides).providers]


def test_every_combination_is_a_provider_named_after_what_differs(project: Project) -> None:
    grid = {"model": ["a", "b"], "temperature": [0, 0.7]}
    project.suite(providers=[MOCK, {**OPENAI, "grid": grid}])
    assert names(project) == [
        "mock",
        "gpt model=a temperature=0",
        "gpt model=a temperature=0.7",
        "gpt model=b temperature=0",
        "gpt model=b temperature=0.7",
    ]
    last = project.load().providers[-1]
    assert (getattr(last, "model"), getattr(last, "params")) == (  # noqa: B009
        "b",
        {"top_p": 1, "temperature": 0.7},
    )


def test_a_key_with_dots_goes_deeper_and_values_that_are_no_words_go_by_their_number(
    project: Project,
) -> None:
    grid = {"params.extra.stop": [["a", "b"], None], "params.user": ["x,y"]}
    project.suite(providers=[{**OPENAI, "grid": grid}])
    assert names(project) == ["gpt stop=#1 user=x;y", "gpt stop=null user=x;y"]
    assert getattr(project.load().providers[0], "params") == {  # noqa: B009
        "top_p": 1,
        "extra": {"stop": ["a", "b"]},
        "user": "x,y",
    }


def test_the_name_of_the_entry_selects_all_and_a_full_name_one(project: Project) -> None:
    project.suite(providers=[{**MOCK, "grid": {"seed": [1, 2]}}, OPENAI])
    assert names(project, providers=("mock",)) == ["mock seed=1", "mock seed=2"]
    assert names(project, providers=("mock seed=2", "gpt")) == ["mock seed=2", "gpt"]


def test_a_provider_without_a_name_is_swept_by_the_one_it_gets(project: Project) -> None:
    model = {"type": "openai", "model": "m", "base_url": "http://localhost"}
    project.suite(providers=[{**model, "grid": {"n": [1]}}])
    assert names(project) == ["openai:m n=1"]


def test_what_is_wrong_is_told_with_lines_and_suggestions(project: Project) -> None:
    project.write(
        "evals.yaml",
        """\
providers:
  - type: mock
    name: one
    grid:
      sede: [1]
  - type: mock
    name: two
    grid:
      seed: [one]
  - type: mock
    name: three
    grid: 3
  - type: mock
    name: four
    grid: {seed: []}
cases: [{id: a, input: a, expect: [{contains: a}]}]
""",
    )
    assert project.problems() == [
        "evals.yaml:5: providers[0].grid: unknown setting 'sede', did you mean 'seed'?",
        "evals.yaml:9: providers[1].seed: expected a whole number, got 'one'",
        "evals.yaml:12: providers[2].grid: expected a mapping, got 3",
        "evals.yaml:15: providers[3].grid.seed: expected at least 1 entry, got 0",
    ]


def test_values_may_come_from_the_environment(project: Project) -> None:
    project.suite(providers=[{**MOCK, "grid": {"seed": ["${SEED}"]}}])
    assert [str(each.name) for each in project.load({"SEED": "7"}).providers] == ["mock seed=7"]


def test_more_variants_than_anybody_wants_are_refused(project: Project) -> None:
    grid = {name: list(range(11)) for name in ("seed", "retries", "rpm")}
    project.suite(providers=[{**MOCK, "grid": grid}])
    assert "more than 1000 variants: leave out some values" in project.problems()[0]
