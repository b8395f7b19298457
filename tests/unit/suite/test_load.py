from pathlib import Path

import pytest
from projects import CASE, Project

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


# `--tags`.

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
