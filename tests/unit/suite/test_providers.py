import pytest
from projects import Project

from ci_evals.providers.openai import OpenAI

TWO = [{"name": "a", "type": "mock"}, {"name": "b", "type": "mock"}]


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


def test_a_nameless_broken_provider_is_told_when_it_may_be_the_selected_one(
    project: Project,
) -> None:
    project.suite(providers=[*TWO, {"type": "python", "targte": "agent:answer"}])
    assert project.problems(providers=("python:agent:answer",)) == [
        "evals.yaml:1: --providers: unknown provider 'python:agent:answer', known: a, b, python",
        "evals.yaml:1: providers[2]: unknown key 'targte', did you mean 'target'?",
    ]
    assert len(project.load(providers=("a",)).providers) == 1


@pytest.mark.parametrize("providers", [[], None, "mock", {"type": "mock"}])
def test_providers_must_be_a_list_with_one_at_least(project: Project, providers: object) -> None:
    project.suite(providers=providers)
    assert project.problems() == [
        "evals.yaml:1: providers: expected a list with at least one provider"
    ]


@pytest.mark.parametrize("entry", [5, "an agent", [], {}, {"name": "a"}, {"type": None}])
def test_a_provider_must_have_a_type(project: Project, entry: object) -> None:
    project.suite(providers=[entry])
    (problem,) = project.problems()
    assert problem.startswith(
        "evals.yaml:1: providers[0]: expected `openai:gpt-4o-mini`, `agent:answer`, a URL, or a"
        " mapping with a `type`: openai, anthropic,"
    )


@pytest.mark.parametrize(
    ("entry", "kind", "name"),
    [
        ("openai:gpt-4o", "openai", "openai:gpt-4o"),
        ("openai:${MODEL}", "openai", "openai:gpt-4o"),
        ("openai:org/a:b", "openai", "openai:org/a:b"),
        ("bot.agent:answer", "python", "python:bot.agent:answer"),
        ("mock", "mock", "mock"),
    ],
)
def test_a_text_may_stand_for_a_provider(
    project: Project, entry: str, kind: str, name: str
) -> None:
    project.write("bot/agent.py", "def answer(text): return text")
    project.suite(providers=[entry])
    (provider,) = project.load({"OPENAI_API_KEY": "k", "MODEL": "gpt-4o"}).providers
    assert (provider.kind, provider.name) == (kind, name)


def test_a_url_is_a_service(project: Project) -> None:
    project.suite(providers=["https://bot.example/chat"])
    (provider,) = project.load().providers
    assert (provider.kind, provider.url) == ("http", "https://bot.example/chat")  # type: ignore[attr-defined]  # of `http`


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("mokc", "unknown provider type 'mokc', did you mean 'mock'?"),
        ("opnai:gpt", "unknown provider type 'opnai', did you mean 'openai'?"),
        ("google:gemini-2.5", "unknown provider type 'google', which is called 'gemini' here"),
        ("ollama:llama", "unknown provider type 'ollama': use `type: openai` with its `base_url`"),
        ("openai", "the key 'model' is missing"),
        ("command:./agent", "expected a mapping: write `{type: command, …}`"),
        ("agnt:answer", "target: there is no module 'agnt' in "),
        ("agent:anser", "target: there is no 'anser' in agent, did you mean 'answer'?"),
    ],
)
def test_a_text_that_stands_for_no_provider_is_told(
    project: Project, entry: str, problem: str
) -> None:
    project.write("agent.py", "def answer(text): return text")
    project.suite(providers=[entry])
    (told,) = project.problems({"OPENAI_API_KEY": "k"})
    assert told.startswith(f"evals.yaml:1: providers[0]: {problem}")


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


def test_a_provider_that_plays_a_user_needs_its_key_though_it_is_not_selected(
    project: Project,
) -> None:
    player = {"name": "player", "type": "openai", "model": "m"}
    user = {"provider": "player", "persona": "terse", "goal": "an echo"}
    talks = [{"id": name, "user": user} for name in "ab"]
    project.suite(
        providers=[{"name": "echo", "type": "mock"}, player, {**player, "name": "idle"}],
        cases=talks,
    )
    (problem,) = project.problems(providers=("echo",))
    assert problem.startswith(
        "evals.yaml:1: providers[1].api_key: no key: set the variable OPENAI_API_KEY"
    )
    assert project.load({"OPENAI_API_KEY": "k"}, providers=("echo",)).cases[0].user


def test_a_name_that_could_not_be_selected_is_refused(project: Project) -> None:
    project.suite(providers=[{"type": "mock", "name": "a,b"}])
    (problem,) = project.problems()
    assert problem.startswith("evals.yaml:1: providers[0]: the name 'a,b' has a comma")


@pytest.mark.parametrize("command", ["agent 'x", "", [], [""]])
def test_a_command_without_a_program_is_told_and_not_named(
    project: Project, command: object
) -> None:
    project.suite(providers=[{"type": "command", "command": command}])
    (problem,) = project.problems()
    assert problem.startswith("evals.yaml:1: providers[0]: command ")


@pytest.mark.parametrize(
    ("price", "problem"),
    [
        (
            "gpt-4o-min",
            "the price of the model 'gpt-4o-min' is not known: did you mean 'gpt-4o-mini'?",
        ),
        (
            "house-model",
            (
                "the price of the model 'house-model' is not known: use the vendor's name for"
                " it, or give"
            ),
        ),
        ({"input": 1}, "unknown key 'input'"),
    ],
)
def test_a_price_that_is_not_known_is_told(project: Project, price: object, problem: str) -> None:
    project.suite(providers=[{"type": "http", "url": "http://x", "price": price}])
    assert problem in project.problems()[0]
    assert project.problems()[0].startswith("evals.yaml:1: providers[0].price")


@pytest.mark.parametrize(
    ("params", "limit"),
    [
        ({"max_tokens": 500}, 500),
        ({"max_completion_tokens": 500}, 500),
        ({"max_output_tokens": 500}, 500),
        ({"generationConfig": {"maxOutputTokens": 500}}, 500),
        ({"inferenceConfig": {"maxTokens": 500}}, 500),
        ({"inferenceConfig": "${CONFIG}", "max_tokens": "many"}, None),
        ({}, None),
    ],
)
def test_each_api_says_in_its_own_words_how_long_an_answer_may_be(
    params: dict[str, object], limit: int | None
) -> None:
    assert OpenAI(model="m", params=params).max_output_tokens == limit
