from projects import CASE, Project

from ci_evals.model.case import CaseOverrides

OPENAI = {"type": "openai", "model": "m", "base_url": "http://localhost"}
SUITE = """\
providers: [{type: openai, model: m, base_url: "http://localhost"}]
cases:
  - id: a
    input: hi
    expect: [{contains: x}]
    overrides:
      modle: large
"""


def test_overrides_are_read_with_the_case(project: Project) -> None:
    project.suite(providers=[OPENAI], cases=[{**CASE, "overrides": {"model": "x", "params": {"n": 1}, "timeout_s": 3}}])
    (case,) = project.load().cases
    assert case.overrides == CaseOverrides(model="x", params={"n": 1}, timeout_s=3)
    assert case.timeout_s == 3


def test_an_unknown_setting_is_shown_with_its_line_and_what_was_meant(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    assert project.problems() == [
        "evals.yaml:7: cases[0].overrides: unknown key 'modle', did you mean 'model'?",
    ]


def test_settings_take_part_in_the_fingerprint_and_the_time_does_not(project: Project) -> None:
    def fingerprint(**overrides: object) -> str:
        project.suite(providers=[OPENAI], cases=[{**CASE, "overrides": overrides}])
        return project.load().fingerprint

    assert fingerprint(model="x") != fingerprint(model="y") != fingerprint()
    assert fingerprint(model="x") == fingerprint(model="x", timeout_s=3)


def test_a_setting_that_no_provider_takes_is_a_problem(project: Project) -> None:
    project.suite(cases=[{**CASE, "overrides": {"params": {"n": 1}}}])
    (problem,) = project.problems()
    assert "overrides.params: no provider of the suite has a setting 'params' (they are of type mock)" in problem


def test_params_that_a_provider_refuses_are_a_problem(project: Project) -> None:
    project.suite(providers=[OPENAI], cases=[{**CASE, "overrides": {"params": {"messages": []}}}])
    (problem,) = project.problems()
    assert "params.messages: is set by ci-evals itself; leave it out (with provider openai:m)" in problem


def test_a_recording_that_is_not_there_is_a_problem_with_its_line(project: Project) -> None:
    project.write("evals.yaml", SUITE.replace("modle: large", "recorded: none.json"))
    (problem,) = project.problems()
    assert problem.startswith("evals.yaml:7: cases[0].overrides.recorded: the recording 'none.json' cannot be read: No")


def test_a_row_of_a_dataset_may_have_overrides_too(project: Project) -> None:
    project.write("cases.csv", 'id,input,expect,overrides\na,hi,"[{contains: x}]","{model: large}"\n')
    project.suite(providers=[OPENAI], cases={"file": "cases.csv"})
    (case,) = project.load().cases
    assert case.overrides.model == "large"
