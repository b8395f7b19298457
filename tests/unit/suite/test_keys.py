"""A key that a suite knows elsewhere is pointed to; any other one is held against those that may
stand there.
"""

import pytest
from projects import Project

MOCK = "{type: mock}"

MODEL = "{type: %s, model: m, api_key: '${KEY:-k}', %s}"


def problem_of(project: Project, *, provider: str = MOCK, case: str = "", further: str = "") -> str:
    """The only problem of a suite, without its file and line."""
    cases = f"[{{id: a, input: x, expect: [contains: x], {case}}}]"
    project.write("evals.yaml", f"providers: [{provider}]\ncases: {cases}\n{further}")
    (told,) = project.problems()
    return told.split(": ", 1)[1]


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("formats: [html]", "unknown key 'formats', did you mean 'report.formats'?"),
        ("max_cost_usd: 3", "unknown key 'max_cost_usd', did you mean 'budget.max_cost_usd'?"),
        ("critical: true", "unknown key 'critical', did you mean 'cases[].critical'?"),
        (
            "gate: {runs: 3}",
            "gate: unknown key 'runs', did you mean 'runs' at the top level of the suite?",
        ),
        ("gate: {per_run: {}}", "gate: unknown key 'per_run', did you mean 'budget.per_run'?"),
    ],
)
def test_a_key_of_the_suite_is_told_with_its_place(
    project: Project, written: str, problem: str
) -> None:
    assert problem_of(project, further=written) == problem


def test_a_key_of_the_suite_in_a_case_is_no_misspelling_of_one_of_the_cases(
    project: Project,
) -> None:
    told = "cases[0]: unknown key 'retries', did you mean 'retries' at the top level of the suite?"
    assert problem_of(project, case="retries: 1") == told


def test_a_key_of_cases_in_another_entry_is_not_taken_for_theirs(project: Project) -> None:
    told = problem_of(project, provider="{type: mock, input: x}")
    assert told.startswith("providers[0]: unknown key 'input', known: after, answers, ")


@pytest.mark.parametrize("key", ["name", "description", "label"])
def test_what_may_be_written_anywhere_is_not_taken_for_the_suites(
    project: Project, key: str
) -> None:
    assert problem_of(project, further=f"gate: {{{key}: x}}").startswith(
        f"gate: unknown key {key!r}, known: "
    )


@pytest.mark.parametrize(
    ("kind", "key", "meant"),
    [
        ("openai", "temperature", "'params.temperature'?"),
        ("anthropic", "stop_sequences", "'params.stop_sequences'?"),
        ("openai", "seed", "'params.seed' or 'settings.seed'?"),
        ("openai", "runs", "'runs' at the top level of the suite?"),
        ("openai", "modle", "'model'?"),
        ("gemini", "temperature", "'params.generationConfig.temperature'?"),
        ("gemini", "top_p", "'params.generationConfig.topP'?"),
    ],
)
def test_a_setting_of_a_model_is_told_with_its_place(
    project: Project, kind: str, key: str, meant: str
) -> None:
    told = f"providers[0]: unknown key {key!r}, did you mean {meant}"
    assert problem_of(project, provider=MODEL % (kind, f"{key}: 1")) == told


@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini"])
@pytest.mark.parametrize("key", ["url", "endpoint", "organization", "zzz"])
def test_what_is_no_setting_of_a_model_is_not_sent_on_to_it(
    project: Project, kind: str, key: str
) -> None:
    told = problem_of(project, provider=MODEL % (kind, f"{key}: x"))
    assert told.startswith(f"providers[0]: unknown key {key!r}, known: after, ")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("prompt", ", which is called 'input' here"),
        ("model", ", which is `overrides: {model: …}` here"),
        ("target", ", which is `expect: [{equals: …}]` here"),
        ("provider", ", did you mean 'providers'?"),
    ],
)
def test_names_of_a_case_elsewhere_are_not_its_choice_of_the_matrix(
    project: Project, key: str, meant: str
) -> None:
    told = problem_of(project, case=f"{key}: x")
    assert told == f"cases[0]: unknown key {key!r}{meant}"


def test_the_prompts_of_a_provider_are_close_to_a_prompt(project: Project) -> None:
    told = problem_of(project, provider=MODEL % ("openai", "prompt: x"))
    assert told == "providers[0]: unknown key 'prompt', which is called 'prompts' here"


def test_where_there_are_no_params_what_is_known_is_listed(project: Project) -> None:
    told = problem_of(project, provider="{type: mock, temperature: 0}")
    assert told.startswith("providers[0]: unknown key 'temperature', known: after, answers, ")
