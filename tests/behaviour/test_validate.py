"""`ci-evals validate` finds what `run` would refuse, and tells each mistake once."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from leftovers import journaled
from processes import ci_evals
from suites import ECHO, ONE_CASE, write_cases, write_suite

MODULE = """\
from tools import *  # noqa
raise RuntimeError("validate runs no code of ours")
"""
AGENT = (
    MODULE.replace("*", "search as look_up")
    + "def answer(question): return question\nclass Judge: ...\n"
)
OPENAI = {"name": "model", "type": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
LISTED = {**OPENAI, "base_url": "https://api.mistral.ai/v1"}  # a vendor on the price list
SERVICE = {"name": "service", "type": "http", "url": "http://127.0.0.1:9/ask"}


async def problems(folder: Path, *cases: dict[str, Any], **settings: Any) -> list[str]:
    """What `validate` finds, without the file's place; nothing if it calls the suite valid."""
    write_suite(folder, cases or (ONE_CASE,), **settings)
    ended = await ci_evals(folder, "validate")
    assert ended.code == (2 if ended.err else 0)
    return [
        line.removeprefix("evals.yaml:1: ")
        for line in ended.err.splitlines()
        if line.startswith("evals.yaml:")
    ]


async def test_a_key_that_takes_a_word_or_a_boolean_names_both(tmp_path: Path) -> None:
    assert await problems(tmp_path, gate={"require_baseline": "sometimes"}) == [
        "gate.require_baseline: expected true or false or expected, got 'sometimes'"
    ]


@pytest.mark.parametrize("target", ["agent:answr", "agent:question", "agent:search"])
async def test_a_function_that_its_module_lacks_is_told_without_running_it(
    tmp_path: Path, target: str
) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    name = target.partition(":")[2]
    lack = f"there is no {name!r} in agent" + (
        ", did you mean 'answer'?" if name == "answr" else ""
    )
    agent = {"name": "agent", "type": "python", "target": target}
    staged = {**ECHO, "before": [target], "after": [target]}
    case = {**ONE_CASE, "expect": [{"python": target}]}
    assert await problems(tmp_path, case, providers=[agent, staged]) == [
        f"providers[0]: target: {lack}",
        f"cases[0].expect[0].python: {lack}",
        f"providers[1].before[0]: target: {lack}",
    ]


@pytest.mark.parametrize(
    "target", ["agent:answer", "agent:look_up", "agent:Judge.anything", "computed:anything"]
)
async def test_a_name_that_a_module_has_or_may_get_is_no_problem(
    tmp_path: Path, target: str
) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "computed.py").write_text(MODULE)
    assert await problems(tmp_path, providers=[{"type": "python", "target": target}]) == []


async def test_a_module_that_is_no_python_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("import os\ndef answer(:\n")
    (problem,) = await problems(tmp_path, providers=[{"type": "python", "target": "agent:answer"}])
    assert (
        problem
        == "providers[0]: target: importing 'agent' raises SyntaxError: invalid syntax (agent.py:2)"
    )


async def test_a_name_that_no_http_template_has_is_told_once(tmp_path: Path) -> None:
    body = {
        "q": "{{ question }}",
        "n": "{{ run }}",
        "style": "{{ style | default('short') }}",
        "all": "{{ range(3) }}",
    }
    headers = {"X-Case": "{{ case.id }} {{ tenant }}"}
    cases = [{**ONE_CASE, "id": name, "vars": {"question": "why?"}} for name in "abc"]
    service = {**SERVICE, "url": "http://127.0.0.1:9/{{ topic }}", "headers": headers, "body": body}
    hint = "known: input, messages, vars, case, run"
    assert await problems(tmp_path, *cases, providers=[service]) == [
        f"providers[0]: {where}: {name!r} is undefined: a case's var is `vars.{name}`; {hint}"
        for where, name in [("url", "topic"), ("headers.X-Case", "tenant"), ("body.q", "question")]
    ]
    assert (
        await problems(
            tmp_path, *cases, providers=[{**SERVICE, "body": {"q": "{{ vars.question }}"}}]
        )
        == []
    )


async def test_a_var_that_a_case_lacks_is_told_of_the_service_that_is_sent_it(
    tmp_path: Path,
) -> None:
    cases = [
        {**ONE_CASE, "id": name, "vars": {"topic": "a"} if name == "a" else {}} for name in "abc"
    ]
    talk = {"id": "talk", "turns": [{"user": "hello"}], "expect": [{"not_empty": True}]}
    service = {
        **SERVICE,
        "url": "http://127.0.0.1:9/{{ vars.topic }}",
        "body": {"q": "{{ input }}"},
    }
    staged = {**service, "name": "staged", "before": ["echo"]}
    lack = "the request cannot be rendered: there is no 'topic'"
    assert await problems(tmp_path, *cases, talk, providers=[service, staged, ECHO]) == [
        f"providers[0]: {lack} (case 'b' and 2 more)"
    ]


async def test_a_template_that_a_provider_cannot_fill_in_is_found_before_any_call(
    tmp_path: Path,
) -> None:
    case = {"id": "a", "input": "Hello", "vars": {"city": "Oslo"}, "expect": [{"not_empty": True}]}
    guest = {"id": "b", "user": {"provider": "m", "persona": "Terse.", "goal": "An echo."}}
    providers = [
        {"name": "c", "type": "command", "command": "echo {{ input }} {{ vars.city }}"},
        {"name": "d", "type": "command", "command": ["echo", "{{.Names}}", "{{ json . }}"]},
        {"name": "m", "type": "mock", "default": "{{ cty }}"},
        {"name": "n", "type": "mock", "default": "{{ cty }}", "answers": {"Hello": "Hi"}},
    ]
    lack = "mock: default cannot be rendered: 'cty' is undefined, did you mean 'city'?"
    told = "is not filled in: the program reads it from the JSON on its stdin"
    assert await problems(tmp_path, case, guest, providers=providers) == [
        f"providers[0]: command: `input` {told}",
        f"providers[0]: command: `vars` {told}",
        f"providers[2]: {lack} (case 'a')",
    ]


async def test_a_var_where_nothing_fills_it_in_is_refused_in_a_case_that_is_written_by_hand(
    tmp_path: Path,
) -> None:
    expect = [{"contains": "{{ city }}"}]
    guest = {"provider": "echo", "persona": "From {{ city }}", "goal": "{{ n }} rooms"}
    cases: list[dict[str, Any]] = [
        {"input": {"q": ["To {{ city | upper }}"]}, "expect": expect},
        {"messages": [{"role": "user", "content": [{"text": "{{ city }}"}]}], "expect": expect},
        {
            "turns": [{"user": "Hi", "expect": expect}, {"user": "{{ city }} for {{ n }}"}],
            "matrix": {"n": [1, 2]},
        },
        {"user": guest},
        {"input": "Oslo", "messages": [{"role": "user", "content": "{{ input }}"}]},
    ]
    text = "is not filled in here, only in `prompts` and `expect`"
    assert await problems(tmp_path, *cases, vars={"city": "Oslo"}, expect=expect) == [
        f"cases[0].input.q[0]: `city` {text}: move this text to `prompts`",
        f"cases[1].messages[0].content[0].text: `city` {text}: move these messages to `prompts`",
        f"cases[2].turns[1].user: `city` {text}: write the value here",
        f"cases[2].turns[1].user: `n` {text}: write the value here",
        f"cases[3].user.persona: `city` {text}: write the value here",
        f"cases[4].messages[0].content: `input` {text}: move these messages to `prompts`",
    ]


async def test_braces_that_name_no_var_are_sent_as_they_are_and_so_is_every_row_of_data(
    tmp_path: Path,
) -> None:
    questions = ["{{ other }}", "{{ city", "{% if city %}", "city", "{# {{ city }} #}"]
    write_cases(tmp_path, [{"id": "jsonl", "input": "{{ city }}"}])
    (tmp_path / "rows.CSV").write_text("id,input\ncsv,{{ city }}\n")
    (tmp_path / "rows.tsv").write_text("id\tinput\ntsv\t{{ city }}\n")
    (tmp_path / "mapped.yaml").write_text('[{no: 1, question: "{{ city }}"}]')
    (tmp_path / "made_rows.py").write_text(
        "def load():\n    return [{'id': 'made', 'input': '{{ city }}'}]\n"
    )
    cases: list[dict[str, Any]] = [
        *({"input": question} for question in questions),
        {"file": ["cases.jsonl", "rows.CSV", "rows.tsv"]},
        {"file": "mapped.yaml", "map": {"id": "no", "input": "question"}},
        {"python": "made_rows:load"},
    ]
    expect = [{"not_empty": True}]
    write_suite(tmp_path, cases, vars={"city": "Oslo"}, expect=expect)
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.err
    answers = [each["response"]["output"] for each in journaled(tmp_path / "ci-evals-results")]
    assert sorted(answers) == sorted([*questions, *["{{ city }}"] * 5])


@pytest.mark.parametrize(
    ("grader", "provider", "why"),
    [
        (
            {"cost": 1},
            LISTED,
            (
                "the cost of an answer, and the price of model is not known: "
                "give the provider a `price`"
            ),
        ),
        ({"cost": 1}, {**OPENAI, "base_url": "https://litellm.example.com/v1"}, None),
        ({"not_cost": 1}, SERVICE, None),
        ({"cost": 1}, {**SERVICE, "usage": "$.usage"}, None),
        ({"max_steps": 3}, OPENAI, "the steps of an answer, which model does not report"),
        (
            {"max_model_requests": 3},
            SERVICE,
            "the steps of an answer, which service does not report",
        ),
        (
            {"no_tool_errors": True},
            SERVICE,
            "the steps of an answer, which service does not report",
        ),
        ({"max_tool_calls": 3}, OPENAI, None),
        ({"cost": 1}, {**OPENAI, "price": {"input_per_mtok": 1, "output_per_mtok": 2}}, None),
        ({"max_steps": 3}, {**SERVICE, "steps": "$.steps"}, None),
    ],
)
async def test_a_grader_that_needs_what_its_provider_never_tells_is_refused(
    tmp_path: Path, grader: dict[str, Any], provider: dict[str, Any], why: str | None
) -> None:
    cases = [{"id": name, "input": "q"} for name in "abc"]
    (name,) = grader
    expected = [f"providers[0]: `{name}` needs {why} (case 'a' and 2 more)"] if why else []
    assert await problems(tmp_path, *cases, providers=[provider], expect=[grader]) == expected


async def test_a_recorded_answer_may_tell_what_its_provider_does_not(tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_text(json.dumps({"output": "hello"}))
    case = {**ONE_CASE, "overrides": {"recorded": "answer.json"}, "expect": [{"max_steps": 3}]}
    assert await problems(tmp_path, case, providers=[OPENAI]) == []


@pytest.mark.parametrize(
    ("provider", "options", "why"),
    [
        (
            SERVICE,
            {},
            (
                "service does not report: set its `context` to where answers have it, "
                "or give the grader a `context`"
            ),
        ),
        (OPENAI, {}, "model does not report: give the grader a `context`"),
        (OPENAI, {"context": "Paris is in France."}, None),
        ({**SERVICE, "context": "$.sources"}, {}, None),
    ],
)
async def test_a_judge_of_the_context_needs_a_provider_that_tells_it(
    tmp_path: Path, provider: dict[str, Any], options: dict[str, Any], why: str | None
) -> None:
    expect = [{"judge": {"rubric": "faithful", **options}}]
    judges = [{"type": "mock", "name": "strict"}]
    expected = (
        [f"providers[0]: `judge` needs the context that was retrieved, which {why} (case 'a')"]
        if why
        else []
    )
    cases = [{"id": "a", "input": "q"}]
    assert (
        await problems(tmp_path, *cases, providers=[provider], judges=judges, expect=expect)
        == expected
    )


async def test_a_price_that_is_missing_is_told_once(tmp_path: Path) -> None:
    case = {**ONE_CASE, "expect": [{"cost": 1}]}
    assert await problems(tmp_path, case, providers=[LISTED], budget={"max_cost_usd": 1}) == [
        "budget: counts USD, and the price of model is not known: give the provider a `price`"
    ]


async def test_a_mistake_that_many_cases_share_is_one_problem(tmp_path: Path) -> None:
    cases = [
        {"id": name, "vars": {"question": "why?"}, "overrides": {"params": {"n": 1}}}
        for name in "abc"
    ]
    hint = "did you mean 'question'?"
    unset = "no provider of the suite has a setting 'params'"
    assert await problems(
        tmp_path, *cases, prompts=["{{ qestion }}"], expect=[{"contains": "{{ anwser }}"}]
    ) == [
        (
            "cases[0]: the suite's expect[0] does not fit this case and 2 more: "
            "'anwser' is undefined; known: question"
        ),
        (
            "case 'a' and 2 more: the prompt 'prompt 1' does not fit this case: "
            f"'qestion' is undefined, {hint}"
        ),
        f"case 'a' and 2 more: overrides.params: {unset} (they are of type mock)",
    ]


async def test_a_prompt_that_makes_too_much_text_is_a_problem(tmp_path: Path) -> None:
    loops = "{% for _ in range(100000) %}{{ input * 1000 }}{% endfor %}"
    (problem,) = await problems(tmp_path, ONE_CASE, prompts=[loops])
    assert problem.endswith(
        "does not fit this case: the template makes more than 10,000,000 characters"
    )


async def test_a_file_full_of_unknown_keys_is_told_by_the_first_ones(tmp_path: Path) -> None:
    path = tmp_path / "evals.yaml"
    path.write_text(
        "providers: [{type: mock}]\ncases: [{id: a, input: b, expect: [not_empty: true]}]\n",
        "utf-8",
    )
    with path.open("a") as file:
        file.writelines(f"key{number}: 1\n" for number in range(200_000))
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert "evals.yaml:3: unknown key 'key0', known: " in ended.err
    assert "evals.yaml:23: 199,980 more unknown keys, from 'key20' on" in ended.err
    assert ended.err.endswith("\n21 problems, nothing was run.\n")


async def test_what_should_be_a_mapping_is_told_with_an_example(tmp_path: Path) -> None:
    token = "expected a mapping, as in `token: {command: gcloud auth print-access-token}`"
    assert await problems(
        tmp_path, providers=[{**SERVICE, "stream": True, "token": "secret-tool"}]
    ) == [
        f"providers[0].token: {token}, got 'secret-tool'",
        "providers[0].stream: expected a mapping, as in `stream: {text: $.delta}`, got true",
    ]


async def test_code_that_skip_unchanged_knows_nothing_of_must_be_named(tmp_path: Path) -> None:
    agent = {"name": "agent", "type": "command", "command": ["true"]}
    write_suite(tmp_path, providers=[agent], skip_unchanged=True)
    found = await ci_evals(tmp_path, "validate")
    said = (
        "skip_unchanged: agent is your own code: "
        "name its files here, or changes to them are skipped"
    )
    assert (found.code, said in found.err) == (2, True)
    (tmp_path / "agent.py").touch()
    write_suite(tmp_path, providers=[agent], skip_unchanged=["agent.py"])
    assert (await ci_evals(tmp_path, "validate")).code == 0


async def test_a_service_that_skip_unchanged_knows_nothing_of_must_be_named(tmp_path: Path) -> None:
    (tmp_path / "app.py").touch()
    served = {"command": f"{sys.executable} app.py", "url": "http://127.0.0.1:9/"}
    model = {
        "name": "bot",
        "type": "openai",
        "model": "m",
        "base_url": "http://127.0.0.1:9/v1",
        "serve": served,
    }
    assert await problems(tmp_path, providers=[model], skip_unchanged=True) == [
        (
            "skip_unchanged: the service of bot is your own code: "
            "name its files here, or changes to them are skipped"
        )
    ]
    assert not await problems(tmp_path, providers=[model], skip_unchanged=["app.py"])


async def test_paths_that_fit_no_file_are_told(tmp_path: Path) -> None:
    for name in (".git/HEAD", "uv.lock", "src/bot/agent.py", "evals/notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    folder = tmp_path / "evals"
    good = ["../src", "../src/**", "../src/*.py", "/src/bot/", "/uv.lock", "*.md", "/**/*.py"]
    assert not await problems(folder, skip_unchanged=good)
    found = await problems(folder, skip_unchanged=["src", *good, "../src/*.ts", "/uv.lok"])
    assert found == [
        f"skip_unchanged[0]: 'src' matches no file (looked in {folder})",
        f"skip_unchanged[8]: '../src/*.ts' matches no file (looked in {folder})",
        "skip_unchanged[9]: '/uv.lok' matches no file (looked in the root of the repository)",
    ]


@pytest.mark.parametrize(
    "grader", [{"judge": "polite"}, {"judge": {"rubric": "polite", "provider": "strict"}}]
)
async def test_no_problem_follows_from_that_of_a_judge(
    tmp_path: Path, grader: dict[str, Any]
) -> None:
    judge = {"name": "strict", "type": "mock", "defualt": "pass"}
    assert await problems(tmp_path, {**ONE_CASE, "expect": [grader]}, judges=[judge]) == [
        "judges[0]: unknown key 'defualt', did you mean 'default'?"
    ]


async def test_no_problem_follows_from_that_of_a_provider(tmp_path: Path) -> None:
    voice = {"name": "voice", "type": "mock", "defualt": "hm"}
    case = {**ONE_CASE, "expect": [{"judge": {"rubric": "polite", "provider": "voice"}}]}
    told = ["providers[1]: unknown key 'defualt', did you mean 'default'?"]
    assert await problems(tmp_path, case, providers=[{**ECHO, "before": ["voice"]}, voice]) == told
    ended = await ci_evals(tmp_path, "validate", "--providers", "echo")
    assert (ended.code, "unknown key 'defualt'" in ended.err) == (2, True)


@pytest.mark.parametrize("names", ["", ",", " "])
async def test_a_selection_that_names_nothing_is_an_error(tmp_path: Path, names: str) -> None:
    write_suite(tmp_path)
    for option in ("--providers", "--tags"):
        ended = await ci_evals(tmp_path, "validate", option, names)
        assert ended.code == 2
        assert (
            f"{option}: none is named; known: {'echo' if option == '--providers' else 'none'}"
            in ended.err
        )
    assert (await ci_evals(tmp_path, "validate", environ={"CI_EVALS_PROVIDERS": ""})).code == 0


async def test_an_unknown_key_of_a_tool_call_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "evals.yaml").write_text(
        "providers: [{type: mock}]\n"
        "cases:\n  - id: a\n    expect: [not_empty: true]\n    messages:\n"
        "      - role: assistant\n        tool_calls:\n"
        "          - name: book\n            argments: {to: Paris}\n"
        "      - {role: user, content: thanks}\n"
    )
    ended = await ci_evals(tmp_path, "validate")
    told = "cases[0].messages[0].tool_calls[0]: unknown key 'argments', did you mean 'arguments'?"
    assert (ended.code, ended.err.splitlines()[0]) == (2, f"evals.yaml:9: {told}")


async def test_files_that_are_named_as_other_tools_do_are_told_with_our_spelling(
    tmp_path: Path,
) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "p.txt").write_text("{{ q }}")
    graders = [
        {"python": "file://graders/polite.py:judge"},
        {"python": "polite.py"},
        {"javascript": "file://a.js"},
        {"equals": "file://right.txt"},
        {"json_schema": "file://schema.json"},
    ]
    case = {
        "id": "a",
        "vars": {"q": "file://x.txt", "page": "file:///srv/page.html"},
        "expect": graders,
    }
    swept = {"id": "b", "matrix": {"q": ["why?", "file://y.txt"]}, "expect": [{"not_empty": True}]}
    agent = {"type": "python", "target": "file://agent.py:answer"}
    prompts = ["file://prompts/p.txt", "prompts/p.txt", "prompts/p.text"]
    function = "to call a function of a file, write `module:function`"
    named = (
        "this is text: name the file in `vars`, as in `text: {file: right.txt}`, "
        "and write `{{ text }}` here"
    )
    meant = "this is text; for the file's content, write"
    assert await problems(tmp_path, case, swept, providers=[agent], prompts=prompts) == [
        (
            "providers[0]: target 'file://agent.py:answer' is not of the form module:function, "
            "as in agent:answer"
        ),
        f"prompts[0]: {meant} `{{file: prompts/p.txt}}`",
        f"prompts[1]: {meant} `{{file: prompts/p.txt}}`",
        f"cases[0].vars.q: {meant} `{{file: x.txt}}`",
        f"cases[0].expect[0].python: {function}: `python: graders.polite:judge`",
        f"cases[0].expect[1].python: {function}: `python: polite:function`",
        "cases[0].expect[2].javascript: to run a file, write `javascript: {file: a.js}`",
        f"cases[0].expect[3].equals: {named}",
        f"cases[0].expect[4].json_schema: {meant} `{{file: schema.json}}`",
        f"cases[1].matrix.q[1]: {meant} `{{file: y.txt}}`",
    ]


async def test_a_prompt_with_the_input_of_a_case_that_has_none_is_told(tmp_path: Path) -> None:
    case = {"id": "a", "vars": {"question": "why?"}, "expect": [{"contains": "{{ input }}"}]}
    assert await problems(tmp_path, case, prompts=["{{ input }}"]) == [
        "cases[0].expect[0]: 'input' is undefined; known: question",
        (
            "case 'a': the prompt 'prompt 1' does not fit this case: "
            "'input' is undefined; known: question"
        ),
    ]


async def test_a_key_under_another_name_is_one_problem(tmp_path: Path) -> None:
    case = {"id": "a", "input": "q", "expect": [{"trajectory": {"steps": ["search"]}}]}
    (tmp_path / "evals.yaml").write_text(
        json.dumps({"providers": [{"type": "http", "endpoint": "x"}], "samples": [case]})
    )
    assert (await ci_evals(tmp_path, "validate")).err.splitlines()[:-2] == [
        "evals.yaml:1: unknown key 'samples', which is called 'cases' here",
        "evals.yaml:1: providers[0]: unknown key 'endpoint', did you mean 'url'?",
    ]
    assert await problems(tmp_path, case) == [
        "cases[0].expect[0].trajectory: unknown key 'steps', did you mean 'calls'?"
    ]


async def test_a_mistake_in_a_map_is_one_problem_however_many_rows_there_are(
    tmp_path: Path,
) -> None:
    (tmp_path / "data.csv").write_text(
        "Text,Label\n" + "".join(f"ticket {n},refund\n" for n in range(200))
    )
    columns = {
        "input": "Text",
        "expect": [{"classify": {"label": "{{ row.Label }}", "lables": ["refund"]}}],
    }
    write_suite(tmp_path, {"file": "data.csv", "map": columns})
    assert (await ci_evals(tmp_path, "validate")).err.splitlines() == [
        (
            "data.csv:2: expect[0].classify: unknown key 'lables', did you mean 'labels'? "
            "(and 199 more lines)"
        ),
        "",
        "1 problem, nothing was run.",
    ]


async def test_usual_slips_are_told_with_what_to_write(tmp_path: Path) -> None:
    gate = {"min_pass_rate": "90%", "metrics": {"acuracy": 0.8}}
    suite = {"providers": ["opnai:gpt-4o"], "cases": "data.csv", "gate": gate}
    (tmp_path / "evals.yaml").write_text(json.dumps(suite))
    assert (await ci_evals(tmp_path, "validate")).err.splitlines()[:-2] == [
        "evals.yaml:1: gate.min_pass_rate: expected a number, got '90%': 90% is written 0.9",
        "evals.yaml:1: providers[0]: unknown provider type 'opnai', did you mean 'openai'?",
        (
            "evals.yaml:1: cases: expected a list of cases, or `file:` with a path or glob: "
            "write `{file: data.csv}`"
        ),
    ]
    case = {**ONE_CASE, "expect": [{"classify": {"label": "a"}}]}
    assert "'acuracy' is not a `metric`, did you mean 'accuracy'?" in "".join(
        await problems(tmp_path, case, gate=gate)
    )


REMARKABLE: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
    (
        {"critical": True, "quarantine": {"reason": "known", "until": "2099-12-31"}},
        {},
        "case 'a': is critical and in quarantine: it blocks nothing while quarantined",
    ),
    (
        {"tags": ["vital"], "quarantine": {"reason": "known", "until": "2099-12-31"}},
        {"gate": {"tags": {"vital": {"critical": True}}}},
        "case 'a': is critical and in quarantine",
    ),
    (
        {"expect": [{"any_of": [{"latency": 5000}]}]},
        {},
        "case 'a': `latency` of 5000 s never fails: calls time out after 60 s (`timeout_s`)",
    ),
    ({"expect": [{"latency": 5}], "timeout_s": 4}, {}, "`latency` of 5 s never fails"),
    ({"expect": [{"latency": 70}]}, {"timeout_s": 80}, None),
    ({"expect": [{"latency": 60}]}, {}, None),
    ({}, {"max_runs": 9}, "max_runs: `max_runs: 9` never ends early on a pass"),
    ({}, {"max_runs": 9, "gate": {"tags": {"t": 1}}}, "no number of runs proves a bar of 1"),
    ({"min_pass_rate": 1.0}, {"max_runs": 9, "gate": {"min_pass_rate": 0.8}}, "a bar of 1"),
    ({"min_pass_rate": 0.8}, {"max_runs": 9}, None),
    ({}, {"max_runs": 9, "gate": {"min_pass_rate": 0.9}}, None),
    ({"tags": ["t"]}, {"max_runs": 9, "gate": {"tags": {"t": 0.9}}}, None),
    (
        {"input": {"q": ["Hello {{ nome }}"]}, "vars": {"name": "Ada"}},
        {},
        (
            "case 'a': `nome` in braces is sent as it is: "
            "only `prompts` and `expect` are templates; did you mean the var 'name'?"
        ),
    ),
    (
        {"input": None, "turns": [{"user": "Hello {{ vars.name }}"}]},
        {"vars": {"name": "Ada"}},
        (
            "`vars` in braces is sent as it is: only `prompts` and `expect` are templates, "
            "where a var is written without `vars.`"
        ),
    ),
    (
        {
            "input": [{"text": "{{ other }}"}, {"image": "https://example.com/a.png"}],
            "vars": {"name": "Ada"},
        },
        {},
        "`other` in braces is sent as it is: only `prompts` and `expect` are templates\n",
    ),
    ({"input": "{{ name }}"}, {}, None),
    ({"input": "{{ vars.name"}, {"vars": {"name": "Ada"}}, None),
]


@pytest.mark.parametrize(("fields", "settings", "remark"), REMARKABLE)
async def test_a_rule_that_cannot_act_is_remarked_on(
    tmp_path: Path, fields: dict[str, Any], settings: dict[str, Any], remark: str | None
) -> None:
    case = {"id": "a", "input": "x", "tags": ["t"], "expect": [{"not_empty": True}], **fields}
    write_suite(tmp_path, [case], **settings)
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 0, ended.err
    if remark is None:
        assert "note:" not in ended.out
    else:
        assert ended.out.count("note: evals.yaml") == 1
        assert remark in ended.out


async def test_a_remark_is_told_once_for_all_cases(tmp_path: Path) -> None:
    cases = [{"id": name, "input": "x"} for name in "abc"]
    write_suite(tmp_path, cases, expect=[{"latency": 5000}])
    ended = await ci_evals(tmp_path, "validate")
    assert ended.out.count("note:") == 1
    assert "(and 2 more cases)" in ended.out
