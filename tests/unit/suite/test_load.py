from pathlib import Path

import pytest
from projects import Project

from ci_evals.errors import ConfigError, UsageError
from ci_evals.suite.configs import find_config
from ci_evals.suite.load import load_mock, load_suite

TWO = [{"name": "a", "type": "mock"}, {"name": "b", "type": "mock"}]


def test_defaults_are_filled_in(project: Project) -> None:
    project.suite(name=...)
    suite = project.load()
    assert (suite.name, suite.folder, suite.file) == (
        project.folder.name,
        project.folder,
        str(project.config),
    )
    assert (
        suite.runs,
        suite.max_concurrency,
        suite.timeout_s,
        suite.retries,
        suite.settings.seed,
    ) == (
        1,
        16,
        60.0,
        4,
        0,
    )
    assert (suite.out, suite.formats) == (
        Path("ci-evals-results"),
        ("json", "junit", "markdown", "html"),
    )
    assert suite.gate is None
    assert [str(variant) for variant in suite.columns] == ["echo"]


@pytest.mark.parametrize("text", ["", "# nothing", "- a", "just text", "5"])
def test_a_config_that_is_no_mapping_is_refused(project: Project, text: str) -> None:
    project.write("evals.yaml", text)
    assert project.problems() == [
        "evals.yaml:1: expected a mapping with the keys `providers` and `cases`"
    ]


def test_an_empty_mapping_lacks_providers_and_cases(project: Project) -> None:
    project.write("evals.yaml", "{}")
    assert project.problems() == [
        "evals.yaml:1: the key 'providers' is missing",
        "evals.yaml:1: the key 'cases' is missing",
    ]


def test_a_missing_config_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nope.yaml: no such file$"):
        load_suite(tmp_path / "nope.yaml", {})


WRONG = """\
runs: 0
runs: 2
timout_s: 5
providers:
  - {type: opena}
  - {type: python, target: "nope:answer"}
  - {type: command, command: "agent 'x"}
  - a mock
prompts:
  - "{{ question"
  - {file: nope.txt}
cases:
  - {id: a, input: x, expect: [contians: y]}
  - {id: a, input: x, expect: [contains: y]}
  - file: nope/*.csv
gate: {min_pass_rate: 90, providers: {zz: 1}}
"""


def test_everything_that_is_wrong_is_told_at_once_in_the_order_of_the_file(
    project: Project,
) -> None:
    project.write("evals.yaml", WRONG)
    problems = project.problems()
    places = [problem.split(": ")[:2] for problem in problems]
    assert places == [
        ["evals.yaml:1", "runs"],
        ["evals.yaml:2", "runs"],
        ["evals.yaml:3", "unknown key 'timout_s', did you mean 'timeout_s'?"],
        ["evals.yaml:5", "providers[0].type"],
        ["evals.yaml:6", "providers[1]"],
        ["evals.yaml:7", "providers[2]"],
        ["evals.yaml:8", "providers[3]"],
        ["evals.yaml:10", "prompts[0]"],
        ["evals.yaml:11", "prompts[1].file"],
        ["evals.yaml:13", "cases[0].expect[0]"],
        ["evals.yaml:14", "cases[1].id"],
        ["evals.yaml:15", "cases[2].file"],
        ["evals.yaml:16", "gate.min_pass_rate"],
        ["evals.yaml:16", "gate.providers"],
    ]


def test_two_formats_of_the_same_file_are_refused(project: Project) -> None:
    project.suite(report={"formats": ["junit", "json", "junit_flaky"]})
    (problem,) = project.problems()
    assert "'junit' and 'junit_flaky' both write junit.xml: remove one of them" in problem


def test_a_report_in_no_format_is_refused(project: Project) -> None:
    project.suite(report={"formats": []})
    (problem,) = project.problems()
    assert problem.startswith("evals.yaml:1: report.formats: expected at least 1 entry, got 0")


@pytest.mark.parametrize("name", ["evals.yaml", "evals.yml", "evals.json", ".github/evals.yaml"])
def test_a_config_is_found_by_its_name(project: Project, name: str) -> None:
    path = project.write(name, "{}")
    assert find_config(project.folder) == path


def test_two_configs_in_one_folder_are_told_apart_by_the_user(project: Project) -> None:
    for name in ("evals.yaml", "evals.yml", ".github/evals.yaml"):
        project.write(name, "{}")
    with pytest.raises(
        UsageError, match=r"has both evals.yaml and evals.yml: remove one, or name the suite$"
    ):
        find_config(project.folder)


def test_a_folder_without_a_config_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name a suite, or start with `ci-evals init`"):
        find_config(tmp_path)


def test_a_json_config_is_read(project: Project) -> None:
    project.suite(name="tab\there \U0001f600")
    text = project.config.read_text().replace(", ", ",\n\t")
    assert load_suite(project.write("evals.json", text), {}).name == "tab\there \U0001f600"


def test_a_mock_is_read_from_a_config_that_is_otherwise_wrong(project: Project) -> None:
    project.write(
        "evals.yaml", "bogus: 1\nproviders: [{type: nonsense}, {type: mock, answers: {a: b}}]"
    )
    assert load_mock(project.config, {}).answers == {"a": "b"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("providers: [{type: openai}]", "none of them is a `mock`"),
        ("cases: []", "none of them is a `mock`"),
        (
            "providers: [{type: mock, flakiness: 2}]",
            "providers.0..flakiness: expected a number <= 1",
        ),
        ("[]", "expected a mapping"),
    ],
)
def test_a_config_without_a_good_mock_is_told(project: Project, text: str, problem: str) -> None:
    project.write("evals.yaml", text)
    with pytest.raises(ConfigError, match=problem):
        load_mock(project.config, {})


PHASES = """\
runz: 2
providers:
  - {type: mock, name: a}
prompts:
  - "{{ question }}"
  - "{{ topic }}"
  - {file: nope.txt}
cases:
  - {id: a, vars: {question: x}, tags: [fine], expect: [contians: y]}
  - {id: b, vars: {question: x}, tagz: [odd], tags: [rare], expect: [not_empty: true]}
  - {id: c, vars: {question: x, topic: y, answer: z}, expect: [python: "nomod:x"]}
expect:
  - contains: "{{ answer }}"
gate: {min_pass_rate: 90, per_variant: true, tags: {fine: 1, rare: 1, fyne: 1}, providers: {b: 1}}
budget: {max_cost_usd: 1}
"""


def test_no_problem_waits_for_another_to_be_mended(project: Project) -> None:
    project.write("evals.yaml", PHASES)
    assert [problem.removeprefix("evals.yaml:") for problem in project.problems()] == [
        "1: unknown key 'runz', did you mean 'runs'?",
        f"7: prompts[2].file: nope.txt: no such file (looked in {project.folder})",
        "9: cases[0].expect[0]: unknown grader 'contians', did you mean 'contains'?",
        (
            "9: cases[0]: the suite's expect[0] does not fit this case: 'answer' is undefined; "
            "known: question"
        ),
        (
            "9: case 'a': the prompt 'prompt 2' does not fit this case: 'topic' is undefined; "
            "known: question"
        ),
        "10: cases[1]: unknown key 'tagz', did you mean 'tags'?",
        (
            f"11: cases[2].expect[0].python: there is no module 'nomod' in {project.folder} or "
            "installed; install it, as in `pip install -e .`, or name its folder in "
            "`settings.pythonpath`"
        ),
        "14: gate.min_pass_rate: expected a number <= 1, got 90: 90 % is written 0.9",
        "14: gate.providers: unknown provider 'b', known: a",
        "14: gate.tags: unknown tag 'fyne', did you mean 'fine'?",
        "15: budget: counts USD, and the price of a is not known: give the provider a `price`",
    ]


def test_a_template_that_is_none_is_told_once_and_not_for_each_case(project: Project) -> None:
    project.suite(prompts=["{{ question"])
    (problem,) = project.problems()
    assert "not a valid template" in problem
