import pytest
from projects import Project


def test_prompts_come_as_text_from_files_or_as_turns(project: Project) -> None:
    project.write("prompts/long.txt", "\ufeffline 1\r\n{{ q }}\r\n")
    prompts = [
        "{{ q }}",
        {"name": "polite", "system": "Be polite.", "user": "{{ q }}"},
        {"file": "prompts/long.txt"},
        {
            "name": "talk",
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "{{ q }}"},
            ],
        },
    ]
    project.suite(
        prompts=prompts, cases=[{"id": "a", "vars": {"q": "?"}, "expect": [{"contains": "x"}]}]
    )
    suite = project.load()
    assert {prompt.name: prompt.turns for prompt in suite.prompts} == {
        "prompt 1": (("user", "{{ q }}"),),
        "polite": (("system", "Be polite."), ("user", "{{ q }}")),
        "long": (("user", "line 1\n{{ q }}\n"),),
        "talk": (("user", "hi"), ("assistant", "{{ q }}")),
    }
    assert [str(variant) for variant in suite.columns][:2] == ["echo · prompt 1", "echo · polite"]


def test_a_long_prompt_without_variables_is_no_path(project: Project) -> None:
    project.suite(prompts=["モンティ・ホール" * 20])
    assert project.load().prompts[0].turns == (("user", "モンティ・ホール" * 20),)


@pytest.mark.parametrize("prompts", [None, []])
def test_no_prompts_send_the_input_as_it_is(project: Project, prompts: object) -> None:
    project.suite(prompts=prompts)
    assert project.load().prompts == ()


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        (5, "expected text, or a mapping with `user`, `file`, `messages` or `function`"),
        ({}, "a prompt has one of `user`, `file`, `messages` and `function`"),
        ({"system": "x"}, "a prompt has one of `user`, `file`, `messages` and `function`"),
        (
            {"user": "x", "file": "y"},
            "a prompt has one of `user`, `file`, `messages` and `function`",
        ),
        ({"usr": "x"}, "unknown key 'usr', did you mean 'user'?"),
        ("{{ x", "not a valid template: unexpected end of template"),
        ("a\n{% if x %}", "not a valid template: Unexpected end of template"),
        ("{{ x | nofilter }}", "not a valid template: No filter named 'nofilter'"),
        ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "not a valid template: "),
    ],
)
def test_a_wrong_prompt_is_told(project: Project, prompt: object, problem: str) -> None:
    project.suite(prompts=[prompt])
    (found,) = project.problems()
    assert found.startswith(f"evals.yaml:1: prompts[0]: {problem}")


@pytest.mark.parametrize("name", ["nope.txt", ".", "a\0b", "x" * 5000])
def test_a_prompt_file_that_cannot_be_read_is_told(project: Project, name: str) -> None:
    project.suite(prompts=[{"file": name}])
    (problem,) = project.problems()
    assert problem.startswith("evals.yaml:1: prompts[0].file: ")
    assert problem.endswith(f"(looked in {project.folder})")


def test_prompts_must_be_a_list(project: Project) -> None:
    project.suite(prompts={"user": "x"})
    assert project.problems() == [
        'evals.yaml:1: prompts: expected a list of templates, as in `- "{{ question }}"`'
    ]


def test_names_of_prompts_are_taken_once(project: Project) -> None:
    project.suite(prompts=[{"name": "p", "user": "a"}, {"name": "p", "user": "b"}])
    assert project.problems() == [
        "evals.yaml:1: prompts[1]: a second prompt called 'p': give it another `name`"
    ]


def test_tool_calls_in_a_prompt_are_refused_rather_than_lost(project: Project) -> None:
    messages = [{"role": "assistant", "tool_calls": [{"name": "book"}]}]
    project.suite(prompts=[{"messages": messages}])
    assert project.problems() == [
        "evals.yaml:1: prompts[0].messages: tool calls belong to the `messages` of a case"
    ]


def test_a_case_that_a_prompt_does_not_fit_is_told_where_the_case_is(project: Project) -> None:
    expect = "expect: [contains: x]"
    project.write(
        "c.yaml",
        f"- {{id: ok, vars: {{q: a}}, {expect}}}\n- {{id: bad, vars: {{question: a}}, {expect}}}\n",
    )
    project.suite(prompts=["{{ q }}", "constant"], cases={"file": "c.yaml"})
    assert project.problems() == [
        (
            "c.yaml:2: case 'bad': the prompt 'prompt 1' does not fit this case: 'q' is "
            "undefined; known: question"
        )
    ]


@pytest.mark.parametrize(
    "template", ["{{ 1 / 0 }}", "{{ q.__class__.__mro__ }}", "{{ 'x' * q }}", "{% include 'etc' %}"]
)
def test_whatever_a_template_raises_is_a_problem(project: Project, template: str) -> None:
    project.suite(
        prompts=[template], cases=[{"id": "a", "vars": {"q": "v"}, "expect": [{"contains": "x"}]}]
    )
    (problem,) = project.problems()
    assert problem.startswith(
        "evals.yaml:1: case 'a': the prompt 'prompt 1' does not fit this case: "
    )


def test_vars_alone_are_no_question_for_a_model(project: Project) -> None:
    cases = [{"id": "a", "vars": {"q": "v"}, "expect": [{"contains": "x"}]}]
    project.suite(cases=cases)
    (problem,) = project.problems()
    assert problem.startswith("evals.yaml:1: case 'a': has only `vars`: add `prompts`")
    project.write("agent.py", "def answer(input): return input")
    project.suite(cases=cases, providers=[{"type": "python", "target": "agent:answer"}])
    assert project.load().cases[0].vars == {"q": "v"}
