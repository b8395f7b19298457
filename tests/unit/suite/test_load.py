from pathlib import Path

import pytest
from projects import Project

from ci_evals.errors import ConfigError, UsageError
from ci_evals.suite.load import Overrides, apply_overrides, find_config, load_mock, load_suite

TWO = [{"name": "a", "type": "mock"}, {"name": "b", "type": "mock"}]


def test_defaults_are_filled_in(project: Project) -> None:
    project.suite(name=...)
    suite = project.load()
    assert (suite.name, suite.folder, suite.file) == (project.folder.name, project.folder, str(project.config))
    assert (suite.runs, suite.max_concurrency, suite.timeout_s, suite.retries, suite.seed) == (1, 16, 60.0, 4, 0)
    assert (suite.out, suite.formats) == (Path("ci-evals-results"), ("json", "junit", "markdown"))
    assert suite.gate is None
    assert [str(variant) for variant in suite.columns] == ["echo"]


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


@pytest.mark.parametrize(
    ("selected", "problem"),
    [
        (("a", "zzz"), "--providers: unknown provider 'zzz', known: a, b"),
        ((), "--providers: none is named; known: a, b"),
    ],
)
def test_unknown_names_of_providers_are_refused_with_the_list(
    project: Project, selected: tuple[str, ...], problem: str
) -> None:
    project.suite(providers=TWO)
    assert project.problems(providers=selected) == [f"evals.yaml:1: {problem}"]


def test_a_nameless_broken_provider_is_told_when_it_may_be_the_selected_one(project: Project) -> None:
    project.suite(providers=[*TWO, {"type": "python", "targte": "agent:answer"}])
    assert project.problems(providers=("python:agent:answer",)) == [
        "evals.yaml:1: --providers: unknown provider 'python:agent:answer', known: a, b, python",
        "evals.yaml:1: providers[2]: unknown key 'targte', did you mean 'target'?",
        "evals.yaml:1: providers[2]: the key 'target' is missing",
    ]
    assert len(project.load(providers=("a",)).providers) == 1


@pytest.mark.parametrize("text", ["", "# nothing", "- a", "just text", "5"])
def test_a_config_that_is_no_mapping_is_refused(project: Project, text: str) -> None:
    project.write("evals.yaml", text)
    assert project.problems() == ["evals.yaml:1: expected a mapping with the keys `providers` and `cases`"]


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
  - mock
prompts:
  - "{{ question"
  - {file: nope.txt}
cases:
  - {id: a, input: x, expect: [contians: y]}
  - {id: a, input: x, expect: [contains: y]}
  - file: nope/*.csv
gate: {min_pass_rate: 90, providers: {zz: 1}}
"""


def test_everything_that_is_wrong_is_told_at_once_in_the_order_of_the_file(project: Project) -> None:
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
    ]


# Providers.


@pytest.mark.parametrize("providers", [[], None, "mock", {"type": "mock"}])
def test_providers_must_be_a_list_with_one_at_least(project: Project, providers: object) -> None:
    project.suite(providers=providers)
    assert project.problems() == ["evals.yaml:1: providers: expected a list with at least one provider"]


@pytest.mark.parametrize("entry", [5, "mock", [], {}, {"name": "a"}, {"type": None}])
def test_a_provider_must_have_a_type(project: Project, entry: object) -> None:
    project.suite(providers=[entry])
    (problem,) = project.problems()
    assert problem.startswith("evals.yaml:1: providers[0]: expected a mapping with a `type`: openai, anthropic,")


@pytest.mark.parametrize("kind", ["opena", 5, ["openai"], {"a": 1}])
def test_an_unknown_type_brings_the_closest_or_the_list(project: Project, kind: object) -> None:
    project.suite(providers=[{"type": kind}])
    (problem,) = project.problems()
    assert problem.startswith("evals.yaml:1: providers[0].type: unknown provider type")


def test_names_of_providers_are_taken_once(project: Project) -> None:
    project.suite(providers=[{"type": "mock"}, {"type": "mock"}, {"type": "mock", "name": "x"}])
    assert project.problems() == [
        "evals.yaml:1: providers[1]: a second provider called 'mock': give one of them a `name`"
    ]


def test_a_name_that_could_not_be_selected_is_refused(project: Project) -> None:
    project.suite(providers=[{"type": "mock", "name": "a,b"}])
    (problem,) = project.problems()
    assert problem.startswith("evals.yaml:1: providers[0]: the name 'a,b' has a comma")


def test_a_report_in_no_format_is_refused(project: Project) -> None:
    project.suite(report={"formats": []})
    (problem,) = project.problems()
    assert problem.startswith("evals.yaml:1: report.formats: expected at least 1 entry, got 0")


@pytest.mark.parametrize("command", ["agent 'x", "", [], [""]])
def test_a_command_without_a_program_is_told_and_not_named(project: Project, command: object) -> None:
    project.suite(providers=[{"type": "command", "command": command}])
    (problem,) = project.problems()
    assert problem.startswith("evals.yaml:1: providers[0]: command ")


# The gate.


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


def test_tags_of_cases_that_could_not_be_read_are_not_called_unknown(project: Project) -> None:
    project.suite(
        cases=[{"id": "x", "input": "q", "tags": ["critical"], "runs": 0, "expect": [{"contains": "x"}]}],
        gate={"tags": {"critical": 1}},
    )
    assert project.problems() == ["evals.yaml:1: cases[0].runs: expected a whole number >= 1, got 0"]


def test_a_bar_for_an_unselected_provider_is_known(project: Project) -> None:
    project.write("agent.py", "def answer(input): return input")
    providers = [{"type": "mock"}, {"type": "python", "target": "agent:answer"}]
    project.suite(providers=providers, gate={"providers": {"python:agent:answer": 0.5}})
    assert len(project.load(providers=("mock",)).providers) == 1


# Finding a config, and only its mock.


@pytest.mark.parametrize("name", ["evals.yaml", "evals.yml", "evals.json", ".github/evals.yaml"])
def test_a_config_is_found_by_its_name(project: Project, name: str) -> None:
    path = project.write(name, "{}")
    assert find_config(project.folder) == path


def test_two_configs_in_one_folder_are_told_apart_by_the_user(project: Project) -> None:
    for name in ("evals.yaml", "evals.yml", ".github/evals.yaml"):
        project.write(name, "{}")
    with pytest.raises(UsageError, match=r"has both evals.yaml and evals.yml: remove one, or name one with --config$"):
        find_config(project.folder)


def test_a_folder_without_a_config_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--config, or start with `ci-evals init`"):
        find_config(tmp_path)


def test_a_json_config_is_read(project: Project) -> None:
    project.suite(name="tab\there \U0001f600")
    text = project.config.read_text().replace(", ", ",\n\t")
    assert load_suite(project.write("evals.json", text), {}).name == "tab\there \U0001f600"


def test_a_mock_is_read_from_a_config_that_is_otherwise_wrong(project: Project) -> None:
    project.write("evals.yaml", "bogus: 1\nproviders: [{type: nonsense}, {type: mock, answers: {a: b}}]")
    assert load_mock(project.config, {}).answers == {"a": "b"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("providers: [{type: openai}]", "none of them is a `mock`"),
        ("cases: []", "none of them is a `mock`"),
        ("providers: [{type: mock, flakiness: 2}]", "providers.0..flakiness: expected a number <= 1"),
        ("[]", "expected a mapping"),
    ],
)
def test_a_config_without_a_good_mock_is_told(project: Project, text: str, problem: str) -> None:
    project.write("evals.yaml", text)
    with pytest.raises(ConfigError, match=problem):
        load_mock(project.config, {})


# All at once.

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
        "9: cases[0]: the suite's expect[0] does not fit this case: 'answer' is undefined",
        "9: cases[0].expect[0]: unknown grader 'contians', did you mean 'contains'?",
        "9: case 'a': the prompt 'prompt 2' does not fit this case: 'topic' is undefined",
        "10: cases[1]: unknown key 'tagz', did you mean 'tags'?",
        f"11: cases[2].expect[0].python: there is no module 'nomod' in {project.folder} or installed",
        "14: gate.min_pass_rate: expected a number <= 1, got 90: 90 % is written 0.9",
        "14: gate.providers: unknown provider 'b', known: a",
        "14: gate.tags: unknown tag 'fyne', did you mean 'fine'?",
        "15: budget: counts USD, and the price of a is not known: give the provider a `price`",
    ]


def test_a_template_that_is_none_is_told_once_and_not_for_each_case(project: Project) -> None:
    project.suite(prompts=["{{ question"])
    (problem,) = project.problems()
    assert "not a valid template" in problem


@pytest.mark.parametrize("cases", [..., [{"file": "nope.csv"}], [{"id": "a", "input": "q", "tagz": ["critical"]}], 5])
def test_tags_are_not_called_unknown_where_cases_are_missing(project: Project, cases: object) -> None:
    project.suite(cases=cases, gate={"tags": {"critical": 1}})
    assert not [problem for problem in project.problems() if "gate" in problem]


def test_a_bar_is_not_called_unknown_where_a_provider_has_no_name_yet(project: Project) -> None:
    project.suite(
        providers=[{"type": "python", "targte": "agent:answer"}], gate={"providers": {"python:agent:answer": 1}}
    )
    assert not [problem for problem in project.problems() if "gate" in problem]


def test_a_bar_for_a_label_that_no_classification_lists_is_told(project: Project) -> None:
    graders = {"label": "refund", "labels": ["refund", "other"]}
    cases = [{"id": "a", "input": "q", "expect": [{"classify": graders}]}]
    project.suite(cases=cases, gate={"metrics": {"recall.refnud": 0.9, "recall.other": 0.9, "language/f1.de": 0.9}})
    assert project.problems() == [
        "evals.yaml:1: gate.metrics.recall.refnud: unknown label 'refnud', did you mean 'refund'?"
    ]
    open_ended = {"id": "b", "turns": [{"user": "q", "expect": [{"classify": "else"}]}]}
    project.suite(cases=[*cases, open_ended], gate={"metrics": {"recall.refnud": 0.9}})
    assert project.load().gate is not None
