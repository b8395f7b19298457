"""Suites of other tools: `ci-evals import` makes files of them, and `ci-evals run` takes them as
they are.
"""

import json
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from leftovers import journaled, report_in
from processes import Finished, ci_evals

from ci_evals.model.response import ToolCall
from ci_evals.providers.mock import Mock, MockAnswer
from ci_evals.providers.mock_server import run_server
from ci_evals.suite.yaml import parse

CompareGolden = Callable[[str, str], None]

FORMATS = Path(__file__).parents[2] / "data" / "imports"

ANSWERS = """\
{%- if 'return a jacket' in input %}Within 30 days, with the receipt.
{%- elif 'open' in input %}{"open": 9, "close": 17}
{%- elif 'Norway' in input %}We ship to Norway.
{%- elif 'cash' in input %}Yes or of course.
{%- elif 'Ping' in input %}Pong
{%- elif 'shop there' in input %}In Paris only.
{%- elif 'zips' in input %}Yes.
{%- else %}It will never rain through.{% endif %}"""
VERDICT = '{"reason": "as it should be", "verdict": "pass"}'


@asynccontextmanager
async def mock_servers() -> AsyncIterator[Mapping[str, str]]:
    """An endpoint that answers and one that judges, as the variables that name them."""
    async with AsyncExitStack() as stack:
        answers = await stack.enter_async_context(run_server(Mock(default=ANSWERS)))
        judge = await stack.enter_async_context(run_server(Mock(default=VERDICT)))
        yield {"MOCK_URL": answers, "JUDGE_URL": judge, "OPENAI_API_KEY": "sk-of-the-mock"}


def statuses(folder: Path) -> dict[str, set[str]]:
    """The statuses of the runs of each case."""
    found: dict[str, set[str]] = {}
    for result in journaled(folder / "ci-evals-results"):
        found.setdefault(result["case"], set()).add(result["status"])
    return found


def check_documented(
    file: str, suite: Mapping[str, Any], lost: int, found: Mapping[str, str]
) -> None:
    """Check the row of a file in docs/importing.md: its cases, graders and lost parts, and the
    verdict of the run.
    """
    graders = [
        *suite.get("expect", ()),
        *(each for case in suite["cases"] for each in case.get("expect", ())),
    ]
    passed = sum(status == "passed" for status in found.values())
    verdict = "pass" if passed == len(found) else f"fail: {len(found) - passed}"
    row = f"`{file}` | {len(found)} | {len(graders)} | {lost} | {verdict} |"
    page = (Path(__file__).parents[3] / "docs" / "importing.md").read_text()
    assert row in page, f"docs/importing.md should have: {row}"


def not_imported(ended: Finished) -> list[str]:
    return [line for line in ended.err.splitlines() if line.startswith("not imported")]


async def test_a_suite_of_promptfoo_runs_as_it_is_and_as_what_it_becomes(
    tmp_path: Path, golden: CompareGolden
) -> None:
    shutil.copytree(FORMATS / "promptfoo", tmp_path, dirs_exist_ok=True)
    ended = await ci_evals(tmp_path, "import", "promptfooconfig.yaml", "--to", "evals.yaml")
    assert (ended.code, not_imported(ended)) == (0, [])
    assert ended.err.splitlines() == [
        "written: evals.yaml",
        "11 cases, 1 provider: run it with `ci-evals run evals.yaml`",
    ]
    golden("imported-promptfoo.yaml", (tmp_path / "evals.yaml").read_text())
    async with mock_servers() as environ:
        imported = await ci_evals(tmp_path, "run", environ=environ)
        found = statuses(tmp_path)
        direct = await ci_evals(tmp_path, "run", "promptfooconfig.yaml", environ=environ)
    suite, _, _ = parse((tmp_path / "evals.yaml").read_text(), "evals.yaml")
    check_documented(
        "promptfoo/promptfooconfig.yaml",
        suite,
        0,
        {case: status for case, (status,) in found.items()},
    )
    assert (imported.code, direct.code) == (1, 1), imported.err
    assert (
        "promptfooconfig.yaml is a config of promptfoo, translated on the fly: `ci-evals import`"
        in direct.err
    )
    assert found == statuses(tmp_path)
    assert {case for case, runs in found.items() if runs == {"failed"}} == {
        *("no promises", "city=Rome question=Do you have a shop there?"),
    }
    assert {case for case, runs in found.items() if runs == {"passed"}} == {
        *(
            "refund within 30 days",
            "refund in other languages lang=English",
            "refund in other languages lang=German",
        ),
        *(
            "When are you open? As JSON.",
            "shipping abroad",
            "Do you take cash?",
            "Ping",
            "shops by city",
        ),
        "question=Do you repair zips? lang=English",
    }


async def test_what_has_no_counterpart_is_listed_and_stays_as_a_comment(
    tmp_path: Path, golden: CompareGolden
) -> None:
    shutil.copytree(FORMATS / "promptfoo", tmp_path, dirs_exist_ok=True)
    ended = await ci_evals(tmp_path, "import", "everything.yaml")
    assert ended.code == 0
    golden("imported-promptfoo-everything.yaml", ended.out)
    lost = not_imported(ended)
    assert len(lost) == ended.out.count("# not imported") == 28
    start = "not imported, which weakens the suite: everything.yaml:"
    assert f"{start}105: assert: bleu: word overlap is not measured here" in ended.err
    weakening = [line.startswith(start) for line in lost]
    assert weakening == [True] * 18 + [False] * 10
    assert "without 18 of these, a wrong answer could pass" in ended.err
    assert "should-not-be-copied" not in ended.out + ended.err
    (tmp_path / "agent.py").write_text(
        "def call_api(prompt, options, context):\n    return prompt\n"
    )
    written = await ci_evals(tmp_path, "import", "everything.yaml", "--to", "out/evals.yaml")
    assert "../prompts/ask.txt" in (tmp_path / "out" / "evals.yaml").read_text()
    assert "run it with `ci-evals run out/evals.yaml`" in written.err


async def test_a_case_that_lost_all_that_it_expected_is_still_to_do(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "prompts: ['{{ q }}']\nproviders: [echo]\n"
        "tests:\n  - {vars: {q: hi}, assert: [{type: bleu, value: hi}]}\n"
    )
    ended = await ci_evals(tmp_path, "import", "p.yaml", "--to", "evals.yaml")
    todo = ended.err.partition("still to do before it runs:\n")[2].splitlines()
    assert [line.partition(": ")[2] for line in todo] == [
        (
            "cases[0]: nothing is expected of the answer, so any would pass:"
            " add `expect`, such as `- not_empty: true`"
        )
    ]


AGENTS = """\
prompts: ['Say {{ word }}']
providers:
  - {id: 'python:bots/bot.py', label: function, config: {suffix: '!'}}
  - {id: 'file://bots/bot.py:broken', label: broken}
  - {id: 'exec:python3 program.py --loud', label: program}
  - {id: 'file://bots/bot.mjs', label: script, config: {suffix: '?'}}
tests:
  - vars: {word: hi}
    assert: [{type: icontains, value: 'say hi'}]
"""


async def test_agents_and_programs_are_called_as_promptfoo_calls_them(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(AGENTS)
    (tmp_path / "bots").mkdir()
    (tmp_path / "bots/bot.py").write_text(
        "def call_api(prompt, options, context):\n"
        "    assert context['vars'] == {'word': 'hi'}\n"
        "    usage = {'total': 3, 'prompt': 2, 'completion': 1}\n"
        "    answer = prompt + options['config']['suffix']\n"
        "    return {'output': answer, 'tokenUsage': usage, 'cost': 0.5}\n"
        "def broken(prompt, options, context):\n"
        "    return {'error': 'out of order'}\n"
    )
    (tmp_path / "program.py").write_text(
        "import json, sys\n"
        "loud, prompt, options, context = sys.argv[1:]\n"
        "assert json.loads(context)['vars']\n"
        "print(prompt.upper() if loud == '--loud' else '')\n"
    )
    (tmp_path / "bots/bot.mjs").write_text(
        "export default class {\n"
        "  constructor({ config }) { this.config = config; }\n"
        "  id() { return 'bot'; }\n"
        "  async callApi(prompt) { return { output: prompt + this.config.suffix }; }\n}\n"
    )
    direct = await ci_evals(tmp_path, "run", "p.yaml")
    assert direct.code == 2
    assert direct.err.startswith(
        "p.yaml: needs promptfoo_agents_p.py, which only an import writes\n`ci-evals import p.yaml"
    )
    ended = await ci_evals(tmp_path, "import", "p.yaml", "--to", "evals.yaml")
    assert ended.err.splitlines()[:2] == ["written: evals.yaml", "written: promptfoo_agents_p.py"]
    assert not_imported(ended) == []
    ran = await ci_evals(tmp_path, "run")
    assert ran.code == 1, ran.err
    results = {result["provider"]: result for result in journaled(tmp_path / "ci-evals-results")}
    assert {name: result["status"] for name, result in results.items()} == {
        "function": "passed",
        "broken": "failed",
        "program": "passed",
        "script": "passed",
    }
    assert results["function"]["response"]["usage"]["input_tokens"] == 2
    assert "out of order" in ran.out


async def test_an_imported_function_gets_a_chat_as_promptfoo_passes_it(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(
        "import json\n\n"
        "def call_api(prompt, options, context):\n"
        "    assert context['prompt']['raw'] == prompt\n"
        "    return {'output': json.loads(prompt)[-1]['content']}\n"
    )
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "{{ q }}"}]
    config = {
        "providers": ["file://bot.py"],
        "prompts": [json.dumps(chat)],
        "tests": [{"vars": {"q": "hello"}, "assert": [{"type": "equals", "value": "hello"}]}],
    }
    (tmp_path / "p.json").write_text(json.dumps(config))
    ended = await ci_evals(tmp_path, "import", "p.json", "--to", "evals.yaml")
    assert ended.code == 0, ended.err
    ran = await ci_evals(tmp_path, "run")
    assert ran.code == 0, ran.out + ran.err


@pytest.mark.parametrize(
    "name",
    ["python:bot.py", "file://bot.js", "exec:bot", "webhook:http://localhost/x", "openai:gpt-4o"],
)
async def test_no_key_is_copied(tmp_path: Path, name: str) -> None:
    provider = {"id": name, "config": {"apiKey": "sk-of-the-shop-123", "team": "x"}}
    config = {
        "providers": [provider],
        "prompts": ["x"],
        "tests": [{"assert": [{"type": "equals", "value": "x"}]}],
    }
    (tmp_path / "p.json").write_text(json.dumps(config))
    ended = await ci_evals(tmp_path, "import", "p.json", "--to", "evals.yaml")
    assert len(not_imported(ended)) == 1
    agents = tmp_path / "promptfoo_agents_p.py"
    everything = [
        ended.err,
        (tmp_path / "evals.yaml").read_text(),
        agents.read_text() if agents.exists() else "",
    ]
    assert "sk-of-the-shop-123" not in "".join(everything)


async def test_keys_in_headers_and_in_what_is_not_imported_are_not_copied(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("""\
env: {OPENAI_API_KEY: not-to-be-copied-1, REGION: north}
prompts: ['{{q}}']
providers:
  - {id: 'openai:gpt-4o', config: {headers: {Authorization: Bearer sk-not-to-be-copied-2}}}
  - id: https
    config:
      url: 'http://shop.example/'
      headers: {X-Api-Key: not-to-be-copied-3, X-Id: '{{env.ID}}'}
  - {id: 'tool:of-nobody', config: {token: not-to-be-copied-4, max_tokens: 9}}
tests:
  - {vars: {q: hi}, assert: [{type: contains, value: hi}]}
""")
    ended = await ci_evals(tmp_path, "import", "p.yaml", "--to", "evals.yaml")
    text = (tmp_path / "evals.yaml").read_text()
    assert "not-to-be-copied" not in text + ended.err
    assert 'headers: {Authorization: "${AUTHORIZATION}"}' in text
    assert 'headers: {X-Api-Key: "${X_API_KEY}", X-Id: "${ID}"}' in text
    assert "put it into the variable AUTHORIZATION" in ended.err
    assert "max_tokens: 9" in text


async def test_keys_that_hold_anchors_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("""\
x-polite: &polite {type: contains, value: please}
.short: &short {type: latency, threshold: 2000}
prompts: ['{{q}}']
providers: [echo]
tests:
  - {vars: {q: please}, assert: [*polite, *short]}
""")
    ended = await ci_evals(tmp_path, "import", "p.yaml", "--to", "evals.yaml")
    assert not_imported(ended) == []
    assert "- contains: please\n" in (tmp_path / "evals.yaml").read_text()


async def test_a_line_of_jsonl_may_have_separators_of_unicode(tmp_path: Path) -> None:
    row = {"input": "one\u2028two\x85three", "target": "2"}
    (tmp_path / "samples.jsonl").write_text(
        json.dumps(row, ensure_ascii=False) + "\r\n", "utf-8", newline=""
    )
    ended = await ci_evals(tmp_path, "import", "samples.jsonl", "--to", "evals.yaml")
    assert ended.code == 0, ended.err
    made = parse((tmp_path / "evals.yaml").read_text("utf-8"), "evals.yaml")[0]
    assert made["cases"][0]["input"] == row["input"]


async def test_a_suite_that_would_lose_checks_is_not_run_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "promptfooconfig.yaml").write_text(
        "prompts: ['{{ q }}']\nproviders: [echo]\noutputPath: x.json\n"
        "tests:\n  - vars: {q: hi}\n    assert:\n"
        "      - {type: contains, value: hi}\n      - {type: bleu, value: hi}\n"
    )
    ended = await ci_evals(tmp_path, "run", "promptfooconfig.yaml")
    assert ended.code == 2
    first, remedy = ended.err.splitlines()[:2]
    assert first.startswith(
        "promptfooconfig.yaml:8: assert: bleu: word overlap is not measured here"
    )
    assert remedy.startswith(
        "`ci-evals import promptfooconfig.yaml --to evals.yaml` makes a suite of the rest"
    )


async def test_the_suite_of_another_tool_is_named_where_there_is_none_of_ours(
    tmp_path: Path,
) -> None:
    config = {
        "prompts": ["{{ q }}"],
        "providers": ["echo"],
        "tests": [{"vars": {"q": "hi"}, "assert": []}],
    }
    config["defaultTest"] = {"assert": [{"type": "contains", "value": "hi"}]}
    (tmp_path / "promptfooconfig.json").write_text(json.dumps(config))
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 2
    assert "with `ci-evals import promptfooconfig.json --to evals.yaml`" in ended.err
    assert (await ci_evals(tmp_path, "run", "promptfooconfig.json")).code == 0


REAL = """\
prompts:
  - file://ask.txt
  - file://other/ask.txt
  - {raw: 'Hi {{ q }}', config: {response_format: {type: json_object}}}
providers:
  - {id: 'openai:gpt-4o', config: {stream: true, apiKeyRequired: false, tools: 'file://tools.yaml'}}
  - {id: 'openai:gpt-4o', config: {temperature: 1}}
  - {id: 'openai:gpt-4o', transform: 'output.x'}
defaultTest:
  metadata: {team: shop}
tests:
  - name: by its name
    vars: {q: a, data: 'file://data.sql'}
    assert:
      - {type: contains, value: a, name: has an a, comment: yes}
      - {type: icontains, value: b, description: and a b}
      - {type: python, value: 'file://assert.py', config: {most: 3}}
  - vars: {q: b}
    assert: {type: contains, value: b}
  - path: file://make.py
  - file://tests.csv
"""
REAL_CSV = """\
q,__expected,__expected2,__config:__expected2:threshold,__metadata:tags[],__whatever
c,"javascript: output.length > 1",similar: c,0.5,"x, y",
d,"not-python: len(output) > 5",,,,z
"""


async def test_what_the_configs_of_many_repositories_have(tmp_path: Path) -> None:
    files = {
        "p.yaml": REAL,
        "tests.csv": REAL_CSV,
        "ask.txt": "{{ q }}",
        "other/ask.txt": "{{ q }}?",
        "data.sql": "x",
    }
    files |= {
        "tools.yaml": "[{type: function}]",
        "assert.py": "def get_assert(output, context):\n    return True\n",
    }
    (tmp_path / "other").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    ended = await ci_evals(tmp_path, "import", "p.yaml")
    suite, _, _ = parse(ended.out, "evals.yaml")
    tools = {"tools": [{"type": "function"}]}
    assert suite["providers"] == [
        {"type": "openai", "model": "gpt-4o", "stream": True, "params": tools},
        {
            "name": "openai:gpt-4o 2",
            "type": "openai",
            "model": "gpt-4o",
            "params": {"temperature": 1},
        },
        {"name": "openai:gpt-4o 3", "type": "openai", "model": "gpt-4o"},
    ]
    assert suite["prompts"] == [{"file": "ask.txt"}, {"name": "ask 2", "file": "other/ask.txt"}]
    first, second, third, fourth = suite["cases"]
    assert (first["id"], first["vars"]["data"]) == ("by its name", {"file": "data.sql"})
    assert first["expect"] == [
        {"contains": {"value": "a", "name": "has an a"}},
        {"contains": {"value": "b", "ignore_case": True, "name": "and a b"}},
        {
            "python": "from importlib import import_module\n"
            "return import_module('assert')"
            ".get_assert(output, {**context, \"config\": {'most': 3}})\n",
        },
    ]
    assert second["expect"] == []
    assert third["expect"][0] == {"javascript": "output.length > 1"}
    assert third["expect"][1]["embedding_similar"] == {"value": "c", "threshold": 0.5}
    assert third["metadata"] == {"team": "shop", "tags": ["x", "y"]}
    assert fourth["expect"] == [{"not_python": "len(output) > 5"}]
    assert [
        line.split(": ", 2)[1] + ": " + line.split(": ", 3)[2] for line in not_imported(ended)
    ] == [
        "p.yaml:4: prompt",
        "p.yaml:8: provider openai:gpt-4o",
        "p.yaml:19: assert",
        "p.yaml:20: tests",
        "tests.csv:3: tests.__whatever",
    ]


@pytest.mark.parametrize(
    ("template", "cause"),
    [
        ("{% for i in range(10**9) %}x{% endfor %}", "Range too big"),
        ("{{ 1 // 0 }}", "integer division"),
    ],
)
async def test_a_var_that_cannot_be_rendered_is_listed(
    tmp_path: Path, template: str, cause: str
) -> None:
    (tmp_path / "p.yaml").write_text(
        "prompts: ['{{ q }}']\nproviders: [echo]\ntests:\n"
        "  - vars: {q: hi}\n    assert: [{type: contains, value: hi}]\n"
        f"  - vars: {{q: '{template}'}}\n    assert: [{{type: contains, value: hi}}]\n"
    )
    ended = await ci_evals(tmp_path, "import", "p.yaml", "--to", "evals.yaml")
    assert ended.code == 0
    (lost,) = not_imported(ended)
    start = "not imported, which weakens the suite: p.yaml:6: tests: the var 'q', a template, "
    start += "cannot be rendered: "
    assert lost.startswith(f"{start}{cause}")
    suite, _, _ = parse((tmp_path / "evals.yaml").read_text(), "evals.yaml")
    assert [case["vars"] for case in suite["cases"]] == [{"q": "hi"}]


@pytest.mark.parametrize(
    ("csv", "cases"),
    [
        (
            """\
q,__expected,,__metadata:team,__description,__provider,
a,contains: a,,,,,
b,contains: b,,shop,,,
,,,,,,
""",
            [
                {"vars": {"q": "a"}, "expect": [{"contains": "a"}]},
                {"vars": {"q": "b"}, "expect": [{"contains": "b"}], "metadata": {"team": "shop"}},
            ],
        ),
        ("q,,\na,,\nb,,\n", [{"vars": {"q": "a"}}, {"vars": {"q": "b"}}]),
    ],
)
async def test_empty_columns_of_a_csv_file_write_nothing(
    tmp_path: Path, csv: str, cases: list[dict[str, Any]]
) -> None:
    (tmp_path / "tests.csv").write_text(csv)
    (tmp_path / "p.yaml").write_text(
        "prompts: ['{{ q }}']\nproviders: [echo]\ntests: file://tests.csv\n"
        "defaultTest: {assert: [{type: icontains, value: a}]}\n"
    )
    ended = await ci_evals(tmp_path, "import", "p.yaml")
    assert not_imported(ended) == []
    suite, _, _ = parse(ended.out, "evals.yaml")
    assert suite["cases"] == cases
    assert "vars" not in suite


@pytest.mark.parametrize(
    "suite",
    [
        (
            "target: llm\nprompts: ['{{ input }}']\ntests:\n"
            "  - {id: sum, vars: {input: 'What is 2+2?'}, assert: [Says that it is 4]}\n"
        ),
        (
            "prompts: ['{{ input }}']\ntests:\n"
            "  - {id: sum, input: 'What is 2+2?', expected_output: '4',"
            " assert: [{type: contains, value: '4'}]}\n"
        ),
    ],
)
async def test_a_suite_of_agentv_is_not_taken_for_one_of_promptfoo(
    tmp_path: Path, suite: str
) -> None:
    (tmp_path / "sum.eval.yaml").write_text(suite)
    ended = await ci_evals(tmp_path, "import", "sum.eval.yaml")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: sum.eval.yaml has an unknown format; known: promptfoo")


COMMENTED = """\
evaluateOptions:
  # one tier
  maxConcurrency: 4
  repeat: 3 # three are enough
prompts: ['{{ q }} {{ style }}']
providers:
  # the cheap one
  - id: openai:gpt-4o-mini
    config:
      # cold
      temperature: 0
      max_tokens: 100 # short
defaultTest:
  vars:
    style: polite # everywhere
  threshold: 0.5 # half
tests:
  # returns
  - description: returns
    # as they ask
    vars:
      q: may I return it? # on the phone
      lang: en
    assert:
      # days
      - {type: contains, value: 30 days}
      - {type: icontains, value: receipt}
    # most of it
    threshold: 0.7
    metadata:
      source: tickets # of May
  - vars:
      q: hello
      # by chance
      lang: en
    assert:
      - {type: contains, value: 30 days} # as above
"""
COMMENTS_KEPT = """\
# Imported from p.yaml (promptfoo).
# three are enough
runs: 3
# one tier
max_concurrency: 4

providers:
  # the cheap one
  - type: openai
    model: gpt-4o-mini
    params:
      # cold
      temperature: 0
      # short
      max_tokens: 100

prompts:
  - "{{ q }} {{ style }}"

vars:
  # everywhere
  style: polite

# half
threshold: 0.5

cases:
  # returns
  - id: returns
    # as they ask
    vars:
      # on the phone
      q: may I return it?
      lang: en
    expect:
      # days
      - contains: 30 days
      - contains: {value: receipt, ignore_case: true}
    # most of it
    threshold: 0.7
    metadata:
      # of May
      source: tickets
  - vars:
      q: hello
      # by chance
      lang: en
    expect:
      # as above
      - contains: 30 days
"""


async def test_comments_stay_with_their_keys(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(COMMENTED)
    ended = await ci_evals(tmp_path, "import", "p.yaml")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.rstrip() + "\n" == COMMENTS_KEPT


async def test_a_further_file_adds_cases_alone(tmp_path: Path) -> None:
    config = (
        "prompts: ['{}']\nproviders: [echo]\ntests: [{{assert: [{{type: contains, value: {}}}]}}]\n"
    )
    (tmp_path / "a.yaml").write_text(config.format("Say a", "a"))
    (tmp_path / "b.yaml").write_text(config.format("Say a", "b"))
    (tmp_path / "c.yaml").write_text(config.format("Say c", "c"))
    both = await ci_evals(tmp_path, "import", "a.yaml", "b.yaml")
    suite, _, _ = parse(both.out, "evals.yaml")
    assert [case["expect"] for case in suite["cases"]] == [[{"contains": "a"}], [{"contains": "b"}]]
    refused = await ci_evals(tmp_path, "import", "a.yaml", "c.yaml")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "error: c.yaml has its own prompts: import it separately\n"


async def test_a_default_test_in_a_file_takes_no_comments_of_the_config(tmp_path: Path) -> None:
    (tmp_path / "default.yaml").write_text("\n\nassert:\n  - {type: contains, value: hi}\n")
    (tmp_path / "p.yaml").write_text(
        "prompts:\n  # the only one\n  - '{{ q }}'\nproviders: [echo]\n"
        "defaultTest: file://default.yaml\ntests: [{vars: {q: hi}}]\n"
    )
    ended = await ci_evals(tmp_path, "import", "p.yaml")
    assert "prompts:\n  # the only one\n" in ended.out
    assert "expect:\n  - contains: hi\n" in ended.out


async def test_a_problem_of_another_tools_suite_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "prompts: ['{{ q }}']\nproviders: [echo]\ntests:\n  - vars: {q: hi}\n    assert:\n"
        "      - type: contains\n        value: hi\n      - type: regex\n        value: '('\n"
    )
    ended = await ci_evals(tmp_path, "validate", "p.yaml")
    assert ended.code == 2
    assert ended.err.startswith("p.yaml:8: cases[0].expect[1].regex: bad regular expression '('")


async def test_nothing_is_overwritten_and_files_of_no_known_format_are_named(
    tmp_path: Path,
) -> None:
    (tmp_path / "evals.yaml").write_text(
        "providers: [{type: mock}]\ncases: [{input: a, expect: [{contains: a}]}]\n"
    )
    (tmp_path / "p.yaml").write_text(
        "prompts: [x]\nproviders: [echo]\ntests: [{assert: [{type: contains, value: x}]}]\n"
    )
    taken = await ci_evals(tmp_path, "import", "p.yaml", "--to", "evals.yaml")
    assert (taken.code, taken.err) == (
        2,
        "error: already there: evals.yaml. Overwrite with --force.\n",
    )
    ours = await ci_evals(tmp_path, "import", "evals.yaml")
    assert ours.code == 2
    assert ours.err.startswith("error: evals.yaml has an unknown format; known: promptfoo")
    forced = await ci_evals(tmp_path, "import", "p.yaml", "--to", "evals.yaml", "--force")
    assert forced.code == 0
    assert (await ci_evals(tmp_path, "run")).code == 0


@pytest.mark.parametrize(
    "content",
    ["", "[1]", "just text", "tests: [1]\nprompts: 5\n", "prompts: [{raw: 1}]\ntests: 7\n"],
)
async def test_a_broken_file_ends_in_a_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "p.yaml").write_text(content)
    ended = await ci_evals(tmp_path, "import", "p.yaml", "--to", "evals.yaml")
    assert ended.code in (0, 2)
    assert "Traceback" not in ended.err


# The other formats: what they become is run with a mock in place of the models.

JUDGE = """\
import json

def reply(turns):
    system = turns[0]["content"]
    if '"statements"' in system:
        return json.dumps({"statements": [{"text": "as it says", "texts": [1], "holds": True}]})
    verdicts = system.partition("Verdicts: ")[2].partition("\\n")[0]
    verdict = "good" if "good" in verdicts else 11 if "11" in verdicts else "pass"
    return json.dumps({"reason": "as it should be", "verdict": verdict})
"""
BOOKED = MockAnswer("A table is booked.", (ToolCall("search"), ToolCall("book", {"guests": 2})))
LOOKED_UP = [{"kind": "model_request", "name": "m"}, {"kind": "tool_call", "name": "look_up"}]


@pytest.mark.parametrize(
    ("files", "answers", "lost", "expected"),
    [
        (
            ["gh-models/support.prompt.yml"],
            {
                "How long can I return it?": "We take it back within 30 days.",
                "Where are you?": "We are in Oslo.",
            },
            1,
            {
                (
                    "input=How long can I return it? expected=30 days"
                    " exact=We take it back within 30 days."
                ): "passed",
                "input=Where are you? expected=Oslo exact=we are in oslo.": "failed",
            },
        ),
        (
            ["deepeval/goldens.json"],
            {"Book a table": BOOKED},
            2,
            {"returns": "passed", "Book a table": "passed"},
        ),
        (["deepeval/goldens.csv"], {}, 0, {"returns": "passed", "place": "passed"}),
        (
            ["inspect/samples.jsonl"],
            {"What is the capital of France?": "PARIS", "List the files": "b.txt"},
            4,
            {"capital": "passed", "2": "failed", "List the files": "failed"},
        ),
        (["inspect/choices.csv"], {}, 0, {"mars": "passed", "dog": "failed"}),
        (
            ["openai-evals/registry/evals/capitals.yaml"],
            {"France?": "It is paris.", "The capital of the Netherlands?": "Rotterdam"},
            0,
            {"The capital of the Netherlands?": "failed", "France?": "passed"},
        ),
        (
            [
                "openai-evals/registry/evals/match.yaml",
                "openai-evals/registry/evals/json_match.yaml",
            ],
            {"France?": "It is Paris.", "Norway?": "It is Oslo.", "As JSON": '{"city": "Paris"}'},
            0,
            {"France?": "passed", "Norway?": "failed", "As JSON": "passed"},
        ),
        (
            ["openai-evals/registry/evals/fuzzy_match.yaml"],
            {"France?": "paris", "Norway?": "Bergen"},
            0,
            {"France?": "passed", "Norway?": "failed"},
        ),
        (
            ["openai-evals/registry/evals/model.yaml"],
            {},
            1,
            {"France?": "passed", "Norway?": "passed"},
        ),
        (
            ["openai-evals/registry/data/capitals/samples.jsonl"],
            {"France?": "Paris it is", "The capital of the Netherlands?": "It is The Hague"},
            0,
            {"The capital of the Netherlands?": "failed", "France?": "passed"},
        ),
        (
            ["promptopus/suite.yaml"],
            {"How long can I return a jacket?": "no", "When are you open? As JSON.": '{"open": 9}'},
            3,
            {"returns": "failed", "hours": "passed"},
        ),
        (["ag2/records.jsonl"], {}, 0, None),
    ],
)
async def test_what_other_formats_become_gives_the_verdict_that_it_should(
    tmp_path: Path,
    files: list[str],
    answers: dict[str, str | MockAnswer],
    lost: int,
    expected: dict[str, str] | None,
) -> None:
    shutil.copytree(FORMATS, tmp_path, dirs_exist_ok=True)
    ended = await ci_evals(tmp_path, "import", *files, "--to", "evals.yaml")
    assert (ended.code, len(not_imported(ended))) == (0, lost), ended.err
    text = (tmp_path / "evals.yaml").read_text()
    assert text.count("# not imported") == lost
    suite, _, _ = parse(text, "evals.yaml")
    (tmp_path / "judging.py").write_text(JUDGE)
    suite["judges"] = [
        {"name": judge["name"], "type": "python", "target": "judging:reply"}
        for judge in suite.get("judges", ())
    ]
    if expected is None:  # records of no scorer of their own
        suite["expect"] = [{"not_empty": True}]
    default = (
        "{% if 'red?' in input or 'barks?' in input %}So, ANSWER: B"
        "{% else %}as you like it{% endif %}"
    )
    async with run_server(Mock(answers=answers, default=default)) as url:
        suite["providers"] = [{**suite_provider(url)}]
        (tmp_path / "evals.yaml").write_text(json.dumps(suite))
        ran = await ci_evals(tmp_path, "run")
    assert ran.code in (0, 1), ran.err
    found = {case: status for case, (status,) in statuses(tmp_path).items()}
    check_documented(files[0], parse(text, "evals.yaml")[0], lost, found)
    if expected is None:
        assert set(found.values()) == {"passed"}
    else:
        assert found == expected


def suite_provider(url: str) -> dict[str, object]:
    price = {"input_per_mtok": 1, "output_per_mtok": 1}
    return {"type": "openai", "name": "mock", "model": "m", "base_url": url, "price": price}


async def passed(folder: Path) -> list[bool]:
    """Run the suite in a folder, and return which of its cases passed, in order."""
    ended = await ci_evals(folder, "run", "--runs", "1")
    assert ended.code in (0, 1), ended.err
    results = report_in(folder / "ci-evals-results")["results"]
    assert {result["status"] for result in results} <= {"passed", "failed"}
    return [result["status"] == "passed" for result in results]


async def passed_with(folder: Path, answers: Sequence[str]) -> list[bool]:
    """Return which cases of an imported suite pass with these answers."""
    suite, _, _ = parse((folder / "evals.yaml").read_text(), "evals.yaml")
    suite["providers"] = [{"type": "mock", "default": "{{ reply }}"}]
    for number, (case, answer) in enumerate(zip(suite["cases"], answers, strict=True)):
        case["id"] = str(number)
        case.setdefault("vars", {})["reply"] = answer
    (folder / "evals.yaml").write_text(json.dumps(suite))
    return await passed(folder)


FUZZY = [
    ("The Hague", "hague!", True),
    ("Hague", "It's the Hague, of course.", True),
    ("It is in Oslo", "oslo", True),
    ("Oslo", "Bergen", False),
    ("Oslo", "...", False),
]


async def test_fuzzy_match_is_that_of_openai_evals(tmp_path: Path) -> None:
    rows = [{"input": "Where?", "ideal": ["nowhere", ideal]} for ideal, _, _ in FUZZY]
    (tmp_path / "samples.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "where.yaml").write_text(
        "where: {id: where.v0}\nwhere.v0:\n  class: evals.elsuite.basic.fuzzy_match:FuzzyMatch\n"
        "  args: {samples_jsonl: samples.jsonl}\n"
    )
    await ci_evals(tmp_path, "import", "where.yaml", "--to", "evals.yaml")
    found = await passed_with(tmp_path, [answer for _, answer, _ in FUZZY])
    assert found == [passes for _, _, passes in FUZZY]


CHOICES = [
    ("B", "So:\nANSWER: B", True),
    ("B", "answer: B.", True),
    ("B", "ANSWER: B) Mars", True),
    ("B", "ANSWER: B because it is red", False),
    ("B", "ANSWER: A, B", False),
    ("B", "ANSWER: A or B", False),
    ("B", "Not ANSWER: A, but\nANSWER: B", True),
    ("B", "ANSWER: A\nNo:\nANSWER: b", True),
    ("B", "ANSWER: B\nNo:\nANSWER: A", False),
    ("B", "ANSWER: $B$", True),
    ("B", "**ANSWER:** no, it is\nANSWER: **$B$**.", True),
    ("B", "ANSWER: (B)", True),
    ("B", "ANSWER: D", False),
    ("B", "B", False),
    ('["A", "C"]', "ANSWER: A, C", True),
    ('["A", "C"]', "ANSWER: A", False),
    ('["A", "C"]', "ANSWER: c and a", True),
    ('["A", "C"]', "ANSWER: A, and C", True),
    ('["A", "C"]', "ANSWER: **A,C**", True),
    ('["A", "C"]', "ANSWER: AC\nANSWER: B", False),
    ('["A", "C"]', "ANSWER: A, B and C", False),
]


@pytest.mark.parametrize("several", [False, True])
async def test_a_choice_has_the_letters_of_the_last_line(tmp_path: Path, several: bool) -> None:
    choices = [choice for choice in CHOICES if choice[0].startswith("[") is several]
    lines = ["input,choices,target"]
    for target, _, _ in choices:
        quoted = target.replace('"', '""')
        lines.append(f'Which?,"Venus,Mars,Moon","{quoted}"')
    (tmp_path / "samples.csv").write_text("\n".join(lines))
    await ci_evals(tmp_path, "import", "samples.csv", "--to", "evals.yaml")
    found = await passed_with(tmp_path, [answer for _, answer, _ in choices])
    assert found == [passes for _, _, passes in choices]
    grades = [run["grades"][0] for run in journaled(tmp_path / "ci-evals-results")]
    assert {grade["grader"] for grade in grades} == {"choice"}


@pytest.mark.parametrize(
    ("called", "passes"), [(("a", "b"), True), (("b",), True), (("c",), False)]
)
async def test_half_of_the_expected_tools_pass(
    tmp_path: Path, called: tuple[str, ...], passes: bool
) -> None:
    tools = [{"name": "a", "input_parameters": {"n": 1}}, {"name": "b"}]
    (tmp_path / "goldens.json").write_text(json.dumps([{"input": "Go", "expected_tools": tools}]))
    await ci_evals(tmp_path, "import", "goldens.json", "--to", "evals.yaml")
    suite, _, _ = parse((tmp_path / "evals.yaml").read_text(), "evals.yaml")
    answer = {"output": "done", "tool_calls": [{"name": name} for name in called]}
    (tmp_path / "agent.py").write_text(f"def run(text):\n    return {answer!r}\n")
    suite["providers"] = [{"type": "python", "target": "agent:run"}]
    (tmp_path / "run.json").write_text(json.dumps(suite))
    ended = await ci_evals(tmp_path, "run", "run.json")
    assert ended.code == int(not passes), ended.err


async def test_the_ready_evaluators_of_github_run_without_a_context(tmp_path: Path) -> None:
    names = ("similarity", "coherence", "fluency", "relevance", "groundedness")
    evaluators = [{"name": f"{name} test", "uses": f"github/{name}"} for name in names]
    prompt = {
        "model": "openai/gpt-4o",
        "testData": [{"input": "What is rain?", "expected": "Water that falls."}],
        "messages": [{"role": "user", "content": "{{input}}"}],
        "evaluators": evaluators,
    }
    (tmp_path / "test_builtins.prompt.yml").write_text(json.dumps(prompt))
    ended = await ci_evals(tmp_path, "import", "test_builtins.prompt.yml", "--to", "evals.yaml")
    assert "1 case, 1 provider: run it" in ended.err
    (tmp_path / "judging.py").write_text(JUDGE)
    suite, _, _ = parse((tmp_path / "evals.yaml").read_text(), "evals.yaml")
    suite["judges"] = [{"name": "judge", "type": "python", "target": "judging:reply"}]
    suite["providers"] = [{"type": "mock", "default": "Water."}]
    (tmp_path / "run.json").write_text(json.dumps(suite))
    assert (await ci_evals(tmp_path, "run", "run.json")).code == 0


async def test_a_dataset_of_pydantic_evals_gives_the_verdict_that_it_should(
    tmp_path: Path, golden: CompareGolden
) -> None:
    shutil.copytree(FORMATS / "pydantic-evals", tmp_path, dirs_exist_ok=True)
    ended = await ci_evals(tmp_path, "import", "capitals.yaml", "--to", "evals.yaml")
    text = (tmp_path / "evals.yaml").read_text()
    assert (ended.code, len(not_imported(ended)), text.count("# not imported")) == (0, 2, 2)
    assert (
        "still to do before it runs:\n  evals.yaml:2: the key 'providers' is missing\n" in ended.err
    )
    golden("imported-pydantic-evals.yaml", text)
    suite, _, _ = parse(text, "evals.yaml")
    (tmp_path / "judging.py").write_text(JUDGE)
    suite["judges"] = [
        {"name": judge["name"], "type": "python", "target": "judging:reply"}
        for judge in suite["judges"]
    ]
    suite["providers"] = [
        {
            "type": "mock",
            "answers": {"france": "Paris", "italy": {"output": "Roma", "steps": LOOKED_UP}},
        }
    ]
    suite["providers"][0]["answers"]["france"] = {"output": "Paris", "steps": LOOKED_UP}
    (tmp_path / "evals.yaml").write_text(json.dumps(suite))
    assert (await ci_evals(tmp_path, "run")).code == 1
    assert statuses(tmp_path) == {"france": {"passed"}, "italy": {"failed"}}
    check_documented(
        "pydantic-evals/capitals.yaml", suite, 2, {"france": "passed", "italy": "failed"}
    )


@pytest.mark.parametrize(
    "content",
    [
        "messages: 5\nmodel: x\n",
        (
            "messages: [{role: user, content: x}]\nmodel: x\n"
            "evaluators: [5, {string: 1}, {llm: {choices: 3}}]\n"
        ),
        "messages: [{role: user, content: x}]\nmodel: x\ntestData: 7\n",
        (
            "messages: [{role: user, content: x}]\nmodel: x\n"
            "responseFormat: json_schema\njsonSchema: '{'\n"
        ),
        (
            "cases: [{inputs: 1, evaluators: [5, {Contains: {}}, {LLMJudge: 3}]}]\n"
            "evaluators: {a: 1}\n"
        ),
        "providers: [{kind: mock}]\ncases: [5, {graders: [1, {a: 1, b: 2}]}]\njudge: x\n",
        "providers: [{kind: mock}]\ncases: 7\ndefaults: [1]\n",
        "a: {class: evals.x, args: {samples_jsonl: nope.jsonl}}\n",
        "a: {class: evals.x, args: 5}\n",
        "[{input: [5], target: {}}, {input: 1, target: null, choices: 5}]",
        "[{inputs: {input: null}, tags: 5, reference_outputs: [1]}]",
        "[{input: x, expected_output: 5, expected_tools: 7}]",
    ],
)
async def test_a_file_in_another_shape_ends_in_a_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.yaml").write_text(content)
    ended = await ci_evals(tmp_path, "import", "x.yaml")
    assert ended.code in (0, 2)
    assert "Traceback" not in ended.err


async def import_promptfoo(
    folder: Path, config: str, files: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """The suite that a config becomes, and what was lost."""
    for name, text in {**(files or {}), "p.yaml": config}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    ended = await ci_evals(folder, "import", "p.yaml", "--to", "evals.yaml", "--force")
    assert ended.code == 0, ended.err
    suite, _, problems = parse((folder / "evals.yaml").read_text(), "evals.yaml")
    assert problems == []
    return suite, not_imported(ended)


async def answers_of(folder: Path) -> dict[str, str]:
    """What each case of the suite was answered."""
    ended = await ci_evals(folder, "run")
    assert ended.code in (0, 1), ended.err
    results = journaled(folder / "ci-evals-results")
    return {result["case"]: result["response"]["output"] for result in results}


async def test_vars_that_a_test_lacks_stay_undefined(tmp_path: Path) -> None:
    _, lost = await import_promptfoo(
        tmp_path,
        """\
prompts:
  - "{{ q }}|{{ tone }}|{{ tone | default('plain') }}|{% if tone is defined %}set{% else %}unset\
     {%- endif %}|{% for each in list %}{{ each }},{% endfor %}{% if tone == 'warm' %}!{% endif %}"
providers: [echo]
tests:
  - {description: bare, vars: {q: hi}, assert: [{type: contains, value: 'hi{{ tone }}'}]}
  - {description: full, vars: {q: yo, tone: warm, list: 'ab'}}
defaultTest: {assert: [{type: contains, value: '{{ tone | default("plain") }}'}]}
""",
    )
    assert lost == []
    assert await answers_of(tmp_path) == {
        "bare": "hi||plain|unset|",
        "full": "yo|warm|warm|set|a,b,!",
    }


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        (
            "{% for turn in _conversation %}{{ turn.output }}{% endfor %}{{ q }}",
            "`_conversation` holds earlier tests",
        ),
        (
            '[{"role": "system", "content": "x"}{% for m in q %}, {{ m | dump }}{% endfor %}]',
            "a template makes the messages of this chat",
        ),
        (
            "- role: system\\n  content: x\\n{% for m in q %}\\n- role: user\\n{% endfor %}",
            "a template makes the messages of this chat",
        ),
    ],
)
async def test_a_prompt_that_would_mean_something_else_is_listed(
    tmp_path: Path, prompt: str, reason: str
) -> None:
    prompts = json.dumps([prompt.replace("\\n", "\n"), "{{ q }}"])
    suite, (lost,) = await import_promptfoo(
        tmp_path,
        f"prompts: {prompts}\nproviders: [echo]\n"
        "tests:\n  - {vars: {q: hi}, assert: [{type: contains, value: hi}]}\n",
    )
    assert lost.startswith(f"not imported, which weakens the suite: p.yaml:1: prompt: {reason}")
    assert suite["prompts"] == ["{{ q }}"]


async def test_a_chat_with_a_comment_first_is_a_chat(tmp_path: Path) -> None:
    suite, lost = await import_promptfoo(
        tmp_path,
        "prompts: [file://chat.yaml]\nproviders: [echo]\n"
        "tests:\n  - {vars: {q: hi}, assert: [{type: contains, value: hi}]}\n",
        {
            "chat.yaml": (
                "# the bot\n- role: system\n  content: Be kind.\n- role: user\n  content: {{ q }}\n"
            )
        },
    )
    assert (suite["prompts"], lost) == ([{"system": "Be kind.", "user": "{{ q }}"}], [])


@pytest.mark.parametrize("opening", ["{# the bot #}\n[", "[{# the bot #}"])
async def test_a_chat_in_json_with_a_comment_is_a_chat(opening: str, tmp_path: Path) -> None:
    chat = (
        opening
        + '{"role": "system", "content": "Be kind."}, {"role": "user", "content": "{{ q }}"}]'
    )
    suite, lost = await import_promptfoo(
        tmp_path,
        "prompts: [file://chat.json]\nproviders: [echo]\n"
        "tests:\n  - {vars: {q: hi}, assert: [{type: contains, value: hi}]}\n",
        {"chat.json": chat},
    )
    assert (suite["prompts"], lost) == ([{"system": "Be kind.", "user": "{{ q }}"}], [])


async def test_without_prompts_the_var_prompt_is_sent(tmp_path: Path) -> None:
    await import_promptfoo(
        tmp_path,
        "providers: [echo]\ntests:\n"
        "  - {description: a, vars: {prompt: hi}, assert: [{type: equals, value: hi}]}\n",
    )
    assert await answers_of(tmp_path) == {"a": "hi"}


async def test_paths_in_a_file_of_tests_start_at_the_config(tmp_path: Path) -> None:
    _, lost = await import_promptfoo(
        tmp_path,
        "prompts: ['{{ q }}']\nproviders: [echo]\ntests: file://cases/tests.yaml\n",
        {
            "cases/tests.yaml": (
                "- description: a\n  vars: {q: 'file://q.txt'}\n"
                "  assert: [{type: equals, value: 'file://expected.txt'}]\n"
            ),
            "q.txt": "hi\n",
            "expected.txt": "\n  hi  \n",
            "cases/q.txt": "wrong",
            "cases/expected.txt": "wrong",
        },
    )
    assert (lost, await answers_of(tmp_path)) == ([], {"a": "hi"})
    assert (await ci_evals(tmp_path, "run", "p.yaml")).code == 0


async def test_texts_of_files_are_trimmed(tmp_path: Path) -> None:
    suite, _ = await import_promptfoo(
        tmp_path,
        "prompts: ['<{{ q }}>', file://prompt.txt]\nproviders: [echo]\n"
        "tests:\n  - {vars: {q: 'file://*.md'}, assert: [{type: contains, value: hi}]}\n",
        {"a.md": "hi\n", "b.md": "\n\n  hi you \n\n", "prompt.txt": "\n[{{ q }}]\n\n"},
    )
    assert suite["prompts"] == ["<{{ q }}>", "[{{ q }}]"]
    assert suite["cases"][0]["matrix"] == {"q": [{"file": "a.md"}, "hi you"]}
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out
    results = journaled(tmp_path / "ci-evals-results")
    outputs = {result["response"]["output"] for result in results}
    assert outputs == {"<hi>", "<hi you>", "[hi]", "[hi you]"}


async def test_only_lists_of_texts_make_several_cases(tmp_path: Path) -> None:
    suite, _ = await import_promptfoo(
        tmp_path,
        "prompts: ['{{ q | dump }}{{ n | dump }}{{ t }}']\nproviders: [echo]\ntests:\n"
        "  - vars: {q: [{a: 1}, {a: 2}], n: [1, 2], t: [x, y]}\n"
        "    assert: [{type: contains, value: a}]\n",
    )
    assert suite["cases"] == [
        {
            "vars": {"q": [{"a": 1}, {"a": 2}], "n": [1, 2]},
            "matrix": {"t": ["x", "y"]},
            "expect": [{"contains": "a"}],
        }
    ]


PATTERNS = [
    (r"\d", "٣", False),
    (r"\d", "3", True),
    (r"^\w+$", "é", False),
    (r"\bParis\b", "éParisé", True),
    ("yes$", "yes\\n\\n", False),
    ("yes$", "oh yes", True),
    (r"a\sb", "a\\u00a0b", True),
    (r"^\d\s\S$", "1\\u00a0é", True),
    (r"[$]\d", "$5", True),
    (r"\$5$", "$5", True),
]


async def test_a_regular_expression_means_what_it_means_in_javascript(tmp_path: Path) -> None:
    config = 'prompts: ["{{ q }}"]\nproviders: [echo]\ntests:\n'
    for pattern, answer, _ in PATTERNS:
        config += f'  - vars: {{q: "{answer}"}}\n'
        config += f"    assert: [{{type: regex, value: '{pattern}'}}]\n"
    await import_promptfoo(tmp_path, config)
    assert await passed(tmp_path) == [passes for _, _, passes in PATTERNS]


async def test_a_flag_that_promptfoo_cannot_read_is_told(tmp_path: Path) -> None:
    suite, (lost,) = await import_promptfoo(
        tmp_path,
        "prompts: ['{{ q }}']\nproviders: [echo]\ntests:\n  - vars: {q: Paris}\n"
        "    assert: [{type: regex, value: '(?i)paris'}]\n",
    )
    assert suite["cases"][0]["expect"] == [{"regex": {"pattern": "paris", "flags": "i"}}]
    assert lost == (
        "not imported: p.yaml:5: assert: regex: (?i): promptfoo cannot read these flags"
        " and fails every answer; here they work"
    )


HAS_THRESHOLD = {
    "output.length / 100": True,
    "['a', 'b'].filter(word => output.includes(word)).length / 2": True,
    "return score;": True,
    "output.includes('a') ? 0.5 : 0": True,
    "output.includes('a')": False,
    "(output) => output.length > 3": False,
    "JSON.parse(output).a === 1 && true": False,
    "/^a/.test(output)": False,
    "return {pass: true, score: 0.5}": False,
    "output.length > 3 ? true : false": False,
    "!output.match(/a > b/)": False,
}


async def test_a_number_above_zero_passes_where_code_has_no_threshold(tmp_path: Path) -> None:
    config = "prompts: ['{{ q }}']\nproviders: [echo]\ntests:\n"
    for code in HAS_THRESHOLD:
        config += (
            f"  - vars: {{q: ab}}\n    assert: [{{type: javascript, value: {json.dumps(code)}}}]\n"
        )
    suite, _ = await import_promptfoo(tmp_path, config)
    for case, (code, has_threshold) in zip(suite["cases"], HAS_THRESHOLD.items(), strict=True):
        capped = f"Math.min(1, {code})" if "/ 1" in code or "/ 2" in code else code
        options = {"code": capped, "threshold": 0.001} if has_threshold else code
        assert case["expect"] == [{"javascript": options}]


async def test_a_file_that_returns_judgements_gets_no_threshold(tmp_path: Path) -> None:
    (tmp_path / "checks.js").write_text("module.exports = () => { return {pass: true, score: 0}; }")
    (tmp_path / "scores.js").write_text("module.exports = (output) => { return output.length; }")
    config = "prompts: ['{{ q }}']\nproviders: [echo]\ntests:\n"
    for name in ("checks", "scores"):
        config += "  - vars: {q: ab}\n"
        config += f"    assert: [{{type: javascript, value: 'file://{name}.js'}}]\n"
    suite, _ = await import_promptfoo(tmp_path, config)
    assert [case["expect"] for case in suite["cases"]] == [
        [{"javascript": {"file": "checks.js"}}],
        [{"javascript": {"file": "scores.js", "threshold": 0.001}}],
    ]


async def test_counts_pass_as_promptfoo_compares_them(tmp_path: Path) -> None:
    _, lost = await import_promptfoo(
        tmp_path,
        """\
prompts: ['{{ q }}']
providers: [echo]
defaultTest:
  assert:
    - {type: javascript, value: output.match(/a/g).length}
    - {type: python, value: len(output)}
    - {type: javascript, value: "output.indexOf('b') + 1"}
    - {type: javascript, value: "output.lastIndexOf('b')"}
    - {type: javascript, value: "Number(output.length)"}
    - {type: python, value: "output.count('a')"}
    - {type: javascript, value: output.length; , threshold: 3}
    - {type: python, value: len(output), threshold: 2.5}
    - {type: javascript, value: "return output.length", threshold: 3}
tests: [{description: long, vars: {q: aab}}, {description: short, vars: {q: ab}}]
""",
    )
    start = (
        "not imported, which weakens the suite: p.yaml:13: assert: javascript: a `threshold` above"
    )
    assert [line.startswith(start) for line in lost] == [True]
    await ci_evals(tmp_path, "run")
    grades = {
        result["case"]: [grade["passed"] for grade in result["grades"]]
        for result in journaled(tmp_path / "ci-evals-results")
    }
    assert grades == {"long": [True] * 8, "short": [*[True] * 6, False, False]}


async def test_what_promptfoo_ignores_is_not_counted_as_lost(tmp_path: Path) -> None:
    suite, lost = await import_promptfoo(
        tmp_path,
        """\
prompts: ['{{ q }}']
providers: [echo]
threshold: 0.8
displayPrompt: yes
evaluateOptions: {quiet: true}
defaultTest: {tag: x, options: {runSerially: true}}
tests:
  - vars: {q: hi}
    expected: hi
    tags: [a]
    assert: [{type: contains, value: hi, label: greets}]
""",
    )
    assert lost == []
    assert (suite["gate"], suite["max_concurrency"]) == ({"min_pass_rate": 0.8}, 1)
    assert suite["cases"] == [{"vars": {"q": "hi"}, "expect": [{"contains": "hi"}]}]
    text = (tmp_path / "evals.yaml").read_text()
    assert text.count("# not imported: promptfoo ignores it, too") == 6


async def test_tools_that_are_run_are_listed(tmp_path: Path) -> None:
    _, lost = await import_promptfoo(
        tmp_path,
        "prompts: ['{{ q }}']\nproviders:\n"
        "  - {id: 'openai:gpt-4.1', config: {functionToolCallbacks: {f: 'async () => 1'}}}\n"
        "tests:\n  - {vars: {q: hi}, assert: [{type: contains, value: hi}]}\n",
    )
    start = "not imported, which weakens the suite: p.yaml:"
    assert lost[0].startswith(f"{start}3: provider openai:gpt-4.1: config.functionToolCallbacks: ")


async def test_settings_of_the_responses_api_have_its_names(tmp_path: Path) -> None:
    suite, lost = await import_promptfoo(
        tmp_path,
        """\
prompts: ['{{ q }}']
providers:
  - id: openai:responses:gpt-5
    config:
      instructions: Be brief.
      max_tokens: 200
      reasoning_effort: low
      verbosity: low
      tools: [{type: web_search}]
      response_format:
        type: json_schema
        json_schema: {name: city, schema: {type: object}, strict: true}
tests:
  - {vars: {q: hi}, assert: [{type: contains, value: hi}]}
""",
    )
    assert lost == []
    text_format = {
        "type": "json_schema",
        "name": "city",
        "schema": {"type": "object"},
        "strict": True,
    }
    assert suite["providers"] == [
        {
            "type": "openai",
            "model": "gpt-5",
            "api": "responses",
            "params": {
                "instructions": "Be brief.",
                "max_output_tokens": 200,
                "reasoning": {"effort": "low"},
                "tools": [{"type": "web_search"}],
                "text": {"verbosity": "low", "format": text_format},
            },
        }
    ]


async def test_models_of_bedrock_have_their_region_and_settings(tmp_path: Path) -> None:
    suite, lost = await import_promptfoo(
        tmp_path,
        """\
prompts: ['{{ q }}']
providers:
  - id: bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0
    config: {region: us-east-1, max_tokens: 200, temperature: 0, top_k: 5, accessKeyId: AKIDEXAMPLE}
  - bedrock:converse:amazon.nova-lite-v1:0
tests:
  - {vars: {q: hi}, assert: [{type: contains, value: hi}]}
""",
    )
    assert suite["providers"] == [
        {
            "type": "bedrock",
            "model": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "region": "us-east-1",
            "params": {
                "inferenceConfig": {"maxTokens": 200, "temperature": 0},
                "additionalModelRequestFields": {"top_k": 5},
            },
        },
        {"type": "bedrock", "model": "amazon.nova-lite-v1:0"},
    ]
    (line,) = lost
    assert "config.accessKeyId: a key does not belong in the file" in line
    assert "AKIDEXAMPLE" not in (tmp_path / "evals.yaml").read_text()


async def test_models_of_vertex_have_their_place_and_settings(tmp_path: Path) -> None:
    suite, lost = await import_promptfoo(
        tmp_path,
        """\
prompts: ['{{ q }}']
providers:
  - id: vertex:gemini-2.5-pro
    config: {projectId: shop, region: europe-west1, temperature: 0, keyFilename: key.json}
  - {id: 'vertex:claude-sonnet-4-5@20250929', config: {region: us-east5, max_tokens: 200}}
tests:
  - {vars: {q: hi}, assert: [{type: contains, value: hi}]}
""",
    )
    assert suite["providers"] == [
        {
            "type": "vertex",
            "model": "gemini-2.5-pro",
            "project": "shop",
            "location": "europe-west1",
            "params": {"generationConfig": {"temperature": 0}},
        },
        {
            "type": "vertex",
            "model": "claude-sonnet-4-5@20250929",
            "location": "us-east5",
            "params": {"max_tokens": 200},
        },
    ]
    (line,) = lost
    assert "config.keyFilename: Google's application default credentials are used" in line


async def test_prompts_and_tests_made_by_code_are_made(tmp_path: Path) -> None:
    suite, lost = await import_promptfoo(
        tmp_path,
        """\
prompts:
  - file://prompts/chat.mjs
  - {id: 'file://prompts/plain.py:make', label: plain}
providers: [echo]
tests:
  - file://cases.py:load
  - {path: 'file://cases.cjs', config: {city: Oslo}}
""",
        {
            "prompts/chat.mjs": (
                "export default async ({ vars }) => JSON.stringify([\n"
                "  { role: 'system', content: '{% raw %}{{kind}}{% endraw %}' },\n"
                "  { role: 'user', content: vars.q },\n]);\n"
            ),
            "prompts/plain.py": (
                "def make(context):\n    return '{{ q }}: ' + context['vars']['q']\n"
            ),
            "cases.py": (
                "def load():\n    return [{'vars': {'q': 'Rome'},"
                " 'assert': [{'type': 'contains', 'value': 'Rome'}]}]\n"
            ),
            "cases.cjs": (
                "module.exports = async ({ city }) => [{ vars: { q: city },"
                " assert: [{ type: 'contains', value: city }] }];\n"
            ),
        },
    )
    assert lost == []
    assert suite["prompts"] == [
        {"function": "prompts/chat.mjs"},
        {"name": "plain", "function": "prompts.plain:make"},
    ]
    assert [case["expect"] for case in suite["cases"]] == [
        [{"contains": "Rome"}],
        [{"contains": "Oslo"}],
    ]
    assert (await ci_evals(tmp_path, "run")).code == 0
    sent = [result["messages"] for result in journaled(tmp_path / "ci-evals-results")]
    system = {"role": "system", "content": "{{kind}}"}
    for city in ("Rome", "Oslo"):
        assert [system, {"role": "user", "content": city}] in sent
        assert [{"role": "user", "content": f"{city}: {city}"}] in sent
    assert (await ci_evals(tmp_path, "run", "p.yaml")).code == 0


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("prompts:make", "there is no module 'prompts'"),
        ("prompts.mjs", "there is no file"),
        ("crash:make", "crash:make raised ValueError: no"),
        ("crash:nothing", "crash:nothing returned null for the case 'a': expected text, or a list"),
        ("crash.mjs", "crash.mjs: Error: no"),
        ("crash.mjs:odd", "crash.mjs:odd returned {\"config\": {}} for the case 'a'"),
        ("a b", "expected `module:function`, such as `prompts:make`, or a file of JavaScript"),
    ],
)
async def test_a_function_that_makes_no_prompt_is_a_problem(
    tmp_path: Path, function: str, problem: str
) -> None:
    (tmp_path / "crash.py").write_text(
        "def make(context):\n    raise ValueError('no')\ndef nothing(context): ...\n"
    )
    (tmp_path / "crash.mjs").write_text(
        "export default () => { throw new Error('no') };\n"
        "export const odd = () => ({ config: {} });\n"
    )
    (tmp_path / "evals.yaml").write_text(
        f"providers: [{{type: mock}}]\nprompts: [{{function: '{function}'}}]\n"
        "cases: [{id: a, vars: {q: hi}, expect: [{contains: hi}]}]\n"
    )
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert problem in ended.err + ended.out


async def test_code_that_reads_files_or_variables_is_out_of_the_sandbox(tmp_path: Path) -> None:
    suite, lost = await import_promptfoo(
        tmp_path,
        "prompts: ['{{ q }}']\nproviders: [echo]\ntests:\n  - vars: {q: hi}\n    assert:\n"
        "      - {type: javascript, value: 'file://check.mjs', threshold: 1}\n"
        '      - {type: javascript, value: "process.env.HOME !== output"}\n'
        "      - {type: javascript, value: 'output.length > 1'}\n",
        {
            "check.mjs": (
                "import { readFileSync } from 'node:fs';\n"
                "export default (output) => readFileSync('/etc/hostname').length > 0;\n"
            )
        },
    )
    first, second, third = suite["cases"][0]["expect"]
    assert first["javascript"] == {"file": "check.mjs", "threshold": 1, "sandbox": False}
    assert second["javascript"]["sandbox"] is False
    assert (third, lost) == ({"javascript": "output.length > 1"}, [])
    assert (await ci_evals(tmp_path, "run")).code == 0


async def test_transforms_in_javascript_are_run(tmp_path: Path) -> None:
    suite, lost = await import_promptfoo(
        tmp_path,
        """\
prompts: ['{{ q }}']
providers: [echo]
tests:
  - vars: {q: 'a,b'}
    assert:
      - {type: equals, value: B, transform: "output.split(',')[1].toUpperCase()"}
      - {type: equals, value: b, transform: "const parts = output.split(','); parts[1]"}
      - {type: equals, value: A, transform: 'file://change.mjs:first'}
  - vars: {q: ' c ; d '}
    options:
      transform: |
        const [first] = output.split(';');
        return first.trim() + context.vars.q.length;
    assert:
      - {type: equals, value: c7}
      - {type: latency, threshold: 5000}
  - vars: {q: f}
    options:
      transform: |
        return output.toUpperCase() + "!";
    assert: [{type: equals, value: F!}]
  - vars: {q: g}
    options: {transform: "const all = output + output; return all"}
    assert: [{type: equals, value: gg}]
  - vars: {q: h}
    options: {transform: "if (output === 'h') return 'H'; return output"}
    assert: [{type: equals, value: H}]
  - vars: {q: seven}
    assert: [{type: equals, value: 5, transform: output.length}]
  - vars: {q: e}
    assert: [{type: not-contains, value: e, transform: 'output.nothing.there()'}]
""",
        {"change.mjs": "export const first = (output) => output[0].toUpperCase();\n"},
    )
    assert lost == []
    assert suite["cases"][1]["expect"] == [
        {"equals": {"value": "c7", "transform": "promptfoo_transforms_p.mjs:transform_3"}},
        {"latency": 5},
    ]
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1, ended.err
    results = {result["case"]: result for result in journaled(tmp_path / "ci-evals-results")}
    assert {case: result["status"] for case, result in results.items()} == {
        "a,b": "passed",
        "c ; d": "passed",
        "f": "passed",
        "g": "passed",
        "h": "passed",
        "seven": "passed",
        "e": "failed",
    }
    assert "Cannot read properties of undefined" in ended.out
    direct = await ci_evals(tmp_path, "run", "p.yaml")
    assert direct.code == 2
    assert "needs promptfoo_transforms_p.mjs, which only an import writes" in direct.err


async def test_two_configs_of_one_folder_have_code_of_their_own(tmp_path: Path) -> None:
    """Each asks with its own config and has its own transform, whichever was imported last."""
    (tmp_path / "provider.py").write_text(
        "def call_api(prompt, options, context):\n"
        "    return {'output': options['config']['city'] + ' ' + prompt}\n"
    )
    for name, city, end in (("one", "Paris", "1"), ("two", "Rome", "2")):
        provider = {"id": "file://provider.py", "config": {"city": city}}
        check = {"type": "equals", "value": f"{city} hi{end}", "transform": f"output + {end}"}
        config = {
            "prompts": ["{{q}}"],
            "providers": [provider],
            "tests": [{"vars": {"q": "hi"}, "assert": [check]}],
        }
        (tmp_path / f"{name}.yaml").write_text(json.dumps(config))
        made = await ci_evals(tmp_path, "import", f"{name}.yaml", "--to", f"{name}.evals.yaml")
        assert made.code == 0, made.err
    for name in ("one", "two"):
        ended = await ci_evals(tmp_path, "run", f"{name}.evals.yaml", "--out", name)
        assert ended.code == 0, ended.out + ended.err


async def test_transforms_in_python_are_run(tmp_path: Path) -> None:
    _, lost = await import_promptfoo(
        tmp_path,
        """\
prompts: ['{{ q }}']
providers: [echo]
tests:
  - vars: {q: 'a,b'}
    assert:
      - {type: equals, value: 'a,b!', transform: 'file://hooks/change.py'}
      - {type: equals, value: B, transform: 'file://hooks/change.py:pick'}
      - {type: python, value: 'output["first"] == "a"', transform: 'file://hooks/change.py:read'}
  - vars: {q: c}
    assert: [{type: not-contains, value: c, transform: 'file://hooks/change.py:pick'}]
""",
        {
            "hooks/change.py": (
                "def get_transform(output, context):\n    return context['vars']['q'] + '!'\n\n"
                "def pick(output, context):\n    return output.split(',')[1].upper()\n\n"
                "def read(output, context):\n    return {'first': output[0]}\n"
            )
        },
    )
    assert lost == []
    await ci_evals(tmp_path, "run")
    assert statuses(tmp_path) == {"a,b": {"passed"}, "c": {"failed"}}
    direct = await ci_evals(tmp_path, "run", "p.yaml")
    assert "needs promptfoo_transforms_p.py, which only an import writes" in direct.err


async def test_a_transform_of_a_test_that_others_share_graders_with_is_listed(
    tmp_path: Path,
) -> None:
    _, (lost,) = await import_promptfoo(
        tmp_path,
        "prompts: ['{{ q }}']\nproviders: [echo]\n"
        "defaultTest: {assert: [{type: contains, value: h}]}\ntests:\n"
        "  - vars: {q: hi}\n    options: {transform: 'output + 1'}\n"
        "    assert: [{type: contains, value: hi}]\n",
    )
    assert lost.startswith(
        "not imported, which weakens the suite: p.yaml:6: tests.options.transform: "
    )


async def test_f1_of_tool_calls_is_promptfoos(tmp_path: Path) -> None:
    suite, lost = await import_promptfoo(
        tmp_path,
        "prompts: ['{{ q }}']\nproviders: [python:agent.py:call_api]\ntests:\n"
        "  - {vars: {q: a}, assert: [{type: tool-call-f1, value: [search, book]}]}\n"
        "  - {vars: {q: b}, assert: [{type: tool-call-f1, value: 'search,pay', threshold: 0.5}]}\n"
        "  - {vars: {q: c}, assert: [{type: tool-call-f1, value: [search], threshold: 0.7}]}\n",
        {"agent.py": "def call_api(prompt, options, context): ...\n"},
    )
    assert lost == []
    calls = [{"name": name} for name in ("search", "book", "search")]
    (tmp_path / "agent.py").write_text(f"def run(text):\n    return {{'tool_calls': {calls!r}}}\n")
    suite["providers"] = [{"type": "python", "target": "agent:run"}]
    (tmp_path / "evals.yaml").write_text(json.dumps(suite))
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1, ended.err
    assert statuses(tmp_path) == {"a": {"passed"}, "b": {"passed"}, "c": {"failed"}}


async def test_providers_and_prompts_of_a_test(tmp_path: Path) -> None:
    suite, lost = await import_promptfoo(
        tmp_path,
        """\
prompts: [{label: plain, raw: '{{ q }}', config: {response_format: {type: json_object}}}]
providers: [{id: 'openai:gpt-4o', label: ours, config: {temperature: 0}}]
defaultTest: {assert: [{type: contains, value: x}]}
tests:
  - {vars: {q: a}, provider: ours, providers: [ours], prompts: [plain]}
  - {vars: {q: b}, provider: {id: 'openai:gpt-5', config: {temperature: 1}}}
  - {vars: {q: c}, provider: 'anthropic:messages:claude-sonnet-4-5'}
  - {vars: {q: d}, prompts: [another]}
""",
    )
    params = {"temperature": 0, "response_format": {"type": "json_object"}}
    assert suite["providers"] == [
        {"name": "ours", "type": "openai", "model": "gpt-4o", "params": params},
        {
            "name": "anthropic:messages:claude-sonnet-4-5 of a test",
            "type": "anthropic",
            "model": "claude-sonnet-4-5",
            "params": {"response_format": {"type": "json_object"}},
        },
    ]
    ours = {"providers": ["ours"]}
    assert suite["cases"] == [
        {"vars": {"q": "a"}, **ours},
        {"vars": {"q": "b"}, "overrides": {"model": "gpt-5", "params": {"temperature": 1}}, **ours},
        {"vars": {"q": "c"}, "providers": ["anthropic:messages:claude-sonnet-4-5 of a test"]},
        {"vars": {"q": "d"}, **ours},
    ]
    start = "not imported, which weakens the suite: p.yaml:"
    assert [line.removeprefix(start)[:17] for line in lost] == ["8: tests.prompts:"]


async def test_tests_and_providers_run_on_their_part_of_the_matrix(tmp_path: Path) -> None:
    suite, lost = await import_promptfoo(
        tmp_path,
        """\
prompts:
  - 'short {{ q }}'
  - {label: 'long:v2', raw: 'long {{ q }} {{ more }}'}
  - file://third.txt
providers: [echo, {id: 'openai:gpt-4o', label: judge-me, prompts: [long]}, 'anthropic:messages:x']
defaultTest: {assert: [{type: contains, value: '{{ q }}'}], providers: [echo, judge-me]}
tests:
  - {description: default, vars: {q: a, more: b}}
  - {vars: {q: b, more: b}, providers: ['openai:*', 'anthropic*'], prompts: [long]}
  - {vars: {q: c, more: b}, providers: [echo, judge-me, 'anthropic'], prompts: ['*']}
  - {description: asked, vars: {q: a}, provider: echo, prompts: ['short {{ q }}', third.txt]}
""",
        {"third.txt": "third {{ q }}"},
    )
    assert lost == []
    assert [provider.get("prompts") for provider in suite["providers"]] == [None, ["long:v2"], None]
    echo, named, claude = (provider["name"] for provider in suite["providers"])
    choices = [(case.get("providers"), case.get("prompts")) for case in suite["cases"]]
    assert choices == [
        ([echo, named], None),
        ([named, claude], ["long:v2"]),
        (None, None),
        ([echo], ["prompt 1", "third"]),
    ]
    keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    valid = await ci_evals(tmp_path, "validate", environ=keys)
    assert "4 cases × 7 variants, 45 runs" in valid.out, valid.err


async def test_a_table_of_tests_has_the_choice_of_the_default_test(tmp_path: Path) -> None:
    suite, lost = await import_promptfoo(
        tmp_path,
        "prompts: ['{{ q }}']\nproviders: [echo, {id: echo, label: other}]\ntests: tests.csv\n"
        "defaultTest: {provider: other, assert: [{type: contains, value: '{{ q }}'}]}\n",
        {"tests.csv": "q\nhi\nyo\n"},
    )
    assert lost == []
    assert [case["providers"] for case in suite["cases"]] == [["other"], ["other"]]


async def test_code_that_takes_the_answer_for_an_object_gets_one(tmp_path: Path) -> None:
    _, lost = await import_promptfoo(
        tmp_path,
        """\
prompts: ['{"price": {{ price }}, "items": ["a"]}']
providers: [echo]
defaultTest:
  assert:
    - {type: javascript, value: output.price > 3}
    - {type: javascript, value: 'file://grade.js'}
    - {type: python, value: 'output["price"] > 3'}
    - {type: javascript, value: JSON.parse(output).price > 3}
    - {type: javascript, value: output.length > 3}
    - {type: python, value: file://grade.py}
    - {type: javascript, value: output.price > 3, transform: output.trim()}
tests: [{description: dear, vars: {price: 5}}, {description: cheap, vars: {price: 1}}]
""",
        {
            "grade.js": "module.exports = (output) => output.items.includes('a');\n",
            "grade.py": "def get_assert(output, context):\n    return output.get('price') > 3\n",
        },
    )
    assert lost == []
    await ci_evals(tmp_path, "run")
    grades = {
        result["case"]: [grade["passed"] for grade in result["grades"]]
        for result in journaled(tmp_path / "ci-evals-results")
    }
    assert grades == {
        "dear": [True] * 6 + [False],
        "cheap": [False, True] + [False] * 2 + [True] + [False] * 2,
    }
