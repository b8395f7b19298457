import pytest
from projects import CASE, Project

from ci_evals.errors import ConfigError

TWO = [{"name": "a", "type": "mock"}, {"name": "b", "type": "mock"}]

OPENAI = {"type": "openai", "model": "m", "base_url": "http://localhost"}


def test_a_bar_for_a_tag_or_provider_that_does_not_exist_is_told(project: Project) -> None:
    project.write(
        "evals.yaml",
        "providers: [{type: mock, name: a}, {type: mock, name: b}]\n"
        "cases: [{id: x, input: q, tags: [critical], expect: [contains: x]}]\n"
        "gate:\n  tags:\n    critcal: 1\n    critical: 1\n  providers:\n    a: 1\n    c: 0.5\n",
    )
    assert project.problems() == [
        "evals.yaml:5: gate.tags: unknown tag 'critcal', did you mean 'critical'?",
        "evals.yaml:9: gate.providers: unknown provider 'c', known: a, b",
    ]


def test_a_plan_that_no_job_can_carry_out_is_refused(project: Project) -> None:
    project.suite(providers=TWO, runs=10**15)
    allowed = "at most 10,000,000 are allowed"
    text = f"2,000,000,000,000,000 runs are planned: {allowed}, 5,000,000 per cell"
    assert project.problems() == [f"evals.yaml:1: runs: {text}"]
    project.suite(providers=TWO)
    with pytest.raises(ConfigError, match=f"{allowed}, 5,000,000 per cell"):
        project.load(runs=5_000_001)
    project.suite()
    with pytest.raises(ConfigError, match=f"10,000,001 runs are planned: {allowed}$"):
        project.load(runs=10_000_001)


def test_tags_of_cases_that_could_not_be_read_are_not_called_unknown(project: Project) -> None:
    project.suite(
        cases=[
            {
                "id": "x",
                "input": "q",
                "tags": ["critical"],
                "runs": 0,
                "expect": [{"contains": "x"}],
            }
        ],
        gate={"tags": {"critical": 1}},
    )
    assert project.problems() == [
        "evals.yaml:1: cases[0].runs: expected a whole number >= 1, got 0"
    ]


def test_a_bar_for_an_unselected_provider_is_known(project: Project) -> None:
    project.write("agent.py", "def answer(input): return input")
    providers = [{"type": "mock"}, {"type": "python", "target": "agent:answer"}]
    project.suite(providers=providers, gate={"providers": {"python:agent:answer": 0.5}})
    assert len(project.load(providers=("mock",)).providers) == 1


@pytest.mark.parametrize(
    "cases", [..., [{"file": "nope.csv"}], [{"id": "a", "input": "q", "tagz": ["critical"]}], 5]
)
def test_tags_are_not_called_unknown_where_cases_are_missing(
    project: Project, cases: object
) -> None:
    project.suite(cases=cases, gate={"tags": {"critical": 1}})
    assert not [problem for problem in project.problems() if "gate" in problem]


def test_a_bar_is_not_called_unknown_where_a_provider_has_no_name_yet(project: Project) -> None:
    project.suite(
        providers=[{"type": "python", "targte": "agent:answer"}],
        gate={"providers": {"python:agent:answer": 1}},
    )
    assert not [problem for problem in project.problems() if "gate" in problem]


def test_a_bar_for_a_label_that_no_classification_lists_is_told(project: Project) -> None:
    graders = {"label": "refund", "labels": ["refund", "other"]}
    cases = [{"id": "a", "input": "q", "expect": [{"classify": graders}]}]
    project.suite(cases=cases, gate={"metrics": {"recall.refnud": 0.9, "recall.other": 0.9}})
    assert project.problems() == [
        "evals.yaml:1: gate.metrics.recall.refnud: unknown label 'refnud', did you mean 'refund'?"
    ]
    open_ended = {"id": "b", "turns": [{"user": "q", "expect": [{"classify": "else"}]}]}
    project.suite(cases=[*cases, open_ended], gate={"metrics": {"recall.refnud": 0.9}})
    assert project.load().gate is not None


def test_a_setting_that_no_provider_takes_is_a_problem(project: Project) -> None:
    project.suite(cases=[{**CASE, "overrides": {"params": {"n": 1}}}])
    (problem,) = project.problems()
    assert (
        "overrides.params: no provider of the suite has a setting 'params' (they are of type mock)"
        in problem
    )


def test_params_that_a_provider_refuses_are_a_problem(project: Project) -> None:
    project.suite(providers=[OPENAI], cases=[{**CASE, "overrides": {"params": {"messages": []}}}])
    (problem,) = project.problems()
    assert (
        "params.messages: is set by ci-evals itself; remove it (with provider openai:m)" in problem
    )
