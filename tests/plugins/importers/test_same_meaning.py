"""What a suite of another tool means stays the same when it is imported."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Template
from leftovers import journaled
from processes import Finished, ci_evals

from ci_evals.suite.yaml import parse

PROMPTFOO = "prompts: ['Say {{ q }}']\nproviders: [echo]\n"


async def imported(
    folder: Path, config: str, files: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], Finished]:
    """The suite that a config becomes, and what the import printed."""
    for name, text in {**(files or {}), "p.yaml": config}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    ended = await ci_evals(folder, "import", "p.yaml", "--to", "evals.yaml", "--force")
    assert ended.code == 0, ended.err
    suite, _, _ = parse((folder / "evals.yaml").read_text(), "evals.yaml")
    return suite, ended


async def run(folder: Path, **environ: str) -> list[tuple[str, str]]:
    """Run the suite, and return the answer and the status of each case, in the suite's order."""
    ended = await ci_evals(folder, "run", "--runs", "1", environ=environ)
    assert ended.code in (0, 1), ended.err
    found = {run["case"]: run for run in journaled(folder / "ci-evals-results")}
    return [(run["response"]["output"], run["status"]) for _, run in sorted(found.items())]


async def test_templates_in_vars_are_filled_in(tmp_path: Path) -> None:
    """Also those of files, of `defaultTest`, and of vars that refer to such vars."""
    _, ended = await imported(
        tmp_path,
        PROMPTFOO + "defaultTest: {vars: {greeting: 'Hi {{ name }}', name: you}}\ntests:\n"
        "  - {description: a, vars: {q: 'file://q.txt', t: one, o: {sub: two}}}\n"
        "  - {description: b, vars: {q: '{{ greeting }}!', name: Ann}}\n"
        "  - {description: c, vars: {q: '{{ greeting }}!'}}\n"
        "  - {description: d, vars: {q: 'use {{ x }} here'}}\n"
        "  - {description: e, vars: {q: 'a {{ brace'}}\n"
        "  - {description: f, vars: {q: ['{{ name }} 1', '{{ name }} 2']}}\n",
        {"q.txt": "{{ t }} and {{ o.sub }}\n"},
    )
    assert "not imported" not in ended.err
    suite, _, _ = parse((tmp_path / "evals.yaml").read_text(), "evals.yaml")
    (tmp_path / "evals.yaml").write_text(json.dumps({**suite, "expect": [{"not_empty": True}]}))
    assert [answer for answer, _ in await run(tmp_path)] == [
        "Say one and two",
        "Say Hi Ann!",
        "Say Hi you!",
        "Say use {{ x }} here",
        "Say a {{ brace",
        "Say you 1",
        "Say you 2",
    ]


async def test_a_var_over_one_with_several_values_is_listed(tmp_path: Path) -> None:
    suite, ended = await imported(
        tmp_path,
        f"{PROMPTFOO}tests:\n"
        "  - {vars: {q: 'in {{ lang }}', lang: [en, de]}}\n  - {vars: {q: x}}\n",
    )
    assert "the var 'q' refers to 'lang', which has several values" in ended.err
    assert [case["vars"] for case in suite["cases"]] == [{"q": "x"}]


async def test_variables_of_the_environment_in_vars(tmp_path: Path) -> None:
    _, ended = await imported(
        tmp_path,
        PROMPTFOO + "defaultTest:\n  vars: {base: '{{ env.BASE_URL }}/v1'}\n"
        "  assert: [{type: not-contains, value: env}]\ntests:\n"
        "  - {description: a, vars: {q: '{{ base }}/${HOME}'}}\n"
        "  - {description: b, vars: {q: '${HOME}'}}\n",
    )
    assert "not imported" not in ended.err
    found = await run(tmp_path, BASE_URL="http://x", HOME="/nowhere")
    assert found == [("Say ***/v1/${HOME}", "passed"), ("Say ${HOME}", "passed")]
    _, ended = await imported(
        tmp_path,
        PROMPTFOO + "tests:\n  - {vars: {q: '{{ env.A }}'}}\n  - {vars: {q: '{{ env.B }}'}}\n",
    )
    assert "the var 'q' differs between tests, and refers to the environment" in ended.err


async def test_text_that_looks_like_a_variable_of_the_environment_stays(tmp_path: Path) -> None:
    suite, _ = await imported(
        tmp_path,
        "prompts: ['${HOME} {{ q }} {{ d }}']\nproviders: [echo]\n"
        "defaultTest: {vars: {d: '${HOME}'}, assert: [{type: contains, value: HOME}]}\n"
        "tests: [{vars: {q: '${HOME}'}}, {vars: {q: '${HOME}'}}]\n",
    )
    assert "vars" in suite["cases"][0]
    assert await run(tmp_path) == [("${HOME} ${HOME} ${HOME}", "passed")] * len(await run(tmp_path))


async def test_cells_of_a_table_mean_what_they_mean_to_promptfoo(tmp_path: Path) -> None:
    rows = [
        ("1", "hello", "contains:zzz", "0"),
        ("2", "a, b", 'contains-any:"a, b",c', ""),
        ("3", "b", 'contains-any:"a, b",c', ""),
        ("4", 'say "C"', r'icontains-all: "x" , "say \"c\""', ""),
        ("5", "use {{x}} here", "contains:use", ""),
        ("6", "hello", "contains : hello", ""),
        ("7", "hello", "file://check.py", ""),
    ]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("n", "q", "__expected", "__threshold"), *rows])
    _, ended = await imported(
        tmp_path,
        PROMPTFOO + "tests: file://t.csv\n",
        {"check.py": "def get_assert(output, context):\n    return True\n"},
    )
    assert "not imported" not in ended.err
    expected = ["passed", "passed", "failed", "failed", "passed", "failed", "passed"]
    assert [status for _, status in await run(tmp_path)] == expected


CALLED = {
    "ba": [("b", None), ("a", None)],
    "ab": [("a", None), ("b", None)],
    "a!ab": [("a", "boom"), ("a", None), ("b", None)],
    "abc": [("a", None), ("b", None), ("c", None)],
}
PATH = {"expected_trajectory": ["a", "b"]}
ARGUMENTS = {"tool_name": "a", "expected_arguments": {"at": 0}}


@pytest.mark.parametrize(
    ("evaluator", "passing"),
    [
        ({"TrajectoryMatch": ["a", "b"]}, {"ab", "a!ab", "abc"}),
        ({"TrajectoryMatch": {**PATH, "order": "exact"}}, {"ab", "a!ab"}),
        ({"TrajectoryMatch": {**PATH, "order": "exact", "include_failed": True}}, {"ab"}),
        ({"ToolCorrectness": ["a", "b"]}, {"ba", "ab", "a!ab"}),
        ({"ToolCorrectness": {"expected_tools": ["a"], "allow_extra": True}}, set(CALLED)),
        ({"MaxToolCalls": 2}, {"ba", "ab"}),
        ({"MaxToolCalls": {"max_calls": 2, "include_failed": False}}, {"ba", "ab", "a!ab"}),
        ({"HasMatchingSpan": {"query": {"name_equals": "execute_tool c"}}}, {"abc"}),
        (
            {"HasMatchingSpan": {"query": {"has_attributes": {"gen_ai.tool.name": "c"}}}},
            {"abc"},
        ),
        ({"ArgumentCorrectness": ARGUMENTS}, {"ab", "abc"}),
        ({"ArgumentCorrectness": {**ARGUMENTS, "match_mode": "exact"}}, set()),
        ({"IsInstance": "dict"}, set(CALLED)),
        ({"IsInstance": "list"}, set()),
    ],
)
async def test_an_evaluator_of_pydantic_evals_passes_the_same_answers(
    tmp_path: Path, evaluator: dict[str, Any], passing: set[str]
) -> None:
    cases = [{"name": name, "inputs": name, "evaluators": [evaluator]} for name in CALLED]
    suite, _ = await imported(tmp_path, json.dumps({"cases": cases}))
    (tmp_path / "agent.py").write_text(
        f"CALLED = {CALLED!r}\n\ndef answer(question):\n    steps = [\n"
        "        {'kind': 'tool_call', 'name': name, 'error': error,"
        " 'arguments': {'at': at, 'extra': 1}}\n"
        "        for at, (name, error) in enumerate(CALLED[question])\n    ]\n"
        "    return {'output': {'done': True}, 'steps': steps}\n"
    )
    suite["providers"] = [{"type": "python", "target": "agent:answer"}]
    (tmp_path / "evals.yaml").write_text(json.dumps(suite))
    await ci_evals(tmp_path, "run", "--runs", "1")
    found = journaled(tmp_path / "ci-evals-results")
    assert {run["case"] for run in found if run["status"] == "passed"} == passing
    assert {run["status"] for run in found} <= {"passed", "failed"}


async def test_evaluators_of_another_shape_are_listed(tmp_path: Path) -> None:
    queries = [
        {"name_contains": "tool"},
        {"has_attributes": {"a": 1, "b": 2}},
        {"name_equals": "x"},
        {"name_equals": 5},
        {"has_attributes": ["gen_ai.tool.name"]},
        {"has_attributes": None, "name_equals": "execute_tool a"},
        {"has_attributes": {"gen_ai.tool.name": "a"}, "name_equals": "x"},
    ]
    evaluators: list[Any] = [{"HasMatchingSpan": {"query": query}} for query in queries]
    evaluators.append({"Equals": {"expected": 1, "strict": True}})
    case = {"name": "a", "inputs": "a", "evaluators": evaluators}
    _, ended = await imported(tmp_path, json.dumps({"cases": [case]}))
    assert "evaluators: Equals: it has no `value`" in ended.err
    assert ended.err.count("evaluators: HasMatchingSpan: only a span of a tool by its name") == 7


async def test_code_that_reads_members_gets_the_text_of_answers_that_are_not_json(
    tmp_path: Path,
) -> None:
    _, ended = await imported(
        tmp_path,
        "prompts: ['{{ q }}']\nproviders: [echo]\ntests:\n"
        "  - {description: a, vars: {q: '{\"price\": 5}'}}\n"
        "  - {description: b, vars: {q: none}}\n"
        "defaultTest:\n  assert:\n"
        "    - {type: javascript, value: \"output.price === 5 || output === 'none'\"}\n"
        "    - {type: javascript, value: 'file://checks.js:costs'}\n"
        "    - {type: javascript, value: 'file://check.mjs'}\n"
        '    - {type: python, value: \'output == "none" or output["price"] == 5\'}\n',
        {
            "checks.js": "exports.costs = (output) => output === 'none' || output.price > 3;\n",
            "check.mjs": "export default (output) => output === 'none' || output.price > 3;\n",
        },
    )
    assert "not imported" not in ended.err
    assert [status for _, status in await run(tmp_path)] == ["passed"] * 2


async def test_templates_in_a_chat_of_yaml_stay_as_they_are(tmp_path: Path) -> None:
    chat = """\
- role: system
  content: |
    Answer in this form:
      Word: {{ word }}
- role: user
  content: {{ word }}
"""
    suite, ended = await imported(
        tmp_path,
        "prompts: [file://chat.yaml]\nproviders: [echo]\n"
        "tests: [{vars: {word: hi}, assert: [{type: contains, value: hi}]}]\n",
        {"chat.yaml": chat},
    )
    (prompt,) = suite["prompts"]
    assert prompt["system"] == "Answer in this form:\n  Word: {{ word }}\n"
    assert prompt["user"] == "{{ word }}"
    assert "not imported" not in ended.err


async def test_what_changes_vars_is_listed_as_weakening(tmp_path: Path) -> None:
    _, ended = await imported(
        tmp_path,
        f"{PROMPTFOO}tests:\n"
        "  - {vars: {q: a}, options: {transformVars: '({...vars, q: 1})'}}\n",
    )
    assert (
        "not imported, which weakens the suite: p.yaml:4: tests.options.transformVars" in ended.err
    )


async def test_a_test_with_other_keys_is_promptfoos(tmp_path: Path) -> None:
    suite, _ = await imported(
        tmp_path,
        "prompts: [Say it]\nproviders: [echo]\n"
        "tests: [{input: hi, assert: [{type: contains, value: Say}]}]\n",
    )
    assert suite["cases"][0]["expect"] == [{"contains": "Say"}]


@pytest.mark.parametrize(
    "test",
    [
        {"vars": {"q": "a"}, "criteria": "says a"},
        {"vars": {"q": "a"}, "assertions": ["says a"]},
        {"input_messages": [{"role": "user", "content": "a"}]},
    ],
)
async def test_agentv_is_known_by_its_keys(tmp_path: Path, test: dict[str, Any]) -> None:
    suite = {"prompts": ["{{ q }}"], "providers": ["echo"], "tests": [test]}
    (tmp_path / "p.yaml").write_text(json.dumps(suite))
    ended = await ci_evals(tmp_path, "import", "p.yaml")
    assert (ended.code, "has an unknown format" in ended.err) == (2, True)


async def test_graders_that_import_files_above_the_suite_leave_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "lib.mjs").write_text("export const least = 1;\n")
    suite, ended = await imported(
        tmp_path / "suite",
        f"{PROMPTFOO}tests:\n  - vars: {{q: hi}}\n    assert:\n"
        "      - {type: javascript, value: 'file://own.mjs'}\n"
        "      - {type: javascript, value: 'file://outside.mjs'}\n",
        {
            "own.mjs": "import { n } from './n.mjs';\nexport default (o) => o.length > n;\n",
            "n.mjs": "export const n = 1;\n",
            "outside.mjs": "import { least } from './deep.mjs';\n"
            "export default (o) => o.length > least;\n",
            "deep.mjs": "export { least } from '../lib.mjs';\n",
        },
    )
    first, second = suite["cases"][0]["expect"]
    assert "sandbox" not in first["javascript"]
    assert second["javascript"]["sandbox"] is False
    assert "run it with" in ended.err
    assert [status for _, status in await run(tmp_path / "suite")] == ["passed"]


@pytest.mark.parametrize(
    ("assertion", "files", "problem"),
    [
        (
            {"type": "javascript", "value": "file://check.mjs"},
            {"check.mjs": "import './missing.mjs';\nexport default () => true;\n"},
            "missing.mjs",
        ),
        (
            {"type": "python", "value": "file://check.py"},
            {"check.py": "import no_such_module\n\ndef get_assert(output, context): return True\n"},
            "no_such_module",
        ),
        (
            {"type": "equals", "value": "x", "transform": "output +"},
            {},
            "promptfoo_transforms_p.mjs",
        ),
    ],
)
async def test_code_that_does_not_load_is_told_at_the_end_of_an_import(
    tmp_path: Path, assertion: dict[str, Any], files: dict[str, str], problem: str
) -> None:
    config = {
        "prompts": ["{{ q }}"],
        "providers": ["echo"],
        "tests": [{"vars": {"q": "a"}, "assert": [assertion]}],
    }
    _, ended = await imported(tmp_path, json.dumps(config), files)
    _, found, rest = ended.err.partition("still to do before it runs:\n")
    assert found
    assert problem in rest
    assert "run it with" not in ended.err


async def test_a_provider_that_does_not_load_is_told_at_the_end_of_an_import(
    tmp_path: Path,
) -> None:
    _, ended = await imported(
        tmp_path,
        "prompts: ['{{ q }}']\nproviders: ['file://agent.py', 'file://agent.mjs']\n"
        "tests: [{vars: {q: a}, assert: [{type: contains, value: a}]}]\n",
        {"agent.py": "import no_such_module\n", "agent.mjs": "export default {};\n"},
    )
    _, found, rest = ended.err.partition("still to do before it runs:\n")
    assert found
    assert "no_such_module" in rest
    assert "agent.mjs" in rest


async def test_a_provider_of_one_test_answers_this_test_alone(tmp_path: Path) -> None:
    agent = "def call_api(prompt, options, context):\n    return {'output': 'agent: ' + prompt}\n"
    _, ended = await imported(
        tmp_path,
        f"{PROMPTFOO}defaultTest: {{assert: [{{type: contains, value: Say}}]}}\ntests:\n"
        "  - {description: a, vars: {q: one}}\n"
        "  - {description: b, vars: {q: two}, provider: 'file://agent.py'}\n"
        "  - description: c\n    vars: {q: three}\n"
        "    provider: {id: 'file://agent.py', config: {n: 1}}\n",
        {"agent.py": agent},
    )
    assert "not imported" not in ended.err
    expected = ["Say one", "agent: Say two", "agent: Say three"]
    assert await run(tmp_path) == [(answer, "passed") for answer in expected]


ABOVE = {
    "../lib/prompts.py": (
        "from signs import mark\n"
        "def make(context):\n    return 'Say ' + context['vars']['q'] + mark\n"
    ),
    "../lib/signs.py": "mark = '!'\n",
    "../agent.py": "def call_api(prompt, options, context):\n    return {'output': prompt}\n",
    "../lib/checks.py": (
        "from pathlib import Path\n"
        "least = int((Path(__file__).parent / 'least.txt').read_text())\n"
        "def get_assert(output, context):\n    return len(output) > least\n"
    ),
    "../lib/least.txt": "3",
}


async def test_python_files_above_the_suite_are_called(tmp_path: Path) -> None:
    """Each with the other files of its own folder, as in promptfoo."""
    suite, ended = await imported(
        tmp_path / "evals",
        "prompts: ['file://../lib/prompts.py:make']\nproviders: ['file://../agent.py']\n"
        "tests: [{vars: {q: hi}, assert: [{type: python, value: 'file://../lib/checks.py'}]}]\n",
        ABOVE,
    )
    assert "not imported" not in ended.err
    assert suite["settings"] == {"pythonpath": ["../lib", ".."]}
    assert await run(tmp_path / "evals") == [("Say hi!", "passed")]


async def test_two_python_files_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    _, ended = await imported(
        tmp_path / "evals",
        PROMPTFOO + "tests: [{vars: {q: hi}, assert: [{type: python, value: 'file://checks.py'},"
        " {type: python, value: 'file://../lib/checks.py'}]}]\n",
        {**ABOVE, "checks.py": "def get_assert(output, context):\n    return True\n"},
    )
    assert "checks.py has the same name as ../lib/checks.py: rename one of them" in ended.err


@pytest.mark.parametrize("other", ["checks.py", "../other/checks.py"])
async def test_a_python_file_that_another_one_would_replace_is_listed(
    tmp_path: Path, other: str
) -> None:
    """The folders are searched in order, so that a file may be found that no test names."""
    passes = "def get_assert(output, context):\n    return True\n"
    suite, ended = await imported(
        tmp_path / "evals",
        PROMPTFOO + "tests: [{vars: {q: hi}, assert: ["
        "{type: python, value: 'file://../other/fine.py'},"
        " {type: python, value: 'file://../lib/checks.py'}]}]\n",
        {**ABOVE, "../other/fine.py": passes, other: passes},
    )
    assert f"{other} has the same name as ../lib/checks.py: rename one of them" in ended.err
    assert len(suite["cases"][0]["expect"]) == 1


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("json.choices[0].message?.content", "$.choices[0].message.content"),
        ("(json, text, context) => { return json.a; }", "$.a"),
        ("// { answer: … }\njson.data\n", "$.data"),
        ("{\n  output: json.a['b c'],\n}\n", "$.a['b c']"),
        ("(json) => ({ output: json.a })", "$.a"),
        ("return { output: json.a };", "$.a"),
        ("return text;", None),
    ],
)
async def test_code_that_only_reads_the_answer_of_a_service_becomes_its_path(
    code: str, output: str | None, tmp_path: Path
) -> None:
    provider = {"id": "https://shop.example", "config": {"body": {"q": "{{prompt}}"}}}
    provider["config"]["transformResponse"] = code  # type: ignore[index]
    config = {"prompts": ["{{ q }}"], "providers": [provider], "tests": [{"vars": {"q": "hi"}}]}
    suite, ended = await imported(tmp_path, json.dumps(config))
    assert "not imported" not in ended.err
    assert suite["providers"][0].get("output") == output


async def test_code_that_makes_the_answer_of_a_service_is_listed(tmp_path: Path) -> None:
    """Also what an object has next to its `output`."""
    services = ""
    for code in (
        "json.items.map(i => i.text).join()",
        "json.items.length",
        "(json) => { if (json.error) return json.error; return json.a; }",
        "{ output: json.a, tokenUsage: { total: json.n } }",
    ):
        settings = json.dumps({"body": {"q": "{{prompt}}"}, "transformResponse": code})
        services += f"  - {{id: 'https://shop.example', config: {settings}}}\n"
    _, ended = await imported(
        tmp_path, f"prompts: ['{{{{ q }}}}']\nproviders:\n{services}tests: [{{vars: {{q: hi}}}}]\n"
    )
    assert ended.err.count("write the JSONPath of the answer under `output`") == 3
    assert "config.transformResponse: only its `output` is read" in ended.err


TEXT = "use {{ input }} and {% if %}"
ROWS: dict[str, Any] = {
    "Inspect": [{"input": "q", "target": TEXT}],
    "OpenAI Evals": [{"input": "q", "ideal": TEXT}],
    "deepeval": [{"input": "q", "expected_output": TEXT}],
    "ag2": [{"inputs": {"input": "q"}, "reference_outputs": {"answer": TEXT}}],
    "pydantic-evals": {"cases": [{"inputs": "q", "evaluators": [{"LLMJudge": TEXT}]}]},
    "agent skills": {
        "skill_name": "s",
        "evals": [{"id": 1, "prompt": "q", "expectations": [TEXT]}],
    },
    "1 trace": {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": "a",
                                "spanId": "b",
                                "name": "app",
                                "startTimeUnixNano": "1",
                                "endTimeUnixNano": "2",
                                "attributes": [
                                    {"key": key, "value": {"stringValue": value}}
                                    for key, value in (("input.value", "q"), ("output.value", TEXT))
                                ],
                            }
                        ]
                    }
                ]
            }
        ]
    },
}


@pytest.mark.parametrize("origin", ROWS)
async def test_texts_of_files_without_templates_are_no_templates(
    tmp_path: Path, origin: str
) -> None:
    """Those of other tools, and recorded answers."""
    (tmp_path / "rows.json").write_text(json.dumps(ROWS[origin]))
    ended = await ci_evals(tmp_path, "import", "rows.json", "--to", "evals.yaml")
    assert ended.code == 0, ended.err
    written = (tmp_path / "evals.yaml").read_text()
    assert f"({origin})" in written
    suite, _, _ = parse(written, "evals.yaml")
    ((options,),) = [grader.values() for grader in suite["cases"][0]["expect"]]
    text = options
    if isinstance(options, dict):
        text = options.get("reference") or options.get("value")
    assert Template(text).render(input="q") == TEXT


async def test_expected_values_of_pydantic_evals_are_compared_as_they_are(tmp_path: Path) -> None:
    value = {"text": TEXT, "number": 5}
    case = {"name": "c", "inputs": "q", "expected_output": value, "evaluators": ["EqualsExpected"]}
    suite, _ = await imported(tmp_path, json.dumps({"cases": [case]}))
    answers = {"c": {"output": json.dumps(value)}}
    suite["providers"] = [{"type": "mock", "answers": answers}]
    (tmp_path / "evals.yaml").write_text(json.dumps(suite))
    assert [status for _, status in await run(tmp_path)] == ["passed"]


async def test_samples_with_choices_that_have_no_letters_or_no_question_are_listed(
    tmp_path: Path,
) -> None:
    user = {"role": "user", "content": "Which?"}
    samples = [
        {"input": "Which?", "target": "A", "choices": [str(number) for number in range(27)]},
        {"input": [{"role": "system", "content": "s"}, user], "target": "A", "choices": ["x", "y"]},
        {"input": [user], "target": "A", "choices": ["x", "y"]},
    ]
    suite, ended = await imported(tmp_path, json.dumps(samples))
    assert "sample: more choices than letters" in ended.err
    assert "sample: choices after other messages" in ended.err
    assert [case["vars"]["question"] for case in suite["cases"]] == ["Which?"]


async def test_text_of_a_file_starts_no_line_of_what_is_printed(tmp_path: Path) -> None:
    """CI systems run commands in lines such as `::error::`."""
    kind = "bleu\n::error::x\r::warning::y"
    test = {"vars": {"q": "a"}, "assert": [{"type": kind, "value": "z"}]}
    config = {"prompts": ["{{ q }}"], "providers": ["echo", f"exec: '{kind}"], "tests": [test]}
    _, ended = await imported(tmp_path, json.dumps(config))
    direct = await ci_evals(tmp_path, "run", "p.yaml")
    for printed in (ended.err, direct.err):
        assert printed.count("bleu ::error::x ::warning::y") == 2
        assert not any(line.startswith("::") for line in printed.splitlines())


async def test_an_entry_of_another_shape_is_listed_without_its_neighbours(tmp_path: Path) -> None:
    suite, ended = await imported(
        tmp_path,
        """\
prompts: ['{{ q }}', '{{ q | unknown }}']
providers: [echo, 'exec: say "x']
tests:
  - file://t.csv
  - {vars: {q: c}, assert: [{contains: c}, {type: word-count, value: few}]}
""",
        {
            "t.csv": "q,__expected,__threshold\na,contains:a,high\nb,contains:b,0.5\n"
            "{{ 5 / 0 }},contains:c,\n"
        },
    )
    listed = [line for line in ended.err.splitlines() if line.startswith("not imported")]
    assert [line.partition(": ")[2] for line in listed] == [
        "p.yaml:1: prompt: not a template that Jinja2 can read: No filter named 'unknown'.",
        'p.yaml:2: provider: `say "x` is not a command: No closing quotation',
        "p.yaml:5: assert: contains: c: an assertion is a mapping with a `type`",
        "p.yaml:5: assert: word-count: it has no number of words",
        "t.csv:2: tests: 'high' is not a number",
        "t.csv:4: tests: the var 'q', a template, cannot be rendered: division by zero",
    ]
    assert [case["vars"] for case in suite["cases"]] == [{"q": "b"}, {"q": "c"}]


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        ({"tests": [{"vars": {"q": "no"}, "options": 5}]}, "p.yaml:1: tests: it does not have"),
        (
            {"providers": [{"id": "https://shop.example", "config": {"headers": ["a"]}}]},
            "p.yaml:1: provider: it does not have",
        ),
        ({"tests": [{"vars": {"q": "no"}, "assert": [{"type": ["a"]}]}]}, "p.yaml:1: assert: "),
    ],
)
async def test_an_entry_of_an_odd_shape_is_lost_alone(
    odd: dict[str, list[Any]], told: str, tmp_path: Path
) -> None:
    config: dict[str, list[Any]] = {
        "prompts": ["{{ q }}"],
        "providers": ["echo"],
        "tests": [{"vars": {"q": "hi"}, "assert": [{"type": "contains", "value": "h"}]}],
    }
    for key, entries in odd.items():
        config[key] = config[key] + entries
    suite, ended = await imported(tmp_path, json.dumps(config))
    assert told in ended.err
    assert suite["providers"] == [{"type": "mock"}]
    assert suite["cases"][0]["expect"] == [{"contains": "h"}]


async def test_a_text_that_ends_a_block_of_literal_text_stays_as_it_is(tmp_path: Path) -> None:
    text = 'a {% endraw %}{{ "é\\n" }} b'
    dataset = {
        "cases": [{"name": "a", "inputs": "hi", "expected_output": text}],
        "evaluators": ["EqualsExpected"],
    }
    (tmp_path / "d.yaml").write_text(json.dumps(dataset))
    ended = await ci_evals(tmp_path, "import", "d.yaml", "--to", "evals.yaml")
    assert ended.code == 0, ended.err
    suite, _, _ = parse((tmp_path / "evals.yaml").read_text(), "evals.yaml")
    suite["providers"] = [{"type": "mock", "answers": {"hi": text}}]
    (tmp_path / "evals.yaml").write_text(json.dumps(suite))
    assert await run(tmp_path) == [(text, "passed")]
