"""Imported suites render prompts and grade answers as the tools that they come from, but for what
the import lists.

The tools themselves answer: `make test-slow` installs them into .venv/originals.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from leftovers import journaled
from processes import ci_evals

from ci_evals.suite.yaml import parse

ORIGINALS = Path(__file__).parents[3] / ".venv" / "originals"
PROMPTFOO = ORIGINALS / "node_modules" / "promptfoo"
PYTHON = ORIGINALS / "bin" / "python"
EXECUTABLE = PROMPTFOO.parent / ".bin" / "promptfoo"

pytestmark = pytest.mark.slow
needs_promptfoo = pytest.mark.skipif(
    not EXECUTABLE.exists(), reason="promptfoo is not in .venv/originals: make test-slow"
)
needs_python = pytest.mark.skipif(
    not PYTHON.exists(), reason="no Python in .venv/originals: make test-slow"
)


KNOWN = {
    "contains-json: list": "a list is JSON, too",
    "contains-json with a schema: objects": "a list is judged as a whole",
    "{{ list }}": "lists are printed as JSON, not as x,y",
    "{{ map }}": "mappings are printed as JSON, not as [object Object]",
}
"""The differences that no import lists; docs/importing.md has them."""


def ask_promptfoo(folder: Path) -> list[dict[str, Any]]:
    """The results of a config on the model that echoes."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PROMPTFOO_CONFIG_DIR": str(folder / ".promptfoo"),
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "PROMPTFOO_PYTHON": shutil.which("python3") or "python3",
        "CORPUS": "of the environment",
    }
    command = [
        str(EXECUTABLE),
        "eval",
        "-c",
        "p.yaml",
        "--no-cache",
        "--no-write",
        "-o",
        "out.json",
    ]
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert (folder / "out.json").exists(), done.stdout + done.stderr
    results: list[dict[str, Any]] = json.loads((folder / "out.json").read_text())["results"][
        "results"
    ]
    return results


async def ask_imported(
    folder: Path, file: str = "p.yaml", provider: Mapping[str, Any] | None = None
) -> tuple[list[dict[str, Any]], str]:
    """The results of the suite that a file becomes, and what the import printed.

    A provider takes the place of the suite's. Cases that lost all that they expect are left out.
    """
    ended = await ci_evals(folder, "import", file, "--to", "evals.yaml")
    assert ended.code == 0, ended.err
    suite, _, _ = parse((folder / "evals.yaml").read_text(), "evals.yaml")
    suite["cases"] = [case for case in suite["cases"] if case.get("expect") or "expect" in suite]
    if provider is not None:
        suite["providers"] = [provider]
    (folder / "run.json").write_text(json.dumps(suite))
    ran = await ci_evals(
        folder, "run", "run.json", "--runs", "1", environ={"CORPUS": "of the environment"}
    )
    assert ran.code in (0, 1), ran.err
    return journaled(folder / "ci-evals-results"), ended.err


def write(folder: Path, config: Any, files: Mapping[str, str] = {}) -> None:
    """Write a config with one test on a line, so that what is listed names its test."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if isinstance(config, str):
        (folder / "p.yaml").write_text(config)
        return
    parts = [f"{json.dumps(key)}: {json.dumps(config[key])}," for key in config if key != "tests"]
    tests = ",\n".join(json.dumps(test) for test in config["tests"])
    (folder / "p.yaml").write_text(f'{{{" ".join(parts)}\n"tests": [\n{tests}\n]}}')


def listed_lines(printed: str) -> set[int]:
    """The lines of the config that an import lists as not imported."""
    lines = set()
    for line in printed.splitlines():
        if line.startswith("not imported"):
            lines.add(int(line.partition("p.yaml:")[2].partition(":")[0]))
    return lines


ANSWERS = {
    "empty": "-",
    "words": "Hello, wide World",
    "lower": "hello",
    "number": "42",
    "object": '{"name": "Ann", "tags": ["a", "b"], "price": 5}',
    "list": "[1, 2]",
    "fenced": 'So:\n```json\n{"name": "Ann"}\n```',
    "lines": "one\ntwo\n",
    "objects": 'Here: [{"name": "Ann"}]',
    "unicode": "Größe: 5 €",
    "quotes": 'say "a, b" and c',
    "refusal": "I'm sorry, but I can't help with that.",
}
SCHEMA = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
ASSERTIONS: list[dict[str, Any]] = [
    {"type": "contains", "value": "World"},
    {"type": "contains", "value": "{{ part }}"},
    {"type": "icontains", "value": "world"},
    {"type": "contains-all", "value": ["Hello", "World"]},
    {"type": "contains-all", "value": "hello, World"},
    {"type": "contains-any", "value": ["a, b", "zzz"]},
    {"type": "contains-any", "value": '"a, b", zzz'},
    {"type": "icontains-all", "value": ["HELLO", "world"]},
    {"type": "icontains-any", "value": "GRÖSSE, größe"},
    {"type": "equals", "value": "hello"},
    {"type": "equals", "value": 42},
    {"type": "equals", "value": {"name": "Ann", "tags": ["a", "b"], "price": 5}},
    {"type": "starts-with", "value": "Hello"},
    {"type": "regex", "value": "^h\\w+o$"},
    {"type": "regex", "value": "Gr\\w+e"},
    {"type": "regex", "value": "^two$"},
    {"type": "regex", "value": "o[^a-z]"},
    {"type": "is-json"},
    {"type": "is-json", "value": SCHEMA},
    {"type": "is-json", "value": json.dumps(SCHEMA)},
    {"type": "contains-json", "name": "contains-json"},
    {"type": "contains-json", "value": SCHEMA, "name": "contains-json with a schema"},
    {"type": "word-count", "value": 3},
    {"type": "word-count", "value": {"min": 2, "max": 4}},
    {"type": "javascript", "value": "output.length > 5"},
    {"type": "javascript", "value": "output.includes('o')"},
    {"type": "javascript", "value": "output.length / 20", "threshold": 0.5},
    {"type": "javascript", "value": "const n = output.length;\nreturn n > 5;"},
    {"type": "javascript", "value": "JSON.parse(output).price === 5"},
    {"type": "javascript", "value": "({pass: output.length > 5, score: 0.3, reason: 'r'})"},
    {"type": "javascript", "value": "context.vars.part === 'wide' && output !== '-'"},
    {"type": "javascript", "value": "file://checks.cjs"},
    {"type": "javascript", "value": "file://checks.cjs:short"},
    {"type": "javascript", "value": "output.split(' ').length"},
    {"type": "python", "value": "len(output) > 5"},
    {"type": "python", "value": "len(output) / 20", "threshold": 0.5},
    {"type": "python", "value": "n = len(output)\nreturn n > 5"},
    {"type": "python", "value": "file://checks.py"},
    {"type": "python", "value": "file://checks.py:short"},
    {"type": "equals", "value": "HELLO", "transform": "output.toUpperCase()"},
    {"type": "equals", "value": "Ann", "transform": "JSON.parse(output).name"},
    {"type": "equals", "value": "hello!", "transform": "return output + '!';\n"},
    {"type": "contains", "value": "H", "transform": "file://checks.cjs:first"},
    {"type": "levenshtein", "value": "hello", "threshold": 2},
    {"type": "assert-set", "assert": [{"type": "contains", "value": "o"}, {"type": "is-json"}]},
    {
        "type": "assert-set",
        "threshold": 0.5,
        "assert": [{"type": "contains", "value": "o"}, {"type": "is-json"}],
    },
]
NEGATED = ("contains", "icontains", "contains-all", "contains-any", "equals", "regex", "is-json")
CHECKS = {
    "checks.cjs": (
        "module.exports = (output) => output.length > 5;\n"
        "module.exports.short = (output) => ({pass: output.length < 6, score: 1, reason: 'r'});\n"
        "module.exports.first = (output) => output[0];\n"
    ),
    "checks.py": (
        "def get_assert(output, context):\n    return len(output) > 5\n\n"
        "def short(output, context):\n"
        "    return {'pass': len(output) < 6, 'score': 1.0, 'reason': 'r'}\n"
    ),
}


def graded() -> Iterable[tuple[str, dict[str, Any]]]:
    """Every assertion and some negated ones, by a name."""
    for number, assertion in enumerate(ASSERTIONS):
        yield assertion.get("name", f"{assertion['type']} {number}"), assertion
        if assertion["type"] in NEGATED:
            yield (
                f"not-{assertion['type']} {number}",
                {**assertion, "type": f"not-{assertion['type']}"},
            )


@needs_promptfoo
async def test_promptfoos_assertions_pass_the_same_answers(tmp_path: Path) -> None:
    tests = []
    for name, assertion in graded():
        for answer, text in ANSWERS.items():
            case = {"description": f"{name}: {answer}", "vars": {"answer": text, "part": "wide"}}
            tests.append({**case, "options": {"disableVarExpansion": True}, "assert": [assertion]})
    write(tmp_path, {"prompts": ["{{ answer }}"], "providers": ["echo"], "tests": tests}, CHECKS)
    theirs = {
        result["testCase"]["description"]: result["success"] for result in ask_promptfoo(tmp_path)
    }
    results, printed = await ask_imported(tmp_path)
    ours = passed(results)
    listed = {tests[line - 3]["description"] for line in listed_lines(printed)}
    assert set(theirs) == set(ours) | listed
    differences = {}
    for name, passes in theirs.items():
        if name not in listed and name not in KNOWN and ours[name] != passes:
            differences[name] = (passes, ours[name])
    assert differences == {}


CONTAINS = [{"type": "not-contains", "value": "nothing"}]
VARS = {
    "plain": "a b",
    "n": 5,
    "yes": True,
    "list": ["x", "y"],
    "map": {"k": "v"},
    "empty": "",
    "text": "it's <b> é",
    "quoted": 'a "b"',
}
PROMPTS = [
    "{{ plain }}",
    "{{plain}} and {{ n }}",
    "{{ plain | upper }} {{ plain | length }}",
    "{{ list }}",
    "{{ list | join(', ') }}",
    "{{ map.k }}",
    "{{ map | dump }}",
    "{{ map }}",
    "{{ text | dump }}",
    "{{ text }}",
    "{{ yes }}",
    "{% if yes and n > 3 %}big{% else %}small{% endif %}",
    "{% if n === 5 %}five{% elseif n %}other{% endif %}",
    "{% for item in list %}{{ loop.index }}:{{ item }};{% endfor %}",
    "[{{ missing }}]",
    "{% if missing %}a{% else %}b{% endif %}",
    "{{ missing | default('none') }}",
    "{# note #}text",
    "{{ env.CORPUS }}",
    "${HOME} {{ plain }}",
    "{% set x = 'local' %}{{ x }}",
    "{{ plain | replace('a', 'c') }}",
    "{{ 'a' + plain }}",
    "{{ plain if yes else 'no' }}",
    "two\nlines {{ plain }}",
    "  spaces {{ plain }}  ",
    "{{ list[0] }} {{ map['k'] }}",
    "{{ empty }}!",
    "{{ list.length }}",
    "{{ plain | trim | title }}",
    "{{ n + 1 }} {{ n - 2 }}",
    '{"a": "{{ text }}", "b": [1, "say {{ quoted }} é"], "c": "plain"}',
    '["{{ quoted }}"]',
    '{"a": {{ n }}}',
]


@needs_promptfoo
async def test_promptfoos_prompts_are_rendered_alike(tmp_path: Path) -> None:
    prompts = [{"raw": raw, "label": f"p{number}"} for number, raw in enumerate(PROMPTS)]
    asserted = [{"type": "javascript", "value": "true"}]
    test = {"description": "all", "vars": VARS, "assert": asserted}
    test["options"] = {"disableVarExpansion": True}
    write(tmp_path, {"prompts": prompts, "providers": ["echo"], "tests": [test]})
    theirs = {
        result["prompt"]["label"]: result.get("response", {}).get("output")
        for result in ask_promptfoo(tmp_path)
    }
    results, printed = await ask_imported(tmp_path)
    ours = {result["prompt"]: result["response"]["output"] for result in results}
    assert "not imported" not in printed
    differences = {}
    for number, raw in enumerate(PROMPTS):
        text = theirs[f"p{number}"].replace("of the environment", "***")  # as a secret
        if raw not in KNOWN and ours[f"p{number}"] != text:
            differences[raw] = (text, ours[f"p{number}"])
    assert differences == {}


CHATS = {
    "json.json": """[
  {"role": "system", "content": "Be {{ how }}."},
  {"role": "user", "content": "{{ q }}"}
]""",
    "dump.json": """[{"role": "user", "content": {{ q | dump }} }]""",
    "quotes.json": """[{"role": "user", "content": "say \\"{{ q }}\\" é"}]""",
    "yaml.yaml": """\
- role: system
  content: |
    Answer so:
      Word: {{ q }}
      Other: "{{ q }}"
- role: user
  content: {{ q }}
""",
    "quoted.yaml": "- role: user\n  content: 'say {{ q }}: {{ how }}'\n",
    "folded.yaml": """\
- role: user
  content: >
    one {{ q }}
    two
- role: assistant
  content: ok
""",
    "only.yaml": '- {role: user, content: "{{ q }}"}\n',
    "several.yaml": """\
- role: user
  content: a
- role: assistant
  content: b
- role: user
  content: '{{ q }}'
""",
    "text.yaml": "Say {{ q }}\n",
    "mapping.yaml": "say: '{{ q }}'\nhow: [a, b]\n",
    "comment.yaml": "# a chat\n- role: user\n  content: '{{ q }}'\n",
    "text.txt": "role: {{ q }}\n- not a chat\n",
    "list.txt": "- one {{ q }}\n- two\n",
}


def messages_of(text: str) -> Any:
    """What a model of promptfoo makes of a prompt: messages of JSON or YAML, or else a text.

    A line feed at the end of a message is not sent here, as docs/importing.md says.
    """
    if not text.lstrip().startswith(("[", "- role:")):
        return text
    messages = yaml.safe_load(text)
    for message in messages:
        message["content"] = message["content"].removesuffix("\n")
    return messages


@needs_promptfoo
@pytest.mark.parametrize("name", CHATS)
async def test_promptfoos_chats_are_sent_alike(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(CHATS[name])
    (tmp_path / "agent.py").write_text(
        "import json\n\ndef answer(asked):\n    return json.dumps({'asked': asked})\n"
    )
    test = {"vars": {"q": "hi you", "how": "kind"}, "assert": CONTAINS}
    write(tmp_path, {"prompts": [f"file://{name}"], "providers": ["echo"], "tests": [test]})
    (theirs,) = ask_promptfoo(tmp_path)
    results, printed = await ask_imported(
        tmp_path, provider={"type": "python", "target": "agent:answer"}
    )
    if "not imported" in printed:
        return
    (ours,) = results
    asked = json.loads(ours["response"]["output"])["asked"]
    sent = messages_of(theirs["response"]["output"])
    if isinstance(sent, list) and len(sent) == 1:
        sent = sent[0]["content"]
    assert asked == sent


SAY = "prompts: ['Say {{ q }}']\nproviders: [echo]\n"
TABLE = """\
q,p,__expected,__expected2,__threshold,__description,__prefix
hello,a,contains:hell,,,first,
hello,a,contains:zzz,,0,second,
hello,a,contains:zzz,contains:hello,0.5,third,
"a, b",a,"contains-any:""a, b"",c",,,fourth,
use {{x}} here,a,contains:use,,,fifth,
say {{p}},a,contains:Say say a,,,sixth,
"line
",a,equals:Say line,,,seventh,
hello,a,grade is good,,,eighth,
Hello,a,icontains:hello,not-contains:hello,,ninth,
hello,a,"javascript:output.length > 3",,,tenth,
hello,a,fn:output.length > 30,,,eleventh,
hello,a,file://check.cjs,,,twelfth,
hello,a,is-json,,,thirteenth,
hello,a,latency(10000),,,fourteenth,
hello,a,Say hello,,,fifteenth,
"""
CONFIGS: dict[str, tuple[str, dict[str, str]]] = {
    "file vars": (
        SAY + "tests:\n"
        "  - {vars: {q: 'file://q.txt', t: one, o: {sub: two}}}\n"
        "  - {vars: {q: 'file://plain.txt'}}\n"
        "  - {vars: {q: 'file://many/*.txt'}}\n",
        {
            "q.txt": "{{ t }} and {{ o.sub }}\n",
            "plain.txt": "\n plain \n\n",
            "many/1.txt": "1\n",
            "many/2.txt": "2\n",
        },
    ),
    "data in files": (
        SAY + "tests: [{vars: {q: 'file://d.json'}}, {vars: {q: 'file://d.yaml'}}]\n",
        {"d.json": '{"a": [1, 2]}', "d.yaml": "a:\n  - 1\n  - é\n"},
    ),
    "default vars": (
        SAY + "defaultTest: {vars: {q: 'Hi {{ name }}', name: you, n: 1}}\n"
        "tests: [{vars: {name: Ann}}, {vars: {n: 2}}, {vars: {q: own}}]\n",
        {},
    ),
    "vars over vars": (
        SAY + "tests:\n  - {vars: {q: '{{ a }}!', a: '{{ b }}?', b: '{{ c }}.', c: 5}}\n"
        "  - {vars: {q: '{{ unknown }}'}}\n  - {vars: {q: '{% if a %}{{ a }}{% endif %}', a: x}}\n"
        "  - {vars: {q: 'open {{ brace'}}\n  - {vars: {q: '${HOME}'}}\n"
        '  - {vars: {q: "two\\nlines\\n"}}\n',
        {},
    ),
    "environment": (SAY + "tests: [{vars: {q: '{{ env.CORPUS }} x'}}, {vars: {q: plain}}]\n", {}),
    "several values": (
        SAY + "tests: [{vars: {q: [a, b], p: [c, d]}}, {vars: {q: [a, 'b {{ p }}'], p: x}}]\n",
        {},
    ),
    "scenarios": (
        SAY + "scenarios:\n  - config: [{vars: {q: a}}, {vars: {q: b}}]\n"
        "    tests: [{vars: {p: 1}}, {vars: {p: 2}, threshold: 0.5}]\n",
        {},
    ),
    "thresholds": (
        SAY + "tests:\n"
        "  - {vars: {q: a}, threshold: 0, assert: [{type: contains, value: zzz}]}\n"
        "  - {vars: {q: b}, threshold: 0.5, assert: [{type: contains, value: zzz},"
        " {type: contains, value: b}]}\n"
        "  - {vars: {q: c}, threshold: 0.9, assert: [{type: contains, value: zzz, weight: 0},"
        " {type: contains, value: c}]}\n"
        "  - {vars: {q: d}, assert: [{type: contains, value: zzz, weight: 0}]}\n",
        {},
    ),
    "table": (
        SAY + "tests: file://t.csv\n",
        {"t.csv": TABLE, "check.cjs": "module.exports = (output) => output.length > 3;\n"},
    ),
    "plain table": (SAY + "tests: file://t.csv\n", {"t.csv": "q,p\na,b\n{{ p }},c\n"}),
    "transforms of a test and an assertion": (
        SAY + "defaultTest: {options: {transform: output.toUpperCase()}}\ntests:\n"
        "  - {vars: {q: a}, assert: [{type: equals, value: SAY A}]}\n"
        "  - vars: {q: c}\n    assert:\n"
        "      - {type: equals, value: SAY C!, transform: 'output + \"!\"'}\n",
        {},
    ),
    "transform of a test in place of the default one": (
        SAY + "defaultTest: {options: {transform: output.toUpperCase()}}\ntests:\n"
        "  - vars: {q: b}\n    options: {transform: output.slice(4)}\n"
        "    assert: [{type: equals, value: b}]\n",
        {},
    ),
    "values that refer to several": (
        SAY + "tests: [{vars: {q: a}}, {vars: {q: ['{{ p }}'], p: [c, d]}}]\n",
        {},
    ),
    "prompts in a file": (
        "prompts: [file://many.txt, file://one.txt]\nproviders: [echo]\ntests: [{vars: {q: a}}]\n",
        {"many.txt": "first {{ q }}\n---\nsecond {{ q }}\n", "one.txt": " one {{ q }} \n"},
    ),
    "vars of lists in data": (
        SAY + "tests: file://t.json\n",
        {"t.json": '[{"vars": {"q": ["a", "b"]}}, {"vars": {"q": "{{ p }}", "p": "c"}}]'},
    ),
}


@needs_promptfoo
@pytest.mark.parametrize("name", CONFIGS)
async def test_promptfoos_tests_ask_and_pass_alike(tmp_path: Path, name: str) -> None:
    config, files = CONFIGS[name]
    config = yaml.safe_load(config)
    default = config.setdefault("defaultTest", {})
    default.setdefault("assert", CONTAINS)
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(config))
    theirs = [
        (result["prompt"]["raw"].replace("of the environment", "***"), result["success"])
        for result in ask_promptfoo(tmp_path)
    ]
    results, printed = await ask_imported(tmp_path)
    ours = [(run["response"]["output"], run["status"] == "passed") for run in results]
    lost = [line for line in printed.splitlines() if line.startswith("not imported")]
    assert lost or sorted(ours) == sorted(theirs)


def mock(answers: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "mock", "answers": answers}


def passed(results: Iterable[Mapping[str, Any]]) -> dict[str, bool]:
    """Which cases passed."""
    return {result["case"]: result["status"] == "passed" for result in results}


def ask_python(folder: Path, script: str) -> dict[str, bool]:
    """What a script prints as JSON that runs with the tools from PyPI."""
    done = subprocess.run(
        [PYTHON, "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, bool] = json.loads(done.stdout.splitlines()[-1])
    return outcomes


LETTERS = ["B", "b", "$B$", "**B**", "(B)", "**$B$**", "($B$)", "B.", "**B**.", "B)", "B because"]
LETTERS += [
    "A and C",
    "A, C",
    "AC",
    "A C",
    "C,A",
    "a, c",
    "**A,C**",
    "A, and C",
    "A & C",
    "(A), (C)",
]
LETTERS += ["A", "D", "A, B", "A or B", "A,", "", "$A, C$", "A and B and C", "AND"]
LINES = [f"ANSWER: {letters}" for letters in LETTERS]
LINES += [
    "answer : B",
    "So\nANSWER: A\nno\nANSWER: B",
    "ANSWER: B\nno\nANSWER: A",
    "B",
    "the ANSWER: B",
]
LINES += [
    "ANSWER: B\n\nthat is all",
    "**ANSWER: B**",
    "I say ANSWER: A and C",
    "ANSWER:\nB",
    "Answer:B",
]
ASK_INSPECT = """
import asyncio, json
from inspect_ai.dataset import json_dataset
from inspect_ai.model import ChatMessageUser, ModelName, ModelOutput
from inspect_ai.scorer import Target, choice, includes
from inspect_ai.solver import TaskState, generate, multiple_choice

answers = json.load(open("answers.json"))
solver, scorer = {how}

async def passes(sample):
    target = Target(sample.target)
    messages = [ChatMessageUser(content=sample.input)]
    state = TaskState(
        model=ModelName("mockllm/model"), sample_id=sample.id, epoch=1, input=sample.input,
        messages=messages, choices=sample.choices, target=target,
    )

    async def answer(state, **_):  # in place of a model
        state.output = ModelOutput.from_content("mockllm/model", answers[sample.id])
        return state

    score = await scorer(await solver(state, answer), target)
    return score.value == "C"

async def main():
    return {{sample.id: await passes(sample) for sample in json_dataset("samples.jsonl")}}

print(json.dumps(asyncio.run(main())))
"""
HOW = {
    "one letter": (["B"], "multiple_choice(), choice()"),
    "several letters": (["A", "C"], "multiple_choice(multiple_correct=True), choice()"),
}


@needs_python
@pytest.mark.parametrize("name", HOW)
async def test_choices_of_inspect_pass_the_same_answers(tmp_path: Path, name: str) -> None:
    target, how = HOW[name]
    answers = {f"s{number}": line for number, line in enumerate(LINES)}
    sample = {"input": "Which?", "choices": ["x", "y", "z"], "target": target}
    rows = [json.dumps({"id": case, **sample}) for case in answers]
    (tmp_path / "samples.jsonl").write_text("\n".join(rows))
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    theirs = ask_python(tmp_path, ASK_INSPECT.format(how=how))
    results, _ = await ask_imported(tmp_path, "samples.jsonl", mock(answers))
    ours = passed(results)
    assert {answers[case]: theirs[case] for case in theirs if theirs[case] != ours[case]} == {}


@needs_python
async def test_targets_of_inspect_pass_the_same_answers(tmp_path: Path) -> None:
    targets = ["Paris", "paris", ["Rome", "Paris"], "42", "a.b"]
    texts = ["It is PARIS.", "Rome", "4 2", "42!", "axb", "", "A.B"]
    rows: list[str] = []
    answers: dict[str, str] = {}
    for target in targets:
        for text in texts:
            case = f"s{len(rows)}"
            answers[case] = text or "-"
            rows.append(json.dumps({"id": case, "input": case, "target": target}))
    (tmp_path / "samples.jsonl").write_text("\n".join(rows))
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    theirs = ask_python(tmp_path, ASK_INSPECT.format(how="generate(), includes()"))
    results, _ = await ask_imported(tmp_path, "samples.jsonl", mock(answers))
    ours = passed(results)
    assert theirs == ours


CALLS: dict[str, list[tuple[str, Any, bool]]] = {
    "none": [],
    "a b": [("a", {"x": 1}, False), ("b", {}, False)],
    "b a": [("b", {}, False), ("a", {"x": 1, "y": {"z": 2}}, False)],
    "a b c": [("a", {"x": 2}, False), ("b", {}, False), ("c", {}, False)],
    "a! b": [("a", {"x": 1}, True), ("b", {}, False)],
    "a! a b": [("a", {"x": 2}, True), ("a", {"x": 1}, False), ("b", {}, False)],
    "a a b": [("a", {"x": 1}, False), ("a", {"x": 2}, False), ("b", {}, False)],
}
PATH = {"expected_trajectory": ["a", "b"]}
ARGUMENTS = {"tool_name": "a", "expected_arguments": {"x": 1}}
EVALUATORS: list[Any] = [
    {"TrajectoryMatch": ["a", "b"]},
    {"TrajectoryMatch": {**PATH, "order": "exact"}},
    {"TrajectoryMatch": {**PATH, "order": "exact", "include_failed": True}},
    {"TrajectoryMatch": {**PATH, "order": "any_order"}},
    {"TrajectoryMatch": {**PATH, "order": "any_order", "include_failed": True}},
    {"TrajectoryMatch": {"expected_trajectory": [], "order": "in_order"}},
    {"ToolCorrectness": ["a", "b"]},
    {"ToolCorrectness": {"expected_tools": ["a", "a", "b"]}},
    {"ToolCorrectness": {"expected_tools": ["a"], "allow_extra": True}},
    {"ToolCorrectness": {"expected_tools": ["a", "b"], "include_failed": True}},
    {"ArgumentCorrectness": ARGUMENTS},
    {"ArgumentCorrectness": {**ARGUMENTS, "match_mode": "exact"}},
    {"ArgumentCorrectness": {**ARGUMENTS, "occurrence": "last"}},
    {"ArgumentCorrectness": {**ARGUMENTS, "occurrence": 0, "include_failed": True}},
    {"ArgumentCorrectness": {**ARGUMENTS, "occurrence": 1}},
    {"MaxToolCalls": 2},
    {"MaxToolCalls": {"max_calls": 2, "include_failed": False}},
    {"HasMatchingSpan": {"query": {"name_equals": "execute_tool c"}}},
    {"HasMatchingSpan": {"query": {"has_attributes": {"gen_ai.tool.name": "a"}}}},
    {"HasMatchingSpan": {"query": {"name_contains": "tool"}}},
    {"Contains": "done"},
    {"Contains": {"value": "DONE", "case_sensitive": False}},
    {"Contains": "DONE"},
    {"Equals": "done"},
    {"IsInstance": "str"},
    {"IsInstance": "int"},
    "EqualsExpected",
]
ASK_PYDANTIC = """
import json
from datetime import datetime
from typing import Any
from pydantic_evals import Dataset
from pydantic_evals.evaluators import EvaluatorContext
from pydantic_evals.otel.span_tree import SpanNode, SpanTree

calls = json.load(open("calls.json"))
outcomes = {}
for case in Dataset[Any, Any, Any].from_file("dataset.json").cases:
    nodes = []
    for at, (name, arguments, failed) in enumerate(calls[case.inputs]):
        attributes = {"gen_ai.tool.name": name, "gen_ai.tool.call.arguments": json.dumps(arguments)}
        start = datetime(2026, 1, 1, 0, 0, at)
        status = "error" if failed else "unset"
        span = f"execute_tool {name}"
        node = SpanNode(
            name=span, trace_id=1, span_id=at + 1, parent_span_id=None, start_timestamp=start,
            end_timestamp=start, attributes=attributes, status=status,
        )
        nodes.append(node)
    tree = SpanTree()
    tree.add_spans(nodes)
    context = EvaluatorContext(
        name=case.name, inputs=case.inputs, metadata=None, expected_output=case.expected_output,
        output="done", duration=0.1, _span_tree=tree, attributes={}, metrics={},
    )
    values = [evaluator.evaluate(context) for evaluator in case.evaluators]
    outcomes[case.name] = all(getattr(value, "value", value) == 1 for value in values)
print(json.dumps(outcomes))
"""


@needs_python
async def test_evaluators_of_pydantic_evals_pass_the_same_answers(tmp_path: Path) -> None:
    cases: list[dict[str, Any]] = []
    answers: dict[str, Any] = {}
    for number, evaluator in enumerate(EVALUATORS):
        for calls, steps in CALLS.items():
            name = f"{number} {calls}"
            case = {"name": name, "inputs": calls, "expected_output": "done"}
            cases.append({**case, "evaluators": [evaluator]})
            made = [
                {
                    "kind": "tool_call",
                    "name": tool,
                    "arguments": given,
                    **({"error": "x"} if bad else {}),
                }
                for tool, given, bad in steps
            ]
            answers[name] = {"output": "done", "steps": made}
    lines = ",\n".join(json.dumps(case) for case in cases)
    (tmp_path / "p.yaml").write_text(f'{{"cases": [\n{lines}\n]}}')
    (tmp_path / "dataset.json").write_text(json.dumps({"cases": cases}))
    (tmp_path / "calls.json").write_text(json.dumps(CALLS))
    theirs = ask_python(tmp_path, ASK_PYDANTIC)
    results, printed = await ask_imported(tmp_path, provider=mock(answers))
    listed = {cases[line - 2]["name"] for line in listed_lines(printed)}
    differences = {}
    ours = passed(results)
    for name, passes in theirs.items():
        if name not in listed and ours[name] != passes:
            differences[name] = (passes, EVALUATORS[int(name.split()[0])])
    assert differences == {}
