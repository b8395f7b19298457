from typing import Any

import msgspec
import pytest
from projects import Project

from ci_evals.graders import Contains

MODEL = {"name": "m", "type": "openai", "model": "gpt", "base_url": "http://localhost/v1"}


def provider(**changes: Any) -> list[dict[str, Any]]:
    return [MODEL | changes]


@pytest.mark.parametrize(
    ("text", "environ", "value"),
    [
        ("${NAME}", {"NAME": "x"}, "x"),
        ("a ${NAME} b ${NAME}", {"NAME": "x"}, "a x b x"),
        ("${NAME:-default}", {}, "default"),
        ("${NAME:-default}", {"NAME": ""}, "default"),
        ("${NAME:-default}", {"NAME": "x"}, "x"),
        ("${NAME:-}", {}, ""),
        ("$${NAME}", {"NAME": "x"}, "${NAME}"),
        ("$NAME $ {NAME} $$ ${", {"NAME": "x"}, "$NAME $ {NAME} $$ ${"),
        ("${NAME}", {"NAME": "${OTHER}", "OTHER": "y"}, "${OTHER}"),
    ],
)
def test_references_are_filled_in(
    project: Project, text: str, environ: dict[str, str], value: str
) -> None:
    project.suite(description=text)
    assert project.load(environ).description == value


def test_every_missing_variable_is_told_with_its_place(project: Project) -> None:
    project.write(
        "evals.yaml",
        "description: ${A}\nproviders:\n  - type: mock\n    wrong: ${B}\n"
        "cases: [{id: a, input: x, expect: [contains: x]}]\n",
    )
    assert project.problems() == [
        (
            "evals.yaml:1: description: the variable A is not set: export it, or put it in .env "
            "next to the config"
        ),
        (
            "evals.yaml:4: providers[0].wrong: the variable B is not set: export it, or put it "
            "in .env next to the config"
        ),
    ]


def test_a_variable_that_many_places_miss_is_one_problem(project: Project) -> None:
    player = {"name": "player", "type": "openai", "model": "m", "api_key": "${USER_KEY}"}
    user = {"provider": player, "persona": "terse", "goal": "an echo"}
    project.suite(
        description="${OTHER} ${A}",
        providers=[*provider(api_key="${A}"), {**MODEL, "name": "second", "api_key": "${A}"}],
        cases=[{"id": f"case {number}", "user": user} for number in range(100)],
    )
    advice = "is not set: export it, or put it in .env next to the config"
    assert project.problems() == [
        f"evals.yaml:1: description: the variable OTHER {advice}",
        f"evals.yaml:1: description and 2 more: the variable A {advice}",
        f"evals.yaml:1: cases[0].user.provider.api_key and 99 more: the variable USER_KEY {advice}",
    ]


def test_a_dotenv_file_beside_the_config_adds_to_the_environment_which_wins(
    project: Project,
) -> None:
    project.write(".env", "A=from file\nB='b$X # c'\nexport C=c\nD\n")
    project.suite(description="${A} ${B} ${C} ${D:-d}")
    suite = project.load({"A": "from environment"})
    assert suite.description == "from environment b$X # c c d"
    assert suite.secrets == ("from environment", "from file", "b$X # c")


def test_a_dotenv_file_that_is_not_utf8_is_a_problem(project: Project) -> None:
    project.write(".env", b"A=1\nB=\xff\n")
    project.suite()
    assert project.problems() == [".env:2: not UTF-8: save the file as UTF-8"]


def test_numbers_and_booleans_may_come_from_the_environment(project: Project) -> None:
    project.suite(
        runs="${RUNS}",
        timeout_s="${T:-2.5}",
        gate={"min_pass_rate": "${BAR}", "prove": "${PROVE}", "tags": {"t": "${BAR}"}},
        cases=[{"id": "a", "input": "x", "tags": ["t"], "expect": [{"contains": "x"}]}],
    )
    suite = project.load({"RUNS": "3", "BAR": "0.9", "PROVE": "true"})
    assert suite.gate is not None
    assert (suite.runs, suite.timeout_s, suite.gate.min_pass_rate, suite.gate.prove) == (
        3,
        2.5,
        0.9,
        True,
    )
    assert suite.gate.tags == {"t": 0.9}


@pytest.mark.parametrize("value", ["three", "2.5", "0", "-1"])
def test_a_variable_that_is_no_whole_number_is_a_problem(project: Project, value: str) -> None:
    project.suite(runs="${RUNS}")
    (problem,) = project.problems({"RUNS": value})
    assert problem.startswith("evals.yaml:1: runs: expected a whole number")
    assert problem.endswith("got the value of ${RUNS}")


def test_nothing_is_filled_in_in_cases(project: Project) -> None:
    case = {
        "id": "${A}",
        "input": "${B}",
        "vars": {"v": "${C:-d}"},
        "expect": [{"contains": "$${D}"}],
    }
    project.write("cases.yaml", "- {id: other, input: '${B}', expect: [contains: '${E}']}")
    project.suite(cases=[case, {"file": "cases.yaml"}], expect=[{"contains": "${F}"}])
    first, second = project.load(dict.fromkeys("ABCDEF", "filled")).cases
    assert (first.id, first.input, first.vars) == ("${A}", "${B}", {"v": "${C:-d}"})
    assert second.input == "${B}"
    assert [each.grader for each in first.expect] == [Contains("${F}"), Contains("$${D}")]


def test_prompts_are_filled_in_but_not_their_files(project: Project) -> None:
    project.write("long.txt", "${A}")
    project.suite(prompts=["${A}", {"file": "long.txt"}])
    inline, file = project.load({"A": "filled"}).prompts
    assert (inline.turns, file.turns) == ((("user", "filled"),), (("user", "${A}"),))


def test_an_unselected_provider_needs_neither_its_variables_nor_its_settings(
    project: Project,
) -> None:
    providers = [
        MODEL | {"api_key": "${KEY}"},
        {"name": "b", "type": "mock"},
        {"name": "c", "type": "nonsense"},
    ]
    project.suite(providers=providers)
    assert [each.name for each in project.load(providers=("b",)).providers] == ["b"]
    assert len(project.problems()) == 2


def test_a_key_comes_from_the_variable_that_the_config_names(project: Project) -> None:
    project.suite(providers=provider(api_key="${KEY}"))
    suite = project.load({"KEY": "sk-one-two"})
    assert suite.providers[0].api_key.reveal() == "sk-one-two"  # type: ignore[attr-defined]
    assert suite.secrets == ("sk-one-two",)
    assert "sk-one-two" not in repr(suite.providers)


def test_a_literal_key_is_refused_and_not_repeated(project: Project) -> None:
    project.suite(providers=provider(api_key="sk-literal"))
    (problem,) = project.problems()
    assert problem.startswith(
        "evals.yaml:1: providers[0].api_key: a key does not belong in the file"
    )
    assert "sk-literal" not in problem


@pytest.mark.parametrize(
    ("kind", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
    ],
)
def test_a_vendors_key_comes_from_its_usual_variable(
    project: Project, kind: str, variable: str
) -> None:
    project.suite(providers=[{"type": kind, "model": "m"}])
    (missing,) = project.problems()
    assert missing.startswith(
        f"evals.yaml:1: providers[0].api_key: no key: set the variable {variable} (export it"
    )
    suite = project.load({variable: "sk-two-three"})
    assert suite.providers[0].api_key.reveal() == "sk-two-three"  # type: ignore[attr-defined]
    assert suite.secrets == ("sk-two-three",)


def test_an_endpoint_of_ones_own_needs_no_key(project: Project) -> None:
    project.suite(providers=provider())
    assert project.load().providers[0].api_key is None  # type: ignore[attr-defined]


def test_values_of_the_environment_can_be_sent_as_json(project: Project) -> None:
    project.suite(
        providers=provider(
            params={"user": "${WHO}", "top_p": "${P}"}, headers={"X-Team": "${WHO}-${P}"}
        )
    )
    options = project.load({"WHO": "me", "P": "0.5"}).providers[0]
    sent = msgspec.json.encode([options.params, options.headers])  # type: ignore[attr-defined]
    assert sent == b'[{"user":"me","top_p":0.5},{"X-Team":"me-0.5"}]'
